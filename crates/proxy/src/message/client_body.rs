//! The body of a client's request, in each version of HTTP.

use crate::message::body::BodyError;
use crate::message::informational::StreamInterims;
use ::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use h2::RecvStream;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The body of a client's request.
pub(crate) enum ClientBody {
    /// On a connection of HTTP/1.
    Http1(Incoming),
    /// On a stream of HTTP/2.
    Http2(StreamBody),
    /// On a stream of HTTP/3.
    #[cfg(feature = "http3")]
    Http3(QuicBody),
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            ClientBody::Http1(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(BodyError::new))),
            ClientBody::Http2(body) => body.poll_frame(cx),
            #[cfg(feature = "http3")]
            ClientBody::Http3(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ClientBody::Http1(body) => body.is_end_stream(),
            ClientBody::Http2(body) => body.is_end_stream(),
            #[cfg(feature = "http3")]
            ClientBody::Http3(body) => body.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ClientBody::Http1(body) => body.size_hint(),
            ClientBody::Http2(body) => body
                .left
                .map_or_else(SizeHint::default, SizeHint::with_exact),
            #[cfg(feature = "http3")]
            ClientBody::Http3(body) => body.body.size_hint(),
        }
    }
}

/// The body of a request of HTTP/2.
pub(crate) struct StreamBody {
    /// `None` for CONNECT: what the client sends then is no body.
    stream: Option<RecvStream>,
    /// Bytes that are still to come, if `Content-Length` says it. h2 checks the sum.
    left: Option<u64>,
    has_trailers_only: bool,
    /// What the client gets before its response.
    interims: Arc<StreamInterims>,
    /// True while the client waits with its body until it is asked for it.
    expects: bool,
}

impl StreamBody {
    pub(crate) fn new(
        stream: RecvStream,
        headers: &HeaderMap,
        interims: &Arc<StreamInterims>,
    ) -> StreamBody {
        let left = if stream.is_end_stream() {
            Some(0)
        } else {
            content_length(headers)
        };
        StreamBody {
            left,
            stream: Some(stream),
            ..StreamBody::empty(interims)
        }
    }

    /// Returns the body of a request for a tunnel.
    pub(crate) fn empty(interims: &Arc<StreamInterims>) -> StreamBody {
        StreamBody {
            stream: None,
            left: Some(0),
            has_trailers_only: false,
            interims: Arc::clone(interims),
            expects: false,
        }
    }

    /// Returns what the client gets before its response. If it `expects` that, it is asked for the
    /// body when that is first read (RFC 9110 §10.1.1).
    pub(crate) fn interims(&mut self, expects: bool) -> Arc<StreamInterims> {
        self.expects = expects;
        Arc::clone(&self.interims)
    }

    fn is_end_stream(&self) -> bool {
        self.stream.as_ref().is_none_or(RecvStream::is_end_stream)
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if std::mem::take(&mut self.expects) {
            self.interims.add(StatusCode::CONTINUE, HeaderMap::new());
        }
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(None);
        };
        if !self.has_trailers_only {
            match ready!(stream.poll_data(cx)) {
                Some(Ok(data)) => {
                    // The window of a stream is small: what is on its way to the origin counts
                    // elsewhere.
                    let _ = stream.flow_control().release_capacity(data.len());
                    self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(BodyError::new(error)))),
                None => self.has_trailers_only = true,
            }
        }
        let trailers = ready!(stream.poll_trailers(cx))
            .map_err(BodyError::new)
            .transpose();
        Poll::Ready(trailers.map(|trailers| trailers.map(Frame::trailers)))
    }
}

/// The body of a request of HTTP/3.
#[cfg(feature = "http3")]
pub(crate) struct QuicBody {
    body: larder_http3::RequestBody,
    /// What the client gets before its response.
    interims: Arc<StreamInterims>,
    /// True while the client waits with its body until it is asked for it.
    expects: bool,
}

#[cfg(feature = "http3")]
impl QuicBody {
    pub(crate) fn new(body: larder_http3::RequestBody, interims: &Arc<StreamInterims>) -> QuicBody {
        QuicBody {
            body,
            interims: Arc::clone(interims),
            expects: false,
        }
    }

    /// Does what [`StreamBody::interims`] does.
    pub(crate) fn interims(&mut self, expects: bool) -> Arc<StreamInterims> {
        self.expects = expects;
        Arc::clone(&self.interims)
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if std::mem::take(&mut self.expects) {
            self.interims.add(StatusCode::CONTINUE, HeaderMap::new());
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map_err(BodyError::new)))
    }
}

/// Returns the length that a head announces. Heads with several are refused elsewhere.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers
        .get(header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}
