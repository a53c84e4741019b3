//! The configuration of a cache. In a file, it is a part of `[http]`.

use crate::rfc::coding::content_coding::Compression;
use http::HeaderName;
use larder_policy::Spec;
use larder_units::{ByteSize, parsed};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// The configuration of a [`Cache`](crate::Cache).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The limit of stored bytes: bodies, header blocks, keys and the structures around them (see
    /// [`limits`](crate::limits)).
    #[serde(rename = "cache")]
    pub capacity: ByteSize,
    /// The policies.
    #[serde(deserialize_with = "parsed")]
    pub policy: Spec,
    /// The largest stored body. At most seven eighths of the room for bodies in progress
    /// ([`limits::filling`](crate::limits::filling)) count: a fifth of a small capacity, a tenth of
    /// a large one.
    pub max_object: ByteSize,
    /// The size of slices: bodies that are requested in ranges are fetched and stored in such
    /// parts; 0 stores only whole bodies. From
    /// [`SLICE_BYTES_LEAST`](crate::limits::SLICE_BYTES_LEAST) to the effective `max_object`.
    pub slice: ByteSize,
    /// True: a response with `Set-Cookie` is stored with it if its `Cache-Control` allows it (RFC
    /// 9111 §7.3). False: never.
    pub share_cookies: bool,
    /// True: `s-maxage` forbids to serve a response stale, as `proxy-revalidate` does (RFC 9111
    /// §5.2.2.10), even together with `stale-while-revalidate` and `stale-if-error`. False: these
    /// two count (RFC 5861), because the origin states them for the caches that obey `s-maxage`.
    pub strict_s_maxage: bool,
    /// The maximum number of stored variants of one URL (RFC 9111 §4.1); at least 1. The oldest
    /// make room. If they are more than eight, they take up to a sixteenth of the capacity together
    /// ([`limits::VARIANTS_SHARE`](crate::limits::VARIANTS_SHARE)).
    #[serde(deserialize_with = "variants")]
    pub variants: usize,
    /// Targeted response fields for this cache (RFC 9213), the one with the highest priority first:
    /// `CDN-Cache-Control`, or the operator's own.
    #[serde(deserialize_with = "field_names")]
    pub targets: Vec<HeaderName>,
    /// The effect of a client's `no-cache`.
    pub client_no_cache: ClientNoCache,
    /// True if a request for a response that is being fetched waits for it (RFC 9111 §4). False:
    /// each request is sent to the origin, as in caches without collapsing; only slices are shared.
    #[serde(skip)]
    pub collapse: bool,
    /// The responses of which clients get coded forms, if the host makes such
    /// ([`Cache::store_coded`](crate::Cache::store_coded)); `None` if it makes none.
    #[serde(skip)]
    pub compression: Option<Compression>,
    /// The secret of the keys' hash, from the host's entropy. Without it, no client can make keys
    /// collide.
    #[serde(skip)]
    pub hash_key: [u8; 16],
}

/// The effect of a client's `Cache-Control: no-cache` or `max-age=0` (a reload).
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ClientNoCache {
    /// The request goes to the origin (RFC 9111 §5.2.1).
    #[default]
    Obey,
    /// A fresh stored response answers it.
    Ignore,
}

impl Default for Config {
    /// The defaults of a node, with a hash key of zeros: the host sets its own.
    fn default() -> Config {
        Config {
            capacity: ByteSize::from_mib(256),
            policy: default_policy(),
            max_object: ByteSize::from_mib(64),
            slice: ByteSize::from_mib(1),
            share_cookies: false,
            strict_s_maxage: false,
            variants: 1000,
            targets: vec![HeaderName::from_static("cdn-cache-control")],
            client_no_cache: ClientNoCache::Obey,
            collapse: true,
            compression: None,
            hash_key: [0; 16],
        }
    }
}

#[allow(clippy::expect_used, reason = "a literal, parsed by a test")]
fn default_policy() -> Spec {
    "agd(optimise=balanced)"
        .parse()
        .expect("a policy that a test parses")
}

fn variants<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match usize::deserialize(deserializer)? {
        most @ 1..=100_000 => Ok(most),
        most => Err(D::Error::custom(format!(
            "variants: {most}: expected 1 to 100000"
        ))),
    }
}

fn field_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<HeaderName>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let name = |text: String| {
        text.parse()
            .map_err(|_| D::Error::custom(format!("{text:?} is no name of a field")))
    };
    names.into_iter().map(name).collect()
}
