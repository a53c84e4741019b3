//! Figures 5 and 8: the object hit ratio over c, replayed and as the model predicts it from the
//! same requests, without and with a flash crowd.

use super::replays::{Catalogue, ReplayResult, Run, Traffic};
use crate::cell::{measure_all, units};
use crate::statistics::{greatest, least};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_policy::adaptsize_model::{Bin, Form, Model, Shape};
use larder_replay::{Access, CrowdShape};
use serde::Deserialize;
use std::collections::BTreeMap;

const FILE: (&str, &str) = experiment_file!("adaptsize/sensitivity.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    hk: Catalogue,
    /// The capacity, bytes.
    capacity: u64,
    /// The binary logarithms of the first and the last c.
    log_c: [u32; 2],
    /// The least and the greatest number of chunks that the crowd requests, and the bytes of each
    /// chunk.
    crowd: [u64; 2],
    chunk_bytes: u64,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let Sweep {
        hk,
        capacity,
        log_c: [first, last],
        crowd,
        chunk_bytes,
    } = *experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition(
        "hk",
        format!(
            "{} requests, {} objects; the second half counts",
            hk.requests, hk.objects
        ),
    );
    section.condition("cache", format!("{capacity} bytes"));
    let calm = hk.traffic("hk", request.seed)?;
    let crowd = CrowdShape {
        objects: crowd,
        chunk_bytes: Some(chunk_bytes),
    };
    let crowd = Traffic::new(
        "hk, crowd",
        hk.flash_crowd(crowd, hk.requests as u64 / 2, request.seed)?,
    );
    let mut runs = Vec::new();
    for traffic in [&calm, &crowd] {
        for stage in ["threshold", "expsize"] {
            runs.extend((first..=last).map(|log_c| {
                let spec = format!("{stage}(c={})+lru", 1_u64 << log_c);
                Run {
                    traffic,
                    spec,
                    capacity,
                    warm_up: hk.requests / 2,
                }
            }));
        }
    }
    watch.begin("sensitivity to c", units(&runs));
    let found = measure_all(runs, request, watch)?;
    let bins = rates(&calm.accesses);
    let points = (last - first + 1) as usize;
    let cs: Vec<f64> = (first..=last)
        .map(|log_c| f64::from(log_c).exp2())
        .collect();
    let mut best = Vec::new();
    for (found, name, shape) in [
        (&found[..points], "threshold", Shape::Threshold),
        (&found[points..2 * points], "chance", Shape::Chance),
    ] {
        let model = Model::new(bins.clone(), capacity as f64, shape);
        let published = model.clone().in_form(Form::Published);
        let replayed: Vec<(f64, f64)> = cs
            .iter()
            .zip(found)
            .map(|(c, found)| (*c, found.hit_ratio))
            .collect();
        let [exact, published] = [&model, &published].map(|model| {
            cs.iter()
                .map(|c| (*c, model.hit_ratio(*c)))
                .collect::<Vec<_>>()
        });
        let errors: Vec<f64> = replayed
            .iter()
            .zip(&exact)
            .map(|(one, other)| (one.1 - other.1).abs())
            .collect();
        let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
        section.measured(format!("{name}-model-error"), mean(&errors));
        let top = peak(replayed.iter().copied());
        if shape == Shape::Chance {
            let from_best = cs.iter().position(|c| *c == top.0).unwrap_or(0);
            section.measured(
                format!("{name}-model-error-from-best"),
                mean(&errors[from_best..]),
            );
        }
        best.push(top);
        curves(&mut section, name, replayed, exact, published);
    }
    section.measured("best-c-threshold", best[0].0 / 1024.0);
    section.measured("best-c-chance", best[1].0 / 1024.0);
    section.measured("best-hit-ratio", best[1].1);
    let bins = rates(&crowd.accesses[hk.requests / 2..]);
    crowd_curves(
        &mut section,
        &found[2 * points..],
        &best,
        &cs,
        &bins,
        capacity,
    );
    section.judged()
}

/// Adds the table and the plot of the hit ratio over c.
fn curves(
    section: &mut Section,
    name: &str,
    replayed: Vec<(f64, f64)>,
    exact: Vec<(f64, f64)>,
    published: Vec<(f64, f64)>,
) {
    let rows = replayed
        .iter()
        .zip(&exact)
        .zip(&published)
        .map(|((replayed, exact), published)| {
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

/// Measures the curves of the crowd. `best` has the best c of the calm traffic, with its hit ratio.
fn crowd_curves(
    section: &mut Section,
    found: &[ReplayResult],
    best: &[(f64, f64)],
    cs: &[f64],
    bins: &[Bin],
    capacity: u64,
) {
    let mut series = Vec::new();
    for ((found, name, shape), calm) in [
        (&found[..cs.len()], "threshold", Shape::Threshold),
        (&found[cs.len()..], "chance", Shape::Chance),
    ]
    .into_iter()
    .zip(best)
    {
        let replayed: Vec<(f64, f64)> = cs
            .iter()
            .zip(found)
            .map(|(c, found)| (*c, found.hit_ratio))
            .collect();
        let (kept, fall) = kept_and_fall(&replayed, calm.0);
        section.measured(format!("crowd-{name}-kept"), kept);
        section.measured(format!("crowd-{name}-fall"), fall);
        let model = Model::new(bins.to_vec(), capacity as f64, shape);
        let model = cs.iter().map(|c| (*c, model.hit_ratio(*c))).collect();
        series.push(Series::points(format!("{name}, replayed"), replayed));
        series.push(Series::line(format!("{name}, model"), model));
    }
    section.figure("crowd", series);
}

/// Compares a curve over c with the best c before the crowd, `before`. Returns the hit ratio at
/// `before` as a share of the curve's maximum. Also returns how far the curve falls between the
/// best c within an octave of `before` and the c of the maximum; 0 if it only rises.
fn kept_and_fall(curve: &[(f64, f64)], before: f64) -> (f64, f64) {
    let top = peak(curve.iter().copied());
    let near = peak(
        curve
            .iter()
            .copied()
            .filter(|(c, _)| (before / 2.0..=before * 2.0).contains(c)),
    );
    let at = curve
        .iter()
        .find(|(c, _)| *c == before)
        .map_or(f64::NAN, |(_, ratio)| *ratio);
    let way = near.0.min(top.0)..=near.0.max(top.0);
    let lowest = least(
        curve
            .iter()
            .filter(|(c, _)| way.contains(c))
            .map(|(_, ratio)| *ratio),
    );
    (at / top.1, near.1 - lowest)
}

/// Returns the first point with the greatest hit ratio; NaN if a hit ratio is NaN.
fn peak(mut curve: impl Iterator<Item = (f64, f64)> + Clone) -> (f64, f64) {
    let ratio = greatest(curve.clone().map(|(_, ratio)| ratio));
    (
        curve
            .find(|point| point.1 == ratio)
            .map_or(f64::NAN, |(c, _)| c),
        ratio,
    )
}

/// Groups the objects by size and number of requests: the aggregated statistics that the model
/// takes.
fn rates(accesses: &[Access]) -> Vec<Bin> {
    let mut counts: BTreeMap<u64, (u64, f64)> = BTreeMap::new();
    for access in accesses {
        counts
            .entry(access.id)
            .or_insert((access.size.max(1), 0.0))
            .1 += 1.0;
    }
    let mut bins: BTreeMap<(i32, i32), Bin> = BTreeMap::new();
    for (size, count) in counts.into_values() {
        let eighth = |value: f64| (value.log2() * 8.0).floor() as i32;
        let bin = bins
            .entry((eighth(size as f64), eighth(count)))
            .or_default();
        bin.objects += 1.0;
        bin.size += size as f64;
        bin.rate += count;
    }
    let mean = |Bin {
                    objects,
                    size,
                    rate,
                }| Bin {
        objects,
        size: size / objects,
        rate: rate / objects,
    };
    bins.into_values().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_best_is_taken_for_the_new_one() {
        let curve = |ratios: [f64; 6]| {
            (0..6)
                .map(|log: i32| f64::from(log).exp2())
                .zip(ratios)
                .collect::<Vec<_>>()
        };
        // A peak at 2 beside the old best c, 4; a valley at 16; the maximum at 32.
        let (kept, fall) = kept_and_fall(&curve([0.1, 0.5, 0.4, 0.35, 0.25, 0.8]), 4.0);
        assert_eq!((kept, fall), (0.5, 0.25));
        // The curve only rises.
        assert_eq!(
            kept_and_fall(&curve([0.1, 0.2, 0.4, 0.5, 0.6, 0.8]), 4.0).1,
            0.0
        );
        // The old best c is still the best.
        assert_eq!(
            kept_and_fall(&curve([0.1, 0.2, 0.8, 0.5, 0.1, 0.6]), 4.0),
            (1.0, 0.0)
        );
        let (kept, fall) = kept_and_fall(&curve([0.1, 0.2, f64::NAN, 0.5, 0.1, 0.6]), 4.0);
        assert!(kept.is_nan() && fall.is_nan(), "a missing hit ratio");
    }
}
