//! Reads a frame: removes the link header, decrements HopLimit and decodes the packet. An
//! [`Arrival`] is what the pipelines need to know beside the packet.

use crate::drop_reason::{Detail, DropReason, Dropped};
use crate::face::{Face, FaceCounters, FaceId, Faces};
use crate::outbox::Body;
use crate::tables::name_hash::NameHasher;
use bytes::Bytes;
use larder_packet::{Data, Interest, LpHeader, LpPacket, NackReason, types};
use larder_units::Time;
use std::ops::Range;

/// A frame that was read, before it is processed.
pub(crate) struct Frame<'a> {
    pub(crate) face: FaceId,
    pub(crate) bytes: &'a [u8],
    /// The range of the packet, or of a fragment, in the frame.
    pub(crate) range: Range<usize>,
    /// True without a link header.
    pub(crate) is_bare: bool,
    pub(crate) packet: Packet<'a>,
}

pub(crate) enum Packet<'a> {
    /// Only for the link.
    Nothing,
    /// Unreadable, or forbidden.
    Bad(Dropped),
    Piece(&'a [u8]),
    /// An Interest, with the hash of its name without an implicit digest.
    Interest(Interest<'a>, u64),
    /// A Data, with the hash of its name.
    Data(Data<'a>, u64),
}

impl<'a> Frame<'a> {
    /// An empty frame.
    pub(crate) const NOTHING: Frame<'static> = Frame {
        face: FaceId::INTERNAL,
        bytes: &[],
        range: 0..0,
        is_bare: true,
        packet: Packet::Nothing,
    };

    /// Reads a frame with a packet of at most `largest` bytes. Decrements an Interest's HopLimit in
    /// place.
    // The frame is large: with the decoders inlined into the batch, it is written in its final
    // place.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        hasher: &NameHasher,
        largest: usize,
        face: FaceId,
        bytes: &'a mut [u8],
    ) {
        // Most have no link header, which the first byte tells.
        let [5 | 6, ..] = bytes else {
            *self = Frame::read_with_header(hasher, largest, face, bytes);
            return;
        };
        let checked = check_and_age(bytes, None, largest);
        let bytes: &'a [u8] = bytes;
        (self.face, self.bytes, self.range, self.is_bare) = (face, bytes, 0..bytes.len(), true);
        match checked {
            Ok(()) => self.packet = Packet::decode(hasher, self.bytes),
            Err(dropped) => self.packet = Packet::Bad(dropped),
        }
    }

    fn read_with_header(
        hasher: &NameHasher,
        largest: usize,
        face: FaceId,
        bytes: &'a mut [u8],
    ) -> Frame<'a> {
        let opened = open(bytes, largest);
        let bytes: &'a [u8] = bytes;
        let (packet, range) = match opened {
            Opened::Whole(range) => (Packet::decode(hasher, &bytes[range.clone()]), range),
            Opened::Piece(range) => (Packet::Piece(&bytes[range.clone()]), range),
            Opened::Empty => (Packet::Nothing, 0..0),
            Opened::Bad(dropped) => (Packet::Bad(dropped), 0..0),
        };
        Frame {
            face,
            bytes,
            range,
            is_bare: false,
            packet,
        }
    }

    /// Reads a bare Data in bytes that must not change.
    pub(crate) fn read_shared(
        hasher: &NameHasher,
        largest: usize,
        face: FaceId,
        bytes: &'a [u8],
    ) -> Frame<'a> {
        let packet = match check_size(bytes, largest) {
            Err(dropped) => Packet::Bad(dropped),
            Ok(()) => match Packet::decode(hasher, bytes) {
                Packet::Interest(..) => Packet::Bad(Dropped::new(DropReason::Malformed)),
                packet => packet,
            },
        };
        Frame {
            face,
            bytes,
            range: 0..bytes.len(),
            is_bare: true,
            packet,
        }
    }

    /// Reads the link header again: a batch would otherwise carry all of them.
    pub(crate) fn header(&self) -> LpHeader {
        LpPacket::decode(self.bytes).map_or_else(|_| LpHeader::default(), |packet| packet.header)
    }
}

impl<'a> Packet<'a> {
    /// Reads an Interest or a Data.
    #[inline(always)]
    pub(crate) fn decode(hasher: &NameHasher, packet: &'a [u8]) -> Packet<'a> {
        match packet.first().map_or(0, |first| u32::from(*first)) {
            types::INTEREST => match Interest::decode(packet) {
                Ok(interest) => {
                    let (name, _) = interest.name.strip_implicit_digest();
                    Packet::Interest(interest, hasher.hash(name.as_bytes()))
                }
                Err(error) => Packet::Bad(error.into()),
            },
            types::DATA => match Data::decode(packet) {
                Ok(data) => Packet::Data(data, hasher.hash(data.name.as_bytes())),
                Err(error) => Packet::Bad(error.into()),
            },
            _ => Packet::Bad(Dropped::new(DropReason::Malformed)),
        }
    }
}

/// The content of a frame.
pub(crate) enum Opened {
    Empty,
    Whole(Range<usize>),
    Piece(Range<usize>),
    Bad(Dropped),
}

/// Removes the link header, and decrements an Interest's HopLimit.
#[inline]
pub(crate) fn open(frame: &mut [u8], largest: usize) -> Opened {
    let (range, nack) = match LpPacket::decode(frame) {
        Ok(packet) => match packet.fragment_range() {
            None => return Opened::Empty,
            Some(range) if packet.header.frag_count > 1 => return Opened::Piece(range),
            Some(range) => (range, packet.header.nack),
        },
        Err(error) => return Opened::Bad(error.into()),
    };
    match check_and_age(&mut frame[range.clone()], nack, largest) {
        Ok(()) => Opened::Whole(range),
        Err(dropped) => Opened::Bad(dropped),
    }
}

#[inline]
pub(crate) fn check_size(packet: &[u8], largest: usize) -> Result<(), Dropped> {
    if packet.len() > largest {
        Err(Dropped {
            reason: DropReason::Oversized,
            detail: Detail::Bytes {
                found: packet.len(),
                largest,
            },
        })
    } else {
        Ok(())
    }
}

/// Refuses a packet that is too large, and decrements an Interest's HopLimit (packet specification
/// 0.3, "HopLimit"). The Interest of a Nack goes back, and keeps its HopLimit.
#[inline]
pub(crate) fn check_and_age(
    packet: &mut [u8],
    nack: Option<NackReason>,
    largest: usize,
) -> Result<(), Dropped> {
    check_size(packet, largest)?;
    if nack.is_none() && may_have_hop_limit(packet) {
        age(packet)
    } else {
        Ok(())
    }
}

/// Returns true if these bytes may be an Interest with a HopLimit. Most Interests have none, and
/// are decoded once, after the last change.
#[inline]
fn may_have_hop_limit(packet: &[u8]) -> bool {
    const INTEREST: u8 = types::INTEREST as u8;
    const NAME: u8 = types::NAME as u8;
    const HOP_LIMIT: u8 = types::HOP_LIMIT as u8;
    let mut rest = match packet {
        [INTEREST, 0..=252, NAME, name @ 0..=252, rest @ ..]
        | [INTEREST, 0xFD, _, _, NAME, name @ 0..=252, rest @ ..] => {
            match rest.get(usize::from(*name)..) {
                Some(rest) => rest,
                None => return false,
            }
        }
        [INTEREST, ..] => return true,
        _ => return false,
    };
    // Skips the elements that nearly all others have.
    while let [1..HOP_LIMIT, length @ 0..=252, after @ ..] = rest
        && let Some(next) = after.get(usize::from(*length)..)
    {
        rest = next;
    }
    !rest.is_empty()
}

fn age(packet: &mut [u8]) -> Result<(), Dropped> {
    let interest = Interest::decode(packet)?;
    let Some((limit, at)) = interest.hop_limit.zip(interest.hop_limit_offset) else {
        return Ok(());
    };
    packet[at] = limit
        .checked_sub(1)
        .ok_or(Dropped::new(DropReason::HopLimit))?;
    Ok(())
}

/// Returns the HopLimit with which an Interest arrived, before the decrement.
pub(crate) fn received_hop_limit(interest: &Interest<'_>) -> Option<u8> {
    interest.hop_limit.map(|left| left.saturating_add(1))
}

/// The place of the network-layer packet.
#[derive(Clone)]
pub(crate) enum Source {
    /// The bytes that the host passed in.
    Input,
    /// Other bytes, because it was reassembled or changed.
    Made(Bytes),
}

impl Source {
    pub(crate) fn body(&self) -> Body {
        match self {
            Source::Input => Body::Input,
            Source::Made(bytes) => Body::Stored(bytes.clone()),
        }
    }
}

/// The packet in progress: the facts about its arrival that the pipelines need.
#[derive(Clone)]
pub(crate) struct Arrival<'a> {
    pub(crate) now: Time,
    pub(crate) face: FaceId,
    pub(crate) local: bool,
    pub(crate) point_to_point: bool,
    /// The link header of its neighbour.
    pub(crate) header: &'a LpHeader,
    /// The next hop that an application with local fields has chosen.
    pub(crate) next_hop: Option<FaceId>,
    pub(crate) source: Source,
}

impl<'a> Arrival<'a> {
    #[inline]
    pub(crate) fn new(
        now: Time,
        id: FaceId,
        face: &Face,
        header: &'a LpHeader,
        source: Source,
    ) -> Arrival<'a> {
        Arrival {
            now,
            face: id,
            local: face.is_local(),
            point_to_point: face.config.is_point_to_point(),
            header,
            next_hop: header
                .next_hop_face
                .filter(|_| face.config.local_fields)
                .map(FaceId),
            source,
        }
    }

    /// A packet that this forwarder made.
    pub(crate) fn internal(now: Time, header: &'a LpHeader, packet: Bytes) -> Arrival<'a> {
        Arrival {
            now,
            face: FaceId::INTERNAL,
            local: true,
            point_to_point: true,
            header,
            next_hop: None,
            source: Source::Made(packet),
        }
    }

    /// Returns the arrival of a packet that was reassembled or changed, with its new bytes.
    pub(crate) fn made(&self, bytes: Bytes) -> Arrival<'a> {
        Arrival {
            source: Source::Made(bytes),
            ..self.clone()
        }
    }
}

/// The arrivals of packets without a link header. Packets that follow each other are mostly of one
/// face, so the face is found and counted once for all of them.
pub(crate) struct Arrivals {
    now: Time,
    latest: Option<Arrival<'static>>,
    /// What came from the latest face and is not in its counters yet.
    counted: FaceCounters,
}

impl Arrivals {
    pub(crate) fn new(now: Time) -> Arrivals {
        Arrivals {
            now,
            latest: None,
            counted: FaceCounters::default(),
        }
    }

    /// Returns the arrival of a packet of this face.
    #[inline]
    pub(crate) fn of(
        &mut self,
        faces: &mut Faces,
        id: FaceId,
    ) -> Result<&Arrival<'static>, Dropped> {
        if self.latest.as_ref().is_none_or(|latest| latest.face != id) {
            self.change_face(faces, id);
        }
        self.latest.as_ref().ok_or(Dropped::new(DropReason::NoFace))
    }

    #[inline(never)]
    fn change_face(&mut self, faces: &mut Faces, id: FaceId) {
        self.add_counts(faces);
        let face = faces.get(id);
        self.latest =
            face.map(|face| Arrival::new(self.now, id, face, &LpHeader::EMPTY, Source::Input));
    }

    /// Counts a packet, and returns its arrival.
    #[inline]
    pub(crate) fn count(
        &mut self,
        faces: &mut Faces,
        frame: &Frame<'_>,
    ) -> Result<&Arrival<'static>, Dropped> {
        self.of(faces, frame.face)?;
        self.counted.in_bytes += frame.bytes.len() as u64;
        self.counted.count_arrival(&frame.packet, None);
        self.of(faces, frame.face)
    }

    /// Adds what was counted to the counters of the latest face.
    pub(crate) fn add_counts(&mut self, faces: &mut Faces) {
        // Stages that only look a face up count nothing. A packet that counts has bytes.
        if self.counted.in_bytes == 0 {
            return;
        }
        let counted = std::mem::take(&mut self.counted);
        if let Some(face) = self
            .latest
            .as_ref()
            .and_then(|latest| faces.get_mut(latest.face))
        {
            face.counters.add(&counted);
        }
    }
}

impl FaceCounters {
    #[inline]
    pub(crate) fn count_arrival(&mut self, packet: &Packet<'_>, nack: Option<NackReason>) {
        match (packet, nack) {
            (Packet::Interest(interest, _), None) => {
                self.in_interests += 1;
                self.in_interest_bytes += interest.wire.len() as u64;
            }
            (Packet::Interest(..), Some(_)) => self.in_nacks += 1,
            (Packet::Data(data, _), None) => {
                self.in_data += 1;
                self.in_data_bytes += data.wire.len() as u64;
            }
            _ => {}
        }
    }
}
