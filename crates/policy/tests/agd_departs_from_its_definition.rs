//! agd against a naive model of its definition, and its power against what suits the traffic.

mod traffic;

use larder_units::{Streams, Time};
use proptest::prelude::*;
use std::collections::HashMap;
use traffic::{Owner, Zipf, size_of};

const CAPACITY: u64 = 100;

/// The definition, object by object.
struct Naive {
    power: f64,
    stored: Vec<Stored>,
    /// Requests of those that are not stored.
    history: HashMap<u64, u32>,
    clock: f64,
    requests: u64,
    /// Requests and misses since counts were last halved.
    since_halving: (usize, usize),
}

#[derive(Clone)]
struct Stored {
    id: u64,
    count: f32,
    class: f64,
    since: f64,
    touched: u64,
}

fn size(id: u64) -> u64 {
    1 + id * 7 % 40
}

/// log2 by straight lines between the powers of two, as the policy has it.
fn log2(value: f32) -> f32 {
    let whole = value.log2().floor();
    whole + value / whole.exp2() - 1.0
}

impl Naive {
    fn new(power: f64) -> Naive {
        Naive { power, stored: Vec::new(), history: HashMap::new(), clock: 0.0, requests: 0, since_halving: (0, 0) }
    }

    /// The class of `count` / size in half octaves; a half is rounded up.
    fn class(count: f32, id: u64) -> f64 {
        f64::from(((log2(count) - log2(size(id) as f32)) * 2.0 + 0.5).floor())
    }

    fn due(&self, stored: &Stored) -> f64 {
        stored.since + (self.power * stored.class / 2.0).exp2()
    }

    /// The stored ones in the order of their leaving.
    fn order(&self) -> Vec<Stored> {
        let mut order = self.stored.clone();
        order.sort_by(|a, b| {
            let key = |s: &Stored| (self.due(s), s.class);
            key(a).partial_cmp(&key(b)).unwrap().then(a.touched.cmp(&b.touched))
        });
        order
    }

    fn request(&mut self, id: u64) -> bool {
        self.requests += 1;
        self.since_halving.0 += 1;
        // 128 turns of the at least 64 objects that a cache is taken to have; 4,096 counters of history.
        if self.since_halving.0 >= 128 * 64 || self.since_halving.1 >= 4096 {
            self.since_halving = (0, 0);
            self.stored.iter_mut().for_each(|stored| stored.count /= 2.0);
            self.history.values_mut().for_each(|count| *count /= 2);
        }
        let (clock, touched) = (self.clock, self.requests);
        if let Some(stored) = self.stored.iter_mut().find(|stored| stored.id == id) {
            let count = stored.count + 1.0;
            let class = Naive::class(count, id);
            stored.count = count;
            // It rests as long as it would be put off by less than a quarter of its lifetime.
            if class != stored.class || clock - stored.since > 0.25 * (self.power * class / 2.0).exp2() {
                *stored = Stored { class, since: clock, touched, ..*stored };
            }
            return true;
        }
        self.since_halving.1 += 1;
        let known = self.history.entry(id).or_default();
        *known = (*known + 1).min(255);
        let newcomer = *known;
        let mut room = CAPACITY - self.stored.iter().map(|stored| size(stored.id)).sum::<u64>();
        // At the highest power, half an octave more is asked of a newcomer.
        let asked = if self.power >= 8.0 { 1.0 } else { 0.0 };
        let due = clock + (self.power * (Naive::class(newcomer as f32, id) - asked) / 2.0).exp2();
        let mut leaving = Vec::new();
        for victim in self.order() {
            if room >= size(id) {
                break;
            }
            if self.due(&victim) >= due {
                self.clock += (self.due(&self.order()[0]) - clock).max(0.0) / self.stored.len() as f64;
                return false;
            }
            room += size(victim.id);
            leaving.push(victim);
        }
        for victim in leaving {
            self.clock = self.clock.max(self.due(&victim));
            let known = self.history.entry(victim.id).or_default();
            *known = (*known).max((victim.count.round() as u32).min(255));
            self.stored.retain(|stored| stored.id != victim.id);
        }
        let count = newcomer as f32;
        self.stored.push(Stored { id, count, class: Naive::class(count, id), since: self.clock, touched });
        false
    }
}

fn compare(power: &str, steps: impl IntoIterator<Item = (bool, u64)>) -> Result<(), TestCaseError> {
    let mut owner = Owner::new(&format!("agd(p={power})").parse().unwrap(), CAPACITY, 1);
    let mut naive = Naive::new(power.parse().unwrap());
    for (removal, id) in steps {
        if removal {
            owner.remove(id);
            naive.stored.retain(|stored| stored.id != id);
            continue;
        }
        prop_assert_eq!(owner.request(id, size(id), Time::ZERO), naive.request(id));
        let mut cached: Vec<_> = owner.index.keys().copied().collect();
        let mut expected: Vec<_> = naive.stored.iter().map(|stored| stored.id).collect();
        cached.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(cached, expected);
    }
    Ok(())
}

proptest! {
    #[test]
    fn another_order(
        steps in proptest::collection::vec((proptest::bool::weighted(0.05), 0..25u64), 0..400),
        power in proptest::sample::select(vec!["0.5", "1", "1.5", "2", "4", "8"]),
    ) {
        compare(power, steps)?;
    }
}

#[test]
fn counts_that_never_fade() {
    let mut zipf = Zipf::new(25, 0.8, 3);
    let steps: Vec<_> = (0..30_000).map(|_| (false, zipf.draw())).collect();
    compare("1", steps.iter().copied()).unwrap();
    compare("2", steps).unwrap();
}

/// Hit ratio and the power at the end, of objects of one size.
fn replay(spec: &str, capacity: u64, requests: &[u64]) -> (f64, f64) {
    let mut owner = Owner::new(&spec.parse().unwrap(), capacity, 1);
    let hits = requests.iter().filter(|id| owner.request(**id, 1, Time::ZERO)).count();
    let gauges = owner.engine.gauges();
    let power = gauges.iter().find(|(_, gauge)| gauge.name == "p").map_or(0.0, |(_, gauge)| gauge.value);
    (hits as f64 / requests.len() as f64, power)
}

#[test]
fn a_dead_hot_set_stays_forever() {
    // A hundred objects fill the cache and are asked for 2,000 times each, far more than a history counts; then nobody wants them.
    let hot = (0..200_000_u64).map(|number| number % 100);
    let new = (0..20_000_u64).map(|number| 1_000 + number % 100);
    let requests: Vec<_> = hot.chain(new).collect();
    for power in ["auto", "0.5", "1", "2", "4", "8"] {
        let (ratio, _) = replay(&format!("agd(p={power})"), 100, &requests);
        let hits = ratio * 220_000.0 - 199_900.0;
        assert!(hits > 10_000.0, "p {power}: {hits} hits of 20,000 on the new set");
    }
}

#[test]
fn history_counts_where_everything_is_new() {
    // Two of five requests are for something new, the others for one of the last 4,000: what was asked for often is soon asked for no more.
    let mut stream = Streams::new(1).stream("churn");
    let mut requests = vec![0_u64];
    for number in 1..400_000 {
        let back = 1 + stream.below(requests.len().min(4_000) as u64) as usize;
        requests.push(if stream.chance(0.4) { number } else { requests[requests.len() - back] });
    }
    let (auto, power) = replay("agd", 4_000, &requests);
    let (lru, _) = replay("lru", 4_000, &requests);
    let (fixed, _) = replay("agd(p=2)", 4_000, &requests);
    assert!(power <= 1.0, "p {power}");
    assert!(fixed < lru - 0.05, "p = 2 is no bad choice here: {fixed}, LRU {lru}");
    assert!(auto > lru - 0.015, "{auto}, LRU {lru}");
}

#[test]
fn recency_counts_where_nothing_changes() {
    let mut zipf = Zipf::new(50_000, 0.8, 1);
    let requests: Vec<_> = (0..400_000).map(|_| zipf.draw()).collect();
    let (auto, power) = replay("agd", 2_500, &requests);
    let (recent, _) = replay("agd(p=0.5)", 2_500, &requests);
    let (lru, _) = replay("lru", 2_500, &requests);
    assert!(power >= 2.0, "p {power}");
    assert!(auto > recent + 0.03 && auto > lru + 0.08, "{auto}, p = 0.5 {recent}, LRU {lru}");
}

#[test]
fn a_loop_larger_than_the_cache_displaces_itself() {
    let requests: Vec<_> = (0..400_000_u64).map(|number| number % 4_800).collect();
    let (auto, power) = replay("agd", 4_000, &requests);
    assert!(power == 8.0 && auto > 0.7, "p {power}: {auto}, and 4,000 of 4,800 could be hit");
}

#[test]
fn bytes_are_hit_less_often_where_they_are_worth_more() {
    let mut zipf = Zipf::new(4_000, 0.9, 1);
    let requests: Vec<_> = (0..100_000).map(|_| zipf.draw()).collect();
    let replay = |spec: &str| {
        let mut owner = Owner::new(&spec.parse().unwrap(), 20 << 20, 1);
        let (mut hits, mut bytes) = (0, 0);
        for id in &requests {
            if owner.request(*id, size_of(*id), Time::ZERO) {
                hits += 1;
                bytes += size_of(*id);
            }
        }
        (hits, bytes)
    };
    let (objects, half, bytes) = (replay("agd"), replay("agd(bytes=50)"), replay("agd(bytes=100)"));
    assert!(objects.0 > half.0 && half.0 > bytes.0, "hits {objects:?}, {half:?}, {bytes:?}");
    assert!(objects.1 < half.1 && half.1 < bytes.1, "bytes {objects:?}, {half:?}, {bytes:?}");
}
