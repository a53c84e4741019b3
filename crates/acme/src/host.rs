//! The hosts that can have a certificate: names of DNS, and addresses (RFC 8738).

use crate::limits;
use std::net::IpAddr;
use std::{error, fmt};

/// A host for which a certificate is ordered: a name in lower case, or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CertificateHost {
    text: String,
    address: Option<IpAddr>,
}

/// The reason why no certificate can be ordered for a host: one line with the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// It has a `*`.
    Wildcard,
    /// It has letters outside of ASCII.
    NotAscii,
    /// It has a port, a path or a scheme.
    NotAHost,
    /// It is no name of DNS.
    Malformed,
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HostError::Wildcard => {
                "authorities check a * by DNS alone (dns-01), which Larder has not: name each host, \
                 or get this certificate with another ACME client, and name its files in \
                 [[http.tls.certificates]]"
            }
            HostError::NotAscii => "write the name as DNS has it, with xn-- (Punycode)",
            HostError::NotAHost => {
                "expected the name of a host or an address alone, without scheme, port or path"
            }
            HostError::Malformed => {
                "expected the name of a host, such as \"www.example.com\", of at most 220 bytes, or an address"
            }
        })
    }
}

impl error::Error for HostError {}

/// What the names of files with an answer to `tls-alpn-01` end with.
const ALPN: &str = ".alpn";

impl CertificateHost {
    /// Reads a host as an operator writes it.
    ///
    /// # Errors
    /// No certificate can be ordered for it.
    pub fn parse(text: &str) -> Result<CertificateHost, HostError> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(CertificateHost {
                text: address.to_string(),
                address: Some(address),
            });
        }
        if !text.is_ascii() {
            return Err(HostError::NotAscii);
        }
        if text.contains('*') {
            return Err(HostError::Wildcard);
        }
        if text.contains([':', '/', '@', '[']) {
            return Err(HostError::NotAHost);
        }
        // Browsers take a name that ends with a number for an address (URL Standard).
        let is_number =
            |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_digit());
        if text.len() > limits::HOST_BYTES
            || !text.split('.').all(is_label)
            || text.rsplit('.').next().is_none_or(is_number)
        {
            return Err(HostError::Malformed);
        }
        Ok(CertificateHost {
            text: text.to_ascii_lowercase(),
            address: None,
        })
    }

    /// Returns its text: a name in lower case, or an address.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the address, if it is one.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Returns the name of the file with its key and certificates. The text of an IPv6 address has
    /// colons, which some file systems of the network refuse; no name of a host has `_`.
    pub fn file_name(&self) -> String {
        format!("{}.pem", self.stem())
    }

    /// Returns the name of the file that one process locks while it orders.
    pub fn lock_name(&self) -> String {
        format!("{}.lock", self.stem())
    }

    /// Returns the name of the file with the times of its failed orders.
    pub fn failures_name(&self) -> String {
        format!("{}.failures", self.stem())
    }

    /// Returns the name of the file with the answer to its challenge `tls-alpn-01`. The dot keeps
    /// it apart from tokens, which have none.
    pub fn challenge_name(&self) -> String {
        format!("{}{ALPN}", self.stem())
    }

    /// Returns true for such a name, of any host.
    pub fn is_challenge_name(name: &str) -> bool {
        name.ends_with(ALPN) && !name.starts_with('.')
    }

    fn stem(&self) -> String {
        self.text.replace(':', "_")
    }

    /// Returns the server name of `tls-alpn-01` (RFC 8737 §3; for addresses RFC 8738 §6): the host,
    /// or the name of an address in DNS, such as `1.0.0.127.in-addr.arpa`.
    pub fn challenge_server_name(&self) -> String {
        match self.address {
            None => self.text.clone(),
            Some(IpAddr::V4(address)) => {
                let [a, b, c, d] = address.octets();
                format!("{d}.{c}.{b}.{a}.in-addr.arpa")
            }
            Some(IpAddr::V6(address)) => {
                let nibbles = address.octets().into_iter().rev();
                let nibbles = nibbles.flat_map(|byte| [byte & 15, byte >> 4]);
                let mut name = String::new();
                for nibble in nibbles {
                    name.push(char::from_digit(nibble.into(), 16).unwrap_or('0'));
                    name.push('.');
                }
                name + "ip6.arpa"
            }
        }
    }
}

impl fmt::Display for CertificateHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns true for a label of a host's name (RFC 1123 §2.1).
fn is_label(label: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=limits::LABEL_BYTES).contains(&label.len())
        && label.bytes().all(is_allowed)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Returns the name of the file with the account at an authority, from the URL of its directory: an
/// account of another authority stays where it is.
pub fn account_file_name(directory: &str) -> String {
    let url = directory
        .split_once("://")
        .map_or(directory, |(_, url)| url);
    let plain = |char: char| match char {
        char if char.is_ascii_alphanumeric() || char == '-' => char.to_ascii_lowercase(),
        '.' => '.',
        _ => '_',
    };
    let stem: String = url.chars().map(plain).take(limits::TOKEN_BYTES).collect();
    format!("account_{stem}.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> CertificateHost {
        CertificateHost::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Failure: an order is sent that the authority must refuse, or a right host is refused.
    #[test]
    fn a_host_without_a_certificate_is_ordered() {
        assert_eq!(parse("WWW.Example.COM").as_str(), "www.example.com");
        assert_eq!(
            parse("xn--bcher-kva.example").as_str(),
            "xn--bcher-kva.example"
        );
        assert_eq!(parse("localhost").as_str(), "localhost");
        assert_eq!(parse("127.0.0.1").address(), Some([127, 0, 0, 1].into()));
        assert_eq!(parse("2001:DB8:0::1").as_str(), "2001:db8::1");
        let longest = format!("{}.example", "a".repeat(63));
        assert_eq!(parse(&longest).as_str(), longest);
        for (text, expected) in [
            ("*.example.com", HostError::Wildcard),
            ("bücher.example", HostError::NotAscii),
            ("https://example.com", HostError::NotAHost),
            ("example.com:443", HostError::NotAHost),
            ("[::1]", HostError::NotAHost),
            ("a@example.com", HostError::NotAHost),
            ("", HostError::Malformed),
            (".", HostError::Malformed),
            ("..", HostError::Malformed),
            ("example.com.", HostError::Malformed),
            ("a..b", HostError::Malformed),
            ("-a.b", HostError::Malformed),
            ("a_b.example", HostError::Malformed),
            ("1.2.3.4.5", HostError::Malformed),
            ("a b", HostError::Malformed),
            (&format!("{}.example", "a".repeat(64)), HostError::Malformed),
            (&["a"; 128].join("."), HostError::Malformed),
        ] {
            assert_eq!(CertificateHost::parse(text), Err(expected), "{text}");
        }
        let said = HostError::Wildcard.to_string();
        assert!(said.contains("dns-01") && !said.contains('\n'), "{said}");
    }

    /// Failure: the authority asks for a name that the challenge does not answer.
    #[test]
    fn an_address_has_the_wrong_server_name() {
        assert_eq!(parse("a.b").challenge_server_name(), "a.b");
        assert_eq!(
            parse("127.0.0.1").challenge_server_name(),
            "1.0.0.127.in-addr.arpa"
        );
        assert_eq!(
            parse("2001:db8::567:89ab").challenge_server_name(),
            "b.a.9.8.7.6.5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"
        );
    }

    /// Failure: two hosts, or two authorities, share a file, or a name leads out of the folder.
    #[test]
    fn two_hosts_share_a_file() {
        assert_eq!(parse("::1").file_name(), "__1.pem");
        assert_ne!(parse("::1").file_name(), parse("1::").file_name());
        let account = account_file_name("https://acme-v02.api.letsencrypt.org/directory");
        assert_eq!(
            account,
            "account_acme-v02.api.letsencrypt.org_directory.json"
        );
        assert_eq!(account_file_name("../../etc"), "account_.._.._etc.json");
        // The longest names fit into a folder, also that of a file that is being written.
        let longest = ["a".repeat(57).as_str(); 4].join(".");
        let host = parse(&longest[..limits::HOST_BYTES]);
        let names = [
            host.file_name(),
            host.lock_name(),
            host.failures_name(),
            host.challenge_name(),
        ];
        assert!(names.iter().all(|name| name.len() + 18 <= 255), "{names:?}");
        assert!(CertificateHost::parse(&longest).is_err());
    }
}
