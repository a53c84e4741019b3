//! A capacity as typed: bytes, or a share of the trace's bytes.

use crate::failure::Failure;
use larder_replay::Survey;
use larder_units::{ByteSize, Ratio};
use std::fmt;

/// A capacity as typed.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    Bytes(ByteSize),
    /// A share of the bytes of all objects.
    Share(Ratio),
}

impl Size {
    /// Returns the bytes if they do not depend on a trace.
    pub fn bytes(&self) -> Option<ByteSize> {
        match self {
            Size::Bytes(size) => Some(*size),
            Size::Share(_) => None,
        }
    }

    /// Returns the bytes for the trace of `survey`, which a share needs.
    ///
    /// # Errors
    /// If a share is less than a byte. An empty cache never hits, so this is a mistake.
    pub fn capacity(&self, survey: Option<&Survey>) -> Result<ByteSize, Failure> {
        self.of(survey.map_or(0, Survey::unique_bytes))
    }

    /// Returns the bytes if all objects have `unique_bytes` in total.
    ///
    /// # Errors
    /// As [`Size::capacity`].
    pub fn of(&self, unique_bytes: u64) -> Result<ByteSize, Failure> {
        match self {
            Size::Bytes(size) => Ok(*size),
            Size::Share(share) => match (unique_bytes as f64 * share.value()) as u64 {
                0 => Err(Failure::usage(format!("size {self} of {unique_bytes} bytes is less than one byte"))),
                bytes => Ok(ByteSize::from_bytes(bytes)),
            },
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Bytes(size) => write!(f, "{size}"),
            Size::Share(share) => write!(f, "{}%", share.value() * 100.0),
        }
    }
}

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        if text.trim_end().ends_with('%') {
            return match text.parse::<Ratio>() {
                Ok(share) if share.value() > 0.0 => Ok(Size::Share(share)),
                Ok(_) => Err(NOTHING.to_owned()),
                Err(error) => Err(format!("size {error}")),
            };
        }
        match text.parse::<ByteSize>() {
            Ok(size) if size.bytes() > 0 => Ok(Size::Bytes(size)),
            Ok(_) => Err(NOTHING.to_owned()),
            Err(error) => Err(format!("size {error}, or a share of the trace's bytes such as \"10%\"")),
        }
    }
}

const NOTHING: &str = "size 0: a cache of nothing hits nothing, give a byte at least";

#[cfg(test)]
mod tests {
    use super::*;
    use larder_replay::Access;
    use larder_units::Time;

    #[test]
    fn a_share_of_the_trace_is_other_than_its_bytes() {
        let mut survey = Survey::default();
        survey.count(&Access { id: 1, size: 20_484, now: Time::ZERO });
        let bytes = |text: &str| text.parse::<Size>().unwrap().capacity(Some(&survey)).map(ByteSize::bytes);
        assert_eq!(bytes("10%").unwrap(), 2_048);
        assert_eq!(bytes("64KiB").unwrap(), 65_536);
        assert!(bytes("0.001%").unwrap_err().message.contains("of 20484 bytes is less than one"));
    }

    #[test]
    fn a_size_prints_as_another() {
        for text in ["10%", "12.5%", "64KiB", "1B", "0.1%"] {
            let printed = text.parse::<Size>().unwrap().to_string();
            let again = printed.parse::<Size>().unwrap().to_string();
            assert_eq!(printed, again);
        }
        assert_eq!("12.5%".parse::<Size>().unwrap().to_string(), "12.5%");
    }
}
