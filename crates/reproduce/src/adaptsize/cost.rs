//! Section 5.1.5, as far as a replay shows it: bytes of the statistics, and processor time per
//! request compared with LRU.

use super::replays::{Catalogue, Run, Traffic};
use crate::cell::{measure_all, units};
use crate::statistics::greatest;
use crate::{Error, Experiment, Request, Section, Watch, thread_time};
use larder_figure::Series;
use larder_policy::adaptsize_model::{Foresight, Observed, Shape};
use serde::Deserialize;
use std::collections::HashMap;

const FILE: (&str, &str) = experiment_file!("adaptsize/cost.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    us: Catalogue,
    /// The deployed capacity, bytes.
    capacity: u64,
}

/// LRU, AdaptSize with several intervals, and as published.
const SPECS: [&str; 5] = [
    "lru",
    "adaptsize(chance,interval=1000000)+lru",
    "adaptsize(chance)+lru",
    "adaptsize(chance,interval=250000)+lru",
    "adaptsize(prototype,model=paper,interval=250000)+lru",
];

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let Sweep { us, capacity } = *experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition(
        "us",
        format!("{} requests, {} objects", us.requests, us.objects),
    );
    let traffic = us.traffic("us", request.seed + 1)?;
    // With room for everything, all requests hit; with almost no room, all miss.
    let capacities = [
        ("all hits", u64::MAX / 2),
        ("as deployed", capacity),
        ("almost no hits", 1 << 10),
    ];
    let mut runs = Vec::new();
    for (_, capacity) in capacities {
        runs.extend(SPECS.map(|spec| Run {
            traffic: &traffic,
            spec: spec.to_owned(),
            capacity,
            warm_up: 0,
        }));
    }
    watch.begin("cost", units(&runs));
    let found = measure_all(runs, request, watch)?;
    let rows = found
        .iter()
        .zip(capacities.iter().flat_map(|(name, _)| [name; SPECS.len()]))
        .map(|(found, name)| {
            vec![
                (*name).to_owned(),
                found.spec.clone(),
                format!("{:.4}", found.hit_ratio),
                format!("{:.0}", found.nanoseconds),
                format!("{:.1}", found.state_bytes as f64 / 1e6),
            ]
        });
    let header = [
        "case",
        "policy",
        "object hit ratio",
        "ns of processor time a request, jobs within",
        "MB of tables",
    ];
    section.table("Cost", header, rows.collect());
    // LRU has no statistics.
    let [deployed @ .., published] = &found[SPECS.len() + 1..2 * SPECS.len()] else {
        return Err(Error(format!(
            "experiments/{}: a policy was not measured",
            FILE.0
        )));
    };
    for (prefix, forms) in [
        ("", deployed),
        ("published-", std::slice::from_ref(published)),
    ] {
        let most = |name: &str| greatest(forms.iter().map(|found| found.gauge(name)));
        section.measured(
            format!("{prefix}statistics-bytes-an-object"),
            most("adaptsize.bytes_a_counted_object"),
        );
        section.measured(
            format!("{prefix}statistics-megabytes"),
            most("adaptsize.statistics_bytes") / 1e6,
        );
    }
    request.rows.measures_without_row();
    section.measured("model-speed", model_speed(&traffic, capacity));
    let bars = |at: usize| {
        (0..3_u32)
            .map(|case| {
                (
                    f64::from(case),
                    found[case as usize * SPECS.len() + at].nanoseconds,
                )
            })
            .collect()
    };
    let series = SPECS
        .iter()
        .enumerate()
        .map(|(at, spec)| Series::bars(*spec, bars(at)));
    section.named_figure("cost", capacities.map(|(name, _)| name), series.collect());
    section.judged()
}

/// Returns how many times faster the model is evaluated over bins than over single objects, each
/// the fastest of some evaluations.
fn model_speed(traffic: &Traffic, capacity: u64) -> f64 {
    let mut objects: HashMap<u64, Observed> = HashMap::new();
    let (before, last) = traffic.accesses.split_at(traffic.accesses.len() / 2);
    for (accesses, is_last) in [(before, false), (last, true)] {
        for access in accesses {
            let object = objects.entry(access.id).or_insert(Observed {
                size: access.size as f64,
                ..Observed::default()
            });
            *(if is_last {
                &mut object.last
            } else {
                &mut object.before
            }) += 1.0;
        }
    }
    let objects = || objects.values().copied();
    let capacity = capacity as f64;
    let binned = Foresight::new(objects(), capacity, Shape::Chance);
    let each = Foresight::unbinned(objects(), capacity, Shape::Chance);
    let [binned, each] = [binned, each].map(|foresight| {
        let evaluation = |log_c: i32| {
            let begun = thread_time();
            std::hint::black_box(
                foresight.hit_ratio(std::hint::black_box(f64::from(log_c).exp2())),
            );
            (thread_time() - begun).as_secs_f64()
        };
        // Around the c that is best on this traffic.
        (12..20).map(evaluation).fold(f64::INFINITY, f64::min)
    });
    each / binned
}
