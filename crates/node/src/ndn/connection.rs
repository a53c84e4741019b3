//! What the event loop needs of a face's socket, whatever kind it is.

use super::datagram::Peer;
use super::stream::StreamConnection;
use super::websocket::WebSocketConnection;
use larder_forwarder::Send;

/// A face's socket.
pub(super) enum Connection {
    Stream(StreamConnection),
    WebSocket(Box<WebSocketConnection>),
    Udp(Peer),
}

/// Why a packet could not be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The reader is slower than what is sent to it.
    QueueFull,
    /// The packet cannot be cut to the link's frames.
    CannotFragment,
}

impl Connection {
    /// Bytes that wait to be sent.
    pub(super) fn queued(&self) -> usize {
        match self {
            Connection::Stream(stream) => stream.queued(),
            Connection::WebSocket(socket) => socket.queued(),
            Connection::Udp(peer) => peer.queued(),
        }
    }

    /// Queues a packet; the loop flushes at the end of its turn.
    pub(super) fn queue(&mut self, send: &Send, input: &[u8]) -> Result<(), Refused> {
        match self {
            Connection::Stream(stream) => {
                stream.queue(send, input);
                Ok(())
            }
            Connection::WebSocket(socket) => socket.queue(send, input),
            Connection::Udp(peer) => peer.queue(send, input),
        }
    }
}
