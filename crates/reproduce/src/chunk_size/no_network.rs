//! The Content Stores of the dumbbell without a network: the same requests, answered at once. It
//! shows which lifetimes follow from the popularity and the policies alone.

use super::dumbbell::{CACHED_OBJECTS, CATALOGUE};
use crate::Error;
use larder_netsim::apps::ZipfMandelbrot;
use larder_policy::{Engine, Slot, Spec};
use larder_units::{ByteSize, Stream, Streams, Time};
use std::time::Duration;

/// What R1's store does.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtR1 {
    /// The mean time that contents had been stored which it evicted, s; NaN if it evicted nothing.
    pub(super) lifetime: f64,
    /// The share of its requests that it answers.
    pub(super) hit_ratio: f64,
}

/// Runs the stores. Each of two consumers has a store of its own, and asks for names of its own
/// `rate` times a second. R1's store gets the requests that they do not answer.
pub(super) fn at_r1(
    policy: &str,
    rate: f64,
    skew: (f64, f64),
    seconds: u64,
    seed: u64,
) -> Result<AtR1, Error> {
    let policy: Spec = policy.parse().map_err(Error::from_cause)?;
    let store = |place: u64| {
        Store::new(
            &policy,
            Streams::new(seed.wrapping_mul(3).wrapping_add(place)),
        )
    };
    let (mut consumers, mut router) = ([store(0)?, store(1)?], store(2)?);
    let ranks = Ranks::new(skew);
    let streams = Streams::new(seed);
    let mut requests = ["consumer 0", "consumer 1"].map(|consumer| streams.stream(consumer));
    let (mut asked, mut hits) = (0_u64, 0_u64);
    for round in 0..(rate * seconds as f64) as u64 {
        let now = Time::from_nanos((round as f64 / rate * 1e9) as u64);
        for (pair, (store, stream)) in consumers.iter_mut().zip(&mut requests).enumerate() {
            let content = pair * CATALOGUE + ranks.draw(stream);
            if !store.request(content, now) {
                asked += 1;
                hits += u64::from(router.request(content, now));
            }
        }
    }
    let lifetime = router.ages.as_secs_f64() / router.evictions as f64;
    Ok(AtR1 {
        lifetime,
        hit_ratio: hits as f64 / asked as f64,
    })
}

/// The popularity of a consumer's contents.
struct Ranks {
    /// The share of the requests for each content and all more popular ones.
    cumulative: Vec<f64>,
}

impl Ranks {
    fn new((q, s): (f64, f64)) -> Ranks {
        let popularity = ZipfMandelbrot::new(CATALOGUE, q, s);
        let mut sum = 0.0;
        let cumulative = (1..=CATALOGUE).map(|rank| {
            sum += popularity.share(rank);
            sum
        });
        Ranks {
            cumulative: cumulative.collect(),
        }
    }

    /// Returns a content, from 0.
    fn draw(&self, stream: &mut Stream) -> usize {
        let u = 1.0 - stream.unit();
        self.cumulative
            .partition_point(|share| *share < u)
            .min(CATALOGUE - 1)
    }
}

/// A Content Store for packets of one size.
struct Store {
    engine: Engine,
    /// By content, its slot.
    slots: Vec<Option<Slot>>,
    /// By slot, the content, and when it was stored.
    stored: Vec<(usize, Time)>,
    evictions: u64,
    /// The sum of the times that evicted contents had been stored.
    ages: Duration,
}

impl Store {
    fn new(policy: &Spec, streams: Streams) -> Result<Store, Error> {
        let engine = Engine::new(policy, ByteSize::from_bytes(CACHED_OBJECTS), &streams)
            .map_err(Error::from_cause)?;
        let slots = vec![None; 2 * CATALOGUE];
        Ok(Store {
            engine,
            slots,
            stored: Vec::new(),
            evictions: 0,
            ages: Duration::ZERO,
        })
    }

    /// Returns true if the content is stored. If it is not, stores it as the policy has it.
    fn request(&mut self, content: usize, now: Time) -> bool {
        let id = content as u64;
        if let Some(slot) = self.slots[content] {
            self.engine.hit(slot, id, now);
            return true;
        }
        self.engine.miss(id, now);
        let mut victims = Vec::new();
        let is_admitted = self.engine.admit_or_fill(id, 1, now);
        let Some(slot) = is_admitted
            .then(|| self.engine.insert(id, 1, now, &mut victims))
            .flatten()
        else {
            return false;
        };
        for victim in victims {
            let (former, stored) = self.stored[victim.index()];
            self.slots[former] = None;
            self.evictions += 1;
            self.ages += now.since(stored);
        }
        self.slots[content] = Some(slot);
        match self.stored.get_mut(slot.index()) {
            Some(place) => *place = (content, now),
            None => self.stored.push((content, now)),
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that always evicts the oldest keeps each content for as long as a thousand others
    /// take to come.
    #[test]
    fn a_lifetime_is_not_that_of_a_thousand_newcomers() {
        let spec: Spec = "fifo".parse().unwrap();
        let mut store = Store::new(&spec, Streams::new(1)).unwrap();
        for number in 0..1500_u64 {
            assert!(!store.request(number as usize, Time::from_secs(number)));
        }
        assert_eq!(
            (store.evictions, store.ages),
            (500, Duration::from_secs(500 * 1000))
        );
        assert!(
            store.request(600, Time::from_secs(1500)) && !store.request(0, Time::from_secs(1500))
        );
    }

    /// Independent requests to one store: FIFO and RANDOM have one hit ratio (Gelenbe, 1973), and
    /// LRU a higher one. R1's store gets what the consumers' stores miss, which is not independent.
    #[test]
    fn fifo_and_random_differ_in_the_long_run() {
        let ranks = Ranks::new((0.7, 0.7));
        let hits = |policy: &str| {
            let mut store = Store::new(&policy.parse().unwrap(), Streams::new(1)).unwrap();
            let mut requests = Streams::new(1).stream("requests");
            let mut are_hits = (0..220_000)
                .map(|at| store.request(ranks.draw(&mut requests), Time::from_millis(at)));
            are_hits.by_ref().take(20_000).for_each(drop);
            are_hits.filter(|hit| *hit).count() as f64 / 200_000.0
        };
        let (fifo, random, lru) = (hits("fifo"), hits("random"), hits("lru"));
        assert!((fifo / random - 1.0).abs() < 0.005, "{fifo} {random}");
        assert!(lru > 1.02 * fifo, "{lru} {fifo}");
    }

    #[test]
    fn a_lifetime_is_measured_without_an_eviction() {
        let of = |seconds| {
            at_r1("fifo", 900.0, (0.7, 0.7), seconds, 1)
                .unwrap()
                .lifetime
        };
        assert!(of(0).is_nan());
        assert!((0.5..2.0).contains(&of(3)), "{}", of(3));
    }

    /// A consumer's FIFO keeps a content for longer than R1's, which has stored it at the same
    /// time. So R1's has evicted it when the consumer asks for it again.
    #[test]
    fn r1_answers_under_fifo() {
        let hits = |policy| at_r1(policy, 900.0, (0.7, 0.7), 30, 1).unwrap().hit_ratio;
        let (fifo, random) = (hits("fifo"), hits("random"));
        assert!(fifo < 0.001 && random > 0.1, "{fifo} {random}");
    }
}
