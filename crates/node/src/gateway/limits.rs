//! The bounds of both ends, with their reasons.

use std::time::Duration;

pub use larder_packet::limits::MAX_PACKET_BYTES;

/// Bytes of a request's fields and body together, as they stand in an Interest. With [`NAME_BYTES`]
/// of name, and what else an Interest has, they fit a packet.
pub const REQUEST_BYTES: usize = 8000 - NAME_BYTES;

/// Bytes of an object's name: long URLs have some hundreds, and every segment carries it.
pub const NAME_BYTES: usize = 2000;

/// Bytes of a packet that are kept for its signature, MetaInfo and headers: an ECDSA signature in
/// DER has 72, and a key's name its own length on top.
pub const OVERHEAD_BYTES: usize = 160;

/// Bytes of content in a segment, where the name leaves room for so many: as `larder put` has.
pub const SEGMENT_BYTES: usize = larder_transfer::limits::DEFAULT_SEGMENT_BYTES;

/// Header fields of a request; hyper's own default, too, and so what an origin may answer with.
pub const FIELDS: usize = 100;

/// What both ends add to those: `Via` and `Date`.
pub const FIELDS_ADDED: usize = 2;

/// InterestLifetime of all Interests of the edge: the default of the packet format.
pub const LIFETIME: Duration = Duration::from_secs(4);

/// From the first Interest of a question to its answer; the same as the HTTP side waits for the
/// head of a response.
pub const ANSWER: Duration = crate::http::limits::RESPONSE;

/// Answers with a wrong signature before the question has failed: somebody in between may answer
/// faster than the far node, once or twice by accident of old caches, but not for ever.
pub const FORGERIES: u32 = 3;

/// How often one segment is asked for again. At 4 s, the longest time-out, these are minutes: the
/// origin's pauses end a transfer sooner ([`crate::http::limits::BODY_STALL`]).
pub const RETRIES: u32 = 60;

/// Segments between the next one to deliver and the furthest one asked for. 8 MB: what 160 Mb/s
/// have under way in 400 ms. The far node keeps as many behind the furthest.
pub const WINDOW_SEGMENTS: usize = 1024;

/// Bytes of one body that wait for who reads it before no more is asked for; what is under way by
/// then comes on top, up to [`WINDOW_SEGMENTS`].
pub const UNREAD_BYTES: usize = 256 << 10;

/// Segments under way of all fetches that began with so few others that each has
/// [`WINDOW_SEGMENTS`]; with more, a fetch gets its share of these: what 1024 slow readers leave
/// unread is 700 MB, where it was 8.6 GB.
pub const FLIGHT_SEGMENTS: usize = 1 << 14;

/// Fetches of one edge at once; others wait.
pub const FETCHES: usize = 1024;

/// Requests of the far node at its origin at once; others wait, as long as for an answer. Each
/// holds a socket and up to twice [`crate::http::limits::BUFFER_BYTES`] outside of the memory that
/// is reserved for bodies; as many as one edge asks.
pub const ORIGIN_REQUESTS: usize = FETCHES;

/// Pages of which the edge remembers that they are asked for in full: 16 bytes each.
pub const PRIVATE_PAGES: usize = 1 << 14;

/// It remembers so long: an origin's trouble ends, and a page may become everybody's. Once in this
/// time, one that does not costs a round trip.
pub const PRIVATE_FOR: Duration = Duration::from_secs(600);

/// Bytes that the far node reads ahead of what it is asked for: at 100 Mb/s, 40 ms.
pub const AHEAD_BYTES: usize = 512 << 10;

/// A body of unknown length that has fewer bytes than a segment's, and gets no more for so long, is
/// sent as it is: a page that comes in pieces.
pub const FLUSH: Duration = Duration::from_millis(5);

/// A body with its head in one packet saves a round trip: the far node waits so long for a short
/// one that has not come with its head. A page that comes in pieces is later by as much.
pub const INLINE_WAIT: Duration = Duration::from_millis(20);

/// An answer to one client is kept so long, for the case that it is lost.
pub const ANSWER_KEPT: Duration = Duration::from_secs(10);

/// An answer for everybody is kept as long as it is fresh for caches, and so long at least: who
/// asks later may be somebody else.
pub const ANSWER_KEPT_SHARED: Duration = Duration::from_secs(2);

/// A body that caches on the way may name is kept longer than they do by as much as a slow transfer
/// begins after its head.
pub const BODY_PINNED: Duration = Duration::from_secs(10);

/// An answer to a request that must not be made twice, where there is room: longer than the edge
/// asks for it ([`ANSWER`]), with an Interest's life on top.
pub const ANSWER_TO_UNSAFE_KEPT: Duration = Duration::from_secs(90);

/// Requests that must not be made twice of which the far node remembers longer still, 24 bytes
/// each, that they were made: a day's at one in 1.3 s.
pub const UNSAFE_REMEMBERED: usize = 1 << 16;

/// A body that nobody has asked anything of for so long is let go, with the connection to the
/// origin. Twice as long as a client may stand still ([`crate::http::limits::WRITE_STALL`]).
pub const BODY_KEPT: Duration = Duration::from_secs(60);

/// What an answer takes at the far node, bytes: a packet and its place in the tables.
pub const ANSWER_BYTES: usize = MAX_PACKET_BYTES + 1000;

/// Freshness of the word that a page has to be asked for in full: a crowd hears it once.
pub const IN_FULL_FRESHNESS: Duration = Duration::from_secs(1);

/// Freshness of what RDR says of a page: as `larder put`.
pub const METADATA_FRESHNESS: Duration = larder_transfer::limits::METADATA_FRESHNESS;

/// The far node looks so often for what is to be let go.
pub const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// Bytes of a shared secret, at least (RFC 2104, section 3: as many as the hash has).
pub const SECRET_BYTES: usize = 32;
