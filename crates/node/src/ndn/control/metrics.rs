//! The metrics of the NDN side: one table for the pages of Prometheus and for the status page.

use crate::ndn::Snapshot;
use larder_admin::Metrics;
use larder_forwarder::{FaceCounters, PrefixFigures};
use serde_json::{Value, json};

/// The labels of [`Snapshot::udp_peers`].
pub(crate) const UDP_STANDINGS: [&str; 3] = ["new", "known", "proven"];

/// The key of a metric that the status page shows in another form, or not.
const NOT_SHOWN: &str = "";

/// The numbers with a label each.
type Labelled<T> = Vec<(String, T)>;

/// How a metric gets its value from a snapshot.
enum Source {
    Counter(fn(&Snapshot) -> u64),
    Gauge(fn(&Snapshot) -> u64),
    Counters(fn(&Snapshot) -> Labelled<u64>),
    Gauges(fn(&Snapshot) -> Labelled<f64>),
}

/// A row of the table.
pub(crate) struct Metric {
    name: &'static str,
    /// The key of the status page, or the label of a metric with several values.
    key: &'static str,
    help: &'static str,
    source: Source,
}

impl Metric {
    /// Adds the metric to the page of Prometheus.
    pub(crate) fn write(&self, snapshot: &Snapshot, metrics: &mut Metrics<'_, '_>) {
        let Metric {
            name,
            key,
            help,
            source,
        } = self;
        match source {
            Source::Counter(of) => metrics.counter(name, help, of(snapshot)),
            Source::Gauge(of) => metrics.gauge(name, help, of(snapshot) as f64),
            Source::Counters(of) => {
                let values = of(snapshot);
                let values = values.iter().map(|(label, value)| (label.as_str(), *value));
                metrics.counters(name, help, key, values);
            }
            Source::Gauges(of) => {
                let values = of(snapshot);
                let values = values.iter().map(|(label, value)| (label.as_str(), *value));
                metrics.gauges(name, help, key, values);
            }
        }
    }

    /// Enters the metric into an object of the status page, if it is one number.
    pub(crate) fn enter(&self, snapshot: &Snapshot, object: &mut Value) {
        match self.source {
            Source::Counter(of) | Source::Gauge(of) if self.key != NOT_SHOWN => {
                object[self.key] = json!(of(snapshot));
            }
            _ => {}
        }
    }
}

const fn counter(
    name: &'static str,
    key: &'static str,
    help: &'static str,
    of: fn(&Snapshot) -> u64,
) -> Metric {
    let source = Source::Counter(of);
    Metric {
        name,
        key,
        help,
        source,
    }
}

const fn gauge(
    name: &'static str,
    key: &'static str,
    help: &'static str,
    of: fn(&Snapshot) -> u64,
) -> Metric {
    let source = Source::Gauge(of);
    Metric {
        name,
        key,
        help,
        source,
    }
}

const fn counters(
    name: &'static str,
    key: &'static str,
    help: &'static str,
    of: fn(&Snapshot) -> Labelled<u64>,
) -> Metric {
    let source = Source::Counters(of);
    Metric {
        name,
        key,
        help,
        source,
    }
}

const fn gauges(
    name: &'static str,
    key: &'static str,
    help: &'static str,
    of: fn(&Snapshot) -> Labelled<f64>,
) -> Metric {
    let source = Source::Gauges(of);
    Metric {
        name,
        key,
        help,
        source,
    }
}

/// The metrics of the Content Store: name, key in `content_store` of the status page or label,
/// meaning, value.
#[rustfmt::skip]
pub(crate) static CONTENT_STORE: &[Metric] = &[
    counter("larder_ndn_content_store_hits", "hits", "Interests answered by the Content Store", |now| now.stats.content_store.hits),
    counter("larder_ndn_content_store_misses", "misses", "Content Store lookups that missed", |now| now.stats.content_store.misses),
    counter("larder_ndn_content_store_insertions", "insertions", "Data stored", |now| now.stats.content_store.insertions),
    counter("larder_ndn_content_store_rejections", "rejections", "Data that the policy did not want", |now| now.stats.content_store.rejections),
    counters("larder_ndn_content_store_distrusted", "reason", "Data that the policy wanted, not stored as it did not verify, or there was no time to", distrusted),
    counters("larder_ndn_prefix_hits", "prefix", "Interests answered by the Content Store, by prefix", |now| by_prefix(now, |of| of.hits)),
    counters("larder_ndn_prefix_misses", "prefix", "Content Store lookups that missed, by prefix", |now| by_prefix(now, |of| of.misses)),
    counter("larder_ndn_content_store_evictions", "evictions", "Data that made room for others", |now| now.stats.content_store.evictions),
    gauge("larder_ndn_content_store_bytes", "used_bytes", "Bytes stored", |now| now.stats.content_store_bytes),
    gauge("larder_ndn_content_store_capacity_bytes", "capacity_bytes", "Bytes that may be stored", |now| now.stats.content_store_capacity_bytes),
    gauge("larder_ndn_content_store_entries", "entries", "Data stored now", |now| now.stats.content_store_entries as u64),
];

/// The other metrics: name, key of the status page or label, meaning, value.
#[rustfmt::skip]
pub(crate) static FORWARDER: &[Metric] = &[
    gauges("larder_ndn_policy", "figure", "What the Content Store's policy reports of itself", policy),
    gauge("larder_ndn_pit_entries", "pit_entries", "Interests pending", |now| now.stats.pit_entries as u64),
    gauge("larder_ndn_partial_input_bytes", "partial_input_bytes", "Bytes of incomplete packets", |now| now.partial_bytes as u64),
    gauge("larder_ndn_fib_entries", "fib_entries", "Prefixes with next hops", |now| now.stats.fib_entries as u64),
    gauge("larder_ndn_rib_routes", "rib_routes", "Routes", |now| now.stats.rib_routes as u64),
    gauges("larder_ndn_readvertised_prefixes", "state", "Prefixes of applications for the routing daemon, and those that it has accepted", readvertised),
    gauges("larder_ndn_udp_peers", "standing", "UDP peers that were heard first", udp_peers),
    gauge("larder_ndn_faces", NOT_SHOWN, "Faces", |now| now.stats.faces as u64),
    gauge("larder_ndn_shared_memory_faces", NOT_SHOWN, "Faces that use shared memory", |now| now.shared_faces.len() as u64),
    counter("larder_ndn_marked_packets", "marked_packets", "Packets that were marked as congested (NDNLPv2): a send queue was long, or that of the UDP socket", |now| now.marked),
    gauge("larder_ndn_send_queue_bytes", "queued_bytes", "Bytes that wait to be sent, on all faces", queued_bytes),
    counter("larder_ndn_loop_turns", "loop_turns", "Turns of the event loops; many more than packets mean a loop that waits for nothing", |now| now.turns),
    counter("larder_ndn_polls", "polls", "Times that the event loop polled shared memory before it slept", |now| now.polls),
    counter("larder_ndn_satisfied_interests", "satisfied_interests", "Interests that Data answered", |now| now.stats.satisfied),
    counter("larder_ndn_unsatisfied_interests", "unsatisfied_interests", "Interests that nobody answered", |now| now.stats.unsatisfied),
    counters("larder_ndn_packets_received", "kind", "Network-layer packets received", received),
    counters("larder_ndn_packets_sent", "kind", "Network-layer packets sent", sent),
    counter("larder_ndn_received_bytes", NOT_SHOWN, "Bytes received", |now| now.stats.packets.in_bytes),
    counter("larder_ndn_sent_bytes", NOT_SHOWN, "Bytes sent", |now| now.stats.packets.out_bytes),
    counters("larder_ndn_dropped_packets", "reason", "Packets dropped", drops),
];

fn distrusted(now: &Snapshot) -> Labelled<u64> {
    let store = &now.stats.content_store;
    labelled([
        ("untrusted", store.untrusted),
        ("no_time", store.unverified),
    ])
}

fn by_prefix(now: &Snapshot, of: fn(&PrefixFigures) -> u64) -> Labelled<u64> {
    let figures = now.by_prefix.iter();
    figures
        .map(|figures| (figures.name().to_string(), of(figures)))
        .collect()
}

fn policy(now: &Snapshot) -> Labelled<f64> {
    labelled(
        now.gauges
            .iter()
            .map(|(_, gauge)| (gauge.name, gauge.value)),
    )
}

fn readvertised(now: &Snapshot) -> Labelled<f64> {
    labelled([
        ("wanted", now.stats.prefixes_to_readvertise as f64),
        ("accepted", now.stats.readvertised_prefixes as f64),
    ])
}

fn udp_peers(now: &Snapshot) -> Labelled<f64> {
    labelled(
        UDP_STANDINGS
            .into_iter()
            .zip(now.udp_peers.map(|count| count as f64)),
    )
}

/// Returns the bytes in all send queues.
fn queued_bytes(now: &Snapshot) -> u64 {
    now.queues.iter().map(|queue| queue.bytes as u64).sum()
}

fn received(now: &Snapshot) -> Labelled<u64> {
    let FaceCounters {
        in_interests,
        in_data,
        in_nacks,
        ..
    } = now.stats.packets;
    labelled([
        ("interest", in_interests),
        ("data", in_data),
        ("nack", in_nacks),
    ])
}

fn sent(now: &Snapshot) -> Labelled<u64> {
    let FaceCounters {
        out_interests,
        out_data,
        out_nacks,
        ..
    } = now.stats.packets;
    labelled([
        ("interest", out_interests),
        ("data", out_data),
        ("nack", out_nacks),
    ])
}

fn drops(now: &Snapshot) -> Labelled<u64> {
    labelled(
        now.stats
            .drops
            .iter()
            .map(|(reason, count)| (reason.label(), count)),
    )
}

fn labelled<T>(values: impl IntoIterator<Item = (&'static str, T)>) -> Labelled<T> {
    values
        .into_iter()
        .map(|(label, value)| (label.to_owned(), value))
        .collect()
}
