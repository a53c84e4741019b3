//! What a forwarder does to every packet, and what a producer does to make one.
//! `cargo bench -p larder-packet`.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use larder_packet::{
    Data, DataBuilder, DigestSigner, Fragmenter, HmacSigner, Interest, InterestBuilder, LpHeader,
    LpPacket, Name, PitToken, Reassembled, Reassembler, encode_lp,
};
use larder_units::Time;
use std::time::Duration;

fn main() {
    divan::main();
}

fn name() -> Name {
    "/ndn/edu/ucla/ping/video/v=1700000000000000/seg=42"
        .parse()
        .unwrap()
}

fn interest() -> Vec<u8> {
    InterestBuilder::new(name())
        .must_be_fresh(true)
        .nonce(7)
        .lifetime(Duration::from_secs(1))
        .hop_limit(64)
        .build()
}

fn data(signer: &dyn larder_packet::Signer, content: usize) -> Vec<u8> {
    let end: Name = "/seg=99".parse().unwrap();
    DataBuilder::new(&name())
        .freshness(Duration::from_secs(1))
        .final_block_id(end.as_name().last().unwrap())
        .content(&vec![7; content])
        .build(signer)
        .unwrap()
}

fn header() -> LpHeader {
    LpHeader {
        pit_token: PitToken::new(&[1; 8]),
        congestion_mark: Some(1),
        ..LpHeader::default()
    }
}

fn in_lp(packet: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    encode_lp(&header(), packet, &mut wire);
    wire
}

#[divan::bench]
fn decode_interest(bencher: Bencher<'_, '_>) {
    let wire = interest();
    bencher.bench_local(|| Interest::decode(black_box(&wire)).is_ok());
}

#[divan::bench]
fn decode_interest_in_lp(bencher: Bencher<'_, '_>) {
    let wire = in_lp(&interest());
    bencher.bench_local(|| {
        let packet = LpPacket::decode(black_box(&wire)).unwrap();
        Interest::decode(packet.fragment.unwrap()).is_ok() && packet.header.pit_token.is_some()
    });
}

#[divan::bench]
fn decode_bare_interest_as_lp(bencher: Bencher<'_, '_>) {
    let wire = interest();
    bencher.bench_local(|| {
        let packet = LpPacket::decode(black_box(&wire)).unwrap();
        Interest::decode(packet.fragment.unwrap()).is_ok()
    });
}

#[divan::bench]
fn decode_data_digest(bencher: Bencher<'_, '_>) {
    let wire = data(&DigestSigner, 8000);
    bencher.bench_local(|| Data::decode(black_box(&wire)).is_ok());
}

#[divan::bench]
fn decode_data_with_key_name(bencher: Bencher<'_, '_>) {
    let key: Name = "/ndn/edu/ucla/KEY/%01%02%03%04%05%06%07%08"
        .parse()
        .unwrap();
    let wire = data(&HmacSigner::new(&[7; 32], key), 8000);
    bencher.bench_local(|| Data::decode(black_box(&wire)).is_ok());
}

#[divan::bench]
fn prefixes_of_a_name(bencher: Bencher<'_, '_>) {
    let name = name();
    bencher.bench_local(|| black_box(name.as_name()).prefix_ends().sum::<usize>());
}

#[divan::bench]
fn encode_lp_around_data(bencher: Bencher<'_, '_>) {
    let (wire, mut out) = (data(&DigestSigner, 8000), Vec::new());
    bencher.bench_local(|| {
        out.clear();
        encode_lp(black_box(&header()), black_box(&wire), &mut out);
        out.len()
    });
}

#[divan::bench(args = [64, 1400, 8000])]
fn build_data_digest(bencher: Bencher<'_, '_>, content: usize) {
    let (name, content, mut out) = (name(), vec![7; content], Vec::new());
    bencher
        .counter(BytesCount::new(content.len()))
        .bench_local(|| {
            out.clear();
            DataBuilder::new(&name)
                .freshness(Duration::from_secs(1))
                .content(black_box(&content))
                .build_into(&DigestSigner, &mut out)
        });
}

#[divan::bench]
fn build_interest(bencher: Bencher<'_, '_>) {
    let name = name();
    bencher.bench_local(|| {
        InterestBuilder::new(black_box(&name))
            .must_be_fresh(true)
            .nonce(7)
            .build()
    });
}

#[divan::bench]
fn implicit_digest(bencher: Bencher<'_, '_>) {
    let wire = data(&DigestSigner, 8000);
    let data = Data::decode(&wire).unwrap();
    bencher
        .counter(BytesCount::new(wire.len()))
        .bench_local(|| black_box(&data).implicit_digest());
}

#[divan::bench]
fn fragment_and_reassemble(bencher: Bencher<'_, '_>) {
    let packet = data(&DigestSigner, 8000);
    let (mut fragmenter, mut reassembler) = (Fragmenter::new(0), Reassembler::new());
    bencher.bench_local(|| {
        let mut whole = 0;
        fragmenter
            .fragment(&header(), black_box(&packet), 1452, |wire| {
                let lp = LpPacket::decode(wire).unwrap();
                if let Reassembled::Done(packet, _) =
                    reassembler.accept(Time::ZERO, &lp.header, lp.fragment.unwrap())
                {
                    whole = packet.len();
                }
            })
            .unwrap();
        assert_eq!(whole, packet.len());
    });
}
