//! The engine: slots, bytes and the policies, under one capacity.

use crate::future::Future;
use crate::job::{Job, JobDone};
use crate::limits::MAX_OBJECTS;
use crate::prefetch::prefetch;
use crate::registry::{Build, Setting};
use crate::traits::{Admit, Evict, Gauge};
use crate::{Path, Request, Slot, Spec, SpecError};
use larder_units::{ByteSize, Streams, Time};
use std::sync::Arc;

/// Decides what a cache keeps. It knows ids, sizes and slots, and neither keys nor values: the owner's index maps its keys to [`Slot`]s,
/// and drops the values of the slots that come back as victims.
///
/// A slot that is not in use is ignored by [`Engine::hit`] and [`Engine::remove`].
pub struct Engine {
    spec: Spec,
    capacity: u64,
    used: u64,
    requests: u64,
    /// Something had to leave, and since then the cache was never less than half full: see [`Engine::admit_or_fill`].
    has_been_full: bool,
    objects: Vec<Object>,
    free: Vec<Slot>,
    admission: Vec<Box<dyn Admit>>,
    eviction: Box<dyn Evict>,
}

/// What the engine knows of a slot.
#[derive(Clone, Copy)]
struct Object {
    id: u64,
    /// Bytes, or [`UNUSED`].
    size: u64,
}

/// The size of a slot that holds nothing; no object can have it (see [`Engine::fits`]).
const UNUSED: u64 = u64::MAX;

/// The least that an object weighs, so that a capacity in bytes also bounds the number of objects.
const MIN_SIZE: u64 = 1;

impl Engine {
    /// An empty engine with `spec`'s policies and room for `capacity`. The same spec, capacity, streams and calls give the same decisions.
    ///
    /// # Errors
    /// [`SpecError`] where arguments of one stage contradict each other, or a stage would have to know the future.
    pub fn new(spec: &Spec, capacity: ByteSize, streams: &Streams) -> Result<Engine, SpecError> {
        Engine::build(spec, capacity, streams, None)
    }

    /// As [`Engine::new`], also for the policies that know the trace ahead: the engine's n-th request is the n-th of `future`.
    ///
    /// # Errors
    /// [`SpecError`] where arguments of one stage contradict each other.
    pub fn foreseeing(
        spec: &Spec,
        capacity: ByteSize,
        streams: &Streams,
        future: &Arc<Future>,
    ) -> Result<Engine, SpecError> {
        Engine::build(spec, capacity, streams, Some(future))
    }

    fn build(
        spec: &Spec,
        capacity: ByteSize,
        streams: &Streams,
        future: Option<&Arc<Future>>,
    ) -> Result<Engine, SpecError> {
        let capacity = capacity.bytes();
        let mut admission = Vec::new();
        let mut eviction = None;
        for (stage, parsed) in spec.stages().iter().enumerate() {
            let entry = parsed.entry();
            let setting = Setting { capacity, streams, stage, name: entry.name };
            let future = || {
                future.ok_or_else(|| format!("`{}` knows the trace ahead, only `larder replay` can run it", entry.name))
            };
            let built = parsed.with_arguments(|arguments| match entry.build {
                Build::Admission(build) => build(arguments, &setting).map(|policy| admission.push(policy)),
                Build::Eviction(build) => build(arguments, &setting).map(|policy| eviction = Some(policy)),
                Build::OfflineAdmission(build) => {
                    build(arguments, &setting, future()?).map(|policy| admission.push(policy))
                }
                Build::OfflineEviction(build) => build(arguments, future()?).map(|policy| eviction = Some(policy)),
            });
            built.map_err(|problem| SpecError::contradiction(spec, stage, problem))?;
        }
        let eviction = eviction.expect("a parsed spec ends with an eviction policy");
        Ok(Engine {
            spec: spec.clone(),
            capacity,
            used: 0,
            requests: 0,
            has_been_full: false,
            objects: Vec::new(),
            free: Vec::new(),
            admission,
            eviction,
        })
    }

    /// A request for the object in `slot`.
    #[inline]
    pub fn hit(&mut self, slot: Slot, id: u64, now: Time) {
        let Some(size) = self.size_of(slot) else { return };
        self.requests += 1;
        let request = Request { id, size, now, seq: self.requests };
        for stage in &mut self.admission {
            stage.on_request(&request, true);
        }
        self.eviction.on_hit(slot, &request);
    }

    /// A request for something that is not stored. Its size is not known yet.
    #[inline]
    pub fn miss(&mut self, id: u64, now: Time) {
        self.requests += 1;
        let request = Request { id, size: 0, now, seq: self.requests };
        for stage in &mut self.admission {
            stage.on_request(&request, false);
        }
        self.eviction.on_miss(&request);
    }

    /// The missed object is there, `size` bytes with its overhead: should it be stored? Never where it is larger than the capacity.
    /// Call it once an answered miss, after [`Engine::miss`].
    #[inline]
    pub fn admit(&mut self, id: u64, size: u64, now: Time) -> bool {
        self.judge(id, size, now, None)
    }

    /// As [`Engine::admit`], for a router that knows the path that the answer took. Where it is not told, the admissions that depend on
    /// it (`lcd`, `probcache`, `betweenness`) admit everything.
    pub fn admit_from(&mut self, id: u64, size: u64, now: Time, path: &Path) -> bool {
        self.judge(id, size, now, Some(path))
    }

    #[inline]
    fn judge(&mut self, id: u64, size: u64, now: Time, path: Option<&Path>) -> bool {
        let request = Request { id, size: size.max(MIN_SIZE), now, seq: self.requests };
        let mut admitted = self.fits(request.size);
        for stage in &mut self.admission {
            let mut cache = Cache {
                capacity: self.capacity,
                used: self.used,
                objects: &self.objects,
                len: self.objects.len() - self.free.len(),
                eviction: &mut *self.eviction,
                last: None,
                path,
            };
            // Every stage is asked, so that each one's statistics see the size.
            admitted &= stage.admit(&request, &mut cache);
        }
        let short = (self.used.saturating_add(request.size)).saturating_sub(self.capacity);
        let admitted = admitted && self.eviction.accept(&request, short);
        if !admitted {
            self.eviction.on_refusal();
        }
        admitted
    }

    /// As [`Engine::admit`], and true also where the object fits into room that has never been used: admission protects what is stored, and
    /// empty memory needs no protection. What one victim leaves over for the next object is not such room: small objects would slip in
    /// behind every large one that goes. So it ends when something first has to leave, and begins again below half of the capacity.
    ///
    /// So do the node's caches; the papers, and so the replayer unless it is told to fill, ask for every object.
    #[inline]
    pub fn admit_or_fill(&mut self, id: u64, size: u64, now: Time) -> bool {
        let admitted = self.admit(id, size, now);
        self.has_been_full &= self.used >= self.capacity / 2;
        admitted || (!self.has_been_full && self.used.saturating_add(size.max(MIN_SIZE)) <= self.capacity)
    }

    /// Stores the object, evicting until it fits, and adds who had to leave to `victims`. The decision of [`Engine::admit`] is the caller's
    /// to follow. `None`, and nothing evicted, where it can never fit.
    #[inline]
    pub fn insert(&mut self, id: u64, size: u64, now: Time, victims: &mut Vec<Slot>) -> Option<Slot> {
        if !self.make_room(id, size, now, victims) {
            return None;
        }
        let request = Request { id, size: size.max(MIN_SIZE), now, seq: self.requests };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.objects.push(Object { id, size: UNUSED });
            Slot::new((self.objects.len() - 1) as u32)
        });
        self.objects[slot.index()] = Object { id, size: request.size };
        self.used += request.size;
        self.eviction.on_insert(slot, &request);
        Some(slot)
    }

    /// The evictions of [`Engine::insert`], which then has none left to do: for who wants to ask [`Engine::last_id`] of the victims before
    /// one of their slots is taken again. False, and nothing evicted, where the object can never fit.
    #[inline]
    pub fn make_room(&mut self, id: u64, size: u64, now: Time, victims: &mut Vec<Slot>) -> bool {
        let request = Request { id, size: size.max(MIN_SIZE), now, seq: self.requests };
        let fits = self.fits(request.size);
        if fits {
            self.evict_to(self.capacity - request.size, MAX_OBJECTS - 1, Some(&request), victims);
        }
        fits
    }

    /// A request for `id` will come soon: begins to load what it will read. For owners that know their next requests (a trace, a batch of
    /// packets), as [`Engine::prefetch_slot`] and [`Engine::prefetch_further`], in this order, some requests apart. They change nothing.
    #[inline]
    pub fn prefetch(&self, id: u64) {
        for stage in &self.admission {
            stage.prefetch(id);
        }
    }

    /// As [`Engine::prefetch`], once it is known that `id` is probably in `slot`, or not stored.
    #[inline]
    pub fn prefetch_slot(&self, id: u64, slot: Option<Slot>) {
        if let Some(slot) = slot {
            prefetch(&self.objects, slot.index());
        }
        self.eviction.prefetch(id, slot);
    }

    /// As [`Engine::prefetch_slot`]: what that has loaded tells what else will be read.
    #[inline]
    pub fn prefetch_further(&self, id: u64, slot: Option<Slot>) {
        self.eviction.prefetch_further(id, slot);
    }

    /// The owner removed the object in `slot`: a purge, an expiry.
    pub fn remove(&mut self, slot: Slot) {
        if self.size_of(slot).is_some() {
            self.eviction.on_remove(slot);
            self.release(slot);
        }
    }

    /// Makes the capacity `capacity`, and adds who had to leave to `victims`.
    pub fn set_capacity(&mut self, capacity: ByteSize, victims: &mut Vec<Slot>) {
        self.capacity = capacity.bytes();
        for stage in &mut self.admission {
            stage.on_resize(self.capacity);
        }
        self.eviction.on_resize(self.capacity);
        self.evict_to(self.capacity, MAX_OBJECTS, None, victims);
    }

    /// Long work that is due: run it here or on another thread, then give the result to [`Engine::complete`]. Worth asking every few thousand
    /// requests; a host that never asks keeps the policies' starting values, and one that loses a job keeps the values of that time.
    pub fn job(&mut self) -> Option<Job> {
        let mut stages = self.admission.iter_mut().enumerate();
        let admission = stages.find_map(|(stage, policy)| policy.work().map(|work| Job { stage, work }));
        let last = self.admission.len();
        admission.or_else(|| self.eviction.work().map(|work| Job { stage: last, work }))
    }

    /// Takes the result of a job of this engine.
    pub fn complete(&mut self, done: JobDone) {
        match self.admission.get_mut(done.stage) {
            Some(stage) => stage.complete(done.result),
            None => self.eviction.complete(done.result),
        }
    }

    /// Bytes stored.
    pub fn used(&self) -> ByteSize {
        ByteSize::from_bytes(self.used)
    }

    /// Bytes that may be stored.
    pub fn capacity(&self) -> ByteSize {
        ByteSize::from_bytes(self.capacity)
    }

    /// Objects stored.
    pub fn len(&self) -> usize {
        self.objects.len() - self.free.len()
    }

    /// Nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id and the bytes of the object in `slot`, if it is in use.
    pub fn object(&self, slot: Slot) -> Option<(u64, ByteSize)> {
        let size = self.size_of(slot)?;
        Some((self.objects[slot.index()].id, ByteSize::from_bytes(size)))
    }

    /// `slot` is in use, and its object is `id`.
    #[inline]
    pub fn holds(&self, slot: Slot, id: u64) -> bool {
        self.objects.get(slot.index()).is_some_and(|object| object.id == id && object.size != UNUSED)
    }

    /// The id that was stored in `slot` last.
    #[inline]
    pub fn last_id(&self, slot: Slot) -> Option<u64> {
        Some(self.objects.get(slot.index())?.id)
    }

    /// The policies.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Every policy's figures, each with the policy's name.
    pub fn gauges(&self) -> Vec<(&'static str, Gauge)> {
        let mut all = Vec::new();
        let mut figures = Vec::new();
        for (index, stage) in self.spec.stages().iter().enumerate() {
            match self.admission.get(index) {
                Some(policy) => policy.gauges(&mut figures),
                None => self.eviction.gauges(&mut figures),
            }
            all.extend(figures.drain(..).map(|gauge| (stage.entry().name, gauge)));
        }
        all
    }

    /// Bytes of heap that the engine and its policies hold now, beside what they cache.
    pub fn state_bytes(&self) -> usize {
        let own = self.objects.capacity() * size_of::<Object>() + self.free.capacity() * size_of::<Slot>();
        own + self.admission.iter().map(|stage| stage.state_bytes()).sum::<usize>() + self.eviction.state_bytes()
    }

    fn fits(&self, size: u64) -> bool {
        size <= self.capacity && size != UNUSED
    }

    fn size_of(&self, slot: Slot) -> Option<u64> {
        let size = self.objects.get(slot.index())?.size;
        (size != UNUSED).then_some(size)
    }

    fn evict_to(&mut self, bytes: u64, len: usize, incoming: Option<&Request>, victims: &mut Vec<Slot>) {
        while self.used > bytes || self.len() > len {
            self.has_been_full = true;
            // A policy that loses objects would loop here for ever.
            let victim = self.eviction.victim(incoming).expect("objects are stored, so one can leave");
            self.release(victim);
            victims.push(victim);
            if let Some(next) = self.eviction.expected_victim() {
                prefetch(&self.objects, next.index());
            }
        }
    }

    fn release(&mut self, slot: Slot) {
        let object = &mut self.objects[slot.index()];
        self.used -= object.size;
        object.size = UNUSED;
        self.free.push(slot);
    }
}

/// What an admission policy may know of the cache.
pub struct Cache<'a> {
    capacity: u64,
    used: u64,
    objects: &'a [Object],
    len: usize,
    eviction: &'a mut dyn Evict,
    last: Option<Slot>,
    path: Option<&'a Path>,
}

/// An object that would have to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its id.
    pub id: u64,
    /// Its size in bytes.
    pub size: u64,
}

impl Cache<'_> {
    /// Bytes that may be stored.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes stored.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Objects stored.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The path that the answer took, where the engine's owner knows it.
    pub fn path(&self) -> Option<&Path> {
        self.path
    }

    /// Who would leave next; called again, who would leave after that. Nobody leaves by it.
    pub fn next_victim(&mut self) -> Option<Victim> {
        let slot = self.eviction.peek(self.last)?;
        self.last = Some(slot);
        let Object { id, size } = self.objects[slot.index()];
        Some(Victim { id, size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::future::FutureBuilder;
    use crate::registry::{Kind, registry};
    use crate::traits::Policy;
    use std::collections::HashMap;
    use std::sync::Mutex;

    /// Admits only what is smaller than everything that would have to leave for it, and notes whom it was shown.
    struct Duel(Arc<Mutex<Vec<u64>>>);

    impl Policy for Duel {}

    impl Admit for Duel {
        fn on_request(&mut self, _: &Request, _: bool) {}

        fn admit(&mut self, request: &Request, cache: &mut Cache<'_>) -> bool {
            let mut shown = self.0.lock().unwrap();
            shown.clear();
            let mut room = cache.capacity() - cache.used();
            while room < request.size
                && let Some(victim) = cache.next_victim()
            {
                shown.push(victim.id);
                room += victim.size;
            }
            room >= request.size
        }
    }

    #[test]
    fn an_engine_that_cannot_move_to_another_thread() {
        fn sent<T: Send>() {}
        sent::<Engine>();
        sent::<Job>();
        sent::<JobDone>();
    }

    #[test]
    fn a_duel_is_shown_others_than_those_who_leave() {
        // A window that holds nothing would not duel.
        for name in evictors().chain(["w-tinylfu(window=50%)"]) {
            let capacity = ByteSize::from_bytes(1000);
            let mut engine = Engine::foreseeing(&name.parse().unwrap(), capacity, &Streams::new(1), &future()).unwrap();
            let shown = Arc::new(Mutex::new(Vec::new()));
            engine.admission.push(Box::new(Duel(shown.clone())));
            let mut victims = Vec::new();
            let mut ids = Vec::new();
            for id in 0..500_u64 {
                let size = 10 + id * 37 % 300;
                engine.miss(id, Time::ZERO);
                // An evictor may refuse the newcomer; it is stored all the same, and the same must leave for it.
                let _ = engine.admit(id, size, Time::ZERO);
                victims.clear();
                let slot = engine.insert(id, size, Time::ZERO, &mut victims).unwrap();
                let left: Vec<u64> = victims.iter().map(|slot| ids[slot.index()]).collect();
                assert_eq!(left, *shown.lock().unwrap(), "{name}");
                ids.resize(ids.len().max(slot.index() + 1), 0);
                ids[slot.index()] = id;
                engine.hit(slot, id, Time::ZERO);
            }
        }
    }

    /// Looks at everyone who would leave, and refuses every third object all the same.
    struct Fickle(Duel);

    impl Policy for Fickle {}

    impl Admit for Fickle {
        fn on_request(&mut self, _: &Request, _: bool) {}

        fn admit(&mut self, request: &Request, cache: &mut Cache<'_>) -> bool {
            self.0.admit(request, cache) && !request.seq.is_multiple_of(3)
        }
    }

    #[test]
    fn looking_ahead_loses_objects() {
        for name in evictors() {
            let capacity = ByteSize::from_bytes(1000);
            let mut engine = Engine::foreseeing(&name.parse().unwrap(), capacity, &Streams::new(1), &future()).unwrap();
            let shown = Arc::new(Mutex::new(Vec::new()));
            engine.admission.push(Box::new(Fickle(Duel(shown.clone()))));
            let mut stream = Streams::new(2).stream("test");
            let mut index = HashMap::new();
            let mut victims = Vec::new();
            for second in 0..20_000 {
                let now = Time::from_secs(second);
                let ids = 1 + stream.below(80);
                let id = stream.below(ids);
                let size = 10 + id * 37 % 300;
                match index.get(&id).copied() {
                    Some(slot) if stream.chance(0.1) => {
                        engine.remove(slot);
                        index.remove(&id);
                    }
                    Some(slot) => engine.hit(slot, id, now),
                    None => {
                        engine.miss(id, now);
                        if engine.admit(id, size, now) {
                            let slot = engine.insert(id, size, now, &mut victims).unwrap();
                            let left: Vec<u64> = victims
                                .drain(..)
                                .map(|left| {
                                    *index.iter().find(|(_, slot)| **slot == left).expect("a victim was not stored").0
                                })
                                .collect();
                            assert_eq!(left, *shown.lock().unwrap(), "{name}");
                            left.iter().for_each(|id| _ = index.remove(id));
                            index.insert(id, slot);
                        }
                    }
                }
                assert_eq!(engine.len(), index.len(), "{name}");
            }
            engine.set_capacity(ByteSize::from_bytes(0), &mut victims);
            victims.sort_unstable();
            let mut stored: Vec<Slot> = index.into_values().collect();
            stored.sort_unstable();
            assert_eq!(victims, stored, "{name}");
        }
    }

    /// Of requests that will not be made: whoever foresees must not be misled into losing objects.
    fn future() -> Arc<Future> {
        let mut trace = FutureBuilder::default();
        (0..10_000_u64).for_each(|place| trace.push(place * place % 97, 10).unwrap());
        Arc::new(trace.build())
    }

    fn evictors() -> impl Iterator<Item = &'static str> {
        registry().iter().filter(|entry| entry.kind() == Kind::Eviction).map(|entry| entry.name)
    }
}
