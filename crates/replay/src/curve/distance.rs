//! Stack distances in bytes: how much was asked for since this object was (Mattson et al., Evaluation techniques for storage hierarchies, IBM
//! Systems Journal 1970).
//!
//! Objects stand in slots in the order of their last requests, the newest last, and a tree of sums with [`FAN_OUT`] children a node holds
//! the bytes of each range of slots. A request takes the object out of its slot and puts it behind all others; holes that this leaves are
//! closed by building anew. O(log n) a request; the sums of one node are neighbours in memory, where each step of a Fenwick tree is another
//! cache line.

/// Children of a node: 16 sums are two cache lines.
const FAN_OUT: usize = 16;

/// Nobody stands in this slot any more.
const NOBODY: u32 = u32::MAX;

/// Objects by recency, and the bytes of each class of them.
pub(super) struct Recency {
    slots: Vec<Slot>,
    classes: Vec<Tree>,
    capacity: usize,
    /// Bytes ever put here, which is more than any sum.
    added: u64,
}

/// A place in the order of last requests.
#[derive(Clone, Copy)]
struct Slot {
    /// Number of the request that it stands for.
    time: u64,
    owner: u32,
}

impl Recency {
    /// Room for `capacity` requests of objects of `classes` classes.
    pub fn new(classes: usize, capacity: usize) -> Recency {
        Recency {
            slots: Vec::with_capacity(capacity),
            classes: (0..classes).map(|_| Tree::new(capacity)).collect(),
            capacity,
            added: 0,
        }
    }

    /// No room for another request, or its bytes could overflow a sum of two orders'.
    pub fn is_full(&self) -> bool {
        self.slots.len() == self.capacity || self.added > u64::MAX / 4
    }

    /// Puts `owner` last, with `bytes`; its slot.
    pub fn push(&mut self, class: usize, owner: u32, bytes: u64, time: u64) -> u32 {
        let slot = self.slots.len();
        self.added = self.added.saturating_add(bytes);
        self.slots.push(Slot { time, owner });
        self.classes[class].add(slot, bytes);
        slot as u32
    }

    /// Takes out what stands in `slot` with `bytes`.
    pub fn remove(&mut self, class: usize, slot: u32, bytes: u64) {
        self.slots[slot as usize].owner = NOBODY;
        // The two's complement: sums wrap, and are right as long as they fit in the end.
        self.classes[class].add(slot as usize, bytes.wrapping_neg());
    }

    /// The bytes of `class` from `slot` on.
    pub fn bytes_from(&self, class: usize, slot: usize) -> u64 {
        self.classes[class].sum_from(slot)
    }

    /// The first slot of a later request than `time`.
    pub fn after(&self, time: u64) -> usize {
        self.slots.partition_point(|slot| slot.time <= time)
    }

    /// Who stands here, the oldest first, with the time of its request.
    pub fn owners(&self) -> impl DoubleEndedIterator<Item = (u32, u64)> {
        self.slots.iter().filter(|slot| slot.owner != NOBODY).map(|slot| (slot.owner, slot.time))
    }
}

/// Sums over ranges of slots. `levels[0]` is the slots' own bytes, an element of `levels[n + 1]` the sum of [`FAN_OUT`] of `levels[n]`.
struct Tree {
    levels: Vec<Vec<u64>>,
}

impl Tree {
    fn new(slots: usize) -> Tree {
        let mut levels = vec![vec![0; slots]];
        let mut below = slots;
        while below > FAN_OUT {
            below = below.div_ceil(FAN_OUT);
            levels.push(vec![0; below]);
        }
        Tree { levels }
    }

    fn add(&mut self, mut at: usize, bytes: u64) {
        for level in &mut self.levels {
            level[at] = level[at].wrapping_add(bytes);
            at /= FAN_OUT;
        }
    }

    fn sum_from(&self, mut at: usize) -> u64 {
        let sum = |sums: &[u64]| sums.iter().fold(0, |sum: u64, bytes| sum.wrapping_add(*bytes));
        let Some((top, below)) = self.levels.split_last() else { return 0 };
        let mut from_here = 0_u64;
        for level in below {
            let end = at.next_multiple_of(FAN_OUT).min(level.len());
            from_here = from_here.wrapping_add(sum(&level[at..end]));
            at = end.div_ceil(FAN_OUT);
        }
        from_here.wrapping_add(sum(&top[at..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_sum_is_off(slots in 1..700_usize, adds in proptest::collection::vec((0..700_usize, any::<u64>()), 0..60)) {
            let mut tree = Tree::new(slots);
            let mut naive = vec![0_u64; slots];
            for (slot, bytes) in adds {
                tree.add(slot % slots, bytes);
                naive[slot % slots] = naive[slot % slots].wrapping_add(bytes);
            }
            for from in 0..=slots {
                let sum = naive[from..].iter().fold(0, |sum: u64, bytes| sum.wrapping_add(*bytes));
                prop_assert_eq!(tree.sum_from(from), sum, "from {}", from);
            }
        }
    }
}
