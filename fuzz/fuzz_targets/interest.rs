//! Interest decoding: an error lies inside the input; what decodes can be asked everything, and
//! decodes again after the changes that a forwarder makes.
#![no_main]

use larder_packet::{DigestVerifier, Interest, with_nonce};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|wire: &[u8]| {
    let interest = match Interest::decode(wire) {
        Ok(interest) => interest,
        Err(error) => {
            assert!(error.offset <= wire.len(), "{error}");
            assert!(!error.to_string().is_empty() && !error.kind.reason().is_empty());
            return;
        }
    };
    assert!(interest.name.component_count() >= 1);
    assert_eq!(&wire[interest.name_range()], interest.name.as_bytes());
    for name in interest.forwarding_hints() {
        drop(name.to_string());
    }
    let _ = interest.check_parameters_digest();
    let _ = interest.verify(&DigestVerifier);
    let _ = interest.lifetime_or_default();

    if let Some(offset) = interest.hop_limit_offset {
        assert_eq!(Some(wire[offset]), interest.hop_limit);
        let mut forwarded = wire.to_vec();
        forwarded[offset] = forwarded[offset].wrapping_sub(1);
        assert_eq!(
            Interest::decode(&forwarded).map(|i| i.name),
            Ok(interest.name)
        );
    }
    if interest.nonce.is_none() {
        let added = with_nonce(wire, 0x0102_0304);
        let again = Interest::decode(&added).expect("an Interest with a nonce added decodes");
        assert_eq!(
            (again.name, again.nonce),
            (interest.name, Some(0x0102_0304))
        );
    }
});
