//! The tables of a scenario file.

use super::values::*;
use crate::LinkConfig;
use crate::link::{CoDel, Loss, Queueing, Red};
use crate::tcp::Congestion;
use larder_packet::Name;
use larder_policy::Spec;
use larder_transfer::CongestionSpec;
use larder_units::{BitRate, ByteSize};
use serde::Deserialize;
use std::time::Duration;
use toml::Spanned;

pub(super) use crate::topology::FileFormat;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Tables {
    #[serde(deserialize_with = "run_length")]
    pub(super) duration: Duration,
    /// The time from which figures are counted.
    #[serde(default)]
    pub(super) warm_up: Option<Spanned<WarmUp>>,
    /// The configuration of every node, unless a `[[node]]` overrides it.
    #[serde(default)]
    pub(super) nodes: NodeTable,
    pub(super) caching: Option<Spanned<CachingTable>>,
    pub(super) routing: Option<RoutingTable>,
    pub(super) topology: Option<Spanned<TopologyTable>>,
    pub(super) line: Option<Spanned<LineTable>>,
    pub(super) dumbbell: Option<Spanned<DumbbellTable>>,
    pub(super) tree: Option<Spanned<TreeTable>>,
    pub(super) grid: Option<Spanned<GridTable>>,
    pub(super) scale_free: Option<Spanned<ScaleFreeTable>>,
    pub(super) geant_like: Option<Spanned<GeantLikeTable>>,
    #[serde(default)]
    pub(super) node: Vec<OneNodeTable>,
    #[serde(default)]
    pub(super) link: Vec<OneLinkTable>,
    #[serde(default)]
    pub(super) route: Vec<RouteTable>,
    #[serde(default)]
    pub(super) producer: Vec<ProducerTable>,
    #[serde(default)]
    pub(super) file: Vec<FileTable>,
    #[serde(default)]
    pub(super) cbr: Vec<CbrTable>,
    #[serde(default)]
    pub(super) fetch: Vec<FetchTable>,
    #[serde(default)]
    pub(super) window: Vec<WindowTable>,
    #[serde(default)]
    pub(super) trace: Vec<TraceTable>,
    #[serde(default)]
    pub(super) http_origin: Vec<HttpOriginTable>,
    #[serde(default)]
    pub(super) http_cache: Vec<HttpCacheTable>,
    #[serde(default)]
    pub(super) http_client: Vec<HttpClientTable>,
    #[serde(default)]
    pub(super) http_purge: Vec<Spanned<HttpPurgeTable>>,
    #[serde(default)]
    pub(super) fault: Vec<Spanned<FaultTable>>,
}

/// A time from the start.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct WarmUp(#[serde(deserialize_with = "duration")] pub(super) Duration);

/// `[nodes]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct NodeTable {
    #[serde(deserialize_with = "some")]
    pub(super) policy: Option<Spec>,
    pub(super) content_store: Option<StoreTable>,
    #[serde(deserialize_with = "strategy")]
    pub(super) strategy: Option<Name>,
    #[serde(deserialize_with = "largest")]
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
    #[serde(default, deserialize_with = "strategy")]
    pub(super) strategy: Option<Name>,
}

/// `[caching]`: which nodes have caches, and how Interests find them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CachingTable {
    #[serde(default)]
    pub(super) at: CachesAt,
    /// A capacity that all caches share evenly, in place of `content-store`.
    pub(super) total: Option<StoreTable>,
    #[serde(default)]
    pub(super) routing: CacheRoutingTable,
}

/// Which nodes have caches.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CachesAt {
    #[default]
    Everywhere,
    /// The nodes with consumers.
    Edge,
    /// The nodes without applications.
    Core,
    #[serde(untagged)]
    Nodes(Vec<String>),
}

/// How Interests find caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CacheRoutingTable {
    /// On the path to the producer.
    #[default]
    OnPath,
    /// By a hash of the content's number, at one cache of the network.
    Hash,
}

/// `[routing]`: how routes are computed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RoutingTable {
    /// Next hops of a node towards each producer of a prefix.
    #[serde(default, deserialize_with = "next_hops")]
    pub(super) next_hops: Option<usize>,
    /// The time from a failure or a repair to the new routes. Without it, routes stay.
    #[serde(default, deserialize_with = "some_duration")]
    pub(super) convergence_time: Option<Duration>,
}

/// `[[route]]`: a next hop beside the computed ones.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteTable {
    pub(super) node: Spanned<String>,
    pub(super) prefix: Spanned<String>,
    /// The neighbour that is the next hop.
    pub(super) to: Spanned<String>,
    pub(super) cost: u64,
}

/// The configuration of a link.
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
    /// Whether CoDel and RED mark frames and do not drop them.
    #[serde(default)]
    mark: bool,
    #[serde(default, deserialize_with = "probability")]
    loss: f64,
    bursts: Option<BurstTable>,
    #[serde(default)]
    overhead: u32,
    #[serde(default, deserialize_with = "mtu")]
    mtu: Option<usize>,
    #[serde(default)]
    reliable: bool,
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

/// The probabilities of Gilbert and Elliott's model.
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

impl TryFrom<WrittenLink> for LinkTable {
    type Error = &'static str;

    fn try_from(written: WrittenLink) -> Result<Self, Self::Error> {
        let QueueDepth(depth) = written.queue;
        let mark = written.mark;
        if mark && written.discipline == Discipline::DropTail {
            return Err(
                "a drop-tail queue does not mark: set discipline = \"codel\" or \"red\", or leave mark out",
            );
        }
        if written.bursts.is_some() && written.loss > 0.0 {
            return Err(
                "loss and bursts: keep one; good and bad are the losses in each state of bursts",
            );
        }
        if written.reliable && written.mtu.is_none() {
            return Err(
                "reliable without mtu: link reliability repeats frames; set the size of a frame",
            );
        }
        Ok(LinkTable(LinkConfig {
            rate: written.rate,
            delay: written.delay,
            jitter: written.jitter,
            reorders: written.reorders,
            queue: match written.discipline {
                Discipline::DropTail => Queueing::DropTail(depth),
                Discipline::Codel => Queueing::CoDel(CoDel {
                    depth,
                    mark,
                    ..CoDel::default()
                }),
                Discipline::Red => Queueing::Red(Red {
                    depth,
                    mark,
                    ..Red::default()
                }),
            },
            loss: match written.bursts {
                Some(BurstTable {
                    to_bad,
                    to_good,
                    good,
                    bad,
                }) => Loss::GilbertElliott {
                    to_bad,
                    to_good,
                    good,
                    bad,
                },
                None if written.loss > 0.0 => Loss::Uniform(written.loss),
                None => Loss::None,
            },
            overhead_bytes: written.overhead,
            mtu: written.mtu,
            reliable: written.reliable,
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

/// `[topology]`: nodes and links from a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TopologyTable {
    pub(super) file: String,
    pub(super) format: Option<FileFormat>,
    /// The properties of links that the file leaves out.
    pub(super) link: LinkTable,
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

/// `[tree]`: root `t`, its children `t.0` …
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

/// `[geant-like]`: nodes `n0`, `n1`, …, similar to a European backbone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GeantLikeTable {
    #[serde(deserialize_with = "backbone_nodes")]
    pub(super) nodes: usize,
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
    /// Bytes of a whole Data, in place of `payload`.
    #[serde(default, deserialize_with = "some")]
    pub(super) packet: Option<ByteSize>,
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
    /// A node's name, or a pattern with `*` for a consumer at each matching node.
    pub(super) node: Spanned<String>,
    /// A prefix, or a pattern with `*` for the producers' prefixes, over which the contents are
    /// spread.
    pub(super) prefix: Spanned<String>,
    #[serde(deserialize_with = "frequency")]
    pub(super) frequency: f64,
    #[serde(default)]
    pub(super) randomize: RandomizeTable,
    /// A popularity in place of a sequence.
    pub(super) zipf: Option<ZipfTable>,
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) lifetime: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    pub(super) start: Duration,
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) stop: Option<Duration>,
    /// What lowers the frequency.
    #[serde(default, deserialize_with = "some")]
    pub(super) congestion: Option<CongestionSpec>,
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) tick: Option<Duration>,
    /// Whether due Interests also leave when a Data or a Nack arrives.
    pub(super) smoothing: Option<Spanned<bool>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RandomizeTable {
    #[default]
    None,
    Uniform,
    Exponential,
}

/// The parameters of Zipf–Mandelbrot, with ndnSIM's defaults.
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

/// `[[window]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WindowTable {
    pub(super) node: Spanned<String>,
    #[serde(deserialize_with = "parsed")]
    pub(super) prefix: Name,
    #[serde(default, deserialize_with = "some")]
    pub(super) congestion: Option<CongestionSpec>,
    #[serde(default, deserialize_with = "duration")]
    pub(super) start: Duration,
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) tick: Option<Duration>,
    /// Whether due Interests also leave when a Data or a Nack arrives.
    pub(super) smoothing: Option<Spanned<bool>>,
}

/// `[[trace]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TraceTable {
    pub(super) node: Spanned<String>,
    pub(super) prefix: Spanned<String>,
    pub(super) file: Spanned<String>,
    /// Requests per second, in place of the trace's times.
    #[serde(default, deserialize_with = "optional_frequency")]
    pub(super) frequency: Option<f64>,
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) lifetime: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    pub(super) start: Duration,
}

/// `[[http-origin]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct HttpOriginTable {
    pub(super) node: Spanned<String>,
    /// The size of every object.
    #[serde(deserialize_with = "parsed")]
    pub(super) size: ByteSize,
    #[serde(default, deserialize_with = "parsed")]
    pub(super) congestion: Congestion,
    /// The freshness lifetime; by default the longest that HTTP has.
    #[serde(default, deserialize_with = "some_duration")]
    pub(super) max_age: Option<Duration>,
    /// The time between two versions of an object.
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) changes: Option<Duration>,
    #[serde(default = "yes")]
    pub(super) etag: bool,
    /// The variants of each object, selected by `Accept-Language`.
    #[serde(default = "one")]
    pub(super) variants: u64,
    #[serde(default, deserialize_with = "some_duration")]
    pub(super) stale_while_revalidate: Option<Duration>,
    #[serde(default, deserialize_with = "some_duration")]
    pub(super) stale_if_error: Option<Duration>,
}

/// `[[http-cache]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct HttpCacheTable {
    pub(super) node: Spanned<String>,
    /// The node of the upstream cache or origin.
    pub(super) upstream: Spanned<String>,
    #[serde(deserialize_with = "parsed")]
    pub(super) capacity: ByteSize,
    #[serde(default, deserialize_with = "some")]
    pub(super) policy: Option<Spec>,
    #[serde(default = "yes")]
    pub(super) collapse: bool,
    #[serde(default = "yes")]
    pub(super) keep_alive: bool,
    #[serde(default, deserialize_with = "parsed")]
    pub(super) congestion: Congestion,
    /// The longest wait for the head of a response of the upstream.
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) timeout: Option<Duration>,
}

/// `[[http-client]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct HttpClientTable {
    /// A node's name, or a pattern with `*` for a client at each matching node.
    pub(super) node: Spanned<String>,
    /// The node of the cache or origin that serves the client.
    pub(super) server: Spanned<String>,
    /// The number of requests; by default 1 without a frequency, and unlimited with one.
    pub(super) requests: Option<u64>,
    /// Requests per second, independent of the responses.
    pub(super) frequency: Option<Spanned<f64>>,
    #[serde(default)]
    pub(super) randomize: HttpRandomizeTable,
    /// A popularity in place of a sequence.
    pub(super) zipf: Option<ZipfTable>,
    #[serde(default)]
    pub(super) keep_alive: bool,
    /// The number of variants, one of which each request selects by `Accept-Language`.
    #[serde(default = "one")]
    pub(super) variants: u64,
    /// The share of requests that change their object.
    #[serde(default, deserialize_with = "probability")]
    pub(super) writes: f64,
    /// The longest wait for a response.
    #[serde(default, deserialize_with = "optional_duration")]
    pub(super) timeout: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    pub(super) start: Duration,
}

/// `[[http-purge]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct HttpPurgeTable {
    #[serde(deserialize_with = "duration")]
    pub(super) at: Duration,
    /// The node of the cache.
    pub(super) node: Spanned<String>,
    /// The number of the object; all objects without it.
    pub(super) object: Option<u64>,
    #[serde(default)]
    pub(super) soft: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HttpRandomizeTable {
    #[default]
    None,
    Exponential,
}

/// `[[fault]]`: `at`, and one of the other keys.
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

// ---- Errors ----

/// Returns the line, from 1, of a position in the text.
pub(super) fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

/// Returns the message of a TOML error as one line, with the nearest known key for an unknown one.
pub(super) fn explain(error: &toml::de::Error) -> String {
    let message = error.message().lines().collect::<Vec<_>>().join(" ");
    if message.starts_with("invalid type") {
        return format!("{}{}", in_words(&message), unit_or_quotes(&message));
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = quoted.next().filter(|_| message.starts_with("unknown"));
    let near = |unknown: &str| {
        let best =
            quoted.max_by(|a, b| strsim::jaro(a, unknown).total_cmp(&strsim::jaro(b, unknown)))?;
        (strsim::jaro(best, unknown) > 0.7).then(|| format!("; did you mean `{best}`?"))
    };
    format!("{message}{}", unknown.and_then(near).unwrap_or_default())
}

/// What stands for a type of this file in a scenario: the name of the type, and words with an
/// example.
const WORDS: [(&str, &str); 8] = [
    (
        "struct WrittenLink",
        "a table such as { rate = \"10Mbps\", delay = \"5ms\" }",
    ),
    (
        "struct BurstTable",
        "a table such as { to-bad = 0.01, to-good = 0.2 }",
    ),
    ("struct NodeTable", "a table, which begins with [nodes]"),
    (
        "struct CachingTable",
        "a table, which begins with [caching]",
    ),
    (
        "struct RoutingTable",
        "a table, which begins with [routing]",
    ),
    ("a sequence", "an array"),
    ("a map", "a table"),
    ("a boolean", "true or false"),
];

/// Returns a message about a type in words that say what to write.
fn in_words(message: &str) -> String {
    let Some((found, expected)) = message.split_once(", expected ") else {
        return message.to_owned();
    };
    let known = WORDS.iter().find(|(name, _)| *name == expected);
    let words = match known {
        Some((_, words)) => words,
        None if expected.starts_with("struct ") => "a table",
        None if expected.starts_with("enum ") => "a text",
        None => expected,
    };
    format!("{found}, expected {words}")
}

/// Returns what to write in place of a number without its unit, or of a number in quotes.
fn unit_or_quotes(message: &str) -> &'static str {
    let is_text = message.contains("type: string");
    match message.ends_with("expected a string") {
        true => {
            ": write quantities in quotes with their unit, such as \"10ms\", \"40Mbps\" or \"5kB\""
        }
        false if is_text && message.ends_with(|end: char| end.is_ascii_digit()) => {
            ": a count, without quotes or unit"
        }
        false => "",
    }
}
