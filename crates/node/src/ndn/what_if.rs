//! The Content Store of all shards, as the what-if analysis sees it.

use crate::ndn::control::snapshot::Observations;
use crate::ndn::shards::channel::Port;
use crate::ndn::shards::command::Command;
use larder_policy::observe::{Observation, Totals};
use larder_units::{ByteSize, Time};
use larder_what_if_host::{CacheState, ObservedCache};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// The time in which an event loop has to answer.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct ObservedContentStore {
    ports: Arc<[Port]>,
    started: Instant,
    /// The sample, and what was taken with the last state.
    pending: Mutex<(Option<u64>, Vec<Observation>)>,
    /// Answers that came too late, with their observations.
    late: AtomicU64,
}

impl ObservedContentStore {
    pub(super) fn new(ports: &Arc<[Port]>) -> ObservedContentStore {
        ObservedContentStore {
            ports: Arc::clone(ports),
            started: Instant::now(),
            pending: Mutex::default(),
            late: AtomicU64::new(0),
        }
    }

    fn ask(&self, last: Option<u64>) -> Option<Vec<Observations>> {
        let ask = |port: &Port| {
            let (sender, receiver) = mpsc::channel();
            port.send(Command::Observations(last, sender));
            receiver
        };
        let answers: Vec<_> = self.ports.iter().map(ask).collect();
        let until = Instant::now() + PATIENCE;
        let answers = answers.into_iter();
        let answers = answers.map(|answer| {
            answer
                .recv_timeout(until.saturating_duration_since(Instant::now()))
                .ok()
        });
        let answers: Vec<_> = answers.collect();
        if answers.iter().any(Option::is_none) {
            // The others have given theirs away.
            self.late.fetch_add(1, Ordering::Relaxed);
        }
        answers.into_iter().collect()
    }
}

impl ObservedCache for ObservedContentStore {
    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn take(&self, last: Option<u64>, taken: &mut Vec<Observation>) -> Option<Totals> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.0 = last;
        taken.append(&mut pending.1);
        let mut totals = Totals::default();
        for mut shard in self.ask(last)? {
            totals.add(&shard.totals);
            taken.append(&mut shard.taken);
        }
        totals.lost += self.late.load(Ordering::Relaxed);
        Some(totals)
    }

    /// The shards have equal parts of the capacity, and together they are one cache.
    fn state(&self) -> Option<CacheState> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shards = self.ask(pending.0)?;
        for shard in &mut shards {
            pending.1.append(&mut shard.taken);
        }
        let states = shards.into_iter().map(|shard| shard.state);
        states.reduce(|all, one| CacheState {
            policy: all.policy,
            capacity: ByteSize::from_bytes(all.capacity.bytes() + one.capacity.bytes()),
            used: ByteSize::from_bytes(all.used.bytes() + one.used.bytes()),
            objects: all.objects + one.objects,
        })
    }
}
