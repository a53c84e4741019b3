//! Every bound of a connection that no setting has, with its reason.

use std::time::Duration;

/// Bytes of one frame on the client's control stream. Settings take some dozens; the other frames
/// hold one integer.
pub const CONTROL_FRAME_BYTES: u64 = 4096;

/// Frames of a request stream that carry nothing: unknown ones, and data without a byte. Clients
/// send one or two unknown ones, so that servers ignore them (RFC 9114 §7.2.8). Each costs the
/// client two bytes.
pub const EMPTY_FRAMES: u32 = 64;

/// Frames and instructions on the client's control and QPACK streams, beside those for its requests
/// ([`SIGNALS_PER_REQUEST`]).
pub const SIGNALS: u64 = 256;

/// Frames and instructions for each request: a browser changes a request's priority a few times,
/// and may cancel it.
pub const SIGNALS_PER_REQUEST: u64 = 16;

/// Unidirectional streams at once: control, two for QPACK, and some of unknown types.
pub const UNI_STREAMS: u32 = 8;

/// Unidirectional streams of unknown types, or that end before their type, in the life of a
/// connection. Each costs the server a task for a moment.
pub const UNKNOWN_STREAMS: u32 = 64;

/// Bytes that are read at once for a head: most requests fit.
pub const HEAD_READ_BYTES: usize = 2048;

/// Bytes that are read at once of a body. They are copied: a piece of a received datagram would
/// keep the buffer of 64 KiB that the kernel filled.
pub const BODY_READ_BYTES: usize = 8 * 1024;

/// The time for the first bytes on the server's control stream. A client gives credit for them with
/// its handshake.
pub const CONTROL_WRITE: Duration = Duration::from_secs(10);

/// Bytes on their way that a client has not acknowledged, for each connection. It bounds the rate
/// at a given round trip: 80 Mbit/s at 100 ms. Stored bodies are shared and not copied. The
/// kernel's buffer of a TCP connection may have four times as much.
pub const SEND_WINDOW_BYTES: u64 = 1 << 20;

/// Bytes of the first datagrams of one handshake that wait to be accepted.
pub const INCOMING_BYTES: u64 = 16 * 1024;

/// The same of all handshakes on one socket.
pub const INCOMING_ALL_BYTES: u64 = 4 << 20;

/// Bytes of received datagrams that wait in the kernel, for each socket, if the system allows it:
/// those of one thread's turn at a gigabit a second.
pub const RECEIVE_BUFFER_BYTES: usize = 2 << 20;
