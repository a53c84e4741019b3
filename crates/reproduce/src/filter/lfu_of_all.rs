//! LFU over all requests: the counts survive eviction. Policy `lfu` forgets the count of what
//! leaves, and `wlfu` what is older than its window.
//!
//! The counts stand in an array by object, four bytes each: 0.44 GB for the 1.1e8 packets of the
//! paper's largest catalogue. Objects are numbered from 0, as in the generated traffic.

use larder_policy::{Build, Evict, Policy, PolicyEntry, Request, Slot};

pub(super) static ENTRY: PolicyEntry = PolicyEntry {
    name: "lfu-of-all",
    citation: "a reading of LFU in Takemasa, Koizumi, Hasegawa, 2019, section 6.2",
    summary: "evicts what was requested least often since the start, whether it was stored or not",
    parameters: &[],
    complexity: "O(1) a hit, O(the victim's count) an eviction at most",
    bytes_an_object: 12,
    needs_path: false,
    build: Build::Eviction(|_, _| Ok(Box::<LfuOfAll>::default())),
};

/// No slot.
const END: u32 = u32::MAX;

#[derive(Default)]
struct LfuOfAll {
    /// The requests of each object since the start, by its number.
    counts: Vec<u32>,
    /// The stored objects by count, in a list each.
    lists: Vec<List>,
    links: Vec<Link>,
    /// No list below this one has an object.
    least: usize,
}

/// A list from the object that was requested last to the one whose last request is the oldest.
#[derive(Clone, Copy)]
struct List {
    newest: u32,
    oldest: u32,
}

/// A stored object's neighbours in its list, and the list.
#[derive(Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
    count: u32,
}

impl LfuOfAll {
    /// Counts a request, and returns the object's requests.
    fn count(&mut self, id: u64) -> u32 {
        let at = id as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = self.counts[at].saturating_add(1);
        self.counts[at]
    }

    /// Puts a stored object, which is in no list, at the head of its count's.
    fn push(&mut self, slot: u32, count: u32) {
        let at = count as usize;
        if at >= self.lists.len() {
            self.lists.resize(
                at + 1,
                List {
                    newest: END,
                    oldest: END,
                },
            );
        }
        if slot as usize >= self.links.len() {
            self.links.resize(
                slot as usize + 1,
                Link {
                    newer: END,
                    older: END,
                    count: 0,
                },
            );
        }
        let older = std::mem::replace(&mut self.lists[at].newest, slot);
        match older {
            END => self.lists[at].oldest = slot,
            older => self.links[older as usize].newer = slot,
        }
        self.links[slot as usize] = Link {
            newer: END,
            older,
            count,
        };
        self.least = self.least.min(at);
    }

    fn unlink(&mut self, slot: u32) {
        let Link {
            newer,
            older,
            count,
        } = self.links[slot as usize];
        match newer {
            END => self.lists[count as usize].newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            END => self.lists[count as usize].oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
    }

    /// Returns the object that leaves first among those with this count or a greater one.
    fn first(&self, count: usize) -> Option<(usize, u32)> {
        let lists = self.lists.iter().enumerate().skip(count);
        lists
            .map(|(count, list)| (count, list.oldest))
            .find(|(_, oldest)| *oldest != END)
    }
}

impl Policy for LfuOfAll {
    fn state_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u32>()
            + self.lists.capacity() * size_of::<List>()
            + self.links.capacity() * size_of::<Link>()
    }
}

impl Evict for LfuOfAll {
    fn on_hit(&mut self, slot: Slot, request: &Request) {
        let count = self.count(request.id);
        self.unlink(slot.index() as u32);
        self.push(slot.index() as u32, count);
    }

    fn on_miss(&mut self, request: &Request) {
        self.count(request.id);
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let count = self
            .counts
            .get(request.id as usize)
            .copied()
            .unwrap_or_default();
        self.push(slot.index() as u32, count);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        let (count, slot) = self.first(self.least)?;
        self.least = count;
        self.unlink(slot);
        Some(Slot::new(slot))
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        let Some(after) = after else {
            return self.first(self.least).map(|(_, slot)| Slot::new(slot));
        };
        let Link { newer, count, .. } = self.links[after.index()];
        let next = if newer == END {
            self.first(count as usize + 1)?.1
        } else {
            newer
        };
        Some(Slot::new(next))
    }

    fn on_remove(&mut self, slot: Slot) {
        self.unlink(slot.index() as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::super::policies::POLICIES;
    use larder_policy::{Engine, Slot, Spec};
    use larder_units::{ByteSize, Streams, Time};

    /// The objects in a cache of two after these requests.
    fn stored(spec: &str, requests: &[u64]) -> Vec<u64> {
        let spec = Spec::parse(spec, &POLICIES).expect("a spec");
        let mut engine =
            Engine::new(&spec, ByteSize::from_bytes(2), &Streams::new(1)).expect("an engine");
        let mut stored: Vec<(u64, Slot)> = Vec::new();
        let mut victims = Vec::new();
        for id in requests {
            if let Some((_, slot)) = stored.iter().find(|(other, _)| other == id) {
                engine.hit(*slot, *id, Time::ZERO);
                continue;
            }
            engine.miss(*id, Time::ZERO);
            assert!(engine.admit(*id, 1, Time::ZERO));
            victims.clear();
            let slot = engine
                .insert(*id, 1, Time::ZERO, &mut victims)
                .expect("room");
            stored.retain(|(_, other)| !victims.contains(other));
            stored.push((*id, slot));
        }
        let mut ids: Vec<u64> = stored.into_iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids
    }

    /// Failure: the count of what has left is forgotten, as in `lfu`.
    #[test]
    fn a_count_does_not_survive_eviction() {
        // Objects 1 and 2 have two requests each when object 3 returns, and 1's last is older.
        let requests = [1, 1, 2, 3, 2, 3];
        assert_eq!(stored("lfu-of-all", &requests), [2, 3]);
        assert_eq!(stored("lfu", &requests), [1, 3]);
        // Of equals, the one that was requested longest ago leaves.
        assert_eq!(stored("lfu-of-all", &[1, 2, 1, 2, 3]), [2, 3]);
        // A newcomer enters whatever its count, and leaves before objects with more requests.
        assert_eq!(stored("lfu-of-all", &[1, 1, 2, 2, 2, 3, 4]), [2, 4]);
    }
}
