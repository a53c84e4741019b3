//! Replays of traffic that is held in memory, with the hit ratio and c over time.

use crate::cell::Cell;
use crate::{Error, Watch, thread_time};
use larder_policy::{Future, FutureBuilder, Spec};
use larder_replay::{
    Access, Cdn, Class, CrowdShape, FlashCrowd, Replay, TrafficMix, Windows, gather,
};
use larder_units::{ByteSize, Streams, allocated};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A named sequence of requests.
pub(super) struct Traffic {
    pub name: String,
    pub accesses: Vec<Access>,
    /// Whether free room is filled without asking the policy, as the node's caches do. The paper
    /// asks the policy for every object.
    pub fills: bool,
    /// The number of parts of a timeline.
    parts: usize,
    /// A hash of all requests, which identifies this traffic.
    digest: u64,
    future: OnceLock<Arc<Future>>,
}

/// The size of one of the paper's two traces, or of a part of it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Catalogue {
    pub objects: usize,
    pub requests: usize,
    /// The exponent of the Zipf distribution.
    pub exponent: f64,
    /// The least window of the requests of an object, as a share of the trace ([`gather`]). Without
    /// it, requests are independent.
    #[serde(default)]
    pub windows: Option<f64>,
    /// The shares of the requests that bound popular objects and rare ones
    /// ([`Cdn::with_popular_shares`]); without them, those of the exponent 0.9.
    #[serde(default)]
    pub popular: Option<[f64; 2]>,
}

impl Catalogue {
    /// Returns the conditions in words.
    pub fn conditions(&self) -> String {
        let Catalogue {
            objects,
            requests,
            exponent,
            windows,
            popular,
        } = self;
        let traffic = format!("{requests} requests, {objects} objects, Zipf {exponent}");
        let traffic = match popular {
            Some([popular, rare]) => {
                format!(
                    "{traffic}, popular sizes up to {popular} of the requests, rare from {rare}"
                )
            }
            None => traffic,
        };
        match windows {
            Some(least) => {
                format!("{traffic}, each object in a window of {least} of the trace or more")
            }
            None => format!("{traffic}, independent requests"),
        }
    }

    pub fn cdn(&self, seed: u64) -> Result<Cdn, Error> {
        let streams = Streams::new(seed);
        let cdn = match self.popular {
            Some(shares) => Cdn::with_popular_shares(self.objects, self.exponent, shares, &streams),
            None => Cdn::new(self.objects, self.exponent, &streams),
        };
        cdn.map_err(Error::from_cause)
    }

    pub fn traffic(&self, name: &str, seed: u64) -> Result<Traffic, Error> {
        Ok(Traffic::new(name, self.accesses(1, seed)?))
    }

    /// Returns the requests of this traffic with `factor` times larger objects, and the part
    /// 1 / `factor` of the number of objects. With 1 it is [`Catalogue::traffic`]'s.
    pub fn accesses(&self, factor: u32, seed: u64) -> Result<Vec<Access>, Error> {
        let catalogue = Catalogue {
            objects: self.objects.div_ceil(factor as usize),
            ..*self
        };
        let cdn = catalogue.cdn(seed)?.magnified(factor);
        let accesses = cdn.requests().take(self.requests).collect();
        match self.windows {
            Some(least) => gathered(accesses, least, seed),
            None => Ok(accesses),
        }
    }

    /// Returns this traffic with a flash crowd after `calm` requests. With windows, the requests of
    /// the catalogue are gathered, and those of the crowd's objects are not.
    pub fn flash_crowd(
        &self,
        crowd: CrowdShape,
        calm: u64,
        seed: u64,
    ) -> Result<Vec<Access>, Error> {
        let crowd = FlashCrowd::of(crowd, self.cdn(seed)?, &Streams::new(seed)).after(calm);
        let accesses: Vec<Access> = crowd.requests().take(self.requests).collect();
        let Some(least) = self.windows else {
            return Ok(accesses);
        };
        let (wanted, others): (Vec<Access>, Vec<Access>) = accesses
            .into_iter()
            .partition(|access| crowd.crowd().binary_search(&access.id).is_ok());
        let others = gathered(others, least, seed)?;
        let mut accesses = [wanted, others].concat();
        accesses.sort_by_key(|access| access.now);
        Ok(accesses)
    }

    /// Returns traffic of which the kind changes after every `calm` requests, and the kinds in
    /// their order. With `object_bytes`, each video has the first number of bytes, and each
    /// download the second one.
    pub fn traffic_mix(
        &self,
        calm: u64,
        object_bytes: Option<[u64; 2]>,
        seed: u64,
    ) -> Result<(Vec<Access>, Vec<Class>), Error> {
        let mix = TrafficMix::new(self.objects, self.exponent, calm, &Streams::new(seed))
            .map_err(Error::from_cause)?;
        let mix = match object_bytes {
            Some(bytes) => mix.with_object_bytes(bytes),
            None => mix,
        };
        let accesses: Vec<Access> = mix.requests().take(self.requests).collect();
        let kinds = accesses
            .iter()
            .step_by(calm as usize)
            .map(|access| mix.class(access.id))
            .collect();
        Ok((accesses, kinds))
    }
}

/// Returns `accesses` with the requests of each object in a window of at least this share.
fn gathered(accesses: Vec<Access>, least: f64, seed: u64) -> Result<Vec<Access>, Error> {
    Windows::new(least, 1.0)
        .and_then(|windows| gather(accesses, windows, &Streams::new(seed)))
        .map_err(Error::from_cause)
}

impl Traffic {
    pub fn new(name: impl Into<String>, accesses: Vec<Access>) -> Traffic {
        let words = accesses.iter().flat_map(|access| [access.id, access.size]);
        let digest = words.fold(0, |digest: u64, word| {
            let mixed = (digest.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^ (mixed >> 32)
        });
        Traffic {
            name: name.into(),
            accesses,
            fills: false,
            parts: PARTS,
            digest,
            future: OnceLock::new(),
        }
    }

    /// Returns this traffic as a node's cache sees it: an object has what an allocator takes for
    /// its bytes, and `overhead` more, and free room is filled without asking the policy.
    pub fn stored(&self, overhead: u64) -> Traffic {
        let size = |body: u64| allocated(body as usize) as u64 + overhead;
        let accesses = self.accesses.iter().map(|access| Access {
            size: size(access.size),
            ..*access
        });
        Traffic {
            fills: true,
            ..Traffic::new(format!("{}, as stored", self.name), accesses.collect())
        }
    }

    /// Returns this traffic with objects of `largest` bytes at most.
    pub fn cut(&self, largest: u64) -> Traffic {
        let cut = |access: &Access| Access {
            size: access.size.min(largest),
            ..*access
        };
        Traffic::new(
            format!("{}, cut at {largest}", self.name),
            self.accesses.iter().map(cut).collect(),
        )
    }

    /// Returns this traffic after its objects exchanged their sizes at random, so that sizes and
    /// popularity are independent.
    pub fn with_exchanged_sizes(&self, exchange: u64, seed: u64) -> Traffic {
        let sizes: BTreeMap<u64, u64> = self
            .accesses
            .iter()
            .map(|access| (access.id, access.size))
            .collect();
        let (ids, mut sizes): (Vec<u64>, Vec<u64>) = sizes.into_iter().unzip();
        let name = format!("{}, sizes exchanged ({exchange})", self.name);
        let mut stream = Streams::new(seed).stream(&name);
        for last in (1..sizes.len()).rev() {
            sizes.swap(last, stream.below(last as u64 + 1) as usize);
        }
        let size = |id: u64| sizes[ids.partition_point(|other| *other < id)];
        let accesses = self.accesses.iter().map(|access| Access {
            size: size(access.id),
            ..*access
        });
        Traffic {
            fills: self.fills,
            parts: self.parts,
            ..Traffic::new(name, accesses.collect())
        }
    }

    /// Returns this traffic with timelines of another number of parts.
    pub fn in_parts(self, parts: usize) -> Traffic {
        Traffic { parts, ..self }
    }

    fn future(&self) -> Result<&Arc<Future>, Error> {
        if let Some(future) = self.future.get() {
            return Ok(future);
        }
        let mut future = FutureBuilder::default();
        let pushed = self
            .accesses
            .iter()
            .try_for_each(|access| future.push(access.id, access.size));
        pushed.map_err(|error| Error(format!("{}: {error}", self.name)))?;
        Ok(self.future.get_or_init(|| Arc::new(future.build())))
    }
}

/// Writes the name and the hash, which identify the traffic in a row's key.
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
    /// The capacity, bytes.
    pub capacity: u64,
    /// The number of requests before counting starts.
    pub warm_up: usize,
}

/// The result of a replay.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ReplayResult {
    pub spec: String,
    /// The object hit ratio of the requests after the warm-up.
    pub hit_ratio: f64,
    /// One entry per part of the traffic, mostly a fortieth: requests until its end in millions,
    /// its hit ratio, and c in bytes if the policy has one.
    pub timeline: Vec<(f64, f64, Option<f64>)>,
    /// The finite gauges of the policies at the end, by `policy.gauge`.
    pub gauges: Vec<(String, f64)>,
    /// The bytes of the engine's and the policies' tables at the end.
    pub state_bytes: usize,
    /// Processor time per request.
    pub nanoseconds: f64,
}

/// The cost of a request under LookAhead, in requests of LRU. LookAhead's header explains the cost.
/// The weight keeps the predicted end of the work realistic.
const LOOK_AHEAD_WEIGHT: u64 = 10;

/// The number of parts of a timeline.
pub(super) const PARTS: usize = 40;

/// Returns the length of the parts of a timeline of this many requests.
pub(super) fn part_length(requests: usize) -> usize {
    requests.div_ceil(PARTS).max(1)
}

/// Returns the parts of the timeline after the first quarter, which is the warm-up.
pub(super) fn settled(found: &ReplayResult) -> &[(f64, f64, Option<f64>)] {
    &found.timeline[found.timeline.len() / 4..]
}

/// Returns the coefficient of variation of the hit ratio over time, after the warm-up.
pub(super) fn variation(found: &ReplayResult) -> f64 {
    let ratios: Vec<f64> = settled(found).iter().map(|(_, ratio, _)| *ratio).collect();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let variance = ratios
        .iter()
        .map(|ratio| (ratio - mean).powi(2))
        .sum::<f64>()
        / ratios.len() as f64;
    variance.sqrt() / mean
}

/// Returns the result with the best hit ratio.
pub(super) fn best(found: &[ReplayResult]) -> Result<&ReplayResult, Error> {
    let best = found
        .iter()
        .max_by(|a, b| a.hit_ratio.total_cmp(&b.hit_ratio));
    best.ok_or_else(|| Error("there is no result to choose from".to_owned()))
}

/// Returns LookAhead with this shape of admission, which chooses c after every `interval` requests
/// by the next `window` ones.
pub(super) fn lookahead(shape: &str, [interval, window]: [u64; 2]) -> String {
    format!("lookahead({shape},interval={interval},window={window})+lru")
}

/// Returns the approximate cost of a request under these policies, in requests of LRU.
pub(super) fn weight(spec: &str) -> u64 {
    if spec.starts_with("lookahead") {
        LOOK_AHEAD_WEIGHT
    } else {
        1
    }
}

impl Cell for Run<'_> {
    type Row = ReplayResult;

    fn key(&self, seed: u64) -> String {
        let Run {
            traffic,
            spec,
            capacity,
            warm_up,
        } = self;
        let parts = traffic.parts;
        format!(
            "adaptsize: {traffic}, {spec}, {capacity} bytes, warm-up {warm_up}, {parts} parts, seed {seed}"
        )
    }

    fn units(&self) -> u64 {
        self.traffic.accesses.len() as u64 * weight(&self.spec)
    }

    fn measure(&self, seed: u64, watch: &dyn Watch) -> Result<ReplayResult, Error> {
        let Run {
            traffic,
            capacity,
            warm_up,
            ..
        } = *self;
        let spec: Spec = self.spec.parse().map_err(Error::from_cause)?;
        let capacity = ByteSize::from_bytes(capacity);
        let replay = if spec.is_offline() {
            Replay::foreseeing(&spec, capacity, seed, traffic.future()?)
        } else {
            Replay::new(&spec, capacity, seed)
        };
        let replay = replay.map_err(Error::from_cause)?;
        let mut replay = if traffic.fills {
            replay.filling()
        } else {
            replay
        };
        let part = traffic.accesses.len().div_ceil(traffic.parts).max(1);
        let (mut timeline, mut done, mut busy) = (Vec::new(), 0, 0.0);
        for accesses in traffic.accesses.chunks(part) {
            let begun = thread_time();
            let (before, after) =
                accesses.split_at(warm_up.saturating_sub(done).min(accesses.len()));
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
    /// Returns a gauge of a policy, such as `adaptsize.c_bytes`, or NaN if there is no such gauge.
    pub fn gauge(&self, name: &str) -> f64 {
        self.gauges
            .iter()
            .find(|(gauge, _)| gauge == name)
            .map_or(f64::NAN, |(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Scale, Section};

    #[test]
    fn an_exchange_changes_the_sizes_or_who_is_requested() {
        let catalogue = Catalogue {
            objects: 300,
            requests: 3000,
            exponent: 0.9,
            windows: None,
            popular: None,
        };
        let traffic = catalogue.traffic("hk", 1).unwrap();
        let exchanged = traffic.with_exchanged_sizes(1, 7);
        let sizes = |traffic: &Traffic| {
            let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
            for access in &traffic.accesses {
                assert_eq!(
                    *sizes.entry(access.id).or_insert(access.size),
                    access.size,
                    "an object has two sizes"
                );
            }
            let mut sorted: Vec<u64> = sizes.values().copied().collect();
            sorted.sort_unstable();
            (sizes, sorted)
        };
        let ids = |traffic: &Traffic| {
            traffic
                .accesses
                .iter()
                .map(|access| access.id)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (ids(&exchanged), sizes(&exchanged).1),
            (ids(&traffic), sizes(&traffic).1)
        );
        assert_ne!(sizes(&exchanged).0, sizes(&traffic).0);
        for other in [
            traffic.with_exchanged_sizes(1, 8),
            traffic.with_exchanged_sizes(2, 7),
        ] {
            assert_ne!(sizes(&exchanged).0, sizes(&other).0);
        }
        assert_ne!(
            exchanged.to_string(),
            traffic.to_string(),
            "one key for two traffics"
        );
    }

    #[test]
    fn a_missing_gauge_is_judged() {
        let text = "title = \"T\"\nshows = \"S\"\n[full]\n[quick]\n[[claim]]\nid = \"a\"\nsays = \"A\"\nkind = \"value\"\n\
                    published = 2\nband = [1, inf]\nreason = \"R\"\n";
        let experiment = Experiment::<BTreeMap<String, u64>>::parse("x", text).unwrap();
        let found = ReplayResult {
            gauges: vec![("adaptsize.c_bytes".to_owned(), 7.0)],
            ..ReplayResult::default()
        };
        let judged = |gauge: &str| {
            let mut section = Section::new(&experiment, Scale::Full);
            section.measured("a", found.gauge(gauge));
            section.judged()
        };
        assert!(judged("adaptsize.c_bytes").is_ok());
        assert!(
            judged("adaptsize.tunings")
                .unwrap_err()
                .to_string()
                .contains("not a number")
        );
    }

    /// Failure: what large objects take beyond their bytes is counted for small ones, too.
    #[test]
    fn small_objects_take_what_large_ones_do() {
        let access = |id, size| Access {
            id,
            size,
            now: larder_units::Time::ZERO,
        };
        let traffic = Traffic::new(
            "t",
            vec![access(1, 1000), access(2, 1_000_000), access(1, 1000)],
        );
        let sizes: Vec<u64> = traffic
            .stored(300)
            .accesses
            .iter()
            .map(|access| access.size)
            .collect();
        assert_eq!(sizes, [1324, 1_048_876, 1324]);
    }

    #[test]
    fn a_crowd_is_gathered_or_changes_with_the_windows() {
        let catalogue = Catalogue {
            objects: 3000,
            requests: 6000,
            exponent: 0.9,
            windows: None,
            popular: None,
        };
        let local = Catalogue {
            windows: Some(0.05),
            ..catalogue
        };
        let shape = CrowdShape {
            objects: [5, 9],
            chunk_bytes: None,
        };
        let [plain, local] =
            [catalogue, local].map(|catalogue| catalogue.flash_crowd(shape, 2000, 3).unwrap());
        let crowd = FlashCrowd::of(shape, catalogue.cdn(3).unwrap(), &Streams::new(3));
        let of_crowd = |accesses: &[Access]| -> Vec<Access> {
            accesses
                .iter()
                .filter(|access| crowd.crowd().contains(&access.id))
                .copied()
                .collect()
        };
        assert!(of_crowd(&plain).len() > 1900);
        assert_eq!(of_crowd(&local), of_crowd(&plain));
        let times =
            |accesses: &[Access]| accesses.iter().map(|access| access.now).collect::<Vec<_>>();
        assert_eq!(times(&local), times(&plain));
        let sorted = |accesses: &[Access]| {
            let mut ids: Vec<u64> = accesses.iter().map(|access| access.id).collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(sorted(&local), sorted(&plain));
        assert_ne!(local, plain, "no request was gathered");
    }
}
