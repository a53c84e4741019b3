//! Bodies from an origin of any kind.

use crate::message::body::BodyError;
use crate::origin::connections::ReceivedBody;
use crate::origin::generated_origin::Content;
use crate::origin::servers::InProgress;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A body from the origin.
pub enum OriginBody {
    /// A body on a connection to a server, and its place among the server's requests.
    Received(ReceivedBody, Option<InProgress>),
    /// A body that this process generates.
    Generated(Content),
    /// A body of an [`Origin`](crate::Origin).
    Custom(Pin<Box<dyn Body<Data = Bytes, Error = BodyError> + Send>>),
}

impl OriginBody {
    /// Returns a body of an [`Origin`](crate::Origin).
    pub fn new(body: impl Body<Data = Bytes, Error = BodyError> + Send + 'static) -> OriginBody {
        OriginBody::Custom(Box::pin(body))
    }
}

impl Body for OriginBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            OriginBody::Received(body, in_progress) => {
                let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
                if frame.is_none() || body.is_end_stream() {
                    *in_progress = None;
                }
                Poll::Ready(frame)
            }
            OriginBody::Generated(content) => {
                Poll::Ready(content.next_piece().map(|piece| piece.map(Frame::data)))
            }
            OriginBody::Custom(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            OriginBody::Received(body, _) => body.is_end_stream(),
            OriginBody::Generated(content) => content.is_at_end(),
            OriginBody::Custom(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            OriginBody::Received(body, _) => body.size_hint(),
            OriginBody::Generated(content) => content.size_hint(),
            OriginBody::Custom(body) => body.size_hint(),
        }
    }
}
