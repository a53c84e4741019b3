//! The cache behind its locks: how it scales with threads, and what sharding costs in hits.
//!
//!     cargo bench -p larder-proxy --bench shards                   # hits over 1 to 16 threads
//!     cargo bench -p larder-proxy --bench shards -- TRACE CAPACITY POLICY ...   # hit ratios
//!     cargo bench -p larder-proxy --bench shards -- joint:TABLE CAPACITY POLICY ...
//!
//! Threads: each thread asks for 50,000 objects of 1 KiB in an order of its own, which is what a
//! request thread does for a hit without its socket. One shard is the cache behind one lock.
//!
//! Traces: the node's cache answers each request of the trace, and stores each miss whole. A table
//! is a joint distribution of popularity and size (`larder trace generate joint`), of which five
//! million requests are drawn.
#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use http::{HeaderMap, Method, StatusCode, Version};
use larder_http::{Config, PlainRequest, RequestHead, ResponseHead};
use larder_policy::Spec;
use larder_proxy::shards::{Next, Response, Shards};
use larder_replay::{Access, Joint, Trace};
use larder_units::{ByteSize, Streams};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const OBJECTS: u64 = 50_000;
const ROUND: Duration = Duration::from_millis(700);
const ROUNDS: usize = 9;

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    match (arguments.next(), arguments.next()) {
        (Some(trace), Some(capacity)) => {
            let capacity: ByteSize = capacity.parse().expect("CAPACITY is a size, such as 5MiB");
            ratios(&trace, capacity, arguments);
        }
        _ => threads(),
    }
}

fn shards(capacity: ByteSize, policy: &str, count: u16) -> Arc<Shards> {
    let config = Config {
        capacity,
        policy: policy.parse::<Spec>().expect("a policy"),
        max_object: capacity,
        slice: ByteSize::from_bytes(0),
        targets: Vec::new(),
        compression: None,
        hash_key: [7; 16],
        ..Config::default()
    };
    Shards::with(&config, &Streams::new(1), count, None).expect("a cache")
}

/// Requests `target`, and stores `bytes` of body at a miss. Returns true for a hit.
fn request(shards: &Arc<Shards>, target: &str, bytes: u64) -> bool {
    let none = HeaderMap::new();
    let head = RequestHead {
        method: &Method::GET,
        scheme: "http",
        authority: "example.com",
        target,
        version: Version::HTTP_11,
        headers: &none,
        has_body: false,
        coding: None,
        confirmed: None,
    };
    let mut exchange = match shards.step(&head, true) {
        Next::Answer(_) => return true,
        Next::Forward(exchange) => exchange,
        _ => return false,
    };
    exchange.take_headers(HeaderMap::new());
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("cache-control", "max-age=1000000"),
        ("content-type", "image/jpeg"),
        ("etag", "\"0123456789abcdef\""),
        ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("server", "origin"),
    ] {
        headers.insert(name, value.parse().expect("a value"));
    }
    headers.insert("content-length", bytes.into());
    let head = ResponseHead {
        status: StatusCode::OK,
        version: Version::HTTP_11,
        headers,
    };
    if let (Response::Relay(_, _, Some(mut fill)), _) = shards.on_response(exchange, head) {
        fill.push(&vec![
            0;
            usize::try_from(bytes).expect("it fits the memory")
        ]);
        fill.complete();
    }
    false
}

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

/// One row for each number of threads: hits a second of the wall behind one lock and behind 64.
/// Each round measures all of them, one after the other, so that the load of the machine is about
/// the same; "scaling" is the median of the rounds' ratios to one thread.
fn threads() {
    let [one, many] = [1, 64].map(filled);
    let rounds: Vec<[(f64, f64); THREADS.len()]> = (0..ROUNDS)
        .map(|_| THREADS.map(|threads| (round(&one, threads), round(&many, threads))))
        .collect();
    println!(
        "million plain hits a second, medians of {ROUNDS} rounds, {} cores",
        cores()
    );
    println!(
        "{:>7} {:>9} {:>9} {:>16} {:>17}",
        "threads", "1 shard", "64 shards", "scaling, 1 shard", "scaling, 64 shards"
    );
    for (at, threads) in THREADS.into_iter().enumerate() {
        let of = |value: fn(&(f64, f64)) -> f64| {
            let rates = rounds.iter().map(|round| value(&round[at]) / 1e6).collect();
            let ratios = rounds
                .iter()
                .map(|round| value(&round[at]) / value(&round[0]))
                .collect();
            (median(rates), median(ratios))
        };
        let (one, many) = (of(|rates| rates.0), of(|rates| rates.1));
        println!(
            "{threads:>7} {:>9.2} {:>9.2} {:>16.2} {:>17.2}",
            one.0, many.0, one.1, many.1
        );
    }
    println!(
        "hits that the policy did not count: {}",
        many.figures().counters.uncounted_hits
    );
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn filled(count: u16) -> Arc<Shards> {
    let shards = shards(ByteSize::from_mib(256), "lru", count);
    for object in 0..OBJECTS {
        request(&shards, &format!("/object/{object}"), 1024);
    }
    shards
}

/// Hits a second of the wall.
fn round(shards: &Arc<Shards>, threads: usize) -> f64 {
    let targets: Vec<String> = (0..OBJECTS)
        .map(|object| format!("/object/{object}"))
        .collect();
    let (stop, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (stop, hits, targets) = (&stop, &hits, &targets);
            scope.spawn(move || {
                let mut order = Streams::new(thread as u64).stream("order");
                let mut head = Vec::with_capacity(4096);
                let mut own = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..256 {
                        head.clear();
                        let target = &targets[order.below(OBJECTS) as usize];
                        let request = PlainRequest {
                            scheme: "http",
                            authority: "example.com",
                            target,
                            asks_for_less: false,
                            coding: None,
                            confirmed: None,
                        };
                        own += u64::from(
                            shards
                                .plain_hit(request, HeaderMap::new, &mut head, |_| ())
                                .is_some(),
                        );
                    }
                }
                hits.fetch_add(own, Ordering::Relaxed);
            });
        }
        std::thread::sleep(ROUND);
        stop.store(true, Ordering::Relaxed);
    });
    hits.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

/// One row for each policy and number of shards.
fn ratios(trace: &str, capacity: ByteSize, policies: impl Iterator<Item = String>) {
    println!("object hit ratio, {trace}, {capacity}");
    println!("{:>15} {:>21} {:>21}", "", "1 shard", "64 shards");
    println!(
        "{:>15} {:>10} {:>10} {:>10} {:>10}",
        "policy", "1 thread", "2", "1 thread", "2"
    );
    println!(
        "(objects have their header fields and structures, so the ratios are below those of `larder replay`)"
    );
    let accesses = accesses(trace);
    for policy in policies {
        let ratio = |count, threads| {
            let shards = shards(capacity, &policy, count);
            // Threads take blocks in turn, so that no thread runs far ahead of the others.
            let (next, blocks) = (
                AtomicUsize::new(0),
                accesses.chunks(256).collect::<Vec<_>>(),
            );
            let hits: u64 = std::thread::scope(|scope| {
                let work = || {
                    let own =
                        std::iter::from_fn(|| blocks.get(next.fetch_add(1, Ordering::Relaxed)));
                    let hit = |(id, size): &&(u64, u64)| request(&shards, &format!("/{id}"), *size);
                    own.flat_map(|block| block.iter()).filter(hit).count() as u64
                };
                let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                workers
                    .into_iter()
                    .map(|worker| worker.join().expect("it ends"))
                    .sum()
            });
            shards.check_invariants();
            hits as f64 / accesses.len() as f64
        };
        let [one, both, many, all] =
            [(1, 1), (1, 2), (64, 1), (64, 2)].map(|(count, threads)| ratio(count, threads));
        println!("{policy:>15} {one:>10.4} {both:>10.4} {many:>10.4} {all:>10.4}");
    }
}

fn accesses(trace: &str) -> Vec<(u64, u64)> {
    let pair = |access: Access| (access.id, access.size);
    if let Some(table) = trace.strip_prefix("joint:") {
        let table = std::fs::read(table).expect("a table");
        let joint = Joint::read(&table[..]).expect("a table of popularity and size");
        return joint
            .requests(5_000_000, &Streams::new(1))
            .map(pair)
            .collect();
    }
    Trace::open(trace.as_ref(), None)
        .expect("a trace")
        .map(|access| pair(access.expect("a request")))
        .collect()
}
