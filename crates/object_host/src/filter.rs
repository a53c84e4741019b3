//! Which objects may exist: a Bloom filter (Bloom 1970) in layers, so that an unknown URL costs no
//! request to the store.
//!
//! A layer has 8 bits for each object that it may know, and 6 of them are set by one: 2.2 % of the
//! unknown ones pass (Bloom's (1 - e^(-6/8))^6). A full layer does not change any more.
//!
//! As an object: `LRF1`, objects u64, seconds since 1970 of its begin u64, bits. Little-endian.

use crate::limits;
use crate::names::Name;

const MAGIC: [u8; 4] = *b"LRF1";
const START_BYTES: usize = MAGIC.len() + 16;
const PROBES: u64 = 6;

/// The bytes of the first layer.
const FIRST_LAYER_BYTES: usize = 64 << 10;

/// A layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    bits: Vec<u8>,
    objects: u64,
    /// Seconds since 1970 of its begin.
    begun: u64,
}

impl Layer {
    pub(crate) fn new(bytes: usize, begun: u64) -> Layer {
        Layer {
            bits: vec![0; bytes],
            objects: 0,
            begun,
        }
    }

    /// Returns the bits of a name.
    fn probes(&self, name: u128) -> impl Iterator<Item = (usize, u8)> + use<> {
        let (first, step) = (name as u64, (name >> 64) as u64 | 1);
        let bits = self.bits.len() as u64 * 8;
        (0..PROBES).map(move |probe| {
            let bit = first.wrapping_add(probe.wrapping_mul(step)) % bits;
            ((bit / 8) as usize, 1 << (bit % 8))
        })
    }

    pub(crate) fn may_have(&self, name: u128) -> bool {
        self.probes(name)
            .all(|(byte, mask)| self.bits[byte] & mask != 0)
    }

    /// Returns true if it is new.
    pub(crate) fn insert(&mut self, name: u128) -> bool {
        let is_new = !self.may_have(name);
        for (byte, mask) in self.probes(name) {
            self.bits[byte] |= mask;
        }
        self.objects += u64::from(is_new);
        is_new
    }

    pub(crate) fn is_full(&self) -> bool {
        self.objects >= self.bits.len() as u64
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(START_BYTES + self.bits.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.objects.to_le_bytes());
        bytes.extend_from_slice(&self.begun.to_le_bytes());
        bytes.extend_from_slice(&self.bits);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Layer> {
        let (start, bits) = bytes.split_at_checked(START_BYTES)?;
        let number = |at: usize| Some(u64::from_le_bytes(start.get(at..at + 8)?.try_into().ok()?));
        let is_one = start[..4] == MAGIC && (1..=limits::LAYER_BYTES).contains(&bits.len());
        is_one.then_some(())?;
        Some(Layer {
            bits: bits.to_vec(),
            objects: number(4)?,
            begun: number(12)?,
        })
    }
}

/// What a node knows about the objects that exist.
#[derive(Debug)]
pub struct Filter {
    /// Its own layers, the oldest first, each with its number.
    own: Vec<(usize, Layer)>,
    /// Those of other nodes, and of this one before a restart, by the names of their objects.
    others: Vec<(String, Layer)>,
    /// False until the others are read: then each object may exist.
    is_complete: bool,
    /// True if the last own layer is not written.
    has_changed: bool,
}

impl Filter {
    pub(crate) fn new() -> Filter {
        Filter {
            own: Vec::new(),
            others: Vec::new(),
            is_complete: false,
            has_changed: false,
        }
    }

    pub(crate) fn may_have(&self, name: Name) -> bool {
        !self.is_complete || self.knows(name)
    }

    /// Returns true if a layer has it.
    pub(crate) fn knows(&self, Name(name): Name) -> bool {
        let layers = self.own.iter().map(|(_, layer)| layer);
        let others = self.others.iter().map(|(_, layer)| layer);
        layers.chain(others).any(|layer| layer.may_have(name))
    }

    /// Records an object that was written. Returns a layer that is full by it, with its number.
    pub(crate) fn insert(&mut self, Name(name): Name, unix_seconds: u64) -> Option<(usize, Layer)> {
        let full = self.own.last().filter(|(_, layer)| layer.is_full());
        let full = full.cloned();
        if full.is_some() || self.own.is_empty() {
            let last = self.own.last();
            let number = last.map_or(0, |(number, _)| number + 1);
            let bytes = last.map_or(FIRST_LAYER_BYTES, |(_, layer)| layer.bits.len() * 2);
            let layer = Layer::new(bytes.min(limits::LAYER_BYTES), unix_seconds);
            self.own.push((number, layer));
        }
        if let Some((_, layer)) = self.own.last_mut() {
            self.has_changed |= layer.insert(name);
        }
        full
    }

    /// Returns the last own layer, with its number, if it has changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Option<(usize, Vec<u8>)> {
        let changed = std::mem::take(&mut self.has_changed);
        let (number, layer) = self.own.last().filter(|_| changed)?;
        Some((*number, layer.encode()))
    }

    /// Records that the last own layer was not written after all.
    pub(crate) fn set_changed(&mut self) {
        self.has_changed = true;
    }

    /// Replaces the layers of others by those with these names, of which the new or changed ones
    /// are given.
    pub(crate) fn set_others(&mut self, names: &[String], read: Vec<(String, Layer)>) {
        self.others.retain(|(name, _)| {
            names.contains(name) && !read.iter().any(|(newer, _)| newer == name)
        });
        self.others.extend(read);
        self.is_complete = true;
    }

    /// Forgets own layers that were begun before this second.
    pub(crate) fn forget(&mut self, before: u64) {
        self.own.retain(|(_, layer)| layer.begun >= before);
    }

    /// Returns the number of objects of all layers. Some may be counted twice.
    pub(crate) fn objects(&self) -> u64 {
        let own = self.own.iter().map(|(_, layer)| layer.objects);
        own.chain(self.others.iter().map(|(_, layer)| layer.objects))
            .sum()
    }

    /// Returns its bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        let own = self.own.iter().map(|(_, layer)| layer.bits.len());
        let others = self.others.iter().map(|(_, layer)| layer.bits.len());
        own.chain(others).sum::<usize>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u32) -> Name {
        Name::new(&number.to_le_bytes(), 0)
    }

    /// Failure: an object that exists is not found, or half of the unknown ones are asked for.
    #[test]
    fn a_filter_forgets_or_knows_everything() {
        let mut filter = Filter::new();
        assert!(filter.may_have(name(1)), "it is not complete");
        filter.set_others(&[], Vec::new());
        assert!(!filter.may_have(name(1)));
        let mut full = Vec::new();
        for number in 0..200_000 {
            full.extend(filter.insert(name(number), 7));
        }
        // 64, 128 and 256 KiB.
        assert_eq!((full.len(), filter.own.len()), (2, 3));
        assert!((0..200_000).all(|number| filter.may_have(name(number))));
        let passed = (200_000..300_000)
            .filter(|number| filter.may_have(name(*number)))
            .count();
        assert!(passed < 6_000, "{passed}");
        let (number, bytes) = filter.take_changed().unwrap();
        assert_eq!(filter.take_changed(), None);
        // Another node reads it.
        let layer = Layer::decode(&bytes).unwrap();
        assert_eq!(Some(&(number, layer.clone())), filter.own.last());
        let mut other = Filter::new();
        let names = ["a".to_owned(), "b".to_owned()];
        other.set_others(&names, vec![("a".to_owned(), layer)]);
        assert!(other.may_have(name(199_999)));
        other.set_others(&names[1..], Vec::new());
        assert!(!other.may_have(name(199_999)));
        filter.forget(8);
        assert!(!filter.may_have(name(199_999)));
    }

    #[test]
    fn bytes_that_are_no_layer() {
        let layer = Layer::new(64, 1).encode();
        assert!(Layer::decode(&layer).is_some());
        for length in 0..=START_BYTES {
            assert!(Layer::decode(&layer[..length]).is_none());
        }
        assert!(Layer::decode(&[0; 100]).is_none());
    }
}
