//! One run of the paper's network: two consumers, R1, R2, two producers.

use crate::cell::{measure_all, units};
use crate::rows::number_or_nan;
use crate::{Error, Request, Watch};
use larder_netsim::apps::{
    Cbr, CbrConfig, Names, Payload, Producer, ProducerConfig, Randomize, ZipfMandelbrot,
};
use larder_netsim::{
    AppId, Capacity, Depth, LinkConfig, Loss, NodeConfig, Queueing, Simulation, Topology,
};
use larder_packet::Name;
use larder_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Table I: packet size in KB, Interests per second of each consumer.
pub(super) const RATES: [(u64, f64); 7] = [
    (5, 900.0),
    (10, 450.0),
    (20, 225.0),
    (40, 112.0),
    (80, 56.0),
    (120, 42.0),
    (160, 28.0),
];

/// The backbones' rates, Mbps: "congestion-free" and "mild congestion".
pub(super) const BACKBONES: [(&str, u64); 2] = [("congestion-free", 160), ("mild congestion", 60)];

pub(super) const CATALOGUE: usize = 2000;
pub(super) const CACHED_OBJECTS: u64 = 1000;
const EDGE_MBPS: u64 = 40;
const DELAY: Duration = Duration::from_millis(10);

/// The properties that the paper leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reading {
    pub(super) queue: Depth,
    pub(super) mtu: Option<usize>,
    /// Whether both consumers request the same names (of the first producer).
    pub(super) shared: bool,
    pub(super) randomize: Randomize,
    /// The bytes of a KB.
    pub(super) kilobyte: u64,
    /// The parameters q and s of the Zipf–Mandelbrot distribution.
    pub(super) skew: (f64, f64),
    /// The share of frames that every link loses.
    pub(super) loss: f64,
}

/// The interpretation with which ndnSIM 2.8 agrees with the paper's text: fragments of 1500 bytes,
/// and queues that hold them.
pub(super) const READING: Reading = Reading {
    queue: Depth::Packets(1000),
    mtu: Some(1500),
    shared: false,
    randomize: Randomize::None,
    kilobyte: 1000,
    skew: (0.7, 0.7),
    loss: 0.0,
};

impl Reading {
    /// Returns the interpretation in words.
    pub(super) fn described(&self) -> String {
        let queue = match self.queue {
            Depth::Packets(packets) => format!("queues of {packets} frames"),
            Depth::Bytes(bytes) => format!("queues of {bytes} bytes"),
        };
        let mtu = self.mtu.map_or_else(
            || "whole packets".to_owned(),
            |mtu| format!("fragments of {mtu} bytes"),
        );
        let names = if self.shared {
            "the same names"
        } else {
            "names of their own"
        };
        let requests = match self.randomize {
            Randomize::None => "a constant rate",
            Randomize::Uniform => "uniformly random intervals",
            Randomize::Exponential => "exponential intervals",
        };
        let (q, s) = self.skew;
        let popularity = format!("Zipf–Mandelbrot with q = {q}, s = {s}");
        let kilobyte = format!("a KB has {} bytes", self.kilobyte);
        format!("{queue}; {mtu}; consumers ask for {names} at {requests}; {kilobyte}; {popularity}")
    }
}

/// One run. Its `Debug` text is its key among the finished rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell<'a> {
    /// An entry of [`RATES`], or a similar one.
    pub(super) size: (u64, f64),
    pub(super) policy: &'a str,
    pub(super) backbone_mbps: u64,
    pub(super) reading: Reading,
    pub(super) seconds: u64,
    pub(super) seed: u64,
}

/// The measurements of a run, or their means over several runs; NaN if there is nothing to measure.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Content Store hits of the consumers' nodes over all their Interests, as ndnSIM's CsTracer
    /// counts.
    #[serde(deserialize_with = "number_or_nan")]
    pub(super) hit_ratio: f64,
    /// Hits over look-ups. NFD looks up only if no Interest with the same name is pending.
    #[serde(deserialize_with = "number_or_nan")]
    pub(super) hit_ratio_of_lookups: f64,
    /// Data that reached an application over Interests sent.
    #[serde(deserialize_with = "number_or_nan")]
    pub(super) delivered: f64,
    /// The rate from R1 to a consumer, frames with their headers, Mb/s.
    pub(super) mbps: f64,
    /// The time from the first Interest to the Data, ms.
    #[serde(deserialize_with = "number_or_nan")]
    pub(super) delay_ms: f64,
    /// The mean time that the packets evicted by R1 had been stored, s.
    #[serde(deserialize_with = "number_or_nan")]
    pub(super) lifetime: f64,
    /// The same mean with the packets that were still stored at the end, s.
    #[serde(deserialize_with = "number_or_nan")]
    pub(super) lifetime_with_survivors: f64,
}

impl Outcome {
    /// The columns of a table, after those that identify the run.
    pub(super) const COLUMNS: [&str; 5] = [
        "hit ratio",
        "lifetime, evicted / all, s",
        "Mbps",
        "delay, ms",
        "delivered",
    ];

    /// Returns the texts of these columns.
    pub(super) fn shown(&self) -> [String; 5] {
        let seconds = |value: f64| {
            if value.is_finite() {
                format!("{value:.2}")
            } else {
                "–".to_owned()
            }
        };
        [
            format!("{:.4}", self.hit_ratio),
            format!(
                "{} / {}",
                seconds(self.lifetime),
                seconds(self.lifetime_with_survivors)
            ),
            format!("{:.2}", self.mbps),
            format!("{:.1}", self.delay_ms),
            format!("{:.1} %", self.delivered * 100.0),
        ]
    }

    /// Checks that the network worked: `lost` is the number of frames that its queues dropped or
    /// its links lost. Without one, something must be delivered. With queues of 100 frames, Data of
    /// 160 KB are expected to get lost, which a network that does nothing would look like.
    fn check(&self, lost: u64) -> Result<(), String> {
        match self.delivered {
            none if none.is_nan() => Err("no Interest was sent".to_owned()),
            0.0 if lost == 0 => Err("nothing was delivered, and no frame was lost".to_owned()),
            _ => Ok(()),
        }
    }

    /// Returns the mean of each finite metric over the runs.
    pub(super) fn mean(runs: &[Outcome]) -> Outcome {
        let mean = |figure: fn(&Outcome) -> f64| mean(runs.iter().map(figure));
        Outcome {
            hit_ratio: mean(|run| run.hit_ratio),
            hit_ratio_of_lookups: mean(|run| run.hit_ratio_of_lookups),
            delivered: mean(|run| run.delivered),
            mbps: mean(|run| run.mbps),
            delay_ms: mean(|run| run.delay_ms),
            lifetime: mean(|run| run.lifetime),
            lifetime_with_survivors: mean(|run| run.lifetime_with_survivors),
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values
        .filter(|value| value.is_finite())
        .fold((0.0, 0u32), |(s, n), value| (s + value, n + 1));
    sum / f64::from(count)
}

/// Runs each cell with `seeds` seeds. Returns the outcomes of each cell together.
pub(super) fn run_all(
    cells: &[Cell<'_>],
    seeds: u64,
    what: &str,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Vec<Vec<Outcome>>, Error> {
    let runs: Vec<Cell<'_>> = cells
        .iter()
        .flat_map(|cell| {
            (0..seeds).map(|run| Cell {
                seed: cell.seed.wrapping_add(run),
                ..*cell
            })
        })
        .collect();
    watch.begin(what, units(&runs));
    let outcomes = measure_all(runs, request, watch)?;
    Ok(outcomes
        .chunks(seeds.max(1) as usize)
        .map(<[Outcome]>::to_vec)
        .collect())
}

impl crate::cell::Cell for Cell<'_> {
    type Row = Outcome;

    fn key(&self, _: u64) -> String {
        format!("chunk-size {self:?}")
    }

    /// The load does not depend on the packet size.
    fn units(&self) -> u64 {
        self.seconds
    }

    fn measure(&self, _: u64, watch: &dyn Watch) -> Result<Outcome, Error> {
        let (mut network, consumers) = build(self)?;
        let end = Time::from_secs(self.seconds);
        network.run_until(end).map_err(Error::from_cause)?;
        watch.advance(self.seconds);
        let outcome = outcome(&network, &consumers, end);
        let lost = network
            .channels()
            .map(|(_, channel)| channel.counters())
            .map(|sent| sent.dropped + sent.lost)
            .sum();
        outcome
            .check(lost)
            .map_err(|fault| Error(format!("{self:?}: {fault}")))?;
        Ok(outcome)
    }
}

fn build(cell: &Cell<'_>) -> Result<(Simulation, Vec<AppId>), Error> {
    let Reading {
        queue,
        mtu,
        shared,
        randomize,
        kilobyte,
        skew,
        loss,
    } = cell.reading;
    let mut network = Simulation::new(cell.seed);
    let link = |mbps: u64| LinkConfig {
        queue: Queueing::DropTail(queue),
        mtu,
        loss: if loss > 0.0 {
            Loss::Uniform(loss)
        } else {
            Loss::None
        },
        ..LinkConfig::new(BitRate::from_bits_per_second(mbps * 1_000_000), DELAY)
    };
    let payload = cell.size.0 * kilobyte;
    let policy = cell
        .policy
        .parse::<larder_policy::Spec>()
        .map_err(Error::from_cause)?;
    let capacity = Capacity::Packets(CACHED_OBJECTS);
    let config = NodeConfig {
        policy,
        capacity,
        max_packet_bytes: 1 << 20,
        ..NodeConfig::default()
    };
    let topology = Topology::dumbbell(2, &link(EDGE_MBPS), &link(cell.backbone_mbps));
    topology
        .build(&mut network, |_| config.clone())
        .map_err(Error::from_cause)?;
    if config.policy.needs_path() {
        network.share_path_positions();
    }

    let prefix = |pair: usize| -> Name {
        let mut prefix = Name::root();
        prefix.push_generic(format!("p{pair}").as_bytes());
        prefix
    };
    let mut consumers = Vec::new();
    for pair in 0..2 {
        let [consumer, producer] = ["c", "p"].map(|kind| network.node(&format!("{kind}{pair}")));
        let (Some(consumer), Some(producer)) = (consumer, producer) else {
            continue;
        };
        let answers = ProducerConfig {
            payload: Payload::Content(payload as usize),
            freshness: None,
        };
        let answers = network.add_app(producer, Box::new(Producer::new(answers)));
        network
            .serve(&prefix(pair), answers)
            .map_err(Error::from_cause)?;
        let asks = CbrConfig {
            frequency: cell.size.1,
            randomize,
            names: Names::Popularity(ZipfMandelbrot::new(CATALOGUE, skew.0, skew.1)),
            lifetime: None,
            ..CbrConfig::new(prefix(if shared { 0 } else { pair }))
        };
        let asks = Cbr::new(asks, network.streams().stream(&format!("consumer {pair}")));
        consumers.push(network.add_app(consumer, Box::new(asks)));
    }
    Ok((network, consumers))
}

fn outcome(network: &Simulation, consumers: &[AppId], end: Time) -> Outcome {
    let (mut hits, mut lookups, mut asked, mut interests, mut data, mut delay) =
        (0, 0, 0, 0, 0, 0.0);
    for app in consumers {
        let (node, face) = network.place_of(*app);
        let stats = network.forwarder(node).stats();
        hits += stats.content_store.hits;
        lookups += stats.content_store.hits + stats.content_store.misses;
        let faces = network.forwarder(node).face_stats();
        asked += faces
            .iter()
            .filter(|stats| stats.id == face)
            .map(|stats| stats.counters.in_interests)
            .sum::<u64>();
        if let Some(consumer) = network.app::<Cbr>(*app) {
            let counters = consumer.counters();
            interests += counters.interests;
            data += counters.data;
            delay += counters.full_delay;
        }
    }
    let router = network.node("r1");
    let to_consumers = network.channels().filter(|(_, channel)| {
        let (from, to) = channel.ends();
        Some(from) == router && consumers.iter().any(|app| network.place_of(*app).0 == to)
    });
    let bytes: u64 = to_consumers
        .map(|(_, channel)| channel.counters().bytes)
        .sum();
    let (lifetime, lifetime_with_survivors) = router.map_or((f64::NAN, f64::NAN), |router| {
        let forwarder = network.forwarder(router);
        let counters = forwarder.stats().content_store;
        let (ages, count) = forwarder
            .ages_of_stored(end)
            .fold((0.0, 0u64), |(ages, count), age| {
                (ages + age.as_secs_f64(), count + 1)
            });
        let evicted = counters.evicted_ages.as_secs_f64();
        (
            evicted / counters.evictions as f64,
            (evicted + ages) / (counters.evictions + count) as f64,
        )
    });
    let ratio = |part: u64, whole: u64| part as f64 / whole as f64;
    Outcome {
        hit_ratio: ratio(hits, asked),
        hit_ratio_of_lookups: ratio(hits, lookups),
        delivered: ratio(data, interests),
        mbps: bytes as f64 * 8.0 / 1e6 / end.as_secs_f64() / consumers.len() as f64,
        delay_ms: delay / data as f64 * 1e3,
        lifetime,
        lifetime_with_survivors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rows, Unwatched};

    /// Failure: half an hour of work is computed again, or a run without evictions is, because its
    /// lifetime is NaN.
    #[test]
    fn a_finished_run_is_computed_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.jsonl");
        let cell = Cell {
            size: RATES[3],
            policy: "lru",
            backbone_mbps: 60,
            reading: READING,
            seconds: 1,
            seed: 1,
        };
        let run_once = |rows: &Rows| {
            let request = Request::quick(&super::super::PAPER, rows);
            run_all(&[cell], 2, "two runs", &request, &Unwatched)
                .unwrap()
                .concat()
        };
        let first = run_once(&Rows::open(&path, false).unwrap());
        assert!(
            first
                .iter()
                .all(|run| run.lifetime.is_nan() && run.mbps > 1.0),
            "{first:?}"
        );
        let kept = std::fs::read_to_string(&path).unwrap();
        let again = run_once(&Rows::open(&path, true).unwrap());
        // The last bit of a stored number may differ.
        let is_near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-12;
        for (again, first) in again.iter().zip(&first) {
            assert!(
                again.lifetime.is_nan()
                    && is_near(again.mbps, first.mbps)
                    && is_near(again.delay_ms, first.delay_ms)
            );
        }
        assert_eq!(again.len(), 2);
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            kept,
            "two rows, and no more"
        );
    }

    /// Four claims of ndnSIM's run expect that nothing is delivered.
    #[test]
    fn a_network_that_does_nothing_is_measured() {
        let outcome = |delivered| Outcome {
            delivered,
            ..Outcome::default()
        };
        assert_eq!(
            outcome(0.0).check(7),
            Ok(()),
            "the queues dropped all of it"
        );
        assert_eq!(outcome(0.5).check(0), Ok(()));
        assert!(
            outcome(0.0)
                .check(0)
                .unwrap_err()
                .contains("nothing was delivered")
        );
        assert!(
            outcome(f64::NAN)
                .check(7)
                .unwrap_err()
                .contains("no Interest")
        );
        let silent = Cell {
            size: RATES[0],
            policy: "lru",
            backbone_mbps: 60,
            reading: READING,
            seconds: 0,
            seed: 1,
        };
        let rows = Rows::default();
        let request = Request::quick(&super::super::PAPER, &rows);
        let error = run_all(&[silent], 1, "silence", &request, &Unwatched)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("delivered") || error.contains("no Interest"),
            "{error}"
        );
    }
}
