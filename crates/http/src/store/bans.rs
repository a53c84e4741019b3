//! Purges of more than one key, and soft purges, in the form that a second tier stores. The tier
//! cannot search all of its records, so each record is checked when it is read (`larder-disk` calls
//! them bans; this is their content).

use crate::limits;
use crate::store::purge::{Purge, Scope, each_tag};
use crate::store::purge_table::{PurgeTable, PurgeVerdict, Purged};
use crate::store::record;

/// The purges that a second tier's records may be subject to.
#[derive(Debug, Default)]
pub struct PurgeBans(PurgeTable);

impl PurgeBans {
    /// Returns a purge as a mark: one byte for the kind, one for soft, and the key, prefix or tag.
    /// `None` if no stored response can have this key, prefix or tag.
    pub fn encode(purge: &Purge) -> Option<Vec<u8>> {
        let kind = match &purge.scope {
            Scope::Exact(_) => b'u',
            Scope::Prefix(_) => b'p',
            Scope::Tag(_) => b't',
            Scope::Everything => b'a',
        };
        purge.scope.with_purged(|what| {
            let (text, most) = match what {
                Purged::Key(text) | Purged::Prefix(text) => (text, limits::KEY_BYTES),
                Purged::Tag(text) => (text, limits::STORED_HEADER_BYTES),
                Purged::Everything => (&[][..], 0),
            };
            (text.len() <= most).then(|| [&[kind, u8::from(purge.soft)][..], text].concat())
        })
    }

    /// Adds a ban. Bytes that are not a ban count as a purge of everything.
    pub fn add(&mut self, position: u64, mark: &[u8]) {
        let (kind, soft, text) = match mark {
            [kind, soft, text @ ..] => (*kind, *soft != 0, text),
            _ => (b'a', false, &[][..]),
        };
        let what = match kind {
            b'u' => Purged::Key(text),
            b'p' => Purged::Prefix(text),
            b't' => Purged::Tag(text),
            _ => Purged::Everything,
        };
        self.0.note(position, what, soft);
    }

    /// Returns the effect of the purges on a record at `position`. `response` is at least the head
    /// of the response that it has.
    pub fn judge(&self, position: u64, key: &[u8], response: &[u8]) -> PurgeVerdict {
        self.0.verdict(position, key, |look| {
            // A record that cannot be read to its end is not a response.
            let _ = record::each_field(response, |name, value| each_tag(name, value, look));
        })
    }

    /// Forgets bans before `before`: no record before it exists any more.
    pub fn retire(&mut self, before: u64) {
        self.0.retire(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::now::Now;
    use crate::rfc::freshness::Freshness;
    use crate::store::stored::Stored;
    use http::{HeaderMap, HeaderValue, StatusCode};
    use larder_units::Time;

    const NOW: Now = Now {
        time: Time::ZERO,
        unix_seconds: 0,
    };
    const KEY: &[u8] = b"http example.com /a/b";

    fn response() -> Vec<u8> {
        let mut headers = HeaderMap::new();
        headers.append("surrogate-key", HeaderValue::from_static("one two"));
        headers.append("cache-tag", HeaderValue::from_static("three , four"));
        let freshness = Freshness::of(StatusCode::OK, &headers, &Default::default(), NOW.time, NOW);
        let stored = Stored::new(
            KEY.into(),
            0,
            Default::default(),
            StatusCode::OK,
            &headers,
            freshness,
        );
        record::encode(&stored, NOW)
    }

    /// Failure: a purge misses a record that it names, or removes another one.
    #[test]
    fn a_ban_concerns_another_record() {
        let url = |text: &str| text.parse().unwrap();
        for (scope, concerns) in [
            (Scope::Exact(url("http://example.com/a/b")), true),
            (Scope::Exact(url("http://example.com/a")), false),
            (Scope::Prefix(url("http://example.com/a/")), true),
            (Scope::Prefix(url("http://example.org/")), false),
            (Scope::Tag("two".into()), true),
            (Scope::Tag("four".into()), true),
            (Scope::Tag("thre".into()), false),
            (Scope::Everything, true),
        ] {
            for soft in [false, true] {
                let mut bans = PurgeBans::default();
                bans.add(
                    10,
                    &PurgeBans::encode(&Purge {
                        scope: scope.clone(),
                        soft,
                    })
                    .unwrap(),
                );
                let found = if soft {
                    PurgeVerdict::Expired
                } else {
                    PurgeVerdict::Purged
                };
                let expected = if concerns { found } else { PurgeVerdict::Kept };
                assert_eq!(
                    bans.judge(9, KEY, &response()),
                    expected,
                    "{scope:?} {soft}"
                );
                assert_eq!(
                    bans.judge(10, KEY, &response()),
                    PurgeVerdict::Kept,
                    "{scope:?} {soft}"
                );
            }
        }
        let endless = format!("http://example.com/{}", "x".repeat(limits::KEY_BYTES));
        let purge = Purge {
            scope: Scope::Prefix(url(&endless)),
            soft: false,
        };
        assert_eq!(
            PurgeBans::encode(&purge),
            None,
            "no stored response has so long a URL"
        );
    }
}
