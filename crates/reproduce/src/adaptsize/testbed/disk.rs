//! Section 6 with a real disk tier: what AdaptSize in memory changes for the disk behind it.

use super::serve::{DiskLoad, Run, overhead};
use super::servers::System;
use crate::adaptsize::replays::{Catalogue, Traffic};
use crate::adaptsize::second_level::{MemoryCache, Misses};
use crate::cell::{measure, measure_all, units};
use crate::{Error, Experiment, Request, Section, Watch};
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("adaptsize/testbed-disk.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    hk: Catalogue,
    us: Catalogue,
    /// The bytes of the cache in memory.
    pub(super) capacity: u64,
    /// The bytes of the disk tier, which lies in memory here, too.
    disk: u64,
    /// Objects are cut at this part of the cache in memory.
    pub(super) largest: f64,
    connections: usize,
    /// The number of requests between two tunings.
    adaptsize_interval: u64,
}

/// The number of parts of the traffic. The first one is the warm-up.
const PARTS: usize = 4;

/// The replays of each policy, with other random choices each. Their means count.
const DRAWS: u64 = 8;

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    super::servers::check_installed()?;
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition("cache in memory", format!("{} bytes", sweep.capacity));
    section.condition("disk tier", format!("{} bytes, FIFO", sweep.disk));
    section.condition(
        "largest object",
        format!("{} of the cache in memory", sweep.largest),
    );
    for (name, catalogue, seed) in [
        ("hk", sweep.hk, request.seed),
        ("us", sweep.us, request.seed + 1),
    ] {
        section.condition(
            name,
            format!("{}; a quarter to warm up", catalogue.conditions()),
        );
        let largest = (sweep.capacity as f64 * sweep.largest) as u64;
        let traffic = catalogue.traffic(name, seed)?.cut(largest);
        compare(&mut section, name, &traffic, sweep, request, watch)?;
    }
    section.judged()
}

/// Compares AdaptSize with LRU on one of the two traces.
fn compare(
    section: &mut Section,
    name: &str,
    traffic: &Traffic,
    sweep: &Sweep,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let Sweep {
        capacity,
        connections,
        ..
    } = *sweep;
    let specs = [
        "lru".to_owned(),
        format!(
            "adaptsize(chance,interval={})+lru",
            sweep.adaptsize_interval
        ),
    ];
    watch.begin(
        &format!("{name}, with a disk tier"),
        (specs.len() * traffic.accesses.len()) as u64,
    );
    let served = |spec: &String| -> Result<DiskLoad, Error> {
        watch.now(&format!("{name}, with a disk tier: {spec}"));
        let system = System::LarderDisk(spec.clone(), sweep.disk);
        let served = measure(
            &Run {
                system,
                traffic,
                capacity,
                connections,
                parts: PARTS,
            },
            request,
            watch,
        )?;
        served
            .disk
            .ok_or_else(|| Error(format!("{name}: larder has no disk tier")))
    };
    let served = [served(&specs[0])?, served(&specs[1])?];
    let [lru, adaptsize] = &served;

    let replayed = replayed(name, &specs, traffic, capacity, request, watch)?;

    let (requests, bytes) = (
        over(adaptsize.requests, lru.requests),
        over(adaptsize.bytes, lru.bytes),
    );
    section.measured(format!("bed-{name}-disk-requests"), requests);
    section.measured(format!("bed-{name}-disk-bytes"), bytes);
    section.measured(format!("bed-{name}-disk-size"), bytes / requests);
    beside_replays(section, name, &served, &replayed);
    let pairs = || served.iter().zip(&replayed);
    let rows = specs.iter().zip(pairs()).map(|(spec, (served, replayed))| {
        let figures = [served.requests, replayed.0, served.bytes, replayed.1];
        let more = [
            served.tier_hits,
            served.tier_hit_bytes,
            served.written_bytes,
        ];
        let shown = figures
            .into_iter()
            .chain(more)
            .map(|figure| figure.to_string());
        [spec.clone()].into_iter().chain(shown).collect()
    });
    let header = [
        "cache in memory",
        "requests that it leaves",
        "replayed",
        "their bytes",
        "replayed",
        "the disk answers",
        "bytes",
        "bytes written",
    ];
    section.table(
        &format!("{name}: the disk tier after the warm-up"),
        header,
        rows.collect(),
    );
    Ok(())
}

/// Records how far the requests and bytes that came through are from those of the replays.
fn beside_replays(section: &mut Section, name: &str, served: &[DiskLoad], replayed: &[(u64, u64)]) {
    // The farthest of both memory caches.
    let farthest = |ratios: Vec<f64>| {
        ratios.into_iter().fold(1.0, |far: f64, ratio| {
            if ratio.is_nan() || (ratio - 1.0).abs() > (far - 1.0).abs() {
                ratio
            } else {
                far
            }
        })
    };
    let pairs = || served.iter().zip(replayed);
    let of_requests: Vec<f64> = pairs()
        .map(|(served, replayed)| over(served.requests, replayed.0))
        .collect();
    let of_bytes: Vec<f64> = pairs()
        .map(|(served, replayed)| over(served.bytes, replayed.1))
        .collect();
    section.measured(
        format!("bed-{name}-disk-lru-replayed"),
        farthest(vec![of_requests[0], of_bytes[0]]),
    );
    section.measured(
        format!("bed-{name}-disk-requests-replayed"),
        farthest(of_requests),
    );
    section.measured(
        format!("bed-{name}-disk-bytes-replayed"),
        farthest(of_bytes),
    );
}

fn over(own: u64, other: u64) -> f64 {
    own as f64 / other as f64
}

/// Returns the requests and the bytes that replays of these policies leave: means over [`DRAWS`].
fn replayed(
    name: &str,
    specs: &[String],
    traffic: &Traffic,
    capacity: u64,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Vec<(u64, u64)>, Error> {
    let stored = &traffic.stored(overhead(traffic)?);
    let warm_up = traffic.accesses.len().div_ceil(PARTS);
    let cache = |spec, draw| {
        let operation_bytes = &[];
        MemoryCache {
            traffic: stored,
            counted: traffic,
            spec,
            capacity,
            warm_up,
            operation_bytes,
            draw,
        }
    };
    let caches = specs
        .iter()
        .flat_map(|spec| (0..DRAWS).map(move |draw| cache(&**spec, draw)));
    let caches: Vec<MemoryCache<'_>> = caches.collect();
    watch.begin(&format!("{name}, disk tier: replays"), units(&caches));
    let found = measure_all(caches, request, watch)?;
    let means = found.chunks(DRAWS as usize).map(|draws| {
        let mean = |of: fn(&Misses) -> u64| draws.iter().map(of).sum::<u64>() / DRAWS;
        (mean(|misses| misses.requests), mean(|misses| misses.bytes))
    });
    Ok(means.collect())
}
