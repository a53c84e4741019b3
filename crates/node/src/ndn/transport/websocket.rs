//! WebSocket faces, for applications in browsers (RFC 6455): one packet a binary message.
//!
//! As on streams, all connections read into one buffer of their thread, and a connection keeps
//! bytes of its own only while a message or its handshake is incomplete. A message larger than the
//! largest packet is recognized by its header and skipped, so it takes no memory.

mod handshake;
mod messages;

use crate::config::WebOrigins;
use crate::limits::{HANDSHAKE, HANDSHAKE_BYTES};
use crate::ndn::transport::frames::Refused;
use crate::ndn::transport::kind::Transport;
use crate::ndn::transport::reading::{Framed, Partial, Reading};
use crate::ndn::transport::spare_buffers::SpareBuffers;
use crate::ndn::transport::stream::{Output, Socket};
use crate::ndn::transport::udp::datagram::UdpListener;
use handshake::Answer;
use larder_forwarder::Send;
use larder_units::Time;
use messages::{Decoder, End};
use mio::event::Source;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

pub(crate) struct WebSocketConnection {
    socket: Socket,
    /// The local address that the client has connected to.
    local: IpAddr,
    origins: Arc<WebOrigins>,
    /// `None` during the handshake.
    messages: Option<Decoder>,
    largest_frame: usize,
    partial: Partial,
    output: Output,
    accepted: Time,
    /// True if the peer sends no more: the rest is read to its end.
    ending: bool,
}

impl WebSocketConnection {
    pub(crate) fn new(
        socket: Socket,
        local: IpAddr,
        origins: Arc<WebOrigins>,
        largest_frame: usize,
        now: Time,
    ) -> Self {
        let (partial, output) = (Partial::default(), Output::default());
        let messages = None;
        WebSocketConnection {
            socket,
            local,
            origins,
            messages,
            largest_frame,
            partial,
            output,
            accepted: now,
            ending: false,
        }
    }

    /// Returns true after the handshake.
    fn is_open(&self) -> bool {
        self.messages.is_some()
    }

    /// Continues the handshake. Returns its length if it is complete, and `None` if more has to
    /// come.
    fn shake_hands(&mut self, now: Time, bytes: &[u8]) -> Result<Option<usize>, Reading> {
        match handshake::answer(bytes, self.local, &self.origins) {
            Answer::Incomplete if bytes.len() > HANDSHAKE_BYTES => Err(Reading::Closed(Some(
                "its handshake is too long".to_owned(),
            ))),
            Answer::Incomplete => {
                self.partial.keep(now, [bytes, &[]], false);
                Ok(None)
            }
            Answer::Accepted { length, response } => {
                self.output.bytes.extend_from_slice(&response);
                self.messages = Some(Decoder::new(self.largest_frame));
                Ok(Some(length))
            }
            Answer::Wrong { response, why } => {
                self.output.bytes.extend_from_slice(&response);
                self.say_last();
                Err(Reading::Closed(Some(why)))
            }
            Answer::Foreign { response, origin } => {
                self.output.bytes.extend_from_slice(&response);
                self.say_last();
                Err(Reading::Foreign(origin))
            }
        }
    }

    /// Writes the queue before the connection is closed, as far as the socket accepts it at once.
    fn say_last(&mut self) {
        let _ = self
            .output
            .flush(&mut self.socket, &mut SpareBuffers::default());
    }
}

impl Transport for WebSocketConnection {
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
        if !self.is_open() {
            return Err(Refused::QueueFull);
        }
        spare.provide(&mut self.output.bytes);
        messages::encode(&mut self.output.bytes, |out| send.write_stream(input, out));
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
        let more = self.ending || kept + read == buffer.len();
        let bytes = &mut buffer[..kept + read];
        let from = if self.is_open() {
            0
        } else {
            match self.shake_hands(now, bytes) {
                Ok(Some(from)) => from,
                Ok(None) => return Reading::Frames { more },
                Err(reading) => return reading,
            }
        };
        let Some(messages) = &mut self.messages else {
            return Reading::Closed(None);
        };
        match messages.decode(&mut bytes[from..], frames, &mut self.output.bytes) {
            Ok(rest) => {
                let message = from + rest.message.start..from + rest.message.end;
                self.partial.keep(
                    now,
                    [&bytes[message], &bytes[from + rest.next..]],
                    rest.progress || from > 0,
                );
                Reading::Frames { more }
            }
            Err(End::Closed) => {
                self.say_last();
                Reading::Closed(None)
            }
            Err(End::Wrong(why)) => Reading::Closed(Some(why)),
        }
    }

    fn partial(&self) -> Option<&Partial> {
        Some(&self.partial)
    }

    fn give_up_partial(&mut self) -> bool {
        let given_up = self
            .messages
            .as_mut()
            .is_some_and(|messages| messages.give_up(&self.partial.bytes));
        if given_up {
            self.partial = Partial::default();
        }
        given_up
    }

    fn set_ending(&mut self, _: bool) -> bool {
        self.ending = true;
        false
    }

    /// A handshake has to be complete in time.
    fn is_idle(&self, now: Time) -> bool {
        !self.is_open() && now.since(self.accepted) >= HANDSHAKE
    }

    fn source(&mut self) -> Option<&mut dyn Source> {
        Some(self.socket.source())
    }
}
