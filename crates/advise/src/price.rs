//! Prices: `0.05/GB`, `3/GiB-month`.

use larder_units::ByteSize;
use serde::Serialize;
use std::str::FromStr;

/// A price for bytes; the currency is the user's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Price {
    /// For one byte; of memory, for a month.
    pub per_byte: f64,
}

/// The prices of what a cache saves, and of what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prices {
    /// Of bytes from the origin.
    pub egress: Price,
    /// Of the cache's memory, for a month.
    pub memory: Price,
}

impl FromStr for Price {
    type Err = String;

    fn from_str(text: &str) -> Result<Price, String> {
        let wrong = || format!("{text:?} is no price such as 0.05/GB or 3/GiB-month");
        let (amount, unit) = text.split_once('/').ok_or_else(wrong)?;
        let unit = unit.trim().strip_suffix("-month").unwrap_or(unit).trim();
        let amount: f64 = amount
            .trim()
            .trim_start_matches(['$', '€', '£'])
            .parse()
            .map_err(|_| wrong())?;
        let bytes: ByteSize = format!("1{unit}").parse().map_err(|_| wrong())?;
        let is_unit = unit.ends_with(['B', 'b']) && !unit.starts_with(|c: char| c.is_ascii_digit());
        if amount.is_finite() && amount >= 0.0 && is_unit {
            Ok(Price {
                per_byte: amount / bytes.bytes() as f64,
            })
        } else {
            Err(wrong())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_read_as_another() {
        let price = |text: &str| text.parse::<Price>().map(|price| price.per_byte);
        assert_eq!(price("0.05/GB"), Ok(0.05 / 1e9));
        assert_eq!(price("$3/GiB-month"), Ok(3.0 / (1_u64 << 30) as f64));
        assert_eq!(price("0/MB"), Ok(0.0));
        for wrong in [
            "", "3", "3/", "3/month", "-1/GB", "NaN/GB", "inf/GB", "3/2GB", "x/GB", "3/parsec",
        ] {
            assert!(price(wrong).is_err(), "{wrong}");
        }
    }
}
