//! Readers of configuration values that are written as text, for serde's `deserialize_with`.

use crate::ByteSize;
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Reads a string that parses.
///
/// # Errors
/// As [`from_text`].
pub fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    from_text(deserializer, str::parse)
}

/// Reads a string that `read` accepts.
///
/// # Errors
/// The problem of `read`, after the string if the problem does not contain it.
pub fn from_text<'de, D: Deserializer<'de>, T, E: fmt::Display>(
    deserializer: D,
    read: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    read(&text).map_err(|error| {
        let problem = error.to_string();
        if problem.contains(&text) {
            serde::de::Error::custom(problem)
        } else {
            serde::de::Error::custom(format!("{text:?}: {problem}"))
        }
    })
}

impl<'de> Deserialize<'de> for ByteSize {
    /// Reads a size as people write it: `"64MiB"`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
        parsed(deserializer)
    }
}

/// Reads a path; `None` for an empty text.
///
/// # Errors
/// Those of the deserializer.
pub fn optional_path<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    Ok(Some(PathBuf::deserialize(deserializer)?).filter(|path| !path.as_os_str().is_empty()))
}
