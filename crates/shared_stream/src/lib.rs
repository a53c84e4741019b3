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
//! F_ADD_SEALS). Nothing that the other process does blocks this one, and one call copies at most
//! what its caller asked for, in a few pieces. The end of the other process is not noticed here:
//! the Unix socket stays open beside the stream, and tells it.
//!
//! The memory is allocated when it is created, so no access to it needs a new page. A system that
//! promises no more memory than it has (`vm.overcommit_memory` 2) refuses the stream without
//! memory; others, and a control group at its limit, end a process to make room, as for any
//! allocation. One case is left: the other end may punch a hole into the memory (fallocate(2),
//! FALLOC_FL_PUNCH_HOLE). A hole reads as zeros, and takes a new page. Where `vm.overcommit_memory`
//! is 2 and all memory is committed, the system has no page and ends this process by SIGBUS.
//! F_SEAL_WRITE would forbid holes, and writing too. F_SEAL_FUTURE_WRITE forbids holes and further
//! mappings to write, so it needs a memory for each end, which that end alone maps to write; this
//! is not built.
//!
//! How an end waits: `flag.rs`.

pub mod limits;

mod bell;
mod flag;
mod mapping;
#[cfg(test)]
mod tests;

use bell::{Bell, Ear};
use limits::{LOOKS_PER_READ, RING_BYTES, STREAM_BYTES};
use mapping::{Index, Mapping, Ring};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};
use rustix::io::retry_on_intr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A writer that has found the ring full waits until so many bytes are free.
const RING_HALF: usize = RING_BYTES / 2;

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
    /// True if the last read ended although more may have come, and this end is not woken for it.
    may_have_more: bool,
    /// True from [`SharedStream::poll`] to [`SharedStream::wait`]: the other end does not wake this
    /// one.
    is_polled: bool,
    /// True after the outgoing ring was full, until half of it is free.
    is_full: bool,
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
        // This allocates all pages now. A system without memory refuses here, and not by a signal
        // when the memory is used.
        retry_on_intr(|| fallocate(&memory, FallocateFlags::empty(), 0, STREAM_BYTES as u64))?;
        fcntl_add_seals(
            &memory,
            SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
        )?;
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
            may_have_more: false,
            is_polled: false,
            is_full: false,
        };
        Ok((
            stream,
            Descriptors {
                memory,
                ear: ear.into(),
                bell: bell.into(),
            },
        ))
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
            may_have_more: false,
            is_polled: false,
            is_full: false,
        })
    }

    /// Reads what is there, up to the length of `buffer`. Unless [`may_have_more`] is true then,
    /// there is no more, and the descriptor reports an event when there is; after [`poll`], the
    /// next [`poll`] or [`wait`] tells it instead.
    ///
    /// [`may_have_more`]: SharedStream::may_have_more
    /// [`poll`]: SharedStream::poll
    /// [`wait`]: SharedStream::wait
    ///
    /// # Errors
    /// `WouldBlock`, or `InvalidData` if the other end's index is impossible.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (mut filled, mut left) = (0, 0);
        self.may_have_more = true;
        for _ in 0..LOOKS_PER_READ {
            let available = self.available()?;
            let count = available.min(buffer.len() - filled);
            self.mapping.copy_out(
                self.incoming,
                self.read,
                &mut buffer[filled..filled + count],
            );
            self.read = self.read.wrapping_add(count as u32);
            self.mapping
                .index(self.incoming, Index::Read)
                .store(self.read, Release);
            (filled, left) = (filled + count, available - count);
            if filled == buffer.len() {
                break;
            }
            let is_empty = if self.is_polled {
                available == 0
            } else {
                self.waits_for_bytes()?
            };
            if is_empty {
                self.may_have_more = false;
                break;
            }
        }
        if filled == 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if left <= RING_HALF {
            self.wake(self.incoming, Index::WriterWaits);
        }
        Ok(filled)
    }

    /// Returns true if there may be more to read after the last [`read`], although no event comes
    /// for it.
    ///
    /// [`read`]: SharedStream::read
    pub fn may_have_more(&self) -> bool {
        self.may_have_more
    }

    /// Writes as much as there is room for. `WouldBlock` means that the ring is full; it lasts
    /// until half of the ring is free, when the descriptor reports an event.
    ///
    /// # Errors
    /// `WouldBlock`, or `InvalidData` if the other end's index is impossible.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.is_full || self.room()? == 0) && self.waits_for_room()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = self.room()?.min(bytes.len());
        self.is_full = count < bytes.len();
        self.mapping
            .copy_in(self.outgoing, self.written, &bytes[..count]);
        self.written = self.written.wrapping_add(count as u32);
        self.mapping
            .index(self.outgoing, Index::Written)
            .store(self.written, Release);
        self.wake(self.outgoing, Index::ReaderWaits);
        Ok(count)
    }

    /// Returns true if there is something to read, without a system call. Until [`wait`] is called,
    /// the other end does not wake this one.
    ///
    /// [`wait`]: SharedStream::wait
    pub fn poll(&mut self) -> bool {
        self.is_polled = true;
        let waits = self.mapping.index(self.incoming, Index::ReaderWaits);
        if waits.load(Relaxed) != 0 {
            waits.store(0, Relaxed);
        }
        self.mapping
            .index(self.incoming, Index::Written)
            .load(Acquire)
            != self.read
    }

    /// Ends polling: the descriptor reports an event when something comes. Returns true if
    /// something is there already.
    pub fn wait(&mut self) -> bool {
        self.is_polled = false;
        !self.waits_for_bytes().unwrap_or(false)
    }

    /// Call it after each event of the descriptor, before the next [`read`] and [`write`]: the
    /// event may be for either.
    ///
    /// [`read`]: SharedStream::read
    /// [`write`]: SharedStream::write
    pub fn on_event(&mut self) {
        self.ear.empty();
    }

    /// Sets the flag that this end waits for bytes, unless some have come. Returns true if none
    /// have.
    fn waits_for_bytes(&self) -> io::Result<bool> {
        let mut available = Ok(0);
        let flag = self.mapping.index(self.incoming, Index::ReaderWaits);
        flag::begins_to_wait(flag, || {
            available = self.available();
            !matches!(available, Ok(0))
        });
        available.map(|available| available == 0)
    }

    /// Sets the flag that this end waits for room, unless half of the ring is free. Returns true if
    /// it is not.
    fn waits_for_room(&mut self) -> io::Result<bool> {
        let mut room = Ok(0);
        let flag = self.mapping.index(self.outgoing, Index::WriterWaits);
        self.is_full = flag::begins_to_wait(flag, || {
            room = self.room();
            !matches!(room, Ok(..RING_HALF))
        });
        room.map(|room| room < RING_HALF)
    }

    /// Returns the bytes that may be read.
    fn available(&self) -> io::Result<usize> {
        let written = self
            .mapping
            .index(self.incoming, Index::Written)
            .load(Acquire);
        checked(written.wrapping_sub(self.read))
    }

    /// Returns the bytes that may be written.
    fn room(&self) -> io::Result<usize> {
        let read = self.mapping.index(self.outgoing, Index::Read).load(Acquire);
        Ok(RING_BYTES - checked(self.written.wrapping_sub(read))?)
    }

    fn wake(&self, ring: Ring, flag: Index) {
        flag::wake(self.mapping.index(ring, flag), || self.bell.ring());
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
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the other end has spoilt the shared memory",
        )),
    }
}
