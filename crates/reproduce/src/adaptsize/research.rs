//! Figures 2 and 14: comparison with the research policies, with the other interpretations of
//! AdaptSize, and with later eviction policies. Two experiments run the same comparison: on traffic
//! with the temporal locality of recorded traces, and on independent requests.

use super::replays::{Catalogue, ReplayResult, Run, best};
use crate::cell::{measure_all, units};
use crate::grid::Grid;
use crate::section::numbered;
use crate::statistics::greatest;
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use serde::Deserialize;

const INDEPENDENT: (&str, &str) = experiment_file!("adaptsize/research.toml");
const LOCAL: (&str, &str) = experiment_file!("adaptsize/research-local.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    hk: Catalogue,
    us: Catalogue,
    /// The capacity, bytes.
    capacity: u64,
    /// The systems. The best configuration of each represents it, as in the paper.
    systems: Vec<System>,
    /// AdaptSize in other forms, and in front of other eviction policies.
    readings: Vec<String>,
}

/// A system and its configurations. The first three are AdaptSize, AdaptSize as published, and LRU.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct System {
    name: String,
    /// Configurations one by one.
    #[serde(default)]
    specs: Vec<String>,
    /// One parameter, in ascending order, from the least value that exists. `{}` stands for it.
    #[serde(default)]
    grid: Option<Values>,
    /// All partitions of so many parts into the four segments of S4LRU, each with one part or more.
    #[serde(default)]
    partitions_of: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Values {
    spec: String,
    values: Vec<u64>,
}

impl System {
    fn specs(&self) -> Vec<String> {
        let grid = self.grid.iter().flat_map(|Values { spec, values }| {
            values
                .iter()
                .map(|value| spec.replace("{}", &value.to_string()))
        });
        let partitions = self.partitions_of.map(partitions).unwrap_or_default();
        self.specs
            .iter()
            .cloned()
            .chain(grid)
            .chain(partitions)
            .collect()
    }

    /// Returns the best of the results, which are in the order of [`System::specs`].
    ///
    /// # Errors
    /// [`Error`] if the greatest value of the grid is the best one.
    fn best<'a>(&self, found: &'a [ReplayResult]) -> Result<&'a ReplayResult, Error> {
        if let Some(Values { spec, values }) = &self.grid {
            let own = &found[self.specs.len()..self.specs.len() + values.len()];
            let scores: Vec<f64> = own.iter().map(|found| found.hit_ratio).collect();
            Grid::new(spec, values.iter().copied())
                .starting_at_least()
                .best(&scores)?;
        }
        best(found)
    }
}

/// Returns S4LRU with each partition of `parts` into four.
fn partitions(parts: u64) -> Vec<String> {
    let mut specs = Vec::new();
    for one in 1..parts {
        for two in 1..parts.saturating_sub(one) {
            for three in 1..parts.saturating_sub(one + two) {
                let four = parts - one - two - three;
                specs.push(format!(
                    "s4lru(part1={one},part2={two},part3={three},part4={four})"
                ));
            }
        }
    }
    specs
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    compare(INDEPENDENT, "", request, watch)
}

pub(super) fn run_local(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    compare(LOCAL, "local-", request, watch)
}

/// `prefix` begins the ids of the claims and figures.
fn compare(
    (file, text): (&str, &str),
    prefix: &str,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(file, text)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition("cache", format!("{} bytes", sweep.capacity));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (name, catalogue, seed) in [
        ("hk", sweep.hk, request.seed),
        ("us", sweep.us, request.seed + 1),
    ] {
        section.condition(name, catalogue.conditions());
        let traffic = catalogue.traffic(name, seed)?;
        let warm_up = catalogue.requests / 4;
        let specs = sweep
            .systems
            .iter()
            .flat_map(System::specs)
            .chain(sweep.readings.iter().cloned());
        let run = |spec| Run {
            traffic: &traffic,
            spec,
            capacity: sweep.capacity,
            warm_up,
        };
        let runs: Vec<Run<'_>> = specs.map(run).collect();
        watch.begin(&format!("{prefix}research policies, {name}"), units(&runs));
        let found = measure_all(runs, request, watch)?;
        let mut rest = found.as_slice();
        let mut bars = Vec::new();
        for system in &sweep.systems {
            let (own, others) = rest.split_at(system.specs().len());
            rest = others;
            let best = system.best(own)?;
            bars.push((system.name.as_str(), best.hit_ratio));
            let tried = own.len().to_string();
            let shown = format!("{:.4}", best.hit_ratio);
            rows.push(vec![
                name.to_owned(),
                system.name.clone(),
                best.spec.clone(),
                tried,
                shown,
            ]);
        }
        rows.extend(rest.iter().map(|found| {
            let shown = format!("{:.4}", found.hit_ratio);
            vec![
                name.to_owned(),
                "reading".to_owned(),
                found.spec.clone(),
                String::new(),
                shown,
            ]
        }));
        let [(_, adaptsize), (_, published), (_, lru), others @ ..] = bars.as_slice() else {
            return Err(Error(format!(
                "experiments/{file}: fewer than three systems"
            )));
        };
        let next = greatest(others.iter().map(|(_, ratio)| *ratio).chain([*lru]));
        section.measured(format!("{prefix}{name}-next-best"), adaptsize / next);
        section.measured(
            format!("{prefix}{name}-published-next-best"),
            published / next,
        );
        let by_size = others
            .iter()
            .find(|(name, _)| *name == "LRU-S")
            .map_or(f64::NAN, |(_, ratio)| *ratio);
        section.measured(format!("{prefix}{name}-lru-s"), by_size / lru);
        let points = numbered(bars.iter().map(|(_, ratio)| *ratio));
        let names: Vec<&str> = bars.iter().map(|(name, _)| *name).collect();
        let series = vec![Series::bars("object hit ratio", points)];
        section.named_figure(&format!("{prefix}{name}-research"), names, series);
    }
    section.table(
        "Object hit ratio, the best configuration of each",
        [
            "traffic",
            "policy",
            "configuration",
            "configurations tried",
            "object hit ratio",
        ],
        rows,
    );
    section.judged()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_missing_or_does_not_parse() {
        let specs = partitions(7);
        // 6 over 3.
        assert_eq!(specs.len(), 20);
        for spec in specs {
            assert!(spec.parse::<larder_policy::Spec>().is_ok(), "{spec}");
        }
    }

    #[test]
    fn the_largest_value_of_a_grid_is_the_best_one() {
        let text = "name = \"LRU-K\"\ngrid = { spec = \"lru-k(k={})\", values = [1, 2, 4] }\n";
        let system: System = toml::from_str(text).unwrap();
        assert_eq!(system.specs(), ["lru-k(k=1)", "lru-k(k=2)", "lru-k(k=4)"]);
        let best = |ratios: [f64; 3]| {
            let found = ratios.map(|hit_ratio| ReplayResult {
                hit_ratio,
                ..ReplayResult::default()
            });
            system.best(&found).map(|found| found.hit_ratio)
        };
        assert_eq!(
            (
                best([0.3, 0.2, 0.1]).unwrap(),
                best([0.1, 0.3, 0.2]).unwrap()
            ),
            (0.3, 0.3)
        );
        assert!(
            best([0.1, 0.2, 0.3])
                .unwrap_err()
                .to_string()
                .contains("lru-k(k={})")
        );
    }
}
