//! Unix and TCP streams: packets back to back, read in large pieces and written in large pieces.

use super::link::SpareBuffers;
use crate::limits::SKIP_BYTES;
use larder_forwarder::Send;
use larder_packet::tlv::{FrameError, frame};
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use std::io::{self, Read, Write};

/// Either kind of stream socket.
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    pub(super) fn source(&mut self) -> &mut dyn Source {
        match self {
            Socket::Unix(socket) => socket,
            Socket::Tcp(socket) => socket,
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => socket.read(buffer),
            Socket::Tcp(socket) => socket.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => socket.write(bytes),
            Socket::Tcp(socket) => socket.write(bytes),
        }
    }
}

pub(super) struct StreamConnection {
    pub(super) socket: Socket,
    /// The beginning of a frame whose end has not come yet; shorter than a frame.
    partial: Vec<u8>,
    /// Bytes of the largest frame.
    largest_frame: usize,
    /// What is left of an oversized packet.
    skip: usize,
    out: Vec<u8>,
    /// How much of `out` has been written.
    written: usize,
    /// The peer sends no more: what is left is read to its end.
    ending: bool,
}

/// What one read brought.
pub(super) enum Reading {
    /// Frames stand in the buffer; whether there may be more to read.
    Frames { more: bool },
    /// There was nothing.
    Drained,
    /// The peer is gone, or sends what is not NDN.
    Closed(Option<String>),
}

/// A frame in a stream's bytes, or an oversized packet there.
pub(super) enum Framed {
    Packet(std::ops::Range<usize>),
    Oversized(u64),
}

impl StreamConnection {
    pub(super) fn new(socket: Socket, largest_frame: usize) -> Self {
        let (partial, out) = (Vec::new(), Vec::new());
        StreamConnection { socket, partial, largest_frame, skip: 0, out, written: 0, ending: false }
    }

    /// The peer sends no more, or the socket has failed.
    pub(super) fn set_ending(&mut self) {
        self.ending = true;
    }

    /// Reads once into `buffer` behind what was left over, and finds the frames there.
    pub(super) fn read(&mut self, buffer: &mut [u8], frames: &mut Vec<Framed>) -> Reading {
        frames.clear();
        let kept = self.partial.len();
        buffer[..kept].copy_from_slice(&self.partial);
        let read = match self.socket.read(&mut buffer[kept..]) {
            Ok(0) => return Reading::Closed(None),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Reading::Drained,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Reading::Frames { more: true },
            Err(error) => return Reading::Closed(Some(error.to_string())),
        };
        self.partial.clear();
        // A stream that gives less than there is room for has no more, and tells when it has (epoll(7), "edge-triggered"). Not so its end,
        // of which was told before.
        let more = self.ending || kept + read == buffer.len();
        match self.find_frames(&buffer[..kept + read], frames) {
            Ok(()) => Reading::Frames { more },
            Err(why) => Reading::Closed(Some(why)),
        }
    }

    fn find_frames(&mut self, bytes: &[u8], frames: &mut Vec<Framed>) -> Result<(), String> {
        let mut at = self.skip.min(bytes.len());
        self.skip -= at;
        while at < bytes.len() {
            match frame(&bytes[at..], self.largest_frame) {
                Ok(Some(length)) => {
                    frames.push(Framed::Packet(at..at + length));
                    at += length;
                }
                Ok(None) => {
                    self.partial.extend_from_slice(&bytes[at..]);
                    return Ok(());
                }
                Err(FrameError::TooLarge { total: len, .. }) if len <= SKIP_BYTES as u64 => {
                    frames.push(Framed::Oversized(len));
                    let here = (len as usize).min(bytes.len() - at);
                    at += here;
                    self.skip = len as usize - here;
                }
                Err(error) => return Err(format!("what it sends is not NDN: {error}")),
            }
        }
        Ok(())
    }

    pub(super) fn queued(&self) -> usize {
        self.out.len() - self.written
    }

    pub(super) fn queue(&mut self, send: &Send, input: &[u8], spare: &mut SpareBuffers) {
        spare.provide(&mut self.out);
        send.write_stream(input, &mut self.out);
    }

    /// Writes what is queued, as far as the peer takes it. `Err` where the peer is gone.
    pub(super) fn flush(&mut self, spare: &mut SpareBuffers) -> io::Result<()> {
        while self.written < self.out.len() {
            match self.socket.write(&self.out[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // What has been written is dropped in pieces, not at each write.
                    if self.written > self.out.len() / 2 {
                        self.out.drain(..self.written);
                        self.written = 0;
                    }
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        spare.take_back(&mut self.out);
        self.written = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::FRAME_BYTES;
    use proptest::prelude::*;
    use std::os::unix::net;

    fn connection() -> (StreamConnection, net::UnixStream) {
        let (ours, theirs) = net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (StreamConnection::new(Socket::Unix(UnixStream::from_std(ours)), FRAME_BYTES), theirs)
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
                while let Reading::Frames { .. } = connection.read(&mut buffer, &mut frames) {
                    for frame in &frames {
                        found.push(match frame {
                            Framed::Packet(range) => Some(buffer[range.clone()].to_vec()),
                            Framed::Oversized(_) => None,
                        });
                    }
                }
                prop_assert!(connection.partial.len() < FRAME_BYTES);
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
            assert!(matches!(connection.read(&mut vec![0; 64 << 10], &mut frames), Reading::Closed(Some(_))));
        }
    }
}
