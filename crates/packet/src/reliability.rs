//! Link reliability: the neighbour acknowledges frames, and lost frames are sent again.
//!
//! NDNLPv2 (NFD wiki, "NDNLPv2"), section "Link Reliability"; the numbers are NFD's. Every frame
//! with a fragment has a TxSequence, which is new at each transmission, and a Sequence, which
//! stays. The receiver returns each TxSequence as an Ack, in the next frame that it sends, or after
//! 5 ms in a frame that has only Acks. A frame is lost when three frames sent after it are
//! acknowledged, or when one is and the frame is older than a timeout (RFC 6298). It is sent again
//! three times. Then its packet is given up, and the consumer's next Interest repairs the loss. The
//! Sequence identifies a duplicate.
//!
//! If nothing that was sent after the frame is acknowledged, the neighbour may only be late: its
//! process has no processor for a while, and a retransmission of everything would add load at the
//! worst moment. After a timeout without any Ack, two frames are sent again as probes (RFC 6298,
//! 5.4 to 5.6; two, so that the loss of one does not end the link, as in RFC 9002, 6.2.4), and the
//! timeout doubles. The answer shows what is lost. After five such timeouts without an answer,
//! everything sent before the first one is given up.
//!
//! Deviations from NFD: silence is not a loss, as above. Round trips of retransmitted frames are
//! measured too, because the TxSequence identifies the transmission that is acknowledged. The
//! timeout has no floor of 200 ms, for which a local link would wait, but one of four times the
//! delay of Acks. Memory is bounded: while too much is unacknowledged, frames are sent once, as
//! without reliability. A frame's Sequence is remembered for a window and not for a time. A
//! neighbour takes no part if it has acknowledged nothing by the time that a packet is given up, or
//! by the time that it sends a packet without a TxSequence. From then on everything is sent to it
//! once. A [stranger](Reliability::with_stranger) is probed once, and not five times, before its
//! first Ack, because its address may be forged.
//!
//! An Ack takes constant time. "Three after it" means "before the third highest that was
//! acknowledged", so the lost frames are always at the front of the window. Each frame in flight
//! takes its own bytes and 64 more.

use crate::fragment::{FragmentError, Fragmenter};
use crate::limits::{MOST_LINK_TIMEOUT, UNACKNOWLEDGED_BYTES, UNACKNOWLEDGED_FRAMES};
use crate::lp::LpHeader;
use crate::tlv::{self, Tlv};
use crate::types;
use larder_units::Time;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Frames received and not yet acknowledged. Acks are sent after [`ACK_DELAY`] at the latest: this
/// allows a million frames per second. A frame without an Ack is sent again.
const MAX_WAITING_ACKS: usize = 4096;

/// The number of Sequences that are remembered to find duplicates: as many as the sender may have
/// in flight. 512 bytes.
const SEQUENCES_REMEMBERED: usize = UNACKNOWLEDGED_FRAMES;

/// The time that Acks wait for a frame to carry them (NFD's `idleAckTimerPeriod`).
const ACK_DELAY: Duration = Duration::from_millis(5);

/// The timeout of a reliable link before the first Ack, doubled each time. RFC 6298 (section 2.1)
/// has 1 s for paths around the world. A link is one hop; if it is a tunnel of half a second, two
/// of its first frames are sent two or three times.
const FIRST_LINK_TIMEOUT: Duration = Duration::from_millis(200);

/// The shortest timeout of a reliable link. With a shorter one, the Acks' own delay and a busy
/// moment of the neighbour would look like loss.
const LEAST_LINK_TIMEOUT: Duration = Duration::from_millis(20);

/// The number of retransmissions of a frame before its packet is given up (NFD, `maxRetx`).
const TRIES_AGAIN: u32 = 3;

/// Timeouts in a silence before everything sent until then is given up: after 1.3 s at least. NFD's
/// three tries take 0.8 s at least.
const TRIES_IN_SILENCE: u32 = 5;

/// Frames that are sent as probes in a silence.
const PROBES: usize = 2;

/// The value of both limits for a stranger that has acknowledged nothing.
const TRIES_WITH_STRANGER: u32 = 1;

/// Bytes of an Ack or a TxSequence: type, length and a fixed 8 bytes.
const FIELD_BYTES: usize = 3 + 1 + 8;

/// Bytes that a TxSequence adds to a frame: its own, and two if the frame's length then needs a
/// longer VAR-NUMBER.
const TX_SEQUENCE_BYTES: usize = FIELD_BYTES + 2;

/// One end of a reliable link. The host passes every frame of both directions through it, and calls
/// [`Reliability::on_timeout`] when it is due.
#[derive(Debug)]
pub struct Reliability {
    fragmenter: Fragmenter,
    window: Window,
    acks: AckQueue,
    heard: Heard,
    /// Packets sent. The number identifies the frames of a packet.
    packets: u64,
}

/// Counters of frames since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReliabilityCounters {
    /// Frames that were acknowledged.
    pub acknowledged: u64,
    /// Frames that were sent again.
    pub retransmissions: u64,
    /// Packets with a frame that was never acknowledged.
    pub given_up: u64,
}

impl Reliability {
    /// Allows packets of up to `largest` bytes: see [`Fragmenter::for_packets_of`].
    #[must_use]
    pub fn for_packets_of(self, largest: usize) -> Self {
        Reliability {
            fragmenter: self.fragmenter.for_packets_of(largest),
            ..self
        }
    }

    /// Numbers frames from `first_sequence`, which should be random: Acks for an earlier peer at
    /// this address must not match.
    pub fn new(first_sequence: u64) -> Self {
        Reliability {
            fragmenter: Fragmenter::new(first_sequence).numbering_all(),
            // The Sequences stay far below the largest 64-bit number.
            window: Window::new(first_sequence >> 2),
            acks: AckQueue::default(),
            heard: Heard::default(),
            packets: 0,
        }
    }

    /// Creates an end for a peer that has sent its first frame and of which nothing else is known.
    pub fn with_stranger(first_sequence: u64) -> Self {
        let mut link = Reliability::new(first_sequence);
        link.window.tries_again = TRIES_WITH_STRANGER;
        link
    }

    /// Keeps at most this many bytes of frames in flight; the default is [`UNACKNOWLEDGED_BYTES`].
    /// Frames beyond it are sent once.
    pub fn hold_at_most(&mut self, bytes: usize) {
        self.window.most_bytes = bytes;
    }

    /// Passes `packet` with `header` to `emit`, in frames of at most `mtu` bytes, with as many Acks
    /// as fit. Returns the number of frames.
    ///
    /// # Errors
    /// If the MTU is too small for any fragment; `emit` has not been called then.
    pub fn send(
        &mut self,
        now: Time,
        header: &LpHeader,
        packet: &[u8],
        mtu: usize,
        mut emit: impl FnMut(&[u8]),
    ) -> Result<usize, FragmentError> {
        self.packets += 1;
        let (window, acks, packet_number) = (&mut self.window, &mut self.acks, self.packets);
        let room = mtu.saturating_sub(TX_SEQUENCE_BYTES);
        self.fragmenter.fragment(header, packet, room, |frame| {
            if window.is_full() {
                return emit(frame);
            }
            let tx_sequence = window.next();
            let frame = with_fields(
                frame,
                acks.take(room.saturating_sub(frame.len()) / FIELD_BYTES),
                tx_sequence,
            );
            emit(&frame);
            window.push(Sent {
                at: now,
                packet: packet_number,
                again: 0,
                frame,
            });
        })
    }

    /// Reads the link fields of a neighbour's frame. Returns false for a duplicate, which must be
    /// ignored.
    pub fn receive(&mut self, now: Time, frame: &[u8]) -> bool {
        // Only link packets have fields, and the decoder refuses malformed ones.
        let Ok(packet) = Tlv::only(frame, types::LP_PACKET) else {
            self.window.doubt();
            return true;
        };
        let (mut sequence, mut tx_sequence, mut has_fragment) = (None, None, false);
        for field in packet.children() {
            let Ok(field) = field else { return true };
            match field.typ {
                types::LP_SEQUENCE => sequence = tlv::read_nni(field.value),
                types::LP_TX_SEQUENCE => tx_sequence = tlv::read_nni(field.value),
                types::LP_ACK => {
                    if let Some(acknowledged) = tlv::read_nni(field.value) {
                        self.window.acknowledge(now, acknowledged);
                    }
                }
                types::LP_FRAGMENT => has_fragment = true,
                _ => {}
            }
        }
        let Some(tx_sequence) = tx_sequence.filter(|_| has_fragment) else {
            if has_fragment {
                self.window.doubt();
            }
            return true;
        };
        self.acks.push(now, tx_sequence);
        sequence.is_none_or(|sequence| self.heard.is_new(sequence))
    }

    /// Returns the time of the next [`Reliability::on_timeout`]; a past time if it is overdue.
    pub fn next_timeout(&self) -> Option<Time> {
        [self.acks.due, self.window.next_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Passes retransmissions to `emit`, and the Acks that no frame has carried. Returns the number
    /// of packets that were given up.
    pub fn on_timeout(&mut self, now: Time, mtu: usize, mut emit: impl FnMut(&[u8])) -> u64 {
        let before = self.window.counters.given_up;
        self.window.send_again(now, &mut emit);
        if self.acks.due.is_some_and(|due| due <= now) {
            let at_once = (mtu.saturating_sub(4) / FIELD_BYTES).max(1);
            while !self.acks.waiting.is_empty() {
                emit(&alone(self.acks.take(at_once)));
            }
        }
        self.window.counters.given_up - before
    }

    /// Returns the counters of frames.
    pub fn counters(&self) -> ReliabilityCounters {
        self.window.counters
    }

    /// Returns the bytes of the frames that are kept for retransmission.
    pub fn held_bytes(&self) -> usize {
        self.window.bytes
    }
}

/// A frame in flight.
#[derive(Debug)]
struct Sent {
    at: Time,
    /// The number of its packet.
    packet: u64,
    /// The number of retransmissions so far.
    again: u32,
    /// The bytes with the TxSequence; empty once it is acknowledged or given up.
    frame: Vec<u8>,
}

/// Frames in flight by TxSequence, which is the order of transmission.
#[derive(Debug)]
struct Window {
    sent: VecDeque<Sent>,
    /// The TxSequence of the first frame.
    first: u64,
    bytes: usize,
    most_bytes: usize,
    /// The three highest TxSequences that were acknowledged, the third highest first.
    highest: [Option<u64>; 3],
    smoothed: Option<Duration>,
    variation: Duration,
    /// The time of the last Ack or of the last probe.
    quiet_since: Time,
    silence: Option<Silence>,
    /// The number of retransmissions of a frame.
    tries_again: u32,
    counters: ReliabilityCounters,
}

/// A run of timeouts without an Ack.
#[derive(Clone, Copy, Debug)]
struct Silence {
    /// The number of times that the timeout has doubled since the last Ack.
    doublings: u32,
    /// The number of timeouts since frames were last given up.
    tries: u32,
    /// The last packet that was sent before these timeouts.
    last_packet: u64,
}

impl Window {
    fn new(first: u64) -> Self {
        Window {
            sent: VecDeque::new(),
            first,
            bytes: 0,
            most_bytes: UNACKNOWLEDGED_BYTES,
            highest: [None; 3],
            smoothed: None,
            variation: Duration::ZERO,
            quiet_since: Time::ZERO,
            silence: None,
            tries_again: TRIES_AGAIN,
            counters: ReliabilityCounters::default(),
        }
    }

    fn is_full(&self) -> bool {
        self.sent.len() >= UNACKNOWLEDGED_FRAMES || self.bytes >= self.most_bytes
    }

    fn next(&self) -> u64 {
        self.first + self.sent.len() as u64
    }

    fn push(&mut self, sent: Sent) {
        self.bytes += sent.frame.len();
        self.sent.push_back(sent);
    }

    fn acknowledge(&mut self, now: Time, tx_sequence: u64) {
        let index = tx_sequence.wrapping_sub(self.first);
        let Some(sent) = usize::try_from(index)
            .ok()
            .and_then(|index| self.sent.get_mut(index))
        else {
            return;
        };
        if sent.frame.is_empty() {
            return;
        }
        self.bytes -= sent.frame.len();
        sent.frame = Vec::new();
        let round_trip = now.since(sent.at);
        self.counters.acknowledged += 1;
        (self.tries_again, self.quiet_since, self.silence) = (TRIES_AGAIN, now, None);
        self.highest[0] = self.highest[0].max(Some(tx_sequence));
        self.highest.sort_unstable();
        self.measure(round_trip);
        self.forget_finished();
    }

    fn forget_finished(&mut self) {
        while self.sent.front().is_some_and(|sent| sent.frame.is_empty()) {
            self.sent.pop_front();
            self.first += 1;
        }
    }

    /// Updates the timeout (RFC 6298, sections 2.2 and 2.3).
    fn measure(&mut self, round_trip: Duration) {
        match self.smoothed {
            None => (self.smoothed, self.variation) = (Some(round_trip), round_trip / 2),
            Some(smoothed) => {
                self.variation = self.variation * 3 / 4 + smoothed.abs_diff(round_trip) / 4;
                self.smoothed = Some(smoothed * 7 / 8 + round_trip / 8);
            }
        }
    }

    fn timeout(&self) -> Duration {
        let timeout = self
            .smoothed
            .map_or(FIRST_LINK_TIMEOUT, |smoothed| smoothed + self.variation * 4);
        // Twenty milliseconds, doubled this often, exceed the longest timeout.
        let doublings = self.silence.map_or(0, |silence| silence.doublings.min(8));
        (timeout.max(LEAST_LINK_TIMEOUT) * (1 << doublings)).min(MOST_LINK_TIMEOUT)
    }

    /// Returns the time at which the front counts as lost. The front was sent first, so no other
    /// frame is lost before it.
    fn next_timeout(&self) -> Option<Time> {
        let front = self.sent.front()?;
        Some(match (self.is_overtaken(), self.is_passed()) {
            (true, _) => front.at,
            (false, true) => front.at + self.timeout(),
            (false, false) => front.at.max(self.quiet_since) + self.timeout(),
        })
    }

    /// Returns true if three frames that were sent after the front are acknowledged.
    fn is_overtaken(&self) -> bool {
        self.highest[0].is_some_and(|third| self.first < third)
    }

    /// Returns true if a frame that was sent after the front is acknowledged.
    fn is_passed(&self) -> bool {
        self.highest[2].is_some_and(|highest| self.first < highest)
    }

    fn send_again(&mut self, now: Time, emit: &mut impl FnMut(&[u8])) {
        while self.next_timeout().is_some_and(|at| at <= now) {
            if self.is_overtaken() || self.is_passed() {
                self.replace_front(now, emit)
            } else {
                self.probe(now, emit)
            }
            self.forget_finished();
        }
    }

    /// Handles the loss of the front.
    fn replace_front(&mut self, now: Time, emit: &mut impl FnMut(&[u8])) {
        let Some(&Sent { packet, again, .. }) = self.sent.front() else {
            return;
        };
        if again >= self.tries_again {
            self.give_up(packet..=packet)
        } else {
            self.send_front_again(now, 1, emit)
        }
    }

    /// Probes the neighbour, because nothing is acknowledged.
    fn probe(&mut self, now: Time, emit: &mut impl FnMut(&[u8])) {
        let mut silence = self.silence.unwrap_or(Silence {
            doublings: 0,
            tries: 0,
            last_packet: 0,
        });
        if silence.tries == 0 {
            silence.last_packet = self.sent.iter().map(|sent| sent.packet).max().unwrap_or(0);
        }
        let most = if self.tries_again == TRIES_AGAIN {
            TRIES_IN_SILENCE
        } else {
            self.tries_again
        };
        if silence.tries >= most {
            self.give_up(0..=silence.last_packet);
            silence.tries = 0;
        } else {
            silence.tries += 1;
            for _ in 0..PROBES {
                self.forget_finished();
                // The front may be in flight again already. Its loss has another cause, so it does
                // not count as one of its tries.
                if self.sent.front().is_some_and(|front| front.at < now) {
                    self.send_front_again(now, 0, emit);
                }
            }
        }
        silence.doublings += 1;
        (self.silence, self.quiet_since) = (Some(silence), now);
    }

    /// Sends the front again as the last frame of the window. `counts` is 1 if this is one of its
    /// tries.
    fn send_front_again(&mut self, now: Time, counts: u32, emit: &mut impl FnMut(&[u8])) {
        let Some(mut front) = self.sent.pop_front() else {
            return;
        };
        self.first += 1;
        self.bytes -= front.frame.len();
        set_tx_sequence(&mut front.frame, self.next());
        emit(&front.frame);
        self.counters.retransmissions += 1;
        self.push(Sent {
            at: now,
            again: front.again + counts,
            ..front
        });
    }

    /// Marks the neighbour as one that takes no part, unless it has acknowledged something. Its
    /// first Ack shows that it does.
    fn doubt(&mut self) {
        if self.counters.acknowledged == 0 {
            self.tries_again = 0;
        }
    }

    /// Drops the frames of these packets, which are of no use any longer.
    fn give_up(&mut self, packets: RangeInclusive<u64>) {
        let mut given_up = Vec::new();
        for sent in self
            .sent
            .iter_mut()
            .filter(|sent| packets.contains(&sent.packet) && !sent.frame.is_empty())
        {
            given_up.push(sent.packet);
            self.bytes -= sent.frame.len();
            sent.frame = Vec::new();
        }
        given_up.sort_unstable();
        given_up.dedup();
        self.counters.given_up += given_up.len() as u64;
        self.doubt();
    }
}

/// TxSequences that are not acknowledged yet.
#[derive(Debug, Default)]
struct AckQueue {
    waiting: VecDeque<u64>,
    /// The time at which a frame of Acks only is sent; `None` if no Ack waits.
    due: Option<Time>,
}

impl AckQueue {
    fn push(&mut self, now: Time, tx_sequence: u64) {
        if self.waiting.len() < MAX_WAITING_ACKS {
            self.waiting.push_back(tx_sequence);
            self.due.get_or_insert(now + ACK_DELAY);
        }
    }

    /// Removes and returns up to `most` of them.
    fn take(&mut self, most: usize) -> std::vec::IntoIter<u64> {
        let taken: Vec<u64> = self.waiting.drain(..most.min(self.waiting.len())).collect();
        if self.waiting.is_empty() {
            self.due = None;
        }
        taken.into_iter()
    }
}

/// The last Sequences that were received.
#[derive(Debug)]
struct Heard {
    highest: Option<u64>,
    /// One bit per Sequence, at its remainder modulo the number of bits.
    bits: Box<[u64; SEQUENCES_REMEMBERED / 64]>,
}

impl Default for Heard {
    fn default() -> Self {
        Heard {
            highest: None,
            bits: Box::new([0; SEQUENCES_REMEMBERED / 64]),
        }
    }
}

impl Heard {
    fn is_new(&mut self, sequence: u64) -> bool {
        const WINDOW: u64 = SEQUENCES_REMEMBERED as u64;
        let highest = *self.highest.get_or_insert(sequence);
        let (ahead, behind) = (
            sequence.wrapping_sub(highest),
            highest.wrapping_sub(sequence),
        );
        if behind >= WINDOW {
            // The Sequence is ahead, and those between may still arrive; or the sender has started
            // again.
            if ahead < WINDOW {
                for step in 1..=ahead {
                    let (word, bit) = place(highest.wrapping_add(step));
                    self.bits[word] &= !bit;
                }
            } else {
                self.bits.fill(0);
            }
            self.highest = Some(sequence);
        }
        let (word, bit) = place(sequence);
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        is_new
    }
}

fn place(sequence: u64) -> (usize, u64) {
    let at = sequence % SEQUENCES_REMEMBERED as u64;
    ((at / 64) as usize, 1 << (at % 64))
}

/// Returns the link packet `frame` with these Acks and this TxSequence, in ascending order of the
/// fields, which ndn-cxx requires.
fn with_fields(
    frame: &[u8],
    acks: impl ExactSizeIterator<Item = u64>,
    tx_sequence: u64,
) -> Vec<u8> {
    let element = Tlv::only(frame, types::LP_PACKET).ok();
    let start = element.map_or(0, |element| element.value_offset());
    let mut fields = element
        .into_iter()
        .flat_map(|element| element.children().flatten());
    let behind =
        fields.find(|field| field.typ == types::LP_FRAGMENT || field.typ > types::LP_TX_SEQUENCE);
    let at = behind.map_or(frame.len(), |field| field.offset);
    let inside = frame.len() - start + (acks.len() + 1) * FIELD_BYTES;
    let mut out = Vec::with_capacity(inside + 4);
    tlv::write_header(&mut out, types::LP_PACKET, inside);
    out.extend_from_slice(&frame[start..at]);
    for ack in acks {
        tlv::write_tlv(&mut out, types::LP_ACK, &ack.to_be_bytes());
    }
    tlv::write_tlv(&mut out, types::LP_TX_SEQUENCE, &tx_sequence.to_be_bytes());
    out.extend_from_slice(&frame[at..]);
    out
}

/// Overwrites the TxSequence that [`with_fields`] wrote.
fn set_tx_sequence(frame: &mut [u8], tx_sequence: u64) {
    let element = Tlv::only(frame, types::LP_PACKET).ok();
    let mut fields = element
        .into_iter()
        .flat_map(|element| element.children().flatten());
    if let Some(at) = fields
        .find(|field| field.typ == types::LP_TX_SEQUENCE)
        .map(|field| field.value_offset())
    {
        frame[at..at + 8].copy_from_slice(&tx_sequence.to_be_bytes());
    }
}

/// Returns an IDLE packet with these Acks and no fragment.
fn alone(acks: impl ExactSizeIterator<Item = u64>) -> Vec<u8> {
    let inside = acks.len() * FIELD_BYTES;
    let mut out = Vec::with_capacity(inside + 4);
    tlv::write_header(&mut out, types::LP_PACKET, inside);
    for ack in acks {
        tlv::write_tlv(&mut out, types::LP_ACK, &ack.to_be_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_new_once_within_the_window_and_a_sender_may_begin_anew() {
        let mut heard = Heard::default();
        let window = SEQUENCES_REMEMBERED as u64;
        assert!(
            heard.is_new(u64::MAX - 1) && heard.is_new(3),
            "over the end"
        );
        assert!(
            heard.is_new(0) && heard.is_new(u64::MAX),
            "those in between may still come"
        );
        assert!(!heard.is_new(3) && !heard.is_new(u64::MAX - 1) && !heard.is_new(0));
        assert!(heard.is_new(3 + window - 1) && !heard.is_new(3 + window - 1));
        assert!(heard.is_new(4), "its bit was cleared on the way");
        assert!(heard.is_new(1 << 40) && heard.is_new(77), "begun anew");
        assert!(!heard.is_new(77));
    }
}
