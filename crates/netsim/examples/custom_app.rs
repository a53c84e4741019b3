//! A simulator application from outside the crate: a pinger that measures round-trip times.
//!
//! `cargo run -p larder-netsim --example custom_app` builds two nodes and a link of 5 ms, runs the
//! application for one second, and prints the measured round-trip times.

use larder_netsim::apps::{Producer, ProducerConfig};
use larder_netsim::{App, LinkConfig, NodeConfig, Received, Sends, Simulation};
use larder_packet::{Data, InterestBuilder, Name};
use larder_units::{Stream, Time};
use std::time::Duration;

/// Sends one Interest per interval, each with a new name, and notes how long each answer takes.
struct Pinger {
    prefix: Name,
    interval: Duration,
    stream: Stream,
    /// The times at which the Interests were sent, by sequence number.
    sent: Vec<Time>,
    next: Time,
    round_trips: Vec<Duration>,
    nacks: u64,
}

impl Pinger {
    fn new(prefix: Name, interval: Duration, stream: Stream) -> Self {
        let (sent, round_trips) = (Vec::new(), Vec::new());
        Pinger {
            prefix,
            interval,
            stream,
            sent,
            next: Time::ZERO,
            round_trips,
            nacks: 0,
        }
    }
}

impl App for Pinger {
    fn next_timer(&self) -> Option<Time> {
        Some(self.next)
    }

    fn on_timer(&mut self, now: Time, sends: &mut Sends) {
        let mut name = self.prefix.clone();
        name.push_sequence(self.sent.len() as u64);
        sends.push(
            InterestBuilder::new(name)
                .nonce(self.stream.bits() as u32)
                .build(),
        );
        self.sent.push(now);
        self.next = now + self.interval;
    }

    fn on_packet(&mut self, now: Time, packet: &Received<'_>, _: &mut Sends) {
        if packet.header.nack.is_some() {
            self.nacks += 1;
        } else if let Ok(data) = Data::decode(packet.packet) {
            let number = data.name.last().and_then(|last| last.as_number());
            if let Some(sent) =
                number.and_then(|number| self.sent.get(usize::try_from(number).ok()?))
            {
                self.round_trips.push(now.since(*sent));
            }
        }
    }
}

/// Runs the example, and prints what the application measured.
///
/// # Errors
/// An error of the simulation.
#[allow(clippy::print_stdout, reason = "the example prints its result")]
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut network = Simulation::new(1);
    let client = network.add_node("client", NodeConfig::default())?;
    let server = network.add_node("server", NodeConfig::default())?;
    network.connect(
        client,
        server,
        &LinkConfig::new("10Mbps".parse()?, Duration::from_millis(5)),
    )?;

    let prefix: Name = "/ping".parse()?;
    let producer = network.add_app(server, Box::new(Producer::new(ProducerConfig::default())));
    network.serve(&prefix, producer)?;
    let stream = network.streams().stream("app pinger");
    let pinger = network.add_app(
        client,
        Box::new(Pinger::new(prefix, Duration::from_millis(100), stream)),
    );
    network.run_until(Time::from_secs(1))?;

    let pinger: &Pinger = network
        .app(pinger)
        .ok_or("the application has another type")?;
    let (least, most) = (
        pinger.round_trips.iter().min(),
        pinger.round_trips.iter().max(),
    );
    println!(
        "{} Interests, {} Data, {} Nacks",
        pinger.sent.len(),
        pinger.round_trips.len(),
        pinger.nacks
    );
    println!(
        "round trips from {:?} to {:?}",
        least.ok_or("no answer")?,
        most.ok_or("no answer")?
    );
    Ok(())
}
