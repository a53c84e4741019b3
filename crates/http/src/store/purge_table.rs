//! The purges so far: for each URL, tag and prefix, and for everything, the position of its last
//! hard and its last soft purge. A response is subject to the purges with later positions than its
//! own.
//!
//! So a purge costs one entry, independent of the stored responses, and a response is compared only
//! with the purges of its own key and its own tags. The table has a fixed size and never forgets a
//! purge. The last [`limits::PURGED_NAMES`] URLs and tags are exact. If there are more, the older
//! half moves to an array by hash ([`FORGOTTEN_PURGES`] entries, each with the latest
//! positions of all names with this index). A collision there costs a response one unnecessary
//! fetch. The older half of the prefixes is shortened to their hosts: an unnecessary fetch of each
//! older response of the host.

use crate::limits;
use crate::store::host_counts::host;
use crate::store::purge::Scope;
use hashbrown::HashMap;
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::ops::Bound;

/// Table entries for purges that are no longer exact, by hash, 16 bytes each. The table is
/// allocated, with 16 MiB, when the first purge moves there. After 100,000 purges that were all
/// later than a response, it is fetched once unnecessarily with a chance of one in eleven for each
/// of its tags.
const FORGOTTEN_PURGES: usize = 1 << 20;

/// The effect of the purges on a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeVerdict {
    /// No effect.
    Kept,
    /// A soft purge applies to it.
    Expired,
    /// A purge applies to it.
    Purged,
}

/// The number of a purge, in their order. A response with a lower position than a purge was
/// requested before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub(crate) u64);

/// Positions of the latest purges of one key, tag or prefix; 0 if there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    hard: u64,
    soft: u64,
}

impl Latest {
    fn note(&mut self, position: u64, soft: bool) {
        let last = if soft { &mut self.soft } else { &mut self.hard };
        *last = position.max(*last);
    }

    fn merge(&mut self, other: Latest) {
        self.hard = self.hard.max(other.hard);
        self.soft = self.soft.max(other.soft);
    }

    /// Returns the later of both positions.
    fn last(&self) -> u64 {
        self.hard.max(self.soft)
    }
}

/// A purged key, tag or prefix. A key or prefix is that of stored responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purged<'a> {
    Key(&'a [u8]),
    Prefix(&'a [u8]),
    Tag(&'a [u8]),
    Everything,
}

/// The purges so far.
#[derive(Debug, Default)]
pub(crate) struct PurgeTable {
    everything: Latest,
    /// By the hash of a key, a tag or a host.
    names: HashMap<u64, Latest>,
    prefixes: BTreeMap<Box<[u8]>, Latest>,
    /// Bytes of `prefixes`.
    prefix_bytes: usize,
    /// The names that are no longer exact, by hash. Empty until it is needed.
    forgotten: Box<[Latest]>,
    /// The position of the last purge.
    end: u64,
}

impl PurgeTable {
    /// Records a purge. Positions grow.
    pub(crate) fn note(&mut self, position: u64, what: Purged<'_>, soft: bool) {
        self.end = self.end.max(position);
        match what {
            Purged::Everything => self.everything.note(position, soft),
            Purged::Key(key) => self.note_name(name(b'u', key), position, soft),
            Purged::Tag(tag) => self.note_name(name(b't', tag), position, soft),
            Purged::Prefix(prefix) => {
                if let Some(known) = self.prefixes.get_mut(prefix) {
                    return known.note(position, soft);
                }
                self.bound_prefixes(prefix.len());
                self.prefix_bytes += prefix.len();
                self.prefixes
                    .entry(prefix.into())
                    .or_default()
                    .note(position, soft);
            }
        }
    }

    /// Returns the effect of the purges on a response at `position` with this key. `each_tag` calls
    /// its argument with each of the response's tags.
    pub(crate) fn verdict(
        &self,
        position: u64,
        key: &[u8],
        each_tag: impl FnOnce(&mut dyn FnMut(&[u8])),
    ) -> PurgeVerdict {
        if position >= self.end {
            return PurgeVerdict::Kept;
        }
        let mut found = self.everything;
        found.merge(self.of_name(name(b'u', key)));
        found.merge(self.of_name(name(b'h', host(key))));
        self.merge_prefixes(key, &mut found);
        each_tag(&mut |tag| found.merge(self.of_name(name(b't', tag))));
        match position {
            _ if position < found.hard => PurgeVerdict::Purged,
            _ if position < found.soft => PurgeVerdict::Expired,
            _ => PurgeVerdict::Kept,
        }
    }

    /// Forgets purges before `before`, because no response has an earlier position any more.
    pub(crate) fn retire(&mut self, before: u64) {
        self.names.retain(|_, latest| latest.last() >= before);
        self.prefixes.retain(|_, latest| latest.last() >= before);
        self.prefix_bytes = self.prefixes.keys().map(|prefix| prefix.len()).sum();
    }

    fn of_name(&self, name: u64) -> Latest {
        let mut found = self.names.get(&name).copied().unwrap_or_default();
        if let Some(forgotten) = self.forgotten.get(place_of(name)) {
            found.merge(*forgotten);
        }
        found
    }

    fn note_name(&mut self, name: u64, position: u64, soft: bool) {
        if self.names.len() >= limits::PURGED_NAMES && !self.names.contains_key(&name) {
            self.forget_older_names();
        }
        self.names.entry(name).or_default().note(position, soft);
    }

    fn forget_older_names(&mut self) {
        if self.forgotten.is_empty() {
            self.forgotten = vec![Latest::default(); FORGOTTEN_PURGES].into_boxed_slice();
        }
        let middle = middle(self.names.values());
        for (name, latest) in self.names.extract_if(|_, latest| latest.last() <= middle) {
            self.forgotten[place_of(name)].merge(latest);
        }
    }

    /// Makes room for one more prefix.
    fn bound_prefixes(&mut self, bytes: usize) {
        while !self.prefixes.is_empty()
            && (self.prefixes.len() >= limits::PURGED_PREFIXES
                || self.prefix_bytes + bytes > limits::PURGED_PREFIX_BYTES)
        {
            let middle = middle(self.prefixes.values());
            let (older, newer) = std::mem::take(&mut self.prefixes)
                .into_iter()
                .partition(|(_, l)| l.last() <= middle);
            let older: BTreeMap<Box<[u8]>, Latest> = older;
            self.prefixes = newer;
            self.prefix_bytes = self.prefixes.keys().map(|prefix| prefix.len()).sum();
            for (prefix, latest) in older {
                let host = name(b'h', host(&prefix));
                self.note_name(host, latest.hard, false);
                self.note_name(host, latest.soft, true);
            }
        }
    }

    /// Merges the purges of all prefixes of a key, from the longest on. Among the prefixes up to
    /// some length, the longest prefix of the key is the last in the order of bytes. If the last
    /// one is not a prefix of the key, no prefix is longer than its common beginning with the key.
    fn merge_prefixes(&self, key: &[u8], found: &mut Latest) {
        let mut end = key.len();
        loop {
            let up_to = (Bound::Unbounded, Bound::Included(&key[..end]));
            let Some((prefix, latest)) = self.prefixes.range::<[u8], _>(up_to).next_back() else {
                return;
            };
            let common = prefix
                .iter()
                .zip(key)
                .take_while(|(one, other)| one == other)
                .count();
            if common < prefix.len() {
                end = common;
                continue;
            }
            found.merge(*latest);
            let Some(shorter) = common.checked_sub(1) else {
                return;
            };
            end = shorter;
        }
    }
}

impl Scope {
    /// Calls `note` with the scope in the form of the table.
    pub(crate) fn with_purged<T>(&self, note: impl FnOnce(Purged<'_>) -> T) -> T {
        match self {
            Scope::Exact(url) => note(Purged::Key(&url.key().to_bytes())),
            Scope::Prefix(url) => note(Purged::Prefix(&url.prefix())),
            Scope::Tag(tag) => note(Purged::Tag(tag.as_bytes())),
            Scope::Everything => note(Purged::Everything),
        }
    }
}

/// Returns the position that half of the purges do not exceed.
fn middle<'a>(purges: impl Iterator<Item = &'a Latest>) -> u64 {
    let mut positions: Vec<u64> = purges.map(Latest::last).collect();
    let half = positions.len() / 2;
    *positions.select_nth_unstable(half).1
}

/// Returns the hash of a name. It needs no secret: two names with one hash cost one unnecessary
/// fetch.
fn name(kind: u8, text: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(&[kind]);
    hasher.write(text);
    hasher.finish()
}

fn place_of(name: u64) -> usize {
    name as usize % FORGOTTEN_PURGES
}

#[cfg(test)]
mod tests;
