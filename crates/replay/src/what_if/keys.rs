//! The keys of the sample: their variants, and the names by which they may be purged.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_policy::observe::{Label, Observed};

/// Keys of the sample whose names are known, for purges by prefix and tag; with the earlier ones,
/// at most twice as many. With names of 100 bytes they take 3 MB, with the longest 8 MB.
const NAMED_KEYS: usize = 1 << 13;

/// Variants of a key that are remembered: as many as in the HTTP cache.
const VARIANTS_PER_KEY: usize = 32;

/// The keys with recent requests. When there are too many, those whose last request is longest ago
/// are forgotten: a purge by prefix or tag then misses them.
#[derive(Default)]
pub(super) struct Keys {
    recent: HashMap<u64, Known, FixedState>,
    earlier: HashMap<u64, Known, FixedState>,
}

#[derive(Default)]
struct Known {
    variants: Vec<u32>,
    label: Option<Box<Label>>,
}

impl Keys {
    /// Returns the id of the object in the miniature caches, and remembers its key.
    pub(super) fn id(&mut self, observed: &Observed, label: Option<Box<Label>>) -> u64 {
        let Keys { recent, earlier } = self;
        let known = recent
            .entry(observed.place)
            .or_insert_with(|| earlier.remove(&observed.place).unwrap_or_default());
        if !known.variants.contains(&observed.variant) {
            if known.variants.len() == VARIANTS_PER_KEY {
                known.variants.remove(0);
            }
            known.variants.push(observed.variant);
        }
        if label.is_some() {
            known.label = label;
        }
        if recent.len() > NAMED_KEYS {
            *earlier = std::mem::take(recent);
        }
        id(observed.place, observed.variant)
    }

    /// Returns the ids of all variants of a key.
    pub(super) fn ids_at(&self, place: u64) -> Vec<u64> {
        let known = self.recent.get(&place).or_else(|| self.earlier.get(&place));
        known
            .into_iter()
            .flat_map(|known| &known.variants)
            .map(|variant| id(place, *variant))
            .collect()
    }

    /// Returns the ids of the objects with such a label.
    pub(super) fn ids_of(&self, is: impl Fn(&Label) -> bool) -> Vec<u64> {
        let keys = self.recent.iter().chain(&self.earlier);
        let found = keys.filter(|(_, known)| known.label.as_deref().is_some_and(&is));
        found
            .flat_map(|(place, known)| known.variants.iter().map(|variant| id(*place, *variant)))
            .collect()
    }

    pub(super) fn state_bytes(&self) -> usize {
        let of = |known: &Known| {
            let label = known.label.as_ref().map_or(0, |label| {
                size_of::<Label>()
                    + label.key.len()
                    + label.tags.iter().map(|tag| tag.len() + 16).sum::<usize>()
            });
            label + known.variants.capacity() * size_of::<u32>()
        };
        let map = |map: &HashMap<u64, Known, FixedState>| {
            map.capacity() * size_of::<(u64, Known)>() + map.values().map(of).sum::<usize>()
        };
        map(&self.recent) + map(&self.earlier)
    }
}

/// Returns the id of a variant. Its upper half is that of the key's position.
fn id(place: u64, variant: u32) -> u64 {
    place ^ u64::from(variant)
}
