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

/// Returns the token of the bell of a face's shared memory.
pub(super) fn bell(face: FaceId) -> Token {
    Token(face.0 as usize | BELL)
}

/// Returns the face of the bell with this token, if it is one.
pub(super) fn face_of_bell(Token(token): Token) -> Option<FaceId> {
    (token & BELL != 0).then_some(FaceId((token & !BELL) as u64))
}

/// A bit that no other token has: faces are numbered from 256 on.
const BELL: usize = 1 << (usize::BITS - 2);
