//! `[http.object_store]`: where the objects are, and what they cost.

use crate::error::Error;
use http::Uri;
use larder_units::{ByteSize, from_text, parse_duration, parsed};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Where the objects are, and what they cost.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectStoreConfig {
    /// The bucket.
    #[serde(deserialize_with = "parsed")]
    pub url: ObjectUrl,
    /// The URL of another store than that of AWS.
    #[serde(default, deserialize_with = "endpoint")]
    pub endpoint: Option<String>,
    /// The region of the bucket; `None` for `AWS_REGION`, or us-east-1.
    pub region: Option<String>,
    /// A file with `aws_access_key_id` and `aws_secret_access_key`, as programs of AWS read it.
    /// Without one: the variables `AWS_...`, or the role of the machine.
    pub credentials: Option<PathBuf>,
    /// PEM file of the authorities of the store's certificate; those of the system without one.
    pub ca: Option<PathBuf>,
    /// How long a request waits for an object before the origin is asked.
    #[serde(default = "wait", deserialize_with = "some_time")]
    pub wait: Duration,
    /// The bytes that may wait to be written.
    #[serde(default = "queue")]
    pub queue: ByteSize,
    /// How long the bucket keeps an object: the rule for its life cycle removes older ones.
    #[serde(default = "keep", deserialize_with = "days")]
    pub keep: Duration,
    /// What decides which responses are worth an object.
    #[serde(default)]
    pub prices: Prices,
}

impl ObjectStoreConfig {
    /// Returns the files that a start reads, each with its setting.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [
            ("[http.object_store] credentials", &self.credentials),
            ("[http.object_store] ca", &self.ca),
        ];
        let named = files.into_iter();
        named.filter_map(|(setting, path)| Some((setting, path.as_deref()?)))
    }

    /// Returns the configuration of a bucket with the default of everything else.
    pub fn new(url: ObjectUrl) -> ObjectStoreConfig {
        ObjectStoreConfig {
            url,
            endpoint: None,
            region: None,
            credentials: None,
            ca: None,
            wait: wait(),
            queue: queue(),
            keep: keep(),
            prices: Prices::default(),
        }
    }
}

fn wait() -> Duration {
    Duration::from_millis(200)
}

fn queue() -> ByteSize {
    ByteSize::from_mib(64)
}

fn keep() -> Duration {
    Duration::from_secs(30 * 86_400)
}

fn some_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    from_text(deserializer, |text| match parse_duration(text) {
        Ok(time) if time < Duration::from_millis(1) => Err("expected 1ms or more".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    })
}

fn days<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    from_text(deserializer, |text| match parse_duration(text) {
        // The filters of other nodes are removed when they are older.
        Ok(time) if time < Duration::from_secs(86_400) => Err("expected 1d or more".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    })
}

fn endpoint<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    from_text(deserializer, |text| {
        let uri: Option<Uri> = text.parse().ok();
        let is_one = uri.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()
        });
        if is_one {
            Ok(Some(text.trim_end_matches('/').to_owned()))
        } else {
            Err("expected the URL of a store, such as \"https://s3.example.com\"")
        }
    })
}

fn price<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let price = f64::deserialize(deserializer)?;
    if price.is_finite() && price >= 0.0 {
        Ok(price)
    } else {
        Err(D::Error::custom("expected a price, 0 or more"))
    }
}

/// What requests and bytes cost, in any currency.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prices {
    /// Of a write.
    #[serde(deserialize_with = "price")]
    pub put: f64,
    /// Of a read.
    #[serde(deserialize_with = "price")]
    pub get: f64,
    /// Of a gigabyte (10^9 bytes) for a month.
    #[serde(deserialize_with = "price")]
    pub gigabyte_month: f64,
    /// Of a gigabyte from the origin.
    #[serde(deserialize_with = "price")]
    pub origin_gigabyte: f64,
}

/// The prices of S3 Standard in us-east-1 in 2026, and 0.05 for a gigabyte from the origin.
impl Default for Prices {
    fn default() -> Prices {
        Prices {
            put: 5e-6,
            get: 4e-7,
            gigabyte_month: 0.023,
            origin_gigabyte: 0.05,
        }
    }
}

/// Reads that an object is expected to have in a month. A node asks for one after it has lost its
/// own copy, so they are few.
const READS: f64 = 2.0;

impl Prices {
    /// Returns true if an object with a body of so many bytes saves more than it costs.
    pub fn is_worth(&self, bytes: u64) -> bool {
        let gigabytes = bytes as f64 / 1e9;
        let saved = READS * (gigabytes * self.origin_gigabyte - self.get);
        bytes > 0 && saved >= self.put + gigabytes * self.gigabyte_month
    }
}

/// A bucket, and the beginning of the names of its objects: `s3://BUCKET[/PREFIX]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectUrl {
    pub(crate) bucket: String,
    /// Without `/` at its ends; empty if there is none.
    pub(crate) prefix: String,
}

impl FromStr for ObjectUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<ObjectUrl, String> {
        let wrong = || format!("{text:?} is not s3://BUCKET[/PREFIX]");
        let rest = text.strip_prefix("s3://").ok_or_else(wrong)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let prefix = prefix.trim_matches('/');
        let is_path = prefix.bytes().all(|byte| is_name(byte) || byte == b'/');
        if bucket.is_empty() || !bucket.bytes().all(is_name) || !is_path || prefix.contains("//") {
            return Err(wrong());
        }
        Ok(ObjectUrl {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        })
    }
}

impl fmt::Display for ObjectUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        write!(f, "s3://{}{slash}{}", self.bucket, self.prefix)
    }
}

/// An access key.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub key: String,
    pub secret: String,
    pub token: Option<String>,
}

/// Reads a file of AWS's programs: the first section that has an access key and its secret.
pub(crate) fn read_credentials(path: &Path) -> Result<Credentials, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::File {
        setting: "credentials",
        path: path.to_owned(),
        error,
    })?;
    let mut found = Credentials::default();
    let is_whole = |found: &Credentials| !found.key.is_empty() && !found.secret.is_empty();
    for line in text.lines() {
        if line.trim_start().starts_with('[') {
            if is_whole(&found) {
                break;
            }
            found = Credentials::default();
        }
        let Some((name, value)) = line.split_once('=') else {
            continue;
        };
        let value = value.trim().to_owned();
        match name.trim().to_ascii_lowercase().as_str() {
            "aws_access_key_id" => found.key = value,
            "aws_secret_access_key" => found.secret = value,
            "aws_session_token" => found.token = Some(value),
            _ => {}
        }
    }
    if is_whole(&found) {
        Ok(found)
    } else {
        Err(Error::NoCredentials(path.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, shown) in [
            ("s3://bucket", "s3://bucket"),
            ("s3://bucket/", "s3://bucket"),
            ("s3://my.bucket//a/b/", "s3://my.bucket/a/b"),
        ] {
            assert_eq!(text.parse::<ObjectUrl>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            "s3://",
            "bucket",
            "https://bucket",
            "s3://a b",
            "s3://a/b//c",
        ] {
            assert!(text.parse::<ObjectUrl>().is_err(), "{text}");
        }
    }

    /// Failure: objects are written that cost more than the origin.
    #[test]
    fn small_objects_are_worth_nothing() {
        let prices = Prices::default();
        assert!(!prices.is_worth(16 << 10));
        assert!(prices.is_worth(256 << 10));
        let cheap_origin = Prices {
            origin_gigabyte: 0.01,
            ..prices
        };
        assert!(!cheap_origin.is_worth(1 << 30));
        // What counts is time.
        let free = Prices {
            put: 0.0,
            get: 0.0,
            gigabyte_month: 0.0,
            origin_gigabyte: 0.0,
        };
        assert!(free.is_worth(1) && !free.is_worth(0));
    }

    #[test]
    fn credentials() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_credentials(&path)
        };
        let good = "[other]\naws_access_key_id = no\n[default]\naws_access_key_id = AK\n\
                    aws_secret_access_key=a/b+c=\n[third]\naws_secret_access_key = no\n\
                    aws_session_token = no\n";
        let expected = Credentials {
            key: "AK".to_owned(),
            secret: "a/b+c=".to_owned(),
            token: None,
        };
        assert_eq!(read(good).unwrap(), expected);
        let with_token = good.replace("[third]\n", "");
        let with_token = read(&with_token.replace("aws_secret_access_key = no\n", ""));
        assert_eq!(with_token.unwrap().token.as_deref(), Some("no"));
        for bad in [
            "",
            "[default]\naws_access_key_id = AK\n",
            "aws_access_key_id =\naws_secret_access_key = x",
        ] {
            assert!(matches!(read(bad), Err(Error::NoCredentials(_))), "{bad}");
        }
        assert!(matches!(
            read_credentials(&folder.path().join("none")),
            Err(Error::File { .. })
        ));
    }
}
