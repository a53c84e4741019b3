//! A response becomes an entry, and is restored from it.

use super::*;
use crate::now::Now;
use crate::rfc::cache_status::CACHE_STATUS;
use crate::rfc::directives::ResponseDirectives;
use crate::rfc::selection::Ready;
use http::Method;
use http::header::{AGE, CONTENT_LENGTH, ETAG, IF_NONE_MATCH, SET_COOKIE, VARY};
use proptest::prelude::*;

const NOW: Now = Now {
    time: Time::ZERO,
    unix_seconds: 0,
};

fn table() -> LineTable {
    LineTable::new(1 << 20, &[7; 16])
}

fn stored(headers: &HeaderMap, request: &HeaderMap, body: Vec<u8>) -> Stored {
    let status = StatusCode::OK;
    let freshness = Freshness::of(
        status,
        headers,
        &ResponseDirectives::default(),
        Time::ZERO,
        NOW,
    );
    let mut stored = Stored::new(
        b"http h /"[..].into(),
        7,
        Selector::of(headers, request),
        status,
        headers,
        freshness,
    );
    stored.set_body(Bytes::from(body));
    stored
}

fn fields() -> impl Strategy<Value = HeaderMap> {
    let name = prop_oneof![
        Just("etag"),
        Just("cache-status"),
        Just("set-cookie"),
        Just("x-a"),
        Just("x-b")
    ];
    let value = prop_oneof![
        Just(b"often".to_vec()),
        proptest::collection::vec(prop_oneof![32..127_u8, 128..=255_u8, Just(b'\t')], 0..40),
    ];
    proptest::collection::vec((name, value, any::<bool>()), 0..20).prop_map(|fields| {
        let mut map = HeaderMap::new();
        for (name, value, is_sensitive) in fields {
            let mut value = HeaderValue::from_bytes(&value).expect("a value");
            value.set_sensitive(is_sensitive);
            map.append(name, value);
        }
        map
    })
}

proptest! {
    /// Failure: a restored response has another field, value, order of lines, mark of a secret,
    /// selector or body; or its shared lines are not released.
    #[test]
    fn all_comes_back(
        responses in proptest::collection::vec((fields(), proptest::option::of("[a-z]{0,3}"), 0_usize..9_000), 1..8)
    ) {
        let mut table = table();
        let mut entries = Vec::new();
        for (mut headers, select, length) in responses {
            let mut request = HeaderMap::new();
            if let Some(select) = select {
                headers.append(VARY, HeaderValue::from_static("accept"));
                request.append("accept", HeaderValue::from_str(&select).expect("letters"));
            }
            let stored = stored(&headers, &request, vec![b'b'; length]);
            let entry = Entry::new(&stored, &mut table);
            let back = View::new(&entry, &table).to_stored(7);
            prop_assert_eq!(back.headers(), stored.headers());
            prop_assert_eq!(back.earlier(), stored.earlier());
            prop_assert_eq!((&back.key, &back.selector, &back.body), (&stored.key, &stored.selector, &stored.body));
            for name in stored.fields().keys() {
                let is_sensitive = headers.get_all(name).iter().any(HeaderValue::is_sensitive);
                prop_assert!(back.fields().get_all(name).iter().all(|value| value.is_sensitive() == is_sensitive));
                let values: Vec<_> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
                prop_assert_eq!(View::new(&entry, &table).values(name).collect::<Vec<_>>(), values);
            }
            prop_assert_eq!(entry.inline_body().is_some(), length <= limits::INLINE_BODY_BYTES);
            entries.push(entry);
            table.check_invariants(entries.iter().flat_map(Entry::shared_lines));
        }
        for entry in &entries {
            entry.release(&mut table);
        }
        table.check_invariants(std::iter::empty());
    }
}

/// Failure: a hit is written with other lines than the fields of its map.
#[test]
fn a_hit_has_its_lines() {
    let mut map = HeaderMap::new();
    map.append("server", HeaderValue::from_static("origin"));
    map.append(VARY, HeaderValue::from_static("accept"));
    map.append(SET_COOKIE, HeaderValue::from_static("a=1"));
    map.append(ETAG, HeaderValue::from_static("\"x\""));
    map.append(SET_COOKIE, HeaderValue::from_static(""));
    let mut table = table();
    let stored = stored(&map, &HeaderMap::new(), b"body".to_vec());
    let entries: Vec<_> = (0..3).map(|_| Entry::new(&stored, &mut table)).collect();
    assert_eq!(
        entries
            .iter()
            .map(|entry| entry.shared_lines().count())
            .collect::<Vec<_>>(),
        [0, 2, 2]
    );
    for entry in &entries {
        let mut head = Vec::new();
        let view = View::new(entry, &table);
        view.write_hit(&HitHead::Whole, Time::ZERO, &mut head);
        let headers = view.hit_headers(Time::ZERO);
        let lines = headers.iter().flat_map(|(name, value)| {
            [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat()
        });
        let status = b"HTTP/1.1 200 OK\r\n".iter().copied();
        assert_eq!(
            head,
            status.chain(lines).chain(*b"\r\n").collect::<Vec<_>>()
        );
        for name in [AGE, CACHE_STATUS, CONTENT_LENGTH, ETAG] {
            assert!(headers.contains_key(&name), "{name}");
        }
        // Failure: a 304 that is built directly has other fields than one that is derived from a
        // 200.
        let mut request = HeaderMap::new();
        request.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        let ready = Ready {
            status: entry.status,
            headers,
            length: Some(4),
            boundary: None,
        };
        assert_eq!(
            ready.reply(&Method::GET, &request).headers,
            view.not_modified_headers(Time::ZERO)
        );
    }
}

/// Failure: the accounted size is less than the memory of the structures.
#[test]
fn the_overheads_cover_the_structures() {
    // The box, the owner with its counter, and the counter of the collected bytes.
    let owner = size_of::<crate::body::budget::BorrowedBytes>() + 2 * size_of::<usize>();
    let large = allocated(size_of::<Rest>()) + allocated(owner) + allocated(3 * size_of::<usize>());
    assert!(
        limits::LARGE_BODY_OVERHEAD_BYTES as usize >= large,
        "{large}"
    );
}
