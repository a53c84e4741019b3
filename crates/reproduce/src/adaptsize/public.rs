//! Public traces, in addition to the generated ones: a day of NASA's web server, and the files of
//! the directory given with `--traces`.

use super::replays::{Run, Traffic};
use crate::cell::{measure_all, units};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_replay::{Access, Format, Survey, Trace};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

const FILE: (&str, &str) = experiment_file!("adaptsize/public.toml");

/// A day of NASA's web server, from the Internet Traffic Archive.
const NASA: &[u8] = include_bytes!("../../data/nasa_19950801.tsv.zst");
/// Product pages of a web shop in two years, from the benchmarks of cache2k (CC BY 4.0).
const WEB07: &[u8] = include_bytes!("../../data/web07.trace.xz");
const WEB12: &[u8] = include_bytes!("../../data/web12.trace.xz");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    /// The capacity as a share of the bytes of all objects.
    capacity: f64,
    /// The most requests of each trace. A trace is held in memory, because every policy and every
    /// core reads it.
    requests: usize,
    specs: Vec<String>,
    /// The one of them that is AdaptSize as it was published and deployed by its authors.
    published: String,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition(
        "cache",
        format!("{} of the bytes of all objects", sweep.capacity),
    );
    let beside = request.traces.map_or(Ok(Vec::new()), files)?;
    let mut rows = Vec::new();
    let mut unread = Vec::new();
    let traces =
        std::iter::once(nasa()).chain(beside.iter().map(|path| open(path, sweep.requests)));
    // The iterator reads one trace at a time, after the previous one is freed.
    for traffic in traces {
        let traffic = match traffic {
            Ok(traffic) => traffic,
            Err(error) if !rows.is_empty() => {
                watch.warn(&format!("left out: {error}"));
                unread.push(vec![error.to_string()]);
                continue;
            }
            Err(error) => return Err(error),
        };
        let mut survey = Survey::default();
        for access in &traffic.accesses {
            survey.count(access);
        }
        let capacity = (survey.unique_bytes() as f64 * sweep.capacity) as u64;
        section.condition(
            &traffic.name,
            format!("{} requests, cache of {capacity} bytes", survey.requests()),
        );
        let run = |spec: &String| Run {
            traffic: &traffic,
            spec: spec.clone(),
            capacity,
            warm_up: 0,
        };
        let runs: Vec<Run<'_>> = sweep.specs.iter().map(run).collect();
        watch.begin(&traffic.name, units(&runs));
        let found = measure_all(runs, request, watch)?;
        if rows.is_empty() {
            section.measured("nasa-lru", found[0].hit_ratio);
            section.measured("nasa-adaptsize", found[1].hit_ratio);
            let published = found.iter().find(|found| found.spec == sweep.published);
            section.measured(
                "nasa-published",
                published.map_or(f64::NAN, |found| found.hit_ratio),
            );
        }
        let ratios = found.iter().map(|found| format!("{:.4}", found.hit_ratio));
        rows.push([traffic.name.clone()].into_iter().chain(ratios).collect());
    }
    section.table(
        "Object hit ratio",
        ["trace"]
            .into_iter()
            .chain(sweep.specs.iter().map(String::as_str)),
        rows,
    );
    if !unread.is_empty() {
        section.table("Files that were left out", ["why"], unread);
    }
    section.judged()
}

/// Returns the files of a directory in the order of their names.
fn files(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let unread = |error: std::io::Error| Error(format!("{}: {error}", directory.display()));
    let entries = std::fs::read_dir(directory)
        .map_err(unread)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(unread)?;
    let mut paths: Vec<_> = entries
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    Ok(paths)
}

fn open(path: &Path, requests: usize) -> Result<Traffic, Error> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let trace = Trace::open(path, None).map_err(Error::from_cause)?;
    load(&name, trace, requests)
}

fn load(name: &str, trace: Trace, requests: usize) -> Result<Traffic, Error> {
    let accesses: Result<Vec<Access>, _> = trace.take(requests).collect();
    Ok(Traffic::new(name, accesses.map_err(Error::from_cause)?))
}

/// Returns the traces that are part of this crate.
pub(super) fn embedded() -> Result<Vec<Traffic>, Error> {
    let shop = |bytes, name, file| {
        load(
            name,
            Trace::read(bytes, file, Some(Format::NUMBERS)).map_err(Error::from_cause)?,
            usize::MAX,
        )
    };
    Ok(vec![
        nasa()?,
        shop(WEB07, "web07", "web07.trace.xz")?,
        shop(WEB12, "web12", "web12.trace.xz")?,
    ])
}

/// Reads NASA's day. A log does not contain the size of a response that was not modified (304). The
/// largest size that the log has for the object replaces it. The trace reader does so by reading
/// ahead in a file, but it cannot do so here, because it reads these bytes only once.
pub(super) fn nasa() -> Result<Traffic, Error> {
    let trace = Trace::read(NASA, "nasa_19950801.tsv.zst", None).map_err(Error::from_cause)?;
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
    use crate::{Report, Rows, Unwatched};

    #[test]
    fn a_broken_trace_is_passed_over_in_silence() {
        struct Warned(std::sync::Mutex<Vec<String>>);
        impl Watch for Warned {
            fn begin(&self, _: &str, _: u64) {}
            fn advance(&self, _: u64) {}
            fn warn(&self, line: &str) {
                self.0.lock().unwrap().push(line.to_owned());
            }
            fn ended(&self, _: &Report) -> Result<(), Error> {
                Ok(())
            }
        }
        let directory = std::env::temp_dir().join(format!("larder-traces-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("broken.tr"), "1 1 10\n2 2 20\n3 3\n").unwrap();
        std::fs::write(directory.join("whole.tr"), "1 1 10\n2 2 20\n3 1 10\n").unwrap();
        let paper = &super::super::PAPER;
        let rows = Rows::default();
        let (scale, traces) = (crate::Scale::Quick, Some(&*directory));
        let request = Request {
            scale,
            traces,
            ..Request::quick(paper, &rows)
        };
        let warned = Warned(std::sync::Mutex::new(Vec::new()));
        let section = super::run(&request, &warned);
        std::fs::remove_dir_all(&directory).unwrap();
        let section = section.unwrap();
        let warned = warned.0.into_inner().unwrap();
        assert!(
            warned.len() == 1 && warned[0].contains("broken.tr") && !warned[0].contains('\n'),
            "{warned:?}"
        );
        assert_eq!(section.tables[0].rows.len(), 2);
        assert!(section.tables[1].rows[0][0].contains("broken.tr"));
    }

    #[test]
    fn nasa_s_day_is_another_than_the_replayer_s() {
        let traffic = nasa().unwrap();
        let rows = Rows::default();
        let request = Request::quick(&super::super::PAPER, &rows);
        let run = Run {
            traffic: &traffic,
            spec: "lru".to_owned(),
            capacity: 10_935_931,
            warm_up: 0,
        };
        let found = measure_all(vec![run], &request, &Unwatched).unwrap();
        // The same number as `larder replay` reports.
        assert_eq!((found[0].hit_ratio * 30_393.0).round(), 24_448.0);
    }
}
