//! The answers of the egress: which body follows a head, and what a consumer gets of both.

use super::{EgressCore, Opened};
use crate::egress::body::{Body, Receipt};
use crate::egress::body_version::Known;
use crate::egress::data::{HEAD_TOO_LARGE, NO_ROOM, OwnError, segment_bytes};
use crate::egress::exchange::{OriginHead, Outcome, Reply};
use crate::egress::reply_cache::{Form, State};
use crate::limits;
use crate::message::{Answer, Content, Head};
use bytes::Bytes;
use http::HeaderMap;
use larder_units::Time;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::time::Duration;

impl EgressCore {
    /// Returns the place of the body that follows this head: that of the same body, if it is here
    /// already, or a new one.
    pub(super) fn body_of(
        &mut self,
        now: Time,
        id: u64,
        key: &[u8],
        head: &OriginHead,
        fresh_for: Option<Duration>,
        out: &mut Outcome,
    ) -> Opened {
        let Some(question) = self.reply_cache.questions.get_mut(key) else {
            return Opened::NoRoom;
        };
        let (object, request) = (
            question.object.clone(),
            std::mem::take(&mut question.fields),
        );
        let requester = question.requester;
        let segment_bytes = segment_bytes(&object);
        let length = head
            .body
            .as_ref()
            .map(|body| body.len() as u64)
            .or(head.length);
        let (status, headers, bytes) = (head.status, &head.headers, head.body.as_deref());
        let known = Known {
            status,
            headers,
            request: &request,
            bytes,
            length,
            segment_bytes,
        };
        let version = fresh_for.and_then(|_| known.version(&self.options.identity));
        let version = version.unwrap_or_else(|| self.next_version(fresh_for.is_some()));
        let name = object.versioned(version);
        let versioned = name.as_bytes().to_vec();
        match self.reply_cache.bodies.get_mut(&versioned) {
            Some(body) if body.is_whole() => {
                body.pin(now, fresh_for.unwrap_or_default());
                self.reply_cache.orders.remove(id);
                out.stops.push(id);
            }
            broken => {
                if broken.is_some() {
                    self.reply_cache.forget_body(&versioned, out);
                }
                let receipt = Receipt {
                    id,
                    requester,
                    name,
                    segment_bytes,
                    length,
                    whole: true,
                    reserved: 0,
                    fresh_for,
                };
                if let Err(refused) = self.open_body(now, key, receipt, bytes, out) {
                    return refused;
                }
            }
        }
        if let Some(question) = self.reply_cache.questions.get_mut(key) {
            question.body = Some(versioned);
        }
        Opened::Body(Content::Segments { version, length })
    }

    /// Adds a body, of which `bytes` are all or nothing has arrived, and moves the request of the
    /// origin to it. Decides how much of it is kept.
    fn open_body(
        &mut self,
        now: Time,
        key: &[u8],
        mut receipt: Receipt,
        bytes: Option<&[u8]>,
        out: &mut Outcome,
    ) -> Result<(), Opened> {
        let (id, length) = (receipt.id, receipt.length);
        let (window, most) = (Body::window_bytes(), self.options.memory / 8);
        let whole = length
            .and_then(|length| usize::try_from(length).ok())
            .filter(|length| *length <= most);
        if receipt.fresh_for.is_some() && whole.is_none() && length.is_some() {
            return Err(Opened::TooLargeToShare);
        }
        receipt.reserved = whole.unwrap_or(window);
        // With unknown length, it may turn out to be short.
        receipt.whole = whole.is_some() || length.is_none();
        if !self.make_room(now, receipt.requester, receipt.reserved, out) {
            self.figures.no_room += 1;
            return Err(Opened::NoRoom);
        }
        self.reply_cache
            .reserve(receipt.requester, receipt.reserved);
        let mut body = Body::new(receipt, key, now);
        let versioned = body.name().as_bytes().to_vec();
        if let Some(bytes) = bytes {
            body.push(now, bytes);
            body.end(true);
            self.reply_cache.orders.remove(id);
            out.stops.push(id);
        } else {
            self.reply_cache.orders.set_key(id, versioned.clone());
            out.grants.extend(body.grant().map(|bytes| (id, bytes)));
        }
        self.reply_cache.bodies.insert(versioned, body);
        Ok(())
    }

    /// Returns a version that no body has. A client that knows a body's name may fetch it, so the
    /// version of one client's response is unguessable: only its head, whose name is unguessable
    /// too, has it.
    fn next_version(&mut self, is_shared: bool) -> u64 {
        self.last_version += 1;
        if is_shared {
            return self.last_version;
        }
        let [key, other] = self.version_key;
        let mut hasher = SipHasher13::new_with_keys(key, other);
        hasher.write_u64(self.last_version);
        hasher.finish()
    }

    pub(super) fn answer(
        &mut self,
        now: Time,
        id: u64,
        key: &[u8],
        head: Head,
        fresh_for: Option<Duration>,
        out: &mut Outcome,
    ) {
        let Some(question) = self.reply_cache.questions.get(key) else {
            return;
        };
        let built = if question.form == Form::Metadata {
            self.signer.metadata(&question.object, &head.body)
        } else {
            let content = Answer::Head(head).encode();
            self.signer
                .answer(key, &content, fresh_for.unwrap_or_default())
        };
        match built {
            Some(wire) if wire.len() <= limits::MAX_PACKET_BYTES => {
                self.figures.answers[usize::from(fresh_for.is_none())] += 1;
                let kept_for = fresh_for
                    .unwrap_or_default()
                    .max(limits::ANSWER_KEPT_SHARED);
                let kept_for = if fresh_for.is_some() {
                    kept_for
                } else {
                    limits::ANSWER_KEPT
                };
                self.settle(now, key, wire, fresh_for.is_none(), kept_for, out);
            }
            _ => {
                // A body that was begun belongs to no answer.
                if let Some(versioned) = self.reply_cache.orders.get(id).cloned() {
                    self.reply_cache.forget_body(&versioned, out);
                }
                self.answer_error(now, id, key, HEAD_TOO_LARGE, out);
            }
        }
    }

    /// Answers with an error of the egress itself.
    pub(super) fn answer_error(
        &mut self,
        now: Time,
        id: u64,
        key: &[u8],
        error: OwnError,
        out: &mut Outcome,
    ) {
        out.stops.push(id);
        self.reply_cache.orders.remove(id);
        let Some(question) = self.reply_cache.questions.get(key) else {
            return;
        };
        if question.form == Form::Metadata {
            return self.refuse_metadata(now, id, key, out);
        }
        if error == NO_ROOM && question.form == Form::Shared && self.asked_by.is_some() {
            return self.ask_in_full(now, id, key, out);
        }
        let no_cache = question.form == Form::InFull;
        if let Some(wire) = self.signer.error(key, error, question.is_head) {
            self.settle(now, key, wire, no_cache, limits::ANSWER_KEPT_SHARED, out);
        }
    }

    pub(super) fn ask_in_full(&mut self, now: Time, id: u64, key: &[u8], out: &mut Outcome) {
        out.stops.push(id);
        self.reply_cache.orders.remove(id);
        self.figures.answers[2] += 1;
        if let Some(wire) =
            self.signer
                .answer(key, &Answer::InFull.encode(), limits::IN_FULL_FRESHNESS)
        {
            self.settle(now, key, wire, false, limits::ANSWER_KEPT_SHARED, out);
        }
    }

    /// Answers that the name alone fetches nothing.
    pub(super) fn refuse_metadata(&mut self, now: Time, id: u64, key: &[u8], out: &mut Outcome) {
        out.stops.push(id);
        self.reply_cache.orders.remove(id);
        if let Some(wire) = self.signer.nothing(key, limits::METADATA_FRESHNESS) {
            self.settle(now, key, wire, false, limits::METADATA_FRESHNESS, out);
        }
    }

    /// Sends an answer to the Interests that wait, and keeps it.
    fn settle(
        &mut self,
        now: Time,
        key: &[u8],
        wire: Bytes,
        no_cache: bool,
        kept_for: Duration,
        out: &mut Outcome,
    ) {
        let Some(question) = self.reply_cache.questions.get_mut(key) else {
            return;
        };
        let kept_for = if question.is_unsafe {
            limits::ANSWER_TO_UNSAFE_KEPT
        } else {
            kept_for
        };
        if let State::Waiting { token, until } = question.state
            && until > now
        {
            out.replies.push(Reply {
                token,
                wire: wire.clone(),
                no_cache,
            });
        }
        let until = now + kept_for;
        question.fields = HeaderMap::new();
        question.state = State::Answered {
            wire,
            no_cache,
            until,
        };
        let answers = if question.is_unsafe {
            &mut self.reply_cache.answered_once
        } else {
            &mut self.reply_cache.answered
        };
        answers.push_back((until, key.to_vec()));
    }
}
