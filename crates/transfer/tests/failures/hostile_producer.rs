//! Failure: a producer that lies, errs or never ends makes a consumer panic, hang, fill the disk,
//! or accept wrong bytes.

use crate::link::{Link, Outcome, Reply, bytes, fetcher, publisher, run, serve};
use larder_packet::{
    Component, DataBuilder, DigestSigner, Interest, NackReason, Name, SignError, Signer, Verifier,
    VerifyError, types,
};
use larder_transfer::{EndProblem, FetchError, FetchOptions, Invalid, Metadata, Naming, Refusal};
use proptest::prelude::*;
use std::time::Duration;

/// Returns a segment of /file/v=7 with this content and FinalBlockId.
fn segment(interest: &Interest<'_>, content: &[u8], last: Option<u64>) -> Reply {
    let digits = last.unwrap_or_default().to_be_bytes();
    let mut builder = DataBuilder::new(interest.name).content(content);
    if let Some(last) = last {
        let skip = 8 - larder_packet::tlv::nni_len(last);
        builder = builder.final_block_id(Component {
            typ: types::SEGMENT,
            value: &digits[skip..],
        });
    }
    Reply::Data(builder.build(&DigestSigner).unwrap())
}

fn number(interest: &Interest<'_>) -> u64 {
    interest
        .name
        .last()
        .and_then(|last| last.as_segment())
        .unwrap()
}

fn fetch(options: FetchOptions, producer: impl FnMut(&Interest<'_>) -> Reply) -> Outcome {
    run(fetcher("/file/v=7", options), producer, Link::default())
}

fn few_retries() -> FetchOptions {
    FetchOptions {
        retries: 3,
        ..FetchOptions::default()
    }
}

/// Returns the result of a metadata packet with this content.
fn discover(content: &[u8]) -> Result<Vec<u8>, FetchError> {
    let mut serve = serve(publisher(bytes(10), 100));
    let producer = |interest: &Interest<'_>| {
        if !interest.name.to_string().contains("metadata") {
            return serve(interest);
        }
        let mut name = interest.name.to_name();
        name.push_version(7).push_segment(0);
        Reply::Data(
            DataBuilder::new(&name)
                .content(content)
                .build(&DigestSigner)
                .unwrap(),
        )
    };
    run(fetcher("/file", few_retries()), producer, Link::default()).result
}

fn metadata(name: &str, size_bytes: Option<u64>, last_segment: Option<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    let name = name.parse().unwrap();
    Metadata {
        name,
        size_bytes,
        last_segment,
        ..Metadata::default()
    }
    .encode(&mut out);
    out
}

#[test]
fn a_producer_that_never_ends_fills_no_disk() {
    for content in [&[7; 100][..], b""] {
        let options = FetchOptions {
            max_bytes: 5000,
            ..few_retries()
        };
        let outcome = fetch(options, |interest| segment(interest, content, None));
        assert!(
            matches!(
                outcome.result,
                Err(FetchError::TooLarge {
                    max_bytes: 5000,
                    ..
                })
            ),
            "{:?}",
            outcome.result
        );
        assert!(outcome.stats.bytes <= 5000);
    }
    // The end moves on for ever.
    let options = FetchOptions {
        max_bytes: 5000,
        ..few_retries()
    };
    let outcome = fetch(options, |interest| {
        segment(interest, &[7; 100], Some(number(interest) + 10))
    });
    assert!(
        matches!(outcome.result, Err(FetchError::TooLarge { .. })),
        "{:?}",
        outcome.result
    );
}

#[test]
fn an_end_before_what_arrived_is_refused() {
    let outcome = fetch(few_retries(), |interest| {
        let last = if number(interest) < 8 { 20 } else { 3 };
        segment(interest, b"x", Some(last))
    });
    let Err(FetchError::Contradiction {
        name,
        problem: EndProblem::Shrank {
            last: 3,
            arrived: 8,
        },
    }) = outcome.result
    else {
        panic!("{:?}", outcome.result)
    };
    assert_eq!(name.to_string(), "/file/v=7/seg=8");
}

#[test]
fn the_last_segment_stays_the_last() {
    // Segment 9 names itself as the last. Segment 2, which arrives later, contradicts it.
    let options = FetchOptions {
        retries: 3,
        ..FetchOptions::default()
    };
    let mut first = true;
    let outcome = fetch(options, |interest| match number(interest) {
        9 => segment(interest, b"x", Some(9)),
        2 if std::mem::take(&mut first) => Reply::Silence,
        2 => segment(interest, b"x", Some(30)),
        _ => segment(interest, b"x", None),
    });
    let expected = EndProblem::Moved { last: 30, was: 9 };
    assert!(
        matches!(outcome.result, Err(FetchError::Contradiction { problem, .. }) if problem == expected)
    );
}

#[test]
fn a_late_end_is_found() {
    let outcome = fetch(few_retries(), |interest| match number(interest) {
        n if n < 99 => segment(interest, b"ab", None),
        99 => segment(interest, b"c", Some(99)),
        _ => Reply::Silence,
    });
    assert_eq!(outcome.result.unwrap().len(), 199);
}

#[test]
fn an_end_that_moves_while_it_is_ahead_is_followed() {
    let outcome = fetch(few_retries(), |interest| match number(interest) {
        n if n < 10 => segment(interest, b"x", Some(15)),
        n if n < 20 => segment(interest, b"x", Some(30)),
        n if n <= 25 => segment(interest, b"x", Some(25)),
        _ => Reply::Silence,
    });
    assert_eq!(outcome.result.unwrap().len(), 26);
}

#[test]
fn an_end_beyond_all_numbers_is_only_far_away() {
    let options = FetchOptions {
        max_bytes: 1000,
        ..few_retries()
    };
    let outcome = fetch(options, |interest| {
        segment(interest, &[7; 100], Some(u64::MAX))
    });
    assert!(
        matches!(outcome.result, Err(FetchError::TooLarge { .. })),
        "{:?}",
        outcome.result
    );
}

#[test]
fn an_end_that_is_no_segment_is_refused() {
    let outcome = fetch(few_retries(), |interest| {
        let end = Component {
            typ: types::VERSION,
            value: &[1],
        };
        Reply::Data(
            DataBuilder::new(interest.name)
                .final_block_id(end)
                .build(&DigestSigner)
                .unwrap(),
        )
    });
    assert!(matches!(
        outcome.result,
        Err(FetchError::Contradiction {
            problem: EndProblem::NotASegment,
            ..
        })
    ));
}

#[test]
fn a_wrong_digest_is_never_delivered() {
    let outcome = fetch(few_retries(), |interest| {
        let Reply::Data(mut wire) = segment(interest, b"forged", Some(0)) else {
            unreachable!()
        };
        *wire.last_mut().unwrap() ^= 1;
        Reply::Data(wire)
    });
    assert!(matches!(
        outcome.result,
        Err(FetchError::Invalid {
            problem: Invalid::Digest,
            ..
        })
    ));
    // The first window has ten Interests. Each may be rejected until the first one has been sent
    // often enough.
    assert!(outcome.stats.rejected >= 3);
    assert_eq!((outcome.stats.segments, outcome.stats.bytes), (0, 0));
}

#[test]
fn one_corrupt_copy_is_fetched_again() {
    let mut first = true;
    let outcome = fetch(few_retries(), |interest| {
        if number(interest) > 0 {
            return Reply::Silence;
        }
        let Reply::Data(mut wire) = segment(interest, b"good", Some(0)) else {
            unreachable!()
        };
        if std::mem::take(&mut first) {
            *wire.last_mut().unwrap() ^= 1;
        }
        Reply::Data(wire)
    });
    assert_eq!(outcome.result.unwrap(), b"good");
    assert_eq!(outcome.stats.rejected, 1);
}

/// A key whose public half is unknown.
struct UnknownKey;

impl Signer for UnknownKey {
    fn signature_type(&self) -> u64 {
        types::ED25519
    }
    fn key_locator(&self) -> Option<larder_packet::NameRef<'_>> {
        None
    }
    fn sign(&self, _: &[&[u8]]) -> Result<Vec<u8>, SignError> {
        Ok(vec![7; 64])
    }
}

struct TrustNobody;

impl Verifier for TrustNobody {
    fn verify(&self, _: u64, _: &[&[u8]], _: &[u8]) -> Result<(), VerifyError> {
        Err(VerifyError::Mismatch)
    }
}

#[test]
fn a_strangers_signature_counts_as_unverified_and_fails_with_a_key() {
    let other_signer = |interest: &Interest<'_>| {
        let end = Component {
            typ: types::SEGMENT,
            value: &[0],
        };
        Reply::Data(
            DataBuilder::new(interest.name)
                .final_block_id(end)
                .content(b"?")
                .build(&UnknownKey)
                .unwrap(),
        )
    };
    let outcome = fetch(few_retries(), other_signer);
    assert_eq!(
        (outcome.result.as_deref(), outcome.stats.unverified),
        (Ok(&b"?"[..]), 1)
    );

    let fetcher = larder_transfer::Fetcher::new(
        "/file/v=7".parse().unwrap(),
        few_retries(),
        Box::new(larder_transfer::Cubic::new()),
        Some(Box::new(TrustNobody)),
        larder_units::Streams::new(1).stream("nonces"),
    );
    let outcome = run(fetcher, other_signer, Link::default());
    assert!(matches!(
        outcome.result,
        Err(FetchError::Invalid {
            problem: Invalid::Signature { .. },
            ..
        })
    ));
}

#[test]
fn data_that_nobody_asked_for_is_dropped() {
    for wrong in [
        "/file/v=8/seg=0",
        "/file/v=7/seg=999",
        "/file/v=7",
        "/file/v=7/seg=0/x",
        "/file/v=7/v=0",
        "/",
    ] {
        let name: Name = wrong.parse().unwrap();
        let outcome = fetch(few_retries(), |_| {
            Reply::Data(
                DataBuilder::new(&name)
                    .content(b"x")
                    .build(&DigestSigner)
                    .unwrap(),
            )
        });
        assert!(
            matches!(
                outcome.result,
                Err(FetchError::NoAnswer {
                    last: Refusal::TimeOut,
                    ..
                })
            ),
            "{wrong}"
        );
        assert!(
            outcome.stats.unexpected > 0 && outcome.stats.segments == 0,
            "{wrong}"
        );
    }
    // The number 0 in two bytes is another name than the requested one.
    let mut name: Name = "/file/v=7".parse().unwrap();
    name.push(types::SEGMENT, &[0, 0]);
    let outcome = fetch(few_retries(), |_| {
        Reply::Data(DataBuilder::new(&name).build(&DigestSigner).unwrap())
    });
    assert_eq!(outcome.stats.segments, 0);
}

#[test]
fn an_application_nack_ends_the_transfer_at_once() {
    let outcome = fetch(few_retries(), |interest| {
        let builder = DataBuilder::new(interest.name).content_type(types::CONTENT_NACK);
        Reply::Data(builder.build(&DigestSigner).unwrap())
    });
    assert!(matches!(outcome.result, Err(FetchError::NotFound { .. })));
    assert!(outcome.elapsed.as_millis() < 100);
}

/// Failure: a cache on the path that once got a Nack, or a forgery, for a segment ends every later
/// transfer.
#[test]
fn stale_data_that_is_no_use_is_not_requested_from_the_cache_again() {
    let genuine = |interest: &Interest<'_>| segment(interest, b"x", Some(2));
    let nack = |interest: &Interest<'_>| {
        let builder = DataBuilder::new(interest.name).content_type(types::CONTENT_NACK);
        Reply::Data(builder.build(&DigestSigner).unwrap())
    };
    let forgery = |interest: &Interest<'_>| {
        let mut wire = DataBuilder::new(interest.name)
            .content(b"y")
            .build(&DigestSigner)
            .unwrap();
        *wire.last_mut().unwrap() ^= 1;
        Reply::Data(wire)
    };
    let stored: [&dyn Fn(&Interest<'_>) -> Reply; 2] = [&nack, &forgery];
    for stored in stored {
        let outcome = fetch(few_retries(), |interest| {
            if number(interest) == 1 && !interest.must_be_fresh {
                stored(interest)
            } else {
                genuine(interest)
            }
        });
        assert_eq!(outcome.result.unwrap(), b"xxx");
        assert_eq!(outcome.stats.retransmissions, 1);
    }
}

/// Failure: a segment was requested twice before the stored word that it is gone has come, and the
/// second word of that counts as the answer to an Interest that demands fresh Data.
#[test]
fn a_stale_word_that_comes_twice_is_believed() {
    let link = Link {
        delay: Duration::from_millis(700),
        ..Link::default()
    };
    let nack = |interest: &Interest<'_>| {
        let builder = DataBuilder::new(interest.name).content_type(types::CONTENT_NACK);
        Reply::Data(builder.build(&DigestSigner).unwrap())
    };
    let producer = |interest: &Interest<'_>| {
        if interest.must_be_fresh {
            segment(interest, b"x", Some(2))
        } else {
            nack(interest)
        }
    };
    let outcome = run(
        fetcher("/file/v=7", FetchOptions::default()),
        producer,
        link,
    );
    assert_eq!(outcome.result.unwrap(), b"xxx");
    // One that is really gone ends the transfer, if later.
    let outcome = run(fetcher("/file/v=7", FetchOptions::default()), nack, link);
    assert!(
        matches!(outcome.result, Err(FetchError::NotFound { .. })),
        "{:?}",
        outcome.result
    );
}

#[test]
fn no_route_is_said_at_once_and_borne_later() {
    let outcome = run(
        fetcher("/file", few_retries()),
        |_| Reply::Nack(NackReason::NoRoute),
        Link::default(),
    );
    assert_eq!(
        outcome.result.unwrap_err().to_string(),
        "no route to /file/32=metadata"
    );
    assert!(outcome.elapsed.as_millis() < 100);

    // The producer disappears for a moment in the middle.
    let (mut serve, mut refused) = (serve(publisher(bytes(10_000), 100)), 0);
    let producer = |interest: &Interest<'_>| {
        if number(interest) >= 50 && refused < 20 {
            refused += 1;
            return Reply::Nack(NackReason::NoRoute);
        }
        serve(interest)
    };
    let outcome = run(
        fetcher("/file/v=7", few_retries()),
        producer,
        Link::default(),
    );
    assert_eq!(outcome.result.unwrap(), bytes(10_000));
    assert_eq!(
        (
            outcome.stats.nacks,
            outcome.stats.time_outs,
            outcome.stats.reductions
        ),
        (20, 0, 0)
    );
}

/// Failure: a producer registers its prefix between the Interest for the metadata, which has no
/// route, and that for the object's own name, which it does not answer. All later ones time out.
#[test]
fn a_route_that_comes_a_moment_late_is_not_used() {
    let (mut serve, mut asked) = (serve(publisher(bytes(1_000), 100)), 0);
    let producer = |interest: &Interest<'_>| {
        asked += 1;
        match (asked, interest.name.component_count()) {
            (1, _) => Reply::Nack(NackReason::NoRoute),
            (_, 1) => Reply::Silence,
            _ => serve(interest),
        }
    };
    let options = FetchOptions {
        naming: Naming::DiscoverOrPlain,
        ..few_retries()
    };
    let outcome = run(fetcher("/file", options), producer, Link::default());
    assert_eq!(outcome.result.unwrap(), bytes(1_000));
    assert!(outcome.elapsed.as_millis() < 5_000, "{:?}", outcome.elapsed);
}

#[test]
fn a_duplicate_nack_is_answered_with_a_new_nonce() {
    let (mut serve, mut nonces) = (serve(publisher(bytes(100), 100)), Vec::new());
    let producer = |interest: &Interest<'_>| {
        nonces.push(interest.nonce.unwrap());
        if nonces.len() == 1 {
            Reply::Nack(NackReason::Duplicate)
        } else {
            serve(interest)
        }
    };
    let outcome = run(
        fetcher(
            "/file/v=7",
            FetchOptions {
                max_window: 1,
                ..few_retries()
            },
        ),
        producer,
        Link::default(),
    );
    assert!(outcome.result.is_ok() && outcome.elapsed.as_millis() < 100);
    assert_ne!(nonces[0], nonces[1]);
}

#[test]
fn metadata_leads_nowhere_but_to_a_version_of_the_object() {
    assert_eq!(discover(&metadata("/file/v=7", None, None)), Ok(bytes(10)));
    for foreign in [
        "/file",
        "/other/v=7",
        "/file/x/v=7",
        "/file/v=7/seg=0",
        "/",
        "/file/32=metadata",
    ] {
        let error = discover(&metadata(foreign, None, None)).unwrap_err();
        assert!(
            error.to_string().contains("something else than a version"),
            "{foreign}: {error}"
        );
    }
    assert!(
        discover(b"")
            .unwrap_err()
            .to_string()
            .contains("Name missing")
    );
    assert!(
        discover(&[0; 5000])
            .unwrap_err()
            .to_string()
            .contains("more than 4096 bytes")
    );
}

#[test]
fn an_announced_size_must_come_true() {
    assert_eq!(
        discover(&metadata("/file/v=7", Some(10), Some(0))),
        Ok(bytes(10))
    );
    let error = discover(&metadata("/file/v=7", Some(11), None)).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("the metadata announced 11 bytes, the segments have 10"),
        "{error}"
    );
    let huge = discover(&metadata("/file/v=7", Some(u64::MAX), None)).unwrap_err();
    assert!(matches!(huge, FetchError::TooLarge { .. }));
    // The segments correct a wrong last segment.
    assert_eq!(
        discover(&metadata("/file/v=7", None, Some(u64::MAX))),
        Ok(bytes(10))
    );
}

#[test]
fn an_exact_name_is_fetched_as_it_is() {
    let options = FetchOptions {
        naming: Naming::Exact,
        ..few_retries()
    };
    let producer = |interest: &Interest<'_>| {
        assert!(interest.name.to_string().starts_with("/plain/seg="));
        segment(interest, b"x", Some(2))
    };
    assert_eq!(
        run(fetcher("/plain", options), producer, Link::default())
            .result
            .unwrap(),
        b"xxx"
    );
}

proptest! {
    #[test]
    fn no_mixture_of_lies_hangs_or_panics(seed: u64, kinds in proptest::collection::vec(0u8..8, 1..40), numbers: [u16; 8]) {
        let mut turn = 0;
        let mut producer = |interest: &Interest<'_>| {
            turn += 1;
            let kind = kinds[turn % kinds.len()];
            let number = u64::from(numbers[turn % numbers.len()] % 64);
            match kind {
                0 => Reply::Silence,
                1 => Reply::Nack(NackReason::from_code([0, 50, 100, 150][turn % 4])),
                2 => segment(interest, &[1; 10], Some(number)),
                3 => Reply::Data(vec![6, 0]),
                _ => segment(interest, &[2; 10], None),
            }
        };
        // The host decodes packets first, so bytes that are not a Data never reach the fetcher.
        let producer = |interest: &Interest<'_>| match producer(interest) {
            Reply::Data(wire) if larder_packet::Data::decode(&wire).is_err() => Reply::Silence,
            reply => reply,
        };
        let link = Link { seed, duplicates: 0.1, loss: 0.1, ..Link::default() };
        let options = FetchOptions { max_bytes: 2000, retries: 2, ..FetchOptions::default() };
        let outcome = run(fetcher("/file/v=7", options), producer, link);
        prop_assert!(outcome.stats.bytes <= 2000);
    }
}
