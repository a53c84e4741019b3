//! What a builder was told, a decoder must say.

use crate::generators::{self, name_of};
use larder_packet::{
    ControlParameters, ControlResponse, Data, DigestVerifier, Interest, LpHeader, LpPacket, Name,
    NameRef, encode_lp, lp_overhead, types, with_nonce,
};
use proptest::prelude::*;
use std::time::Duration;

proptest! {
    #[test]
    fn of_an_interest(fields in generators::interest()) {
        let wire = fields.build();
        let interest = Interest::decode(&wire).unwrap();
        let with_digest = fields.parameters.is_some() || fields.signed;
        let name = if with_digest { interest.name.without_last() } else { interest.name };
        prop_assert_eq!(name, fields.name.as_name());
        prop_assert_eq!(interest.check_parameters_digest(), Ok(()));
        prop_assert_eq!(interest.can_be_prefix, fields.can_be_prefix);
        prop_assert_eq!(interest.must_be_fresh, fields.must_be_fresh);
        prop_assert_eq!(interest.forwarding_hints().map(|name| name.to_name()).collect::<Vec<_>>(), fields.forwarding_hint);
        prop_assert_eq!(interest.nonce, fields.nonce);
        prop_assert_eq!(interest.lifetime, fields.lifetime.map(Duration::from_millis));
        prop_assert_eq!(interest.lifetime_or_default(), Duration::from_millis(fields.lifetime.unwrap_or(4000)));
        prop_assert_eq!(interest.hop_limit, fields.hop_limit);
        let parameters = fields.parameters.or(fields.signed.then(Vec::new));
        prop_assert_eq!(interest.application_parameters, parameters.as_deref());
        let info = interest.signature_info();
        prop_assert_eq!(info.map(|info| (info.signature_type, info.time, info.seq_num)), fields.signed.then_some((0, Some(1_700_000_000_000), Some(9))));
        prop_assert_eq!(interest.verify(&DigestVerifier).is_ok(), fields.signed);
    }

    #[test]
    fn of_an_interest_that_gets_a_nonce(fields in generators::interest(), nonce in any::<u32>()) {
        let wire = fields.build();
        let with = with_nonce(&wire, nonce);
        let interest = Interest::decode(&with).unwrap();
        prop_assert_eq!(interest.nonce, fields.nonce.or(Some(nonce)));
        // As if it had been built with it, and so with every other field, digests and signature
        // included.
        let expected = generators::InterestFields { nonce: interest.nonce, ..fields };
        prop_assert_eq!(&with, &expected.build());
    }

    #[test]
    fn of_a_data(fields in generators::data()) {
        let wire = fields.build();
        let data = Data::decode(&wire).unwrap();
        prop_assert_eq!(data.name, fields.name.as_name());
        prop_assert_eq!(data.content_type, fields.content_type);
        prop_assert_eq!(data.freshness, fields.freshness.map(Duration::from_millis));
        prop_assert_eq!(data.final_block_id, fields.final_block.as_ref().and_then(|name| name.as_name().last()));
        prop_assert_eq!(data.content, &fields.content[..]);
        prop_assert_eq!(data.verify(&DigestVerifier), Ok(()));
    }

    #[test]
    fn of_a_link_header(header in generators::header(), numbers in prop::option::of((any::<u64>(), 0u64..400, 1u64..400)), packet in generators::data()) {
        let mut header = header;
        if let Some((sequence, index, more)) = numbers {
            header = LpHeader { sequence: Some(sequence), frag_index: index, frag_count: index + more, ..header };
        }
        let packet = packet.build();
        let mut wire = vec![0xEE];
        encode_lp(&header, &packet, &mut wire);
        let wire = &wire[1..];
        prop_assert_eq!(wire.len(), packet.len() + lp_overhead(&header, packet.len()));
        let decoded = LpPacket::decode(wire).unwrap();
        prop_assert_eq!(decoded.header, header);
        prop_assert_eq!(decoded.fragment, Some(&packet[..]));
        prop_assert_eq!(decoded.fragment_range().map(|range| &wire[range]), Some(&packet[..]));
    }

    #[test]
    fn of_a_command(name in generators::name(), number in any::<[Option<u64>; 6]>(), uri in ".{0,20}", millis in any::<Option<u32>>()) {
        let [face_id, origin, cost, flags, mask, mtu] = number;
        let expiration = millis.map(|millis| Duration::from_millis(millis.into()));
        let parameters = ControlParameters {
            name: Some(name.clone()), strategy: Some(name), uri: Some(uri.clone()), local_uri: Some(uri.clone()),
            face_id, origin, cost, flags, mask, mtu, capacity: cost, count: flags, face_persistency: mask, expiration,
            base_congestion_marking_interval: origin.map(Duration::from_nanos), default_congestion_threshold: mtu,
            policy: cost.map(|_| uri.clone()), capacity_bytes: mask,
        };
        prop_assert_eq!(ControlParameters::decode(&parameters.encode()), Ok(parameters.clone()));
        let response = ControlResponse { status_code: 200, status_text: uri, body: cost.map(|_| parameters) };
        prop_assert_eq!(ControlResponse::decode(&response.encode()), Ok(response));
    }

    #[test]
    fn of_a_name(components in prop::collection::vec(generators::component(), 0..8)) {
        let name = name_of(&components);
        let borrowed = NameRef::from_value(name.as_bytes()).unwrap();
        let read: Vec<_> = borrowed.components().map(|component| (component.typ, component.value.to_vec())).collect();
        prop_assert_eq!(&read, &components);
        prop_assert_eq!(borrowed.component_count(), components.len());
        for count in 0..=components.len() + 1 {
            let prefix = name_of(&components[..count.min(components.len())]);
            prop_assert_eq!(borrowed.prefix(count), prefix.as_name());
            let mut cut = name.clone();
            cut.truncate(count);
            prop_assert_eq!(&cut, &prefix);
            prop_assert!(borrowed.starts_with(prefix.as_name()));
        }
        let ends: Vec<_> = (1..=components.len()).map(|count| borrowed.prefix(count).as_bytes().len()).collect();
        prop_assert_eq!(borrowed.prefix_ends().collect::<Vec<_>>(), ends);
        let last = components.last().filter(|(typ, _)| *typ == types::IMPLICIT_SHA256_DIGEST);
        let (stripped, digest) = borrowed.strip_implicit_digest();
        prop_assert_eq!(digest.map(|digest| digest.to_vec()), last.map(|(_, value)| value.clone()));
        prop_assert_eq!(stripped.component_count(), components.len() - usize::from(last.is_some()));
    }

    #[test]
    fn of_a_uri(name in generators::name()) {
        let text = name.to_string();
        prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{}", text);
        prop_assert_eq!(text.parse::<Name>(), Ok(name.clone()));
        prop_assert_eq!(format!("ndn:{text}").parse::<Name>(), Ok(name));
    }
}

#[test]
fn digest_bytes_within_the_last_component_are_no_digest() {
    // A component whose last 34 bytes look like a digest component.
    let mut name = Name::root();
    let mut value = vec![7, 1, 32];
    value.extend([9; 32]);
    name.push_generic(&value);
    assert_eq!(
        name.as_name().strip_implicit_digest(),
        (name.as_name(), None)
    );
}

#[test]
fn a_nonce_is_not_put_before_what_must_stand_before_it() {
    // A known element that is ignored, as it stands too early, and then the ForwardingHint: the
    // nonce goes behind the latter.
    let wire = include_bytes!("../../../fuzz/seeds/interest/ignored-element-before-nonce");
    let before = Interest::decode(wire).unwrap();
    assert_eq!(before.nonce, None);
    let with = with_nonce(wire, 7);
    let after = Interest::decode(&with).unwrap();
    assert_eq!(
        (after.nonce, after.forwarding_hint),
        (Some(7), before.forwarding_hint)
    );
}
