//! Failures of the Content Store's disk tier in a node: shards do not find what others put there,
//! or bring back what one erased; a disk that cannot be used takes the forwarder with it; two
//! caches write into one file.

use super::{App, Stage, config, data, interest, is_refusal};
use larder_node::Node;
use larder_packet::{ControlParameters, Data, LpPacket, Name};
use std::io::{Read, Write};
use std::path::Path;

/// More than memory holds, with [`BYTES`] each.
const NAMES: u32 = 60;
const BYTES: usize = 4000;

fn settings(path: &Path, capacity: &str) -> String {
    format!(
        "content_store = \"100KiB\"\n[ndn.disk]\npath = {:?}\ncapacity = {capacity:?}\n",
        path.join("tier")
    )
}

fn stage(directory: tempfile::TempDir, capacity: &str) -> Stage {
    let more = settings(directory.path(), capacity);
    let node = Node::start(&config(&directory.path().join("nfd.sock"), &more)).unwrap();
    Stage { node, directory }
}

/// The node stops, and starts again.
fn restart(stage: Stage) -> Stage {
    let Stage { node, directory } = stage;
    node.stop();
    self::stage(directory, "16MiB")
}

fn name(number: u32) -> String {
    format!("/a/{number}/x")
}

/// The producer answers, and goes.
fn fetch_all(stage: &Stage, nonce: u32) {
    let (mut producer, mut consumer) = (stage.unix(), stage.tcp());
    producer.register("/a");
    for number in 0..NAMES {
        consumer.send(&interest(&name(number), nonce + number));
        let frame = producer.receive().unwrap();
        assert!(LpPacket::decode(&frame).is_ok());
        producer.send(&data(&name(number).parse().unwrap(), BYTES));
        assert!(is_data(&consumer.receive().unwrap(), number));
    }
    drop(producer);
    let begun = std::time::Instant::now();
    while stage.figure("/ndn/rib_routes") > 0 {
        assert!(
            begun.elapsed() < super::PATIENCE,
            "the route to nobody stands"
        );
        std::thread::yield_now();
    }
}

fn is_data(frame: &[u8], number: u32) -> bool {
    let wanted: Name = name(number).parse().unwrap();
    Data::decode(frame)
        .is_ok_and(|data| data.name == wanted.as_name() && data.content.len() == BYTES)
}

fn ask(consumer: &mut App<impl Read + Write>, number: u32, nonce: u32) -> Vec<u8> {
    consumer.send(&interest(&name(number), nonce));
    consumer.receive().unwrap()
}

/// Whether the node has it. On a busy machine a read may take longer than the node waits for it,
/// and the Interest is refused, since nobody else has it.
fn gets(stage: &Stage, consumer: &mut App<impl Read + Write>, number: u32, nonce: u32) -> bool {
    let mut refusals = 0;
    loop {
        let frame = ask(consumer, number, nonce + 100_000 * refusals);
        if !is_refusal(&frame) {
            return is_data(&frame, number);
        }
        refusals += 1;
        if stage.figure("/ndn/content_store/disk/late") < u64::from(refusals) {
            return false;
        }
    }
}

fn erase(stage: &Stage, prefix: &str) {
    let parameters = ControlParameters {
        name: Some(prefix.parse().unwrap()),
        ..Default::default()
    };
    stage.unix().obeyed("cs/erase", &parameters);
}

#[test]
fn a_shard_or_a_restart_does_not_find_what_is_on_the_disk() {
    let stage = stage(tempfile::tempdir().unwrap(), "16MiB");
    fetch_all(&stage, 1);
    // The producer is gone. Connections go to the threads in turn.
    let (mut one, mut other) = (stage.unix(), stage.tcp());
    for number in 0..NAMES {
        assert!(gets(&stage, &mut one, number, 1000 + number));
        assert!(gets(&stage, &mut other, number, 2000 + number));
    }
    assert!(stage.figure("/ndn/content_store/disk/hits") > 20);
    assert_eq!(
        stage.figure("/ndn/content_store/disk/stored"),
        u64::from(NAMES)
    );
    let stage = restart(stage);
    let (mut one, mut other) = (stage.unix(), stage.tcp());
    for number in 0..NAMES {
        assert!(gets(&stage, &mut one, number, 3000 + number));
        assert!(gets(&stage, &mut other, number, 4000 + number));
    }
    assert!(stage.figure("/ndn/content_store/disk/hits") >= u64::from(NAMES));
    assert!(is_refusal(&ask(&mut one, NAMES, 5000)), "nobody has that");
}

#[test]
fn an_erased_name_comes_back_after_a_restart() {
    let stage = stage(tempfile::tempdir().unwrap(), "16MiB");
    fetch_all(&stage, 1);
    erase(&stage, "/a/7");
    assert!(is_refusal(&ask(&mut stage.unix(), 7, 100)));
    let stage = restart(stage);
    let mut consumer = stage.unix();
    assert!(is_refusal(&ask(&mut consumer, 7, 101)));
    assert!(gets(&stage, &mut consumer, 8, 102));
    // On the disk alone, most of it.
    erase(&stage, "/a");
    let stage = restart(stage);
    let mut consumer = stage.unix();
    for number in 0..NAMES {
        assert!(
            is_refusal(&ask(&mut consumer, number, 200 + number)),
            "{number}"
        );
    }
}

#[test]
fn a_disk_that_is_full_takes_the_forwarder_with_it() {
    // More than any disk has.
    let stage = stage(tempfile::tempdir().unwrap(), "200TiB");
    fetch_all(&stage, 1);
    let mut consumer = stage.unix();
    assert!(
        is_data(&ask(&mut consumer, NAMES - 1, 100), NAMES - 1),
        "from memory"
    );
    assert!(is_refusal(&ask(&mut consumer, 0, 101)));
    // Nothing of it can come back.
    erase(&stage, "/a");
    assert!(is_refusal(&ask(&mut consumer, NAMES - 1, 102)));
    assert_eq!(
        std::fs::metadata(stage.directory.path().join("tier"))
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn two_caches_write_into_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let text = settings(directory.path(), "16MiB");
    let mut config = config(&directory.path().join("nfd.sock"), &text);
    config.http.proxy.listen = vec![std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    config.http.proxy.disk = config.ndn.disk.clone();
    let error = Node::start(&config).err().expect("a refusal").to_string();
    assert!(
        error.contains(".disk] path") && error.contains("another process"),
        "{error}"
    );
    config.http.proxy.disk = None;
    Node::start(&config).unwrap().stop();
    config.ndn.disk.as_mut().unwrap().path = directory.path().join("no/folder");
    let error = Node::start(&config).err().expect("a refusal").to_string();
    assert!(
        error.starts_with("[ndn.disk] path") && !error.contains('\n'),
        "{error}"
    );
}
