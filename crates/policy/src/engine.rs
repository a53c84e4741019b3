//! The engine: slots, bytes and the policies, under one capacity.

use crate::cache::Cache;
use crate::future::Future;
use crate::job::{Job, JobDone};
use crate::limits::MAX_OBJECTS;
use crate::prefetch::{lengthen, prefetch};
use crate::registry::{Build, Setting};
use crate::traits::{Admit, Evict, Gauge};
use crate::{Path, Request, Slot, Spec, SpecError};
use larder_units::{ByteSize, Streams, Time};
use std::sync::Arc;

/// Decides what a cache keeps. It knows ids, sizes and slots, and neither keys nor values: the
/// owner's index maps its keys to [`Slot`]s, and drops the values of the slots that come back as
/// victims.
///
/// A slot that is not in use is ignored by [`Engine::hit`] and [`Engine::remove`].
pub struct Engine {
    spec: Spec,
    capacity: u64,
    used: u64,
    requests: u64,
    /// Something had to leave, and since then the cache was never less than half full: see
    /// [`Engine::admit_or_fill`].
    has_been_full: bool,
    objects: Vec<Object>,
    free: Vec<Slot>,
    admission: Vec<Box<dyn Admit>>,
    eviction: Box<dyn Evict>,
}

/// What the engine knows of a slot.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    pub id: u64,
    /// Bytes, or [`UNUSED`].
    pub size: u64,
}

/// The size of a slot that holds nothing; no object can have it (see [`Engine::fits`]).
const UNUSED: u64 = u64::MAX;

/// The least that an object weighs, so that a capacity in bytes also bounds the number of objects.
const MIN_SIZE: u64 = 1;

impl Engine {
    /// An empty engine with `spec`'s policies and room for `capacity`. The same spec, capacity,
    /// streams and calls give the same decisions.
    ///
    /// # Errors
    /// [`SpecError`] where arguments of one stage contradict each other, or a stage would have to
    /// know the future.
    pub fn new(spec: &Spec, capacity: ByteSize, streams: &Streams) -> Result<Engine, SpecError> {
        Engine::build(spec, capacity, streams, None)
    }

    /// As [`Engine::new`], also for the policies that know the trace ahead: the engine's n-th
    /// request is the n-th of `future`.
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

    /// The missed object is there, `size` bytes with its overhead: should it be stored? Never where
    /// it is larger than the capacity. Call it once an answered miss, after [`Engine::miss`].
    #[inline]
    pub fn admit(&mut self, id: u64, size: u64, now: Time) -> bool {
        self.judge(id, size, now, None)
    }

    /// As [`Engine::admit`], for a router that knows the path that the answer took. Where it is not
    /// told, the admissions that depend on it (`lcd`, `probcache`, `betweenness`) admit everything.
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

    /// As [`Engine::admit`], and true also where the object fits into room that has never been
    /// used: admission protects what is stored, and empty memory needs no protection. What one
    /// victim leaves over for the next object is not such room: small objects would slip in behind
    /// every large one that goes. So it ends when something first has to leave, and begins again
    /// below half of the capacity.
    ///
    /// The node's caches use it. The papers, and the replayer without `--fill`, ask for every
    /// object.
    #[inline]
    pub fn admit_or_fill(&mut self, id: u64, size: u64, now: Time) -> bool {
        let admitted = self.admit(id, size, now);
        self.has_been_full &= self.used >= self.capacity / 2;
        admitted || (!self.has_been_full && self.used.saturating_add(size.max(MIN_SIZE)) <= self.capacity)
    }

    /// Stores the object, evicting until it fits, and adds who had to leave to `victims`. The
    /// decision of [`Engine::admit`] is the caller's to follow. `None`, and nothing evicted, where
    /// it can never fit.
    #[inline]
    pub fn insert(&mut self, id: u64, size: u64, now: Time, victims: &mut Vec<Slot>) -> Option<Slot> {
        if !self.make_room(id, size, now, victims) {
            return None;
        }
        let request = Request { id, size: size.max(MIN_SIZE), now, seq: self.requests };
        let slot = self.free.pop().unwrap_or_else(|| {
            let slot = Slot::new(self.objects.len() as u32);
            lengthen(&mut self.objects, slot.index() + 1, Object { id, size: UNUSED });
            slot
        });
        self.objects[slot.index()] = Object { id, size: request.size };
        self.used += request.size;
        self.eviction.on_insert(slot, &request);
        Some(slot)
    }

    /// The evictions of [`Engine::insert`], which then has none left to do: for who wants to ask
    /// [`Engine::last_id`] of the victims before one of their slots is taken again. False, and
    /// nothing evicted, where the object can never fit.
    #[inline]
    pub fn make_room(&mut self, id: u64, size: u64, now: Time, victims: &mut Vec<Slot>) -> bool {
        let request = Request { id, size: size.max(MIN_SIZE), now, seq: self.requests };
        let fits = self.fits(request.size);
        if fits {
            self.evict_to(self.capacity - request.size, MAX_OBJECTS - 1, Some(&request), victims);
        }
        fits
    }

    /// A request for `id` will come soon: begins to load what it will read. For owners that know
    /// their next requests (a trace, a batch of packets), as [`Engine::prefetch_slot`] and
    /// [`Engine::prefetch_further`], in this order, some requests apart. They change nothing.
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

    /// Long work that is due: run it here or on another thread, then give the result to
    /// [`Engine::complete`]. Worth asking every few thousand requests; a host that never asks keeps
    /// the policies' starting values, and one that loses a job keeps the values of that time.
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

#[cfg(test)]
mod looking_ahead;
