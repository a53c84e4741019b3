//! A heap of the stored objects by a key that only rises. The least key leaves first.
//!
//! Each node has four children. Updates are delayed: a hit raises the key in the table by slot and
//! leaves the heap unchanged, so that it is O(1). So a node holds a lower bound of its object's
//! key. A node that comes to the top with a bound below its key sinks to its position. Each hit
//! causes at most one such move later, and so does a removal: the node stays until it comes to the
//! top, or until half of all nodes are dead. The heap keeps no positions of its objects, because
//! each move would have to write another cache line. Victims that were looked at ahead are removed
//! from the heap, and return before anything else changes.
//!
//! O(1) to raise a key; otherwise O(log n) amortised; for a key of 16 bytes 48 bytes an object.

use crate::Slot;
use crate::prefetch::prefetch;
use std::collections::VecDeque;

pub(crate) struct Heap<K> {
    /// No child is less than its parent.
    nodes: Vec<Node<K>>,
    /// By slot.
    entries: Vec<Entry<K>>,
    /// The number of nodes that represent an object.
    live: usize,
    /// Objects that looks ahead have removed from the heap, the least first.
    foreseen: VecDeque<Slot>,
    /// The index in `foreseen` of the object that was shown last.
    shown: usize,
}

#[derive(Clone, Copy)]
struct Entry<K> {
    key: K,
    /// Counts the removals: a node with another generation is dead.
    generation: u32,
}

#[derive(Clone, Copy)]
struct Node<K> {
    /// At most the object's key.
    bound: K,
    slot: Slot,
    generation: u32,
}

/// Children of a node: four are in one or two cache lines, and the tree is half as deep as with
/// two.
const CHILDREN: usize = 4;

/// The number of dead nodes below which the heap is not cleaned.
const FEW: usize = 64;

impl<K> Default for Heap<K> {
    fn default() -> Self {
        Heap {
            nodes: Vec::new(),
            entries: Vec::new(),
            live: 0,
            foreseen: VecDeque::new(),
            shown: 0,
        }
    }
}

impl<K: Copy + Ord> Heap<K> {
    pub fn insert(&mut self, slot: Slot, key: K) {
        self.restore();
        if slot.index() >= self.entries.len() {
            self.entries
                .resize(slot.index() + 1, Entry { key, generation: 0 });
        }
        self.entries[slot.index()].key = key;
        self.put(slot);
    }

    /// Raises the object's key to `key`, which is at least the old key.
    #[inline]
    pub fn raise(&mut self, slot: Slot, key: K) {
        self.restore();
        self.entries[slot.index()].key = key;
    }

    /// Returns the number of objects, including those that looks ahead have removed from the heap.
    pub fn len(&self) -> usize {
        self.live + self.foreseen.len()
    }

    pub fn key(&self, slot: Slot) -> K {
        self.entries[slot.index()].key
    }

    /// Removes the object with the least key.
    pub fn pop(&mut self) -> Option<Slot> {
        self.shown = 0;
        self.foreseen.pop_front().or_else(|| self.pop_node())
    }

    pub fn remove(&mut self, slot: Slot) {
        self.restore();
        let entry = &mut self.entries[slot.index()];
        entry.generation = entry.generation.wrapping_add(1);
        self.live -= 1;
        if self.nodes.len() > 2 * self.live + FEW {
            self.clear_out();
        }
    }

    /// See [`crate::traits::Evict::peek`].
    pub fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        self.shown = if after.is_none() { 0 } else { self.shown + 1 };
        if self.shown >= self.foreseen.len() {
            let slot = self.pop_node()?;
            self.foreseen.push_back(slot);
            self.shown = self.foreseen.len() - 1;
        }
        Some(self.foreseen[self.shown])
    }

    pub fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<K>>()
            + self.entries.capacity() * size_of::<Entry<K>>()
            + self.foreseen.capacity() * size_of::<Slot>()
    }

    /// Begins to load the entry of `slot`, whose key will be raised soon.
    #[inline]
    pub fn prefetch(&self, slot: Slot) {
        prefetch(&self.entries, slot.index());
    }

    /// Returns the slot that probably comes to the top next.
    #[inline]
    pub fn expected(&self) -> Option<Slot> {
        self.nodes.first().map(|node| node.slot)
    }

    /// Returns the foreseen objects to the heap, because the next call may change the order.
    #[inline]
    fn restore(&mut self) {
        while let Some(slot) = self.foreseen.pop_back() {
            self.put(slot);
        }
    }

    fn put(&mut self, slot: Slot) {
        let Entry { key, generation } = self.entries[slot.index()];
        let node = Node {
            bound: key,
            slot,
            generation,
        };
        self.live += 1;
        self.nodes.push(node);
        self.rise(self.nodes.len() - 1, node);
    }

    fn pop_node(&mut self) -> Option<Slot> {
        loop {
            let top = *self.nodes.first()?;
            let Entry { key, generation } = self.entries[top.slot.index()];
            if generation != top.generation {
                self.cut_top();
            } else if key > top.bound {
                self.sink(Node { bound: key, ..top });
            } else {
                self.cut_top();
                self.live -= 1;
                return Some(top.slot);
            }
        }
    }

    fn cut_top(&mut self) {
        if let Some(last) = self.nodes.pop()
            && !self.nodes.is_empty()
        {
            self.sink(last);
        }
    }

    /// Drops the dead nodes.
    fn clear_out(&mut self) {
        self.nodes
            .retain(|node| self.entries[node.slot.index()].generation == node.generation);
        // A sorted vector is a heap.
        self.nodes.sort_unstable_by_key(|node| node.bound);
    }

    /// Moves the empty `place` up until `node` fits there.
    fn rise(&mut self, mut place: usize, node: Node<K>) {
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.nodes[parent].bound <= node.bound {
                break;
            }
            self.nodes[place] = self.nodes[parent];
            place = parent;
        }
        self.nodes[place] = node;
    }

    /// Moves the empty top down until `node` fits there. While the children are compared, it loads
    /// the grandchildren, which are adjacent, and the keys of the objects that come to the top
    /// next.
    fn sink(&mut self, node: Node<K>) {
        let mut place = 0;
        loop {
            let first = place * CHILDREN + 1;
            let grandchild = first * CHILDREN + 1;
            for next in (0..CHILDREN * CHILDREN).step_by(2) {
                prefetch(&self.nodes, grandchild + next);
            }
            let children = first..(first + CHILDREN).min(self.nodes.len());
            let Some(least) = children.min_by_key(|child| self.nodes[*child].bound) else {
                break;
            };
            if self.nodes[least].bound >= node.bound {
                break;
            }
            self.nodes[place] = self.nodes[least];
            if place < 1 + CHILDREN {
                prefetch(&self.entries, self.nodes[place].slot.index());
            }
            place = least;
        }
        self.nodes[place] = node;
    }
}
