//! Error codes (RFC 9114 §8.1, RFC 9204 §6), and what they end.

use quinn::VarInt;

/// The code with which a stream or a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(u32);

impl Code {
    /// Nothing failed.
    pub const NO_ERROR: Code = Code(0x100);
    /// The server failed.
    pub const INTERNAL_ERROR: Code = Code(0x102);
    /// A second control stream, or a stream that a client must not open.
    pub const STREAM_CREATION_ERROR: Code = Code(0x103);
    /// A stream closed that lasts as long as the connection.
    pub const CLOSED_CRITICAL_STREAM: Code = Code(0x104);
    /// A frame where it is not allowed.
    pub const FRAME_UNEXPECTED: Code = Code(0x105);
    /// A frame that is malformed.
    pub const FRAME_ERROR: Code = Code(0x106);
    /// A client that makes more work than its requests are worth.
    pub const EXCESSIVE_LOAD: Code = Code(0x107);
    /// An identifier that is not valid.
    pub const ID_ERROR: Code = Code(0x108);
    /// A settings frame that is malformed.
    pub const SETTINGS_ERROR: Code = Code(0x109);
    /// A control stream that does not begin with settings.
    pub const MISSING_SETTINGS: Code = Code(0x10a);
    /// A request that was not processed: the client may repeat it.
    pub const REQUEST_REJECTED: Code = Code(0x10b);
    /// A request that was given up.
    pub const REQUEST_CANCELLED: Code = Code(0x10c);
    /// A stream that ended before its request did.
    pub const REQUEST_INCOMPLETE: Code = Code(0x10d);
    /// A malformed request.
    pub const MESSAGE_ERROR: Code = Code(0x10e);
    /// A field section that cannot be read.
    pub const DECOMPRESSION_FAILED: Code = Code(0x200);
    /// An instruction for the dynamic table, which this server does not have.
    pub const ENCODER_STREAM_ERROR: Code = Code(0x201);
    /// An instruction about insertions that this server has not made.
    pub const DECODER_STREAM_ERROR: Code = Code(0x202);
}

impl From<Code> for VarInt {
    fn from(code: Code) -> VarInt {
        VarInt::from_u32(code.0)
    }
}

/// A violation of the protocol, by what it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The stream ends.
    Stream(Code),
    /// The connection ends.
    Connection(Code),
    /// A field section of a request's head that is larger than the limit: the request gets 431.
    HeadTooLarge,
}
