//! Numbers as arguments. All commands read them in the same way.

use larder_units::ByteSize;

/// Parses a whole number: 10000000, 10_000_000 or 1e7.
///
/// # Errors
/// Any other text, and numbers above 2^53 that are written with an exponent.
pub fn count(text: &str) -> Result<u64, String> {
    let plain = text.replace('_', "");
    if let Ok(number) = plain.parse() {
        return Ok(number);
    }
    /// Up to here, floating-point numbers represent all whole numbers.
    const MOST: f64 = (1_u64 << 53) as f64;
    let is_number = plain
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".eE+".contains(&byte));
    let number: Option<f64> = plain.parse().ok().filter(|_| is_number);
    let whole = number.filter(|number| number.fract() == 0.0 && (0.0..=MOST).contains(number));
    whole
        .map(|number| number as u64)
        .ok_or_else(|| format!("{text:?} is not a whole number such as 10000000 or 1e7"))
}

/// Parses a number of bytes: 1024, or with a unit as 1KiB.
///
/// # Errors
/// Any other text.
pub fn bytes(text: &str) -> Result<u64, String> {
    text.parse()
        .map(ByteSize::bytes)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_as_another() {
        for (text, number) in [
            ("0", 0),
            ("1e7", 10_000_000),
            ("2.5e3", 2500),
            ("10_000", 10_000),
            ("1E3", 1000),
        ] {
            assert_eq!(count(text), Ok(number), "{text}");
        }
        assert_eq!(count("18446744073709551615"), Ok(u64::MAX));
        for wrong in [
            "",
            "-1",
            "1.5",
            "1e-3",
            "NaN",
            "inf",
            "1e300",
            "0x10",
            "1e17",
            "18446744073709551616",
            "7 ",
        ] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
        assert_eq!(bytes("1KiB"), Ok(1024));
        assert!(bytes("-1").is_err());
    }
}
