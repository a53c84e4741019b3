//! A byte stream between two processes of one machine: two rings in shared memory, and two pipes
//! that wake an end which waits. A busy stream makes no system call.
//!
//! [`SharedStream::create`] returns one end, and the descriptors of the other end. They travel over
//! a Unix socket (SCM_RIGHTS), and [`SharedStream::open`] makes an end of them. Both ends read and
//! write as from a non-blocking socket that is registered with an edge-triggered poll: see
//! [`SharedStream::read`].
//!
//! The other end may be hostile. Its indices are checked, bytes are copied once before anything
//! looks at them, and the memory cannot shrink, because it is sealed (memfd_create(2),
//! F_ADD_SEALS). Nothing that the other process does blocks this one. The end of the other process
//! is not noticed here: the Unix socket stays open beside the stream, and tells it.
//!
//! How an end waits: it sets its flag, looks again, and then waits for its descriptor. The other
//! end changes its index, and then looks at the flag. A fence between the two steps on both sides
//! makes sure that one of them sees the other's change.

pub mod limits;

mod bell;
mod mapping;
#[cfg(test)]
mod tests;

use bell::{Bell, Ear};
use limits::{RING_BYTES, STREAM_BYTES};
use mapping::{Index, Mapping, Ring};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;

/// One end of a stream.
#[derive(Debug)]
pub struct SharedStream {
    mapping: Mapping,
    ear: Ear,
    bell: Bell,
    incoming: Ring,
    outgoing: Ring,
    /// The number of bytes that this end has read, and written, modulo 2^32. The copies in the
    /// shared memory are for the other end.
    read: u32,
    written: u32,
}

/// The descriptors of the other end.
#[derive(Debug)]
pub struct Descriptors {
    /// The sealed memory.
    pub memory: OwnedFd,
    /// The pipe that wakes the other end.
    pub ear: OwnedFd,
    /// The pipe by which it wakes this one.
    pub bell: OwnedFd,
}

impl SharedStream {
    /// Creates a stream. Returns one end, and the descriptors of the other.
    ///
    /// # Errors
    /// The system has no descriptor or no memory left.
    pub fn create() -> io::Result<(SharedStream, Descriptors)> {
        SharedStream::create_at(0)
    }

    /// Creates a stream that has carried so many bytes in each direction.
    fn create_at(carried: u32) -> io::Result<(SharedStream, Descriptors)> {
        let memory = sealable_memory()?;
        ftruncate(&memory, STREAM_BYTES as u64)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let (here, bell) = io::pipe()?;
        let (ear, there) = io::pipe()?;
        let mapping = Mapping::new(memory.as_fd())?;
        for ring in [Ring(0), Ring(1)] {
            mapping.index(ring, Index::Written).store(carried, Relaxed);
            mapping.index(ring, Index::Read).store(carried, Relaxed);
            // No end has looked, so the first bytes have to wake it.
            mapping.index(ring, Index::ReaderWaits).store(1, Release);
        }
        let stream = SharedStream {
            mapping,
            ear: Ear::new(here.into())?,
            bell: Bell::new(there.into())?,
            incoming: Ring(1),
            outgoing: Ring(0),
            read: carried,
            written: carried,
        };
        Ok((stream, Descriptors { memory, ear: ear.into(), bell: bell.into() }))
    }

    /// Opens the other end.
    ///
    /// # Errors
    /// The memory is not that of a stream, or the system refuses the mapping.
    pub fn open(descriptors: Descriptors) -> io::Result<SharedStream> {
        SharedStream::open_at(descriptors, 0)
    }

    fn open_at(descriptors: Descriptors, carried: u32) -> io::Result<SharedStream> {
        let Descriptors { memory, ear, bell } = descriptors;
        Ok(SharedStream {
            mapping: Mapping::new(memory.as_fd())?,
            ear: Ear::new(ear)?,
            bell: Bell::new(bell)?,
            incoming: Ring(0),
            outgoing: Ring(1),
            read: carried,
            written: carried,
        })
    }

    /// Reads what is there, up to the length of `buffer`. Fewer bytes, or `WouldBlock`, mean that
    /// there were no more; the descriptor reports an event when there are.
    ///
    /// # Errors
    /// `WouldBlock`, or `InvalidData` if the other end's index is impossible.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let available = self.available()?;
            if available == 0 {
                if self.waits_for_bytes()? { break } else { continue }
            }
            let count = available.min(buffer.len() - filled);
            self.mapping.copy_out(self.incoming, self.read, &mut buffer[filled..filled + count]);
            self.read = self.read.wrapping_add(count as u32);
            self.mapping.index(self.incoming, Index::Read).store(self.read, Release);
            filled += count;
            self.wake_writer(available - count);
        }
        match filled {
            0 if !buffer.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            filled => Ok(filled),
        }
    }

    /// Writes as much as there is room for. `WouldBlock` means that there is none; the descriptor
    /// reports an event when half of the ring is free.
    ///
    /// # Errors
    /// `WouldBlock`, or `InvalidData` if the other end's index is impossible.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut room = self.room()?;
        if room == 0 {
            self.ear.before_wait();
            self.mapping.index(self.outgoing, Index::WriterWaits).store(1, Relaxed);
            fence(SeqCst);
            room = self.room()?;
            if room == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.mapping.index(self.outgoing, Index::WriterWaits).store(0, Relaxed);
        }
        let count = room.min(bytes.len());
        self.mapping.copy_in(self.outgoing, self.written, &bytes[..count]);
        self.written = self.written.wrapping_add(count as u32);
        self.mapping.index(self.outgoing, Index::Written).store(self.written, Release);
        fence(SeqCst);
        self.wake(self.outgoing, Index::ReaderWaits);
        Ok(count)
    }

    /// Returns true if there is something to read, without a system call. Until [`read`] or
    /// [`wait`] is called, the other end does not wake this one.
    ///
    /// [`read`]: SharedStream::read
    /// [`wait`]: SharedStream::wait
    pub fn poll(&mut self) -> bool {
        let waits = self.mapping.index(self.incoming, Index::ReaderWaits);
        if waits.load(Relaxed) != 0 {
            waits.store(0, Relaxed);
        }
        self.mapping.index(self.incoming, Index::Written).load(Acquire) != self.read
    }

    /// Ends polling: the descriptor reports an event when something comes. Returns true if
    /// something is there already.
    pub fn wait(&mut self) -> bool {
        !self.waits_for_bytes().unwrap_or(false)
    }

    /// Sets the flag that this end waits for bytes, unless some have come. Returns true if none
    /// have.
    fn waits_for_bytes(&mut self) -> io::Result<bool> {
        let flag = Index::ReaderWaits;
        self.ear.before_wait();
        self.mapping.index(self.incoming, flag).store(1, Relaxed);
        fence(SeqCst);
        let waits = self.available()? == 0;
        if !waits {
            self.mapping.index(self.incoming, flag).store(0, Relaxed);
        }
        Ok(waits)
    }

    /// Returns the bytes that may be read.
    fn available(&self) -> io::Result<usize> {
        let written = self.mapping.index(self.incoming, Index::Written).load(Acquire);
        checked(written.wrapping_sub(self.read))
    }

    /// Returns the bytes that may be written.
    fn room(&self) -> io::Result<usize> {
        let read = self.mapping.index(self.outgoing, Index::Read).load(Acquire);
        Ok(RING_BYTES - checked(self.written.wrapping_sub(read))?)
    }

    /// Wakes a writer that waits, when half of the ring is free. `left` bytes are still in it.
    fn wake_writer(&self, left: usize) {
        if left <= RING_BYTES / 2 {
            fence(SeqCst);
            self.wake(self.incoming, Index::WriterWaits);
        }
    }

    fn wake(&self, ring: Ring, flag: Index) {
        let waits = self.mapping.index(ring, flag);
        if waits.load(Relaxed) != 0 && waits.swap(0, Relaxed) != 0 {
            self.bell.ring();
        }
    }
}

/// The descriptor to register for reading with an edge-triggered poll. Its event means that there
/// may be bytes or room. Nothing may read it.
impl AsFd for SharedStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ear.as_fd()
    }
}

impl AsRawFd for SharedStream {
    fn as_raw_fd(&self) -> RawFd {
        self.ear.as_fd().as_raw_fd()
    }
}

fn sealable_memory() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create("larder-face", flags | MemfdFlags::NOEXEC_SEAL) {
        // Linux before 6.3 does not know that flag; later ones may demand it (vm.memfd_noexec).
        Err(rustix::io::Errno::INVAL) => Ok(memfd_create("larder-face", flags)?),
        created => Ok(created?),
    }
}

/// Returns the bytes between two indices, of which the other process has chosen one.
fn checked(bytes: u32) -> io::Result<usize> {
    match bytes as usize {
        bytes if bytes <= RING_BYTES => Ok(bytes),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the other end has spoilt the shared memory")),
    }
}
