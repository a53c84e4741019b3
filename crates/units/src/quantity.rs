//! Numbers of bytes, bit rates and shares, in the notation that people write.

use std::fmt;
use std::str::FromStr;

/// A text that is not the expected quantity. The message contains the text and the expected form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    text: String,
    expected: &'static str,
}

impl UnitError {
    pub(crate) fn new(text: &str, expected: &'static str) -> Self {
        UnitError {
            text: text.to_owned(),
            expected,
        }
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not {}", self.text, self.expected)
    }
}

impl std::error::Error for UnitError {}

/// Splits "1.5 MiB" into 1.5 and "MiB". Refuses signs, NaN and infinities.
pub(crate) fn split_number<'a>(
    text: &'a str,
    expected: &'static str,
) -> Result<(f64, &'a str), UnitError> {
    let trimmed = text.trim();
    let end = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let number: f64 = number
        .replace('_', "")
        .parse()
        .map_err(|_| UnitError::new(text, expected))?;
    if !number.is_finite() {
        return Err(UnitError::new(text, expected));
    }
    Ok((number, unit.trim_start()))
}

/// A number of bytes. Parses `1500`, `8800B`, `64MiB`, `1.2GB` (KiB… are powers of 1024, kB… of
/// 1000; case is ignored).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

const BYTE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

impl ByteSize {
    /// Returns a size of `bytes` bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        ByteSize(bytes)
    }

    /// Returns a size of `mebibytes` times 2^20 bytes.
    pub const fn from_mib(mebibytes: u64) -> Self {
        ByteSize(mebibytes << 20)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const EXPECTED: &str = "a size such as \"64MiB\", \"1.2GB\" or \"1500\" (B, kB, KiB, MB, MiB, GB, GiB, TB, TiB)";
        let (number, unit) = split_number(text, EXPECTED)?;
        let scale = if unit.is_empty() {
            1
        } else {
            // "64M", "64G": the short forms, as in nginx and Varnish, are powers of two.
            let long = match unit.to_ascii_lowercase().as_str() {
                "k" => "KiB",
                "m" => "MiB",
                "g" => "GiB",
                "t" => "TiB",
                _ => unit,
            };
            let found = BYTE_UNITS
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(long));
            found.ok_or_else(|| UnitError::new(text, EXPECTED))?.1
        };
        let digits = text
            .trim()
            .trim_end_matches(|c: char| !c.is_ascii_digit())
            .replace('_', "");
        if let Ok(whole) = digits.parse::<u64>() {
            return whole
                .checked_mul(scale)
                .map(ByteSize)
                .ok_or_else(|| UnitError::new(text, "a size below 2^64 bytes"));
        }
        let bytes = number * scale as f64;
        if bytes >= u64::MAX as f64 {
            return Err(UnitError::new(text, "a size below 2^64 bytes"));
        }
        Ok(ByteSize(bytes.round() as u64))
    }
}

impl fmt::Display for ByteSize {
    /// Prints the largest unit that divides the number, so that the text parses to the same size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0B");
        }
        let found = BYTE_UNITS
            .iter()
            .find(|(_, scale)| self.0.is_multiple_of(*scale));
        let (name, scale) = found.copied().unwrap_or(("B", 1));
        write!(f, "{}{name}", self.0 / scale)
    }
}

/// Bits per second. Parses `1Gbps`, `40Mbps`, `9600bps`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate(u64);

const RATE_UNITS: [(&str, u64); 5] = [
    ("Tbps", 1_000_000_000_000),
    ("Gbps", 1_000_000_000),
    ("Mbps", 1_000_000),
    ("kbps", 1_000),
    ("bps", 1),
];

impl BitRate {
    /// Returns a rate of `bits_per_second` bits per second.
    pub const fn from_bits_per_second(bits_per_second: u64) -> Self {
        BitRate(bits_per_second)
    }

    /// The number of bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }
}

impl FromStr for BitRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const EXPECTED: &str =
            "a rate such as \"1Gbps\" or \"40Mbps\" (bps, kbps, Mbps, Gbps, Tbps)";
        let (number, unit) = split_number(text, EXPECTED)?;
        let found = RATE_UNITS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit));
        let rate = number * found.ok_or_else(|| UnitError::new(text, EXPECTED))?.1 as f64;
        if rate >= u64::MAX as f64 {
            return Err(UnitError::new(text, "a rate below 2^64 bits per second"));
        }
        Ok(BitRate(rate.round() as u64))
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = RATE_UNITS
            .iter()
            .find(|(_, scale)| self.0 != 0 && self.0.is_multiple_of(*scale));
        let (name, scale) = found.copied().unwrap_or(("bps", 1));
        write!(f, "{}{name}", self.0 / scale)
    }
}

/// A share between 0 and 1. Parses `0.35` and `35%`; prints `0.35`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Ratio(f64);

impl Ratio {
    /// Returns `value` as a share; `None` outside 0 to 1.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Ratio(value))
    }

    /// Returns the share of `part` in `whole`; 0 if `whole` is 0.
    pub fn of(part: u64, whole: u64) -> Self {
        if whole == 0 {
            Ratio(0.0)
        } else {
            Ratio((part as f64 / whole as f64).min(1.0))
        }
    }

    /// The share, from 0 to 1.
    pub const fn value(self) -> f64 {
        self.0
    }
}

impl FromStr for Ratio {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const EXPECTED: &str = "a share between 0 and 1, such as \"0.35\" or \"35%\"";
        let (number, unit) = split_number(text, EXPECTED)?;
        let value = match unit {
            "" => number,
            "%" => number / 100.0,
            _ => return Err(UnitError::new(text, EXPECTED)),
        };
        Ratio::new(value).ok_or_else(|| UnitError::new(text, EXPECTED))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in [
            ("64MiB", 64 << 20),
            ("1.2GB", 1_200_000_000),
            ("1500", 1500),
            ("0", 0),
            ("8 kB", 8000),
            ("64m", 64 << 20),
            ("1_000", 1000),
        ] {
            assert_eq!(text.parse::<ByteSize>().unwrap().bytes(), bytes, "{text}");
        }
        for text in [
            "",
            "MiB",
            "12 parsecs",
            "-1B",
            "1.2.3",
            "99999999TiB",
            "18446744073709551616",
        ] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
        assert_eq!(
            "18446744073709551615".parse::<ByteSize>().unwrap().bytes(),
            u64::MAX
        );
        let error = "12 parsecs".parse::<ByteSize>().unwrap_err().to_string();
        assert!(
            error.contains("\"12 parsecs\"") && error.contains("64MiB"),
            "{error}"
        );
    }

    #[test]
    fn rates_and_ratios() {
        assert_eq!("40Mbps".parse::<BitRate>().unwrap().to_string(), "40Mbps");
        assert_eq!("35%".parse::<Ratio>().unwrap().value(), 0.35);
        assert!("101%".parse::<Ratio>().is_err());
        assert_eq!(Ratio::of(1, 0).value(), 0.0);
    }

    proptest! {
        #[test]
        fn printed_sizes_read_back(bytes in any::<u64>()) {
            let size = ByteSize::from_bytes(bytes);
            prop_assert_eq!(size.to_string().parse::<ByteSize>(), Ok(size));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<ByteSize>();
            let _ = text.parse::<BitRate>();
            let _ = text.parse::<Ratio>();
        }
    }
}
