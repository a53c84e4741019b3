//! Experiments beyond the paper: every policy of the registry, packets up to 1 MB, losses, and the
//! effect of fragments on each.

use super::dumbbell::{
    BACKBONES, CACHED_OBJECTS, CATALOGUE, Cell, Outcome, RATES, READING, Reading, run_all,
};
use crate::statistics::{greatest, least};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_netsim::Depth;
use larder_netsim::apps::ZipfMandelbrot;
use larder_policy::{Kind, Spec, registry};
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("chunk-size/beyond.toml");

/// Kilobytes per second of each consumer, for every packet size: the value of Table I.
const LOAD: f64 = 4500.0;

/// A queue that has room for several of the largest packets, frames.
const LONG_QUEUE: usize = 4000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    seeds: u64,
    /// The simulated time, s.
    seconds: u64,
    /// Indices into Table I, for the policies.
    sizes: Vec<usize>,
    /// Packet sizes, KB.
    large: Vec<u64>,
    /// Packet sizes with queues of [`LONG_QUEUE`], KB.
    with_long_queues: Vec<u64>,
    /// Lost shares of the frames.
    losses: Vec<f64>,
    /// Packet sizes under loss, KB.
    lossy_sizes: Vec<u64>,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition(
        "runs",
        format!("{} seeds of {} s", sweep.seeds, sweep.seconds),
    );
    every_policy(sweep, request, &mut section, watch)?;
    large_packets(sweep, request, &mut section, watch)?;
    loss(sweep, request, &mut section, watch)?;
    section.judged()
}

/// Returns the policies that do not know the future: eviction policies, and admission policies in
/// front of LRU. A policy that needs a size as its parameter (`size`, `threshold`) is left out,
/// because all packets have the same size.
fn specs() -> Vec<String> {
    let online = registry().iter().filter(|entry| !entry.is_offline());
    let spec = |entry: &larder_policy::PolicyEntry| match entry.kind() {
        Kind::Eviction => entry.name.to_owned(),
        Kind::Admission => format!("{}+lru", entry.name),
    };
    online
        .map(spec)
        .filter(|spec| spec.parse::<Spec>().is_ok())
        .collect()
}

fn every_policy(
    sweep: &Sweep,
    request: &Request<'_>,
    section: &mut Section,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let specs = specs();
    let sizes: Vec<(u64, f64)> = sweep
        .sizes
        .iter()
        .filter_map(|size| RATES.get(*size).copied())
        .collect();
    let cell = |policy, size| Cell {
        size,
        policy,
        backbone_mbps: BACKBONES[0].1,
        reading: READING,
        seconds: sweep.seconds,
        seed: request.seed,
    };
    let cells: Vec<Cell<'_>> = specs
        .iter()
        .flat_map(|policy| sizes.iter().map(move |size| cell(policy.as_str(), *size)))
        .collect();
    let runs = run_all(&cells, sweep.seeds, "every policy", request, watch)?;
    let hits: Vec<Vec<f64>> = runs
        .chunks(sizes.len().max(1))
        .map(|found| {
            found
                .iter()
                .map(|runs| Outcome::mean(runs).hit_ratio)
                .collect()
        })
        .collect();
    for (place, (size, _)) in sizes.iter().enumerate() {
        claim_policies(
            section,
            *size,
            &specs,
            &hits
                .iter()
                .map(|of_policy| of_policy[place])
                .collect::<Vec<_>>(),
        );
    }
    let header = std::iter::once("policy".to_owned()).chain(sizes.iter().flat_map(|(size, _)| {
        [
            format!("{size} KB: hit ratio"),
            "delay, ms".to_owned(),
            "lifetime with survivors, s".to_owned(),
        ]
    }));
    let row = |(policy, found): (&String, &[Vec<Outcome>])| {
        let values = found.iter().flat_map(|runs| {
            let run = Outcome::mean(runs);
            [
                format!("{:.4}", run.hit_ratio),
                format!("{:.1}", run.delay_ms),
                format!("{:.2}", run.lifetime_with_survivors),
            ]
        });
        std::iter::once(policy.clone()).chain(values).collect()
    };
    let rows = specs
        .iter()
        .zip(runs.chunks(sizes.len().max(1)))
        .map(row)
        .collect();
    section.table("Every policy, congestion-free", header, rows);
    Ok(())
}

/// Measures the claims about the policies' hit ratios at one packet size.
fn claim_policies(section: &mut Section, size: u64, specs: &[String], hits: &[f64]) {
    let all = || specs.iter().zip(hits);
    let best = greatest(hits.iter().copied());
    if size == RATES[0].0 {
        let popularity = popularity();
        let optimum: f64 = (1..=CACHED_OBJECTS as usize)
            .map(|rank| popularity.share(rank))
            .sum();
        section.measured("best-over-optimum-5", best / optimum);
        let lru = all()
            .find(|(spec, _)| *spec == "lru")
            .map_or(f64::NAN, |(_, hits)| *hits);
        section.measured("lru-over-best-5", lru / best);
    }
    if size == RATES[6].0 {
        let of_evictions = || {
            all()
                .filter(|(spec, _)| !spec.contains('+'))
                .map(|(_, hits)| *hits)
        };
        section.measured(
            "evictions-apart-160",
            greatest(of_evictions()) / least(of_evictions()) - 1.0,
        );
    }
}

fn popularity() -> ZipfMandelbrot {
    ZipfMandelbrot::new(CATALOGUE, READING.skew.0, READING.skew.1)
}

/// Returns the expected share of `requests` that repeat an earlier request.
fn repeated(requests: f64) -> f64 {
    let popularity = popularity();
    let different: f64 = (1..=CATALOGUE)
        .map(|rank| 1.0 - (1.0 - popularity.share(rank)).powf(requests))
        .sum();
    1.0 - different / requests
}

/// Returns a packet size with its rate under the paper's load.
fn at_load(size: u64) -> (u64, f64) {
    (size, LOAD / size as f64)
}

fn large_packets(
    sweep: &Sweep,
    request: &Request<'_>,
    section: &mut Section,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let long = Reading {
        queue: Depth::Packets(LONG_QUEUE),
        ..READING
    };
    let mut cells = Vec::new();
    for (reading, sizes) in [(READING, &sweep.large), (long, &sweep.with_long_queues)] {
        for (_, backbone_mbps) in BACKBONES {
            for size in sizes.iter().map(|size| at_load(*size)) {
                let (seconds, seed) = (sweep.seconds, request.seed);
                cells.push(Cell {
                    size,
                    policy: "lru",
                    backbone_mbps,
                    reading,
                    seconds,
                    seed,
                });
            }
        }
    }
    let runs = run_all(&cells, sweep.seeds, "large packets", request, watch)?;
    for (cell, runs) in cells.iter().zip(&runs) {
        let ((size, rate), run) = (cell.size, Outcome::mean(runs));
        let queue = if cell.reading == READING {
            String::new()
        } else {
            format!("-{LONG_QUEUE}")
        };
        section.measured_if_claimed(
            format!("large-delivered-{size}-{}{queue}", cell.backbone_mbps),
            run.delivered,
        );
        if cell.backbone_mbps == BACKBONES[0].1 {
            let hits = run.hit_ratio / repeated(rate * cell.seconds as f64);
            section.measured_if_claimed(format!("large-hits-{size}{queue}"), hits);
        }
    }
    let header = ["queue, frames", "backbone, Mbps", "packet, KB"]
        .into_iter()
        .chain(Outcome::COLUMNS);
    let rows = cells.iter().zip(&runs).map(|(cell, runs)| {
        let queue = if cell.reading == READING {
            "1000".to_owned()
        } else {
            LONG_QUEUE.to_string()
        };
        let which = [
            queue,
            cell.backbone_mbps.to_string(),
            cell.size.0.to_string(),
        ];
        which
            .into_iter()
            .chain(Outcome::mean(runs).shown())
            .collect()
    });
    section.table(
        "Packets to 1 MB, LRU, 36 Mbps asked for by each consumer",
        header,
        rows.collect(),
    );
    Ok(())
}

fn loss(
    sweep: &Sweep,
    request: &Request<'_>,
    section: &mut Section,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let mut cells = Vec::new();
    for mtu in [READING.mtu, None] {
        for &loss in &sweep.losses {
            for size in sweep.lossy_sizes.iter().map(|size| at_load(*size)) {
                let reading = Reading {
                    mtu,
                    loss,
                    ..READING
                };
                let backbone_mbps = BACKBONES[0].1;
                cells.push(Cell {
                    size,
                    policy: "lru",
                    backbone_mbps,
                    reading,
                    seconds: sweep.seconds,
                    seed: request.seed,
                });
            }
        }
    }
    let runs = run_all(&cells, sweep.seeds, "loss", request, watch)?;
    let found = |mtu: Option<usize>, loss: f64, size: u64| {
        let is_it = move |cell: &Cell<'_>| {
            (cell.reading.mtu, cell.reading.loss, cell.size.0) == (mtu, loss, size)
        };
        let place = cells.iter().position(is_it);
        place.map(|place| Outcome::mean(&runs[place]))
    };
    for (mtu, how) in [(READING.mtu, "fragments"), (None, "whole")] {
        for &loss in sweep.losses.iter().filter(|loss| **loss > 0.0) {
            for &size in &sweep.lossy_sizes {
                if let Some(run) = found(mtu, loss, size) {
                    section.measured_if_claimed(
                        format!("loss-{how}-{size}-{}", loss * 100.0),
                        run.delivered,
                    );
                }
            }
        }
    }
    if let Some((cut, whole)) = found(READING.mtu, 0.0, 160).zip(found(None, 0.0, 160)) {
        section.measured("fragments-cost-160", cut.mbps / whole.mbps);
    }
    if let Some((small, large)) = found(None, 0.05, 5).zip(found(None, 0.05, 160)) {
        section.measured("loss-whole-160-over-5", large.delivered / small.delivered);
    }
    let header = ["packets go", "frames lost", "packet, KB"]
        .into_iter()
        .chain(Outcome::COLUMNS);
    let rows = cells.iter().zip(&runs).map(|(cell, runs)| {
        let how = if cell.reading.mtu.is_some() {
            "in fragments"
        } else {
            "whole"
        }
        .to_owned();
        let which = [
            how,
            format!("{:.1} %", cell.reading.loss * 100.0),
            cell.size.0.to_string(),
        ];
        which
            .into_iter()
            .chain(Outcome::mean(runs).shown())
            .collect()
    });
    section.table(
        "Loss on every link, congestion-free, LRU",
        header,
        rows.collect(),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rows, Scale, Unwatched};

    #[test]
    fn a_policy_of_the_registry_is_forgotten() {
        let specs = specs();
        let online = registry()
            .iter()
            .filter(|entry| !entry.is_offline())
            .count();
        assert!(
            (online - 3..=online).contains(&specs.len()),
            "{} of {online}",
            specs.len()
        );
        assert!(
            ["lcd+lru", "agd", "filter+lru"]
                .iter()
                .all(|known| specs.iter().any(|spec| spec == known))
        );
    }

    #[test]
    fn half_an_hour_ends_with_a_claim_that_is_not_measured() {
        let mut experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1).unwrap();
        let mut section = Section::new(&experiment, Scale::Full);
        (experiment.full.seeds, experiment.full.seconds) = (1, 1);
        // Keeps only the sizes that have a claim.
        experiment.full.large.retain(|size| *size >= 500);
        (experiment.full.lossy_sizes, experiment.full.losses) =
            (vec![5, 160], vec![0.0, 0.01, 0.05]);
        let sweep = experiment.sweep(Scale::Full);
        for size in [5, 160] {
            claim_policies(
                &mut section,
                size,
                &["lru".to_owned(), "lfu".to_owned()],
                &[0.70, 0.72],
            );
        }
        let rows = Rows::default();
        let request = Request::quick(&super::super::PAPER, &rows);
        large_packets(sweep, &request, &mut section, &Unwatched).unwrap();
        loss(sweep, &request, &mut section, &Unwatched).unwrap();
        let judged = section.judged().unwrap();
        assert!(judged.claims.iter().all(|claim| claim.measured.is_some()));
    }

    #[test]
    fn loss_strikes_fragments_and_whole_packets_alike() {
        let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1).unwrap();
        let mut section = Section::new(&experiment, Scale::Quick);
        let mut experiment = experiment;
        experiment.quick.seconds = 1;
        let rows = Rows::default();
        let request = Request::quick(&super::super::PAPER, &rows);
        loss(
            experiment.sweep(Scale::Quick),
            &request,
            &mut section,
            &Unwatched,
        )
        .unwrap();
        let rows = &section.tables[0].rows;
        // With 1 % loss on three links, few packets of 109 fragments arrive.
        let delivered = |row: usize| {
            rows[row]
                .last()
                .unwrap()
                .trim_end_matches(" %")
                .parse::<f64>()
                .unwrap()
        };
        assert!(delivered(7) > 60.0 && delivered(3) < 40.0, "{rows:?}");
    }
}
