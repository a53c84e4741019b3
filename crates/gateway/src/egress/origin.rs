//! Requests to the origin: one task each, on their own thread. Responses go to the egress's thread,
//! as far as it has granted them.

use super::{OriginHead, OriginRequest, Outcome};
use crate::error::Error;
use crate::limits;
use ::http::header::{HOST, TRANSFER_ENCODING};
use ::http::uri::{Authority, PathAndQuery, Scheme};
use ::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, Version};
use bytes::{Bytes, BytesMut};
use hyper::body::Body as _;
use larder_http::UpstreamFailure;
use larder_proxy::limits::{BODY_STALL, BUFFER_BYTES, ORIGIN_IDLE};
use larder_proxy::{HeaderLimits, ReceivedBody, Server, Timeouts, Trust, Upload};
use std::collections::HashMap;
use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// A message from the origin.
pub(super) enum FromOrigin {
    Head(Box<OriginHead>),
    Piece(Bytes),
    End { is_whole: bool },
    Failed { timed_out: bool },
}

/// The thread of the requests, and those in progress on it.
pub(super) struct Requests {
    runtime: tokio::runtime::Handle,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
    asker: Arc<Asker>,
    under_way: HashMap<u64, (Arc<Semaphore>, AbortHandle)>,
}

struct Asker {
    server: Arc<Server>,
    origin: Uri,
    events: Sender<(u64, FromOrigin)>,
    waker: Arc<mio::Waker>,
}

/// Returns the certificates that verify this origin; `None` without TLS.
///
/// # Errors
/// As [`Trust::read`].
pub(super) fn trust_of(origin: &Uri, ca: Option<&Path>) -> Result<Option<Trust>, Error> {
    let is_secret = origin.scheme() == Some(&Scheme::HTTPS);
    is_secret
        .then(|| Trust::read(ca))
        .transpose()
        .map_err(Error::Trust)
}

impl Requests {
    /// Starts the thread. An https server is verified by the certificates of the PEM file `ca`, or
    /// by the system's.
    ///
    /// # Errors
    /// One line if the origin is no `http://HOST:PORT` or `https://HOST:PORT`, the certificates
    /// cannot be read, or the thread cannot be started.
    pub(super) fn start(
        origin: &Uri,
        ca: Option<&Path>,
        events: Sender<(u64, FromOrigin)>,
        waker: Arc<mio::Waker>,
    ) -> Result<Requests, Error> {
        let trust = trust_of(origin, ca)?;
        let server = Server::new(
            origin,
            trust.as_ref().map(|trust| &trust.config),
            Timeouts::default(),
            HeaderLimits::default(),
        );
        let server = Arc::new(server.ok_or_else(|| Error::Origin(origin.clone()))?);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::Runtime)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let swept = Arc::clone(&server);
        let thread = std::thread::Builder::new()
            .name("gateway-http".to_owned())
            .spawn(move || {
                runtime.spawn(async move {
                    loop {
                        tokio::time::sleep(ORIGIN_IDLE).await;
                        swept.sweep();
                    }
                });
                runtime.block_on(async { stopped.await.unwrap_or_default() });
                runtime.shutdown_background();
            })
            .map_err(Error::Thread)?;
        let asker = Arc::new(Asker {
            server,
            origin: origin.clone(),
            events,
            waker,
        });
        Ok(Requests {
            runtime: handle,
            stop,
            thread,
            asker,
            under_way: HashMap::new(),
        })
    }

    /// Starts requests, grants bodies, and cancels those that are no longer needed.
    pub(super) fn obey(&mut self, out: &mut Outcome) {
        for origin_request in out.orders.drain(..) {
            let (id, room) = (origin_request.id, Arc::new(Semaphore::new(0)));
            let task = self
                .runtime
                .spawn(Arc::clone(&self.asker).fetch(origin_request, Arc::clone(&room)));
            self.under_way.insert(id, (room, task.abort_handle()));
        }
        for (id, bytes) in out.grants.drain(..) {
            if let Some((room, _)) = self.under_way.get(&id) {
                let most = Semaphore::MAX_PERMITS - room.available_permits();
                room.add_permits(usize::try_from(bytes).unwrap_or(usize::MAX).min(most));
            }
        }
        for id in out.stops.drain(..) {
            self.forget(id);
        }
    }

    /// Forgets a request that has ended, or is cancelled.
    pub(super) fn forget(&mut self, id: u64) {
        if let Some((_, task)) = self.under_way.remove(&id) {
            task.abort();
        }
    }

    pub(super) fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

impl Asker {
    fn say(&self, id: u64, event: FromOrigin) {
        // Fails only if the egress has ended.
        if self.events.send((id, event)).is_ok() {
            let _ = self.waker.wake();
        }
    }

    async fn fetch(self: Arc<Self>, origin_request: OriginRequest, room: Arc<Semaphore>) {
        let (id, is_head) = (origin_request.id, origin_request.method == Method::HEAD);
        let Some(request) = Asker::request(origin_request) else {
            // Names may contain what no URL does: such a page does not exist.
            let head = OriginHead {
                status: StatusCode::BAD_REQUEST,
                headers: HeaderMap::new(),
                unframed: false,
                body: Some(Bytes::new()),
                length: None,
            };
            return self.say(id, FromOrigin::Head(Box::new(head)));
        };
        let (method, uri, headers) = (
            request.method().clone(),
            request.uri().clone(),
            request.headers().clone(),
        );
        let again = || {
            let mut request = Request::new(Upload::empty());
            *request.method_mut() = method.clone();
            *request.uri_mut() = uri.clone();
            *request.headers_mut() = headers.clone();
            request
        };
        let response = match self.server.ask(request, again).await {
            Ok(response) => response,
            Err(failed) => {
                tracing::debug!(failed.reason, origin = %self.origin, "[ndn.gateway] origin does not answer");
                return self.say(
                    id,
                    FromOrigin::Failed {
                        timed_out: failed.failure == UpstreamFailure::TimedOut,
                    },
                );
            }
        };
        let (head, mut body) = response.into_parts();
        let length = body.size_hint().exact();
        let mut begun = BytesMut::new();
        let is_short = length.is_none_or(|length| length <= limits::SEGMENT_BYTES as u64);
        let begin = async {
            if is_short && !is_head {
                short(&mut body, &mut begun).await
            } else {
                Ok(is_head)
            }
        };
        let Ok(came_whole) = timeout(limits::INLINE_WAIT, begin)
            .await
            .unwrap_or(Ok(false))
        else {
            // The client has seen nothing yet: an error is better than half a page.
            return self.say(id, FromOrigin::Failed { timed_out: false });
        };
        let mut headers = head.headers;
        let unframed = length.is_none()
            && head.version < Version::HTTP_2
            && !headers.contains_key(TRANSFER_ENCODING);
        larder_http::strip_hop_by_hop(&mut headers);
        let whole = came_whole.then(|| begun.split().freeze());
        let head = OriginHead {
            status: head.status,
            headers,
            unframed,
            body: whole,
            length,
        };
        self.say(id, FromOrigin::Head(Box::new(head)));
        if !came_whole {
            self.relay(id, begun.freeze(), body, &room).await;
        }
    }

    fn request(origin_request: OriginRequest) -> Option<Request<Upload>> {
        let target = PathAndQuery::try_from(origin_request.target)
            .ok()
            .filter(|target| target.as_str().starts_with('/'))?;
        let sound = !origin_request.authority.contains('@')
            && origin_request.authority.parse::<Authority>().is_ok();
        let host = HeaderValue::from_str(&origin_request.authority)
            .ok()
            .filter(|_| sound)?;
        let mut request = Request::new(Upload::whole(origin_request.body));
        *request.method_mut() = origin_request.method;
        *request.uri_mut() = Uri::from(target);
        *request.headers_mut() = origin_request.headers;
        request.headers_mut().insert(HOST, host);
        Some(request)
    }

    /// Forwards a body, as far as there is room.
    async fn relay(&self, id: u64, begun: Bytes, mut body: ReceivedBody, room: &Semaphore) {
        let mut piece = begun;
        loop {
            while !piece.is_empty() {
                let now = piece.split_to(piece.len().min(BUFFER_BYTES));
                let Ok(permit) = room
                    .acquire_many(u32::try_from(now.len()).unwrap_or(u32::MAX))
                    .await
                else {
                    return;
                };
                permit.forget();
                self.say(id, FromOrigin::Piece(now));
            }
            piece = match timeout(BODY_STALL, next(&mut body)).await {
                Ok(Some(Ok(bytes))) => bytes,
                Ok(None) => return self.say(id, FromOrigin::End { is_whole: true }),
                Ok(Some(Err(_))) | Err(_) => {
                    return self.say(id, FromOrigin::End { is_whole: false });
                }
            };
        }
    }
}

/// The error of a body that ended early.
#[derive(Clone, Copy, Debug, PartialEq)]
struct BrokeOff;

/// Reads a body of at most a segment. Returns false if there is more.
async fn short(body: &mut ReceivedBody, begun: &mut BytesMut) -> Result<bool, BrokeOff> {
    while begun.len() <= limits::SEGMENT_BYTES {
        match next(body).await {
            Some(Ok(bytes)) => begun.extend_from_slice(&bytes),
            Some(Err(_)) => return Err(BrokeOff),
            None => return Ok(true),
        }
    }
    Ok(false)
}

/// Returns the next bytes, without trailers.
async fn next(body: &mut ReceivedBody) -> Option<Result<Bytes, BrokeOff>> {
    loop {
        match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await? {
            Ok(frame) => {
                if let Ok(bytes) = frame.into_data() {
                    return Some(Ok(bytes));
                }
            }
            Err(_) => return Some(Err(BrokeOff)),
        }
    }
}
