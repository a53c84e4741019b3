//! Several ranges in one answer: `multipart/byteranges` (RFC 9110 §14.6). The lines between the
//! parts are generated; the parts are shared with the stored body.

use bytes::Bytes;
use http::HeaderValue;
use std::ops::Range;

/// The parts, each with the lines before it, and the line after the last.
#[derive(Debug)]
pub(crate) struct Multipart {
    pub parts: Vec<(Bytes, Range<u64>)>,
    pub closing: Bytes,
    boundary: String,
}

impl Multipart {
    /// Creates the parts. `seed` determines the boundary: the author of the content must not know
    /// it in advance.
    pub(crate) fn new(
        ranges: Vec<Range<u64>>,
        length: u64,
        content_type: Option<&HeaderValue>,
        seed: u64,
    ) -> Multipart {
        let boundary = format!("larder-{seed:016x}");
        let part = |range: Range<u64>| {
            let mut lines = format!("\r\n--{boundary}\r\n").into_bytes();
            if let Some(value) = content_type {
                lines.extend_from_slice(b"Content-Type: ");
                lines.extend_from_slice(value.as_bytes());
                lines.extend_from_slice(b"\r\n");
            }
            let place = format!(
                "Content-Range: bytes {}-{}/{length}\r\n\r\n",
                range.start,
                range.end - 1
            );
            lines.extend_from_slice(place.as_bytes());
            (Bytes::from(lines), range)
        };
        let parts = ranges.into_iter().map(part).collect();
        Multipart {
            parts,
            closing: Bytes::from(format!("\r\n--{boundary}--\r\n")),
            boundary,
        }
    }

    /// Returns the bytes of all parts and lines.
    pub(crate) fn length(&self) -> u64 {
        let parts = self
            .parts
            .iter()
            .map(|(lines, range)| lines.len() as u64 + range.end - range.start);
        parts.sum::<u64>() + self.closing.len() as u64
    }

    pub(crate) fn content_type(&self) -> HeaderValue {
        HeaderValue::try_from(format!("multipart/byteranges; boundary={}", self.boundary))
            .expect("a token")
    }

    /// Returns the pieces for a whole body.
    pub(crate) fn over(self, body: &Bytes) -> Vec<Bytes> {
        let mut pieces = Vec::with_capacity(2 * self.parts.len() + 1);
        for (lines, range) in self.parts {
            pieces.push(lines);
            pieces.push(body.slice(range.start as usize..range.end as usize));
        }
        pieces.push(self.closing);
        pieces
    }
}
