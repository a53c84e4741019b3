//! Hits and misses of the Content Store by the first components of the names: the most requested
//! prefixes, in bounded memory.
//!
//! A. Metwally, D. Agrawal, A. El Abbadi: Efficient Computation of Frequent and Top-k Elements in
//! Data Streams (Space-Saving), ICDT 2005.
//!
//! A new prefix replaces the one with the fewest requests. It begins with that one's count as its
//! overcount: it may have had so many requests before. Hits and misses begin at 0 and are exact
//! from then on, so the number of requests is between their sum and that sum plus the overcount.
//!
//! Deviation: the replaced prefix has the fewest requests of [`SAMPLE`] at a rotating position, and
//! not of all, because a flood of new prefixes would walk a heap for each. So the overcount may be
//! too low for a prefix that was replaced among more popular ones and came again. An Interest takes
//! a hash and a probe; a prefix takes some 100 bytes and its name.

use crate::limits::{COUNTED_PREFIXES, PREFIX_BYTES};
use crate::tables::name_hash::NameHasher;
use hashbrown::HashTable;
use larder_packet::NameRef;

/// Places looked at for the least.
const SAMPLE: usize = 16;

/// The requests for one prefix.
#[derive(Clone, Debug)]
pub struct PrefixFigures {
    prefix: Vec<u8>,
    hash: u64,
    /// Interests that the Content Store answered, from memory or from its second tier.
    pub hits: u64,
    /// Content Store lookups that missed.
    pub misses: u64,
    /// Requests beside those that it may have had before it was counted: those of the prefix whose
    /// place it took.
    pub overcount: u64,
}

impl PrefixFigures {
    /// The prefix.
    pub fn name(&self) -> NameRef<'_> {
        // It was a name when it came.
        NameRef::from_value(&self.prefix).unwrap_or_default()
    }

    /// Merges several shards' figures into one entry per prefix, the most requested prefixes first.
    pub fn merged(mut all: Vec<PrefixFigures>) -> Vec<PrefixFigures> {
        all.sort_by(|a, b| a.prefix.cmp(&b.prefix));
        all.dedup_by(|more, figures| {
            let same = more.prefix == figures.prefix;
            if same {
                figures.hits += more.hits;
                figures.misses += more.misses;
                figures.overcount += more.overcount;
            }
            same
        });
        all.sort_by_key(|figures| std::cmp::Reverse(figures.weight()));
        all.truncate(COUNTED_PREFIXES);
        all
    }

    /// By which it keeps its place.
    fn weight(&self) -> u64 {
        self.hits + self.misses + self.overcount
    }
}

pub(crate) struct FiguresByPrefix {
    components: usize,
    places: Vec<PrefixFigures>,
    index: HashTable<u32>,
    hand: usize,
}

impl FiguresByPrefix {
    /// Counts by the first `components` components.
    pub(crate) fn new(components: usize) -> Self {
        FiguresByPrefix {
            components,
            places: Vec::new(),
            index: HashTable::new(),
            hand: 0,
        }
    }

    pub(crate) fn note(&mut self, hasher: &NameHasher, name: NameRef<'_>, hit: bool) {
        let prefix = self.prefix_of(name);
        let bytes = prefix.as_bytes();
        if bytes.len() > PREFIX_BYTES {
            return;
        }
        let hash = hasher.hash(bytes);
        let at = self
            .find(hash, bytes)
            .unwrap_or_else(|| self.place(hash, bytes));
        let figures = &mut self.places[at];
        *(if hit {
            &mut figures.hits
        } else {
            &mut figures.misses
        }) += 1;
    }

    /// Corrects the figures when the second tier answers: the Interest was counted as a miss of
    /// memory.
    pub(crate) fn note_tier_hit(&mut self, hasher: &NameHasher, name: NameRef<'_>) {
        let prefix = self.prefix_of(name);
        let found = self.find(hasher.hash(prefix.as_bytes()), prefix.as_bytes());
        // Another may have taken its place meanwhile, and it that one's.
        if let Some(figures) = found
            .map(|at| &mut self.places[at])
            .filter(|figures| figures.misses > 0)
        {
            figures.misses -= 1;
            figures.hits += 1;
        }
    }

    fn prefix_of<'a>(&self, name: NameRef<'a>) -> NameRef<'a> {
        name.prefix(self.components.min(name.component_count()))
    }

    fn find(&self, hash: u64, prefix: &[u8]) -> Option<usize> {
        let found = self
            .index
            .find(hash, |at| self.places[*at as usize].prefix == prefix);
        found.map(|at| *at as usize)
    }

    /// A place for a prefix that has none.
    fn place(&mut self, hash: u64, bytes: &[u8]) -> usize {
        let mut new = PrefixFigures {
            prefix: bytes.to_vec(),
            hash,
            hits: 0,
            misses: 0,
            overcount: 0,
        };
        let at = if self.places.len() < COUNTED_PREFIXES {
            self.places.push(new);
            self.places.len() - 1
        } else {
            let sample = (0..SAMPLE).map(|step| (self.hand + step) % COUNTED_PREFIXES);
            let at = sample
                .min_by_key(|at| self.places[*at].weight())
                .unwrap_or_default();
            self.hand = (self.hand + SAMPLE) % COUNTED_PREFIXES;
            new.overcount = self.places[at].weight();
            let old = std::mem::replace(&mut self.places[at], new);
            if let Ok(entry) = self
                .index
                .find_entry(old.hash, |place| *place as usize == at)
            {
                entry.remove();
            }
            at
        };
        let places = &self.places;
        self.index
            .insert_unique(hash, at as u32, |at| places[*at as usize].hash);
        at
    }

    /// Returns the prefixes, the most requested first.
    pub(crate) fn top(&self) -> Vec<&PrefixFigures> {
        let mut all: Vec<&PrefixFigures> = self.places.iter().collect();
        all.sort_by_key(|figures| std::cmp::Reverse(figures.weight()));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_packet::Name;
    use larder_units::Streams;
    use std::collections::HashMap;

    /// Failure: a flood of names displaces the most requested prefixes, or takes unbounded memory.
    #[test]
    fn what_is_asked_for_often_is_counted_beside_a_flood_of_names() {
        let hasher = NameHasher::new([3, 4]);
        let mut figures = FiguresByPrefix::new(1);
        let mut draws = Streams::new(5).stream("names");
        let mut exact: HashMap<String, u64> = HashMap::new();
        for flood in 0..200_000u64 {
            let name: Name = format!("/f{flood}/x").parse().unwrap();
            figures.note(&hasher, name.as_name(), false);
            let often = format!("/often{}", draws.bits() % 20);
            let name: Name = format!("{often}/{flood}").parse().unwrap();
            figures.note(&hasher, name.as_name(), draws.bits().is_multiple_of(4));
            *exact.entry(often).or_default() += 1;
        }
        assert!(
            figures.places.len() == COUNTED_PREFIXES && figures.index.len() == COUNTED_PREFIXES
        );
        for found in &figures.top()[..20] {
            let asked = exact[&found.name().to_string()];
            let counted = found.hits + found.misses;
            assert!(
                counted <= asked && asked <= counted + found.overcount,
                "{}: {asked} {found:?}",
                found.name()
            );
            let ratio = found.hits as f64 / counted as f64;
            assert!((0.23..0.27).contains(&ratio), "{}: {ratio}", found.name());
        }
    }

    fn note(figures: &mut FiguresByPrefix, hasher: &NameHasher, uri: &str, hit: bool) {
        let name: Name = uri.parse().unwrap();
        figures.note(hasher, name.as_name(), hit);
    }

    /// Failure: several shards' figures of one prefix stand beside each other, some are lost, or
    /// the most requested prefix is not the first.
    #[test]
    fn figures_of_shards_are_lost() {
        let of = |uri: &str, hits, misses, overcount| {
            let name: Name = uri.parse().unwrap();
            PrefixFigures {
                prefix: name.as_bytes().to_vec(),
                hash: 0,
                hits,
                misses,
                overcount,
            }
        };
        let merged = PrefixFigures::merged(vec![
            of("/a", 1, 2, 3),
            of("/b", 10, 20, 30),
            of("/c", 7, 0, 40),
            of("/a", 4, 8, 16),
        ]);
        let told: Vec<_> = merged
            .iter()
            .map(|of| (of.name().to_string(), of.hits, of.misses, of.overcount))
            .collect();
        assert_eq!(
            told,
            [
                ("/b".into(), 10, 20, 30),
                ("/c".into(), 7, 0, 40),
                ("/a".to_string(), 5, 10, 19)
            ]
        );
    }

    /// Failure: new prefixes displace each other in a few places, and what was requested once long
    /// ago keeps all others.
    #[test]
    fn old_prefixes_keep_their_places() {
        let hasher = NameHasher::new([3, 4]);
        let mut figures = FiguresByPrefix::new(1);
        for number in 0..COUNTED_PREFIXES {
            note(&mut figures, &hasher, &format!("/old{number}"), false);
        }
        for round in 1..=3 {
            // As many as there are samples: each takes the place of another sample's prefix.
            let new = (0..COUNTED_PREFIXES / SAMPLE).map(|number| format!("/new{round}-{number}"));
            for uri in new {
                note(&mut figures, &hasher, &uri, false);
            }
            for sample in figures.places.chunks(SAMPLE) {
                let displaced = sample
                    .iter()
                    .filter(|figures| figures.overcount > 0)
                    .count();
                assert_eq!(displaced, round);
            }
        }
    }

    /// Failure: a prefix as long as it may be is not counted, or a longer one takes memory.
    #[test]
    fn a_long_prefix_takes_memory() {
        let hasher = NameHasher::new([3, 4]);
        for (bytes, counted) in [
            (PREFIX_BYTES - 1, 1),
            (PREFIX_BYTES, 1),
            (PREFIX_BYTES + 1, 0),
        ] {
            let mut figures = FiguresByPrefix::new(1);
            let mut name = Name::root();
            // One byte of type and three of length.
            name.push_generic(&vec![b'x'; bytes - 4]);
            assert_eq!(name.as_bytes().len(), bytes);
            figures.note(&hasher, name.as_name(), true);
            assert_eq!(figures.top().len(), counted, "{bytes} bytes");
        }
    }

    /// Failure: an answer of the second tier takes a miss from a prefix that had none, because it
    /// came into its place meanwhile.
    #[test]
    fn a_tier_hit_is_counted_without_its_miss() {
        let hasher = NameHasher::new([3, 4]);
        let mut figures = FiguresByPrefix::new(1);
        let told = |figures: &FiguresByPrefix| (figures.places[0].hits, figures.places[0].misses);
        note(&mut figures, &hasher, "/a/1", true);
        let name: Name = "/a/2".parse().unwrap();
        figures.note_tier_hit(&hasher, name.as_name());
        assert_eq!(told(&figures), (1, 0));
        note(&mut figures, &hasher, "/a/2", false);
        figures.note_tier_hit(&hasher, name.as_name());
        assert_eq!(told(&figures), (2, 0));
        let unknown: Name = "/b".parse().unwrap();
        figures.note_tier_hit(&hasher, unknown.as_name());
        assert_eq!((told(&figures), figures.places.len()), ((2, 0), 1));
    }
}
