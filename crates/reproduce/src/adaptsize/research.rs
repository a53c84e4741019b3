//! Figures 2 and 14: comparison with the research policies, with the other interpretations of
//! AdaptSize, and with later eviction policies.

use super::replays::{Catalogue, Run, best};
use crate::cell::{measure_all, units};
use crate::section::numbered;
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use serde::Deserialize;

const FILE: (&str, &str) = experiment_file!("adaptsize/research.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    hk: Catalogue,
    us: Catalogue,
    /// The capacity, bytes.
    capacity: u64,
    /// The configurations of each policy. The best one represents the policy, as in the paper.
    policies: Vec<Policy>,
    /// AdaptSize as it was published, as it was deployed, and in front of other eviction policies.
    readings: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    name: String,
    specs: Vec<String>,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition("cache", format!("{} bytes", sweep.capacity));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (name, catalogue, seed) in [("hk", sweep.hk, request.seed), ("us", sweep.us, request.seed + 1)] {
        let traffic = catalogue.traffic(name, seed)?;
        let warm_up = catalogue.requests / 4;
        let run = |spec: &String| Run { traffic: &traffic, spec: spec.clone(), capacity: sweep.capacity, warm_up };
        let published = sweep.policies.iter().flat_map(|policy| &policy.specs);
        let runs: Vec<Run<'_>> = published.chain(&sweep.readings).map(run).collect();
        watch.begin(&format!("research policies, {name}"), units(&runs));
        let found = measure_all(runs, request, watch)?;
        let mut rest = found.as_slice();
        let mut bars = Vec::new();
        for policy in &sweep.policies {
            let (own, others) = rest.split_at(policy.specs.len());
            rest = others;
            let best = best(own)?;
            bars.push((policy.name.as_str(), best.hit_ratio));
            rows.push(vec![name.to_owned(), policy.name.clone(), best.spec.clone(), format!("{:.4}", best.hit_ratio)]);
        }
        rows.extend(rest.iter().map(|found| {
            vec![name.to_owned(), "reading".to_owned(), found.spec.clone(), format!("{:.4}", found.hit_ratio)]
        }));
        let (adaptsize, others) = bars.split_first().ok_or_else(|| Error("no policy is compared".to_owned()))?;
        let next = others.iter().map(|(_, ratio)| *ratio).fold(0.0, f64::max);
        section.measured(format!("{name}-next-best"), adaptsize.1 / next);
        let points = numbered(bars.iter().map(|(_, ratio)| *ratio));
        let names: Vec<&str> = bars.iter().map(|(name, _)| *name).collect();
        section.named_figure(&format!("{name}-research"), names, vec![Series::bars("object hit ratio", points)]);
    }
    section.table(
        "Object hit ratio, the best configuration of each",
        ["traffic", "policy", "configuration", "object hit ratio"],
        rows,
    );
    section.judged()
}
