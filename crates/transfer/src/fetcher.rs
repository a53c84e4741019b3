//! The consumer: fetches one object by name, segment by segment, in order.
//!
//! First it asks `<name>/32=metadata` for the current version (RDR; skipped where the name ends in
//! a version), then for `<version>/seg=0`, `seg=1`, … as many at once as congestion control allows,
//! until FinalBlockId tells the end. Every Data is checked: its name must be one that was asked
//! for, its digest or signature must hold, and what it says of the end must fit what arrived
//! before. Where the metadata, signed with a key that is asked for, names a
//! [manifest](crate::manifest), that is fetched first, and its digests take the place of the
//! segments' signatures.
//!
//! With [`Naming::DiscoverOrPlain`], one Data of the name itself will do: it is asked for once the
//! metadata has timed out, is none, or has no route. The metadata wins if it comes first. Of a name
//! that ends in a version, such as a certificate's, the first segment takes the place of the
//! metadata.
//!
//! The rules for FinalBlockId: it may come with any segment, or only with the last; it may move
//! while the end is still ahead (a producer that learns its length late), but never before a
//! segment that arrived, and never once a segment has called itself the last.
//!
//! A way that stalls, behind a TCP connection that recovers from losses of its own, has lost
//! nothing. So where many Interests are in flight and none that was sent later than the oldest is
//! answered, its time-out asks for it alone, whatever is left of the window, and begins anew,
//! doubled, for the others (as RFC 6298, 5.4 to 5.6; what is no answer does not end that). What
//! comes then tells: an Interest that was sent once, before the time-out, and answered after more
//! than it allowed, proves it to have been too early, and congestion control goes back to where it
//! was (RFC 4015, with this proof in the place of time stamps).
//!
//! The host owns time and the wire: it calls [`Fetcher::poll`] until it returns false and sends
//! what was written, hands in Data, Nacks and the passing of [`Fetcher::next_timeout`], and polls
//! again after each. Content comes out of [`Fetcher::on_data`] in order, through a closure: a
//! segment that is in order already is not copied; those that came early wait in a window of at
//! most [`FetchOptions::max_window`] segments.

use crate::congestion::{Answer, Congestion, CongestionControl, PathFeedback, Signal};
use crate::error::{EndProblem, FetchError, MetadataProblem, Refusal};
use crate::limits;
use crate::manifest::Digest;
use crate::metadata::{METADATA_KEYWORD, Metadata};
use crate::object::{End, Object, segment_under};
use crate::pacer::{Clock, Pacer};
use crate::rtt::RttEstimator;
use crate::window::{Sent, Window};
use larder_packet::tlv::{nni_len, tlv_len, write_header, write_nni, write_tlv};
use larder_packet::{Data, DigestVerifier, NackReason, Name, NameRef, Verifier, types};
use larder_units::{Stream, Time};
use std::time::Duration;

/// How a [`Fetcher`] fetches.
#[derive(Clone, Copy, Debug)]
pub struct FetchOptions {
    /// InterestLifetime of every Interest.
    pub lifetime: Duration,
    /// How often one Interest is retransmitted before the transfer fails.
    pub retries: u32,
    /// Most segments between the next to deliver and the furthest asked for: bounds the Interests
    /// in flight and the memory.
    pub max_window: usize,
    /// Largest object accepted, bytes. Every segment counts as at least one.
    pub max_bytes: u64,
    /// Whether to ask for the version first.
    pub naming: Naming,
    /// The clock by which Interests leave.
    pub clock: Clock,
}

impl Default for FetchOptions {
    fn default() -> Self {
        FetchOptions {
            lifetime: limits::DEFAULT_LIFETIME,
            retries: limits::DEFAULT_RETRIES,
            max_window: limits::MAX_WINDOW,
            max_bytes: limits::MAX_OBJECT_BYTES,
            naming: Naming::Discover,
            clock: Clock::default(),
        }
    }
}

/// Where an object's segments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Under the version that the metadata tells; under the name itself where that ends in a
    /// version.
    Discover,
    /// As [`Naming::Discover`]. Where there is no metadata, the object is the one Data of that
    /// name.
    DiscoverOrPlain,
    /// Under the name itself, whatever it ends in.
    Exact,
}

/// How far a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// There is more to come.
    Running,
    /// Every byte was delivered.
    Done,
    /// It will not be completed.
    Failed(&'a FetchError),
}

/// What a transfer did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchStats {
    /// Interests sent, retransmissions included.
    pub interests: u64,
    /// Interests sent again.
    pub retransmissions: u64,
    /// Retransmission time-outs.
    pub time_outs: u64,
    /// Times that what came after one or more of them proved them to have been too early.
    pub early_time_outs: u64,
    /// Packets of the manifest that arrived and were right; 0 where there is none, or no key to
    /// check it.
    pub manifest_packets: u64,
    /// Segments that arrived and were right.
    pub segments: u64,
    /// Bytes delivered, in order.
    pub bytes: u64,
    /// Data with a congestion mark.
    pub marks: u64,
    /// Nacks for Interests in flight.
    pub nacks: u64,
    /// Data and Nacks for what was not asked for, or arrived already.
    pub unexpected: u64,
    /// Data with a wrong digest or signature.
    pub rejected: u64,
    /// Data signed with a key that there was no verifier for, and taken as they are.
    pub unverified: u64,
    /// Times that congestion control reduced its window.
    pub reductions: u64,
    /// Most bytes that waited for a missing segment.
    pub peak_buffered_bytes: usize,
}

/// Fetches one object. See the module's documentation.
pub struct Fetcher {
    options: FetchOptions,
    congestion: Box<dyn CongestionControl>,
    verifier: Option<Box<dyn Verifier>>,
    nonces: Stream,
    target: Target,
    window: Window,
    pacer: Pacer,
    /// True where the last poll stopped at the congestion window, so that it may grow.
    window_limited: bool,
    /// A burst has begun, and goes on until the window is full.
    in_burst: bool,
    rtt: RttEstimator,
    backed_off_at: Option<Time>,
    /// In a stall, nothing times out before.
    stalled_until: Option<Time>,
    /// The Interest that asks about the stall is to leave: what else is in flight may be more than
    /// the reduced window.
    probe_due: bool,
    /// The Interest sent last, and its segment, of those that were sent once and answered.
    last_answered: Option<(Time, u64)>,
    doubt: Option<Doubt>,
    stats: FetchStats,
}

/// A time-out that may have been too early.
struct Doubt {
    at: Time,
    /// What it allowed.
    rto: Duration,
    /// As it was before.
    congestion: Box<dyn CongestionControl>,
}

/// What the Interests in flight ask for.
enum Target {
    Metadata(Discovery),
    Segments(Object),
    Failed(FetchError),
}

/// The number of the metadata, or the first segment, in the window of a discovery.
const METADATA: u64 = 0;
/// The number of the Data of the object's own name there.
const PLAIN: u64 = 1;

/// The search for an object's version, or for a Data of its name.
struct Discovery {
    object: Name,
    metadata: Name,
    /// Whether the first segment is asked for in place of the metadata: the name has a version.
    is_segment: bool,
    /// Whether Data of the object's name is asked for.
    asks_plain: bool,
    /// Why there is no metadata.
    failure: Option<Box<FetchError>>,
    /// A Data of a longer name, which is not what was asked for.
    found: Option<Name>,
}

impl Fetcher {
    /// A transfer of the object `name`. Without a `verifier`, digests are checked and other
    /// signatures are counted as unverified; with one, it must accept every Data. `nonces` must
    /// differ from transfer to transfer.
    pub fn new(
        name: Name,
        options: FetchOptions,
        congestion: Box<dyn CongestionControl>,
        verifier: Option<Box<dyn Verifier>>,
        nonces: Stream,
    ) -> Self {
        let versioned = name.as_name().last().is_some_and(|last| last.typ == types::VERSION);
        let is_segment = versioned && options.naming == Naming::DiscoverOrPlain;
        let target = if (versioned && !is_segment) || options.naming == Naming::Exact {
            Target::Segments(Object::new(name, None))
        } else {
            let mut metadata = name.clone();
            match is_segment {
                true => metadata.push_segment(0),
                false => metadata.push_keyword(METADATA_KEYWORD),
            };
            Target::Metadata(Discovery {
                object: name,
                metadata,
                is_segment,
                asks_plain: false,
                failure: None,
                found: None,
            })
        };
        Fetcher {
            options,
            congestion,
            verifier,
            nonces,
            target,
            window: Window::default(),
            pacer: Pacer::new(options.clock),
            window_limited: false,
            in_burst: false,
            rtt: RttEstimator::default(),
            backed_off_at: None,
            stalled_until: None,
            probe_due: false,
            last_answered: None,
            doubt: None,
            stats: FetchStats::default(),
        }
    }

    /// The same, with round trips that were measured on the way before: the first time-out need not
    /// be guessed.
    #[must_use]
    pub fn with_rtt(mut self, rtt: RttEstimator) -> Self {
        self.rtt = rtt;
        self
    }

    /// Appends the next Interest to `out`; false where none is to be sent now. Call it until then,
    /// after every event.
    pub fn poll(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let last = match &self.target {
            Target::Metadata(discovery) => Some(if discovery.asks_plain { PLAIN } else { METADATA }),
            Target::Segments(object) if !object.done => object.last_to_ask_for(),
            _ => return false,
        };
        let discovers = matches!(self.target, Target::Metadata(_));
        self.window_limited = false;
        let Some(segment) = self.window.next_to_send(last, self.options.max_window.max(1)) else {
            self.pacer.idle(now);
            return false;
        };
        if !self.has_room() && !self.probe_due && !discovers {
            self.window_limited = true;
            self.pacer.idle(now);
            return false;
        }
        if !self.pacer.take(now, self.congestion.rate()) {
            return false;
        }
        self.probe_due = false;
        self.encode_interest(segment, out);
        self.stats.interests += 1;
        let sends = self.window.sent(segment, now);
        self.stats.retransmissions += u64::from(sends > 1);
        true
    }

    /// Whether the congestion window lets another Interest go: with others, once there is room for
    /// a burst.
    fn has_room(&mut self) -> bool {
        let (window, in_flight) = (self.congestion.window().max(1), self.window.in_flight());
        self.in_burst = in_flight < window && (self.in_burst || in_flight + self.congestion.burst() <= window);
        self.in_burst
    }

    /// Takes a Data from the network, with what the path said along with it. What is now in order
    /// goes to `sink`, piece by piece.
    pub fn on_data(&mut self, now: Time, data: &Data<'_>, path: impl Into<PathFeedback>, mut sink: impl FnMut(&[u8])) {
        self.arrived(now);
        let Some(sent) = self.asked_for(data.name, true) else {
            self.stats.unexpected += 1;
            self.note_other(data.name);
            return;
        };
        if !self.is_genuine(sent.segment, data) {
            self.stats.rejected += 1;
            self.give_back(sent, Refusal::BadSignature);
            return;
        }
        self.account(now, sent, path.into());
        if data.content_type == Some(types::CONTENT_NACK) {
            self.fail(FetchError::NotFound { name: data.name.to_name() });
            return;
        }
        let outcome = match self.target {
            Target::Metadata(_) if sent.segment == PLAIN => self.on_plain(data, &mut sink),
            Target::Metadata(Discovery { is_segment: true, ref object, .. }) => {
                let object = Object::new(object.clone(), None);
                self.window.truncate(METADATA);
                self.target = Target::Segments(object);
                self.on_segment(sent.segment, data, &mut sink)
            }
            Target::Metadata(_) => self.on_metadata(data),
            Target::Segments(ref mut object) if object.reads_manifest() => {
                self.stats.manifest_packets += 1;
                object.on_manifest(sent.segment, data, &mut self.window)
            }
            Target::Segments(_) => self.on_segment(sent.segment, data, &mut sink),
            Target::Failed(_) => Ok(()),
        };
        match outcome {
            Ok(()) => {}
            Err(error @ FetchError::BadMetadata { problem: MetadataProblem::Manifest, .. }) => self.fail(error),
            Err(error @ FetchError::BadMetadata { .. }) => self.do_without_metadata(error),
            Err(error) => self.fail(error),
        }
    }

    /// Takes a Nack for the Interest of this name.
    pub fn on_nack(&mut self, now: Time, interest: NameRef<'_>, reason: NackReason) {
        self.arrived(now);
        let Some(sent) = self.asked_for(interest, false) else {
            self.stats.unexpected += 1;
            return;
        };
        self.stats.nacks += 1;
        (self.stalled_until, self.probe_due) = (None, false);
        match reason {
            // Nothing has ever come: there is no use in asking again.
            NackReason::NoRoute if self.stats.segments == 0 => {
                let error = FetchError::NoRoute { name: interest.to_name() };
                match sent.segment {
                    METADATA => self.do_without_metadata(error),
                    _ => self.fail(error),
                }
            }
            // The route went while we were fetching, and may come back.
            NackReason::NoRoute => self.window.refuse(sent.segment, Refusal::NoRoute),
            // Another Interest with this nonce is on its way: a new nonce is all it takes.
            NackReason::Duplicate => self.give_back(sent, Refusal::Nack),
            NackReason::Congestion => {
                self.on_congestion(now, sent, Signal::Nack);
                match self.congestion.rate() {
                    // It has its turn by the rate.
                    Some(_) => self.give_back(sent, Refusal::Congestion),
                    // At once, it would only be refused again: a window knows no later.
                    None => self.window.refuse(sent.segment, Refusal::Congestion),
                }
            }
            _ => self.window.refuse(sent.segment, Refusal::Nack),
        }
    }

    /// When [`Fetcher::on_timeout`] is to be called, if nothing else happens before.
    pub fn next_timeout(&self) -> Option<Time> {
        let running = self.progress() == Progress::Running;
        self.rto_deadline().into_iter().chain(self.pacer.next_timeout()).min().filter(|_| running)
    }

    fn rto_deadline(&self) -> Option<Time> {
        let deadline = self.window.oldest()?.sent_at + self.rtt.rto();
        Some(self.stalled_until.map_or(deadline, |until| until.max(deadline)))
    }

    /// Takes the passing of time: Interests without an answer are to be sent again, and some may be
    /// due.
    pub fn on_timeout(&mut self, now: Time) {
        self.pacer.advance(now, self.congestion.rate());
        while self.progress() == Progress::Running {
            let Some(sent) = self.window.oldest().filter(|_| self.rto_deadline() <= Some(now)) else { return };
            if let Some(refusal) = sent.refused {
                self.give_back(sent, refusal);
                continue;
            }
            self.stats.time_outs += 1;
            let overtaken = self.last_answered >= Some((sent.sent_at, sent.segment));
            let stalls = self.doubt.is_none() && !overtaken && self.window.in_flight() >= limits::STALLED_INTERESTS;
            if self.doubt.is_none() {
                self.doubt = Some(Doubt { at: now, rto: self.rtt.rto(), congestion: self.congestion.snapshot() });
            }
            // Once a round trip, like congestion control: what was sent before the last backoff
            // tells nothing new.
            if self.backed_off_at.is_none_or(|at| sent.sent_at >= at) {
                self.rtt.back_off();
                self.backed_off_at = Some(now);
            }
            (self.stalled_until, self.probe_due) = (stalls.then(|| now + self.rtt.rto()), stalls);
            self.reduce(now, sent, Signal::TimeOut);
            self.look_for_plain();
            self.give_back(sent, Refusal::TimeOut);
        }
    }

    /// How far the transfer is.
    pub fn progress(&self) -> Progress<'_> {
        match &self.target {
            Target::Segments(object) if object.done => Progress::Done,
            Target::Metadata(_) | Target::Segments(_) => Progress::Running,
            Target::Failed(error) => Progress::Failed(error),
        }
    }

    /// What happened so far.
    pub fn stats(&self) -> &FetchStats {
        &self.stats
    }

    /// What congestion control allows now: Interests in flight, and Interests a second where it has
    /// a rate.
    pub fn allowance(&self) -> (usize, Option<f64>) {
        (self.congestion.window(), self.congestion.rate())
    }

    /// The measured round trips.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// The name under which the segments are, once known.
    pub fn versioned_name(&self) -> Option<&Name> {
        self.object().map(|object| &object.prefix)
    }

    /// Bytes of the whole object, as the metadata announced them or as the number of segments
    /// suggests; `None` while neither is known.
    pub fn expected_bytes(&self) -> Option<u64> {
        let object = self.object()?;
        let by_segments = || object.end?.last.checked_add(1)?.checked_mul(object.first_segment_bytes?);
        object.announced_bytes.or_else(by_segments)
    }

    /// A packet woke the host: what was due before it, was due at the rate before it.
    fn arrived(&mut self, now: Time) {
        self.pacer.advance(now, self.congestion.rate());
        self.pacer.arrived(now);
    }

    fn object(&self) -> Option<&Object> {
        match &self.target {
            Target::Segments(object) => Some(object),
            Target::Metadata(_) | Target::Failed(_) => None,
        }
    }

    /// The pending Interest that this name answers (`data`), or is the name of.
    fn asked_for(&self, name: NameRef<'_>, data: bool) -> Option<Sent> {
        let segment = match &self.target {
            Target::Metadata(Discovery { object, .. }) if name == object.as_name() => PLAIN,
            Target::Metadata(Discovery { metadata, .. }) if data => {
                name.starts_with(metadata.as_name()).then_some(METADATA)?
            }
            Target::Metadata(Discovery { metadata, .. }) => (name == metadata.as_name()).then_some(METADATA)?,
            // A Nack's Interest may be one that asked by its digest.
            Target::Segments(object) => {
                segment_under(object.asked_under(), if data { name } else { name.strip_implicit_digest().0 })?
            }
            Target::Failed(_) => return None,
        };
        self.window.pending(segment)
    }

    /// Whether this is what the producer made, as far as anything tells.
    fn is_genuine(&mut self, segment: u64, data: &Data<'_>) -> bool {
        if let Some(digest) = self.digest_of(segment) {
            return data.implicit_digest() == *digest;
        }
        match &self.verifier {
            Some(verifier) => data.verify(verifier.as_ref()).is_ok(),
            None if data.signature_info().signature_type == types::DIGEST_SHA256 => {
                data.verify(&DigestVerifier).is_ok()
            }
            None => {
                self.stats.unverified += 1;
                true
            }
        }
    }

    /// The implicit digest of what the Interest for this segment asks for, where a manifest tells
    /// it.
    fn digest_of(&self, segment: u64) -> Option<&Digest> {
        self.object()?.digest_of(segment)
    }

    /// Round trip and congestion control for an answer.
    fn account(&mut self, now: Time, sent: Sent, path: PathFeedback) {
        let rtt = (sent.sends == 1).then(|| now.since(sent.sent_at));
        // The answer to the probe, or to what it repeats: it does not tell which, but the others
        // come next if they come at all.
        self.stalled_until = self.stalled_until.filter(|_| rtt.is_none()).map(|_| now + self.rtt.rested().rto());
        self.probe_due = false;
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt);
            self.last_answered = self.last_answered.max(Some((sent.sent_at, sent.segment)));
            self.settle_doubt(sent, rtt);
        }
        let smoothed_rtt = self.rtt.smoothed();
        let PathFeedback { marked, granted_rate } = path;
        let window_limited = self.window_limited;
        self.congestion.on_answer(&Answer { now, rtt, smoothed_rtt, window_limited, granted_rate });
        if marked {
            self.stats.marks += 1;
            self.on_congestion(now, sent, Signal::Mark);
        }
    }

    /// The first answer to an Interest that was sent once tells whether the time-outs before it
    /// were too early.
    fn settle_doubt(&mut self, sent: Sent, rtt: Duration) {
        let Some(doubt) = self.doubt.take() else { return };
        if sent.sent_at <= doubt.at && rtt > doubt.rto {
            self.stats.early_time_outs += 1;
            self.congestion = doubt.congestion;
        }
    }

    /// The network says that it is congested: whatever the time-outs were, this is no doubt.
    fn on_congestion(&mut self, now: Time, sent: Sent, signal: Signal) {
        self.doubt = None;
        self.reduce(now, sent, signal);
    }

    fn reduce(&mut self, now: Time, sent: Sent, signal: Signal) {
        let reduced = self.congestion.on_congestion(&Congestion { now, sent_at: sent.sent_at, signal });
        self.stats.reductions += u64::from(reduced);
    }

    fn on_metadata(&mut self, data: &Data<'_>) -> Result<(), FetchError> {
        let Target::Metadata(Discovery { object, .. }) = &self.target else { return Ok(()) };
        let bad = |problem| FetchError::BadMetadata { name: data.name.to_name(), problem };
        if data.content.len() > limits::MAX_METADATA_BYTES {
            return Err(bad(MetadataProblem::TooLong));
        }
        let metadata = Metadata::decode(data.content).map_err(|error| bad(MetadataProblem::Malformed(error)))?;
        let version = metadata.name.as_name();
        let is_version = version.last().is_some_and(|last| last.typ == types::VERSION)
            && version.component_count() == object.as_name().component_count() + 1
            && version.starts_with(object.as_name());
        if !is_version {
            return Err(bad(MetadataProblem::ForeignName));
        }
        if metadata.size_bytes.is_some_and(|size| size > self.options.max_bytes) {
            return Err(FetchError::TooLarge { name: data.name.to_name(), max_bytes: self.options.max_bytes });
        }
        let mut object = Object::new(metadata.name, metadata.size_bytes);
        object.end = metadata.last_segment.map(|last| End { last, firm: false });
        // Without a key to check the metadata, its manifest proves no more than the segments' own
        // digests do.
        if let Some(root) = metadata.manifest.filter(|_| self.verifier.is_some()) {
            object.expect_manifest(root).ok_or_else(|| bad(MetadataProblem::Manifest))?;
        }
        self.window = Window::default();
        self.target = Target::Segments(object);
        Ok(())
    }

    /// The Data of the object's own name is the object.
    fn on_plain(&mut self, data: &Data<'_>, sink: &mut impl FnMut(&[u8])) -> Result<(), FetchError> {
        let bytes = data.content.len() as u64;
        if bytes.max(1) > self.options.max_bytes {
            return Err(FetchError::TooLarge { name: data.name.to_name(), max_bytes: self.options.max_bytes });
        }
        sink(data.content);
        (self.stats.segments, self.stats.bytes) = (1, bytes);
        let mut object = Object::new(data.name.to_name(), Some(bytes));
        object.done = true;
        self.window = Window::default();
        self.target = Target::Segments(object);
        Ok(())
    }

    /// The metadata did not come in time: asks for Data of the object's name too, where that will
    /// do.
    fn look_for_plain(&mut self) {
        let Target::Metadata(discovery) = &mut self.target else { return };
        discovery.asks_plain |= self.options.naming == Naming::DiscoverOrPlain;
    }

    /// There is no metadata: asks for Data of the object's name, where that will do.
    fn do_without_metadata(&mut self, error: FetchError) {
        match &mut self.target {
            Target::Metadata(discovery) if self.options.naming == Naming::DiscoverOrPlain => {
                discovery.asks_plain = true;
                discovery.failure = Some(Box::new(error));
                self.window.deliver(METADATA, &[], &mut |_| ());
                self.give_up_for_found();
            }
            _ => self.fail(error),
        }
    }

    /// Notes a Data that a look for the object's name brought, and that has a longer name.
    fn note_other(&mut self, name: NameRef<'_>) {
        let Target::Metadata(discovery) = &mut self.target else { return };
        if discovery.asks_plain && name.starts_with(discovery.object.as_name()) {
            discovery.found = Some(name.to_name());
            let asked_often = |sent: Sent| sent.sends >= limits::METADATA_SENDS_WHERE_OTHERS_ANSWER;
            if discovery.failure.is_some() || self.window.pending(METADATA).is_some_and(asked_often) {
                self.give_up_for_found();
            }
        }
    }

    /// Fails where only Data of a longer name is there.
    fn give_up_for_found(&mut self) {
        let Target::Metadata(Discovery { object, found: Some(found), .. }) = &self.target else { return };
        self.target = Target::Failed(FetchError::OnlyLonger { name: object.clone(), found: found.clone() });
    }

    fn on_segment(&mut self, segment: u64, data: &Data<'_>, sink: &mut impl FnMut(&[u8])) -> Result<(), FetchError> {
        let Target::Segments(object) = &mut self.target else { return Ok(()) };
        let contradiction = |problem| FetchError::Contradiction { name: data.name.to_name(), problem };
        object.arrived(segment, data).map_err(contradiction)?;
        if let Some(end) = object.end {
            self.window.truncate(end.last);
        }
        self.stats.segments += 1;
        let waiting = self.window.buffered_bytes() + data.content.len();
        if (self.stats.bytes + waiting as u64).max(self.stats.segments) > self.options.max_bytes {
            return Err(FetchError::TooLarge { name: data.name.to_name(), max_bytes: self.options.max_bytes });
        }
        self.stats.bytes += self.window.deliver(segment, data.content, sink);
        self.stats.peak_buffered_bytes = self.stats.peak_buffered_bytes.max(self.window.buffered_bytes());
        if object.end.is_some_and(|end| self.window.base() > end.last) {
            let arrived = self.stats.bytes;
            if let Some(announced) = object.announced_bytes.filter(|announced| *announced != arrived) {
                return Err(contradiction(EndProblem::Size { announced, arrived }));
            }
            object.done = true;
        }
        Ok(())
    }

    fn fail(&mut self, error: FetchError) {
        let metadata = match &mut self.target {
            Target::Metadata(discovery) => discovery.failure.take(),
            _ => None,
        };
        let error = match (metadata, error) {
            // The object's own name has none either, and is what the user knows.
            (None, error) | (Some(_), error @ FetchError::NotFound { .. }) => error,
            (Some(metadata), error) if matches!(*metadata, FetchError::NoRoute { .. }) => error,
            (Some(metadata), error) => FetchError::NoObject { metadata, plain: Box::new(error) },
        };
        self.target = Target::Failed(error);
    }

    /// Has a segment sent again, unless that was done often enough.
    fn give_back(&mut self, sent: Sent, last: Refusal) {
        if sent.sends > self.options.retries {
            let error = FetchError::NoAnswer { name: self.interest_name(sent.segment), sends: sent.sends, last };
            match self.target {
                Target::Metadata(_) if sent.segment == METADATA => self.do_without_metadata(error),
                _ => self.fail(error),
            }
        } else {
            self.window.lose(sent.segment);
        }
    }

    fn interest_name(&self, segment: u64) -> Name {
        match &self.target {
            Target::Metadata(discovery) if segment == PLAIN => discovery.object.clone(),
            Target::Metadata(discovery) => discovery.metadata.clone(),
            Target::Segments(object) => {
                let mut name = object.asked_under().clone();
                name.push_segment(segment);
                name
            }
            Target::Failed(_) => Name::root(),
        }
    }

    /// Written by hand in one pass: this and the check of the digest are all the work that a
    /// segment is.
    fn encode_interest(&mut self, segment: u64, out: &mut Vec<u8>) {
        // Asked for again, it is asked for by its digest, where that is known: a cache that holds
        // something else under the name is passed by.
        let again = self.window.pending(segment).is_some();
        let digest = self.digest_of(segment).filter(|_| again).copied();
        let (prefix, selectors, segment): (_, &[u8], _) = match &self.target {
            // Asked for again, Data of a longer name will tell what is there.
            Target::Metadata(discovery) if segment == PLAIN && again => {
                (&discovery.object, &[types::CAN_BE_PREFIX as u8, 0], None)
            }
            Target::Metadata(discovery) if segment == PLAIN => (&discovery.object, &[], None),
            Target::Metadata(discovery) if discovery.is_segment => (&discovery.metadata, &[], None),
            Target::Metadata(discovery) => {
                (&discovery.metadata, &[types::CAN_BE_PREFIX as u8, 0, types::MUST_BE_FRESH as u8, 0], None)
            }
            Target::Segments(object) => (object.asked_under(), &[], Some(segment)),
            Target::Failed(_) => return,
        };
        let prefix = prefix.as_name().as_bytes();
        let digest_len = digest.map_or(0, |digest| tlv_len(types::IMPLICIT_SHA256_DIGEST.into(), digest.len()));
        let name_len = prefix.len() + segment.map_or(0, |n| tlv_len(types::SEGMENT.into(), nni_len(n))) + digest_len;
        let lifetime_ms = u64::try_from(self.options.lifetime.as_millis()).unwrap_or(u64::MAX);
        let rest = tlv_len(types::NONCE, 4) + tlv_len(types::INTEREST_LIFETIME, nni_len(lifetime_ms));
        write_header(out, types::INTEREST, tlv_len(types::NAME, name_len) + selectors.len() + rest);
        write_header(out, types::NAME, name_len);
        out.extend_from_slice(prefix);
        if let Some(segment) = segment {
            write_nni(out, types::SEGMENT.into(), segment);
        }
        if let Some(digest) = digest {
            write_tlv(out, types::IMPLICIT_SHA256_DIGEST.into(), &digest);
        }
        out.extend_from_slice(selectors);
        write_tlv(out, types::NONCE, &(self.nonces.bits() as u32).to_be_bytes());
        write_nni(out, types::INTEREST_LIFETIME, lifetime_ms);
    }
}
