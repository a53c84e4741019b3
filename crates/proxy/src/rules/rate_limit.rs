//! Rate limits: one token bucket for each client or value of a field, in a table of a fixed size.
//!
//! A bucket is one number, the time at which it would be full again (the generic cell rate
//! algorithm of ATM, ITU-T I.371). The table is split into parts, each behind a lock of its own,
//! and each part into sets of eight buckets. A new bucket takes the place of the one in its set
//! that is full first. So a flood of addresses displaces buckets of clients that send little, and a
//! client that sends too much keeps its own.

use http::HeaderName;
use serde::{Deserialize, Deserializer};
use siphasher::sip::SipHasher13;
use std::fmt;
use std::hash::Hasher;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Locks, so that threads seldom wait for each other.
const PARTS: usize = 64;
/// With eight buckets of 16 bytes in each set: 65,536 buckets in 1 MiB.
const SETS: usize = 128;
const WAYS: usize = 8;

/// `rate_limit` of a rule.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// Requests in a time.
    pub rate: Rate,
    /// Requests that may come at once; without it, as many as `rate` names.
    pub burst: Option<u32>,
    /// What has a bucket.
    #[serde(default)]
    pub by: LimitKey,
}

/// A number of requests per second, minute or hour, such as `10r/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: u32,
    unit: char,
}

/// What has a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LimitKey {
    /// The client's address; of IPv6, its network of 64 bits.
    #[default]
    Client,
    /// The value of a field; without the field, the client's address.
    Header(HeaderName),
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let error = || "expected a rate such as \"10r/s\", \"60r/m\" or \"1000r/h\"".to_owned();
        let (count, unit) = text.split_once("r/").ok_or_else(error)?;
        let unit = ['s', 'm', 'h']
            .into_iter()
            .find(|known| unit == known.to_string())
            .ok_or_else(error)?;
        match count.parse() {
            Ok(count @ 1..=1_000_000) => Ok(Rate { count, unit }),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}r/{}", self.count, self.unit)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|problem| serde::de::Error::custom(format!("{text:?}: {problem}")))
    }
}

impl<'de> Deserialize<'de> for LimitKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LimitKey, D::Error> {
        let text = String::deserialize(deserializer)?;
        let name = text
            .strip_prefix("header:")
            .and_then(|name| name.trim().parse().ok());
        match name {
            Some(name) => Ok(LimitKey::Header(name)),
            None if text == "client" => Ok(LimitKey::Client),
            None => Err(serde::de::Error::custom(format!(
                "{text:?}: expected \"client\" or \"header:NAME\""
            ))),
        }
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with a burst of {} by ", self.rate, self.burst())?;
        match &self.by {
            LimitKey::Client => f.write_str("client"),
            LimitKey::Header(name) => write!(f, "header {name}"),
        }
    }
}

impl RateLimit {
    fn burst(&self) -> u32 {
        self.burst.unwrap_or(self.rate.count)
    }

    fn interval(&self) -> Duration {
        let period = match self.rate.unit {
            's' => 1,
            'm' => 60,
            _ => 3600,
        };
        Duration::from_secs(period) / self.rate.count
    }
}

/// The buckets of all rules.
pub(super) struct Limiter {
    parts: Box<[Mutex<Box<[Set]>>]>,
    secret: [u8; 16],
    started: Instant,
}

type Set = [Bucket; WAYS];

#[derive(Clone, Copy, Default)]
struct Bucket {
    /// The hash of its key.
    tag: u64,
    /// The time at which it is full again, in nanoseconds; in the past if it is full.
    full_at: u64,
}

impl Limiter {
    pub(super) fn new() -> Limiter {
        let part = || Mutex::new(vec![Set::default(); SETS].into_boxed_slice());
        let [first, second] = larder_host::entropy::words();
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&first.to_le_bytes());
        secret[8..].copy_from_slice(&second.to_le_bytes());
        Limiter {
            parts: (0..PARTS).map(|_| part()).collect(),
            secret,
            started: Instant::now(),
        }
    }

    /// Returns the bucket of a rule for a client, or for the value of a field.
    pub(super) fn key(&self, rule: usize, client: IpAddr, value: Option<&[u8]>) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        hasher.write_usize(rule);
        match value {
            Some(value) => hasher.write(value),
            None => {
                // A client of IPv6 has a whole network.
                hasher.write_u64(match client.to_canonical() {
                    IpAddr::V4(address) => u64::from(address.to_bits()),
                    IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
                });
            }
        }
        hasher.finish()
    }

    /// Returns the time since the start.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Takes a token, unless `only_looks`. Returns the time until there is one, if there is none.
    pub(super) fn take(
        &self,
        key: u64,
        limit: &RateLimit,
        now: Duration,
        only_looks: bool,
    ) -> Option<Duration> {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let (now, interval) = (nanos(now), nanos(limit.interval()));
        let most = interval.saturating_mul(u64::from(limit.burst().max(1)));
        // Different bits choose the part and the set.
        let (part, set) = (key as usize % PARTS, (key >> 32) as usize % SETS);
        let mut sets = self.parts[part]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let set = &mut sets[set];
        let known = set.iter().position(|bucket| bucket.tag == key);
        let full_at = known
            .map_or(now, |at| set[at].full_at.max(now))
            .saturating_add(interval);
        let ahead = full_at - now;
        if ahead > most {
            return Some(Duration::from_nanos(ahead - most));
        }
        if !only_looks {
            let first = || (0..WAYS).min_by_key(|at| set[*at].full_at).unwrap_or(0);
            let at = known.unwrap_or_else(first);
            set[at] = Bucket { tag: key, full_at };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limit(rate: &str, burst: Option<u32>) -> RateLimit {
        RateLimit {
            rate: rate.parse().unwrap(),
            burst,
            by: LimitKey::Client,
        }
    }

    #[test]
    fn more_or_fewer_requests_pass_than_the_rate() {
        let limiter = Limiter::new();
        let at = Duration::from_millis;
        for (limit, key) in [(limit("10r/s", Some(5)), 1), (limit("600r/m", Some(5)), 2)] {
            let take = |now| limiter.take(key, &limit, now, false);
            assert_eq!((0..20).filter(|_| take(at(0)).is_none()).count(), 5);
            assert_eq!(take(at(0)), Some(at(100)));
            assert_eq!(
                limiter.take(key, &limit, at(100), true),
                None,
                "a look takes nothing"
            );
            assert_eq!([take(at(100)), take(at(100))], [None, Some(at(100))]);
            // A second over ten seconds has ten requests.
            assert_eq!(
                (0..1000)
                    .filter(|step| take(at(1000 + step * 10)).is_none())
                    .count(),
                104
            );
        }
        assert_eq!(
            (0..20)
                .filter(|_| limiter
                    .take(3, &limit("7r/s", None), at(0), false)
                    .is_none())
                .count(),
            7
        );
    }

    /// Failure: a flood of addresses grows the table, or frees the client that sends too much.
    #[test]
    fn a_flood_of_addresses_resets_a_limit() {
        let limiter = Limiter::new();
        let (heavy, light) = (limit("1r/m", Some(3)), limit("100r/s", Some(100)));
        let own = limiter.key(0, "192.0.2.1".parse().unwrap(), None);
        while limiter.take(own, &heavy, Duration::ZERO, false).is_none() {}
        for number in 0..200_000_u32 {
            let key = limiter.key(1, IpAddr::V4(number.into()), None);
            limiter.take(key, &light, Duration::ZERO, false);
        }
        assert!(limiter.take(own, &heavy, Duration::ZERO, false).is_some());
    }

    #[test]
    fn clients_share_a_bucket() {
        let limiter = Limiter::new();
        let key = |rule, address: &str| limiter.key(rule, address.parse().unwrap(), None);
        assert_eq!(key(1, "2001:db8::1"), key(1, "2001:db8::2"), "one network");
        assert_eq!(key(1, "192.0.2.1"), key(1, "::ffff:192.0.2.1"));
        assert_ne!(key(1, "2001:db8::1"), key(1, "2001:db8:0:1::1"));
        assert_ne!(key(1, "192.0.2.1"), key(1, "192.0.2.2"));
        assert_ne!(key(1, "192.0.2.1"), key(2, "192.0.2.1"));
        assert_ne!(
            key(1, "192.0.2.1"),
            limiter.key(1, "192.0.2.1".parse().unwrap(), Some(b"x"))
        );
    }

    proptest! {
        #[test]
        fn any_time_and_key_is_taken_without_a_panic(key: u64, seconds: u64, count in 1_u32..=1_000_000, burst: u32) {
            let limit = RateLimit { rate: Rate { count, unit: 'h' }, burst: Some(burst), by: LimitKey::Client };
            Limiter::new().take(key, &limit, Duration::from_secs(seconds), false);
        }
    }
}
