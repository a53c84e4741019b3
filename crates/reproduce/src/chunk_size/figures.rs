//! Figures 1 to 4: hit ratio, lifetime, throughput and delay by packet size, in both scenarios, for
//! every policy.

use super::dumbbell::{BACKBONES, Cell, Outcome, RATES, READING, run_all};
use super::no_network::{AtR1, at_r1};
use crate::statistics::{count, greatest, least};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("chunk-size/figures.toml");

/// The paper's policies. RANDOM has two meanings, and both run.
const POLICIES: [(&str, &str); 5] = [
    ("FIFO", "fifo"),
    ("LFU", "lfu"),
    ("LRU", "lru"),
    ("RANDOM (uniform)", "random"),
    ("RANDOM (ndnSIM's)", "random-priority"),
];
const FIFO: usize = 0;
const LFU: usize = 1;
const LRU: usize = 2;
const UNIFORM: usize = 3;
const PRIORITY: usize = 4;

/// The indices of the sizes up to 40 KB, and from 80 KB on.
const SMALL: std::ops::Range<usize> = 0..4;
const LARGE: std::ops::Range<usize> = 4..7;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    pub(super) seeds: u64,
    /// The simulated time, s.
    seconds: u64,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let Sweep { seeds, seconds } = *experiment.sweep(request.scale);
    let mut cells = Vec::new();
    for (_, backbone_mbps) in BACKBONES {
        for (_, policy) in POLICIES {
            for size in RATES {
                cells.push(Cell {
                    size,
                    policy,
                    backbone_mbps,
                    reading: READING,
                    seconds,
                    seed: request.seed,
                });
            }
        }
    }
    let runs = run_all(&cells, seeds, "figures 1 to 4", request, watch)?;
    let means = runs.iter().map(|runs| Outcome::mean(runs)).collect();
    let found = Findings {
        means,
        runs,
        without_network: without_network(seeds, seconds, request.seed)?,
    };
    found.check()?;

    let mut section = Section::new(&experiment, request.scale);
    section.condition(
        "network",
        "2 consumers – R1 – R2 – 2 producers, 40 Mbps, 10 ms a link",
    );
    section.condition("reading", READING.described());
    section.condition("runs", format!("{seeds} seeds of {seconds} s"));
    found.draw(&mut section);
    found.tabulate(&mut section);
    found.claim(&mut section);
    section.judged()
}

/// Returns what R1's store does without a network, by policy, then size: the means over the seeds.
fn without_network(seeds: u64, seconds: u64, seed: u64) -> Result<Vec<AtR1>, Error> {
    let mut means = Vec::new();
    for (_, policy) in POLICIES {
        for (_, rate) in RATES {
            let runs = (0..seeds)
                .map(|run| at_r1(policy, rate, READING.skew, seconds, seed.wrapping_add(run)))
                .collect::<Result<Vec<AtR1>, Error>>()?;
            let of =
                |metric: fn(&AtR1) -> f64| mean(&runs.iter().map(metric).collect::<Vec<f64>>());
            means.push(AtR1 {
                lifetime: of(|run| run.lifetime),
                hit_ratio: of(|run| run.hit_ratio),
            });
        }
    }
    Ok(means)
}

struct Findings {
    /// By scenario, then policy, then size; each with one outcome per seed.
    runs: Vec<Vec<Outcome>>,
    means: Vec<Outcome>,
    /// By policy, then size.
    without_network: Vec<AtR1>,
}

/// The value that a figure shows.
type Metric = fn(&Outcome) -> f64;

impl Findings {
    /// Checks that every run has all metrics of the figures. A comparison with a missing one is
    /// false, and would count as no exception.
    fn check(&self) -> Result<(), Error> {
        for (scenario, (name, _)) in BACKBONES.iter().enumerate() {
            for (policy, (label, _)) in POLICIES.iter().enumerate() {
                for (size, (kilobytes, _)) in RATES.iter().enumerate() {
                    let run = self.at(scenario, policy, size);
                    let metrics = [
                        ("hit ratio", run.hit_ratio),
                        ("lifetime", run.lifetime),
                        ("throughput", run.mbps),
                        ("delay", run.delay_ms),
                    ];
                    if let Some((metric, value)) =
                        metrics.iter().find(|(_, value)| !value.is_finite())
                    {
                        let value = format!("the {metric} is {value}, not a number");
                        return Err(Error(format!("{label}, {name}, {kilobytes} KB: {value}")));
                    }
                }
            }
        }
        Ok(())
    }

    fn at(&self, scenario: usize, policy: usize, size: usize) -> &Outcome {
        &self.means[(scenario * POLICIES.len() + policy) * RATES.len() + size]
    }

    fn draw(&self, section: &mut Section) {
        let metrics: [(&str, Metric); 5] = [
            ("hits", |run| run.hit_ratio),
            ("lifetime", |run| run.lifetime),
            ("lifetime-all", |run| run.lifetime_with_survivors),
            ("throughput", |run| run.mbps),
            ("delay", |run| run.delay_ms),
        ];
        for (id, metric) in metrics {
            for (scenario, suffix) in ["free", "congested"].into_iter().enumerate() {
                let series = (0..POLICIES.len())
                    .map(|policy| self.series(scenario, policy, metric))
                    .collect();
                section.figure(&format!("{id}-{suffix}"), series);
            }
        }
    }

    /// Returns the means with the 95 % interval of the mean over the seeds (normal distribution).
    fn series(&self, scenario: usize, policy: usize, metric: Metric) -> Series {
        let (mut line, mut interval) = (Vec::new(), Vec::new());
        for (size, (kilobytes, _)) in RATES.into_iter().enumerate() {
            let mean = metric(self.at(scenario, policy, size));
            if !mean.is_finite() {
                continue;
            }
            let runs = &self.runs[(scenario * POLICIES.len() + policy) * RATES.len() + size];
            let values: Vec<f64> = runs
                .iter()
                .map(metric)
                .filter(|value| value.is_finite())
                .collect();
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let n = values.len() as f64;
            let half = if n > 1.0 {
                1.96 * (squares / (n - 1.0) / n).sqrt()
            } else {
                0.0
            };
            line.push((kilobytes as f64, mean));
            interval.push((mean - half, mean + half));
        }
        Series::line(POLICIES[policy].0, line).with_interval(interval)
    }

    fn tabulate(&self, section: &mut Section) {
        for (scenario, (name, _)) in BACKBONES.into_iter().enumerate() {
            for (policy, (label, _)) in POLICIES.into_iter().enumerate() {
                let row = |size: usize| {
                    let kilobytes = RATES[size].0.to_string();
                    std::iter::once(kilobytes)
                        .chain(self.at(scenario, policy, size).shown())
                        .collect()
                };
                let header = std::iter::once("packet, KB").chain(Outcome::COLUMNS);
                let rows = (0..RATES.len()).map(row).collect();
                section.table(&format!("{label}, {name}"), header, rows);
            }
        }
        self.tabulate_lifetimes(section);
    }

    /// Shows the lifetimes of FIFO, LFU and LRU over both RANDOMs', for each reading of lifetime.
    fn tabulate_lifetimes(&self, section: &mut Section) {
        let mut columns = Vec::new();
        for (random, name) in [(UNIFORM, "uniform"), (PRIORITY, "ndnSIM's")] {
            columns.push((
                format!("evicted, {name}"),
                self.all_over(random, |p, z| self.at(0, p, z).lifetime),
            ));
            let all = self.all_over(random, |p, z| self.at(0, p, z).lifetime_with_survivors);
            columns.push((format!("all, {name}"), all));
            let alone = self.all_over(random, |p, z| self.alone(p, z).lifetime);
            columns.push((format!("evicted, {name}, no network"), alone));
        }
        let row = |label: String, value: &dyn Fn(&[f64]) -> f64| {
            let values = columns
                .iter()
                .map(|(_, ratios)| format!("{:.2}", value(ratios)));
            std::iter::once(label)
                .chain(values)
                .collect::<Vec<String>>()
        };
        let sizes = RATES.iter().enumerate();
        let mut rows: Vec<_> = sizes
            .map(|(z, (size, _))| row(size.to_string(), &|ratios| ratios[z]))
            .collect();
        rows.push(row("mean".to_owned(), &mean));
        let header = std::iter::once("packet, KB".to_owned())
            .chain(columns.iter().map(|(name, _)| name.clone()));
        section.table(
            "Lifetimes of FIFO, LFU and LRU over RANDOM's, congestion-free",
            header,
            rows,
        );
        let row = |(z, (size, _)): (usize, &(u64, f64))| {
            let hits = (0..POLICIES.len()).map(|p| format!("{:.3}", self.alone(p, z).hit_ratio));
            std::iter::once(size.to_string()).chain(hits).collect()
        };
        let header = std::iter::once("packet, KB").chain(POLICIES.map(|(label, _)| label));
        let rows = RATES.iter().enumerate().map(row).collect();
        section.table(
            "Share of R1's requests that its store answers, no network",
            header,
            rows,
        );
    }

    /// Returns the mean lifetime of FIFO, LFU and LRU over that of `random`, by size.
    fn all_over(&self, random: usize, lifetime: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let of_others = |z: usize| {
            [FIFO, LFU, LRU]
                .iter()
                .map(|p| lifetime(*p, z))
                .sum::<f64>()
                / 3.0
        };
        (0..RATES.len())
            .map(|z| of_others(z) / lifetime(random, z))
            .collect()
    }

    /// Returns what R1's store does without a network.
    fn alone(&self, policy: usize, size: usize) -> &AtR1 {
        &self.without_network[policy * RATES.len() + size]
    }

    /// Counts the scenarios and sizes for which `is_off` returns true.
    fn exceptions(
        &self,
        sizes: std::ops::Range<usize>,
        is_off: impl Fn(usize, usize) -> bool,
    ) -> f64 {
        let all = (0..BACKBONES.len())
            .flat_map(|scenario| sizes.clone().map(move |size| (scenario, size)));
        count(all.map(|(scenario, size)| is_off(scenario, size)))
    }

    /// Returns the largest relative difference of a metric between two policies at the same size
    /// and scenario: the greatest value over the least, minus one.
    fn spread(&self, sizes: std::ops::Range<usize>, metric: Metric) -> f64 {
        let all = (0..BACKBONES.len())
            .flat_map(|scenario| sizes.clone().map(move |size| (scenario, size)));
        greatest(all.map(|(scenario, size)| {
            let values =
                || (0..POLICIES.len()).map(|policy| metric(self.at(scenario, policy, size)));
            greatest(values()) / least(values()) - 1.0
        }))
    }

    /// Counts the steps to the next size, over policies and scenarios, at which a metric does not
    /// change as it should.
    fn steps(&self, metric: Metric, is_off: fn(f64, f64) -> bool) -> f64 {
        let policies = 0..POLICIES.len();
        let off = |policy: usize| {
            self.exceptions(1..RATES.len(), |scenario, size| {
                is_off(
                    metric(self.at(scenario, policy, size - 1)),
                    metric(self.at(scenario, policy, size)),
                )
            })
        };
        policies.map(off).sum()
    }

    fn claim(&self, section: &mut Section) {
        let [free, congested] = [0, 1];
        let hits = |s: usize, p: usize, z: usize| self.at(s, p, z).hit_ratio;
        let others = |than: usize| (0..=UNIFORM).filter(move |policy| *policy != than);
        section.measured(
            "hits-fall",
            self.steps(|run| run.hit_ratio, |small, large| large >= small),
        );
        section.measured(
            "hits-lfu-best",
            self.exceptions(SMALL, |s, z| {
                others(LFU).any(|p| hits(s, p, z) >= hits(s, LFU, z))
            }),
        );
        let random_is_not_worst = |s: usize, z: usize| {
            [FIFO, LFU, LRU]
                .iter()
                .any(|p| hits(s, *p, z) <= hits(s, UNIFORM, z).min(hits(s, PRIORITY, z)))
        };
        section.measured(
            "hits-random-worst",
            self.exceptions(SMALL, random_is_not_worst),
        );
        section.measured("hits-converge", self.spread(LARGE, |run| run.hit_ratio));

        self.claim_lifetimes(section);
        section.measured(
            "lifetime-rises",
            self.steps(|run| run.lifetime, |small, large| large <= small),
        );
        let apart = (0..POLICIES.len())
            .flat_map(|p| (0..RATES.len()).map(move |z| (p, z)))
            .map(|(p, z)| {
                (self.at(congested, p, z).lifetime / self.at(free, p, z).lifetime - 1.0).abs()
            });
        section.measured("lifetime-scenarios", greatest(apart));

        let mbps = |s: usize, p: usize, z: usize| self.at(s, p, z).mbps;
        section.measured(
            "throughput-fifo-congested",
            mbps(congested, FIFO, 5) / mbps(congested, FIFO, 0),
        );
        section.measured(
            "throughput-lfu-free",
            mbps(free, LFU, 5) / mbps(free, LFU, 0),
        );
        let fifo_or_lfu_is_not_at_its_end = |s: usize, z: usize| {
            others(FIFO).any(|p| mbps(s, p, z) > mbps(s, FIFO, z))
                || others(LFU).any(|p| mbps(s, p, z) < mbps(s, LFU, z))
        };
        section.measured(
            "throughput-order",
            self.exceptions(SMALL, fifo_or_lfu_is_not_at_its_end),
        );
        let gain = |z: usize| mbps(free, LRU, z) / mbps(congested, LRU, z);
        section.measured("throughput-free-160", gain(5).min(gain(6)));
        section.measured("throughput-converges", self.spread(LARGE, |run| run.mbps));
        self.claim_scenarios_and_delays(section);
        section.measured(
            "delay-rises",
            self.steps(|run| run.delay_ms, |small, large| large <= small),
        );
        section.measured(
            "delay-doubles",
            self.at(congested, LRU, 6).delay_ms / self.at(free, LRU, 6).delay_ms,
        );
    }

    /// Measures what the text says of LFU's lifetimes and of RANDOM's, for evicted entries and for
    /// all.
    fn claim_lifetimes(&self, section: &mut Section) {
        let readings: [(&str, Metric); 2] = [
            ("lifetime", |run| run.lifetime),
            ("lifetime-all", |run| run.lifetime_with_survivors),
        ];
        for (id, metric) in readings {
            let of = |s: usize, p: usize, z: usize| metric(self.at(s, p, z));
            let lfu_is_not_longest =
                |s: usize, z: usize| [FIFO, LRU].iter().any(|p| of(s, *p, z) >= of(s, LFU, z));
            section.measured(
                format!("{id}-lfu-longest"),
                self.exceptions(SMALL, lfu_is_not_longest),
            );
            section.measured(
                format!("{id}-random-mean"),
                mean(&self.all_over(UNIFORM, |p, z| of(0, p, z))),
            );
        }
        let lifetime = |p: usize, z: usize| self.at(0, p, z).lifetime;
        let over_uniform = self.all_over(UNIFORM, lifetime);
        for (id, size) in [
            ("lifetime-random-5", 0),
            ("lifetime-random-80", 4),
            ("lifetime-random-160", 6),
        ] {
            section.measured(id, over_uniform[size]);
        }
        section.measured(
            "lifetime-priority-mean",
            mean(&self.all_over(PRIORITY, lifetime)),
        );
        let alone = self.all_over(UNIFORM, |p, z| self.alone(p, z).lifetime);
        let off = over_uniform
            .iter()
            .zip(alone)
            .map(|(network, alone)| (network / alone - 1.0).abs());
        section.measured("lifetime-no-network", greatest(off));
    }

    /// Measures what the text says of both scenarios up to 80 KB, and of the order of delays.
    fn claim_scenarios_and_delays(&self, section: &mut Section) {
        let policies_and_sizes = (0..=UNIFORM).flat_map(|p| (0..=LARGE.start).map(move |z| (p, z)));
        let apart = policies_and_sizes
            .map(|(p, z)| (self.at(1, p, z).mbps / self.at(0, p, z).mbps - 1.0).abs());
        section.measured("throughput-scenarios", greatest(apart));
        let delay = |s: usize, p: usize, z: usize| self.at(s, p, z).delay_ms;
        let is_out_of_order = |s: usize, z: usize| {
            let others = || [LRU, UNIFORM].iter();
            others().any(|p| delay(s, *p, z) <= delay(s, LFU, z))
                || others().any(|p| delay(s, *p, z) >= delay(s, FIFO, z))
        };
        section.measured("delay-order-5", self.exceptions(0..1, is_out_of_order));
        section.measured("delay-order", self.exceptions(SMALL, is_out_of_order));
        section.measured("delay-converges", self.spread(LARGE, |run| run.delay_ms));
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;

    /// Metrics that rise or fall with the size as the paper has them, so that the claims of order
    /// hold.
    fn found() -> Findings {
        let of_size = |size: usize| Outcome {
            hit_ratio: 0.7 - 0.05 * size as f64,
            lifetime: 1.0 + size as f64,
            lifetime_with_survivors: 2.0 + size as f64,
            mbps: 10.0 + size as f64,
            delay_ms: 50.0 + size as f64,
            delivered: 1.0,
            ..Outcome::default()
        };
        let all = 0..BACKBONES.len() * POLICIES.len() * RATES.len();
        let means: Vec<Outcome> = all.map(|at| of_size(at % RATES.len())).collect();
        let at_r1 = |run: &Outcome| AtR1 {
            lifetime: run.lifetime,
            hit_ratio: run.hit_ratio,
        };
        let without_network = means[..POLICIES.len() * RATES.len()]
            .iter()
            .map(at_r1)
            .collect();
        Findings {
            runs: means.iter().map(|run| vec![*run]).collect(),
            means,
            without_network,
        }
    }

    fn judged(found: &Findings) -> Result<Section, Error> {
        let mut experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1).unwrap();
        experiment.figures.clear();
        let mut section = Section::new(&experiment, Scale::Quick);
        found.claim(&mut section);
        section.judged()
    }

    /// Failure: a metric that no run has is compared, no comparison is true, and so nothing is
    /// counted against the claim.
    #[test]
    fn a_missing_metric_is_no_exception() {
        let complete = found();
        complete.check().unwrap();
        let section = judged(&complete).unwrap();
        let holding = [
            "hits-converge",
            "throughput-converges",
            "lifetime-rises",
            "lifetime-scenarios",
        ];
        for id in holding.into_iter().chain(["lifetime-no-network"]) {
            assert!(
                section
                    .claims
                    .iter()
                    .any(|claim| claim.id == id && claim.holds),
                "{id}"
            );
        }
        for (lose, metric) in [
            (
                (|run| run.hit_ratio = f64::NAN) as fn(&mut Outcome),
                "hit ratio",
            ),
            (|run| run.lifetime = f64::NAN, "lifetime"),
            (|run| run.mbps = f64::INFINITY, "throughput"),
            (|run| run.delay_ms = f64::NAN, "delay"),
        ] {
            let mut incomplete = found();
            lose(&mut incomplete.means[6]);
            let error = incomplete.check().unwrap_err().to_string();
            assert!(
                error.contains(metric) && error.contains("FIFO, congestion-free, 160 KB"),
                "{error}"
            );
        }
        let mut incomplete = found();
        for run in &mut incomplete.means {
            run.hit_ratio = f64::NAN;
        }
        assert!(
            judged(&incomplete)
                .unwrap_err()
                .to_string()
                .contains("not a number")
        );
    }
}
