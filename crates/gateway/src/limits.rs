//! The bounds of both ends, with their reasons.

use std::time::Duration;

pub use larder_packet::limits::MAX_PACKET_BYTES;

/// Bytes of a request's fields and body together in an Interest. Together with a name of
/// [`NAME_BYTES`] and the other elements of an Interest they fit a packet.
pub const REQUEST_BYTES: usize = 8000 - NAME_BYTES;

/// Bytes of an object's name: long URLs have some hundreds, and every segment carries it.
pub const NAME_BYTES: usize = 2000;

/// Bytes of a packet that are reserved for its signature, MetaInfo and headers. An ECDSA signature
/// in DER has 72; the length of the key's name comes on top.
pub const OVERHEAD_BYTES: usize = 160;

/// Bytes of content in a segment, if the name leaves that much room: the same as in `larder put`.
pub const SEGMENT_BYTES: usize = larder_transfer::limits::DEFAULT_SEGMENT_BYTES;

/// Header fields of a request. Also hyper's own default, and so the limit for an origin's response.
pub const FIELDS: usize = 100;

/// The fields that both ends add: `Via` and `Date`.
pub const FIELDS_ADDED: usize = 2;

/// InterestLifetime of all Interests of the ingress: the default of the packet format.
pub const LIFETIME: Duration = Duration::from_secs(4);

/// The time from the first Interest of a question to its answer; the same as the HTTP side's limit
/// for the head of a response.
pub const ANSWER: Duration = larder_proxy::limits::RESPONSE;

/// Answers with a wrong signature after which the question fails. A node in between may answer
/// faster than the egress: once or twice from old caches, but not for ever.
pub const FORGERIES: u32 = 3;

/// The wait for the answer to a signed request in full, if the answers in the shared form were
/// forged. If the two ends have different secrets, the egress does not answer, and the client has
/// to learn that it was a forgery. With a key pair the egress answers, so [`ANSWER`] applies.
pub const ANSWER_AFTER_FORGERIES: Duration = Duration::from_secs(5);

/// Retransmissions of one segment. At 4 s, the longest time-out, these take minutes: pauses of the
/// origin end a transfer sooner ([`larder_proxy::limits::BODY_STALL`]).
pub const RETRIES: u32 = 60;

/// Segments between the next one to deliver and the furthest one requested: 8 MB, which 160 Mb/s
/// have in flight in 400 ms. The egress keeps as many behind the furthest.
pub const WINDOW_SEGMENTS: usize = 1024;

/// Unread bytes of one body at which the ingress stops requesting more. Segments in flight by then
/// come on top, up to [`WINDOW_SEGMENTS`].
pub const UNREAD_BYTES: usize = 256 << 10;

/// Memory of an unread piece besides its bytes: its allocation, and its place in a channel. Without
/// it, segments of one byte would hold a hundred times [`UNREAD_BYTES`].
pub const PIECE_BYTES: usize = 128;

/// Segments in flight of all fetches, as long as there are so few that each has
/// [`WINDOW_SEGMENTS`]. With more, each fetch gets a share: 1,024 slow readers leave 700 MB unread,
/// instead of 8.6 GB.
pub const FLIGHT_SEGMENTS: usize = 1 << 14;

/// Concurrent fetches of one ingress. Others wait.
pub const FETCHES: usize = 1024;

/// Concurrent requests of the egress to its origin, shared by its requesters. Others wait, as long
/// as for an answer. Each holds a socket and up to twice [`larder_proxy::limits::BUFFER_BYTES`]
/// outside of the memory that is reserved for bodies. As many as one ingress sends.
pub const ORIGIN_REQUESTS: usize = FETCHES;

/// Pages that the ingress remembers as refused in the shared form: 16 bytes each.
pub const PRIVATE_PAGES: usize = 1 << 14;

/// The time for which it remembers them: an origin's trouble ends, and a page may become shared. A
/// page that does not costs one round trip in this time.
pub const PRIVATE_FOR: Duration = Duration::from_secs(600);

/// Bytes that the egress reads ahead of the requests: 40 ms at 100 Mb/s.
pub const AHEAD_BYTES: usize = 512 << 10;

/// A body of unknown length with less than a segment of bytes is sent as it is after this time
/// without more: a page that comes in pieces.
pub const FLUSH: Duration = Duration::from_millis(5);

/// A body in one packet with its head saves a round trip: the egress waits this long for a short
/// body that has not come with its head. A page that comes in pieces is delayed by as much.
pub const INLINE_WAIT: Duration = Duration::from_millis(20);

/// An answer to one client is kept this long, in case it is lost.
pub const ANSWER_KEPT: Duration = Duration::from_secs(10);

/// A shared answer is kept as long as it is fresh for caches, and at least this long: a later
/// request may come from another client.
pub const ANSWER_KEPT_SHARED: Duration = Duration::from_secs(2);

/// A body that caches on the path may name is kept longer than they keep its head, by the time that
/// a slow transfer takes to begin.
pub const BODY_PINNED: Duration = Duration::from_secs(10);

/// The time for which the answer to an unsafe request is kept, if there is room: longer than the
/// ingress asks for it ([`ANSWER`]), plus the lifetime of an Interest.
pub const ANSWER_TO_UNSAFE_KEPT: Duration = Duration::from_secs(90);

/// Unsafe requests that the egress remembers even longer as executed, 24 bytes each: those of a day
/// at one per 1.3 s.
pub const UNSAFE_REMEMBERED: usize = 1 << 16;

/// A body without a request for this long is dropped, with its connection to the origin. Twice as
/// long as a client may stall ([`larder_proxy::limits::WRITE_STALL`]).
pub const BODY_KEPT: Duration = Duration::from_secs(60);

/// Bytes that an answer takes at the egress: a packet and its place in the tables.
pub const ANSWER_BYTES: usize = MAX_PACKET_BYTES + 1000;

/// Freshness of the message that a page has to be requested in full: a crowd gets one.
pub const IN_FULL_FRESHNESS: Duration = Duration::from_secs(1);

/// Freshness of a page's RDR metadata: as in `larder put`.
pub const METADATA_FRESHNESS: Duration = larder_transfer::limits::METADATA_FRESHNESS;

/// The interval in which the egress removes what has expired.
pub const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// The smallest shared secret, bytes (RFC 2104, section 3: as many as the hash has).
pub const SECRET_BYTES: usize = 32;
