//! Responses to clients, and their bodies.

use crate::cache::shards::{BrokenOff, SharedReader};
use crate::coding::coded_body::CodedBody;
use crate::message::body::{BodyError, Timed};
use crate::message::channel_body::Pieces;
use crate::origin::origin_body::OriginBody;
use ::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use ::http::{HeaderMap, HeaderValue, Response, StatusCode};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use larder_http::name_own_answer;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body of a response to a client.
pub(crate) enum Outgoing {
    /// From the store, or made by the cache: shared, not copied. `None` after it was sent.
    Whole(Option<Bytes>),
    /// The same in several pieces, the last first.
    Parts(Vec<Bytes>),
    /// Put together from slices, or read from the disk.
    Assembled(Pieces),
    /// On its way into the store, and read by every request for it.
    Shared(SharedReader),
    /// From the origin as it arrives. Nothing is read ahead of the client.
    Relay(Box<Timed<OriginBody>>),
    /// One of the others, which gets its content coding while it is sent.
    Coded(Box<CodedBody<Outgoing>>),
}

impl Outgoing {
    pub(crate) fn whole(bytes: Bytes) -> Outgoing {
        Outgoing::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    pub(crate) fn parts(mut pieces: Vec<Bytes>) -> Outgoing {
        pieces.retain(|piece| !piece.is_empty());
        pieces.reverse();
        Outgoing::Parts(pieces)
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Outgoing::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Outgoing::Parts(pieces) => {
                Poll::Ready(pieces.pop().map(|bytes| Ok(Frame::data(bytes))))
            }
            Outgoing::Assembled(pieces) => pieces
                .poll(cx)
                .map(|piece| piece.map(|piece| piece.map(Frame::data))),
            Outgoing::Shared(reader) => reader.poll_piece(cx).map(|piece| {
                piece.map(|piece| {
                    piece
                        .map(Frame::data)
                        .map_err(|BrokenOff| BodyError::new("the origin's body broke off"))
                })
            }),
            Outgoing::Relay(body) => Pin::new(&mut **body).poll_frame(cx),
            Outgoing::Coded(body) => Pin::new(&mut **body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outgoing::Whole(bytes) => bytes.is_none(),
            Outgoing::Parts(pieces) => pieces.is_empty(),
            Outgoing::Assembled(pieces) => pieces.left == 0,
            Outgoing::Shared(reader) => reader.left() == Some(0),
            Outgoing::Relay(body) => body.is_end_stream(),
            Outgoing::Coded(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Outgoing::Parts(pieces) => {
                SizeHint::with_exact(pieces.iter().map(|bytes| bytes.len() as u64).sum())
            }
            Outgoing::Assembled(pieces) => SizeHint::with_exact(pieces.left),
            Outgoing::Shared(reader) => reader
                .left()
                .map_or_else(SizeHint::default, SizeHint::with_exact),
            Outgoing::Relay(body) => body.size_hint(),
            Outgoing::Coded(body) => body.size_hint(),
        }
    }
}

/// Returns a response.
pub(crate) fn response(
    status: StatusCode,
    headers: HeaderMap,
    body: Outgoing,
) -> Response<Outgoing> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Returns an answer of the proxy itself, in one line. `why` is the word for it in `Cache-Status`,
/// which docs/reference/http.md lists.
pub(crate) fn own_answer(
    status: StatusCode,
    text: impl Into<Bytes>,
    why: &'static str,
) -> Response<Outgoing> {
    let text = text.into();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    if !text.is_empty() {
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(CONTENT_TYPE, plain);
    }
    name_own_answer(&mut headers, why);
    response(status, headers, Outgoing::whole(text))
}
