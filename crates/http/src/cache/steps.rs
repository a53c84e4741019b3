//! The next steps for the host: for a request, a response of the origin, a piece of a body, and a
//! lookup in the second tier.

use crate::cache::assembly::Assembled;
use crate::cache::exchange::Exchange;
use crate::cache::fill::Fill;
use crate::collapse::follower::{Follower, SliceFollower};
use crate::store::answer::Answer;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};

/// The next step for a request.
#[derive(Debug)]
pub enum Step {
    /// Send this answer.
    Answer(Answer),
    /// Send this answer; its body is assembled from slices.
    Assemble(Assembled),
    /// Send this stale response, and ask the origin as well (RFC 5861 §3). No client waits for the
    /// origin's response.
    Refresh(Answer, Box<Exchange>),
    /// Another request already asks the origin for the same response: call
    /// [`Cache::join`](crate::Cache::join).
    Follow(Follower),
    /// Ask the origin, then call [`crate::Cache::on_response`] or [`crate::Cache::on_failure`], or
    /// [`crate::Cache::on_abandoned`] to give it up. If there is a second tier and the exchange has
    /// a [`Exchange::tier_key`], look there first.
    Forward(Box<Exchange>),
}

/// The next step after the origin's response.
#[derive(Debug)]
pub enum Reply {
    /// Send this answer; the origin's response had no body.
    Answer(Answer),
    /// Send this head and the origin's body.
    Relay {
        /// The status.
        status: StatusCode,
        /// All fields, ready to be sent.
        headers: HeaderMap,
        /// Present if the body may be stored. Pass it every piece, with a
        /// [`SharedBody`](crate::SharedBody).
        fill: Option<Box<Fill>>,
    },
    /// Send this answer. Its body is assembled from slices, one of which is the origin's response:
    /// collect that as well, and read it first
    /// ([`Assembly::take_in_progress`](crate::Assembly::take_in_progress)).
    Assemble(Assembled, Option<Box<Fill>>),
    /// The origin confirmed a response that is not stored, or sent a part that was not requested.
    /// Ask again with [`Exchange::retry_headers`], at most [`crate::limits::RETRIES`] times.
    Retry(Box<Exchange>),
}

/// The next step of an [`Assembly`](crate::Assembly).
#[derive(Debug)]
pub enum Piece {
    /// Send these bytes.
    Bytes(Bytes),
    /// Another request fetches the slice: call [`Cache::join_slice`](crate::Cache::join_slice).
    Wait(SliceFollower),
    /// Look up this key in the second tier. If it has a record, call
    /// [`crate::Cache::on_tier_slice`], otherwise request the next piece.
    TierLookup(Box<[u8]>),
    /// Ask the origin, with [`Exchange::retry_headers`]. Then call [`crate::Cache::on_slice`], and
    /// read from the reader of its fill, or call [`crate::Cache::on_slice_failure`].
    Ask(Box<Exchange>),
    /// The body is complete.
    End,
}

/// The next step after a lookup.
#[derive(Debug)]
pub enum TierStep {
    /// Send this answer.
    Answer(Answer),
    /// Send this answer; its body is assembled from slices.
    Assemble(Assembled),
    /// The record was another variant: look up this one, and call
    /// [`Cache::on_tier_lookup`](crate::Cache::on_tier_lookup) again.
    Variant(Box<Exchange>, u32),
    /// Go to the origin, as with [`Step::Forward`].
    Forward(Box<Exchange>),
}
