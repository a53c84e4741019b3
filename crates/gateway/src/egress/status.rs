//! The egress's figures for the admin server.

use super::Figures;
use crate::thread::Shown;
use larder_admin::{Metrics, StatusSource};
use serde_json::{Value, json};

pub(super) struct FarSource(pub(super) Shown<Figures>);

impl FarSource {
    fn figures(&self) -> Figures {
        self.0.get()
    }
}

impl StatusSource for FarSource {
    fn name(&self) -> &'static str {
        "gateway"
    }

    fn status(&self) -> Value {
        let figures = self.figures();
        let [shared, own, in_full] = figures.answers;
        json!({
            "questions": figures.questions,
            "requests": figures.requests,
            "answers": { "shared": shared, "own": own, "ask_in_full": in_full },
            "segments": figures.segments,
            "gone": figures.gone,
            "broken": figures.broken,
            "no_room": figures.no_room,
            "displaced": figures.displaced,
            "not_ours": figures.not_ours,
            "reserved_bytes": figures.reserved_bytes,
        })
    }

    fn metrics(&self, metrics: &mut Metrics<'_, '_>) {
        let figures = self.figures();
        metrics.counter(
            "larder_gateway_questions",
            "Interests with a question",
            figures.questions,
        );
        metrics.counter(
            "larder_gateway_requests",
            "Requests to the origin",
            figures.requests,
        );
        let answers = ["shared", "own", "ask-in-full"]
            .into_iter()
            .zip(figures.answers);
        metrics.counters(
            "larder_gateway_answers",
            "Answers to questions",
            "kind",
            answers,
        );
        metrics.counter("larder_gateway_segments", "Segments sent", figures.segments);
        metrics.counter(
            "larder_gateway_gone",
            "Interests for bodies that are not here any more",
            figures.gone,
        );
        metrics.counter(
            "larder_gateway_broken",
            "Bodies that the origin broke off",
            figures.broken,
        );
        metrics.counter(
            "larder_gateway_no_room",
            "Requests refused for want of room",
            figures.no_room,
        );
        metrics.counter(
            "larder_gateway_displaced",
            "Requests ended because a requester with fewer needed their place",
            figures.displaced,
        );
        metrics.counter(
            "larder_gateway_not_ours",
            "Interests that ask nothing, or what no ingress asks, or in full and not signed with our secret",
            figures.not_ours,
        );
        metrics.gauge(
            "larder_gateway_reserved_bytes",
            "Bytes reserved",
            figures.reserved_bytes as f64,
        );
    }
}
