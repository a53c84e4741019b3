//! The consumer: fetches one object by name, segment by segment, in order.
//!
//! The first Interest is for `<name>/32=metadata`, to learn the current version (RDR; skipped if
//! the name ends in a version). Then follow Interests for `<version>/seg=0`, `seg=1`, …, as many at
//! once as congestion control allows, until FinalBlockId gives the end. Every Data is checked: its
//! name must have been requested, its digest or signature must be valid, and its statement about
//! the end must agree with the earlier segments. If a verifier has accepted the metadata and the
//! metadata names a [manifest](crate::manifest), the manifest is fetched first, and its digests
//! take the place of the segments' signatures.
//!
//! With [`Naming::DiscoverOrPlain`], one Data with the name itself suffices. It is requested once
//! the metadata has timed out, is missing, or has no route. If the metadata arrives first, it is
//! used. Metadata without a route is requested again while the name itself is not answered, because
//! its producer may register its prefix between the two Interests. For a name that ends in a
//! version, such as a certificate's, the first segment replaces the metadata. If a segment of a
//! version answers for the name, that version is fetched, as in ndn-cxx's SegmentFetcher.
//!
//! FinalBlockId may come with any segment, or only with the last. It may move while the end is
//! still ahead (a producer that learns its length late), but never before a segment that arrived,
//! and never after a segment has named itself as the last.
//!
//! A cache may answer with useless Data: its signature is wrong, or it reports (content type Nack)
//! that the producer once had no such segment. The next Interest for this segment has MustBeFresh,
//! so a cache answers only if its Data is still fresh. A Nack for such an Interest ends the
//! transfer. So does a third Data with a wrong signature, if no segment has arrived yet: the error
//! names the check that failed.
//!
//! A path may stall without a loss, for example behind a TCP connection that recovers from losses
//! of its own. If many Interests are in flight and none that was sent later than the oldest is
//! answered, the timeout retransmits only the oldest, independent of the window. The timeout of the
//! others is doubled and restarts (as in RFC 6298, 5.4 to 5.6), until a valid Data or a Nack
//! arrives. If an Interest that was sent once, before the timeout, is answered after more than the
//! timeout, the timeout was too early, and congestion control returns to its earlier state (RFC
//! 4015, with this proof instead of time stamps).
//!
//! The host owns the time and the network. It calls [`Fetcher::poll`] until it returns false and
//! sends the Interests. It passes Data, Nacks and the expiry of [`Fetcher::next_timeout`] to the
//! fetcher, and polls again after each. [`Fetcher::on_data`] returns content in order through a
//! closure. A segment that arrives in order is not copied; early ones wait in a window of at most
//! [`FetchOptions::max_window`] segments.

mod discovery;
mod options;
mod progress;

use discovery::{Discovery, METADATA, PLAIN};
pub use options::{FetchOptions, Naming};
pub use progress::{FetchStats, Progress};

use crate::congestion::{Answer, Congestion, CongestionControl, PathFeedback, Signal};
use crate::error::{EndProblem, FetchError, Invalid, MetadataProblem, Refusal};
use crate::limits;
use crate::manifest::Digest;
use crate::metadata::Metadata;
use crate::object::{End, Object, segment_under};
use crate::pacer::Pacer;
use crate::rtt::RttEstimator;
use crate::window::{Sent, Window};
use larder_packet::tlv::{nni_len, tlv_len, write_header, write_nni, write_tlv};
use larder_packet::{Data, DigestVerifier, NackReason, Name, NameRef, Verifier, types};
use larder_units::{Stream, Time};
use std::time::Duration;

/// The least number of Interests in flight for which a silence counts as a stall and not as the
/// loss of all. With one loss in ten, a loss of all has a probability of 1 in 10,000.
const STALLED_INTERESTS: usize = 4;

/// The Interests for the metadata after which a transfer ends if only Data of a longer name
/// answers. The user then learns which names exist before all retries have failed.
const METADATA_SENDS_WITH_LONGER_NAME: u32 = 3;

/// The retransmissions of the first Interests if their Data fails its check. The first one bypasses
/// the caches, which may hold other Data with the name; the second allows for a cache that cannot
/// be bypassed.
const RETRIES_OF_INVALID: u32 = 2;

/// Fetches one object. See the module's documentation.
pub struct Fetcher {
    options: FetchOptions,
    congestion: Box<dyn CongestionControl>,
    verifier: Option<Box<dyn Verifier>>,
    nonces: Stream,
    target: Target,
    window: Window,
    pacer: Pacer,
    /// True if the last poll stopped at the congestion window, which may grow then.
    window_limited: bool,
    /// True if a burst has begun. It continues until the window is full.
    in_burst: bool,
    rtt: RttEstimator,
    backed_off_at: Option<Time>,
    /// The end of a stall. No Interest times out before it.
    stalled_until: Option<Time>,
    /// True if a probe of the stall is due. It may leave even if more is in flight than the reduced
    /// window allows.
    probe_due: bool,
    /// The latest transmission, with its segment, among answered Interests that were sent once.
    last_answered: Option<(Time, u64)>,
    suspect_timeout: Option<SuspectTimeout>,
    stats: FetchStats,
}

/// The state before a timeout that may have been too early.
struct SuspectTimeout {
    at: Time,
    /// The timeout's length.
    rto: Duration,
    /// The congestion control before it.
    congestion: Box<dyn CongestionControl>,
}

/// The target of the Interests in flight.
enum Target {
    Metadata(Discovery),
    Segments(Object),
    Failed(FetchError),
}

impl Fetcher {
    /// Creates a transfer of the object `name`. Without a `verifier`, digests are checked and other
    /// signatures are counted as unverified. A verifier must accept every Data. `nonces` must
    /// differ between transfers.
    pub fn new(
        name: Name,
        options: FetchOptions,
        congestion: Box<dyn CongestionControl>,
        verifier: Option<Box<dyn Verifier>>,
        nonces: Stream,
    ) -> Self {
        let versioned = name
            .as_name()
            .last()
            .is_some_and(|last| last.typ == types::VERSION);
        let is_segment = versioned && options.naming == Naming::DiscoverOrPlain;
        let target = if (versioned && !is_segment) || options.naming == Naming::Exact {
            Target::Segments(Object::new(name, None))
        } else {
            Target::Metadata(Discovery::new(name, is_segment))
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
            suspect_timeout: None,
            stats: FetchStats::default(),
        }
    }

    /// Sets round trips that were measured on the path before, so that the first timeout is not a
    /// guess.
    #[must_use]
    pub fn with_rtt(mut self, rtt: RttEstimator) -> Self {
        self.rtt = rtt;
        self
    }

    /// Appends the next Interest to `out`. Returns false if none should be sent now. After every
    /// event, the host calls it until it returns false.
    pub fn poll(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let last = match &self.target {
            Target::Metadata(discovery) => Some(if discovery.requests_plain {
                PLAIN
            } else {
                METADATA
            }),
            Target::Segments(object) if !object.done => object.last_to_request(),
            _ => return false,
        };
        let discovers = matches!(self.target, Target::Metadata(_));
        self.window_limited = false;
        let Some(segment) = self
            .window
            .next_to_send(last, self.options.max_window.max(1))
        else {
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

    /// Returns true if the congestion window allows another Interest. A burst begins when there is
    /// room for all of it.
    fn has_room(&mut self) -> bool {
        let (window, in_flight) = (self.congestion.window().max(1), self.window.in_flight());
        self.in_burst =
            in_flight < window && (self.in_burst || in_flight + self.congestion.burst() <= window);
        self.in_burst
    }

    /// Handles a Data, with the state of the path that came with it. Content that is now in order
    /// goes to `sink`, piece by piece.
    pub fn on_data(
        &mut self,
        now: Time,
        data: &Data<'_>,
        path: impl Into<PathFeedback>,
        mut sink: impl FnMut(&[u8]),
    ) {
        self.arrived(now);
        let Some(sent) = self.pending_for(data.name, true) else {
            self.stats.unexpected += 1;
            self.on_longer_name(data);
            return;
        };
        if let Err(problem) = self.check(Some(sent.segment), data) {
            self.reject(
                sent,
                FetchError::Invalid {
                    name: data.name.to_name(),
                    problem,
                },
            );
            return;
        }
        self.stats.unverified += u64::from(self.is_unverified(sent.segment, data));
        self.account(now, sent, path.into());
        if data.content_type == Some(types::CONTENT_NACK) {
            let is_segment = matches!(self.target, Target::Segments(_));
            if is_segment && self.window.may_be_stale(sent.segment) {
                return;
            }
            if is_segment && !sent.must_be_fresh && sent.sends <= self.options.retries {
                self.window.bypass_caches(sent.segment);
                self.window.lose(sent.segment);
                return;
            }
            self.fail(FetchError::NotFound {
                name: data.name.to_name(),
            });
            return;
        }
        let outcome = match self.target {
            Target::Metadata(_) if sent.segment == PLAIN => self.on_plain(data, &mut sink),
            Target::Metadata(Discovery {
                is_segment: true,
                ref object,
                ..
            }) => {
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
            Err(
                error @ FetchError::BadMetadata {
                    problem: MetadataProblem::Manifest,
                    ..
                },
            ) => self.fail(error),
            Err(error @ FetchError::BadMetadata { .. }) => self.on_missing_metadata(error),
            Err(error) => self.fail(error),
        }
    }

    /// Handles a Nack for the Interest of this name.
    pub fn on_nack(&mut self, now: Time, interest: NameRef<'_>, reason: NackReason) {
        self.arrived(now);
        let Some(sent) = self.pending_for(interest, false) else {
            self.stats.unexpected += 1;
            return;
        };
        self.stats.nacks += 1;
        (self.stalled_until, self.probe_due) = (None, false);
        match reason {
            // Before the first segment, a retransmission would be useless.
            NackReason::NoRoute if self.stats.segments == 0 => {
                let error = FetchError::NoRoute {
                    name: interest.to_name(),
                };
                match sent.segment {
                    METADATA => self.on_metadata_without_route(error),
                    _ => self.fail(error),
                }
            }
            // The route disappeared during the transfer and may return.
            NackReason::NoRoute => self.window.refuse(sent.segment, Refusal::NoRoute),
            // The network has another Interest with this nonce, so a new nonce suffices.
            NackReason::Duplicate => self.send_again(sent, Refusal::Nack),
            NackReason::Congestion => {
                self.on_congestion(now, sent, Signal::Nack);
                match self.congestion.rate() {
                    // The rate determines the time of the retransmission.
                    Some(_) => self.send_again(sent, Refusal::Congestion),
                    // An immediate retransmission would be refused again, and a window has no time
                    // for the next one.
                    None => self.window.refuse(sent.segment, Refusal::Congestion),
                }
            }
            _ => self.window.refuse(sent.segment, Refusal::Nack),
        }
    }

    /// Returns the time at which [`Fetcher::on_timeout`] should be called if no other event comes
    /// first.
    pub fn next_timeout(&self) -> Option<Time> {
        let running = self.progress() == Progress::Running;
        self.rto_deadline()
            .into_iter()
            .chain(self.pacer.next_timeout())
            .min()
            .filter(|_| running)
    }

    fn rto_deadline(&self) -> Option<Time> {
        let deadline = self.window.oldest()?.sent_at + self.rtt.rto();
        Some(
            self.stalled_until
                .map_or(deadline, |until| until.max(deadline)),
        )
    }

    /// Handles the passing of time: retransmits unanswered Interests, and lets due Interests leave.
    pub fn on_timeout(&mut self, now: Time) {
        self.pacer.advance(now, self.congestion.rate());
        while self.progress() == Progress::Running {
            let Some(sent) = self
                .window
                .oldest()
                .filter(|_| self.rto_deadline() <= Some(now))
            else {
                return;
            };
            if let Some(refusal) = sent.refused {
                self.send_again(sent, refusal);
                continue;
            }
            self.stats.time_outs += 1;
            let overtaken = self.last_answered >= Some((sent.sent_at, sent.segment));
            let stalls = self.suspect_timeout.is_none()
                && !overtaken
                && self.window.in_flight() >= STALLED_INTERESTS;
            if self.suspect_timeout.is_none() {
                self.suspect_timeout = Some(SuspectTimeout {
                    at: now,
                    rto: self.rtt.rto(),
                    congestion: self.congestion.snapshot(),
                });
            }
            // Backs off once per round trip, like congestion control. An Interest sent before the
            // last backoff gives no new information.
            if self.backed_off_at.is_none_or(|at| sent.sent_at >= at) {
                self.rtt.back_off();
                self.backed_off_at = Some(now);
            }
            (self.stalled_until, self.probe_due) = (stalls.then(|| now + self.rtt.rto()), stalls);
            self.reduce(now, sent, Signal::TimeOut);
            self.request_plain();
            self.send_again(sent, Refusal::TimeOut);
        }
    }

    /// Returns the progress of the transfer.
    pub fn progress(&self) -> Progress<'_> {
        match &self.target {
            Target::Segments(object) if object.done => Progress::Done,
            Target::Metadata(_) | Target::Segments(_) => Progress::Running,
            Target::Failed(error) => Progress::Failed(error),
        }
    }

    /// Returns the counters of the transfer.
    pub fn stats(&self) -> &FetchStats {
        &self.stats
    }

    /// Returns the allowance of congestion control: Interests in flight, and Interests per second
    /// if it has a rate.
    pub fn allowance(&self) -> (usize, Option<f64>) {
        (self.congestion.window(), self.congestion.rate())
    }

    /// Returns the measured round trips.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Returns the name that the segments have as a prefix, once it is known.
    pub fn versioned_name(&self) -> Option<&Name> {
        self.object().map(|object| &object.prefix)
    }

    /// Returns the size of the whole object, from the metadata or estimated from the number of
    /// segments; `None` while neither is known.
    pub fn expected_bytes(&self) -> Option<u64> {
        let object = self.object()?;
        let by_segments = || {
            object
                .end?
                .last
                .checked_add(1)?
                .checked_mul(object.first_segment_bytes?)
        };
        object.announced_bytes.or_else(by_segments)
    }

    /// Records the arrival of a packet. Interests that became due before it became due at the
    /// earlier rate.
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

    /// Returns the pending Interest that this name answers (for Data), or that has this name (for a
    /// Nack).
    fn pending_for(&self, name: NameRef<'_>, data: bool) -> Option<Sent> {
        let segment = match &self.target {
            Target::Metadata(discovery) => discovery.number_of(name, data)?,
            // The Interest of a Nack may contain a digest.
            Target::Segments(object) => segment_under(
                object.request_prefix(),
                if data {
                    name
                } else {
                    name.strip_implicit_digest().0
                },
            )?,
            Target::Failed(_) => return None,
        };
        self.window.pending(segment)
    }

    /// Checks that the Data is authentic, as far as that is possible. `segment` is its number, if
    /// it was requested.
    fn check(&self, segment: Option<u64>, data: &Data<'_>) -> Result<(), Invalid> {
        if let Some(digest) = segment.and_then(|segment| self.digest_of(segment)) {
            return if data.implicit_digest() == *digest {
                Ok(())
            } else {
                Err(Invalid::Manifest)
            };
        }
        match &self.verifier {
            Some(verifier) => data
                .verify(verifier.as_ref())
                .map_err(|error| Invalid::signature(error, data)),
            None if data.signature_info().signature_type == types::DIGEST_SHA256 => {
                data.verify(&DigestVerifier).map_err(|_| Invalid::Digest)
            }
            None => Ok(()),
        }
    }

    /// Returns true if there is no key for the signature of a Data that has passed the check.
    fn is_unverified(&self, segment: u64, data: &Data<'_>) -> bool {
        let is_signed = data.signature_info().signature_type != types::DIGEST_SHA256;
        is_signed && self.verifier.is_none() && self.digest_of(segment).is_none()
    }

    /// Handles a Data that has failed its check. If no Data has passed one so far, it is requested
    /// again past the caches, and then the transfer fails, because the next try will have the same
    /// key.
    fn reject(&mut self, sent: Sent, error: FetchError) {
        self.stats.rejected += 1;
        let retries = match self.stats.segments {
            0 => self.options.retries.min(RETRIES_OF_INVALID),
            _ => self.options.retries,
        };
        if sent.sends > retries {
            self.target = Target::Failed(error);
            return;
        }
        self.window.bypass_caches(sent.segment);
        self.window.lose(sent.segment);
    }

    /// Returns the implicit digest of this segment's Data, if a manifest names it.
    fn digest_of(&self, segment: u64) -> Option<&Digest> {
        self.object()?.digest_of(segment)
    }

    /// Updates the round trip and congestion control for an answer.
    fn account(&mut self, now: Time, sent: Sent, path: PathFeedback) {
        let rtt = (sent.sends == 1).then(|| now.since(sent.sent_at));
        // This answers the probe or the Interest that it repeats. The other answers follow soon, if
        // at all.
        self.stalled_until = self
            .stalled_until
            .filter(|_| rtt.is_none())
            .map(|_| now + self.rtt.without_backoff().rto());
        self.probe_due = false;
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt);
            self.last_answered = self.last_answered.max(Some((sent.sent_at, sent.segment)));
            self.settle_suspect_timeout(sent, rtt);
        }
        let smoothed_rtt = self.rtt.smoothed();
        let PathFeedback {
            marked,
            granted_rate,
        } = path;
        let window_limited = self.window_limited;
        self.congestion.on_answer(&Answer {
            now,
            rtt,
            smoothed_rtt,
            window_limited,
            granted_rate,
        });
        if marked {
            self.stats.marks += 1;
            self.on_congestion(now, sent, Signal::Mark);
        }
    }

    /// Decides by the first answer to an Interest that was sent once whether the timeouts before it
    /// were too early.
    fn settle_suspect_timeout(&mut self, sent: Sent, rtt: Duration) {
        let Some(suspect_timeout) = self.suspect_timeout.take() else {
            return;
        };
        if sent.sent_at <= suspect_timeout.at && rtt > suspect_timeout.rto {
            self.stats.early_time_outs += 1;
            self.congestion = suspect_timeout.congestion;
        }
    }

    /// Handles a report of congestion. It confirms the timeouts, so there is no return to the
    /// earlier state.
    fn on_congestion(&mut self, now: Time, sent: Sent, signal: Signal) {
        self.suspect_timeout = None;
        self.reduce(now, sent, signal);
    }

    fn reduce(&mut self, now: Time, sent: Sent, signal: Signal) {
        let reduced = self.congestion.on_congestion(&Congestion {
            now,
            sent_at: sent.sent_at,
            signal,
        });
        self.stats.reductions += u64::from(reduced);
    }

    fn on_metadata(&mut self, data: &Data<'_>) -> Result<(), FetchError> {
        let Target::Metadata(Discovery { object, .. }) = &self.target else {
            return Ok(());
        };
        let bad = |problem| FetchError::BadMetadata {
            name: data.name.to_name(),
            problem,
        };
        if data.content.len() > limits::MAX_METADATA_BYTES {
            return Err(bad(MetadataProblem::TooLong));
        }
        let metadata = Metadata::decode(data.content)
            .map_err(|error| bad(MetadataProblem::Malformed(error)))?;
        let version = metadata.name.as_name();
        let is_version = version
            .last()
            .is_some_and(|last| last.typ == types::VERSION)
            && version.component_count() == object.as_name().component_count() + 1
            && version.starts_with(object.as_name());
        if !is_version {
            return Err(bad(MetadataProblem::ForeignName));
        }
        if metadata
            .size_bytes
            .is_some_and(|size| size > self.options.max_bytes)
        {
            return Err(FetchError::TooLarge {
                name: data.name.to_name(),
                max_bytes: self.options.max_bytes,
            });
        }
        let mut object = Object::new(metadata.name, metadata.size_bytes);
        object.end = metadata.last_segment.map(|last| End { last, firm: false });
        // Without a key to check the metadata, its manifest proves no more than the segments' own
        // digests.
        if let Some(root) = metadata.manifest.filter(|_| self.verifier.is_some()) {
            object
                .expect_manifest(root)
                .ok_or_else(|| bad(MetadataProblem::Manifest))?;
        }
        self.window = Window::default();
        self.target = Target::Segments(object);
        Ok(())
    }

    /// Completes the transfer with the Data of the object's own name.
    fn on_plain(
        &mut self,
        data: &Data<'_>,
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<(), FetchError> {
        let bytes = data.content.len() as u64;
        if bytes.max(1) > self.options.max_bytes {
            return Err(FetchError::TooLarge {
                name: data.name.to_name(),
                max_bytes: self.options.max_bytes,
            });
        }
        sink(data.content);
        (self.stats.segments, self.stats.bytes) = (1, bytes);
        let mut object = Object::new(data.name.to_name(), Some(bytes));
        object.done = true;
        self.window = Window::default();
        self.target = Target::Segments(object);
        Ok(())
    }

    /// Requests Data of the object's name too, if allowed, because the metadata did not come in
    /// time.
    fn request_plain(&mut self) {
        let Target::Metadata(discovery) = &mut self.target else {
            return;
        };
        discovery.requests_plain |= self.options.naming == Naming::DiscoverOrPlain;
    }

    /// Requests Data of the object's name, if allowed, because there is no metadata.
    fn on_missing_metadata(&mut self, error: FetchError) {
        match &mut self.target {
            Target::Metadata(discovery) if self.options.naming == Naming::DiscoverOrPlain => {
                discovery.requests_plain = true;
                discovery.failure = Some(Box::new(error));
                self.window.deliver(METADATA, &[], &mut |_| ());
                self.fail_with_longer_name();
            }
            _ => self.fail(error),
        }
    }

    /// Requests Data of the object's name, if allowed, because the metadata has no route. The
    /// metadata is requested again, as after a timeout: its producer may be about to register.
    fn on_metadata_without_route(&mut self, error: FetchError) {
        match &mut self.target {
            Target::Metadata(discovery) if self.options.naming == Naming::DiscoverOrPlain => {
                discovery.requests_plain = true;
                discovery.failure = Some(Box::new(error));
                self.window.refuse(METADATA, Refusal::NoRoute);
                self.fail_with_longer_name();
            }
            _ => self.fail(error),
        }
    }

    /// Handles a Data with a longer name than was requested. If it is a segment of a version, that
    /// version is fetched, as ndn-cxx's SegmentFetcher does.
    fn on_longer_name(&mut self, data: &Data<'_>) {
        let Target::Metadata(discovery) = &self.target else {
            return;
        };
        if !discovery.requests_plain || !data.name.starts_with(discovery.object.as_name()) {
            return;
        }
        let (name, found) = (discovery.object.clone(), data.name.to_name());
        let version = discovery.version_of(data.name);
        let error = match (version, self.check(None, data)) {
            (Some(version), Ok(())) => {
                self.window = Window::default();
                self.target = Target::Segments(Object::new(version, None));
                return;
            }
            (_, Err(problem)) => FetchError::Invalid {
                name: found,
                problem,
            },
            (None, Ok(())) => FetchError::OnlyLonger { name, found },
        };
        let sent_often = |sent: Sent| sent.sends >= METADATA_SENDS_WITH_LONGER_NAME;
        let is_metadata_late = self.window.pending(METADATA).is_some_and(sent_often);
        let Target::Metadata(discovery) = &mut self.target else {
            debug_assert!(false, "the target has not changed");
            return;
        };
        discovery.longer = Some(error);
        if discovery.failure.is_some() || is_metadata_late {
            self.fail_with_longer_name();
        }
    }

    /// Fails if there is only Data of a longer name.
    fn fail_with_longer_name(&mut self) {
        let Target::Metadata(discovery) = &mut self.target else {
            return;
        };
        if let Some(error) = discovery.longer.take() {
            self.target = Target::Failed(error);
        }
    }

    fn on_segment(
        &mut self,
        segment: u64,
        data: &Data<'_>,
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<(), FetchError> {
        let Target::Segments(object) = &mut self.target else {
            return Ok(());
        };
        let contradiction = |problem| FetchError::Contradiction {
            name: data.name.to_name(),
            problem,
        };
        object.arrived(segment, data).map_err(contradiction)?;
        if let Some(end) = object.end {
            self.window.truncate(end.last);
        }
        self.stats.segments += 1;
        let waiting = self.window.buffered_bytes() + data.content.len();
        if (self.stats.bytes + waiting as u64).max(self.stats.segments) > self.options.max_bytes {
            return Err(FetchError::TooLarge {
                name: data.name.to_name(),
                max_bytes: self.options.max_bytes,
            });
        }
        self.stats.bytes += self.window.deliver(segment, data.content, sink);
        self.stats.peak_buffered_bytes = self
            .stats
            .peak_buffered_bytes
            .max(self.window.buffered_bytes());
        if object.end.is_some_and(|end| self.window.base() > end.last) {
            let arrived = self.stats.bytes;
            if let Some(announced) = object
                .announced_bytes
                .filter(|announced| *announced != arrived)
            {
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
            // Reports the error of the object's own name, which the user knows.
            (None, error) | (Some(_), error @ FetchError::NotFound { .. }) => error,
            (Some(metadata), error) if matches!(*metadata, FetchError::NoRoute { .. }) => error,
            (Some(metadata), error) => FetchError::NoObject {
                metadata,
                plain: Box::new(error),
            },
        };
        self.target = Target::Failed(error);
    }

    /// Schedules the retransmission of a segment, or fails if it was sent too often.
    fn send_again(&mut self, sent: Sent, last: Refusal) {
        if sent.sends > self.options.retries {
            let error = FetchError::NoAnswer {
                name: self.interest_name(sent.segment),
                sends: sent.sends,
                last,
            };
            match self.target {
                Target::Metadata(_) if sent.segment == METADATA => self.on_missing_metadata(error),
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
                let mut name = object.request_prefix().clone();
                name.push_segment(segment);
                name
            }
            Target::Failed(_) => Name::root(),
        }
    }

    /// Encodes by hand in one pass. This and the check of the digest are all the work per segment.
    fn encode_interest(&mut self, segment: u64, out: &mut Vec<u8>) {
        // A retransmission contains the digest, if it is known, so that a cache with other Data
        // under the name does not answer.
        let sent = self.window.pending(segment);
        let (again, must_be_fresh) = (sent.is_some(), sent.is_some_and(|sent| sent.must_be_fresh));
        let digest = self.digest_of(segment).filter(|_| again).copied();
        let (prefix, selectors, segment): (_, &[u8], _) = match &self.target {
            Target::Metadata(discovery) if segment == PLAIN => {
                let sends = sent.map_or(0, |sent| sent.sends);
                (&discovery.object, Discovery::plain_selectors(sends), None)
            }
            Target::Metadata(discovery) if discovery.is_segment => (&discovery.metadata, &[], None),
            Target::Metadata(discovery) => (
                &discovery.metadata,
                &[types::CAN_BE_PREFIX as u8, 0, types::MUST_BE_FRESH as u8, 0],
                None,
            ),
            Target::Segments(object) if must_be_fresh => (
                object.request_prefix(),
                &[types::MUST_BE_FRESH as u8, 0],
                Some(segment),
            ),
            Target::Segments(object) => (object.request_prefix(), &[], Some(segment)),
            Target::Failed(_) => return,
        };
        let prefix = prefix.as_name().as_bytes();
        let digest_len = digest.map_or(0, |digest| {
            tlv_len(types::IMPLICIT_SHA256_DIGEST.into(), digest.len())
        });
        let name_len = prefix.len()
            + segment.map_or(0, |n| tlv_len(types::SEGMENT.into(), nni_len(n)))
            + digest_len;
        let lifetime_ms = u64::try_from(self.options.lifetime.as_millis()).unwrap_or(u64::MAX);
        let rest =
            tlv_len(types::NONCE, 4) + tlv_len(types::INTEREST_LIFETIME, nni_len(lifetime_ms));
        write_header(
            out,
            types::INTEREST,
            tlv_len(types::NAME, name_len) + selectors.len() + rest,
        );
        write_header(out, types::NAME, name_len);
        out.extend_from_slice(prefix);
        if let Some(segment) = segment {
            write_nni(out, types::SEGMENT.into(), segment);
        }
        if let Some(digest) = digest {
            write_tlv(out, types::IMPLICIT_SHA256_DIGEST.into(), &digest);
        }
        out.extend_from_slice(selectors);
        write_tlv(
            out,
            types::NONCE,
            &(self.nonces.bits() as u32).to_be_bytes(),
        );
        write_nni(out, types::INTEREST_LIFETIME, lifetime_ms);
    }
}
