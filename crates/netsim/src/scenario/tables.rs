//! The tables of a scenario file, as they are written.

use crate::loss::Loss;
use crate::queue::{CoDel, Depth, Queueing, Red};
use crate::{Capacity, LinkConfig, limits};
use larder_packet::Name;
use larder_policy::Spec;
use larder_transfer::CongestionSpec;
use larder_units::{BitRate, ByteSize, Ratio, parse_duration};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;
use toml::Spanned;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Tables {
    #[serde(deserialize_with = "duration")]
    pub(super) duration: Duration,
    /// What every node is like, where `[[node]]` does not say otherwise.
    #[serde(default)]
    pub(super) nodes: NodeTable,
    pub(super) line: Option<LineTable>,
    pub(super) dumbbell: Option<DumbbellTable>,
    pub(super) tree: Option<TreeTable>,
    pub(super) grid: Option<GridTable>,
    pub(super) scale_free: Option<ScaleFreeTable>,
    #[serde(default)]
    pub(super) node: Vec<OneNodeTable>,
    #[serde(default)]
    pub(super) link: Vec<OneLinkTable>,
    #[serde(default)]
    pub(super) producer: Vec<ProducerTable>,
    #[serde(default)]
    pub(super) file: Vec<FileTable>,
    #[serde(default)]
    pub(super) cbr: Vec<CbrTable>,
    #[serde(default)]
    pub(super) fetch: Vec<FetchTable>,
    #[serde(default)]
    pub(super) fault: Vec<Spanned<FaultTable>>,
}

/// `[nodes]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct NodeTable {
    #[serde(deserialize_with = "some")]
    pub(super) policy: Option<Spec>,
    pub(super) content_store: Option<StoreTable>,
    #[serde(deserialize_with = "some")]
    pub(super) strategy: Option<Name>,
    #[serde(deserialize_with = "some")]
    pub(super) largest_packet: Option<ByteSize>,
}

/// `[[node]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct OneNodeTable {
    pub(super) name: Spanned<String>,
    #[serde(default, deserialize_with = "some")]
    pub(super) policy: Option<Spec>,
    pub(super) content_store: Option<StoreTable>,
    #[serde(default, deserialize_with = "some")]
    pub(super) strategy: Option<Name>,
}

/// A Content Store's capacity: `"64MiB"` or `"1000 packets"`.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreTable(pub(super) Capacity);

/// What a link is like.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "WrittenLink")]
pub(super) struct LinkTable(pub(super) LinkConfig);

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenLink {
    #[serde(default, deserialize_with = "rate")]
    rate: Option<BitRate>,
    #[serde(default, deserialize_with = "duration")]
    delay: Duration,
    #[serde(default, deserialize_with = "duration")]
    jitter: Duration,
    #[serde(default)]
    reorders: bool,
    #[serde(default)]
    queue: QueueDepth,
    #[serde(default)]
    discipline: Discipline,
    /// CoDel and RED mark in place of dropping.
    #[serde(default)]
    mark: bool,
    #[serde(default, deserialize_with = "probability")]
    loss: f64,
    bursts: Option<BurstTable>,
    #[serde(default)]
    overhead: u32,
    #[serde(default, deserialize_with = "mtu")]
    mtu: Option<usize>,
    #[serde(default = "one")]
    metric: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Discipline {
    #[default]
    DropTail,
    Codel,
    Red,
}

/// Gilbert–Elliott's probabilities.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct BurstTable {
    #[serde(deserialize_with = "probability")]
    to_bad: f64,
    #[serde(deserialize_with = "probability")]
    to_good: f64,
    #[serde(default, deserialize_with = "probability")]
    good: f64,
    #[serde(default = "certain", deserialize_with = "probability")]
    bad: f64,
}

#[derive(Clone, Copy, Debug)]
struct QueueDepth(Depth);

impl TryFrom<WrittenLink> for LinkTable {
    type Error = &'static str;

    fn try_from(written: WrittenLink) -> Result<Self, Self::Error> {
        let QueueDepth(depth) = written.queue;
        let mark = written.mark;
        if mark && written.discipline == Discipline::DropTail {
            return Err("a drop-tail queue does not mark: state discipline = \"codel\" or \"red\", or leave mark out");
        }
        if written.bursts.is_some() && written.loss > 0.0 {
            return Err("loss and bursts: keep one; good and bad are what bursts lose in each state");
        }
        Ok(LinkTable(LinkConfig {
            rate: written.rate,
            delay: written.delay,
            jitter: written.jitter,
            reorders: written.reorders,
            queue: match written.discipline {
                Discipline::DropTail => Queueing::DropTail(depth),
                Discipline::Codel => Queueing::CoDel(CoDel { depth, mark, ..CoDel::default() }),
                Discipline::Red => Queueing::Red(Red { depth, mark, ..Red::default() }),
            },
            loss: match written.bursts {
                Some(BurstTable { to_bad, to_good, good, bad }) => Loss::GilbertElliott { to_bad, to_good, good, bad },
                None if written.loss > 0.0 => Loss::Uniform(written.loss),
                None => Loss::None,
            },
            overhead_bytes: written.overhead,
            mtu: written.mtu,
            metric: written.metric,
        }))
    }
}

/// `[[link]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OneLinkTable {
    pub(super) ends: Spanned<[String; 2]>,
    pub(super) like: LinkTable,
}

/// `[line]`: nodes `n0`, `n1`, …
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LineTable {
    #[serde(deserialize_with = "count")]
    pub(super) nodes: usize,
    pub(super) link: LinkTable,
}

/// `[dumbbell]`: consumers `c0` …, routers `r1` and `r2`, producers `p0` …
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DumbbellTable {
    #[serde(deserialize_with = "count")]
    pub(super) pairs: usize,
    pub(super) edge: LinkTable,
    pub(super) backbone: LinkTable,
}

/// `[tree]`: root `t0`, its children `t0.0` …
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TreeTable {
    #[serde(deserialize_with = "count")]
    pub(super) children: usize,
    #[serde(deserialize_with = "levels")]
    pub(super) levels: usize,
    pub(super) link: LinkTable,
}

/// `[grid]`: nodes `g0.0` to `gY.X`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GridTable {
    #[serde(deserialize_with = "count")]
    pub(super) width: usize,
    #[serde(deserialize_with = "count")]
    pub(super) height: usize,
    pub(super) link: LinkTable,
}

/// `[scale-free]`: nodes `n0`, `n1`, …, each linked to `links` earlier ones.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScaleFreeTable {
    #[serde(deserialize_with = "count")]
    pub(super) nodes: usize,
    #[serde(deserialize_with = "count")]
    pub(super) links: usize,
    pub(super) link: LinkTable,
}

/// `[[producer]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProducerTable {
    pub(super) node: Spanned<String>,
    #[serde(deserialize_with = "parsed")]
    pub(super) prefix: Name,
    /// Bytes of content.
    #[serde(default, deserialize_with = "some")]
    pub(super) payload: Option<ByteSize>,
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) freshness: Option<Duration>,
}

/// `[[file]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileTable {
    pub(super) node: Spanned<String>,
    #[serde(deserialize_with = "parsed")]
    pub(super) name: Name,
    #[serde(deserialize_with = "parsed")]
    pub(super) size: ByteSize,
    /// Bytes of content of each segment.
    #[serde(default, deserialize_with = "some")]
    pub(super) segment: Option<ByteSize>,
}

/// `[[cbr]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CbrTable {
    pub(super) node: Spanned<String>,
    #[serde(deserialize_with = "parsed")]
    pub(super) prefix: Name,
    #[serde(deserialize_with = "frequency")]
    pub(super) frequency: f64,
    #[serde(default)]
    pub(super) randomize: RandomizeTable,
    /// Popularity in place of a sequence.
    pub(super) zipf: Option<ZipfTable>,
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) lifetime: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    pub(super) start: Duration,
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) stop: Option<Duration>,
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) tick: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RandomizeTable {
    #[default]
    None,
    Uniform,
    Exponential,
}

/// Zipf–Mandelbrot's parameters; ndnSIM's defaults.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ZipfTable {
    #[serde(deserialize_with = "count")]
    pub(super) contents: usize,
    #[serde(default = "zipf_default", deserialize_with = "non_negative")]
    pub(super) q: f64,
    #[serde(default = "zipf_default", deserialize_with = "non_negative")]
    pub(super) s: f64,
}

/// `[[fetch]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FetchTable {
    pub(super) node: Spanned<String>,
    #[serde(deserialize_with = "parsed")]
    pub(super) name: Name,
    #[serde(default, deserialize_with = "some")]
    pub(super) congestion: Option<CongestionSpec>,
    #[serde(default, deserialize_with = "duration")]
    pub(super) start: Duration,
}

/// `[[fault]]`: `at`, and one of the others.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultTable {
    #[serde(deserialize_with = "duration")]
    pub(super) at: Duration,
    pub(super) cut: Option<[String; 2]>,
    pub(super) heal: Option<[String; 2]>,
    pub(super) crash: Option<String>,
    pub(super) restart: Option<String>,
}

// ---- Values ----

impl<'de> Deserialize<'de> for StoreTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match packets(&text) {
            Some(count) => count.map(Capacity::Packets),
            None => text.parse().map(Capacity::Bytes).map_err(|error| error.to_string()),
        }
        .map(StoreTable)
        .map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for QueueDepth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match packets(&text) {
            Some(count) => count.map(|count| Depth::Packets(count as usize)),
            None => text.parse::<ByteSize>().map(|size| Depth::Bytes(size.bytes())).map_err(|error| error.to_string()),
        }
        .map(QueueDepth)
        .map_err(D::Error::custom)
    }
}

impl Default for QueueDepth {
    fn default() -> Self {
        QueueDepth(Depth::Packets(100))
    }
}

/// The number of `"1000 packets"`; `None` where it is no such text.
fn packets(text: &str) -> Option<Result<u64, String>> {
    let number = text.trim().strip_suffix("packets").or_else(|| text.trim().strip_suffix("packet"))?;
    Some(number.trim().parse().map_err(|_| format!("{text:?} is not a number of packets such as \"1000 packets\"")))
}

fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn some<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<Option<T>, D::Error> {
    parsed(deserializer).map(Some)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

fn optional_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let found = duration(deserializer)?;
    match found.is_zero() {
        true => Err(D::Error::custom("a duration of 0: leave the key out")),
        false => Ok(Some(found)),
    }
}

fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BitRate>, D::Error> {
    let rate: BitRate = parsed(deserializer)?;
    match rate.bits_per_second() {
        0 => Err(D::Error::custom(
            "a rate of 0: leave the key out for a link that sends in no time, or cut it by a [[fault]]",
        )),
        _ => Ok(Some(rate)),
    }
}

fn mtu<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let bytes = usize::deserialize(deserializer)?;
    match bytes < limits::LEAST_MTU {
        true => Err(D::Error::custom(format!("an MTU of {bytes}: the least is {} bytes", limits::LEAST_MTU))),
        false => Ok(Some(bytes)),
    }
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    up_to(limits::NODES, deserializer)
}

fn levels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    up_to(limits::TREE_LEVELS, deserializer)
}

fn up_to<'de, D: Deserializer<'de>>(most: usize, deserializer: D) -> Result<usize, D::Error> {
    let found = usize::deserialize(deserializer)?;
    match (1..=most).contains(&found) {
        true => Ok(found),
        false => Err(D::Error::custom(format!("{found}: expected 1 to {most}"))),
    }
}

fn frequency<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let found = f64::deserialize(deserializer)?;
    match found > 0.0 && found <= limits::FREQUENCY {
        true => Ok(found),
        false => Err(D::Error::custom(format!(
            "{found} Interests a second: expected more than 0, {:e} at most",
            limits::FREQUENCY
        ))),
    }
}

fn non_negative<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let found = f64::deserialize(deserializer)?;
    match (0.0..=100.0).contains(&found) {
        true => Ok(found),
        false => Err(D::Error::custom(format!("{found}: expected 0 to 100"))),
    }
}

/// `"2%"` or `0.02`.
fn probability<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
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
    match (0.0..=1.0).contains(&found) {
        true => Ok(found),
        false => Err(D::Error::custom(format!("{found} is no probability: expected 0 to 1, or \"2%\""))),
    }
}

fn one() -> u64 {
    1
}

fn certain() -> f64 {
    1.0
}

fn zipf_default() -> f64 {
    0.7
}

// ---- Errors ----

/// The line, from 1, of a place in the text.
pub(super) fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// One line out of a TOML error: place, message, and for an unknown key the nearest known one.
pub(super) fn explain(error: &toml::de::Error, text: &str, source: &str) -> String {
    let place = error.span().map_or(source.to_owned(), |span| format!("{source}:{}", line(text, span.start)));
    let message = error.message().lines().collect::<Vec<_>>().join(" ");
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = quoted.next().filter(|_| message.starts_with("unknown"));
    let near = |unknown: &str| {
        let best = quoted.max_by(|a, b| strsim::jaro(a, unknown).total_cmp(&strsim::jaro(b, unknown)))?;
        (strsim::jaro(best, unknown) > 0.7).then(|| format!("; did you mean `{best}`?"))
    };
    format!("{place}: {message}{}", unknown.and_then(near).unwrap_or_default())
}
