//! Requests to the origin: a task each, on a thread of their own. What comes goes to the far node's thread, as much as was granted.

use super::{Order, OriginHead, Outcome};
use crate::http::limits::{BODY_STALL, BUFFER_BYTES, CONNECT, ORIGIN_IDLE, ORIGIN_IDLE_CONNECTIONS, RESPONSE};
use crate::pair::limits;
use ::http::header::{HOST, TRANSFER_ENCODING};
use ::http::uri::{Authority, PathAndQuery, Scheme};
use ::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, Version};
use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// What the origin has said.
pub(super) enum FromOrigin {
    Head(Box<OriginHead>),
    Piece(Bytes),
    End { is_whole: bool },
    Failed { timed_out: bool },
}

/// The thread of the requests, and what is under way on it.
pub(super) struct Requests {
    runtime: tokio::runtime::Handle,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
    asker: Arc<Asker>,
    under_way: HashMap<u64, Arc<Semaphore>>,
}

struct Asker {
    client: Client<HttpConnector, Whole>,
    origin: Authority,
    events: Sender<(u64, FromOrigin)>,
    waker: Arc<mio::Waker>,
    /// Places for [`limits::ORIGIN_REQUESTS`].
    places: Semaphore,
}

impl Requests {
    /// # Errors
    /// One line where the origin is no `http://HOST:PORT`, or there is no thread.
    pub(super) fn start(
        origin: &Uri,
        events: Sender<(u64, FromOrigin)>,
        waker: Arc<mio::Waker>,
    ) -> Result<Requests, String> {
        let authority = origin.authority().filter(|_| origin.scheme() == Some(&Scheme::HTTP)).cloned();
        let origin =
            authority.ok_or_else(|| format!("[ndn.gateway] origin: expected http://HOST:PORT, not {origin}"))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start a runtime: {error}"))?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("gateway-http".to_owned())
            .spawn(move || {
                runtime.block_on(async { stopped.await.unwrap_or_default() });
                runtime.shutdown_background();
            })
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(ORIGIN_IDLE)
            .pool_max_idle_per_host(ORIGIN_IDLE_CONNECTIONS)
            .http1_max_buf_size(BUFFER_BYTES)
            .set_host(false)
            .build(connector);
        let asker = Arc::new(Asker { client, origin, events, waker, places: Semaphore::new(limits::ORIGIN_REQUESTS) });
        Ok(Requests { runtime: handle, stop, thread, asker, under_way: HashMap::new() })
    }

    /// Makes requests, lets bodies come, and ends what nobody wants.
    pub(super) fn obey(&mut self, out: &mut Outcome) {
        for order in out.orders.drain(..) {
            let room = Arc::new(Semaphore::new(0));
            self.under_way.insert(order.id, Arc::clone(&room));
            self.runtime.spawn(Arc::clone(&self.asker).fetch(order, room));
        }
        for (id, bytes) in out.grants.drain(..) {
            if let Some(room) = self.under_way.get(&id) {
                let most = Semaphore::MAX_PERMITS - room.available_permits();
                room.add_permits(usize::try_from(bytes).unwrap_or(usize::MAX).min(most));
            }
        }
        for id in out.stops.drain(..) {
            self.forget(id);
        }
    }

    /// A request is over, or to be.
    pub(super) fn forget(&mut self, id: u64) {
        if let Some(room) = self.under_way.remove(&id) {
            room.close();
        }
    }

    pub(super) fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

impl Asker {
    fn say(&self, id: u64, event: FromOrigin) {
        // It fails only where the far node has ended.
        if self.events.send((id, event)).is_ok() {
            let _ = self.waker.wake();
        }
    }

    async fn fetch(self: Arc<Self>, order: Order, room: Arc<Semaphore>) {
        let (id, is_head) = (order.id, order.method == Method::HEAD);
        let Some(request) = self.request(order) else {
            // Names hold what no URL does; such a page is not there.
            let head = OriginHead {
                status: StatusCode::BAD_REQUEST,
                headers: HeaderMap::new(),
                unframed: false,
                body: Some(Bytes::new()),
                length: None,
            };
            return self.say(id, FromOrigin::Head(Box::new(head)));
        };
        let Ok(Ok(_place)) = timeout(RESPONSE, self.places.acquire()).await else {
            return self.say(id, FromOrigin::Failed { timed_out: true });
        };
        let response = match timeout(RESPONSE, self.client.request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                tracing::debug!(%error, origin = %self.origin, "[ndn.gateway] origin does not answer");
                return self.say(id, FromOrigin::Failed { timed_out: false });
            }
            Err(_) => return self.say(id, FromOrigin::Failed { timed_out: true }),
        };
        let (head, mut body) = response.into_parts();
        let length = body.size_hint().exact();
        let mut begun = BytesMut::new();
        let is_short = length.is_none_or(|length| length <= limits::SEGMENT_BYTES as u64);
        let begin = async { if is_short && !is_head { short(&mut body, &mut begun).await } else { Ok(is_head) } };
        let begin = timeout(limits::INLINE_WAIT, begin).await.unwrap_or(Ok(false));
        let came_whole = begin == Ok(true);
        let mut headers = head.headers;
        let unframed = length.is_none() && head.version < Version::HTTP_2 && !headers.contains_key(TRANSFER_ENCODING);
        larder_http::strip_hop_by_hop(&mut headers);
        let whole = came_whole.then(|| begun.split().freeze());
        let head = OriginHead { status: head.status, headers, unframed, body: whole, length };
        self.say(id, FromOrigin::Head(Box::new(head)));
        match begin {
            Ok(true) => {}
            Ok(false) => self.relay(id, begun.freeze(), body, &room).await,
            Err(BrokeOff) => self.say(id, FromOrigin::End { is_whole: false }),
        }
    }

    fn request(&self, order: Order) -> Option<Request<Whole>> {
        let target = PathAndQuery::try_from(order.target).ok().filter(|target| target.as_str().starts_with('/'))?;
        let sound = !order.authority.contains('@') && order.authority.parse::<Authority>().is_ok();
        let host = HeaderValue::from_str(&order.authority).ok().filter(|_| sound)?;
        let uri = Uri::builder().scheme(Scheme::HTTP).authority(self.origin.clone()).path_and_query(target);
        let mut request = Request::new(Whole(Some(order.body).filter(|body| !body.is_empty())));
        *request.method_mut() = order.method;
        *request.uri_mut() = uri.build().ok()?;
        *request.headers_mut() = order.headers;
        request.headers_mut().insert(HOST, host);
        Some(request)
    }

    /// Hands on a body, as much as there is room for.
    async fn relay(&self, id: u64, begun: Bytes, mut body: Incoming, room: &Semaphore) {
        let mut piece = begun;
        loop {
            while !piece.is_empty() {
                let now = piece.split_to(piece.len().min(BUFFER_BYTES));
                // Closed: nobody wants it any more, and the connection goes.
                let Ok(permit) = room.acquire_many(u32::try_from(now.len()).unwrap_or(u32::MAX)).await else { return };
                permit.forget();
                self.say(id, FromOrigin::Piece(now));
            }
            piece = match timeout(BODY_STALL, next(&mut body)).await {
                Ok(Some(Ok(bytes))) => bytes,
                Ok(None) => return self.say(id, FromOrigin::End { is_whole: true }),
                Ok(Some(Err(_))) | Err(_) => return self.say(id, FromOrigin::End { is_whole: false }),
            };
        }
    }
}

/// A body ended before its time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct BrokeOff;

/// Reads a body of at most a segment; false where there is more.
async fn short(body: &mut Incoming, begun: &mut BytesMut) -> Result<bool, BrokeOff> {
    while begun.len() <= limits::SEGMENT_BYTES {
        match next(body).await {
            Some(Ok(bytes)) => begun.extend_from_slice(&bytes),
            Some(Err(_)) => return Err(BrokeOff),
            None => return Ok(true),
        }
    }
    Ok(false)
}

/// The next bytes; trailers are left out.
async fn next(body: &mut Incoming) -> Option<Result<Bytes, hyper::Error>> {
    loop {
        match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await? {
            Ok(frame) => {
                if let Ok(bytes) = frame.into_data() {
                    return Some(Ok(bytes));
                }
            }
            Err(error) => return Some(Err(error)),
        }
    }
}

/// A request's body.
struct Whole(Option<Bytes>);

impl hyper::body::Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
