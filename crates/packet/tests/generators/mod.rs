//! Random names, headers and packets for the property tests.
#![allow(dead_code, reason = "each test file uses some of them")]

use larder_packet::{
    DataBuilder, DigestSigner, InterestBuilder, LpHeader, NackReason, Name, PathRecord, PitToken,
    SignatureFreshness,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::time::Duration;

pub fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..=most)
}

/// Type and value of a component, of all kinds that a name may have but parameters digests.
pub fn component() -> impl Strategy<Value = (u16, Vec<u8>)> {
    prop_oneof![
        6 => (Just(8), bytes(12)),
        2 => (Just(8), "[.a=%/]{0,5}".prop_map(String::into_bytes)),
        2 => (prop_oneof![Just(50u16), Just(52), Just(54), Just(56), Just(58)], bytes(9)),
        1 => (3u16..=u16::MAX, bytes(5)),
        1 => (Just(8), bytes(300)),
        1 => (Just(1), vec(any::<u8>(), 32)),
    ]
}

pub fn name_of(components: &[(u16, Vec<u8>)]) -> Name {
    let mut name = Name::root();
    for (typ, value) in components {
        name.push(*typ, value);
    }
    name
}

pub fn name() -> impl Strategy<Value = Name> {
    vec(component(), 0..8).prop_map(|components| name_of(&components))
}

pub fn name_with_a_component() -> impl Strategy<Value = Name> {
    vec(component(), 1..8).prop_map(|components| name_of(&components))
}

/// What an Interest is built from.
#[derive(Clone, Debug)]
pub struct InterestFields {
    pub name: Name,
    pub can_be_prefix: bool,
    pub must_be_fresh: bool,
    pub forwarding_hint: Vec<Name>,
    pub nonce: Option<u32>,
    pub lifetime: Option<u64>,
    pub hop_limit: Option<u8>,
    pub parameters: Option<Vec<u8>>,
    pub signed: bool,
}

pub fn interest() -> impl Strategy<Value = InterestFields> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let numbers = (
        any::<Option<u32>>(),
        option::of(0u64..100_000),
        any::<Option<u8>>(),
    );
    (
        name_with_a_component(),
        flags,
        vec(name(), 0..3),
        numbers,
        option::of(bytes(300)),
    )
        .prop_map(
            |(name, flags, forwarding_hint, (nonce, lifetime, hop_limit), parameters)| {
                InterestFields {
                    name,
                    can_be_prefix: flags.0,
                    must_be_fresh: flags.1,
                    signed: flags.2,
                    forwarding_hint,
                    nonce,
                    lifetime,
                    hop_limit,
                    parameters,
                }
            },
        )
}

impl InterestFields {
    pub fn build(&self) -> Vec<u8> {
        let mut builder = InterestBuilder::new(&self.name)
            .can_be_prefix(self.can_be_prefix)
            .must_be_fresh(self.must_be_fresh)
            .forwarding_hint(&self.forwarding_hint);
        if let Some(nonce) = self.nonce {
            builder = builder.nonce(nonce);
        }
        if let Some(lifetime) = self.lifetime {
            builder = builder.lifetime(Duration::from_millis(lifetime));
        }
        if let Some(hops) = self.hop_limit {
            builder = builder.hop_limit(hops);
        }
        if let Some(parameters) = &self.parameters {
            builder = builder.application_parameters(parameters);
        }
        if self.signed {
            let freshness = SignatureFreshness {
                nonce: Some(&[1, 2, 3]),
                time: Some(1_700_000_000_000),
                seq_num: Some(9),
            };
            return builder.sign(&DigestSigner, freshness).unwrap();
        }
        builder.build()
    }
}

/// What a Data is built from.
#[derive(Clone, Debug)]
pub struct DataFields {
    pub name: Name,
    pub content_type: Option<u64>,
    pub freshness: Option<u64>,
    pub final_block: Option<Name>,
    pub content: Vec<u8>,
}

pub fn data() -> impl Strategy<Value = DataFields> {
    let final_block = option::of(component().prop_map(|component| name_of(&[component])));
    (
        name(),
        any::<Option<u64>>(),
        option::of(0u64..1 << 40),
        final_block,
        bytes(600),
    )
        .prop_map(
            |(name, content_type, freshness, final_block, content)| DataFields {
                name,
                content_type,
                freshness,
                final_block,
                content,
            },
        )
}

impl DataFields {
    pub fn build(&self) -> Vec<u8> {
        let mut builder = DataBuilder::new(&self.name).content(&self.content);
        if let Some(content_type) = self.content_type {
            builder = builder.content_type(content_type);
        }
        if let Some(freshness) = self.freshness {
            builder = builder.freshness(Duration::from_millis(freshness));
        }
        if let Some(name) = &self.final_block {
            builder = builder.final_block_id(name.as_name().last().unwrap());
        }
        builder.build(&DigestSigner).unwrap()
    }
}

/// A header without the numbers of fragments.
pub fn header() -> impl Strategy<Value = LpHeader> {
    let nack = option::of(any::<u64>().prop_map(NackReason::from_code));
    let path = any::<(u32, u64, u64)>().prop_map(|(caches, capacity, centrality)| PathRecord {
        caches,
        capacity,
        centrality,
    });
    let numbers = (
        any::<Option<u64>>(),
        any::<Option<u64>>(),
        any::<Option<u64>>(),
        any::<Option<u64>>(),
    );
    (
        option::of(bytes(32)),
        option::of(prop_oneof![
            Just(NackReason::None),
            Just(NackReason::NoRoute)
        ]),
        nack,
        numbers,
        any::<[bool; 2]>(),
        option::of(path),
    )
        .prop_map(
            |(
                token,
                usual,
                odd,
                (congestion_mark, incoming_face, next_hop_face, interest_rate),
                flags,
                path,
            )| {
                LpHeader {
                    pit_token: token.and_then(|token| PitToken::new(&token)),
                    nack: usual.or(odd),
                    congestion_mark,
                    incoming_face,
                    next_hop_face,
                    interest_rate,
                    no_cache: flags[0],
                    non_discovery: flags[1],
                    path,
                    ..LpHeader::default()
                }
            },
        )
}
