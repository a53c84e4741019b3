//! A disk that keeps no promise but the one about syncs.

use larder_disk::Storage;
use larder_units::Stream;
use std::cell::RefCell;
use std::io;
use std::ops::Range;

/// What a program sees, what would be left after a crash, and the writes in between.
pub struct Disk(RefCell<State>);

struct State {
    view: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
    stream: Stream,
    /// Reads of records fail, or return something else.
    lies: bool,
    /// Reads of any of these bytes fail.
    broken: Range<usize>,
    /// How many more writes and syncs succeed.
    writes_left: Option<u32>,
}

impl Disk {
    pub fn new(bytes: u64, stream: Stream) -> Disk {
        let empty = vec![0; bytes as usize];
        let (view, durable, unsynced) = (empty.clone(), empty, Vec::new());
        Disk(RefCell::new(State {
            view,
            durable,
            unsynced,
            stream,
            lies: false,
            broken: 0..0,
            writes_left: None,
        }))
    }

    pub fn set_lies(&self, lies: bool) {
        self.0.borrow_mut().lies = lies;
    }

    /// A sector can be read no more.
    pub fn set_broken(&self, bytes: Range<usize>) {
        self.0.borrow_mut().broken = bytes;
    }

    pub fn fail_after(&self, writes: u32) {
        self.0.borrow_mut().writes_left = Some(writes);
    }

    /// Flips a bit that lasts.
    pub fn rot(&self, at: usize) {
        let state = &mut *self.0.borrow_mut();
        state.durable[at] ^= 1;
        state.view[at] ^= 1;
    }

    /// Power fails: of what was not synced, any parts have reached the disk, in any order.
    pub fn crash(&self) {
        let state = &mut *self.0.borrow_mut();
        let mut unsynced = std::mem::take(&mut state.unsynced);
        while !unsynced.is_empty() {
            let next = state.stream.below(unsynced.len() as u64) as usize;
            let (at, bytes) = unsynced.swap_remove(next);
            let mut cut = || state.stream.below(bytes.len() as u64 + 1) as usize;
            let (from, to) = match cut() % 4 {
                0 => continue,
                1 => (0, bytes.len()),
                2 => (0, cut()),
                _ => (cut(), bytes.len()),
            };
            state.durable[at + from..at + to].copy_from_slice(&bytes[from..to]);
        }
        state.view = state.durable.clone();
    }
}

impl Disk {
    /// Power fails: everything has reached the disk, but what was not synced of these bytes.
    pub fn crash_but(&self, lost: Range<usize>, and: Range<usize>) {
        let state = &mut *self.0.borrow_mut();
        for (at, bytes) in std::mem::take(&mut state.unsynced) {
            let written = (at..)
                .zip(bytes)
                .filter(|(at, _)| !lost.contains(at) && !and.contains(at));
            for (at, byte) in written {
                state.durable[at] = byte;
            }
        }
        state.view = state.durable.clone();
    }
}

impl State {
    fn may_write(&mut self) -> io::Result<()> {
        match &mut self.writes_left {
            Some(0) => Err(io::Error::other("no space left")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Storage for Disk {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        if state.broken.start < at as usize + into.len() && (at as usize) < state.broken.end {
            return Err(io::Error::other("a sector cannot be read"));
        }
        into.copy_from_slice(&state.view[at as usize..at as usize + into.len()]);
        if state.lies && !into.is_empty() {
            match state.stream.below(4) {
                0 => return Err(io::Error::other("the disk cannot read")),
                1 => {
                    into[state.stream.below(into.len() as u64) as usize] ^=
                        1 << state.stream.below(8)
                }
                2 => into.rotate_left(1),
                _ => {}
            }
        }
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        state.may_write()?;
        state.view[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        state.unsynced.push((at as usize, bytes.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        state.may_write()?;
        state.durable = state.view.clone();
        state.unsynced.clear();
        Ok(())
    }
}
