//! Figures 5 and 6: insertion and hit rates over the cache's size on web, video and their mix, and
//! the model's on web.

use super::replays::{Cell, POLICIES, Rates, Workload, replay_all, spec, work};
use crate::statistics::{count, greatest};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_replay::model::{self, FilterTable, Popularity};
use larder_units::ByteSize;
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("filter/sizes.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    /// The capacities as shares of the catalogue.
    shares: Vec<f64>,
    web: Traffic,
    video: Traffic,
    mix: Traffic,
    long: Long,
}

/// Small catalogues and many requests, after which the counts of LFU are those of the popularity.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Long {
    video: Traffic,
    mix: Traffic,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Traffic {
    workload: Workload,
    /// The requests per packet of the capacity before counting starts.
    warm_up: u64,
    /// The counted requests per packet of the capacity.
    requests: u64,
}

impl Traffic {
    fn described(&self) -> String {
        let Traffic {
            workload,
            warm_up,
            requests,
        } = self;
        format!(
            "{}, {warm_up} + {requests} requests a cached packet",
            workload.described()
        )
    }
}

/// The rates of a policy on web at one size, for the account of cycles.
pub(super) struct OnWeb {
    pub(super) policy: &'static str,
    /// The capacity, packets.
    pub(super) capacity: f64,
    pub(super) rates: Rates,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let cells = sweep.cells()?;
    let long_cells = sweep.long_cells()?;
    watch.begin("cache sizes", work(&cells) + work(&long_cells));
    let rates = replay_all(&cells, request, watch)?;
    let long_rates = replay_all(&long_cells, request, watch)?;

    let mut section = Section::new(&experiment, request.scale);
    let sizes = sweep.shares.len();
    let a_traffic = sizes * POLICIES.len();
    for (number, (name, traffic)) in sweep.traffics().into_iter().enumerate() {
        section.condition(name, traffic.described());
        let found = number * a_traffic..(number + 1) * a_traffic;
        let found = Findings {
            cells: &cells[found.clone()],
            rates: &rates[found],
            sizes,
        };
        found.report(&mut section, name);
        if let Workload::Web { objects, exponent } = traffic.workload {
            beside_the_model(&mut section, &found, objects, exponent)?;
        }
    }
    for (number, (name, traffic)) in sweep.long_traffics().into_iter().enumerate() {
        section.condition(&format!("{name}, many requests"), traffic.described());
        let found = number * a_traffic..(number + 1) * a_traffic;
        let found = Findings {
            cells: &long_cells[found.clone()],
            rates: &long_rates[found],
            sizes,
        };
        section.measured(
            format!("lfu-all-long-{name}"),
            found.above("LFU (all requests)"),
        );
        found.table(
            &mut section,
            &format!("Rates on {name} after many requests"),
        );
    }
    section.judged()
}

/// Returns the rates on web alone, which [`run`] may have measured already.
pub(super) fn on_web(request: &Request<'_>, watch: &dyn Watch) -> Result<Vec<OnWeb>, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let cells = sweep.cells_of(&sweep.web)?;
    watch.begin("cache sizes on web", work(&cells));
    let rates = replay_all(&cells, request, watch)?;
    Ok(Findings {
        cells: &cells,
        rates: &rates,
        sizes: sweep.shares.len(),
    }
    .on_web())
}

impl Sweep {
    fn traffics(&self) -> [(&str, &Traffic); 3] {
        [
            ("web", &self.web),
            ("video", &self.video),
            ("mix", &self.mix),
        ]
    }

    fn long_traffics(&self) -> [(&str, &Traffic); 2] {
        [("video", &self.long.video), ("mix", &self.long.mix)]
    }

    /// Returns the cells of all traffics, one traffic after another.
    pub(super) fn cells(&self) -> Result<Vec<Cell>, Error> {
        let cells = self.traffics().map(|(_, traffic)| self.cells_of(traffic));
        Ok(cells
            .into_iter()
            .collect::<Result<Vec<_>, Error>>()?
            .concat())
    }

    /// Returns the cells with many requests, in the same order.
    pub(super) fn long_cells(&self) -> Result<Vec<Cell>, Error> {
        let cells = self
            .long_traffics()
            .map(|(_, traffic)| self.cells_of(traffic));
        Ok(cells
            .into_iter()
            .collect::<Result<Vec<_>, Error>>()?
            .concat())
    }

    /// Returns the cells of one traffic: all sizes of the first policy, then of the next.
    fn cells_of(&self, traffic: &Traffic) -> Result<Vec<Cell>, Error> {
        let Traffic {
            workload,
            warm_up,
            requests,
        } = *traffic;
        let mut cells = Vec::new();
        for policy in POLICIES {
            for share in &self.shares {
                let capacity = (workload.objects() as f64 * share) as u64;
                let spec = spec(policy, capacity)?;
                let (warm_up, requests) = (warm_up * capacity, requests * capacity);
                cells.push(Cell {
                    workload,
                    spec,
                    capacity,
                    warm_up,
                    requests,
                });
            }
        }
        Ok(cells)
    }
}

/// The rates on one traffic: all sizes of the first policy, then of the next.
struct Findings<'a> {
    cells: &'a [Cell],
    rates: &'a [Rates],
    sizes: usize,
}

impl Findings<'_> {
    fn on_web(&self) -> Vec<OnWeb> {
        let of = |policy| {
            self.of(policy)
                .into_iter()
                .map(move |(capacity, rates)| OnWeb {
                    policy,
                    capacity,
                    rates,
                })
        };
        POLICIES.into_iter().flat_map(of).collect()
    }

    fn of(&self, policy: &str) -> Vec<(f64, Rates)> {
        let at = POLICIES
            .iter()
            .position(|name| *name == policy)
            .unwrap_or_default();
        let span = at * self.sizes..(at + 1) * self.sizes;
        let capacities = self.cells[span.clone()]
            .iter()
            .map(|cell| cell.capacity as f64);
        capacities.zip(self.rates[span].iter().copied()).collect()
    }

    fn report(&self, section: &mut Section, traffic: &str) {
        let line = |policy: &&str, rate: fn(&Rates) -> f64| {
            Series::line(
                *policy,
                self.of(policy)
                    .iter()
                    .map(|(capacity, rates)| (*capacity, rate(rates)))
                    .collect(),
            )
        };
        let inserting = ["TinyLFU", "Filter"]
            .iter()
            .map(|policy| line(policy, |rates| rates.insertion))
            .collect();
        section.figure(&format!("insertions-{traffic}"), inserting);
        section.figure(
            &format!("hits-{traffic}"),
            POLICIES
                .iter()
                .map(|policy| line(policy, |rates| rates.hit))
                .collect(),
        );

        let [fifo, random, tinylfu, filter] =
            ["FIFO", "Random", "TinyLFU", "Filter"].map(|policy| self.of(policy));
        let counted = |is_off: &dyn Fn(usize) -> bool| count((0..self.sizes).map(is_off));
        let inserts_more = |at: usize| filter[at].1.insertion >= tinylfu[at].1.insertion;
        let hits_less = |at: usize| filter[at].1.hit <= fifo[at].1.hit.max(random[at].1.hit);
        section.measured(format!("insertion-{traffic}"), counted(&inserts_more));
        section.measured(format!("gain-{traffic}"), counted(&hits_less));
        let arc = self.of("ARC");
        let rising = [&filter, &arc, &tinylfu];
        let is_disordered = |at: usize| {
            let hits = rising.map(|rates| rates[at].1.hit);
            hits_less(at) || hits.windows(2).any(|pair| pair[0] >= pair[1])
        };
        section.measured(format!("order-{traffic}"), counted(&is_disordered));
        section.measured(format!("lfu-{traffic}"), self.above("LFU (in cache)"));
        section.measured(
            format!("lfu-all-{traffic}"),
            self.above("LFU (all requests)"),
        );
        self.table(section, &format!("Rates on {traffic}"));
    }

    /// Returns the number of sizes at which another policy hits more than `policy`.
    fn above(&self, policy: &str) -> f64 {
        let own = self.of(policy);
        let is_above = |at: usize| {
            POLICIES
                .iter()
                .any(|other| self.of(other)[at].1.hit > own[at].1.hit)
        };
        count((0..self.sizes).map(is_above))
    }

    fn table(&self, section: &mut Section, title: &str) {
        let mut header = vec!["cache, packets".to_owned()];
        header.extend(
            POLICIES
                .iter()
                .map(|policy| format!("{policy}: hit / insertion rate")),
        );
        let rows = (0..self.sizes).map(|at| {
            let cells = POLICIES.iter().map(|policy| self.of(policy)[at].1);
            let cells = cells.map(|Rates { hit, insertion }| format!("{hit:.4} / {insertion:.4}"));
            std::iter::once(format!("{}", self.cells[at].capacity))
                .chain(cells)
                .collect()
        });
        section.table(title, header, rows.collect());
    }
}

/// Adds equations (3) to (7) at every size, with the result of a miss that is known to be one.
fn beside_the_model(
    section: &mut Section,
    found: &Findings<'_>,
    objects: u64,
    exponent: f64,
) -> Result<(), Error> {
    let popularity = Popularity::zipf(objects, exponent).ok_or_else(|| {
        Error(format!(
            "no Zipf distribution with exponent {exponent} over {objects} objects"
        ))
    })?;
    let (fifo, filter) = (found.of("FIFO"), found.of("Filter"));
    let (mut rows, mut off) = (Vec::new(), [const { Vec::new() }; 4]);
    let mut lines: [Vec<(f64, f64)>; 4] = Default::default();
    for ((capacity, fifo), (_, filter)) in fifo.into_iter().zip(filter) {
        let packets = ByteSize::from_bytes(capacity as u64);
        let table = FilterTable {
            theta: 2,
            window: capacity as u64,
            slots: Some(1 << 24),
        };
        let (fifo_model, filter_model) = (
            model::fifo(&popularity, packets),
            model::filter(&popularity, packets, table),
        );
        let between =
            model::filter_between_requests(&popularity, packets, table.window, table.slots);
        let pairs = [
            (fifo_model.object_hit_ratio, fifo.hit),
            (filter_model.object_hit_ratio, filter.hit),
            (filter_model.insertion_ratio, filter.insertion),
            (between.insertion_ratio, filter.insertion),
        ];
        for (off, (model, measured)) in off.iter_mut().zip(pairs) {
            off.push((model - measured).abs());
        }
        let cells = pairs
            .iter()
            .map(|(model, measured)| format!("{model:.4} / {measured:.4}"));
        rows.push(
            std::iter::once(format!("{capacity}"))
                .chain(cells)
                .collect(),
        );
        for (line, (model, measured)) in lines.chunks_mut(2).zip(pairs) {
            line[0].push((capacity, model));
            line[1].push((capacity, measured));
        }
    }
    for (id, off) in [
        "model-fifo",
        "model-filter",
        "model-insertion",
        "between-requests",
    ]
    .into_iter()
    .zip(off)
    {
        section.measured(id, greatest(off));
    }
    let header = [
        "cache, packets",
        "FIFO's hit rate",
        "Filter's hit rate",
        "Filter's insertion rate, equation (4)",
        "Filter's insertion rate, between requests",
    ];
    section.table("Models / replay, web", header, rows);
    let [fifo_model, fifo, filter_model, filter] = lines;
    let series = vec![
        Series::line("FIFO, equations", fifo_model),
        Series::points("FIFO, replay", fifo),
        Series::line("Filter, equations", filter_model),
        Series::points("Filter, replay", filter),
    ];
    section.figure("model", series);
    Ok(())
}
