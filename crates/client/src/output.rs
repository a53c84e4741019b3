//! Packets to send, as bytes of a stream or as datagrams.

use super::socket::Socket;
use super::{entropy, gso, limits};
use larder_packet::{Fragmenter, LpHeader, PitToken, Reliability, encode_lp};
use larder_units::Time;
use std::collections::VecDeque;
use std::io;

/// Packets to send.
pub struct Output {
    bytes: Vec<u8>,
    start: usize,
    datagrams: Option<Datagrams>,
    /// The packet that gets a header.
    packet: Vec<u8>,
    /// The time for datagrams.
    pub(super) now: Time,
}

/// The additions of datagrams to a stream: their boundaries, and pieces of at most the MTU, which
/// are repeated if they are not acknowledged.
struct Datagrams {
    lengths: VecDeque<usize>,
    mtu: usize,
    link: Link,
}

enum Link {
    /// Nothing is lost within this machine.
    Plain(Fragmenter),
    Reliable(Box<Reliability>),
}

impl Output {
    /// Returns the empty output of a socket.
    pub(super) fn of(socket: &Socket) -> Self {
        let [sequence] = entropy::words();
        match socket.mtu() {
            None => Output::stream(),
            Some(mtu) => Output::datagrams(mtu, sequence),
        }
    }

    fn stream() -> Self {
        Output {
            bytes: Vec::new(),
            start: 0,
            datagrams: None,
            packet: Vec::new(),
            now: Time::ZERO,
        }
    }

    pub(super) fn datagrams(mtu: usize, sequence: u64) -> Self {
        let link = match mtu {
            limits::UDP_MTU => Link::Reliable(Box::new(Reliability::new(sequence))),
            _ => Link::Plain(Fragmenter::new(sequence)),
        };
        Output {
            datagrams: Some(Datagrams {
                lengths: VecDeque::new(),
                mtu,
                link,
            }),
            ..Output::stream()
        }
    }

    /// Queues the packet that `write` appends (none if it appends nothing), with the token of the
    /// Interest that it answers. Returns the result of `write`.
    pub fn send<R>(&mut self, token: Option<PitToken>, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        self.send_with(
            &LpHeader {
                pit_token: token,
                ..LpHeader::default()
            },
            write,
        )
    }

    /// As [`Output::send`], with a link header of the caller.
    pub fn send_with<R>(&mut self, header: &LpHeader, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let Output {
            bytes, packet, now, ..
        } = self;
        match &mut self.datagrams {
            None if header.is_empty() => write(bytes),
            None => {
                packet.clear();
                let result = write(packet);
                if !packet.is_empty() {
                    encode_lp(header, packet, bytes);
                }
                result
            }
            Some(Datagrams { lengths, mtu, link }) => {
                packet.clear();
                let result = write(packet);
                let frame = |wire: &[u8]| {
                    bytes.extend_from_slice(wire);
                    lengths.push_back(wire.len());
                };
                if !packet.is_empty() {
                    // This module never chooses an MTU that is too small for a header.
                    let _ = match link {
                        Link::Plain(fragmenter) => fragmenter.fragment(header, packet, *mtu, frame),
                        Link::Reliable(link) => link.send(*now, header, packet, *mtu, frame),
                    };
                }
                result
            }
        }
    }

    /// Returns the bytes that were not written yet.
    pub fn waiting_bytes(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Drops what was not written yet.
    pub(super) fn discard(&mut self) {
        self.bytes.clear();
        self.start = 0;
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.lengths.clear();
        }
    }

    /// Processes the link header of a frame. Returns false for a duplicate.
    pub(super) fn hears(&mut self, now: Time, frame: &[u8]) -> bool {
        match &mut self.datagrams {
            Some(Datagrams {
                link: Link::Reliable(link),
                ..
            }) => link.receive(now, frame),
            _ => true,
        }
    }

    /// Queues retransmissions, and Acks.
    pub(super) fn keep_reliable(&mut self, now: Time) {
        let Output {
            bytes,
            datagrams:
                Some(Datagrams {
                    lengths,
                    mtu,
                    link: Link::Reliable(link),
                }),
            ..
        } = self
        else {
            return;
        };
        if link.next_timeout().is_some_and(|at| at <= now) {
            link.on_timeout(now, *mtu, |wire| {
                bytes.extend_from_slice(wire);
                lengths.push_back(wire.len());
            });
        }
    }

    /// Returns the time at which [`Output::keep_reliable`] has to be called next.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        match &self.datagrams {
            Some(Datagrams {
                link: Link::Reliable(link),
                ..
            }) => link.next_timeout(),
            _ => None,
        }
    }

    /// Writes what the socket accepts. Returns true if nothing is left.
    pub(super) fn flush(&mut self, socket: &mut Socket) -> io::Result<bool> {
        while self.waiting_bytes() > 0 {
            let (count, bytes) = match &self.datagrams {
                None => (1, self.waiting_bytes()),
                Some(datagrams) => {
                    gso::run(datagrams.lengths.iter().copied(), socket.most_datagrams())
                }
            };
            let first = self
                .datagrams
                .as_ref()
                .and_then(|datagrams| datagrams.lengths.front().copied());
            let next = &self.bytes[self.start..self.start + bytes];
            let Some(written) = socket.write(next, first.unwrap_or(bytes))? else {
                return Ok(false);
            };
            self.start += written;
            if self.start >= limits::OUTPUT_BYTES {
                self.bytes.drain(..self.start);
                self.start = 0;
            }
            if let Some(datagrams) = &mut self.datagrams {
                datagrams.lengths.drain(..count);
            }
        }
        self.bytes.clear();
        self.start = 0;
        socket.between_packets()?;
        Ok(true)
    }
}
