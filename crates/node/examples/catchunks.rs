//! A consumer that behaves as `ndncatchunks -p cubic` of ndn-tools 24.07 does, to find out what a
//! forwarder does to it. ndn-cxx and ndn-tools are in no registry.
//!
//! ```text
//! cargo run --profile dist -p larder-node --example catchunks -- SOCKET NAME SEGMENTS [MICROS_PER_DATA]
//! ```
//!
//! The same: one Interest a segment, of NAME/seg=0 to SEGMENTS - 1; each Interest is written by a
//! system call of its own and each read takes 8800 bytes at most, one after the other as Boost.Asio
//! runs them; CUBIC with a window of 2 at first, slow start without bound and a decrease by 0.7,
//! once a window, at a congestion mark or a time-out; RTO of ndn-cxx's RttEstimator (1 s at first,
//! 200 ms to 20 s, k = 8), fixed for a segment when it is sent and looked at every 10 ms.
//!
//! Prints one JSON object: how many Interests were sent again, marks, decreases, round trips.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measuring tool"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a program with a clock and a socket"
)]

use larder_packet::{Data, InterestBuilder, LpPacket, Name, tlv};
use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const INITIAL_WINDOW: f64 = 2.0;
const BETA: f64 = 0.7;
const CUBIC_C: f64 = 0.4;
const RTO_CHECK: Duration = Duration::from_millis(10);
const READ_BYTES: usize = 8800;

/// ndn-cxx's `util::RttEstimator` with the options of ndncatchunks.
struct Rtt {
    smoothed: Option<f64>,
    variation: f64,
    rto: f64,
}

impl Rtt {
    fn add(&mut self, rtt: f64, expected: f64) {
        match self.smoothed {
            None => (self.smoothed, self.variation) = (Some(rtt), rtt / 2.0),
            Some(smoothed) => {
                let (alpha, beta) = (0.125 / expected, 0.25 / expected);
                self.variation = (1.0 - beta) * self.variation + beta * (smoothed - rtt).abs();
                self.smoothed = Some((1.0 - alpha) * smoothed + alpha * rtt);
            }
        }
        self.rto = (self.smoothed.unwrap_or(rtt) + 8.0 * self.variation).clamp(0.2, 20.0);
    }

    fn back_off(&mut self) {
        self.rto = (2.0 * self.rto).clamp(0.2, 20.0);
    }
}

/// The window of `PipelineInterestsCubic`.
struct Cubic {
    window: f64,
    threshold: f64,
    most: f64,
    decreased: Instant,
    decreases: u64,
}

impl Cubic {
    fn increase(&mut self, now: Instant, smoothed_rtt: f64) {
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        if self.most < INITIAL_WINDOW {
            self.most = self.window;
        }
        let since = now.duration_since(self.decreased).as_secs_f64();
        let plateau = (self.most * (1.0 - BETA) / CUBIC_C).cbrt();
        let target = CUBIC_C * (since - plateau).powi(3) + self.most;
        // What Reno would have by now.
        let reno = self.most * BETA + 3.0 * (1.0 - BETA) / (1.0 + BETA) * since / smoothed_rtt;
        self.window += (target.max(reno) - self.window).max(0.0) / self.window;
    }

    fn decrease(&mut self, now: Instant) {
        self.most = self.window;
        self.threshold = (self.window * BETA).max(INITIAL_WINDOW);
        (self.window, self.decreased) = (self.threshold, now);
        self.decreases += 1;
    }
}

struct Sent {
    at: Instant,
    rto: f64,
    again: bool,
    waits_to_go_again: bool,
}

#[derive(Default)]
struct Figures {
    retransmissions: u64,
    marks: u64,
    nacks: u64,
    worst_rtt: f64,
    rtts: Vec<f64>,
    largest_window: f64,
}

struct Consumer {
    name: Name,
    segments: u64,
    next: u64,
    done: u64,
    sent: HashMap<u64, Sent>,
    again: VecDeque<u64>,
    in_flight: usize,
    highest_interest: u64,
    highest_data: u64,
    recovery: Option<u64>,
    rtt: Rtt,
    cubic: Cubic,
    /// Interests that ndn-cxx's transport has not written yet.
    output: VecDeque<Vec<u8>>,
    nonce: u32,
    figures: Figures,
}

impl Consumer {
    fn new(name: Name, segments: u64) -> Self {
        let cubic = Cubic {
            window: INITIAL_WINDOW,
            threshold: f64::INFINITY,
            most: 0.0,
            decreased: Instant::now(),
            decreases: 0,
        };
        Consumer {
            name,
            segments,
            next: 0,
            done: 0,
            sent: HashMap::new(),
            again: VecDeque::new(),
            in_flight: 0,
            highest_interest: 0,
            highest_data: 0,
            recovery: None,
            rtt: Rtt {
                smoothed: None,
                variation: 0.0,
                rto: 1.0,
            },
            cubic,
            output: VecDeque::new(),
            nonce: std::process::id().wrapping_mul(1 << 16),
            figures: Figures::default(),
        }
    }

    fn fill_window(&mut self) {
        while (self.in_flight as f64) < self.cubic.window.floor() {
            let (number, again) = match self.again.pop_front() {
                // It may have come meanwhile.
                Some(number) if self.sent.contains_key(&number) => (number, true),
                Some(_) => continue,
                None if self.next < self.segments => (self.next, false),
                None => return,
            };
            self.next += u64::from(!again);
            self.highest_interest = self.highest_interest.max(number);
            self.figures.retransmissions += u64::from(again);
            let mut name = self.name.clone();
            name.push_segment(number);
            self.nonce = self.nonce.wrapping_add(1);
            self.output
                .push_back(InterestBuilder::new(name).nonce(self.nonce).build());
            let sent = Sent {
                at: Instant::now(),
                rto: self.rtt.rto,
                again,
                waits_to_go_again: false,
            };
            self.sent.insert(number, sent);
            self.in_flight += 1;
        }
    }

    fn on_data(&mut self, number: u64, marked: bool) {
        let now = Instant::now();
        let Some(sent) = self.sent.remove(&number) else {
            return;
        };
        self.done += 1;
        self.highest_data = self.highest_data.max(number);
        if !sent.waits_to_go_again {
            self.in_flight -= 1;
        }
        self.figures.marks += u64::from(marked);
        match marked {
            true if self.recovery.is_none_or(|until| self.highest_data > until) => {
                self.recovery = Some(self.highest_interest);
                self.cubic.decrease(now);
            }
            true => {}
            false => self.cubic.increase(now, self.rtt.smoothed.unwrap_or(1.0)),
        }
        self.figures.largest_window = self.figures.largest_window.max(self.cubic.window);
        if !sent.again {
            let rtt = now.duration_since(sent.at).as_secs_f64();
            self.rtt.add(rtt, self.in_flight.div_ceil(2).max(1) as f64);
            self.figures.worst_rtt = self.figures.worst_rtt.max(rtt);
            self.figures.rtts.push(rtt);
        }
        self.fill_window();
    }

    fn check_rto(&mut self) {
        let now = Instant::now();
        let late = |sent: &Sent| {
            !sent.waits_to_go_again && now.duration_since(sent.at).as_secs_f64() > sent.rto
        };
        let mut late: Vec<u64> = self
            .sent
            .iter()
            .filter(|(_, sent)| late(sent))
            .map(|(number, _)| *number)
            .collect();
        late.sort_unstable();
        for number in late {
            if let Some(sent) = self.sent.get_mut(&number) {
                sent.waits_to_go_again = true;
            }
            self.in_flight -= 1;
            self.again.push_back(number);
            if self.recovery.is_none_or(|until| number > until) {
                self.recovery = Some(self.highest_interest);
                self.cubic.decrease(now);
                self.rtt.back_off();
            }
        }
        self.fill_window();
    }

    fn on_frame(&mut self, frame: &[u8], work: Duration) {
        let packet = LpPacket::decode(frame).expect("an NDNLPv2 packet");
        if packet.header.nack.is_some() {
            self.figures.nacks += 1;
            return;
        }
        let data = Data::decode(packet.fragment.expect("a packet")).expect("Data");
        let number = data
            .name
            .last()
            .and_then(|last| last.as_segment())
            .expect("a segment");
        // What ndn-cxx and ndncatchunks do with a Data beside: signature, callbacks, the file.
        let until = Instant::now() + work;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        self.on_data(
            number,
            packet.header.congestion_mark.is_some_and(|mark| mark > 0),
        );
    }
}

fn run(socket: &str, consumer: &mut Consumer, work: Duration) {
    let mut stream = UnixStream::connect(socket).expect("a forwarder");
    stream.set_nonblocking(true).expect("a socket");
    let (mut input, mut written, mut checked) = (Vec::new(), 0, Instant::now());
    let mut buffer = [0; READ_BYTES];
    consumer.fill_window();
    while consumer.done < consumer.segments {
        let mut idle = true;
        if let Some(interest) = consumer.output.front() {
            match stream.write(&interest[written..]) {
                Ok(count) => {
                    written += count;
                    idle = false;
                    if written == interest.len() {
                        consumer.output.pop_front();
                        written = 0;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
        let room = READ_BYTES - input.len();
        match stream.read(&mut buffer[..room]) {
            Ok(0) => panic!("the forwarder closed the connection"),
            Ok(read) => {
                idle = false;
                input.extend_from_slice(&buffer[..read]);
                let mut from = 0;
                while let Some(length) = tlv::frame(&input[from..], READ_BYTES).expect("NDN") {
                    consumer.on_frame(&input[from..from + length], work);
                    from += length;
                }
                input.drain(..from);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        if checked.elapsed() >= RTO_CHECK {
            checked = Instant::now();
            consumer.check_rto();
        }
        if idle {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, name, segments, more @ ..] = &arguments[..] else {
        panic!("SOCKET NAME SEGMENTS [MICROS_PER_DATA]");
    };
    let work = Duration::from_micros(
        more.first()
            .map_or(10, |micros| micros.parse().expect("microseconds")),
    );
    let mut consumer = Consumer::new(
        name.parse().expect("a name"),
        segments.parse().expect("a number"),
    );
    let begun = Instant::now();
    run(socket, &mut consumer, work);
    let seconds = begun.elapsed().as_secs_f64();
    let Figures {
        retransmissions,
        marks,
        nacks,
        worst_rtt,
        mut rtts,
        largest_window,
    } = consumer.figures;
    rtts.sort_by(f64::total_cmp);
    let median = rtts.get(rtts.len() / 2).copied().unwrap_or_default();
    println!(
        "{{\"segments\":{segments},\"seconds\":{seconds:.3},\"retransmissions\":{retransmissions},\"nacks\":{nacks},\
         \"marks\":{marks},\"decreases\":{},\"largest_window\":{largest_window:.0},\"median_rtt_ms\":{:.3},\
         \"worst_rtt_ms\":{:.3}}}",
        consumer.cubic.decreases,
        median * 1e3,
        worst_rtt * 1e3,
    );
}
