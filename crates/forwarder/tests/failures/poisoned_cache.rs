//! Forged Data in the Content Store, from where everybody gets it: what must be signed by whom is
//! not stored where it is not, and does not push out what is.

use super::world::{Packet, World, interest, name};
use larder_forwarder::{DropReason, FaceId, VerifyRule};
use larder_packet::tlv::{write_nested, write_nni, write_tlv};
use larder_packet::{Certificate, DataBuilder, DigestSigner, Ed25519Signer, Name, Signer, types};
use std::time::Duration;

/// A key of its own for each number, and the name that it signs with.
pub fn key(seed: u8, locator: &str) -> Ed25519Signer {
    // PKCS#8 of Ed25519 (RFC 8410, section 7).
    let mut pkcs8 = vec![
        0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04,
        0x20,
    ];
    pkcs8.extend_from_slice(&[seed; 32]);
    Ed25519Signer::from_pkcs8(&pkcs8, name(locator)).unwrap()
}

/// The certificate of key `seed`, signed by `issuer`; it holds until `until`.
pub fn certificate(of: &str, seed: u8, issuer: &Ed25519Signer, until: &str) -> Vec<u8> {
    let mut spki = vec![
        0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
    ];
    spki.extend_from_slice(key(seed, "/").public_key());
    let mut signed = Vec::new();
    write_tlv(&mut signed, types::NAME, name(of).as_bytes());
    write_nested(&mut signed, types::META_INFO, 0, |out| {
        write_nni(out, types::CONTENT_TYPE, types::CONTENT_KEY)
    });
    write_tlv(&mut signed, types::CONTENT, &spki);
    write_nested(&mut signed, types::SIGNATURE_INFO, 0, |out| {
        write_nni(out, types::SIGNATURE_TYPE, types::ED25519);
        write_nested(out, types::KEY_LOCATOR, 0, |out| {
            write_tlv(out, types::NAME, issuer.key_locator().unwrap().as_bytes())
        });
        write_nested(out, types::VALIDITY_PERIOD, 0, |out| {
            write_tlv(out, types::NOT_BEFORE, b"19700101T000000");
            write_tlv(out, types::NOT_AFTER, until.as_bytes());
        });
    });
    let signature = issuer.sign(&[&signed]).unwrap();
    write_tlv(&mut signed, types::SIGNATURE_VALUE, &signature);
    let mut wire = Vec::new();
    write_tlv(&mut wire, types::DATA, &signed);
    wire
}

pub const ANCHOR: &str = "/v/KEY/1";
const LONG: &str = "20991231T235959";

pub fn anchor() -> Certificate {
    Certificate::decode(&certificate("/v/KEY/1/self/v=1", 1, &key(1, ANCHOR), LONG)).unwrap()
}

/// A world in which Data under /v must verify, with a consumer and a producer.
fn world(bundle: &[Vec<u8>]) -> (World, FaceId, FaceId) {
    let mut world = World::new();
    let certificates = anchor().with_chained(bundle).unwrap();
    world.forwarder.set_verification(vec![VerifyRule {
        prefix: name("/v"),
        certificates,
    }]);
    let (consumer, producer) = (world.local(), world.remote());
    world.route("/", producer, 0);
    (world, consumer, producer)
}

/// The producer answers an Interest by this signer; whether the consumer gets it, and whether it is
/// stored.
fn answered(
    world: &mut World,
    (consumer, producer): (FaceId, FaceId),
    of: &str,
    signer: &dyn Signer,
) -> (bool, bool) {
    let nonce = world.now.nanos() as u32;
    // Past what is stored: only what is fresh would be taken.
    world.sent(consumer, interest(of, nonce).must_be_fresh(true).build());
    let before = world.forwarder.stats().content_store.insertions;
    let data = DataBuilder::new(&name(of))
        .content(&nonce.to_be_bytes())
        .build(signer)
        .unwrap();
    let sent = world.sent(producer, data);
    world.pass(Duration::from_millis(1));
    let delivered = sent
        .iter()
        .any(|sent| sent.face == consumer && matches!(sent.packet, Packet::Data { .. }));
    (
        delivered,
        world.forwarder.stats().content_store.insertions > before,
    )
}

#[test]
fn what_nobody_trusted_has_signed_is_passed_on_and_not_stored() {
    let (mut world, consumer, producer) = world(&[]);
    let ends = (consumer, producer);
    assert_eq!(
        answered(&mut world, ends, "/v/a", &key(1, ANCHOR)),
        (true, true)
    );
    assert_eq!(
        answered(&mut world, ends, "/v/b", &DigestSigner),
        (true, false),
        "a bare digest"
    );
    assert_eq!(
        answered(&mut world, ends, "/v/c", &key(2, "/x/KEY/2")),
        (true, false),
        "another key"
    );
    assert_eq!(
        answered(&mut world, ends, "/v/d", &key(2, ANCHOR)),
        (true, false),
        "another key under the anchor's name"
    );
    assert_eq!(
        answered(&mut world, ends, "/w/a", &DigestSigner),
        (true, true),
        "no rule is about it"
    );
    assert_eq!(world.forwarder.stats().content_store.untrusted, 3);

    // What is stored stays where it is.
    assert_eq!(
        answered(&mut world, ends, "/v/a", &key(2, ANCHOR)),
        (true, false)
    );
    let hits = world.forwarder.stats().content_store.hits;
    let sent = world.interest(consumer, "/v/a", 77);
    assert!(matches!(sent[..], [ref only] if only.face == consumer));
    assert_eq!(world.forwarder.stats().content_store.hits, hits + 1);
}

#[test]
fn a_chain_reaches_as_far_as_its_identities_and_its_time() {
    let (site, camera) = (key(3, "/v/site/KEY/3"), key(4, "/v/site/cam/KEY/4"));
    let bundle = [
        // In no order: a certificate may come before its issuer's.
        certificate("/v/site/cam/KEY/4/site/v=1", 4, &site, LONG),
        certificate("/v/site/KEY/3/v/v=1", 3, &key(1, ANCHOR), "19700101T000100"),
        // Above its issuer, and by nobody known.
        certificate("/v/other/KEY/5/site/v=1", 5, &site, LONG),
        certificate("/v/site/KEY/6/self/v=1", 6, &key(6, "/v/site/KEY/6"), LONG),
    ];
    assert_eq!(anchor().with_chained(&bundle).unwrap().len(), 3);
    assert!(anchor().with_chained(&[vec![6, 0]]).is_err());
    let (mut world, consumer, producer) = world(&bundle);
    let ends = (consumer, producer);
    assert_eq!(
        answered(&mut world, ends, "/v/site/cam/a", &camera),
        (true, true)
    );
    assert_eq!(answered(&mut world, ends, "/v/site/b", &site), (true, true));
    assert_eq!(
        answered(&mut world, ends, "/v/site/c", &camera),
        (true, false),
        "not under the camera's name"
    );
    assert_eq!(
        answered(&mut world, ends, "/v/other/d", &key(5, "/v/other/KEY/5")),
        (true, false),
        "it leads nowhere"
    );
    assert_eq!(
        answered(&mut world, ends, "/v/site/e", &key(6, "/v/site/KEY/6")),
        (true, false),
        "nor does that"
    );
    world.pass(Duration::from_secs(61));
    assert_eq!(
        answered(&mut world, ends, "/v/site/cam/f", &camera),
        (true, false),
        "its issuer's time is over"
    );
}

/// Failure: a flood of forged Data keeps the packet thread busy.
#[test]
fn a_flood_of_forgeries_is_verified_so_often_and_no_more() {
    let (mut world, consumer, producer) = world(&[]);
    let forger = key(2, ANCHOR);
    for number in 0..1000 {
        let of = format!("/v/{number}");
        world.sent(consumer, interest(&of, number).build());
        world.sent(
            producer,
            DataBuilder::new(&name(&of)).build(&forger).unwrap(),
        );
    }
    let store = world.forwarder.stats().content_store;
    assert_eq!(
        (store.untrusted, store.unverified, store.insertions),
        (200, 800, 0)
    );
    world.pass(Duration::from_millis(100));
    assert_eq!(
        answered(&mut world, (consumer, producer), "/v/a", &key(1, ANCHOR)),
        (true, true),
        "and then again"
    );
}

/// A consumer that asks with selectors and without waits twice, and needs the Data once; and what
/// comes in pieces and never whole is counted.
#[test]
fn data_goes_once_to_a_face_and_half_packets_are_counted() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.remote());
    world.route("/", producer, 0);
    world.sent(consumer, interest("/a/b", 1).build());
    world.sent(consumer, interest("/a", 2).can_be_prefix(true).build());
    world.sent(consumer, interest("/a/b", 3).must_be_fresh(true).build());
    let sent = world.data(producer, "/a/b");
    assert_eq!(sent.iter().filter(|sent| sent.face == consumer).count(), 1);

    let mut fragments = Vec::new();
    let data = DataBuilder::new(&name("/a/b"))
        .content(&[0; 3000])
        .build(&DigestSigner)
        .unwrap();
    let header = larder_packet::LpHeader::default();
    larder_packet::Fragmenter::new(7)
        .fragment(&header, &data, 1000, |frame| fragments.push(frame.to_vec()))
        .unwrap();
    world.sent(producer, fragments[0].clone());
    world.pass(Duration::from_secs(2));
    assert_eq!(world.forwarder.stats().drops.get(DropReason::Reassembly), 1);
    let face = world
        .forwarder
        .face_stats()
        .into_iter()
        .find(|face| face.id == producer)
        .unwrap();
    assert_eq!(face.counters.dropped, 1);
}

/// What is asked for often is found by `cs/prefixes`, with its hits.
#[test]
fn hits_are_told_by_prefix() {
    use larder_packet::mgmt::{CsPrefix, Element};
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.remote());
    world.route("/", producer, 0);
    world.forwarder.set_figures_by_prefix(2);
    for (nonce, of) in ["/v/one/a", "/v/one/a", "/v/one/b", "/v/two", "/v/one/a"]
        .iter()
        .enumerate()
    {
        if world
            .interest(consumer, of, nonce as u32)
            .iter()
            .any(|sent| sent.face == producer)
        {
            world.data(producer, of);
        }
    }
    let (content, _) = world.dataset(consumer, &name("/localhost/nfd/cs/prefixes"));
    let prefixes = CsPrefix::decode_all(&content).unwrap();
    let told = |of: &str| {
        let found = prefixes
            .iter()
            .find(|prefix| prefix.name == of.parse::<Name>().unwrap())
            .unwrap();
        (found.hits, found.misses, found.overcount)
    };
    assert_eq!((told("/v/one"), told("/v/two")), ((2, 2, 0), (0, 1, 0)));
}
