//! TCP segments as frames of their length on a cable, from the IP header on. Their bytes carry no
//! content.
//!
//! A frame begins with 0x45, IPv4's version and header length, with which no NDN packet begins. In
//! place of the real header fields it carries those that the model needs: positions of 64 bits, and
//! the number of the connection's end for addresses and ports. The lengths are those of Linux: 20
//! bytes of IP, 20 of TCP, 12 of timestamps (RFC 7323), 4 plus 8 per block of SACK (RFC 2018; at
//! most three beside the timestamps), and 20 of options in a SYN.

use crate::frame::SEGMENT_FIRST_BYTE;

/// The length of IP and TCP headers with timestamps.
pub(super) const HEADER_BYTES: usize = 52;

/// The header length of a SYN: maximum segment size, SACK permitted, timestamps, window scale.
const SYN_BYTES: usize = 60;

/// The lengths of the SACK option and of each block in it.
pub(super) const BLOCKS_BYTES: usize = 4;
pub(super) const BLOCK_BYTES: usize = 8;

/// The most blocks in one acknowledgement beside the timestamps.
pub(super) const MAX_BLOCKS: usize = 3;

const SYN: u8 = 1;
const ACK: u8 = 2;
const FIN: u8 = 4;

/// One end of a connection. Numbers are reused; `generation` distinguishes their owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndId {
    pub(crate) number: u32,
    pub(crate) generation: u32,
}

/// A segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) is_syn: bool,
    /// Whether the stream ends after its bytes.
    pub(super) is_fin: bool,
    /// In a SYN: the number of this end's earlier SYNs (in place of a timestamp, RFC 7323).
    pub(super) attempt: u8,
    /// The attempt number of the other end's last SYN.
    pub(super) echo: u8,
    /// The position of its bytes in the stream, whose first byte is 0.
    pub(super) seq: u64,
    pub(super) bytes: u32,
    /// The first byte that its sender misses. A SYN has none, unless it answers another.
    pub(super) ack: Option<u64>,
    /// The bytes from there on that its sender accepts.
    pub(super) window: u32,
    /// The ranges that its sender has beyond the gap, newest first. A block below `ack` reports a
    /// duplicate (RFC 2883).
    pub(super) blocks: Blocks,
}

/// Up to [`MAX_BLOCKS`] ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    ranges: [(u64, u64); MAX_BLOCKS],
    count: u8,
}

impl Blocks {
    /// Adds a range if there is room and it is not present.
    pub(super) fn push(&mut self, range: (u64, u64)) {
        if usize::from(self.count) < MAX_BLOCKS && !self.as_slice().contains(&range) {
            self.ranges[usize::from(self.count)] = range;
            self.count += 1;
        }
    }

    /// Keeps at most this many ranges.
    pub(super) fn truncate(&mut self, most: usize) {
        self.count = self.count.min(most.min(MAX_BLOCKS) as u8);
    }

    pub(super) fn as_slice(&self) -> &[(u64, u64)] {
        &self.ranges[..usize::from(self.count)]
    }
}

impl Segment {
    /// Returns the frame, addressed to an end.
    pub(super) fn frame(&self, to: EndId) -> Vec<u8> {
        let blocks = self.blocks.as_slice();
        let mut frame = vec![0; header_bytes(self.is_syn, blocks.len()) + self.bytes as usize];
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        frame[0] = SEGMENT_FIRST_BYTE;
        frame[1] = flag(self.is_syn, SYN) | flag(self.ack.is_some(), ACK) | flag(self.is_fin, FIN);
        frame[2] = blocks.len() as u8;
        frame[3] = self.attempt << 4 | (self.echo & 15);
        frame[4..8].copy_from_slice(&to.number.to_le_bytes());
        frame[8..12].copy_from_slice(&to.generation.to_le_bytes());
        frame[12..16].copy_from_slice(&self.window.to_le_bytes());
        let numbers = [self.seq, self.ack.unwrap_or_default()];
        let numbers = numbers
            .into_iter()
            .chain(blocks.iter().flat_map(|(start, end)| [*start, *end]));
        for (place, number) in frame[16..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        frame
    }

    /// Parses a frame; `None` if it is not a segment.
    pub(super) fn read(frame: &[u8]) -> Option<Segment> {
        address(frame)?;
        let (flags, count) = (frame[1], usize::from(frame[2]));
        let header = header_bytes(flags & SYN != 0, count);
        if count > MAX_BLOCKS || (flags & SYN != 0 && count > 0) || frame.len() < header {
            return None;
        }
        let number =
            |at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().expect("eight bytes"));
        let mut blocks = Blocks::default();
        for at in 0..count {
            blocks.push((number(32 + 16 * at), number(40 + 16 * at)));
        }
        Some(Segment {
            is_syn: flags & SYN != 0,
            is_fin: flags & FIN != 0,
            attempt: frame[3] >> 4,
            echo: frame[3] & 15,
            seq: number(16),
            bytes: (frame.len() - header) as u32,
            ack: (flags & ACK != 0).then(|| number(24)),
            window: u32::from_le_bytes(frame[12..16].try_into().expect("four bytes")),
            blocks,
        })
    }
}

/// Returns the end to which a frame is addressed; `None` if it is not a segment.
pub(super) fn address(frame: &[u8]) -> Option<EndId> {
    let [SEGMENT_FIRST_BYTE, _, _, _, number @ ..] = frame.first_chunk::<8>()? else {
        return None;
    };
    let generation = frame.get(8..12)?.try_into().ok()?;
    // A frame below the least header length is not a segment.
    (frame.len() >= HEADER_BYTES).then(|| EndId {
        number: u32::from_le_bytes(*number),
        generation: u32::from_le_bytes(generation),
    })
}

fn header_bytes(is_syn: bool, blocks: usize) -> usize {
    match (is_syn, blocks) {
        (true, _) => SYN_BYTES,
        (false, 0) => HEADER_BYTES,
        (false, blocks) => HEADER_BYTES + BLOCKS_BYTES + BLOCK_BYTES * blocks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Streams;

    #[test]
    fn a_frame_says_something_else_than_its_segment() {
        let to = EndId {
            number: 7,
            generation: 3,
        };
        let mut blocks = Blocks::default();
        for block in [
            (3000, 4448),
            (9000, 9001),
            (3000, 4448),
            (20_000, 30_000),
            (5, 6),
        ] {
            blocks.push(block);
        }
        assert_eq!(
            blocks.as_slice().len(),
            3,
            "one came twice, one is too many"
        );
        let data = Segment {
            seq: 1 << 40,
            bytes: 1448,
            ack: Some(1500),
            window: 1 << 24,
            ..Segment::default()
        };
        let cases = [
            (
                Segment {
                    is_syn: true,
                    attempt: 6,
                    echo: 5,
                    ..Segment::default()
                },
                60,
            ),
            (data, 1500),
            (
                Segment {
                    bytes: 0,
                    blocks,
                    ..data
                },
                80,
            ),
            (
                Segment {
                    bytes: 10,
                    is_fin: true,
                    ..data
                },
                62,
            ),
        ];
        for (segment, bytes) in cases {
            let frame = segment.frame(to);
            assert_eq!(frame.len(), bytes);
            assert_eq!(
                (Segment::read(&frame), address(&frame)),
                (Some(segment), Some(to))
            );
        }
    }

    #[test]
    fn arbitrary_bytes_end_the_run() {
        let mut stream = Streams::new(1).stream("bytes");
        for _ in 0..20_000 {
            let mut frame: Vec<u8> = (0..stream.below(100))
                .map(|_| stream.bits() as u8)
                .collect();
            if let Some(first) = frame.first_mut() {
                *first = SEGMENT_FIRST_BYTE;
            }
            if let Some(segment) = Segment::read(&frame) {
                assert!(segment.bytes as usize + HEADER_BYTES <= frame.len());
            }
        }
    }
}
