//! Fear: a transfer leaves the link idle, floods it, or sends again what was not lost.

use crate::link::{Bottleneck, Link, Outcome, bytes, fetcher, publisher, run, serve};
use larder_transfer::FetchOptions;
use std::time::Duration;

const SEGMENT: usize = 1000;

/// Fetches `segments` segments over 2000 packets a second and 40 ms of round trip: 80 packets in flight fill it.
fn fetch(segments: usize, loss: f64, queue: usize, mark_from: usize) -> (Outcome, f64) {
    let bottleneck = Some(Bottleneck { packets_a_second: 2000, queue, mark_from });
    let link = Link { seed: 3, delay: Duration::from_millis(20), loss, bottleneck, ..Link::default() };
    let fetcher = fetcher("/file", FetchOptions::default());
    let outcome = run(fetcher, serve(publisher(bytes(segments * SEGMENT), SEGMENT)), link);
    assert!(outcome.result.is_ok(), "{:?}", outcome.result);
    let utilisation = segments as f64 / outcome.elapsed.as_secs_f64() / 2000.0;
    (outcome, utilisation)
}

#[test]
fn a_clean_link_is_filled_without_a_single_retransmission() {
    let (outcome, utilisation) = fetch(20_000, 0.0, 100_000, 100_000);
    assert!(utilisation > 0.85, "{utilisation}");
    assert_eq!(outcome.stats.retransmissions, 0);
}

#[test]
fn marks_keep_the_queue_short() {
    let (outcome, utilisation) = fetch(20_000, 0.0, 1000, 20);
    assert!(utilisation > 0.85, "{utilisation}");
    assert_eq!(outcome.stats.retransmissions, 0);
    assert!(outcome.stats.reductions > 0);
    assert!(outcome.mean_rtt < Duration::from_millis(60), "{:?}", outcome.mean_rtt);
}

#[test]
fn a_short_queue_that_drops_is_lived_with() {
    let (outcome, utilisation) = fetch(20_000, 0.0, 40, 1000);
    assert!(utilisation > 0.7, "{utilisation}");
    let again = outcome.stats.retransmissions as f64 / outcome.stats.interests as f64;
    // A loss is found 200 ms later (no duplicate acknowledgements in NDN), so slow start overshoots once by what it sends meanwhile.
    assert!(again < 0.03, "{again}");
}

#[test]
fn one_loss_in_a_thousand_costs_less_than_half() {
    let (_, utilisation) = fetch(20_000, 0.0005, 1000, 1000);
    assert!(utilisation > 0.5, "{utilisation}");
}

#[test]
fn one_loss_in_a_hundred_does_not_stop_it() {
    // RFC 9438's response function: about 0.8 × 1/sqrt(p) segments a round trip at this loss, a tenth of the link.
    let (_, utilisation) = fetch(5_000, 0.005, 1000, 1000);
    assert!(utilisation > 0.07, "{utilisation}");
}
