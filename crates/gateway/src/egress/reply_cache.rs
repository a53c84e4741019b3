//! The memory of an egress: questions with their answers, bodies, the requests of the origin, and
//! the room that they share.
//!
//! Memory is reserved, not counted: an answer takes [`limits::ANSWER_BYTES`], a body the size that
//! it may reach. When room is short, bodies that no answer names leave first, then the oldest
//! answers to safe requests, then those to unsafe ones. A client that has lost such an answer does
//! not get it again, because the request is not repeated. Last, what is in progress for the
//! requester with the most bytes leaves, if the room is for one with fewer.

use super::body::Body;
use super::exchange::Outcome;
use super::orders::{Orders, Requester};
use crate::limits;
use crate::naming::Object;
use bytes::Bytes;
use http::HeaderMap;
use larder_packet::PitToken;
use larder_units::Time;
use std::collections::{HashMap, VecDeque};

pub(super) struct ReplyCache {
    memory: usize,
    pub(super) reserved: usize,
    /// The part of `reserved` that is of each requester.
    held: HashMap<Requester, usize>,
    /// By the name of the question.
    pub(super) questions: HashMap<Vec<u8>, Question>,
    /// By their versioned names.
    pub(super) bodies: HashMap<Vec<u8>, Body>,
    /// The requests to the origin, with the question or the body of each.
    pub(super) orders: Orders,
    /// Answers that may leave for others, the oldest first, with the end of their time. Some have
    /// already left.
    pub(super) answered: VecDeque<(Time, Vec<u8>)>,
    /// The same for unsafe requests, which leave last.
    pub(super) answered_once: VecDeque<(Time, Vec<u8>)>,
}

pub(super) struct Question {
    /// The id of the request to the origin.
    pub(super) id: u64,
    pub(super) requester: Requester,
    /// The time of the last Interest.
    pub(super) last_asked: Time,
    pub(super) object: Object,
    pub(super) form: Form,
    pub(super) is_head: bool,
    /// True if it must not be executed twice.
    pub(super) is_unsafe: bool,
    /// The fields of a request in the shared form, until it is answered.
    pub(super) fields: HeaderMap,
    /// The versioned name of the body that the answer names.
    pub(super) body: Option<Vec<u8>>,
    pub(super) state: State,
}

pub(super) enum State {
    /// The origin has not answered. Only this node's forwarder asks, so the last Interest counts.
    Waiting {
        token: Option<PitToken>,
        until: Time,
    },
    Answered {
        wire: Bytes,
        no_cache: bool,
        until: Time,
    },
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    Shared,
    InFull,
    Metadata,
}

impl ReplyCache {
    /// Creates an empty cache of so many bytes.
    pub(super) fn new(memory: usize) -> ReplyCache {
        ReplyCache {
            memory,
            reserved: 0,
            held: HashMap::new(),
            questions: HashMap::new(),
            bodies: HashMap::new(),
            orders: Orders::new(limits::ORIGIN_REQUESTS),
            answered: VecDeque::new(),
            answered_once: VecDeque::new(),
        }
    }

    /// Removes what has expired.
    pub(super) fn sweep(&mut self, now: Time, out: &mut Outcome) {
        let past = |question: &Question| matches!(question.state, State::Answered { until, .. } if until <= now);
        let old: Vec<_> = self
            .questions
            .iter()
            .filter(|(_, question)| past(question))
            .map(|(key, _)| key.clone())
            .collect();
        for key in &old {
            self.forget_question(key);
        }
        for answers in [&mut self.answered, &mut self.answered_once] {
            answers.retain(|(until, key)| is_answered(&self.questions, key, *until));
        }
        let old: Vec<_> = self
            .bodies
            .iter()
            .filter(|(_, body)| body.is_past(now))
            .map(|(key, _)| key.clone())
            .collect();
        for key in &old {
            self.forget_body(key, out);
        }
    }

    /// Removes bodies that no answer names, and then answers, until so many bytes are free. Returns
    /// false if that is impossible.
    pub(super) fn make_room(&mut self, now: Time, needed: usize) -> bool {
        if self.has_room(needed) {
            return true;
        }
        let mut idle: Vec<(Time, Vec<u8>)> = self
            .bodies
            .iter()
            .filter_map(|(key, body)| body.idle_since(now).map(|since| (since, key.clone())))
            .collect();
        idle.sort_unstable();
        for (_, key) in idle {
            if self.has_room(needed) {
                return true;
            }
            self.forget_body(&key, &mut Outcome::default());
        }
        while !self.has_room(needed) {
            let oldest = self
                .answered
                .pop_front()
                .or_else(|| self.answered_once.pop_front());
            let Some((until, key)) = oldest else {
                return false;
            };
            if is_answered(&self.questions, &key, until) {
                self.forget_question(&key);
            }
        }
        true
    }

    pub(super) fn reserve(&mut self, requester: Requester, bytes: usize) {
        self.reserved += bytes;
        *self.held.entry(requester).or_default() += bytes;
    }

    pub(super) fn release(&mut self, requester: Requester, bytes: usize) {
        self.reserved -= bytes;
        if let Some(held) = self.held.get_mut(&requester) {
            *held -= bytes;
            if *held == 0 {
                self.held.remove(&requester);
            }
        }
    }

    /// Returns the questions that nobody waits for, if room or places are short: their Interests
    /// have expired, and were not repeated. An unsafe request ends by itself, because its client
    /// does not know whether it was executed.
    pub(super) fn unwanted(&self, now: Time) -> Vec<Vec<u8>> {
        if self.reserved <= self.memory / 2 && !self.orders.is_full() {
            return Vec::new();
        }
        let is_unwanted = |question: &Question| match question.state {
            State::Waiting { until, .. } => !question.is_unsafe && until + limits::LIFETIME <= now,
            State::Answered { .. } => false,
        };
        self.questions
            .iter()
            .filter(|(_, question)| is_unwanted(question))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Returns the requester with the most bytes, if it has more than another one will have with
    /// `needed` more.
    pub(super) fn larger_than(&self, requester: Requester, needed: usize) -> Option<Requester> {
        let with_more = self.held.get(&requester).copied().unwrap_or_default() + needed;
        let (largest, held) = self.held.iter().max_by_key(|(_, held)| **held)?;
        (*held > with_more).then_some(*largest)
    }

    /// Returns the name of what is in progress for a requester, and that no Interest has requested
    /// for the longest time: a client that waits repeats its Interests.
    pub(super) fn least_wanted(&self, requester: Requester) -> Option<Vec<u8>> {
        let in_progress = self
            .orders
            .of(requester)
            .filter_map(|id| self.orders.get(id));
        let ended = self
            .bodies
            .iter()
            .filter(|(_, body)| body.requester() == requester)
            .map(|(key, _)| key);
        self.oldest(in_progress.chain(ended))
    }

    /// The same of those that have a place at the origin.
    pub(super) fn least_wanted_started(&self, requester: Requester) -> Option<Vec<u8>> {
        // The client of an unsafe request would not know whether it was executed.
        let is_safe = |key: &&Vec<u8>| {
            self.questions
                .get(*key)
                .is_none_or(|question| !question.is_unsafe)
        };
        self.oldest(
            self.orders
                .started_of(requester)
                .filter_map(|id| self.orders.get(id))
                .filter(is_safe),
        )
    }

    fn oldest<'a>(&self, keys: impl Iterator<Item = &'a Vec<u8>>) -> Option<Vec<u8>> {
        let last_asked = |key: &Vec<u8>| match self.questions.get(key) {
            Some(question) => Some((question.last_asked, question.id)),
            None => self
                .bodies
                .get(key)
                .map(|body| (body.last_asked(), body.id())),
        };
        keys.filter_map(|key| last_asked(key).map(|at| (at, key)))
            .min_by_key(|(at, _)| *at)
            .map(|(_, key)| key.clone())
    }

    fn has_room(&self, needed: usize) -> bool {
        self.reserved + needed <= self.memory
    }

    /// Gives more room to a body of unknown length that has used its own, or turns it into a
    /// window.
    pub(super) fn widen(&mut self, now: Time, key: &[u8]) {
        let Some(body) = self.bodies.get(key) else {
            return;
        };
        let (reserved, requester) = (body.reserved(), body.requester());
        let more = Body::window_bytes();
        let gets = reserved + more <= self.memory / 8 && self.make_room(now, more);
        let Some(body) = self.bodies.get_mut(key) else {
            return;
        };
        if gets {
            body.widen(more);
            self.reserve(requester, more);
        } else {
            let freed = body.become_window();
            self.release(requester, freed);
        }
    }

    pub(super) fn forget_question(&mut self, key: &Vec<u8>) {
        if let Some(question) = self.questions.remove(key) {
            self.release(question.requester, limits::ANSWER_BYTES);
        }
    }

    /// Removes the answers that name a body, but not those to unsafe requests.
    pub(super) fn forget_answers_with(&mut self, body: &[u8]) {
        let names =
            |question: &Question| question.body.as_deref() == Some(body) && !question.is_unsafe;
        let keys: Vec<_> = self
            .questions
            .iter()
            .filter(|(_, question)| names(question))
            .map(|(key, _)| key.clone())
            .collect();
        for key in &keys {
            self.forget_question(key);
        }
    }

    pub(super) fn forget_body(&mut self, key: &[u8], out: &mut Outcome) {
        let Some(body) = self.bodies.remove(key) else {
            return;
        };
        self.release(body.requester(), body.reserved());
        if self.orders.remove(body.id()).is_some() {
            out.stops.push(body.id());
        }
    }
}

/// Returns true if the answer with this end of its time still exists: the question may have been
/// answered again since.
fn is_answered(questions: &HashMap<Vec<u8>, Question>, key: &[u8], kept_until: Time) -> bool {
    matches!(questions.get(key), Some(Question { state: State::Answered { until, .. }, .. }) if *until == kept_until)
}
