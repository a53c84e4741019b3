//! The paper's network: pairs of consumer and producer at the ends of a dumbbell (fig. 2 and 7),
//! and the outcome of one run of it.

use super::consumer::{Consumer, Course, ROUND_TRIP, Timeline};
use crate::cell::Cell;
use crate::{Error, Watch};
use larder_netsim::apps::{Payload, Producer, ProducerConfig};
use larder_netsim::{
    AppId, Capacity, CoDel, ConfigError, Depth, LinkConfig, NodeConfig, Queueing, Simulation,
    Topology,
};
use larder_packet::Name;
use larder_transfer::{Clock, CongestionSpec};
use larder_units::{BitRate, ByteSize, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The bytes of a whole Data. With headers on top of them, Table I's first value would be 8.62.
const DATA_BYTES: usize = 1250;

/// The bytes of an Interest without the component that distinguishes pairs. The paper does not
/// state them.
const INTEREST_REST: usize = 20;

/// The bytes of an Interest in all tables, from the independent simulation that has results for all
/// of them. The paper does not state them. The size matters because tokens leak while a burst
/// arrives: see [`OTHER_INTERESTS`].
pub(super) const INTEREST: usize = 42;

/// The bytes of an Interest in the tables that show how much the size matters.
pub(super) const OTHER_INTERESTS: [usize; 2] = [24, 60];

/// The delay of every link (fig. 2 and 7).
const DELAY: Duration = Duration::from_millis(50);

/// The time of the end of a run, s (sections III.B and V.B).
pub(super) const SECONDS: u64 = 10;

/// The interval between two readings of the consumer's bucket. Ticks are multiples of it.
const DEPTH_STEP: Duration = Duration::from_millis(10);

/// One run. Its `Debug` text is its key among the finished rows.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) pairs: usize,
    /// The rate of a link, as Interests per second whose Data fill it: 1000 is 10 Mb/s.
    pub(super) line_rate: u64,
    /// The bytes of an Interest.
    pub(super) interest: usize,
    /// The strategy of every node, as `set_strategy` takes it.
    pub(super) strategy: Name,
    /// Whether links mark Data with CoDel. Otherwise each has a drop-tail queue of 100 packets.
    pub(super) marks: bool,
    pub(super) congestion: CongestionSpec,
    pub(super) clock: Clock,
    /// The time at which consumers start. Ticks are multiples of the tick since time zero.
    pub(super) start: Duration,
    /// The time of the end, s.
    pub(super) seconds: u64,
    /// Whether its timeline and the depth of its bucket are recorded, for figures over time.
    pub(super) is_drawn: bool,
    pub(super) seed: u64,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Mb/s of the segments that each pair requested: the paper's Tables I and II.
    pub(super) asked: Vec<f64>,
    /// Mb/s of the segments that each pair received: the paper's section V.
    pub(super) received: Vec<f64>,
    /// The Nacks that consumers received.
    pub(super) nacks: u64,
    /// The packets that links' queues dropped.
    pub(super) drops: u64,
    /// What Data and Nacks did to each consumer's rate.
    pub(super) courses: Vec<Course>,
    /// The first consumer's timeline, if the run is drawn.
    pub(super) timeline: Timeline,
    /// Seconds, and Interests in the first consumer's bucket, if it has one and the run is drawn.
    pub(super) depth: Vec<(f64, f64)>,
}

impl Outcome {
    /// Returns the Mb/s that all pairs together requested.
    pub(super) fn total_asked(&self) -> f64 {
        self.asked.iter().sum()
    }

    /// Returns the Mb/s that all pairs together received.
    pub(super) fn total(&self) -> f64 {
        self.received.iter().sum()
    }

    /// Returns Jain's index of the pairs' throughputs: 1 if all are equal, 1/n if one pair has
    /// everything.
    pub(super) fn fairness(&self) -> f64 {
        let squares: f64 = self.received.iter().map(|rate| rate * rate).sum();
        self.total().powi(2) / (self.received.len() as f64 * squares).max(f64::MIN_POSITIVE)
    }

    /// Returns the mean share of the pairs whose congestion events begin within one round trip of
    /// each other: 1 if all rates fall together, 1/n if one falls at a time; NaN without an event.
    pub(super) fn share_that_falls_together(&self) -> f64 {
        let mut events: Vec<f64> = self
            .courses
            .iter()
            .flat_map(|course| course.events.iter().copied())
            .collect();
        events.sort_by(f64::total_cmp);
        let mut groups = 0;
        let mut first = f64::NEG_INFINITY;
        for event in &events {
            if event - first > ROUND_TRIP.as_secs_f64() {
                (first, groups) = (*event, groups + 1);
            }
        }
        events.len() as f64 / (f64::from(groups) * self.courses.len() as f64)
    }
}

/// Returns a clock with a tick of `tick_ms` milliseconds; 0 is the fine clock.
pub(super) fn clock(tick_ms: u64, smoothing: bool) -> Clock {
    Clock {
        tick: Duration::from_millis(tick_ms),
        smoothing,
    }
}

/// Returns the label of a tick in tables and figures.
pub(super) fn tick_label(tick_ms: u64) -> String {
    if tick_ms == 0 {
        "fine".to_owned()
    } else {
        format!("{tick_ms} ms")
    }
}

/// Returns the name of a strategy from its short form without the prefix: `stateful/v=1/rate~1000`.
pub(super) fn strategy(short: &str) -> Result<Name, Error> {
    larder_forwarder::strategy::strategy_by_name(short).map_err(Error::from_cause)
}

/// Returns the congestion control of a specification.
pub(super) fn congestion(spec: &str) -> Result<CongestionSpec, Error> {
    spec.parse()
        .map_err(|error: larder_transfer::CongestionSpecError| Error::from_cause(error))
}

impl Cell for Run {
    type Row = Outcome;

    fn key(&self, _: u64) -> String {
        format!("clock {self:?}")
    }

    fn units(&self) -> u64 {
        1
    }

    fn measure(&self, _: u64, watch: &dyn Watch) -> Result<Outcome, Error> {
        let outcome = self.outcome();
        watch.advance(1);
        outcome
    }
}

impl Run {
    /// Runs the network.
    ///
    /// # Errors
    /// [`Error`] if the network cannot be built.
    pub(super) fn outcome(&self) -> Result<Outcome, Error> {
        let refused =
            |error: ConfigError| Error(format!("the network of {} pairs: {error}", self.pairs));
        let mut network = Simulation::new(self.seed);
        let consumers = self.build(&mut network).map_err(refused)?;
        let watched = network.place_of(consumers[0]).0;
        let mut depth = Vec::new();
        let (mut now, end) = (Time::ZERO, Time::from_secs(self.seconds));
        while now < end {
            now = if self.is_drawn { now + DEPTH_STEP } else { end };
            network
                .run_until(now)
                .map_err(|stuck| Error(stuck.to_string()))?;
            if self.is_drawn {
                let gauges = network
                    .forwarder(watched)
                    .strategy_gauges(now, &Name::root());
                depth.extend(gauges.first().map(|gauge| (now.as_secs_f64(), gauge.value)));
            }
        }
        let done: Vec<&Consumer> = consumers
            .iter()
            .filter_map(|id| network.app::<Consumer>(*id))
            .collect();
        let megabits =
            |segments: u64| (segments * DATA_BYTES as u64 * 8) as f64 / (1e6 * self.seconds as f64);
        let outcome = Outcome {
            asked: done
                .iter()
                .map(|consumer| megabits(consumer.asked()))
                .collect(),
            received: done
                .iter()
                .map(|consumer| megabits(consumer.arrived()))
                .collect(),
            nacks: done.iter().map(|consumer| consumer.nacks()).sum(),
            drops: network
                .channels()
                .map(|(_, channel)| channel.counters().dropped)
                .sum(),
            courses: done
                .iter()
                .map(|consumer| consumer.course().clone())
                .collect(),
            timeline: done
                .first()
                .filter(|_| self.is_drawn)
                .map_or_else(Timeline::default, |one| one.timeline().clone()),
            depth,
        };
        if outcome.asked.len() < self.pairs || outcome.total() == 0.0 {
            return Err(Error(format!(
                "{self:?}: nothing was delivered to {} of {} pairs",
                done.len(),
                self.pairs
            )));
        }
        Ok(outcome)
    }

    fn build(&self, network: &mut Simulation) -> Result<Vec<AppId>, ConfigError> {
        let rate = BitRate::from_bits_per_second(self.line_rate * DATA_BYTES as u64 * 8);
        let mut link = LinkConfig::new(rate, DELAY);
        if self.marks {
            link.queue = Queueing::CoDel(CoDel {
                mark: true,
                depth: Depth::Packets(100),
                ..CoDel::default()
            });
        }
        // No consumer requests another's Data, and a packet has left ndnSIM's 100 packets before it
        // is requested again: no Content Store.
        let capacity = ByteSize::from_bytes(0);
        let node = NodeConfig {
            strategy: Some(self.strategy.clone()),
            capacity: Capacity::Bytes(capacity),
            ..NodeConfig::default()
        };
        let (nodes, _) =
            Topology::dumbbell(self.pairs, &link, &link).build(network, |_| node.clone())?;
        let mut consumers = Vec::with_capacity(self.pairs);
        for pair in 0..self.pairs {
            let mut prefix = Name::root();
            let bytes = self.interest - INTEREST_REST;
            prefix.push_generic(format!("{pair:0bytes$}").as_bytes());
            let producer = ProducerConfig {
                payload: Payload::Packet(DATA_BYTES),
                freshness: None,
            };
            let producer = network.add_app(
                nodes[2 + self.pairs + pair],
                Box::new(Producer::new(producer)),
            );
            network.serve(&prefix, producer)?;
            let nonces = network
                .streams()
                .stream(&format!("nonces of consumer {pair}"));
            let consumer = Consumer::new(
                prefix,
                &self.congestion,
                self.clock,
                Time::ZERO + self.start,
                nonces,
            );
            consumers.push(network.add_app(nodes[2 + pair], Box::new(consumer)));
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
            interest: INTEREST,
            strategy,
            marks: false,
            congestion,
            clock: clock(0, false),
            start: Duration::ZERO,
            seconds: SECONDS,
            is_drawn: false,
            seed: 1,
        };
        let asked = |run: Run| {
            let outcome = run.outcome().unwrap();
            (outcome.total_asked(), outcome.nacks, outcome.drops)
        };
        assert_eq!(
            asked(run.clone()),
            (8.755, 0, 0),
            "Table I, fine-grained clock"
        );
        assert_eq!(
            asked(Run {
                clock: clock(200, false),
                ..run
            }),
            (1.57, 22, 0),
            "Table I, tick of 200 ms"
        );
    }

    #[test]
    fn pairs_that_fall_alone_count_as_falling_together() {
        let share = |events: &[&[f64]]| {
            let course = |events: &&[f64]| Course {
                events: events.to_vec(),
                ..Course::default()
            };
            Outcome {
                courses: events.iter().map(course).collect(),
                ..Outcome::default()
            }
            .share_that_falls_together()
        };
        assert_eq!(share(&[&[1.0, 4.0], &[1.2, 4.3]]), 1.0);
        assert_eq!(share(&[&[1.0, 4.0], &[2.5, 5.5]]), 0.5);
        assert_eq!(share(&[&[1.0], &[]]), 0.5);
        assert!(share(&[&[], &[]]).is_nan());
    }

    #[test]
    fn an_unfair_share_counts_as_fair() {
        let fairness = |received: &[f64]| {
            Outcome {
                received: received.to_vec(),
                ..Outcome::default()
            }
            .fairness()
        };
        assert_eq!(fairness(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(fairness(&[3.0, 0.0, 0.0]), 1.0 / 3.0);
        assert_eq!(fairness(&[0.0]), 0.0);
    }
}
