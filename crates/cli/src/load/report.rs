//! The result of the load: hits by `Cache-Status`, latencies, throughput.

use comfy_table::{CellAlignment, Table, presets};
use hdrhistogram::Histogram;
use http::{HeaderMap, StatusCode, Version};
use serde_json::{Value, json};
use sfv::{ListEntry, Parser};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The result of one request.
pub struct Outcome {
    status: StatusCode,
    version: Version,
    /// Whether it was a hit; `None` without a statement of a cache.
    hit: Option<bool>,
    bytes: u64,
}

impl Outcome {
    /// Returns the result of a response with `bytes` bytes of body.
    pub fn new(status: StatusCode, version: Version, headers: &HeaderMap, bytes: u64) -> Outcome {
        Outcome {
            status,
            version,
            hit: is_hit(headers),
            bytes,
        }
    }
}

/// Returns whether the nearest cache had a hit. The last member is of the cache nearest to the
/// client. It has `hit` if this cache answered without a request to the next hop (RFC 9211 §2).
fn is_hit(headers: &HeaderMap) -> Option<bool> {
    let line = headers.get_all("cache-status").iter().next_back()?;
    let list: sfv::List = Parser::new(line.as_bytes()).parse().ok()?;
    let nearest = match list.last()? {
        ListEntry::Item(item) => &item.params,
        ListEntry::InnerList(list) => &list.params,
    };
    Some(
        nearest
            .get("hit")
            .is_some_and(|hit| hit.as_boolean() != Some(false)),
    )
}

/// The longest latency in µs that the histogram distinguishes. Longer ones count as this.
const LONGEST_US: u64 = 120_000_000;

/// The sums over all counted requests.
#[derive(Debug)]
pub struct Report {
    /// The start of the load, or of its first counted request.
    pub(super) begun: Option<Instant>,
    seconds: f64,
    /// The processor time of the load's thread, from the start to the end.
    pub(super) cpu: Duration,
    first: Option<Instant>,
    answered: u64,
    /// The protocol of the last response.
    version: Option<Version>,
    hits: u64,
    unsaid: u64,
    bytes: u64,
    hit_bytes: u64,
    statuses: BTreeMap<u16, u64>,
    failures: BTreeMap<String, u64>,
    latency_us: Histogram<u64>,
}

impl Default for Report {
    fn default() -> Self {
        // Three digits: the error of a percentile is below a thousandth. The call requires only 1 <
        // 2 <= LONGEST_US.
        #[allow(clippy::expect_used, reason = "constants that fit")]
        let latency_us = Histogram::new_with_bounds(1, LONGEST_US, 3).expect("bounds that fit");
        Report {
            begun: None,
            seconds: 0.0,
            cpu: Duration::ZERO,
            first: None,
            answered: 0,
            version: None,
            hits: 0,
            unsaid: 0,
            bytes: 0,
            hit_bytes: 0,
            statuses: BTreeMap::new(),
            failures: BTreeMap::new(),
            latency_us,
        }
    }
}

impl Report {
    /// Counts a request that was sent at `asked` and took `took`.
    pub(super) fn count(
        &mut self,
        asked: Instant,
        took: Duration,
        outcome: Result<Outcome, String>,
    ) {
        self.first.get_or_insert(asked);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(reason) => return *self.failures.entry(reason).or_default() += 1,
        };
        self.answered += 1;
        self.version = Some(outcome.version);
        *self.statuses.entry(outcome.status.as_u16()).or_default() += 1;
        self.bytes += outcome.bytes;
        match outcome.hit {
            Some(true) => {
                self.hits += 1;
                self.hit_bytes += outcome.bytes;
            }
            Some(false) => {}
            None => self.unsaid += 1,
        }
        self.latency_us
            .saturating_record(took.as_micros().clamp(1, u128::from(LONGEST_US)) as u64);
    }

    /// Ends the counting.
    pub(super) fn ended(mut self) -> Report {
        let begun = self.first.or(self.begun);
        self.seconds = begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        self
    }

    /// Returns the number of requests that broke off or were not answered.
    fn errors(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Returns the hits by requests, 0 to 1, or `None` if no cache reports hits.
    fn hit_ratio(&self) -> Option<f64> {
        (self.unsaid < self.answered)
            .then(|| self.hits as f64 / (self.answered - self.unsaid) as f64)
    }

    /// Returns the hits by bytes, 0 to 1, or `None` if no cache reports hits.
    fn byte_hit_ratio(&self) -> Option<f64> {
        (self.unsaid == 0 && self.bytes > 0).then(|| self.hit_bytes as f64 / self.bytes as f64)
    }

    /// Returns the latency in ms that this share of the requests did not exceed; 1 for the longest.
    fn latency_ms(&self, share: f64) -> f64 {
        self.latency_us.value_at_quantile(share) as f64 / 1e3
    }

    /// Returns the answered requests per second.
    fn rate(&self) -> f64 {
        if self.seconds > 0.0 {
            self.answered as f64 / self.seconds
        } else {
            0.0
        }
    }

    /// Returns the protocol by its usual name.
    fn protocol(&self) -> Option<String> {
        Some(match self.version? {
            Version::HTTP_2 => "HTTP/2".to_owned(),
            version => format!("{version:?}"),
        })
    }

    /// Returns the report as JSON.
    pub fn json(&self) -> Value {
        let bits = if self.seconds > 0.0 {
            self.bytes as f64 * 8.0 / self.seconds
        } else {
            0.0
        };
        json!({
            "protocol": self.protocol(),
            "requests": self.answered,
            "errors": self.errors(),
            "failures": self.failures,
            "statuses": self.statuses,
            "hits": self.hits,
            "hit_ratio": self.hit_ratio(),
            "byte_hit_ratio": self.byte_hit_ratio(),
            "without_cache_status": self.unsaid,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu.as_secs_f64(),
            "requests_per_second": self.rate(),
            "bits_per_second": bits,
            "latency_ms": {
                "mean": self.latency_us.mean() / 1e3,
                "p50": self.latency_ms(0.5),
                "p90": self.latency_ms(0.9),
                "p99": self.latency_ms(0.99),
                "p999": self.latency_ms(0.999),
                "max": self.latency_ms(1.0),
            },
        })
    }

    /// Returns the report as a table.
    pub fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let ratio = |ratio: Option<f64>| {
            ratio.map_or("no Cache-Status".to_owned(), |ratio| format!("{ratio:.4}"))
        };
        let mut row = |name: &str, value: String| {
            table.add_row([name.to_owned(), value]);
        };
        row("protocol", self.protocol().unwrap_or_default());
        row("requests", self.answered.to_string());
        row("seconds", format!("{:.1}", self.seconds));
        row("requests/s", format!("{:.0}", self.rate()));
        row(
            "Mbit/s",
            format!("{:.0}", self.bytes as f64 * 8e-6 / self.seconds.max(1e-9)),
        );
        row("hit ratio", ratio(self.hit_ratio()));
        row("byte hit ratio", ratio(self.byte_hit_ratio()));
        for (name, share) in [
            ("p50 ms", 0.5),
            ("p90 ms", 0.9),
            ("p99 ms", 0.99),
            ("p99.9 ms", 0.999),
            ("max ms", 1.0),
        ] {
            row(name, format!("{:.3}", self.latency_ms(share)));
        }
        for (status, count) in self.statuses.iter().filter(|(status, _)| **status != 200) {
            row(&format!("status {status}"), count.to_string());
        }
        for (reason, count) in &self.failures {
            row(&format!("failed: {reason}"), count.to_string());
        }
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    /// Failure: a hit of a distant cache, or a word in a text, counts as a hit of the cache under
    /// test.
    #[test]
    fn only_the_nearest_cache_counts() {
        let is_hit_of = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("cache-status", HeaderValue::from_str(line).unwrap());
            }
            is_hit(&headers)
        };
        assert_eq!(is_hit_of(&["larder; hit"]), Some(true));
        assert_eq!(is_hit_of(&["larder; hit; ttl=30"]), Some(true));
        assert_eq!(is_hit_of(&["larder; hit=?0"]), Some(false));
        assert_eq!(is_hit_of(&["larder; fwd=uri-miss; stored"]), Some(false));
        assert_eq!(is_hit_of(&["far; hit, near; fwd=miss"]), Some(false));
        assert_eq!(is_hit_of(&["far; fwd=miss", "near; hit"]), Some(true));
        assert_eq!(
            is_hit_of(&["near; fwd=miss; detail=\"no, hit\""]),
            Some(false)
        );
        assert_eq!(is_hit_of(&[]), None);
        assert_eq!(is_hit_of(&["\"open"]), None);
    }
}
