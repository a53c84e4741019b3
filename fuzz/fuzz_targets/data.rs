//! Data decoding: an error lies inside the input; ranges point at what they name.
#![no_main]

use larder_packet::{Data, DigestVerifier};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|wire: &[u8]| {
    let data = match Data::decode(wire) {
        Ok(data) => data,
        Err(error) => {
            assert!(error.offset <= wire.len(), "{error}");
            assert!(!error.to_string().is_empty() && !error.kind.reason().is_empty());
            return;
        }
    };
    assert_eq!(&wire[data.name_range()], data.name.as_bytes());
    assert!(data.content.len() + data.signature_value.len() <= wire.len());
    let _ = data.name.to_string();
    let _ = data
        .final_block_id
        .map(|component| (component.as_segment(), component.to_string()));
    let _ = data.implicit_digest();
    let _ = data.verify(&DigestVerifier);
});
