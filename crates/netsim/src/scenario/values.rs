//! The notation of values in a scenario file: quantities with units, probabilities, counts within
//! limits.

use crate::link::Depth;
use crate::{Capacity, limits};
use larder_packet::Name;
use larder_units::{BitRate, ByteSize, Ratio, parse_duration};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// A Content Store's capacity: `"64MiB"` or `"1000 packets"`.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreTable(pub(super) Capacity);

/// The capacity of a queue: `"100 packets"` or a number of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueDepth(pub(super) Depth);

impl<'de> Deserialize<'de> for StoreTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let capacity = match packets::<D::Error>(&text) {
            Some(count) => Capacity::Packets(count?),
            None => Capacity::Bytes(text.parse().map_err(D::Error::custom)?),
        };
        Ok(StoreTable(capacity))
    }
}

impl<'de> Deserialize<'de> for QueueDepth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let depth = match packets::<D::Error>(&text) {
            Some(count) => Depth::Packets(count? as usize),
            None => Depth::Bytes(text.parse::<ByteSize>().map_err(D::Error::custom)?.bytes()),
        };
        Ok(QueueDepth(depth))
    }
}

impl Default for QueueDepth {
    fn default() -> Self {
        QueueDepth(Depth::Packets(100))
    }
}

/// Parses `"1000 packets"`; `None` if the text is not of this form.
fn packets<E: serde::de::Error>(text: &str) -> Option<Result<u64, E>> {
    let number = text
        .trim()
        .strip_suffix("packets")
        .or_else(|| text.trim().strip_suffix("packet"))?;
    let wrong = |_| {
        E::custom(format!(
            "{text:?} is not a number of packets such as \"1000 packets\""
        ))
    };
    Some(number.trim().parse().map_err(wrong))
}

pub(super) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    String::deserialize(deserializer)?
        .parse()
        .map_err(D::Error::custom)
}

pub(super) fn some<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    parsed(deserializer).map(Some)
}

/// A strategy of the forwarder by name.
pub(super) fn strategy<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Name>, D::Error> {
    let found = larder_forwarder::strategy::strategy_by_name(&String::deserialize(deserializer)?);
    found.map(Some).map_err(D::Error::custom)
}

pub(super) fn largest<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ByteSize>, D::Error> {
    let size: ByteSize = parsed(deserializer)?;
    if size.bytes() <= limits::MAX_PACKET_BYTES as u64 {
        Ok(Some(size))
    } else {
        Err(D::Error::custom(format!(
            "packets of {size}: the most is {} bytes",
            limits::MAX_PACKET_BYTES
        )))
    }
}

pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.trim_start().starts_with('-') {
        Err(D::Error::custom(format!(
            "{text:?} is negative: a time is \"0s\" or more, such as \"10ms\""
        )))
    } else {
        parse_duration(&text).map_err(D::Error::custom)
    }
}

pub(super) fn run_length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let found = duration(deserializer)?;
    if found.is_zero() {
        Err(D::Error::custom(
            "a run of 0s: nothing happens in it; expected such as \"10s\"",
        ))
    } else {
        Ok(found)
    }
}

pub(super) fn optional_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let found = duration(deserializer)?;
    if found.is_zero() {
        Err(D::Error::custom("a duration of 0: leave the key out"))
    } else {
        Ok(Some(found))
    }
}

pub(super) fn some_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

pub(super) fn rate<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BitRate>, D::Error> {
    let rate: BitRate = parsed(deserializer)?;
    match rate.bits_per_second() {
        0 => Err(D::Error::custom(
            "a rate of 0: leave the key out for a link that sends in no time, or cut it by a [[fault]]",
        )),
        _ => Ok(Some(rate)),
    }
}

pub(super) fn mtu<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let bytes = usize::deserialize(deserializer)?;
    if bytes < limits::LEAST_MTU {
        Err(D::Error::custom(format!(
            "an MTU of {bytes}: the least is {} bytes",
            limits::LEAST_MTU
        )))
    } else {
        Ok(Some(bytes))
    }
}

pub(super) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    up_to(limits::NODES, deserializer)
}

pub(super) fn backbone_nodes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<usize, D::Error> {
    up_to(limits::BACKBONE_NODES, deserializer)
}

pub(super) fn levels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    up_to(limits::TREE_LEVELS, deserializer)
}

pub(super) fn next_hops<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<usize>, D::Error> {
    up_to(limits::NEXT_HOPS, deserializer).map(Some)
}

fn up_to<'de, D: Deserializer<'de>>(most: usize, deserializer: D) -> Result<usize, D::Error> {
    let found = usize::deserialize(deserializer)?;
    if (1..=most).contains(&found) {
        Ok(found)
    } else {
        Err(D::Error::custom(format!("{found}: expected 1 to {most}")))
    }
}

pub(super) fn frequency<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let found = f64::deserialize(deserializer)?;
    if found > 0.0 && found <= limits::FREQUENCY {
        Ok(found)
    } else {
        Err(D::Error::custom(format!(
            "{found} Interests per second: expected more than 0, {:e} at most",
            limits::FREQUENCY
        )))
    }
}

pub(super) fn optional_frequency<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    frequency(deserializer).map(Some)
}

pub(super) fn non_negative<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let found = f64::deserialize(deserializer)?;
    if (0.0..=100.0).contains(&found) {
        Ok(found)
    } else {
        Err(D::Error::custom(format!("{found}: expected 0 to 100")))
    }
}

/// A probability, as `"2%"` or `0.02`.
pub(super) fn probability<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Text(String),
    }
    let found = match Written::deserialize(deserializer)? {
        Written::Number(number) => number,
        Written::Text(text) => text.parse::<Ratio>().map_err(D::Error::custom)?.value(),
    };
    if (0.0..=1.0).contains(&found) {
        Ok(found)
    } else {
        Err(D::Error::custom(format!(
            "{found} is not a probability: expected 0 to 1, or \"2%\""
        )))
    }
}

pub(super) fn one() -> u64 {
    1
}

pub(super) fn yes() -> bool {
    true
}

pub(super) fn certain() -> f64 {
    1.0
}

pub(super) fn zipf_default() -> f64 {
    0.7
}
