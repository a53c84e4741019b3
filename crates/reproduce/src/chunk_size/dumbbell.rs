//! One run of the paper's network: two consumers, R1, R2, two producers.

use crate::rows::number_or_nan;
use crate::{Error, Request, Watch, on_all_cores};
use larder_netsim::apps::{Cbr, CbrConfig, Names, Payload, Producer, ProducerConfig, Randomize, ZipfMandelbrot};
use larder_netsim::{AppId, Capacity, Depth, LinkConfig, Loss, NodeConfig, Queueing, Simulation, Topology};
use larder_packet::Name;
use larder_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Table I: packet size in KB, Interests a second of each consumer.
pub(super) const RATES: [(u64, f64); 7] =
    [(5, 900.0), (10, 450.0), (20, 225.0), (40, 112.0), (80, 56.0), (120, 42.0), (160, 28.0)];

/// The backbones' rates, Mbps: "congestion-free" and "mild congestion".
pub(super) const BACKBONES: [(&str, u64); 2] = [("congestion-free", 160), ("mild congestion", 60)];

pub(super) const CATALOGUE: usize = 2000;
pub(super) const CACHED_OBJECTS: u64 = 1000;
const EDGE_MBPS: u64 = 40;
const DELAY: Duration = Duration::from_millis(10);

/// What the paper leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reading {
    pub(super) queue: Depth,
    pub(super) mtu: Option<usize>,
    /// Whether both consumers ask for the same names (of the first producer).
    pub(super) shared: bool,
    pub(super) randomize: Randomize,
    /// Bytes of a KB.
    pub(super) kilobyte: u64,
    /// q and s of Zipf–Mandelbrot.
    pub(super) skew: (f64, f64),
    /// The share of frames that every link loses.
    pub(super) loss: f64,
}

/// The one that ndnSIM 2.8 shares with the paper's text: fragments of 1500 bytes, queues that take
/// them.
pub(super) const READING: Reading = Reading {
    queue: Depth::Packets(1000),
    mtu: Some(1500),
    shared: false,
    randomize: Randomize::None,
    kilobyte: 1000,
    skew: (0.7, 0.7),
    loss: 0.0,
};

/// One run. Its `Debug` text is its key among the finished rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell<'a> {
    /// An entry of [`RATES`], or one like it.
    pub(super) size: (u64, f64),
    pub(super) policy: &'a str,
    pub(super) backbone_mbps: u64,
    pub(super) reading: Reading,
    pub(super) seconds: u64,
    pub(super) seed: u64,
}

/// What a run, or the mean of some, measured; NaN where there is nothing to measure.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Content Store hits of the consumers' nodes over all their Interests: what ndnSIM's CsTracer
    /// counts.
    #[serde(deserialize_with = "number_or_nan")]
    pub(super) hit_ratio: f64,
    /// Hits over look-ups: NFD looks up where nothing is pending only.
    #[serde(deserialize_with = "number_or_nan")]
    pub(super) hit_ratio_of_lookups: f64,
    /// Data that reached an application over Interests sent.
    #[serde(deserialize_with = "number_or_nan")]
    pub(super) delivered: f64,
    /// R1 to a consumer, frames with their headers.
    pub(super) mbps: f64,
    /// From the first Interest to the Data, milliseconds.
    #[serde(deserialize_with = "number_or_nan")]
    pub(super) delay_ms: f64,
    /// Seconds that what R1 evicted had been stored, mean.
    #[serde(deserialize_with = "number_or_nan")]
    pub(super) lifetime: f64,
    /// The same with what was still stored at the end.
    #[serde(deserialize_with = "number_or_nan")]
    pub(super) lifetime_with_survivors: f64,
}

impl Outcome {
    /// The columns of a table, behind those that say which run it is.
    pub(super) const COLUMNS: [&str; 5] = ["hit ratio", "lifetime, evicted / all, s", "Mbps", "delay, ms", "delivered"];

    /// What stands in them.
    pub(super) fn shown(&self) -> [String; 5] {
        let seconds = |value: f64| if value.is_finite() { format!("{value:.2}") } else { "–".to_owned() };
        [
            format!("{:.4}", self.hit_ratio),
            format!("{} / {}", seconds(self.lifetime), seconds(self.lifetime_with_survivors)),
            format!("{:.2}", self.mbps),
            format!("{:.1}", self.delay_ms),
            format!("{:.1} %", self.delivered * 100.0),
        ]
    }

    /// The mean over runs, of the figures that are numbers.
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
    let (sum, count) = values.filter(|value| value.is_finite()).fold((0.0, 0u32), |(s, n), value| (s + value, n + 1));
    sum / f64::from(count)
}

/// Runs each cell with `seeds` seeds, on all cores, but for those that are finished; the runs of a
/// cell stand together.
pub(super) fn run_all(
    cells: &[Cell<'_>],
    seeds: u64,
    what: &str,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Vec<Vec<Outcome>>, Error> {
    // Packets of any size carry the same load.
    let work = |cell: &Cell<'_>| cell.seconds;
    let runs: Vec<Cell<'_>> = cells
        .iter()
        .flat_map(|cell| (0..seeds).map(|run| Cell { seed: cell.seed.wrapping_add(run), ..*cell }))
        .collect();
    watch.begin(what, runs.iter().map(work).sum());
    let outcomes = on_all_cores(runs, |cell| {
        let outcome = request.rows.get_or(&format!("chunk-size {cell:?}"), || run(&cell));
        watch.advance(work(&cell));
        outcome
    });
    let outcomes: Result<Vec<Outcome>, Error> = outcomes.into_iter().collect();
    Ok(outcomes?.chunks(seeds.max(1) as usize).map(<[Outcome]>::to_vec).collect())
}

fn run(cell: &Cell<'_>) -> Result<Outcome, Error> {
    let (mut network, consumers) = build(cell)?;
    let end = Time::from_secs(cell.seconds);
    network.run_until(end).map_err(refused)?;
    Ok(measure(&network, &consumers, end))
}

fn refused(error: impl std::fmt::Display) -> Error {
    Error(error.to_string())
}

fn build(cell: &Cell<'_>) -> Result<(Simulation, Vec<AppId>), Error> {
    let Reading { queue, mtu, shared, randomize, kilobyte, skew, loss } = cell.reading;
    let mut network = Simulation::new(cell.seed);
    let link = |mbps: u64| LinkConfig {
        queue: Queueing::DropTail(queue),
        mtu,
        loss: if loss > 0.0 { Loss::Uniform(loss) } else { Loss::None },
        ..LinkConfig::new(BitRate::from_bits_per_second(mbps * 1_000_000), DELAY)
    };
    let payload = cell.size.0 * kilobyte;
    let policy = cell.policy.parse::<larder_policy::Spec>().map_err(refused)?;
    let capacity = Capacity::Packets(CACHED_OBJECTS);
    let config = NodeConfig { policy, capacity, max_packet_bytes: 1 << 20, ..NodeConfig::default() };
    let topology = Topology::dumbbell(2, &link(EDGE_MBPS), &link(cell.backbone_mbps));
    topology.build(&mut network, |_| config.clone()).map_err(refused)?;
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
        let (Some(consumer), Some(producer)) = (consumer, producer) else { continue };
        let answers = ProducerConfig { payload: Payload::Content(payload as usize), freshness: None };
        let answers = network.add_app(producer, Box::new(Producer::new(answers))).map_err(refused)?;
        network.serve(&prefix(pair), answers).map_err(refused)?;
        let asks = CbrConfig {
            frequency: cell.size.1,
            randomize,
            names: Names::Popularity(ZipfMandelbrot::new(CATALOGUE, skew.0, skew.1)),
            lifetime: None,
            ..CbrConfig::new(prefix(if shared { 0 } else { pair }))
        };
        let asks = Cbr::new(asks, network.streams().stream(&format!("consumer {pair}")));
        consumers.push(network.add_app(consumer, Box::new(asks)).map_err(refused)?);
    }
    Ok((network, consumers))
}

fn measure(network: &Simulation, consumers: &[AppId], end: Time) -> Outcome {
    let (mut hits, mut lookups, mut asked, mut interests, mut data, mut delay) = (0, 0, 0, 0, 0, 0.0);
    for app in consumers {
        let (node, face) = network.place_of(*app);
        let stats = network.forwarder(node).stats();
        hits += stats.content_store.hits;
        lookups += stats.content_store.hits + stats.content_store.misses;
        let faces = network.forwarder(node).face_stats();
        asked += faces.iter().filter(|stats| stats.id == face).map(|stats| stats.counters.in_interests).sum::<u64>();
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
    let bytes: u64 = to_consumers.map(|(_, channel)| channel.counters().bytes).sum();
    let (lifetime, lifetime_with_survivors) = router.map_or((f64::NAN, f64::NAN), |router| {
        let forwarder = network.forwarder(router);
        let counters = forwarder.stats().content_store;
        let (ages, count) =
            forwarder.ages_of_stored(end).fold((0.0, 0u64), |(ages, count), age| (ages + age.as_secs_f64(), count + 1));
        let evicted = counters.evicted_ages.as_secs_f64();
        (evicted / counters.evictions as f64, (evicted + ages) / (counters.evictions + count) as f64)
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

    /// Failure: half an hour is computed again, or a run without evictions is, since its lifetime
    /// is no number.
    #[test]
    fn a_finished_run_is_computed_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.jsonl");
        let cell = Cell { size: RATES[3], policy: "lru", backbone_mbps: 60, reading: READING, seconds: 1, seed: 1 };
        let run_once = |rows: &Rows| {
            let request = Request::quick(&super::super::PAPER, rows);
            run_all(&[cell], 2, "two runs", &request, &Unwatched).unwrap().concat()
        };
        let first = run_once(&Rows::open(&path, false).unwrap());
        assert!(first.iter().all(|run| run.lifetime.is_nan() && run.mbps > 1.0), "{first:?}");
        let kept = std::fs::read_to_string(&path).unwrap();
        let again = run_once(&Rows::open(&path, true).unwrap());
        // Of what is read, the last bit may be another.
        let is_near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-12;
        for (again, first) in again.iter().zip(&first) {
            assert!(
                again.lifetime.is_nan() && is_near(again.mbps, first.mbps) && is_near(again.delay_ms, first.delay_ms)
            );
        }
        assert_eq!(again.len(), 2);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), kept, "two rows, and no more");
    }
}
