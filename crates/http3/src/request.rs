//! One request stream: the head of the request, its body, and the response.

use crate::code::{Code, Violation};
use crate::frames::{Frame, RequestFrames};
use crate::shared::{OpenRequest, Shared};
use crate::{head, limits, qpack, varint};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::{Body, SizeHint};
use quinn::{ReadError, RecvStream, SendStream, WriteError};
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// A stream before its head.
pub struct RequestStream {
    recv: Receiver,
    reply: Reply,
}

/// The reason for which a stream has no request for the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRequest {
    /// The head is larger than the limit. The client has got 431.
    TooLarge,
    /// The head did not come in time, or found no room. The stream is reset.
    TooLate,
    /// The client violates the protocol. Stream or connection has ended.
    Malformed,
    /// The client has given the request up, or has left.
    GivenUp,
}

impl RequestStream {
    pub(crate) fn new(send: SendStream, recv: RecvStream, open: OpenRequest) -> RequestStream {
        let shared = Arc::clone(&open.0);
        RequestStream {
            recv: Receiver {
                frames: RequestFrames::new(shared.settings.section_bytes),
                stream: recv,
                input: Bytes::new(),
                is_at_end: false,
                shared,
            },
            reply: Reply {
                send: Some(send),
                open,
            },
        }
    }

    /// Reads the head of the request, within this time. `has_room` gets the bytes of a head that
    /// comes in pieces, and returns false if there is no room for them.
    ///
    /// # Errors
    /// There is no request.
    pub async fn request(
        mut self,
        within: Duration,
        has_room: impl FnMut(usize) -> bool,
    ) -> Result<(Request<RequestBody>, Reply), NoRequest> {
        let deadline = Instant::now() + within;
        let section = match timeout_at(deadline, self.recv.head(has_room)).await {
            Ok(Ok(section)) => section,
            Ok(Err(failure)) => return Err(self.fail(failure).await),
            Err(_late) => return Err(self.fail(Failure::NoRoom).await),
        };
        let most = self.recv.shared.settings.section_bytes;
        let parts = match self.recv.check(head::read(&section, most)) {
            Ok(parts) => parts,
            Err(failure) => return Err(self.fail(failure).await),
        };
        let length = head::content_length(&parts.headers);
        // The end of the stream may come after the head, in a packet of its own. A request that is
        // taken for one with a body is not answered from a cache.
        if length.is_none() && seldom_has_body(&parts) {
            let first = timeout_at(deadline, poll_fn(|cx| self.recv.poll_first(cx)));
            if let Ok(Err(failure)) = first.await {
                return Err(self.fail(failure).await);
            }
        } else {
            let first = poll_fn(|cx| Poll::Ready(self.recv.poll_first(cx)));
            if let Poll::Ready(Err(failure)) = first.await {
                return Err(self.fail(failure).await);
            }
        }
        let is_empty = self.recv.is_at_end && self.recv.input.is_empty();
        if is_empty && length.is_some_and(|length| length > 0) {
            let violation = Violation::Stream(Code::MESSAGE_ERROR);
            return Err(self.fail(Failure::Violation(violation)).await);
        }
        let body = RequestBody {
            left: if is_empty { Some(0) } else { length },
            receiver: (!is_empty).then(|| Box::new(self.recv)),
        };
        Ok((Request::from_parts(parts, body), self.reply))
    }

    /// Ends a stream without a request.
    async fn fail(mut self, failure: Failure) -> NoRequest {
        self.recv.stop(failure.code());
        match failure {
            Failure::Violation(Violation::HeadTooLarge) => {
                let mut response = Response::new(());
                *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                let sent = self.reply.send_head(&response, None).await;
                if sent.is_ok() {
                    self.reply.finish().await;
                }
                NoRequest::TooLarge
            }
            Failure::Violation(_) => {
                self.recv.shared.give_up();
                self.reply.reset(failure.code());
                NoRequest::Malformed
            }
            Failure::NoRoom => {
                self.reply.reset(failure.code());
                NoRequest::TooLate
            }
            Failure::GivenUp => NoRequest::GivenUp,
        }
    }
}

/// Returns true for a request whose client may send the end of the stream by itself.
fn seldom_has_body(parts: &Parts) -> bool {
    matches!(
        parts.method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::DELETE | Method::TRACE
    )
}

/// The reason for which a stream cannot be read on.
#[derive(Clone, Copy, Debug)]
enum Failure {
    Violation(Violation),
    NoRoom,
    GivenUp,
}

impl Failure {
    /// Returns the code with which the stream ends.
    fn code(self) -> Code {
        match self {
            // The response is complete without the rest of the request (RFC 9114 §4.1).
            Failure::Violation(Violation::HeadTooLarge) => Code::NO_ERROR,
            Failure::Violation(Violation::Stream(code) | Violation::Connection(code)) => code,
            Failure::NoRoom => Code::REQUEST_REJECTED,
            Failure::GivenUp => Code::REQUEST_CANCELLED,
        }
    }
}

/// The client's half of a stream.
struct Receiver {
    stream: RecvStream,
    frames: RequestFrames,
    /// Bytes that have come and are not read.
    input: Bytes,
    is_at_end: bool,
    shared: Arc<Shared>,
}

impl Receiver {
    /// Reads more bytes, or the end of the stream.
    fn poll_more<const BYTES: usize>(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let mut space = [0; BYTES];
        match ready!(self.stream.poll_read(cx, &mut space)) {
            Ok(0) => {
                self.is_at_end = true;
                Poll::Ready(self.check(self.frames.end()))
            }
            Ok(bytes) => {
                self.input = Bytes::copy_from_slice(&space[..bytes]);
                Poll::Ready(Ok(()))
            }
            Err(ReadError::Reset(_)) => {
                self.is_at_end = true;
                self.shared.give_up();
                Poll::Ready(Err(Failure::GivenUp))
            }
            Err(_) => {
                self.is_at_end = true;
                Poll::Ready(Err(Failure::GivenUp))
            }
        }
    }

    /// Ends the connection if a violation concerns it.
    fn check<T>(&self, read: Result<T, Violation>) -> Result<T, Failure> {
        if let Err(Violation::Connection(code)) = read {
            self.shared.fail(code);
        }
        read.map_err(Failure::Violation)
    }

    /// Reads the field section of the head.
    async fn head(&mut self, mut has_room: impl FnMut(usize) -> bool) -> Result<Bytes, Failure> {
        let mut counted = 0;
        loop {
            poll_fn(|cx| self.poll_more::<{ limits::HEAD_READ_BYTES }>(cx)).await?;
            let read = self.frames.read(&mut self.input);
            match self.check(read)? {
                Some(Frame::Head(section)) => return Ok(section),
                // It comes first, or the stream is malformed.
                Some(_) => return Err(Failure::GivenUp),
                None if self.is_at_end => return Err(Failure::GivenUp),
                None => {
                    let stored = self.frames.stored();
                    let more = stored - counted;
                    counted = stored;
                    if more > 0 && !has_room(more) {
                        return Err(Failure::NoRoom);
                    }
                }
            }
        }
    }

    /// Waits for the first bytes of the body, or the end of the stream.
    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if !self.input.is_empty() || self.is_at_end {
            return Poll::Ready(Ok(()));
        }
        self.poll_more::<{ limits::HEAD_READ_BYTES }>(cx)
    }

    /// Asks the client to send no more of the stream.
    fn stop(&mut self, code: Code) {
        if !self.is_at_end {
            self.is_at_end = true;
            let _ = self.stream.stop(code.into());
        }
    }
}

/// A receiver that is dropped before its end has nothing against the rest: without a code, quinn
/// would send 0, which is no code of HTTP/3, and libcurl takes it for an error.
impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop(Code::NO_ERROR);
    }
}

/// The body of a request.
pub struct RequestBody {
    /// `None` if the stream ended with the head.
    receiver: Option<Box<Receiver>>,
    /// Bytes that are still to come, if `Content-Length` says it.
    left: Option<u64>,
}

/// A body that broke off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The client violates the protocol.
    Malformed,
    /// The client has given the request up, or has left.
    GivenUp,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BodyError::Malformed => "the body is malformed",
            BodyError::GivenUp => "the client has given the request up",
        })
    }
}

impl std::error::Error for BodyError {}

impl RequestBody {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<http_body::Frame<Bytes>>, Failure>> {
        let Some(receiver) = &mut self.receiver else {
            return Poll::Ready(Ok(None));
        };
        loop {
            let read = receiver.frames.read(&mut receiver.input);
            match receiver.check(read)? {
                Some(Frame::Data(data)) => {
                    if let Some(left) = &mut self.left {
                        *left = left.checked_sub(data.len() as u64).ok_or(MISCOUNTED)?;
                    }
                    return Poll::Ready(Ok(Some(http_body::Frame::data(data))));
                }
                Some(Frame::Head(section) | Frame::Trailers(section)) => {
                    let most = receiver.shared.settings.section_bytes;
                    let trailers = receiver.check(head::read_trailers(&section, most))?;
                    if self.left.is_some_and(|left| left > 0) {
                        return Poll::Ready(Err(MISCOUNTED));
                    }
                    return Poll::Ready(Ok(Some(http_body::Frame::trailers(trailers))));
                }
                None if receiver.is_at_end => {
                    if self.left.is_some_and(|left| left > 0) {
                        return Poll::Ready(Err(MISCOUNTED));
                    }
                    return Poll::Ready(Ok(None));
                }
                None => ready!(receiver.poll_more::<{ limits::BODY_READ_BYTES }>(cx))?,
            }
        }
    }
}

/// A body is shorter or longer than its length (RFC 9114 §4.1.2).
const MISCOUNTED: Failure = Failure::Violation(Violation::Stream(Code::MESSAGE_ERROR));

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let failure = match ready!(this.poll(cx)) {
            Ok(frame) => return Poll::Ready(frame.map(Ok)),
            Err(failure) => failure,
        };
        if let Some(mut receiver) = this.receiver.take() {
            receiver.stop(failure.code());
            if matches!(failure, Failure::Violation(_)) {
                receiver.shared.spoil();
            }
        }
        Poll::Ready(Some(Err(match failure {
            Failure::Violation(_) => BodyError::Malformed,
            Failure::NoRoom | Failure::GivenUp => BodyError::GivenUp,
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.receiver
            .as_ref()
            .is_none_or(|receiver| receiver.is_at_end && receiver.input.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// The begin of a frame of data: its first bytes, and the length of all of it.
pub struct DataFrame {
    /// At least one byte.
    pub first: Bytes,
    /// The length of the whole frame. [`Reply::send_rest`] sends what is behind the first bytes.
    pub length: u64,
}

/// The server's half of a stream. Dropped before [`Reply::finish`], it resets the stream.
pub struct Reply {
    /// `None` after the end.
    send: Option<SendStream>,
    open: OpenRequest,
}

/// A response that cannot be sent on: the client has given it up, or has left.
#[derive(Debug)]
pub struct SendError(Option<WriteError>);

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(error) => error.fmt(f),
            None => f.write_str("the stream has ended"),
        }
    }
}

impl std::error::Error for SendError {}

impl Reply {
    /// Waits until the client gives the request up, or leaves.
    pub fn given_up(&self) -> impl Future<Output = ()> + Send + 'static {
        let stopped = self.send.as_ref().map(SendStream::stopped);
        async move {
            match stopped {
                Some(stopped) => drop(stopped.await),
                None => std::future::pending().await,
            }
        }
    }

    /// Sends an informational response.
    ///
    /// # Errors
    /// It cannot be sent.
    pub async fn send_informational(&mut self, head: &Response<()>) -> Result<(), SendError> {
        self.send_head(head, None).await
    }

    /// Sends the head of the response, and data if there is some: both leave together.
    ///
    /// # Errors
    /// It cannot be sent.
    pub async fn send_head(
        &mut self,
        head: &Response<()>,
        data: Option<DataFrame>,
    ) -> Result<(), SendError> {
        let mut start = section_frame();
        qpack::encode_head(head.status(), head.headers(), &mut start);
        end_section_frame(&mut start);
        match data {
            Some(data) => self.send_frame(start, data).await,
            None => self.write(&mut [Bytes::from(start)]).await,
        }
    }

    /// Begins a frame of data.
    ///
    /// # Errors
    /// It cannot be sent.
    pub async fn send_data(&mut self, data: DataFrame) -> Result<(), SendError> {
        self.send_frame(Vec::with_capacity(9), data).await
    }

    /// Sends more bytes of the frame that has begun.
    ///
    /// # Errors
    /// They cannot be sent.
    pub async fn send_rest(&mut self, bytes: Bytes) -> Result<(), SendError> {
        self.write(&mut [bytes]).await
    }

    async fn send_frame(&mut self, mut start: Vec<u8>, data: DataFrame) -> Result<(), SendError> {
        const DATA: u64 = 0x0;
        varint::encode(DATA, &mut start);
        varint::encode(data.length, &mut start);
        self.write(&mut [Bytes::from(start), data.first]).await
    }

    /// Sends the trailers. [`Reply::finish`] has to follow.
    ///
    /// # Errors
    /// They cannot be sent.
    pub async fn send_trailers(&mut self, fields: &HeaderMap) -> Result<(), SendError> {
        let mut start = section_frame();
        qpack::encode_trailers(fields, &mut start);
        end_section_frame(&mut start);
        self.write(&mut [Bytes::from(start)]).await
    }

    async fn write(&mut self, chunks: &mut [Bytes]) -> Result<(), SendError> {
        let send = self.send.as_mut().ok_or(SendError(None))?;
        let written = send.write_all_chunks(chunks).await;
        if let Err(WriteError::Stopped(_)) = &written {
            self.open.0.give_up();
            self.send = None;
        }
        written.map_err(|error| SendError(Some(error)))
    }

    /// Ends the response, and waits until the client has all of it: what has been written may lie
    /// here for long, and is lost if the connection closes. Gives up if the client acknowledges
    /// nothing at all for [`Settings::unacknowledged`](crate::Settings::unacknowledged).
    pub async fn finish(mut self) {
        let Some(mut send) = self.send.take() else {
            return;
        };
        if send.finish().is_err() {
            return;
        }
        let shared = &self.open.0;
        shared.complete();
        let mut received = pin!(send.stopped());
        let mut before = shared.acknowledgements();
        while timeout(shared.settings.unacknowledged, received.as_mut())
            .await
            .is_err()
        {
            let so_far = shared.acknowledgements();
            if so_far == std::mem::replace(&mut before, so_far) {
                return;
            }
        }
    }

    /// Gives the response up: the client has given up the request.
    pub fn give_up(mut self) {
        self.open.0.give_up();
        self.reset(Code::REQUEST_CANCELLED);
    }

    /// Ends the response before its end.
    fn reset(&mut self, code: Code) {
        if let Some(mut send) = self.send.take() {
            let _ = send.reset(code.into());
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.reset(Code::INTERNAL_ERROR);
    }
}

/// Begins a frame with a field section. Its length has four bytes, which any length below 2^30
/// may have.
fn section_frame() -> Vec<u8> {
    let mut frame = Vec::with_capacity(512);
    frame.extend_from_slice(&[0x1, 0x80, 0, 0, 0]);
    frame
}

/// Sets the length of the frame.
fn end_section_frame(frame: &mut [u8]) {
    let length = (frame.len() - 5) as u32;
    debug_assert!(length < 1 << 30);
    frame[1..5].copy_from_slice(&(length | 0x8000_0000).to_be_bytes());
}
