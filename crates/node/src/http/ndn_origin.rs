//! An origin over NDN: passes a request to the ingress of the gateway, and its answer back
//! (`gateway/mod.rs`).

use super::body::{BodyError, OriginBody, Upload};
use crate::gateway::ingress::{self, AskError, Failure, Handle};
use crate::gateway::limits::REQUEST_BYTES;
use crate::gateway::message::Content;
use ::http::header::CONTENT_LENGTH;
use ::http::uri::PathAndQuery;
use ::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version};
use bytes::{Bytes, BytesMut};
use hyper::body::Body;
use larder_http::UpstreamFailure;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A body in one Data, or in many.
pub(crate) enum Named {
    /// The whole body; `None` after it was read, or if there is none.
    Inline(Option<Bytes>),
    Segments(ingress::Body),
}

impl Named {
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        match self {
            Named::Inline(bytes) => Poll::Ready(bytes.take().map(Ok)),
            Named::Segments(body) => body
                .poll_piece(cx)
                .map(|piece| piece.map(|piece| piece.map_err(|failure| BodyError::new(failure.to_string())))),
        }
    }

    /// Returns the bytes still to come, if that is known.
    pub(super) fn left(&self) -> Option<u64> {
        match self {
            Named::Inline(bytes) => Some(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Named::Segments(body) => body.left(),
        }
    }
}

/// Sends a request to the egress. The fields are complete; `host` is the object's authority.
pub(super) async fn ask(
    ingress: &Arc<Handle>,
    method: Method,
    host: &HeaderValue,
    target: PathAndQuery,
    headers: HeaderMap,
    body: Upload,
) -> Result<Response<OriginBody>, UpstreamFailure> {
    let Some(body) = gather(body).await? else {
        return Ok(refusal(StatusCode::PAYLOAD_TOO_LARGE, ingress::TOO_LARGE));
    };
    // It was created from text.
    let authority = host.to_str().unwrap_or_default();
    let (head, body) = match ingress.ask(method, authority, target.as_str(), headers, body).await {
        Ok(answer) => answer,
        Err(AskError::Refused(status, line)) => return Ok(refusal(status, line)),
        Err(AskError::Failed(Failure::NoAnswer)) => return Err(UpstreamFailure::TimedOut),
        Err(AskError::Failed(Failure::Forged | Failure::Malformed(_))) => return Err(UpstreamFailure::Malformed),
        Err(AskError::Failed(Failure::NoRoute | Failure::Body(_)) | AskError::Stopped) => {
            return Err(UpstreamFailure::Unreachable);
        }
    };
    let body = match head.body {
        Content::Inline(bytes) => Named::Inline(Some(bytes).filter(|bytes| !bytes.is_empty())),
        Content::Segments { .. } => Named::Segments(body),
    };
    let mut response = Response::new(OriginBody::Named(Box::new(body)));
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    // As at the egress: in HTTP/1.1 a body without a length ends with its connection.
    *response.version_mut() = if head.unframed { Version::HTTP_11 } else { Version::HTTP_2 };
    Ok(response)
}

/// Reads the body of a request; `None` if it does not fit an Interest.
async fn gather(mut body: Upload) -> Result<Option<Bytes>, UpstreamFailure> {
    let mut bytes = BytesMut::new();
    if body.size_hint().lower() > REQUEST_BYTES as u64 {
        return Ok(None);
    }
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|error| match error.is_silence() {
            true => UpstreamFailure::UploadTimedOut,
            false => UpstreamFailure::Upload,
        })?;
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
    let mut response =
        Response::new(OriginBody::Named(Box::new(Named::Inline(Some(Bytes::from_static(line.as_bytes()))))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(line.len()));
    response
}
