//! How often the stated errors of sampled curves hold, and how wide they are: each policy that
//! `larder advise` compares, at four sizes, three rates and several samples, beside a replay of all
//! requests.
//!
//!     cargo bench -p larder-replay --bench intervals -- [OPTION...] [FILE...]
//!
//! `--requests N` and `--samples N` give numbers. By default, the sample is that of `larder curve`.
//! With `--plain` it takes all objects with the same chance. With `--keep` it is that of `larder
//! advise`: of as many requests as the rate would take.
//!
//! A file is a trace, or a table of popularity and size for `larder trace generate joint`. Without
//! files: 400,000 requests of popular pages and of a tail of sizes up to a tenth of all bytes.
#![allow(clippy::print_stdout, reason = "it prints what it measures")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads its arguments")]

use larder_policy::Spec;
use larder_replay::{
    Access, Curve, Joint, KeptSample, Point, Replay, Sample, Sampled, Survey, Trace, Zipf,
};
use larder_units::{ByteSize, Streams, Time};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

type Failure = Box<dyn std::error::Error>;

const POLICIES: [&str; 8] = [
    "agd",
    "agd(optimise=balanced)",
    "s3fifo",
    "w-tinylfu",
    "gdsf",
    "adaptsize+lru",
    "sieve",
    "lru",
];
/// Capacities, as parts of the bytes of all objects.
const PARTS: [f64; 4] = [0.002, 0.01, 0.05, 0.2];
const RATES: [f64; 3] = [0.01, 0.05, 0.2];

/// How objects are chosen.
#[derive(Clone, Copy)]
enum Mode {
    Curve,
    Plain,
    Keep,
}

impl Mode {
    fn sample(
        self,
        accesses: &[Access],
        rate: f64,
        seed: u64,
        (spec, capacity): (&Spec, ByteSize),
    ) -> (Sample, Vec<Sampled>) {
        let plain = Sample::of(rate, seed).expect("a rate");
        let mut sample = match self {
            Mode::Curve => plain.for_caches(std::slice::from_ref(spec), &[capacity.bytes()]),
            Mode::Plain => plain,
            Mode::Keep => {
                let mut kept = KeptSample::new((accesses.len() as f64 * rate) as usize, seed);
                kept.requests(accesses.iter().copied());
                return (kept.sample().clone(), kept.requests_kept().to_vec());
            }
        };
        let sampled = accesses.iter().filter_map(|access| sample.take(access));
        let sampled = sampled.collect();
        (sample, sampled)
    }
}

/// A stated interval, and what is true.
struct Found {
    trace: String,
    policy: &'static str,
    part: f64,
    rate: f64,
    point: Point,
    truth: [f64; 2],
}

fn main() -> Result<(), Failure> {
    let (mut requests, mut samples, mut mode, mut files) = (400_000, 4, Mode::Curve, Vec::new());
    let mut arguments = std::env::args().skip(1).filter(|text| text != "--bench");
    while let Some(argument) = arguments.next() {
        let mut number = || {
            arguments
                .next()
                .ok_or("a number is missing")?
                .parse::<usize>()
                .map_err(Failure::from)
        };
        match argument.as_str() {
            "--requests" => requests = number()?,
            "--samples" => samples = number()?,
            "--plain" => mode = Mode::Plain,
            "--keep" => mode = Mode::Keep,
            _ => files.push(argument),
        }
    }
    let traces = match files.as_slice() {
        [] => vec![("heavy tail".to_owned(), heavy_tail(requests)?)],
        files => {
            let read = |path: &String| Ok((path.clone(), read(path, requests)?));
            files.iter().map(read).collect::<Result<_, Failure>>()?
        }
    };
    let cells: Vec<_> = traces
        .iter()
        .flat_map(|trace| POLICIES.map(|policy| (trace, policy)))
        .flat_map(|(trace, policy)| PARTS.map(|part| (trace, policy, part)))
        .collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(((name, accesses), policy, part)) =
                    cells.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let cell = cell((name, accesses), policy, *part, samples as u64, mode);
                    found.lock().expect("no panic").extend(cell);
                }
            });
        }
    });
    print(&found.into_inner().expect("no panic"));
    Ok(())
}

fn read(path: &str, requests: usize) -> Result<Vec<Access>, Failure> {
    if let Ok(table) = Joint::read(BufReader::new(File::open(path)?)) {
        return Ok(table.requests(requests, &Streams::new(7)).collect());
    }
    let trace = Trace::open(std::path::Path::new(path), None)?;
    Ok(trace.take(requests).collect::<Result<_, _>>()?)
}

/// Zipf popularity, and sizes from a log-normal body and a Pareto tail.
fn heavy_tail(requests: usize) -> Result<Vec<Access>, Failure> {
    let zipf = Zipf::new(100_000, 0.9).ok_or("a distribution")?;
    let mut stream = Streams::new(1).stream("heavy tail");
    let draw = |_| {
        let id = zipf.draw(&mut stream);
        let mut own = Streams::new(id).stream("size");
        let size = if own.chance(0.95) {
            // The sum of twelve is nearly normal.
            let normal: f64 = (0..12).map(|_| own.unit()).sum::<f64>() - 6.0;
            8_000.0 * (1.2 * normal).exp()
        } else {
            100_000.0 * own.unit().powf(-1.0 / 1.1)
        };
        Access {
            id,
            size: (size as u64).clamp(100, 1 << 30),
            now: Time::ZERO,
        }
    };
    Ok((0..requests).map(draw).collect())
}

fn cell(
    (trace, accesses): (&str, &[Access]),
    policy: &'static str,
    part: f64,
    samples: u64,
    mode: Mode,
) -> Vec<Found> {
    let mut survey = Survey::default();
    for access in accesses {
        survey.count(access);
    }
    let capacity = ByteSize::from_bytes((survey.unique_bytes() as f64 * part) as u64);
    let spec: Spec = policy.parse().expect("a policy");
    let mut replay = Replay::new(&spec, capacity, 1).expect("a cache").filling();
    replay.requests(accesses);
    let row = replay.row(trace);
    let mut found = Vec::new();
    for rate in RATES {
        for seed in 1..=samples {
            let (sample, sampled) = mode.sample(accesses, rate, seed, (&spec, capacity));
            let point = match policy {
                "lru" => {
                    let mut curve = Curve::lru(&[capacity.bytes()], &sample);
                    curve.requests(&sampled);
                    curve.points(&sample)[0]
                }
                _ => {
                    let curve = Curve::miniature(&spec, capacity, &sample, 1);
                    let mut curve = curve.expect("a cache").filling();
                    curve.requests(&sampled);
                    curve.points(&sample)[0]
                }
            };
            found.push(Found {
                trace: trace.to_owned(),
                policy,
                part,
                rate,
                point,
                truth: [row.object_hit_ratio, row.byte_hit_ratio],
            });
        }
    }
    found
}

/// Prints the intervals that hold, their median width and how far the estimates are off.
fn print(found: &[Found]) {
    println!(
        "                                    objects: hold  width    off   bytes: hold  width    off"
    );
    type Group<'a> = &'a dyn Fn(&Found) -> String;
    let by: [Group<'_>; 5] = [
        &|_| "all".to_owned(),
        &|found| found.trace.clone(),
        &|found| found.policy.to_owned(),
        &|found| format!("size {}", found.part),
        &|found| format!("rate {}", found.rate),
    ];
    for group in by {
        let mut groups: BTreeMap<String, Vec<&Found>> = BTreeMap::new();
        for found in found {
            groups.entry(group(found)).or_default().push(found);
        }
        for (name, found) in groups {
            let column = |of: &dyn Fn(&Found) -> [f64; 3]| {
                let all: Vec<[f64; 3]> = found.iter().map(|found| of(found)).collect();
                let holds = all
                    .iter()
                    .filter(|[value, error, truth]| (value - truth).abs() <= *error);
                let holds = holds.count() as f64 / all.len() as f64;
                let width = median(all.iter().map(|[_, error, _]| *error));
                let off = median(all.iter().map(|[value, _, truth]| (value - truth).abs()));
                format!("{holds:.3} {width:>6.4} {off:>6.4}")
            };
            let objects = column(&|Found { point, truth, .. }| {
                [point.object_hit_ratio, point.object_error, truth[0]]
            });
            let bytes = column(&|Found { point, truth, .. }| {
                [point.byte_hit_ratio, point.byte_error, truth[1]]
            });
            let least = found
                .iter()
                .filter(|found| found.point.error_is_least)
                .count();
            let least = if least > 0 {
                format!("  {least} at least")
            } else {
                String::new()
            };
            let name: String = name
                .chars()
                .rev()
                .take(44)
                .collect::<String>()
                .chars()
                .rev()
                .collect();
            println!("{name:<44} {objects}       {bytes}{least}");
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
