//! The effect of each property of the network that the paper leaves open.

use super::dumbbell::{BACKBONES, Cell, Outcome, RATES, READING, Reading, run_all};
use crate::statistics::{greatest, least};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_netsim::Depth;
use larder_netsim::apps::Randomize;
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("chunk-size/ambiguities.toml");

/// The interpretations of the paper. Each one differs from the assumed one in one property.
const READINGS: [(&str, Reading); 9] = [
    ("as taken", READING),
    (ONE_SECOND, READING),
    (
        "both consumers ask for the same names",
        Reading {
            shared: true,
            ..READING
        },
    ),
    (
        "queues of 100 frames",
        Reading {
            queue: Depth::Packets(100),
            ..READING
        },
    ),
    (
        "queues of 150,000 bytes",
        Reading {
            queue: Depth::Bytes(150_000),
            ..READING
        },
    ),
    (
        "no fragmentation, queues of 100 packets",
        Reading {
            mtu: None,
            queue: Depth::Packets(100),
            ..READING
        },
    ),
    (
        "Poisson requests",
        Reading {
            randomize: Randomize::Exponential,
            ..READING
        },
    ),
    (
        "a KB of 1024 bytes",
        Reading {
            kilobyte: 1024,
            ..READING
        },
    ),
    (
        "Zipf 1.0 without plateau (q = 0, s = 1)",
        Reading {
            skew: (0.0, 1.0),
            ..READING
        },
    ),
];

/// Section V.A's other statement: 900 Interests of 5 KB each "overall" are Table I's rate, of one
/// second.
const ONE_SECOND: &str = "one second, in which each consumer asks for the 4.5 MB of section V.A";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    seeds: u64,
    /// The simulated time, s.
    seconds: u64,
    /// Indices into Table I.
    sizes: Vec<usize>,
    policies: Vec<Policy>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Policy {
    Fifo,
    Lfu,
    Lru,
    Random,
    RandomPriority,
}

impl Policy {
    fn spec(self) -> &'static str {
        match self {
            Policy::Fifo => "fifo",
            Policy::Lfu => "lfu",
            Policy::Lru => "lru",
            Policy::Random => "random",
            Policy::RandomPriority => "random-priority",
        }
    }
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let Sweep {
        seeds,
        seconds,
        ref sizes,
        ref policies,
    } = *experiment.sweep(request.scale);
    let mut cells = Vec::new();
    for (label, reading) in READINGS {
        let seconds = if label == ONE_SECOND { 1 } else { seconds };
        for (_, backbone_mbps) in BACKBONES {
            for policy in policies {
                for size in sizes.iter().filter_map(|size| RATES.get(*size)) {
                    let policy = policy.spec();
                    cells.push(Cell {
                        size: *size,
                        policy,
                        backbone_mbps,
                        reading,
                        seconds,
                        seed: request.seed,
                    });
                }
            }
        }
    }
    let runs = run_all(&cells, seeds, "readings", request, watch)?;
    let mut section = Section::new(&experiment, request.scale);
    section.condition("runs", format!("{seeds} seeds of {seconds} s"));
    let volumes = RATES.map(|(kilobytes, rate)| kilobytes as f64 * rate / 1e3);
    section.measured("volume-one-second", volumes[0]);
    section.measured("volume-section-iv", volumes[0] * seconds as f64);
    section.measured("volume-all-sizes", greatest(volumes) / least(volumes));
    let header = || {
        ["backbone, Mbps", "policy", "packet, KB"]
            .into_iter()
            .chain(Outcome::COLUMNS)
    };
    let a_reading = cells.len() / READINGS.len();
    for ((label, _), found) in READINGS.into_iter().zip(
        cells
            .iter()
            .zip(&runs)
            .collect::<Vec<_>>()
            .chunks(a_reading),
    ) {
        let row = |(cell, runs): &(&Cell<'_>, &Vec<Outcome>)| {
            let which = [
                cell.backbone_mbps.to_string(),
                cell.policy.to_owned(),
                cell.size.0.to_string(),
            ];
            which
                .into_iter()
                .chain(Outcome::mean(runs).shown())
                .collect()
        };
        section.table(label, header(), found.iter().map(row).collect());
    }
    section.judged()
}
