//! Commands of people who may not command: without the key, with another's, with yesterday's, or
//! played back.

use super::world::{World, response};
use larder_forwarder::{Authorized, FaceId, Rule};
use larder_packet::tlv::Tlv;
use larder_packet::{
    Certificate, CertificateError, ControlParameters, DigestSigner, Ed25519Signer, Interest,
    InterestBuilder, Name, SignatureFreshness, Signer, SystemRandom, signer_from_pem, tlv, types,
};
use larder_units::Time;
use std::time::Duration;

const OPERATOR: &str = include_str!("../keys/ed25519.pem");
const STRANGER: &str = include_str!("../keys/p256.pem");

fn key_name() -> Name {
    "/operator/KEY/1".parse().unwrap()
}

fn signer(pem: &str) -> Box<dyn Signer> {
    signer_from_pem(pem, key_name(), &SystemRandom::new()).unwrap()
}

/// A certificate of the operator's key: what it is called, what it holds, and when.
fn certificate(name: &str, content_type: u64, not_before: &str, not_after: &str) -> Vec<u8> {
    let pem: String = OPERATOR
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect();
    let pkcs8 = base64(&pem);
    let key = Ed25519Signer::from_pkcs8(&pkcs8, key_name()).unwrap();
    // SubjectPublicKeyInfo of Ed25519 (RFC 8410).
    let mut spki = vec![
        0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
    ];
    spki.extend_from_slice(key.public_key());
    let mut wire = Vec::new();
    tlv::write_nested(&mut wire, types::DATA, 0, |out| {
        tlv::write_tlv(out, types::NAME, name.parse::<Name>().unwrap().as_bytes());
        tlv::write_nested(out, types::META_INFO, 0, |out| {
            tlv::write_nni(out, types::CONTENT_TYPE, content_type)
        });
        tlv::write_tlv(out, types::CONTENT, &spki);
        tlv::write_nested(out, types::SIGNATURE_INFO, 0, |out| {
            tlv::write_nni(out, types::SIGNATURE_TYPE, types::ED25519);
            tlv::write_nested(out, types::VALIDITY_PERIOD, 0, |out| {
                tlv::write_tlv(out, types::NOT_BEFORE, not_before.as_bytes());
                tlv::write_tlv(out, types::NOT_AFTER, not_after.as_bytes());
            });
        });
        tlv::write_tlv(out, types::SIGNATURE_VALUE, &[0; 64]);
    });
    wire
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| {
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
            .iter()
            .position(|d| *d == byte)
    };
    let sixes: Vec<u32> = text
        .bytes()
        .filter_map(digit)
        .map(|six| six as u32)
        .collect();
    let word = |chunk: &[u32]| {
        (0..4).fold(0, |word, at| {
            word << 6 | chunk.get(at).copied().unwrap_or(0)
        })
    };
    sixes
        .chunks(4)
        .flat_map(|chunk| word(chunk).to_be_bytes()[1..chunk.len()].to_vec())
        .collect()
}

const NAME: &str = "/operator/KEY/1/self/v=1";

fn trusted() -> Authorized {
    let wire = certificate(
        NAME,
        types::CONTENT_KEY,
        "19700101T000000",
        "19700102T000000",
    );
    Authorized::Certificate(Box::new(Certificate::decode(&wire).unwrap()))
}

fn world_that_trusts(signer: Authorized, localhop: bool, modules: Option<&[&str]>) -> World {
    let mut world = World::new();
    let modules =
        modules.map(|modules| modules.iter().map(|module| (*module).to_owned()).collect());
    world.forwarder.set_rules(vec![Rule {
        signer,
        localhop,
        modules,
    }]);
    world.now = Time::from_secs(1000);
    world
}

struct Command<'a> {
    prefix: &'a str,
    signer: &'a dyn Signer,
    time: Option<u64>,
    nonce: u8,
}

fn status(world: &mut World, face: FaceId, command: Command<'_>) -> u64 {
    let Command {
        prefix,
        signer,
        time,
        nonce,
    } = command;
    let mut name: Name = prefix.parse().unwrap();
    name.push_generic(
        &ControlParameters {
            name: Some("/a".parse().unwrap()),
            ..Default::default()
        }
        .encode(),
    );
    let freshness = SignatureFreshness {
        nonce: Some(&[nonce]),
        time,
        ..SignatureFreshness::default()
    };
    let frame = InterestBuilder::new(name)
        .nonce(nonce.into())
        .sign(signer, freshness)
        .unwrap();
    let sent = world.sent(face, frame);
    response(&sent, face).status_code
}

const REGISTER: &str = "/localhost/nfd/rib/register";
const NOW: u64 = 1_000_000;

#[test]
fn only_the_trusted_key_commands() {
    let mut world = world_that_trusts(trusted(), false, None);
    let application = world.local();
    let mut said = |signer: &dyn Signer, time, nonce| {
        status(
            &mut world,
            application,
            Command {
                prefix: REGISTER,
                signer,
                time,
                nonce,
            },
        )
    };
    assert_eq!(said(&*signer(OPERATOR), Some(NOW), 1), 200);
    assert_eq!(
        said(&*signer(STRANGER), Some(NOW), 2),
        403,
        "another key under the same name"
    );
    assert_eq!(said(&DigestSigner, Some(NOW), 3), 403);
    assert_eq!(said(&*signer(OPERATOR), None, 4), 403, "it says no time");
    assert_eq!(said(&*signer(OPERATOR), Some(NOW + 121_000), 5), 403);
    assert_eq!(said(&*signer(OPERATOR), Some(NOW - 121_000), 6), 403);
    // Two programs with one key in one millisecond: NFD refuses the second.
    assert_eq!(said(&*signer(OPERATOR), Some(NOW), 7), 200);
}

#[test]
fn a_command_is_not_played_back_from_another_face() {
    let mut world = world_that_trusts(trusted(), false, None);
    let (operator, thief) = (world.local(), world.local());
    let key = signer(OPERATOR);
    let command = || Command {
        prefix: REGISTER,
        signer: &*key,
        time: Some(NOW),
        nonce: 1,
    };
    assert_eq!(status(&mut world, operator, command()), 200);
    assert_eq!(
        status(&mut world, operator, command()),
        200,
        "the sender did not get the answer, and asks again"
    );
    assert_eq!(status(&mut world, thief, command()), 403);
    world.pass(Duration::from_secs(100));
    assert_eq!(status(&mut world, thief, command()), 403);
    world.pass(Duration::from_secs(100));
    let another = world.local();
    assert_eq!(status(&mut world, another, command()), 403);
}

/// The same signed bytes under another name: something ignorable stands behind the signature.
fn with_rider(frame: &[u8]) -> Vec<u8> {
    let interest = Interest::decode(frame).unwrap();
    let element = Tlv::only(frame, types::INTEREST).unwrap();
    let parameters = element
        .children()
        .flatten()
        .find(|child| child.typ == types::APPLICATION_PARAMETERS)
        .unwrap();
    let mut tail = frame[parameters.offset..].to_vec();
    tlv::write_tlv(&mut tail, 240, b"");
    let digest = DigestSigner.sign(&[&tail]).unwrap();
    let mut name = interest.name.without_last().as_bytes().to_vec();
    tlv::write_tlv(&mut name, types::PARAMETERS_SHA256_DIGEST.into(), &digest);
    let mut wire = Vec::new();
    tlv::write_nested(&mut wire, types::INTEREST, 0, |out| {
        tlv::write_tlv(out, types::NAME, &name);
        tlv::write_tlv(out, types::NONCE, &[9; 4]);
        out.extend_from_slice(&tail);
    });
    wire
}

#[test]
fn a_signature_is_not_used_again_under_another_name() {
    let mut world = world_that_trusts(trusted(), false, None);
    let (operator, thief) = (world.local(), world.local());
    let mut name: Name = REGISTER.parse().unwrap();
    name.push_generic(
        &ControlParameters {
            name: Some("/a".parse().unwrap()),
            ..Default::default()
        }
        .encode(),
    );
    let freshness = SignatureFreshness {
        nonce: Some(&[1]),
        time: Some(NOW),
        ..SignatureFreshness::default()
    };
    let frame = InterestBuilder::new(name)
        .nonce(1)
        .sign(&*signer(OPERATOR), freshness)
        .unwrap();
    let ridden = with_rider(&frame);
    assert_eq!(
        response(&world.sent(operator, frame), operator).status_code,
        200
    );
    assert_eq!(
        response(&world.sent(thief, ridden.clone()), thief).status_code,
        403
    );
    let mut world = world_that_trusts(trusted(), false, None);
    let thief = world.local();
    assert_eq!(
        response(&world.sent(thief, ridden), thief).status_code,
        200,
        "the rider alone is no reason to refuse"
    );
}

#[test]
fn an_older_command_is_not_played_back_with_a_longer_name() {
    let mut world = world_that_trusts(trusted(), false, None);
    let (operator, thief) = (world.local(), world.local());
    let key = signer(OPERATOR);
    let mut name: Name = REGISTER.parse().unwrap();
    name.push_generic(
        &ControlParameters {
            name: Some("/a".parse().unwrap()),
            ..Default::default()
        }
        .encode(),
    );
    name.push_generic(&NOW.to_be_bytes());
    name.push_generic(&[1; 8]);
    let mut info = Vec::new();
    tlv::write_nested(&mut info, types::SIGNATURE_INFO, 0, |out| {
        tlv::write_nni(out, types::SIGNATURE_TYPE, key.signature_type());
        tlv::write_nested(out, types::KEY_LOCATOR, 0, |out| {
            tlv::write_tlv(out, types::NAME, key_name().as_name().as_bytes());
        });
    });
    name.push_generic(&info);
    let mut value = Vec::new();
    tlv::write_tlv(
        &mut value,
        types::SIGNATURE_VALUE,
        &key.sign(&[name.as_name().as_bytes()]).unwrap(),
    );
    name.push_generic(&value);
    let sent = world.sent(operator, InterestBuilder::new(&name).nonce(1).build());
    assert_eq!(response(&sent, operator).status_code, 200);
    name.push_generic(b"again");
    let sent = world.sent(thief, InterestBuilder::new(&name).nonce(2).build());
    assert_eq!(response(&sent, thief).status_code, 403);
}

#[test]
fn a_certificate_that_has_ended_commands_no_more() {
    let mut world = world_that_trusts(trusted(), false, None);
    let application = world.local();
    world.now = Time::from_secs(86_401);
    let command = Command {
        prefix: REGISTER,
        signer: &*signer(OPERATOR),
        time: Some(86_401_000),
        nonce: 1,
    };
    assert_eq!(status(&mut world, application, command), 403);
}

#[test]
fn a_key_commands_the_modules_that_it_may() {
    let mut world = world_that_trusts(trusted(), false, Some(&["rib"]));
    let application = world.local();
    let key = signer(OPERATOR);
    let mut said = |prefix, nonce| {
        status(
            &mut world,
            application,
            Command {
                prefix,
                signer: &*key,
                time: Some(NOW),
                nonce,
            },
        )
    };
    assert_eq!(said(REGISTER, 1), 200);
    assert_eq!(said("/localhost/nfd/cs/erase", 2), 403);
    assert_eq!(said("/localhost/nfd/fib/add-nexthop", 3), 403);
}

#[test]
fn a_rule_for_other_machines_is_none_for_this_one() {
    let mut world = world_that_trusts(trusted(), true, None);
    let (remote, local) = (world.remote(), world.local());
    let key = signer(OPERATOR);
    let command = |prefix, nonce| Command {
        prefix,
        signer: &*key,
        time: Some(NOW),
        nonce,
    };
    assert_eq!(
        status(&mut world, remote, command("/localhop/nfd/rib/register", 1)),
        200
    );
    assert_eq!(status(&mut world, local, command(REGISTER, 2)), 403);
    let digest = Command {
        signer: &DigestSigner,
        ..command("/localhop/nfd/rib/register", 3)
    };
    assert_eq!(status(&mut world, remote, digest), 403);
}

#[test]
fn what_is_no_certificate_is_refused() {
    let refused = |name, content_type, from, to| {
        Certificate::decode(&certificate(name, content_type, from, to)).unwrap_err()
    };
    let (from, to) = ("19700101T000000", "19700102T000000");
    assert_eq!(
        refused(NAME, types::CONTENT_BLOB, from, to),
        CertificateError::NotACertificate
    );
    assert_eq!(
        refused("/operator/1/self/v=1", types::CONTENT_KEY, from, to),
        CertificateError::NotACertificate
    );
    assert_eq!(
        refused(NAME, types::CONTENT_KEY, from, "tomorrow"),
        CertificateError::Validity
    );
    assert!(matches!(
        Certificate::decode(&[6, 0]),
        Err(CertificateError::Packet(_))
    ));
    assert_eq!(
        Certificate::from_base64("%").unwrap_err(),
        CertificateError::NotBase64
    );
    let good = Certificate::decode(&certificate(NAME, types::CONTENT_KEY, from, to)).unwrap();
    for (locator, meant) in [
        (NAME, true),
        ("/operator/KEY/1", true),
        ("/operator/KEY/1/self", true),
        ("/operator", false),
    ] {
        assert_eq!(
            good.is_meant_by(locator.parse::<Name>().unwrap().as_name()),
            meant,
            "{locator}"
        );
    }
}
