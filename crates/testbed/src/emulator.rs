//! The link emulator: the simulator's links in real time, between the TUN devices of the hosts.
//!
//! One thread serves all links. It reads a packet from its sender's device, sends it through the
//! channels on the path to its destination (a router has no other part in this), and writes it to
//! the destination's device when it is due. Due packets are delivered before new ones are read, and
//! [`crate::Lateness`] records how late each one was. Only the kernel's own queue before a device
//! is not part of the model. The thread runs with real-time priority so that this queue stays
//! empty.

use crate::lateness::{Lateness, LatenessReport};
use crate::{Error, Spec};
use larder_netsim::{ChannelId, Links};
use larder_units::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tappers::Tun;

/// The most packets read from one device before the next one.
const READS: usize = 32;

/// The longest sleep of the thread, which bounds the delay of a stop.
const NAP: Duration = Duration::from_millis(50);

/// Links, devices, and the paths between them.
pub(crate) struct Emulator {
    /// One entry per node; routers have no device.
    devices: Vec<Option<Tun>>,
    /// `next[node][destination]`: the next channel on the path.
    next: Vec<Vec<Option<ChannelId>>>,
    /// The node at the end of each channel.
    ends: Vec<usize>,
    addresses: Spec,
    links: Links,
    lateness: Lateness,
    refused: u64,
}

impl Emulator {
    /// Creates an emulator with one entry in `devices` per node. The devices do not block.
    pub(crate) fn new(spec: &Spec, devices: Vec<Option<Tun>>) -> Self {
        let mut links = Links::new(spec.seed);
        let (mut channels, mut ends) = (Vec::new(), Vec::new());
        for link in &spec.links {
            let names = link.ends.map(|node| spec.nodes[node].name.as_str());
            channels.push([
                links.add(names[0], names[1], link.config),
                links.add(names[1], names[0], link.config),
            ]);
            ends.extend([link.ends[1], link.ends[0]]);
        }
        let mut next = vec![vec![None; spec.nodes.len()]; spec.nodes.len()];
        for destination in spec.hosts() {
            for (node, way) in spec.paths_to(destination).into_iter().enumerate() {
                next[node][destination] = way.map(|(link, end)| channels[link][end]);
            }
        }
        let addresses = spec.clone();
        Emulator {
            devices,
            next,
            ends,
            addresses,
            links,
            lateness: Lateness::new(),
            refused: 0,
        }
    }

    /// Runs until `stop` is set or a device is gone.
    pub(crate) fn run(mut self, stop: &AtomicBool) -> Result<LatenessReport, Error> {
        let begun = Instant::now();
        let now = || Time::ZERO + begun.elapsed();
        let mut buffer = vec![0; 1 << 16];
        while !stop.load(Ordering::Relaxed) {
            self.deliver(&now);
            let ready = self
                .wait(now())
                .map_err(|error| Error::Wait(error.into()))?;
            // A device is gone if another process has removed the testbed.
            let Some(ready) = ready else { break };
            for node in ready {
                self.take_in(node, &now, &mut buffer);
            }
        }
        Ok(self.lateness.report(self.refused))
    }

    /// Delivers due packets.
    fn deliver(&mut self, now: &impl Fn() -> Time) {
        while let Some((channel, due, packet)) = self.links.arrived(now()) {
            let node = self.ends[channel.0 as usize];
            match self.destination(&packet) {
                Some(destination) if destination == node => {
                    let taken = self.devices[node]
                        .as_ref()
                        .is_some_and(|device| device.send(&packet).is_ok());
                    self.refused += u64::from(!taken);
                    self.lateness.count(now().since(due));
                }
                // Forwarded over the next link from the time at which it was due here, so that
                // lateness does not add up.
                Some(destination) => self.send(due, node, destination, packet),
                None => self.refused += 1,
            }
        }
    }

    /// Reads packets that a host has sent.
    fn take_in(&mut self, node: usize, now: &impl Fn() -> Time, buffer: &mut [u8]) {
        for _ in 0..READS {
            let Some(device) = &self.devices[node] else {
                return;
            };
            // An error means that the device is empty or disappears.
            let Ok(length) = device.recv(buffer) else {
                return;
            };
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

    /// Returns the host that an IPv4 packet is for. Other packets (the kernel's IPv6 and multicast
    /// traffic) have none.
    fn destination(&self, packet: &[u8]) -> Option<usize> {
        let header: &[u8; 20] = packet.first_chunk()?;
        (header[0] >> 4 == 4).then(|| {
            self.addresses
                .at([header[16], header[17], header[18], header[19]])
        })?
    }

    /// Waits until a packet is due or a host sends. Returns the sending hosts, or `None` if a
    /// device is gone.
    fn wait(&self, now: Time) -> rustix::io::Result<Option<Vec<usize>>> {
        let nap = self
            .links
            .next_at()
            .map_or(NAP, |at| at.since(now).min(NAP));
        let devices = || {
            self.devices
                .iter()
                .enumerate()
                .filter_map(|(node, device)| Some((node, device.as_ref()?)))
        };
        let mut waiting: Vec<PollFd<'_>> = devices()
            .map(|(_, device)| PollFd::new(device, PollFlags::IN))
            .collect();
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: nap.subsec_nanos().into(),
        };
        match poll(&mut waiting, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        if waiting.iter().any(|waiting| {
            waiting
                .revents()
                .intersects(PollFlags::ERR | PollFlags::HUP)
        }) {
            return Ok(None);
        }
        let ready = devices()
            .zip(&waiting)
            .filter(|(_, waiting)| waiting.revents().contains(PollFlags::IN));
        Ok(Some(ready.map(|((node, _), _)| node).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two hosts and a router between them, without devices.
    fn emulator() -> Emulator {
        let text = "name = \"x\"\nrouters = [\"r\"]\n[[link]]\nbetween = [\"a\", \"r\"]\ndelay = \"10ms\"\n\
                    [[link]]\nbetween = [\"r\", \"b\"]\ndelay = \"5ms\"\n";
        let spec = Spec::parse(text).unwrap();
        Emulator::new(&spec, (0..spec.nodes.len()).map(|_| None).collect())
    }

    fn packet(emulator: &Emulator, destination: usize) -> Vec<u8> {
        let mut packet = vec![0; 20];
        packet[0] = 0x45;
        packet[16..].copy_from_slice(&emulator.addresses.address(destination).octets());
        packet
    }

    #[test]
    fn a_packet_that_is_no_ipv4_is_forwarded() {
        let emulator = emulator();
        let b = emulator.addresses.host("b").unwrap();
        let whole = packet(&emulator, b);
        assert_eq!(emulator.destination(&whole), Some(b));
        assert_eq!(
            emulator.destination(&whole[..19]),
            None,
            "shorter than a header"
        );
        assert_eq!(
            emulator.destination(&[&[0x65], &whole[1..]].concat()),
            None,
            "IPv6"
        );
        assert_eq!(
            emulator.destination(&[&whole[..16], &[224, 0, 0, 1]].concat()),
            None,
            "multicast"
        );
    }

    #[test]
    fn a_packet_skips_a_link_or_its_delay() {
        let mut emulator = emulator();
        let [a, b] = ["a", "b"].map(|name| emulator.addresses.host(name).unwrap());
        let packet = packet(&emulator, b);
        emulator.send(Time::ZERO, a, b, packet);
        for (now, due) in [(0, Some(10)), (10, Some(15)), (14, Some(15)), (15, None)] {
            emulator.deliver(&|| Time::from_millis(now));
            assert_eq!(
                emulator.links.next_at(),
                due.map(Time::from_millis),
                "at {now} ms"
            );
        }
        let report = emulator.lateness.report(emulator.refused);
        assert_eq!(
            (report.frames, report.refused, report.max_ns),
            (1, 1, 0),
            "there is no device to accept it"
        );
    }
}
