//! The ingress without IO: the fetches, their Interests, and the effect of Data.
//!
//! A fetch begins with a question, which is repeated by the RTO until it is answered. If the body
//! did not come with the head, a [`larder_transfer::Fetcher`] fetches its segments. A fetch begins
//! with the round trips that earlier ones have measured. A fetch whose reader is
//! [`limits::UNREAD_BYTES`] behind stops asking, and the more fetches there are, the fewer segments
//! each may have in flight.
//!
//! Cost: one lookup of its name per packet. Memory: at most 700 MB for all fetches
//! (`window_segments`).

use crate::keys::Trust;
use crate::limits;
use crate::message::{Answer, Content, Head, MessageError, Request};
use crate::naming::Object;
use bytes::Bytes;
use foldhash::fast::RandomState;
use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH};
use http::{HeaderMap, Method};
use larder_packet::{
    Data, DigestVerifier, Interest, InterestBuilder, NackReason, Name, NameRef, SignatureFreshness,
    Signer, Verifier, types,
};
use larder_transfer::limits::INITIAL_RTO;
use larder_transfer::{
    CongestionSpec, FetchError, FetchOptions, Fetcher, Naming, PathFeedback, Progress, RttEstimator,
};
use larder_units::{Stream, Streams, Time};
use siphasher::sip::SipHasher13;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

/// A request for the egress.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The object.
    pub object: Object,
    /// The method.
    pub method: Method,
    /// Its fields in the shared form, if it has one.
    pub shared: Option<HeaderMap>,
    /// All its fields.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// A unique number that cannot be guessed.
    pub unique: u64,
}

/// The events of a fetch: a head, then pieces and an end; or a failure at any time.
#[derive(Debug)]
#[allow(missing_docs, reason = "the sentence above says it")]
pub enum Event {
    Head(Head),
    Piece(Bytes),
    End,
    Failed(Failure),
}

/// The reason why a fetch has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no route to the egress.
    NoRoute,
    /// It does not answer within [`limits::ANSWER`].
    NoAnswer,
    /// The trusted key has not signed the Data.
    Forged,
    /// The answer is no message.
    Malformed(MessageError),
    /// The body broke off.
    Body(FetchError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NoRoute => f.write_str("no route to the far node"),
            Failure::NoAnswer => {
                write!(f, "no answer from the far node within {:?}", limits::ANSWER)
            }
            Failure::Forged => {
                f.write_str("the answer is not signed by the key of [http.upstream]")
            }
            Failure::Malformed(error) => write!(f, "the answer cannot be read: {error}"),
            Failure::Body(error) => error.fmt(f),
        }
    }
}

/// The counters of an ingress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Requests.
    pub requests: u64,
    /// Requests in the shared form.
    pub shared: u64,
    /// Requests that were repeated in full: the egress wanted that, or the answers were forged.
    pub asked_again: u64,
    /// Answers.
    pub answers: u64,
    /// Failed fetches: no route to the egress, no answer, a wrong signature, an invalid answer, and
    /// errors in the body.
    pub failures: [u64; 5],
    /// Interests sent.
    pub interests: u64,
    /// Retransmitted Interests.
    pub retransmissions: u64,
    /// Segments of bodies.
    pub segments: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// Data with a wrong digest or signature.
    pub rejected: u64,
    /// Fetches in progress.
    pub under_way: usize,
    /// The smoothed round trip, s.
    pub rtt_seconds: Option<f64>,
}

/// The fetches in progress.
pub struct Fetches {
    fetches: HashMap<u64, Fetch, RandomState>,
    /// The fetches that wait for Data of this name, or for segments under it. Names from the
    /// network are only looked up; those in the table are our own.
    waiting: HashMap<Vec<u8>, Vec<u64>, RandomState>,
    /// The times at which fetches have to be checked.
    due: BTreeSet<(Time, u64)>,
    /// Fetches that may have an Interest to send.
    ready: VecDeque<u64>,
    rtt: RttEstimator,
    private: PrivatePages,
    trust: Option<Trust>,
    /// The signer of requests in full.
    signer: Option<Arc<dyn Signer>>,
    nonces: Stream,
    streams: Streams,
    figures: Figures,
}

struct Fetch {
    phase: Phase,
    /// Bytes that its reader has not taken, with [`limits::PIECE_BYTES`] for each piece.
    unread: usize,
    due: Option<Time>,
}

enum Phase {
    Asking(Box<Asking>),
    Reading(Box<Reading>),
}

struct Reading {
    fetcher: Fetcher,
    /// The name of its segments.
    name: Name,
    /// Its number in [`PrivatePages`].
    page: u64,
}

struct Asking {
    ask: Ask,
    in_full: bool,
    /// The name of the question, with the digest of its parameters.
    name: Name,
    parameters: Vec<u8>,
    signer: Option<Arc<dyn Signer>>,
    sends: u32,
    /// The end of the wait for an answer.
    until: Time,
    /// True if the answers to the shared form were forged.
    was_forged: bool,
    sent: Time,
    /// True if it has to be sent at the next poll.
    to_send: bool,
    rtt: RttEstimator,
    forgeries: u32,
}

impl Fetches {
    /// Creates an ingress without fetches. Without `trust`, all Data is accepted. `streams` must
    /// differ from start to start.
    pub fn new(trust: Option<Trust>, streams: Streams) -> Fetches {
        let mut nonces = streams.stream("questions");
        let keys = [nonces.bits(), nonces.bits()];
        Fetches {
            fetches: HashMap::default(),
            waiting: HashMap::default(),
            due: BTreeSet::new(),
            ready: VecDeque::new(),
            rtt: RttEstimator::default(),
            private: PrivatePages {
                keys,
                pages: vec![(0, Time::ZERO); limits::PRIVATE_PAGES],
            },
            trust,
            signer: None,
            nonces,
            streams,
            figures: Figures::default(),
        }
    }

    /// Signs requests in full.
    pub fn signing(self, signer: Option<Arc<dyn Signer>>) -> Fetches {
        Fetches { signer, ..self }
    }

    /// Returns the counters.
    pub fn figures(&self) -> Figures {
        let rtt_seconds = self.rtt.smoothed().map(|rtt| rtt.as_secs_f64());
        Figures {
            under_way: self.fetches.len(),
            rtt_seconds,
            ..self.figures
        }
    }

    /// Begins a fetch. `id` must be new.
    pub fn begin(&mut self, now: Time, id: u64, ask: Ask) {
        self.figures.requests += 1;
        let in_full = ask.shared.is_none() || self.private.holds(now, self.private.page(&ask));
        self.figures.shared += u64::from(!in_full);
        let signer = self.signer.clone().filter(|_| in_full);
        let asking = Asking::new(now, ask, in_full, signer, self.rtt.clone());
        self.wait_for(id, asking.name.as_bytes());
        self.fetches.insert(
            id,
            Fetch {
                phase: Phase::Asking(Box::new(asking)),
                unread: 0,
                due: None,
            },
        );
        self.ready.push_back(id);
    }

    /// Cancels a fetch.
    pub fn cancel(&mut self, id: u64) {
        self.remove(id);
    }

    /// Records that its reader has taken a piece of so many bytes.
    pub fn taken(&mut self, id: u64, bytes: usize) {
        if let Some(fetch) = self.fetches.get_mut(&id) {
            fetch.unread = fetch.unread.saturating_sub(limits::PIECE_BYTES + bytes);
            self.ready.push_back(id);
        }
    }

    /// Appends the next Interest to `out`. Returns false if none has to be sent now. Call it until
    /// then after every event.
    pub fn poll(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        while let Some(&id) = self.ready.front() {
            if self.poll_one(now, id, out) {
                self.figures.interests += 1;
                return true;
            }
            self.ready.pop_front();
            self.schedule(id);
        }
        false
    }

    fn poll_one(&mut self, now: Time, id: u64, out: &mut Vec<u8>) -> bool {
        let Some(fetch) = self.fetches.get_mut(&id) else {
            return false;
        };
        match &mut fetch.phase {
            Phase::Asking(asking) if asking.to_send => {
                self.figures.retransmissions += u64::from(asking.sends > 0);
                out.extend_from_slice(&asking.interest(now, self.nonces.bits() as u32));
                true
            }
            Phase::Asking(_) => false,
            Phase::Reading(reading) => {
                fetch.unread < limits::UNREAD_BYTES && reading.fetcher.poll(now, out)
            }
        }
    }

    /// Processes a Data from the network, with the feedback of its path.
    pub fn on_data(
        &mut self,
        now: Time,
        data: &Data<'_>,
        path: PathFeedback,
        events: &mut Vec<(u64, Event)>,
    ) {
        for name in [data.name, data.name.without_last()] {
            for id in self
                .waiting
                .get(name.as_bytes())
                .cloned()
                .unwrap_or_default()
            {
                self.on_data_for(now, id, data, path, events);
            }
        }
    }

    fn on_data_for(
        &mut self,
        now: Time,
        id: u64,
        data: &Data<'_>,
        path: PathFeedback,
        events: &mut Vec<(u64, Event)>,
    ) {
        let Some(fetch) = self.fetches.get_mut(&id) else {
            return;
        };
        match &mut fetch.phase {
            Phase::Asking(asking) if data.name == asking.name.as_name() => {
                if verify(data, self.trust.as_ref()) {
                    return self.on_answer(now, id, data, events);
                }
                self.figures.rejected += 1;
                asking.forgeries += 1;
                asking.to_send = true;
                if asking.forgeries >= limits::FORGERIES {
                    // A cache on the path may have one. It has no answer to a request in full.
                    if !asking.in_full {
                        return self.ask_in_full(now, id, true);
                    }
                    return self.fail(id, Failure::Forged, events);
                }
                self.ready.push_back(id);
            }
            Phase::Reading(reading) => {
                let unread = &mut fetch.unread;
                reading.fetcher.on_data(now, data, path, |bytes| {
                    *unread += limits::PIECE_BYTES + bytes.len();
                    events.push((id, Event::Piece(Bytes::copy_from_slice(bytes))));
                });
                self.settle(now, id, events);
            }
            Phase::Asking(_) => {}
        }
    }

    fn on_answer(&mut self, now: Time, id: u64, data: &Data<'_>, events: &mut Vec<(u64, Event)>) {
        let Some(Fetch {
            phase: Phase::Asking(asking),
            ..
        }) = self.fetches.get_mut(&id)
        else {
            return;
        };
        // It includes the origin's time: good enough as a first estimate only, and never worse than
        // none, which is three times this.
        if self.rtt.smoothed().is_none() && asking.sends == 1 {
            self.rtt.sample(now.since(asking.sent).min(INITIAL_RTO / 3));
        }
        let page = self.private.page(&asking.ask);
        let head = match Answer::decode(data.content) {
            Ok(Answer::Head(head)) => head.for_request(&asking.ask.method),
            Ok(Answer::InFull) if !asking.in_full => {
                self.private.note(now, page);
                return self.ask_in_full(now, id, false);
            }
            Ok(Answer::InFull) => {
                return self.fail(id, Failure::Malformed(MessageError::Structure), events);
            }
            Err(error) => return self.fail(id, Failure::Malformed(error), events),
        };
        self.figures.answers += 1;
        if asking.was_forged {
            // The forgeries are in a cache, so the next request has to bypass it too. Without this
            // proof, the secrets may differ, and every request has to find that out soon.
            self.private.note(now, page);
        }
        let (name, body) = (asking.name.clone(), asking.ask.object.clone());
        let content = head.body.clone();
        events.push((id, Event::Head(head)));
        let (version, length) = match content {
            Content::Inline(bytes) => {
                self.figures.bytes += bytes.len() as u64;
                events.push((id, Event::End));
                return self.remove(id);
            }
            Content::Segments { version, length } => (version, length),
        };
        let segments = body.versioned(version);
        self.no_longer_wait_for(id, name.as_bytes());
        self.wait_for(id, segments.as_bytes());
        let options = FetchOptions {
            lifetime: limits::LIFETIME,
            retries: limits::RETRIES,
            max_window: window_segments(self.fetches.len()),
            naming: Naming::Exact,
            // More than the head has announced, or empty segments without end, break it off.
            max_bytes: length.map_or(larder_transfer::limits::MAX_OBJECT_BYTES, |length| {
                length.max(1)
            }),
            ..FetchOptions::default()
        };
        let trust = self
            .trust
            .clone()
            .map(|trust| Box::new(trust) as Box<dyn Verifier>);
        let nonces = self.streams.stream(&id.to_string());
        let congestion = CongestionSpec::default().build();
        let fetcher = Fetcher::new(segments.clone(), options, congestion, trust, nonces)
            .with_rtt(self.rtt.clone());
        if let Some(fetch) = self.fetches.get_mut(&id) {
            fetch.phase = Phase::Reading(Box::new(Reading {
                fetcher,
                name: segments,
                page,
            }));
        }
        self.ready.push_back(id);
    }

    /// Asks again in full.
    fn ask_in_full(&mut self, now: Time, id: u64, was_forged: bool) {
        let Some(Fetch {
            phase: Phase::Asking(asking),
            ..
        }) = self.fetches.get_mut(&id)
        else {
            return;
        };
        self.figures.asked_again += 1;
        let (old, ask) = (asking.name.clone(), asking.ask.clone());
        **asking = Asking::new(now, ask, true, self.signer.clone(), self.rtt.clone());
        asking.was_forged = was_forged;
        if asking.is_silence_forgery() {
            asking.until = now + limits::ANSWER_AFTER_FORGERIES;
        }
        let new = asking.name.clone();
        self.no_longer_wait_for(id, old.as_bytes());
        self.wait_for(id, new.as_bytes());
        self.ready.push_back(id);
    }

    /// Processes a Nack for the Interest of this name.
    pub fn on_nack(
        &mut self,
        now: Time,
        name: NameRef<'_>,
        reason: NackReason,
        events: &mut Vec<(u64, Event)>,
    ) {
        for waited in [name, name.without_last()] {
            for id in self
                .waiting
                .get(waited.as_bytes())
                .cloned()
                .unwrap_or_default()
            {
                let Some(fetch) = self.fetches.get_mut(&id) else {
                    continue;
                };
                match (&mut fetch.phase, reason) {
                    (Phase::Asking(_), NackReason::NoRoute) => {
                        self.fail(id, Failure::NoRoute, events)
                    }
                    (Phase::Asking(asking), NackReason::Duplicate) => {
                        asking.to_send = true;
                        self.ready.push_back(id);
                    }
                    // Congestion, and unknown reasons: again at the time-out.
                    (Phase::Asking(_), _) => {}
                    (Phase::Reading(reading), reason) => {
                        reading.fetcher.on_nack(now, name, reason);
                        self.settle(now, id, events);
                    }
                }
            }
        }
    }

    /// Returns the time at which [`Fetches::on_timeout`] has to be called.
    pub fn next_timeout(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Processes the passing of time.
    pub fn on_timeout(&mut self, now: Time, events: &mut Vec<(u64, Event)>) {
        while let Some(&(at, id)) = self.due.first() {
            if at > now {
                return;
            }
            self.due.pop_first();
            let Some(fetch) = self.fetches.get_mut(&id) else {
                continue;
            };
            fetch.due = None;
            match &mut fetch.phase {
                Phase::Asking(asking) if now >= asking.until => {
                    let failure = if asking.is_silence_forgery() {
                        Failure::Forged
                    } else {
                        Failure::NoAnswer
                    };
                    self.fail(id, failure, events);
                }
                Phase::Asking(asking) => {
                    asking.rtt.back_off();
                    asking.to_send = true;
                    self.ready.push_back(id);
                }
                Phase::Reading(reading) => {
                    reading.fetcher.on_timeout(now);
                    self.settle(now, id, events);
                }
            }
        }
    }

    /// Checks whether a transfer is complete.
    fn settle(&mut self, now: Time, id: u64, events: &mut Vec<(u64, Event)>) {
        let Some(Fetch {
            phase: Phase::Reading(reading),
            ..
        }) = self.fetches.get(&id)
        else {
            return;
        };
        match reading.fetcher.progress() {
            Progress::Running => self.ready.push_back(id),
            Progress::Done => {
                if reading.fetcher.rtt().smoothed().is_some() {
                    self.rtt = reading.fetcher.rtt().without_backoff();
                }
                events.push((id, Event::End));
                self.remove(id);
            }
            Progress::Failed(error) => {
                let failure = Failure::Body(error.clone());
                // Caches on the path may name this body for a while: the next request has to bypass
                // them.
                self.private.note(now, reading.page);
                self.fail(id, failure, events);
            }
        }
    }

    fn fail(&mut self, id: u64, failure: Failure, events: &mut Vec<(u64, Event)>) {
        let kind = match failure {
            Failure::NoRoute => 0,
            Failure::NoAnswer => 1,
            Failure::Forged => 2,
            Failure::Malformed(_) => 3,
            Failure::Body(_) => 4,
        };
        self.figures.failures[kind] += 1;
        events.push((id, Event::Failed(failure)));
        self.remove(id);
    }

    fn remove(&mut self, id: u64) {
        let Some(fetch) = self.fetches.remove(&id) else {
            return;
        };
        if let Some(due) = fetch.due {
            self.due.remove(&(due, id));
        }
        match &fetch.phase {
            Phase::Asking(asking) => self.no_longer_wait_for(id, asking.name.as_bytes()),
            Phase::Reading(reading) => {
                let stats = reading.fetcher.stats();
                self.figures.retransmissions += stats.retransmissions;
                self.figures.segments += stats.segments;
                self.figures.bytes += stats.bytes;
                self.figures.rejected += stats.rejected;
                self.no_longer_wait_for(id, reading.name.as_bytes());
            }
        }
    }

    fn wait_for(&mut self, id: u64, name: &[u8]) {
        self.waiting.entry(name.to_vec()).or_default().push(id);
    }

    fn no_longer_wait_for(&mut self, id: u64, name: &[u8]) {
        if let Some(ids) = self.waiting.get_mut(name) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.waiting.remove(name);
            }
        }
    }

    fn schedule(&mut self, id: u64) {
        let Some(fetch) = self.fetches.get_mut(&id) else {
            return;
        };
        let due = match &fetch.phase {
            Phase::Asking(asking) => Some((asking.sent + asking.rtt.rto()).min(asking.until)),
            Phase::Reading(reading) => reading.fetcher.next_timeout(),
        };
        if let Some(old) = std::mem::replace(&mut fetch.due, due) {
            self.due.remove(&(old, id));
        }
        self.due.extend(due.map(|due| (due, id)));
    }
}

impl Asking {
    /// Creates the question. `signer` is for requests in full only: those in the shared form have
    /// equal names for all.
    fn new(
        now: Time,
        ask: Ask,
        in_full: bool,
        signer: Option<Arc<dyn Signer>>,
        rtt: RttEstimator,
    ) -> Asking {
        let shared = ask.shared.clone().filter(|_| !in_full);
        let headers = shared.unwrap_or_else(|| ask.headers.clone());
        let unique = in_full.then_some(ask.unique);
        let body = ask.body.clone();
        let parameters = Request {
            method: ask.method.clone(),
            headers,
            body,
            unique,
        }
        .encode();
        let name = ask.object.question();
        let mut asking = Asking {
            ask,
            in_full,
            name,
            parameters,
            signer,
            sends: 0,
            until: now + limits::ANSWER,
            was_forged: false,
            sent: now,
            to_send: true,
            rtt,
            forgeries: 0,
        };
        // Equal at every transmission except for the nonce: the HMAC of equal bytes is equal.
        if let Ok(interest) = Interest::decode(&asking.packet(0)) {
            asking.name = interest.name.to_name();
        }
        asking
    }

    /// Returns true if silence means that the two ends have different secrets: the egress ignores
    /// requests that it cannot verify. With a key pair it verifies none, and silence is silence.
    fn is_silence_forgery(&self) -> bool {
        self.was_forged && self.signer.is_some()
    }

    fn interest(&mut self, now: Time, nonce: u32) -> Vec<u8> {
        self.sends += 1;
        self.sent = now;
        self.to_send = false;
        self.packet(nonce)
    }

    fn packet(&self, nonce: u32) -> Vec<u8> {
        let interest = InterestBuilder::new(&self.name)
            .must_be_fresh(true)
            .nonce(nonce)
            .lifetime(limits::LIFETIME);
        let interest = interest.application_parameters(&self.parameters);
        match &self.signer {
            // A request that cannot be signed is not sent.
            Some(signer) => interest
                .sign(signer.as_ref(), SignatureFreshness::default())
                .unwrap_or_default(),
            None => interest.build(),
        }
    }
}

/// Returns the segments that a fetch may have in flight if it is the nth of those in progress when
/// it begins. The nth oldest always began with n or more, so that all together have at most
/// `FLIGHT_SEGMENTS · (1 + ln(FETCHES · WINDOW_SEGMENTS / FLIGHT_SEGMENTS))`.
fn window_segments(nth: usize) -> usize {
    (limits::FLIGHT_SEGMENTS / nth.max(1)).min(limits::WINDOW_SEGMENTS)
}

/// Verifies as [`Fetcher`] does: without a key, digests are checked, and other signatures are
/// accepted.
fn verify(data: &Data<'_>, trust: Option<&Trust>) -> bool {
    match trust {
        Some(trust) => data.verify(trust).is_ok(),
        None if data.signature_info().signature_type == types::DIGEST_SHA256 => {
            data.verify(&DigestVerifier).is_ok()
        }
        None => true,
    }
}

/// The pages that the egress refused in the shared form: their hashes, each in its place, where
/// another page of that place replaces it. A page that is forgotten, or mistaken for another, costs
/// one more round trip or is not shared, and nothing else.
struct PrivatePages {
    keys: [u64; 2],
    /// Each with the end of its time.
    pages: Vec<(u64, Time)>,
}

impl PrivatePages {
    fn holds(&self, now: Time, page: u64) -> bool {
        let (noted, until) = self.pages[self.place(page)];
        noted == page && now < until
    }

    fn note(&mut self, now: Time, page: u64) {
        let place = self.place(page);
        self.pages[place] = (page, now + limits::PRIVATE_FOR);
    }

    fn place(&self, page: u64) -> usize {
        page as usize % self.pages.len()
    }

    /// Returns the hash of the page without its query: all searches of a page are alike.
    /// Validations are pages of their own, because a 304 says less about its freshness.
    fn page(&self, ask: &Ask) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.keys[0], self.keys[1]);
        let path = ask.object.target.split('?').next().unwrap_or_default();
        hasher.write(ask.object.authority.as_bytes());
        hasher.write(path.as_bytes());
        let conditions = [IF_NONE_MATCH, IF_MODIFIED_SINCE];
        hasher.write_u8(u8::from(
            conditions.iter().any(|name| ask.headers.contains_key(name)),
        ));
        hasher.finish().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_slow_origin_makes_the_next_loss_cost_its_time() {
        let mut fetches = Fetches::new(None, Streams::new(1));
        let ask = |target: &str| Ask {
            object: Object::new("/far".parse::<Name>().unwrap().as_name(), "a", target).unwrap(),
            method: Method::GET,
            shared: Some(HeaderMap::new()),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            unique: 1,
        };
        let (mut now, mut wire, mut events) = (Time::from_secs(1), Vec::new(), Vec::new());
        fetches.begin(now, 1, ask("/slow"));
        assert!(fetches.poll(now, &mut wire) && !fetches.poll(now, &mut Vec::new()));
        let asked = Interest::decode(&wire).unwrap().name.to_name();
        let head = Head {
            status: http::StatusCode::OK,
            headers: HeaderMap::new(),
            body: Content::Inline(Bytes::new()),
            unframed: false,
        };
        let content = Answer::Head(head).encode();
        let data = larder_packet::DataBuilder::new(&asked).content(&content);
        let data = data.build(&larder_packet::DigestSigner).unwrap();
        // Before its time-out: a round trip of a retransmission would mean nothing.
        now += Duration::from_millis(990);
        fetches.on_data(
            now,
            &Data::decode(&data).unwrap(),
            false.into(),
            &mut events,
        );
        assert!(
            matches!(events[..], [(1, Event::Head(_)), (1, Event::End)]),
            "{events:?}"
        );
        fetches.begin(now, 2, ask("/next"));
        while fetches.poll(now, &mut wire) {}
        assert!(fetches.next_timeout().unwrap() <= now + INITIAL_RTO);
    }

    #[test]
    fn slow_readers_take_all_memory() {
        let segments: usize = (1..=limits::FETCHES).map(window_segments).sum();
        assert!(
            segments * larder_packet::limits::MAX_PACKET_BYTES < 760 << 20,
            "{segments}"
        );
        assert_eq!(window_segments(1), limits::WINDOW_SEGMENTS);
        assert_eq!(
            window_segments(limits::FETCHES),
            16,
            "still enough for a window"
        );
    }
}
