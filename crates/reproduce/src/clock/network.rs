//! The paper's network: pairs of consumer and producer at the ends of a dumbbell (figs. 2 and 7),
//! and what one run of it gives.

use super::consumer::{Consumer, Timeline};
use crate::{Error, Request, Watch, on_all_cores};
use larder_netsim::apps::{Payload, Producer, ProducerConfig};
use larder_netsim::{
    AppId, Capacity, CoDel, ConfigError, Depth, LinkConfig, NodeConfig, Queueing, Simulation, Topology,
};
use larder_packet::Name;
use larder_transfer::{Clock, CongestionSpec};
use larder_units::{BitRate, ByteSize, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Bytes of a Data in all: with headers on top, Table I's first figure would be 8.62.
const DATA_BYTES: usize = 1250;

/// Bytes of an Interest, which the paper does not state, without the component that tells pairs
/// apart.
const INTEREST_REST: usize = 20;

/// In sections III and IV: with 60 an independent simulation's Nacks come closest to the paper's.
/// Where every Interest in a burst counts, it matters: Table I at 100 ms has 19 Nacks with 42
/// bytes.
pub(super) const LARGE_INTEREST: usize = 60;

/// In section V: what the independent simulation had of which there are figures for several pairs.
/// It matters there too: two pairs at a tick of 10 ms get 20 to 23 Mb/s with 42 bytes, 25 to 27
/// with 60, for so many tokens leak while a burst comes in.
pub(super) const SMALL_INTEREST: usize = 42;

/// Of every link (figs. 2 and 7).
const DELAY: Duration = Duration::from_millis(50);

/// How long a run is (sections III.B and V.B).
const SECONDS: u64 = 10;

/// How often the depth of the consumer's bucket is looked at: ticks are multiples of it.
const DEPTH_STEP: Duration = Duration::from_millis(10);

/// One run. Its `Debug` text is its key among the finished rows.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) pairs: usize,
    /// Interests a second that a link's Data take: 1000 is 10 Mb/s.
    pub(super) line_rate: u64,
    /// Bytes.
    pub(super) interest: usize,
    /// The strategy of every node, as `set_strategy` takes it.
    pub(super) strategy: Name,
    /// Whether links mark Data by CoDel; else they drop the last of 100 packets.
    pub(super) marks: bool,
    pub(super) congestion: CongestionSpec,
    pub(super) clock: Clock,
    /// Whether its timeline is noted, and the depth of its bucket: for figures over time.
    pub(super) is_drawn: bool,
    pub(super) seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Mb/s of the segments that each pair asked for: the paper's Tables I and II.
    pub(super) asked: Vec<f64>,
    /// Mb/s of the segments that each pair received: the paper's section V.
    pub(super) received: Vec<f64>,
    /// Nacks that consumers got.
    pub(super) nacks: u64,
    /// Packets that queues of links dropped.
    pub(super) drops: u64,
    /// The first consumer's timeline, where it is drawn.
    pub(super) timeline: Timeline,
    /// Seconds, and Interests in the first consumer's bucket, where there is one and it is drawn.
    pub(super) depth: Vec<(f64, f64)>,
}

impl Outcome {
    /// Mb/s of all pairs that were asked for.
    pub(super) fn total_asked(&self) -> f64 {
        self.asked.iter().sum()
    }

    /// Mb/s of all pairs that arrived.
    pub(super) fn total(&self) -> f64 {
        self.received.iter().sum()
    }

    /// Jain's index of the pairs' throughputs: 1 where all have the same, 1/n where one has
    /// everything.
    pub(super) fn fairness(&self) -> f64 {
        let squares: f64 = self.received.iter().map(|rate| rate * rate).sum();
        self.total().powi(2) / (self.received.len() as f64 * squares).max(f64::MIN_POSITIVE)
    }
}

/// The outcomes of all runs, in their order, on all cores but for those that are finished.
///
/// # Errors
/// [`Error`] where a network cannot be made.
pub(super) fn outcomes(runs: Vec<Run>, request: &Request<'_>, watch: &dyn Watch) -> Result<Vec<Outcome>, Error> {
    let outcomes = on_all_cores(runs, |run| {
        let outcome = request.rows.get_or(&format!("clock {run:?}"), || run.outcome());
        watch.advance(1);
        outcome
    });
    outcomes.into_iter().collect()
}

/// A clock with a tick of so many milliseconds; 0 is fine.
pub(super) fn clock(tick_ms: u64, smoothing: bool) -> Clock {
    Clock { tick: Duration::from_millis(tick_ms), smoothing }
}

/// The name of a strategy: `stateful/v=1/rate~1000`, its prefix left out.
pub(super) fn strategy(short: &str) -> Result<Name, Error> {
    larder_forwarder::strategy::strategy_by_name(short).map_err(|error| Error(error.to_string()))
}

/// A congestion control by its spec.
pub(super) fn congestion(spec: &str) -> Result<CongestionSpec, Error> {
    spec.parse().map_err(|error: larder_transfer::CongestionSpecError| Error(error.to_string()))
}

impl Run {
    /// Lets ten seconds pass.
    ///
    /// # Errors
    /// [`Error`] where the network cannot be made.
    pub(super) fn outcome(&self) -> Result<Outcome, Error> {
        let refused = |error: ConfigError| Error(format!("the network of {} pairs: {error}", self.pairs));
        let mut network = Simulation::new(self.seed);
        let consumers = self.build(&mut network).map_err(refused)?;
        let watched = network.place_of(consumers[0]).0;
        let mut depth = Vec::new();
        let (mut now, end) = (Time::ZERO, Time::from_secs(SECONDS));
        while now < end {
            now = if self.is_drawn { now + DEPTH_STEP } else { end };
            network.run_until(now).map_err(|stuck| Error(stuck.to_string()))?;
            if self.is_drawn {
                let gauges = network.forwarder(watched).strategy_gauges(now, &Name::root());
                depth.extend(gauges.first().map(|gauge| (now.as_secs_f64(), gauge.value)));
            }
        }
        let done: Vec<&Consumer> = consumers.iter().filter_map(|id| network.app::<Consumer>(*id)).collect();
        let megabits = |segments: u64| (segments * DATA_BYTES as u64 * 8) as f64 / (1e6 * SECONDS as f64);
        Ok(Outcome {
            asked: done.iter().map(|consumer| megabits(consumer.asked())).collect(),
            received: done.iter().map(|consumer| megabits(consumer.arrived())).collect(),
            nacks: done.iter().map(|consumer| consumer.nacks()).sum(),
            drops: network.channels().map(|(_, channel)| channel.counters().dropped).sum(),
            timeline: done
                .first()
                .filter(|_| self.is_drawn)
                .map_or_else(Timeline::default, |one| one.timeline().clone()),
            depth,
        })
    }

    fn build(&self, network: &mut Simulation) -> Result<Vec<AppId>, ConfigError> {
        let rate = BitRate::from_bits_per_second(self.line_rate * DATA_BYTES as u64 * 8);
        let mut link = LinkConfig::new(rate, DELAY);
        if self.marks {
            link.queue = Queueing::CoDel(CoDel { mark: true, depth: Depth::Packets(100), ..CoDel::default() });
        }
        // Nobody asks for what another has, and ndnSIM's 100 packets are overtaken before anybody
        // asks again: no Content Store.
        let capacity = ByteSize::from_bytes(0);
        let node = NodeConfig {
            strategy: Some(self.strategy.clone()),
            capacity: Capacity::Bytes(capacity),
            ..NodeConfig::default()
        };
        let (nodes, _) = Topology::dumbbell(self.pairs, &link, &link).build(network, |_| node.clone())?;
        let mut consumers = Vec::with_capacity(self.pairs);
        for pair in 0..self.pairs {
            let mut prefix = Name::root();
            let bytes = self.interest - INTEREST_REST;
            prefix.push_generic(format!("{pair:0bytes$}").as_bytes());
            let producer = ProducerConfig { payload: Payload::Packet(DATA_BYTES), freshness: None };
            let producer = network.add_app(nodes[2 + self.pairs + pair], Box::new(Producer::new(producer)))?;
            network.serve(&prefix, producer)?;
            let nonces = network.streams().stream(&format!("nonces of consumer {pair}"));
            let consumer = Consumer::new(prefix, &self.congestion, self.clock, nonces);
            consumers.push(network.add_app(nodes[2 + pair], Box::new(consumer))?);
        }
        Ok(consumers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_the_tables_moves() {
        let strategy = strategy("stateful/v=1/rate~1000/depth~50/leak~quanta").unwrap();
        let congestion = congestion("rate(start=200,most=1000,nack=halve)").unwrap();
        let run = Run {
            pairs: 1,
            line_rate: 1000,
            interest: LARGE_INTEREST,
            strategy,
            marks: false,
            congestion,
            clock: clock(0, false),
            is_drawn: false,
            seed: 1,
        };
        let asked = |run: Run| {
            let outcome = run.outcome().unwrap();
            (outcome.total_asked(), outcome.nacks, outcome.drops)
        };
        assert_eq!(asked(run.clone()), (8.755, 0, 0), "Table I, fine-grained clock");
        assert_eq!(asked(Run { clock: clock(200, false), ..run }), (1.532, 26, 0), "Table I, tick of 200 ms");
    }

    #[test]
    fn an_unfair_share_counts_as_fair() {
        let fairness = |received: &[f64]| Outcome { received: received.to_vec(), ..Outcome::default() }.fairness();
        assert_eq!(fairness(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(fairness(&[3.0, 0.0, 0.0]), 1.0 / 3.0);
        assert_eq!(fairness(&[0.0]), 0.0);
    }
}
