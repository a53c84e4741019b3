//! The engine: slots, bytes and the policies, under one capacity.

use crate::entry::{Build, BuildContext};
use crate::future::Future;
use crate::job::{Job, JobDone};
use crate::limits::MAX_OBJECTS;
use crate::path::Path;
use crate::prefetch::{lengthen, prefetch};
use crate::request::{Request, Slot};
use crate::scale::Scale;
use crate::spec::{Spec, SpecError};
use crate::traits::{Admit, Cache, Evict, Gauge, Object};
use larder_units::{ByteSize, Streams, Time};
use std::sync::Arc;

/// Decides which objects a cache stores. It knows ids, sizes and slots, and neither keys nor
/// values: the owner's index maps its keys to [`Slot`]s, and the owner drops the values of the
/// slots that come back as victims.
///
/// [`Engine::hit`] and [`Engine::remove`] ignore a slot that is not in use.
pub struct Engine {
    spec: Spec,
    capacity: u64,
    used: u64,
    requests: u64,
    /// True from an eviction until the cache is less than half full: see [`Engine::admit_or_fill`].
    has_been_full: bool,
    objects: Vec<Object>,
    free: Vec<Slot>,
    /// The number of changes of the policies.
    generation: u64,
    admission: Vec<Box<dyn Admit>>,
    eviction: Box<dyn Evict>,
}

/// The size of a slot that is not in use; no object can have it (see [`Engine::fits`]).
const UNUSED: u64 = u64::MAX;

/// The least size that the engine counts for an object, so that a capacity in bytes also bounds the
/// number of objects.
const MIN_SIZE: u64 = 1;

impl Engine {
    /// Returns an empty engine with `spec`'s policies. The same spec, capacity, streams and calls
    /// give the same decisions.
    ///
    /// # Errors
    /// [`SpecError`] if arguments of one stage contradict each other, or a stage needs to know the
    /// future.
    pub fn new(spec: &Spec, capacity: ByteSize, streams: &Streams) -> Result<Engine, SpecError> {
        Engine::build(spec, capacity, Scale::FULL, streams, None)
    }

    /// Returns an empty engine for a miniature of a cache of `capacity`. The owner passes the
    /// objects that `scale` selects, and their rooms as sizes.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn miniature(
        spec: &Spec,
        capacity: ByteSize,
        scale: Scale,
        streams: &Streams,
    ) -> Result<Engine, SpecError> {
        let scaled = ByteSize::from_bytes(scale.capacity(capacity.bytes()));
        Engine::build(spec, scaled, scale, streams, None)
    }

    /// Returns an empty engine with `spec`'s policies, which may know the trace ahead. The engine's
    /// n-th request must be the n-th of `future`.
    ///
    /// # Errors
    /// [`SpecError`] if arguments of one stage contradict each other.
    pub fn foreseeing(
        spec: &Spec,
        capacity: ByteSize,
        streams: &Streams,
        future: &Arc<Future>,
    ) -> Result<Engine, SpecError> {
        Engine::build(spec, capacity, Scale::FULL, streams, Some(future))
    }

    /// Returns an empty engine with these policies, which need no registry and no spec. The caller
    /// has built them for this capacity. Admissions are asked in their order.
    ///
    /// [`Engine::spec`] names each of them `custom`, and such a spec builds no second engine.
    /// Owners do not call [`Engine::admit_from`] for it; an admission that needs the path of an
    /// answer is registered (see [`crate::Registry`]).
    pub fn with(
        capacity: ByteSize,
        admission: Vec<Box<dyn Admit>>,
        eviction: Box<dyn Evict>,
    ) -> Engine {
        Engine::assemble(
            Spec::custom(admission.len()),
            capacity.bytes(),
            admission,
            eviction,
        )
    }

    fn build(
        spec: &Spec,
        capacity: ByteSize,
        scale: Scale,
        streams: &Streams,
        future: Option<&Arc<Future>>,
    ) -> Result<Engine, SpecError> {
        let capacity = capacity.bytes();
        let mut admission = Vec::new();
        let mut eviction = None;
        for (stage, parsed) in spec.stages().iter().enumerate() {
            let entry = parsed.entry();
            let context = BuildContext {
                capacity,
                scale,
                streams,
                stage,
                name: entry.name,
            };
            let future = || {
                future.ok_or_else(|| {
                    format!(
                        "`{}` knows the trace ahead, only `larder replay` can run it",
                        entry.name
                    )
                })
            };
            let built = parsed.with_arguments(|arguments| match entry.build {
                Build::Admission(build) => {
                    build(arguments, &context).map(|policy| admission.push(policy))
                }
                Build::Eviction(build) => {
                    build(arguments, &context).map(|policy| eviction = Some(policy))
                }
                Build::OfflineAdmission(build) => {
                    build(arguments, &context, future()?).map(|policy| admission.push(policy))
                }
                Build::OfflineEviction(build) => {
                    build(arguments, &context, future()?).map(|policy| eviction = Some(policy))
                }
            });
            built.map_err(|problem| SpecError::contradiction(spec, stage, problem))?;
        }
        let eviction = eviction.expect("a parsed spec ends with an eviction policy");
        Ok(Engine::assemble(
            spec.clone(),
            capacity,
            admission,
            eviction,
        ))
    }

    fn assemble(
        spec: Spec,
        capacity: u64,
        admission: Vec<Box<dyn Admit>>,
        eviction: Box<dyn Evict>,
    ) -> Engine {
        Engine {
            spec,
            capacity,
            used: 0,
            requests: 0,
            has_been_full: false,
            objects: Vec::new(),
            free: Vec::new(),
            generation: 0,
            admission,
            eviction,
        }
    }

    /// Reports a request for the object in `slot`.
    #[inline]
    pub fn hit(&mut self, slot: Slot, id: u64, now: Time) {
        let Some(size) = self.size_of(slot) else {
            return;
        };
        self.requests += 1;
        let request = Request {
            id,
            size,
            now,
            seq: self.requests,
        };
        for stage in &mut self.admission {
            stage.on_request(&request, true);
        }
        self.eviction.on_hit(slot, &request);
    }

    /// Reports a request for an object that is not stored. Its size is not known yet.
    #[inline]
    pub fn miss(&mut self, id: u64, now: Time) {
        self.requests += 1;
        let request = Request {
            id,
            size: 0,
            now,
            seq: self.requests,
        };
        for stage in &mut self.admission {
            stage.on_request(&request, false);
        }
        self.eviction.on_miss(&request);
    }

    /// Returns true if the missed object should be stored, now that it arrived with `size` bytes,
    /// its overhead included. Returns false for an object larger than the capacity. Call it once
    /// for each answered miss, after [`Engine::miss`].
    #[inline]
    pub fn admit(&mut self, id: u64, size: u64, now: Time) -> bool {
        self.judge(id, size, now, None)
    }

    /// Does what [`Engine::admit`] does, for a router that knows the path of the answer. Without
    /// the path, the admissions that depend on it ([`Spec::needs_path`]) admit everything.
    pub fn admit_from(&mut self, id: u64, size: u64, now: Time, path: &Path) -> bool {
        self.judge(id, size, now, Some(path))
    }

    #[inline]
    fn judge(&mut self, id: u64, size: u64, now: Time, path: Option<&Path>) -> bool {
        let request = Request {
            id,
            size: size.max(MIN_SIZE),
            now,
            seq: self.requests,
        };
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
            // Every stage decides, so that the statistics of each one include the size.
            admitted &= stage.admit(&request, &mut cache);
        }
        let short = (self.used.saturating_add(request.size)).saturating_sub(self.capacity);
        let admitted = admitted && self.eviction.accept(&request, short);
        if !admitted {
            self.eviction.on_refusal();
        }
        admitted
    }

    /// Returns true if [`Engine::admit`] does, or if the object fits into room that has never been
    /// used. Admission protects the stored objects, and empty memory needs no protection.
    ///
    /// This exception ends with the first eviction and begins again below half of the capacity. The
    /// bytes that an eviction leaves over do not count as unused room. Otherwise small objects
    /// would be stored after the eviction of each large one.
    ///
    /// The node's caches call it. The papers, and the replayer without `--fill`, call
    /// [`Engine::admit`] for every object.
    #[inline]
    pub fn admit_or_fill(&mut self, id: u64, size: u64, now: Time) -> bool {
        let admitted = self.admit(id, size, now);
        self.has_been_full &= self.used >= self.capacity / 2;
        admitted
            || (!self.has_been_full
                && self.used.saturating_add(size.max(MIN_SIZE)) <= self.capacity)
    }

    /// Stores the object, evicts others until it fits, and appends them to `victims`. It does not
    /// ask [`Engine::admit`]; the caller does. Returns `None`, and evicts nothing, if the object
    /// can never fit.
    #[inline]
    pub fn insert(
        &mut self,
        id: u64,
        size: u64,
        now: Time,
        victims: &mut Vec<Slot>,
    ) -> Option<Slot> {
        if !self.make_room(id, size, now, victims) {
            return None;
        }
        let request = Request {
            id,
            size: size.max(MIN_SIZE),
            now,
            seq: self.requests,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            let slot = Slot::new(self.objects.len() as u32);
            lengthen(
                &mut self.objects,
                slot.index() + 1,
                Object { id, size: UNUSED },
            );
            slot
        });
        self.objects[slot.index()] = Object {
            id,
            size: request.size,
        };
        self.used += request.size;
        self.eviction.on_insert(slot, &request);
        Some(slot)
    }

    /// Does the evictions of [`Engine::insert`], which then has none left to do. The owner can then
    /// read [`Engine::last_id`] of the victims before the new object takes one of their slots.
    /// Returns false, and evicts nothing, if the object can never fit.
    #[inline]
    pub fn make_room(&mut self, id: u64, size: u64, now: Time, victims: &mut Vec<Slot>) -> bool {
        let request = Request {
            id,
            size: size.max(MIN_SIZE),
            now,
            seq: self.requests,
        };
        let fits = self.fits(request.size);
        if fits {
            self.evict_to(
                self.capacity - request.size,
                MAX_OBJECTS - 1,
                Some(&request),
                victims,
            );
        }
        fits
    }

    /// Begins to load the data that a request for `id`, expected soon, will read. It is for owners
    /// that know their next requests (a trace, a batch of packets). Such an owner calls `prefetch`,
    /// [`Engine::prefetch_slot`] and [`Engine::prefetch_further`] in this order, some requests
    /// apart. They change nothing.
    #[inline]
    pub fn prefetch(&self, id: u64) {
        for stage in &self.admission {
            stage.prefetch(id);
        }
    }

    /// Does what [`Engine::prefetch`] does, once the owner knows that `id` is probably in `slot`,
    /// or not stored.
    #[inline]
    pub fn prefetch_slot(&self, id: u64, slot: Option<Slot>) {
        if let Some(slot) = slot {
            prefetch(&self.objects, slot.index());
        }
        self.eviction.prefetch(id, slot);
    }

    /// Begins to load the data that the entries loaded by [`Engine::prefetch_slot`] point to.
    #[inline]
    pub fn prefetch_further(&self, id: u64, slot: Option<Slot>) {
        self.eviction.prefetch_further(id, slot);
    }

    /// Returns the objects that will probably leave next, if the policy knows them at no cost.
    /// Owners that prefetch use it. It changes nothing.
    pub fn expected_victims(&self) -> impl Iterator<Item = Slot> + '_ {
        let after = |slot: &Slot| self.eviction.expected_victim_after(*slot);
        std::iter::successors(self.eviction.expected_victim(), after)
    }

    /// Reports that the owner removed the object in `slot`, because of a purge or an expiry.
    pub fn remove(&mut self, slot: Slot) {
        if self.size_of(slot).is_some() {
            self.eviction.on_remove(slot);
            self.release(slot);
        }
    }

    /// Changes the capacity, evicts objects until the others fit, and appends them to `victims`.
    pub fn set_capacity(&mut self, capacity: ByteSize, victims: &mut Vec<Slot>) {
        self.capacity = capacity.bytes();
        for stage in &mut self.admission {
            stage.on_resize(self.capacity);
        }
        self.eviction.on_resize(self.capacity);
        self.evict_to(self.capacity, MAX_OBJECTS, None, victims);
    }

    /// Changes the policies and the capacity, evicts objects until the others fit, and appends them
    /// to `victims`. The other objects keep their slots.
    ///
    /// The former policy chooses what leaves. Then the new one gets the other objects in the order
    /// in which the former one would evict them. So it begins with its order, but knows nothing of
    /// earlier requests.
    ///
    /// # Errors
    /// [`SpecError`] as [`Engine::new`]. Nothing has changed then.
    pub fn reconfigure(
        &mut self,
        spec: &Spec,
        capacity: ByteSize,
        streams: &Streams,
        now: Time,
        victims: &mut Vec<Slot>,
    ) -> Result<(), SpecError> {
        let built = (*spec != self.spec)
            .then(|| Engine::new(spec, capacity, streams))
            .transpose()?;
        self.set_capacity(capacity, victims);
        let Some(Engine {
            spec,
            admission,
            eviction,
            ..
        }) = built
        else {
            return Ok(());
        };
        let former = std::mem::replace(&mut self.eviction, eviction);
        let order = drain(former, self.len());
        self.spec = spec;
        self.admission = admission;
        self.generation += 1;
        for slot in order {
            let Object { id, size } = self.objects[slot.index()];
            self.eviction.on_insert(
                slot,
                &Request {
                    id,
                    size,
                    now,
                    seq: self.requests,
                },
            );
        }
        Ok(())
    }

    /// Returns long work that is due. The owner runs it, on any thread, and passes the result to
    /// [`Engine::complete`]. It calls `job` every few thousand requests. An owner that never calls
    /// it keeps the policies' starting values. One that loses a job keeps the values of that time.
    pub fn job(&mut self) -> Option<Job> {
        let mut stages = self.admission.iter_mut().enumerate();
        let generation = self.generation;
        let admission = stages.find_map(|(stage, policy)| {
            policy.work().map(|work| Job {
                generation,
                stage,
                work,
            })
        });
        let last = self.admission.len();
        admission.or_else(|| {
            self.eviction.work().map(|work| Job {
                generation,
                stage: last,
                work,
            })
        })
    }

    /// Accepts the result of a job of this engine. Ignores it if the policies have changed since.
    pub fn complete(&mut self, done: JobDone) {
        if done.generation != self.generation {
            return;
        }
        match self.admission.get_mut(done.stage) {
            Some(stage) => stage.complete(done.result),
            None => self.eviction.complete(done.result),
        }
    }

    /// Returns the bytes stored.
    pub fn used(&self) -> ByteSize {
        ByteSize::from_bytes(self.used)
    }

    /// Returns the bytes that can be stored.
    pub fn capacity(&self) -> ByteSize {
        ByteSize::from_bytes(self.capacity)
    }

    /// Returns the number of objects stored.
    pub fn len(&self) -> usize {
        self.objects.len() - self.free.len()
    }

    /// Returns true if nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the id and the size of the object in `slot`, if the slot is in use.
    pub fn object(&self, slot: Slot) -> Option<(u64, ByteSize)> {
        let size = self.size_of(slot)?;
        Some((self.objects[slot.index()].id, ByteSize::from_bytes(size)))
    }

    /// Returns true if `slot` holds the object `id`.
    #[inline]
    pub fn holds(&self, slot: Slot, id: u64) -> bool {
        self.objects
            .get(slot.index())
            .is_some_and(|object| object.id == id && object.size != UNUSED)
    }

    /// Returns the id that was stored in `slot` last, also after it left.
    #[inline]
    pub fn last_id(&self, slot: Slot) -> Option<u64> {
        Some(self.objects.get(slot.index())?.id)
    }

    /// Returns the spec that the engine was built from.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns the gauges of all policies, each with the policy's name.
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

    /// Returns the bytes of heap that the engine and its policies use now, without the cached
    /// values.
    pub fn state_bytes(&self) -> usize {
        let own = self.objects.capacity() * size_of::<Object>()
            + self.free.capacity() * size_of::<Slot>();
        own + self
            .admission
            .iter()
            .map(|stage| stage.state_bytes())
            .sum::<usize>()
            + self.eviction.state_bytes()
    }

    /// Panics if the engine's state is inconsistent. It is for tests and takes O(n).
    ///
    /// # Panics
    /// If the used bytes are not the sum of the sizes of the slots in use, or exceed the capacity;
    /// if the free list and the unused slots differ; or if the eviction policy keeps another number
    /// of objects than the engine.
    pub fn check_invariants(&self) {
        let spec = &self.spec;
        let mut is_free = vec![false; self.objects.len()];
        for slot in &self.free {
            assert!(
                !std::mem::replace(&mut is_free[slot.index()], true),
                "{spec}: {slot:?} is free twice"
            );
        }
        let mut bytes = 0_u128;
        for (object, is_free) in self.objects.iter().zip(is_free) {
            assert_eq!(
                object.size == UNUSED,
                is_free,
                "{spec}: the free list has exactly the unused slots"
            );
            bytes += if is_free { 0 } else { u128::from(object.size) };
        }
        assert_eq!(
            u128::from(self.used),
            bytes,
            "{spec}: the used bytes are the sum of all sizes"
        );
        assert!(
            self.used <= self.capacity,
            "{spec}: {} bytes used of {}",
            self.used,
            self.capacity
        );
        if let Some(kept) = self.eviction.object_count() {
            assert_eq!(
                kept,
                self.len(),
                "{spec}: the eviction policy keeps as many objects as the engine"
            );
        }
    }

    fn fits(&self, size: u64) -> bool {
        size <= self.capacity && size != UNUSED
    }

    fn size_of(&self, slot: Slot) -> Option<u64> {
        let size = self.objects.get(slot.index())?.size;
        (size != UNUSED).then_some(size)
    }

    fn evict_to(
        &mut self,
        bytes: u64,
        len: usize,
        incoming: Option<&Request>,
        victims: &mut Vec<Slot>,
    ) {
        while self.used > bytes || self.len() > len {
            self.has_been_full = true;
            // Without this check, a policy that loses objects would loop here for ever.
            let victim = self
                .eviction
                .victim(incoming)
                .expect("objects are stored, so one can leave");
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

/// Returns the objects of a policy in the order in which it would evict them.
fn drain(mut eviction: Box<dyn Evict>, objects: usize) -> Vec<Slot> {
    (0..objects).map_while(|_| eviction.victim(None)).collect()
}

#[cfg(test)]
mod looking_ahead;
