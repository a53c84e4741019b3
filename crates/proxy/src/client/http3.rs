//! One HTTP/3 connection: its requests with the deadlines, limits and records of the other
//! versions. `larder-http3` has the protocol.

use crate::base::drain::{Phase, PhaseWatch};
use crate::base::http_limits::HttpLimits;
use crate::base::limits;
use crate::base::slow_client::MemoryPressure;
use crate::base::timeouts::Timeouts;
use crate::client::client_connections::Activity;
use crate::client::http2::{Over, drained, idle, run, said};
use crate::client::http2_stream::complete;
use crate::client::partial_heads::{PartialHead, PartialHeads};
use crate::client::stream_activity::{Streams, Watched};
use crate::message::client_body::{ClientBody, QuicBody};
use crate::message::first_bytes::FirstBytes;
use crate::message::informational::StreamInterims;
use crate::report::observer::ObservedClient;
use ::http::header::CONTENT_LENGTH;
use ::http::{Request, Response};
use bytes::Buf;
use hyper::body::{Body, Frame};
use hyper::service::Service;
use larder_http3::{Connection, DataFrame, Ended, NoRequest, Reply, RequestStream};
use std::error::Error;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;

/// What the requests of a connection need beside its service.
pub(crate) struct Limits<'a> {
    pub(crate) timeouts: Timeouts,
    pub(crate) most: HttpLimits,
    pub(crate) memory_pressure: &'a MemoryPressure,
    pub(crate) heads: &'a Arc<PartialHeads>,
    pub(crate) client: Option<IpAddr>,
    /// Gets the records of requests without a service.
    pub(crate) observed: Option<ObservedClient>,
}

/// Serves many requests at once, bounded in number and in memory, until the client leaves, is idle
/// for too long, does not read a response, or the server stops.
pub(crate) async fn http3<S, B>(
    mut connection: Connection,
    service: S,
    limits: Limits<'_>,
    activity: &Arc<Activity>,
    mut phase: PhaseWatch,
) where
    S: Service<Request<ClientBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + Unpin + 'static,
    S::Error: Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: FirstBytes + Send,
    B::Error: Error + Send + Sync + 'static,
{
    let Limits {
        timeouts,
        most,
        memory_pressure,
        ..
    } = limits;
    let streams = Streams::new(most.keepalive_requests(), activity);
    let requests = Arc::new(Requests {
        service: Mutex::new(Watched::new(service, &streams)),
        head_time: timeouts.client_header,
        heads: Arc::clone(limits.heads),
        client: limits.client,
        observed: limits.observed,
    });
    let mut idle = pin!(idle(&streams, &timeouts, memory_pressure));
    let over = tokio::select! {
        ended = serve(&mut connection, &requests) => return said(Err::<(), _>(ended)),
        over = idle.as_mut() => over,
        _ = phase.reached(Phase::Draining) => Over::Stopped,
        () = streams.used_up() => Over::UsedUp,
    };
    let time = match over {
        Over::Stalled => return tracing::debug!("a stream's client takes nothing, or too little"),
        Over::Quiet => limits::GOODBYE,
        Over::Stopped => timeouts.shutdown,
        Over::UsedUp => limits::TIMEOUT_LONGEST,
    };
    let pause = limits::GOAWAY_PAUSE.min(time);
    connection.announce_end();
    if let Ok(ended) = timeout(pause, serve(&mut connection, &requests)).await {
        return said(Err::<(), _>(ended));
    }
    connection.end();
    tokio::select! {
        ended = timeout(time - pause, serve_last(&mut connection, &requests)) => {
            ended.into_iter().flatten().for_each(|ended| said(Err::<(), _>(ended)));
        }
        _ = idle, if matches!(over, Over::UsedUp) => {}
        () = drained(&mut phase, timeouts.shutdown), if matches!(over, Over::UsedUp) => {}
    }
}

/// Serves the requests that come, until the connection ends.
async fn serve<S, B>(connection: &mut Connection, requests: &Arc<Requests<S>>) -> Ended
where
    S: Service<Request<ClientBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + Unpin + 'static,
    S::Error: Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: FirstBytes + Send,
    B::Error: Error + Send + Sync + 'static,
{
    loop {
        match connection.accept().await {
            Ok(stream) => run(Arc::clone(requests).exchange(stream)),
            Err(ended) => return ended,
        }
    }
}

/// Serves the last requests, which have begun, until their responses have arrived, and rejects
/// others. The client then has a moment to close the connection.
async fn serve_last<S, B>(connection: &mut Connection, requests: &Arc<Requests<S>>) -> Option<Ended>
where
    S: Service<Request<ClientBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + Unpin + 'static,
    S::Error: Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: FirstBytes + Send,
    B::Error: Error + Send + Sync + 'static,
{
    let last = connection.last_requests();
    let mut left = pin!(async {
        last.ended().await;
        tokio::time::sleep(limits::LAST_DATAGRAMS).await;
    });
    tokio::select! {
        ended = serve(connection, requests) => Some(ended),
        () = left.as_mut() => None,
    }
}

/// The requests of one connection.
struct Requests<S> {
    /// One task at a time calls it.
    service: Mutex<S>,
    head_time: Duration,
    heads: Arc<PartialHeads>,
    client: Option<IpAddr>,
    observed: Option<ObservedClient>,
}

impl<S, B> Requests<S>
where
    S: Service<Request<ClientBody>, Response = Response<B>>,
    S::Future: Send + Unpin + 'static,
    S::Error: Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: FirstBytes + Send,
    B::Error: Error + Send + Sync + 'static,
{
    /// Serves one request, from its head to the end of its response.
    async fn exchange(self: Arc<Self>, stream: RequestStream) {
        let mut head = PartialHead::new(&self.heads, self.client);
        let read = stream.request(self.head_time, |bytes| head.add(bytes));
        let (request, reply) = match read.await {
            Ok(read) => read,
            Err(NoRequest::TooLarge) => {
                if let Some(client) = &self.observed {
                    client.malformed(431, "the head is too large");
                }
                return;
            }
            Err(reason) => return tracing::debug!(?reason, "a stream has no request"),
        };
        drop(head);
        let interims = Arc::default();
        let request = request.map(|body| ClientBody::Http3(QuicBody::new(body, &interims)));
        let response = {
            let service = self.service.lock().unwrap_or_else(PoisonError::into_inner);
            service.call(request)
        };
        drop(self);
        if let Err(error) = respond(response, reply, &interims).await {
            tracing::debug!(error = &*error, "a stream ended");
        }
    }
}

/// The next thing to send before a response.
enum Event<T> {
    Interims(Vec<Response<()>>),
    Ready(T),
    GivenUp,
}

/// Sends the response to a request. If it fails, the stream is reset.
async fn respond<F, B, E>(
    mut response: F,
    mut reply: Reply,
    interims: &StreamInterims,
) -> Result<(), Box<dyn Error + Send + Sync>>
where
    F: Future<Output = Result<Response<B>, E>> + Unpin,
    B: Body<Data: FirstBytes, Error: Error + Send + Sync + 'static> + Unpin,
    E: Error + Send + Sync + 'static,
{
    let mut given_up = pin!(reply.given_up());
    let response = loop {
        let event = poll_fn(|cx| {
            if let Poll::Ready(response) = Pin::new(&mut response).poll(cx) {
                return Poll::Ready(Event::Ready(response));
            }
            let waiting = interims.take(cx);
            if !waiting.is_empty() {
                return Poll::Ready(Event::Interims(waiting));
            }
            given_up.as_mut().poll(cx).map(|()| Event::GivenUp)
        });
        match event.await {
            Event::Ready(response) => break response?,
            Event::Interims(waiting) => {
                for interim in waiting {
                    reply.send_informational(&interim).await?;
                }
            }
            Event::GivenUp => {
                reply.give_up();
                return Ok(());
            }
        }
    };
    for interim in interims.end() {
        reply.send_informational(&interim).await?;
    }
    let (mut head, mut body) = response.into_parts();
    complete(&mut head.headers);
    let is_end = body.is_end_stream();
    if !is_end
        && let Some(length) = body.size_hint().exact()
        && !head.headers.contains_key(CONTENT_LENGTH)
    {
        head.headers.insert(CONTENT_LENGTH, length.into());
    }
    let head = Response::from_parts(head, ());
    if is_end {
        reply.send_head(&head, None).await?;
        reply.finish().await;
        return Ok(());
    }
    // A stored body is there at once: head and body leave together.
    let first = poll_fn(|cx| match Pin::new(&mut body).poll_frame(cx) {
        Poll::Ready(frame) => Poll::Ready(Some(frame)),
        Poll::Pending => Poll::Ready(None),
    });
    let mut first = first.await;
    match &mut first {
        Some(Some(Ok(frame))) if frame.data_ref().is_some_and(Buf::has_remaining) => {
            if let Some(data) = frame.data_mut() {
                send_data(&mut reply, Some(&head), data).await?;
            }
        }
        _ => reply.send_head(&head, None).await?,
    }
    send_body(first, body, reply, given_up).await
}

/// The next frame of a body, if there is one more.
type NextFrame<B> = Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>;

/// Sends the rest of a body. `frame` is its first frame, whose data has left, if it is there.
async fn send_body<B>(
    mut frame: Option<NextFrame<B>>,
    mut body: B,
    mut reply: Reply,
    mut given_up: Pin<&mut impl Future<Output = ()>>,
) -> Result<(), Box<dyn Error + Send + Sync>>
where
    B: Body<Data: FirstBytes, Error: Error + Send + Sync + 'static> + Unpin,
{
    loop {
        let next = match frame.take() {
            Some(frame) => frame,
            None => {
                let next = poll_fn(|cx: &mut Context<'_>| {
                    if let Poll::Ready(frame) = Pin::new(&mut body).poll_frame(cx) {
                        return Poll::Ready(Event::Ready(frame));
                    }
                    given_up.as_mut().poll(cx).map(|()| Event::GivenUp)
                });
                match next.await {
                    Event::Ready(frame) => frame,
                    Event::Interims(_) | Event::GivenUp => {
                        reply.give_up();
                        return Ok(());
                    }
                }
            }
        };
        match next.transpose()?.map(Frame::into_data) {
            Some(Ok(mut data)) => {
                send_data(&mut reply, None, &mut data).await?;
                drop(data);
                if body.is_end_stream() {
                    break;
                }
            }
            Some(Err(frame)) => {
                if let Ok(trailers) = frame.into_trailers() {
                    reply.send_trailers(&trailers).await?;
                    break;
                }
            }
            None => break,
        }
    }
    reply.finish().await;
    Ok(())
}

/// Sends data, behind the head if it has not left. It is advanced as the connection takes it.
async fn send_data(
    reply: &mut Reply,
    head: Option<&Response<()>>,
    data: &mut impl FirstBytes,
) -> Result<(), larder_http3::SendError> {
    if !data.has_remaining() {
        return Ok(());
    }
    let first = data.first_bytes(limits::BUFFER_BYTES);
    let (bytes, length) = (first.len(), data.remaining() as u64);
    let frame = DataFrame { first, length };
    match head {
        Some(head) => reply.send_head(head, Some(frame)).await?,
        None => reply.send_data(frame).await?,
    }
    data.advance(bytes);
    while data.has_remaining() {
        let next = data.first_bytes(limits::BUFFER_BYTES);
        let bytes = next.len();
        reply.send_rest(next).await?;
        data.advance(bytes);
    }
    Ok(())
}
