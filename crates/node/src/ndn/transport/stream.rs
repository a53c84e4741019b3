//! Unix and TCP streams: packets back to back, read in large pieces and written in large pieces.
//! The bytes of a Unix stream may go through shared memory ([`super::unix_socket`]).
//!
//! All streams read into one buffer of their thread. A connection keeps bytes of its own only
//! between two reads that have cut a packet: an idle one holds no memory.

use crate::limits::SKIP_BYTES;
use crate::ndn::transport::frames::Refused;
use crate::ndn::transport::kind::Transport;
use crate::ndn::transport::reading::{Framed, Partial, Reading};
use crate::ndn::transport::spare_buffers::SpareBuffers;
use crate::ndn::transport::udp::datagram::UdpListener;
use crate::ndn::transport::unix_socket::UnixSocket;
use larder_forwarder::Send;
use larder_packet::tlv::{FrameError, frame};
use larder_packet::{LpPacket, SharedMemory, types};
use larder_units::Time;
use mio::event::Source;
use mio::net::TcpStream;
use std::io::{self, Read, Write};

/// Either kind of stream socket.
pub(crate) enum Socket {
    Unix(UnixSocket),
    Tcp(TcpStream),
}

impl Socket {
    pub(crate) fn source(&mut self) -> &mut dyn Source {
        match self {
            Socket::Unix(socket) => &mut socket.socket,
            Socket::Tcp(socket) => socket,
        }
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => socket.read(buffer),
            Socket::Tcp(socket) => socket.read(buffer),
        }
    }

    /// Returns true if there may be more to read after a read that did not fill its buffer.
    fn may_have_more(&self) -> bool {
        matches!(self, Socket::Unix(socket) if socket.may_have_more())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => socket.write(bytes),
            Socket::Tcp(socket) => socket.write(bytes),
        }
    }

    /// Does what has to wait until whole packets have been written.
    fn between_packets(&mut self) -> io::Result<()> {
        match self {
            Socket::Unix(socket) => socket.between_packets(),
            Socket::Tcp(_) => Ok(()),
        }
    }
}

/// Bytes that wait until a stream socket accepts them.
#[derive(Default)]
pub(crate) struct Output {
    pub(crate) bytes: Vec<u8>,
    /// The length of the part of `bytes` that has been written.
    written: usize,
}

impl Output {
    pub(crate) fn queued(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Writes the queue as far as the peer accepts it. `Err` if the peer is gone.
    pub(crate) fn flush(
        &mut self,
        socket: &mut Socket,
        spare: &mut SpareBuffers,
    ) -> io::Result<()> {
        while self.written < self.bytes.len() {
            match socket.write(&self.bytes[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Written bytes are removed in pieces, not at each write.
                    if self.written > self.bytes.len() / 2 {
                        self.bytes.drain(..self.written);
                        self.written = 0;
                    }
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        spare.take_back(&mut self.bytes);
        self.written = 0;
        socket.between_packets()
    }
}

pub(crate) struct StreamConnection {
    pub(crate) socket: Socket,
    /// The beginning of an incomplete frame.
    partial: Partial,
    /// Bytes of the largest frame.
    largest_frame: usize,
    /// The bytes left of a packet that is skipped.
    skip: usize,
    /// True if the peer has sent a packet.
    speaks_ndn: bool,
    output: Output,
    /// True if the peer sends no more: the rest is read to its end.
    ending: bool,
}

impl StreamConnection {
    pub(crate) fn new(socket: Socket, largest_frame: usize) -> Self {
        let (partial, output) = (Partial::default(), Output::default());
        StreamConnection {
            socket,
            partial,
            largest_frame,
            skip: 0,
            speaks_ndn: false,
            output,
            ending: false,
        }
    }

    /// Finds the frames, up to the first bytes that are none. Returns the position of the
    /// incomplete rest.
    fn find_frames(&mut self, bytes: &[u8], frames: &mut Vec<Framed>) -> Result<usize, String> {
        let mut at = self.skip.min(bytes.len());
        self.skip -= at;
        while at < bytes.len() {
            match frame(&bytes[at..], self.largest_frame) {
                Ok(Some(length)) => {
                    if !self.speaks_ndn && !begins_ndn(&bytes[at..at + length]) {
                        return Err(
                            "what it sends is not NDN: its first link packet contains no packet"
                                .to_owned(),
                        );
                    }
                    self.speaks_ndn = true;
                    frames.push(match SharedMemory::of(&bytes[at..at + length]) {
                        Some(step) => Framed::SharedMemory(step),
                        None => Framed::Packet(at..at + length),
                    });
                    at += length;
                }
                Ok(None) => return Ok(at),
                Err(FrameError::TooLarge { total: len, .. }) if len <= SKIP_BYTES as u64 => {
                    frames.push(Framed::Oversized(len));
                    let here = (len as usize).min(bytes.len() - at);
                    at += here;
                    self.skip = len as usize - here;
                }
                Err(error) => return Err(format!("what it sends is not NDN: {error}")),
            }
        }
        Ok(at)
    }
}

impl Transport for StreamConnection {
    #[inline]
    fn queued(&self) -> usize {
        self.output.queued()
    }

    fn queue(
        &mut self,
        _: Time,
        send: &Send,
        input: &[u8],
        spare: &mut SpareBuffers,
    ) -> Result<(), Refused> {
        spare.provide(&mut self.output.bytes);
        send.write_stream(input, &mut self.output.bytes);
        Ok(())
    }

    fn flush(&mut self, _: Option<&UdpListener>, spare: &mut SpareBuffers) -> io::Result<usize> {
        self.output.flush(&mut self.socket, spare)?;
        Ok(0)
    }

    fn read(&mut self, now: Time, buffer: &mut [u8], frames: &mut Vec<Framed>) -> Reading {
        frames.clear();
        let kept = self.partial.restore(buffer);
        let read = match self.socket.read(&mut buffer[kept..]) {
            Ok(0) => return Reading::Closed(None),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Reading::Drained,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return Reading::Frames { more: true };
            }
            Err(error) => return Reading::Closed(Some(error.to_string())),
        };
        // A stream that returns less than there is room for has no more, and raises an event when
        // it has (epoll(7), "edge-triggered"). This does not hold for its end, whose event has
        // already come.
        let more = self.ending || kept + read == buffer.len() || self.socket.may_have_more();
        match self.find_frames(&buffer[..kept + read], frames) {
            Ok(rest) => {
                self.partial
                    .keep(now, [&buffer[rest..kept + read], &[]], rest > 0);
                Reading::Frames { more }
            }
            Err(why) => Reading::NotNdn(why),
        }
    }

    fn partial(&self) -> Option<&Partial> {
        Some(&self.partial)
    }

    /// Returns false if too few bytes are here to know the length of the packet.
    fn give_up_partial(&mut self) -> bool {
        // With a limit of 0, the packet is too large, and the error has its length.
        let Err(FrameError::TooLarge { total, .. }) = frame(&self.partial.bytes, 0) else {
            return false;
        };
        self.skip = (total as usize).saturating_sub(self.partial.bytes.len());
        self.partial = Partial::default();
        true
    }

    fn set_ending(&mut self, has_hung_up: bool) -> bool {
        self.ending = true;
        if let Socket::Unix(socket) = &mut self.socket {
            socket.set_ending(has_hung_up);
        }
        has_hung_up
    }

    fn source(&mut self) -> Option<&mut dyn Source> {
        Some(self.socket.source())
    }
}

/// Returns true if a connection that begins with this frame speaks NDN. A text may begin with the
/// byte of an LpPacket, which is "d", and go on as a link packet with text in it.
fn begins_ndn(first: &[u8]) -> bool {
    first[0] != types::LP_PACKET as u8 || LpPacket::is_packet(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::FRAME_BYTES;
    use mio::net::UnixStream;
    use proptest::prelude::*;
    use std::os::unix::net;

    fn connection() -> (StreamConnection, net::UnixStream) {
        let (ours, theirs) = net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (
            StreamConnection::new(
                Socket::Unix(UnixSocket::new(UnixStream::from_std(ours))),
                FRAME_BYTES,
            ),
            theirs,
        )
    }

    fn element(typ: u8, length: usize) -> Vec<u8> {
        let mut out = Vec::new();
        larder_packet::tlv::write_tlv(&mut out, typ.into(), &vec![7; length]);
        out
    }

    proptest! {
        #[test]
        fn frames_are_found_however_the_bytes_are_cut(
            lengths in prop::collection::vec(prop_oneof![0usize..300, 8000usize..20_000], 1..12),
            cuts in prop::collection::vec(1usize..9000, 1..40),
        ) {
            let (mut connection, mut peer) = connection();
            let packets: Vec<Vec<u8>> = lengths.iter().map(|length| element(6, *length)).collect();
            let stream = packets.concat();
            let mut buffer = vec![0; 64 << 10];
            let (mut frames, mut found, mut at) = (Vec::new(), Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                let end = stream.len().min(at + cut);
                peer.write_all(&stream[at..end]).unwrap();
                at = end;
                while let Reading::Frames { .. } = connection.read(Time::ZERO, &mut buffer, &mut frames) {
                    for frame in &frames {
                        found.push(match frame {
                            Framed::Packet(range) => Some(buffer[range.clone()].to_vec()),
                            Framed::Oversized(_) | Framed::Text | Framed::SharedMemory(_) => None,
                        });
                    }
                }
                prop_assert!(connection.partial.held() < FRAME_BYTES);
                if at == stream.len() { break; }
            }
            let fits = |packet: Vec<u8>| (packet.len() <= FRAME_BYTES).then_some(packet);
            let expected: Vec<_> = packets.into_iter().map(fits).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn garbage_closes_the_face_and_an_endless_length_too() {
        for bytes in [&[0u8, 0, 0, 0][..], &[6, 0xff, 0x7f, 0, 0, 0, 0, 0, 0, 0]] {
            let (mut connection, mut peer) = connection();
            peer.write_all(bytes).unwrap();
            let mut frames = Vec::new();
            assert!(matches!(
                connection.read(Time::ZERO, &mut vec![0; 64 << 10], &mut frames),
                Reading::Closed(_) | Reading::NotNdn(_)
            ));
        }
    }

    #[test]
    fn an_idle_connection_holds_memory_or_an_announced_packet_takes_it() {
        let (mut connection, mut peer) = connection();
        let (mut buffer, mut frames) = (vec![0; 80 << 10], Vec::new());
        let mut packet = element(6, 8000);
        let mut read = |connection: &mut StreamConnection, millis| {
            connection.read(Time::from_millis(millis), &mut buffer, &mut frames);
            (
                connection.partial.held(),
                connection.partial.since(),
                frames.len(),
            )
        };
        assert_eq!(read(&mut connection, 0), (0, None, 0));
        peer.write_all(&packet[..10]).unwrap();
        assert_eq!(
            read(&mut connection, 1),
            (10, Some(Time::from_millis(1)), 0)
        );
        peer.write_all(&packet[10..7000]).unwrap();
        assert_eq!(
            read(&mut connection, 2),
            (7000, Some(Time::from_millis(1)), 0),
            "it is the same packet"
        );
        peer.write_all(&[&packet[7000..], &packet[..20]].concat())
            .unwrap();
        assert_eq!(
            read(&mut connection, 3),
            (20, Some(Time::from_millis(3)), 1),
            "it is another"
        );
        assert!(connection.give_up_partial());
        assert_eq!(
            (connection.partial.held(), connection.partial.since()),
            (0, None)
        );
        packet.drain(..20);
        peer.write_all(&[&packet[..], &element(6, 5)].concat())
            .unwrap();
        assert_eq!(
            read(&mut connection, 4),
            (0, None, 1),
            "the next packet is found"
        );
        peer.write_all(&[6]).unwrap();
        assert_eq!(read(&mut connection, 5), (1, Some(Time::from_millis(5)), 0));
        assert!(!connection.give_up_partial(), "its length is not known yet");
    }
}
