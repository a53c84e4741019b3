//! Targeted cache control (RFC 9213): `CDN-Cache-Control`, and fields of the operator's choice,
//! that address some caches only. The first well-formed field of the list replaces `Cache-Control`
//! and `Expires`.
//!
//! Unlike `Cache-Control`, such a field is a Dictionary of Structured Fields (RFC 8941) and read
//! strictly: a field that does not parse, or is empty, counts as absent (§2.1), and so does a
//! directive with a value of another type than its own.

use crate::limits;
use crate::rfc::directives::ResponseDirectives;
use http::{HeaderMap, HeaderName};
use sfv::{BareItem, Dictionary, ListEntry, Parser};

/// Returns the directives of a response for this cache: of the first field of `targets` that it
/// has, otherwise of `Cache-Control`.
pub(crate) fn directives(headers: &HeaderMap, targets: &[HeaderName]) -> ResponseDirectives {
    let targeted = targets.iter().find_map(|name| read(headers, name));
    targeted.unwrap_or_else(|| ResponseDirectives::of(headers))
}

fn read(headers: &HeaderMap, name: &HeaderName) -> Option<ResponseDirectives> {
    let mut lines = headers
        .get_all(name)
        .into_iter()
        .map(|line| line.as_bytes());
    let first = lines.next()?;
    // RFC 8941 §4.2: several lines are one, with commas between.
    let text = lines.fold(first.to_vec(), |text, line| {
        [&text, &b", "[..], line].concat()
    });
    let dictionary: Dictionary = Parser::new(&text)
        .with_version(sfv::Version::Rfc8941)
        .parse()
        .ok()?;
    if dictionary.is_empty() {
        return None;
    }
    let mut found = ResponseDirectives {
        targeted: true,
        ..ResponseDirectives::default()
    };
    for (key, entry) in &dictionary {
        // An inner list is not a directive's value.
        let ListEntry::Item(item) = entry else {
            continue;
        };
        let is_set = matches!(item.bare_item, BareItem::Boolean(true));
        // RFC 9111 §5.2.2.4 and §5.2.2.7 allow to treat `private="x"` and `no-cache="x"` as the
        // forms without names.
        let is_set_or_named = is_set || matches!(item.bare_item, BareItem::String(_));
        let seconds = match &item.bare_item {
            BareItem::Integer(seconds) => u64::try_from(i64::from(*seconds))
                .ok()
                .map(|s| s.min(limits::LIFETIME_SECONDS)),
            _ => None,
        };
        match key.as_str() {
            "no-store" => found.no_store = is_set,
            "no-cache" => found.no_cache = is_set_or_named,
            "private" => found.private = is_set_or_named,
            "public" => found.public = is_set,
            "must-revalidate" => found.must_revalidate = is_set,
            "proxy-revalidate" => found.proxy_revalidate = is_set,
            "must-understand" => found.must_understand = is_set,
            "immutable" => found.immutable = is_set,
            "max-age" => found.max_age = seconds,
            "s-maxage" => found.s_maxage = seconds,
            "stale-while-revalidate" => found.stale_while_revalidate = seconds,
            "stale-if-error" => found.stale_if_error = seconds,
            _ => {}
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::CACHE_CONTROL;
    use proptest::prelude::*;

    const CDN: HeaderName = HeaderName::from_static("cdn-cache-control");
    const OWN: HeaderName = HeaderName::from_static("larder-cache-control");

    fn says(fields: &[(HeaderName, &'static str)]) -> ResponseDirectives {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_static(value));
        }
        directives(&headers, &[OWN, CDN])
    }

    #[test]
    fn the_first_sound_target_counts() {
        let control = (CACHE_CONTROL, "no-store");
        let max_age = |fields: &[_]| says(fields).max_age;
        assert_eq!(max_age(&[control.clone(), (CDN, "max-age=60")]), Some(60));
        assert_eq!(max_age(&[(CDN, "max-age=60"), (OWN, "max-age=5")]), Some(5));
        assert_eq!(
            max_age(&[(CDN, "max-age=60"), (OWN, "max-age=")]),
            Some(60),
            "the first is no dictionary"
        );
        assert_eq!(
            max_age(&[(CDN, "public"), (CDN, "max-age=60;x=1, max-age=7")]),
            Some(7),
            "the last of a key counts"
        );
        let found = says(&[(CDN, "max-age=60"), control]);
        assert!(
            found.targeted && !found.no_store,
            "Cache-Control is not asked"
        );
        for ignored in [
            "",
            "max-age= 60",
            "max-age=60,",
            "MAX-AGE=60",
            "max-age=\"60",
            "max-age=60 private",
        ] {
            let found = says(&[(CDN, ignored), (CACHE_CONTROL, "max-age=1")]);
            assert_eq!(
                (found.max_age, found.targeted),
                (Some(1), false),
                "{ignored}"
            );
        }
    }

    #[test]
    fn values_of_another_type_are_no_directives() {
        for text in [
            "max-age=60.0",
            "max-age=\"60\"",
            "max-age=-1",
            "max-age",
            "max-age=(60)",
            "no-store=?0",
            "no-store=1",
        ] {
            let found = says(&[(CDN, text)]);
            assert_eq!(
                (found.max_age, found.no_store, found.targeted),
                (None, false, true),
                "{text}"
            );
        }
        let found = says(&[(
            CDN,
            "private=\"x\", no-cache, s-maxage=999999999999999, must-revalidate=?1;a",
        )]);
        assert!(found.private && found.no_cache && found.must_revalidate);
        assert_eq!(found.s_maxage, Some(limits::LIFETIME_SECONDS));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                directives(&HeaderMap::from_iter([(CDN, value)]), &[CDN]);
            }
        }
    }
}
