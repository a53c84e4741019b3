//! The body of an object, as that of an origin.

use crate::message::body::BodyError;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

pub(crate) struct ObjectBody {
    pieces: larder_object_host::ObjectBody,
    /// Bytes to come.
    left: u64,
}

impl ObjectBody {
    pub(crate) fn new(pieces: larder_object_host::ObjectBody, left: u64) -> ObjectBody {
        ObjectBody { pieces, left }
    }
}

impl Body for ObjectBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        this.pieces.0.poll_recv(cx).map(|piece| match piece {
            Some(Ok(bytes)) if bytes.len() as u64 <= this.left => {
                this.left -= bytes.len() as u64;
                Some(Ok(Frame::data(bytes)))
            }
            Some(Ok(_)) => Some(Err(BodyError::new("an object is longer than it says"))),
            Some(Err(error)) => Some(Err(BodyError::new(error))),
            None if this.left > 0 => Some(Err(BodyError::new("an object broke off"))),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
