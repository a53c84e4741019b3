//! The static table (RFC 9204, appendix A).

use foldhash::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

/// The entries, by their index.
pub(super) const TABLE: [(&str, &str); 99] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    (
        "strict-transport-security",
        "max-age=31536000; includesubdomains",
    ),
    (
        "strict-transport-security",
        "max-age=31536000; includesubdomains; preload",
    ),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    (
        "content-security-policy",
        "script-src 'none'; object-src 'none'; base-uri 'none'",
    ),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

/// The index of the first status, which has the name of all others.
pub(super) const STATUS: usize = 24;

/// The first run of entries of each name.
static RUNS: LazyLock<HashMap<&'static str, Range<usize>>> = LazyLock::new(|| {
    let mut runs = HashMap::<&'static str, Range<usize>>::default();
    for (index, (name, _)) in TABLE.iter().enumerate() {
        let run = runs.entry(name).or_insert(index..index);
        if run.end == index {
            run.end += 1;
        }
    }
    runs
});

/// An entry for a field: with its value, or only with its name.
pub(super) enum Entry {
    Field(usize),
    Name(usize),
}

/// Returns the entry for a field, if there is one.
pub(super) fn find(name: &str, value: &[u8]) -> Option<Entry> {
    let run = RUNS.get(name)?;
    let same = run
        .clone()
        .find(|index| TABLE[*index].1.as_bytes() == value);
    Some(same.map_or(Entry::Name(run.start), Entry::Field))
}

/// Returns the entry of a status.
pub(super) fn find_status(status: u16) -> Option<usize> {
    Some(match status {
        103 => 24,
        200 => 25,
        304 => 26,
        404 => 27,
        503 => 28,
        100 => 63,
        204 => 64,
        206 => 65,
        302 => 66,
        400 => 67,
        403 => 68,
        421 => 69,
        425 => 70,
        500 => 71,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a field or a status is sent as another one.
    #[test]
    fn an_entry_is_that_of_another_field() {
        for (index, (name, value)) in TABLE.iter().enumerate() {
            match find(name, value.as_bytes()) {
                Some(Entry::Field(found)) => assert_eq!(TABLE[found], (*name, *value)),
                Some(Entry::Name(found)) => assert_eq!(TABLE[found].0, *name),
                None => panic!("{name}"),
            }
            if *name == ":status" {
                assert_eq!(find_status(value.parse().unwrap()), Some(index));
            }
        }
        assert_eq!((100..600).filter_map(find_status).count(), 14);
        assert!(find("x-unknown", b"").is_none());
    }
}
