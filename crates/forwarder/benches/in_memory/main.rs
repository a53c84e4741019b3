//! The forwarder in memory: decode, tables, encode; no sockets. The filter paper's conditions, and
//! what happens as its tables and names grow and as cores are added.
//!
//! `cargo bench -p larder-forwarder` runs it whole (4 GB of memory, some minutes);
//! `cargo bench -p larder-forwarder -- --quick` with tables a hundredth as large, and with a
//! policy's name that policy alone. With `--floor` it also measures what the cache lines of an
//! exchange take alone, with `--stages` what each stage of a batch takes. Times are processor time
//! of one thread. A packet is an Interest or a Data that was sent, as in the paper. The allocator
//! is mimalloc, as in the binary `larder`.
#![allow(clippy::print_stdout, reason = "it prints tables")]
#![allow(
    clippy::disallowed_methods,
    reason = "a program with arguments and threads"
)]

mod floor;
mod world;

use floor::Floor;
use larder_forwarder::stages::STAGES;
use std::sync::Barrier;
use world::{INSERTIONS, Speed, World};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Table sizes, and how long is measured.
struct Scale {
    prefixes: u64,
    objects: u64,
    /// C, in packets.
    capacity: u64,
    exchanges: usize,
}

const WHOLE: Scale = Scale {
    prefixes: 13_548_815,
    objects: 10_000_000,
    capacity: 100_000,
    exchanges: 500_000,
};
const QUICK: Scale = Scale {
    prefixes: 135_488,
    objects: 100_000,
    capacity: 1_000,
    exchanges: 50_000,
};

/// Each with what the paper measured, in Gb/s.
const POLICIES: [(&str, Option<f64>); 5] = [
    ("filter", Some(16.1)),
    ("fifo", Some(13.9)),
    ("arc", Some(11.2)),
    ("lru", None),
    ("agd", None),
];

/// The names of [`larder_forwarder::stages::Stage`], in its order.
const STAGE_NAMES: [&str; STAGES] = [
    "decode",
    "prefetch",
    "PIT lookup",
    "store lookup",
    "PIT insert",
    "FIB lookup",
    "answer",
    "PIT match",
    "store insert",
    "Data send",
    "PIT delete",
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_given = |argument: &str| arguments.iter().any(|given| given == argument);
    // cargo itself adds `--bench`.
    let is_known = |given: &String| {
        ["--quick", "--floor", "--stages", "--bench"].contains(&given.as_str())
            || POLICIES.iter().any(|(policy, _)| given == policy)
    };
    if let Some(unknown) = arguments.iter().skip(1).find(|given| !is_known(given)) {
        panic!(
            "{unknown} is neither --quick, --floor, --stages nor one of the policies {:?}",
            POLICIES.map(|(policy, _)| policy)
        );
    }
    let scale = if is_given("--quick") { QUICK } else { WHOLE };
    let wanted: Vec<_> = POLICIES
        .into_iter()
        .filter(|(policy, _)| is_given(policy))
        .collect();
    if wanted.is_empty() {
        everything(&scale, is_given("--stages"))
    } else {
        policies(&scale, &wanted, is_given("--stages"))
    }
    if is_given("--floor") {
        floor(&scale);
    }
}

/// All policies, and Filter as tables and names grow, as cores are added, and in a flood.
fn everything(scale: &Scale, by_stages: bool) {
    policies(scale, &POLICIES, by_stages);
    println!("\nFilter as the FIB grows");
    let mut prefixes = 1_000;
    while prefixes < scale.prefixes {
        alone(scale, &format!("{prefixes} prefixes"), prefixes, 7);
        prefixes *= 10;
    }
    println!("\nFilter as names grow, {} prefixes", scale.prefixes / 100);
    for components in [6, 7, 10, 14, 20] {
        alone(
            scale,
            &format!("{components} components"),
            scale.prefixes / 100,
            components,
        );
    }
    println!(
        "\nFilter as cores are added, each with tables of its own: {} prefixes",
        scale.prefixes / 100
    );
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let powers = std::iter::successors(Some(1), |threads| Some(threads * 2));
    for threads in powers.take_while(|threads| *threads <= cores) {
        together(scale, threads);
    }
    flood(scale);
}

/// What the cache lines of an exchange take alone.
fn floor(scale: &Scale) {
    let mut floor = Floor::new(scale.objects, scale.prefixes, scale.capacity);
    floor.run(10 * scale.capacity as usize);
    let (nanos, packets) = (floor.run(scale.exchanges), 2.0 - floor::HIT);
    println!(
        "\nfloor: {nanos:.0} ns an exchange, {:.2} M packets/s",
        packets * 1e3 / nanos
    );
}

/// Filter in a world of its own.
fn alone(scale: &Scale, what: &str, prefixes: u64, components: usize) {
    let mut world = World::new(scale.objects, prefixes, components);
    world.with_policy(&spec("filter", scale), scale.capacity);
    world.run(10 * scale.capacity as usize, 64);
    println!("{what:<18}  {}", columns(&world.run(scale.exchanges, 64)));
}

/// Filter in as many worlds at once, a thread each: what they take of each other's caches and
/// memory. Time is each thread's own.
fn together(scale: &Scale, threads: usize) {
    let barrier = Barrier::new(threads);
    let one = || {
        let mut world = World::new(scale.objects, scale.prefixes / 100, 7);
        world.with_policy(&spec("filter", scale), scale.capacity);
        world.run(10 * scale.capacity as usize, 64);
        barrier.wait();
        world.run(scale.exchanges, 64)
    };
    let speeds: Vec<Speed> = std::thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        spawned
            .into_iter()
            .map(|thread| thread.join().expect("a world"))
            .collect()
    });
    let nanos = speeds.iter().map(|speed| speed.nanos).sum::<f64>() / threads as f64;
    let packets = speeds.iter().map(Speed::packets_a_second).sum::<f64>();
    println!(
        "{threads:>3} cores   {nanos:>6.0} ns an exchange on each   {:>6.2} M packets/s together",
        packets / 1e6
    );
}

/// What another face loses while one asks for names without end.
fn flood(scale: &Scale) {
    let mut world = World::new(scale.objects, scale.prefixes / 100, 7);
    world.with_policy(&spec("filter", scale), scale.capacity);
    world.run(10 * scale.capacity as usize, 64);
    let quiet = world.run(scale.exchanges, 64);
    let before = resident_bytes();
    let flooded = world.run_in_flood(scale.exchanges, 64);
    let grown = resident_bytes().saturating_sub(before);
    println!("\nWhile another face asks for as many new names, which nobody answers");
    println!("flood     ns an exchange   Data an Interest");
    for (what, speed) in [("none", quiet), ("on", flooded)] {
        println!(
            "{what:<8}  {:>14.0}   {:>16.4}",
            speed.nanos, speed.answered
        );
    }
    println!("memory grew by {:.0} MB", grown as f64 / 1e6);
}

fn policies(scale: &Scale, policies: &[(&str, Option<f64>)], by_stages: bool) {
    let before = resident_bytes();
    let mut world = World::new(scale.objects, scale.prefixes, 7);
    let fib = resident_bytes() - before;
    println!(
        "{} objects by Zipf 0.8, {} packets cached; FIB of {} prefixes: {:.0} MB, {:.0} bytes a prefix; the longest {INSERTIONS} insertions {:.1} ms\n",
        scale.objects,
        scale.capacity,
        scale.prefixes,
        fib as f64 / 1e6,
        fib as f64 / scale.prefixes as f64,
        world.longest_insertions as f64 / 1e6
    );
    println!(
        "                     one frame at a time                                in batches of 64"
    );
    println!(
        "policy    hit    inserted   ns an exchange   packets/s   Gb/s   hit    inserted   ns an exchange   packets/s   Gb/s   published Gb/s"
    );
    for (policy, published) in policies {
        world.with_policy(&spec(policy, scale), scale.capacity);
        // Until the Content Store is full and the policy has seen each of its objects some times.
        world.run(20 * scale.capacity as usize, 64);
        let one = world.run(scale.exchanges, 1);
        let batch = world.run(scale.exchanges, 64);
        let published = published.map_or(String::from("-"), |published| published.to_string());
        println!(
            "{policy:<8}  {}   {}   {published:>14}",
            columns(&one),
            columns(&batch)
        );
        if by_stages {
            let nanos = world.run_by_stages(scale.exchanges, 64);
            let stages = STAGE_NAMES
                .iter()
                .zip(nanos)
                .map(|(name, nanos)| format!("{name} {nanos:.0}"));
            println!(
                "          ns in each stage: {}",
                stages.collect::<Vec<_>>().join(", ")
            );
        }
    }
}

fn columns(speed: &Speed) -> String {
    format!(
        "{:.3}    {:.3}   {:>14.0}   {:>8.2} M   {:>4.1}",
        speed.hit,
        speed.insertion,
        speed.nanos,
        speed.packets_a_second() / 1e6,
        speed.gigabits_a_second()
    )
}

fn spec(policy: &str, scale: &Scale) -> String {
    match policy {
        "filter" => format!("filter(theta=2, window={})+fifo", scale.capacity),
        other => other.to_owned(),
    }
}

/// What the process has in memory.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .map_or(0, |pages| pages * 4096)
}
