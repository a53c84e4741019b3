//! What a [`super::EgressCore`] is told, what it wants done, and what it counts.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use larder_packet::PitToken;

/// A request for the origin.
#[derive(Debug)]
pub struct OriginRequest {
    /// By what it is called in [`super::EgressCore`]'s methods.
    pub id: u64,
    /// The method.
    pub method: Method,
    /// Whom it is for.
    pub authority: String,
    /// Path and query.
    pub target: String,
    /// Its fields; `Host` is to be added.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// The head of the origin's response.
#[derive(Debug)]
pub struct OriginHead {
    /// The final status.
    pub status: StatusCode,
    /// Its fields, without those of the connection but for `Content-Length`.
    pub headers: HeaderMap,
    /// See [`crate::gateway::message::Head::unframed`].
    pub unframed: bool,
    /// The whole body, where it is here already.
    pub body: Option<Bytes>,
    /// Bytes of the body to come, where that is known.
    pub length: Option<u64>,
}

/// A Data to be sent.
#[derive(Debug)]
pub struct Reply {
    /// Of the Interest.
    pub token: Option<PitToken>,
    /// The packet.
    pub wire: Bytes,
    /// No cache on the way shall keep it (NDNLPv2 CachePolicy).
    pub no_cache: bool,
}

/// What is to be done after an event.
#[derive(Debug, Default)]
pub struct Outcome {
    /// To be sent.
    pub replies: Vec<Reply>,
    /// The origin is to be asked.
    pub orders: Vec<OriginRequest>,
    /// So many more bytes of this body may come.
    pub grants: Vec<(u64, u64)>,
    /// Nobody wants more of this.
    pub stops: Vec<u64>,
}

/// What a far node has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Interests with a question.
    pub questions: u64,
    /// Requests to the origin.
    pub requests: u64,
    /// Answers by what they were: for everybody, for one, and the word that it be asked for in
    /// full.
    pub answers: [u64; 3],
    /// Segments sent.
    pub segments: u64,
    /// Interests for bodies that are not here (any more).
    pub gone: u64,
    /// Bodies that the origin broke off.
    pub broken: u64,
    /// Requests refused for want of room.
    pub no_room: u64,
    /// Interests for other names, or whose parameters are no request.
    pub not_ours: u64,
    /// Bytes reserved now.
    pub reserved_bytes: usize,
}
