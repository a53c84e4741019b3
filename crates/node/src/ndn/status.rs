//! The figures of the NDN side for the admin server.

use super::{Handle, QueueFigures, Snapshot, StrategyFigures};
use larder_admin::CaptureLines;
use larder_admin::{Metrics, StatusSource};
use larder_forwarder::{
    CAPTURE, CHILD_INHERIT, FaceCounters, FaceId, FaceStats, PrefixFigures, Route, Scope, Stats,
    TierCounters,
};
use larder_packet::Name;
use larder_tier_host as disk;
use larder_units::Ratio;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The labels of [`Snapshot::udp_peers`].
const UDP_STANDINGS: [&str; 3] = ["new", "known", "proven"];

impl StatusSource for Handle {
    fn name(&self) -> &'static str {
        "ndn"
    }

    fn status(&self) -> Value {
        self.snapshot()
            .map_or_else(unavailable, |snapshot| self.state(&snapshot))
    }

    fn console(&self) -> (Value, Value) {
        let Some(snapshot) = self.snapshot() else {
            return (unavailable(), Value::Null);
        };
        let more = json!({
            "strategies": snapshot.strategies.iter().map(strategy).collect::<Vec<_>>(),
            "routes": snapshot.routes.iter().map(|of| route(of, &snapshot)).collect::<Vec<_>>(),
        });
        (self.state(&snapshot), more)
    }

    fn capture(&self, share: f64) -> Option<CaptureLines> {
        self.what_if.capture(share)
    }

    fn end_captures(&self) {
        self.what_if.end_captures();
    }

    fn metrics(&self, metrics: &mut Metrics<'_, '_>) {
        self.what_if.metrics("larder_ndn_whatif", metrics);
        let Some(snapshot) = self.snapshot() else {
            return;
        };
        let queued_bytes = queued_bytes(&snapshot) as f64;
        let Snapshot {
            stats,
            gauges,
            by_prefix,
            partial_bytes,
            udp_peers,
            shared_faces,
            marked,
            turns,
            polls,
            ..
        } = snapshot;
        let store = &stats.content_store;
        metrics.counter(
            "larder_ndn_content_store_hits",
            "Interests answered by the Content Store",
            store.hits,
        );
        metrics.counter(
            "larder_ndn_content_store_misses",
            "Content Store lookups that missed",
            store.misses,
        );
        metrics.counter(
            "larder_ndn_content_store_insertions",
            "Data stored",
            store.insertions,
        );
        metrics.counter(
            "larder_ndn_content_store_rejections",
            "Data that the policy did not want",
            store.rejections,
        );
        let distrusted = [
            ("untrusted", store.untrusted),
            ("no_time", store.unverified),
        ];
        let help =
            "Data that the policy wanted, not stored as it did not verify, or there was no time to";
        metrics.counters(
            "larder_ndn_content_store_distrusted",
            help,
            "reason",
            distrusted.into_iter(),
        );
        let names: Vec<String> = by_prefix
            .iter()
            .map(|figures| figures.name().to_string())
            .collect();
        let of = |count: fn(&PrefixFigures) -> u64| {
            names
                .iter()
                .map(String::as_str)
                .zip(by_prefix.iter().map(count))
        };
        let (hits, misses) = (of(|figures| figures.hits), of(|figures| figures.misses));
        metrics.counters(
            "larder_ndn_prefix_hits",
            "Interests answered by the Content Store, by prefix",
            "prefix",
            hits,
        );
        metrics.counters(
            "larder_ndn_prefix_misses",
            "Content Store lookups that missed, by prefix",
            "prefix",
            misses,
        );
        metrics.counter(
            "larder_ndn_content_store_evictions",
            "Data that made room for others",
            store.evictions,
        );
        metrics.gauge(
            "larder_ndn_content_store_bytes",
            "Bytes stored",
            stats.content_store_bytes as f64,
        );
        let capacity = stats.content_store_capacity_bytes as f64;
        metrics.gauge(
            "larder_ndn_content_store_capacity_bytes",
            "Bytes that may be stored",
            capacity,
        );
        metrics.gauge(
            "larder_ndn_content_store_entries",
            "Data stored now",
            stats.content_store_entries as f64,
        );
        if let Some(disk) = &self.disk {
            disk_metrics(metrics, &stats.tier);
            disk::metrics("larder_ndn_disk", "Data", metrics, &disk.figures());
        }
        let figures = gauges.iter().map(|(_, gauge)| (gauge.name, gauge.value));
        metrics.gauges(
            "larder_ndn_policy",
            "What the Content Store's policy reports of itself",
            "figure",
            figures,
        );
        metrics.gauge(
            "larder_ndn_pit_entries",
            "Interests pending",
            stats.pit_entries as f64,
        );
        metrics.gauge(
            "larder_ndn_partial_input_bytes",
            "Bytes of incomplete packets",
            partial_bytes as f64,
        );
        route_metrics(metrics, &stats);
        let udp_peers = UDP_STANDINGS
            .into_iter()
            .zip(udp_peers.map(|count| count as f64));
        metrics.gauges(
            "larder_ndn_udp_peers",
            "UDP peers that were heard first",
            "standing",
            udp_peers,
        );
        metrics.gauge("larder_ndn_faces", "Faces", stats.faces as f64);
        let help = "Faces that use shared memory";
        metrics.gauge(
            "larder_ndn_shared_memory_faces",
            help,
            shared_faces.len() as f64,
        );
        let help = "Packets that were marked as congested (NDNLPv2): a send queue was long, or that of the UDP socket";
        metrics.counter("larder_ndn_marked_packets", help, marked);
        metrics.gauge(
            "larder_ndn_send_queue_bytes",
            "Bytes that wait to be sent, on all faces",
            queued_bytes,
        );
        loop_metrics(metrics, turns, polls);
        metrics.counter(
            "larder_ndn_satisfied_interests",
            "Interests that Data answered",
            stats.satisfied,
        );
        metrics.counter(
            "larder_ndn_unsatisfied_interests",
            "Interests that nobody answered",
            stats.unsatisfied,
        );
        let FaceCounters {
            in_interests,
            in_data,
            in_nacks,
            in_bytes,
            out_interests,
            out_data,
            out_nacks,
            out_bytes,
            ..
        } = stats.packets;
        let received = [
            ("interest", in_interests),
            ("data", in_data),
            ("nack", in_nacks),
        ];
        metrics.counters(
            "larder_ndn_packets_received",
            "Network-layer packets received",
            "kind",
            received.into_iter(),
        );
        let sent = [
            ("interest", out_interests),
            ("data", out_data),
            ("nack", out_nacks),
        ];
        metrics.counters(
            "larder_ndn_packets_sent",
            "Network-layer packets sent",
            "kind",
            sent.into_iter(),
        );
        metrics.counter("larder_ndn_received_bytes", "Bytes received", in_bytes);
        metrics.counter("larder_ndn_sent_bytes", "Bytes sent", out_bytes);
        let drops = stats
            .drops
            .iter()
            .map(|(reason, count)| (reason.label(), count));
        metrics.counters(
            "larder_ndn_dropped_packets",
            "Packets dropped",
            "reason",
            drops,
        );
    }
}

impl Handle {
    /// Returns the state for the status page.
    fn state(&self, snapshot: &Snapshot) -> Value {
        let Snapshot {
            stats,
            faces,
            policy,
            gauges,
            by_prefix,
            partial_bytes,
            udp_peers,
            marked,
            turns,
            polls,
            ..
        } = snapshot;
        let shared: HashSet<FaceId> = snapshot.shared_faces.iter().copied().collect();
        let queues: HashMap<FaceId, QueueFigures> = snapshot
            .queues
            .iter()
            .map(|queue| (queue.face, *queue))
            .collect();
        let store = &stats.content_store;
        let figures: Map<String, Value> = gauges
            .iter()
            .map(|(stage, gauge)| (format!("{stage}.{}", gauge.name), json!(gauge.value)))
            .collect();
        json!({
            "content_store": {
                "policy": { "spec": policy, "figures": figures },
                "capacity_bytes": stats.content_store_capacity_bytes,
                "used_bytes": stats.content_store_bytes,
                "entries": stats.content_store_entries,
                "hits": store.hits,
                "misses": store.misses,
                "hit_ratio": Ratio::of(store.hits, store.hits + store.misses).value(),
                "insertions": store.insertions,
                "rejections": store.rejections,
                "untrusted": store.untrusted,
                "unverified": store.unverified,
                "evictions": store.evictions,
                "by_prefix": by_prefix.iter().map(prefix).collect::<Vec<_>>(),
                "disk": self.disk.as_ref().map(|disk| disk_status(&stats.tier, disk::status(&disk.figures()))),
            },
            "what_if": self.what_if.status(),
            "partial_input_bytes": partial_bytes,
            "udp_peers": UDP_STANDINGS.iter().zip(udp_peers).map(|(name, count)| (*name, *count)).collect::<BTreeMap<_, _>>(),
            "pit_entries": stats.pit_entries,
            "fib_entries": stats.fib_entries,
            "rib_routes": stats.rib_routes,
            "readvertised_prefixes": { "wanted": stats.prefixes_to_readvertise, "accepted": stats.readvertised_prefixes },
            "satisfied_interests": stats.satisfied,
            "unsatisfied_interests": stats.unsatisfied,
            "packets": counters(&stats.packets),
            "drops": stats.drops.iter().map(|(reason, count)| (reason.label().to_owned(), json!(count))).collect::<Map<_, _>>(),
            "marked_packets": marked,
            "loop_turns": turns,
            "polls": polls,
            "queued_bytes": queued_bytes(snapshot),
            "faces": faces.iter().map(|of| face(of, &shared, queues.get(&of.id))).collect::<Vec<_>>(),
        })
    }
}

fn unavailable() -> Value {
    json!({ "error": "the NDN thread does not answer" })
}

fn route_metrics(metrics: &mut Metrics<'_, '_>, stats: &Stats) {
    metrics.gauge(
        "larder_ndn_fib_entries",
        "Prefixes with next hops",
        stats.fib_entries as f64,
    );
    metrics.gauge("larder_ndn_rib_routes", "Routes", stats.rib_routes as f64);
    let readvertised = [
        ("wanted", stats.prefixes_to_readvertise),
        ("accepted", stats.readvertised_prefixes),
    ];
    let help = "Prefixes of applications for the routing daemon, and those that it has accepted";
    let readvertised = readvertised
        .into_iter()
        .map(|(state, count)| (state, count as f64));
    metrics.gauges(
        "larder_ndn_readvertised_prefixes",
        help,
        "state",
        readvertised,
    );
}

/// Returns the bytes in all send queues.
fn queued_bytes(snapshot: &Snapshot) -> u64 {
    snapshot.queues.iter().map(|queue| queue.bytes as u64).sum()
}

fn strategy(of: &StrategyFigures) -> Value {
    let figure = |(face, name, value): &(FaceId, &str, f64)| json!({ "face": face.0, "name": name, "value": value });
    json!({
        "prefix": of.prefix.to_string(),
        "strategy": of.strategy,
        "measurements": of.measurements.iter().map(figure).collect::<Vec<_>>(),
    })
}

fn route((prefix, route): &(Name, Route), snapshot: &Snapshot) -> Value {
    let face = snapshot.faces.iter().find(|face| face.id == route.face);
    json!({
        "prefix": prefix.to_string(),
        "face": route.face.0,
        "uri": face.map(|face| &face.config.uri),
        "origin": route.origin,
        "cost": route.cost,
        "child_inherit": route.flags & CHILD_INHERIT != 0,
        "capture": route.flags & CAPTURE != 0,
        "expires_seconds": route.expires.map(|at| at.since(snapshot.now).as_secs()),
    })
}

/// The state of the disk tier's log, and the results of its lookups.
fn disk_status(tier: &TierCounters, log: Value) -> Value {
    let mut status = log;
    for (outcome, count) in outcomes(tier) {
        status[outcome] = json!(count);
    }
    status
}

fn disk_metrics(metrics: &mut Metrics<'_, '_>, tier: &TierCounters) {
    let help = "Interests that memory did not answer, by what the disk tier did";
    metrics.counters(
        "larder_ndn_disk_interests",
        help,
        "outcome",
        outcomes(tier).into_iter(),
    );
}

fn loop_metrics(metrics: &mut Metrics<'_, '_>, turns: u64, polls: u64) {
    let help =
        "Turns of the event loops; many more than packets mean a loop that waits for nothing";
    metrics.counter("larder_ndn_loop_turns", help, turns);
    let help = "Times that the event loop polled shared memory before it slept";
    metrics.counter("larder_ndn_polls", help, polls);
}

fn outcomes(tier: &TierCounters) -> [(&'static str, u64); 6] {
    let TierCounters {
        hits,
        misses,
        unfit,
        failed,
        late,
        busy,
    } = *tier;
    [
        ("hits", hits),
        ("misses", misses),
        ("unfit", unfit),
        ("failed", failed),
        ("late", late),
        ("busy", busy),
    ]
}

fn prefix(figures: &PrefixFigures) -> Value {
    json!({
        "prefix": figures.name().to_string(),
        "hits": figures.hits,
        "misses": figures.misses,
        "overcount": figures.overcount,
    })
}

fn counters(counters: &FaceCounters) -> Value {
    json!({
        "in_interests": counters.in_interests,
        "in_data": counters.in_data,
        "in_nacks": counters.in_nacks,
        "in_bytes": counters.in_bytes,
        "out_interests": counters.out_interests,
        "out_data": counters.out_data,
        "out_nacks": counters.out_nacks,
        "out_bytes": counters.out_bytes,
        "dropped": counters.dropped,
    })
}

fn face(face: &FaceStats, shared: &HashSet<FaceId>, queue: Option<&QueueFigures>) -> Value {
    json!({
        "id": face.id.0,
        "uri": face.config.uri,
        "scope": match face.config.scope {
            Scope::Local => "local",
            Scope::NonLocal => "non-local",
        },
        "mtu_bytes": face.config.mtu,
        "shared_memory": shared.contains(&face.id),
        "queued_bytes": queue.map_or(0, |queue| queue.bytes),
        "marked_packets": queue.map_or(0, |queue| queue.marked),
        "packets": counters(&face.counters),
    })
}
