//! Failure: a producer answers an Interest that it should not, does not answer one that it should,
//! or sends packets that no forwarder accepts.

use crate::link::{bytes, publisher};
use larder_packet::{
    Data, DigestSigner, DigestVerifier, Interest, InterestBuilder, Name, NameRef, SignError,
    Signer, types,
};
use larder_transfer::limits::MAX_PACKET_BYTES;
use larder_transfer::{Metadata, PublishError, PublishOptions, Publisher, Reply};
use proptest::prelude::*;

fn ask(publisher: &mut Publisher<Vec<u8>>, name: &str, can_be_prefix: bool) -> (Reply, Vec<u8>) {
    let wire = InterestBuilder::new(name.parse::<Name>().unwrap())
        .can_be_prefix(can_be_prefix)
        .build();
    let mut out = Vec::new();
    let reply = publisher
        .on_interest(&Interest::decode(&wire).unwrap(), &mut out)
        .unwrap();
    assert_eq!(
        out.is_empty(),
        matches!(reply, Reply::NotOurs | Reply::PastEnd)
    );
    if !out.is_empty() {
        let data = Data::decode(&out).unwrap();
        assert!(data.verify(&DigestVerifier).is_ok());
        assert!(
            data.freshness.is_some_and(|freshness| !freshness.is_zero()),
            "MustBeFresh must find it fresh"
        );
    }
    (reply, out)
}

#[test]
fn names_get_the_packet_that_is_meant() {
    let mut publisher = publisher(bytes(250), 100);
    for (name, can_be_prefix, expected) in [
        ("/file/v=7/seg=0", false, Reply::Segment(0)),
        ("/file/v=7/seg=2", true, Reply::Segment(2)),
        ("/file/v=7/seg=3", false, Reply::PastEnd),
        ("/file/v=7/seg=3", true, Reply::PastEnd),
        ("/file/v=7/seg=18446744073709551615", false, Reply::PastEnd),
        ("/file/v=7", true, Reply::Segment(0)),
        ("/file/v=7", false, Reply::NotOurs),
        ("/file", true, Reply::Segment(0)),
        ("/file", false, Reply::NotOurs),
        ("/file/v=8/seg=0", false, Reply::NotOurs),
        ("/file/v=8", true, Reply::NotOurs),
        ("/file/v=7/seg=0/x", true, Reply::NotOurs),
        ("/file/v=7/x", true, Reply::NotOurs),
        ("/other", true, Reply::NotOurs),
        ("/file/32=metadata", true, Reply::Metadata),
        ("/file/32=metadata", false, Reply::NotOurs),
        ("/file/32=metadata/v=7", true, Reply::Metadata),
        ("/file/32=metadata/v=7/seg=0", false, Reply::Metadata),
        ("/file/32=metadata/v=7/seg=1", false, Reply::NotOurs),
        ("/file/32=ls", true, Reply::NotOurs),
    ] {
        assert_eq!(
            ask(&mut publisher, name, can_be_prefix).0,
            expected,
            "{name} {can_be_prefix}"
        );
    }
    let stats = *publisher.stats();
    assert_eq!(
        (
            stats.segments,
            stats.metadata,
            stats.past_end,
            stats.not_ours
        ),
        (4, 3, 3, 10)
    );
    assert_eq!(stats.bytes, 100 + 50 + 100 + 100);
}

#[test]
fn metadata_tells_what_a_file_server_tells() {
    let (_, wire) = ask(&mut publisher(bytes(250), 100), "/file/32=metadata", true);
    let data = Data::decode(&wire).unwrap();
    assert_eq!(data.name.to_string(), "/file/32=metadata/v=7/seg=0");
    let metadata = Metadata::decode(data.content).unwrap();
    assert_eq!(metadata.name.to_string(), "/file/v=7");
    assert_eq!(
        (
            metadata.last_segment,
            metadata.segment_bytes,
            metadata.size_bytes
        ),
        (Some(2), Some(100), Some(250))
    );
}

#[test]
fn every_segment_tells_the_end() {
    for (size, last) in [(0, 0), (1, 0), (100, 0), (101, 1), (30_000, 299)] {
        let mut publisher = publisher(bytes(size), 100);
        for segment in [0, last] {
            let (_, wire) = ask(&mut publisher, &format!("/file/v=7/seg={segment}"), false);
            let data = Data::decode(&wire).unwrap();
            assert_eq!(
                data.final_block_id.and_then(|id| id.as_segment()),
                Some(last),
                "{size} bytes"
            );
        }
    }
}

#[test]
fn an_implicit_digest_gets_its_packet_or_nothing() {
    let mut publisher = publisher(bytes(250), 100);
    let (_, wire) = ask(&mut publisher, "/file/v=7/seg=1", false);
    let mut digest = Data::decode(&wire).unwrap().implicit_digest();
    for expected in [Reply::Segment(1), Reply::NotOurs] {
        let mut name: Name = "/file/v=7/seg=1".parse().unwrap();
        name.push(types::IMPLICIT_SHA256_DIGEST, &digest);
        assert_eq!(ask(&mut publisher, &name.to_string(), false).0, expected);
        digest[0] ^= 1;
    }
}

/// Signs like a key with a long name whose signatures vary in length, as ECDSA's do.
struct Varying(std::sync::atomic::AtomicUsize, Name);

impl Signer for Varying {
    fn signature_type(&self) -> u64 {
        types::SHA256_WITH_ECDSA
    }
    fn key_locator(&self) -> Option<NameRef<'_>> {
        Some(self.1.as_name())
    }
    fn sign(&self, _: &[&[u8]]) -> Result<Vec<u8>, SignError> {
        Ok(vec![
            1;
            70 + self
                .0
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed)
                % 3
        ])
    }
}

fn largest(name: &Name, size: usize, signer: impl Fn() -> Box<dyn Signer>) -> usize {
    let publish = |segment_bytes| {
        let options = PublishOptions {
            segment_bytes,
            ..PublishOptions::default()
        };
        Publisher::new(name.clone(), 1, vec![0; size], signer(), options)
    };
    let Err(PublishError::SegmentSize {
        asked: 60_000,
        largest,
    }) = publish(60_000).map(|_| ())
    else {
        panic!("60000 bytes fit no packet")
    };
    if largest > 0 {
        assert!(publish(largest).is_ok(), "{largest}");
        assert!(publish(largest + 1).is_err(), "{largest}");
    }
    largest
}

#[test]
fn the_largest_segment_fits_and_one_byte_more_is_refused() {
    let name: Name = "/a/long/enough/name".parse().unwrap();
    let largest = largest(&name, 100_000, || Box::new(DigestSigner));
    assert!((8600..8800).contains(&largest), "{largest}");
    let options = PublishOptions {
        segment_bytes: largest,
        ..PublishOptions::default()
    };
    let mut publisher =
        Publisher::new(name, 1, vec![0; 100_000], Box::new(DigestSigner), options).unwrap();
    let (_, wire) = ask(&mut publisher, "/a/long/enough/name/v=1/seg=0", false);
    assert_eq!(wire.len(), MAX_PACKET_BYTES);
    for segment_bytes in [0, usize::MAX] {
        let options = PublishOptions {
            segment_bytes,
            ..PublishOptions::default()
        };
        assert!(
            Publisher::new(
                "/a".parse().unwrap(),
                1,
                vec![0; 10],
                Box::new(DigestSigner),
                options
            )
            .is_err()
        );
    }
}

/// Failure: a segment for nodes that accept larger packets is cut to what all nodes accept, or
/// exceeds what these accept.
#[test]
fn larger_packets_are_made_where_they_are_asked_for_and_nowhere_else() {
    let publish = |segment_bytes| {
        let options = PublishOptions {
            largest_packet: 64 << 10,
            segment_bytes,
            ..PublishOptions::default()
        };
        Publisher::new(
            "/file".parse().unwrap(),
            1,
            vec![0; 200_000],
            Box::new(DigestSigner),
            options,
        )
    };
    let Err(PublishError::SegmentSize { largest, .. }) = publish(64 << 10).map(|_| ()) else {
        panic!("it fits")
    };
    let (_, wire) = ask(&mut publish(largest).unwrap(), "/file/v=1/seg=1", false);
    // Less the larger length fields beyond 65,535 bytes.
    assert!(
        ((64 << 10) - 4..=64 << 10).contains(&wire.len()),
        "{}",
        wire.len()
    );
}

#[test]
fn a_signature_that_varies_in_length_never_passes_the_packet_limit() {
    let name: Name = "/file".parse().unwrap();
    let key: Name = format!("/key/{}", "k".repeat(200)).parse().unwrap();
    for first in 0..3 {
        let signer = || -> Box<dyn Signer> { Box::new(Varying(first.into(), key.clone())) };
        let largest = largest(&name, 100_000, signer);
        let options = PublishOptions {
            segment_bytes: largest,
            ..PublishOptions::default()
        };
        let mut publisher =
            Publisher::new(name.clone(), 1, vec![0; 100_000], signer(), options).unwrap();
        let interest = InterestBuilder::new("/file/v=1/seg=3".parse::<Name>().unwrap()).build();
        for _ in 0..3 {
            let mut out = Vec::new();
            publisher
                .on_interest(&Interest::decode(&interest).unwrap(), &mut out)
                .unwrap();
            assert!(out.len() <= MAX_PACKET_BYTES, "{}", out.len());
        }
    }
}

#[test]
fn a_name_that_leaves_no_room_is_refused() {
    let name: Name = format!("/{}", "n".repeat(9000)).parse().unwrap();
    assert_eq!(largest(&name, 10, || Box::new(DigestSigner)), 0);
}

proptest! {
    #[test]
    fn no_interest_makes_it_panic_or_answer_with_another_name(
        components in proptest::collection::vec((prop_oneof![Just(8u16), Just(32), Just(50), Just(54)], proptest::collection::vec(any::<u8>(), 0..10)), 0..4),
        can_be_prefix: bool,
    ) {
        let mut name: Name = "/file".parse().unwrap();
        for (typ, value) in &components {
            name.push(*typ, value);
        }
        let mut publisher = publisher(bytes(250), 100);
        let wire = InterestBuilder::new(&name).can_be_prefix(can_be_prefix).build();
        let mut out = Vec::new();
        publisher.on_interest(&Interest::decode(&wire).unwrap(), &mut out).unwrap();
        if let Ok(data) = Data::decode(&out) {
            prop_assert!(data.name == name.as_name() || (can_be_prefix && data.name.starts_with(name.as_name())));
        }
    }
}
