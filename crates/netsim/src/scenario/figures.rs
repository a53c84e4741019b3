//! The figures of a run: a value for each quantity of each component, over a span of time.

use super::build::Built;
use super::http::{HostKind, PlacedHost};
use super::record::{ConsumerRecord, FetchRecord, NodeRecord, Record};
use crate::apps::{CacheHostCounters, ConsumerCounters};
use crate::tcp::HttpCounters;
use crate::{Channel, ChannelCounters, NodeId, Simulation};

/// One value of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The component: `network`, `cbr c0 /p0`, `fetch c0 /file`, `custodian r1` (a cache of hash
    /// routing), `http-client c0`, `node r1`, `channel r1 r2`. The second one of a kind is
    /// `channel r1 r2 (2)`.
    pub component: String,
    /// The measured quantity, such as `data` or `hit ratio`.
    pub quantity: &'static str,
    /// The unit; empty for counts and ratios.
    pub unit: &'static str,
    /// The value, or NaN if there is none, as for the delay without Data.
    pub value: f64,
}

/// The figures of the span between two records.
pub(super) fn figures(built: &Built, before: &Record, after: &Record) -> Vec<Figure> {
    let network = &built.network;
    let span = after.since(before);
    let seconds = after.at.since(before.at).as_secs_f64();
    let mut all: Vec<Figure> = named("network", of_network(&span)).collect();
    for ((label, _), record) in built.consumers.iter().zip(&span.consumers) {
        let figures = match record {
            ConsumerRecord::Rate(counters) => of_cbr(counters, seconds),
            ConsumerRecord::Fetch(fetch) => of_fetch(fetch, seconds),
        };
        all.extend(named(label, figures));
    }
    for ((label, _), counters) in built.cache_hosts.iter().zip(&span.cache_hosts) {
        all.extend(named(label, of_cache_host(counters)));
    }
    for (placed, counters) in built.hosts.iter().zip(&span.hosts) {
        all.extend(named(
            &placed.label,
            of_host(network, placed, counters, seconds),
        ));
    }
    for (node, record) in network.nodes().zip(&span.nodes) {
        all.extend(named(
            &format!("node {}", network.node_name(node)),
            of_node(network, node, record, after),
        ));
    }
    for ((id, channel), counters) in network.channels().zip(&span.channels) {
        let label = format!("channel {}", network.channel_name(id));
        all.extend(named(&label, of_channel(channel, counters, seconds)));
    }
    all
}

type Value = (&'static str, &'static str, f64);

fn named(component: &str, values: Vec<Value>) -> impl Iterator<Item = Figure> {
    values
        .into_iter()
        .map(move |(quantity, unit, value)| Figure {
            component: component.to_owned(),
            quantity,
            unit,
            value,
        })
}

/// The figures that Icarus reports for a network of caches.
fn of_network(span: &Record) -> Vec<Value> {
    let rates = span.consumers.iter().filter_map(|record| match record {
        ConsumerRecord::Rate(counters) => Some(*counters),
        ConsumerRecord::Fetch(_) => None,
    });
    let (data, delay) = rates.fold((0, 0.0), |(data, delay), one| {
        (data + one.data, delay + one.full_delay)
    });
    let answered = span.consumers.iter().map(ConsumerRecord::data).sum::<u64>() as f64;
    let frames: u64 = span.channels.iter().map(|channel| channel.frames).sum();
    vec![
        ("data", "", answered),
        ("hit ratio", "", hit_ratio(span.produced as f64, answered)),
        ("delay", "ms", delay / data as f64 * 1e3),
        ("frames a data", "", frames as f64 / answered),
    ]
}

/// Returns the share of the answers that no producer made: those of caches, and those for Interests
/// that joined a pending one. More may have been produced than arrived, because answers are on
/// their way or lost: then it is 0.
fn hit_ratio(produced: f64, answered: f64) -> f64 {
    (1.0 - produced / answered).clamp(0.0, 1.0)
}

fn of_cbr(counters: &ConsumerCounters, seconds: f64) -> Vec<Value> {
    let data = counters.data as f64;
    vec![
        ("interests", "", counters.interests as f64),
        ("data", "", data),
        ("answered", "", data / counters.interests as f64),
        ("goodput", "Mbps", mbps(counters.bytes, seconds)),
        ("delay", "ms", counters.full_delay / data * 1e3),
        ("retransmissions", "", counters.retransmissions as f64),
        ("timeouts", "", counters.timeouts as f64),
        ("nacks", "", counters.nacks as f64),
        ("marks", "", counters.marks as f64),
    ]
}

fn of_fetch(fetch: &FetchRecord, seconds: f64) -> Vec<Value> {
    let stats = &fetch.stats;
    // A transfer has a duration of its own, whatever the span.
    let took = fetch.took.map_or(seconds, |took| took.as_secs_f64());
    vec![
        ("interests", "", stats.interests as f64),
        ("data", "", stats.segments as f64),
        ("done", "", f64::from(u8::from(fetch.is_done))),
        ("goodput", "Mbps", mbps(stats.bytes, took)),
        ("time", "s", if fetch.is_done { took } else { f64::NAN }),
        ("retransmissions", "", stats.retransmissions as f64),
        ("timeouts", "", stats.time_outs as f64),
        ("nacks", "", stats.nacks as f64),
        ("marks", "", stats.marks as f64),
    ]
}

fn of_cache_host(counters: &CacheHostCounters) -> Vec<Value> {
    let lookups = counters.hits + counters.misses;
    vec![
        ("interests", "", lookups as f64),
        ("hits", "", counters.hits as f64),
        ("hit ratio", "", counters.hits as f64 / lookups as f64),
        ("evictions", "", counters.evictions as f64),
    ]
}

fn of_host(
    network: &Simulation,
    placed: &PlacedHost,
    counters: &HttpCounters,
    seconds: f64,
) -> Vec<Value> {
    let requests = counters.requests as f64;
    let of_kind = match placed.kind {
        HostKind::Client => vec![
            ("responses", "", counters.responses as f64),
            ("goodput", "Mbps", mbps(counters.bytes, seconds)),
            ("time", "s", counters.seconds / counters.responses as f64),
            ("failures", "", counters.failures as f64),
        ],
        HostKind::Cache => vec![
            ("hits", "", counters.hits as f64),
            ("stale", "", counters.stale as f64),
            ("joined", "", counters.joined as f64),
            ("validated", "", counters.validated as f64),
            // The share without a request of its own to the upstream: stored objects, and objects
            // in flight.
            (
                "hit ratio",
                "",
                (counters.hits + counters.joined) as f64 / requests,
            ),
            ("stored", "", network.http_stored(placed.host).0 as f64),
            ("evictions", "", counters.evictions as f64),
        ],
        HostKind::Origin => Vec::new(),
    };
    let of_all = [
        ("connections", "", counters.connections as f64),
        ("segments", "", counters.tcp.segments as f64),
        ("retransmissions", "", counters.tcp.retransmissions as f64),
        ("timeouts", "", counters.tcp.timeouts as f64),
    ];
    let requests = std::iter::once(("requests", "", requests));
    // An origin opens no connections.
    let of_all = of_all
        .into_iter()
        .skip(usize::from(placed.kind == HostKind::Origin));
    requests.chain(of_kind).chain(of_all).collect()
}

fn of_node(network: &Simulation, node: NodeId, record: &NodeRecord, after: &Record) -> Vec<Value> {
    let forwarder = network.forwarder(node);
    let store = &record.content_store;
    let stats = forwarder.stats();
    let evicted = store.evicted_ages.as_secs_f64();
    let ages: f64 = forwarder
        .ages_of_stored(after.at)
        .map(|age| age.as_secs_f64())
        .sum();
    let stored = stats.content_store_entries as f64;
    vec![
        ("interests", "", record.interests as f64),
        ("hits", "", store.hits as f64),
        // The share of all Interests, including those that joined a pending one, as in ndnSIM's
        // CsTracer. NFD divides by its lookups.
        ("hit ratio", "", store.hits as f64 / record.interests as f64),
        (
            "hit ratio of lookups",
            "",
            store.hits as f64 / (store.hits + store.misses) as f64,
        ),
        ("stored", "", stored),
        ("evictions", "", store.evictions as f64),
        ("lifetime of evicted", "s", evicted / store.evictions as f64),
        (
            "lifetime with survivors",
            "s",
            (evicted + ages) / (store.evictions as f64 + stored),
        ),
        ("pending", "", stats.pit_entries as f64),
        ("unsatisfied", "", record.unsatisfied as f64),
        ("drops", "", record.drops as f64),
        ("missed", "", record.missed as f64),
    ]
}

fn of_channel(channel: &Channel, counters: &ChannelCounters, seconds: f64) -> Vec<Value> {
    let rate = channel
        .config()
        .rate
        .map_or(f64::NAN, |rate| rate.bits_per_second() as f64 / 1e6);
    let used = mbps(counters.bytes, seconds);
    vec![
        ("frames", "", counters.frames as f64),
        ("rate", "Mbps", used),
        ("utilisation", "", used / rate),
        ("dropped", "", counters.dropped as f64),
        ("marked", "", counters.marked as f64),
        ("lost", "", counters.lost as f64),
    ]
}

pub(super) fn mbps(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 8.0 / 1e6 / seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_hits_than_answers_or_fewer_than_none() {
        assert_eq!(hit_ratio(25.0, 100.0), 0.75);
        assert_eq!(hit_ratio(2995.0, 2990.0), 0.0);
        assert!(hit_ratio(0.0, 0.0).is_nan());
    }
}
