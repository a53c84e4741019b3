//! Handles many frames at once: with the same result as one after the other, but the memory that
//! they need is prefetched.
//!
//! Tables of millions of entries are in no cache, and an Interest reads some ten places of them,
//! each known from hashes alone. One frame after the other would wait for each place in turn. Here
//! a batch makes five passes: decode, hash and prefetch the lines of the indexes; prefetch the
//! entries that they lead to, and the filter of the FIB; prefetch its index; prefetch rows and
//! packets; act. Only the last pass changes anything, frame by frame. So the results of the earlier
//! passes may be outdated: they are hints, and the last pass looks again.

use super::link_service::{Frame, Packet};
use crate::face::FaceId;
use crate::forwarder::Forwarder;
use crate::outbox::Outbox;
use crate::tables::name_hash::{Hashed, Lengths, Prefix};
use larder_policy::Slot;
use larder_units::Time;
use std::ops::Range;

/// Frames in progress at once: enough to hide the memory's latency, and few enough that their state
/// stays in the first cache.
const FRAMES: usize = 32;

/// One frame of a batch.
#[derive(Debug)]
pub struct Received<'a> {
    /// The face that received it.
    pub face: FaceId,
    /// An NDNLPv2 packet, or a bare Interest or Data.
    pub frame: &'a mut [u8],
}

/// The state of a frame before its turn.
struct Ahead<'a> {
    frame: Frame<'a>,
    /// The slot that probably answers the Interest.
    stored: Option<Slot>,
    /// The prefixes of its name, among those of the batch.
    prefixes: Range<usize>,
}

impl Forwarder {
    /// Handles frames as [`Forwarder::on_packet`] does, one after the other, but faster. The
    /// [`index`](crate::Send::index) of a [`crate::Send`] is the frame that caused it;
    /// [`Outbox::drops`] has the dropped frames and the reasons.
    pub fn on_packets(&mut self, now: Time, batch: &mut [Received<'_>], out: &mut Outbox) {
        out.clear();
        self.clock = now;
        let mut prefixes = std::mem::take(&mut self.scratch.ahead);
        let lengths = self.prefix_lengths();
        for batch in batch.chunks_mut(FRAMES) {
            prefixes.clear();
            let mut places: [Ahead<'_>; FRAMES] =
                std::array::from_fn(|_| Ahead { frame: Frame::NOTHING, stored: None, prefixes: 0..0 });
            let ahead = &mut places[..batch.len()];
            for (Ahead { frame, .. }, received) in ahead.iter_mut().zip(batch) {
                frame.read(&self.hasher, self.max_packet_bytes, received.face, received.frame);
                self.ask_for_indexes(frame);
            }
            ahead.iter_mut().for_each(|ahead| self.ask_for_entries(ahead, lengths, &mut prefixes));
            ahead.iter().for_each(|ahead| self.fib.prefetch_index(&prefixes[ahead.prefixes.clone()]));
            ahead.iter().for_each(|ahead| self.ask_for_the_rest(ahead, &prefixes));
            for Ahead { frame, prefixes: range, .. } in ahead.iter() {
                let hashed = Hashed { prefixes: &prefixes[range.clone()], lengths };
                let result = self.handle(now, frame, hashed, out);
                out.end_of_frame(result);
            }
        }
        self.scratch.ahead = prefixes;
    }

    #[inline]
    pub(crate) fn ask_for_indexes(&self, frame: &Frame<'_>) {
        match &frame.packet {
            Packet::Interest(interest, hash) => {
                self.pit.prefetch(*hash);
                self.content_store.prefetch(*hash);
                self.dead_nonces.prefetch(*hash, interest.nonce.unwrap_or_default());
            }
            Packet::Data(_, hash) => self.pit.prefetch(*hash),
            _ => {}
        }
    }

    fn ask_for_entries(&self, ahead: &mut Ahead<'_>, lengths: Lengths, prefixes: &mut Vec<Prefix>) {
        match &ahead.frame.packet {
            Packet::Interest(interest, hash) => {
                let stored = self.content_store.prefetch_entry(*hash);
                self.pit.prefetch_entry(*hash);
                if stored.is_none() {
                    let from = prefixes.len();
                    self.hasher.append_prefixes(interest.name, lengths, prefixes);
                    self.fib.prefetch(&prefixes[from..]);
                    ahead.prefixes = from..prefixes.len();
                }
                ahead.stored = stored;
            }
            Packet::Data(_, hash) => self.pit.prefetch_entry(*hash),
            _ => {}
        }
    }

    fn ask_for_the_rest(&self, ahead: &Ahead<'_>, prefixes: &[Prefix]) {
        if let Packet::Interest(_, hash) = &ahead.frame.packet {
            match ahead.stored {
                Some(slot) => self.content_store.prefetch_packet(*hash, slot),
                None => self.fib.prefetch_rows(&prefixes[ahead.prefixes.clone()]),
            }
        }
    }
}
