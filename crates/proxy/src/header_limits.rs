//! `[http.limits]`: the largest header block, of clients' requests and of origins' responses.

use super::limits;
use larder_units::ByteSize;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// `[http.limits]`
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct HeaderLimits {
    /// Fields of one header block.
    #[serde(deserialize_with = "fields")]
    pub header_fields: usize,
    /// Bytes of one header block, with its first line.
    #[serde(deserialize_with = "size")]
    pub header_size: ByteSize,
}

impl Default for HeaderLimits {
    fn default() -> Self {
        HeaderLimits { header_fields: limits::HEADER_FIELDS, header_size: ByteSize::from_bytes(limits::HEADER_BYTES) }
    }
}

impl HeaderLimits {
    /// Returns the bytes of one header block.
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.header_size.bytes()).unwrap_or(usize::MAX)
    }

    /// Returns the bytes that a connection reads ahead: at least a whole header block.
    pub(super) fn buffer(&self) -> usize {
        self.bytes().max(limits::BUFFER_BYTES)
    }

    /// Returns the number of fields; `None` for hyper's own default, which costs 1.5 % of a hit
    /// less than any explicit number.
    pub(super) fn fields_to_set(&self) -> Option<usize> {
        Some(self.header_fields).filter(|fields| *fields != limits::HEADER_FIELDS)
    }
}

fn fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let (fields, (least, most)) = (usize::deserialize(deserializer)?, limits::HEADER_FIELDS_RANGE);
    match (least..=most).contains(&fields) {
        true => Ok(fields),
        false => Err(D::Error::custom(format!("header_fields: expected {least} to {most}, not {fields}"))),
    }
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    let text = String::deserialize(deserializer)?;
    let size: ByteSize = text.parse().map_err(D::Error::custom)?;
    let (least, most) = limits::HEADER_BYTES_RANGE;
    match (least..=most).contains(&size.bytes()) {
        true => Ok(size),
        false => {
            let (least, most) = (ByteSize::from_bytes(least), ByteSize::from_bytes(most));
            Err(D::Error::custom(format!("{text:?}: expected {least} to {most}")))
        }
    }
}
