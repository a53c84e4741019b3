//! ndnSIM 2.8's results for this network, compared with Larder's.

use super::dumbbell::{BACKBONES, Cell, Outcome, RATES, READING, Reading, run_all};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_netsim::Depth;
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("chunk-size/ndnsim.toml");

const QUEUES: [usize; 2] = [100, 1000];
/// The packet sizes that ndnSIM ran, KB.
const SIZES: [u64; 5] = [5, 40, 80, 120, 160];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    seeds: u64,
    /// The simulated time, s.
    seconds: u64,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let Sweep { seeds, seconds } = *experiment.sweep(request.scale);
    let mut cells = Vec::new();
    for packets in QUEUES {
        for (_, backbone_mbps) in BACKBONES {
            for size in RATES
                .into_iter()
                .filter(|(kilobytes, _)| SIZES.contains(kilobytes))
            {
                let reading = Reading {
                    queue: Depth::Packets(packets),
                    ..READING
                };
                cells.push(Cell {
                    size,
                    policy: "lru",
                    backbone_mbps,
                    reading,
                    seconds,
                    seed: request.seed,
                });
            }
        }
    }
    let runs = run_all(&cells, seeds, "ndnSIM's rows", request, watch)?;

    let mut section = Section::new(&experiment, request.scale);
    section.condition("runs", format!("{seeds} seeds of {seconds} s"));
    let mut rows = Vec::new();
    for (cell, runs) in cells.iter().zip(&runs) {
        let run = Outcome::mean(runs);
        let Depth::Packets(queue) = cell.reading.queue else {
            continue;
        };
        let (kilobytes, backbone) = (cell.size.0, cell.backbone_mbps);
        section.measured(
            format!("delivered-{kilobytes}-{queue}-{backbone}"),
            run.delivered,
        );
        section.measured(format!("mbps-{kilobytes}-{queue}-{backbone}"), run.mbps);
        if queue == 1000 && backbone == 160 {
            section.measured(format!("hits-{kilobytes}"), run.hit_ratio_of_lookups);
        }
        rows.push(vec![
            queue.to_string(),
            backbone.to_string(),
            kilobytes.to_string(),
            format!("{:.1} %", run.delivered * 100.0),
            format!("{:.2}", run.mbps),
            format!("{:.4}", run.hit_ratio_of_lookups),
        ]);
    }
    let header = [
        "queue, frames",
        "backbone, Mbps",
        "packet, KB",
        "delivered",
        "Mbps",
        "hits of look-ups",
    ];
    section.table("LRU", header, rows);
    section.judged()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a claim expects what ndnSIM did not print.
    #[test]
    fn a_claim_has_no_origin() {
        let data: toml::Table = include_str!("../../data/ndnsim-2.8-chunk-size.toml")
            .parse()
            .unwrap();
        let printed = |parts: &[&str]| {
            let (figure, kilobytes) = (parts[0], parts[1]);
            let [queue, backbone] = if figure == "hits" {
                ["1000", "160"]
            } else {
                [parts[2], parts[3]]
            };
            let mut rows = data["row"].as_array().unwrap().iter();
            let is_row = |row: &&toml::Value| {
                [
                    ("packet_kb", kilobytes),
                    ("queue", queue),
                    ("backbone_mbps", backbone),
                ]
                .iter()
                .all(|(key, value)| row[key].to_string() == *value)
            };
            rows.find(is_row).and_then(|row| row[figure].as_float())
        };
        let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1).unwrap();
        for claim in &experiment.claims {
            let parts: Vec<&str> = claim.id.split('-').collect();
            let expected = printed(&parts).map(crate::Stated::Figure);
            assert!(
                expected.is_some() && claim.expected == expected,
                "{}: {expected:?}",
                claim.id
            );
        }
    }
}
