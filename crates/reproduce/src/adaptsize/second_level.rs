//! Section 6: what AdaptSize changes for the disk cache behind it. Its requests are the misses of
//! the memory cache.

use super::replays::{Catalogue, ReplayResult, Run};
use crate::cell::{measure_all, units};
use crate::{Error, Experiment, Request, Section, Watch};
use serde::Deserialize;

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
    /// The bytes that one operation of a disk reads at most.
    operation_bytes: u64,
}

/// The load of the disk cache, as multiples of that behind a memory cache without an admission.
struct Load {
    requests: f64,
    bytes: f64,
    operations: f64,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition("memory cache", format!("{} bytes", sweep.capacity));
    section.condition("one operation of the disk", format!("at most {} bytes", sweep.operation_bytes));
    let mut rows = Vec::new();
    for (name, catalogue, seed) in [("hk", sweep.hk, request.seed), ("us", sweep.us, request.seed + 1)] {
        section.condition(name, format!("{}; a quarter to warm up", catalogue.conditions()));
        let traffic = catalogue.traffic(name, seed)?;
        let specs = ["lru", "adaptsize(chance)+lru", &sweep.published];
        let run = |spec: &str| {
            let (capacity, warm_up) = (sweep.capacity, catalogue.requests / 4);
            Run { traffic: &traffic, spec: spec.to_owned(), capacity, warm_up }
        };
        let runs: Vec<Run<'_>> = specs.map(run).into();
        watch.begin(&format!("second level, {name}"), units(&runs));
        let found = measure_all(runs, request, watch)?;
        for (form, found_of_form) in ["", "-published"].into_iter().zip(&found[1..]) {
            let Load { requests, bytes, operations } = load(found_of_form, &found[0], sweep.operation_bytes);
            section.measured(format!("{name}{form}-disk-requests"), requests);
            section.measured(format!("{name}{form}-disk-bytes"), bytes);
            section.measured(format!("{name}{form}-disk-size"), bytes / requests);
            section.measured(format!("{name}{form}-disk-operations"), operations);
        }
        rows.extend(found.iter().map(|row| {
            let Load { requests, bytes, operations } = load(row, &found[0], sweep.operation_bytes);
            let shown = [requests, bytes, bytes / requests, operations].map(|value| format!("{value:.3}"));
            [name.to_owned(), row.spec.clone()].into_iter().chain(shown).collect::<Vec<String>>()
        }));
    }
    let header = ["traffic", "memory cache", "requests", "bytes", "mean size", "operations"];
    section.table("Load of the disk cache, as multiples of that behind LRU", header, rows);
    section.judged()
}

fn load(found: &ReplayResult, lru: &ReplayResult, operation_bytes: u64) -> Load {
    let [own, other] = [found, lru].map(|found| {
        let (requests, bytes) = (found.missed.0 as f64, found.missed.1 as f64);
        // Each request begins an operation, and each `operation_bytes` more need another one.
        (requests, bytes, requests + bytes / operation_bytes as f64)
    });
    Load { requests: own.0 / other.0, bytes: own.1 / other.1, operations: own.2 / other.2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_for_requests() {
        let of = |requests, bytes| ReplayResult { missed: (requests, bytes), ..ReplayResult::default() };
        let Load { requests, bytes, operations } = load(&of(40, 1450), &of(100, 1000), 10);
        assert_eq!((requests, bytes), (0.4, 1.45));
        assert!((operations - 185.0 / 200.0).abs() < 1e-12);
    }
}
