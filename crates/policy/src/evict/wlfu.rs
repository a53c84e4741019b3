//! WLFU: evicts the object with the fewest of the last W requests; of equals, the one whose last
//! request is longest ago (Karakostas and Serpanos, Exploitation of different types of locality for
//! web caches, IEEE ISCC 2002).
//!
//! A queue holds the ids of the last W requests, and a table counts each id in it, also those of
//! objects that are not stored. The stored objects are in one list for each count, the most
//! recently moved at the head. A request moves its object one list up, and the request that leaves
//! the queue moves its object one list down. A bitmap of two levels finds the lowest list that is
//! not empty.
//!
//! Differences: the counts are exact, but counts of [`LEVELS`] and more are equal. The paper's
//! objects have one size; here objects leave until the newcomer fits. The newcomer always enters;
//! `tinylfu+wlfu` compares it with its victims. By default W follows the cache, ten requests for
//! each stored object.
//!
//! O(1) a request; 18 bytes a stored object, and 8 for each request of the window with 29 to 57 for
//! each object in it: about 200 to 600 per stored object. TinyLFU's sketch avoids this cost.

use crate::entry::{Build, PolicyEntry};
use crate::hash::mix;
use crate::limits::WLFU_MAX_WINDOW;
use crate::list::{Links, List};
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::traits::{Evict, Gauge, Policy};
use crate::{Request, Slot};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::collections::VecDeque;

/// Requests in WLFU's window for each stored object: as many as in TinyLFU's sketch, so that both
/// can be compared.
const WINDOW_PER_OBJECT: u64 = 10;

/// Shortest derived window of WLFU. A cache of a few large objects must see a second request, too.
const MIN_DERIVED_WINDOW: u64 = 640;

/// Counts that WLFU distinguishes. Objects with more requests are ordered by recency only.
const LEVELS: usize = 4096;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "wlfu",
    citation: "Karakostas, Serpanos, Exploitation of different types of locality for web caches, IEEE ISCC 2002",
    summary: "evicts what was requested least often among the last requests",
    parameters: &[Parameter {
        name: "window",
        unit: "requests",
        values: Values::Integer(1, WLFU_MAX_WINDOW),
        default: Preset::Derived("ten for each stored object, at least 640"),
        doc: "requests that are counted",
    }],
    complexity: "O(1)",
    bytes_an_object: 350,
    needs_path: false,
    build: Build::Eviction(|arguments, _| Ok(Box::new(Wlfu::new(arguments)))),
};

struct Wlfu {
    window: usize,
    window_is_derived: bool,
    /// The last requests, oldest first.
    history: VecDeque<u64>,
    /// Every id that is in the history or stored.
    known: HashTable<Known>,
    stored: Vec<Stored>,
    links: Links,
    levels: Levels,
    len: usize,
}

struct Known {
    id: u64,
    count: u32,
    slot: Option<Slot>,
}

#[derive(Clone, Copy, Default)]
struct Stored {
    id: u64,
    level: u16,
}

impl Wlfu {
    fn new(arguments: &Arguments<'_>) -> Wlfu {
        let window = arguments.get("window");
        Wlfu {
            window: window.unwrap_or(MIN_DERIVED_WINDOW) as usize,
            window_is_derived: window.is_none(),
            history: VecDeque::new(),
            known: HashTable::new(),
            stored: Vec::new(),
            links: Links::default(),
            levels: Levels::default(),
            len: 0,
        }
    }

    /// Adds a request to the window, and removes the oldest ones.
    fn count(&mut self, id: u64) {
        let known = self
            .known
            .entry(mix(id), |known| known.id == id, |known| mix(known.id));
        let mut known = known.or_insert(Known {
            id,
            count: 0,
            slot: None,
        });
        known.get_mut().count += 1;
        let &Known { count, slot, .. } = known.get();
        self.place(slot, count);
        self.history.push_back(id);
        // At most two per request, so that it is O(1) even after the window has shrunk by much.
        for _ in 0..2 {
            if self.history.len() > self.window
                && let Some(oldest) = self.history.pop_front()
            {
                self.uncount(oldest);
            }
        }
    }

    fn uncount(&mut self, id: u64) {
        let Entry::Occupied(mut entry) =
            self.known
                .entry(mix(id), |known| known.id == id, |known| mix(known.id))
        else {
            debug_assert!(false, "{id} is in the history and not counted");
            return;
        };
        entry.get_mut().count -= 1;
        let &Known { count, slot, .. } = entry.get();
        if count == 0 && slot.is_none() {
            entry.remove();
        }
        self.place(slot, count);
    }

    /// Moves a stored object to the head of its count's list.
    fn place(&mut self, slot: Option<Slot>, count: u32) {
        if let Some(slot) = slot {
            let stored = &mut self.stored[slot.index()];
            let level = level_of(count);
            let old = std::mem::replace(&mut stored.level, level);
            self.levels.unlink(&mut self.links, slot, old);
            self.levels.push(&mut self.links, slot, level);
        }
    }

    /// Records that `slot` is free.
    fn release(&mut self, slot: Slot) {
        let Stored { id, level } = self.stored[slot.index()];
        self.levels.unlink(&mut self.links, slot, level);
        if let Entry::Occupied(mut entry) =
            self.known
                .entry(mix(id), |known| known.id == id, |known| mix(known.id))
        {
            entry.get_mut().slot = None;
            if entry.get().count == 0 {
                entry.remove();
            }
        }
        self.len -= 1;
    }
}

fn level_of(count: u32) -> u16 {
    count.min(LEVELS as u32 - 1) as u16
}

impl Policy for Wlfu {
    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge {
            name: "window_requests",
            value: self.window as f64,
        });
    }

    fn state_bytes(&self) -> usize {
        self.history.capacity() * size_of::<u64>()
            + self.known.allocation_size()
            + self.stored.capacity() * size_of::<Stored>()
            + self.links.bytes()
            + self.levels.bytes()
    }
}

impl Evict for Wlfu {
    fn on_hit(&mut self, _: Slot, request: &Request) {
        self.count(request.id);
    }

    fn on_miss(&mut self, request: &Request) {
        self.count(request.id);
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let id = request.id;
        let known = self
            .known
            .entry(mix(id), |known| known.id == id, |known| mix(known.id));
        let mut known = known.or_insert(Known {
            id,
            count: 0,
            slot: None,
        });
        known.get_mut().slot = Some(slot);
        let level = level_of(known.get().count);
        if slot.index() >= self.stored.len() {
            self.stored.resize(slot.index() + 1, Stored::default());
        }
        self.stored[slot.index()] = Stored { id, level };
        self.levels.push(&mut self.links, slot, level);
        self.len += 1;
        if self.window_is_derived {
            let wanted = (self.len as u64).saturating_mul(WINDOW_PER_OBJECT);
            self.window = wanted.clamp(MIN_DERIVED_WINDOW, WLFU_MAX_WINDOW) as usize;
        }
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        let victim = self.levels.lowest(0)?.tail()?;
        self.release(victim);
        Some(victim)
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        let Some(slot) = after else {
            return self.levels.lowest(0)?.tail();
        };
        let level = self.stored[slot.index()].level as usize;
        let next = self.levels.lists[level].newer(&self.links, slot);
        next.or_else(|| self.levels.lowest(level + 1)?.tail())
    }

    fn on_remove(&mut self, slot: Slot) {
        self.release(slot);
    }

    fn object_count(&self) -> Option<usize> {
        Some(
            self.levels
                .lists
                .iter()
                .map(|list| list.count(&self.links))
                .sum(),
        )
    }
}

/// A list for each count, and a bitmap of the lists that are not empty.
struct Levels {
    lists: Vec<List>,
    /// A bit for each list. It is set if the list has objects.
    filled: [u64; LEVELS / 64],
    /// A bit for each element of `filled`. It is set if the element is not 0.
    words: u64,
}

// One word has a bit for each of the others.
const _: () = assert!(LEVELS == 64 * 64);

impl Default for Levels {
    fn default() -> Self {
        Levels {
            lists: vec![List::default(); LEVELS],
            filled: [0; LEVELS / 64],
            words: 0,
        }
    }
}

impl Levels {
    fn push(&mut self, links: &mut Links, slot: Slot, level: u16) {
        let level = level as usize;
        self.lists[level].push_head(links, slot);
        self.filled[level / 64] |= 1 << (level % 64);
        self.words |= 1 << (level / 64);
    }

    fn unlink(&mut self, links: &mut Links, slot: Slot, level: u16) {
        let level = level as usize;
        self.lists[level].unlink(links, slot);
        if self.lists[level].tail().is_none() {
            self.filled[level / 64] &= !(1 << (level % 64));
            if self.filled[level / 64] == 0 {
                self.words &= !(1 << (level / 64));
            }
        }
    }

    /// Returns the lowest list from `level` on that is not empty.
    fn lowest(&self, level: usize) -> Option<&List> {
        let (word, bit) = (level / 64, level % 64);
        let here = self.filled.get(word)? & (u64::MAX << bit);
        let found = match here {
            0 => {
                let above = self.words & u64::MAX.checked_shl(word as u32 + 1).unwrap_or(0);
                let word = (above != 0).then(|| above.trailing_zeros() as usize)?;
                word * 64 + self.filled[word].trailing_zeros() as usize
            }
            here => word * 64 + here.trailing_zeros() as usize,
        };
        Some(&self.lists[found])
    }

    fn bytes(&self) -> usize {
        self.lists.capacity() * size_of::<List>()
    }
}
