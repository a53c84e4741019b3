//! Versions of bodies that consumers share. The same body has the same version in each answer and
//! after a restart, so the segments that Content Stores on the path still hold go on serving it,
//! and only its head crosses the network again.
//!
//! A version is 64 bits of a SHA-256 over what decides on the bytes of the segments:
//! * the bytes themselves, if the whole body has come with its head;
//! * otherwise the strong validator of RFC 9110, 8.8.1: the entity tag, or the time of the last
//!   change if that is a minute before `Date` (8.8.2.2); never a weak one. Then also the status,
//!   the fields that describe the representation, and the fields of the request that `Vary` names;
//! * the length of the body, which has to be known, and the size of the segments;
//! * the key that signs and the origin, by [`super::EgressOptions::identity`].
//!
//! Every other body has a new version in each answer. What may go wrong:
//! * **An origin gives one tag to two bodies.** A new version in each answer ends this after
//!   `shared_for`; with a version from the tag, segments of both could mix as long as a Content
//!   Store holds the old ones, and no one would see it. RFC 9110 (15.3.7.3) lets every cache
//!   combine ranges by such a tag, and an HTTP cache that validates by it also keeps the old body.
//!   Servers such as nginx and Apache make their tags of the time of the last change and of the
//!   length. So a tag counts only if that time is a minute old and not one that tools write in
//!   place of a real one ([`FIRST_REAL_CHANGE`]); and bodies of different length, type, coding,
//!   language, variant, digest field or time of change never share a version.
//!   **This remains:** two bodies of equal length whose files have an equal, plausible time, that
//!   `rsync -t` or `cp -p` kept, or a build set (`SOURCE_DATE_EPOCH`); or any
//!   equal time, if the origin sends such a tag without Last-Modified. Such an origin needs tags of
//!   the content, or no validators: then every answer has a new version. After a mix, a client's
//!   reload (`Cache-Control: no-cache`) is a request in full, whose body has a version of its own.
//!   `larder ctl cs erase` removes the segments at a node.
//! * **A purge.** It reaches no Content Store: for up to `shared_for` they give the old head. Then
//!   the head comes from the origin. If it has another validator, it names other segments; if it
//!   has the same one, the old segments are the body, according to the origin.
//! * **Two egresses for one prefix, a restart, another key.** With the same key and origin, the
//!   versions and the bytes are the same, so the two serve each other's consumers. With another key
//!   or secret, all versions differ: a consumer that trusts the new key never gets an old segment.
//! * **Variants.** They share the object's name. Their tags differ (8.8.3.3), and if not, their
//!   content fields or the request's fields do. A part (206) has its Content-Range here; a
//!   multipart body, whose parts no field tells, has a new version.
//! * **The body's length is unknown** (chunked). The bytes arrive in pieces, and the segments end
//!   where the pieces do: two fetches of one body have different segments. It has a new version.
//! * **`private`, `no-store`, requests in full.** They have unguessable versions, never these.
//! * **A segment that is gone.** The message about that has the segment's name, and a Content Store
//!   may keep it. It is never fresh, and consumers ask once more with MustBeFresh before they
//!   believe it ([`larder_transfer::Fetcher`]). So it does not outlive the body's next fetch.
//! * **A forgery.** Whoever answers on the path may store a wrong segment, or a Nack, in a Content
//!   Store, under a name that now stays for days. MustBeFresh gets past it only if it has no
//!   FreshnessPeriod, and the forger chooses that. While it is fresh, transfers through that store
//!   fail, if the consumer has a key; without one, it believes the forgery. After a failure, the
//!   ingress requests the page in full for a while, and that body has another name. Consumers by
//!   name (RDR) fail until the forgery is stale or dropped, or until `larder ctl cs erase`.
//! * **Two bodies with the same 64 bits.** They would have to belong to one object. With a million
//!   bodies of one object, the chance is 3 in 100 million. Numbers that count up, and unguessable
//!   ones, meet a given one with a chance of 1 in 2⁶⁴ each. An origin that searches for such bodies
//!   on purpose could as well send them under one tag.
//! * **Order.** The numbers of versions say nothing about which one is newer.

use http::header::{
    CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG,
    LAST_MODIFIED, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use sha2::{Digest, Sha256};
use std::time::{Duration, SystemTime};

/// What is known of a body when its version is needed.
pub(super) struct Known<'a> {
    pub(super) status: StatusCode,
    /// The fields of the response, with `Date`.
    pub(super) headers: &'a HeaderMap,
    /// The fields of the request by which responses may vary.
    pub(super) request: &'a HeaderMap,
    /// All of it, if it has arrived.
    pub(super) bytes: Option<&'a [u8]>,
    /// Its length, if known.
    pub(super) length: Option<u64>,
    /// Bytes of each segment but the last.
    pub(super) segment_bytes: usize,
}

/// The fields that describe a representation and a change of which makes another body.
static DESCRIBING: [HeaderName; 11] = [
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_LOCATION,
    CONTENT_RANGE,
    CONTENT_TYPE,
    ETAG,
    LAST_MODIFIED,
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-md5"),
];

/// The age of a change from which on its time distinguishes it from the next one. RFC 9110, 8.8.2.2
/// asks for a difference to `Date` that the clocks' cannot explain; RFC 7232 had this minute.
const SETTLED: Duration = Duration::from_secs(60);

/// 1991-01-01. HTTP is of that year. Earlier times are those that tools write in place of a real
/// one, the same for every file: 0 and 1 (Nix, Guix, OSTree), 1980-01-01 (the first time in a ZIP
/// file, and so also in many reproducible images), 1985-10-26 (npm).
const FIRST_REAL_CHANGE: Duration = Duration::from_secs(662_688_000);

impl Known<'_> {
    /// Returns the version of this body at the egress with this identity; `None` if nothing tells
    /// it from other bodies.
    pub(super) fn version(&self, identity: &[u8; 32]) -> Option<u64> {
        let mut hash = Hash(Sha256::new());
        hash.part(b"larder body 1")
            .part(identity)
            .part(&self.segment_bytes.to_be_bytes());
        if let Some(bytes) = self.bytes {
            hash.part(b"bytes").part(bytes);
            return Some(hash.end());
        }
        let length = self.length?;
        let is_one_range =
            self.status == StatusCode::PARTIAL_CONTENT && self.headers.contains_key(CONTENT_RANGE);
        if !(self.status == StatusCode::OK || is_one_range) || !self.is_change_distinct() {
            return None;
        }
        larder_http::strong_validator(self.headers)?;
        hash.part(b"validator")
            .part(&self.status.as_u16().to_be_bytes())
            .part(&length.to_be_bytes());
        for name in &DESCRIBING {
            hash.field(name, self.headers);
        }
        for name in self.varies_by() {
            hash.field(&name, self.request);
        }
        Some(hash.end())
    }

    /// Returns false if another body could have the same time of change, and a tag that was made of
    /// it: the time is too young, no real one, or unreadable. True if there is none.
    fn is_change_distinct(&self) -> bool {
        if !self.headers.contains_key(LAST_MODIFIED) {
            return true;
        }
        let [changed, sent] = [LAST_MODIFIED, DATE].map(|name| self.time(&name));
        changed.zip(sent).is_some_and(|(changed, sent)| {
            changed >= SystemTime::UNIX_EPOCH + FIRST_REAL_CHANGE && sent >= changed + SETTLED
        })
    }

    fn time(&self, name: &HeaderName) -> Option<SystemTime> {
        httpdate::parse_http_date(self.headers.get(name)?.to_str().ok()?).ok()
    }

    /// Returns the names in `Vary`, sorted.
    fn varies_by(&self) -> Vec<HeaderName> {
        let lines = self
            .headers
            .get_all(VARY)
            .into_iter()
            .map(HeaderValue::as_bytes);
        let names = lines
            .flat_map(|line| line.split(|byte| *byte == b','))
            .map(<[u8]>::trim_ascii);
        let mut names: Vec<_> = names
            .filter_map(|name| HeaderName::from_bytes(name).ok())
            .collect();
        names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        names
    }
}

/// A hash over parts, each with its length: no two lists of parts have the same bytes.
struct Hash(Sha256);

impl Hash {
    fn part(&mut self, bytes: &[u8]) -> &mut Hash {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
        self
    }

    fn field(&mut self, name: &HeaderName, headers: &HeaderMap) {
        let values = headers.get_all(name);
        self.part(name.as_str().as_bytes())
            .part(&(values.iter().count() as u64).to_be_bytes());
        for value in values {
            self.part(value.as_bytes());
        }
    }

    fn end(self) -> u64 {
        let digest: [u8; 32] = self.0.finalize().into();
        u64::from_be_bytes(digest[..8].try_into().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;

    const OLD: (&str, &str) = ("last-modified", "Sun, 06 Nov 1994 08:47:57 GMT");
    const TAG: (&str, &str) = ("etag", "\"a\"");
    static FRENCH: LazyLock<HeaderMap> = LazyLock::new(|| map(&[("accept-language", "fr")]));

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(
            DATE,
            HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"),
        );
        for (name, value) in fields {
            _ = headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn of(
        fields: &[(&'static str, &'static str)],
        change: impl FnOnce(&mut Known<'_>),
    ) -> Option<u64> {
        let (headers, request) = (map(fields), map(&[("accept-language", "de")]));
        let mut known = Known {
            status: StatusCode::OK,
            headers: &headers,
            request: &request,
            bytes: None,
            length: Some(50_000),
            segment_bytes: 8000,
        };
        change(&mut known);
        known.version(&[1; 32])
    }

    /// Failure: segments of two bodies have the same names.
    #[test]
    fn what_may_make_another_body_makes_another_version() {
        let first = of(&[TAG, OLD], |_| ());
        assert!(first.is_some());
        assert_eq!(
            first,
            of(&[("x-served-by", "b"), OLD, ("age", "7"), TAG], |_| ()),
            "the same body"
        );
        let vary = ("vary", "Accept-Language");
        let versions = [
            first,
            of(&[("etag", "\"b\""), OLD], |_| ()),
            of(&[TAG], |_| ()),
            of(&[OLD], |_| ()),
            of(
                &[TAG, ("last-modified", "Sun, 06 Nov 1994 08:47:58 GMT")],
                |_| (),
            ),
            of(&[TAG, OLD, ("content-type", "text/html")], |_| ()),
            of(&[TAG, OLD, ("content-encoding", "gzip")], |_| ()),
            of(&[TAG, OLD, ("repr-digest", "sha-256=:AAA=:")], |_| ()),
            of(&[TAG, OLD, ("repr-digest", "sha-256=:BBB=:")], |_| ()),
            of(&[TAG, OLD, ("content-digest", "sha-256=:AAA=:")], |_| ()),
            of(&[TAG, OLD, ("digest", "sha-256=AAA=")], |_| ()),
            of(&[TAG, OLD, ("content-md5", "AAA=")], |_| ()),
            of(&[TAG, OLD], |known| known.length = Some(50_001)),
            of(&[TAG, OLD], |known| known.segment_bytes = 7999),
            of(&[TAG, OLD, vary], |_| ()),
            of(&[TAG, OLD, vary], |known| known.request = &FRENCH),
            of(
                &[TAG, OLD, ("content-range", "bytes 0-49999/60000")],
                |known| {
                    known.status = StatusCode::PARTIAL_CONTENT;
                },
            ),
            of(
                &[TAG, OLD, ("content-range", "bytes 1-50000/60000")],
                |known| {
                    known.status = StatusCode::PARTIAL_CONTENT;
                },
            ),
            of(&[TAG, OLD], |known| known.bytes = Some(b"one")),
            of(&[TAG, OLD], |known| known.bytes = Some(b"other")),
        ];
        for (at, version) in versions.iter().enumerate() {
            assert!(
                version.is_some() && !versions[..at].contains(version),
                "{at}"
            );
        }
        let (headers, request) = (map(&[TAG]), HeaderMap::new());
        let (status, length, segment_bytes) = (StatusCode::OK, Some(1), 8000);
        let known = Known {
            status,
            headers: &headers,
            request: &request,
            bytes: None,
            length,
            segment_bytes,
        };
        assert_ne!(
            known.version(&[1; 32]),
            known.version(&[2; 32]),
            "a segment of another key is none of this one"
        );
    }

    /// Failure: a body keeps its version although its bytes may have changed.
    #[test]
    fn what_tells_no_body_from_another_gives_no_version() {
        let now = ("last-modified", "Sun, 06 Nov 1994 08:49:00 GMT");
        for weak in [
            &[][..],
            &[("etag", "W/\"a\"")],
            &[("etag", "W/\"a\""), OLD],
            &[("etag", "a")],
            &[now],
            &[TAG, now],
        ] {
            assert_eq!(of(weak, |_| ()), None, "{weak:?}");
            assert!(of(weak, |known| known.bytes = Some(b"its bytes do")).is_some());
        }
        let at = |time| of(&[TAG, ("last-modified", time)], |_| ());
        for written_by_a_tool in [
            "Thu, 01 Jan 1970 00:00:00 GMT",
            "Thu, 01 Jan 1970 00:00:01 GMT",
            "Tue, 01 Jan 1980 00:00:00 GMT",
            "Sat, 26 Oct 1985 08:15:00 GMT",
            "Mon, 31 Dec 1990 23:59:59 GMT",
            "Wed, 31 Dec 1969 23:59:59 GMT",
            "never",
        ] {
            assert_eq!(at(written_by_a_tool), None, "{written_by_a_tool}");
        }
        assert!(at("Tue, 01 Jan 1991 00:00:00 GMT").is_some());
        assert_eq!(
            of(&[TAG], |known| known.length = None),
            None,
            "its segments end where its pieces do"
        );
        assert_eq!(
            of(&[TAG], |known| known.status = StatusCode::NOT_FOUND),
            None
        );
        assert_eq!(
            of(&[TAG], |known| known.status = StatusCode::PARTIAL_CONTENT),
            None,
            "of several ranges"
        );
    }
}
