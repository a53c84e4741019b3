//! Bodies in progress as a host keeps them: each until it has ended and nobody reads it. Every call
//! checks the wakes: who had to wait goes on only after the body has named it.

use larder_http::{
    BodyEnd, BodyId, BodyPart, BodyReader, BodyWakes, Fill, Pushed, Read, ReaderId, Room,
    SharedBody,
};
use std::collections::{HashMap, HashSet};

#[derive(Default)]
pub struct Bodies(HashMap<BodyId, Hosted>);

#[derive(Default)]
struct Hosted {
    body: SharedBody,
    wakes: BodyWakes,
    readers: usize,
    /// Readers that have to be woken before they go on.
    waiting: HashSet<usize>,
    writer_waits: bool,
    has_ended: bool,
}

/// A reader of one of the bodies.
#[derive(Debug)]
pub struct Reader {
    body: BodyId,
    reader: BodyReader,
}

impl Bodies {
    pub fn begin(&mut self, fill: &Fill) {
        assert!(
            self.0.insert(fill.body(), Hosted::default()).is_none(),
            "two bodies have one number"
        );
    }

    pub fn push(&mut self, fill: &mut Fill, piece: &[u8]) -> Pushed {
        let hosted = self.hosted(fill.body());
        let pushed = fill.push(piece, &mut hosted.body, &mut hosted.wakes);
        hosted.wake();
        pushed
    }

    pub fn room(&mut self, fill: &Fill) -> Room {
        let hosted = self.hosted(fill.body());
        let room = hosted.body.room();
        assert!(
            !hosted.writer_waits || room == Room::Wait,
            "the writer was not woken"
        );
        hosted.writer_waits = room == Room::Wait;
        room
    }

    /// What was collected of the body.
    pub fn take_collected(&mut self, fill: &Fill) -> Option<Vec<u8>> {
        self.hosted(fill.body()).body.take_collected()
    }

    pub fn finish(&mut self, body: BodyId, end: BodyEnd) {
        let hosted = self.hosted(body);
        hosted.body.finish(end, &mut hosted.wakes);
        hosted.has_ended = true;
        hosted.wake();
        self.free(body);
    }

    /// `None` where it is too late.
    pub fn reader(&mut self, part: &BodyPart) -> Option<Reader> {
        let hosted = self.0.get_mut(&part.body)?;
        let reader = hosted.body.reader(part)?;
        hosted.readers += 1;
        Some(Reader {
            body: part.body,
            reader,
        })
    }

    pub fn read(&mut self, reader: &mut Reader) -> Read {
        let hosted = self.hosted(reader.body);
        let read = hosted.body.read(&mut reader.reader, &mut hosted.wakes);
        let id: ReaderId = reader.reader.id();
        assert!(
            read == Read::Wait || !hosted.waiting.contains(&id.index()),
            "a reader was not woken"
        );
        if read == Read::Wait {
            hosted.waiting.insert(id.index());
        }
        hosted.wake();
        read
    }

    pub fn leave(&mut self, reader: Reader) {
        let Reader { body, reader } = reader;
        let hosted = self.hosted(body);
        hosted.waiting.remove(&reader.id().index());
        hosted.body.leave(reader, &mut hosted.wakes);
        hosted.readers -= 1;
        hosted.wake();
        self.free(body);
    }

    fn hosted(&mut self, body: BodyId) -> &mut Hosted {
        self.0.get_mut(&body).expect("it is in progress or read")
    }

    fn free(&mut self, body: BodyId) {
        let hosted = self.hosted(body);
        if hosted.has_ended && hosted.readers == 0 {
            self.0.remove(&body);
        }
    }
}

impl Hosted {
    fn wake(&mut self) {
        for reader in self.wakes.readers.drain(..) {
            assert!(
                self.waiting.remove(&reader.index()),
                "a reader that did not wait is woken"
            );
        }
        if std::mem::take(&mut self.wakes.writer) {
            assert!(
                std::mem::take(&mut self.writer_waits),
                "a writer that did not wait is woken"
            );
        }
    }
}
