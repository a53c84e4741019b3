//! Which shards must have a frame: there are such shards, and an Interest is at home where the Data
//! of its name and of its versions are.
#![no_main]

use larder_forwarder::Dispatch;
use larder_packet::{Data, DataBuilder, DigestSigner, Interest, LpPacket};
use libfuzzer_sys::fuzz_target;

const SHARDS: usize = 5;

fuzz_target!(|input: (u64, &[u8])| {
    let (pending, frame) = input;
    let dispatch = Dispatch::new([1, 2], SHARDS);
    let homes = dispatch.homes(frame, |_| pending);
    if let Some(homes) = homes {
        assert!(homes.iter().next().is_some() && homes.iter().all(|shard| shard < SHARDS));
    }
    let packet = LpPacket::decode(frame)
        .ok()
        .filter(|packet| packet.header.frag_count == 1);
    let Some(packet) = packet.and_then(|packet| packet.fragment) else {
        return;
    };
    if Data::decode(packet).is_ok() {
        assert!(homes.is_some(), "what can be read has a home");
    }
    let Ok(interest) = Interest::decode(packet) else {
        return;
    };
    let mut name = interest.name.strip_implicit_digest().0.to_name();
    for _ in 0..2 {
        let Ok(data) = DataBuilder::new(name.as_name())
            .content(b"x")
            .build(&DigestSigner)
        else {
            return;
        };
        let meet = dispatch.homes(&data, |_| 0);
        assert!(name.as_name().is_empty() || meet == homes, "{name}");
        name.push_version(1);
    }
});
