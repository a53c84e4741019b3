//! Failure: somebody on the way answers for the far node.

use super::{Place, noise};
use crate::wire::{Asked, Origin, say};
use larder_client::{Client, Received, Transport};
use larder_packet::{Certificate, Data, InterestBuilder, KeyLocator, Name};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn page() -> Origin {
    let large = noise(100_000);
    Origin::new(move |asked: &Asked, stream| {
        if asked.line.contains("large") {
            return say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
                && stream.write_all(&large).is_ok();
        }
        say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
    })
}

/// A key pair of this test, as `openssl genpkey -algorithm ed25519` writes it.
fn key(directory: &Path, name: &str) -> PathBuf {
    let seed = noise(32);
    let mut der = vec![
        0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
    ];
    der.extend(seed.iter().map(|byte| byte ^ name.len() as u8));
    let path = directory.join(name);
    std::fs::write(
        &path,
        format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            base64(&der)
        ),
    )
    .unwrap();
    path
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .chain([0, 0].iter())
            .take(3)
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        for at in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * at)) as usize & 63] as char;
            text.push(if at > chunk.len() { '=' } else { letter });
        }
    }
    text
}

#[test]
fn the_key_that_is_trusted_is_believed_and_no_other() {
    let origin = page();
    let directory = tempfile::tempdir().unwrap();
    let (own, other) = (
        key(directory.path(), "own.pem"),
        key(directory.path(), "another.pem"),
    );
    let far = Place::far(origin.address, &format!("key = {own:?}"));
    // A private key's file serves for its public part.
    let edge = Place::edge(&far.tcp(), &format!("trust = {own:?}"));
    assert_eq!(edge.client().get("/a").text(), "hello");
    assert!(edge.client().get("/large").body == noise(100_000));
    let deceived = Place::edge(&far.tcp(), &format!("trust = {other:?}"));
    for target in ["/a", "/large"] {
        let seen = deceived.client().get(target);
        assert_eq!(
            (seen.status, seen.text().contains("hello")),
            (502, false),
            "{target}"
        );
    }
    assert!(
        deceived.figure("/upstream/failures/forged") == 2
            && deceived.figure("/upstream/rejected") >= 2
    );
    let unsigned = Place::far(origin.address, "");
    let edge = Place::edge(&unsigned.tcp(), &format!("trust = {own:?}"));
    assert_eq!(
        edge.client().get("/a").status,
        502,
        "a digest is nobody's signature"
    );
}

/// Failure: the far node's packets name a key that nobody serves, so that only those who have a
/// copy of it can validate them.
#[test]
fn the_key_of_the_far_node_is_out_of_reach() {
    let origin = page();
    let directory = tempfile::tempdir().unwrap();
    let far = Place::far(
        origin.address,
        &format!("key = {:?}", key(directory.path(), "own.pem")),
    );
    let edge = Place::edge(&far.tcp(), "");
    let mut client = Client::connect_to(Transport::unix(edge.socket())).unwrap();
    let mut ask = |name: &str| {
        let nonce = client.random_stream("nonces").bits() as u32;
        let interest = InterestBuilder::new(name.parse::<Name>().unwrap())
            .can_be_prefix(true)
            .nonce(nonce)
            .build();
        client
            .output()
            .send(None, |out| out.extend_from_slice(&interest));
        let (mut found, patience) = (None, client.now() + Duration::from_secs(20));
        while found.is_none() {
            assert!(client.now() < patience, "{name} has no answer");
            let received = client.receive(Some(patience), |_, received, _| match received {
                Received::Data { data, .. } => found = Some(data.wire.to_vec()),
                Received::Nack { reason, .. } => panic!("{name}: {reason}"),
                Received::Interest { .. } => {}
            });
            received.unwrap();
        }
        found.unwrap()
    };
    let signed = ask("/far/localhost/a/32=metadata");
    let signed = Data::decode(&signed).unwrap();
    let Some(KeyLocator::Name(locator)) = signed.signature_info().key_locator else {
        panic!("it names no key")
    };
    let certificate = Certificate::decode(&ask(&locator.to_string())).unwrap();
    assert!(certificate.is_meant_by(locator) && signed.verify(&certificate).is_ok());
}

#[test]
fn a_shared_secret_does_too() {
    let origin = page();
    let directory = tempfile::tempdir().unwrap();
    let secret = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        format!("secret = {path:?}")
    };
    let one = secret("one", "0123456789abcdef0123456789abcdef\n");
    let far = Place::far(origin.address, &one);
    let edge = Place::edge(&far.tcp(), &one);
    assert!(edge.client().get("/large").body == noise(100_000));
    let other = Place::edge(
        &far.tcp(),
        &secret("other", "0123456789abcdef0123456789abcdeg"),
    );
    for request in ["first", "second"] {
        let since = Instant::now();
        assert_eq!(other.client().get("/a").status, 502, "{request}");
        assert!(
            since.elapsed() < Duration::from_secs(30),
            "the {request} one has waited as for a silent origin"
        );
    }
}
