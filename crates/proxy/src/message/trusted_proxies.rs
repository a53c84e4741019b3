//! `[http] trusted_proxies`: the peers that tell truly whom they speak for, by `X-Forwarded-For`,
//! `-Proto` and `-Host`, or by `Forwarded` (RFC 7239).
//!
//! Each proxy appends the address that it got the request from. So the list is read from its end,
//! as bytes: the client is the first address that is not a trusted proxy, because a trusted one
//! wrote it. What stands before that is what the client says, and is not looked at. If a trusted
//! proxy wrote no address, the client is unknown: it is nobody that a rule allows.
//!
//! `Forwarded` counts only if there is no `X-Forwarded-` field. Otherwise a client could pass a
//! `Forwarded` of its own through a proxy that sets only the others. Fields that are not among
//! `[http] trusted_headers` count as absent. `X-Forwarded-Host` and `Forwarded` are not among its
//! default: an ordinary proxy passes a client's own on.

use crate::base::limits;
use crate::message::network::Network;
use larder_host::Peer;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The proxies that are trusted.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct TrustedProxies {
    #[serde(rename = "trusted_proxies", deserialize_with = "trusted_peers")]
    peers: TrustedPeers,
    #[serde(rename = "trusted_headers", deserialize_with = "trusted_headers")]
    fields: TrustedFields,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TrustedPeers {
    networks: Vec<Network>,
    /// True if programs on Unix sockets are.
    unix: bool,
}

/// The fields of trusted proxies that are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustedFields {
    /// The others, in the order of [`TrustedFields::NAMES`].
    ignored: [bool; TrustedFields::NAMES.len()],
}

impl Default for TrustedFields {
    /// Believes `X-Forwarded-For` and `X-Forwarded-Proto`, which ordinary proxies set themselves.
    fn default() -> TrustedFields {
        TrustedFields {
            ignored: [false, false, true, true],
        }
    }
}

impl TrustedFields {
    /// The fields that tell the client of a request.
    pub const NAMES: [&str; 4] = [
        "X-Forwarded-For",
        "X-Forwarded-Proto",
        "X-Forwarded-Host",
        "Forwarded",
    ];

    /// Returns the set of the fields with these names, in any case of letters.
    ///
    /// # Errors
    /// The first name that is none of [`TrustedFields::NAMES`].
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<TrustedFields, &'a str> {
        let mut ignored = [true; TrustedFields::NAMES.len()];
        for name in names {
            let at = TrustedFields::NAMES
                .iter()
                .position(|field| field.eq_ignore_ascii_case(name))
                .ok_or(name)?;
            ignored[at] = false;
        }
        Ok(TrustedFields { ignored })
    }
}

/// The client of a request, and what it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded<'a> {
    /// The client's address; `None` for a program on a Unix socket of this machine, and if the last
    /// trusted proxy does not name an address.
    pub client: Option<IpAddr>,
    /// The scheme that the client used, `http` or `https`; `None` if no trusted proxy says it.
    pub scheme: Option<&'static str>,
    /// The host that the client named; `None` if no trusted proxy says it.
    pub host: Option<&'a str>,
}

impl TrustedProxies {
    /// Reads addresses, blocks of them, and `unix:`.
    ///
    /// # Errors
    /// The element that is none of these, and what was expected.
    pub fn parse<'a>(
        elements: impl IntoIterator<Item = &'a str>,
    ) -> Result<TrustedProxies, String> {
        let mut peers = TrustedPeers::default();
        for element in elements {
            match element {
                "unix:" => peers.unix = true,
                _ => peers.networks.push(
                    element
                        .parse()
                        .map_err(|error| format!("{element:?}: {error}"))?,
                ),
            }
        }
        Ok(TrustedProxies {
            peers,
            ..TrustedProxies::default()
        })
    }

    /// Believes these fields alone.
    #[must_use]
    pub fn with_fields(self, fields: TrustedFields) -> TrustedProxies {
        TrustedProxies { fields, ..self }
    }

    /// Returns true if the peer is one of them.
    pub fn trusts(&self, peer: Peer) -> bool {
        peer.ip().map_or(self.peers.unix, |ip| self.has(ip))
    }

    fn has(&self, ip: IpAddr) -> bool {
        self.peers
            .networks
            .iter()
            .any(|network| network.contains(ip))
    }

    /// Returns what the fields of a request from `peer` say. The peer is trusted.
    pub fn read<'a>(
        &self,
        peer: Peer,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Forwarded<'a> {
        let mut said = Said::default();
        for (name, value) in fields {
            said.note(name, value, self.fields);
        }
        let mut forwarded = Forwarded {
            client: peer.ip(),
            scheme: None,
            host: None,
        };
        if said.addresses.is_empty() && (said.has_x || said.has_other) {
            // The proxy speaks for a client, and does not say for whom in a field that is believed.
            forwarded.client = None;
        }
        if said.has_x {
            let nodes = said
                .addresses
                .iter()
                .rev()
                .flat_map(|line| line.rsplit(|byte| *byte == b','));
            self.walk(
                &mut forwarded,
                nodes.map(|node| {
                    Some(Element {
                        node: text(node),
                        ..Element::default()
                    })
                }),
            );
            forwarded.scheme = said.scheme.and_then(scheme);
            forwarded.host = said.host;
        } else {
            let elements = said
                .elements
                .iter()
                .rev()
                .flat_map(|line| Elements { rest: Some(line) });
            self.walk(&mut forwarded, elements.map(element));
        }
        forwarded
    }

    /// Goes from the last element to the first, up to the one that a trusted proxy wrote about
    /// somebody else. `None` is an element that is malformed.
    fn walk<'a>(
        &self,
        forwarded: &mut Forwarded<'a>,
        elements: impl Iterator<Item = Option<Element<'a>>>,
    ) {
        for element in elements.take(HOPS) {
            let Some(element) = element else {
                forwarded.client = None;
                return;
            };
            forwarded.scheme = element.proto.and_then(scheme).or(forwarded.scheme);
            forwarded.host = element.host.or(forwarded.host);
            forwarded.client = element.node.and_then(address);
            if !forwarded.client.is_some_and(|ip| self.has(ip)) {
                return;
            }
        }
    }
}

/// A peer that is a trusted proxy.
#[derive(Clone)]
pub(crate) struct TrustedPeer {
    proxies: Arc<TrustedProxies>,
    peer: Peer,
}

impl TrustedPeer {
    /// Returns `None` for a peer that is not trusted.
    pub(crate) fn new(proxies: &Arc<TrustedProxies>, peer: Peer) -> Option<TrustedPeer> {
        proxies.trusts(peer).then(|| TrustedPeer {
            proxies: Arc::clone(proxies),
            peer,
        })
    }

    /// Returns what the fields of its request say.
    pub(crate) fn read<'a>(
        &self,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Forwarded<'a> {
        self.proxies.read(self.peer, fields)
    }
}

/// The longest chain of proxies that is followed: the time for a request has a bound.
const HOPS: usize = 64;

/// The fields of a request that proxies set.
#[derive(Default)]
struct Said<'a> {
    has_x: bool,
    /// True if there is a field that is not believed.
    has_other: bool,
    addresses: Vec<&'a [u8]>,
    scheme: Option<&'a str>,
    host: Option<&'a str>,
    elements: Vec<&'a [u8]>,
}

impl<'a> Said<'a> {
    fn note(&mut self, name: &str, value: &'a [u8], fields: TrustedFields) {
        // Few fields have a name of such a length.
        if !matches!(name.len(), 9 | 15 | 16 | 17) {
            return;
        }
        let known = TrustedFields::NAMES
            .iter()
            .position(|field| field.eq_ignore_ascii_case(name));
        let Some(at) = known else { return };
        if fields.ignored[at] {
            // Where none is believed, the proxy itself is meant to be the client.
            self.has_other |= fields.ignored.contains(&false);
            return;
        }
        // A proxy that appends writes the last value.
        let last = || {
            value
                .rsplit(|byte| *byte == b',')
                .next()
                .and_then(text)
                .filter(|last| !last.is_empty())
        };
        match TrustedFields::NAMES[at] {
            "X-Forwarded-For" => self.addresses.push(value),
            "X-Forwarded-Proto" => self.scheme = last(),
            "X-Forwarded-Host" => self.host = last(),
            _ => return self.elements.push(value),
        }
        self.has_x = true;
    }
}

fn scheme(text: &str) -> Option<&'static str> {
    ["http", "https"]
        .into_iter()
        .find(|scheme| scheme.eq_ignore_ascii_case(text))
}

/// Reads `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1` or `[2001:db8::1]:80`. `None` for `unknown`,
/// for names that hide an address, and for everything else.
fn address(node: &str) -> Option<IpAddr> {
    let bare = node
        .strip_prefix('[')
        .and_then(|node| node.strip_suffix(']'))
        .unwrap_or(node);
    let ip = bare
        .parse()
        .or_else(|_| node.parse::<SocketAddr>().map(|address| address.ip()));
    ip.ok().map(|ip: IpAddr| ip.to_canonical())
}

/// An element of `Forwarded`: what one proxy says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Element<'a> {
    /// `for`
    node: Option<&'a str>,
    proto: Option<&'a str>,
    host: Option<&'a str>,
}

/// The elements of a line of `Forwarded` from its end. A quoted comma ends none.
struct Elements<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.take()?;
        let mut is_quoted = false;
        for (at, byte) in rest.iter().enumerate().rev() {
            match byte {
                b'"' if !is_escaped(&rest[..at]) => is_quoted = !is_quoted,
                b',' if !is_quoted => {
                    self.rest = Some(&rest[..at]);
                    return Some(&rest[at + 1..]);
                }
                _ => {}
            }
        }
        Some(rest)
    }
}

/// Returns true if a byte after these is escaped: after an odd number of backslashes.
fn is_escaped(before: &[u8]) -> bool {
    before
        .iter()
        .rev()
        .take_while(|byte| **byte == b'\\')
        .count()
        % 2
        == 1
}

/// Returns the text of a value, without spaces around it.
fn text(bytes: &[u8]) -> Option<&str> {
    str::from_utf8(bytes).ok().map(str::trim)
}

/// Reads an element of `Forwarded` (RFC 7239 §4); `None` if it is malformed.
fn element(bytes: &[u8]) -> Option<Element<'_>> {
    let mut element = Element::default();
    let mut rest = text(bytes)?;
    while !rest.is_empty() {
        let (name, value) = rest
            .split_once('=')
            .filter(|(name, _)| is_token(name.trim()))?;
        let (value, after) = match value.strip_prefix('"') {
            // A quoted pair stands in no address and in no host.
            Some(quoted) => quoted
                .split_once('"')
                .filter(|(value, _)| !value.contains('\\'))?,
            None => value.split_at(value.find(';').unwrap_or(value.len())),
        };
        let place = match name.trim() {
            name if name.eq_ignore_ascii_case("for") => Some(&mut element.node),
            name if name.eq_ignore_ascii_case("proto") => Some(&mut element.proto),
            name if name.eq_ignore_ascii_case("host") => Some(&mut element.host),
            _ => None,
        };
        if let Some(place) = place
            && place.replace(value.trim()).is_some()
        {
            return None;
        }
        let after = after.trim_start();
        rest = match after.strip_prefix(';') {
            Some(next) => next.trim_start(),
            None if after.is_empty() => after,
            None => return None,
        };
    }
    Some(element)
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn trusted_peers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TrustedPeers, D::Error> {
    let elements = Vec::<String>::deserialize(deserializer)?;
    let most = limits::TRUSTED_PROXIES;
    if elements.len() > most {
        return Err(D::Error::custom(format!(
            "trusted_proxies: expected up to {most}, not {}",
            elements.len()
        )));
    }
    TrustedProxies::parse(elements.iter().map(String::as_str))
        .map(|trusted| trusted.peers)
        .map_err(D::Error::custom)
}

fn trusted_headers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TrustedFields, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    TrustedFields::of(names.iter().map(String::as_str)).map_err(|name| {
        let known = TrustedFields::NAMES.join(", ");
        D::Error::custom(format!(
            "trusted_headers: {name:?}: expected one of {known}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(
        peer: &str,
        fields: &[(&'a str, &'a str)],
    ) -> (String, Option<&'static str>, Option<&'a str>) {
        let all = TrustedFields::of(TrustedFields::NAMES).unwrap();
        let trusted = TrustedProxies::parse(["10.0.0.0/8", "fd00::/8", "unix:"])
            .unwrap()
            .with_fields(all);
        let peer = peer
            .parse()
            .map_or(Peer::Unix, |ip: IpAddr| SocketAddr::from((ip, 1)).into());
        assert!(trusted.trusts(peer));
        let Forwarded {
            client,
            scheme,
            host,
        } = trusted.read(
            peer,
            fields.iter().map(|(name, value)| (*name, value.as_bytes())),
        );
        (
            client.map_or_else(|| "none".to_owned(), |ip| ip.to_string()),
            scheme,
            host,
        )
    }

    /// Failure: a client chooses the address that others see, by a field of its own.
    #[test]
    fn an_address_that_the_client_wrote_is_believed() {
        for (fields, client) in [
            (&[][..], "10.0.0.1"),
            (&[("X-Forwarded-For", "192.0.2.1")], "192.0.2.1"),
            (
                &[("x-forwarded-for", "198.51.100.1, 192.0.2.1")],
                "192.0.2.1",
            ),
            (
                &[("x-forwarded-for", "198.51.100.1, 192.0.2.1, 10.9.9.9")],
                "192.0.2.1",
            ),
            (
                &[
                    ("x-forwarded-for", "198.51.100.1"),
                    ("x-forwarded-for", "192.0.2.1,10.1.1.1"),
                ],
                "192.0.2.1",
            ),
            (&[("x-forwarded-for", "10.2.2.2, 10.3.3.3")], "10.2.2.2"),
            (
                &[("x-forwarded-for", "192.0.2.1, unknown, 10.3.3.3")],
                "none",
            ),
            (&[("x-forwarded-for", "192.0.2.1, ")], "none"),
            (&[("x-forwarded-for", "[2001:db8::1]:80")], "2001:db8::1"),
            (&[("x-forwarded-for", "::ffff:192.0.2.1")], "192.0.2.1"),
            (
                &[(
                    "forwarded",
                    "for=198.51.100.1;proto=https, for=\"[2001:db8::1]:80\"",
                )],
                "2001:db8::1",
            ),
            (
                &[
                    ("forwarded", "for=198.51.100.1"),
                    ("forwarded", "for=192.0.2.1, for=10.3.3.3"),
                ],
                "192.0.2.1",
            ),
            (&[("forwarded", "for=192.0.2.1, for=_hidden")], "none"),
            (&[("forwarded", "for=\"192.0.2.1")], "none"),
            (&[("forwarded", "for=\"x, for=192.0.2.1")], "192.0.2.1"),
            (&[("forwarded", "x y, for=\"192.0.2.1\"")], "192.0.2.1"),
            (&[("forwarded", "for=\"a,b\", for=10.1.1.1")], "none"),
            (&[("forwarded", "proto=https")], "none"),
            (&[("forwarded", "for=192.0.2.1;for=192.0.2.2")], "none"),
            // A client's own, past a proxy that knows only the other field.
            (
                &[
                    ("forwarded", "for=198.51.100.1"),
                    ("x-forwarded-for", "192.0.2.1"),
                ],
                "192.0.2.1",
            ),
            (
                &[
                    ("forwarded", "for=198.51.100.1"),
                    ("x-forwarded-proto", "https"),
                ],
                "none",
            ),
        ] {
            assert_eq!(read("10.0.0.1", fields).0, client, "{fields:?}");
        }
        assert_eq!(read("unix:", &[]).0, "none");
        assert_eq!(
            read("unix:", &[("x-forwarded-for", "192.0.2.1")]).0,
            "192.0.2.1"
        );
    }

    /// Failure: a client's own field, which its proxy passes on, counts though it is not listed, or
    /// it hides one that is.
    #[test]
    fn a_field_that_is_not_listed_is_believed() {
        let all = [
            ("x-forwarded-for", "192.0.2.1"),
            ("X-Forwarded-Proto", "https"),
            ("x-forwarded-host", "a.example"),
            ("forwarded", "for=192.0.2.2;proto=http;host=b.example"),
        ];
        let read = |names: &[&'static str]| {
            let trusted = TrustedProxies::parse(["10.0.0.0/8"])
                .unwrap()
                .with_fields(TrustedFields::of(names.iter().copied())?);
            let peer = SocketAddr::from(([10, 0, 0, 1], 1)).into();
            let said = trusted.read(
                peer,
                all.iter().map(|(name, value)| (*name, value.as_bytes())),
            );
            Ok::<_, &str>((
                said.client.map_or("none".to_owned(), |ip| ip.to_string()),
                said.scheme,
                said.host,
            ))
        };
        let own = "10.0.0.1".to_owned();
        assert_eq!(
            read(&["X-Forwarded-For"]),
            Ok(("192.0.2.1".to_owned(), None, None))
        );
        assert_eq!(
            read(&["x-forwarded-proto"]),
            Ok(("none".to_owned(), Some("https"), None))
        );
        assert_eq!(
            read(&["X-Forwarded-Host"]),
            Ok(("none".to_owned(), None, Some("a.example")))
        );
        assert_eq!(
            read(&["Forwarded"]),
            Ok(("192.0.2.2".to_owned(), Some("http"), Some("b.example")))
        );
        assert_eq!(read(&[]), Ok((own, None, None)));
        assert_eq!(
            read(&TrustedFields::NAMES),
            Ok(("192.0.2.1".to_owned(), Some("https"), Some("a.example")))
        );
        assert_eq!(read(&["X-Real-IP"]), Err("X-Real-IP"));
        assert_eq!(
            TrustedFields::of(["X-Forwarded-For", "X-Forwarded-Proto"]),
            Ok(TrustedFields::default())
        );
    }

    #[test]
    fn scheme_and_host_of_another_hop_are_believed() {
        let said = |fields: &[(&'static str, &'static str)]| {
            let (_, scheme, host) = read("10.0.0.1", fields);
            (scheme, host)
        };
        assert_eq!(said(&[("x-forwarded-for", "192.0.2.1")]), (None, None));
        assert_eq!(
            said(&[
                ("x-forwarded-proto", "HTTPS"),
                ("x-forwarded-host", "a.example")
            ]),
            (Some("https"), Some("a.example"))
        );
        assert_eq!(
            said(&[("x-forwarded-proto", "https, http")]).0,
            Some("http")
        );
        assert_eq!(said(&[("x-forwarded-proto", "gopher")]).0, None);
        let own = "proto=http;host=evil.example;for=192.0.2.1";
        let chain = "proto=https;host=a.example;for=192.0.2.2, for=10.1.1.1;proto=http";
        assert_eq!(
            said(&[("forwarded", own), ("forwarded", chain)]),
            (Some("https"), Some("a.example"))
        );
        assert_eq!(
            said(&[("forwarded", "for=10.1.1.1;proto=https, for=10.2.2.2")]).0,
            Some("https")
        );
    }

    proptest::proptest! {
        #[test]
        fn anything_is_read_without_a_panic(line in "((for|proto|host|x)?[=;,\" ]{0,3}(10\\.0\\.0\\.1|\\[::1\\]|a|\\\\)?){0,6}") {
            read("10.0.0.1", &[("forwarded", &line)]);
            read("10.0.0.1", &[("x-forwarded-for", &line)]);
        }
    }
}
