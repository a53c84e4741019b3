//! A body that a task delivers in pieces.

use crate::message::body::BodyError;
use bytes::Bytes;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Where the task delivers the pieces.
pub(crate) type Sender = mpsc::Sender<Result<Bytes, BodyError>>;

/// The assembled pieces of a body.
pub(crate) struct Pieces {
    receiver: mpsc::Receiver<Result<Bytes, BodyError>>,
    /// Bytes to come.
    pub(crate) left: u64,
}

impl Pieces {
    /// A body of so many bytes.
    pub(crate) fn new(receiver: mpsc::Receiver<Result<Bytes, BodyError>>, left: u64) -> Pieces {
        Pieces { receiver, left }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        self.receiver.poll_recv(cx).map(|piece| match piece {
            Some(Ok(bytes)) => {
                self.left = self.left.saturating_sub(bytes.len() as u64);
                Some(Ok(bytes))
            }
            // The task has ended before the body.
            None if self.left > 0 => Some(Err(BodyError::new("the body broke off"))),
            other => other,
        })
    }
}
