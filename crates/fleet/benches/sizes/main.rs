//! What a fleet needs when it grows: the cores of 3 to 1,000 nodes in virtual time, over a model of
//! three servers of NATS ([`servers`]), and what follows from it for 10,000.
//!
//!     cargo bench -p larder-fleet --bench sizes -- [NODES...]
//!
//! All nodes are of one zone. A hop takes .25 to .45 ms, a node 20 us for a message, and a server
//! what was measured of nats-server; routes between the servers cost nothing. Each size: a quiet
//! minute with 10 purges a second; ten seconds with 1,000; the leader's death; 20 s without
//! servers; then the owners of 20,000 objects, with one capacity and with as many as nodes.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it prints what it measures"
)]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads its arguments")]

mod servers;
mod world;

use larder_fleet::{Owners, PeerOffer, by_ownership, owner_key};
use std::time::{Duration, Instant};
use world::{Seen, World};

const SIZES: [usize; 6] = [3, 10, 30, 100, 300, 1_000];
const KEYS: usize = 20_000;

/// Sizes that are computed from the others' rates, and not run.
const COMPUTED: [usize; 1] = [10_000];

/// What was measured of one size.
struct Row {
    count: usize,
    quiet: Seen,
    busy: Seen,
    /// The death of the leader.
    election: Seen,
    /// The return of the servers, and how long it took until all nodes followed.
    back: Seen,
    back_after: Duration,
    owners: OwnersSeen,
}

struct OwnersSeen {
    moved: f64,
    fullest: f64,
    /// The time of a lookup, with one capacity and with different ones.
    lookups: [Duration; 2],
}

fn main() {
    let mut sizes: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse().ok())
        .collect();
    if sizes.is_empty() {
        sizes = SIZES.to_vec();
    }
    let begun = Instant::now();
    let mut rows = Vec::new();
    for count in sizes {
        rows.push(measure(count));
        eprintln!("{count} nodes: {:.0} s", begun.elapsed().as_secs_f64());
    }
    show(&rows);
}

fn measure(count: usize) -> Row {
    let mut world = World::new(count, 1);
    settle(&mut world);
    let quiet = run(&mut world, 10, Duration::from_secs(60));
    let busy = run(&mut world, 1_000, Duration::from_secs(10));
    world.set_purges(10);
    world.run_for(Duration::from_secs(1));
    world.take_seen();
    world.kill_leader();
    world.run_for(Duration::from_secs(20));
    let election = world.take_seen();
    world.set_purges(0);
    settle(&mut world);

    world.take_seen();
    world.stop_servers();
    world.run_for(Duration::from_secs(20));
    let away = world.take_seen();
    world.start_servers();
    let back_after = settle(&mut world);
    let mut back = world.take_seen();
    back.not_fresh += away.not_fresh;
    assert_eq!(world.believed_lost(), 0, "{count} nodes: all are there");
    assert_eq!(world.open_purges(), 0, "{count} nodes: a purge is lost");
    Row {
        count,
        quiet,
        busy,
        election,
        back,
        back_after,
        owners: owners(count),
    }
}

/// Purges so often for so long, after half a minute of the same.
fn run(world: &mut World, purges: u32, span: Duration) -> Seen {
    world.set_purges(purges);
    world.run_for(span / 2);
    world.take_seen();
    world.run_for(span);
    let seen = world.take_seen();
    world.set_purges(0);
    settle(world);
    seen
}

/// Runs until all nodes follow the log and know each other, and returns for how long.
fn settle(world: &mut World) -> Duration {
    let begun = world.now;
    while !world.is_settled() {
        world.run_for(Duration::from_millis(50));
        let took = world.now.since(begun);
        assert!(took < Duration::from_secs(300), "not all nodes follow");
    }
    world.now.since(begun)
}

fn show(rows: &[Row]) {
    println!("10 purges a second, a minute");
    println!("{LOAD_HEAD}");
    for row in rows {
        show_load(row.count, &row.quiet);
    }
    for count in COMPUTED {
        show_load(count, &world::expected(count, 10));
    }
    println!("\n1,000 purges a second, ten seconds");
    println!("{LOAD_HEAD}");
    for row in rows {
        show_load(row.count, &row.busy);
    }
    for count in COMPUTED {
        show_load(count, &world::expected(count, 1_000));
    }
    println!("\nThe leader dies, 10 purges a second; the servers come back after 20 s");
    println!("    nodes   longest purge   all follow after   messages/s   without a proof");
    for row in rows {
        let longest = row.election.purges.last().copied().unwrap_or_default();
        println!(
            "{:>9} {:>13.1} s {:>16.2} s {:>12.0} {:>11.1} s",
            row.count,
            longest.as_secs_f64(),
            row.back_after.as_secs_f64(),
            row.back.delivered as f64 / row.back.elapsed.as_secs_f64(),
            row.election.not_fresh + row.back.not_fresh,
        );
    }
    println!("\nOwners of 20,000 objects");
    println!(
        "    nodes   a leave moves   fullest node   a miss finds its owner in   of any capacity"
    );
    for row in rows {
        println!(
            "{:>9} {:>13.2} % {:>14.2} {:>24.2} us {:>14.2} us",
            row.count,
            row.owners.moved * 100.0,
            row.owners.fullest,
            row.owners.lookups[0].as_secs_f64() * 1e6,
            row.owners.lookups[1].as_secs_f64() * 1e6,
        );
    }
}

const LOAD_HEAD: &str = "    nodes  entries/s  renewals/s  messages/s  Mbit/s a node  busiest server  purge p50  p99  longest";

fn show_load(count: usize, seen: &Seen) {
    let seconds = seen.elapsed.as_secs_f64();
    let rate = |count: u64| count as f64 / seconds;
    println!(
        "{count:>9} {:>10.0} {:>11.0} {:>11.0} {:>14.2} {:>13.1} % {}",
        rate(seen.entries),
        rate(seen.renewals),
        rate(seen.delivered),
        rate(seen.bytes) * 8e-6 / count as f64,
        seen.busy * 100.0,
        percentiles(&seen.purges),
    );
}

fn percentiles(sorted: &[Duration]) -> String {
    let Some(last) = sorted.last() else {
        return "  computed".to_owned();
    };
    let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part) as usize];
    let ms = |span: Duration| span.as_secs_f64() * 1e3;
    format!(
        "{:>10.1} {:>4.1} {:>5.1} ms",
        ms(at(0.5)),
        ms(at(0.99)),
        ms(*last)
    )
}

/// How evenly nodes own objects, how many move when one leaves, and how long a lookup takes.
fn owners(count: usize) -> OwnersSeen {
    let offers: Vec<(String, PeerOffer)> = (0..count)
        .map(|number| (format!("node-{number:05}"), world::offer_of(number)))
        .collect();
    let nodes = || offers.iter().map(|(name, offer)| (name.as_str(), offer));
    let keys: Vec<u64> = (0..KEYS)
        .map(|number| owner_key(&format!("https://www.example/{number}")))
        .collect();
    let mut owned = vec![0_usize; count];
    let mut moved = 0;
    for key in &keys {
        let owner = by_ownership(nodes(), *key)[0];
        moved += usize::from(owner != by_ownership(nodes().skip(1), *key)[0]);
        owned[owner["node-".len()..].parse::<usize>().expect("a number")] += 1;
    }
    let most = owned.iter().copied().max().unwrap_or(0);
    OwnersSeen {
        moved: moved as f64 / KEYS as f64,
        fullest: (most * count) as f64 / KEYS as f64,
        lookups: [0, 1].map(|step| lookup(&offers, step, &keys)),
    }
}

/// Returns the time in which a node finds the owner of an object, if the capacities of the nodes
/// differ by so much each.
fn lookup(offers: &[(String, PeerOffer)], step: u64, keys: &[u64]) -> Duration {
    let mut offers = offers.to_vec();
    for (number, (_, offer)) in offers.iter_mut().enumerate() {
        offer.capacity += step * number as u64;
    }
    let (name, offer) = &offers[0];
    let nodes = offers.iter().map(|(name, offer)| (name.as_str(), offer));
    let owners = Owners::new(name, Some(offer), nodes);
    let begun = Instant::now();
    for key in keys {
        std::hint::black_box(owners.of(*key));
    }
    begun.elapsed() / KEYS as u32
}
