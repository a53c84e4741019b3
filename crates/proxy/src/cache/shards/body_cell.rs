//! A body in progress behind a lock: its writer and its readers may be on different threads.

use bytes::Bytes;
use larder_http::{
    BodyPart, BodyReader, BodyWakes, Fill, Pushed, Read, ReaderId, Room, SharedBody,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A [`SharedBody`], and who waits for it.
#[derive(Default)]
pub(super) struct BodyCell {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    body: SharedBody,
    /// By [`ReaderId`].
    readers: Vec<Option<Waker>>,
    writer: Option<Waker>,
    wakes: BodyWakes,
}

impl BodyCell {
    /// Runs `work` on the body, and wakes those that may go on.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut SharedBody, &mut BodyWakes) -> T) -> T {
        let mut state = self.lock();
        let State { body, wakes, .. } = &mut *state;
        let result = work(body, wakes);
        state.wake();
        result
    }

    /// Passes a piece of the body to its fill and its readers.
    pub(super) fn push(&self, fill: &mut Fill, piece: &[u8]) -> Pushed {
        self.with(|body, wakes| fill.push(piece, body, wakes))
    }

    /// Waits for room for the next piece. Returns false if nobody needs the rest.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.lock();
        match state.body.room() {
            Room::Ready => Poll::Ready(true),
            Room::NoReader => Poll::Ready(false),
            Room::Wait => {
                state.writer = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Returns a reader of a part, unless it is too late for that.
    pub(super) fn reader(self: &Arc<Self>, part: &BodyPart) -> Option<SharedReader> {
        let reader = self.lock().body.reader(part)?;
        Some(SharedReader {
            cell: Arc::clone(self),
            reader: Some(reader),
        })
    }

    /// A panic in the body's methods is a bug, and the other readers continue.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake(&mut self) {
        let State {
            readers,
            writer,
            wakes,
            ..
        } = self;
        for reader in wakes.readers.drain(..) {
            if let Some(waker) = readers.get_mut(reader.index()).and_then(Option::take) {
                waker.wake();
            }
        }
        if std::mem::take(&mut wakes.writer)
            && let Some(waker) = writer.take()
        {
            waker.wake();
        }
    }

    fn wait(&mut self, reader: ReaderId, waker: &Waker) {
        if self.readers.len() <= reader.index() {
            self.readers.resize_with(reader.index() + 1, || None);
        }
        self.readers[reader.index()] = Some(waker.clone());
    }
}

/// A reader of a body in progress. Dropped, it leaves.
pub struct SharedReader {
    cell: Arc<BodyCell>,
    /// `None` only while it is being dropped.
    reader: Option<BodyReader>,
}

/// The error of a body that ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenOff;

impl SharedReader {
    /// Returns the number of bytes still to come, if it is known.
    pub fn left(&self) -> Option<u64> {
        self.reader.as_ref().and_then(BodyReader::left)
    }

    /// Waits for the next piece; `None` at the end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        let Some(reader) = &mut self.reader else {
            return Poll::Ready(None);
        };
        let mut state = self.cell.lock();
        let State { body, wakes, .. } = &mut *state;
        let read = body.read(reader, wakes);
        state.wake();
        match read {
            Read::Bytes(bytes) => Poll::Ready(Some(Ok(bytes))),
            Read::End => Poll::Ready(None),
            Read::Broken => Poll::Ready(Some(Err(BrokenOff))),
            Read::Wait => {
                state.wait(reader.id(), cx.waker());
                Poll::Pending
            }
        }
    }
}

impl Drop for SharedReader {
    fn drop(&mut self) {
        let Some(reader) = self.reader.take() else {
            return;
        };
        let mut state = self.cell.lock();
        let waker = state
            .readers
            .get_mut(reader.id().index())
            .and_then(Option::take);
        let State { body, wakes, .. } = &mut *state;
        body.leave(reader, wakes);
        state.wake();
        drop(state);
        drop(waker);
    }
}
