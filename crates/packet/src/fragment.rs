//! Packets larger than the link's MTU: the sender cuts them, and the next hop reassembles them.
//!
//! NDNLPv2, "Fragmentation and Reassembly": the fragments of a packet carry consecutive Sequences,
//! their FragIndex and the FragCount; the first one carries the other header fields too. Sequence
//! minus FragIndex therefore identifies the packet. Lost fragments are not repaired here: after a
//! timeout the reassembler forgets the fragments that did arrive, and the consumer sends its
//! Interest again.
//!
//! One [`Reassembler`] serves one sender, because each sender numbers its own Sequences.
//! [`limits`](crate::limits) bounds its memory for any input: at most [`MAX_PARTIAL_PACKETS`]
//! packets and [`PARTIAL_BYTES`], and more on a reliable link. The oldest packet is forgotten
//! first. If the nodes of a network agree on larger packets, both ends are configured for them
//! ([`Fragmenter::for_packets_of`], [`Reassembler::for_packets_of`]).

use crate::limits::{
    MAX_FRAGMENTS, MAX_PACKET_BYTES, MAX_PARTIAL_PACKETS, PARTIAL_BYTES, REASSEMBLY_TIMEOUT,
    RELIABLE_PARTIAL_BYTES, RELIABLE_PARTIAL_PACKETS, RELIABLE_REASSEMBLY_TIMEOUT,
};
use crate::lp::{LpHeader, encode_lp, lp_overhead};
use larder_units::Time;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// The least number of incomplete packets, of any size: two senders' packets, or a few out of
/// order.
const LEAST_PARTIAL_PACKETS: usize = 8;

/// Cuts packets into fragments that fit an MTU.
#[derive(Clone, Debug)]
pub struct Fragmenter {
    next_sequence: u64,
    most_fragments: u64,
    numbers_all: bool,
    wire: Vec<u8>,
}

impl Default for Fragmenter {
    fn default() -> Self {
        Fragmenter::new(0)
    }
}

/// The reason why a packet cannot be cut to this MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentError {
    /// The header fields alone fill the MTU.
    MtuTooSmall,
    /// The packet would need more than [`MAX_FRAGMENTS`].
    TooManyFragments,
}

impl fmt::Display for FragmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FragmentError::MtuTooSmall => {
                f.write_str("the MTU has no room for a piece of the packet beside the header")
            }
            FragmentError::TooManyFragments => write!(
                f,
                "the packet would take more than {MAX_FRAGMENTS} fragments"
            ),
        }
    }
}

impl std::error::Error for FragmentError {}

impl Fragmenter {
    /// Numbers fragments from `first_sequence`. The specification asks for a random number.
    pub fn new(first_sequence: u64) -> Self {
        Fragmenter {
            next_sequence: first_sequence,
            most_fragments: MAX_FRAGMENTS,
            numbers_all: false,
            wire: Vec::new(),
        }
    }

    /// Gives a Sequence also to packets that need only one frame. The receiver can then recognise a
    /// frame that arrives twice.
    #[must_use]
    pub fn numbering_all(self) -> Self {
        Fragmenter {
            numbers_all: true,
            ..self
        }
    }

    /// Allows packets of up to `largest` bytes: see [`Reassembler::for_packets_of`].
    #[must_use]
    pub fn for_packets_of(self, largest: usize) -> Self {
        Fragmenter {
            most_fragments: most_fragments(largest),
            ..self
        }
    }

    /// Passes `packet` with `header` to `emit`, in link packets of at most `mtu` bytes. A packet
    /// that fits one link packet gets no Sequence; if its header is empty too, `emit` gets `packet`
    /// itself. Returns the number of link packets.
    ///
    /// # Errors
    /// [`FragmentError`] if the MTU is too small; `emit` has not been called then.
    pub fn fragment(
        &mut self,
        header: &LpHeader,
        packet: &[u8],
        mtu: usize,
        mut emit: impl FnMut(&[u8]),
    ) -> Result<usize, FragmentError> {
        if self.numbers_all
            && packet.len()
                + lp_overhead(
                    &LpHeader {
                        sequence: Some(0),
                        ..*header
                    },
                    packet.len(),
                )
                <= mtu
        {
            let numbered = LpHeader {
                sequence: Some(self.next_sequence),
                ..*header
            };
            self.next_sequence = self.next_sequence.wrapping_add(1);
            self.emit_one(&numbered, packet, &mut emit);
            return Ok(1);
        }
        if !self.numbers_all && packet.len() + lp_overhead(header, packet.len()) <= mtu {
            if header.is_empty() {
                emit(packet);
            } else {
                self.emit_one(header, packet, &mut emit);
            }
            return Ok(1);
        }
        // The bytes that remain beside the largest header that a fragment may have.
        let numbered = |header: &LpHeader| LpHeader {
            sequence: Some(0),
            frag_index: self.most_fragments,
            frag_count: self.most_fragments,
            ..*header
        };
        let room = |header: &LpHeader| mtu.saturating_sub(lp_overhead(&numbered(header), mtu));
        let (first_room, later_room) = (room(header), room(&LpHeader::default()));
        if first_room == 0 {
            return Err(FragmentError::MtuTooSmall);
        }
        let (first, rest) = packet.split_at(first_room.min(packet.len()));
        let count = 1 + rest.len().div_ceil(later_room);
        if count as u64 > self.most_fragments {
            return Err(FragmentError::TooManyFragments);
        }
        for (index, piece) in std::iter::once(first)
            .chain(rest.chunks(later_room))
            .enumerate()
        {
            let fields = LpHeader {
                sequence: Some(self.next_sequence),
                frag_index: index as u64,
                frag_count: count as u64,
                ..if index == 0 {
                    *header
                } else {
                    LpHeader::default()
                }
            };
            self.next_sequence = self.next_sequence.wrapping_add(1);
            self.emit_one(&fields, piece, &mut emit);
        }
        Ok(count)
    }

    fn emit_one(&mut self, header: &LpHeader, piece: &[u8], emit: &mut impl FnMut(&[u8])) {
        self.wire.clear();
        encode_lp(header, piece, &mut self.wire);
        emit(&self.wire);
    }
}

/// Returns the maximum number of fragments of a packet of `largest` bytes. It grows in proportion
/// to [`MAX_FRAGMENTS`] for [`MAX_PACKET_BYTES`], up to the largest number of a piece.
fn most_fragments(largest: usize) -> u64 {
    let times = largest.div_ceil(MAX_PACKET_BYTES).max(1) as u64;
    MAX_FRAGMENTS.saturating_mul(times).min(u64::from(u16::MAX))
}

/// Reassembles the fragments of one sender.
#[derive(Clone, Debug)]
pub struct Reassembler {
    /// The largest packet in bytes, and its maximum number of fragments.
    largest: usize,
    most_fragments: u64,
    /// The maximum number of incomplete packets, and the bytes that they may take. One packet may
    /// exceed these bytes.
    most_partial: usize,
    most_held: usize,
    /// The time to wait for the rest of a packet.
    patience: Duration,
    /// In the order in which their first fragments arrived.
    partial: VecDeque<Partial>,
    /// The bytes of the incomplete packets: the sum of [`Partial::held_bytes`].
    held: usize,
    counters: ReassemblyCounters,
}

/// The result of accepting a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reassembled<'a> {
    /// The fragment is a whole packet with this header.
    Whole(&'a [u8]),
    /// The fragment was the last missing one. Holds the packet, and the header of its first
    /// fragment without the fragment numbers.
    Done(Vec<u8>, LpHeader),
    /// More fragments are missing.
    Partial,
    /// The fragment is dropped.
    Dropped(FragmentDrop),
}

/// The reason why a fragment is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FragmentDrop {
    /// The fragment has no Sequence, or an index beyond its count, or no bytes.
    Malformed,
    /// The packet has more than [`MAX_FRAGMENTS`].
    TooManyFragments,
    /// The packet would have more than [`MAX_PACKET_BYTES`]. Its other fragments are forgotten too.
    TooLarge,
    /// This fragment has arrived before.
    Duplicate,
    /// The fragment states another FragCount than the packet's other fragments.
    CountMismatch,
}

impl FragmentDrop {
    /// Returns a stable label for counters.
    pub const fn reason(self) -> &'static str {
        match self {
            FragmentDrop::Malformed => "fragment_malformed",
            FragmentDrop::TooManyFragments => "too_many_fragments",
            FragmentDrop::TooLarge => "reassembled_too_large",
            FragmentDrop::Duplicate => "fragment_duplicate",
            FragmentDrop::CountMismatch => "fragment_count_mismatch",
        }
    }
}

/// The number of fragments and packets that a reassembler has given up since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReassemblyCounters {
    /// Dropped fragments: see [`FragmentDrop`].
    pub dropped_fragments: u64,
    /// Packets that were forgotten because the rest did not arrive within [`REASSEMBLY_TIMEOUT`].
    pub timed_out_packets: u64,
    /// Packets that were forgotten to make room for newer ones.
    pub evicted_packets: u64,
}

impl ReassemblyCounters {
    /// Returns the number of packets of which some fragments arrived, but not all.
    pub fn incomplete_packets(&self) -> u64 {
        self.timed_out_packets + self.evicted_packets
    }
}

impl Default for Reassembler {
    fn default() -> Self {
        Reassembler::for_packets_of(MAX_PACKET_BYTES)
    }
}

impl Reassembler {
    /// Creates an empty reassembler.
    pub fn new() -> Self {
        Reassembler::default()
    }

    /// Creates a reassembler for packets of up to `largest` bytes. The number of fragments grows in
    /// proportion; the memory grows for packets of more than 110 kB. Use it only if all nodes of a
    /// network agree on this size. Other nodes drop packets of more than [`MAX_PACKET_BYTES`].
    pub fn for_packets_of(largest: usize) -> Self {
        let largest = largest.min(u32::MAX as usize);
        let (partial, counters) = (VecDeque::new(), ReassemblyCounters::default());
        let (most_partial, most_held) = (
            MAX_PARTIAL_PACKETS,
            PARTIAL_BYTES.max(LEAST_PARTIAL_PACKETS * largest),
        );
        let (most_fragments, patience) = (most_fragments(largest), REASSEMBLY_TIMEOUT);
        Reassembler {
            largest,
            most_fragments,
            most_partial,
            most_held,
            patience,
            partial,
            held: 0,
            counters,
        }
    }

    /// Raises the limits for a link whose neighbour retransmits lost frames.
    #[must_use]
    pub fn of_reliable_link(self) -> Self {
        let most_held = self.most_held.max(RELIABLE_PARTIAL_BYTES);
        Reassembler {
            most_partial: RELIABLE_PARTIAL_PACKETS,
            most_held,
            patience: RELIABLE_REASSEMBLY_TIMEOUT,
            ..self
        }
    }

    /// Accepts the fragment that arrived with this header.
    pub fn accept<'a>(
        &mut self,
        now: Time,
        header: &LpHeader,
        fragment: &'a [u8],
    ) -> Reassembled<'a> {
        if header.frag_count <= 1 {
            return Reassembled::Whole(fragment);
        }
        self.forget_old(now);
        match self.add(now, header, fragment) {
            Ok(Some((packet, header))) => Reassembled::Done(packet, header),
            Ok(None) => Reassembled::Partial,
            Err(reason) => {
                self.counters.dropped_fragments += 1;
                Reassembled::Dropped(reason)
            }
        }
    }

    /// Returns what was given up so far.
    pub fn counters(&self) -> ReassemblyCounters {
        self.counters
    }

    /// Returns the bytes of the incomplete packets.
    pub fn held_bytes(&self) -> usize {
        self.held
    }

    /// Returns the time at which the first fragment of the oldest incomplete packet arrived.
    pub fn waits_since(&self) -> Option<Time> {
        self.partial.front().map(|oldest| oldest.started)
    }

    /// Forgets all incomplete packets, and returns their number.
    pub fn give_up(&mut self) -> u64 {
        let packets = self.partial.len() as u64;
        self.partial = VecDeque::new();
        self.held = 0;
        self.counters.evicted_packets += packets;
        packets
    }

    /// Forgets the packets whose rest has not arrived within the timeout: [`REASSEMBLY_TIMEOUT`],
    /// or the longer one of a reliable link. [`Reassembler::accept`] does this too. A host calls it
    /// when no further fragment may arrive.
    pub fn forget_old(&mut self, now: Time) {
        while self
            .partial
            .front()
            .is_some_and(|oldest| now.since(oldest.started) >= self.patience)
        {
            self.forget(0);
            self.counters.timed_out_packets += 1;
        }
    }

    fn add(
        &mut self,
        now: Time,
        header: &LpHeader,
        piece: &[u8],
    ) -> Result<Option<(Vec<u8>, LpHeader)>, FragmentDrop> {
        let sequence = header.sequence.ok_or(FragmentDrop::Malformed)?;
        if header.frag_index >= header.frag_count || piece.is_empty() {
            return Err(FragmentDrop::Malformed);
        }
        if header.frag_count > self.most_fragments {
            return Err(FragmentDrop::TooManyFragments);
        }
        if piece.len() > self.largest {
            return Err(FragmentDrop::TooLarge);
        }
        let first_sequence = sequence.wrapping_sub(header.frag_index);
        // The packet is mostly the newest one.
        let found = self
            .partial
            .iter()
            .rposition(|partial| partial.first_sequence == first_sequence);
        let mut position = found.unwrap_or_else(|| {
            if self.partial.len() == self.most_partial {
                self.forget(0);
                self.counters.evicted_packets += 1;
            }
            let partial = Partial::new(
                now,
                first_sequence,
                header.frag_count,
                piece.len(),
                self.largest,
            );
            self.held += partial.held_bytes();
            self.partial.push_back(partial);
            self.partial.len() - 1
        });
        let partial = &mut self.partial[position];
        let before = partial.held_bytes();
        let added = partial.add(header, piece, self.largest);
        self.held += partial.held_bytes() - before;
        while self.held > self.most_held && position > 0 {
            self.forget(0);
            self.counters.evicted_packets += 1;
            position -= 1;
        }
        if added == Err(FragmentDrop::TooLarge) {
            self.forget(position);
        }
        if !added? {
            return Ok(None);
        }
        Ok(self.forget(position).map(Partial::finish))
    }

    fn forget(&mut self, position: usize) -> Option<Partial> {
        let partial = self.partial.remove(position)?;
        self.held -= partial.held_bytes();
        Some(partial)
    }
}

/// A packet of which some fragments have arrived.
#[derive(Clone, Debug)]
struct Partial {
    first_sequence: u64,
    started: Time,
    count: u64,
    /// The header of the first fragment, once that has arrived.
    header: LpHeader,
    pieces: Vec<Piece>,
    /// The bytes of the fragments in the order of their arrival.
    bytes: Vec<u8>,
}

/// One fragment: its bytes in [`Partial::bytes`] and its index. The numbers are below `largest` and
/// `most_fragments` of the reassembler.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u32,
    end: u32,
    index: u16,
}

impl Partial {
    fn new(now: Time, first_sequence: u64, count: u64, piece_len: usize, largest: usize) -> Self {
        // All fragments but the last mostly have the same length.
        let pieces = usize::try_from(count).unwrap_or(usize::MAX);
        let expected = pieces.saturating_mul(piece_len).min(largest);
        Partial {
            first_sequence,
            started: now,
            count,
            header: LpHeader::default(),
            pieces: Vec::with_capacity(pieces),
            bytes: Vec::with_capacity(expected),
        }
    }

    /// Adds a fragment. Returns true if the packet is complete now.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the caller has checked the index, and `largest` fits 32 bits"
    )]
    fn add(
        &mut self,
        header: &LpHeader,
        piece: &[u8],
        largest: usize,
    ) -> Result<bool, FragmentDrop> {
        if header.frag_count != self.count {
            return Err(FragmentDrop::CountMismatch);
        }
        let index = header.frag_index as u16;
        if self.pieces.iter().any(|piece| piece.index == index) {
            return Err(FragmentDrop::Duplicate);
        }
        let (start, end) = (self.bytes.len(), self.bytes.len() + piece.len());
        if end > largest {
            return Err(FragmentDrop::TooLarge);
        }
        if end > self.bytes.capacity() {
            // The short last fragment came first, or the sender cuts unevenly. Grow once, up to the
            // limit.
            self.bytes.reserve_exact(largest - start);
        }
        self.bytes.extend_from_slice(piece);
        self.pieces.push(Piece {
            start: start as u32,
            end: end as u32,
            index,
        });
        if index == 0 {
            self.header = LpHeader {
                sequence: None,
                frag_index: 0,
                frag_count: 1,
                ..*header
            };
        }
        Ok(self.pieces.len() as u64 == self.count)
    }

    fn finish(mut self) -> (Vec<u8>, LpHeader) {
        if self.pieces.is_sorted_by_key(|piece| piece.index) {
            return (self.bytes, self.header);
        }
        self.pieces.sort_unstable_by_key(|piece| piece.index);
        let mut packet = Vec::with_capacity(self.bytes.len());
        for piece in &self.pieces {
            packet.extend_from_slice(&self.bytes[piece.start as usize..piece.end as usize]);
        }
        (packet, self.header)
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.pieces.capacity() * size_of::<Piece>() + self.bytes.capacity()
    }
}
