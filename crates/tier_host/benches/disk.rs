//! The disk tier on a real file: how fast objects are written and recalled, and how long a restart
//! takes.
//!
//!     cargo bench -p larder-tier-host --bench disk -- [FOLDER] [OBJECTS]
//!
//! Objects of 1000 bytes, a million of them in the system's folder for temporary files if nothing
//! else is said. Recalls are of random objects, by one task and by 64, and come from the page
//! cache. Seconds are of the wall, CPU seconds of the whole process.
//!
//! Once, two cores, busy with other work: 429 k put a second (1.8 CPU µs each), restart 0.29 s,
//! recalls 32 k a second by one task (33 CPU µs: two threads wake each other) and 247 k by 64
//! (3.9), index 65 B an object.
#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use larder_tier_host::{Disk, DiskConfig, Found};
use larder_units::{ByteSize, Streams};
use rustix::time::{ClockId, clock_gettime};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const BODY: usize = 900;

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    let folder = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let objects: u64 = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1_000_000);
    let path = folder.join(format!("larder-bench-{}", std::process::id()));
    let capacity = ByteSize::from_bytes((objects * 1000 * 2).max(8 << 20));
    let config = DiskConfig {
        path: path.clone(),
        capacity,
        policy: "fifo".parse().expect("a policy"),
        queue: ByteSize::from_mib(128),
    };
    let streams = Streams::new(1);
    let start = || Disk::start("bench", &config, (), &streams).expect("a disk");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");

    let disk = start();
    measured("put, until synced", objects, || {
        for object in 0..objects {
            // As fast as the disk takes it.
            while disk.with(|log, _| log.queued_bytes()) > 8 << 20 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let value = [vec![0; 60].into(), vec![object as u8; BODY].into()];
            disk.with(|log, now| log.put(&key(object), 0, value, now));
        }
        runtime.block_on(disk.settle()).expect("it is synced");
    });
    let counters = disk.figures().counters;
    println!(
        "stored {}, dropped {}, index {} B",
        counters.stored,
        counters.dropped,
        disk.figures().state_bytes
    );
    disk.stop();
    drop(disk);

    let mut found = 0;
    measured("restart", 1, || {
        let disk = start();
        found = disk.figures().objects;
        disk.stop();
    });
    println!("found {found}");

    let disk = start();
    for tasks in [1, 64] {
        let recalls = 200_000 / tasks;
        measured(&format!("recall, {tasks} at once"), recalls * tasks, || {
            let local = tokio::task::LocalSet::new();
            let task = |task: u64| {
                let (disk, mut stream) = (disk.clone(), streams.stream(&format!("task {task}")));
                async move {
                    for _ in 0..recalls {
                        let recalled = disk
                            .tier_lookup(&key(stream.below(objects)), None, 0, Some)
                            .await;
                        assert!(
                            matches!(recalled, Some(Found::Whole(found, _)) if found.value.len() == 60 + BODY)
                        );
                    }
                }
            };
            for number in 0..tasks {
                local.spawn_local(task(number));
            }
            runtime.block_on(local);
        });
    }
    disk.stop();
    let _ = std::fs::remove_file(path);
}

fn key(object: u64) -> Vec<u8> {
    format!("http example.test /object/{object}").into_bytes()
}

fn measured(what: &str, count: u64, work: impl FnOnce()) {
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    work();
    let (wall, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    println!(
        "{what}: {wall:.3} s, {cpu:.3} CPU s; {:.0} a second, {:.2} CPU µs each",
        count as f64 / wall,
        cpu * 1e6 / count as f64
    );
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
