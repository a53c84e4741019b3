//! How far what-if analysis is off: the estimates of its miniature caches next to a replay of all
//! requests, for each policy and size.
//!
//!     cargo bench -p larder-replay --bench what_if -- TRACE SIZE [REQUESTS]
#![allow(clippy::print_stdout, reason = "it prints what it measures")]
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark reads arguments and the clock"
)]

use larder_policy::Spec;
use larder_policy::observe::{Observed, Observer, Outcome};
use larder_replay::{Access, Replay, Trace, WHAT_IF_POLICIES, WhatIf};
use larder_units::{ByteSize, Time};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

fn observed(access: &Access, place: u64) -> Observed {
    Observed {
        now: access.now,
        place,
        variant: 0,
        size: access.size,
        bytes: access.size,
        outcome: Outcome::Fetched,
        lifetime: Duration::MAX,
        any_age: false,
        validates: true,
        label: None,
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    // Without arguments, as `cargo bench` of the whole crate calls it, the day of NASA.
    let default = [
        concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/data/nasa_19950801.tsv.zst"
        ),
        "8MiB",
    ]
    .map(str::to_owned);
    let arguments = if arguments.is_empty() {
        &default[..]
    } else {
        &arguments
    };
    let [path, size, rest @ ..] = arguments else {
        return Err("usage: TRACE SIZE [REQUESTS]".into());
    };
    let most = rest.first().map_or(Ok(1_000_000), |most| most.parse())?;
    let capacity: ByteSize = size.parse()?;
    let trace = Trace::open(std::path::Path::new(path), None)?;
    let accesses: Vec<Access> = trace.take(most).collect::<Result<_, _>>()?;
    let specs: Vec<Spec> = WHAT_IF_POLICIES
        .iter()
        .map(|policy| policy.parse())
        .collect::<Result<_, _>>()?;
    let (mut covered, mut cells, mut sum, mut worst) = (0, 0, 0.0, BTreeMap::<u64, f64>::new());
    for seed in 1..=5 {
        let mut what_if = WhatIf::new(&specs, capacity, seed)?;
        let (mut observer, mut taken) = (Observer::new(seed, 1_024), Vec::new());
        let started = Instant::now();
        for accesses in std::iter::once(&accesses[..0]).chain(accesses.chunks(512)) {
            for access in accesses {
                observer.fetched(access.id, access.size, |place| observed(access, place))
            }
            let totals = observer.take(what_if.sample(), &mut taken);
            what_if.observe(&mut taken, totals, Time::ZERO);
        }
        let (report, took) = (what_if.report(), started.elapsed());
        for cell in &report.cells {
            let mut replay = Replay::new(
                &cell.policy.parse()?,
                ByteSize::from_bytes(cell.capacity),
                seed,
            )?
            .filling();
            replay.requests(&accesses);
            let row = replay.row("");
            let off = [
                (
                    cell.object_hit_ratio - row.object_hit_ratio,
                    cell.object_error,
                ),
                (cell.byte_hit_ratio - row.byte_hit_ratio, cell.byte_error),
            ];
            for (off, error) in off {
                cells += 1;
                covered += u32::from(off.abs() <= error + 1e-3);
            }
            let worst = worst.entry(cell.capacity).or_default();
            *worst = worst.max(off[0].0.abs());
            sum += off[0].0.abs();
            if seed == 1 {
                println!(
                    "{:14} {:>12} B  rate 1/{:<5.0} exact {:.4}  estimate {:+.4} ±{:.4}  bytes {:.4} {:+.4} ±{:.4}",
                    cell.policy,
                    cell.capacity,
                    1.0 / cell.rate,
                    row.object_hit_ratio,
                    off[0].0,
                    off[0].1,
                    row.byte_hit_ratio,
                    off[1].0,
                    off[1].1,
                );
            }
        }
        println!(
            "seed {seed}: {} requests, {:.0} ns each, {:.1} MB",
            accesses.len(),
            took.as_nanos() as f64 / accesses.len() as f64,
            what_if.state_bytes() as f64 / 1e6,
        );
    }
    for (capacity, worst) in &worst {
        println!("{capacity:>12} B  worst {worst:.4}");
    }
    println!(
        "objects: mean {:.4}, worst {:.4}; {covered} of {cells} within the stated error",
        sum * 2.0 / f64::from(cells),
        worst.values().copied().fold(0.0, f64::max),
    );
    Ok(())
}
