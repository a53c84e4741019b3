//! Failure: with one signature for a whole object, unsigned bytes are accepted.

use crate::link::{Link, Outcome, Reply, bytes, run, serve};
use larder_packet::{
    Component, Data, DataBuilder, DigestSigner, HmacSigner, HmacVerifier, Interest, Name, NameRef,
    SignError, Signer, types,
};
use larder_transfer::manifest::ManifestRoot;
use larder_transfer::{
    Cubic, FetchError, FetchOptions, Fetcher, Invalid, Metadata, MetadataProblem, Naming,
    PublishError, PublishOptions, Publisher,
};
use larder_units::Streams;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The producer's key, which counts its signatures.
struct Key(HmacSigner, Arc<AtomicU32>);

impl Signer for Key {
    fn signature_type(&self) -> u64 {
        self.0.signature_type()
    }
    fn key_locator(&self) -> Option<NameRef<'_>> {
        self.0.key_locator()
    }
    fn sign(&self, portions: &[&[u8]]) -> Result<Vec<u8>, SignError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.sign(portions)
    }
}

fn key() -> Key {
    let name: Name = "/key".parse().unwrap();
    Key(HmacSigner::new(b"secret", name), Arc::default())
}

fn publisher(content: Vec<u8>, segment_bytes: usize, key: Key) -> Publisher<Vec<u8>> {
    let options = PublishOptions {
        segment_bytes,
        manifest: true,
        ..PublishOptions::default()
    };
    Publisher::new("/file".parse().unwrap(), 7, content, Box::new(key), options).unwrap()
}

/// A fetcher that trusts the key.
fn fetcher(retries: u32) -> Fetcher {
    let options = FetchOptions {
        retries,
        ..FetchOptions::default()
    };
    let verifier = Box::new(HmacVerifier::new(b"secret"));
    Fetcher::new(
        "/file".parse().unwrap(),
        options,
        Box::new(Cubic::new()),
        Some(verifier),
        Streams::new(1).stream("nonces"),
    )
}

fn fetch(producer: impl FnMut(&Interest<'_>) -> Reply) -> Outcome {
    run(fetcher(2), producer, Link::default())
}

/// Returns other content under the same name, with a valid digest.
fn forged(genuine: &[u8]) -> Reply {
    let data = Data::decode(genuine).unwrap();
    let content = vec![b'!'; data.content.len()];
    let mut builder = DataBuilder::new(data.name).content(&content);
    if let Some(end) = data.final_block_id {
        builder = builder.final_block_id(end);
    }
    Reply::Data(builder.build(&DigestSigner).unwrap())
}

#[test]
fn one_signature_proves_every_byte_however_many_segments_there_are() {
    // With segments of 100 bytes, two digests fit a packet of the manifest, so the tree has many
    // levels.
    for (size, segment_bytes) in [
        (0, 100),
        (1, 100),
        (100, 100),
        (101, 100),
        (30_000, 100),
        (3_000_000, 8000),
    ] {
        let key = key();
        let signatures = key.1.clone();
        let outcome = fetch(serve(publisher(bytes(size), segment_bytes, key)));
        assert!(outcome.result.unwrap() == bytes(size), "{size}");
        assert_eq!(signatures.load(Ordering::Relaxed), 1, "{size}");
        assert!(outcome.stats.manifest_packets > 0);
        assert_eq!(
            (
                outcome.stats.rejected,
                outcome.stats.unverified,
                outcome.stats.retransmissions
            ),
            (0, 0, 0)
        );
    }
}

#[test]
fn loss_and_reordering_change_nothing() {
    for seed in 0..20 {
        let jitter = Duration::from_millis(20);
        let link = Link {
            seed,
            jitter,
            loss: 0.05,
            duplicates: 0.05,
            ..Link::default()
        };
        let outcome = run(
            fetcher(15),
            serve(publisher(bytes(20_000), 100, key())),
            link,
        );
        assert!(outcome.result.unwrap() == bytes(20_000), "seed {seed}");
        assert_eq!(outcome.stats.rejected, 0, "seed {seed}");
    }
}

#[test]
fn a_cache_with_something_else_under_the_name_is_passed_by() {
    let mut genuine = serve(publisher(bytes(1000), 100, key()));
    let outcome = fetch(|interest| {
        let asked_by_digest = interest.name.strip_implicit_digest().1.is_some();
        let uri = interest.name.to_string();
        let poisoned = uri.ends_with("/seg=3") && !asked_by_digest;
        match genuine(interest) {
            Reply::Data(wire) if poisoned => forged(&wire),
            reply => reply,
        }
    });
    assert_eq!(outcome.result.unwrap(), bytes(1000));
    assert_eq!(
        outcome.stats.rejected, 2,
        "a packet of the manifest and a segment"
    );
}

#[test]
fn forged_segments_and_forged_manifests_are_never_taken() {
    for what in [
        "/file/v=7/seg=4",
        "/file/v=7/32=manifest/seg=0",
        "/file/v=7/32=manifest/seg=2",
    ] {
        let mut genuine = serve(publisher(bytes(1000), 100, key()));
        let outcome = fetch(|interest| match genuine(interest) {
            Reply::Data(wire) if interest.name.strip_implicit_digest().0.to_string() == what => {
                forged(&wire)
            }
            reply => reply,
        });
        let expected = FetchError::Invalid {
            name: what.parse().unwrap(),
            problem: Invalid::Manifest,
        };
        assert_eq!(outcome.result.unwrap_err(), expected);
    }
}

#[test]
fn metadata_of_somebody_else_is_not_believed() {
    let other_signer = Key(HmacSigner::new(b"other", Name::root()), Arc::default());
    let outcome = fetch(serve(publisher(bytes(1000), 100, other_signer)));
    assert!(matches!(
        outcome.result,
        Err(FetchError::Invalid {
            problem: Invalid::Signature { .. },
            ..
        })
    ));
    assert_eq!(
        (outcome.stats.segments, outcome.stats.manifest_packets),
        (0, 0)
    );
}

#[test]
fn a_manifest_that_cannot_be_is_refused_at_once() {
    let digest = [7; 32];
    let million = larder_transfer::limits::MAX_MANIFEST_SEGMENTS;
    for (last_segment, fan_out) in [
        (None, 249),
        (Some(u64::MAX), 249),
        (Some(million), 249),
        (Some(9), 0),
        (Some(9), 1),
        (Some(9), u64::MAX),
    ] {
        let metadata = Metadata {
            name: "/file/v=7".parse().unwrap(),
            last_segment,
            manifest: Some(ManifestRoot { digest, fan_out }),
            ..Metadata::default()
        };
        let outcome = fetch(|interest| {
            assert_eq!(interest.name.to_string(), "/file/32=metadata");
            let mut content = Vec::new();
            metadata.encode(&mut content);
            let name: Name = "/file/32=metadata/v=7/seg=0".parse().unwrap();
            Reply::Data(
                DataBuilder::new(&name)
                    .content(&content)
                    .build(&key())
                    .unwrap(),
            )
        });
        match outcome.result.unwrap_err() {
            FetchError::BadMetadata { problem, .. } => {
                assert_eq!(problem, MetadataProblem::Manifest)
            }
            error => panic!("{error}"),
        }
    }
}

#[test]
fn a_signed_manifest_of_the_wrong_length_is_refused() {
    let end = Component {
        typ: types::SEGMENT,
        value: &[0],
    };
    let name: Name = "/file/v=7/32=manifest/seg=0".parse().unwrap();
    let root = DataBuilder::new(&name)
        .final_block_id(end)
        .content(&[7; 33])
        .build(&DigestSigner)
        .unwrap();
    let digest = Data::decode(&root).unwrap().implicit_digest();
    let outcome = fetch(|interest| {
        if interest.name == name.as_name() {
            return Reply::Data(root.clone());
        }
        let manifest = Some(ManifestRoot { digest, fan_out: 2 });
        let metadata = Metadata {
            name: "/file/v=7".parse().unwrap(),
            last_segment: Some(1),
            manifest,
            ..Metadata::default()
        };
        let mut content = Vec::new();
        metadata.encode(&mut content);
        let name: Name = "/file/32=metadata/v=7/seg=0".parse().unwrap();
        Reply::Data(
            DataBuilder::new(&name)
                .content(&content)
                .build(&key())
                .unwrap(),
        )
    });
    assert!(matches!(
        outcome.result,
        Err(FetchError::BadMetadata {
            problem: MetadataProblem::Manifest,
            ..
        })
    ));
}

#[test]
fn whoever_has_no_key_fetches_as_before() {
    let outcome = run(
        crate::link::fetcher("/file", FetchOptions::default()),
        serve(publisher(bytes(1000), 100, key())),
        Link::default(),
    );
    assert_eq!(outcome.result.unwrap(), bytes(1000));
    // Only the metadata is signed, and there is no key to check it.
    assert_eq!(
        (outcome.stats.manifest_packets, outcome.stats.unverified),
        (0, 1)
    );
}

#[test]
fn an_object_of_too_many_segments_is_refused_before_it_is_read() {
    let options = PublishOptions {
        segment_bytes: 1,
        manifest: true,
        ..PublishOptions::default()
    };
    let content = vec![0; larder_transfer::limits::MAX_MANIFEST_SEGMENTS as usize + 1];
    let refused = Publisher::new(
        "/file".parse().unwrap(),
        7,
        content,
        Box::new(key()),
        options,
    );
    assert!(matches!(
        refused,
        Err(PublishError::ManifestTooLarge {
            segments: 1_048_577
        })
    ));
}

/// Failure: an object without metadata is not found by one of its segments, or a segment that the
/// key has not signed tells the version.
#[test]
fn a_version_is_told_by_any_segment_or_by_none() {
    let without_metadata = |mut producer: Box<dyn FnMut(&Interest<'_>) -> Reply>| {
        move |interest: &Interest<'_>| {
            if interest.name.to_string().contains("/32=metadata") {
                Reply::Silence
            } else {
                producer(interest)
            }
        }
    };
    let options = FetchOptions {
        retries: 3,
        naming: Naming::DiscoverOrPlain,
        ..FetchOptions::default()
    };
    let signed = |manifest: bool| {
        let options = PublishOptions {
            segment_bytes: 100,
            manifest,
            ..PublishOptions::default()
        };
        let publisher = Publisher::new(
            "/file".parse().unwrap(),
            7,
            bytes(10_000),
            Box::new(key()),
            options,
        );
        without_metadata(Box::new(serve(publisher.unwrap())))
    };
    let fetch = |secret: &[u8], manifest: bool| {
        let verifier = Box::new(HmacVerifier::new(secret));
        let nonces = Streams::new(1).stream("nonces");
        let cubic = Box::new(Cubic::new());
        let fetcher = Fetcher::new(
            "/file".parse().unwrap(),
            options,
            cubic,
            Some(verifier),
            nonces,
        );
        run(fetcher, signed(manifest), Link::default())
    };
    let outcome = fetch(b"secret", false);
    assert!(outcome.result.unwrap() == bytes(10_000));
    assert_eq!(outcome.stats.rejected, 0);
    for (secret, manifest) in [(&b"other"[..], false), (b"secret", true)] {
        match fetch(secret, manifest).result.unwrap_err() {
            FetchError::Invalid {
                name,
                problem: Invalid::Signature { .. },
            } => {
                assert_eq!(name.to_string(), "/file/v=7/seg=0");
            }
            error => panic!("{error}"),
        }
    }
}
