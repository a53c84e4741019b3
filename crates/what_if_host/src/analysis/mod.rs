//! The analysis, and its thread.

use crate::capture::Captures;
use crate::limits;
use larder_admin::{CaptureLines, Metrics};
use larder_policy::Spec;
use larder_policy::observe::{Observation, Totals};
use larder_replay::{WHAT_IF_POLICIES, WhatIf, WhatIfReport};
use larder_units::{ByteSize, Time};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A cache whose requests are observed.
pub trait ObservedCache: Send + 'static {
    /// Returns a time that does not go back. The observations may have another clock.
    fn now(&self) -> Time;

    /// Appends the observations since the last call, and returns the counts of all requests; `None`
    /// if the cache does not answer. From then on, its sample has the places up to `last`: see
    /// [`Observer::take`](larder_policy::observe::Observer::take).
    fn take(&self, last: Option<u64>, taken: &mut Vec<Observation>) -> Option<Totals>;

    /// Returns its policy and size; `None` if it does not answer.
    fn state(&self) -> Option<CacheState>;
}

/// The policy and the size of a cache.
pub struct CacheState {
    /// The policy.
    pub policy: Spec,
    /// The bytes that can be stored.
    pub capacity: ByteSize,
    /// The bytes stored.
    pub used: ByteSize,
    /// The number of objects.
    pub objects: usize,
}

/// The analysis, and the thread that does it.
pub struct LiveWhatIf {
    shared: Arc<SharedState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct SharedState {
    is_enabled: AtomicBool,
    is_stopping: AtomicBool,
    latest: Mutex<Option<Latest>>,
    captures: Captures,
}

/// The latest result, for a cache with this configuration.
struct Latest {
    policy: Spec,
    capacity: ByteSize,
    average_object_bytes: u64,
    state_bytes: usize,
    report: WhatIfReport,
}

impl LiveWhatIf {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's, if it starts no thread.
    pub fn start(cache: impl ObservedCache, is_enabled: bool) -> std::io::Result<LiveWhatIf> {
        let shared = Arc::new(SharedState {
            is_enabled: is_enabled.into(),
            ..SharedState::default()
        });
        let mut analysis = Analysis::new(cache, &shared);
        let thread = std::thread::Builder::new()
            .name("what-if".to_owned())
            .spawn(move || {
                while !analysis.shared.is_stopping.load(Ordering::Relaxed) {
                    let turn = match analysis.step() {
                        _ if analysis.shared.captures.last().is_some() => limits::WHAT_IF_BUSY_TURN,
                        0 => limits::WHAT_IF_IDLE_TURN,
                        1..limits::WHAT_IF_MANY => limits::WHAT_IF_TURN,
                        _ => limits::WHAT_IF_BUSY_TURN,
                    };
                    std::thread::park_timeout(turn);
                }
                analysis.shared.captures.end();
            })?;
        Ok(LiveWhatIf {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Begins or ends the analysis.
    pub fn enable(&self, is_enabled: bool) {
        self.shared.is_enabled.store(is_enabled, Ordering::Relaxed);
    }

    /// Begins a capture of the requests for a share of the keys, above 0 and up to 1. `None` if
    /// there are [`limits::CAPTURES`] already.
    pub fn capture(&self, share: f64) -> Option<CaptureLines> {
        self.shared.captures.begin(share).map(CaptureLines::new)
    }

    /// Ends all captures.
    pub fn end_captures(&self) {
        self.shared.captures.end();
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            // Fails only if the thread has panicked, which is logged.
            let _ = thread.join();
        }
    }

    /// Returns the latest result for the status page; `None` before the first.
    pub fn status(&self) -> Option<Value> {
        self.shared.with(|latest| {
            let WhatIfReport {
                seconds,
                requests,
                measured,
                cells,
            } = &latest.report;
            json!({
                "seconds": seconds,
                "requests": requests,
                "capacity": latest.capacity.bytes(),
                "policy": latest.policy.to_string(),
                "average_object_bytes": latest.average_object_bytes,
                "state_bytes": latest.state_bytes,
                "measured": measured,
                "cells": cells,
            })
        })
    }

    /// Writes the latest result. `prefix` begins the names of its metrics: `larder_whatif`.
    pub fn metrics(&self, prefix: &str, metrics: &mut Metrics<'_, '_>) {
        self.shared.with(|latest| {
            let name = |figure: &str| format!("{prefix}_{figure}");
            let rows = |value: fn(&larder_replay::WhatIfCell) -> f64| {
                let cells = latest.report.cells.iter();
                cells.map(move |cell| {
                    ([("policy", cell.policy.clone()), ("capacity", cell.capacity.to_string())], value(cell))
                })
            };
            let objects = "Share of the requests that would hit with this policy and capacity, by calculation";
            metrics.table(&name("hit_ratio"), objects, rows(|cell| cell.object_hit_ratio));
            let error = "Its error, with 95 % of confidence";
            metrics.table(&name("hit_ratio_error"), error, rows(|cell| cell.object_error));
            let bytes = "Share of the bytes that would hit with this policy and capacity, by calculation";
            metrics.table(&name("byte_hit_ratio"), bytes, rows(|cell| cell.byte_hit_ratio));
            metrics.table(&name("byte_hit_ratio_error"), error, rows(|cell| cell.byte_error));
            let measured = "Share of the requests that hit, by the same count: compare it with that of the present \
                            policy and capacity";
            metrics.gauge(&name("measured_hit_ratio"), measured, latest.report.measured.object_hit_ratio);
            metrics.gauge(&name("state_bytes"), "Memory of the analysis", latest.state_bytes as f64);
        });
    }
}

impl SharedState {
    fn with<T>(&self, read: impl FnOnce(&Latest) -> T) -> Option<T> {
        self.latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .map(read)
    }

    fn set(&self, latest: Option<Latest>) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = latest;
    }
}

/// The work of the thread.
struct Analysis<C> {
    cache: C,
    shared: Arc<SharedState>,
    running: Option<Running>,
    /// True if the cache keeps a sample.
    is_sampling: bool,
    taken: Vec<Observation>,
    /// Observations that were lost since the start of the cache.
    lost: u64,
}

struct Running {
    policy: Spec,
    capacity: ByteSize,
    what_if: WhatIf,
    reported: Option<Time>,
    /// The time when its share of the processor was measured last.
    measured: Time,
    /// The processor time of the whole node until then.
    node: Duration,
    /// The processor time that the analysis has used since then.
    used: Duration,
    /// The processor time that it was allowed before and did not use.
    saved: Duration,
}

impl<C: ObservedCache> Analysis<C> {
    fn new(cache: C, shared: &Arc<SharedState>) -> Analysis<C> {
        Analysis {
            cache,
            shared: Arc::clone(shared),
            running: None,
            is_sampling: false,
            taken: Vec::new(),
            lost: 0,
        }
    }

    /// Takes the observations since the last step. Returns their number.
    fn step(&mut self) -> usize {
        let now = self.cache.now();
        let state = self.renew(now);
        let own = self
            .running
            .as_ref()
            .and_then(|running| running.what_if.sample());
        let captured = self.shared.captures.last();
        let sample = own.max(captured);
        if sample.is_none() && !self.is_sampling {
            return 0;
        }
        let Some(totals) = self.cache.take(sample, &mut self.taken) else {
            return 0;
        };
        self.is_sampling = sample.is_some();
        let count = self.taken.len();
        self.shared
            .captures
            .lose(totals.lost - std::mem::replace(&mut self.lost, totals.lost));
        self.taken.sort_by_key(Observation::now);
        self.shared.captures.add(
            self.taken
                .iter()
                .filter_map(|observation| match observation {
                    Observation::Request(observed) => Some(observed),
                    Observation::Removed(_) => None,
                }),
        );
        if captured > own {
            self.taken.retain(|observation| match observation {
                Observation::Request(observed) => Some(observed.place) <= own,
                Observation::Removed(_) => true,
            });
        }
        if let Some(running) = &mut self.running {
            let before = processor_time(ClockId::ThreadCPUTime);
            // Without a capture, there are too many for the thread.
            if running.what_if.observe(&mut self.taken, totals, now) && captured.is_none() {
                running.what_if.thin_out();
            }
            running.used += processor_time(ClockId::ThreadCPUTime).saturating_sub(before);
            running.keep_to_share(now, processor_time(ClockId::ProcessCPUTime));
            if let Some(state) = state {
                self.shared.set(running.latest(&state, now));
            }
        }
        self.taken.clear();
        count
    }

    /// Begins or ends the analysis, if the configuration or the cache has changed. Returns the
    /// cache's state if a result is due.
    fn renew(&mut self, now: Time) -> Option<CacheState> {
        if !self.shared.is_enabled.load(Ordering::Relaxed) {
            if self.running.take().is_some() {
                self.shared.set(None);
            }
            return None;
        }
        let reported = self.running.as_ref().and_then(|running| running.reported);
        if reported.is_some_and(|reported| now.since(reported) < limits::WHAT_IF_REPORT) {
            return None;
        }
        let state = self.cache.state()?;
        if self
            .running
            .as_ref()
            .is_none_or(|running| !running.is_of(&state))
        {
            // Another cache than before: what its caches hold says nothing of this one.
            self.shared.set(None);
            self.running = Running::new(&state.policy, state.capacity, now);
        }
        Some(state)
    }
}

impl Running {
    /// Returns empty caches for one with this configuration; `None` if a policy refuses one of the
    /// sizes.
    fn new(policy: &Spec, capacity: ByteSize, now: Time) -> Option<Running> {
        let parsed = WHAT_IF_POLICIES
            .iter()
            .filter_map(|policy| policy.parse::<Spec>().ok());
        let others = parsed.filter(|other| other != policy);
        let policies: Vec<Spec> = std::iter::once(policy.clone()).chain(others).collect();
        let [seed] = larder_host::entropy::words();
        match WhatIf::new(&policies, capacity, seed) {
            Ok(what_if) => {
                let policy = policy.clone();
                let (node, used, saved) = (
                    processor_time(ClockId::ProcessCPUTime),
                    Duration::ZERO,
                    Duration::ZERO,
                );
                Some(Running {
                    policy,
                    capacity,
                    what_if,
                    reported: None,
                    measured: now,
                    node,
                    used,
                    saved,
                })
            }
            Err(error) => {
                tracing::warn!(%policy, %error, "what_if: no analysis, because a policy cannot be run at another size");
                None
            }
        }
    }

    /// Returns the result for the status page; `None` without requests.
    fn latest(&mut self, state: &CacheState, now: Time) -> Option<Latest> {
        self.reported = Some(now);
        let report = self.what_if.report();
        let average_object_bytes = state
            .used
            .bytes()
            .checked_div(state.objects as u64)
            .unwrap_or(0);
        let (policy, capacity, state_bytes) = (
            self.policy.clone(),
            self.capacity,
            self.what_if.state_bytes(),
        );
        let latest = Latest {
            policy,
            capacity,
            average_object_bytes,
            state_bytes,
            report,
        };
        (latest.report.requests > 0).then_some(latest)
    }

    fn is_of(&self, state: &CacheState) -> bool {
        self.policy == state.policy && self.capacity == state.capacity
    }

    /// Makes the sample smaller if it used too large a share of the time, or of the processor time
    /// of the whole node, `node`.
    fn keep_to_share(&mut self, now: Time, node: Duration) {
        let passed = now.since(self.measured);
        if passed < limits::WHAT_IF_SHARE_TIME {
            return;
        }
        let of_node = node.saturating_sub(self.node) / limits::WHAT_IF_NODE_SHARE;
        let least = passed / limits::WHAT_IF_LEAST_SHARE;
        let allowed = of_node.clamp(least, passed / limits::WHAT_IF_SHARE);
        match (self.saved + allowed).checked_sub(self.used) {
            Some(saved) => self.saved = saved.min(allowed * limits::WHAT_IF_SAVED_LOOKS),
            None => {
                self.what_if.thin_out();
                self.saved = Duration::ZERO;
            }
        }
        (self.measured, self.node, self.used) = (now, node, Duration::ZERO);
    }
}

/// Returns the processor time of this thread, or of the whole node.
fn processor_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests;
