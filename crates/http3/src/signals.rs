//! The client's unidirectional streams: control and QPACK (RFC 9114 §6.2, RFC 9204 §4.2). Bytes
//! come in; all that comes out is whether the client keeps to the protocol, and how many frames or
//! instructions it has sent.

use crate::code::Code;
use crate::frames::{FrameHeader, is_of_http2};
use crate::limits;
use crate::varint;
use bytes::{Buf, Bytes};

const SETTINGS: u64 = 0x4;
const CANCEL_PUSH: u64 = 0x3;
const GOAWAY: u64 = 0x7;
const MAX_PUSH_ID: u64 = 0xd;
const DATA: u64 = 0x0;
const HEADERS: u64 = 0x1;
const PUSH_PROMISE: u64 = 0x5;

/// The type of a client's unidirectional stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamType {
    Control,
    Encoder,
    Decoder,
    Unknown,
}

impl StreamType {
    /// Returns the type for its number.
    ///
    /// # Errors
    /// Only servers open such a stream.
    pub(crate) fn of(number: u64) -> Result<StreamType, Code> {
        match number {
            0x0 => Ok(StreamType::Control),
            0x1 => Err(Code::STREAM_CREATION_ERROR),
            0x2 => Ok(StreamType::Encoder),
            0x3 => Ok(StreamType::Decoder),
            _ => Ok(StreamType::Unknown),
        }
    }
}

/// Reads one of these streams.
#[derive(Debug)]
pub enum Signals {
    /// The control stream.
    Control(ControlFrames),
    /// Instructions for a dynamic table: only the one that it has no room.
    Encoder,
    /// Instructions about a dynamic table: only that a stream is cancelled.
    Decoder {
        /// True within the number of the stream.
        is_within: bool,
    },
}

impl Signals {
    /// Begins with a stream; `None` for an unknown type.
    pub(crate) fn new(kind: StreamType) -> Option<Signals> {
        match kind {
            StreamType::Control => Some(Signals::Control(ControlFrames::default())),
            StreamType::Encoder => Some(Signals::Encoder),
            StreamType::Decoder => Some(Signals::Decoder { is_within: false }),
            StreamType::Unknown => None,
        }
    }

    /// Reads all of the input. Returns the number of frames or instructions that have begun.
    ///
    /// # Errors
    /// The client violates the protocol.
    pub fn read(&mut self, input: &mut Bytes) -> Result<u64, Code> {
        match self {
            Signals::Control(frames) => frames.read(input),
            Signals::Encoder => {
                let count = input.len() as u64;
                // Set Dynamic Table Capacity: 0 (RFC 9204 §4.3.1).
                if std::mem::take(input).iter().any(|byte| *byte != 0x20) {
                    return Err(Code::ENCODER_STREAM_ERROR);
                }
                Ok(count)
            }
            Signals::Decoder { is_within } => {
                let mut count = 0;
                for byte in std::mem::take(input) {
                    if *is_within {
                        *is_within = byte & 0x80 != 0;
                        // A number of many bytes counts as many instructions.
                        count += 1;
                        continue;
                    }
                    // Stream Cancellation (RFC 9204 §4.4.2).
                    if byte & 0b1100_0000 != 0b0100_0000 {
                        return Err(Code::DECODER_STREAM_ERROR);
                    }
                    *is_within = byte & 0b0011_1111 == 0b0011_1111;
                    count += 1;
                }
                Ok(count)
            }
        }
    }
}

#[derive(Debug)]
enum State {
    Header,
    Payload { kind: u64, left: usize },
    Skipped { left: u64 },
}

/// Reads the frames of the control stream.
#[derive(Debug)]
pub struct ControlFrames {
    header: FrameHeader,
    state: State,
    payload: Vec<u8>,
    has_settings: bool,
    most_push: Option<u64>,
    goaway: Option<u64>,
}

impl Default for ControlFrames {
    fn default() -> ControlFrames {
        ControlFrames {
            header: FrameHeader::default(),
            state: State::Header,
            payload: Vec::new(),
            has_settings: false,
            most_push: None,
            goaway: None,
        }
    }
}

impl ControlFrames {
    fn read(&mut self, input: &mut Bytes) -> Result<u64, Code> {
        let mut count = 0;
        loop {
            match &mut self.state {
                State::Header => {
                    let Some((kind, length)) = self.header.read(input) else {
                        return Ok(count);
                    };
                    count += 1;
                    self.state = self.begin(kind, length)?;
                }
                State::Skipped { left } => {
                    let bytes = usize::try_from(*left)
                        .unwrap_or(usize::MAX)
                        .min(input.len());
                    input.advance(bytes);
                    *left -= bytes as u64;
                    if *left > 0 {
                        return Ok(count);
                    }
                    self.state = State::Header;
                }
                State::Payload { kind, left } => {
                    let bytes = (*left).min(input.len());
                    self.payload.extend_from_slice(&input.split_to(bytes));
                    *left -= bytes;
                    if *left > 0 {
                        return Ok(count);
                    }
                    let kind = *kind;
                    self.state = State::Header;
                    let payload = std::mem::take(&mut self.payload);
                    self.end(kind, &payload)?;
                }
            }
        }
    }

    fn begin(&mut self, kind: u64, length: u64) -> Result<State, Code> {
        match kind {
            DATA | HEADERS | PUSH_PROMISE => return Err(Code::FRAME_UNEXPECTED),
            SETTINGS if self.has_settings => return Err(Code::FRAME_UNEXPECTED),
            kind if is_of_http2(kind) => return Err(Code::FRAME_UNEXPECTED),
            SETTINGS => self.has_settings = true,
            _ if !self.has_settings => return Err(Code::MISSING_SETTINGS),
            _ => {}
        }
        if !matches!(kind, SETTINGS | CANCEL_PUSH | GOAWAY | MAX_PUSH_ID) {
            return Ok(State::Skipped { left: length });
        }
        if length > limits::CONTROL_FRAME_BYTES {
            return Err(Code::EXCESSIVE_LOAD);
        }
        let left = length as usize;
        Ok(State::Payload { kind, left })
    }

    fn end(&mut self, kind: u64, payload: &[u8]) -> Result<(), Code> {
        if kind == SETTINGS {
            return check_settings(payload);
        }
        let number = match varint::decode(payload) {
            Some((number, length)) if length == payload.len() => number,
            _ => return Err(Code::FRAME_ERROR),
        };
        match kind {
            // No push was ever promised.
            CANCEL_PUSH => Err(Code::ID_ERROR),
            GOAWAY if self.goaway.is_some_and(|before| number > before) => Err(Code::ID_ERROR),
            MAX_PUSH_ID if self.most_push.is_some_and(|before| number < before) => {
                Err(Code::ID_ERROR)
            }
            GOAWAY => {
                self.goaway = Some(number);
                Ok(())
            }
            _ => {
                self.most_push = Some(number);
                Ok(())
            }
        }
    }
}

/// Checks the settings (RFC 9114 §7.2.4). None of them changes what this server does: it uses no
/// dynamic table and pushes nothing.
fn check_settings(mut payload: &[u8]) -> Result<(), Code> {
    const BOOLEANS: [u64; 2] = [0x8, 0x33];
    let mut known = Vec::new();
    while !payload.is_empty() {
        let (setting, length) = varint::decode(payload).ok_or(Code::FRAME_ERROR)?;
        payload = &payload[length..];
        let (value, length) = varint::decode(payload).ok_or(Code::FRAME_ERROR)?;
        payload = &payload[length..];
        let is_of_http2 = (0x2..=0x5).contains(&setting);
        if is_of_http2 || BOOLEANS.contains(&setting) && value > 1 {
            return Err(Code::SETTINGS_ERROR);
        }
        known.push(setting);
    }
    known.sort_unstable();
    if known.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Code::SETTINGS_ERROR);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(frames: &[(u64, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, payload) in frames {
            varint::encode(*kind, &mut bytes);
            varint::encode(payload.len() as u64, &mut bytes);
            bytes.extend_from_slice(payload);
        }
        bytes
    }

    fn read(kind: StreamType, bytes: &[u8], piece: usize) -> Result<u64, Code> {
        let mut signals = Signals::new(kind).expect("a known type");
        let mut count = 0;
        for piece in bytes.chunks(piece) {
            count += signals.read(&mut Bytes::copy_from_slice(piece))?;
        }
        Ok(count)
    }

    const SETTINGS_FRAME: (u64, &[u8]) = (SETTINGS, &[0x1, 0x40, 0x64, 0x6, 0x50, 0, 0x8, 1]);

    /// Failure: a client that keeps to the protocol loses its connection, or its frames are not
    /// counted.
    #[test]
    fn a_correct_control_stream_is_refused() {
        let bytes = control(&[
            SETTINGS_FRAME,
            (0x21, &[1; 5000]),
            (MAX_PUSH_ID, &[1]),
            (MAX_PUSH_ID, &[1]),
            (0xf0700, b"\0u=1"),
            (GOAWAY, &[9]),
            (GOAWAY, &[8]),
        ]);
        for piece in [1, 2, 7, 100_000] {
            assert_eq!(read(StreamType::Control, &bytes, piece), Ok(7));
        }
        assert_eq!(read(StreamType::Encoder, &[0x20, 0x20], 1), Ok(2));
        // Streams 4 and 4 * 100.
        assert_eq!(
            read(StreamType::Decoder, &[0x44, 0x7f, 0xd1, 0x02, 0x44], 1),
            Ok(5)
        );
    }

    /// Failure: a violation of the protocol goes unnoticed, or has the wrong code.
    #[test]
    fn a_violation_has_another_code() {
        let frames = |more: &[(u64, &[u8])]| control(&[&[SETTINGS_FRAME], more].concat());
        for (bytes, code) in [
            (control(&[(GOAWAY, &[0])]), Code::MISSING_SETTINGS),
            (control(&[(0x21, &[])]), Code::MISSING_SETTINGS),
            (control(&[(DATA, &[])]), Code::FRAME_UNEXPECTED),
            (frames(&[SETTINGS_FRAME]), Code::FRAME_UNEXPECTED),
            (frames(&[(HEADERS, &[0, 0])]), Code::FRAME_UNEXPECTED),
            (frames(&[(0x6, &[0; 8])]), Code::FRAME_UNEXPECTED),
            (frames(&[(PUSH_PROMISE, &[0])]), Code::FRAME_UNEXPECTED),
            (frames(&[(GOAWAY, &[1]), (GOAWAY, &[2])]), Code::ID_ERROR),
            (
                frames(&[(MAX_PUSH_ID, &[2]), (MAX_PUSH_ID, &[1])]),
                Code::ID_ERROR,
            ),
            (frames(&[(CANCEL_PUSH, &[0])]), Code::ID_ERROR),
            (frames(&[(GOAWAY, &[1, 2])]), Code::FRAME_ERROR),
            (frames(&[(GOAWAY, &[])]), Code::FRAME_ERROR),
            (control(&[(SETTINGS, &[0x6])]), Code::FRAME_ERROR),
            (control(&[(SETTINGS, &[0x2, 0])]), Code::SETTINGS_ERROR),
            (control(&[(SETTINGS, &[0x8, 2])]), Code::SETTINGS_ERROR),
            (
                control(&[(SETTINGS, &[0x6, 1, 0x7, 1, 0x6, 1])]),
                Code::SETTINGS_ERROR,
            ),
        ] {
            for piece in [1, 1000] {
                assert_eq!(
                    read(StreamType::Control, &bytes, piece),
                    Err(code),
                    "{bytes:?}"
                );
            }
        }
        for instruction in [0x3f, 0x80, 0x40, 0x00] {
            let read = read(StreamType::Encoder, &[instruction], 1);
            assert_eq!(read, Err(Code::ENCODER_STREAM_ERROR));
        }
        for instruction in [0x80, 0x01, 0x00] {
            let read = read(StreamType::Decoder, &[instruction], 1);
            assert_eq!(read, Err(Code::DECODER_STREAM_ERROR));
        }
        assert_eq!(StreamType::of(1), Err(Code::STREAM_CREATION_ERROR));
    }

    /// Failure: a client fills the memory by one frame of the control stream.
    #[test]
    fn a_control_frame_bomb_is_stored() {
        let mut bytes = Vec::new();
        varint::encode(SETTINGS, &mut bytes);
        varint::encode(1 << 30, &mut bytes);
        assert_eq!(
            read(StreamType::Control, &bytes, 9),
            Err(Code::EXCESSIVE_LOAD)
        );
        let mut frames = ControlFrames::default();
        let mut start = control(&[SETTINGS_FRAME]);
        varint::encode(0x21, &mut start);
        varint::encode(1 << 40, &mut start);
        frames.read(&mut Bytes::from(start)).unwrap();
        for _ in 0..1000 {
            assert_eq!(frames.read(&mut Bytes::from_static(&[1; 4096])), Ok(0));
            assert_eq!(frames.payload.capacity(), 0);
        }
    }
}
