//! One request of an HTTP/2 connection: from its head to the end of its response.
//!
//! It differs from the server of hyper in three ways: it sends informational responses, it resets
//! the stream of a tunnel that breaks off, and it takes a request whose client resets it for
//! broken off, whatever the client's reason.

use crate::exchange::tunnel::{OpeningTunnel, TunnelStream};
use crate::message::client_body::{ClientBody, StreamBody};
use crate::message::informational::StreamInterims;
use crate::origin::origin_http2::http2_error;
use ::http::header::{
    CONNECTION, CONTENT_LENGTH, DATE, HeaderName, TE, TRANSFER_ENCODING, UPGRADE,
};
use ::http::{HeaderMap, HeaderValue, Method, Request, Response};
use bytes::{Buf, Bytes};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use hyper::body::Body;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// What a stream sends: data of a body, or bytes of a tunnel.
pub(crate) enum StreamData<D> {
    Body(D),
    Bytes(Bytes),
}

impl<D: Buf> Buf for StreamData<D> {
    fn remaining(&self) -> usize {
        match self {
            StreamData::Body(data) => data.remaining(),
            StreamData::Bytes(bytes) => bytes.remaining(),
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            StreamData::Body(data) => data.chunk(),
            StreamData::Bytes(bytes) => bytes.chunk(),
        }
    }

    fn advance(&mut self, bytes: usize) {
        match self {
            StreamData::Body(data) => data.advance(bytes),
            StreamData::Bytes(own) => own.advance(bytes),
        }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [io::IoSlice<'a>]) -> usize {
        match self {
            StreamData::Body(data) => data.chunks_vectored(slices),
            StreamData::Bytes(bytes) => bytes.chunks_vectored(slices),
        }
    }
}

/// The stream of a request, until it has its response.
pub(crate) struct Exchange<D: Buf> {
    reply: SendResponse<StreamData<D>>,
    interims: Arc<StreamInterims>,
    /// Present for CONNECT.
    tunnel: Option<(RecvStream, oneshot::Sender<TunnelStream>)>,
}

impl<D: Buf + Send + 'static> Exchange<D> {
    /// Begins with the head of a request. Returns the request for the service.
    pub(crate) fn begin(
        request: Request<RecvStream>,
        reply: SendResponse<StreamData<D>>,
    ) -> (Exchange<D>, Request<ClientBody>) {
        let interims = Arc::default();
        let (mut parts, stream) = request.into_parts();
        if parts.method != Method::CONNECT {
            let body = StreamBody::new(stream, &parts.headers, &interims);
            let exchange = Exchange {
                reply,
                interims,
                tunnel: None,
            };
            return (
                exchange,
                Request::from_parts(parts, ClientBody::Http2(body)),
            );
        }
        let (opened, opening) = oneshot::channel();
        parts.extensions.insert(Arc::new(OpeningTunnel(opening)));
        let body = StreamBody::empty(&interims);
        let exchange = Exchange {
            reply,
            interims,
            tunnel: Some((stream, opened)),
        };
        (
            exchange,
            Request::from_parts(parts, ClientBody::Http2(body)),
        )
    }

    /// Sends the response, or resets the stream.
    pub(crate) async fn run<F, B, E>(mut self, response: F)
    where
        F: Future<Output = Result<Response<B>, E>> + Unpin,
        B: Body<Data = D, Error: Error + Send + Sync + 'static> + Unpin,
        E: Error + Send + Sync + 'static,
    {
        match self.respond(response).await {
            Ok(()) => {}
            Err(error) => tracing::debug!(error = &*error, "a stream ended"),
        }
    }

    async fn respond<F, B, E>(
        &mut self,
        mut response: F,
    ) -> Result<(), Box<dyn Error + Send + Sync>>
    where
        F: Future<Output = Result<Response<B>, E>> + Unpin,
        B: Body<Data = D, Error: Error + Send + Sync + 'static> + Unpin,
        E: Error + Send + Sync + 'static,
    {
        let response = poll_fn(|cx| match Pin::new(&mut response).poll(cx) {
            Poll::Ready(Ok(response)) => Poll::Ready(Ok(response)),
            Poll::Ready(Err(error)) => {
                self.reply.send_reset(reason(&error));
                Poll::Ready(Err(error.into()))
            }
            Poll::Pending => self.poll_while_waiting(cx).map(Err),
        });
        let (mut head, body) = response.await?.into_parts();
        for interim in self.interims.end() {
            self.reply.send_informational(interim)?;
        }
        complete(&mut head.headers);
        if let Some((stream, opened)) = self.tunnel.take().filter(|_| head.status.is_success()) {
            head.headers.remove(CONTENT_LENGTH);
            let sender = self
                .reply
                .send_response(Response::from_parts(head, ()), false)?;
            // Nobody may be there any more; then the stream is reset.
            let _ = opened.send(TunnelStream {
                io: Box::new(StreamIo {
                    sender,
                    stream,
                    read: Bytes::new(),
                }),
            });
            return Ok(());
        }
        let is_end = body.is_end_stream();
        if !is_end
            && let Some(length) = body.size_hint().exact()
            && !head.headers.contains_key(CONTENT_LENGTH)
        {
            head.headers.insert(CONTENT_LENGTH, length.into());
        }
        let sender = match self
            .reply
            .send_response(Response::from_parts(head, ()), is_end)
        {
            Ok(sender) => sender,
            Err(error) => {
                self.reply.send_reset(Reason::INTERNAL_ERROR);
                return Err(error.into());
            }
        };
        if is_end {
            Ok(())
        } else {
            send_body(body, sender).await
        }
    }

    /// Sends what comes ahead of the response. Ready if the client resets the stream.
    fn poll_while_waiting(&mut self, cx: &mut Context<'_>) -> Poll<Box<dyn Error + Send + Sync>> {
        for interim in self.interims.take(cx) {
            if let Err(error) = self.reply.send_informational(interim) {
                return Poll::Ready(error.into());
            }
        }
        self.reply.poll_reset(cx).map(|reset| match reset {
            Ok(reason) => h2::Error::from(reason).into(),
            Err(error) => error.into(),
        })
    }
}

/// Sends a body as the client's windows allow it.
async fn send_body<B, D>(
    mut body: B,
    mut sender: SendStream<StreamData<D>>,
) -> Result<(), Box<dyn Error + Send + Sync>>
where
    B: Body<Data = D, Error: Error + Send + Sync + 'static> + Unpin,
    D: Buf,
{
    loop {
        let frame = poll_fn(|cx| {
            // The client may reset the stream while the body has nothing.
            if let Poll::Ready(reset) = sender.poll_reset(cx) {
                return Poll::Ready(Err(reset.map_or_else(|error| error, h2::Error::from)));
            }
            Pin::new(&mut body).poll_frame(cx).map(Ok)
        });
        match frame.await? {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    let is_end = body.is_end_stream();
                    if data.has_remaining() {
                        capacity(&mut sender).await?;
                    }
                    sender.send_data(StreamData::Body(data), is_end)?;
                    if is_end {
                        return Ok(());
                    }
                }
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        return Ok(sender.send_trailers(trailers)?);
                    }
                }
            },
            Some(Err(error)) => {
                sender.send_reset(reason(&error));
                return Err(error.into());
            }
            None => return Ok(sender.send_data(StreamData::Bytes(Bytes::new()), true)?),
        }
    }
}

/// Waits for a place in the windows of the stream and the connection. h2 asks for the size of the
/// data when it gets it: a claim for more here would keep the window from other streams.
async fn capacity<D: Buf>(sender: &mut SendStream<StreamData<D>>) -> Result<(), h2::Error> {
    poll_fn(|cx| poll_capacity(sender, 1, cx)).await.map(drop)
}

/// Waits for a place in the windows. Returns its bytes.
fn poll_capacity<D: Buf>(
    sender: &mut SendStream<StreamData<D>>,
    bytes: usize,
    cx: &mut Context<'_>,
) -> Poll<Result<usize, h2::Error>> {
    sender.reserve_capacity(bytes);
    loop {
        match sender.capacity() {
            0 => match ready!(sender.poll_capacity(cx)) {
                Some(granted) => granted.map(drop)?,
                None => return Poll::Ready(Err(Reason::STREAM_CLOSED.into())),
            },
            granted => return Poll::Ready(Ok(granted)),
        }
    }
}

/// Returns the reason of a stream whose response failed.
fn reason(error: &(dyn Error + 'static)) -> Reason {
    http2_error(error)
        .and_then(h2::Error::reason)
        .unwrap_or(Reason::INTERNAL_ERROR)
}

/// Removes what HTTP/2 and 3 forbid (RFC 9113 §8.2.2, RFC 9114 §4.2), and adds the date if it is
/// missing.
pub(crate) fn complete(headers: &mut HeaderMap) {
    const OF_CONNECTION: [HeaderName; 6] = [
        CONNECTION,
        TE,
        TRANSFER_ENCODING,
        UPGRADE,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
    ];
    for name in &OF_CONNECTION {
        headers.remove(name);
    }
    if !headers.contains_key(DATE)
        && let Ok(date) = HeaderValue::try_from(httpdate::fmt_http_date(SystemTime::now()))
    {
        headers.insert(DATE, date);
    }
}

/// The bytes of a stream. Dropped before both directions have ended, it resets the stream.
struct StreamIo<D: Buf> {
    sender: SendStream<StreamData<D>>,
    stream: RecvStream,
    /// Bytes that have arrived.
    read: Bytes,
}

impl<D: Buf> AsyncRead for StreamIo<D> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.read.is_empty() {
            match ready!(this.stream.poll_data(cx)) {
                Some(data) => this.read = data.map_err(of_stream)?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let bytes = this.read.len().min(buffer.remaining());
        buffer.put_slice(&this.read.split_to(bytes));
        this.stream
            .flow_control()
            .release_capacity(bytes)
            .map_err(of_stream)?;
        Poll::Ready(Ok(()))
    }
}

impl<D: Buf> AsyncWrite for StreamIo<D> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let this = self.get_mut();
        let granted =
            ready!(poll_capacity(&mut this.sender, bytes.len(), cx)).map_err(of_stream)?;
        let sent = granted.min(bytes.len());
        let data = Bytes::copy_from_slice(&bytes[..sent]);
        this.sender
            .send_data(StreamData::Bytes(data), false)
            .map_err(of_stream)?;
        Poll::Ready(Ok(sent))
    }

    /// The connection's task sends what h2 has.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let end = StreamData::Bytes(Bytes::new());
        Poll::Ready(
            self.get_mut()
                .sender
                .send_data(end, true)
                .map_err(of_stream),
        )
    }
}

fn of_stream(error: h2::Error) -> io::Error {
    if error.is_io() {
        return error
            .into_io()
            .unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
    }
    io::Error::other(error)
}
