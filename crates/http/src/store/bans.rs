//! Purges of more than one key, and soft purges, as a second tier remembers them. The tier cannot
//! search all of its records, so each record is judged when it is read (`larder-disk` calls them
//! bans; this is their content).
//!
//! For each key, prefix and tag, the position of its latest hard and soft purge is kept. It applies
//! to the records before that position.

use crate::limits;
use crate::store::purge::{Purge, Scope};
use crate::store::record;
use std::collections::BTreeMap;

/// The purges that a second tier's records may be subject to.
#[derive(Debug, Default)]
pub struct PurgeBans {
    exact: BTreeMap<Box<[u8]>, Latest>,
    prefixes: BTreeMap<Box<[u8]>, Latest>,
    tags: BTreeMap<Box<[u8]>, Latest>,
    everything: Latest,
    /// The position of the last ban.
    end: u64,
}

/// The effect of the purges on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeVerdict {
    /// Nothing.
    Kept,
    /// It was softly purged.
    Expired,
    /// It was purged.
    Purged,
}

/// Positions of the latest purges of one thing; 0 where there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    hard: u64,
    soft: u64,
}

impl Latest {
    fn of(&self, position: u64) -> PurgeVerdict {
        match position {
            _ if position < self.hard => PurgeVerdict::Purged,
            _ if position < self.soft => PurgeVerdict::Expired,
            _ => PurgeVerdict::Kept,
        }
    }
}

impl PurgeBans {
    /// A purge as a mark: one byte for what, one for soft, and the key, prefix or tag.
    pub fn encode(purge: &Purge) -> Vec<u8> {
        let (what, text): (u8, Box<[u8]>) = match &purge.scope {
            Scope::Exact(url) => (b'u', url.key().to_bytes()),
            Scope::Prefix(url) => (b'p', url.prefix()),
            Scope::Tag(tag) => (b't', tag.as_bytes().into()),
            Scope::Everything => (b'a', Box::default()),
        };
        [&[what, u8::from(purge.soft)][..], &text].concat()
    }

    /// Adds a ban. Bytes that are no ban count as a purge of everything.
    pub fn add(&mut self, position: u64, mark: &[u8]) {
        let (what, soft, text) = match mark {
            [what, soft, text @ ..] => (*what, *soft != 0, text),
            _ => (b'a', false, &[][..]),
        };
        let of = match what {
            b'u' => self.exact.entry(text.into()).or_default(),
            b'p' => self.prefixes.entry(text.into()).or_default(),
            b't' => self.tags.entry(text.into()).or_default(),
            _ => &mut self.everything,
        };
        match soft {
            true => of.soft = position,
            false => of.hard = position,
        }
        self.end = self.end.max(position);
    }

    /// Returns the effect of the purges on a record at `position`.
    pub fn judge(&self, position: u64, key: &[u8], response: &[u8]) -> PurgeVerdict {
        if position >= self.end {
            return PurgeVerdict::Kept;
        }
        let mut worst = self.everything.of(position);
        let mut take = |latest: Option<&Latest>| {
            let judgement = latest.map_or(PurgeVerdict::Kept, |latest| latest.of(position));
            if judgement == PurgeVerdict::Purged || worst == PurgeVerdict::Kept {
                worst = judgement;
            }
        };
        take(self.exact.get(key));
        self.prefixes.iter().filter(|(prefix, _)| key.starts_with(prefix)).for_each(|(_, latest)| take(Some(latest)));
        if !self.tags.is_empty() {
            record::each_field(response, |name, value| match name {
                "surrogate-key" => value.split(u8::is_ascii_whitespace).for_each(|tag| take(self.tags.get(tag))),
                "cache-tag" => {
                    value.split(|byte| *byte == b',').for_each(|tag| take(self.tags.get(tag.trim_ascii())));
                }
                _ => {}
            });
        }
        worst
    }

    /// Forgets bans before `before`: no record before it exists any more.
    pub fn retire(&mut self, before: u64) {
        let is_needed = |latest: &Latest| latest.hard.max(latest.soft) >= before;
        for bans in [&mut self.exact, &mut self.prefixes, &mut self.tags] {
            bans.retain(|_, latest| is_needed(latest));
        }
    }

    /// Returns true if the number of bans has reached its limit. Then the caller purges everything
    /// instead.
    pub fn is_full(&self) -> bool {
        self.exact.len() + self.tags.len() >= limits::MARKS || self.prefixes.len() >= limits::PREFIX_MARKS
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

    const NOW: Now = Now { time: Time::ZERO, unix_seconds: 0 };
    const KEY: &[u8] = b"http example.com /a/b";

    fn response() -> Vec<u8> {
        let mut headers = HeaderMap::new();
        headers.append("surrogate-key", HeaderValue::from_static("one two"));
        headers.append("cache-tag", HeaderValue::from_static("three , four"));
        let freshness = Freshness::of(StatusCode::OK, &headers, &Default::default(), NOW.time, NOW);
        let stored = Stored::new(KEY.into(), 0, Default::default(), StatusCode::OK, &headers, freshness);
        record::encode(&stored, NOW)
    }

    fn purge(scope: Scope, soft: bool) -> Vec<u8> {
        PurgeBans::encode(&Purge { scope, soft })
    }

    /// Failure: a purge misses a response that it names, removes one that was stored later, or is
    /// forgotten too early.
    #[test]
    fn purges_concern_what_they_name_and_only_before() {
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
                bans.add(10, &purge(scope.clone(), soft));
                let found = if soft { PurgeVerdict::Expired } else { PurgeVerdict::Purged };
                let expected = if concerns { found } else { PurgeVerdict::Kept };
                assert_eq!(bans.judge(9, KEY, &response()), expected, "{scope:?} {soft}");
                assert_eq!(bans.judge(10, KEY, &response()), PurgeVerdict::Kept, "{scope:?} {soft}");
                bans.retire(10);
                assert_eq!(bans.judge(9, KEY, &response()), expected, "{scope:?} {soft}");
            }
        }
        let mut bans = PurgeBans::default();
        bans.add(5, &purge(Scope::Tag("one".into()), false));
        bans.add(10, &purge(Scope::Everything, true));
        assert_eq!(bans.judge(4, KEY, &response()), PurgeVerdict::Purged, "the harder one counts");
        assert_eq!(bans.judge(7, KEY, &response()), PurgeVerdict::Expired);
        bans.retire(6);
        assert_eq!(bans.tags.len(), 0);
    }
}
