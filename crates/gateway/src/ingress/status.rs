//! The ingress's figures for the admin server.

use super::{Figures, Handle};
use larder_admin::{Metrics, StatusSource};
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(super) struct EdgeSource(pub(super) Arc<Handle>);

const FAILURES: [&str; 5] = ["no-route", "no-answer", "forged", "malformed", "body"];

impl EdgeSource {
    fn figures(&self) -> Figures {
        self.0.figures.get()
    }
}

impl StatusSource for EdgeSource {
    fn name(&self) -> &'static str {
        "upstream"
    }

    fn status(&self) -> Value {
        let figures = self.figures();
        let failures: Map<String, Value> = FAILURES
            .iter()
            .zip(figures.failures)
            .map(|(name, count)| ((*name).to_owned(), json!(count)))
            .collect();
        json!({
            "ndn": self.0.prefix.to_string(),
            "requests": figures.requests,
            "shared": figures.shared,
            "asked_again": figures.asked_again,
            "answers": figures.answers,
            "failures": failures,
            "under_way": figures.under_way,
            "interests": figures.interests,
            "retransmissions": figures.retransmissions,
            "segments": figures.segments,
            "bytes": figures.bytes,
            "rejected": figures.rejected,
            "rtt_seconds": figures.rtt_seconds,
        })
    }

    fn metrics(&self, metrics: &mut Metrics<'_, '_>) {
        let figures = self.figures();
        metrics.counter(
            "larder_upstream_requests",
            "Requests to the far node",
            figures.requests,
        );
        metrics.counter(
            "larder_upstream_shared_requests",
            "Of these, in the shared form",
            figures.shared,
        );
        metrics.counter(
            "larder_upstream_asked_again",
            "Of these, then in full",
            figures.asked_again,
        );
        metrics.counter(
            "larder_upstream_answers",
            "Heads of responses",
            figures.answers,
        );
        let failures = FAILURES.into_iter().zip(figures.failures);
        metrics.counters(
            "larder_upstream_failures",
            "Fetches that failed",
            "reason",
            failures,
        );
        metrics.gauge(
            "larder_upstream_under_way",
            "Fetches under way",
            figures.under_way as f64,
        );
        metrics.counter(
            "larder_upstream_interests",
            "Interests sent",
            figures.interests,
        );
        metrics.counter(
            "larder_upstream_retransmissions",
            "Interests sent again",
            figures.retransmissions,
        );
        metrics.counter(
            "larder_upstream_segments",
            "Segments received",
            figures.segments,
        );
        metrics.counter(
            "larder_upstream_bytes",
            "Bytes of bodies received",
            figures.bytes,
        );
        metrics.counter(
            "larder_upstream_rejected",
            "Data with a wrong signature",
            figures.rejected,
        );
        metrics.gauge(
            "larder_upstream_rtt_seconds",
            "Smoothed round trip",
            figures.rtt_seconds.unwrap_or(f64::NAN),
        );
    }
}
