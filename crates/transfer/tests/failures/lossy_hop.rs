//! Failure: on a last hop without delay that loses a tenth of its frames in each direction, a file
//! costs timeout after timeout. Link reliability repairs each loss in a few milliseconds.

use crate::link::{Reply, bytes, fetcher, publisher, serve};
use larder_packet::{Data, Interest, LpHeader, LpPacket, Reassembled, Reassembler, Reliability};
use larder_transfer::{FetchOptions, Progress};
use larder_units::{Stream, Streams, Time};
use std::collections::BTreeMap;
use std::time::Duration;

const MTU: usize = 1452;
const LOSS: f64 = 0.1;
/// 100 Mb/s.
const NANOS_A_BYTE: u64 = 80;

/// One end of the hop. Its frames leave one after another.
struct End {
    reliability: Reliability,
    reassembler: Reassembler,
    free: Time,
    losses: Stream,
}

/// Frames on the hop by arrival time, with the receiving end.
type FramesInFlight = BTreeMap<(Time, u64), (usize, Vec<u8>)>;

impl End {
    fn new(reliability: Reliability, losses: Stream) -> End {
        End {
            reliability,
            reassembler: Reassembler::new(),
            free: Time::ZERO,
            losses,
        }
    }

    fn emit(
        free: &mut Time,
        losses: &mut Stream,
        now: Time,
        to: usize,
        frame: &[u8],
        frames: &mut FramesInFlight,
    ) {
        *free = (*free).max(now) + Duration::from_nanos(NANOS_A_BYTE * (frame.len() + 48) as u64);
        if !losses.chance(LOSS) {
            frames.insert(
                (
                    *free,
                    frames
                        .last_key_value()
                        .map_or(0, |((_, number), _)| number + 1),
                ),
                (to, frame.to_vec()),
            );
        }
    }

    fn send(&mut self, now: Time, to: usize, packet: &[u8], frames: &mut FramesInFlight) {
        let End {
            reliability,
            free,
            losses,
            ..
        } = self;
        let frame = |frame: &[u8]| End::emit(free, losses, now, to, frame, frames);
        reliability
            .send(now, &LpHeader::default(), packet, MTU, frame)
            .unwrap();
    }

    fn plan_frames(&mut self, now: Time, to: usize, frames: &mut FramesInFlight) {
        let End {
            reliability,
            free,
            losses,
            ..
        } = self;
        if reliability.next_timeout().is_some_and(|at| at <= now) {
            reliability.on_timeout(now, MTU, |frame| {
                End::emit(free, losses, now, to, frame, frames)
            });
        }
    }

    fn receive(&mut self, now: Time, frame: &[u8]) -> Option<Vec<u8>> {
        if !self.reliability.receive(now, frame) {
            return None;
        }
        let packet = LpPacket::decode(frame).unwrap();
        match self
            .reassembler
            .accept(now, &packet.header, packet.fragment?)
        {
            Reassembled::Whole(packet) => Some(packet.to_vec()),
            Reassembled::Done(packet, _) => Some(packet),
            Reassembled::Partial | Reassembled::Dropped(_) => None,
        }
    }
}

/// Returns the time of a file over the hop: discovery, and all segments without an error.
fn fetch(seed: u64, consumer: Reliability, producer: Reliability, length: usize) -> Duration {
    let streams = Streams::new(seed);
    let mut ends = [
        End::new(consumer, streams.stream("there")),
        End::new(producer, streams.stream("back")),
    ];
    let mut fetcher = fetcher("/file", FetchOptions::default());
    let mut serve = serve(publisher(bytes(length), 8000));
    let (mut frames, mut content, mut now) = (FramesInFlight::new(), Vec::new(), Time::ZERO);
    loop {
        if fetcher.next_timeout().is_some_and(|at| at <= now) {
            fetcher.on_timeout(now);
        }
        let mut interest = Vec::new();
        while fetcher.poll(now, &mut interest) {
            ends[0].send(now, 1, &std::mem::take(&mut interest), &mut frames);
        }
        match fetcher.progress() {
            Progress::Running => {}
            Progress::Done => break,
            Progress::Failed(error) => panic!("seed {seed}: {error}"),
        }
        for (at, end) in ends.iter_mut().enumerate() {
            end.plan_frames(now, 1 - at, &mut frames);
        }
        let timers = ends
            .iter()
            .filter_map(|end| end.reliability.next_timeout())
            .chain(fetcher.next_timeout());
        now = frames
            .keys()
            .map(|(at, _)| *at)
            .take(1)
            .chain(timers)
            .min()
            .unwrap()
            .max(now);
        while let Some(entry) = frames.first_entry().filter(|entry| entry.key().0 <= now) {
            let (to, frame) = entry.remove();
            let Some(packet) = ends[to].receive(now, &frame) else {
                continue;
            };
            match to {
                0 => fetcher.on_data(now, &Data::decode(&packet).unwrap(), false, |piece| {
                    content.extend_from_slice(piece)
                }),
                _ => match serve(&Interest::decode(&packet).unwrap()) {
                    Reply::Data(data) => ends[1].send(now, 0, &data, &mut frames),
                    Reply::Nack(_) | Reply::Silence => {}
                },
            }
        }
    }
    assert!(content == bytes(length), "seed {seed}");
    now.since(Time::ZERO)
}

fn millis(times: &[Duration]) -> (u128, u128) {
    (
        times.iter().sum::<Duration>().as_millis() / times.len() as u128,
        times.iter().max().unwrap().as_millis(),
    )
}

#[test]
fn a_lost_frame_costs_a_time_out_of_the_whole_way() {
    let times: Vec<Duration> = (0..40)
        .map(|seed| fetch(seed, Reliability::new(seed), Reliability::new(7), 250_000))
        .collect();
    let (mean, most) = millis(&times);
    assert!(mean < 120 && most < 800, "mean {mean} ms, most {most} ms");
}

/// As in `larder get` over UDP: the producer's end does not know its peer in advance.
#[test]
fn a_stranger_waits_for_what_is_lost_before_his_first_ack() {
    let times: Vec<Duration> = (0..40)
        .map(|seed| {
            fetch(
                seed,
                Reliability::new(seed),
                Reliability::with_stranger(7),
                250_000,
            )
        })
        .collect();
    let (mean, most) = millis(&times);
    assert!(mean < 150 && most < 1500, "mean {mean} ms, most {most} ms");
}
