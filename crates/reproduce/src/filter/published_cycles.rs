//! Equations (1) and (2) with the cycles that the paper prints: its worked example, figure 7 over
//! the replayed rates, and the cost of Filter's lower hit rate. No processor is measured.

use super::replays::Rates;
use super::sizes::{self, OnWeb};
use crate::statistics::count;
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("filter/published-cycles.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    /// The hit rate of both policies in the example of section 3.3.
    example_hit: f64,
    /// The insertion rate of TinyLFU in the example.
    example_insertion: f64,
    printed: Printed,
}

/// The printed hit rates of section 6.2, and insertion rates, of which the paper prints none for
/// figure 5: Filter's is that of equation (4), TinyLFU's that of section 3.3.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    fifo: f64,
    random: f64,
    arc: f64,
    tinylfu: f64,
    filter: f64,
    filter_insertion: f64,
    tinylfu_insertion: f64,
}

impl Printed {
    fn of(&self, policy: &str) -> Rates {
        let (hit, insertion) = match policy {
            "Filter" => (self.filter, self.filter_insertion),
            "TinyLFU" => (self.tinylfu, self.tinylfu_insertion),
            "ARC" => (self.arc, 1.0),
            "Random" => (self.random, 1.0),
            _ => (self.fifo, 1.0),
        };
        Rates { hit, insertion }
    }
}

/// The blocks of table 1 by their numbers.
#[derive(Clone, Copy)]
struct Blocks {
    b1: f64,
    b3: f64,
    b4: f64,
    /// B5, B6, B7, B8 and B9, which only a miss pays.
    on_miss: f64,
    b10: f64,
    b11: f64,
}

const TABLE_1: Blocks = Blocks {
    b1: 571.0,
    b3: 148.0,
    b4: 72.0,
    on_miss: 188.0 + 413.0 + 56.0 + 188.0 + 73.0,
    b10: 329.0,
    b11: 50.0,
};

/// The cycles of B10 in the prose of section 3.3.
const PROSE_B10: f64 = 188.0;

/// Table 2, with TinyLFU's B13 of section 6.3: policy, B2, B12, B13.
const TABLE_2: [(&str, f64, f64, f64); 5] = [
    ("Filter", 83.0, 0.0, 28.0),
    ("TinyLFU", 91.0, 0.0, 282.0),
    ("ARC", 173.0, 202.0, 0.0),
    ("Random", 0.0, 62.0, 0.0),
    ("FIFO", 0.0, 0.0, 0.0),
];

/// The policies that are compared with Filter: place in [`TABLE_2`], name in claims, and the share
/// by which Filter's average cycles are below theirs at C = 1e5 (section 6.3).
const BELOW: [(usize, &str, f64); 4] = [
    (1, "tinylfu", 0.09),
    (2, "arc", 0.16),
    (3, "random", 0.15),
    (4, "fifo", 0.11),
];

/// TinyLFU's B13 in section 4.4.
const OTHER_B13: f64 = 288.0;

impl Blocks {
    /// Returns equation (1) for a policy that evicts, (2) for one that admits.
    fn average(&self, (policy, b2, b12, b13): (&str, f64, f64, f64), rates: Rates) -> f64 {
        let Blocks {
            b1,
            b3,
            b4,
            on_miss,
            b10,
            b11,
        } = *self;
        let insertion = if matches!(policy, "Filter" | "TinyLFU") {
            rates.insertion
        } else {
            1.0
        };
        b1 + b2
            + b3
            + b11
            + rates.hit * b4
            + (1.0 - rates.hit) * (on_miss + b12 + b13 + insertion * b10)
    }
}

fn policy(name: &str) -> (&'static str, f64, f64, f64) {
    TABLE_2
        .into_iter()
        .find(|(policy, ..)| *policy == name)
        .unwrap_or(("FIFO", 0.0, 0.0, 0.0))
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let on_web = sizes::on_web(request, watch)?;
    let mut section = Section::new(&experiment, request.scale);
    section.condition("cycles", "tables 1 and 2 of the paper");
    section.condition("rates", "those of `sizes` on web, at this scale");
    example(&mut section, sweep);
    let miss = |hit| {
        TABLE_1.average(
            policy("Filter"),
            Rates {
                hit,
                insertion: 0.0,
            },
        )
    };
    section.measured(
        "hit-rate-loss",
        miss(sweep.printed.filter) - miss(sweep.printed.tinylfu),
    );
    let replayed = figure_7(&mut section, &on_web);
    shares(&mut section, &sweep.printed, replayed);
    section.judged()
}

/// Adds the example of section 3.3 under each reading of its cycles.
fn example(section: &mut Section, sweep: &Sweep) {
    let rates = Rates {
        hit: sweep.example_hit,
        insertion: sweep.example_insertion,
    };
    let prose = Blocks {
        b10: PROSE_B10,
        ..TABLE_1
    };
    let (tinylfu, b2, b12, b13) = policy("TinyLFU");
    let readings = [
        ("tables 1 and 2", TABLE_1, b13),
        ("B10 of the prose, 188", prose, b13),
        ("B13 of section 4.4, 288", TABLE_1, OTHER_B13),
        ("both", prose, OTHER_B13),
    ];
    let both = |blocks: &Blocks, b13| {
        [
            blocks.average(policy("ARC"), rates),
            blocks.average((tinylfu, b2, b12, b13), rates),
        ]
    };
    let rows = readings.iter().map(|(reading, blocks, b13)| {
        let [arc, tinylfu] = both(blocks, *b13);
        let cycles = [arc, tinylfu, arc - tinylfu].map(|cycles| format!("{cycles:.0}"));
        std::iter::once((*reading).to_owned())
            .chain(cycles)
            .collect()
    });
    let mut rows: Vec<Vec<String>> = rows.collect();
    rows.push(
        ["published", "1817", "1705", "112"]
            .map(str::to_owned)
            .to_vec(),
    );
    section.table(
        "The example of section 3.3, cycles",
        ["reading", "ARC", "TinyLFU", "difference"],
        rows,
    );
    let [arc, tinylfu] = both(&TABLE_1, b13);
    section.measured("example-arc", arc);
    section.measured("example-tinylfu", tinylfu);
    section.measured("example-share", 1.0 - tinylfu / arc);
}

/// Adds figure 7. Returns the shares by which Filter is below the policies of [`BELOW`] at the
/// smallest size.
fn figure_7(section: &mut Section, on_web: &[OnWeb]) -> [f64; 4] {
    let lines: Vec<Vec<(f64, f64)>> = TABLE_2
        .into_iter()
        .map(|cycles| {
            let sizes = on_web.iter().filter(|found| found.policy == cycles.0);
            sizes
                .map(|found| (found.capacity, TABLE_1.average(cycles, found.rates)))
                .collect()
        })
        .collect();
    let of = |at: usize, size: usize| lines[at].get(size).map_or(f64::NAN, |(_, cycles)| *cycles);
    let shares = BELOW.map(|(at, ..)| 1.0 - of(0, 0) / of(at, 0));
    for ((_, id, _), share) in BELOW.iter().zip(shares) {
        section.measured(format!("table-below-{id}"), share);
    }
    let sizes = lines[0].len();
    let is_out = |size: usize| (1..lines.len()).any(|at| of(0, size) >= of(at, size));
    section.measured("table-least", count((0..sizes).map(is_out)));
    let series = TABLE_2
        .iter()
        .zip(&lines)
        .map(|((policy, ..), line)| Series::line(*policy, line.clone()));
    section.figure("table-average", series.collect());
    let rows = (0..sizes).map(|size| {
        let cycles = (0..lines.len()).map(|at| format!("{:.0}", of(at, size)));
        std::iter::once(lines[0][size].0.to_string())
            .chain(cycles)
            .collect()
    });
    let header =
        std::iter::once("cache, packets").chain(TABLE_2.iter().map(|(policy, ..)| *policy));
    section.table(
        "Average cycles by equations (1) and (2)",
        header,
        rows.collect(),
    );
    shares
}

/// Adds the shares by which Filter is below the others with the printed rates, beside those with
/// the replayed rates, and TinyLFU's insertion rate that the printed share needs.
fn shares(section: &mut Section, printed: &Printed, replayed: [f64; 4]) {
    let [filter, rivals @ ..] = TABLE_2.map(|cycles| TABLE_1.average(cycles, printed.of(cycles.0)));
    let mut rows = Vec::new();
    for ((at, id, published), replayed) in BELOW.into_iter().zip(replayed) {
        let share = 1.0 - filter / rivals[at - 1];
        section.measured(format!("printed-below-{id}"), share);
        let cells = [published, share, replayed].map(|share| format!("{share:.3}"));
        rows.push(
            std::iter::once(TABLE_2[at].0.to_owned())
                .chain(cells)
                .collect(),
        );
    }
    let header = [
        "Filter is below",
        "published",
        "with the printed hit rates",
        "with the replayed rates",
    ];
    section.table(
        "Shares of average cycles at the smallest size",
        header,
        rows,
    );

    let tinylfu = |insertion| {
        TABLE_1.average(
            policy("TinyLFU"),
            Rates {
                insertion,
                ..printed.of("TinyLFU")
            },
        )
    };
    let needed =
        |share: f64| (filter / (1.0 - share) - tinylfu(0.0)) / (tinylfu(1.0) - tinylfu(0.0));
    let rows =
        [0.085, 0.09, 0.095].map(|share| vec![share.to_string(), format!("{:.3}", needed(share))]);
    section.table(
        "TinyLFU's insertion rate that a share needs, printed hit rates",
        ["share", "needed"],
        rows.into(),
    );
}
