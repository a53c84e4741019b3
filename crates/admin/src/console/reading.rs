//! What the console draws over time: rates between two readings of the status page, and levels.

use crate::histogram::quantile;
use serde_json::{Value, json};

/// Totals of the status page, by JSON pointer (RFC 6901). The sum of an object's members is its
/// total. A point has their rates per second.
const TOTALS: [(&str, &str); 20] = [
    ("requests", "/http/requests"),
    ("hits", "/http/hits"),
    ("hit_bytes", "/http/hit_bytes"),
    ("sent_bytes", "/http/sent_bytes"),
    ("origin_requests", "/http/forwarded"),
    ("origin_failures", "/http/origin_failures"),
    ("server_errors", "/http/responses/5xx"),
    ("client_errors", "/http/responses/4xx"),
    ("broken", "/http/broken_exchanges"),
    ("stored", "/http/stored"),
    ("evicted", "/http/evicted"),
    ("cpu", "/node/cpu_seconds"),
    ("interests", "/ndn/packets/in_interests"),
    ("data", "/ndn/packets/out_data"),
    ("nacks", "/ndn/packets/out_nacks"),
    ("ndn_bytes", "/ndn/packets/out_bytes"),
    ("store_hits", "/ndn/content_store/hits"),
    ("store_misses", "/ndn/content_store/misses"),
    ("drops", "/ndn/drops"),
    ("marks", "/ndn/marked_packets"),
];

/// Levels of the status page.
const LEVELS: [(&str, &str); 8] = [
    ("memory_bytes", "/node/resident_bytes"),
    ("used_bytes", "/http/used_bytes"),
    ("disk_bytes", "/http/disk/used_bytes"),
    ("connections", "/http/connections"),
    ("store_bytes", "/ndn/content_store/used_bytes"),
    ("store_disk_bytes", "/ndn/content_store/disk/used_bytes"),
    ("pit_entries", "/ndn/pit_entries"),
    ("queued_bytes", "/ndn/queued_bytes"),
];

/// Quantiles of the time to the first byte, in seconds.
const QUANTILES: [(&str, &str, f64); 4] = [
    ("hit_p50", "/http/first_byte_seconds/hits", 0.5),
    ("hit_p99", "/http/first_byte_seconds/hits", 0.99),
    ("miss_p50", "/http/first_byte_seconds/misses", 0.5),
    ("miss_p99", "/http/first_byte_seconds/misses", 0.99),
];

/// Gauges of policies, by the name of their cache.
const POLICIES: [(&str, &str); 2] = [
    ("http", "/http/policy/figures"),
    ("ndn", "/ndn/content_store/policy/figures"),
];

/// Gauges that a point has at most: the policies of the registry have up to six.
const GAUGES: usize = 16;

/// The number of figures of a point.
pub(super) const FIGURES: usize = TOTALS.len() + LEVELS.len() + QUANTILES.len();

/// Returns the names of the figures of a point, in their order.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let quantiles = QUANTILES.iter().map(|(name, ..)| *name);
    TOTALS
        .iter()
        .chain(&LEVELS)
        .map(|(name, _)| *name)
        .chain(quantiles)
}

/// Returns the pointers to what is drawn.
pub(super) fn pointers() -> impl Iterator<Item = &'static str> {
    let drawn = TOTALS.iter().chain(&LEVELS).chain(&POLICIES);
    let quantiles = QUANTILES.iter().map(|(_, pointer, _)| *pointer);
    drawn.map(|(_, pointer)| *pointer).chain(quantiles)
}

/// One reading of the status page.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    /// When it was taken, since the start of the process.
    seconds: f64,
    totals: [Option<f64>; TOTALS.len()],
    levels: [Option<f64>; LEVELS.len()],
    buckets: [Vec<u64>; QUANTILES.len()],
    gauges: Vec<(String, f64)>,
}

/// One point of the history.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// Its end, in seconds since 1970.
    pub(super) unix_seconds: u64,
    /// By [`names`]; `None` where the node has no such part.
    pub(super) figures: [Option<f64>; FIGURES],
    /// What the policies report of themselves.
    pub(super) gauges: Vec<(String, f64)>,
}

impl Reading {
    /// Reads a status page, which was taken at this time since the start of the process.
    pub(super) fn new(status: &Value, seconds: f64) -> Reading {
        let number = |pointer: &str| match status.pointer(pointer)? {
            Value::Object(members) => Some(members.values().filter_map(Value::as_f64).sum()),
            value => value.as_f64(),
        };
        let buckets = |pointer: &str| {
            let counts = status.pointer(pointer).and_then(Value::as_array);
            counts
                .into_iter()
                .flatten()
                .filter_map(Value::as_u64)
                .collect()
        };
        let members = |(cache, pointer): (&str, &str)| -> Vec<(String, f64)> {
            let members = status.pointer(pointer).and_then(Value::as_object);
            let gauges = members
                .into_iter()
                .flatten()
                .filter_map(|(name, value)| Some((name, value.as_f64()?)));
            gauges
                .map(|(name, value)| (format!("{cache} {name}"), value))
                .collect()
        };
        Reading {
            seconds,
            totals: TOTALS.map(|(_, pointer)| number(pointer)),
            levels: LEVELS.map(|(_, pointer)| number(pointer)),
            buckets: QUANTILES.map(|(_, pointer, _)| buckets(pointer)),
            gauges: POLICIES
                .into_iter()
                .flat_map(members)
                .take(GAUGES)
                .collect(),
        }
    }

    /// Returns the point between an earlier reading and this one.
    pub(super) fn since(&self, before: &Reading, unix_seconds: u64) -> Point {
        let seconds = (self.seconds - before.seconds).max(1e-3);
        // A part that has started again counts from 0.
        let rate = |(now, before): (&Option<f64>, &Option<f64>)| {
            now.map(|now| (now - before.filter(|before| *before <= now).unwrap_or(0.0)) / seconds)
        };
        let rates = self.totals.iter().zip(&before.totals).map(rate);
        let quantiles = QUANTILES
            .iter()
            .zip(self.buckets.iter().zip(&before.buckets));
        let quantiles = quantiles.map(|((.., of), (now, before))| {
            let before = before.iter().chain(std::iter::repeat(&0));
            let counts: Vec<u64> = now
                .iter()
                .zip(before)
                .map(|(now, before)| now.saturating_sub(*before))
                .collect();
            quantile(&counts, *of)
        });
        let mut figures = [None; FIGURES];
        let all = rates.chain(self.levels.iter().copied()).chain(quantiles);
        for (place, figure) in figures.iter_mut().zip(all) {
            *place = figure;
        }
        Point {
            unix_seconds,
            figures,
            gauges: self.gauges.clone(),
        }
    }
}

impl Point {
    /// Returns the point as an array: the time, the figures, and the gauges as an object.
    pub(super) fn to_json(&self) -> Value {
        let mut array = vec![json!(self.unix_seconds)];
        array.extend(
            self.figures
                .iter()
                .map(|figure| figure.map_or(Value::Null, |figure| json!(rounded(figure)))),
        );
        array.push(
            self.gauges
                .iter()
                .map(|(name, value)| (name.clone(), json!(rounded(*value))))
                .collect(),
        );
        Value::Array(array)
    }

    /// Reads a point, whose figures have these names.
    pub(super) fn of_json(value: &Value, known: &[String]) -> Option<Point> {
        let array = value
            .as_array()
            .filter(|array| array.len() == known.len() + 2)?;
        let figure = |name: &str| array[1 + known.iter().position(|known| known == name)?].as_f64();
        let mut figures = [None; FIGURES];
        for (place, name) in figures.iter_mut().zip(names()) {
            *place = figure(name);
        }
        let gauges = array.last()?.as_object()?.iter();
        let gauges = gauges
            .filter_map(|(name, value)| Some((name.chars().take(64).collect(), value.as_f64()?)));
        Some(Point {
            unix_seconds: array[0].as_u64()?,
            figures,
            gauges: gauges.take(GAUGES).collect(),
        })
    }
}

/// Rounds to six digits: more are noise, and they are sent to the page.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(5 - value.abs().log10().floor() as i32);
    if scale.is_finite() {
        (value * scale).round() / scale
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(point: &Point, name: &str) -> Option<f64> {
        point.figures[names().position(|known| known == name).unwrap()]
    }

    /// Failure: a rate is a total, a part that has started again gives a negative rate, or a
    /// quantile is that of all time.
    #[test]
    fn a_rate_is_not_the_difference() {
        let status = |requests: u64, forwarded: u64, hits: [u64; 3]| {
            json!({
                "node": { "resident_bytes": 4096 },
                "http": {
                    "requests": requests,
                    "forwarded": { "uri-miss": forwarded, "stale": 1 },
                    "first_byte_seconds": { "hits": hits },
                    "policy": { "figures": { "agd.p": 0.5 } },
                },
            })
        };
        let before = Reading::new(&status(100, 10, [1000, 0, 0]), 10.0);
        let after = Reading::new(&status(150, 20, [1000, 0, 10]), 15.0);
        let point = after.since(&before, 7);
        assert_eq!(
            (of(&point, "requests"), of(&point, "origin_requests")),
            (Some(10.0), Some(2.0))
        );
        assert_eq!(
            (of(&point, "memory_bytes"), of(&point, "interests")),
            (Some(4096.0), None)
        );
        assert!(of(&point, "hit_p50").unwrap() > 250e-6, "{point:?}");
        assert_eq!(of(&point, "miss_p50"), None);
        assert_eq!(point.gauges, [("http agd.p".to_owned(), 0.5)]);
        let restarted = Reading::new(&status(20, 2, [0, 0, 0]), 20.0);
        let point = restarted.since(&after, 8);
        assert_eq!(of(&point, "requests"), Some(4.0));
    }

    /// Failure: a history of another version shows the figures of others.
    #[test]
    fn a_figure_is_read_by_its_place() {
        let point = Point {
            unix_seconds: 9,
            figures: [Some(2.5); FIGURES],
            gauges: vec![("http p".to_owned(), 1.0)],
        };
        let known: Vec<String> = names().map(str::to_owned).collect();
        assert_eq!(Point::of_json(&point.to_json(), &known), Some(point));
        let read = Point::of_json(
            &json!([9, 1.5, 3, {}]),
            &["gone".to_owned(), "hits".to_owned()],
        )
        .unwrap();
        assert_eq!(
            (of(&read, "hits"), of(&read, "requests")),
            (Some(3.0), None)
        );
        assert_eq!(Point::of_json(&json!([9, 1.5, {}]), &known), None);
        assert_eq!(rounded(1234567.0), 1234570.0);
    }
}
