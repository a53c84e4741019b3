//! NDNLPv2 decoding: the fragment's range is the fragment, and what was decoded encodes to
//! something that decodes alike.
#![no_main]

use larder_packet::{LpPacket, encode_lp, lp_overhead};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|wire: &[u8]| {
    let packet = match LpPacket::decode(wire) {
        Ok(packet) => packet,
        Err(error) => {
            assert!(error.offset <= wire.len(), "{error}");
            return;
        }
    };
    assert_eq!(
        packet.fragment_range().map(|range| &wire[range]),
        packet.fragment
    );
    // An empty fragment says the same as none: IDLE, and is not written.
    let Some(fragment) = packet.fragment.filter(|fragment| !fragment.is_empty()) else {
        return;
    };
    let mut encoded = Vec::new();
    encode_lp(&packet.header, fragment, &mut encoded);
    assert_eq!(
        encoded.len(),
        fragment.len() + lp_overhead(&packet.header, fragment.len())
    );
    if !packet.header.is_empty() {
        let again = LpPacket::decode(&encoded).expect("what we encode decodes");
        assert_eq!(
            (again.header, again.fragment),
            (packet.header, packet.fragment)
        );
    }
});
