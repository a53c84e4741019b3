//! Figures 5a and 8: the object hit ratio over c, replayed and as the model predicts it from the same requests.

use super::replays::{Catalogue, Run, replay_all, work};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_policy::adaptsize_model::{Bin, Form, Model, Shape};
use larder_replay::Access;
use serde::Deserialize;
use std::collections::BTreeMap;

const FILE: (&str, &str) =
    ("adaptsize/sensitivity.toml", include_str!("../../../../experiments/adaptsize/sensitivity.toml"));

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    hk: Catalogue,
    /// Bytes.
    capacity: u64,
    /// c, as powers of two: the first and the last.
    log_c: [u32; 2],
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let Sweep { hk, capacity, log_c: [first, last] } = *experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition("hk", format!("{} requests, {} objects; the second half counts", hk.requests, hk.objects));
    section.condition("cache", format!("{capacity} bytes"));
    let traffic = hk.traffic("hk", request.seed)?;
    let bins = rates(&traffic.accesses);
    let mut runs = Vec::new();
    for stage in ["threshold", "expsize"] {
        for log_c in first..=last {
            let spec = format!("{stage}(c={})+lru", 1_u64 << log_c);
            runs.push(Run { traffic: &traffic, spec, capacity, warm_up: hk.requests / 2 });
        }
    }
    watch.begin("sensitivity to c", work(&runs));
    let found = replay_all(runs, request, watch)?;
    let points = (last - first + 1) as usize;
    let mut best = Vec::new();
    for (found, name, shape) in
        [(&found[..points], "threshold", Shape::Threshold), (&found[points..], "chance", Shape::Chance)]
    {
        let model = Model::new(bins.clone(), capacity as f64, shape);
        let published = model.clone().in_form(Form::Published);
        let cs: Vec<f64> = (first..=last).map(|log_c| f64::from(log_c).exp2()).collect();
        let replayed: Vec<(f64, f64)> = cs.iter().zip(found).map(|(c, found)| (*c, found.hit_ratio)).collect();
        let curve = |model: &Model| cs.iter().map(|c| (*c, model.hit_ratio(*c))).collect::<Vec<_>>();
        let [exact, published] = [&model, &published].map(curve);
        let error = replayed.iter().zip(&exact).map(|(replayed, exact)| (replayed.1 - exact.1).abs());
        let errors: Vec<f64> = error.collect();
        let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
        section.measured(format!("{name}-model-error"), mean(&errors));
        let top = replayed.iter().copied().fold((0.0, 0.0), |top, point| if point.1 > top.1 { point } else { top });
        if shape == Shape::Chance {
            let from_best = cs.iter().position(|c| *c == top.0).unwrap_or(0);
            section.measured(format!("{name}-model-error-from-best"), mean(&errors[from_best..]));
        }
        best.push(top);
        let rows = replayed.iter().zip(&exact).zip(&published).map(|((replayed, exact), published)| {
            vec![
                format!("{}", replayed.0),
                format!("{:.4}", replayed.1),
                format!("{:.4}", exact.1),
                format!("{:.4}", published.1),
            ]
        });
        section.table(
            &format!("{name}: object hit ratio over c"),
            ["c, bytes", "replayed", "model", "model as published"],
            rows.collect(),
        );
        section.figure(
            &format!("{name}-sensitivity"),
            vec![
                Series::points("replayed", replayed),
                Series::line("model", exact),
                Series::line("model as published", published),
            ],
        );
    }
    section.measured("best-c-threshold", best[0].0 / 1024.0);
    section.measured("best-c-chance", best[1].0 / 1024.0);
    section.measured("best-hit-ratio", best[1].1);
    section.judged()
}

/// Objects by size and number of requests: the aggregated statistics that the model takes.
fn rates(accesses: &[Access]) -> Vec<Bin> {
    let mut counts: BTreeMap<u64, (u64, f64)> = BTreeMap::new();
    for access in accesses {
        counts.entry(access.id).or_insert((access.size.max(1), 0.0)).1 += 1.0;
    }
    let mut bins: BTreeMap<(i32, i32), Bin> = BTreeMap::new();
    for (size, count) in counts.into_values() {
        let eighth = |value: f64| (value.log2() * 8.0).floor() as i32;
        let bin = bins.entry((eighth(size as f64), eighth(count))).or_default();
        bin.objects += 1.0;
        bin.size += size as f64;
        bin.rate += count;
    }
    let mean = |Bin { objects, size, rate }| Bin { objects, size: size / objects, rate: rate / objects };
    bins.into_values().map(mean).collect()
}
