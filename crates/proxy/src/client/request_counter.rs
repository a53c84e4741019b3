//! The number of requests of one HTTP/1 connection that hyper has answered. Compared with the
//! number that went up to it, it tells the stream below (`client_stream.rs`) whether hyper waits
//! for the next request. Also ends the connection: after `keepalive_requests`, or with the answer
//! that is written while the listener drains.

use crate::client::client_connections::Activity;
use crate::message::client_body::ClientBody;
use ::http::header::CONNECTION;
use ::http::{HeaderValue, StatusCode};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper::{Request, Response};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

/// Counts responses whose bodies hyper has read to their end, and all requests.
#[derive(Clone)]
pub(crate) struct Exchanges(Arc<Counts>);

struct Counts {
    answered: AtomicU64,
    /// Requests that the connection may still have.
    left: AtomicUsize,
    /// True while the listener drains.
    is_draining: Arc<AtomicBool>,
    /// Of the connection.
    activity: Arc<Activity>,
}

impl Exchanges {
    /// Counts those of a connection that may have so many requests, and no other while
    /// `is_draining`.
    pub(crate) fn new(
        most: usize,
        is_draining: Arc<AtomicBool>,
        activity: &Arc<Activity>,
    ) -> Exchanges {
        let (answered, left, activity) = (
            AtomicU64::new(0),
            AtomicUsize::new(most),
            Arc::clone(activity),
        );
        Exchanges(Arc::new(Counts {
            answered,
            left,
            is_draining,
            activity,
        }))
    }

    /// Returns the activity of the connection.
    pub(crate) fn activity(&self) -> &Activity {
        &self.0.activity
    }

    /// Returns the exchanges of a connection without an end.
    #[cfg(test)]
    pub(crate) fn endless() -> Exchanges {
        Exchanges::new(usize::MAX, Arc::default(), &Arc::default())
    }

    pub(crate) fn answered(&self) -> u64 {
        self.0.answered.load(Ordering::Relaxed)
    }

    /// Returns true if the next request is the last one, or if there should be no other.
    pub(crate) fn next_is_last(&self) -> bool {
        self.0.left.load(Ordering::Relaxed) <= 1 || self.is_draining()
    }

    fn is_draining(&self) -> bool {
        self.0.is_draining.load(Ordering::Relaxed)
    }

    /// Counts a request. Returns true if it is the last one.
    pub(crate) fn begin(&self) -> bool {
        // One task at a time counts.
        let left = self.0.left.load(Ordering::Relaxed);
        self.0.left.store(left.saturating_sub(1), Ordering::Relaxed);
        left <= 1
    }
}

/// One request, until it is dropped with the body of its response.
struct UnderWay(Exchanges);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.answered.fetch_add(1, Ordering::Relaxed);
        self.0.0.activity.end();
    }
}

/// A service whose responses are counted.
pub(crate) struct Counted<S> {
    service: S,
    exchanges: Exchanges,
}

impl<S> Counted<S> {
    pub(crate) fn new(service: S, exchanges: &Exchanges) -> Counted<S> {
        Counted {
            service,
            exchanges: exchanges.clone(),
        }
    }
}

impl<S, B> Service<Request<Incoming>> for Counted<S>
where
    S: Service<Request<ClientBody>, Response = Response<B>, Future: Unpin>,
{
    type Response = Response<CountedBody<B>>;
    type Error = S::Error;
    type Future = CountedFuture<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let request = request.map(ClientBody::Http1);
        self.exchanges.activity().begin();
        let (under_way, is_last) = (
            Some(UnderWay(self.exchanges.clone())),
            self.exchanges.begin(),
        );
        CountedFuture {
            under_way,
            is_last,
            future: self.service.call(request),
        }
    }
}

pub(crate) struct CountedFuture<F> {
    /// Held here until the body holds it.
    under_way: Option<UnderWay>,
    /// True if the connection ends after this request.
    is_last: bool,
    future: F,
}

impl<F: Future<Output = Result<Response<B>, E>> + Unpin, B, E> Future for CountedFuture<F> {
    type Output = Result<Response<CountedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut response = ready!(Pin::new(&mut this.future).poll(cx));
        let is_draining = this
            .under_way
            .as_ref()
            .is_some_and(|under_way| under_way.0.is_draining());
        if (this.is_last || is_draining)
            && let Ok(response) = &mut response
            && response.status() != StatusCode::SWITCHING_PROTOCOLS
        {
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let under_way = this.under_way.take();
        Poll::Ready(response.map(|response| {
            response.map(|body| CountedBody {
                body,
                _under_way: under_way,
            })
        }))
    }
}

pub(crate) struct CountedBody<B> {
    body: B,
    _under_way: Option<UnderWay>,
}

impl<B: Body + Unpin> Body for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
