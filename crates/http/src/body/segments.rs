//! The pieces of a body (and, for several ranges, the lines between them), and the number of bytes
//! that remain.

use crate::rfc::selection::Response;
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Range;

/// The rest of a body.
#[derive(Debug)]
pub(crate) struct Segments {
    queue: VecDeque<Segment>,
    left: u64,
}

#[derive(Debug)]
pub(crate) enum Segment {
    Lines(Bytes),
    /// A range of the whole body.
    Content(Range<u64>),
}

impl Segments {
    /// Returns the segments of the body of `response`, from a representation with `length` bytes.
    pub(crate) fn new(response: &mut Response, length: u64) -> Segments {
        let whole = response.first..response.end.unwrap_or(length);
        let queue = match response.parts.take() {
            _ if !response.has_body => VecDeque::new(),
            None if whole.is_empty() => VecDeque::new(),
            None => VecDeque::from([Segment::Content(whole)]),
            Some(parts) => {
                let both = |(lines, range)| [Segment::Lines(lines), Segment::Content(range)];
                let closing = Segment::Lines(parts.closing);
                parts
                    .parts
                    .into_iter()
                    .flat_map(both)
                    .chain([closing])
                    .collect()
            }
        };
        let left = queue.iter().map(Segment::length).sum();
        Segments { queue, left }
    }

    /// Returns the segments of a part of the body.
    pub(crate) fn of(part: Range<u64>) -> Segments {
        let left = part.end - part.start;
        Segments {
            queue: VecDeque::from([Segment::Content(part)]),
            left,
        }
    }

    /// Returns the bytes that remain.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    pub(crate) fn front(&self) -> Option<&Segment> {
        self.queue.front()
    }

    /// Reports that this many bytes of the first segment were sent.
    pub(crate) fn took(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
        match self.queue.front_mut() {
            Some(Segment::Content(range)) if range.end - range.start > bytes => {
                range.start += bytes
            }
            _ => {
                self.queue.pop_front();
            }
        }
    }

    /// Returns the ranges of the whole body that are still needed.
    pub(crate) fn content(&self) -> impl Iterator<Item = &Range<u64>> {
        self.queue.iter().filter_map(|segment| match segment {
            Segment::Content(range) => Some(range),
            Segment::Lines(_) => None,
        })
    }
}

impl Segment {
    fn length(&self) -> u64 {
        match self {
            Segment::Lines(lines) => lines.len() as u64,
            Segment::Content(range) => range.end - range.start,
        }
    }
}
