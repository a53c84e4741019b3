//! What comes before a request, or describes its client: the header of the PROXY protocol is read
//! the same whole and in pieces, within its bounds; and an address in `X-Forwarded-For` or
//! `Forwarded` is believed only if trusted proxies alone stand behind it. The input is both.
#![no_main]

use larder_host::Peer;
use larder_proxy::TrustedProxies;
use larder_proxy::proxy_protocol::{Decoded, Header, LONGEST, decode};
use libfuzzer_sys::fuzz_target;
use std::net::SocketAddr;

fuzz_target!(|bytes: &[u8]| {
    match decode(bytes) {
        Decoded::Complete(Header { client, length }) => {
            assert!(length <= bytes.len() && length <= LONGEST);
            assert_eq!(
                decode(&bytes[..length]),
                Decoded::Complete(Header { client, length })
            );
            assert!((0..length).all(|cut| decode(&bytes[..cut]) == Decoded::Partial));
        }
        Decoded::Partial => assert!(bytes.len() < LONGEST),
        Decoded::Invalid => assert!(
            (0..bytes.len()).all(|cut| !matches!(decode(&bytes[..cut]), Decoded::Complete(_)))
        ),
    }
    let trusted = TrustedProxies::parse(["10.0.0.0/8"]).expect("a block");
    let peer = Peer::Tcp(SocketAddr::from(([10, 0, 0, 1], 1)));
    for name in [
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-host",
    ] {
        let read = trusted.read(peer, [(name, bytes)].into_iter());
        // The last hop is a stranger: nothing before it counts.
        if name == "x-forwarded-for" {
            let appended = [bytes, b", 192.0.2.1"].concat();
            let client = trusted
                .read(peer, [(name, &appended[..])].into_iter())
                .client;
            assert_eq!(client, Some([192, 0, 2, 1].into()));
        }
        // A field with an address that is none makes the client unknown, and not the proxy.
        if read.client == Some([10, 0, 0, 1].into()) && name == "x-forwarded-for" {
            assert!(bytes.windows(8).any(|part| part == b"10.0.0.1"));
        }
    }
});
