//! The inputs, actions and counters of an [`super::EgressCore`].

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use larder_packet::PitToken;

/// A request for the origin.
#[derive(Debug)]
pub struct OriginRequest {
    /// Its number in [`super::EgressCore`]'s methods.
    pub id: u64,
    /// The method.
    pub method: Method,
    /// The authority.
    pub authority: String,
    /// Path and query.
    pub target: String,
    /// Its fields. `Host` has to be added.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// The head of the origin's response.
#[derive(Debug)]
pub struct OriginHead {
    /// The final status.
    pub status: StatusCode,
    /// Its fields, without those of the connection except `Content-Length`.
    pub headers: HeaderMap,
    /// See [`crate::message::Head::unframed`].
    pub unframed: bool,
    /// The whole body, if it has arrived.
    pub body: Option<Bytes>,
    /// Bytes of the body to come, if that is known.
    pub length: Option<u64>,
}

/// A Data to send.
#[derive(Debug)]
pub struct Reply {
    /// The PIT token of the Interest.
    pub token: Option<PitToken>,
    /// The packet.
    pub wire: Bytes,
    /// True if no cache on the path may keep it (NDNLPv2 CachePolicy).
    pub no_cache: bool,
}

/// The actions after an event.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Data to send.
    pub replies: Vec<Reply>,
    /// Requests for the origin.
    pub orders: Vec<OriginRequest>,
    /// So many more bytes of this body may come.
    pub grants: Vec<(u64, u64)>,
    /// Bodies that are no longer needed.
    pub stops: Vec<u64>,
}

/// The counters of an egress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Interests with a question.
    pub questions: u64,
    /// Requests to the origin.
    pub requests: u64,
    /// Answers by kind: shared, for one client, and requests to ask in full.
    pub answers: [u64; 3],
    /// Segments sent.
    pub segments: u64,
    /// Interests for bodies that are not here, or not any more.
    pub gone: u64,
    /// Bodies that the origin broke off.
    pub broken: u64,
    /// Requests that were refused for want of room.
    pub no_room: u64,
    /// Requests that were ended because a requester with fewer needed their place.
    pub displaced: u64,
    /// Interests for other names, or whose parameters are no request.
    pub not_ours: u64,
    /// Bytes reserved now.
    pub reserved_bytes: usize,
}
