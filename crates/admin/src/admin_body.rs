//! The bodies of the admin server's responses.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// The body of a response of the admin server.
pub enum AdminBody {
    /// A page; `None` if it is empty, or after it was sent.
    Whole(Option<Bytes>),
    /// Made piece by piece, until the sender is dropped.
    Stream(mpsc::Receiver<Bytes>),
}

impl AdminBody {
    pub(crate) fn whole(bytes: Bytes) -> AdminBody {
        AdminBody::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl Body for AdminBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            AdminBody::Whole(bytes) => {
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            AdminBody::Stream(pieces) => pieces
                .poll_recv(cx)
                .map(|piece| piece.map(|piece| Ok(Frame::data(piece)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AdminBody::Whole(bytes) => bytes.is_none(),
            AdminBody::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AdminBody::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            AdminBody::Stream(_) => SizeHint::default(),
        }
    }
}
