//! agd beside LRU where recency counts, and where it does not: sets that move and are replaced, new
//! objects, loops, crowds, scans. And sawtooths, once it has learnt not to follow them.

use crate::traffic::{Owner, Zipf, size_of};
use larder_units::{Stream, Streams, Time};

const REQUESTS: u64 = 150_000;
/// The first requests do not count: the tuner starts from p = 1.5, and has to learn.
const WARM_UP: u64 = 30_000;
/// By how much agd may have a lower hit ratio.
const MARGIN: f64 = 0.005;
/// The same with sets that are replaced again and again: the choice among eight orders begins anew
/// with each of them.
const REPLACED_MARGIN: f64 = 0.01;

/// The traffic: its name, the id of the n-th request, and the objects that are stored.
type Workload = (&'static str, Box<dyn FnMut(u64, &mut Stream) -> u64>, u64);

fn workloads() -> Vec<Workload> {
    const NEW: u64 = 1 << 40;
    let mut law = Zipf::new(10_000, 0.8, 1);
    let mut crowds = Zipf::new(10_000, 0.8, 2);
    let mut scanned = Zipf::new(10_000, 0.9, 3);
    let mut beside = Zipf::new(10_000, 0.9, 4);
    let mut shuffled = Zipf::new(10_000, 0.8, 5);
    let mut drawn: Vec<u64> = vec![0];
    vec![
        (
            "replaced",
            Box::new(|n, s| n / 20_000 * 3_000 + s.below(3_000)),
            2_000,
        ),
        (
            "replaced, most of it stored",
            Box::new(|n, s| n / 20_000 * 3_000 + s.below(3_000)),
            2_800,
        ),
        (
            "replaced, a third stored",
            Box::new(|n, s| n / 20_000 * 3_000 + s.below(3_000)),
            1_000,
        ),
        (
            "moves slowly",
            Box::new(|n, s| n / 40 + s.below(3_000)),
            2_000,
        ),
        ("moves", Box::new(|n, s| n / 4 + s.below(3_000)), 2_000),
        ("moves fast", Box::new(|n, s| n / 2 + s.below(3_000)), 2_000),
        (
            "new and recent",
            Box::new(move |n, s| {
                let back = 1 + s.below(drawn.len().min(4_000) as u64) as usize;
                drawn.push(if s.chance(0.2) {
                    n
                } else {
                    drawn[drawn.len() - back]
                });
                drawn[drawn.len() - 1]
            }),
            2_000,
        ),
        ("loop", Box::new(|n, _| n % 2_400), 2_000),
        ("Zipf", Box::new(move |_, _| law.draw()), 1_000),
        (
            "shuffled",
            Box::new(move |n, _| (n / 50_000 * 20_000).wrapping_add(shuffled.draw())),
            2_000,
        ),
        (
            "crowds",
            Box::new(move |n, s| {
                if n % 20_000 < 10_000 && s.chance(0.33) {
                    NEW + n / 20_000 * 1_000 + s.below(1_000)
                } else {
                    crowds.draw()
                }
            }),
            2_000,
        ),
        (
            "scans",
            Box::new(move |n, _| {
                if n / 10_000 % 2 == 0 {
                    scanned.draw()
                } else {
                    NEW + n
                }
            }),
            2_000,
        ),
        (
            "beside a loop",
            Box::new(move |n, _| {
                if n % 2 == 0 {
                    NEW + n / 2 % 2_400
                } else {
                    beside.draw()
                }
            }),
            2_000,
        ),
    ]
}

/// Of objects of one byte, or of 100 B to 1.6 MB.
fn hit_ratio(policy: &str, requests: &[u64], warm_up: u64, capacity: u64, sized: bool) -> f64 {
    let capacity = if sized { capacity * 160_000 } else { capacity };
    let mut owner = Owner::new(&policy.parse().unwrap(), capacity, 1);
    let mut hits = 0;
    for (number, id) in (0..).zip(requests) {
        let hit = owner.request(*id, if sized { size_of(*id) } else { 1 }, Time::ZERO);
        hits += u64::from(hit && number >= warm_up);
    }
    hits as f64 / (requests.len() as u64 - warm_up) as f64
}

#[test]
fn recency_is_worth_more() {
    let mut lower = Vec::new();
    for (name, mut id, capacity) in workloads() {
        let mut stream = Streams::new(1).stream("workload");
        let requests: Vec<_> = (0..REQUESTS)
            .map(|number| id(number, &mut stream))
            .collect();
        for sized in [false, true] {
            let [agd, lru] =
                ["agd", "lru"].map(|policy| hit_ratio(policy, &requests, WARM_UP, capacity, sized));
            let margin = if name.starts_with("replaced") {
                REPLACED_MARGIN
            } else {
                MARGIN
            };
            if agd < lru - margin {
                lower.push(format!(
                    "{name}, sized: {sized}: agd {agd:.4}, LRU {lru:.4}"
                ));
            }
        }
    }
    assert!(lower.is_empty(), "{lower:#?}");
}

/// Where following is always late, it is found out after some sweeps only, and again when the lead
/// that is asked for has faded. Followed to the end, these three are two to five points below.
const SAWTOOTH_MARGIN: f64 = 0.015;

/// As many objects in turn, and back: half of a sweep each power is ahead by far, and whoever
/// follows is late.
#[test]
fn whoever_follows_a_sawtooth_is_late() {
    let mut lower = Vec::new();
    for (objects, capacity) in [(3_000, 2_000), (3_000, 1_000), (6_000, 5_000)] {
        let requests: Vec<u64> = (0..400_000).map(|number| number % (2 * objects)).collect();
        let requests: Vec<u64> = requests
            .into_iter()
            .map(|turn| turn.min(2 * objects - 1 - turn))
            .collect();
        let [agd, lru] =
            ["agd", "lru"].map(|policy| hit_ratio(policy, &requests, 300_000, capacity, false));
        if agd < lru - SAWTOOTH_MARGIN {
            lower.push(format!(
                "{capacity} of {objects}: agd {agd:.4}, LRU {lru:.4}"
            ));
        }
    }
    assert!(lower.is_empty(), "{lower:#?}");
}

/// Each object twice, in a cache that holds one.
#[test]
fn a_newcomer_that_takes_all_the_room_is_refused_at_the_power_0() {
    for policy in ["lru", "agd(p=0)"] {
        let mut owner = Owner::new(&policy.parse().unwrap(), 10, 1);
        let hits = (0..200)
            .filter(|number| owner.request(number / 2, 10, Time::ZERO))
            .count();
        assert_eq!(hits, 100, "{policy}");
    }
}
