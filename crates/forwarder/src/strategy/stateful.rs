//! stateful: stateful forwarding with rate limits. A next hop takes Interests as fast as its link
//! can bring their Data back, and what is too much goes to the next one, or is refused at once
//! (Nack, Congestion).
//!
//! Source: Yi et al., "A case for stateful forwarding plane", Computer Communications 36(7), 2013,
//! sections 3 and 4, in the form that Kato et al., "Impacts of system clock granularity on
//! performance of NDN rate-based congestion control", 2018, measured. Each link has a token bucket,
//! and with `fib~each` each FIB entry; an Interest must pass both, the FIB entry's first. Interests
//! are policed, never held back. Next hops are tried by cost. Applications of this node are not
//! limited.
//!
//! Parameters, as components `KEY~VALUE` of the strategy's name:
//!
//! | key | value | |
//! | --- | --- | --- |
//! | `rate` | Interests a second, 10000 | the link's bits a second by those of a Data: 100 Mb/s of 1,250 bytes |
//! | `depth` | Interests, 1000 | how many may come at once: a tenth of a second, as ndnSIM 1.0 |
//! | `leak` | `fluid` or `quanta` | as `token_bucket.rs` says |
//! | `fib` | `none` or `each` | whether each FIB entry has a bucket of its own too, as both papers; its rate is one link's, which several next hops exceed |
//! | `aimd` | `off`, `halve` or `step` | buckets leak one a second faster for each Data; a Nack halves that, or takes one (up to `rate`) |
//! | `mark` | Interests, 0 | Data that come while the link's bucket is fuller carry a congestion mark; 0 is none |
//! | `report` | `off` or `fair` | Data tell the consumer what rate it may have: `fair_rate.rs` |
//!
//! and those of best-route for repeated Interests. Deviation: ndnSIM's next hops have colours and
//! retry counts, here a repetition tries the next hops that have not been tried first. All prefixes
//! of one choice of strategy share its links' buckets; two choices do not. O(next hops) an
//! Interest; 64 bytes a link and as much a FIB entry in use, [`MEASURED_NAMESPACES`] of each: what
//! is beyond is not limited.

use super::fair_rate::FairRate;
use super::suppression::Suppression;
use super::token_bucket::{FIRST_LEAK, Leak, TokenBucket};
use super::{
    Decision, Feedback, Parameters, Strategy, StrategyEntry, StrategyGauge, StrategyParameter,
};
use crate::face::FaceId;
use crate::limits::{MEASURED_NAMESPACES, POLICED_INTERESTS};
use crate::tables::pit::PitEntry;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_packet::NackReason;
use larder_units::{Stream, Time};
use std::hash::Hash;

pub(super) const ENTRY: StrategyEntry = StrategyEntry {
    name: "stateful",
    version: 1,
    summary: "limits the rate of each link to what brings Data back, and refuses the rest with a congestion Nack",
    parameters: &[
        StrategyParameter {
            name: "rate",
            values: "Interests a second",
            default: "10000",
            doc: "the link's bits a second by those of a Data packet",
        },
        StrategyParameter {
            name: "depth",
            values: "Interests",
            default: "1000",
            doc: "how many may come at once",
        },
        StrategyParameter {
            name: "leak",
            values: "fluid, quanta",
            default: "fluid",
            doc: "whether a bucket leaks at every moment, or an Interest at a time",
        },
        StrategyParameter {
            name: "fib",
            values: "none, each",
            default: "none",
            doc: "whether each FIB entry has a bucket of its own too",
        },
        StrategyParameter {
            name: "aimd",
            values: "off, halve, step",
            default: "off",
            doc: "whether Data raise the rate by one, and a Nack halves it or takes one",
        },
        StrategyParameter {
            name: "mark",
            values: "Interests",
            default: "0",
            doc: "the level of the bucket above which Data carry a congestion mark; 0 for none",
        },
        StrategyParameter {
            name: "report",
            values: "off, fair",
            default: "off",
            doc: "whether Data tell the consumer the rate that it may have",
        },
    ],
    build: |parameters, chance| Ok(Box::new(Stateful::new(parameters, chance)?)),
};

struct Stateful {
    suppression: Suppression,
    limit: Limit,
    limits_fib: bool,
    aimd: Aimd,
    /// Level of a link's bucket above which Data are marked.
    mark_above: Option<f64>,
    reports: bool,
    links: HashMap<FaceId, Link, FixedState>,
    flows: HashMap<u64, TokenBucket, FixedState>,
}

/// The parameters of every bucket.
struct Limit {
    rate: f64,
    depth: f64,
    leak: Leak,
    chance: Stream,
}

struct Link {
    bucket: TokenBucket,
    fair: FairRate,
}

/// The effect of Data and Nacks on the rates.
#[derive(Clone, Copy, PartialEq)]
enum Aimd {
    Off,
    Halve,
    Step,
}

impl Stateful {
    fn new(parameters: &mut Parameters<'_>, chance: Stream) -> Result<Self, String> {
        let rate = parameters.number("rate", 10_000)?;
        let depth = parameters.number("depth", 1000)?;
        if !(1..=POLICED_INTERESTS).contains(&rate) || !(1..=POLICED_INTERESTS).contains(&depth) {
            return Err(format!("rate and depth are 1 to {POLICED_INTERESTS}"));
        }
        let leak = [Leak::Fluid, Leak::Quanta][parameters.choice("leak", &["fluid", "quanta"])?];
        let mark = parameters.number("mark", 0)?;
        Ok(Stateful {
            limit: Limit {
                rate: rate as f64,
                depth: depth as f64,
                leak,
                chance,
            },
            limits_fib: parameters.choice("fib", &["none", "each"])? == 1,
            aimd: [Aimd::Off, Aimd::Halve, Aimd::Step]
                [parameters.choice("aimd", &["off", "halve", "step"])?],
            mark_above: (mark > 0).then_some(mark as f64),
            reports: parameters.choice("report", &["off", "fair"])? == 1,
            suppression: Suppression::new(parameters)?,
            links: HashMap::default(),
            flows: HashMap::default(),
        })
    }

    /// Returns true if the buckets of the link and of the FIB entry have room for one more
    /// Interest. It then takes the room.
    fn admits(&mut self, decision: &Decision<'_>, face: FaceId) -> bool {
        if decision.is_local(face) {
            return true;
        }
        let (now, namespace) = (decision.now(), decision.namespace());
        let limit = &mut self.limit;
        let full = |link: &Link| link.bucket.level(now) > 0.0;
        let link = remembered(&mut self.links, face, full, || limit.link(now));
        let full = |flow: &TokenBucket| flow.level(now) > 0.0;
        let mut flow = if self.limits_fib {
            remembered(&mut self.flows, namespace, full, || limit.bucket(now))
        } else {
            None
        };
        if let Some(flow) = &mut flow {
            flow.settle(now);
        }
        let mut room = flow.as_ref().is_none_or(|flow| flow.has_room());
        if let Some(link) = link {
            link.fair.on_interest();
            link.bucket.settle(now);
            room &= link.bucket.has_room();
            if room {
                link.bucket.borrow();
            }
        }
        if let Some(flow) = flow.filter(|_| room) {
            flow.borrow();
        }
        room
    }

    /// The cheapest next hop that has not been tried and has room, which is taken.
    fn untried(&mut self, decision: &Decision<'_>) -> Option<FaceId> {
        let mut untried = decision
            .next_hops()
            .filter(|hop| decision.tried(hop.face).is_none());
        untried
            .find(|hop| self.admits(decision, hop.face))
            .map(|hop| hop.face)
    }

    fn tried_longest_ago(&mut self, decision: &Decision<'_>) -> Option<FaceId> {
        let tried = decision
            .next_hops()
            .filter_map(|hop| decision.tried(hop.face));
        let oldest = tried.min_by_key(|out| out.sent)?.face;
        self.admits(decision, oldest).then_some(oldest)
    }

    /// AIMD on both buckets that an Interest passed.
    fn adapt(&mut self, now: Time, face: FaceId, namespace: u64, change: impl Fn(f64) -> f64) {
        let link = self.links.get_mut(&face).map(|link| &mut link.bucket);
        for bucket in link.into_iter().chain(self.flows.get_mut(&namespace)) {
            bucket.set_rate(now, change(bucket.rate()));
        }
    }
}

impl Strategy for Stateful {
    fn on_interest(&mut self, decision: &mut Decision<'_>) {
        if self.suppression.suppresses(decision) {
            return;
        }
        match self
            .untried(decision)
            .or_else(|| self.tried_longest_ago(decision))
        {
            Some(face) => decision.send(face),
            None if decision.next_hops().next().is_none() => decision.refuse_if_all_refused(),
            // A repetition that finds no room has lost nothing.
            None if decision.is_waiting() => {}
            None => decision.refuse(NackReason::Congestion),
        }
    }

    fn on_nack(&mut self, decision: &mut Decision<'_>) {
        let (now, from, namespace) = (decision.now(), decision.from(), decision.namespace());
        let congested = decision
            .tried(from)
            .is_some_and(|out| out.nacked == Some(NackReason::Congestion));
        match self.aimd {
            Aimd::Halve if congested => self.adapt(now, from, namespace, |rate| rate / 2.0),
            Aimd::Step if congested => self.adapt(now, from, namespace, |rate| rate - 1.0),
            _ => {}
        }
        match self.untried(decision) {
            Some(face) => decision.send(face),
            None => decision.refuse_if_all_refused(),
        }
    }

    fn measures(&self) -> bool {
        self.aimd != Aimd::Off || self.mark_above.is_some() || self.reports
    }

    fn on_data(&mut self, now: Time, from: FaceId, entry: &PitEntry) -> Feedback {
        if self.aimd != Aimd::Off {
            self.adapt(now, from, entry.namespace, |rate| rate + 1.0);
        }
        let asked = entry.out_records.iter().find(|out| out.face == from);
        let Some((link, asked)) = self.links.get_mut(&from).zip(asked) else {
            return Feedback::default();
        };
        let level = link.bucket.level(now);
        Feedback {
            mark: self.mark_above.is_some_and(|above| level > above),
            rate: self
                .reports
                .then(|| link.fair.on_data(now, now.since(asked.sent), level)),
        }
    }

    fn forget(&mut self, face: FaceId) {
        self.links.remove(&face);
    }

    fn gauges(&self, now: Time) -> Vec<StrategyGauge> {
        let mut gauges: Vec<_> = (self.links.iter())
            .map(|(face, link)| StrategyGauge {
                name: "bucket, Interests",
                face: *face,
                value: link.bucket.level(now),
            })
            .collect();
        gauges.sort_by_key(|gauge| gauge.face);
        gauges
    }
}

impl Limit {
    fn bucket(&mut self, now: Time) -> TokenBucket {
        let phase = FIRST_LEAK.mul_f64(self.chance.unit());
        TokenBucket::new(self.leak, self.rate, self.depth, now, phase)
    }

    fn link(&mut self, now: Time) -> Link {
        Link {
            bucket: self.bucket(now),
            fair: FairRate::new(self.rate, now),
        }
    }
}

/// Returns the value of this key, or the one that `new` creates if there is room. An empty bucket
/// may be replaced, because it equals a new one.
pub(super) fn remembered<K: Eq + Hash + Copy, V>(
    known: &mut HashMap<K, V, FixedState>,
    key: K,
    is_full: impl Fn(&V) -> bool,
    new: impl FnOnce() -> V,
) -> Option<&mut V> {
    if known.len() >= MEASURED_NAMESPACES && !known.contains_key(&key) {
        known.retain(|_, value| is_full(value));
        if known.len() >= MEASURED_NAMESPACES {
            return None;
        }
    }
    Some(known.entry(key).or_insert_with(new))
}
