//! WebSocket faces, for applications in browsers (RFC 6455): one packet a binary message.
//!
//! As on streams, all connections read into one buffer of their thread, and a connection keeps
//! bytes of its own only while a message or its handshake is incomplete. A message larger than the
//! largest packet is recognized by its header and skipped, so it takes no memory.

mod handshake;
mod messages;

use crate::config::WebOrigins;
use crate::limits::HANDSHAKE_BYTES;
use crate::ndn::transport::frames::Refused;
use crate::ndn::transport::reading::{Framed, Partial, Reading};
use crate::ndn::transport::spare_buffers::SpareBuffers;
use crate::ndn::transport::stream::{Output, Socket};
use handshake::Answer;
use larder_forwarder::Send;
use larder_units::Time;
use messages::{Decoder, End};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

pub(crate) struct WebSocketConnection {
    pub(crate) socket: Socket,
    /// The local address that the client has connected to.
    local: IpAddr,
    origins: Arc<WebOrigins>,
    /// `None` during the handshake.
    messages: Option<Decoder>,
    largest_frame: usize,
    partial: Partial,
    output: Output,
    pub(crate) accepted: Time,
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
    pub(crate) fn is_open(&self) -> bool {
        self.messages.is_some()
    }

    /// Records that the peer sends no more, or that the socket has failed.
    pub(crate) fn set_ending(&mut self) {
        self.ending = true;
    }

    /// Returns the incomplete message or handshake.
    pub(crate) fn partial(&self) -> &Partial {
        &self.partial
    }

    /// Drops the incomplete message and skips its rest. Returns false if it cannot be skipped.
    pub(crate) fn give_up(&mut self) -> bool {
        let given_up = self
            .messages
            .as_mut()
            .is_some_and(|messages| messages.give_up(&self.partial.bytes));
        if given_up {
            self.partial = Partial::default();
        }
        given_up
    }

    /// Reads once into `buffer` behind the kept bytes, and finds the messages there.
    pub(crate) fn read(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        frames: &mut Vec<Framed>,
    ) -> Reading {
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
        let from = match self.is_open() {
            true => 0,
            false => match self.shake_hands(now, bytes) {
                Ok(Some(from)) => from,
                Ok(None) => return Reading::Frames { more },
                Err(reading) => return reading,
            },
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

    pub(crate) fn queued(&self) -> usize {
        self.output.queued()
    }

    pub(crate) fn queue(
        &mut self,
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

    /// Writes the queue as far as the peer accepts it. `Err` if the peer is gone.
    pub(crate) fn flush(&mut self, spare: &mut SpareBuffers) -> io::Result<()> {
        self.output.flush(&mut self.socket, spare)
    }
}
