//! Replays of traffic that is held in memory, with the timeline of the hit ratio and of c.

use crate::{Error, Request, Watch, on_all_cores, thread_time};
use larder_policy::{Future, FutureBuilder, Spec, SpecError};
use larder_replay::{Access, Cdn, Replay};
use larder_units::{ByteSize, Streams};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Requests, named.
pub(super) struct Traffic {
    pub name: String,
    pub accesses: Vec<Access>,
    /// Whether free room is filled without asking the policy, as the node's caches do; the paper
    /// asks for every object.
    fills: bool,
    /// Of all the requests: tells this traffic from others.
    digest: u64,
    future: OnceLock<Arc<Future>>,
}

/// The size of one of the paper's two traces, or of a part of it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Catalogue {
    pub objects: usize,
    pub requests: usize,
    /// Zipf's.
    pub exponent: f64,
}

impl Catalogue {
    pub fn cdn(&self, seed: u64) -> Result<Cdn, Error> {
        Cdn::new(self.objects, self.exponent, &Streams::new(seed)).map_err(|error| Error(error.to_string()))
    }

    pub fn traffic(&self, name: &str, seed: u64) -> Result<Traffic, Error> {
        Ok(Traffic::new(name, self.cdn(seed)?.requests().take(self.requests).collect()))
    }
}

impl Traffic {
    pub fn new(name: impl Into<String>, accesses: Vec<Access>) -> Traffic {
        let words = accesses.iter().flat_map(|access| [access.id, access.size]);
        let digest = words.fold(0, |digest: u64, word| {
            let mixed = (digest.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^ (mixed >> 32)
        });
        Traffic { name: name.into(), accesses, fills: false, digest, future: OnceLock::new() }
    }

    /// The same as a node's cache has it, which counts so many bytes an object beside its body.
    pub fn stored(&self, overhead: u64) -> Traffic {
        let accesses = self.accesses.iter().map(|access| Access { size: access.size + overhead, ..*access });
        Traffic { fills: true, ..Traffic::new(format!("{}, as stored", self.name), accesses.collect()) }
    }

    fn future(&self) -> Result<&Arc<Future>, Error> {
        if let Some(future) = self.future.get() {
            return Ok(future);
        }
        let mut future = FutureBuilder::default();
        let pushed = self.accesses.iter().try_for_each(|access| future.push(access.id, access.size));
        pushed.map_err(|error| Error(format!("{}: {error}", self.name)))?;
        Ok(self.future.get_or_init(|| Arc::new(future.build())))
    }
}

/// All that tells it from others.
impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:x}", self.name, self.digest)
    }
}

/// One replay.
#[derive(Clone)]
pub(super) struct Run<'a> {
    pub traffic: &'a Traffic,
    pub spec: String,
    /// Bytes.
    pub capacity: u64,
    /// Requests before anything is counted.
    pub warm_up: usize,
}

/// What a replay found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ReplayResult {
    pub spec: String,
    /// Of the requests after the warm-up.
    pub hit_ratio: f64,
    /// After each fortieth of the traffic: requests in millions, the hit ratio of this fortieth,
    /// and c in bytes, if there is one.
    pub timeline: Vec<(f64, f64, Option<f64>)>,
    /// The policies' figures at the end, as far as they are numbers.
    pub gauges: Vec<(String, f64)>,
    /// Bytes of the engine's and the policies' tables at the end.
    pub state_bytes: usize,
    /// Processor time a request.
    pub nanoseconds: f64,
}

/// As much as LRU's request costs one of LookAhead, whose header says why: a progress that counted
/// them alike would promise too little.
const LOOK_AHEAD_WEIGHT: u64 = 10;

/// Parts of a timeline.
pub(super) const PARTS: usize = 40;

/// Runs on all cores those that are not finished; what they found comes in their order.
pub(super) fn replay_all(
    runs: Vec<Run<'_>>,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Vec<ReplayResult>, Error> {
    on_all_cores(runs, |run| run.found(request, watch)).into_iter().collect()
}

/// What all runs cost, about, in requests of LRU.
pub(super) fn work(runs: &[Run<'_>]) -> u64 {
    runs.iter().map(Run::work).sum()
}

/// The best of what was tried, by hit ratio.
pub(super) fn best(found: &[ReplayResult]) -> Result<&ReplayResult, Error> {
    let best = found.iter().max_by(|a, b| a.hit_ratio.total_cmp(&b.hit_ratio));
    best.ok_or_else(|| Error("nothing was tried".to_owned()))
}

/// What a request costs under these policies, about: LRU's is 1.
pub(super) fn weight(spec: &str) -> u64 {
    if spec.starts_with("lookahead") { LOOK_AHEAD_WEIGHT } else { 1 }
}

impl Run<'_> {
    /// Runs it, if it is not finished already.
    pub fn found(&self, request: &Request<'_>, watch: &dyn Watch) -> Result<ReplayResult, Error> {
        let key = self.key(request.seed);
        if let Some(finished) = request.rows.get(&key) {
            watch.advance(self.work());
            return Ok(finished);
        }
        let found = self.replay(request.seed, watch)?;
        request.rows.add(&key, &found).map(|()| found)
    }

    fn work(&self) -> u64 {
        self.traffic.accesses.len() as u64 * weight(&self.spec)
    }

    /// All that it finds depends on.
    fn key(&self, seed: u64) -> String {
        let Run { traffic, spec, capacity, warm_up } = self;
        format!("adaptsize: {traffic}, {spec}, {capacity} bytes, warm-up {warm_up}, seed {seed}")
    }

    fn replay(&self, seed: u64, watch: &dyn Watch) -> Result<ReplayResult, Error> {
        let Run { traffic, capacity, warm_up, .. } = *self;
        let refused = |error: SpecError| Error(error.to_string());
        let spec: Spec = self.spec.parse().map_err(refused)?;
        let capacity = ByteSize::from_bytes(capacity);
        let replay = match spec.is_offline() {
            true => Replay::foreseeing(&spec, capacity, seed, traffic.future()?),
            false => Replay::new(&spec, capacity, seed),
        };
        let replay = replay.map_err(refused)?;
        let mut replay = if traffic.fills { replay.filling() } else { replay };
        let part = traffic.accesses.len().div_ceil(PARTS).max(1);
        let (mut timeline, mut done, mut busy) = (Vec::new(), 0, 0.0);
        for accesses in traffic.accesses.chunks(part) {
            let begun = thread_time();
            let (before, after) = accesses.split_at(warm_up.saturating_sub(done).min(accesses.len()));
            let mut hits = replay.requests(before);
            if done <= warm_up {
                replay.reset_counts();
            }
            hits += replay.requests(after);
            done += accesses.len();
            busy += (thread_time() - begun).as_secs_f64();
            let c = replay
                .engine()
                .gauges()
                .iter()
                .find(|(_, gauge)| gauge.name == "c_bytes")
                .map(|(_, gauge)| gauge.value);
            timeline.push((done as f64 / 1e6, hits as f64 / accesses.len() as f64, c));
            watch.advance(accesses.len() as u64 * weight(&self.spec));
        }
        let gauges = replay.engine().gauges();
        Ok(ReplayResult {
            spec: self.spec.clone(),
            hit_ratio: replay.row("").object_hit_ratio,
            timeline,
            gauges: gauges
                .into_iter()
                .filter(|(_, gauge)| gauge.value.is_finite())
                .map(|(policy, gauge)| (format!("{policy}.{}", gauge.name), gauge.value))
                .collect(),
            state_bytes: replay.engine().state_bytes(),
            nanoseconds: busy * 1e9 / done.max(1) as f64,
        })
    }
}

impl ReplayResult {
    /// A figure of a policy, such as `adaptsize.c_bytes`.
    pub fn gauge(&self, name: &str) -> f64 {
        self.gauges.iter().find(|(gauge, _)| gauge == name).map_or(f64::NAN, |(_, value)| *value)
    }
}
