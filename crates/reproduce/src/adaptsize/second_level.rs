//! Section 6: what AdaptSize changes for the disk cache behind it. Its requests are the misses of
//! the memory cache. In a second reading, the objects exchange their sizes, so that popular ones
//! are as large as others.

use super::replays::{Catalogue, Traffic, part_length};
use crate::cell::{Cell, measure_all, units};
use crate::statistics::median;
use crate::{Error, Experiment, Request, Section, Watch};
use larder_policy::Spec;
use larder_replay::Replay;
use larder_units::ByteSize;
use serde::{Deserialize, Serialize};

const FILE: (&str, &str) = experiment_file!("adaptsize/second-level.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    hk: Catalogue,
    us: Catalogue,
    /// The capacity of the memory cache, bytes.
    capacity: u64,
    /// AdaptSize(Chance) as it was published and deployed by its authors.
    published: String,
    /// The bytes that one operation of a disk reads at most. The claims are about the first value.
    operation_bytes: Vec<u64>,
    /// The number of times that the objects exchange their sizes.
    exchanges: u64,
}

/// The load of the disk cache, as multiples of that behind a memory cache without an admission.
struct Load {
    requests: f64,
    bytes: f64,
    /// For each size of an operation.
    operations: Vec<f64>,
}

/// The requests of the disk cache behind one memory cache, after the warm-up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Misses {
    pub requests: u64,
    pub bytes: u64,
    /// The operations of the disk, for each size of an operation.
    operations: Vec<u64>,
}

impl Misses {
    /// Counts a request for an object of `size` bytes, read by operations of at most
    /// `operation_bytes`.
    fn count(&mut self, size: u64, operation_bytes: &[u64]) {
        self.requests += 1;
        self.bytes += size;
        self.operations.resize(operation_bytes.len(), 0);
        for (operations, bytes) in self.operations.iter_mut().zip(operation_bytes) {
            *operations += size.div_ceil(*bytes).max(1);
        }
    }
}

/// A memory cache whose misses are counted.
pub(super) struct MemoryCache<'a> {
    /// The requests, with the bytes that an object has in the cache.
    pub traffic: &'a Traffic,
    /// The same requests, with the bytes that count.
    pub counted: &'a Traffic,
    pub spec: &'a str,
    /// The capacity, bytes.
    pub capacity: u64,
    /// The number of requests before counting starts.
    pub warm_up: usize,
    pub operation_bytes: &'a [u64],
    /// Added to the seed of the policy's random choices.
    pub draw: u64,
}

impl Cell for MemoryCache<'_> {
    type Row = Misses;

    fn key(&self, seed: u64) -> String {
        let MemoryCache {
            traffic,
            counted,
            spec,
            capacity,
            warm_up,
            operation_bytes,
            draw,
        } = self;
        let seed = seed.wrapping_add(*draw);
        format!(
            "second level: {traffic}, counted {counted}, {spec}, {capacity} bytes, warm-up {warm_up}, operations \
             {operation_bytes:?}, {seed}"
        )
    }

    fn units(&self) -> u64 {
        self.traffic.accesses.len() as u64
    }

    fn measure(&self, seed: u64, watch: &dyn Watch) -> Result<Misses, Error> {
        let spec: Spec = self.spec.parse().map_err(Error::from_cause)?;
        let (capacity, seed) = (
            ByteSize::from_bytes(self.capacity),
            seed.wrapping_add(self.draw),
        );
        let replay = Replay::new(&spec, capacity, seed).map_err(Error::from_cause)?;
        let mut replay = if self.traffic.fills {
            replay.filling()
        } else {
            replay
        };
        let mut misses = Misses::default();
        let mut counted = self.counted.accesses.iter().enumerate();
        for accesses in self
            .traffic
            .accesses
            .chunks(part_length(self.traffic.accesses.len()))
        {
            for (access, (at, counted)) in accesses.iter().zip(counted.by_ref()) {
                if !replay.request(access) && at >= self.warm_up {
                    misses.count(counted.size, self.operation_bytes);
                }
            }
            watch.advance(accesses.len() as u64);
        }
        Ok(misses)
    }
}

/// One of the two traces, with what its measurements need.
struct Bench<'a> {
    name: &'static str,
    sweep: &'a Sweep,
    /// The number of requests before counting starts.
    warm_up: usize,
    request: &'a Request<'a>,
    watch: &'a dyn Watch,
}

/// The two forms of AdaptSize, in the ids of claims.
const FORMS: [&str; 2] = ["", "-published"];

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition("memory cache", format!("{} bytes", sweep.capacity));
    let [operation, ..] = sweep.operation_bytes[..] else {
        return Err(Error(format!("{}: operation_bytes has no value", FILE.0)));
    };
    section.condition(
        "one operation of the disk",
        format!("at most {operation} bytes"),
    );
    let mut rows = Vec::new();
    for (name, catalogue, seed) in [
        ("hk", sweep.hk, request.seed),
        ("us", sweep.us, request.seed + 1),
    ] {
        section.condition(
            name,
            format!("{}; a quarter to warm up", catalogue.conditions()),
        );
        let traffic = catalogue.traffic(name, seed)?;
        let bench = Bench {
            name,
            sweep,
            warm_up: catalogue.requests / 4,
            request,
            watch,
        };
        let loads = bench.loads(&traffic, &mut rows)?;
        record(&mut section, name, &loads.map(|load| vec![load]));
        let mut exchanged = [const { Vec::new() }; FORMS.len()];
        for exchange in 1..=sweep.exchanges {
            let loads = bench.loads(
                &traffic.with_exchanged_sizes(exchange, request.seed),
                &mut rows,
            )?;
            for (all, load) in exchanged.iter_mut().zip(loads) {
                all.push(load);
            }
        }
        record(&mut section, &format!("{name}-exchanged"), &exchanged);
    }
    let header = [
        "traffic",
        "memory cache",
        "byte hit ratio",
        "requests",
        "bytes",
        "mean size",
    ]
    .map(str::to_owned);
    let sizes = sweep
        .operation_bytes
        .iter()
        .map(|bytes| format!("operations of {} KiB", bytes / 1024));
    let header = header.into_iter().chain(sizes);
    section.table(
        "Load of the disk cache, as multiples of that behind LRU",
        header,
        rows,
    );
    section.judged()
}

impl Bench<'_> {
    /// Returns the load behind each form of AdaptSize. Adds a row for each memory cache.
    fn loads(
        &self,
        traffic: &Traffic,
        rows: &mut Vec<Vec<String>>,
    ) -> Result<[Load; FORMS.len()], Error> {
        let Bench {
            name,
            sweep,
            warm_up,
            request,
            watch,
        } = *self;
        let specs = ["lru", "adaptsize(chance)+lru", &sweep.published];
        let Sweep {
            capacity,
            ref operation_bytes,
            ..
        } = *sweep;
        let cache = |spec| MemoryCache {
            traffic,
            counted: traffic,
            spec,
            capacity,
            warm_up,
            operation_bytes,
            draw: 0,
        };
        let caches: Vec<MemoryCache<'_>> = specs.map(cache).into();
        watch.begin(&format!("second level, {name}"), units(&caches));
        let found = measure_all(caches, request, watch)?;
        let [lru, chance, published] = &found[..] else {
            return Err(Error(format!(
                "{} results for {} memory caches",
                found.len(),
                specs.len()
            )));
        };
        let counted: u64 = traffic.accesses[warm_up..]
            .iter()
            .map(|access| access.size)
            .sum();
        rows.extend(specs.iter().zip(&found).map(|(spec, misses)| {
            let Load {
                requests,
                bytes,
                operations,
            } = load(misses, lru);
            let ratio = 1.0 - misses.bytes as f64 / counted as f64;
            let shown = [ratio, requests, bytes, bytes / requests]
                .into_iter()
                .chain(operations);
            let shown = shown.map(|value| format!("{value:.3}"));
            [&*traffic.name, spec]
                .into_iter()
                .map(str::to_owned)
                .chain(shown)
                .collect::<Vec<String>>()
        }));
        Ok([chance, published].map(|misses| load(misses, lru)))
    }
}

/// Records the medians of the loads behind each form.
fn record(section: &mut Section, prefix: &str, loads: &[Vec<Load>; FORMS.len()]) {
    for (form, loads) in FORMS.into_iter().zip(loads) {
        let mut record = |what: &str, of: fn(&Load) -> f64| {
            section.measured_if_claimed(
                format!("{prefix}{form}-disk-{what}"),
                median(loads.iter().map(of).collect()),
            );
        };
        record("requests", |load| load.requests);
        record("bytes", |load| load.bytes);
        record("size", |load| load.bytes / load.requests);
        record("operations", |load| load.operations[0]);
    }
}

fn load(misses: &Misses, lru: &Misses) -> Load {
    let over = |own: u64, other: u64| own as f64 / other as f64;
    Load {
        requests: over(misses.requests, lru.requests),
        bytes: over(misses.bytes, lru.bytes),
        operations: misses
            .operations
            .iter()
            .zip(&lru.operations)
            .map(|(own, other)| over(*own, *other))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_for_requests() {
        let of = |requests, bytes, operations| Misses {
            requests,
            bytes,
            operations,
        };
        let Load {
            requests,
            bytes,
            operations,
        } = load(&of(40, 1450, vec![185, 60]), &of(100, 1000, vec![200, 80]));
        assert_eq!(
            (requests, bytes, operations),
            (0.4, 1.45, vec![0.925, 0.75])
        );
    }

    #[test]
    fn a_part_of_an_operation_is_counted_as_a_part() {
        let mut misses = Misses::default();
        for size in [0, 1, 10, 11, 20, 21] {
            misses.count(size, &[10, 30]);
        }
        let operations = vec![1 + 1 + 1 + 2 + 2 + 3, 6];
        assert_eq!(
            (misses.requests, misses.bytes, misses.operations),
            (6, 63, operations)
        );
    }
}
