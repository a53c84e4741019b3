//! The six policies at one capacity, with both interpretations of the exponent, and the equations
//! beside Filter with and without the collisions of its table.

use super::replays::{Cell, Rates, Workload, replay_all, spec, work};
use crate::section::numbered;
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_replay::model::{self, FilterTable, Popularity, Prediction};
use larder_units::ByteSize;
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("filter/hit-rates.toml");

/// The policies of the paper, with both interpretations of LFU, and Filter without collisions.
const SHOWN: [&str; 8] = [
    "FIFO",
    "Random",
    "LFU (400 C)",
    "ARC",
    "TinyLFU",
    "Filter",
    "LFU (in cache)",
    "Filter (exact counts)",
];

/// The published rates, in the order of [`SHOWN`].
const PUBLISHED: [f64; 8] = [0.238, 0.241, 0.389, 0.366, 0.376, 0.341, 0.389, 0.341];

/// The places of Filter and of Filter with exact counts in [`SHOWN`].
const FILTERS: [usize; 2] = [5, 7];

/// The slots of Filter's table, and none for exact counts.
const SLOTS: [Option<u64>; 2] = [Some(1 << 24), None];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    objects: u64,
    /// C, in packets.
    capacity: u64,
    exponents: Vec<f64>,
    warm_up: u64,
    requests: u64,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let Sweep {
        objects,
        capacity,
        ref exponents,
        warm_up,
        requests,
    } = *sweep;
    let cells = sweep.cells()?;
    watch.begin("hit rates", work(&cells));
    let rates = replay_all(&cells, request, watch)?;

    let mut section = Section::new(&experiment, request.scale);
    let zipf = exponents
        .iter()
        .map(f64::to_string)
        .collect::<Vec<_>>()
        .join(" and ");
    section.condition("workload", format!("web, {objects} objects, Zipf {zipf}"));
    section.condition("cache", format!("{capacity} packets"));
    section.condition("requests", format!("{requests} after {warm_up} to warm up"));
    let mut rows: Vec<Vec<String>> = SHOWN
        .iter()
        .zip(PUBLISHED)
        .map(|(policy, rate)| vec![(*policy).to_owned(), format!("{rate:.3}")])
        .collect();
    let mut series = vec![Series::bars("published", numbered(PUBLISHED))];
    for (exponent, rates) in exponents.iter().zip(rates.chunks(SHOWN.len())) {
        claim(&mut section, *exponent, rates);
        let hits = rates.iter().map(|rates| rates.hit);
        series.push(Series::bars(format!("Zipf {exponent}"), numbered(hits)));
        for (row, Rates { hit, insertion }) in rows.iter_mut().zip(rates) {
            row.extend([format!("{hit:.4}"), format!("{insertion:.4}")]);
        }
    }
    let mut header = vec!["policy".to_owned(), "published".to_owned()];
    header.extend(exponents.iter().flat_map(|e| {
        [
            format!("hit rate, Zipf {e}"),
            format!("insertion rate, Zipf {e}"),
        ]
    }));
    section.table("Hit and insertion rates", header, rows);
    beside_the_model(&mut section, sweep, &rates)?;
    section.named_figure("rates", SHOWN, series);
    section.judged()
}

impl Sweep {
    /// Returns all policies at the first exponent, then at the next.
    pub(super) fn cells(&self) -> Result<Vec<Cell>, Error> {
        let Sweep {
            objects,
            capacity,
            warm_up,
            requests,
            ..
        } = *self;
        let mut cells = Vec::new();
        for &exponent in &self.exponents {
            let workload = Workload::Web { objects, exponent };
            for policy in SHOWN {
                cells.push(Cell {
                    workload,
                    spec: spec(policy, capacity)?,
                    capacity,
                    warm_up,
                    requests,
                });
            }
        }
        Ok(cells)
    }
}

/// Measures the claims. Those at 0.8 are about order and ratios, those at 0.81 about values as
/// well.
fn claim(section: &mut Section, exponent: f64, rates: &[Rates]) {
    let [fifo, random, lfu, arc, tinylfu, filter] = std::array::from_fn(|policy| rates[policy].hit);
    let rising = [fifo, filter, arc, tinylfu, lfu];
    let inversions = rising.windows(2).filter(|pair| pair[0] >= pair[1]).count();
    section.measured(format!("order-{exponent}"), inversions as f64);
    if exponent == 0.8 {
        section.measured("filter-to-fifo-0.8", filter / fifo);
        section.measured("filter-to-random-0.8", filter / random);
        section.measured("tinylfu-less-filter-0.8", tinylfu - filter);
        return;
    }
    let ids = [
        "fifo",
        "random",
        "lfu",
        "arc",
        "tinylfu",
        "filter",
        "lfu-in-cache",
        "filter-exact",
    ];
    for (id, rates) in ids.into_iter().zip(rates) {
        section.measured(format!("hit-{id}-{exponent}"), rates.hit);
    }
    section.measured(
        format!("insertion-filter-{exponent}"),
        rates[FILTERS[0]].insertion,
    );
}

/// Adds the equations beside Filter, and what a miss finds between two requests.
fn beside_the_model(section: &mut Section, sweep: &Sweep, rates: &[Rates]) -> Result<(), Error> {
    let Sweep {
        objects,
        capacity,
        ref exponents,
        ..
    } = *sweep;
    let packets = ByteSize::from_bytes(capacity);
    let mut rows = Vec::new();
    for (exponent, rates) in exponents.iter().zip(rates.chunks(SHOWN.len())) {
        let popularity = Popularity::zipf(objects, *exponent).ok_or_else(|| {
            Error(format!(
                "no Zipf distribution with exponent {exponent} over {objects} objects"
            ))
        })?;
        let between = SLOTS
            .map(|slots| model::filter_between_requests(&popularity, packets, capacity, slots));
        for ((at, slots), between) in FILTERS.into_iter().zip(SLOTS).zip(&between) {
            let Rates { hit, insertion } = rates[at];
            let equations = model::filter(
                &popularity,
                packets,
                FilterTable {
                    theta: 2,
                    window: capacity,
                    slots,
                },
            );
            let pair =
                |of: &Prediction| format!("{:.4} / {:.4}", of.object_hit_ratio, of.insertion_ratio);
            let replay = format!("{hit:.4} / {insertion:.4}");
            rows.push(vec![
                SHOWN[at].to_owned(),
                exponent.to_string(),
                pair(&equations),
                pair(between),
                replay,
            ]);
        }
        if *exponent != 0.8 {
            let [found, exact] =
                [0, 1].map(|of| rates[FILTERS[of]].insertion / between[of].insertion_ratio);
            section.measured(format!("insertion-between-{exponent}"), found);
            section.measured(format!("insertion-between-exact-{exponent}"), exact);
        }
    }
    let header = [
        "policy",
        "Zipf",
        "equations (3) to (7)",
        "between requests",
        "replay",
    ];
    section.table("Models / replay: hit rate / insertion rate", header, rows);
    Ok(())
}
