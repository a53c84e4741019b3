//! The stored objects by a key that only rises: the least leaves first.
//!
//! A heap of four children a node, with a delay: a hit raises the key by slot and leaves the heap as it is, so that it is O(1). What the heap
//! holds is therefore a lower bound; who comes to the top with a bound below its key sinks to where it belongs. Each hit costs at most one
//! such sinking, later. Victims looked at ahead are taken out, and go back before anything else changes.
//!
//! O(1) to raise; O(log n) amortised else; for a key of 16 bytes 44 bytes an object.

use crate::Slot;
use std::collections::VecDeque;

pub(crate) struct Heap<K> {
    /// No child is less than its parent.
    nodes: Vec<Node<K>>,
    /// The place in `nodes`, by slot; [`NOWHERE`] while foreseen.
    places: Vec<u32>,
    /// The keys, by slot.
    keys: Vec<K>,
    /// Taken out of the heap by looks ahead, the least first.
    foreseen: VecDeque<Slot>,
    /// Which of the foreseen was shown last.
    shown: usize,
}

#[derive(Clone, Copy)]
struct Node<K> {
    /// At most the object's key.
    bound: K,
    slot: Slot,
}

const NOWHERE: u32 = u32::MAX;

/// Children of a node: four stand in one or two cache lines, and the tree is half as deep as with two.
const CHILDREN: usize = 4;

impl<K> Default for Heap<K> {
    fn default() -> Self {
        Heap { nodes: Vec::new(), places: Vec::new(), keys: Vec::new(), foreseen: VecDeque::new(), shown: 0 }
    }
}

impl<K: Copy + Ord> Heap<K> {
    pub fn insert(&mut self, slot: Slot, key: K) {
        self.restore();
        if slot.index() >= self.places.len() {
            self.places.resize(slot.index() + 1, NOWHERE);
            self.keys.resize(slot.index() + 1, key);
        }
        self.keys[slot.index()] = key;
        self.put(slot);
    }

    /// The object's key is now `key`, which is no less than before.
    #[inline]
    pub fn raise(&mut self, slot: Slot, key: K) {
        self.restore();
        self.keys[slot.index()] = key;
    }

    pub fn key(&self, slot: Slot) -> K {
        self.keys[slot.index()]
    }

    /// Takes out who has the least key.
    pub fn pop(&mut self) -> Option<Slot> {
        self.shown = 0;
        self.foreseen.pop_front().or_else(|| self.pop_node())
    }

    pub fn remove(&mut self, slot: Slot) {
        self.restore();
        self.cut(self.places[slot.index()] as usize);
    }

    /// As [`crate::traits::Evict::peek`].
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
            + self.places.capacity() * size_of::<u32>()
            + self.keys.capacity() * size_of::<K>()
            + self.foreseen.capacity() * size_of::<Slot>()
    }

    /// Puts the foreseen back: what happens next may change the order.
    #[inline]
    fn restore(&mut self) {
        while let Some(slot) = self.foreseen.pop_back() {
            self.put(slot);
        }
    }

    fn put(&mut self, slot: Slot) {
        let node = Node { bound: self.keys[slot.index()], slot };
        self.nodes.push(node);
        self.rise(self.nodes.len() - 1, node);
    }

    fn pop_node(&mut self) -> Option<Slot> {
        loop {
            let top = *self.nodes.first()?;
            let key = self.keys[top.slot.index()];
            if key <= top.bound {
                self.cut(0);
                return Some(top.slot);
            }
            self.sink(0, Node { bound: key, ..top });
        }
    }

    /// Takes the node at `place` out.
    fn cut(&mut self, place: usize) {
        let gone = self.nodes[place];
        self.places[gone.slot.index()] = NOWHERE;
        let last = self.nodes.pop().expect("a node is there");
        if place < self.nodes.len() {
            if last.bound < gone.bound { self.rise(place, last) } else { self.sink(place, last) }
        }
    }

    /// Moves the empty `place` up until `node` may stand there.
    fn rise(&mut self, mut place: usize, node: Node<K>) {
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.nodes[parent].bound <= node.bound {
                break;
            }
            self.stand(place, self.nodes[parent]);
            place = parent;
        }
        self.stand(place, node);
    }

    /// Moves the empty `place` down until `node` may stand there.
    fn sink(&mut self, mut place: usize, node: Node<K>) {
        loop {
            let first = place * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(self.nodes.len());
            let Some(least) = children.min_by_key(|child| self.nodes[*child].bound) else { break };
            if self.nodes[least].bound >= node.bound {
                break;
            }
            self.stand(place, self.nodes[least]);
            place = least;
        }
        self.stand(place, node);
    }

    fn stand(&mut self, place: usize, node: Node<K>) {
        self.nodes[place] = node;
        self.places[node.slot.index()] = place as u32;
    }
}
