//! Several caches over one reading of a trace, on the threads of the host.
//!
//! One thread pushes chunks of requests into a short queue. The others take the cache that is
//! furthest behind and give it its next chunk. A slow policy therefore delays the rest only at the
//! end, and no thread waits while two caches have work.

use crate::Access;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The most chunks that wait for a slow cache before the reader waits: 25 MB if each has 2^18
/// requests.
const WAITING_CHUNKS: usize = 4;

/// Passes each chunk of a trace to every cache of type `C`, once and in order.
///
/// The host starts the threads. One calls [`Sweep::push`] and, in the end, [`Sweep::end`]; each of
/// the others calls [`Sweep::work`].
///
/// ```
/// use larder_replay::{Access, Sweep};
/// use larder_units::Time;
///
/// let sweep = Sweep::new(vec![0_usize, 0]);
/// let request = Access { id: 7, size: 1, now: Time::ZERO };
/// let (mut chunk, counts) = (vec![request; 3], std::sync::Mutex::new(Vec::new()));
/// std::thread::scope(|threads| {
///     threads.spawn(|| {
///         let count = |cache: &mut usize, chunk: &[Access]| Ok(*cache += chunk.len());
///         let finish = |place, cache| Ok::<(), ()>(counts.lock().unwrap().push((place, cache)));
///         sweep.work(count, finish)
///     });
///     sweep.push(&mut chunk);
///     sweep.end(false);
/// });
/// let mut counts = counts.into_inner().unwrap();
/// counts.sort();
/// assert_eq!(counts, [(0, 3), (1, 3)]);
/// ```
pub struct Sweep<C> {
    state: Mutex<State<C>>,
    /// Notified when a chunk was added or removed, when a cache has moved on, and at the end.
    changed: Condvar,
}

struct State<C> {
    /// The caches that no worker has, each with its position among the rows.
    waiting: Vec<(usize, C)>,
    /// The number of chunks that each cache has taken, by its position.
    positions: Vec<u64>,
    /// The chunks that some cache has still to take.
    chunks: VecDeque<Arc<Vec<Access>>>,
    /// The number of the first chunk.
    first: u64,
    /// Vectors of chunks that all caches have taken, for reuse. New memory from the system costs as
    /// much as the reading.
    spare: Vec<Vec<Access>>,
    has_ended: bool,
    has_failed: bool,
}

/// The next step of a worker.
enum Step<C> {
    Take(usize, C, Arc<Vec<Access>>),
    Finish(usize, C),
    Wait,
    Leave,
}

impl<C> Sweep<C> {
    /// Returns a sweep of `caches`, none of which has had a request.
    pub fn new(caches: Vec<C>) -> Sweep<C> {
        let state = State {
            positions: vec![0; caches.len()],
            waiting: caches.into_iter().enumerate().collect(),
            chunks: VecDeque::new(),
            first: 0,
            spare: Vec::new(),
            has_ended: false,
            has_failed: false,
        };
        Sweep {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Passes a chunk to all caches, and puts another vector in its place. Waits while a slow cache
    /// has several chunks to take. Returns false if no cache will take it, after a failure.
    pub fn push(&self, chunk: &mut Vec<Access>) -> bool {
        let mut state = lock(&self.state);
        while state.chunks.len() >= WAITING_CHUNKS && !state.has_failed {
            state = self.wait(state);
        }
        let next = state.spare.pop().unwrap_or_default();
        state
            .chunks
            .push_back(Arc::new(std::mem::replace(chunk, next)));
        self.changed.notify_all();
        !state.has_failed
    }

    /// Ends the sweep: no chunk follows. After a failure, the workers leave without finishing their
    /// caches.
    pub fn end(&self, has_failed: bool) {
        let mut state = lock(&self.state);
        state.has_ended = true;
        state.has_failed |= has_failed;
        self.changed.notify_all();
    }

    /// Works until all caches are finished: passes chunks to `take`, and each cache that has had
    /// all of them to `finish`, with its position among the caches.
    ///
    /// # Errors
    /// The error of `take` or `finish`, which ends the whole sweep as a failure.
    pub fn work<E>(
        &self,
        take: impl Fn(&mut C, &[Access]) -> Result<(), E>,
        finish: impl Fn(usize, C) -> Result<(), E>,
    ) -> Result<(), E> {
        let _guard = self.ends_on_panic();
        loop {
            let mut state = lock(&self.state);
            let step = loop {
                match state.next() {
                    Step::Wait => state = self.wait(state),
                    step => break step,
                }
            };
            drop(state);
            match step {
                Step::Take(place, mut cache, chunk) => {
                    take(&mut cache, &chunk).inspect_err(|_| self.end(true))?;
                    drop(chunk);
                    let mut state = lock(&self.state);
                    state.moved_on(place, cache);
                    self.changed.notify_all();
                }
                Step::Finish(place, cache) => {
                    finish(place, cache).inspect_err(|_| self.end(true))?
                }
                Step::Wait | Step::Leave => return Ok(()),
            }
        }
    }

    /// Returns a guard for the thread that pushes: if that panics, the sweep ends as a failure, so
    /// that no worker waits for it.
    pub fn ends_on_panic(&self) -> EndsOnPanic<'_, C> {
        EndsOnPanic(self)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<C>>) -> MutexGuard<'a, State<C>> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> State<C> {
    fn next(&mut self) -> Step<C> {
        if self.has_failed {
            return Step::Leave;
        }
        let behind = (0..self.waiting.len()).min_by_key(|nth| self.positions[self.waiting[*nth].0]);
        let Some(behind) = behind else {
            // Other workers have the last caches.
            return if self.has_ended {
                Step::Leave
            } else {
                Step::Wait
            };
        };
        let place = self.waiting[behind].0;
        match self
            .chunks
            .get((self.positions[place] - self.first) as usize)
            .cloned()
        {
            Some(chunk) => {
                let (place, cache) = self.waiting.swap_remove(behind);
                Step::Take(place, cache, chunk)
            }
            None if self.has_ended => {
                let (place, cache) = self.waiting.swap_remove(behind);
                Step::Finish(place, cache)
            }
            None => Step::Wait,
        }
    }

    fn moved_on(&mut self, place: usize, cache: C) {
        self.positions[place] += 1;
        self.waiting.push((place, cache));
        let least = self.positions.iter().min().copied().unwrap_or(self.first);
        while self.first < least {
            self.spare
                .extend(self.chunks.pop_front().and_then(Arc::into_inner));
            self.first += 1;
        }
    }
}

/// Ends the sweep as a failure if its thread panics. The cache of a worker never returns then, and
/// no chunk follows from the thread that pushes; the other threads must not wait for them.
pub struct EndsOnPanic<'a, C>(&'a Sweep<C>);

impl<C> Drop for EndsOnPanic<'_, C> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end(true);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
