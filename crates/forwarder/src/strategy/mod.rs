//! Forwarding strategies: to which next hops an Interest goes, and what a Nack means. One file a
//! strategy.
//!
//! A strategy decides by calling [`Decision::send`] and [`Decision::refuse`]; what it remembers of
//! one Interest is in its [`PitEntry`], what it remembers of the names under its prefix is its own.

mod asf;
mod best_route;
mod fair_rate;
mod hobhis;
mod multicast;
mod named;
mod random;
mod stateful;
mod suppression;
mod token_bucket;

use crate::face::{FaceId, Faces, LinkType};
use crate::limits::RECORDS_PER_ENTRY;
use crate::tables::pit::{OutRecord, PitEntry};
use crate::tables::rib::NextHop;
use bytes::Bytes;
use larder_packet::NackReason;
use larder_units::{Stream, Time};
use std::time::Duration;

pub(crate) use named::Instance;
pub use named::{StrategyError, strategy_by_name, strategy_names};

/// How Interests are forwarded under a prefix.
pub trait Strategy: Send {
    /// An Interest that the Content Store did not answer; its in-record is in the entry already.
    fn on_interest(&mut self, decision: &mut Decision<'_>);

    /// An upstream refused; its out-record is marked already.
    fn on_nack(&mut self, decision: &mut Decision<'_>);

    /// Whether it wants to be told by the two below. Looking it up costs each Data a little.
    fn measures(&self) -> bool {
        false
    }

    /// `from` answered the pending Interest. What it returns goes downstream with the Data.
    fn on_data(&mut self, _now: Time, _from: FaceId, _entry: &PitEntry) -> Feedback {
        Feedback::default()
    }

    /// Nobody answered it in time.
    fn on_expiry(&mut self, _now: Time, _entry: &PitEntry) {}

    /// Whether it holds Interests back ([`Decision::hold`]), and wants to be asked by the two
    /// below.
    fn holds(&self) -> bool {
        false
    }

    /// When [`Strategy::release`] must be called next.
    fn next_release(&self) -> Option<Time> {
        None
    }

    /// Lets those go whose time has come, one after the other. `send` says whether the Interest
    /// went: one that was answered meanwhile, or that nobody waits for any more, does not.
    fn release(&mut self, _now: Time, _send: &mut dyn FnMut(HeldInterest) -> bool) {}

    /// The face is gone, and its number never comes again.
    fn forget(&mut self, _face: FaceId) {}

    /// What an operator may want to see of it.
    fn gauges(&self, _now: Time) -> Vec<StrategyGauge> {
        Vec::new()
    }
}

/// What a strategy tells the consumers of a Data, beside the Data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// The way to the producer is congested (NDNLPv2 CongestionMark).
    pub mark: bool,
    /// Interests a second that this forwarder grants; the least on the path reaches the consumer.
    pub rate: Option<u64>,
}

/// An Interest that a strategy holds back.
#[derive(Debug)]
pub struct HeldInterest {
    pub(crate) packet: Bytes,
    /// The face it came from.
    pub(crate) from: FaceId,
    /// The next hop that it waits for.
    pub(crate) to: FaceId,
    pub(crate) mark: Option<u64>,
}

/// A figure that a strategy reports of one of its next hops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StrategyGauge {
    /// What it is, with its unit.
    pub name: &'static str,
    /// Of which next hop.
    pub face: FaceId,
    /// The figure.
    pub value: f64,
}

/// A strategy by its short name.
pub(crate) struct StrategyEntry {
    /// The name in a configuration, and the component of the name in the NFD management protocol.
    pub(crate) name: &'static str,
    /// The version that NFD gives to what this does.
    pub(crate) version: u64,
    /// Makes one with these parameters.
    pub(crate) build: Build,
}

/// Makes a strategy, or says what is wrong with its parameters. The random stream is this
/// strategy's own.
pub(crate) type Build = fn(&mut Parameters<'_>, Stream) -> Result<Box<dyn Strategy>, String>;

/// Every strategy; the first is the default of `/`.
pub(crate) static STRATEGIES: &[StrategyEntry] =
    &[best_route::ENTRY, multicast::ENTRY, asf::ENTRY, random::ENTRY, stateful::ENTRY, hobhis::ENTRY];

/// The parameters in a strategy's name: components `KEY~VALUE` behind the version.
pub(crate) struct Parameters<'a> {
    pub(crate) left: Vec<(&'a str, &'a str)>,
}

impl Parameters<'_> {
    /// The value of `key`, a whole number; `default` where it is not given.
    pub(crate) fn number(&mut self, key: &str, default: u64) -> Result<u64, String> {
        let Some(at) = self.left.iter().position(|(name, _)| *name == key) else { return Ok(default) };
        let (_, value) = self.left.remove(at);
        value.parse().map_err(|_| format!("{key}~{value}: the value is no whole number"))
    }

    /// Which of these words the value of `key` is; the first where it is not given.
    pub(crate) fn choice(&mut self, key: &str, words: &[&str]) -> Result<usize, String> {
        let Some(at) = self.left.iter().position(|(name, _)| *name == key) else { return Ok(0) };
        let (_, value) = self.left.remove(at);
        let found = words.iter().position(|word| *word == value);
        found.ok_or_else(|| format!("{key}~{value}: the value is one of {}", words.join(", ")))
    }

    /// The value of `key` in milliseconds.
    pub(crate) fn millis(&mut self, key: &str, default: Duration) -> Result<Duration, String> {
        self.number(key, default.as_millis() as u64).map(Duration::from_millis)
    }
}

/// What a strategy sees of one Interest, and says.
pub struct Decision<'a> {
    pub(crate) now: Time,
    /// The face of the Interest or of the Nack.
    pub(crate) from: FaceId,
    /// The Interest, as it is sent on.
    pub(crate) packet: &'a [u8],
    /// Its congestion mark.
    pub(crate) mark: Option<u64>,
    pub(crate) entry: &'a mut PitEntry,
    pub(crate) next_hops: &'a [NextHop],
    pub(crate) faces: &'a Faces,
    pub(crate) nonce: u32,
    pub(crate) hop_limit: Option<u8>,
    pub(crate) lifetime: Duration,
    /// Local faces only: `/localhost`, and `/localhop` from afar.
    pub(crate) local_only: bool,
    /// Faces, with another nonce than the Interest's where it is to have one.
    pub(crate) send_to: &'a mut Vec<(FaceId, Option<u32>)>,
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

    /// The next hops that may be used, cheapest first: scope is respected, the packet does not go
    /// back to where it came from, and nobody is asked for what he alone asks for. An ad-hoc link
    /// is many: what came from one of them may go to the others.
    pub fn next_hops(&self) -> impl Iterator<Item = NextHop> + '_ {
        self.next_hops.iter().copied().filter(|hop| self.may_use(hop.face))
    }

    fn may_use(&self, face: FaceId) -> bool {
        let Some(config) = self.faces.get(face) else { return false };
        let is_ad_hoc = config.config.link_type == LinkType::AdHoc;
        if (face == self.from && !is_ad_hoc) || (self.local_only && !config.is_local()) {
            return false;
        }
        // Somebody else than this next hop waits for the Data.
        self.entry
            .in_records
            .iter()
            .any(|record| (record.face != face || is_ad_hoc) && !record.expires.has_passed(self.now))
    }

    /// What was sent to this face for this Interest.
    pub fn tried(&self, face: FaceId) -> Option<&OutRecord> {
        self.entry.out_records.iter().find(|out| out.face == face)
    }

    /// What the FIB entry of the name is known by: a keyed hash of its prefix.
    pub fn namespace(&self) -> u64 {
        self.entry.namespace
    }

    /// Whether nobody has been asked for this, or has had time enough to answer.
    pub fn is_new(&self) -> bool {
        self.entry.out_records.iter().all(|out| out.expires.has_passed(self.now))
    }

    /// Whether this next hop is an application, and not a link.
    pub fn is_local(&self, face: FaceId) -> bool {
        self.faces.get(face).is_some_and(|face| face.is_local())
    }

    /// Whether somebody who was asked may still answer.
    pub fn is_waiting(&self) -> bool {
        let is_there = |face| face == FaceId::CONTENT_STORE || self.faces.get(face).is_some();
        self.entry
            .out_records
            .iter()
            .any(|out| out.nacked.is_none() && !out.expires.has_passed(self.now) && is_there(out.face))
    }

    /// Sends the Interest to this next hop; to no more than [`RECORDS_PER_ENTRY`].
    pub fn send(&mut self, face: FaceId) {
        if self.note(face, self.nonce) {
            self.send_to.push((face, None));
        }
    }

    /// Holds the Interest back for this next hop: what is returned is the strategy's to let go
    /// ([`Strategy::release`]).
    pub fn hold(&mut self, face: FaceId) -> Option<HeldInterest> {
        if !self.note(face, self.nonce) {
            return None;
        }
        let record = self.entry.out_records.iter_mut().find(|out| out.face == face)?;
        record.held = true;
        Some(HeldInterest { packet: Bytes::copy_from_slice(self.packet), from: self.from, to: face, mark: self.mark })
    }

    /// Sends the Interest to this next hop with a nonce of its own, so that it is not taken for one
    /// that went round.
    pub fn send_with_nonce(&mut self, face: FaceId, nonce: u32) {
        if self.note(face, nonce) {
            self.send_to.push((face, Some(nonce)));
        }
    }

    /// Whether there was room to remember it: what is not remembered could not be answered.
    fn note(&mut self, face: FaceId, nonce: u32) -> bool {
        let record = OutRecord {
            face,
            nonce,
            hop_limit: self.hop_limit,
            sent: self.now,
            expires: self.now + self.lifetime,
            nacked: None,
            held: false,
        };
        let records = &mut self.entry.out_records;
        match records.iter().position(|out| out.face == face) {
            Some(known) => records[known] = record,
            None if records.len() < RECORDS_PER_ENTRY => records.push(record),
            None => return false,
        }
        true
    }

    /// Sends the Interest to the face that the application named, a next hop of its name or not;
    /// scope holds all the same.
    pub(crate) fn send_to_chosen(&mut self, face: FaceId) {
        match self.may_use(face) {
            true => self.send(face),
            false => self.refuse_if_all_refused(),
        }
    }

    /// Refuses the Interest to everyone who waits.
    pub fn refuse(&mut self, reason: NackReason) {
        *self.refused = Some(reason);
    }

    /// Refuses if every upstream that was asked has refused, with the least severe of their
    /// reasons, or if there is none: NoRoute.
    pub fn refuse_if_all_refused(&mut self) {
        if self.is_waiting() {
            return;
        }
        let reasons = self.entry.out_records.iter().filter_map(|out| out.nacked);
        let reason = reasons.min_by_key(|reason| severity(*reason)).unwrap_or(NackReason::NoRoute);
        self.refuse(reason);
    }
}

/// Congestion before Duplicate before NoRoute: their codes grow so. No reason at all is the worst
/// (ndn-cxx, `isLessSevere`).
fn severity(reason: NackReason) -> u64 {
    match reason {
        NackReason::None => u64::MAX,
        other => other.code(),
    }
}
