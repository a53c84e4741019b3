//! The parts of a node that report their figures, and the pages that show all of them.

use crate::console::warnings;
use crate::metrics::Metrics;
use bytes::Bytes;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use serde_json::{Map, Value, json};
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Instant;
use tokio::sync::mpsc;

/// A part of the node that reports figures. It is called on the admin thread at each request, and
/// may take locks briefly.
pub trait StatusSource: Send + Sync {
    /// Returns its key on the status page.
    fn name(&self) -> &'static str;
    /// Returns its state.
    fn status(&self) -> Value;
    /// Returns its state, and more for the console, whose clients are authorized: URLs of clients,
    /// names, and the configuration.
    fn console(&self) -> (Value, Value) {
        (self.status(), Value::Null)
    }
    /// Returns a line for `/readyz` if the part runs with less than it should; the node is ready
    /// all the same.
    fn restriction(&self) -> Option<String> {
        None
    }
    /// Begins a capture of the requests to its cache, for a share of the keys, as lines of a trace;
    /// `None` if it has no cache, or as many captures as it may have.
    fn capture(&self, _share: f64) -> Option<CaptureLines> {
        None
    }
    /// Ends all captures: the admin server stops.
    fn end_captures(&self) {}
    /// Writes its metrics. Their names start with `larder_`.
    fn metrics(&self, metrics: &mut Metrics<'_, '_>);
}

/// The lines of a capture, as they come.
pub struct CaptureLines(pub(crate) mpsc::Receiver<Bytes>);

impl CaptureLines {
    /// Returns the lines that come from this channel, until its sender is dropped.
    pub fn new(pieces: mpsc::Receiver<Bytes>) -> CaptureLines {
        CaptureLines(pieces)
    }
}

pub(crate) struct Sources(pub(crate) Vec<Arc<dyn StatusSource>>);

/// The start of the first admin server of this process.
pub(crate) static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|source| source.name()))
            .finish()
    }
}

impl Collector for Sources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut metrics = Metrics {
            encoder: &mut encoder,
            written: Ok(()),
        };
        metrics.gauge(
            "larder_uptime_seconds",
            "Since the start",
            STARTED.elapsed().as_secs_f64(),
        );
        let version = std::iter::once((env!("CARGO_PKG_VERSION"), 1.0));
        metrics.gauges(
            "larder_build_info",
            "1, with the version of the program",
            "version",
            version,
        );
        for source in &self.0 {
            source.metrics(&mut metrics);
        }
        metrics.written
    }
}

impl Sources {
    /// Returns the page `/readyz` of a node that takes requests.
    pub(crate) fn readiness(&self) -> String {
        let restrictions = self.0.iter().filter_map(|source| source.restriction());
        restrictions.fold("ready\n".to_owned(), |page, line| page + &line + "\n")
    }

    pub(crate) fn status(&self) -> Value {
        page_of(self.0.iter().map(|source| (source.name(), source.status())))
    }

    /// Returns the status page, and under `console` what only the clients of the console may read.
    pub(crate) fn console(&self) -> Value {
        let (mut states, mut more) = (Vec::new(), Map::new());
        for source in &self.0 {
            let (state, of_console) = source.console();
            states.push((source.name(), state));
            more.insert(source.name().to_owned(), of_console);
        }
        let mut page = page_of(states.into_iter());
        page["console"] = Value::Object(more);
        page["console"]["warnings"] = Value::Array(warnings(&page));
        page
    }
}

/// Returns the status page with the states of these sources.
fn page_of(states: impl Iterator<Item = (&'static str, Value)>) -> Value {
    let mut page = Map::new();
    page.insert("larder".to_owned(), json!(env!("CARGO_PKG_VERSION")));
    page.insert(
        "uptime_seconds".to_owned(),
        json!(STARTED.elapsed().as_secs()),
    );
    page.extend(states.map(|(name, state)| (name.to_owned(), state)));
    Value::Object(page)
}
