//! Several caches over one reading of a trace, on all cores.
//!
//! One thread reads chunks of requests into a short queue. The others take the cache that is
//! furthest behind and give it its next chunk. A slow policy therefore delays the rest only at the
//! end, and no core waits while two caches have work.

use super::progress::Progress;
use super::source::Source;
use crate::failure::Failure;
use larder_replay::{Access, Replay, Row};
use larder_reproduce::thread_time;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most chunks that wait for a slow cache before the reader waits: 25 MB if they are shared.
const WAITING_CHUNKS: usize = 4;

/// One cache, and its processor time.
pub struct Cache {
    replay: Replay,
    busy: Duration,
}

impl Cache {
    pub fn new(replay: Replay) -> Cache {
        Cache { replay, busy: Duration::ZERO }
    }

    fn take(&mut self, chunk: &[Access]) {
        let start = thread_time();
        self.replay.requests(chunk);
        self.busy += thread_time().saturating_sub(start);
    }

    fn row(&self, trace: &str) -> Row {
        let mut row = self.replay.row(trace);
        let seconds = self.busy.as_secs_f64();
        row.requests_per_second = if seconds > 0.0 { (row.requests as f64 / seconds).round() } else { 0.0 };
        row
    }
}

/// Replays the trace with all `caches`. Calls `keep` with the position and the row of each cache as
/// soon as it is finished.
///
/// # Errors
/// If the trace cannot be read, or `keep` fails.
pub fn replay(
    source: &Source<'_>,
    caches: Vec<Cache>,
    progress: &Progress,
    keep: impl FnMut(usize, Row) -> Result<(), Failure> + Send,
) -> Result<(), Failure> {
    let rows = caches.len();
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(rows);
    let queue = Queue {
        state: Mutex::new(State {
            positions: vec![0; rows],
            waiting: caches.into_iter().enumerate().collect(),
            chunks: VecDeque::new(),
            first: 0,
            spare: Vec::new(),
            has_ended: false,
            has_failed: false,
        }),
        changed: Condvar::new(),
    };
    let keep = Mutex::new(keep);
    let name = source.name();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores)
            .map(|_| scope.spawn(|| queue.work(|place, cache| lock(&keep)(place, cache.row(&name)))))
            .collect();
        let read = source.chunks("replaying", progress, rows, |chunk| Ok(queue.push(chunk))).map(drop);
        queue.end(read.is_err());
        // A worker that panicked passes its panic on.
        let kept =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        kept.fold(read, Result::and)
    })
}

struct Queue {
    state: Mutex<State>,
    /// Notified when a chunk was added or removed, when a cache has moved on, and at the end.
    changed: Condvar,
}

struct State {
    /// The caches that no worker has, each with its position among the rows.
    waiting: Vec<(usize, Cache)>,
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
enum Step {
    Take(usize, Cache, Arc<Vec<Access>>),
    Finish(usize, Cache),
    Wait,
    Leave,
}

impl Queue {
    /// Passes a chunk to all caches, and puts another vector in its place. Returns false if no
    /// cache will take it.
    fn push(&self, chunk: &mut Vec<Access>) -> bool {
        let mut state = lock(&self.state);
        while state.chunks.len() >= WAITING_CHUNKS && !state.has_failed {
            state = self.wait(state);
        }
        let next = state.spare.pop().unwrap_or_default();
        state.chunks.push_back(Arc::new(std::mem::replace(chunk, next)));
        self.changed.notify_all();
        !state.has_failed
    }

    fn end(&self, has_failed: bool) {
        let mut state = lock(&self.state);
        state.has_ended = true;
        state.has_failed |= has_failed;
        self.changed.notify_all();
    }

    fn work(&self, finish: impl Fn(usize, Cache) -> Result<(), Failure>) -> Result<(), Failure> {
        let _bell = Bell(self);
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
                    cache.take(&chunk);
                    drop(chunk);
                    let mut state = lock(&self.state);
                    state.moved_on(place, cache);
                    self.changed.notify_all();
                }
                Step::Finish(place, cache) => finish(place, cache).inspect_err(|_| self.end(true))?,
                Step::Wait | Step::Leave => return Ok(()),
            }
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next(&mut self) -> Step {
        if self.has_failed {
            return Step::Leave;
        }
        let behind = (0..self.waiting.len()).min_by_key(|nth| self.positions[self.waiting[*nth].0]);
        let Some(behind) = behind else {
            // Other workers have the last caches.
            return if self.has_ended { Step::Leave } else { Step::Wait };
        };
        let place = self.waiting[behind].0;
        match self.chunks.get((self.positions[place] - self.first) as usize).cloned() {
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

    fn moved_on(&mut self, place: usize, cache: Cache) {
        self.positions[place] += 1;
        self.waiting.push((place, cache));
        let least = self.positions.iter().min().copied().unwrap_or(self.first);
        while self.first < least {
            self.spare.extend(self.chunks.pop_front().and_then(Arc::into_inner));
            self.first += 1;
        }
    }
}

/// Notifies all threads when its worker ends. After a panic of the worker, its cache never returns,
/// and the other threads must not wait for it.
struct Bell<'a>(&'a Queue);

impl Drop for Bell<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end(true);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
