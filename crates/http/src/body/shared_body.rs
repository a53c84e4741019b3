//! A body in progress: one writer, and any number of readers, which get each byte as soon as it
//! arrives.
//!
//! While it is collected, all of it is kept, and a reader may start anywhere. If it outgrows its
//! limits, it becomes a window: the part that every reader has passed is freed, the writer waits
//! for the slowest reader, and no reader may join any more. The window is as wide as memory allows;
//! without memory, the next piece is taken when all have read the one before. A waiting reader
//! leaves a waker; the host decides where it polls.

use crate::body::budget::Reservation;
use crate::limits;
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The shared body.
#[derive(Debug, Default)]
pub(crate) struct SharedBody {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    /// The number of freed bytes before these.
    base: u64,
    /// In a window, the bytes that may be ahead of the slowest reader.
    window: Option<usize>,
    end: Option<End>,
    readers: Vec<Place>,
    /// The reservation of the unread part of a window, or of a body that broke off, while it has
    /// readers.
    room: Option<Reservation>,
    /// Waits for room in the window.
    writer: Option<Waker>,
}

#[derive(Debug)]
enum End {
    /// All of it, in one piece.
    Whole(Bytes),
    /// The window has seen its last byte.
    Passed,
    /// It broke off.
    Broken,
}

#[derive(Debug)]
enum Place {
    Free,
    Taken { at: u64, waker: Option<Waker> },
}

impl SharedBody {
    /// Appends within the capacity that [`SharedBody::reserve`] has made, or to the window.
    pub(crate) fn push(&self, piece: &[u8]) {
        let mut state = self.lock();
        state.bytes.extend_from_slice(piece);
        state.trim();
        state.wake_readers();
    }

    /// Makes room for exactly so many bytes in all.
    pub(crate) fn reserve(&self, capacity: usize) {
        let mut state = self.lock();
        let more = capacity.saturating_sub(state.bytes.len());
        state.bytes.reserve_exact(more);
    }

    /// Bytes held, and room for them.
    pub(crate) fn held(&self) -> (usize, usize) {
        let state = self.lock();
        (state.bytes.len(), state.bytes.capacity())
    }

    /// All bytes that have come.
    pub(crate) fn len(&self) -> u64 {
        let state = self.lock();
        match &state.end {
            Some(End::Whole(bytes)) => bytes.len() as u64,
            _ => state.base + state.bytes.len() as u64,
        }
    }

    /// Makes it a window: the part that every reader has passed is freed, and at most so many
    /// bytes, or one piece, are ahead of the slowest reader.
    pub(crate) fn become_window(&self, bytes: usize) {
        let mut state = self.lock();
        state.window = Some(bytes);
        state.trim();
    }

    /// Waits for room in the window. Returns false if it has no reader left, so that the rest is
    /// not needed.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.lock();
        let Some(window) = state.window else { return Poll::Ready(true) };
        if state.readers.iter().all(|place| matches!(place, Place::Free)) {
            return Poll::Ready(false);
        }
        if state.has_room(window) {
            return Poll::Ready(true);
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Nothing more comes: room for it is given back.
    pub(crate) fn fit(&self) {
        self.lock().bytes.shrink_to_fit();
    }

    /// Ends a whole body. Returns the collected bytes, and the same bytes as its readers share
    /// them, which hold `room`; nothing of a window. Bytes that wait to be written to a second tier
    /// have a reservation of their own, so they are the first ones.
    pub(crate) fn finish(&self, mut room: Reservation) -> (Bytes, Bytes) {
        let mut state = self.lock();
        let (mut bytes, mut lent) = (Bytes::new(), Bytes::new());
        if state.window.is_some() {
            state.end = Some(End::Passed);
            state.room = Some(room);
            state.let_go();
        } else {
            let mut collected = std::mem::take(&mut state.bytes);
            // Nothing is left to do where the host has called `fit`.
            collected.shrink_to_fit();
            room.shrink_to(collected.len() as u64);
            bytes = Bytes::from(collected);
            lent = room.lend(bytes.clone());
            state.end = Some(End::Whole(lent.clone()));
        }
        state.wake_readers();
        (bytes, lent)
    }

    /// The body broke off. The received part holds `room` until its readers have finished.
    pub(crate) fn break_off(&self, room: Reservation) {
        let mut state = self.lock();
        state.end = Some(End::Broken);
        state.room = Some(room);
        state.let_go();
        state.wake_readers();
    }

    /// A reader of the bytes `first..end`, or from `first` to the end of all. `None` where `first`
    /// has gone by.
    pub(crate) fn reader(self: &Arc<Self>, first: u64, end: Option<u64>) -> Option<Reader> {
        let mut state = self.lock();
        if state.window.is_some() {
            return None;
        }
        let place = Place::Taken { at: first, waker: None };
        let free = state.readers.iter().position(|place| matches!(place, Place::Free));
        let slot = free.unwrap_or(state.readers.len());
        match free {
            Some(slot) => state.readers[slot] = place,
            None => state.readers.push(place),
        }
        drop(state);
        Some(Reader { shared_body: Arc::clone(self), slot, end, left: end.map(|end| end - first) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room(&self, window: usize) -> bool {
        self.bytes.is_empty() || self.bytes.len() < window
    }

    fn trim(&mut self) {
        let Some(window) = self.window.filter(|_| self.end.is_none()) else { return };
        let held_to = self.base + self.bytes.len() as u64;
        let slowest = self.readers.iter().filter_map(|place| match place {
            Place::Taken { at, .. } => Some(*at),
            Place::Free => None,
        });
        let slowest = slowest.min().unwrap_or(held_to).clamp(self.base, held_to);
        self.bytes.drain(..(slowest - self.base) as usize);
        self.base = slowest;
        if self.has_room(window) {
            // The part that was collected before may have been much larger.
            self.bytes.shrink_to(window);
            if let Some(writer) = self.writer.take() {
                writer.wake();
            }
        }
    }

    /// Frees a body that has ended and has no readers. A reader that joins a body that broke off
    /// gets only the error.
    fn let_go(&mut self) {
        if self.end.is_some() && self.readers.iter().all(|place| matches!(place, Place::Free)) {
            (self.bytes, self.room) = (Vec::new(), None);
        }
    }

    fn wake_readers(&mut self) {
        for place in &mut self.readers {
            if let Place::Taken { waker, .. } = place
                && let Some(waker) = waker.take()
            {
                waker.wake();
            }
        }
    }
}

/// A reader of a body in progress.
#[derive(Debug)]
pub struct Reader {
    shared_body: Arc<SharedBody>,
    slot: usize,
    /// The end of this reader's part, if it is not the end of the body.
    end: Option<u64>,
    /// Bytes still to come, where that is known.
    left: Option<u64>,
}

/// The body ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenOff;

impl Reader {
    /// The body's length is known.
    pub(crate) fn expect(&mut self, length: Option<u64>) {
        self.left = length;
    }

    /// Bytes still to come, where that is known.
    pub fn left(&self) -> Option<u64> {
        self.left
    }

    /// The next piece, at most [`limits::PIECE_BYTES`] of a body that is still under way; `None` at
    /// its end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        let mut state = self.shared_body.lock();
        let Place::Taken { at, .. } = state.readers[self.slot] else { return Poll::Ready(None) };
        if self.end == Some(at) {
            return Poll::Ready(None);
        }
        let piece = match &state.end {
            Some(End::Whole(bytes)) => {
                let end = self.end.unwrap_or(u64::MAX).min(bytes.len() as u64);
                bytes.slice(at.min(end) as usize..end as usize)
            }
            _ => {
                let held_to = (state.base + state.bytes.len() as u64).min(self.end.unwrap_or(u64::MAX));
                let end = held_to.min(at + limits::PIECE_BYTES as u64);
                // A reader further ahead than the writer waits.
                let from = at.min(end);
                Bytes::copy_from_slice(
                    &state.bytes[(from.max(state.base) - state.base) as usize..(end - state.base) as usize],
                )
            }
        };
        if piece.is_empty() {
            return match &state.end {
                Some(End::Broken) => Poll::Ready(Some(Err(BrokenOff))),
                // The part to read does not exist.
                Some(_) if self.end.is_some() => Poll::Ready(Some(Err(BrokenOff))),
                Some(_) => Poll::Ready(None),
                None => {
                    state.readers[self.slot] = Place::Taken { at, waker: Some(cx.waker().clone()) };
                    Poll::Pending
                }
            };
        }
        let read = piece.len() as u64;
        state.readers[self.slot] = Place::Taken { at: at + read, waker: None };
        state.trim();
        self.left = self.left.map(|left| left.saturating_sub(read));
        Poll::Ready(Some(Ok(piece)))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.shared_body.lock();
        state.readers[self.slot] = Place::Free;
        state.trim();
        state.let_go();
        // Perhaps the last one: the writer has to be woken.
        if let Some(writer) = state.writer.take() {
            writer.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::budget::Budget;

    fn read(reader: &mut Reader) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        reader.poll_piece(&mut Context::from_waker(Waker::noop()))
    }

    fn piece(text: &'static str) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        Poll::Ready(Some(Ok(Bytes::from_static(text.as_bytes()))))
    }

    /// Failure: a follower gets a byte twice, or not at all, or waits for the end of the body.
    #[test]
    fn readers_get_each_byte_once_as_it_comes() {
        let shared_body = Arc::new(SharedBody::default());
        let mut early = shared_body.reader(0, None).unwrap();
        assert_eq!(read(&mut early), Poll::Pending);
        shared_body.push(b"hello ");
        assert_eq!(read(&mut early), piece("hello "));
        let mut late = shared_body.reader(0, None).unwrap();
        let mut part = shared_body.reader(4, Some(8)).unwrap();
        assert_eq!((read(&mut part), part.left()), (piece("o "), Some(2)));
        shared_body.push(b"world");
        assert_eq!((read(&mut late), read(&mut early)), (piece("hello world"), piece("world")));
        assert_eq!((read(&mut part), read(&mut part)), (piece("wo"), Poll::Ready(None)));
        let mut ahead = shared_body.reader(20, None).unwrap();
        assert_eq!((read(&mut early), read(&mut ahead)), (Poll::Pending, Poll::Pending));
        let room = Budget::new(1000).reserve(11).unwrap();
        let (bytes, lent) = shared_body.finish(room);
        assert_eq!((&bytes[..], &lent[..]), (&b"hello world"[..], &b"hello world"[..]));
        assert_eq!((read(&mut early), read(&mut ahead)), (Poll::Ready(None), Poll::Ready(None)));
    }

    /// Failure: a cut body looks complete to its followers.
    #[test]
    fn what_breaks_off_breaks_off_for_all() {
        let shared_body = Arc::new(SharedBody::default());
        let mut reader = shared_body.reader(0, None).unwrap();
        shared_body.push(b"half");
        shared_body.break_off(Budget::new(1000).reserve(4).unwrap());
        assert_eq!((read(&mut reader), read(&mut reader)), (piece("half"), Poll::Ready(Some(Err(BrokenOff)))));
    }

    /// Failure: a body without end fills the memory, or its writer waits without end for a reader
    /// that has gone.
    #[test]
    fn a_window_holds_no_more_than_its_slowest_reader_needs() {
        let shared_body = Arc::new(SharedBody::default());
        let (mut fast, slow) = (shared_body.reader(0, None).unwrap(), shared_body.reader(0, None).unwrap());
        let chunk = [7; limits::PIECE_BYTES];
        shared_body.push(&chunk);
        shared_body.become_window(0);
        assert!(shared_body.reader(0, None).is_none(), "nobody joins a window");
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(shared_body.poll_room(&mut cx), Poll::Pending, "a piece is ahead already");
        shared_body.become_window(limits::WINDOW_BYTES);
        while shared_body.poll_room(&mut cx) == Poll::Ready(true) {
            shared_body.push(&chunk);
        }
        assert_eq!(shared_body.held().0, limits::WINDOW_BYTES);
        while read(&mut fast).is_ready() {}
        assert_eq!(shared_body.poll_room(&mut cx), Poll::Pending, "the slow one holds it");
        drop(slow);
        assert_eq!((shared_body.poll_room(&mut cx), shared_body.held().0), (Poll::Ready(true), 0));
        drop(fast);
        assert_eq!(shared_body.poll_room(&mut cx), Poll::Ready(false));
    }
}
