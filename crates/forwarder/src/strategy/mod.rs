//! Forwarding strategies: to which next hops an Interest goes, and what a Nack means. One file a strategy.
//!
//! A strategy decides by calling [`Decision::send`] and [`Decision::refuse`]; what it remembers of one Interest is in its [`PitEntry`].

mod best_route;
mod multicast;

use crate::face::{FaceId, Faces};
use crate::pit::{OutRecord, PitEntry};
use crate::rib::NextHop;
use larder_packet::NackReason;
use larder_units::Time;
use std::time::Duration;

/// How Interests are forwarded under a prefix.
pub trait Strategy: Send + Sync {
    /// An Interest that the Content Store did not answer; its in-record is in the entry already.
    fn on_interest(&self, decision: &mut Decision<'_>);

    /// An upstream refused; its out-record is marked already.
    fn on_nack(&self, decision: &mut Decision<'_>);
}

/// A strategy by its short name.
pub(crate) struct StrategyEntry {
    /// The name in a configuration.
    pub(crate) name: &'static str,
    /// The name in the NFD management protocol.
    pub(crate) uri: &'static str,
    pub(crate) strategy: &'static dyn Strategy,
}

/// Every strategy; the first is the default of `/`.
pub(crate) static STRATEGIES: &[StrategyEntry] = &[best_route::ENTRY, multicast::ENTRY];

/// The strategy called so: `best-route`, or its name in the NFD management protocol, `/localhost/nfd/strategy/best-route/v=5`, with or
/// without the version. `None` where there is none; [`strategy_names`] lists them.
pub fn strategy_by_name(name: &str) -> Option<&'static dyn Strategy> {
    let same = |entry: &&StrategyEntry| {
        name == entry.name
            || name == entry.uri
            || entry.uri.rsplit_once("/v=").is_some_and(|(unversioned, _)| unversioned == name)
    };
    STRATEGIES.iter().find(same).map(|entry| entry.strategy)
}

/// The short names of all strategies.
pub fn strategy_names() -> impl Iterator<Item = &'static str> {
    STRATEGIES.iter().map(|entry| entry.name)
}

/// What a strategy sees of one Interest, and says.
pub struct Decision<'a> {
    pub(crate) now: Time,
    /// The face of the Interest or of the Nack.
    pub(crate) from: FaceId,
    pub(crate) entry: &'a mut PitEntry,
    pub(crate) next_hops: &'a [NextHop],
    pub(crate) faces: &'a Faces,
    pub(crate) nonce: u32,
    pub(crate) hop_limit: Option<u8>,
    pub(crate) lifetime: Duration,
    /// Local faces only: `/localhost`, and `/localhop` from afar.
    pub(crate) local_only: bool,
    pub(crate) send_to: &'a mut Vec<FaceId>,
    pub(crate) refused: &'a mut Option<NackReason>,
}

impl Decision<'_> {
    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The face that the Interest or the Nack came from.
    pub fn from(&self) -> FaceId {
        self.from
    }

    /// The pending Interest.
    pub fn entry(&mut self) -> &mut PitEntry {
        self.entry
    }

    /// The next hops that may be used, cheapest first: scope is respected, the packet does not go back to where it came from, and nobody
    /// is asked for what he alone asks for.
    pub fn next_hops(&self) -> impl Iterator<Item = NextHop> + '_ {
        self.next_hops.iter().copied().filter(|hop| self.may_use(hop.face))
    }

    fn may_use(&self, face: FaceId) -> bool {
        let Some(config) = self.faces.get(face) else { return false };
        if face == self.from || (self.local_only && !config.is_local()) {
            return false;
        }
        // Somebody else than this next hop waits for the Data.
        self.entry.in_records.iter().any(|record| record.face != face && record.expires > self.now)
    }

    /// Sends the Interest to this next hop.
    pub fn send(&mut self, face: FaceId) {
        let record = OutRecord {
            face,
            nonce: self.nonce,
            hop_limit: self.hop_limit,
            sent: self.now,
            expires: self.now + self.lifetime,
            nacked: None,
        };
        match self.entry.out_records.iter_mut().find(|out| out.face == face) {
            Some(old) => *old = record,
            None => self.entry.out_records.push(record),
        }
        self.send_to.push(face);
    }

    /// Refuses the Interest to everyone who waits.
    pub fn refuse(&mut self, reason: NackReason) {
        *self.refused = Some(reason);
    }

    /// Refuses if every upstream that was asked has refused, with the least severe of their reasons.
    pub fn refuse_if_all_refused(&mut self) {
        let waiting = |out: &&OutRecord| out.nacked.is_none() && out.expires > self.now;
        if self.entry.out_records.iter().any(|out| waiting(&out)) {
            return;
        }
        let reasons = self.entry.out_records.iter().filter_map(|out| out.nacked);
        let reason = reasons.min_by_key(|reason| severity(*reason)).unwrap_or(NackReason::NoRoute);
        self.refuse(reason);
    }

    /// Whether this Interest repeats one that was forwarded so lately that it must wait.
    ///
    /// NFD's exponential suppression: after 10 ms, and twice the time after each forwarded repetition up to 250 ms, one repetition is
    /// forwarded.
    pub fn suppressed(&mut self) -> bool {
        let last = self.entry.out_records.iter().filter(|out| out.expires > self.now).map(|out| out.sent).max();
        let Some(last) = last else {
            self.entry.suppression = SUPPRESSION_FIRST;
            return false;
        };
        if self.now.since(last) < self.entry.suppression {
            return true;
        }
        self.entry.suppression = (self.entry.suppression * 2).min(SUPPRESSION_MOST);
        false
    }
}

/// Congestion before Duplicate before NoRoute: their codes grow so. No reason at all is the worst (ndn-cxx, `isLessSevere`).
fn severity(reason: NackReason) -> u64 {
    match reason {
        NackReason::None => u64::MAX,
        other => other.code(),
    }
}

const SUPPRESSION_FIRST: Duration = Duration::from_millis(10);
const SUPPRESSION_MOST: Duration = Duration::from_millis(250);
