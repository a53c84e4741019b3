//! NDNLPv2: link packets, with the fields that neighbours exchange together with an Interest or a
//! Data.
//!
//! NDNLPv2 (NFD wiki, "NDNLPv2"). A bare Interest or Data is a link packet too, without header.
//! Header fields are read in any order, because senders differ. They are written in ascending
//! order, as NFD requires. Unknown fields are skipped if their number is between 800 and 959 and a
//! multiple of four; any other unknown field is an error. Ack and TxSequence are skipped here too:
//! [`Reliability`](crate::Reliability) reads them before. So are prefix announcements.

use crate::tlv::{self, DecodeError, DecodeErrorKind, Tlv};
use crate::types;
use std::fmt;
use std::ops::Range;

/// The reason why an Interest was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NackReason {
    /// No reason was given.
    None,
    /// The link is full.
    Congestion,
    /// The Nonce was seen before.
    Duplicate,
    /// No route to the name.
    NoRoute,
    /// A number that the specification does not assign.
    Other(u64),
}

impl NackReason {
    /// Returns the reason with this number.
    pub const fn from_code(code: u64) -> Self {
        match code {
            0 => NackReason::None,
            50 => NackReason::Congestion,
            100 => NackReason::Duplicate,
            150 => NackReason::NoRoute,
            other => NackReason::Other(other),
        }
    }

    /// Returns the number of this reason; 0 for none.
    pub const fn code(self) -> u64 {
        match self {
            NackReason::None => 0,
            NackReason::Congestion => 50,
            NackReason::Duplicate => 100,
            NackReason::NoRoute => 150,
            NackReason::Other(code) => code,
        }
    }
}

impl fmt::Display for NackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NackReason::None => f.write_str("None"),
            NackReason::Congestion => f.write_str("Congestion"),
            NackReason::Duplicate => f.write_str("Duplicate"),
            NackReason::NoRoute => f.write_str("NoRoute"),
            NackReason::Other(code) => write!(f, "{code}"),
        }
    }
}

/// The 1 to 32 opaque bytes that a neighbour sends with an Interest and that the reply must carry.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PitToken {
    bytes: [u8; PitToken::MAX_BYTES],
    len: u8,
}

impl PitToken {
    /// The length of the longest token, by the specification.
    pub const MAX_BYTES: usize = 32;

    /// Creates a token; `None` for no bytes and for more than 32.
    pub fn new(token: &[u8]) -> Option<Self> {
        let len = token.len();
        if len == 0 || len > PitToken::MAX_BYTES {
            return None;
        }
        let mut bytes = [0; PitToken::MAX_BYTES];
        bytes[..len].copy_from_slice(token);
        Some(PitToken {
            bytes,
            len: u8::try_from(len).ok()?,
        })
    }

    /// Returns the bytes of the token.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for PitToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The state of the caches on a path, for admissions that depend on a cache's place (ProbCache's
/// "time since inception" and "time since birth", the betweenness of Cache less for more). Larder's
/// own field; forwarders that do not know it ignore it.
///
/// On the wire 20 bytes: caches, capacity and centrality, big-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathRecord {
    /// The caches that the packet has passed: for an Interest since its consumer, for a Data since
    /// the cache or producer that answered.
    pub caches: u32,
    /// For an Interest, the bytes that those caches may store together; 0 for a Data.
    pub capacity: u64,
    /// The greatest betweenness centrality of the caches between the consumer and the answering
    /// node, in any unit that all of them share; for an Interest, of the caches that it has passed.
    pub centrality: u64,
}

impl PathRecord {
    const BYTES: usize = 20;

    fn from_bytes(bytes: [u8; PathRecord::BYTES]) -> PathRecord {
        let [a, b, c, d, rest @ ..] = bytes;
        let (capacity, centrality) = rest.split_at(8);
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |number, byte| (number << 8) | u64::from(*byte))
        };
        PathRecord {
            caches: u32::from_be_bytes([a, b, c, d]),
            capacity: number(capacity),
            centrality: number(centrality),
        }
    }

    fn to_bytes(self) -> [u8; PathRecord::BYTES] {
        let mut bytes = [0; PathRecord::BYTES];
        bytes[..4].copy_from_slice(&self.caches.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.capacity.to_be_bytes());
        bytes[12..].copy_from_slice(&self.centrality.to_be_bytes());
        bytes
    }
}

/// The header fields of a link packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LpHeader {
    /// The token that the reply to this Interest must carry, or that the Interest of this Data
    /// carried.
    pub pit_token: Option<PitToken>,
    /// The Interest in the fragment was refused.
    pub nack: Option<NackReason>,
    /// A queue on the path is long; 0 means no mark.
    pub congestion_mark: Option<u64>,
    /// The face on which the forwarder received the packet that it passes to a local application.
    pub incoming_face: Option<u64>,
    /// The face on which a local application asks the forwarder to send the Interest.
    pub next_hop_face: Option<u64>,
    /// The Data must not be cached.
    pub no_cache: bool,
    /// The Interest must not be used to discover routes.
    pub non_discovery: bool,
    /// The least Interests per second that the forwarders between the Data's source and here grant
    /// its consumer. Larder's own field; forwarders that do not know it ignore it.
    pub interest_rate: Option<u64>,
    /// The caches of the path.
    pub path: Option<PathRecord>,
    /// Number of this fragment.
    pub sequence: Option<u64>,
    /// Position of this fragment in its packet, below `frag_count`.
    pub frag_index: u64,
    /// Number of fragments of the packet; 1 if it is not fragmented.
    pub frag_count: u64,
}

impl Default for LpHeader {
    #[inline]
    fn default() -> Self {
        LpHeader::empty()
    }
}

impl LpHeader {
    /// The header of a bare packet.
    pub const EMPTY: LpHeader = LpHeader::empty();

    /// Returns the empty header. It writes one field at a time, because a constant of this size is
    /// copied by a call.
    #[inline(always)]
    const fn empty() -> LpHeader {
        LpHeader {
            pit_token: None,
            nack: None,
            congestion_mark: None,
            incoming_face: None,
            next_hop_face: None,
            no_cache: false,
            non_discovery: false,
            interest_rate: None,
            path: None,
            sequence: None,
            frag_index: 0,
            frag_count: 1,
        }
    }

    /// Returns true if the header has no field. The packet can then be sent bare.
    pub fn is_empty(&self) -> bool {
        // This runs for every packet that is sent, so it has no branch per field. The destructuring
        // names every field, because a field that is missing here would not be sent.
        let LpHeader {
            pit_token,
            nack,
            congestion_mark,
            incoming_face,
            next_hop_face,
            no_cache,
            non_discovery,
            interest_rate,
            path,
            sequence,
            frag_index,
            frag_count,
        } = self;
        let nobody_is_told = pit_token.is_none()
            & nack.is_none()
            & congestion_mark.is_none()
            & incoming_face.is_none();
        let nothing_is_asked = next_hop_face.is_none() & !no_cache & !non_discovery;
        let no_path = interest_rate.is_none() & path.is_none();
        nobody_is_told
            & nothing_is_asked
            & no_path
            & sequence.is_none()
            & (*frag_index == 0)
            & (*frag_count == 1)
    }

    fn set(&mut self, field: &Tlv<'_>) -> Result<(), DecodeError> {
        match field.typ {
            types::LP_SEQUENCE => self.sequence = Some(u64::from_be_bytes(field.array()?)),
            types::LP_FRAG_INDEX => self.frag_index = field.number()?,
            types::LP_FRAG_COUNT => self.frag_count = field.number()?,
            types::LP_PIT_TOKEN => {
                self.pit_token =
                    Some(PitToken::new(field.value).ok_or_else(|| field.bad_length())?);
            }
            types::LP_NACK => {
                let code = number_inside(field, types::LP_NACK_REASON)?;
                self.nack = Some(NackReason::from_code(code.unwrap_or(0)));
            }
            types::LP_INCOMING_FACE_ID => self.incoming_face = Some(field.number()?),
            types::LP_NEXT_HOP_FACE_ID => self.next_hop_face = Some(field.number()?),
            // The specification assigns one type only. The meaning of others is unknown, so they
            // are ignored.
            types::LP_CACHE_POLICY => {
                self.no_cache = number_inside(field, types::LP_CACHE_POLICY_TYPE)? == Some(1)
            }
            types::LP_CONGESTION_MARK => self.congestion_mark = Some(field.number()?),
            types::LP_NON_DISCOVERY => self.non_discovery = true,
            // The next two numbers are not assigned: another program may use them in another way,
            // so values of other lengths are ignored.
            types::LP_INTEREST_RATE => self.interest_rate = field.number().ok(),
            types::LP_PATH_RECORD => self.path = field.array().ok().map(PathRecord::from_bytes),
            800..=959 if field.typ.is_multiple_of(4) => {}
            unknown => return Err(DecodeErrorKind::UnknownCritical(unknown).at(field.offset)),
        }
        Ok(())
    }
}

/// Returns the number in the element of type `typ` within `field`, if there is one.
fn number_inside(field: &Tlv<'_>, typ: u32) -> Result<Option<u64>, DecodeError> {
    for element in field.children() {
        let element = element?;
        if element.typ == typ {
            return element.number().map(Some);
        }
    }
    Ok(None)
}

/// A decoded link packet. The fragment's bytes are borrowed.
#[derive(Clone, Copy, Debug)]
pub struct LpPacket<'a> {
    /// The header fields.
    pub header: LpHeader,
    /// A network packet, or a fragment of one if `header.frag_count` is above 1; `None` in an IDLE
    /// packet.
    pub fragment: Option<&'a [u8]>,
    fragment_offset: usize,
}

impl<'a> LpPacket<'a> {
    /// Decodes `wire` as exactly one LpPacket, or returns a bare Interest or Data, undecoded, as
    /// the fragment.
    ///
    /// # Errors
    /// If it is neither, with the offset in `wire`.
    #[inline]
    pub fn decode(wire: &'a [u8]) -> Result<Self, DecodeError> {
        // Both types fit in one byte. The decoder of the packet checks the rest.
        if let Some(5 | 6) = wire.first() {
            return Ok(LpPacket {
                header: LpHeader::default(),
                fragment: Some(wire),
                fragment_offset: 0,
            });
        }
        LpPacket::decode_with_header(wire)
    }

    fn decode_with_header(wire: &'a [u8]) -> Result<Self, DecodeError> {
        let mut packet = LpPacket {
            header: LpHeader::default(),
            fragment: None,
            fragment_offset: 0,
        };
        let mut seen = 0u32;
        for field in Tlv::only(wire, types::LP_PACKET)?.children() {
            let field = field?;
            let bit = field_bit(field.typ);
            // A field after the Fragment comes too late, and no field that this crate reads may
            // come twice.
            if bit != 0 && seen & (bit | FRAGMENT_BIT) != 0 {
                return Err(DecodeErrorKind::OutOfOrder(field.typ).at(field.offset));
            }
            seen |= bit;
            if field.typ == types::LP_FRAGMENT {
                packet.fragment = Some(field.value);
                packet.fragment_offset = field.value_offset();
            } else {
                packet.header.set(&field)?;
            }
        }
        if packet.header.frag_index >= packet.header.frag_count {
            return Err(DecodeErrorKind::BadValue(types::LP_FRAG_INDEX).at(0));
        }
        Ok(packet)
    }

    /// Returns true if `wire` is one packet and nothing else: an Interest or Data, bare or in a
    /// link packet, a fragment of one, or a link packet without either. Reads only the outer
    /// elements.
    pub fn is_packet(wire: &[u8]) -> bool {
        let is_whole = |bytes: &[u8]| tlv::frame(bytes, usize::MAX) == Ok(Some(bytes.len()));
        if !is_whole(wire) {
            return false;
        }
        match LpPacket::decode(wire) {
            Ok(LpPacket {
                header,
                fragment: Some(fragment),
                ..
            }) if header.frag_count <= 1 => {
                matches!(fragment.first(), Some(5 | 6)) && is_whole(fragment)
            }
            decoded => decoded.is_ok(),
        }
    }

    /// The position of the fragment in the decoded bytes, for callers that can write there.
    pub fn fragment_range(&self) -> Option<Range<usize>> {
        self.fragment
            .map(|fragment| self.fragment_offset..self.fragment_offset + fragment.len())
    }
}

/// The IDLE packets by which an application and a node on this machine agree to use shared memory
/// (`larder-shared-stream`) in place of their Unix socket. Larder's own: forwarders that do not
/// know their field ignore them.
///
/// 1. The application sends [`Request`]. It goes on over the socket.
/// 2. The node sends [`Offer`] with the memory's descriptors (SCM_RIGHTS). It goes on over the
///    socket.
/// 3. An application that has got the descriptors and mapped the memory sends [`Switch`], between
///    two packets. This is the last that it sends over the socket; all that follows comes by the
///    shared memory.
/// 4. The node has read [`Switch`]. It reads the shared memory from now on, and sends [`Switch`] in
///    its turn, between two packets. This is the last that it sends over the socket; all that
///    follows comes by the shared memory.
/// 5. The application has read [`Switch`], and reads the shared memory from now on.
///
/// In each direction the bytes of the stream are those on the socket up to the end of [`Switch`],
/// followed by those in the ring. So no byte is lost, repeated or reordered, whenever the packets
/// of the two directions arrive. A side sends [`Switch`] only if the other side can read the
/// memory: the application, because the node has made it; the node, because the application has
/// sent [`Switch`].
///
/// Any step may fail, and both sides then go on over the socket: the node has no memory or no
/// permit; its message cannot carry descriptors; a relay between them (`ssh -L`, socat) drops the
/// descriptors and passes the bytes; the application may open no more descriptors, and gets none or
/// some of them (MSG_CTRUNC); or it cannot map the memory. An application that cannot use the
/// memory does not send [`Switch`].
///
/// The socket stays open. Its end is the end of the face.
///
/// [`Request`]: SharedMemory::Request
/// [`Offer`]: SharedMemory::Offer
/// [`Switch`]: SharedMemory::Switch
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedMemory {
    /// The application can use shared memory.
    Request = 1,
    /// The node offers shared memory: the packet comes with its descriptors.
    Offer = 2,
    /// The sender's next byte comes by the shared memory.
    Switch = 3,
}

impl SharedMemory {
    /// The version of the memory's layout and of these steps.
    const VERSION: u8 = 1;

    /// Returns the packet.
    pub const fn packet(self) -> [u8; 8] {
        let [.., packet] = types::LP_PACKET.to_be_bytes();
        let [_, _, high, low] = types::LP_SHARED_MEMORY.to_be_bytes();
        [
            packet,
            6,
            0xfd,
            high,
            low,
            2,
            SharedMemory::VERSION,
            self as u8,
        ]
    }

    /// Returns the step of a packet; `None` for all other packets, and for other versions.
    #[inline]
    pub fn of(packet: &[u8]) -> Option<SharedMemory> {
        let packet: [u8; 8] = packet.try_into().ok()?;
        let steps = [
            SharedMemory::Request,
            SharedMemory::Offer,
            SharedMemory::Switch,
        ];
        steps.into_iter().find(|step| step.packet() == packet)
    }
}

const FRAGMENT_BIT: u32 = 1;

/// One bit for each field that may come once; none for fields that are skipped.
fn field_bit(typ: u32) -> u32 {
    match typ {
        types::LP_FRAGMENT => FRAGMENT_BIT,
        types::LP_SEQUENCE..=types::LP_FRAG_COUNT => 2 << (typ - types::LP_SEQUENCE),
        types::LP_PIT_TOKEN => 1 << 4,
        types::LP_NACK => 1 << 5,
        types::LP_INCOMING_FACE_ID => 1 << 6,
        types::LP_NEXT_HOP_FACE_ID => 1 << 7,
        types::LP_CACHE_POLICY => 1 << 8,
        types::LP_CONGESTION_MARK => 1 << 9,
        types::LP_NON_DISCOVERY => 1 << 10,
        types::LP_INTEREST_RATE => 1 << 11,
        types::LP_PATH_RECORD => 1 << 12,
        _ => 0,
    }
}

/// Appends `fragment` with this header, or bare if the header is empty. An empty fragment is left
/// out: the result is an IDLE packet, which only carries fields.
#[inline]
pub fn encode_lp(header: &LpHeader, fragment: &[u8], out: &mut Vec<u8>) {
    if header.is_empty() {
        out.extend_from_slice(fragment)
    } else {
        encode_with_header(header, fragment, out)
    }
}

#[inline(never)]
fn encode_with_header(header: &LpHeader, fragment: &[u8], out: &mut Vec<u8>) {
    let fields = fields_len(header);
    let inside = if fragment.is_empty() {
        0
    } else {
        tlv::tlv_len(types::LP_FRAGMENT, fragment.len())
    };
    out.reserve(fields + inside + 8);
    tlv::write_header(out, types::LP_PACKET, fields + inside);
    write_fields(header, out);
    if !fragment.is_empty() {
        tlv::write_tlv(out, types::LP_FRAGMENT, fragment);
    }
}

/// Returns the bytes that [`encode_lp`] adds to a fragment of `fragment_len` bytes, which must not
/// be 0.
pub fn lp_overhead(header: &LpHeader, fragment_len: usize) -> usize {
    if header.is_empty() {
        return 0;
    }
    tlv::tlv_len(
        types::LP_PACKET,
        fields_len(header) + tlv::tlv_len(types::LP_FRAGMENT, fragment_len),
    ) - fragment_len
}

fn write_fields(header: &LpHeader, out: &mut Vec<u8>) {
    if let Some(sequence) = header.sequence {
        tlv::write_tlv(out, types::LP_SEQUENCE, &sequence.to_be_bytes());
    }
    if header.frag_count != 1 {
        tlv::write_nni(out, types::LP_FRAG_INDEX, header.frag_index);
        tlv::write_nni(out, types::LP_FRAG_COUNT, header.frag_count);
    }
    if let Some(token) = &header.pit_token {
        tlv::write_tlv(out, types::LP_PIT_TOKEN, token.as_bytes());
    }
    match header.nack {
        None => {}
        Some(NackReason::None) => tlv::write_tlv(out, types::LP_NACK, &[]),
        Some(reason) => {
            tlv::write_header(
                out,
                types::LP_NACK,
                nni_field_len(types::LP_NACK_REASON, reason.code()),
            );
            tlv::write_nni(out, types::LP_NACK_REASON, reason.code());
        }
    }
    if let Some(face) = header.incoming_face {
        tlv::write_nni(out, types::LP_INCOMING_FACE_ID, face);
    }
    if let Some(face) = header.next_hop_face {
        tlv::write_nni(out, types::LP_NEXT_HOP_FACE_ID, face);
    }
    if header.no_cache {
        tlv::write_header(
            out,
            types::LP_CACHE_POLICY,
            nni_field_len(types::LP_CACHE_POLICY_TYPE, 1),
        );
        tlv::write_nni(out, types::LP_CACHE_POLICY_TYPE, 1);
    }
    if let Some(mark) = header.congestion_mark {
        tlv::write_nni(out, types::LP_CONGESTION_MARK, mark);
    }
    if header.non_discovery {
        tlv::write_tlv(out, types::LP_NON_DISCOVERY, &[]);
    }
    if let Some(rate) = header.interest_rate {
        tlv::write_nni(out, types::LP_INTEREST_RATE, rate);
    }
    if let Some(path) = header.path {
        tlv::write_tlv(out, types::LP_PATH_RECORD, &path.to_bytes());
    }
}

/// Returns the bytes that [`write_fields`] writes.
fn fields_len(header: &LpHeader) -> usize {
    let number = |typ, number: Option<u64>| number.map_or(0, |number| nni_field_len(typ, number));
    let mut len = number(types::LP_INCOMING_FACE_ID, header.incoming_face)
        + number(types::LP_NEXT_HOP_FACE_ID, header.next_hop_face)
        + number(types::LP_CONGESTION_MARK, header.congestion_mark)
        + number(types::LP_INTEREST_RATE, header.interest_rate);
    if header.sequence.is_some() {
        len += tlv::tlv_len(types::LP_SEQUENCE, 8);
    }
    if header.frag_count != 1 {
        len += nni_field_len(types::LP_FRAG_INDEX, header.frag_index);
        len += nni_field_len(types::LP_FRAG_COUNT, header.frag_count);
    }
    if let Some(token) = &header.pit_token {
        len += tlv::tlv_len(types::LP_PIT_TOKEN, token.as_bytes().len());
    }
    len += match header.nack {
        None => 0,
        Some(NackReason::None) => tlv::tlv_len(types::LP_NACK, 0),
        Some(reason) => tlv::tlv_len(
            types::LP_NACK,
            nni_field_len(types::LP_NACK_REASON, reason.code()),
        ),
    };
    if header.no_cache {
        len += tlv::tlv_len(
            types::LP_CACHE_POLICY,
            nni_field_len(types::LP_CACHE_POLICY_TYPE, 1),
        );
    }
    if header.non_discovery {
        len += tlv::tlv_len(types::LP_NON_DISCOVERY, 0);
    }
    if header.path.is_some() {
        len += tlv::tlv_len(types::LP_PATH_RECORD, PathRecord::BYTES);
    }
    len
}

fn nni_field_len(typ: u32, number: u64) -> usize {
    tlv::tlv_len(typ, tlv::nni_len(number))
}
