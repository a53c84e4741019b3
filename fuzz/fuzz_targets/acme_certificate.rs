//! The facts that an ACME client reads in a certificate.

#![no_main]

use larder_acme::CertificateFacts;

libfuzzer_sys::fuzz_target!(|der: &[u8]| {
    if let Some(facts) = CertificateFacts::read(der) {
        assert!(facts.serial.len() < der.len());
        let _ = facts.validity.lifetime();
    }
});
