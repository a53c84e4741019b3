//! Seeds as arguments: one, or a range that includes both ends.

use std::ops::RangeInclusive;
use std::str::FromStr;

/// One seed, or all from the first to the second, both included: `7`, `1..5`.
#[derive(Clone, Debug)]
pub struct Seeds(RangeInclusive<u64>);

/// The most seeds. The figures of each run are kept until the last one has ended.
const MOST: u64 = 100_000;

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seeds, String> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last && last - first >= MOST => {
                Err(format!("{text:?} is more than {MOST} seeds"))
            }
            (Ok(first), Ok(last)) if first <= last => Ok(Seeds(first..=last)),
            _ => Err(format!(
                "seed {text:?} is not a whole number, or two such as \"1..5\""
            )),
        }
    }
}

impl IntoIterator for Seeds {
    type Item = u64;
    type IntoIter = RangeInclusive<u64>;

    fn into_iter(self) -> RangeInclusive<u64> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_seed_is_left_out() {
        let seeds = |text: &str| {
            text.parse::<Seeds>()
                .map(|seeds| seeds.into_iter().collect::<Vec<_>>())
        };
        assert_eq!(seeds("7").unwrap(), [7]);
        assert_eq!(seeds("1..3").unwrap(), [1, 2, 3]);
        for wrong in [
            "3..1",
            "..",
            "1..",
            "-1",
            "1...3",
            "NaN",
            "18446744073709551616",
            "0..18446744073709551615",
            "1..100001",
        ] {
            assert!(seeds(wrong).is_err(), "{wrong}");
        }
    }
}
