//! The unit of a trace's sizes.

use larder_units::ByteSize;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The unit of sizes and capacities. A trace without sizes gives each object one byte; the option
/// to count objects does the same. Capacities are then numbers of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// For objects of several sizes.
    Bytes,
    /// For objects of one byte each; an object of 0 bytes counts as one byte.
    Objects,
}

impl Unit {
    /// Returns the unit for requests of which the largest has this many bytes.
    pub fn of_largest(bytes: u64) -> Unit {
        if bytes > 1 {
            Unit::Bytes
        } else {
            Unit::Objects
        }
    }

    /// Returns `amount` as text: "64MiB", "2048 objects".
    pub fn show(self, amount: u64) -> String {
        match self {
            Unit::Bytes => ByteSize::from_bytes(amount).to_string(),
            Unit::Objects if amount == 1 => "1 object".to_owned(),
            Unit::Objects => format!("{amount} objects"),
        }
    }

    /// Returns the name of an axis of several capacities.
    pub fn axis(units: impl IntoIterator<Item = Unit>) -> String {
        let all_objects = units.into_iter().all(|unit| unit == Unit::Objects);
        format!(
            "cache, {}",
            if all_objects {
                Unit::Objects
            } else {
                Unit::Bytes
            }
        )
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Bytes => "bytes",
            Unit::Objects => "objects",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_shown_as_bytes() {
        let shown = |largest: u64, amount: u64| Unit::of_largest(largest).show(amount);
        assert_eq!(
            [shown(1, 2048), shown(0, 1), shown(2, 2048)],
            ["2048 objects", "1 object", "2KiB"]
        );
        assert_eq!(Unit::axis([Unit::Objects, Unit::Objects]), "cache, objects");
        assert_eq!(Unit::axis([Unit::Objects, Unit::Bytes]), "cache, bytes");
    }
}
