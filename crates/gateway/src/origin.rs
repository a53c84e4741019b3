//! The ingress as an origin of the HTTP cache: passes a request to the egress, and its answer back.

use crate::ingress::{self, AskError, ClientRequest, Failure, Handle};
use crate::limits::REQUEST_BYTES;
use crate::message::{Content, Head};
use ::http::header::CONTENT_LENGTH;
use ::http::{HeaderValue, Response, StatusCode, Version};
use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, SizeHint};
use larder_http::UpstreamFailure;
use larder_proxy::{BodyError, Origin, OriginBody, OriginFuture, OriginRequest, Upload};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// An ingress in the place of an HTTP server.
#[derive(Debug)]
pub struct NdnOrigin(Arc<Handle>);

impl NdnOrigin {
    /// Returns the origin of this ingress: [`ingress::Ingress::handle`].
    pub fn new(ingress: Arc<Handle>) -> NdnOrigin {
        NdnOrigin(ingress)
    }
}

impl Origin for NdnOrigin {
    fn name(&self) -> String {
        format!("ndn:{}", self.0.prefix())
    }

    fn ask<'a>(&'a self, request: OriginRequest) -> OriginFuture<'a> {
        Box::pin(ask(&self.0, request))
    }
}

async fn ask(
    ingress: &Arc<Handle>,
    request: OriginRequest,
) -> Result<Response<OriginBody>, UpstreamFailure> {
    let OriginRequest {
        method,
        authority,
        target,
        headers,
        body,
    } = request;
    let Some(body) = gather(body).await? else {
        return Ok(refusal(StatusCode::PAYLOAD_TOO_LARGE, ingress::TOO_LARGE));
    };
    let target = target.as_str().to_owned();
    match ingress
        .ask(ClientRequest {
            method,
            authority,
            target,
            headers,
            body,
        })
        .await
    {
        Ok((head, body)) => Ok(response(head, body)),
        Err(AskError::Refused(status, line)) => Ok(refusal(status, line)),
        Err(AskError::Failed(Failure::NoAnswer)) => Err(UpstreamFailure::TimedOut),
        Err(AskError::Failed(Failure::Forged | Failure::Malformed(_))) => {
            Err(UpstreamFailure::Malformed)
        }
        Err(AskError::Failed(Failure::NoRoute | Failure::Body(_)) | AskError::Stopped) => {
            Err(UpstreamFailure::Unreachable)
        }
    }
}

fn response(head: Head, body: ingress::Body) -> Response<OriginBody> {
    let body = match head.body {
        Content::Inline(bytes) => NdnBody::Inline(Some(bytes).filter(|bytes| !bytes.is_empty())),
        Content::Segments { .. } => NdnBody::Segments(body),
    };
    let mut response = Response::new(OriginBody::new(body));
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    // As at the egress: in HTTP/1.1 a body without a length ends with its connection.
    *response.version_mut() = if head.unframed {
        Version::HTTP_11
    } else {
        Version::HTTP_2
    };
    response
}

/// A body in one Data, or in many.
enum NdnBody {
    /// The whole body; `None` after it was read, or if there is none.
    Inline(Option<Bytes>),
    Segments(ingress::Body),
}

impl NdnBody {
    /// Returns the bytes still to come, if that is known.
    fn left(&self) -> Option<u64> {
        match self {
            NdnBody::Inline(bytes) => Some(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            NdnBody::Segments(body) => body.left(),
        }
    }
}

impl Body for NdnBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            NdnBody::Inline(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            NdnBody::Segments(body) => body.poll_piece(cx).map(|piece| {
                piece.map(|piece| {
                    piece
                        .map(Frame::data)
                        .map_err(|failure| BodyError::new(failure.to_string()))
                })
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left()
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Reads the body of a request; `None` if it does not fit an Interest.
async fn gather(mut body: Upload) -> Result<Option<Bytes>, UpstreamFailure> {
    let mut bytes = BytesMut::new();
    if body.size_hint().lower() > REQUEST_BYTES as u64 {
        return Ok(None);
    }
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|error| error.failure())?;
        if let Some(piece) = frame.data_ref() {
            bytes.extend_from_slice(piece);
        }
        if bytes.len() > REQUEST_BYTES {
            return Ok(None);
        }
    }
    Ok(Some(bytes.freeze()))
}

fn refusal(status: StatusCode, line: &'static str) -> Response<OriginBody> {
    let mut response = Response::new(OriginBody::new(NdnBody::Inline(Some(Bytes::from_static(
        line.as_bytes(),
    )))));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_LENGTH, HeaderValue::from(line.len()));
    response
}
