//! Applications whose packets go through shared memory: what is lost there, and hostile ones.

use super::{App, PATIENCE, Stage, interest, is_refusal};
use larder_client::{Client, Received, Transport};
use larder_packet::{DataBuilder, DigestSigner, InterestBuilder, Name, SharedMemory};
use larder_shared_stream::limits::{RING_BYTES, STREAM_BYTES};
use larder_shared_stream::{Descriptors, SharedStream};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

impl Stage {
    fn client(&self) -> Client {
        Client::connect_to(Transport::unix(self.socket())).unwrap()
    }

    /// Returns the number of faces that use shared memory.
    fn shared_faces(&self) -> usize {
        self.all_faces()
            .iter()
            .filter(|face| face["shared_memory"] == true)
            .count()
    }

    fn await_shared_faces(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.shared_faces() != count {
            assert!(
                Instant::now() < deadline,
                "{} faces use shared memory",
                self.shared_faces()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Tells a thread to end when it is dropped.
struct EndOf<'a>(&'a AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Requests numbered Data, 64 at a time, until each has come. Their lengths vary, so packets are
/// cut anywhere by the ends of rings and of reads.
fn exchange(connect: impl Fn() -> Client, packets: usize, while_it_runs: impl FnOnce()) {
    let prefix: Name = "/numbered".parse().unwrap();
    let numbered = |number: usize| {
        let mut name = prefix.clone();
        name.push_generic(number.to_string().as_bytes());
        name
    };
    let content = |number: usize| vec![number as u8; number * 7919 % 8200];
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        let mut producer = connect();
        producer.register(&prefix).unwrap();
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let deadline = producer.now() + Duration::from_millis(20);
                let answer = |_, received: Received<'_>, output: &mut larder_client::Output| {
                    let Received::Interest {
                        interest, token, ..
                    } = received
                    else {
                        return;
                    };
                    let number =
                        std::str::from_utf8(interest.name.components().last().unwrap().value)
                            .unwrap();
                    let content = content(number.parse().unwrap());
                    let data = DataBuilder::new(interest.name)
                        .content(&content)
                        .build(&DigestSigner)
                        .unwrap();
                    output.send(token, |out| out.extend(data));
                };
                producer.receive(Some(deadline), answer).unwrap();
            }
        });
        // The producer ends with this function, also where it fails.
        let _end = EndOf(is_over);
        let mut consumer = connect();
        let (mut sent, mut received) = (0, 0);
        let mut while_it_runs = Some(while_it_runs);
        while received < packets {
            while sent < packets.min(received + 64) {
                let interest = InterestBuilder::new(numbered(sent))
                    .nonce(sent as u32)
                    .lifetime(PATIENCE)
                    .build();
                consumer.output().send(None, |out| out.extend(interest));
                sent += 1;
            }
            let before = received;
            let count = |_, found: Received<'_>, _: &mut larder_client::Output| {
                let Received::Data { data, .. } = found else {
                    panic!("{found:?}")
                };
                let number: usize = data
                    .name
                    .to_string()
                    .rsplit('/')
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap();
                assert_eq!(data.content, content(number));
                received += 1;
            };
            let deadline = consumer.now() + PATIENCE;
            consumer.receive(Some(deadline), count).unwrap();
            assert!(
                received > before || consumer.now() < deadline,
                "nothing comes after {received} packets"
            );
            if received > packets / 2
                && let Some(look) = while_it_runs.take()
            {
                look();
            }
        }
    });
}

#[test]
fn packets_through_shared_memory_are_lost_or_it_is_not_freed() {
    let stage = Stage::new();
    exchange(|| stage.client(), 3000, || stage.await_shared_faces(2));
    stage.await_shared_faces(0);
    stage.await_figure("/ndn/pit_entries", |entries| entries == 0);
}

/// Failure: the node polls the memory for a while, sleeps, and is not woken for what comes then. It
/// would wake up for its housekeeping, a second later each time. A busy machine may delay a few.
#[test]
fn packets_after_a_pause_are_noticed_by_chance() {
    let stage = Stage::new();
    let mut client = stage.client();
    let (mut answered, mut late) = (0, 0);
    let deadline = client.now() + PATIENCE;
    while answered < 300 && client.now() < deadline {
        // Shorter and longer than a poll, and than the time for which an application counts as
        // active.
        std::thread::sleep(Duration::from_micros(answered * answered % 2000));
        client.output().send(None, |out| {
            out.extend(interest(&format!("/nobody/{answered}"), answered as u32))
        });
        let (before, sent) = (answered, Instant::now());
        while answered == before && client.now() < deadline {
            client
                .receive(Some(deadline), |_, _, _| answered += 1)
                .unwrap();
        }
        late += u32::from(sent.elapsed() > Duration::from_millis(900));
    }
    assert_eq!(answered, 300, "answered, most of them late");
    assert!(late <= 3, "{late} of 300 waited for the housekeeping");
}

#[test]
fn the_node_sleeps_at_once_while_packets_come_one_by_one() {
    let has_one_core = std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
    if super::shards() > 1 || has_one_core {
        // There it never polls.
        return;
    }
    let stage = Stage::new();
    let mut client = stage.client();
    let deadline = client.now() + PATIENCE;
    let mut nonce = 0;
    while stage.figure("/ndn/polls") == 0 {
        // The request for the figure makes the node sleep for a while.
        for _ in 0..100 {
            nonce += 1;
            client.output().send(None, |out| {
                out.extend(interest(&format!("/nobody/{nonce}"), nonce))
            });
            let mut is_answered = false;
            while !is_answered {
                client
                    .receive(Some(deadline), |_, _, _| is_answered = true)
                    .unwrap();
                assert!(client.now() < deadline, "it never polls");
            }
        }
    }
}

#[test]
fn applications_need_shared_memory_that_the_node_does_not_offer() {
    let stage = Stage::with("shared_memory = false");
    exchange(
        || stage.client(),
        300,
        || assert_eq!(stage.shared_faces(), 0),
    );
}

/// Copies bytes from one socket to the other, so many at a time. Descriptors are lost.
fn copy(mut from: UnixStream, mut to: UnixStream, most: usize) {
    let mut buffer = vec![0; most];
    while let Ok(1..) = from
        .read(&mut buffer)
        .map(|count| to.write_all(&buffer[..count]).map_or(0, |()| count))
    {}
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn applications_behind_a_relay_get_no_answer() {
    for most in [7, 100_000] {
        let stage = Stage::new();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("relay.sock");
        let (listener, node) = (UnixListener::bind(&path).unwrap(), stage.socket());
        // It ends with the test: each connection has two threads until its end.
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = UnixStream::connect(&node).unwrap();
                let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                std::thread::spawn(move || copy(near, far, most));
                std::thread::spawn(move || copy(far_too, near_too, most));
            }
        });
        let connect = || Client::connect_to(Transport::unix(path.clone())).unwrap();
        exchange(connect, 300, || assert_eq!(stage.shared_faces(), 0));
    }
}

/// An application that does as it likes with its shared memory.
struct Hostile {
    socket: UnixStream,
    memory: File,
    bell: File,
    stream: SharedStream,
}

impl Hostile {
    /// Agrees on shared memory.
    fn connect(stage: &Stage) -> Hostile {
        let mut socket = stage.unix().stream;
        socket.write_all(&SharedMemory::Request.packet()).unwrap();
        let descriptors = receive(&socket);
        socket.write_all(&SharedMemory::Switch.packet()).unwrap();
        let mut answer = [0; 8];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(answer, SharedMemory::Switch.packet());
        let memory = File::from(descriptors.memory.try_clone().unwrap());
        let bell = File::from(descriptors.bell.try_clone().unwrap());
        Hostile {
            socket,
            memory,
            bell,
            stream: SharedStream::open(descriptors).unwrap(),
        }
    }

    /// Writes an index into the shared memory: of ring 0, to the application, or of ring 1.
    fn set_index(&self, ring: u64, index: u64, value: u32) {
        self.memory
            .write_all_at(&value.to_ne_bytes(), (ring * 4 + index) * 128)
            .unwrap();
    }

    /// Sends an Interest that the node refuses. Returns false if it has closed the face.
    fn is_answered(&mut self, nonce: u32) -> bool {
        self.stream.write(&interest("/no/route", nonce)).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let mut answer = [0; 9000];
        self.socket
            .set_read_timeout(Some(Duration::from_millis(1)))
            .unwrap();
        loop {
            assert!(Instant::now() < deadline, "neither an answer nor the end");
            match self.stream.read(&mut answer) {
                Ok(length) => return is_refusal(&answer[..length]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            if self.socket.read(&mut [0]).is_ok_and(|read| read == 0) {
                return false;
            }
        }
    }
}

/// Receives the node's answer.
fn receive(socket: &UnixStream) -> Descriptors {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut answer = [0; 100];
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut answer)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )
    .unwrap();
    assert_eq!(answer[..received.bytes], SharedMemory::Offer.packet());
    let descriptors = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors,
        _ => panic!("no descriptors"),
    });
    let mut descriptors = descriptors.collect::<Vec<_>>().into_iter();
    let mut next = || descriptors.next().unwrap();
    Descriptors {
        memory: next(),
        ear: next(),
        bell: next(),
    }
}

#[test]
fn a_hostile_application_harms_more_than_its_own_face() {
    let stage = Stage::new();
    let mut bystander = stage.unix();
    let honest = Hostile::connect(&stage);
    let (written, read) = (0, 1);
    for (ring, index) in [(1, written), (0, read)] {
        let mut hostile = Hostile::connect(&stage);
        assert!(hostile.is_answered(1), "it behaves at first");
        hostile.set_index(ring, index, u32::MAX / 3);
        match ring {
            // The node looks at the index when it answers, or when it is woken.
            0 => assert!(hostile.stream.write(&interest("/no/route", 2)).unwrap() > 0),
            _ => hostile.bell.write_all(&[1]).unwrap(),
        }
        hostile.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(
            hostile.socket.read(&mut [0]).unwrap(),
            0,
            "its face stays open"
        );
        assert!(bystander.is_answered(10 + index as u32));
    }
    // A hole makes zeros of everything. The node survives it, and those zeros as packets.
    for (nonce, index) in [(3, 0), (4, RING_BYTES as u32)] {
        let mut hostile = Hostile::connect(&stage);
        assert!(hostile.is_answered(nonce));
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&hostile.memory, hole, 0, STREAM_BYTES as u64).unwrap();
        hostile.set_index(1, written, index);
        hostile.bell.write_all(&[1]).unwrap();
        hostile.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(
            hostile.socket.read(&mut [0]).unwrap(),
            0,
            "its face stays open"
        );
        assert!(bystander.is_answered(20 + nonce));
    }
    stage.await_shared_faces(1);
    drop(honest);
    stage.await_shared_faces(0);
}

#[test]
fn applications_beyond_the_limit_take_memory_or_get_no_answer() {
    let stage = Stage::new();
    let most = larder_node::limits::SHARED_FACES / super::shards() * super::shards();
    let applications: Vec<Hostile> = (0..most).map(|_| Hostile::connect(&stage)).collect();
    let mut next = stage.unix();
    next.send(&SharedMemory::Request.packet());
    assert!(next.is_answered(1), "it goes on by its socket");
    assert_eq!(stage.shared_faces(), most);
    drop(applications);
    stage.await_shared_faces(0);
    let mut offered = stage.unix();
    offered.send(&SharedMemory::Request.packet());
    let _descriptors = receive(&offered.stream);
    assert!(
        offered.is_answered(3),
        "it has not changed to the memory, and is answered by the socket"
    );
    assert_eq!(stage.shared_faces(), 0, "an offer counts as shared memory");
    drop(offered);
    stage.await_shared_faces(0);
    let mut next = Hostile::connect(&stage);
    assert!(next.is_answered(2));
}

/// Failure: the applications of one user have all places, and those of other users none. It needs a
/// root who connects as another user.
#[test]
fn one_user_takes_all_places_of_shared_memory() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let stage = Stage::new();
    for path in [stage.directory.path().to_owned(), stage.socket()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let mut crowd: Vec<App<UnixStream>> = (0..200).map(|_| stage.unix()).collect();
    for (nonce, application) in crowd.iter_mut().enumerate() {
        application.send(&SharedMemory::Request.packet());
        application.send(&interest("/no/route", nonce as u32));
    }
    // The node has seen the requests when it answers to what follows.
    for application in &mut crowd {
        application.stream.read_exact(&mut [0]).unwrap();
    }
    // It is the user of this thread only.
    let (user, root) = (
        rustix::process::Uid::from_raw(54_321),
        rustix::process::Uid::ROOT,
    );
    rustix::thread::set_thread_res_uid(root, user, root).unwrap();
    let shared: Vec<Hostile> = (0..8).map(|_| Hostile::connect(&stage)).collect();
    rustix::thread::set_thread_res_uid(root, root, root).unwrap();
    stage.await_shared_faces(shared.len());
}

#[test]
fn an_application_that_adds_a_few_bytes_at_a_time_keeps_the_node_busy() {
    let stage = Stage::new();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        for _ in 0..2 {
            let mut hostile = Hostile::connect(&stage);
            scope.spawn(move || {
                let packet = interest("/no/route", 1);
                let mut answers = vec![0; 1 << 20];
                for byte in packet.iter().cycle() {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    if hostile.stream.write(&[*byte]).is_err() {
                        std::thread::yield_now();
                    }
                    // It takes the answers, and claims to wait for room.
                    let _ = hostile.stream.read(&mut answers);
                    hostile.set_index(1, 3, 1);
                }
            });
        }
        let _end = EndOf(is_over);
        let mut bystander = stage.unix();
        assert!((0..300).all(|nonce| bystander.is_answered(nonce)));
    });
    stage.await_shared_faces(0);
}

#[test]
fn a_killed_application_whose_queue_is_long_stays() {
    let stage = Stage::new();
    let mut killed = Hostile::connect(&stage);
    let name = format!("/no/route/{}", "x".repeat(4000));
    // It reads no answer: they fill its ring, and a queue. Then its own ring is full.
    let mut nonce = 0;
    let deadline = Instant::now() + PATIENCE;
    while killed.stream.write(&interest(&name, nonce)).is_ok() {
        nonce += 1;
        assert!(Instant::now() < deadline, "the node reads all");
    }
    drop(killed);
    stage.await_shared_faces(0);
    stage.await_figure("/ndn/partial_input_bytes", |bytes| bytes == 0);
}

/// Failure: the node sees unread input in its memory, but does not read it while its queue is long,
/// and looks again at once.
#[test]
fn an_application_that_never_reads_keeps_the_event_loop_turning() {
    let stage = Stage::new();
    let mut hostile = Hostile::connect(&stage);
    let packet = interest(&format!("/no/route/{}", "x".repeat(4000)), 1);
    // Less than a packet may fit. What follows continues it.
    let mut from = 0;
    let mut write = |stream: &mut SharedStream| match stream.write(&packet[from..]) {
        Ok(written) => {
            from = (from + written) % packet.len();
            true
        }
        Err(_) => false,
    };
    let mut fill = || {
        (0..100_000)
            .take_while(|_| write(&mut hostile.stream))
            .count()
    };
    // It is full for good when the node has stopped to read.
    while fill() > 0 {
        std::thread::sleep(Duration::from_millis(100));
    }
    let before = stage.figure("/ndn/loop_turns");
    std::thread::sleep(Duration::from_millis(400));
    let turns = stage.figure("/ndn/loop_turns") - before;
    assert!(turns < 1000, "{turns} turns without anything to do");
    // It is read again when it takes its answers.
    let (mut answers, deadline) = (vec![0; 1 << 20], Instant::now() + PATIENCE);
    while !write(&mut hostile.stream) {
        let _ = hostile.stream.read(&mut answers);
        assert!(Instant::now() < deadline, "it is not read again");
    }
}
