//! What belongs to a request between two calls of the cache. Each of these goes back to its shard
//! when it is dropped, because a task may end at any await.

use super::Shards;
use super::body_cell::{BodyCell, SharedReader};
use bytes::Bytes;
use http::HeaderMap;
use larder_http::{
    Answer, Completion, Exchange, Fill, Follower, FreshObject, Joined, Pushed, ResponseRules,
    SliceFollower,
};
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A request on its way to the origin.
pub struct OpenExchange {
    exchange: Option<Box<Exchange>>,
    shards: Arc<Shards>,
}

impl OpenExchange {
    pub(super) fn new(shards: &Arc<Shards>, exchange: Box<Exchange>) -> OpenExchange {
        OpenExchange {
            exchange: Some(exchange),
            shards: Arc::clone(shards),
        }
    }

    /// Takes the client's header fields: see [`Exchange::take_headers`].
    pub fn take_headers(&mut self, client: HeaderMap) {
        if let Some(exchange) = &mut self.exchange {
            exchange.take_headers(client);
        }
    }

    /// Lets rules decide about the response: see [`Exchange::set_rules`].
    pub fn set_rules(&mut self, rules: Arc<dyn ResponseRules>) {
        if let Some(exchange) = &mut self.exchange {
            exchange.set_rules(rules);
        }
    }

    /// Forbids to store the response: see [`Exchange::forbid_storing`].
    pub fn forbid_storing(&mut self) {
        if let Some(exchange) = &mut self.exchange {
            exchange.forbid_storing();
        }
    }

    /// Admits no copy: see [`Exchange::keep_no_copy`].
    pub fn keep_no_copy(&mut self) {
        if let Some(exchange) = &mut self.exchange {
            exchange.keep_no_copy();
        }
    }

    /// Asks for no slice: see [`Exchange::ask_as_client`].
    pub fn ask_as_client(&mut self) {
        if let Some(exchange) = &mut self.exchange {
            exchange.ask_as_client();
        }
    }

    /// Takes the response of another cache: see [`Exchange::set_peer_response`].
    pub fn set_peer_response(&mut self, headers: &mut HeaderMap) {
        if let Some(exchange) = &mut self.exchange {
            exchange.set_peer_response(headers);
        }
    }

    /// See [`Exchange::without_objects`].
    pub fn without_objects(&mut self) {
        if let Some(exchange) = &mut self.exchange {
            exchange.without_objects();
        }
    }

    /// Takes an object: see [`Exchange::set_object`].
    pub fn set_object(&mut self, headers: &mut HeaderMap, fresh: Option<FreshObject>) {
        if let Some(exchange) = &mut self.exchange {
            exchange.set_object(headers, fresh);
        }
    }

    /// Returns the exchange, to pass it to its shard.
    pub(super) fn into_inner(mut self) -> Box<Exchange> {
        self.exchange.take().expect("only this takes it")
    }
}

impl Deref for OpenExchange {
    type Target = Exchange;

    fn deref(&self) -> &Exchange {
        self.exchange.as_ref().expect("only into_inner takes it")
    }
}

impl Drop for OpenExchange {
    fn drop(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            self.shards.abandon(exchange);
        }
    }
}

/// A request that waits for the response to another one.
pub struct Waiting {
    follower: Option<Follower>,
    shard: usize,
    shards: Arc<Shards>,
}

/// The end of a wait.
pub enum WaitEnd {
    /// Send this.
    Answer(Answer),
    /// Send this head, and this body while it arrives.
    Stream(http::StatusCode, HeaderMap, SharedReader),
    /// Ask the cache again, with [`Shards::on_released`].
    Again(Joined),
}

impl Waiting {
    pub(super) fn new(shards: &Arc<Shards>, shard: usize, follower: Follower) -> Waiting {
        Waiting {
            follower: Some(follower),
            shard,
            shards: Arc::clone(shards),
        }
    }

    /// Waits for the head of the response. `request` are the fields of the waiting request.
    pub fn poll_end(&mut self, request: &HeaderMap, cx: &mut Context<'_>) -> Poll<WaitEnd> {
        self.shards
            .join(self.shard, &mut self.follower, request, cx)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(follower) = self.follower.take() {
            self.shards.leave(self.shard, follower);
        }
    }
}

/// A body that waits for a slice of another request.
pub struct SliceWaiting {
    follower: Option<SliceFollower>,
    shard: usize,
    shards: Arc<Shards>,
}

/// The end of a wait for a slice.
pub enum SliceWaitEnd {
    /// Read this.
    Read(SharedReader),
    /// Ask the cache for the next piece again.
    Again,
    /// The origin has failed.
    Broken,
}

impl SliceWaiting {
    pub(super) fn new(shards: &Arc<Shards>, shard: usize, follower: SliceFollower) -> SliceWaiting {
        SliceWaiting {
            follower: Some(follower),
            shard,
            shards: Arc::clone(shards),
        }
    }

    /// Waits for the head of the slice.
    pub fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<SliceWaitEnd> {
        self.shards.join_slice(self.shard, &mut self.follower, cx)
    }
}

impl Drop for SliceWaiting {
    fn drop(&mut self) {
        if let Some(follower) = self.follower.take() {
            self.shards.leave_slice(self.shard, follower);
        }
    }
}

/// A body on its way into the store. Dropped before its end, it has broken off.
pub struct OpenFill {
    fill: Option<Box<Fill>>,
    body: Arc<BodyCell>,
    shards: Arc<Shards>,
}

impl OpenFill {
    pub(super) fn new(shards: &Arc<Shards>, fill: Box<Fill>, body: Arc<BodyCell>) -> OpenFill {
        OpenFill {
            fill: Some(fill),
            body,
            shards: Arc::clone(shards),
        }
    }

    /// Returns a reader of the client's part of the body. `None` if it is too late for that.
    pub fn reader(&self) -> Option<SharedReader> {
        self.body.reader(&self.fill().part())
    }

    /// Adds a piece of the body.
    pub fn push(&mut self, piece: &[u8]) {
        let Some(fill) = &mut self.fill else { return };
        if self.body.push(fill, piece) == Pushed::Passing {
            self.shards.close(fill);
        }
    }

    /// Waits for room for the next piece. Returns false if nobody needs the rest.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<bool> {
        self.body.poll_room(cx)
    }

    /// See [`Fill::may_be_silent`].
    pub fn may_be_silent(&self) -> bool {
        self.fill().may_be_silent()
    }

    /// Returns true if [`OpenFill::put_slices`] has to be called.
    pub fn has_slices(&self) -> bool {
        self.fill().has_slices()
    }

    /// Passes whole slices to the second tier. Returns false if half of its queue is full.
    pub fn put_slices(&mut self) -> bool {
        self.fill
            .as_mut()
            .is_none_or(|fill| self.shards.put_slices(fill))
    }

    /// See [`Fill::stop_slicing`].
    pub fn stop_slicing(&mut self) {
        if let Some(fill) = &mut self.fill {
            fill.stop_slicing();
        }
    }

    /// Ends a body that has arrived without an error. The store has it before any reader sees its
    /// end, so that a request after that hits.
    pub fn complete(mut self) {
        let Some(fill) = self.fill.take() else { return };
        // Giving back unused room may copy the body, so no lock is held.
        let collected = self
            .body
            .with(|body, _| body.take_collected())
            .map(|mut bytes| {
                bytes.shrink_to_fit();
                Bytes::from(bytes)
            });
        let (completion, end) = self.shards.complete(fill, collected);
        self.body.with(|body, wakes| body.finish(end, wakes));
        if completion == Completion::Truncated {
            tracing::debug!("the origin's body was not as long as it said");
        }
    }

    fn fill(&self) -> &Fill {
        self.fill.as_ref().expect("only its end takes it")
    }
}

impl Drop for OpenFill {
    fn drop(&mut self) {
        if let Some(fill) = self.fill.take() {
            let end = self.shards.abort(fill);
            self.body.with(|body, wakes| body.finish(end, wakes));
        }
    }
}
