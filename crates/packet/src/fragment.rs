//! Packets larger than the link's MTU: cut by the sender, put together by the next hop.
//!
//! NDNLPv2, "Fragmentation and Reassembly": the fragments of a packet carry consecutive Sequences,
//! their FragIndex and the FragCount; the first one carries the other header fields too. Sequence
//! minus FragIndex therefore names the packet. What is lost stays lost: after a while the fragments
//! that did arrive are forgotten, and the consumer asks again.
//!
//! One [`Reassembler`] serves one sender, as Sequences are the sender's own. Its memory is bounded
//! by [`limits`](crate::limits), whatever it is fed: at most [`MAX_PARTIAL_PACKETS`] packets and
//! [`PARTIAL_BYTES`], more on a reliable link, the oldest forgotten first. Networks that agree on
//! larger packets tell both ends so ([`Fragmenter::for_packets_of`],
//! [`Reassembler::for_packets_of`]).

use crate::limits::{
    LEAST_PARTIAL_PACKETS, MAX_FRAGMENTS, MAX_PACKET_BYTES, MAX_PARTIAL_PACKETS, PARTIAL_BYTES,
    REASSEMBLY_TIMEOUT, RELIABLE_PARTIAL_BYTES, RELIABLE_PARTIAL_PACKETS,
    RELIABLE_REASSEMBLY_TIMEOUT,
};
use crate::lp::{LpHeader, encode_lp, lp_overhead};
use larder_units::Time;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// Cuts packets to an MTU.
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

/// A packet cannot be cut to this MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentError {
    /// The header fields alone fill the MTU.
    MtuTooSmall,
    /// It would take more than [`MAX_FRAGMENTS`].
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
    /// The first fragment will be numbered `first_sequence`; the specification asks for a random
    /// one.
    pub fn new(first_sequence: u64) -> Self {
        Fragmenter {
            next_sequence: first_sequence,
            most_fragments: MAX_FRAGMENTS,
            numbers_all: false,
            wire: Vec::new(),
        }
    }

    /// The same with a Sequence in packets that need one frame only too: where a frame may come
    /// twice, it tells that it does.
    #[must_use]
    pub fn numbering_all(self) -> Self {
        Fragmenter {
            numbers_all: true,
            ..self
        }
    }

    /// The same for packets of up to `largest` bytes: see [`Reassembler::for_packets_of`].
    #[must_use]
    pub fn for_packets_of(self, largest: usize) -> Self {
        Fragmenter {
            most_fragments: most_fragments(largest),
            ..self
        }
    }

    /// Hands `packet` with `header` to `emit`, in link packets of at most `mtu` bytes. Where one is
    /// enough, it has no number, and where the header is empty too, it is `packet` itself. Returns
    /// how many there were.
    ///
    /// # Errors
    /// Where the MTU is absurdly small; `emit` has seen nothing then.
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
        // Room beside the largest header that a fragment may come to have.
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

/// The fragments of the largest packet: as many for its bytes as [`MAX_FRAGMENTS`] for
/// [`MAX_PACKET_BYTES`], as far as a piece's number goes.
fn most_fragments(largest: usize) -> u64 {
    let times = largest.div_ceil(MAX_PACKET_BYTES).max(1) as u64;
    MAX_FRAGMENTS.saturating_mul(times).min(u64::from(u16::MAX))
}

/// Puts the fragments of one sender together.
#[derive(Clone, Debug)]
pub struct Reassembler {
    /// Bytes of the largest packet, and its fragments.
    largest: usize,
    most_fragments: u64,
    /// Incomplete packets at once, and the bytes that they take; these may be exceeded by one
    /// packet.
    most_partial: usize,
    most_held: usize,
    /// How long the rest of a packet is waited for.
    patience: Duration,
    /// In the order of their first fragment's arrival.
    partial: VecDeque<Partial>,
    /// Bytes that they take: the sum of [`Partial::held_bytes`].
    held: usize,
    counters: ReassemblyCounters,
}

/// What became of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reassembled<'a> {
    /// It is a whole packet, with the header that it came with.
    Whole(&'a [u8]),
    /// It was the last piece missing: the packet, and the header of its first fragment without the
    /// numbers.
    Done(Vec<u8>, LpHeader),
    /// More are missing.
    Partial,
    /// It is of no use.
    Dropped(FragmentDrop),
}

/// Why a fragment is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FragmentDrop {
    /// It has no Sequence, or an index beyond its count, or no bytes.
    Malformed,
    /// Its packet has more than [`MAX_FRAGMENTS`].
    TooManyFragments,
    /// Its packet would have more than [`MAX_PACKET_BYTES`]; the other fragments are forgotten too.
    TooLarge,
    /// This piece is here already.
    Duplicate,
    /// It states another FragCount than the packet's other fragments.
    CountMismatch,
}

impl FragmentDrop {
    /// A stable label, for counters.
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

/// What a reassembler gave up, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReassemblyCounters {
    /// Fragments dropped: see [`FragmentDrop`].
    pub dropped_fragments: u64,
    /// Packets forgotten as the rest did not come in [`REASSEMBLY_TIMEOUT`].
    pub timed_out_packets: u64,
    /// Packets forgotten in favour of younger ones.
    pub evicted_packets: u64,
}

impl ReassemblyCounters {
    /// Packets of which something came, and never all.
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
    /// A reassembler that holds nothing.
    pub fn new() -> Self {
        Reassembler::default()
    }

    /// A reassembler for packets of up to `largest` bytes: fragments grow in proportion, and memory
    /// beyond packets of 110 kB. For networks whose nodes all agree on it; elsewhere larger packets
    /// than [`MAX_PACKET_BYTES`] get nowhere.
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

    /// The same for a link whose neighbour sends again what is lost.
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

    /// Takes in the fragment that came with this header.
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

    /// What was given up so far.
    pub fn counters(&self) -> ReassemblyCounters {
        self.counters
    }

    /// Bytes that the incomplete packets take.
    pub fn held_bytes(&self) -> usize {
        self.held
    }

    /// When the first fragment of the oldest incomplete packet came.
    pub fn waits_since(&self) -> Option<Time> {
        self.partial.front().map(|oldest| oldest.started)
    }

    /// Forgets every incomplete packet; returns how many there were.
    pub fn give_up(&mut self) -> u64 {
        let packets = self.partial.len() as u64;
        self.partial = VecDeque::new();
        self.held = 0;
        self.counters.evicted_packets += packets;
        packets
    }

    /// Forgets the packets whose rest has not come in [`REASSEMBLY_TIMEOUT`], or a reliable link's.
    /// [`Reassembler::accept`] does so too; a host calls it where nothing more may come.
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
        // Mostly the youngest one.
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

/// A packet of which some fragments are here.
#[derive(Clone, Debug)]
struct Partial {
    first_sequence: u64,
    started: Time,
    count: u64,
    /// Of the first fragment, once it is here.
    header: LpHeader,
    pieces: Vec<Piece>,
    /// The pieces' bytes in the order of their arrival.
    bytes: Vec<u8>,
}

/// The numbers are below `most_fragments` and `largest` of the reassembler.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u32,
    end: u32,
    index: u16,
}

impl Partial {
    fn new(now: Time, first_sequence: u64, count: u64, piece_len: usize, largest: usize) -> Self {
        // Pieces mostly have the same length, but for the last one.
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

    /// Returns true if the packet is whole now.
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
            // The short last piece came first, or the sender is odd: grow once, and never beyond
            // the limit.
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
