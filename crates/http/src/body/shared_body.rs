//! A body in progress: one writer, and any number of readers, which get each byte as soon as it
//! arrives.
//!
//! While it is collected, all of it is kept, and a reader may start anywhere. If it exceeds its
//! limits, it becomes a window: the part that every reader has passed is freed, the writer waits
//! for the slowest reader, and no reader may join any more. The window is as wide as memory allows;
//! without memory, the next piece is accepted when all readers have read the one before.
//!
//! It belongs to the host, which keeps one for each [`Fill`](crate::Fill), behind a lock if its
//! threads share it. A call returns at once: [`BodyWakes`] names a waiting reader or writer when it
//! may continue.

use crate::body::budget::Reservation;
use crate::limits;
use bytes::Bytes;

/// The number of a body in progress, unique within one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BodyId {
    pub(crate) shard: u16,
    pub(crate) number: u64,
}

impl BodyId {
    /// Returns the number of the shard of its [`Fill`](crate::Fill).
    pub fn shard(self) -> usize {
        usize::from(self.shard)
    }
}

/// A part of a body in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyPart {
    /// The body.
    pub body: BodyId,
    /// The first byte.
    pub first: u64,
    /// The byte after the last one; `None` up to the end of the body.
    pub end: Option<u64>,
    /// Bytes in it, if their number is known.
    pub left: Option<u64>,
}

impl BodyPart {
    /// Returns the part with these bytes.
    pub(crate) fn range(body: BodyId, first: u64, end: Option<u64>) -> BodyPart {
        BodyPart {
            body,
            first,
            end,
            left: end.map(|end| end - first),
        }
    }
}

/// A body in progress. See the module's description.
#[derive(Debug, Default)]
pub struct SharedBody {
    bytes: Vec<u8>,
    /// The number of freed bytes before these.
    base: u64,
    /// In a window, the bytes that may be ahead of the slowest reader.
    window: Option<usize>,
    end: Option<BodyEnd>,
    readers: Vec<Place>,
    /// True while the writer waits for room in the window.
    writer_waits: bool,
}

/// The waiting readers and the waiting writer of a body that may continue. A host empties it after
/// each call.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BodyWakes {
    /// Readers that got [`Read::Wait`] from [`SharedBody::read`].
    pub readers: Vec<ReaderId>,
    /// True if the writer got [`Room::Wait`] from [`SharedBody::room`].
    pub writer: bool,
}

/// The number of a reader among those of its body; free numbers are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderId(usize);

impl ReaderId {
    /// Returns the number.
    pub fn index(self) -> usize {
        self.0
    }
}

/// The end of a body. [`Cache::on_complete`](crate::Cache::on_complete) and
/// [`Cache::on_abort`](crate::Cache::on_abort) return for [`SharedBody::finish`].
#[derive(Debug)]
pub struct BodyEnd(pub(crate) End);

#[derive(Debug)]
pub(crate) enum End {
    /// The whole body, in one piece.
    Whole(Bytes),
    /// The last byte has passed the window. The unread part holds the reservation.
    Passed(Reservation),
    /// The body broke off. The unread part holds the reservation.
    Broken(Reservation),
    /// The body is shorter than its head declared. The collected bytes return to the readers, for
    /// which it has broken off.
    Short(Bytes, Reservation),
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Free,
    Taken { at: u64, waits: bool },
}

/// A reader of a body in progress. Return it with [`SharedBody::leave`].
#[derive(Debug)]
pub struct BodyReader {
    id: ReaderId,
    /// The end of this reader's part, if it is not the end of the body.
    end: Option<u64>,
    /// Bytes that remain, if their number is known.
    left: Option<u64>,
}

impl BodyReader {
    /// Returns the number by which [`BodyWakes`] names this reader.
    pub fn id(&self) -> ReaderId {
        self.id
    }

    /// Returns the number of bytes that remain, if it is known.
    pub fn left(&self) -> Option<u64> {
        self.left
    }
}

/// The result of [`SharedBody::read`].
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    /// The next piece, at most [`limits::PIECE_BYTES`] of a body that is in progress.
    Bytes(Bytes),
    /// No bytes yet: read again when [`BodyWakes`] names the reader.
    Wait,
    /// The part is complete.
    End,
    /// The body broke off before the end of the part.
    Broken,
}

/// The result of [`SharedBody::room`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The next piece may be pushed.
    Ready,
    /// The slowest reader must read first: try again when [`BodyWakes`] names the writer.
    Wait,
    /// No reader is left, and the rest is not stored, so it is not needed.
    NoReader,
}

impl SharedBody {
    /// Appends within the capacity that [`SharedBody::reserve`] has made, or to the window.
    pub(crate) fn push(&mut self, piece: &[u8], wakes: &mut BodyWakes) {
        self.bytes.extend_from_slice(piece);
        self.trim(wakes);
        self.wake_readers(wakes);
    }

    /// Makes room for exactly this many bytes in all.
    pub(crate) fn reserve(&mut self, capacity: usize) {
        let more = capacity.saturating_sub(self.bytes.len());
        self.bytes.reserve_exact(more);
    }

    /// Returns the held bytes, and the room for them.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.bytes.len(), self.bytes.capacity())
    }

    /// Turns it into a window: the part that every reader has passed is freed, and at most this
    /// many bytes, or one piece, are ahead of the slowest reader.
    pub(crate) fn become_window(&mut self, bytes: usize, wakes: &mut BodyWakes) {
        self.window = Some(bytes);
        self.trim(wakes);
    }

    /// Returns [`Room::Ready`] if the next piece may be pushed: always while the body is collected.
    pub fn room(&mut self) -> Room {
        let Some(window) = self.window else {
            return Room::Ready;
        };
        if !self.has_readers() {
            return Room::NoReader;
        }
        if self.has_room(window) {
            return Room::Ready;
        }
        self.writer_waits = true;
        Room::Wait
    }

    /// Takes the collected bytes of a body that has ended, for
    /// [`Cache::on_complete`](crate::Cache::on_complete); `None` if the body was not collected.
    /// Readers wait until [`SharedBody::finish`]. The caller may shrink them, which may copy them.
    pub fn take_collected(&mut self) -> Option<Vec<u8>> {
        self.window
            .is_none()
            .then(|| std::mem::take(&mut self.bytes))
    }

    /// Ends the body. Its readers get the rest, then the end or the error.
    pub fn finish(&mut self, end: BodyEnd, wakes: &mut BodyWakes) {
        let end = match end.0 {
            End::Short(collected, room) => {
                self.bytes = collected.into();
                End::Broken(room)
            }
            end => end,
        };
        self.end = Some(BodyEnd(end));
        self.release();
        self.wake_readers(wakes);
    }

    /// Returns a reader of a part. `None` if the start of the part has been freed, or may be soon.
    pub fn reader(&mut self, part: &BodyPart) -> Option<BodyReader> {
        if self.window.is_some() {
            return None;
        }
        let place = Place::Taken {
            at: part.first,
            waits: false,
        };
        let free = self
            .readers
            .iter()
            .position(|place| matches!(place, Place::Free));
        let index = free.unwrap_or(self.readers.len());
        match free {
            Some(index) => self.readers[index] = place,
            None => self.readers.push(place),
        }
        Some(BodyReader {
            id: ReaderId(index),
            end: part.end,
            left: part.left,
        })
    }

    /// Returns the next piece for a reader.
    pub fn read(&mut self, reader: &mut BodyReader, wakes: &mut BodyWakes) -> Read {
        let Place::Taken { at, .. } = self.readers[reader.id.0] else {
            return Read::End;
        };
        if reader.end == Some(at) {
            return Read::End;
        }
        let piece = self.piece(at, reader.end.unwrap_or(u64::MAX));
        if piece.is_empty() {
            return match self.end.as_ref().map(|end| &end.0) {
                Some(End::Broken(_)) => Read::Broken,
                // The requested part does not exist.
                Some(_) if reader.end.is_some() => Read::Broken,
                Some(_) => Read::End,
                None => {
                    self.readers[reader.id.0] = Place::Taken { at, waits: true };
                    Read::Wait
                }
            };
        }
        let read = piece.len() as u64;
        self.readers[reader.id.0] = Place::Taken {
            at: at + read,
            waits: false,
        };
        self.trim(wakes);
        reader.left = reader.left.map(|left| left.saturating_sub(read));
        Read::Bytes(piece)
    }

    /// Removes a reader.
    pub fn leave(&mut self, reader: BodyReader, wakes: &mut BodyWakes) {
        self.readers[reader.id.0] = Place::Free;
        self.trim(wakes);
        self.release();
        // This may have been the last reader, so the writer is woken.
        wakes.writer |= std::mem::take(&mut self.writer_waits);
    }

    /// Returns the next bytes from `at` on, before `limit`.
    fn piece(&self, at: u64, limit: u64) -> Bytes {
        if let Some(BodyEnd(End::Whole(bytes))) = &self.end {
            let end = limit.min(bytes.len() as u64);
            return bytes.slice(at.min(end) as usize..end as usize);
        }
        let held_to = (self.base + self.bytes.len() as u64).min(limit);
        let end = held_to.min(at + limits::PIECE_BYTES as u64).max(self.base);
        // A reader ahead of the writer waits.
        let from = at.clamp(self.base, end);
        Bytes::copy_from_slice(&self.bytes[(from - self.base) as usize..(end - self.base) as usize])
    }

    fn has_readers(&self) -> bool {
        self.readers
            .iter()
            .any(|place| matches!(place, Place::Taken { .. }))
    }

    fn has_room(&self, window: usize) -> bool {
        self.bytes.is_empty() || self.bytes.len() < window
    }

    fn trim(&mut self, wakes: &mut BodyWakes) {
        let Some(window) = self.window.filter(|_| self.end.is_none()) else {
            return;
        };
        let held_to = self.base + self.bytes.len() as u64;
        let slowest = self.readers.iter().filter_map(|place| match place {
            Place::Taken { at, .. } => Some(*at),
            Place::Free => None,
        });
        let slowest = slowest.min().unwrap_or(held_to).clamp(self.base, held_to);
        self.bytes.drain(..(slowest - self.base) as usize);
        self.base = slowest;
        if self.has_room(window) {
            // The previously collected part may have been much larger.
            self.bytes.shrink_to(window);
            wakes.writer |= std::mem::take(&mut self.writer_waits);
        }
    }

    /// Frees a body that has ended and has no readers. A reader that joins a body that broke off
    /// gets only the error.
    fn release(&mut self) {
        if self.has_readers() {
            return;
        }
        if let Some(BodyEnd(End::Passed(room) | End::Broken(room))) = &mut self.end {
            room.shrink_to(0);
            self.bytes = Vec::new();
        }
    }

    fn wake_readers(&mut self, wakes: &mut BodyWakes) {
        for (index, place) in self.readers.iter_mut().enumerate() {
            if let Place::Taken { waits, .. } = place
                && std::mem::take(waits)
            {
                wakes.readers.push(ReaderId(index));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::budget::Budget;

    fn part(first: u64, end: Option<u64>) -> BodyPart {
        BodyPart::range(
            BodyId {
                shard: 0,
                number: 0,
            },
            first,
            end,
        )
    }

    fn read(body: &mut SharedBody, reader: &mut BodyReader) -> Read {
        body.read(reader, &mut BodyWakes::default())
    }

    fn piece(text: &'static str) -> Read {
        Read::Bytes(Bytes::from_static(text.as_bytes()))
    }

    /// Failure: a follower gets a byte twice or never, or waits for the end of the body.
    #[test]
    fn readers_get_each_byte_once_as_it_comes() {
        let (mut body, mut wakes) = (SharedBody::default(), BodyWakes::default());
        let mut early = body.reader(&part(0, None)).unwrap();
        assert_eq!(read(&mut body, &mut early), Read::Wait);
        body.push(b"hello ", &mut wakes);
        assert_eq!(
            (std::mem::take(&mut wakes.readers), wakes.writer),
            (vec![early.id()], false)
        );
        assert_eq!(read(&mut body, &mut early), piece("hello "));
        let mut late = body.reader(&part(0, None)).unwrap();
        let mut middle = body.reader(&part(4, Some(8))).unwrap();
        assert_eq!(
            (read(&mut body, &mut middle), middle.left()),
            (piece("o "), Some(2))
        );
        body.push(b"world", &mut wakes);
        assert_eq!(wakes, BodyWakes::default(), "nobody waited");
        assert_eq!(
            (read(&mut body, &mut late), read(&mut body, &mut early)),
            (piece("hello world"), piece("world"))
        );
        assert_eq!(
            (read(&mut body, &mut middle), read(&mut body, &mut middle)),
            (piece("wo"), Read::End)
        );
        let mut ahead = body.reader(&part(20, None)).unwrap();
        assert_eq!(
            (read(&mut body, &mut early), read(&mut body, &mut ahead)),
            (Read::Wait, Read::Wait)
        );
        let collected = body.take_collected().unwrap();
        assert_eq!(collected, b"hello world");
        let mut last = body.reader(&part(0, None)).unwrap();
        assert_eq!(
            (read(&mut body, &mut early), read(&mut body, &mut last)),
            (Read::Wait, Read::Wait)
        );
        body.finish(BodyEnd(End::Whole(collected.into())), &mut wakes);
        assert_eq!(wakes.readers.len(), 3);
        assert_eq!(
            (read(&mut body, &mut early), read(&mut body, &mut ahead)),
            (Read::End, Read::End)
        );
        assert_eq!(read(&mut body, &mut last), piece("hello world"));
    }

    /// Failure: a cut body looks complete to its followers.
    #[test]
    fn what_breaks_off_breaks_off_for_all() {
        let (mut body, mut wakes) = (SharedBody::default(), BodyWakes::default());
        let budget = Budget::new(1000);
        let mut reader = body.reader(&part(0, None)).unwrap();
        body.push(b"half", &mut wakes);
        body.finish(BodyEnd(End::Broken(budget.reserve(4).unwrap())), &mut wakes);
        assert_eq!(
            (read(&mut body, &mut reader), read(&mut body, &mut reader)),
            (piece("half"), Read::Broken)
        );
        assert_eq!(budget.used(), 4);
        body.leave(reader, &mut wakes);
        assert_eq!(budget.used(), 0);
    }

    /// Failure: a body without end fills the memory, or its writer waits without end for a reader
    /// that has left.
    #[test]
    fn a_window_holds_no_more_than_its_slowest_reader_needs() {
        let (mut body, mut wakes) = (SharedBody::default(), BodyWakes::default());
        let (mut fast, slow) = (
            body.reader(&part(0, None)).unwrap(),
            body.reader(&part(0, None)).unwrap(),
        );
        let chunk = [7; limits::PIECE_BYTES];
        body.push(&chunk, &mut wakes);
        body.become_window(0, &mut wakes);
        assert!(
            body.reader(&part(0, None)).is_none(),
            "nobody joins a window"
        );
        assert_eq!(body.room(), Room::Wait, "a piece is ahead already");
        body.become_window(limits::WINDOW_BYTES, &mut wakes);
        assert!(std::mem::take(&mut wakes.writer), "there is room now");
        while body.room() == Room::Ready {
            body.push(&chunk, &mut wakes);
        }
        assert_eq!(body.held().0, limits::WINDOW_BYTES);
        while matches!(read(&mut body, &mut fast), Read::Bytes(_)) {}
        assert_eq!(body.room(), Room::Wait, "the slow one holds it");
        body.leave(slow, &mut wakes);
        assert!(wakes.writer);
        assert_eq!((body.room(), body.held().0), (Room::Ready, 0));
        body.leave(fast, &mut wakes);
        assert_eq!(body.room(), Room::NoReader);
    }
}
