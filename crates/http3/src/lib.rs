//! HTTP/3 (RFC 9114) for a server, over QUIC of quinn. It knows nothing of caches and of what is
//! served.
//!
//! ```text
//!  datagrams ──► Socket ──► quinn ──► Connection::accept ──► RequestStream::request
//!                                       │ GOAWAY              │ RequestBody, Reply
//!                                       └ signals: the client's control and QPACK streams
//! ```
//!
//! Read [`Connection`] first, then [`RequestStream`] and [`Reply`]. Frames, field sections and
//! signals are read without clock and socket; a client cannot make them store more than one field
//! section of the allowed size for each stream.
//!
//! The crate h3 is not used. It stores a frame of a head, of an unknown type or of the control
//! stream as long as it likes to be; its GOAWAY names the wrong request; a stream that is dropped
//! unread gets a code of no meaning; and it does not export its reader of field sections. What
//! would have to stand around it is larger than these frames.
//!
//! # What is missing
//! A dynamic table for fields (QPACK), server push, priorities (RFC 9218), datagrams (RFC 9297),
//! requests before the handshake ends (0-RTT).
#![forbid(unsafe_code)]

mod code;
mod connection;
mod endpoint;
pub mod frames;
pub mod head;
pub mod limits;
pub mod qpack;
mod request;
mod shared;
pub mod signals;
pub mod varint;

pub use code::{Code, Violation};
pub use connection::{Connection, Ended, LastRequests};
pub use endpoint::{Endpoint, Established, Handshake, HandshakeError, Identity, Transport, bind};
pub use request::{BodyError, DataFrame, NoRequest, Reply, RequestBody, RequestStream, SendError};
pub use shared::Settings;
