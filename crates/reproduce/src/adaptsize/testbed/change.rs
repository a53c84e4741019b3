//! Figures 15 and 16 with a real server: tuners when the traffic changes. LookAhead needs the
//! future requests, so it is replayed.

use super::serve::{Run, Served, overhead};
use super::servers::System;
use crate::adaptsize::replays::{self, Catalogue, PARTS, ReplayResult, Traffic, part_length};
use crate::cell::{measure, measure_all, units};
use crate::statistics::{least, median};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_replay::{Access, CrowdShape};
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("adaptsize/testbed-change.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    flash: Flash,
    mix: Mix,
    /// The divisor of all object sizes. The quotient is at most `largest`.
    size_divisor: u64,
    /// The size of the largest object, bytes.
    pub(super) largest: u64,
    /// The capacity, bytes.
    pub(super) capacity: u64,
    /// The number of randomised repetitions.
    seeds: u64,
    connections: usize,
    adaptsize_interval: u64,
    /// AdaptSize as published.
    published: String,
    hillclimb_interval: u64,
    lookahead_interval: u64,
    lookahead_window: u64,
}

/// A flash crowd for the chunks of a video.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flash {
    catalogue: Catalogue,
    /// The number of requests before the crowd.
    calm: u64,
    /// The least and the greatest number of chunks.
    crowd: [u64; 2],
    /// The bytes of a chunk before the division.
    chunk_bytes: u64,
}

/// Traffic of which the kind changes after every `calm` requests.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mix {
    catalogue: Catalogue,
    calm: u64,
}

const TUNERS: [&str; 5] = [
    "LookAhead, replayed",
    "AdaptSize",
    "AS(published)",
    "HillClimb",
    "Static",
];

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition(
        "cache",
        format!(
            "{} bytes, objects of at most {}",
            sweep.capacity, sweep.largest
        ),
    );
    section.condition(
        "client",
        format!("{} connections, closed loop", sweep.connections),
    );
    let Sweep {
        flash, mix, seeds, ..
    } = sweep;
    compare(
        &mut section,
        "bed-flash",
        flash.calm,
        sweep,
        request,
        watch,
        |seed| {
            let crowd = CrowdShape {
                objects: flash.crowd,
                chunk_bytes: Some(flash.chunk_bytes),
            };
            flash.catalogue.flash_crowd(crowd, flash.calm, seed)
        },
    )?;
    compare(
        &mut section,
        "bed-mix",
        mix.calm,
        sweep,
        request,
        watch,
        |seed| Ok(mix.catalogue.traffic_mix(mix.calm, None, seed)?.0),
    )?;
    section.condition("repetitions", seeds);
    section.judged()
}

fn compare(
    section: &mut Section,
    id: &str,
    calm: u64,
    sweep: &Sweep,
    request: &Request<'_>,
    watch: &dyn Watch,
    generate: impl Fn(u64) -> Result<Vec<Access>, Error>,
) -> Result<(), Error> {
    let (mut ratios_of_seeds, mut rows) = (Vec::new(), Vec::new());
    for seed in (0..sweep.seeds).map(|more| request.seed + more) {
        let small = |access: Access| Access {
            size: (access.size / sweep.size_divisor).clamp(1, sweep.largest),
            ..access
        };
        let accesses: Vec<Access> = generate(seed)?.into_iter().map(small).collect();
        let traffic = Traffic::new(id, accesses);
        let stored = traffic.stored(overhead(&traffic)?);
        // Static is Threshold, tuned before the change; the others are Chance.
        let specs = [
            format!("static(threshold,window={calm})+lru"),
            replays::lookahead("chance", [sweep.lookahead_interval, sweep.lookahead_window]),
        ];
        // The part in which the traffic changes counts as calm, in the replays too.
        let length = part_length(traffic.accesses.len());
        let calm_parts = (calm as usize).div_ceil(length);
        let warm_up = calm_parts * length;
        let run = |spec| replays::Run {
            traffic: &stored,
            spec,
            capacity: sweep.capacity,
            warm_up,
        };
        let runs: Vec<replays::Run<'_>> = specs.into_iter().map(run).collect();
        watch.begin(&format!("{id}: replays"), units(&runs));
        let replayed = measure_all(runs, request, watch)?;
        let c = replayed[0].timeline.last().and_then(|(.., c)| *c);
        let c = c.ok_or_else(|| Error("Static found no c".to_owned()))?;
        let tuners = [
            format!(
                "adaptsize(chance,interval={})+lru",
                sweep.adaptsize_interval
            ),
            sweep.published.clone(),
            format!("hillclimb(interval={})+lru", sweep.hillclimb_interval),
            format!("threshold(c={})+lru", c.round()),
        ];
        watch.begin(id, (tuners.len() * traffic.accesses.len()) as u64);
        let served = tuners.into_iter().map(|policy| {
            let Sweep {
                capacity,
                connections,
                ..
            } = *sweep;
            watch.now(&format!("{id}: {policy}"));
            let run = Run {
                system: System::Larder(policy),
                traffic: &traffic,
                capacity,
                connections,
                parts: PARTS,
            };
            measure(&run, request, watch)
        });
        let served = served.collect::<Result<Vec<_>, Error>>()?;
        let ratios: Vec<f64> = served
            .iter()
            .map(|served| served.hit_ratio(calm_parts))
            .collect();
        let ahead = replayed[1].hit_ratio;
        let [adaptsize, published, hillclimb, fixed] = ratios[..] else {
            return Err(Error("a tuner was not measured".to_owned()));
        };
        ratios_of_seeds.push(Ratios {
            shares: [adaptsize, published, hillclimb, fixed].map(|hits| hits / ahead),
            leads: [adaptsize, published].map(|own| [own / hillclimb, own / fixed]),
        });
        let shown = [ahead]
            .iter()
            .chain(&ratios)
            .map(|ratio| format!("{ratio:.4}"))
            .collect::<Vec<_>>();
        rows.push([vec![seed.to_string()], shown].concat());
        if seed == request.seed {
            draw(section, id, &replayed[1], &served, length);
        }
    }
    record(section, id, &ratios_of_seeds);
    section.table(
        &format!("{id}: object hit ratio after the change"),
        ["seed"].into_iter().chain(TUNERS),
        rows,
    );
    Ok(())
}

/// Ratios of the object hit ratios after the change, with one seed.
struct Ratios {
    /// To LookAhead's, in the order of the other [`TUNERS`].
    shares: [f64; 4],
    /// Of each form of AdaptSize to HillClimb's and Static's.
    leads: [[f64; 2]; 2],
}

/// Adds the figure of one seed: the hit ratio of each part of `length` requests.
fn draw(section: &mut Section, id: &str, ahead: &ReplayResult, served: &[Served], length: usize) {
    let courses = served.iter().map(|served| {
        let hits = |(at, (requests, hits)): (usize, &(u64, u64))| {
            (
                ((at + 1) * length) as f64 / 1e6,
                *hits as f64 / *requests as f64,
            )
        };
        served
            .parts
            .iter()
            .enumerate()
            .map(hits)
            .collect::<Vec<_>>()
    });
    let courses = [timeline(ahead)].into_iter().chain(courses);
    section.figure(
        id,
        TUNERS
            .iter()
            .zip(courses)
            .map(|(name, timeline)| Series::line(*name, timeline))
            .collect(),
    );
}

/// Records the least share of LookAhead of each tuner, which the paper's worst 5 % bound, and the
/// median of AdaptSize's hit ratio over the others': the paper orders distributions, and one crowd
/// can be kind to any tuner.
fn record(section: &mut Section, id: &str, of_seeds: &[Ratios]) {
    for (at, claim) in ["adaptsize", "published", "hillclimb", "static"]
        .into_iter()
        .enumerate()
    {
        section.measured(
            format!("{id}-{claim}"),
            least(of_seeds.iter().map(|of| of.shares[at])),
        );
    }
    for (form, infix) in ["", "published-"].into_iter().enumerate() {
        for (at, rival) in ["hillclimb", "static"].into_iter().enumerate() {
            let leads = of_seeds.iter().map(|of| of.leads[form][at]).collect();
            section.measured(format!("{id}-{infix}over-{rival}"), median(leads));
        }
    }
}

fn timeline(found: &ReplayResult) -> Vec<(f64, f64)> {
    found
        .timeline
        .iter()
        .map(|(at, ratio, _)| (*at, *ratio))
        .collect()
}
