//! Which objects may exist: a Bloom filter (Bloom 1970) in layers, so that an unknown URL costs no
//! request to the store.
//!
//! A layer has 8 bits for each object that it may know, and 6 of them are set by one: 2.2 % of the
//! unknown ones pass a full layer (Bloom's (1 - e^(-6/8))^6). It does not change any more. Each run
//! of a node has layers of its own, which the others know until they are old.
//!
//! As an object: `LRF1`, objects u64, seconds since 1970 of its last one u64, bits. Little-endian.

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
    /// Seconds since 1970 of its last object.
    last: u64,
}

impl Layer {
    pub(crate) fn new(bytes: usize, last: u64) -> Layer {
        Layer {
            bits: vec![0; bytes],
            objects: 0,
            last,
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

    fn version(&self) -> Version {
        (self.objects, self.last / 86_400)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.objects >= self.bits.len() as u64
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(START_BYTES + self.bits.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.objects.to_le_bytes());
        bytes.extend_from_slice(&self.last.to_le_bytes());
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
            last: number(12)?,
        })
    }
}

/// A layer of this node.
#[derive(Debug)]
struct OwnLayer {
    number: usize,
    layer: Layer,
    /// Its state when it was last written.
    written: Version,
}

/// The state of a layer: its objects, and the day of its last one. A day later it is written again,
/// so that the others do not take it for old.
type Version = (u64, u64);

/// What a node knows about the objects that exist.
#[derive(Debug)]
pub(crate) struct Filter {
    /// Its own layers, the oldest first.
    own: Vec<OwnLayer>,
    /// The number of the next one.
    next: usize,
    /// Those of other nodes, and of this one before a restart, by the names of their objects.
    others: Vec<(String, Layer)>,
    others_are: Others,
}

/// What is known of the layers of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// They are being read: any object may exist.
    Coming,
    /// They cannot be read: only own objects are known.
    Away,
    /// They are known.
    Known,
}

impl Filter {
    pub(crate) fn new() -> Filter {
        Filter {
            own: Vec::new(),
            next: 0,
            others: Vec::new(),
            others_are: Others::Coming,
        }
    }

    pub(crate) fn may_have(&self, name: Name) -> bool {
        self.others_are == Others::Coming || self.knows(name)
    }

    /// Returns true if a layer has it.
    pub(crate) fn knows(&self, Name(name): Name) -> bool {
        let layers = self.own.iter().map(|own| &own.layer);
        let others = self.others.iter().map(|(_, layer)| layer);
        layers.chain(others).any(|layer| layer.may_have(name))
    }

    /// Records an object that was written.
    pub(crate) fn insert(&mut self, Name(name): Name, unix_seconds: u64) {
        if self.own.last().is_none_or(|own| own.layer.is_full()) {
            let last = self.own.last();
            // One that holds as many as are known: each run of a node has layers of its own, and
            // each full layer lets some unknown names pass.
            let known = usize::try_from(self.objects()).unwrap_or(usize::MAX);
            let first = FIRST_LAYER_BYTES.max(known);
            let bytes = last.map_or(first, |own| own.layer.bits.len().saturating_mul(2));
            self.own.push(OwnLayer {
                number: self.next,
                layer: Layer::new(bytes.min(limits::LAYER_BYTES), unix_seconds),
                written: (0, 0),
            });
            self.next += 1;
        }
        if let Some(own) = self.own.last_mut() {
            own.layer.insert(name);
            own.layer.last = unix_seconds;
        }
    }

    /// Returns the first own layer that has changed since it was written: its number, its state,
    /// and its bytes.
    pub(crate) fn changed(&self) -> Option<(usize, Version, Vec<u8>)> {
        let mut own = self.own.iter();
        let own = own.find(|own| own.written != own.layer.version())?;
        Some((own.number, own.layer.version(), own.layer.encode()))
    }

    /// Records that a layer was written in this state.
    pub(crate) fn set_written(&mut self, number: usize, version: Version) {
        let mut own = self.own.iter_mut();
        if let Some(own) = own.find(|own| own.number == number) {
            own.written = version;
        }
    }

    /// Replaces the layers of others by those with these names, of which the new or changed ones
    /// are given.
    pub(crate) fn set_others(&mut self, names: &[String], read: Vec<(String, Layer)>) {
        self.others.retain(|(name, _)| {
            names.contains(name) && !read.iter().any(|(newer, _)| newer == name)
        });
        self.others.extend(read);
        self.others_are = Others::Known;
    }

    /// Records that the layers of others cannot be read now.
    pub(crate) fn set_others_away(&mut self) {
        if self.others_are == Others::Coming {
            self.others_are = Others::Away;
        }
    }

    /// Forgets own layers whose last object was written before this second.
    pub(crate) fn forget(&mut self, before: u64) {
        self.own.retain(|own| own.layer.last >= before);
    }

    /// Returns the number of objects of all layers. Some may be counted twice.
    pub(crate) fn objects(&self) -> u64 {
        let own = self.own.iter().map(|own| own.layer.objects);
        own.chain(self.others.iter().map(|(_, layer)| layer.objects))
            .sum()
    }

    /// Returns its bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        let own = self.own.iter().map(|own| own.layer.bits.len());
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
        for number in 0..200_000 {
            filter.insert(name(number), 7);
        }
        // 64, 128 and 256 KiB.
        assert_eq!(filter.own.len(), 3);
        assert!((0..200_000).all(|number| filter.may_have(name(number))));
        let passed = (200_000..300_000)
            .filter(|number| filter.may_have(name(*number)))
            .count();
        assert!(passed < 6_000, "{passed}");
        for layer in 0..3 {
            let (number, version, bytes) = filter.changed().unwrap();
            assert_eq!(number, layer);
            // It was not written after all.
            assert_eq!(filter.changed().unwrap().0, layer);
            filter.set_written(number, version);
            assert_eq!(
                Layer::decode(&bytes).as_ref(),
                Some(&filter.own[layer].layer)
            );
        }
        assert_eq!(filter.changed(), None);
        // An object that is written again a day later.
        filter.insert(name(199_999), 86_400);
        let (number, version, _) = filter.changed().unwrap();
        filter.set_written(number, version);
        // Another node reads it.
        let layer = filter.own[2].layer.clone();
        let mut other = Filter::new();
        let names = ["a".to_owned(), "b".to_owned()];
        other.set_others(&names, vec![("a".to_owned(), layer)]);
        assert!(other.may_have(name(199_999)));
        other.set_others(&names[1..], Vec::new());
        assert!(!other.may_have(name(199_999)));
        filter.insert(name(300_000), 86_409);
        filter.forget(86_408);
        assert!(filter.may_have(name(300_000)) && !filter.may_have(name(0)));
        filter.forget(86_410);
        assert!(!filter.may_have(name(300_000)));
        // A number is not used twice: other nodes know the layer by it.
        filter.insert(name(1), 11);
        assert_eq!(filter.own[0].number, 3);
        let mut away = Filter::new();
        away.set_others_away();
        assert!(!away.may_have(name(1)), "each request would wait for it");
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
