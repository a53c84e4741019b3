//! The figures of the NDN side for the admin server.

use crate::ndn::control::metrics::{CONTENT_STORE, FORWARDER, UDP_STANDINGS};
use crate::ndn::{Handle, QueueFigures, Snapshot, StrategyFigures};
use larder_admin::{CaptureLines, Metrics, StatusSource};
use larder_forwarder::{
    CAPTURE, CHILD_INHERIT, FaceCounters, FaceId, FaceStats, PrefixFigures, Route, Scope,
    TierCounters,
};
use larder_packet::Name;
use larder_tier_host as disk;
use larder_units::Ratio;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};

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
        for metric in CONTENT_STORE {
            metric.write(&snapshot, metrics);
        }
        if let Some(disk) = &self.disk {
            disk_metrics(metrics, &snapshot.stats.tier);
            disk::metrics("larder_ndn_disk", "Data", metrics, &disk.figures());
        }
        for metric in FORWARDER {
            metric.write(&snapshot, metrics);
        }
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
            udp_peers,
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
        let mut state = json!({
            "content_store": {
                "policy": { "spec": policy, "figures": figures },
                "hit_ratio": Ratio::of(store.hits, store.hits + store.misses).value(),
                "untrusted": store.untrusted,
                "unverified": store.unverified,
                "by_prefix": by_prefix.iter().map(prefix).collect::<Vec<_>>(),
                "disk": self.disk.as_ref().map(|disk| disk_status(&stats.tier, disk::status(&disk.figures()))),
            },
            "what_if": self.what_if.status(),
            "udp_peers": UDP_STANDINGS.iter().zip(udp_peers).map(|(name, count)| (*name, *count)).collect::<BTreeMap<_, _>>(),
            "readvertised_prefixes": { "wanted": stats.prefixes_to_readvertise, "accepted": stats.readvertised_prefixes },
            "packets": counters(&stats.packets),
            "drops": stats.drops.iter().map(|(reason, count)| (reason.label().to_owned(), json!(count))).collect::<Map<_, _>>(),
            "faces": faces.iter().map(|of| face(of, &shared, queues.get(&of.id))).collect::<Vec<_>>(),
        });
        for metric in CONTENT_STORE {
            metric.enter(snapshot, &mut state["content_store"]);
        }
        for metric in FORWARDER {
            metric.enter(snapshot, &mut state);
        }
        state
    }
}

fn unavailable() -> Value {
    json!({ "error": "the NDN thread does not answer" })
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
