//! A service whose exchanges are reported ([`ObservedExchange`]).

use crate::base::alt_svc::AltSvc;
use crate::exchange::outgoing::Outgoing;
use crate::exchange::service::{Responding, Service};
use crate::message::client_body::ClientBody;
use crate::message::first_bytes::FirstBytes;
use crate::message::upload::linger;
use crate::report::observer::{ObservedClient, ObservedExchange};
use ::http::header::{ALT_SVC, CONTENT_LENGTH};
use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use hyper::ext::ReasonPhrase;
use hyper::{Request, Response, Version};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The service of one client.
pub(crate) struct Observed {
    service: Service,
    client: Option<ObservedClient>,
    alt_svc: Option<Arc<AltSvc>>,
}

impl Observed {
    /// Returns the service of a client whose responses tell that HTTP/3 is served, if `alt_svc`
    /// does.
    pub(crate) fn new(
        service: Service,
        client: Option<ObservedClient>,
        alt_svc: Option<Arc<AltSvc>>,
    ) -> Observed {
        Observed {
            service,
            client,
            alt_svc,
        }
    }
}

impl hyper::service::Service<Request<ClientBody>> for Observed {
    type Response = Response<ObservedBody<Outgoing>>;
    type Error = Infallible;
    type Future = ObservedFuture<Responding>;

    fn call(&self, request: Request<ClientBody>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let is_http10 = parts.version == Version::HTTP_10;
        match self.service.normalise(parts) {
            Ok(mut request) => {
                let exchange = self
                    .client
                    .as_ref()
                    .map(|client| client.begin(&mut request));
                ObservedFuture {
                    exchange,
                    future: self.service.respond(request, body),
                    is_http10,
                    alt_svc: self.alt_svc.clone(),
                }
            }
            Err(refused) => {
                let exchange = self
                    .client
                    .as_ref()
                    .map(|client| client.begin_refused(&refused.parts));
                if !body.is_end_stream() {
                    linger(body);
                }
                ObservedFuture {
                    exchange,
                    future: Responding::refusal(refused.reason),
                    is_http10,
                    alt_svc: self.alt_svc.clone(),
                }
            }
        }
    }
}

pub(crate) struct ObservedFuture<F> {
    /// Held here until the body holds it. Dropped here, the client has left.
    exchange: Option<Box<ObservedExchange>>,
    future: F,
    is_http10: bool,
    alt_svc: Option<Arc<AltSvc>>,
}

/// Completes a head where hyper would write something wrong: `<none>` for a status without words;
/// and to HTTP/1.0 that the connection stays, though its end is the end of the body.
fn complete_head<B: Body>(response: &mut Response<B>, is_http10: bool) {
    if response.status().canonical_reason().is_none()
        && response.extensions().get::<ReasonPhrase>().is_none()
    {
        response
            .extensions_mut()
            .insert(ReasonPhrase::from_static(b""));
    }
    if is_http10
        && !response.headers().contains_key(CONTENT_LENGTH)
        && response.body().size_hint().exact().is_none()
    {
        *response.version_mut() = Version::HTTP_10;
    }
}

impl<F: Future<Output = Result<Response<B>, E>> + Unpin, B: Body, E> Future for ObservedFuture<F> {
    type Output = Result<Response<ObservedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let response = ready!(Pin::new(&mut this.future).poll(cx));
        let mut exchange = this.exchange.take();
        Poll::Ready(response.map(|mut response| {
            complete_head(&mut response, this.is_http10);
            if let Some(value) = this.alt_svc.as_ref().and_then(|alt_svc| alt_svc.value()) {
                // One of the origin, or of a rule, stays.
                response
                    .headers_mut()
                    .entry(ALT_SVC)
                    .or_insert_with(|| value.clone());
            }
            if let Some(exchange) = &mut exchange {
                exchange.answered(&response);
                if response.body().is_end_stream() {
                    exchange.complete();
                }
            }
            response.map(|body| ObservedBody { body, exchange })
        }))
    }
}

pub(crate) struct ObservedBody<B> {
    body: B,
    /// `None` after the last piece, which has it then.
    exchange: Option<Box<ObservedExchange>>,
}

impl<B: Body + Unpin> Body for ObservedBody<B> {
    type Data = ObservedData<B::Data>;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        let mut last = None;
        if let Some(exchange) = &mut this.exchange {
            match &frame {
                Some(Ok(frame)) => {
                    exchange.sent(frame.data_ref().map_or(0, Buf::remaining));
                    // hyper does not ask for the end of a body whose end it knows.
                    if frame.is_trailers() {
                        exchange.complete();
                    } else if this.body.is_end_stream() {
                        last = this.exchange.take();
                    }
                }
                None => exchange.complete(),
                Some(Err(_)) => {}
            }
        }
        let piece = |data| ObservedData {
            data,
            exchange: last,
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Data of a body. The last piece ends the exchange when it has left: a stored body is one piece.
pub(crate) struct ObservedData<D: Buf> {
    data: D,
    exchange: Option<Box<ObservedExchange>>,
}

impl<D: Buf> Buf for ObservedData<D> {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [std::io::IoSlice<'a>]) -> usize {
        self.data.chunks_vectored(slices)
    }

    fn advance(&mut self, bytes: usize) {
        self.data.advance(bytes);
    }
}

impl<D: FirstBytes> FirstBytes for ObservedData<D> {
    fn first_bytes(&self, most: usize) -> Bytes {
        self.data.first_bytes(most)
    }
}

impl<D: Buf> Drop for ObservedData<D> {
    fn drop(&mut self) {
        if let Some(exchange) = &mut self.exchange {
            match self.data.remaining() {
                0 => exchange.complete(),
                left => exchange.unsent(left),
            }
        }
    }
}
