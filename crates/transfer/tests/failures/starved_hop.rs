//! Failure: the ends of a last hop with link reliability wait for a processor, as many programs on
//! few cores do. Late frames are taken for lost, sent again and again, and given up in the end, and
//! the consumer has to request the segment once more.

use crate::link::{Reply, bytes, fetcher, publisher, serve};
use larder_packet::{
    Data, Interest, LpHeader, LpPacket, Reassembled, Reassembler, Reliability, ReliabilityCounters,
};
use larder_transfer::{FetchOptions, FetchStats, Progress};
use larder_units::{Streams, Time};
use std::collections::VecDeque;
use std::time::Duration;

const MTU: usize = 1452;
const LOSS: f64 = 0.1;
/// 100 Mb/s.
const BYTES_A_MILLI: usize = 12_500;
/// The frames that a program handles.
const FRAMES_A_MILLI: usize = 30;
/// The frames that a socket's buffer holds with Linux' default limit.
const SOCKET_FRAMES: usize = 184;
/// The delay of the path beyond the hop, in both directions together.
const UPSTREAM: Duration = Duration::from_millis(400);

/// One end of the hop.
struct End {
    reliability: Reliability,
    reassembler: Reassembler,
    /// Frames that it has sent, and frames that have arrived at it.
    wire: VecDeque<Vec<u8>>,
    socket: VecDeque<Vec<u8>>,
}

impl End {
    fn new(reliability: Reliability) -> End {
        End {
            reliability,
            reassembler: Reassembler::new().of_reliable_link(),
            wire: VecDeque::new(),
            socket: VecDeque::new(),
        }
    }

    fn send(&mut self, now: Time, packet: &[u8]) {
        let End {
            reliability, wire, ..
        } = self;
        reliability
            .send(now, &LpHeader::default(), packet, MTU, |frame| {
                wire.push_back(frame.to_vec())
            })
            .unwrap();
    }

    fn drain_frames(&mut self, now: Time) {
        let End {
            reliability, wire, ..
        } = self;
        if reliability.next_timeout().is_some_and(|at| at <= now) {
            reliability.on_timeout(now, MTU, |frame| wire.push_back(frame.to_vec()));
        }
    }

    fn receive(&mut self, now: Time) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        for frame in self.socket.drain(..self.socket.len().min(FRAMES_A_MILLI)) {
            if !self.reliability.receive(now, &frame) {
                continue;
            }
            let packet = LpPacket::decode(&frame).unwrap();
            let Some(fragment) = packet.fragment else {
                continue;
            };
            match self.reassembler.accept(now, &packet.header, fragment) {
                Reassembled::Whole(packet) => packets.push(packet.to_vec()),
                Reassembled::Done(packet, _) => packets.push(packet),
                Reassembled::Partial | Reassembled::Dropped(_) => {}
            }
        }
        packets
    }
}

/// Returns the result of a file over the hop, from beyond it. An end has a processor in these
/// milliseconds only.
fn fetch(seed: u64, is_awake: impl Fn(usize, u64) -> bool) -> (FetchStats, ReliabilityCounters) {
    let mut losses = Streams::new(seed).stream("losses");
    let mut ends = [
        End::new(Reliability::new(seed)),
        End::new(Reliability::with_stranger(7)),
    ];
    let mut fetcher = fetcher(
        "/file",
        FetchOptions {
            retries: 100,
            ..FetchOptions::default()
        },
    );
    let mut serve = serve(publisher(bytes(1_000_000), 8000));
    let mut answers: VecDeque<(Time, Vec<u8>)> = VecDeque::new();
    for millis in 0.. {
        let now = Time::from_millis(millis);
        for from in 0..2 {
            let mut room = BYTES_A_MILLI;
            while let Some(frame) = ends[from]
                .wire
                .front()
                .filter(|frame| frame.len() + 48 <= room)
            {
                room -= frame.len() + 48;
                let frame = ends[from].wire.pop_front().unwrap_or_default();
                if !losses.chance(LOSS) && ends[1 - from].socket.len() < SOCKET_FRAMES {
                    ends[1 - from].socket.push_back(frame);
                }
            }
        }
        if is_awake(0, millis) {
            for data in ends[0].receive(now) {
                fetcher.on_data(now, &Data::decode(&data).unwrap(), false, |_| ());
            }
            if ends[0].socket.is_empty() && fetcher.next_timeout().is_some_and(|at| at <= now) {
                fetcher.on_timeout(now);
            }
            let mut interest = Vec::new();
            while fetcher.poll(now, &mut interest) {
                ends[0].send(now, &std::mem::take(&mut interest));
            }
            ends[0].drain_frames(now);
        }
        if is_awake(1, millis) {
            for interest in ends[1].receive(now) {
                if let Reply::Data(data) = serve(&Interest::decode(&interest).unwrap()) {
                    answers.push_back((now + UPSTREAM, data));
                }
            }
            while let Some((_, data)) = answers.pop_front_if(|(at, _)| *at <= now) {
                ends[1].send(now, &data);
            }
            ends[1].drain_frames(now);
        }
        match fetcher.progress() {
            Progress::Running => {}
            Progress::Done => return (*fetcher.stats(), ends[1].reliability.counters()),
            Progress::Failed(error) => panic!("seed {seed}: {error}"),
        }
    }
    unreachable!("it ends")
}

#[test]
fn what_is_late_is_sent_again_and_given_up() {
    const SEEDS: u64 = 10;
    // Always a processor; a turn of 5 ms in 60; the consumer, or both at the same time or not,
    // without a turn for 0.4 s in 0.6.
    let turns: [fn(usize, u64) -> bool; 5] = [
        |_, _| true,
        |end, millis| (millis / 5 + 7 * end as u64).is_multiple_of(12),
        |end, millis| end == 1 || millis % 600 < 200,
        |_, millis| millis % 600 < 200,
        |end, millis| (millis + 100 * end as u64) % 600 < 200,
    ];
    for (case, is_awake) in turns.into_iter().enumerate() {
        let (mut again, mut frames_again, mut given_up) = (0, 0, 0);
        for seed in 0..SEEDS {
            let (stats, link) = fetch(seed, is_awake);
            again += stats.retransmissions;
            frames_again += link.retransmissions;
            given_up += link.given_up;
        }
        // The totals are 125 Interests and 750 frames. The Acks of the last frame are not awaited.
        let figures = [again, frames_again, given_up].map(|sum| sum as f64 / SEEDS as f64);
        assert!(
            figures[0] < 2.0 && figures[1] < 450.0 && figures[2] < 2.0,
            "{case}: {figures:?}"
        );
    }
}
