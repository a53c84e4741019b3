//! The figures of the third tier, for `/status` and `/metrics`.

use crate::objects::Objects;
use crate::shared::lock;
use larder_admin::{MetricLine, Metrics};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The figures at one moment.
struct Figures {
    objects: Objects,
    known: u64,
    filter_bytes: u64,
    is_left_alone: bool,
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

static OBJECTS: [MetricLine<Figures>; 13] = [
    MetricLine::counter(
        "read",
        "larder_object_store_read",
        "Objects that were read for requests",
        |figures| count(&figures.objects.counters().read),
    ),
    MetricLine::counter(
        "read_bytes",
        "larder_object_store_read_bytes",
        "Bytes of objects that were read",
        |figures| count(&figures.objects.counters().read_bytes),
    ),
    MetricLine::counter(
        "missing",
        "larder_object_store_missing",
        "Reads of objects that did not exist, or were none",
        |figures| count(&figures.objects.counters().missing),
    ),
    MetricLine::counter(
        "late",
        "larder_object_store_late",
        "Reads that came to nothing in time: the origin was asked",
        |figures| count(&figures.objects.counters().late),
    ),
    MetricLine::counter(
        "failed",
        "larder_object_store_failed",
        "Reads and writes that failed",
        |figures| count(&figures.objects.counters().failed),
    ),
    MetricLine::counter(
        "written",
        "larder_object_store_written",
        "Objects that were written",
        |figures| count(&figures.objects.counters().written),
    ),
    MetricLine::counter(
        "written_bytes",
        "larder_object_store_written_bytes",
        "Bytes of objects that were written",
        |figures| count(&figures.objects.counters().written_bytes),
    ),
    MetricLine::counter(
        "dropped",
        "larder_object_store_dropped",
        "Objects that were not written: the queue was full, or the store failed",
        |figures| count(&figures.objects.counters().dropped),
    ),
    MetricLine::counter(
        "removed",
        "larder_object_store_removed",
        "Objects that were removed because of a purge",
        |figures| count(&figures.objects.counters().removed),
    ),
    MetricLine::gauge(
        "waiting_bytes",
        "larder_object_store_waiting_bytes",
        "Bytes that wait to be written",
        |figures| count(&figures.objects.counters().waiting_bytes),
    ),
    MetricLine::gauge(
        "known",
        "larder_object_store_known",
        "Objects that exist, as far as the node knows",
        |figures| figures.known,
    ),
    MetricLine::gauge(
        "filter_bytes",
        "larder_object_store_filter_bytes",
        "Memory for knowing them",
        |figures| figures.filter_bytes,
    ),
    MetricLine::gauge(
        "left_alone",
        "larder_object_store_left_alone",
        "1 while the store is left alone because it fails",
        |figures| figures.is_left_alone.into(),
    ),
];

fn figures(objects: &Objects) -> Figures {
    let shared = &objects.shared;
    let filter = lock(&shared.filter);
    Figures {
        objects: objects.clone(),
        known: filter.objects(),
        filter_bytes: filter.bytes(),
        is_left_alone: [&shared.breaker, &shared.write_breaker]
            .into_iter()
            .any(|breaker| lock(breaker).is_open(Instant::now())),
    }
}

/// Returns the figures for the status page.
pub fn status(objects: &Objects) -> Map<String, Value> {
    let mut page = Map::new();
    page.insert(
        "url".to_owned(),
        objects.shared.config.url.to_string().into(),
    );
    MetricLine::add_to_page(&OBJECTS, &figures(objects), &mut page);
    page
}

/// Adds the metrics.
pub fn metrics(objects: &Objects, metrics: &mut Metrics<'_, '_>) {
    metrics.lines(&OBJECTS, &figures(objects));
}
