//! Requests that the store does not answer: they go to the origin, or wait for another request.

use super::Proxy;
use crate::base::fair_places::FairPlace;
use crate::cache::disk_tier;
use crate::cache::shards;
use crate::cache::shards::{Lookup, Next, OpenExchange, OpenFill, ShardAssembly, WaitEnd, Waiting};
use crate::exchange::assemble::assemble;
use crate::exchange::fill::{Collecting, RequestPlace};
use crate::exchange::objects::FromObject;
use crate::exchange::outgoing::{Outgoing, response};
use crate::exchange::peers::FromPeer;
use crate::exchange::peers::peer_request;
use crate::exchange::peers::peer_request::OriginIsLate;
use crate::exchange::proxy::file_rules::response_rules;
use crate::exchange::upgrade::Accepted;
use crate::exchange::upstream_request::{LiveTarget, UpstreamRequest, accepts_trailers};
use crate::exchange::websocket_stream::not_opened;
use crate::message::body::Timed;
use crate::message::client_body::ClientBody;
use crate::message::upload::Upload;
use crate::origin::files::NotStored;
use crate::origin::origin_body::OriginBody;
use crate::origin::server_requests::ServerRequests;
use ::http::header::{AGE, CONNECTION};
use ::http::request::Parts;
use ::http::{HeaderValue, Method, Response, Version};
use bytes::Bytes;
use hyper::body::Body;
use hyper::ext::ReasonPhrase;
use larder_http::{Assembled, ResponseHead, UpstreamFailure};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use tokio::runtime::Handle;

impl Proxy {
    /// Returns a response whose body is put together from slices.
    pub(crate) fn assembled(
        self: &Arc<Self>,
        assembled: ShardAssembly<Assembled>,
        mut upstream_target: LiveTarget,
    ) -> Response<Outgoing> {
        // An informational response to a slice would stand within the body.
        upstream_target.target.interims = None;
        let (status, headers, body) = assembled.into_parts();
        response(
            status,
            headers,
            assemble(Arc::clone(self), body, upstream_target),
        )
    }

    /// Returns the target of slices: their owner, and the origin.
    pub(crate) fn owned_target(&self, request: &UpstreamRequest) -> LiveTarget {
        let mut target = request.upstream_target();
        target.target.owned = self.owned(request);
        target.target.is_of_slices = true;
        target
    }

    /// Lets the owner of the object be asked first, if that is another node. Returns whether a copy
    /// of its response may be stored here.
    fn ask_owner(
        &self,
        exchange: &mut OpenExchange,
        request: &UpstreamRequest,
        target: &mut LiveTarget,
    ) -> bool {
        // What is not for the store is for nobody else: another node would only pass it on.
        if exchange.may_be_stored() && request.upgrade.is_none() {
            target.target.owned = self.owned(request);
        }
        let Some(owned) = &target.target.owned else {
            return true;
        };
        let is_kept = owned.is_kept || exchange.is_held();
        if !is_kept {
            exchange.ask_as_client();
        }
        is_kept
    }

    /// Waits for another request that already asks the origin.
    pub(crate) async fn follow(
        self: Arc<Self>,
        mut waiting: Waiting,
        upstream_request: UpstreamRequest,
        body: ClientBody,
    ) -> Response<Outgoing> {
        loop {
            let joined =
                match poll_fn(|cx| waiting.poll_end(&upstream_request.parts.headers, cx)).await {
                    WaitEnd::Answer(answer) => return self.sent(answer),
                    WaitEnd::Stream(status, headers, reader) => {
                        return response(status, headers, Outgoing::Shared(reader));
                    }
                    WaitEnd::Again(joined) => joined,
                };
            // The writer may be about to say that its body has become a window.
            tokio::task::yield_now().await;
            match self
                .shards
                .on_released(&upstream_request.head(false), joined)
            {
                Next::Answer(answer) => return self.sent(answer),
                Next::Assemble(assembled) => {
                    return self.assembled(assembled, self.owned_target(&upstream_request));
                }
                Next::Follow(other) => waiting = other,
                Next::Forward(exchange) => {
                    let exchange = self.forbid_storing_if_overtaken(exchange, &upstream_request);
                    return self.send_forward(exchange, upstream_request, body).await;
                }
                Next::Refresh(answer, exchange) => {
                    let exchange = self.forbid_storing_if_overtaken(exchange, &upstream_request);
                    self.refresh(exchange, upstream_request);
                    return self.sent(answer);
                }
            }
        }
    }

    /// Returns an exchange that stores nothing if a reload came since the request began. The answer
    /// is of the former configuration, and a purge after the reload must hold.
    fn forbid_storing_if_overtaken(
        &self,
        exchange: OpenExchange,
        request: &UpstreamRequest,
    ) -> OpenExchange {
        if Arc::ptr_eq(&request.live, &self.live()) {
            return exchange;
        }
        match self.shards.pass(&request.head(false)) {
            Next::Forward(passing) => passing,
            _ => exchange,
        }
    }

    /// Forwards a request that the store does not answer. It continues without its client if others
    /// may wait for the response.
    pub(crate) fn send_forward(
        self: Arc<Self>,
        exchange: OpenExchange,
        upstream_request: UpstreamRequest,
        body: ClientBody,
    ) -> DetachOnDrop<Response<Outgoing>> {
        let is_shared = exchange.is_shared();
        let client = upstream_request.client;
        if !body.is_end_stream() {
            let upload = Proxy::upload(body, &upstream_request);
            let sent = Box::pin(self.send_upload(exchange, upstream_request, upload));
            return DetachOnDrop::new(is_shared, sent);
        }
        let places = Arc::clone(&self.limits.requests);
        match places.try_acquire(client) {
            Some(place) => {
                let sent = Box::pin(self.send(exchange, upstream_request, Upload::empty(), place));
                DetachOnDrop::new(is_shared, sent)
            }
            None if upstream_request.is_of_peer => {
                drop(exchange);
                DetachOnDrop::new(false, Box::pin(async { peer_request::busy() }))
            }
            // A request that waits for a place ends with its client. Others for the same URL do not
            // wait with it: another client may have a place.
            None if is_shared => {
                drop(exchange);
                let waiting = async move {
                    let place = places.acquire(client).await;
                    self.ask_again(place, upstream_request, body).await
                };
                DetachOnDrop::new(false, Box::pin(waiting))
            }
            None => {
                let waiting = async move {
                    let place = places.acquire(client).await;
                    self.send(exchange, upstream_request, Upload::empty(), place)
                        .await
                };
                DetachOnDrop::new(false, Box::pin(waiting))
            }
        }
    }

    /// Asks the cache again for a request that has waited for a place, and counts as another one.
    async fn ask_again(
        self: Arc<Self>,
        place: FairPlace,
        upstream_request: UpstreamRequest,
        body: ClientBody,
    ) -> Response<Outgoing> {
        let may_collapse = upstream_request
            .rules
            .as_ref()
            .is_none_or(|rules| rules.collapses());
        match self
            .shards
            .step(&upstream_request.head(false), may_collapse)
        {
            Next::Answer(answer) => self.sent(answer),
            Next::Assemble(assembled) => {
                self.assembled(assembled, self.owned_target(&upstream_request))
            }
            Next::Follow(waiting) => {
                drop(place);
                self.follow(waiting, upstream_request, body).await
            }
            Next::Forward(exchange) => {
                let exchange = self.forbid_storing_if_overtaken(exchange, &upstream_request);
                let is_shared = exchange.is_shared();
                let sent = Box::pin(self.send(exchange, upstream_request, Upload::empty(), place));
                DetachOnDrop::new(is_shared, sent).await
            }
            Next::Refresh(answer, exchange) => {
                let exchange = self.forbid_storing_if_overtaken(exchange, &upstream_request);
                self.refresh(exchange, upstream_request);
                self.sent(answer)
            }
        }
    }

    /// Forwards a request with a body. It takes a place, and a connection to the origin, when the
    /// first bytes of the body are there: requests whose bodies never begin keep nobody out. Some
    /// conversations begin with the origin: gRPC's clients, and those that wait to be asked.
    async fn send_upload(
        self: Arc<Self>,
        exchange: OpenExchange,
        upstream_request: UpstreamRequest,
        mut upload: Upload,
    ) -> Response<Outgoing> {
        let may_begin_later =
            upstream_request.expects || accepts_trailers(&upstream_request.parts.headers);
        if !may_begin_later && let Err(failure) = upload.begin().await {
            upload.give_up();
            return self.failed(exchange, failure, upstream_request.parts.version);
        }
        let place = self.limits.uploads.acquire(upstream_request.client).await;
        self.send(exchange, upstream_request, upload, place).await
    }

    /// Returns the answer to a request that did not reach the origin, or got no response.
    fn failed(
        &self,
        exchange: OpenExchange,
        failure: UpstreamFailure,
        version: Version,
    ) -> Response<Outgoing> {
        let mut answer = self.sent(self.shards.on_failure(exchange, failure));
        if failure == UpstreamFailure::TimedOut {
            answer.extensions_mut().insert(OriginIsLate);
        }
        // RFC 9110 §15.5.9 and §15.5.14: the rest of the body may still come.
        let has_rest = matches!(
            failure,
            UpstreamFailure::UploadTimedOut | UpstreamFailure::UploadTooLarge
        );
        if has_rest && version <= Version::HTTP_11 {
            answer
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }

    fn upload(body: ClientBody, request: &UpstreamRequest) -> Upload {
        let timeouts = &request.live.timeouts;
        let silence = (timeouts.client_body, timeouts.origin_relay());
        Upload::new(body, request.expects, request.body_bytes, silence)
    }

    async fn send(
        self: Arc<Self>,
        exchange: OpenExchange,
        upstream_request: UpstreamRequest,
        upload: Upload,
        place: FairPlace,
    ) -> Response<Outgoing> {
        let asked = upload.asked();
        let live = Arc::clone(&upstream_request.live);
        let (mut response, rest) = Arc::clone(&self)
            .forward(exchange, upstream_request, upload)
            .await;
        if let Some((body, fill)) = rest {
            let mut collecting =
                Collecting::new(body, fill, &live.timeouts, RequestPlace::OfClient(place));
            // A small body has come with its head and needs no task.
            if !poll_fn(|cx| Poll::Ready(Pin::new(&mut collecting).poll(cx).is_ready())).await {
                tokio::spawn(collecting);
            }
        }
        // RFC 9110 §10.1.1: a response before the body says whether the connection ends. It ends,
        // because the client may send the body all the same.
        if asked.is_some_and(|asked| !asked.load(Ordering::Relaxed)) {
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Validates a response in the background that was just served stale.
    pub(crate) fn refresh(
        self: &Arc<Self>,
        exchange: OpenExchange,
        mut upstream_request: UpstreamRequest,
    ) {
        upstream_request.interims = None;
        // The exchange that caused it has its answer.
        upstream_request.parts.extensions.remove::<ServerRequests>();
        let Some(place) = self.background.try_acquire() else {
            return;
        };
        upstream_request.parts.method = Method::GET;
        let (proxy, live) = (Arc::clone(self), Arc::clone(&upstream_request.live));
        tokio::spawn(async move {
            // A body that is not for the store is not needed.
            if let (_, Some((body, fill))) = Arc::clone(&proxy)
                .forward(exchange, upstream_request, Upload::empty())
                .await
            {
                let place = RequestPlace::Background(place);
                Collecting::new(body, fill, &live.timeouts, place).await;
            }
        });
    }

    /// Looks the response up on the disk. `Err` is the answer.
    async fn tier_lookup(
        self: &Arc<Self>,
        mut exchange: OpenExchange,
        upstream_request: &UpstreamRequest,
    ) -> Result<OpenExchange, Box<Response<Outgoing>>> {
        if self.objects().is_some() && self.is_of_files(upstream_request) {
            exchange.without_objects();
        }
        let mut variant = None;
        while let (Some(disk), Some(key)) = (&self.disk, exchange.tier_key()) {
            let tier_hit = disk_tier::tier_lookup(disk, &key, variant, self.budget()).await;
            match self
                .shards
                .on_tier_lookup(exchange, tier_hit, &upstream_request.head(false))
            {
                Lookup::Answer(answer) => return Err(Box::new(self.sent(answer))),
                Lookup::Assemble(assembled) => {
                    let target = self.owned_target(upstream_request);
                    return Err(Box::new(self.assembled(assembled, target)));
                }
                Lookup::Forward(exchange) => return Ok(exchange),
                Lookup::Variant(again, other) => (exchange, variant) = (again, Some(other)),
            }
        }
        Ok(exchange)
    }

    /// Sends the request to the origin. The response is for the client. If its body may be stored,
    /// the caller has to collect it, and the client reads it meanwhile.
    async fn forward(
        self: Arc<Self>,
        exchange: OpenExchange,
        upstream_request: UpstreamRequest,
        upload: Upload,
    ) -> (Response<Outgoing>, Option<(OriginBody, OpenFill)>) {
        let mut exchange = match self.tier_lookup(exchange, &upstream_request).await {
            Ok(exchange) => exchange,
            Err(answer) => return (*answer, None),
        };
        let mut upstream_target = upstream_request.upstream_target();
        let is_kept = self.ask_owner(&mut exchange, &upstream_request, &mut upstream_target);
        let mut upgrade = upstream_request.upgrade;
        let is_stream = upgrade
            .as_ref()
            .is_some_and(|upgrade| upgrade.is_of_stream());
        let Parts {
            method,
            headers,
            version,
            ..
        } = upstream_request.parts;
        exchange.take_headers(headers);
        if let Some(rules) = response_rules(&upstream_target) {
            exchange.set_rules(rules);
        }
        let mut asked = self
            .ask_first(&exchange, method.clone(), &upstream_target, upload)
            .await;
        loop {
            let (head, body) = match asked {
                Ok(response) => response.into_parts(),
                Err(failure) => return (self.failed(exchange, failure, version), None),
            };
            let Received {
                mut head,
                accepted,
                reason,
                age,
                is_object,
            } = Received::new(head, &mut exchange, is_kept);
            // An object has passed them.
            if let Some(rules) = upstream_target.target.rules.as_ref().filter(|_| !is_object) {
                rules.change_origin_response(head.status, &mut head.headers);
            }
            let (reply, unsettled) = self.shards.on_response(exchange, head);
            // A client that gets the answer to its change must not see the old page after a crash.
            if unsettled && let Err(error) = self.settle().await {
                tracing::warn!(%error, "an unsafe request's invalidation may be undone by a restart");
            }
            match reply {
                shards::Response::Answer(answer) => return (self.sent(answer), None),
                shards::Response::Relay(status, mut headers, fill) => {
                    headers.extend(age.map(|age| (AGE, age)));
                    if let Some((upgrade, accepted)) = upgrade.take().zip(accepted) {
                        let switching = response(status, headers, Outgoing::whole(Bytes::new()));
                        let idle = upstream_target.live.timeouts.upgrade;
                        return (upgrade.accept((accepted, body), idle, switching), None);
                    }
                    if status.is_success() && is_stream {
                        return (not_opened(), None);
                    }
                    let Some((fill, reader)) =
                        fill.and_then(|fill| fill.reader().map(|reader| (fill, reader)))
                    else {
                        let body = Timed::new(body, upstream_target.live.timeouts.origin_relay());
                        let mut relayed =
                            response(status, headers, Outgoing::Relay(Box::new(body)));
                        keep_reason(&mut relayed, reason);
                        return (relayed, None);
                    };
                    let mut shared = response(status, headers, Outgoing::Shared(reader));
                    keep_reason(&mut shared, reason);
                    return (shared, Some((body, fill)));
                }
                shards::Response::Assemble(assembled, fill) => {
                    return (
                        self.assembled(assembled, upstream_target),
                        fill.map(|fill| (body, fill)),
                    );
                }
                shards::Response::Retry(again) => {
                    exchange = again;
                    upstream_target.target.owned = None;
                    asked = self
                        .ask(
                            method.clone(),
                            &upstream_target,
                            || exchange.retry_headers(),
                            Upload::empty(),
                        )
                        .await;
                }
            }
        }
    }
}

/// The head of a response of the origin, or of another node.
struct Received {
    head: ResponseHead,
    accepted: Option<Accepted>,
    reason: Option<ReasonPhrase>,
    /// The age of another node's response, for the client.
    age: Option<HeaderValue>,
    is_object: bool,
}

impl Received {
    /// Tells the exchange where the response comes from. `is_kept`: a copy of another node's may be
    /// stored.
    fn new(
        mut head: ::http::response::Parts,
        exchange: &mut OpenExchange,
        is_kept: bool,
    ) -> Received {
        if head.extensions.remove::<NotStored>().is_some() {
            exchange.forbid_storing();
        }
        let mut age = None;
        if let Some(FromPeer) = head.extensions.remove() {
            age = head.headers.get(AGE).cloned();
            exchange.set_peer_response(&mut head.headers);
            if !is_kept {
                exchange.keep_no_copy();
            }
        }
        let object = head.extensions.remove::<FromObject>();
        if let Some(FromObject(fresh)) = object {
            age = age.or_else(|| head.headers.get(AGE).cloned());
            exchange.set_object(&mut head.headers, fresh);
        }
        Received {
            is_object: object.is_some(),
            accepted: head.extensions.remove(),
            reason: head.extensions.remove(),
            head: ResponseHead {
                status: head.status,
                version: head.version,
                headers: head.headers,
            },
            age,
        }
    }
}

/// Keeps the origin's words for a status that has none of its own.
fn keep_reason(response: &mut Response<Outgoing>, reason: Option<ReasonPhrase>) {
    if let Some(reason) = reason.filter(|_| response.status().canonical_reason().is_none()) {
        response.extensions_mut().insert(reason);
    }
}

/// A future that continues as a task when it is dropped. A task from the start would cost more at
/// every miss.
pub(crate) struct DetachOnDrop<T: Send + 'static> {
    /// `None` after it is done.
    future: Option<Boxed<T>>,
    goes_on: bool,
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T: Send + 'static> DetachOnDrop<T> {
    /// The caller boxes the future: as an argument, its kilobytes would be copied again.
    pub(crate) fn new(goes_on: bool, future: Boxed<T>) -> DetachOnDrop<T> {
        DetachOnDrop {
            future: Some(future),
            goes_on,
        }
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let polled = self
            .future
            .as_mut()
            .map_or(Poll::Pending, |future| future.as_mut().poll(cx));
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        // `None` after it is done. Without a runtime, the node has ended.
        if let (Some(future), true, Ok(runtime)) =
            (self.future.take(), self.goes_on, Handle::try_current())
        {
            runtime.spawn(future);
        }
    }
}
