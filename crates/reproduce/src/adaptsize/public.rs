//! Public traces beside the generated ones: NASA's day always, and what the directory of `--traces` holds.

use super::replays::{Run, Traffic, replay_all, work};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_replay::{Access, Survey, Trace};
use serde::Deserialize;
use std::collections::HashMap;

const FILE: (&str, &str) = ("adaptsize/public.toml", include_str!("../../../../experiments/adaptsize/public.toml"));

/// A day of NASA's web server, from the Internet Traffic Archive.
const NASA: &[u8] = include_bytes!("../../../replay/tests/data/nasa_19950801.tsv.zst");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    /// Of the bytes of all objects.
    capacity: f64,
    /// Requests of each trace, at most.
    requests: usize,
    specs: Vec<String>,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition("cache", format!("{} of the bytes of all objects", sweep.capacity));
    let mut all = vec![nasa()?];
    if let Some(directory) = request.traces {
        all.extend(beside(directory, sweep.requests)?);
    }
    let mut rows = Vec::new();
    for traffic in &all {
        let mut survey = Survey::default();
        traffic.accesses.iter().for_each(|access| survey.count(access));
        let capacity = (survey.unique_bytes() as f64 * sweep.capacity) as u64;
        section.condition(&traffic.name, format!("{} requests, cache of {capacity} bytes", survey.requests()));
        let run = |spec: &String| Run { traffic, spec: spec.clone(), capacity, warm_up: 0 };
        let runs: Vec<Run<'_>> = sweep.specs.iter().map(run).collect();
        watch.begin(&traffic.name, work(&runs));
        let found = replay_all(runs, request, watch)?;
        if rows.is_empty() {
            section.measured("nasa-lru", found[0].hit_ratio);
            section.measured("nasa-adaptsize", found[1].hit_ratio);
        }
        let ratios = found.iter().map(|found| format!("{:.4}", found.hit_ratio));
        rows.push([traffic.name.clone()].into_iter().chain(ratios).collect());
    }
    section.table("Object hit ratio", ["trace"].into_iter().chain(sweep.specs.iter().map(String::as_str)), rows);
    section.judged()
}

/// The traces of a directory, in the order of their names; what opens as none is passed over.
fn beside(directory: &std::path::Path, requests: usize) -> Result<Vec<Traffic>, Error> {
    let unread = |error: std::io::Error| Error(format!("{}: {error}", directory.display()));
    let entries = std::fs::read_dir(directory).map_err(unread)?.collect::<Result<Vec<_>, _>>().map_err(unread)?;
    let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort();
    let open = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let trace = Trace::open(path, None).ok()?;
        load(&name, trace, requests).ok()
    };
    Ok(paths.iter().filter_map(open).collect())
}

fn load(name: &str, trace: Trace, requests: usize) -> Result<Traffic, Error> {
    let accesses: Result<Vec<Access>, _> = trace.take(requests).collect();
    Ok(Traffic::new(name, accesses.map_err(|error| Error(error.to_string()))?))
}

/// NASA's day. A log does not tell the size of what was not modified (304): the largest that was ever sent stands in, for which the reader looks
/// ahead in a file, but cannot in bytes that it reads once.
fn nasa() -> Result<Traffic, Error> {
    let trace = Trace::read(NASA, "nasa_19950801.tsv.zst", None).map_err(|error| Error(error.to_string()))?;
    let mut traffic = load("NASA, a day", trace, usize::MAX)?;
    let mut sizes: HashMap<u64, u64> = HashMap::new();
    for access in &traffic.accesses {
        let size = sizes.entry(access.id).or_default();
        *size = access.size.max(*size);
    }
    for access in &mut traffic.accesses {
        access.size = sizes[&access.id];
    }
    Ok(traffic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unwatched;

    #[test]
    fn nasa_s_day_is_another_than_the_replayer_s() {
        let traffic = nasa().unwrap();
        let request = Request { paper: &super::super::PAPER, scale: crate::Scale::Quick, seed: 1, traces: None };
        let run = Run { traffic: &traffic, spec: "lru".to_owned(), capacity: 10_935_931, warm_up: 0 };
        let found = replay_all(vec![run], &request, &Unwatched).unwrap();
        // As `larder replay` counts.
        assert_eq!((found[0].hit_ratio * 30_393.0).round(), 24_448.0);
    }
}
