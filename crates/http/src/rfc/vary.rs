//! Variants: matches the stored responses of a key with requests (RFC 9111 §4.1).
//!
//! Values are compared after joining the lines of a field with commas (RFC 9110 §5.3 allows this),
//! without the space around commas outside of quotes (§5.6.1.2: lists may have it or not). Cookies
//! and credentials, which are not lists, are compared unchanged. For the negotiation fields, space
//! around semicolons is removed too and letters become lower case. The order of languages and types
//! stays, because servers treat it as preference. `accept_encoding.rs` has the rules for codings.

use crate::codec::{Reader, Writer};
use crate::rfc::coding::accept_encoding;
use crate::rfc::fields;
use http::header::{
    ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, COOKIE, VARY,
};
use http::{HeaderMap, HeaderName};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// The header fields that selected one stored response, with the values of the request that it
/// answered. It is one piece of bytes: for each field in the order of names, the name, 0 or 1 for
/// its presence, and the normalised value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector(Box<[u8]>);

impl Selector {
    /// Returns the fields that the response's `Vary` nominates, from the request as it was sent to
    /// the origin. Names that cannot be a field's are never in a request, so they are left out.
    pub(crate) fn of(response: &HeaderMap, request: &HeaderMap) -> Selector {
        if !response.contains_key(VARY) {
            return Selector::default();
        }
        Selector::of_names(names(response).collect(), request)
    }

    /// Returns the fields with these names.
    pub(crate) fn of_names(mut names: Vec<HeaderName>, request: &HeaderMap) -> Selector {
        names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        Selector::from_fields(
            names
                .iter()
                .map(|name| (name.as_str(), normalised(request, name.as_str()))),
        )
    }

    fn from_fields<'a>(fields: impl Iterator<Item = (&'a str, Option<Vec<u8>>)>) -> Selector {
        let mut bytes = Writer::after(Vec::new());
        for (name, value) in fields {
            bytes.name(name.as_bytes());
            bytes.byte(u8::from(value.is_some()));
            bytes.value(&value.unwrap_or_default());
        }
        Selector(bytes.into_bytes().into())
    }

    /// Returns the selector with the bytes that [`Selector::as_bytes`] returned.
    pub(crate) fn from_bytes(bytes: Box<[u8]>) -> Selector {
        Selector(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the names of the fields, each with the value of the request if that had the field.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
        nominated(&self.0)
    }

    /// See [`matches`].
    pub(crate) fn matches(&self, request: &HeaderMap) -> bool {
        matches(&self.0, request)
    }

    /// Returns the number of the variant in a second tier. It is a keyed hash, because requests
    /// choose the values; 0 without selecting fields. Variants with the same number are compared
    /// completely before they are served.
    pub(crate) fn variant(&self, secret: &[u8; 16]) -> u32 {
        if self.0.is_empty() {
            return 0;
        }
        let mut hasher = SipHasher13::new_with_key(secret);
        for (name, value) in nominated(&self.0) {
            hasher.write(name.as_bytes());
            // Values contain no line break.
            hasher.write(b"\n");
            if let Some(value) = value {
                hasher.write(b"=");
                hasher.write(value);
                hasher.write(b"\n");
            }
        }
        hasher.finish() as u32 | 1
    }

    /// Returns the variant of the response to a request, if the same fields selected it.
    pub(crate) fn variant_of(&self, request: &HeaderMap, secret: &[u8; 16]) -> u32 {
        Selector::from_fields(nominated(&self.0).map(|(name, _)| (name, normalised(request, name))))
            .variant(secret)
    }

    pub(crate) fn encode(&self, record: &mut Writer) {
        record.u16(nominated(&self.0).count() as u16);
        record.bytes(&self.0);
    }

    pub(crate) fn decode(record: &mut Reader<'_>) -> Option<Selector> {
        let mut fields = Vec::new();
        for _ in 0..record.u16()? {
            let (name, is_present, value) = (record.name()?, record.byte()? != 0, record.value()?);
            fields.push((name, is_present.then(|| value.to_vec())));
        }
        Some(Selector::from_fields(
            fields
                .iter()
                .map(|(name, value)| (name.as_str(), value.clone())),
        ))
    }
}

/// Returns the names that the response's `Vary` nominates. `*` is not a name.
pub(crate) fn names(response: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let names = fields::list(response, &VARY).filter(|name| *name != b"*");
    names.filter_map(|name| HeaderName::from_bytes(name).ok())
}

/// Returns the names of the fields of a selector, from its bytes.
pub(crate) fn names_of(selector: &[u8]) -> impl Iterator<Item = HeaderName> {
    nominated(selector).filter_map(|(name, _)| HeaderName::from_bytes(name.as_bytes()).ok())
}

/// Returns true if the fields of `selector`, the bytes of a [`Selector`], match the request's: all
/// are equal, or absent in both (§4.1).
pub(crate) fn matches(selector: &[u8], request: &HeaderMap) -> bool {
    nominated(selector).all(|(name, value)| {
        let mut lines = request.get_all(name).iter();
        // Normalised values do not change again, so an equal line needs no second comparison.
        if let (Some(line), None) = (lines.next(), lines.next())
            && value == Some(line.as_bytes())
        {
            return true;
        }
        normalised(request, name).as_deref() == value
    })
}

/// Returns the fields of a selector, each with its value if the request had it.
fn nominated(selector: &[u8]) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
    let mut rest = Reader::new(selector);
    std::iter::from_fn(move || {
        let (name, is_present, value) = (rest.text()?, rest.byte()? != 0, rest.value()?);
        Some((name, is_present.then_some(value)))
    })
}

fn normalised(request: &HeaderMap, name: &str) -> Option<Vec<u8>> {
    let mut value: Option<Vec<u8>> = None;
    for line in request.get_all(name) {
        let joined = value.get_or_insert_default();
        if !joined.is_empty() {
            joined.push(b',');
        }
        joined.extend_from_slice(line.as_bytes().trim_ascii());
    }
    let mut value = value?;
    let is_one_of = |names: &[HeaderName]| names.iter().any(|other| *other == *name);
    if is_one_of(&[ACCEPT_ENCODING]) {
        return Some(accept_encoding::canonical(&value));
    }
    if !is_one_of(&[AUTHORIZATION, COOKIE]) {
        close_up(&mut value);
    }
    if is_one_of(&[ACCEPT, ACCEPT_CHARSET, ACCEPT_LANGUAGE]) {
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
                let end = kept
                    .iter()
                    .rposition(|b: &u8| !b.is_ascii_whitespace())
                    .map_or(0, |last| last + 1);
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
    use proptest::prelude::*;

    proptest! {
        /// Failure: a normalised value changes when it is normalised again, so that a request with
        /// it does not match its own response.
        #[test]
        fn what_is_normalised_stays_as_it_is(
            name in prop_oneof![Just("accept-encoding"), Just("accept-language"), Just("cookie"), Just("x-kind")],
            lines in proptest::collection::vec("[ab,;\"\\\\ \t]{0,12}", 1..3),
        ) {
            let mut request = HeaderMap::new();
            for line in &lines {
                request.append(name, HeaderValue::from_str(line).expect("a value"));
            }
            let once = normalised(&request, name).expect("it is there");
            request.insert(name, HeaderValue::from_bytes(&once).expect("a value"));
            prop_assert_eq!(normalised(&request, name), Some(once));
        }
    }

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn every_nominated_field_must_match() {
        let response = headers(&[
            ("vary", "Accept-Encoding, X-Kind"),
            ("vary", "x-kind , cookie"),
        ]);
        let request = headers(&[("accept-encoding", "gzip, br"), ("x-kind", "a")]);
        let selector = Selector::of(&response, &request);
        assert_eq!(nominated(selector.as_bytes()).count(), 3);
        assert!(selector.matches(&request));
        assert!(selector.matches(&headers(&[
            ("accept-encoding", "GZIP,br"),
            ("x-kind", "a"),
            ("other", "1")
        ])));
        assert!(selector.matches(&headers(&[
            ("accept-encoding", "gzip"),
            ("accept-encoding", "br"),
            ("x-kind", "a")
        ])));
        assert!(
            !selector.matches(&headers(&[("accept-encoding", "gzip, br")])),
            "absent is not any"
        );
        assert!(
            !selector.matches(&headers(&[
                ("accept-encoding", "gzip, br"),
                ("x-kind", "A")
            ])),
            "case counts"
        );
        assert!(selector.matches(&headers(&[
            ("accept-encoding", "br;q=1, x-gzip"),
            ("x-kind", "a")
        ])));
        assert!(!selector.matches(&headers(&[
            ("accept-encoding", "br;q=0.9, gzip"),
            ("x-kind", "a")
        ])));
        let quoted = |text| headers(&[("x-kind", text)]);
        let kind = Selector::of(&headers(&[("vary", "x-kind")]), &quoted("1, 2 ,\"a, b\""));
        assert!(kind.matches(&quoted("1,2,\"a, b\"")) && !kind.matches(&quoted("1,2,\"a,b\"")));
        let cookie = headers(&[
            ("accept-encoding", "gzip, br"),
            ("x-kind", "a"),
            ("cookie", ""),
        ]);
        assert!(
            !selector.matches(&cookie),
            "present and empty is not absent"
        );
    }

    /// Failure: an escaped quotation mark ends a quoted string, or a backslash outside of quotes
    /// escapes one (RFC 9110 §5.6.4), so different values match.
    #[test]
    fn the_end_of_a_quoted_string_is_misread() {
        let quoted = |text| headers(&[("x-kind", text)]);
        for (sent, other) in [
            (r#""a\" , b""#, r#""a\",b""#),
            (r#"a\"1 , 2""#, r#"a\"1,2""#),
        ] {
            let selector = Selector::of(&headers(&[("vary", "x-kind")]), &quoted(sent));
            assert!(
                selector.matches(&quoted(sent)) && !selector.matches(&quoted(other)),
                "{sent}"
            );
        }
    }

    /// Failure: two variants of a key have the same number in the second tier, or a request looks
    /// up another number than the one of its response.
    #[test]
    fn variants_that_a_second_tier_mixes_up() {
        let response = headers(&[("vary", "x-kind, x-other")]);
        let requests: Vec<HeaderMap> = (0..64)
            .map(|number| {
                HeaderMap::from_iter([(
                    HeaderName::from_static("x-kind"),
                    HeaderValue::from(number),
                )])
            })
            .chain([
                headers(&[]),
                headers(&[("x-kind", "")]),
                headers(&[("x-other", "1")]),
            ])
            .collect();
        let selectors: Vec<Selector> = requests
            .iter()
            .map(|request| Selector::of(&response, request))
            .collect();
        let under = |secret| {
            selectors
                .iter()
                .map(|selector| selector.variant(&[secret; 16]))
                .collect::<Vec<u32>>()
        };
        let mut variants = under(1);
        assert_ne!(variants, under(2), "a client knows them without the secret");
        assert!(
            variants.iter().all(|variant| variant % 2 == 1),
            "0 is the variant that nothing selects"
        );
        assert_eq!(Selector::default().variant(&[1; 16]), 0);
        for (request, variant) in requests.iter().zip(&variants) {
            assert_eq!(
                selectors[0].variant_of(request, &[1; 16]),
                *variant,
                "{request:?}"
            );
        }
        variants.sort_unstable();
        variants.dedup();
        assert_eq!(variants.len(), requests.len());
    }
}
