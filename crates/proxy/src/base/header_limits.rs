//! The largest header block, of clients' requests and of origins' responses.

use crate::base::limits;
use ::http::HeaderMap;
use larder_units::ByteSize;

/// `header_fields` and `header_size` of `[http.limits]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderLimits {
    /// Fields of one header block.
    pub header_fields: usize,
    /// Bytes of one header block, with its first line.
    pub header_size: ByteSize,
}

impl Default for HeaderLimits {
    fn default() -> Self {
        HeaderLimits {
            header_fields: limits::HEADER_FIELDS,
            header_size: ByteSize::from_bytes(limits::HEADER_BYTES),
        }
    }
}

impl HeaderLimits {
    /// Returns the bytes of one header block.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.header_size.bytes()).unwrap_or(usize::MAX)
    }

    /// Returns true if a header block of HTTP/2 is within the limits (RFC 9113 §6.5.2 has its
    /// size).
    pub(crate) fn hold(&self, headers: &HeaderMap) -> bool {
        const OVERHEAD: usize = 32;
        let bytes = headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + OVERHEAD)
            .sum::<usize>();
        headers.len() <= self.header_fields && bytes <= self.bytes()
    }

    /// Returns the bytes that a connection reads ahead: at least a whole header block.
    pub(crate) fn buffer(&self) -> usize {
        self.bytes().max(limits::BUFFER_BYTES)
    }

    /// Returns the number of fields; `None` for hyper's own default, which costs 1.5 % of a hit
    /// less than any explicit number.
    pub(crate) fn fields_to_set(&self) -> Option<usize> {
        Some(self.header_fields).filter(|fields| *fields != limits::HEADER_FIELDS)
    }
}
