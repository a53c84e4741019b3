//! `[http.compression]`: which responses get a content coding.

use larder_http::{Compression, ContentCoding, MediaTypes};
use larder_units::ByteSize;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::fmt::Display;
use std::str::FromStr;

/// The responses that get a content coding.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CompressionConfig {
    /// The codings that clients may get; none: responses go out as they came.
    #[serde(deserialize_with = "list")]
    pub codings: Vec<ContentCoding>,
    /// The media types of responses that get one.
    #[serde(deserialize_with = "list")]
    pub types: Vec<MediaTypes>,
    /// The shortest body that gets one, if its length is known.
    #[serde(deserialize_with = "size")]
    pub least_size: ByteSize,
}

impl Default for CompressionConfig {
    fn default() -> CompressionConfig {
        let Compression {
            types, least_bytes, ..
        } = Compression::default();
        CompressionConfig {
            codings: Vec::new(),
            types,
            least_size: ByteSize::from_bytes(least_bytes),
        }
    }
}

impl CompressionConfig {
    /// Returns the rules of the cache; `None` if no response gets a coding.
    pub fn compression(&self) -> Option<Compression> {
        (!self.codings.is_empty()).then(|| Compression {
            codings: self.codings.clone(),
            types: self.types.clone(),
            least_bytes: self.least_size.bytes(),
        })
    }
}

fn list<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let parsed = texts.iter().map(|text| text.parse().map_err(Error::custom));
    parsed.collect()
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse()
        .map_err(|error| Error::custom(format!("{text:?}: {error}")))
}
