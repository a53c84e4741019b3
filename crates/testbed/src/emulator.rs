//! The link emulator: the simulator's links by the real clock, between the TUN devices of the
//! hosts.
//!
//! One thread serves all links. A packet that a host sends comes out of its device, crosses the
//! channels on the way to its destination one after another (a router between them is only a
//! place), and goes into that host's device when it is due. What is due is delivered before
//! anything new is taken in, and [`crate::Lateness`] counts how late each was. The kernel's own
//! queue before a device is the only one that the model does not have; the thread runs with
//! real-time priority so that it stays empty.

use crate::lateness::{Lateness, LatenessReport};
use crate::{Error, Spec};
use larder_netsim::{ChannelId, Links};
use larder_units::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tappers::Tun;

/// Packets read from one device before the next has its turn.
const READS: usize = 32;

/// The longest sleep of the thread, so that it notices a stop.
const NAP: Duration = Duration::from_millis(50);

/// Links, devices, and the ways between them.
pub(crate) struct Emulator {
    /// By node; routers have none.
    devices: Vec<Option<Tun>>,
    /// `next[node][destination]`: the channel to take.
    next: Vec<Vec<Option<ChannelId>>>,
    /// Where each channel ends.
    ends: Vec<usize>,
    addresses: Spec,
    links: Links,
    lateness: Lateness,
    refused: u64,
}

impl Emulator {
    /// `devices` by node, not blocking.
    pub(crate) fn new(spec: &Spec, devices: Vec<Option<Tun>>) -> Self {
        let mut links = Links::new(spec.seed);
        let (mut channels, mut ends) = (Vec::new(), Vec::new());
        for link in &spec.links {
            let names = link.ends.map(|node| spec.nodes[node].name.as_str());
            channels.push([links.add(names[0], names[1], link.config), links.add(names[1], names[0], link.config)]);
            ends.extend([link.ends[1], link.ends[0]]);
        }
        let mut next = vec![vec![None; spec.nodes.len()]; spec.nodes.len()];
        for destination in spec.hosts() {
            for (node, way) in spec.ways_to(destination).into_iter().enumerate() {
                next[node][destination] = way.map(|(link, end)| channels[link][end]);
            }
        }
        let addresses = spec.clone();
        Emulator { devices, next, ends, addresses, links, lateness: Lateness::new(), refused: 0 }
    }

    /// Runs until it is stopped.
    pub(crate) fn run(mut self, stop: &AtomicBool) -> Result<LatenessReport, Error> {
        let begun = Instant::now();
        let now = || Time::ZERO + begun.elapsed();
        let mut buffer = vec![0; 1 << 16];
        while !stop.load(Ordering::Relaxed) {
            self.deliver(&now);
            let ready = self.wait(now()).map_err(|error| Error(format!("the emulator cannot wait: {error}")))?;
            // A device that is gone: somebody took the testbed down.
            let Some(ready) = ready else { break };
            for node in ready {
                self.take_in(node, &now, &mut buffer);
            }
        }
        Ok(self.lateness.report(self.refused))
    }

    /// Hands over what is due.
    fn deliver(&mut self, now: &impl Fn() -> Time) {
        while let Some((channel, due, packet)) = self.links.arrived(now()) {
            let node = self.ends[channel.0 as usize];
            match self.destination(&packet) {
                Some(destination) if destination == node => {
                    let taken = self.devices[node].as_ref().is_some_and(|device| device.send(&packet).is_ok());
                    self.refused += u64::from(!taken);
                    self.lateness.count(now().since(due));
                }
                // On over the next link, from the time when it was due here: lateness does not add
                // up.
                Some(destination) => self.send(due, node, destination, packet),
                None => self.refused += 1,
            }
        }
    }

    /// Takes in what a host has sent.
    fn take_in(&mut self, node: usize, now: &impl Fn() -> Time, buffer: &mut [u8]) {
        for _ in 0..READS {
            let Some(device) = &self.devices[node] else { return };
            // An error is an empty device, or one that is going away.
            let Ok(length) = device.recv(buffer) else { return };
            let packet = buffer[..length].to_vec();
            if let Some(destination) = self.destination(&packet) {
                self.send(now(), node, destination, packet);
            }
        }
    }

    fn send(&mut self, now: Time, node: usize, destination: usize, packet: Vec<u8>) {
        match self.next[node][destination] {
            Some(channel) => self.links.send(now, channel, packet),
            None => self.refused += 1,
        }
    }

    /// The host that an IPv4 packet is for; others (the kernel's IPv6 and multicast chatter) have
    /// none.
    fn destination(&self, packet: &[u8]) -> Option<usize> {
        let header: &[u8; 20] = packet.first_chunk()?;
        (header[0] >> 4 == 4).then(|| self.addresses.at([header[16], header[17], header[18], header[19]]))?
    }

    /// Waits until a frame is due or a host sends; the hosts that do. `None` where a device is
    /// gone.
    fn wait(&self, now: Time) -> rustix::io::Result<Option<Vec<usize>>> {
        let nap = self.links.next_at().map_or(NAP, |at| at.since(now).min(NAP));
        let devices = || self.devices.iter().enumerate().filter_map(|(node, device)| Some((node, device.as_ref()?)));
        let mut waiting: Vec<PollFd<'_>> = devices().map(|(_, device)| PollFd::new(device, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: nap.subsec_nanos().into() };
        match poll(&mut waiting, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        if waiting.iter().any(|waiting| waiting.revents().intersects(PollFlags::ERR | PollFlags::HUP)) {
            return Ok(None);
        }
        let ready = devices().zip(&waiting).filter(|(_, waiting)| waiting.revents().contains(PollFlags::IN));
        Ok(Some(ready.map(|((node, _), _)| node).collect()))
    }
}
