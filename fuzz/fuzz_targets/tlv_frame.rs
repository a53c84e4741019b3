//! Stream framing: whatever arrives, a frame is a packet that lies within the buffer and within the
//! limit, and waiting is only for more bytes.
#![no_main]

use larder_packet::LpPacket;
use larder_packet::tlv::frame;
use libfuzzer_sys::fuzz_target;

const MAX: usize = 8800;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some(length)) = frame(rest, MAX) {
        assert!(length >= 2 && length <= rest.len() && length <= MAX);
        assert!(
            [5, 6, 100].contains(&rest[0]),
            "an element of another type is skipped"
        );
        LpPacket::is_packet(&rest[..length]);
        // A shorter buffer never yields another frame: framing does not look past the end of the
        // packet.
        assert_eq!(frame(&rest[..length], MAX), Ok(Some(length)));
        rest = &rest[length..];
    }
});
