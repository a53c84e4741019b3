//! A body that is too large to be stored whole, cut into slices for the second tier while it passes
//! to its client.

use crate::body::budget::Reservation;
use crate::rfc::key::Key;
use crate::store::stored::Stored;
use bytes::Bytes;
use std::collections::VecDeque;

/// The slice that is being collected, and the complete ones.
#[derive(Debug)]
pub(crate) struct Slicer {
    pub key: Key<'static>,
    /// The stored head of the whole object. It is sliced.
    pub head: Stored,
    /// The start of the slice that is being collected.
    start: u64,
    collected: Vec<u8>,
    whole: VecDeque<(u64, Bytes)>,
    /// True if the second tier refused a slice.
    is_stopped: bool,
    /// The memory of one slice.
    _room: Reservation,
}

impl Slicer {
    pub(crate) fn new(key: Key<'static>, head: Stored, room: Reservation) -> Slicer {
        Slicer {
            key,
            head,
            start: 0,
            collected: Vec::new(),
            whole: VecDeque::new(),
            is_stopped: false,
            _room: room,
        }
    }

    /// Adds the next piece of the body.
    pub(crate) fn push(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() && !self.is_stopped {
            let length = self.slice_length();
            let missing = length - self.collected.len();
            if missing == 0 {
                // The body is longer than declared.
                return;
            }
            if self.collected.is_empty() {
                self.collected.reserve_exact(length);
            }
            let (taken, rest) = piece.split_at(missing.min(piece.len()));
            self.collected.extend_from_slice(taken);
            piece = rest;
            if self.collected.len() == length {
                self.whole
                    .push_back((self.start, std::mem::take(&mut self.collected).into()));
                self.start += length as u64;
            }
        }
    }

    pub(crate) fn has_slices(&self) -> bool {
        !self.whole.is_empty()
    }

    /// Takes the next complete slice: its start, and its bytes.
    pub(crate) fn next_slice(&mut self) -> Option<(u64, Bytes)> {
        self.whole.pop_front()
    }

    /// Returns a slice that could not be stored yet.
    pub(crate) fn put_back(&mut self, start: u64, bytes: Bytes) {
        self.whole.push_front((start, bytes));
    }

    /// Stops cutting; the rest is only sent to the client.
    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
        self.collected = Vec::new();
        self.whole.clear();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Returns true if the whole body has been stored.
    pub(crate) fn is_done(&self) -> bool {
        self.slice_length() == 0 && self.whole.is_empty() && !self.is_stopped
    }

    fn slice_length(&self) -> usize {
        let sliced = self.head.sliced().expect("the head is sliced");
        let end = sliced
            .length
            .min(self.start.saturating_add(sliced.slice_bytes));
        (end - self.start) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::budget::Budget;
    use crate::now::Now;
    use crate::rfc::freshness::Freshness;
    use crate::store::sliced::{Pin, Sliced};
    use crate::store::stored::Elsewhere;
    use http::{HeaderMap, HeaderValue, StatusCode, header};
    use larder_units::{Streams, Time};

    fn slicer(length: u64, slice_bytes: u64) -> Slicer {
        let now = Now {
            time: Time::ZERO,
            unix_seconds: 0,
        };
        let freshness = Freshness::of(
            StatusCode::OK,
            &HeaderMap::new(),
            &Default::default(),
            now.time,
            now,
        );
        let key = Key::new("http", "a", "/").into_owned();
        let mut head = Stored::new(
            key.to_bytes(),
            0,
            Default::default(),
            StatusCode::OK,
            &HeaderMap::new(),
            freshness,
        );
        let pin = Pin::from_parts(header::ETAG, HeaderValue::from_static("x"));
        head.elsewhere = Some(Box::new(Elsewhere::Slices(Sliced {
            generation: 1,
            length,
            pin,
            slice_bytes,
        })));
        Slicer::new(key, head, Budget::new(1 << 20).reserve(1).unwrap())
    }

    #[test]
    fn slices_are_not_the_body() {
        for seed in 0..200 {
            let mut stream = Streams::new(seed).stream("slicer");
            let (length, slice) = (1 + stream.below(1000), 1 + stream.below(300));
            let body: Vec<u8> = (0..length).map(|_| stream.below(256) as u8).collect();
            let mut slicer = slicer(length, slice);
            let (mut at, mut slices) = (0, Vec::new());
            while at < body.len() {
                assert!(!slicer.is_done());
                let end = body.len().min(at + 1 + stream.below(400) as usize);
                slicer.push(&body[at..end]);
                at = end;
                assert_eq!(
                    slicer.has_slices(),
                    end as u64 / slice > slices.len() as u64 || at == body.len()
                );
                slices.extend(std::iter::from_fn(|| slicer.next_slice()));
            }
            assert!(slicer.is_done());
            slicer.push(b"more");
            assert!(!slicer.has_slices());
            for (number, (start, _)) in slices.iter().enumerate() {
                assert_eq!(*start, number as u64 * slice, "seed {seed}");
            }
            assert_eq!(
                slices
                    .iter()
                    .map(|(_, bytes)| &bytes[..])
                    .collect::<Vec<_>>()
                    .concat(),
                body
            );
        }
    }
}
