//! WebSocket faces, for applications in browsers: one packet a binary message.

use super::link::Refused;
use crate::limits::{SEND_QUEUE_BYTES, WEBSOCKET_MESSAGE_BYTES};
use larder_forwarder::Send;
use larder_units::Time;
use mio::net::TcpStream;
use std::io;
use tungstenite::handshake::MidHandshake;
use tungstenite::handshake::server::{NoCallback, ServerHandshake};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, HandshakeError, Message, WebSocket, accept_with_config};

/// A client that has not finished its handshake, or one that has.
pub(super) enum Stage {
    Handshake(MidHandshake<ServerHandshake<TcpStream, NoCallback>>),
    Open(WebSocket<TcpStream>),
}

pub(super) struct WebSocketConnection {
    /// `None` only while a handshake is being advanced.
    stage: Option<Stage>,
    pub(super) accepted: Time,
    queued: usize,
}

/// What one message was.
pub(super) enum Reading {
    Packet(Vec<u8>),
    /// A text message: no packet.
    Text,
    /// Control frames, or a handshake that went on.
    Nothing,
    Drained,
    Closed(Option<String>),
}

impl WebSocketConnection {
    pub(super) fn accept(stream: TcpStream, now: Time) -> Result<Self, String> {
        let config = WebSocketConfig::default()
            .max_message_size(Some(WEBSOCKET_MESSAGE_BYTES))
            .max_frame_size(Some(WEBSOCKET_MESSAGE_BYTES))
            .write_buffer_size(128 << 10)
            .max_write_buffer_size(SEND_QUEUE_BYTES);
        let stage = match accept_with_config(stream, Some(config)) {
            Ok(socket) => Stage::Open(socket),
            Err(HandshakeError::Interrupted(mid)) => Stage::Handshake(mid),
            Err(HandshakeError::Failure(error)) => return Err(error.to_string()),
        };
        Ok(WebSocketConnection { stage: Some(stage), accepted: now, queued: 0 })
    }

    pub(super) fn socket(&mut self) -> Option<&mut TcpStream> {
        match self.stage.as_mut()? {
            Stage::Handshake(mid) => Some(mid.get_mut().get_mut()),
            Stage::Open(socket) => Some(socket.get_mut()),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.stage, Some(Stage::Open(_)))
    }

    pub(super) fn read(&mut self) -> Reading {
        let Some(Stage::Open(socket)) = self.stage.as_mut() else { return self.shake_hands() };
        match socket.read() {
            Ok(Message::Binary(bytes)) => Reading::Packet(bytes.into()),
            Ok(Message::Text(_)) => Reading::Text,
            Ok(_) => Reading::Nothing,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Reading::Drained,
            Err(Error::ConnectionClosed | Error::AlreadyClosed) => Reading::Closed(None),
            Err(error) => Reading::Closed(Some(error.to_string())),
        }
    }

    fn shake_hands(&mut self) -> Reading {
        let Some(Stage::Handshake(mid)) = self.stage.take() else { return Reading::Closed(None) };
        match mid.handshake() {
            Ok(socket) => {
                self.stage = Some(Stage::Open(socket));
                Reading::Nothing
            }
            Err(HandshakeError::Interrupted(mid)) => {
                self.stage = Some(Stage::Handshake(mid));
                Reading::Drained
            }
            Err(HandshakeError::Failure(error)) => Reading::Closed(Some(error.to_string())),
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    pub(super) fn queue(&mut self, send: &Send, input: &[u8]) -> Result<(), Refused> {
        let Some(Stage::Open(socket)) = self.stage.as_mut() else { return Err(Refused::QueueFull) };
        let mut packet = Vec::new();
        send.write_stream(input, &mut packet);
        self.queued += packet.len();
        match socket.write(Message::binary(packet)) {
            Ok(()) => Ok(()),
            // The bytes are in the socket's own buffer; the flush tells what became of them.
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(_) => Err(Refused::QueueFull),
        }
    }

    /// `Err` where the peer is gone.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(Stage::Open(socket)) = self.stage.as_mut() else { return Ok(()) };
        match socket.flush() {
            Ok(()) => {
                self.queued = 0;
                Ok(())
            }
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(Error::ConnectionClosed | Error::AlreadyClosed) => Err(io::ErrorKind::ConnectionAborted.into()),
            Err(Error::Io(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}
