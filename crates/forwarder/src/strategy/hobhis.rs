//! hobhis: hop-by-hop Interest shaping. Interests wait here, so that their Data do not wait, or get
//! lost, before the link back.
//!
//! Source: Rozhnova and Fdida, "An effective hop-by-hop Interest shaping mechanism for CCN
//! communications", NOMEN (INFOCOM workshops) 2012, and "An extended hop-by-hop Interest shaping
//! mechanism for content-centric networking", GLOBECOM 2014 (both recalled; gain, target and the
//! length of the queue are those of the first author's program). A router sends the Interests of a
//! downstream link on at the rate
//!
//! > γ = C + h (B − e) / A
//!
//! with C the Data a second that the link takes, e those that wait for it, B as many as should, A
//! the time from Interest to Data here, h = 0.1. What is more waits in a queue for each
//! conversation (a FIB entry's Interests from this link), and conversations take turns; a full
//! queue refuses (Nack, Congestion). With `report~share` Data tell the consumer its share of γ, as
//! the second paper: the least on the path reaches it, for a congestion control such as `explicit`.
//!
//! Parameters, as components `KEY~VALUE` of the strategy's name, and those of best-route for
//! repeated Interests:
//!
//! | key | value | |
//! | --- | --- | --- |
//! | `rate` | Data a second, 10000 | C: the link's bits a second by those of a Data |
//! | `target` | Data, 50 | B |
//! | `queue` | Interests, 100 | of each conversation |
//! | `report` | `off` or `share` | |
//!
//! Deviations. One γ a link, and turns, in place of a γ a conversation: what one leaves the others
//! take. e is counted here, one more with each Data that this strategy sees, C a second less: a
//! forwarder does not see its host's queues, nor this one what the Content Store answers. γ is a
//! tenth of C at least, and C until the first Data. A is 10 ms at least, and smoothed; 100 ms at
//! least in what is reported, which consumers obey a round trip later, and there Interests that
//! wait count with the Data, so that a standing queue of them drains. The papers drop where this
//! refuses. Consumers of this node are not shaped; next hops are tried by cost. Sizes: C says what
//! a Data is, Interests count alike. O(next hops) an Interest; 140 bytes a link, 60 a conversation,
//! [`MEASURED_NAMESPACES`] of each (what is beyond is not shaped), and [`HELD_INTERESTS`], of which
//! a link has half where it is alone, and n links an (n + 1)th each.

use super::stateful::remembered;
use super::suppression::Suppression;
use super::token_bucket::{Leak, TokenBucket};
use super::{
    Decision, Feedback, HeldInterest, Parameters, Strategy, StrategyEntry, StrategyGauge,
    StrategyParameter,
};
use crate::face::FaceId;
use crate::limits::{HELD_BYTES, HELD_INTERESTS, POLICED_INTERESTS};
use crate::tables::pit::PitEntry;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_packet::NackReason;
use larder_units::Time;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

pub(super) const ENTRY: StrategyEntry = StrategyEntry {
    name: "hobhis",
    version: 1,
    summary: "holds Interests back until their Data have room on the link back",
    parameters: &[
        StrategyParameter {
            name: "rate",
            values: "Data a second",
            default: "10000",
            doc: "the link's bits a second by those of a Data packet",
        },
        StrategyParameter {
            name: "target",
            values: "Data",
            default: "50",
            doc: "how many Data should wait for the link",
        },
        StrategyParameter {
            name: "queue",
            values: "Interests",
            default: "100",
            doc: "the Interests of a conversation that may wait",
        },
        StrategyParameter {
            name: "report",
            values: "off, share",
            default: "off",
            doc: "whether Data tell the consumer its share of the rate",
        },
    ],
    build: |parameters, _| Ok(Box::new(Hobhis::new(parameters)?)),
};

/// h.
const GAIN: f64 = 0.1;

/// The share of C below which γ does not fall: an interval is not looked at again before it ends.
const LEAST_SHARE: f64 = 0.1;

/// The smallest A, here and in reported rates.
const LEAST_RESPONSE: Duration = Duration::from_millis(10);
const LEAST_REPORTED: Duration = Duration::from_millis(100);

/// Conversations that asked within so long share a link: more than the ticks of consumers' clocks.
const CENSUS: Duration = Duration::from_millis(500);

/// The longest delay of the host that is made up for. Interests that became due during a longer
/// sleep are not sent in a burst.
const LATENESS: Duration = Duration::from_millis(10);

struct Hobhis {
    suppression: Suppression,
    rate: f64,
    target: f64,
    queue: usize,
    reports: bool,
    links: HashMap<FaceId, Shaper, FixedState>,
    /// By downstream link and FIB entry.
    conversations: HashMap<(FaceId, u64), Conversation, FixedState>,
    /// Links at which Interests wait, by when the next may go.
    due: BTreeSet<(Time, FaceId)>,
    /// Interests that wait, and their bytes.
    held: usize,
    held_bytes: usize,
}

/// A downstream link.
struct Shaper {
    /// Data that wait for it: e.
    backlog: TokenBucket,
    /// A.
    response: Option<Duration>,
    next_at: Time,
    /// Conversations of which Interests wait, the next to have its turn first.
    turns: VecDeque<u64>,
    waiting: usize,
    /// Bytes of the waiting Interests.
    waiting_bytes: usize,
    /// True if the face is gone and other faces wait for the Data it requested.
    is_gone: bool,
    census: Census,
}

/// Counts the conversations of a link.
struct Census {
    number: u64,
    began: Time,
    seen: u32,
    before: u32,
}

#[derive(Default)]
struct Conversation {
    queue: VecDeque<HeldInterest>,
    /// The census that has counted it.
    counted_in: u64,
}

/// The decision about an Interest.
enum Verdict {
    Goes,
    Waits,
    TooMany,
}

impl Hobhis {
    fn new(parameters: &mut Parameters<'_>) -> Result<Self, String> {
        let rate = parameters.number("rate", 10_000)?;
        let target = parameters.number("target", 50)?;
        let queue = parameters.number("queue", 100)?;
        if !(1..=POLICED_INTERESTS).contains(&rate) || !(1..=POLICED_INTERESTS).contains(&target) {
            return Err(format!("rate and target are 1 to {POLICED_INTERESTS}"));
        }
        if !(1..=HELD_INTERESTS as u64).contains(&queue) {
            return Err(format!("queue is 1 to {HELD_INTERESTS}"));
        }
        Ok(Hobhis {
            rate: rate as f64,
            target: target as f64,
            queue: queue as usize,
            reports: parameters.choice("report", &["off", "share"])? == 1,
            suppression: Suppression::new(parameters)?,
            links: HashMap::default(),
            conversations: HashMap::default(),
            due: BTreeSet::new(),
            held: 0,
            held_bytes: 0,
        })
    }

    /// Decides whether the Interest may be sent now. If so, it has used its turn.
    fn judge(&mut self, decision: &Decision<'_>) -> Verdict {
        let (now, link, namespace) = (decision.now(), decision.from(), decision.namespace());
        if decision.is_local(link) {
            return Verdict::Goes;
        }
        let is_busy = |shaper: &Shaper| shaper.waiting > 0 || shaper.backlog.level(now) > 0.0;
        let Some(shaper) = remembered(&mut self.links, link, is_busy, || {
            Shaper::new(self.rate, now)
        }) else {
            return Verdict::Goes;
        };
        let is_waiting = |conversation: &Conversation| !conversation.queue.is_empty();
        let known = remembered(
            &mut self.conversations,
            (link, namespace),
            is_waiting,
            Conversation::default,
        );
        let Some(conversation) = known else {
            return Verdict::Goes;
        };
        shaper.census.count(&mut conversation.counted_in, now);
        if shaper.waiting == 0 && shaper.next_at <= now {
            shaper.next_at = now + shaper.interval(self.rate, self.target, now);
            return Verdict::Goes;
        }
        // A link may hold as much as is left for the others (Choudhury and Hahne, "Dynamic queue
        // length thresholds for shared-memory packet switches", IEEE/ACM Transactions on Networking
        // 6(2), 1998): whoever floods leaves them room.
        let is_full = conversation.queue.len() >= self.queue
            || shaper.waiting >= HELD_INTERESTS - self.held
            || shaper.waiting_bytes + decision.packet.len()
                > HELD_BYTES.saturating_sub(self.held_bytes);
        if is_full {
            Verdict::TooMany
        } else {
            Verdict::Waits
        }
    }

    /// Puts an Interest into the queue of its conversation, which [`Hobhis::judge`] has made.
    fn keep(&mut self, namespace: u64, held: HeldInterest) {
        let link = held.from;
        let (Some(shaper), Some(conversation)) = (
            self.links.get_mut(&link),
            self.conversations.get_mut(&(link, namespace)),
        ) else {
            return;
        };
        if conversation.queue.is_empty() {
            shaper.turns.push_back(namespace);
        }
        if shaper.waiting == 0 {
            self.due.insert((shaper.next_at, link));
        }
        shaper.waiting += 1;
        shaper.waiting_bytes += held.packet.len();
        self.held += 1;
        self.held_bytes += held.packet.len();
        conversation.queue.push_back(held);
    }

    /// Takes out the Interest whose turn it is at this link.
    fn take(&mut self, link: FaceId) -> Option<HeldInterest> {
        let shaper = self.links.get_mut(&link)?;
        let namespace = shaper.turns.pop_front()?;
        let conversation = self.conversations.get_mut(&(link, namespace))?;
        let held = conversation.queue.pop_front()?;
        if !conversation.queue.is_empty() {
            shaper.turns.push_back(namespace);
        }
        shaper.waiting -= 1;
        shaper.waiting_bytes -= held.packet.len();
        self.held -= 1;
        self.held_bytes -= held.packet.len();
        Some(held)
    }

    fn forget_link(&mut self, link: FaceId) {
        self.conversations.retain(|(of, _), _| *of != link);
        self.links.remove(&link);
    }
}

impl Strategy for Hobhis {
    fn on_interest(&mut self, decision: &mut Decision<'_>) {
        if self.suppression.suppresses(decision) {
            return;
        }
        let Some(hop) = next_hop(decision) else {
            return decision.refuse_if_all_refused();
        };
        if decision.tried(hop).is_some_and(|out| out.held) {
            return;
        }
        match self.judge(decision) {
            Verdict::Goes => decision.send(hop),
            Verdict::Waits => {
                if let Some(held) = decision.hold(hop) {
                    self.keep(decision.namespace(), held);
                }
            }
            // A repetition that finds no room has lost nothing.
            Verdict::TooMany if decision.is_waiting() => {}
            Verdict::TooMany => decision.refuse(NackReason::Congestion),
        }
    }

    fn on_nack(&mut self, decision: &mut Decision<'_>) {
        // It has had its turn.
        let untried = decision
            .next_hops()
            .find(|hop| decision.tried(hop.face).is_none());
        match untried {
            Some(hop) => decision.send(hop.face),
            None => decision.refuse_if_all_refused(),
        }
    }

    fn measures(&self) -> bool {
        true
    }

    fn on_data(&mut self, now: Time, from: FaceId, entry: &PitEntry) -> Feedback {
        let asked = entry
            .out_records
            .iter()
            .find(|out| out.face == from && !out.held);
        let mut rate = None;
        for record in entry
            .in_records
            .iter()
            .filter(|record| !record.expires.has_passed(now))
        {
            let Some(shaper) = self.links.get_mut(&record.face) else {
                continue;
            };
            shaper.on_data(now, asked.map(|out| now.since(out.sent)));
            let share = shaper.share(self.rate, self.target, now);
            rate = Some(rate.map_or(share, |other: u64| other.min(share)));
        }
        Feedback {
            mark: false,
            rate: rate.filter(|_| self.reports),
        }
    }

    fn holds(&self) -> bool {
        true
    }

    fn next_release(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    fn release(&mut self, now: Time, send: &mut dyn FnMut(HeldInterest) -> bool) {
        while let Some((at, link)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.pop_first();
            let went = std::iter::from_fn(|| self.take(link)).any(&mut *send);
            let Some(shaper) = self.links.get_mut(&link) else {
                continue;
            };
            if went {
                let began = at.max(Time::from_nanos(
                    now.nanos().saturating_sub(LATENESS.as_nanos() as u64),
                ));
                shaper.next_at = began + shaper.interval(self.rate, self.target, now);
            }
            if shaper.waiting > 0 {
                self.due.insert((shaper.next_at, link));
            } else if shaper.is_gone {
                self.forget_link(link);
            }
        }
    }

    fn forget(&mut self, face: FaceId) {
        // Interests that wait for a removed upstream are not sent. Interests of a removed
        // downstream are not sent either, unless other faces wait for the same Data.
        match self
            .links
            .get_mut(&face)
            .filter(|shaper| shaper.waiting > 0)
        {
            Some(shaper) => shaper.is_gone = true,
            None => self.forget_link(face),
        }
    }

    fn gauges(&self, now: Time) -> Vec<StrategyGauge> {
        let mut gauges: Vec<_> = (self.links.iter())
            .flat_map(|(face, shaper)| {
                let gauge = |name, value| StrategyGauge {
                    name,
                    face: *face,
                    value,
                };
                [
                    gauge("held, Interests", shaper.waiting as f64),
                    gauge("backlog, Data", shaper.backlog.level(now)),
                ]
            })
            .collect();
        gauges.sort_by_key(|gauge| gauge.face);
        gauges
    }
}

/// The cheapest that has not been tried, or the one that was tried the longest ago.
fn next_hop(decision: &Decision<'_>) -> Option<FaceId> {
    let untried = decision
        .next_hops()
        .find(|hop| decision.tried(hop.face).is_none());
    let tried = || {
        decision
            .next_hops()
            .filter_map(|hop| decision.tried(hop.face))
            .min_by_key(|out| out.sent)
    };
    untried
        .map(|hop| hop.face)
        .or_else(|| tried().map(|out| out.face))
}

impl Shaper {
    fn new(rate: f64, now: Time) -> Self {
        Shaper {
            backlog: TokenBucket::new(Leak::Fluid, rate, f64::INFINITY, now, Duration::ZERO),
            response: None,
            next_at: now,
            turns: VecDeque::new(),
            waiting: 0,
            waiting_bytes: 0,
            is_gone: false,
            census: Census {
                number: 1,
                began: now,
                seen: 0,
                before: 0,
            },
        }
    }

    /// A Data for this link came, so long after its Interest went.
    fn on_data(&mut self, now: Time, response: Option<Duration>) {
        self.backlog.settle(now);
        self.backlog.borrow();
        if let Some(response) = response {
            self.response = Some(
                self.response
                    .map_or(response, |old| (old * 7 + response) / 8),
            );
        }
    }

    /// 1 / γ.
    fn interval(&self, rate: f64, target: f64, now: Time) -> Duration {
        let correction = |response: Duration| {
            GAIN * (target - self.backlog.level(now)) / response.max(LEAST_RESPONSE).as_secs_f64()
        };
        let shaping_rate = rate + self.response.map_or(0.0, correction);
        Duration::from_secs_f64(1.0 / shaping_rate.max(LEAST_SHARE * rate))
    }

    /// Returns the rate of each conversation, in Interests per second.
    fn share(&self, rate: f64, target: f64, now: Time) -> u64 {
        let response = self
            .response
            .unwrap_or_default()
            .max(LEAST_REPORTED)
            .as_secs_f64();
        let excess = self.backlog.level(now) + self.waiting as f64 - target;
        let all = (rate - GAIN * excess / response).max(LEAST_SHARE * rate);
        (all / f64::from(self.census.conversations())).max(1.0) as u64
    }
}

impl Census {
    /// A conversation asks for something; `counted_in` is the census that counted it last.
    fn count(&mut self, counted_in: &mut u64, now: Time) {
        if now.since(self.began) >= CENSUS {
            (self.before, self.seen) = (self.seen, 0);
            self.number += 1;
            self.began = now;
        }
        if std::mem::replace(counted_in, self.number) != self.number {
            self.seen += 1;
        }
    }

    fn conversations(&self) -> u32 {
        self.seen.max(self.before).max(1)
    }
}
