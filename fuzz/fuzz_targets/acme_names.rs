//! Hosts, authorities and tokens of ACME, as names of files; and the file of failed orders.

#![no_main]

use larder_acme::{CertificateHost, Failures, account_file_name, is_token};

fn is_plain(name: &str) -> bool {
    !name.starts_with('.') && name.len() < 256 && !name.contains(['/', '\0', '\\'])
}

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(host) = CertificateHost::parse(text) {
        let names = [
            host.file_name(),
            host.lock_name(),
            host.failures_name(),
            host.challenge_name(),
        ];
        for name in names {
            assert!(is_plain(&name) && !is_token(&name), "{name}");
        }
        let again = CertificateHost::parse(host.as_str());
        assert_eq!(again.as_ref(), Ok(&host));
        assert!(!host.challenge_server_name().is_empty());
    }
    assert!(is_plain(&account_file_name(text)));
    assert!(!is_token(text) || is_plain(text));
    let failures = Failures::from_text(text);
    assert_eq!(Failures::from_text(&failures.to_text()), failures);
});
