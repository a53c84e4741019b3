//! A disk tier's figures for the admin server.

use super::DiskFigures;
use larder_admin::Metrics;
use serde_json::{Value, json};

/// Its figures for the status page.
pub fn status(figures: &DiskFigures) -> Value {
    let counters = &figures.counters;
    json!({
        "policy": figures.spec,
        "capacity_bytes": figures.capacity.bytes(),
        "used_bytes": figures.used.bytes(),
        "objects": figures.objects,
        "queued_bytes": figures.queued_bytes,
        "index_bytes": figures.state_bytes,
        "stored": counters.stored,
        "refused": counters.refused,
        "too_large": counters.too_large,
        "dropped": counters.dropped,
        "evicted": counters.evicted,
        "removed": counters.removed,
        "emptied": counters.emptied,
        "rewritten": counters.rewritten,
        "reclaimed": counters.reclaimed,
        "recalled": counters.recalled,
        "reads_refused": figures.reads_refused,
        "cut_short": figures.cut_short,
        "unreadable": counters.unreadable,
        "corrupt": counters.corrupt,
        "written_bytes": counters.written_bytes,
        "syncs": counters.syncs,
        "failure": figures.failure,
    })
}

/// Metrics whose names begin with `prefix`, about `things`.
pub fn metrics(prefix: &str, things: &str, metrics: &mut Metrics<'_, '_>, figures: &DiskFigures) {
    let name = |figure: &str| format!("{prefix}_{figure}");
    let say = |help: &str| format!("{things} {help}");
    let counters = &figures.counters;
    let outcomes = [
        ("stored", counters.stored),
        ("refused", counters.refused),
        ("too-large", counters.too_large),
        ("dropped", counters.dropped),
    ];
    metrics.counters(
        &name("puts"),
        &say("for the disk tier"),
        "outcome",
        outcomes.into_iter(),
    );
    let gone = [
        ("evicted", counters.evicted),
        ("removed", counters.removed),
        ("reclaimed", counters.reclaimed),
    ];
    metrics.counters(
        &name("gone"),
        &say("that have left the disk tier"),
        "reason",
        gone.into_iter(),
    );
    metrics.counter(
        &name("recalled"),
        &say("read from the disk tier"),
        counters.recalled,
    );
    let emptied = "Times that everything was removed from the disk tier, which was too slow for what was to be removed";
    metrics.counter(&name("emptied"), emptied, counters.emptied);
    let failed = [
        ("unreadable", counters.unreadable),
        ("corrupt", counters.corrupt),
        ("not-in-time", figures.reads_refused),
        ("cut-short", figures.cut_short),
    ];
    metrics.counters(
        &name("read_failures"),
        "Reads that failed",
        "reason",
        failed.into_iter(),
    );
    metrics.counter(
        &name("written_bytes"),
        "Bytes written to the disk tier",
        counters.written_bytes,
    );
    metrics.counter(
        &name("rewritten_bytes"),
        "Of these, while reclaiming",
        counters.rewritten_bytes,
    );
    metrics.gauge(
        &name("used_bytes"),
        "Bytes stored on the disk tier",
        figures.used.bytes() as f64,
    );
    metrics.gauge(
        &name("capacity_bytes"),
        "Bytes that may be stored there",
        figures.capacity.bytes() as f64,
    );
    metrics.gauge(
        &name("objects"),
        &say("stored there now"),
        figures.objects as f64,
    );
    metrics.gauge(
        &name("queued_bytes"),
        "Bytes that wait to be written",
        figures.queued_bytes as f64,
    );
    let failed = f64::from(u8::from(figures.failure.is_some()));
    metrics.gauge(
        &name("failed"),
        "1 where the disk tier has failed and is not used",
        failed,
    );
}
