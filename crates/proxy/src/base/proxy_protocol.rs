//! The header of the PROXY protocol, versions 1 and 2
//! (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>): the addresses of the connection
//! that a load balancer passes on.
//!
//! Deviations: the extensions of version 2 (TLVs) are skipped, and so is its checksum, because TCP
//! has one. Addresses of Unix sockets are those of no client: the connection's own peer counts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The longest header of version 1 with its end of line (§2.1).
const LONGEST_LINE: usize = 107;

/// The longest header: addresses of Unix sockets take 232 bytes (version 2, §2.2), and real
/// balancers add some hundred bytes of extensions.
pub const LONGEST: usize = 4096;

/// The first bytes of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The client's address; `None` if the balancer itself connects, such as for a health check, or
    /// if it does not know.
    pub client: Option<SocketAddr>,
    /// The bytes of the header.
    pub length: usize,
}

/// The result of reading the beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A whole header.
    Complete(Header),
    /// The beginning of a header.
    Partial,
    /// No header, or one that is too long.
    Invalid,
}

/// Decodes the header at the start of `bytes`.
pub fn decode(bytes: &[u8]) -> Decoded {
    let common = bytes.len().min(SIGNATURE.len());
    if bytes[..common] == SIGNATURE[..common] {
        return version_2(bytes).unwrap_or(Decoded::Partial);
    }
    version_1(bytes)
}

fn version_1(bytes: &[u8]) -> Decoded {
    const START: &[u8] = b"PROXY ";
    let common = bytes.len().min(START.len());
    if bytes[..common] != START[..common] {
        return Decoded::Invalid;
    }
    let within = &bytes[..bytes.len().min(LONGEST_LINE)];
    let Some(end) = memchr::memchr(b'\n', within) else {
        return if within.len() < LONGEST_LINE {
            Decoded::Partial
        } else {
            Decoded::Invalid
        };
    };
    let line = within[..end]
        .strip_suffix(b"\r")
        .and_then(|line| str::from_utf8(line).ok());
    match line.and_then(client_of_line) {
        Some(client) => Decoded::Complete(Header {
            client,
            length: end + 1,
        }),
        None => Decoded::Invalid,
    }
}

/// Returns the client of a line without its end: `PROXY TCP4 SOURCE DESTINATION PORT PORT`.
fn client_of_line(line: &str) -> Option<Option<SocketAddr>> {
    let mut words = line.split(' ').skip(1);
    let family = words.next()?;
    if family == "UNKNOWN" {
        return Some(None);
    }
    let mut address = || {
        let word = words.next()?;
        match family {
            "TCP4" => word.parse().map(IpAddr::V4).ok(),
            "TCP6" => word.parse().map(IpAddr::V6).ok(),
            _ => None,
        }
    };
    let (source, _destination) = (address()?, address()?);
    let mut port = || {
        let word = words
            .next()
            .filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()))?;
        word.parse::<u16>()
            .ok()
            .filter(|port| *port == 0 || !word.starts_with('0'))
    };
    let (port, _destination) = (port()?, port()?);
    words
        .next()
        .is_none()
        .then_some(Some(SocketAddr::new(source, port)))
}

/// Returns `None` if more bytes are needed.
fn version_2(bytes: &[u8]) -> Option<Decoded> {
    let (&[command, family, high, low], _) = bytes.get(SIGNATURE.len()..)?.split_first_chunk()?;
    let start = SIGNATURE.len() + 4;
    let length = start + usize::from(u16::from_be_bytes([high, low]));
    if length > LONGEST || !matches!(command, 0x20 | 0x21) {
        return Some(Decoded::Invalid);
    }
    let body = bytes.get(start..length)?;
    let client = match (command, family) {
        // LOCAL: the rest says nothing.
        (0x20, _) => Some(None),
        // TCP over IPv4: two addresses, two ports.
        (_, 0x11) => body.first_chunk::<12>().map(|fields| {
            let [a, b, c, d, _, _, _, _, high, low, ..] = *fields;
            Some(SocketAddr::new(
                Ipv4Addr::new(a, b, c, d).into(),
                u16::from_be_bytes([high, low]),
            ))
        }),
        // TCP over IPv6.
        (_, 0x21) => body.first_chunk::<36>().and_then(|fields| {
            let source: [u8; 16] = *fields.first_chunk()?;
            Some(Some(SocketAddr::new(
                Ipv6Addr::from(source).into(),
                u16::from_be_bytes([fields[32], fields[33]]),
            )))
        }),
        // Unspecified, or Unix sockets.
        (_, 0x00 | 0x31) => Some(None),
        // Datagrams and unknown families are not for this listener.
        _ => None,
    };
    Some(client.map_or(Decoded::Invalid, |client| {
        Decoded::Complete(Header { client, length })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, body].concat()
    }

    fn client(bytes: &[u8]) -> Option<Option<String>> {
        match decode(bytes) {
            Decoded::Complete(Header { client, length }) => {
                assert_eq!(length, bytes.len());
                Some(client.map(|client| client.to_string()))
            }
            _ => None,
        }
    }

    const IPV4: [u8; 12] = [192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x34, 0, 80];

    /// Failure: a header of the specification is refused, or gives another client.
    #[test]
    fn headers_of_both_versions_are_misread() {
        let known = |text: &str| Some(Some(text.to_owned()));
        for (line, expected) in [
            (
                "PROXY TCP4 192.0.2.1 10.0.0.1 56324 443\r\n",
                known("192.0.2.1:56324"),
            ),
            (
                "PROXY TCP6 2001:db8::1 ::1 56324 443\r\n",
                known("[2001:db8::1]:56324"),
            ),
            ("PROXY UNKNOWN\r\n", Some(None)),
            (
                "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n",
                Some(None),
            ),
            ("PROXY TCP4 192.0.2.1 10.0.0.1 56324\r\n", None),
            ("PROXY TCP4 192.0.2.1 10.0.0.1 56324 443 1\r\n", None),
            ("PROXY TCP4 192.0.2.1 10.0.0.1 65536 443\r\n", None),
            ("PROXY TCP4 192.0.2.1 10.0.0.1 +1 443\r\n", None),
            ("PROXY TCP4 192.0.2.1 10.0.0.1 01 443\r\n", None),
            ("PROXY TCP4 ::1 ::1 1 443\r\n", None),
            ("PROXY TCP4  192.0.2.1 10.0.0.1 1 443\r\n", None),
            ("PROXY TCP4 192.0.2.1 10.0.0.1 1 443\n", None),
            ("PROXY UDP4 192.0.2.1 10.0.0.1 1 443\r\n", None),
            ("GET / HTTP/1.1\r\n", None),
        ] {
            assert_eq!(client(line.as_bytes()), expected, "{line:?}");
        }
        assert_eq!(client(&v2(0x21, 0x11, &IPV4)), known("192.0.2.1:4660"));
        // With an extension.
        assert_eq!(
            client(&v2(0x21, 0x11, &[&IPV4[..], &[4, 0, 1, 0]].concat())),
            known("192.0.2.1:4660")
        );
        let ipv6 = [
            &[0x20, 1, 0xd, 0xb8][..],
            &[0; 11],
            &[1],
            &[0; 16],
            &[0x12, 0x34, 0, 80],
        ]
        .concat();
        assert_eq!(client(&v2(0x21, 0x21, &ipv6)), known("[2001:db8::1]:4660"));
        assert_eq!(client(&v2(0x20, 0x00, &[])), Some(None));
        assert_eq!(client(&v2(0x20, 0x11, &IPV4)), Some(None), "a health check");
        assert_eq!(client(&v2(0x21, 0x31, &[0; 216])), Some(None));
        for (command, family, body) in [
            (0x21, 0x11, &IPV4[..11]),
            (0x21, 0x12, &IPV4),
            (0x22, 0x11, &IPV4),
            (0x11, 0x11, &IPV4),
            (0x21, 0x41, &IPV4),
        ] {
            assert_eq!(
                decode(&v2(command, family, body)),
                Decoded::Invalid,
                "{command:x} {family:x}"
            );
        }
    }

    /// Failure: a header in pieces is refused, or one without end fills the memory.
    #[test]
    fn a_header_in_pieces_is_refused_or_one_without_end_waited_for() {
        let whole = [
            b"PROXY TCP4 192.0.2.1 10.0.0.1 56324 443\r\n".to_vec(),
            v2(0x21, 0x11, &IPV4),
        ];
        for header in whole {
            for cut in 0..header.len() {
                assert_eq!(decode(&header[..cut]), Decoded::Partial, "{cut}");
            }
            let Decoded::Complete(Header { length, .. }) =
                decode(&[&header[..], b"GET /"].concat())
            else {
                panic!()
            };
            assert_eq!(length, header.len());
        }
        assert_eq!(
            decode(&[b"PROXY UNKNOWN ", &[b'a'; 200][..]].concat()),
            Decoded::Invalid
        );
        assert_eq!(decode(&v2(0x21, 0x11, &[0; LONGEST])), Decoded::Invalid);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_decoded_without_a_panic(version in 0..3_u8, rest in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let start: &[u8] = match version { 0 => b"", 1 => b"PROXY TCP4 ", _ => SIGNATURE };
            let bytes = [start, &rest].concat();
            if let Decoded::Complete(Header { length, .. }) = decode(&bytes) {
                proptest::prop_assert!(length <= bytes.len() && length <= LONGEST);
            }
        }
    }
}
