//! The description of a body that is stored in slices.

use crate::rfc::conditional;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::ops::Range;

/// The description of a body that is stored in slices.
#[derive(Clone, Debug)]
pub(crate) struct Sliced {
    /// The generation in the keys of its slices.
    pub generation: u64,
    /// The length of the whole body in bytes.
    pub length: u64,
    pub pin: Pin,
    /// Bytes of each slice but the last. They do not change with the cache's own size.
    pub slice_bytes: u64,
}

impl Sliced {
    /// Returns the slice around a byte, as if the body had no end.
    pub fn slice(&self, at: u64) -> Range<u64> {
        let start = at - at % self.slice_bytes;
        start..start.saturating_add(self.slice_bytes)
    }
}

/// The strong validator of a representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    name: HeaderName,
    pub value: HeaderValue,
}

impl Pin {
    pub(crate) fn of(headers: &HeaderMap) -> Option<Pin> {
        let (name, value) = conditional::strong_validator(headers)?;
        // A copy: the value may be a slice of a connection's buffer.
        Some(Pin {
            name,
            value: HeaderValue::from_bytes(value.as_bytes()).ok()?,
        })
    }

    /// Returns the pin with the parts that [`Pin::parts`] returned.
    pub(crate) fn from_parts(name: HeaderName, value: HeaderValue) -> Pin {
        Pin { name, value }
    }

    pub(crate) fn parts(&self) -> (&HeaderName, &HeaderValue) {
        (&self.name, &self.value)
    }

    pub(crate) fn is_of(&self, headers: &HeaderMap) -> bool {
        headers.get(&self.name) == Some(&self.value)
    }

    /// Returns true if the fields may confirm this representation: they have the same validator, or
    /// none.
    pub(crate) fn agrees(&self, headers: &HeaderMap) -> bool {
        !headers.contains_key(&self.name) || self.is_of(headers)
    }
}
