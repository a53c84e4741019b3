//! Forwarding strategies, which select the next hops of an Interest and react to a Nack. Each
//! strategy has its own file.
//!
//! A program can add strategies of its own: it implements [`Strategy`], describes it by a
//! [`StrategyEntry`] and calls `Forwarder::register_strategy`.
//! `tests/failures/registered_strategy.rs` of this crate is an example.
//!
//! A strategy decides by calling [`Decision::send`] and [`Decision::refuse`]; what it remembers of
//! one Interest is in its [`PitEntry`], what it remembers of the names under its prefix is its own.

mod asf;
mod best_route;
mod choices;
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

pub(crate) use choices::StrategyChoices;
pub(crate) use named::Instance;
pub use named::{StrategyError, StrategyRegistry, strategy_by_name, strategy_names};
pub use suppression::Suppression;

/// The rule by which Interests under a prefix are forwarded.
pub trait Strategy: Send {
    /// Decides about an Interest that the Content Store did not answer. Its in-record is already in
    /// the entry.
    fn on_interest(&mut self, decision: &mut Decision<'_>);

    /// Decides about a pending Interest that an upstream refused. Its out-record is already marked.
    fn on_nack(&mut self, decision: &mut Decision<'_>);

    /// Returns true if [`Strategy::on_data`] and [`Strategy::on_expiry`] must be called. The lookup
    /// of the strategy costs a little time for each Data.
    fn measures(&self) -> bool {
        false
    }

    /// Learns that `from` answered the pending Interest. The feedback goes downstream with the
    /// Data.
    fn on_data(&mut self, _now: Time, _from: FaceId, _entry: &PitEntry) -> Feedback {
        Feedback::default()
    }

    /// Learns that no upstream answered the pending Interest in time.
    fn on_expiry(&mut self, _now: Time, _entry: &PitEntry) {}

    /// Returns true if it holds Interests back ([`Decision::hold`]), so that
    /// [`Strategy::next_release`] and [`Strategy::release`] must be called.
    fn holds(&self) -> bool {
        false
    }

    /// Returns the time at which [`Strategy::release`] must be called next.
    fn next_release(&self) -> Option<Time> {
        None
    }

    /// Releases the held Interests that are due, one after the other. `send` returns false if it
    /// did not send the Interest, because it was answered meanwhile or no consumer waits any more.
    fn release(&mut self, _now: Time, _send: &mut dyn FnMut(HeldInterest) -> bool) {}

    /// Forgets a face that was removed. Its number is never used again.
    fn forget(&mut self, _face: FaceId) {}

    /// Returns its figures for operators.
    fn gauges(&self, _now: Time) -> Vec<StrategyGauge> {
        Vec::new()
    }
}

/// The feedback of a strategy to the consumers of a Data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// True if the path to the producer is congested (NDNLPv2 CongestionMark).
    pub mark: bool,
    /// The rate that this forwarder grants, in Interests per second. The consumer gets the lowest
    /// rate of the path.
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
    pub(crate) non_discovery: bool,
}

/// A figure that a strategy reports of one of its next hops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StrategyGauge {
    /// The name of the figure, with its unit.
    pub name: &'static str,
    /// The next hop.
    pub face: FaceId,
    /// The figure.
    pub value: f64,
}

/// A strategy that can be chosen by its short name.
#[derive(Clone, Copy, Debug)]
pub struct StrategyEntry {
    /// The name in a configuration, and the component of the name in the NFD management protocol.
    pub name: &'static str,
    /// The version in the strategy's name. For a strategy of NFD, the version of NFD's strategy
    /// with the same behaviour.
    pub version: u64,
    /// What it does, in a sentence without its end.
    pub summary: &'static str,
    /// Its parameters, apart from those of repeated Interests (`Suppression`).
    pub parameters: &'static [StrategyParameter],
    /// Makes a strategy with these parameters.
    pub build: Build,
}

/// The description of a strategy's parameter.
#[derive(Clone, Copy, Debug)]
pub struct StrategyParameter {
    /// The key of `KEY~VALUE`.
    pub name: &'static str,
    /// The unit of its number, or its words.
    pub values: &'static str,
    /// The value if it is absent.
    pub default: &'static str,
    /// What it sets.
    pub doc: &'static str,
}

/// A function that creates a strategy, or returns what is wrong with its parameters. It must accept
/// no parameters. The random stream belongs to this strategy alone.
pub type Build = fn(&mut Parameters<'_>, Stream) -> Result<Box<dyn Strategy>, String>;

/// The built-in strategies. The first is the default of `/`.
pub(crate) static STRATEGIES: &[StrategyEntry] = &[
    best_route::ENTRY,
    multicast::ENTRY,
    asf::ENTRY,
    random::ENTRY,
    stateful::ENTRY,
    hobhis::ENTRY,
];

/// The parameters in a strategy's name: components `KEY~VALUE` after the version.
///
/// Each method removes the parameter that it returns. A parameter that remains is unknown, and
/// refuses the strategy.
pub struct Parameters<'a> {
    pub(crate) left: Vec<(&'a str, &'a str)>,
}

impl Parameters<'_> {
    /// Returns the value of `key`, a whole number, or `default` if it is absent.
    ///
    /// # Errors
    /// The value is not a whole number.
    pub fn number(&mut self, key: &str, default: u64) -> Result<u64, String> {
        let Some(at) = self.left.iter().position(|(name, _)| *name == key) else {
            return Ok(default);
        };
        let (_, value) = self.left.remove(at);
        value
            .parse()
            .map_err(|_| format!("{key}~{value}: the value is no whole number"))
    }

    /// Returns the position of the value of `key` among `words`, or 0 if it is absent.
    ///
    /// # Errors
    /// The value is none of the words.
    pub fn choice(&mut self, key: &str, words: &[&str]) -> Result<usize, String> {
        let Some(at) = self.left.iter().position(|(name, _)| *name == key) else {
            return Ok(0);
        };
        let (_, value) = self.left.remove(at);
        let found = words.iter().position(|word| *word == value);
        found.ok_or_else(|| format!("{key}~{value}: the value is one of {}", words.join(", ")))
    }

    /// Returns the value of `key`, a number of milliseconds, or `default` if it is absent.
    ///
    /// # Errors
    /// The value is not a whole number.
    pub fn millis(&mut self, key: &str, default: Duration) -> Result<Duration, String> {
        self.number(key, default.as_millis() as u64)
            .map(Duration::from_millis)
    }
}

/// The input of a strategy's decision about one Interest, and the decision.
pub struct Decision<'a> {
    pub(crate) now: Time,
    /// The face of the Interest or of the Nack.
    pub(crate) from: FaceId,
    /// The Interest, as it is forwarded.
    pub(crate) packet: &'a [u8],
    /// The congestion mark of the Data.
    pub(crate) mark: Option<u64>,
    /// The NonDiscovery field of the Interest.
    pub(crate) non_discovery: bool,
    pub(crate) entry: &'a mut PitEntry,
    pub(crate) next_hops: &'a [NextHop],
    pub(crate) faces: &'a Faces,
    pub(crate) nonce: u32,
    pub(crate) hop_limit: Option<u8>,
    pub(crate) lifetime: Duration,
    /// True if only local faces may be used: for `/localhost`, and for `/localhop` from another
    /// machine.
    pub(crate) local_only: bool,
    /// The selected faces, each with a nonce if it differs from the Interest's.
    pub(crate) send_to: &'a mut Vec<(FaceId, Option<u32>)>,
    pub(crate) refused: &'a mut Option<NackReason>,
}

impl Decision<'_> {
    /// Returns the time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the face that the Interest or the Nack came from.
    pub fn from(&self) -> FaceId {
        self.from
    }

    /// Returns the pending Interest.
    pub fn entry(&mut self) -> &mut PitEntry {
        self.entry
    }

    /// Returns the next hops that may be used, cheapest first. Excluded are faces outside the scope
    /// of the name, the face that the packet came from, and the only face that waits for the Data.
    /// An ad-hoc link has several peers: an Interest from one of them may go to the others.
    pub fn next_hops(&self) -> impl Iterator<Item = NextHop> + '_ {
        self.next_hops
            .iter()
            .copied()
            .filter(|hop| self.may_use(hop.face))
    }

    fn may_use(&self, face: FaceId) -> bool {
        let Some(config) = self.faces.get(face) else {
            return false;
        };
        let is_ad_hoc = config.config.link_type == LinkType::AdHoc;
        if (face == self.from && !is_ad_hoc) || (self.local_only && !config.is_local()) {
            return false;
        }
        // Another face than this next hop waits for the Data.
        self.entry.in_records.iter().any(|record| {
            (record.face != face || is_ad_hoc) && !record.expires.has_passed(self.now)
        })
    }

    /// Returns the out-record of this face.
    pub fn tried(&self, face: FaceId) -> Option<&OutRecord> {
        self.entry.out_records.iter().find(|out| out.face == face)
    }

    /// Returns the keyed hash of the prefix of the name's FIB entry, which identifies the entry.
    pub fn namespace(&self) -> u64 {
        self.entry.namespace
    }

    /// Returns true if no upstream was asked, or the time to answer is over for all of them.
    pub fn is_new(&self) -> bool {
        self.entry
            .out_records
            .iter()
            .all(|out| out.expires.has_passed(self.now))
    }

    /// Returns true if this next hop is an application, and not a link.
    pub fn is_local(&self, face: FaceId) -> bool {
        self.faces.get(face).is_some_and(|face| face.is_local())
    }

    /// Returns true if an upstream that was asked may still answer.
    pub fn is_waiting(&self) -> bool {
        let is_there = |face| face == FaceId::CONTENT_STORE || self.faces.get(face).is_some();
        self.entry.out_records.iter().any(|out| {
            out.nacked.is_none() && !out.expires.has_passed(self.now) && is_there(out.face)
        })
    }

    /// Sends the Interest to this next hop. Has no effect beyond [`RECORDS_PER_ENTRY`] next hops.
    pub fn send(&mut self, face: FaceId) {
        if self.note(face, self.nonce) {
            self.send_to.push((face, None));
        }
    }

    /// Holds the Interest back for this next hop. The strategy keeps the returned Interest and
    /// releases it later ([`Strategy::release`]).
    pub fn hold(&mut self, face: FaceId) -> Option<HeldInterest> {
        if !self.note(face, self.nonce) {
            return None;
        }
        let record = self
            .entry
            .out_records
            .iter_mut()
            .find(|out| out.face == face)?;
        record.held = true;
        let packet = Bytes::copy_from_slice(self.packet);
        let Decision {
            from,
            mark,
            non_discovery,
            ..
        } = *self;
        Some(HeldInterest {
            packet,
            from,
            to: face,
            mark,
            non_discovery,
        })
    }

    /// Sends the Interest to this next hop with another nonce, so that it is not detected as a
    /// loop.
    pub fn send_with_nonce(&mut self, face: FaceId, nonce: u32) {
        if self.note(face, nonce) {
            self.send_to.push((face, Some(nonce)));
        }
    }

    /// Adds an out-record. Returns false if there is no room: without a record, an answer could not
    /// be matched.
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

    /// Sends the Interest to the face that the application chose, whether or not it is a next hop
    /// of the name. The scope of the name still applies.
    pub(crate) fn send_to_chosen(&mut self, face: FaceId) {
        if self.may_use(face) {
            self.send(face)
        } else {
            self.refuse_if_all_refused()
        }
    }

    /// Refuses the Interest: every consumer gets a Nack with this reason.
    pub fn refuse(&mut self, reason: NackReason) {
        *self.refused = Some(reason);
    }

    /// Refuses the Interest if no upstream that was asked may still answer. The reason is the least
    /// severe one of their Nacks, or NoRoute without a Nack.
    pub fn refuse_if_all_refused(&mut self) {
        if self.is_waiting() {
            return;
        }
        let reasons = self.entry.out_records.iter().filter_map(|out| out.nacked);
        let reason = reasons
            .min_by_key(|reason| severity(*reason))
            .unwrap_or(NackReason::NoRoute);
        self.refuse(reason);
    }
}

/// Returns the severity of a reason: Congestion, Duplicate, NoRoute, in the order of their codes. A
/// Nack without a reason is the most severe (ndn-cxx, `isLessSevere`).
fn severity(reason: NackReason) -> u64 {
    match reason {
        NackReason::None => u64::MAX,
        other => other.code(),
    }
}
