//! Variants: which stored response of a key belongs to which request (RFC 9111 §4.1).
//!
//! Values are compared after joining the lines of a field with commas (RFC 9110 §5.3 says it
//! changes nothing), without the space around commas outside of quotes (§5.6.1.2: lists may have it
//! or not). Cookies and credentials, which are no lists, are compared as they are. For the
//! negotiation fields, space around semicolons goes too and letters become small. Their order
//! stays: servers take it for preference.

use crate::codec::{Reader, Writer};
use crate::rfc::fields;
use http::header::{ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, COOKIE, VARY};
use http::{HeaderMap, HeaderName};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// The header fields that selected one stored response, with the values of the request that it
/// answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    fields: Box<[Nominated]>,
}

/// A field's name, and its normalised value where the request had it.
type Nominated = (HeaderName, Option<Box<[u8]>>);

impl Selector {
    /// Returns the fields that the response's `Vary` nominates, from the request as it was sent to
    /// the origin. Names that cannot be a field's are never in a request, so they are left out.
    pub(crate) fn of(response: &HeaderMap, request: &HeaderMap) -> Selector {
        let mut names: Vec<HeaderName> =
            fields::list(response, &VARY).filter_map(|name| HeaderName::from_bytes(name).ok()).collect();
        names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        let fields = names.into_iter().map(|name| {
            let value = normalised(request, &name).map(Vec::into_boxed_slice);
            (name, value)
        });
        Selector { fields: fields.collect() }
    }

    /// §4.1: all nominated fields match, or are absent in both.
    pub(crate) fn matches(&self, request: &HeaderMap) -> bool {
        self.fields.iter().all(|(name, value)| match value {
            None => !request.contains_key(name),
            Some(value) => request.contains_key(name) && normalised(request, name).as_deref() == Some(value),
        })
    }

    /// Tells variants apart in a second tier: keyed, since requests choose the values; 0 where
    /// nothing selects. What has the same is compared whole before it is served.
    pub(crate) fn variant(&self, secret: &[u8; 16]) -> u32 {
        if self.fields.is_empty() {
            return 0;
        }
        let mut hasher = SipHasher13::new_with_key(secret);
        for (name, value) in &self.fields {
            hasher.write(name.as_str().as_bytes());
            // No value has a line break.
            hasher.write(b"\n");
            if let Some(value) = value {
                hasher.write(b"=");
                hasher.write(value);
                hasher.write(b"\n");
            }
        }
        hasher.finish() as u32 | 1
    }

    /// The variant that a request would be answered with, if the same fields selected it.
    pub(crate) fn variant_of(&self, request: &HeaderMap, secret: &[u8; 16]) -> u32 {
        let fields = self.fields.iter().map(|(name, _)| {
            let value = normalised(request, name).map(Vec::into_boxed_slice);
            (name.clone(), value)
        });
        Selector { fields: fields.collect() }.variant(secret)
    }

    pub(crate) fn encode(&self, record: &mut Writer) {
        record.u16(self.fields.len() as u16);
        for (name, value) in &self.fields {
            record.name(name.as_str().as_bytes());
            record.byte(u8::from(value.is_some()));
            record.value(value.as_deref().unwrap_or_default());
        }
    }

    pub(crate) fn decode(record: &mut Reader<'_>) -> Option<Selector> {
        let mut fields = Vec::new();
        for _ in 0..record.u16()? {
            let (name, is_present, value) = (record.name()?, record.byte()? != 0, record.value()?);
            fields.push((name, is_present.then(|| value.into())));
        }
        Some(Selector { fields: fields.into() })
    }

    /// Bytes of names and values, for the object's size.
    pub(crate) fn bytes(&self) -> usize {
        self.fields.iter().map(|(name, value)| name.as_str().len() + value.as_ref().map_or(0, |v| v.len())).sum()
    }

    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }
}

fn normalised(request: &HeaderMap, name: &HeaderName) -> Option<Vec<u8>> {
    let mut value: Option<Vec<u8>> = None;
    for line in request.get_all(name) {
        let joined = value.get_or_insert_default();
        if !joined.is_empty() {
            joined.push(b',');
        }
        joined.extend_from_slice(line.as_bytes().trim_ascii());
    }
    let mut value = value?;
    if ![AUTHORIZATION, COOKIE].contains(name) {
        close_up(&mut value);
    }
    if [ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE].contains(name) {
        value.retain(|byte| !byte.is_ascii_whitespace());
        value.make_ascii_lowercase();
    }
    Some(value)
}

/// Removes the space around commas that are outside of quoted strings.
fn close_up(value: &mut Vec<u8>) {
    let mut quoted = false;
    let mut kept = Vec::with_capacity(value.len());
    let mut bytes = value.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if quoted => {
                kept.push(byte);
                kept.extend(bytes.next());
                continue;
            }
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                let end = kept.iter().rposition(|b: &u8| !b.is_ascii_whitespace()).map_or(0, |last| last + 1);
                kept.truncate(end);
                while bytes.next_if(u8::is_ascii_whitespace).is_some() {}
            }
            _ => {}
        }
        kept.push(byte);
    }
    *value = kept;
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn every_nominated_field_must_match() {
        let response = headers(&[("vary", "Accept-Encoding, X-Kind"), ("vary", "x-kind , cookie")]);
        let request = headers(&[("accept-encoding", "gzip, br"), ("x-kind", "a")]);
        let selector = Selector::of(&response, &request);
        assert_eq!(selector.len(), 3);
        assert!(selector.matches(&request));
        assert!(selector.matches(&headers(&[("accept-encoding", "GZIP,br"), ("x-kind", "a"), ("other", "1")])));
        assert!(selector.matches(&headers(&[("accept-encoding", "gzip"), ("accept-encoding", "br"), ("x-kind", "a")])));
        assert!(!selector.matches(&headers(&[("accept-encoding", "gzip, br")])), "absent is not any");
        assert!(!selector.matches(&headers(&[("accept-encoding", "gzip, br"), ("x-kind", "A")])), "case counts");
        assert!(!selector.matches(&headers(&[("accept-encoding", "br, gzip"), ("x-kind", "a")])));
        let quoted = |text| headers(&[("x-kind", text)]);
        let kind = Selector::of(&headers(&[("vary", "x-kind")]), &quoted("1, 2 ,\"a, b\""));
        assert!(kind.matches(&quoted("1,2,\"a, b\"")) && !kind.matches(&quoted("1,2,\"a,b\"")));
        let cookie = headers(&[("accept-encoding", "gzip, br"), ("x-kind", "a"), ("cookie", "")]);
        assert!(!selector.matches(&cookie), "present and empty is not absent");
    }
}
