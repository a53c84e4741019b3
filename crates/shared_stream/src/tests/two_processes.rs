//! Two processes with one stream: random pieces by seed, and an end that is killed anywhere.

use super::*;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// The variable with the seed, in the environment of the second process.
const SEED: &str = "LARDER_SHARED_STREAM_SEED";
const TEST: &str =
    "tests::two_processes::bytes_are_lost_between_processes_or_a_killed_one_stops_the_other";

/// The bytes from the first process to the second, and back.
fn amounts(seed: u64) -> [usize; 2] {
    let mut random = Streams::new(seed).stream("amounts");
    [0; 2].map(|_| {
        let most = [100, 100_000, 4 << 20][random.below(3) as usize];
        1 + random.below(most) as usize
    })
}

/// Starts this test in another process, which gets the descriptors over its standard input.
fn start(seed: u64, descriptors: Descriptors) -> Child {
    let (here, there) = UnixStream::pair().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let command = command
        .args([TEST, "--exact", "--nocapture"])
        .env(SEED, seed.to_string());
    let child = command
        .stdin(OwnedFd::from(there))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let Descriptors { memory, ear, bell } = descriptors;
    let descriptors = [memory.as_fd(), ear.as_fd(), bell.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(
        here,
        &[IoSlice::new(&[1])],
        &mut control,
        SendFlags::empty(),
    )
    .unwrap();
    child
}

/// The second process.
fn second_process(seed: u64) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(
        std::io::stdin(),
        &mut [IoSliceMut::new(&mut [0])],
        &mut control,
        flags,
    )
    .unwrap();
    let Some(RecvAncillaryMessage::ScmRights(mut received)) = control.drain().next() else {
        panic!("no descriptors")
    };
    let mut next = || received.next().unwrap();
    let descriptors = Descriptors {
        memory: next(),
        ear: next(),
        bell: next(),
    };
    let stream = SharedStream::open_at(descriptors, CARRIED).unwrap();
    let [there, back] = amounts(seed);
    assert_eq!(
        End::new(stream, back, there, seed + 1).run(|_| {}),
        (back, there)
    );
}

#[test]
fn bytes_are_lost_between_processes_or_a_killed_one_stops_the_other() {
    if let Ok(seed) = std::env::var(SEED) {
        return second_process(seed.parse().unwrap());
    }
    for seed in 0..16 {
        let (stream, descriptors) = SharedStream::create_at(CARRIED).unwrap();
        let mut child = start(seed, descriptors);
        let [there, back] = amounts(seed);
        // Every second one is killed after so many of its bytes, if it has not ended by then.
        let mut life =
            (seed % 2 == 1).then(|| Streams::new(seed).stream("life").below(back as u64) as usize);
        let is_killed = life.is_some();
        let (sent, received) = End::new(stream, there, back, seed).run(|received| {
            if life.take_if(|life| *life <= received).is_some() {
                child.kill().unwrap();
            }
        });
        let status = child.wait().unwrap();
        if !is_killed {
            assert!(status.success(), "seed {seed}: the other process failed");
            assert_eq!((sent, received), (there, back), "seed {seed}");
        }
    }
}
