//! A capacity as typed: bytes, objects, or a share of the trace's bytes.

use crate::Survey;
use larder_units::{ByteSize, Ratio, UnitError};
use std::fmt;

/// A capacity as typed: `64MiB`, `1000`, `10%`, `0.1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// A number with a unit.
    Bytes(ByteSize),
    /// A number without a unit: bytes, or objects if they have no sizes.
    Number(u64),
    /// A share of the bytes of all objects.
    Share(Ratio),
}

impl Size {
    /// Returns the bytes if they do not depend on a trace.
    pub fn bytes(&self) -> Option<ByteSize> {
        match self {
            Size::Bytes(size) => Some(*size),
            Size::Number(number) => Some(ByteSize::from_bytes(*number)),
            Size::Share(_) => None,
        }
    }

    /// Returns the bytes for the trace of `survey`, which a share needs.
    ///
    /// # Errors
    /// If a share is less than a byte. An empty cache never hits, so this is an error of the user.
    pub fn capacity(&self, survey: Option<&Survey>) -> Result<ByteSize, SizeError> {
        self.of(survey.map_or(0, Survey::unique_bytes))
    }

    /// Returns the bytes if all objects have `unique_bytes` in total.
    ///
    /// # Errors
    /// See [`Size::capacity`].
    pub fn of(&self, unique_bytes: u64) -> Result<ByteSize, SizeError> {
        match self {
            Size::Bytes(size) => Ok(*size),
            Size::Number(number) => Ok(ByteSize::from_bytes(*number)),
            Size::Share(share) => match (unique_bytes as f64 * share.value()) as u64 {
                0 => Err(SizeError::LessThanAByte {
                    size: *self,
                    unique_bytes,
                }),
                bytes => Ok(ByteSize::from_bytes(bytes)),
            },
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Bytes(size) => write!(f, "{size}"),
            Size::Number(number) => write!(f, "{number}"),
            Size::Share(share) => write!(f, "{}%", share.value() * 100.0),
        }
    }
}

impl std::str::FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Size, SizeError> {
        if text.trim_end().ends_with('%') {
            return match text.parse::<Ratio>() {
                Ok(share) if share.value() > 0.0 => Ok(Size::Share(share)),
                Ok(_) => Err(SizeError::Nothing),
                Err(error) => Err(SizeError::NoShare(error)),
            };
        }
        if let Some(number) = number(text) {
            return of_number(text.trim(), number);
        }
        match text.parse::<ByteSize>() {
            Ok(size) if size.bytes() > 0 => Ok(Size::Bytes(size)),
            Ok(_) => Err(SizeError::Nothing),
            Err(error) => Err(SizeError::NoSize(error)),
        }
    }
}

/// Reads a number without a unit, such as 1000, 1_000, 1e7 or 0.1. `None` for anything else.
fn number(text: &str) -> Option<f64> {
    let text = text.trim().replace('_', "");
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".eE".contains(&byte));
    text.parse()
        .ok()
        .filter(|number: &f64| is_plain && number.is_finite())
}

/// Returns the size that a number without a unit means: a share below 1, and whole bytes or objects
/// from 1. (libCacheSim reads numbers in the same way.)
fn of_number(text: &str, number: f64) -> Result<Size, SizeError> {
    if number <= 0.0 {
        return Err(SizeError::Nothing);
    }
    if let Some(share) = Ratio::new(number).filter(|_| number < 1.0) {
        return Ok(Size::Share(share));
    }
    // A point indicates that a share may be meant.
    if text.contains('.') {
        return Err(SizeError::Ambiguous(text.to_owned()));
    }
    // `u64` reads digits exactly; only a number with an exponent is read as a float.
    let whole = text
        .replace('_', "")
        .parse()
        .ok()
        .or((number < u64::MAX as f64).then_some(number as u64));
    whole
        .map(Size::Number)
        .ok_or_else(|| SizeError::TooLarge(text.to_owned()))
}

/// A capacity that cannot be used.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SizeError {
    /// A size of 0.
    Nothing,
    /// A text with `%` that is not a share.
    NoShare(UnitError),
    /// A text that is neither a size nor a share.
    NoSize(UnitError),
    /// A number with a point, from 1 on.
    Ambiguous(String),
    /// A number that does not fit into 64 bits.
    TooLarge(String),
    /// A share of a trace that has too few bytes.
    LessThanAByte {
        /// The share.
        size: Size,
        /// The bytes of all objects.
        unique_bytes: u64,
    },
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeError::Nothing => {
                f.write_str("size 0: a cache of nothing hits nothing, give a byte at least")
            }
            SizeError::NoShare(error) => write!(f, "size {error}"),
            SizeError::NoSize(error) => {
                write!(
                    f,
                    "size {error}, or a share of the trace's bytes such as \"10%\" or \"0.1\""
                )
            }
            SizeError::Ambiguous(text) => {
                write!(
                    f,
                    "size {text} is ambiguous: a share is below 1 or ends with %, and a number of bytes is whole"
                )
            }
            SizeError::TooLarge(text) => write!(f, "size {text} is above 2^64 - 1"),
            SizeError::LessThanAByte { size, unique_bytes } => {
                write!(
                    f,
                    "size {size} of {unique_bytes} bytes is less than one byte"
                )
            }
        }
    }
}

impl std::error::Error for SizeError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;
    use larder_units::Time;

    #[test]
    fn a_share_of_the_trace_is_other_than_its_bytes() {
        let mut survey = Survey::default();
        survey.count(&Access {
            id: 1,
            size: 20_484,
            now: Time::ZERO,
        });
        let bytes = |text: &str| {
            text.parse::<Size>()
                .unwrap()
                .capacity(Some(&survey))
                .map(ByteSize::bytes)
        };
        assert_eq!(bytes("10%").unwrap(), 2_048);
        assert_eq!(bytes("0.1").unwrap(), 2_048);
        assert_eq!(bytes("64KiB").unwrap(), 65_536);
        assert_eq!(bytes("1").unwrap(), 1);
        assert_eq!(bytes("1e7").unwrap(), 10_000_000);
        assert_eq!(bytes("18446744073709551615").unwrap(), u64::MAX);
        assert!(
            bytes("0.001%")
                .unwrap_err()
                .to_string()
                .contains("of 20484 bytes is less than one")
        );
    }

    #[test]
    fn an_ambiguous_number_is_refused() {
        for (text, words) in [
            ("1.5", "1.5 is ambiguous: a share is below 1 or ends with %"),
            ("1.0", "ambiguous"),
            ("2.5e3", "ambiguous"),
            ("0", "a cache of nothing"),
            ("0.0", "a cache of nothing"),
            ("1e20", "above 2^64"),
            ("18446744073709551616", "above 2^64"),
        ] {
            let error = text.parse::<Size>().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_size_prints_as_another() {
        for text in ["10%", "12.5%", "64KiB", "1B", "0.1%", "1000", "0.25"] {
            let printed = text.parse::<Size>().unwrap().to_string();
            let again = printed.parse::<Size>().unwrap().to_string();
            assert_eq!(printed, again);
        }
        assert_eq!("12.5%".parse::<Size>().unwrap().to_string(), "12.5%");
    }
}
