//! The number of requests of one HTTP/1 connection that hyper has answered. Compared with the
//! number that went up to it, it tells the stream below (`client_stream.rs`) whether hyper waits
//! for the next request. While the listener drains, each answer ends its connection.

use ::http::header::CONNECTION;
use ::http::{HeaderValue, StatusCode};
use hyper::body::{Body, Frame, SizeHint};
use hyper::service::Service;
use hyper::{Request, Response};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

/// Counts responses whose bodies hyper has read to their end.
#[derive(Clone, Default)]
pub(super) struct Exchanges(Arc<AtomicU64>);

impl Exchanges {
    pub(super) fn answered(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One request, until it is dropped with the body of its response.
struct UnderWay(Exchanges);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A service whose responses are counted.
pub(super) struct Counted<S> {
    service: S,
    exchanges: Exchanges,
    /// True while the listener drains.
    is_draining: Arc<AtomicBool>,
}

impl<S> Counted<S> {
    pub(super) fn new(service: S, exchanges: &Exchanges, is_draining: Arc<AtomicBool>) -> Counted<S> {
        Counted { service, exchanges: exchanges.clone(), is_draining }
    }
}

impl<S, R, B> Service<Request<R>> for Counted<S>
where
    S: Service<Request<R>, Response = Response<B>, Future: Unpin>,
{
    type Response = Response<CountedBody<B>>;
    type Error = S::Error;
    type Future = CountedFuture<S::Future>;

    fn call(&self, request: Request<R>) -> Self::Future {
        let under_way = Some(UnderWay(self.exchanges.clone()));
        CountedFuture { under_way, is_draining: Arc::clone(&self.is_draining), future: self.service.call(request) }
    }
}

pub(super) struct CountedFuture<F> {
    /// Held here until the body holds it.
    under_way: Option<UnderWay>,
    is_draining: Arc<AtomicBool>,
    future: F,
}

impl<F: Future<Output = Result<Response<B>, E>> + Unpin, B, E> Future for CountedFuture<F> {
    type Output = Result<Response<CountedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut response = ready!(Pin::new(&mut this.future).poll(cx));
        if this.is_draining.load(Ordering::Relaxed)
            && let Ok(response) = &mut response
            && response.status() != StatusCode::SWITCHING_PROTOCOLS
        {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let under_way = this.under_way.take();
        Poll::Ready(response.map(|response| response.map(|body| CountedBody { body, _under_way: under_way })))
    }
}

pub(super) struct CountedBody<B> {
    body: B,
    _under_way: Option<UnderWay>,
}

impl<B: Body + Unpin> Body for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
