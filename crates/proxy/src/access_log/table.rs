//! `[http.access_log]` as the file has it.

use super::{AccessLogConfig, Escape, LogTarget, Rotation, Template};
use crate::base::limits::LOG_FILES;
use larder_units::{ByteSize, parsed};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// The keys of the table.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(deserialize_with = "parsed")]
    path: LogTarget,
    #[serde(default = "combined")]
    format: String,
    #[serde(default)]
    escape: Escape,
    #[serde(default = "all", deserialize_with = "share")]
    sample: f64,
    #[serde(default, deserialize_with = "size")]
    max_size: Option<ByteSize>,
    #[serde(default = "keep", deserialize_with = "files")]
    keep: u32,
}

fn combined() -> String {
    "combined".to_owned()
}

fn all() -> f64 {
    1.0
}

fn keep() -> u32 {
    7
}

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let share = f64::deserialize(deserializer)?;
    if share > 0.0 && share <= 1.0 {
        Ok(share)
    } else {
        Err(D::Error::custom(format!(
            "sample: expected a share above 0 and up to 1, not {share}"
        )))
    }
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ByteSize>, D::Error> {
    let size: ByteSize = parsed(deserializer)?;
    match size.bytes() {
        0 => Ok(None),
        1..1_048_576 => Err(D::Error::custom(format!(
            "max_size: {size}: expected at least 1MiB, or \"0\" for no limit"
        ))),
        _ => Ok(Some(size)),
    }
}

fn files<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let keep = u32::deserialize(deserializer)?;
    if (1..=LOG_FILES).contains(&keep) {
        Ok(keep)
    } else {
        Err(D::Error::custom(format!(
            "keep: expected 1 to {LOG_FILES} files, not {keep}"
        )))
    }
}

impl<'de> Deserialize<'de> for AccessLogConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AccessLogConfig, D::Error> {
        let Keys {
            path,
            format,
            escape,
            sample,
            max_size,
            keep,
        } = Keys::deserialize(deserializer)?;
        let template = Template::parse(&format, escape)
            .map_err(|error| D::Error::custom(format!("format: {error}")))?;
        let rotation = max_size.map(|max_size| Rotation { max_size, keep });
        if rotation.is_some() && !matches!(path, LogTarget::File(_)) {
            return Err(D::Error::custom("max_size: only a file can be rotated"));
        }
        Ok(AccessLogConfig {
            target: path,
            template,
            sample,
            rotation,
        })
    }
}
