//! A client's request in its one normal form. Rules, key, log, purge, origin and gateway use it;
//! nothing after it sees the client's own target, host or fields.
//!
//! What the node adds to a request, it adds to this form: the client's `Connection` cannot remove
//! it, and no other spelling of a name stands beside it.

use crate::message::authority::normal_authority;
use crate::message::field_names::{remove_named, remove_unkeyed};
use crate::message::target::{Target, normal_target};
use crate::message::trusted_proxies::{Forwarded, TrustedPeer};
use ::http::header::{CONTENT_LENGTH, COOKIE, HOST, TRANSFER_ENCODING};
use ::http::request::Parts;
use ::http::uri::{Authority, PathAndQuery, Uri};
use ::http::{HeaderMap, HeaderValue, Method, Version};
use bytes::Bytes;
use larder_http::ContentCoding;
use std::net::IpAddr;

/// What is known of the connection of a request.
pub(crate) struct Connection<'a> {
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    /// The client; `None` for a Unix socket.
    pub(crate) client: Option<IpAddr>,
    /// Reads what a trusted proxy says of a request's client.
    pub(crate) trusted: Option<&'a TrustedPeer>,
    /// The authority of a request without `Host` (HTTP/1.0).
    pub(crate) fallback: &'a str,
}

/// A request in its normal form.
pub(crate) struct NormalRequest {
    /// The target is path and query, or `*`. `Host`, if there is one, is the host below.
    pub(crate) parts: Parts,
    /// The host as it is keyed.
    pub(crate) host: HeaderValue,
    /// `http` or `https`, as the client or a trusted proxy says.
    pub(crate) scheme: &'static str,
    /// The client; `None` for a Unix socket, and if a trusted proxy does not know it.
    pub(crate) client: Option<IpAddr>,
    /// The content coding that the client gets, where a response may have one.
    pub(crate) coding: Option<ContentCoding>,
}

/// A request that is refused, as it came, and the reason.
pub(crate) struct RefusedRequest {
    pub(crate) parts: Parts,
    pub(crate) reason: &'static str,
}

impl NormalRequest {
    /// Checks and normalises a request.
    ///
    /// # Errors
    /// The request is malformed, or servers read it in several ways.
    pub(crate) fn new(
        mut parts: Parts,
        connection: &Connection<'_>,
    ) -> Result<NormalRequest, Box<RefusedRequest>> {
        match normalise(&mut parts, connection) {
            Ok((host, scheme, client)) => Ok(NormalRequest {
                parts,
                host,
                scheme,
                client,
                coding: None,
            }),
            Err(reason) => Err(Box::new(RefusedRequest { parts, reason })),
        }
    }

    /// Returns the host as it is keyed.
    pub(crate) fn authority(&self) -> &str {
        // It was created from text.
        self.host.to_str().unwrap_or_default()
    }

    /// Returns the target.
    pub(crate) fn target(&self) -> Target<'_> {
        target(&self.parts).into()
    }
}

/// Returns the target of a request in its normal form.
pub(crate) fn target(parts: &Parts) -> &str {
    parts.uri.path_and_query().map_or("/", PathAndQuery::as_str)
}

type Normalised = (HeaderValue, &'static str, Option<IpAddr>);

fn normalise(parts: &mut Parts, connection: &Connection<'_>) -> Result<Normalised, &'static str> {
    check_framing(parts)?;
    check_method(&parts.method)?;
    let Forwarded {
        scheme,
        host: said,
        client,
    } = match connection.trusted {
        Some(trusted) => trusted.read(
            parts
                .headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_bytes())),
        ),
        None => Forwarded {
            client: connection.client,
            scheme: None,
            host: None,
        },
    };
    let scheme = scheme.unwrap_or(connection.scheme);
    let named = authority(parts, &[connection.scheme, scheme], connection.fallback)?;
    let normal = normal_authority(scheme, said.unwrap_or(named))?;
    if said.is_some() {
        // The proxy's own Host reaches nothing, but it is a host all the same.
        normal_authority(scheme, named)?;
    }
    let host = match parts.headers.get(HOST) {
        Some(host) if host.as_bytes() == normal.as_bytes() => host.clone(),
        _ => HeaderValue::from_str(&normal).map_err(|_| "the host is not a host")?,
    };
    normalise_target(parts)?;
    normalise_fields(&mut parts.headers, parts.version)?;
    if parts.headers.get(HOST).is_some_and(|field| field != host) {
        parts.headers.insert(HOST, host.clone());
    }
    Ok((host, scheme, client))
}

/// Origin servers tell methods apart by their letters, but some do not (RFC 9110 §9.1).
fn check_method(method: &Method) -> Result<(), &'static str> {
    let has_small = method
        .as_str()
        .bytes()
        .any(|byte| byte.is_ascii_lowercase());
    if has_small {
        Err("the method has small letters")
    } else {
        Ok(())
    }
}

/// RFC 9112 §6.1: `chunked` is the only supported transfer coding. With another one below it, the
/// forwarded body would be encoded without a declaration. In HTTP/2 and 3, such fields are refused
/// before, but not spaces around a value, which HTTP/1.1 would not have there (RFC 9113 §8.2.1).
fn check_framing(parts: &Parts) -> Result<(), &'static str> {
    if parts.version >= Version::HTTP_2 {
        let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        let has_spaces = |value: &HeaderValue| {
            is_space(value.as_bytes().first()) || is_space(value.as_bytes().last())
        };
        return if parts.headers.values().any(has_spaces) {
            Err("spaces around the value of a field")
        } else {
            Ok(())
        };
    }
    let mut lines = parts.headers.get_all(TRANSFER_ENCODING).into_iter();
    let plain = lines.next().is_none_or(|line| {
        line.as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(b"chunked")
    });
    if plain && lines.next().is_none() {
        Ok(())
    } else {
        Err("its transfer coding is not just chunked")
    }
}

/// Returns the authority of a request. RFC 9112 §3.2: a request with no `Host`, several, or an
/// invalid one gets 400; a target in absolute form overrides it (§3.2.2). HTTP/2 and 3 have
/// `:authority`, and a `Host` beside it has to be equal (RFC 9113 §8.3.1). `schemes` are those of
/// the connection and of a trusted proxy's client.
fn authority<'a>(
    parts: &'a Parts,
    schemes: &[&str],
    fallback: &'a str,
) -> Result<&'a str, &'static str> {
    let mut hosts = parts.headers.get_all(HOST).into_iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().map_err(|_| "the host has odd characters")?,
        (None, _) if parts.version == Version::HTTP_10 => fallback,
        (None, _) if parts.version >= Version::HTTP_2 => {
            parts.uri.authority().map_or("", Authority::as_str)
        }
        (None, _) => return Err("there is no Host"),
        (Some(_), Some(_)) => return Err("there are several Hosts"),
    };
    match parts.uri.authority() {
        Some(_)
            if parts
                .uri
                .scheme_str()
                .is_none_or(|scheme| !schemes.contains(&scheme)) =>
        {
            Err("another scheme is served here")
        }
        Some(authority) if parts.version >= Version::HTTP_2 && authority.as_str() != host => {
            Err("Host is not :authority")
        }
        Some(authority) => {
            // The caller checks the authority.
            if authority.as_str() != host {
                normal_authority("http", host)?;
            }
            Ok(authority.as_str())
        }
        None => Ok(host),
    }
}

/// Leaves path and query in their normal form as the target.
fn normalise_target(parts: &mut Parts) -> Result<(), &'static str> {
    let text = target(parts);
    let normal = normal_target(text)?;
    // RFC 9112 §3.2.4: for OPTIONS only.
    if normal == "*" && parts.method != Method::OPTIONS {
        return Err("the target is no path");
    }
    let is_normal = normal == text;
    if is_normal && parts.uri.authority().is_none() {
        return Ok(());
    }
    let target = match parts.uri.path_and_query() {
        // An empty target is shown as this one, too.
        _ if normal == "/" => PathAndQuery::from_static("/"),
        Some(target) if is_normal => target.clone(),
        _ => PathAndQuery::from_maybe_shared(Bytes::copy_from_slice(normal.as_bytes()))
            .map_err(|_| "the target is no path")?,
    };
    parts.uri = Uri::from(target);
    Ok(())
}

fn normalise_fields(headers: &mut HeaderMap, version: Version) -> Result<(), &'static str> {
    remove_named(headers);
    remove_unkeyed(headers);
    if version >= Version::HTTP_2 {
        join_cookies(headers);
    }
    // hyper has checked those of HTTP/1 (RFC 9112 §6.3).
    let mut lengths = headers.get_all(CONTENT_LENGTH).into_iter();
    let is_number = |length: &HeaderValue| {
        !length.is_empty() && length.as_bytes().iter().all(u8::is_ascii_digit)
    };
    if lengths.next().is_some_and(|length| !is_number(length)) || lengths.next().is_some() {
        return Err("it has several lengths, or one that is no number");
    }
    Ok(())
}

/// RFC 9113 §8.2.3: HTTP/2 and 3 may split cookies into several fields; HTTP/1.1 has one.
fn join_cookies(headers: &mut HeaderMap) {
    let crumbs: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .into_iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if crumbs.len() < 2 {
        return;
    }
    if let Ok(cookie) = HeaderValue::from_maybe_shared(Bytes::from(crumbs.join(&b"; "[..]))) {
        headers.insert(COOKIE, cookie);
    }
}
