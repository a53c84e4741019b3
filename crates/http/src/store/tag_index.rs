//! The stored responses of a shard by their tags: a purge by tag is one lookup.

use crate::store::entry::View;
use crate::store::policy_engine::EntryId;
use hashbrown::HashMap;
use siphasher::sip::SipHasher13;
use std::collections::BTreeSet;

/// The entries of each tag.
pub(crate) struct TagIndex {
    /// By the hash of a tag.
    entries: HashMap<u64, Tagged>,
    /// The secret of the hash, so that an origin cannot choose tags that collide.
    secret: [u8; 16],
}

/// The entries with one tag. Most tags are those of one article or product, and have one entry.
#[expect(
    clippy::box_collection,
    reason = "the few large sets do not make the many places larger"
)]
enum Tagged {
    One(EntryId),
    Several(Box<BTreeSet<EntryId>>),
}

impl TagIndex {
    pub(crate) fn new(secret: &[u8; 16]) -> TagIndex {
        TagIndex {
            entries: HashMap::new(),
            secret: *secret,
        }
    }

    /// Adds an entry under each of its tags.
    pub(crate) fn add(&mut self, id: EntryId, view: View<'_>) {
        view.each_tag(|tag| {
            let tagged = self
                .entries
                .entry(hash(&self.secret, tag))
                .or_insert(Tagged::One(id));
            match tagged {
                Tagged::One(other) if *other == id => {}
                Tagged::One(other) => {
                    *tagged = Tagged::Several(Box::new(BTreeSet::from([*other, id])))
                }
                Tagged::Several(ids) => _ = ids.insert(id),
            }
        });
    }

    /// Removes an entry that [`TagIndex::add`] has added.
    pub(crate) fn remove(&mut self, id: EntryId, view: View<'_>) {
        view.each_tag(|tag| {
            let hash = hash(&self.secret, tag);
            let is_last = match self.entries.get_mut(&hash) {
                Some(Tagged::One(other)) => *other == id,
                Some(Tagged::Several(ids)) => {
                    ids.remove(&id);
                    ids.is_empty()
                }
                None => false,
            };
            if is_last {
                self.entries.remove(&hash);
            }
        });
    }

    /// Returns the first `most` entries from the number `from` on that have a tag with the hash of
    /// this one, in the order of their numbers.
    pub(crate) fn of_tag(&self, tag: &[u8], from: usize, most: usize) -> Vec<EntryId> {
        match self.entries.get(&hash(&self.secret, tag)) {
            Some(Tagged::One(id)) if id.index() >= from => vec![*id],
            Some(Tagged::Several(ids)) => match u32::try_from(from) {
                Ok(from) => ids.range(EntryId(from)..).take(most).copied().collect(),
                Err(_) => Vec::new(),
            },
            Some(Tagged::One(_)) | None => Vec::new(),
        }
    }

    /// Returns the number of pairs of a tag and an entry, for checks.
    pub(crate) fn len(&self) -> usize {
        let count = |tagged: &Tagged| match tagged {
            Tagged::One(_) => 1,
            Tagged::Several(ids) => ids.len(),
        };
        self.entries.values().map(count).sum()
    }
}

fn hash(secret: &[u8; 16], tag: &[u8]) -> u64 {
    SipHasher13::new_with_key(secret).hash(tag)
}
