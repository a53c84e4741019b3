mod interleavings;
mod two_processes;

use super::*;
use larder_units::{Stream, Streams};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use proptest::prelude::*;
use rustix::fs::{fstat, ftruncate};
use rustix::io::ioctl_fionread;
use std::collections::VecDeque;
use std::time::Duration;

/// The indices overflow within each test.
const CARRIED: u32 = u32::MAX - 300_000;

fn pair() -> [SharedStream; 2] {
    let (here, descriptors) = SharedStream::create_at(CARRIED).unwrap();
    [here, SharedStream::open_at(descriptors, CARRIED).unwrap()]
}

/// Returns the bytes of a read or write; `None` if it would block.
fn progress(result: io::Result<usize>) -> Option<usize> {
    match result {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn bytes_are_lost_repeated_or_mixed_up(
        steps in prop::collection::vec((0usize..2, any::<bool>(), 1usize..RING_BYTES * 3 / 2), 1..30),
    ) {
        let mut ends = pair();
        let mut expected = [VecDeque::<u8>::new(), VecDeque::new()];
        // A writer that has found its ring full waits for half of it.
        let mut is_full = [false; 2];
        let mut next = 0u8;
        for (end, is_write, length) in steps {
            if is_write {
                let bytes: Vec<u8> = (0..length).map(|at| next.wrapping_add((at % 251) as u8)).collect();
                next = next.wrapping_add(97);
                let room = RING_BYTES - expected[end].len();
                let waits = (is_full[end] || room == 0) && room < RING_HALF;
                let written = progress(ends[end].write(&bytes));
                prop_assert_eq!(written, Some(length.min(room)).filter(|_| !waits));
                is_full[end] = waits || length > room;
                expected[end].extend(&bytes[..written.unwrap_or(0)]);
            } else {
                let mut bytes = vec![0; length];
                let from = &mut expected[1 - end];
                let read = progress(ends[end].read(&mut bytes));
                prop_assert_eq!(read, Some(length.min(from.len())).filter(|count| *count > 0));
                prop_assert!(from.drain(..read.unwrap_or(0)).eq(bytes[..read.unwrap_or(0)].iter().copied()));
                prop_assert_eq!(ends[end].may_have_more(), read == Some(length));
            }
        }
    }
}

/// One end on a thread of its own: it sends and receives so many bytes, in random pieces.
struct End {
    stream: SharedStream,
    poll: Poll,
    random: Stream,
    to_send: usize,
    to_receive: usize,
}

impl End {
    fn new(stream: SharedStream, to_send: usize, to_receive: usize, seed: u64) -> End {
        let poll = Poll::new().unwrap();
        let bell = stream.as_raw_fd();
        poll.registry()
            .register(&mut SourceFd(&bell), Token(0), Interest::READABLE)
            .unwrap();
        End {
            stream,
            poll,
            random: Streams::new(seed).stream("pieces"),
            to_send,
            to_receive,
        }
    }

    /// Returns a length: often of one packet, sometimes of more than the ring holds.
    fn piece(&mut self) -> usize {
        let most = [200, 9000, 100_000, 400_000][self.random.below(4) as usize];
        1 + self.random.below(most) as usize
    }

    /// Reads until there is no more, and writes until it would block, after each event, as an event
    /// loop does. Sometimes polls before it waits. Calls `on_received` with the number of bytes
    /// that have come. Returns the numbers of bytes sent and received, when all are or the other
    /// end is gone.
    fn run(mut self, mut on_received: impl FnMut(usize)) -> (usize, usize) {
        let (mut sent, mut received) = (0, 0);
        let (mut readable, mut writable, mut is_over) = (true, true, false);
        let mut events = Events::with_capacity(4);
        let byte = |at: usize| (at % 251) as u8;
        while sent < self.to_send || received < self.to_receive {
            let is_sending = writable && sent < self.to_send;
            if is_sending {
                let length = self.piece().min(self.to_send - sent);
                let bytes: Vec<u8> = (sent..sent + length).map(byte).collect();
                let wrote = progress(self.stream.write(&bytes));
                sent += wrote.unwrap_or(0);
                writable = wrote.is_some();
            }
            if readable {
                let mut bytes = vec![0; self.piece()];
                let count = progress(self.stream.read(&mut bytes)).unwrap_or(0);
                assert!(
                    bytes[..count]
                        .iter()
                        .enumerate()
                        .all(|(at, found)| *found == byte(received + at))
                );
                received += count;
                readable = self.stream.may_have_more();
                on_received(received);
            } else if !is_sending {
                if is_over {
                    break;
                }
                let polls = self.random.below(3) * 100;
                if (0..polls).any(|_| self.stream.poll()) || self.stream.wait() {
                    readable = true;
                    continue;
                }
                self.poll
                    .poll(&mut events, Some(Duration::from_secs(30)))
                    .unwrap();
                assert!(
                    !events.is_empty(),
                    "a wake-up was lost after {sent} and {received} bytes"
                );
                self.stream.on_event();
                (readable, writable) = (true, true);
                is_over = events.iter().any(|event| event.is_read_closed());
            }
        }
        (sent, received)
    }
}

#[test]
fn a_wake_up_between_two_threads_is_lost_or_their_bytes_are() {
    for (seed, (there, back)) in [(4 << 20, 4 << 20), (3 << 20, 1 << 16), (3000, 2 << 20)]
        .into_iter()
        .enumerate()
    {
        let [first, second] = pair();
        let first = End::new(first, there, back, 2 * seed as u64);
        let second = End::new(second, back, there, 2 * seed as u64 + 1);
        let other = std::thread::spawn(move || second.run(|_| {}));
        first.run(|_| {});
        other.join().unwrap();
    }
}

#[test]
fn a_wake_up_of_an_end_that_has_polled_is_lost() {
    let [mut first, second] = pair();
    let (rounds, bell) = (20_000, first.as_raw_fd());
    let mut poll = Poll::new().unwrap();
    poll.registry()
        .register(&mut SourceFd(&bell), Token(0), Interest::READABLE)
        .unwrap();
    let echo = End::new(second, rounds, rounds, 7);
    let echo = std::thread::spawn(move || {
        let mut echo = echo;
        let mut events = Events::with_capacity(4);
        let mut echoed = 0;
        while echoed < rounds {
            match progress(echo.stream.read(&mut [0; 10])) {
                Some(count) => echoed += progress(echo.stream.write(&[9; 10][..count])).unwrap(),
                None => {
                    echo.poll.poll(&mut events, None).unwrap();
                    echo.stream.on_event();
                }
            }
        }
    });
    let mut events = Events::with_capacity(4);
    for round in 0..rounds {
        assert_eq!(first.write(&[1]).unwrap(), 1);
        // Polls for a while that varies, so that the answer comes before, within and after it.
        let came = (0..round % 300).any(|_| first.poll()) || first.wait();
        let mut came = if came {
            Some(first.read(&mut [0; 10]).unwrap())
        } else {
            None
        };
        while came.is_none() {
            poll.poll(&mut events, Some(Duration::from_secs(20)))
                .unwrap();
            assert!(!events.is_empty(), "a wake-up was lost in round {round}");
            first.on_event();
            came = progress(first.read(&mut [0; 10]));
        }
        assert_eq!(came, Some(1));
    }
    echo.join().unwrap();
}

#[test]
fn an_end_that_polls_is_rung_or_one_that_waits_is_not() {
    let [mut polling, mut other] = pair();
    let rung = |polling: &SharedStream| ioctl_fionread(polling.as_fd()).unwrap();
    assert!(!polling.poll());
    for _ in 0..3 {
        other.write(&[1; 10]).unwrap();
        assert!(polling.poll());
        assert_eq!(polling.read(&mut [0; 100]).unwrap(), 10);
        assert!(!polling.may_have_more());
        assert_eq!(progress(polling.read(&mut [0; 100])), None);
    }
    assert_eq!(rung(&polling), 0);
    assert!(!polling.wait());
    other.write(&[1; 10]).unwrap();
    assert_eq!(rung(&polling), 1);
    // The wait tells what has come before it.
    assert!(polling.poll() && polling.wait());
}

#[test]
fn impossible_indices_are_believed() {
    for wrong in [RING_BYTES as u32 + 1, u32::MAX / 2, u32::MAX] {
        let [mut first, second] = pair();
        first.write(b"fine").unwrap();
        // The reader's index claims more than was written, and the writer's more than fits.
        second
            .mapping
            .index(Ring(0), Index::Read)
            .store(CARRIED.wrapping_add(4).wrapping_sub(wrong), Relaxed);
        second
            .mapping
            .index(Ring(1), Index::Written)
            .store(CARRIED.wrapping_add(wrong), Relaxed);
        for failed in [first.write(b"more"), first.read(&mut [0; 64])] {
            assert_eq!(
                failed.unwrap_err().kind(),
                io::ErrorKind::InvalidData,
                "{wrong}"
            );
        }
    }
}

#[test]
fn memory_that_may_shrink_ends_the_process() {
    let (_here, mut descriptors) = SharedStream::create().unwrap();
    assert!(ftruncate(&descriptors.memory, 0).is_err(), "it is sealed");
    let (_other, theirs) = SharedStream::create().unwrap();
    for (length, seals) in [
        (STREAM_BYTES, SealFlags::GROW | SealFlags::SEAL),
        (STREAM_BYTES - 4096, SealFlags::GROW | SealFlags::SHRINK),
        (0, SealFlags::GROW | SealFlags::SHRINK),
    ] {
        let memory = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&memory, length as u64).unwrap();
        fcntl_add_seals(&memory, seals).unwrap();
        descriptors.memory = memory;
        let copy = |descriptor: &OwnedFd| descriptor.try_clone().unwrap();
        let given = Descriptors {
            memory: copy(&descriptors.memory),
            ear: copy(&theirs.ear),
            bell: copy(&theirs.bell),
        };
        assert_eq!(
            SharedStream::open(given).unwrap_err().kind(),
            io::ErrorKind::InvalidData,
            "{length}"
        );
    }
    let no_memory = Descriptors {
        memory: theirs.ear.try_clone().unwrap(),
        ear: theirs.ear,
        bell: theirs.bell,
    };
    assert!(SharedStream::open(no_memory).is_err());
}

#[test]
fn a_peer_that_never_empties_its_pipe_or_closes_it_blocks_the_writer() {
    let (mut first, descriptors) = SharedStream::create().unwrap();
    // The peer makes its pipe as small as it can, and waits again after each byte.
    rustix::pipe::fcntl_setpipe_size(&descriptors.ear, 4096).unwrap();
    let flag = |first: &SharedStream| {
        first
            .mapping
            .index(Ring(0), Index::ReaderWaits)
            .store(1, Relaxed)
    };
    for _ in 0..10_000 {
        flag(&first);
        first.write(&[1]).unwrap();
    }
    drop(descriptors);
    flag(&first);
    first.write(&[1]).unwrap();
}

#[test]
fn a_writer_is_woken_for_a_few_bytes_of_room() {
    let [mut writer, mut reader] = pair();
    let rung = |writer: &SharedStream| ioctl_fionread(writer.as_fd()).unwrap();
    assert_eq!(
        progress(writer.write(&vec![1; RING_BYTES + 1])),
        Some(RING_BYTES)
    );
    for read in [1, RING_HALF - 2] {
        assert_eq!(progress(writer.write(&[2])), None);
        assert_eq!(reader.read(&mut vec![0; read]).unwrap(), read);
        assert_eq!((progress(writer.write(&[2])), rung(&writer)), (None, 0));
    }
    assert_eq!(reader.read(&mut [0]).unwrap(), 1);
    assert_eq!(rung(&writer), 1, "half of the ring is free");
    assert_eq!(
        progress(writer.write(&vec![2; RING_BYTES])),
        Some(RING_HALF)
    );
}

#[test]
fn a_peer_that_adds_a_few_bytes_at_a_time_is_rung_more_than_once_a_read() {
    let (mut reader, descriptors) = SharedStream::create().unwrap();
    let ear = descriptors.ear.try_clone().unwrap();
    let mut peer = SharedStream::open(descriptors).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                let _ = peer.write(&[1; 3]);
                // It claims to wait for room.
                peer.mapping
                    .index(Ring(1), Index::WriterWaits)
                    .store(1, Relaxed);
            }
        });
        let mut buffer = vec![0; 64 << 10];
        let (mut received, mut most) = (0, 0);
        while received < 4 << 20 {
            received += progress(reader.read(&mut buffer)).unwrap_or(0);
            let rung = ioctl_fionread(&ear).unwrap();
            most = most.max(rustix::io::read(&ear, &mut vec![0; rung as usize]).unwrap_or(0));
        }
        is_over.store(true, Relaxed);
        assert!(most <= 1, "{most}");
    });
}

#[test]
fn memory_is_not_allocated_until_it_is_used_or_a_hole_ends_the_process() {
    let (mut first, descriptors) = SharedStream::create().unwrap();
    let memory = descriptors.memory.try_clone().unwrap();
    let allocated = || fstat(&memory).unwrap().st_blocks as usize * 512;
    assert!(allocated() >= STREAM_BYTES, "{}", allocated());
    let mut second = SharedStream::open(descriptors).unwrap();
    first.write(&[7; 9000]).unwrap();
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(
        &memory,
        hole,
        limits::INDICES_BYTES as u64,
        2 * RING_BYTES as u64,
    )
    .unwrap();
    assert!(allocated() < STREAM_BYTES);
    let mut bytes = [1; 9000];
    assert_eq!(second.read(&mut bytes).unwrap(), 9000);
    assert_eq!(bytes, [0; 9000]);
    fallocate(&memory, hole, 0, STREAM_BYTES as u64).unwrap();
    // All indices are zero now. The other end has read and written 9000 bytes.
    assert_eq!(
        second.read(&mut bytes).unwrap_err().kind(),
        io::ErrorKind::InvalidData
    );
    assert_eq!(progress(second.write(&bytes)), Some(9000));
}
