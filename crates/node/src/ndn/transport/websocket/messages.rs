//! WebSocket frames (RFC 6455, section 5) for a server: finds messages in a buffer, in place.

use crate::limits::{SEND_QUEUE_LEAST_BYTES, SKIP_BYTES};
use crate::ndn::transport::reading::Framed;
use std::io::Cursor;
use std::ops::Range;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

/// The largest payload of a control frame (RFC 6455, section 5.5).
const CONTROL_BYTES: u64 = 125;

/// The state of a message of several frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fragments {
    /// The next data frame begins a message.
    None,
    /// It continues a message whose payload so far is kept.
    Joined,
    /// It continues a message that is skipped.
    Discarded,
}

/// Finds the messages of one connection.
#[derive(Debug)]
pub(super) struct Decoder {
    /// Bytes of the largest message that is kept.
    largest: usize,
    fragments: Fragments,
    /// Bytes of the message's payload that are kept.
    joined: usize,
    /// Bytes left of a payload that is skipped.
    skip: u64,
}

/// The bytes to keep for the next call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rest {
    /// The payload of a message of several frames, so far.
    pub(super) message: Range<usize>,
    /// The position of the incomplete frame.
    pub(super) next: usize,
    /// True if a message was completed.
    pub(super) progress: bool,
}

/// The reason why a connection ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The peer has closed it; the reply stands among the replies.
    Closed,
    /// The peer does not follow the protocol.
    Wrong(String),
}

impl Decoder {
    pub(super) fn new(largest: usize) -> Self {
        Decoder {
            largest,
            fragments: Fragments::None,
            joined: 0,
            skip: 0,
        }
    }

    /// Finds the messages in `bytes`, which begin with the kept bytes of the last call, and decodes
    /// them in place. Appends replies to control frames to `replies`.
    pub(super) fn decode(
        &mut self,
        bytes: &mut [u8],
        frames: &mut Vec<Framed>,
        replies: &mut Vec<u8>,
    ) -> Result<Rest, End> {
        let mut rest = Rest {
            message: 0..self.joined,
            next: self.joined,
            progress: false,
        };
        while rest.next < bytes.len() {
            if self.skip > 0 {
                let here = self.skip.min((bytes.len() - rest.next) as u64);
                self.skip -= here;
                rest.next += here as usize;
                continue;
            }
            let Some((header, payload, length)) = header(&bytes[rest.next..])? else {
                break;
            };
            let start = rest.next + payload;
            let code = match header.opcode {
                OpCode::Data(code) => code,
                OpCode::Control(code) => {
                    if !header.is_final || length > CONTROL_BYTES {
                        return Err(wrong("a control frame is too long"));
                    }
                    let end = start + length as usize;
                    let Some(payload) = bytes.get_mut(start..end) else {
                        break;
                    };
                    unmask(payload, &header);
                    on_control(code, payload, replies)?;
                    rest.next = end;
                    continue;
                }
            };
            let continues = code == Data::Continue;
            if continues != (self.fragments != Fragments::None) || matches!(code, Data::Reserved(_))
            {
                return Err(wrong("a data frame is out of order"));
            }
            let together = rest.message.len() as u64 + length;
            if self.fragments == Fragments::Discarded
                || code == Data::Text
                || together > self.largest as u64
            {
                if length > SKIP_BYTES as u64 {
                    return Err(wrong("a message is too long to be skipped"));
                }
                match self.fragments {
                    Fragments::Discarded => {}
                    _ if code == Data::Text => frames.push(Framed::Text),
                    _ => frames.push(Framed::Oversized(together)),
                }
                self.fragments = if header.is_final {
                    Fragments::None
                } else {
                    Fragments::Discarded
                };
                (self.skip, rest.message, rest.next, rest.progress) = (length, 0..0, start, true);
                continue;
            }
            let end = start + length as usize;
            let Some(payload) = bytes.get_mut(start..end) else {
                break;
            };
            unmask(payload, &header);
            if continues {
                bytes.copy_within(start..end, rest.message.end);
                rest.message.end += end - start;
            } else {
                rest.message = start..end
            }
            rest.next = end;
            self.fragments = Fragments::Joined;
            if header.is_final {
                frames.push(Framed::Packet(std::mem::take(&mut rest.message)));
                (self.fragments, rest.progress) = (Fragments::None, true);
            }
        }
        self.joined = rest.message.len();
        Ok(rest)
    }

    /// Drops the message of the kept bytes, and skips its rest. Returns false if too few bytes are
    /// here to know its length.
    pub(super) fn give_up(&mut self, kept: &[u8]) -> bool {
        let frame = &kept[self.joined..];
        match header(frame) {
            Ok(Some((header, payload, length))) if matches!(header.opcode, OpCode::Data(_)) => {
                self.skip = length.saturating_sub((frame.len() - payload) as u64);
                self.fragments = if header.is_final {
                    Fragments::None
                } else {
                    Fragments::Discarded
                };
            }
            // No byte of the next frame is here.
            _ if frame.is_empty() && self.joined > 0 => self.fragments = Fragments::Discarded,
            _ => return false,
        }
        self.joined = 0;
        true
    }
}

fn wrong(why: &str) -> End {
    End::Wrong(format!("what it sends is no WebSocket: {why}"))
}

/// The header of a frame, its bytes and the payload's; `None` where it is incomplete.
fn header(bytes: &[u8]) -> Result<Option<(FrameHeader, usize, u64)>, End> {
    let mut cursor = Cursor::new(bytes);
    let parsed = FrameHeader::parse(&mut cursor).map_err(|error| End::Wrong(error.to_string()))?;
    let Some((header, length)) = parsed else {
        return Ok(None);
    };
    if header.rsv1 || header.rsv2 || header.rsv3 {
        return Err(wrong("a reserved bit is set"));
    }
    match header.mask {
        None => Err(wrong("a frame of a client is not masked")),
        Some(_) => Ok(Some((header, cursor.position() as usize, length))),
    }
}

fn unmask(payload: &mut [u8], header: &FrameHeader) {
    let [a, b, c, d] = header.mask.unwrap_or_default();
    let twice = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut words = payload.chunks_exact_mut(8);
    for word in &mut words {
        if let Ok(bytes) = <[u8; 8]>::try_from(&*word) {
            word.copy_from_slice(&(u64::from_ne_bytes(bytes) ^ twice).to_ne_bytes());
        }
    }
    let rest = words.into_remainder().iter_mut();
    for (byte, mask) in rest.zip([a, b, c, d, a, b, c, d]) {
        *byte ^= mask;
    }
}

fn on_control(code: Control, payload: &[u8], replies: &mut Vec<u8>) -> Result<(), End> {
    let reply = match code {
        Control::Ping => Control::Pong,
        Control::Close => Control::Close,
        Control::Pong => return Ok(()),
        Control::Reserved(_) => return Err(wrong("a control frame is of no known kind")),
    };
    // A peer that does not read its pongs gets no more (RFC 6455, section 5.5.3, requires only the
    // last one).
    if replies.len() < SEND_QUEUE_LEAST_BYTES {
        replies.extend([0x80 | u8::from(OpCode::Control(reply)), payload.len() as u8]);
        replies.extend_from_slice(payload);
    }
    match code {
        Control::Close => Err(End::Closed),
        _ => Ok(()),
    }
}

/// Appends a binary message, whose payload `write` appends.
pub(super) fn encode(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    const BINARY: u8 = 0x82;
    // Most packets have a length of two bytes.
    let at = out.len();
    out.extend_from_slice(&[BINARY, 126, 0, 0]);
    let start = out.len();
    write(out);
    let length = out.len() - start;
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => {
            out[at + 1] = short;
            out.drain(at + 2..start);
        }
        (_, Ok(length)) => out[at + 2..start].copy_from_slice(&length.to_be_bytes()),
        _ => {
            out[at + 1] = 127;
            drop(out.splice(at + 2..start, (length as u64).to_be_bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Streams;

    const LARGEST: usize = 10_000;

    /// A masked frame of a client.
    fn frame(first: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
        let mut out = vec![first];
        match payload.len() {
            short @ ..126 => out.push(0x80 | short as u8),
            long @ ..65_536 => {
                out.push(0x80 | 126);
                out.extend((long as u16).to_be_bytes());
            }
            huge => {
                out.push(0x80 | 127);
                out.extend((huge as u64).to_be_bytes());
            }
        }
        out.extend(mask);
        out.extend(
            payload
                .iter()
                .zip(mask.iter().cycle())
                .map(|(byte, mask)| byte ^ mask),
        );
        out
    }

    /// The messages of a stream; `None` for skipped ones.
    type Found = Result<Vec<Option<Vec<u8>>>, End>;

    /// Cuts the bytes of one connection at random. Returns the messages, the largest number of
    /// bytes kept between two reads, and the replies.
    fn decode(stream: &[u8], mut cut: impl FnMut() -> usize) -> (Found, usize, Vec<u8>) {
        let mut decoder = Decoder::new(LARGEST);
        let (mut kept, mut found, mut most, mut replies) = (Vec::new(), Vec::new(), 0, Vec::new());
        let mut at = 0;
        while at < stream.len() {
            let end = stream.len().min(at + cut());
            let mut bytes = [&kept[..], &stream[at..end]].concat();
            at = end;
            let mut frames = Vec::new();
            match decoder.decode(&mut bytes, &mut frames, &mut replies) {
                Ok(rest) => kept = [&bytes[rest.message], &bytes[rest.next..]].concat(),
                Err(end) => return (Err(end), most, replies),
            }
            most = most.max(kept.len());
            found.extend(frames.into_iter().map(|frame| match frame {
                Framed::Packet(range) => Some(bytes[range].to_vec()),
                Framed::Oversized(_) | Framed::Text | Framed::SharedMemory(_) => None,
            }));
        }
        (Ok(found), most, replies)
    }

    #[test]
    fn messages_are_lost_when_the_bytes_are_cut_or_large_ones_are_kept() {
        for seed in 0..300 {
            let mut random = Streams::new(seed).stream("messages");
            let (mut stream, mut expected, mut pings) = (Vec::new(), Vec::new(), 0);
            for _ in 0..12 {
                let size = [
                    0,
                    5,
                    125,
                    126,
                    1000,
                    8800,
                    9990,
                    LARGEST,
                    LARGEST + 1,
                    70_000,
                ][random.below(10) as usize];
                let payload: Vec<u8> = (0..size).map(|at| (at * 7 + seed as usize) as u8).collect();
                let is_text = random.below(5) == 0;
                let pieces = 1 + random.below(4) as usize;
                let chunks: Vec<&[u8]> = match size {
                    0 => vec![&[]],
                    _ => payload.chunks(size.div_ceil(pieces)).collect(),
                };
                for (number, chunk) in chunks.iter().enumerate() {
                    let code = if number > 0 {
                        0
                    } else if is_text {
                        1
                    } else {
                        2
                    };
                    let last = u8::from(number + 1 == chunks.len()) << 7;
                    stream.extend(frame(
                        code | last,
                        chunk,
                        (random.below(1 << 32) as u32).to_be_bytes(),
                    ));
                    if random.below(4) == 0 {
                        stream.extend(frame(0x89, b"ping", [1, 2, 3, 4]));
                        pings += 1;
                    }
                }
                expected.push((!is_text && size <= LARGEST).then_some(payload));
            }
            let longest = [1, 10, 1000, 100_000][random.below(4) as usize];
            let (found, most, replies) = decode(&stream, || 1 + random.below(longest) as usize);
            assert_eq!(found.as_ref(), Ok(&expected), "seed {seed}");
            assert!(most < LARGEST + 200, "seed {seed}: {most} bytes are kept");
            assert_eq!(replies.len(), pings * 6, "seed {seed}");
        }
    }

    #[test]
    fn arbitrary_bytes_are_kept_without_end() {
        for seed in 0..500 {
            let mut random = Streams::new(seed).stream("garbage");
            let stream: Vec<u8> = (0..40_000)
                .map(|_| random.below(256) as u8 & random.below(256) as u8)
                .collect();
            let (_, most, replies) = decode(&stream, || 1 + random.below(3000) as usize);
            assert!(
                most < LARGEST + 200 && replies.len() <= stream.len(),
                "seed {seed}: {most}"
            );
        }
    }

    #[test]
    fn what_a_client_must_not_send_is_taken() {
        let unmasked = vec![0x82, 3, 1, 2, 3];
        let [reserved_bit, reserved_code] = [0xc2, 0x83].map(|first| frame(first, b"a", [1; 4]));
        let continued = frame(0x80, b"a", [1; 4]);
        let interrupted = [frame(0x02, b"a", [1; 4]), frame(0x82, b"a", [1; 4])].concat();
        let long_ping = frame(0x89, &[0; 126], [1; 4]);
        let endless = [&[0x82, 0xff][..], &(1u64 << 40).to_be_bytes(), &[0; 4]].concat();
        for stream in [
            unmasked,
            reserved_bit,
            reserved_code,
            continued,
            interrupted,
            long_ping,
            endless,
        ] {
            assert!(
                matches!(decode(&stream, || 3).0, Err(End::Wrong(_))),
                "{stream:?}"
            );
        }
        let close = frame(0x88, &[3, 232], [1; 4]);
        let (end, _, replies) = decode(&close, || 100);
        assert_eq!(
            (end, &replies[..]),
            (Err(End::Closed), &[0x88, 2, 3, 232][..])
        );
    }

    #[test]
    fn a_message_that_is_given_up_takes_the_next_one_with_it() {
        let packet = vec![7; 9000];
        let whole = frame(0x82, &packet, [1, 2, 3, 4]);
        let two = [
            frame(0x02, &packet[..4000], [1; 4]),
            frame(0x80, &packet[4000..], [2; 4]),
        ]
        .concat();
        for (stream, given_up_at) in [
            (&whole, 20),
            (&whole, 8999),
            (&two, 100),
            (&two, 4008),
            (&two, 5000),
        ] {
            let stream = [&stream[..], &frame(0x82, b"next", [5; 4])].concat();
            let mut decoder = Decoder::new(LARGEST);
            let (mut first, mut second) = (
                stream[..given_up_at].to_vec(),
                stream[given_up_at..].to_vec(),
            );
            let rest = decoder
                .decode(&mut first, &mut Vec::new(), &mut Vec::new())
                .unwrap();
            let kept = [&first[rest.message], &first[rest.next..]].concat();
            assert!(decoder.give_up(&kept), "{given_up_at}");
            let mut frames = Vec::new();
            decoder
                .decode(&mut second, &mut frames, &mut Vec::new())
                .unwrap();
            let packets: Vec<&[u8]> = frames
                .iter()
                .filter_map(|frame| match frame {
                    Framed::Packet(range) => Some(&second[range.clone()]),
                    _ => None,
                })
                .collect();
            assert_eq!(packets, [b"next"], "{given_up_at}");
        }
    }

    #[test]
    fn what_is_written_has_another_length() {
        for length in [0, 1, 125, 126, 8800, 65_535, 65_536, 70_000] {
            let mut out = vec![9];
            encode(&mut out, |out| out.extend(vec![7; length]));
            let mut cursor = Cursor::new(&out[1..]);
            let (header, announced) = FrameHeader::parse(&mut cursor).unwrap().unwrap();
            assert_eq!(
                (header.is_final, header.opcode),
                (true, OpCode::Data(Data::Binary))
            );
            assert_eq!(
                (announced, out.len() - 1 - cursor.position() as usize),
                (length as u64, length)
            );
        }
    }
}
