//! asf: the next hop that answers fastest, found by measuring (Lehman et al., "An experimental
//! investigation of hyperbolic routing with a smart forwarding plane in NDN", IWQoS 2016: Adaptive
//! Smoothed RTT-based Forwarding; NFD's asf version 5).
//!
//! For each FIB entry that carries traffic, each next hop has a smoothed RTT. A new Interest goes
//! to the fastest; those that were never measured come after the measured ones, those that timed
//! out last, each by cost. Now and then an Interest is also sent to another next hop, as a probe
//! with a nonce of its own: to one that was never measured, else to one drawn by rank (of N ranked
//! ones the i-th with probability 2(N+1-i)/(N(N+1))).
//!
//! Deviation: a next hop has timed out once when the pending Interest ends without its answer, or
//! another answers it when four of its RTTs are over, not at a timer of its own; so a dead one is
//! left after `max-timeouts` lifetimes at most, while repetitions of the Interest go elsewhere at
//! once. A Nack is answered by trying another next hop.
//!
//! O(next hops) an Interest; 48 bytes a FIB entry in use and 40 a next hop of it, at most
//! [`MEASURED_NAMESPACES`] entries of [`MEASURED_NEXT_HOPS`], of which the one first seen makes
//! room. They are told apart by a keyed hash of the prefix: two that collide would share their
//! measurements, and nothing else.

use super::suppression::Suppression;
use super::{Decision, Feedback, Parameters, Strategy, StrategyEntry, StrategyParameter};
use crate::face::FaceId;
use crate::limits::{MEASURED_NAMESPACES, MEASURED_NEXT_HOPS, MEASUREMENT_AGE};
use crate::tables::pit::PitEntry;
use crate::tables::rib::NextHop;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_units::{Stream, Time};
use std::time::Duration;

pub(super) const ENTRY: StrategyEntry = StrategyEntry {
    name: "asf",
    version: 5,
    summary: "sends an Interest to the next hop that answers fastest, and probes the others now and then",
    parameters: &[
        StrategyParameter {
            name: "probing-interval",
            values: "milliseconds",
            default: "60000",
            doc: "the time between two probes of a prefix",
        },
        StrategyParameter {
            name: "max-timeouts",
            values: "a number",
            default: "3",
            doc: "the timeouts in a row after which a next hop is left",
        },
    ],
    build: |parameters, chance| Ok(Box::new(Asf::new(parameters, chance)?)),
};

/// The first probe of a FIB entry comes within this time, the others at `probing-interval`.
const FIRST_PROBE_MS: u64 = 5000;

/// An answer that takes this many times the smoothed RTT has not come.
const LATE: u32 = 4;

struct Asf {
    suppression: Suppression,
    probing_interval: Duration,
    max_timeouts: u64,
    chance: Stream,
    namespaces: HashMap<u64, Namespace, FixedState>,
}

/// The measurements of one prefix.
struct Namespace {
    next_probe: Time,
    used: Time,
    next_hops: Vec<Measured>,
}

struct Measured {
    face: FaceId,
    srtt: Option<Duration>,
    /// Unanswered Interests in a row.
    timeouts: u64,
}

impl Asf {
    fn new(parameters: &mut Parameters<'_>, chance: Stream) -> Result<Self, String> {
        let probing_interval = parameters.millis("probing-interval", Duration::from_secs(60))?;
        let max_timeouts = parameters.number("max-timeouts", 3)?;
        if probing_interval < Duration::from_secs(1) {
            return Err("probing-interval is at least 1000 ms".to_owned());
        }
        if max_timeouts == 0 {
            return Err("max-timeouts is at least 1".to_owned());
        }
        let suppression = Suppression::new(parameters)?;
        Ok(Asf {
            suppression,
            probing_interval,
            max_timeouts,
            chance,
            namespaces: HashMap::default(),
        })
    }

    /// The smaller, the better: class, RTT, cost.
    fn rank(&self, namespace: u64, hop: &NextHop) -> (u8, Duration, u64) {
        let measured = self
            .namespaces
            .get(&namespace)
            .and_then(|known| known.of(hop.face));
        match measured {
            Some(measured) if measured.timeouts >= self.max_timeouts => {
                (2, Duration::ZERO, hop.cost)
            }
            Some(Measured {
                srtt: Some(srtt), ..
            }) => (0, *srtt, hop.cost),
            _ => (1, Duration::ZERO, hop.cost),
        }
    }

    /// Sends to another next hop too, if it is time for that.
    fn probe(&mut self, decision: &mut Decision<'_>, chosen: FaceId) {
        let (namespace, now) = (decision.namespace(), decision.now());
        let first = Duration::from_millis(self.chance.below(FIRST_PROBE_MS));
        let Some(known) = remembered(&mut self.namespaces, namespace, now, first) else {
            return;
        };
        if now < known.next_probe {
            return;
        }
        let mut others: Vec<_> = decision
            .next_hops()
            .filter(|hop| hop.face != chosen)
            .collect();
        if others.is_empty() {
            return;
        }
        known.next_probe = now + self.probing_interval;
        others.sort_by_key(|hop| self.rank(namespace, hop));
        let unmeasured = others.iter().find(|hop| self.rank(namespace, hop).0 == 1);
        let face = match unmeasured {
            Some(hop) => hop.face,
            None => others[self.drawn_rank(others.len())].face,
        };
        decision.send_with_nonce(face, self.chance.bits() as u32);
    }

    /// A rank below `count`, the better ones more often.
    fn drawn_rank(&mut self, count: usize) -> usize {
        let count = count as u64;
        let mut left = self.chance.below(count * (count + 1) / 2);
        let mut rank = 0;
        while left >= count - rank {
            left -= count - rank;
            rank += 1;
        }
        rank as usize
    }

    fn timed_out(&mut self, now: Time, namespace: u64, face: FaceId) {
        if let Some(known) = remembered(&mut self.namespaces, namespace, now, Duration::ZERO) {
            known.entry(face).timeouts += 1;
        }
    }
}

impl Strategy for Asf {
    fn on_interest(&mut self, decision: &mut Decision<'_>) {
        if self.suppression.suppresses(decision) {
            return;
        }
        let namespace = decision.namespace();
        let best = |asf: &Asf, untried: bool| {
            let hops = decision
                .next_hops()
                .filter(|hop| !untried || decision.tried(hop.face).is_none());
            hops.min_by_key(|hop| asf.rank(namespace, hop))
        };
        let is_new = decision.is_new();
        let chosen = if is_new {
            best(self, false)
        } else {
            best(self, true).or_else(|| {
                decision
                    .next_hops()
                    .min_by_key(|hop| decision.tried(hop.face).map(|out| out.sent))
            })
        };
        let Some(chosen) = chosen else {
            return decision.refuse_if_all_refused();
        };
        decision.send(chosen.face);
        if is_new {
            self.probe(decision, chosen.face);
        }
    }

    fn on_nack(&mut self, decision: &mut Decision<'_>) {
        let (namespace, now) = (decision.namespace(), decision.now());
        self.timed_out(now, namespace, decision.from());
        let untried = decision
            .next_hops()
            .filter(|hop| decision.tried(hop.face).is_none());
        match untried.min_by_key(|hop| self.rank(namespace, hop)) {
            Some(hop) => decision.send(hop.face),
            None => decision.refuse_if_all_refused(),
        }
    }

    fn measures(&self) -> bool {
        true
    }

    fn on_data(&mut self, now: Time, from: FaceId, entry: &PitEntry) -> Feedback {
        let told = Feedback::default();
        let Some(out) = entry.out_records.iter().find(|out| out.face == from) else {
            return told;
        };
        let rtt = now.since(out.sent);
        let Some(known) = remembered(&mut self.namespaces, entry.namespace, now, Duration::ZERO)
        else {
            return told;
        };
        let measured = known.entry(from);
        measured.timeouts = 0;
        // RFC 6298, equation 2.3: the new sample has a weight of 1/8.
        measured.srtt = Some(measured.srtt.map_or(rtt, |srtt| (srtt * 7 + rtt) / 8));
        // An upstream that was asked too, and took much longer than ever, did not answer: the
        // pending Interest will not end to tell.
        for out in entry
            .out_records
            .iter()
            .filter(|out| out.face != from && out.nacked.is_none())
        {
            let late = known.entry(out.face);
            if late
                .srtt
                .is_some_and(|srtt| now.since(out.sent) > srtt * LATE)
            {
                late.timeouts += 1;
            }
        }
        told
    }

    fn on_expiry(&mut self, now: Time, entry: &PitEntry) {
        for out in entry.out_records.iter().filter(|out| out.nacked.is_none()) {
            self.timed_out(now, entry.namespace, out.face);
        }
    }
}

impl Namespace {
    fn of(&self, face: FaceId) -> Option<&Measured> {
        self.next_hops.iter().find(|measured| measured.face == face)
    }

    fn entry(&mut self, face: FaceId) -> &mut Measured {
        let at = self
            .next_hops
            .iter()
            .position(|measured| measured.face == face)
            .unwrap_or_else(|| {
                if self.next_hops.len() >= MEASURED_NEXT_HOPS {
                    self.next_hops.remove(0);
                }
                self.next_hops.push(Measured {
                    face,
                    srtt: None,
                    timeouts: 0,
                });
                self.next_hops.len() - 1
            });
        &mut self.next_hops[at]
    }
}

/// Returns the measurements of this namespace. If there are none and there is room, adds an entry
/// that is first probed after `first`.
fn remembered(
    namespaces: &mut HashMap<u64, Namespace, FixedState>,
    namespace: u64,
    now: Time,
    first: Duration,
) -> Option<&mut Namespace> {
    if namespaces.len() >= MEASURED_NAMESPACES && !namespaces.contains_key(&namespace) {
        namespaces.retain(|_, known| now.since(known.used) < MEASUREMENT_AGE);
        if namespaces.len() >= MEASURED_NAMESPACES {
            return None;
        }
    }
    let new = || Namespace {
        next_probe: now + first,
        used: now,
        next_hops: Vec::new(),
    };
    let known = namespaces.entry(namespace).or_insert_with(new);
    known.used = now;
    Some(known)
}
