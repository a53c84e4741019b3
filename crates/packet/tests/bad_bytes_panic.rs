//! Whatever the network sends, a decoder answers with a packet or with an error at an offset inside
//! what it was given.

use crate::generators;
use larder_packet::mgmt::{self, Element};
use larder_packet::{
    ControlParameters, ControlResponse, Data, DecodeError, Interest, LpPacket, Name, NameRef,
    PublicKeyVerifier, SignatureInfo, encode_lp, tlv, verifier_from_pem, with_nonce,
};
use proptest::prelude::*;

/// Runs every decoder, and on what decodes everything that reads on.
fn decode_everything(wire: &[u8]) -> Result<(), TestCaseError> {
    let check = |result: Result<(), DecodeError>| match result {
        Err(error) if error.offset > wire.len() => Err(TestCaseError::fail(format!(
            "{error} of {} bytes",
            wire.len()
        ))),
        _ => Ok(()),
    };
    check(Interest::decode(wire).map(|interest| {
        let _ = interest.check_parameters_digest();
        let _ = interest.signed_portion();
        let _ = interest.forwarding_hints().count();
        assert!(interest.wire[interest.name_range()] == *interest.name.as_bytes());
        if let Some(at) = interest.hop_limit_offset {
            assert_eq!(Some(interest.wire[at]), interest.hop_limit);
        }
        read_name(interest.name);
        let with_nonce = with_nonce(wire, 1);
        let with_nonce = Interest::decode(&with_nonce).unwrap();
        assert_eq!(with_nonce.nonce, interest.nonce.or(Some(1)));
        assert_eq!(
            (with_nonce.name, with_nonce.lifetime),
            (interest.name, interest.lifetime)
        );
    }))?;
    check(Data::decode(wire).map(|data| {
        assert!(data.wire[data.name_range()] == *data.name.as_bytes());
        assert!(data.signed_portion().len() < wire.len());
        read_name(data.name);
    }))?;
    check(LpPacket::decode(wire).map(|packet| {
        assert_eq!(
            packet.fragment_range().map(|range| &wire[range]),
            packet.fragment
        );
    }))?;
    check(NameRef::from_value(wire).map(read_name))?;
    check(SignatureInfo::decode(wire).map(|_| ()))?;
    check(ControlParameters::decode(wire).map(|_| ()))?;
    check(ControlResponse::decode(wire).map(|_| ()))?;
    check(mgmt::ForwarderStatus::decode_fields(tlv::TlvReader::new(wire)).map(|_| ()))?;
    check(mgmt::FaceStatus::decode_all(wire).map(|_| ()))?;
    check(mgmt::FaceQueryFilter::decode(wire).map(|_| ()))?;
    check(mgmt::FaceEventNotification::decode(wire).map(|_| ()))?;
    check(mgmt::ChannelStatus::decode_all(wire).map(|_| ()))?;
    check(mgmt::FibEntry::decode_all(wire).map(|_| ()))?;
    check(mgmt::RibEntry::decode_all(wire).map(|_| ()))?;
    check(mgmt::StrategyChoice::decode_all(wire).map(|_| ()))?;
    check(mgmt::CsInfo::decode_all(wire).map(|_| ()))?;
    check(mgmt::CsObject::decode_all(wire).map(|_| ()))?;
    check(Data::decode(wire).map(|data| {
        let _ = mgmt::PrefixAnnouncement::of_data(&data);
    }))?;
    let _ = tlv::frame(wire, 8800);
    let _ = PublicKeyVerifier::from_spki(wire);
    Ok(())
}

fn read_name(name: NameRef<'_>) {
    assert_eq!(
        name.to_string().parse::<Name>().as_ref().map(Name::as_name),
        Ok(name)
    );
    assert_eq!(name.prefix_ends().count(), name.component_count());
    let (stripped, _) = name.strip_implicit_digest();
    assert!(name.starts_with(stripped));
}

/// Valid packets of all kinds.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        generators::interest().prop_map(|interest| interest.build()),
        generators::data().prop_map(|data| data.build()),
        (generators::header(), generators::interest()).prop_map(|(header, interest)| {
            let mut wire = Vec::new();
            encode_lp(&header, &interest.build(), &mut wire);
            wire
        }),
        generators::name().prop_map(|name| {
            let parameters = ControlParameters {
                name: Some(name.clone()),
                strategy: Some(name),
                cost: Some(1),
                ..Default::default()
            };
            parameters.encode()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn on_noise(wire in generators::bytes(80)) {
        decode_everything(&wire)?;
    }

    #[test]
    fn on_noise_in_the_right_wrapping(typ in prop::sample::select(vec![5u8, 6, 7, 22, 44, 100, 101, 104, 128, 130, 150, 192]), inside in generators::bytes(80)) {
        let mut wire = vec![typ, inside.len() as u8];
        wire.extend(inside);
        decode_everything(&wire)?;
    }

    #[test]
    fn on_damaged_packets(
        mut wire in packet(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        for (at, byte) in damage {
            let at = at.index(wire.len());
            wire[at] = byte;
        }
        if let Some(cut) = cut {
            wire.truncate(cut.index(wire.len()));
        }
        decode_everything(&wire)?;
    }

    #[test]
    fn on_damaged_keys(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        for key in [include_str!("keys/p256.pem"), include_str!("keys/rsa2048.pub.pem")] {
            let mut text = key.as_bytes().to_vec();
            let at = at.index(text.len());
            text[at] = byte;
            let _ = verifier_from_pem(&String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn on_any_text(text in ".*", uri in "(/[a-z=%.0-9]{0,8}){0,4}") {
        let _ = text.parse::<Name>();
        let _ = uri.parse::<Name>();
        let _ = verifier_from_pem(&text);
    }
}
