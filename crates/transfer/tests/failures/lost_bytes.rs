//! Failure: the output differs from the input, or the memory between them grows.

use crate::link::{Link, Reply, bytes, fetcher, fetcher_with, publisher, run, serve};
use larder_transfer::{FetchError, FetchOptions, FixedWindow};
use proptest::prelude::*;
use std::time::Duration;

#[test]
fn sizes_around_a_segment_arrive_whole() {
    const SEGMENT: usize = 100;
    for size in [
        0,
        1,
        SEGMENT - 1,
        SEGMENT,
        SEGMENT + 1,
        2 * SEGMENT,
        2 * SEGMENT + 1,
        50 * SEGMENT,
    ] {
        let content = bytes(size);
        let fetcher = fetcher("/file", FetchOptions::default());
        let outcome = run(
            fetcher,
            serve(publisher(content.clone(), SEGMENT)),
            Link::default(),
        );
        assert_eq!(outcome.result.as_deref(), Ok(&content[..]), "{size} bytes");
        assert_eq!(
            outcome.stats.segments,
            size.div_ceil(SEGMENT).max(1) as u64,
            "{size} bytes"
        );
        assert_eq!(outcome.stats.retransmissions, 0, "{size} bytes");
    }
}

#[test]
fn a_versioned_name_needs_no_metadata() {
    let mut publisher = publisher(bytes(1000), 100);
    let versioned = publisher.versioned_name().to_string();
    assert_eq!(versioned, "/file/v=7");
    let outcome = run(
        fetcher(&versioned, FetchOptions::default()),
        |interest| {
            let mut out = Vec::new();
            publisher.on_interest(interest, &mut out).unwrap();
            Reply::Data(out)
        },
        Link::default(),
    );
    assert_eq!(outcome.result.unwrap(), bytes(1000));
    assert_eq!(publisher.stats().metadata, 0);
}

#[test]
fn every_packet_twice_changes_nothing() {
    let link = Link {
        duplicates: 1.0,
        jitter: Duration::from_millis(20),
        ..Link::default()
    };
    let outcome = run(
        fetcher("/file", FetchOptions::default()),
        serve(publisher(bytes(40_000), 100)),
        link,
    );
    assert_eq!(outcome.result.unwrap(), bytes(40_000));
    assert!(outcome.stats.unexpected >= 400, "{:?}", outcome.stats);
}

#[test]
fn a_dead_link_ends_in_the_name_that_went_unanswered() {
    let link = Link {
        loss: 1.0,
        ..Link::default()
    };
    let options = FetchOptions {
        retries: 3,
        ..FetchOptions::default()
    };
    let outcome = run(
        fetcher("/file", options),
        serve(publisher(bytes(1), 100)),
        link,
    );
    let error = outcome.result.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no answer to /file/32=metadata after 4 Interests: the last one timed out"
    );
    assert_eq!(outcome.stats.interests, 4);
    // 1 + 2 + 4 + 4 seconds: RFC 6298's first RTO, doubled up to the limit.
    assert_eq!(outcome.elapsed, Duration::from_secs(11));
}

#[test]
fn a_segment_that_never_comes_is_named() {
    let mut serve = serve(publisher(bytes(10_000), 100));
    let missing = "/file/v=7/seg=42";
    let producer = |interest: &larder_packet::Interest<'_>| {
        if interest.name.to_string() == missing {
            Reply::Silence
        } else {
            serve(interest)
        }
    };
    let options = FetchOptions {
        retries: 2,
        max_window: 16,
        ..FetchOptions::default()
    };
    let outcome = run(fetcher("/file", options), producer, Link::default());
    assert!(
        matches!(&outcome.result, Err(FetchError::NoAnswer { name, sends: 3, .. }) if name.to_string() == missing)
    );
    assert!(
        outcome.stats.peak_buffered_bytes <= 15 * 100,
        "{:?}",
        outcome.stats
    );
    assert_eq!(
        outcome.stats.bytes, 4200,
        "what came before it was delivered"
    );
}

proptest! {
    #[test]
    fn arrives_whole_or_fails_by_name(
        seed: u64,
        size in 0usize..30_000,
        segment in 50usize..400,
        loss in 0.0..0.3,
        duplicates in 0.0..0.3,
        jitter_ms in 0u64..200,
        max_window in 1usize..100,
        fixed: bool,
    ) {
        let link = Link { seed, loss, duplicates, jitter: Duration::from_millis(jitter_ms), ..Link::default() };
        // A pair of packets is lost with a probability of at most 0.51: 60 times in a row for one
        // of 10^17 segments. (15 retries failed once in a thousand runs.)
        let options = FetchOptions { max_window, retries: 60, ..FetchOptions::default() };
        let fetcher = if fixed {
            fetcher_with("/file", options, Box::new(FixedWindow::new(50)))
        } else {
            fetcher("/file", options)
        };
        let outcome = run(fetcher, serve(publisher(bytes(size), segment)), link);
        prop_assert_eq!(outcome.result.map(|content| content == bytes(size)), Ok(true));
        prop_assert!(outcome.stats.peak_buffered_bytes <= max_window.saturating_sub(1) * segment);
        prop_assert_eq!(outcome.stats.bytes, size as u64);
        prop_assert_eq!(outcome.stats.interests - outcome.stats.retransmissions >= outcome.stats.segments, true);
    }
}
