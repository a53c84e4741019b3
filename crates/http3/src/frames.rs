//! The frames of a request stream (RFC 9114 §7), read without storing more than one field section.
//!
//! Nothing here reads a clock or a socket: bytes come in, frames go out. Data is passed on as it
//! comes, and frames of unknown types are skipped, both without a copy that grows.

use crate::code::{Code, Violation};
use crate::limits;
use crate::varint;
use bytes::{Buf, Bytes};

const DATA: u64 = 0x0;
const HEADERS: u64 = 0x1;

/// Type and length of a frame, as far as they have come.
#[derive(Debug, Default)]
pub(crate) struct FrameHeader {
    bytes: [u8; 16],
    have: usize,
}

impl FrameHeader {
    /// Reads on; returns type and length when both are there.
    pub(crate) fn read(&mut self, input: &mut Bytes) -> Option<(u64, u64)> {
        while input.has_remaining() {
            self.bytes[self.have] = input.get_u8();
            self.have += 1;
            let known = &self.bytes[..self.have];
            if let Some((kind, length_at)) = varint::decode(known)
                && let Some((length, _)) = varint::decode(&known[length_at..])
            {
                self.have = 0;
                return Some((kind, length));
            }
        }
        None
    }

    /// Returns true between two frames.
    pub(crate) fn is_empty(&self) -> bool {
        self.have == 0
    }
}

/// Returns true for a type that HTTP/2 has and HTTP/3 has not, and for types that are only allowed
/// on other streams.
fn is_forbidden(kind: u64) -> bool {
    const CANCEL_PUSH: u64 = 0x3;
    const SETTINGS: u64 = 0x4;
    const PUSH_PROMISE: u64 = 0x5;
    const GOAWAY: u64 = 0x7;
    const MAX_PUSH_ID: u64 = 0xd;
    let is_of_others = [CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID].contains(&kind);
    is_of_others || is_of_http2(kind)
}

/// Returns true for a type that HTTP/2 has and HTTP/3 has not (RFC 9114 §7.2.8).
pub(crate) fn is_of_http2(kind: u64) -> bool {
    [0x2, 0x6, 0x8, 0x9].contains(&kind)
}

/// A frame of a request stream, or a part of one.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// The field section of the head.
    Head(Bytes),
    /// Some bytes of the body.
    Data(Bytes),
    /// The field section of the trailers.
    Trailers(Bytes),
}

#[derive(Debug)]
enum State {
    Header,
    Section { left: usize },
    Data { left: u64 },
    Skipped { left: u64 },
}

/// The part of a request that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Head,
    Body,
    End,
}

/// Reads the frames of one request stream.
#[derive(Debug)]
pub struct RequestFrames {
    header: FrameHeader,
    state: State,
    part: Part,
    /// The largest field section.
    section_bytes: usize,
    /// A field section that has come in part.
    section: Vec<u8>,
    /// Frames that carried nothing.
    empty: u32,
}

impl RequestFrames {
    /// Begins with a stream. A field section may have so many bytes.
    pub fn new(section_bytes: usize) -> RequestFrames {
        RequestFrames {
            header: FrameHeader::default(),
            state: State::Header,
            part: Part::Head,
            section_bytes,
            section: Vec::new(),
            empty: 0,
        }
    }

    /// Returns the next frame, or part of one; `None` if the input is used up. Skips frames of
    /// unknown types.
    ///
    /// # Errors
    /// The client violates the protocol, or a limit. Nothing more can be read then.
    pub fn read(&mut self, input: &mut Bytes) -> Result<Option<Frame>, Violation> {
        loop {
            match &mut self.state {
                State::Header => {
                    let Some((kind, length)) = self.header.read(input) else {
                        return Ok(None);
                    };
                    self.state = self.begin(kind, length)?;
                }
                State::Section { left } => {
                    if let Some(section) = take_section(&mut self.section, *left, input) {
                        self.state = State::Header;
                        return Ok(Some(self.end_section(section)));
                    }
                    *left -= input.len();
                    self.section.extend_from_slice(input);
                    input.clear();
                    return Ok(None);
                }
                State::Data { left: 0 } | State::Skipped { left: 0 } => self.state = State::Header,
                State::Data { left } | State::Skipped { left } => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    let bytes = usize::try_from(*left)
                        .unwrap_or(usize::MAX)
                        .min(input.len());
                    *left -= bytes as u64;
                    let data = input.split_to(bytes);
                    if matches!(self.state, State::Data { .. }) {
                        return Ok(Some(Frame::Data(data)));
                    }
                }
            }
        }
    }

    fn begin(&mut self, kind: u64, length: u64) -> Result<State, Violation> {
        match (kind, self.part) {
            (HEADERS, Part::Head | Part::Body) => match usize::try_from(length) {
                Ok(left) if left <= self.section_bytes => Ok(State::Section { left }),
                _ if self.part == Part::Head => Err(Violation::HeadTooLarge),
                _ => Err(Violation::Stream(Code::EXCESSIVE_LOAD)),
            },
            (DATA, Part::Body) => {
                if length == 0 {
                    self.count_empty()?;
                }
                Ok(State::Data { left: length })
            }
            (HEADERS | DATA, _) => Err(Violation::Connection(Code::FRAME_UNEXPECTED)),
            (kind, _) if is_forbidden(kind) => Err(Violation::Connection(Code::FRAME_UNEXPECTED)),
            _ => {
                self.count_empty()?;
                Ok(State::Skipped { left: length })
            }
        }
    }

    fn count_empty(&mut self) -> Result<(), Violation> {
        self.empty += 1;
        if self.empty > limits::EMPTY_FRAMES {
            return Err(Violation::Connection(Code::EXCESSIVE_LOAD));
        }
        Ok(())
    }

    fn end_section(&mut self, section: Bytes) -> Frame {
        if self.part == Part::Head {
            self.part = Part::Body;
            Frame::Head(section)
        } else {
            self.part = Part::End;
            Frame::Trailers(section)
        }
    }

    /// Checks the end of the stream.
    ///
    /// # Errors
    /// The stream ends within a frame, or before the head.
    pub fn end(&self) -> Result<(), Violation> {
        let is_between = match self.state {
            State::Header => self.header.is_empty(),
            State::Data { left } | State::Skipped { left } => left == 0,
            State::Section { .. } => false,
        };
        match (is_between, self.part) {
            (false, _) => Err(Violation::Connection(Code::FRAME_ERROR)),
            (true, Part::Head) => Err(Violation::Stream(Code::REQUEST_INCOMPLETE)),
            (true, Part::Body | Part::End) => Ok(()),
        }
    }

    /// Returns the bytes of a field section that are stored until the others come.
    pub(crate) fn stored(&self) -> usize {
        self.section.len()
    }

    /// Returns the memory that the stream holds.
    #[cfg(test)]
    fn held(&self) -> usize {
        self.section.capacity()
    }
}

/// Returns the whole section if its last bytes are in `input`. One that has come in one piece is
/// not copied.
fn take_section(held: &mut Vec<u8>, left: usize, input: &mut Bytes) -> Option<Bytes> {
    if input.len() < left {
        return None;
    }
    let last = input.split_to(left);
    if held.is_empty() {
        return Some(last);
    }
    held.extend_from_slice(&last);
    Some(Bytes::from(std::mem::take(held)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        varint::encode(kind, &mut bytes);
        varint::encode(payload.len() as u64, &mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    }

    /// Reads bytes in pieces of this size: the head, the joined body, the trailers.
    fn read(bytes: &[u8], piece: usize) -> Result<[Option<Vec<u8>>; 3], Violation> {
        let mut frames = RequestFrames::new(100);
        let mut found = [None::<Vec<u8>>, None, None];
        for piece in bytes.chunks(piece) {
            let mut input = Bytes::copy_from_slice(piece);
            while let Some(frame) = frames.read(&mut input)? {
                let (at, part) = match frame {
                    Frame::Head(part) => (0, part),
                    Frame::Data(part) => (1, part),
                    Frame::Trailers(part) => (2, part),
                };
                found[at].get_or_insert_default().extend_from_slice(&part);
            }
            assert!(input.is_empty() && frames.held() <= 200);
        }
        frames.end().map(|()| found)
    }

    /// Failure: a request depends on how its bytes come, or unknown frames change it.
    #[test]
    fn frames_are_others_in_pieces() {
        let bytes = [
            frame(0x21, b"unknown"),
            frame(HEADERS, b"head"),
            frame(0x40, &[7; 300]),
            frame(DATA, b"some "),
            frame(DATA, b""),
            frame(DATA, &[b'x'; 70]),
            frame(HEADERS, b"trailers"),
            frame(0x2f, b""),
        ]
        .concat();
        let body = [&b"some "[..], &[b'x'; 70]].concat();
        for piece in 1..=bytes.len() {
            assert_eq!(
                read(&bytes, piece),
                Ok([
                    Some(b"head".to_vec()),
                    Some(body.clone()),
                    Some(b"trailers".to_vec())
                ])
            );
        }
    }

    /// Failure: a stream in the wrong order is served, or its end within a frame is the end of a
    /// request.
    #[test]
    fn a_malformed_stream_is_a_request() {
        let head = || frame(HEADERS, b"h");
        let unexpected = Violation::Connection(Code::FRAME_UNEXPECTED);
        let cut = Violation::Connection(Code::FRAME_ERROR);
        for (bytes, violation) in [
            (frame(DATA, b"x"), unexpected),
            ([head(), head(), frame(DATA, b"x")].concat(), unexpected),
            ([head(), head(), head()].concat(), unexpected),
            (frame(0x4, b""), unexpected),
            ([head(), frame(0x6, b"12345678")].concat(), unexpected),
            ([head(), frame(0x5, b"\0")].concat(), unexpected),
            (Vec::new(), Violation::Stream(Code::REQUEST_INCOMPLETE)),
            (
                frame(0x21, b"x"),
                Violation::Stream(Code::REQUEST_INCOMPLETE),
            ),
            (frame(HEADERS, b"head")[..4].to_vec(), cut),
            ([head(), vec![0x40]].concat(), cut),
            ([head(), vec![0, 2, 1]].concat(), cut),
            ([head(), vec![0x21, 2, 1]].concat(), cut),
        ] {
            for piece in [1, 1000] {
                assert_eq!(read(&bytes, piece), Err(violation), "{bytes:?}");
            }
        }
    }

    /// Failure: a client fills the memory by one frame, or the processor by frames of two bytes.
    #[test]
    fn a_frame_bomb_is_stored() {
        let begin = |kind, length| {
            let mut bytes = Vec::new();
            varint::encode(kind, &mut bytes);
            varint::encode(length, &mut bytes);
            bytes
        };
        assert_eq!(
            read(&begin(HEADERS, 1 << 30), 9),
            Err(Violation::HeadTooLarge)
        );
        let trailers = [frame(HEADERS, b"h"), begin(HEADERS, 101)].concat();
        assert_eq!(
            read(&trailers, 9),
            Err(Violation::Stream(Code::EXCESSIVE_LOAD))
        );
        for kind in [0x21, DATA] {
            let mut frames = RequestFrames::new(100);
            let mut input = Bytes::from([frame(HEADERS, b"h"), begin(kind, 1 << 40)].concat());
            assert!(matches!(frames.read(&mut input), Ok(Some(Frame::Head(_)))));
            assert_eq!(frames.read(&mut input), Ok(None));
            for _ in 0..1000 {
                let mut input = Bytes::from_static(&[1; 4096]);
                while frames.read(&mut input).unwrap().is_some() {}
                assert!(input.is_empty() && frames.held() == 0);
            }
        }
        let many = [frame(HEADERS, b"h"), frame(0x21, b"").repeat(1000)].concat();
        assert_eq!(
            read(&many, 9),
            Err(Violation::Connection(Code::EXCESSIVE_LOAD))
        );
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_within_the_limit(
            bytes in proptest::collection::vec(0_u8..=0x41, 0..300),
            piece in 1_usize..50,
        ) {
            let whole = read(&bytes, bytes.len().max(1));
            assert_eq!(read(&bytes, piece), whole);
        }
    }
}
