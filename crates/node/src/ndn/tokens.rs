//! The tokens of sockets in the poll.

use larder_forwarder::FaceId;
use mio::Token;

pub(super) const WAKER: Token = Token(0);
pub(super) const UNIX: Token = Token(1);
pub(super) const TCP: Token = Token(2);
pub(super) const WEBSOCKET: Token = Token(3);
pub(super) const UDP: Token = Token(4);
pub(super) const UDP_OUTGOING: Token = Token(5);

/// Returns the token of a face: its number. Faces begin at 256.
pub(super) fn token(face: FaceId) -> Token {
    Token(face.0 as usize)
}
