//! A small cache with the learnt order, of a sample of the objects. It learns from its own hits and
//! evictions.

use super::super::shadows::Sampled;
use super::Learned;
use crate::Slot;
use crate::index::SlotIndex;
use crate::prefetch::prefetch;
use larder_units::Stream;

/// The number of requests between a prefetch and its use.
const STEP: usize = 4;

pub(in crate::evict::agd) struct LearnedShadow {
    index: SlotIndex,
    objects: Vec<Object>,
    free: Vec<Slot>,
    learned: Learned,
    capacity: u64,
    used: u64,
    /// For the next start.
    stream: Stream,
}

/// The id and the size of an object, by slot. A slot that is not in use has no entry in the index.
#[derive(Clone, Copy)]
struct Object {
    id: u64,
    size: u64,
}

impl LearnedShadow {
    /// Creates an empty shadow of `capacity` bytes.
    pub fn new(capacity: u64, stream: Stream) -> Self {
        LearnedShadow {
            index: SlotIndex::default(),
            objects: Vec::new(),
            free: Vec::new(),
            learned: Learned::new(stream.clone()),
            capacity,
            used: 0,
            stream,
        }
    }

    /// Empties the shadow, and sets its capacity.
    pub fn restart(&mut self, capacity: u64) {
        *self = LearnedShadow::new(capacity, self.stream.clone());
    }

    pub fn bytes(&self) -> usize {
        self.index.bytes()
            + self.objects.capacity() * size_of::<Object>()
            + self.free.capacity() * size_of::<Slot>()
            + self.learned.bytes()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Passes the requests in this order through the shadow. Returns the worth of its hits.
    pub fn score_of(&mut self, requests: &[Sampled]) -> f64 {
        let mut score = 0.0;
        for next in 0..requests.len() + 2 * STEP {
            if let Some(request) = next.checked_sub(2 * STEP).and_then(|due| requests.get(due))
                && self.request(request)
            {
                score += request.worth;
            }
            if let Some(request) = next.checked_sub(STEP).and_then(|due| requests.get(due))
                && let Some(slot) = self.index.guess(request.id)
            {
                prefetch(&self.objects, slot.index());
                self.learned.prefetch(slot);
            }
            if let Some(request) = requests.get(next) {
                self.index.prefetch(request.id);
            }
        }
        score
    }

    /// Returns true at a hit.
    fn request(&mut self, request: &Sampled) -> bool {
        let &Sampled {
            id, size, standing, ..
        } = request;
        self.learned.tick();
        let objects = &self.objects;
        if let Some(slot) = self.index.find(id, |slot| objects[slot.index()].id == id) {
            self.learned
                .on_hit(slot, objects[slot.index()].size, standing);
            return true;
        }
        if size > self.capacity {
            return false;
        }
        let short = self.used.saturating_add(size).saturating_sub(self.capacity);
        let size_of = |slot: Slot| objects[slot.index()].size;
        if short > 0
            && !self
                .learned
                .accept((id, size, standing), short, self.capacity, size_of)
        {
            self.learned.on_refusal();
            return false;
        }
        self.shrink(self.capacity - size);
        self.learned.on_refusal();
        let object = Object { id, size };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.objects.push(object);
            Slot::new((self.objects.len() - 1) as u32)
        });
        self.objects[slot.index()] = object;
        self.index.insert(id, slot);
        self.used += size;
        self.learned.on_insert(slot, id, size, standing);
        false
    }

    /// Evicts objects until at most `bytes` are stored.
    fn shrink(&mut self, bytes: u64) {
        while self.used > bytes
            && let Some(slot) = self.learned.victim()
        {
            self.learned.on_evict(slot, self.objects[slot.index()].size);
            self.release(slot);
        }
    }

    fn release(&mut self, slot: Slot) {
        let Object { id, size } = self.objects[slot.index()];
        self.index.remove(id, slot);
        self.used -= size;
        self.free.push(slot);
    }

    /// Removes the objects that have left the sample, and shrinks to `capacity` bytes. The shadow
    /// sees half as many requests from now on.
    pub fn thin(&mut self, capacity: u64, is_sampled: impl Fn(u64) -> bool) {
        self.capacity = capacity;
        for slot in (0..self.objects.len() as u32).map(Slot::new) {
            let Object { id, size } = self.objects[slot.index()];
            let is_stored = self.index.find(id, |found| found == slot).is_some();
            if is_stored && !is_sampled(id) {
                self.learned.on_remove(slot, size);
                self.release(slot);
            }
        }
        self.shrink(capacity);
        self.learned.halve_ages();
    }
}
