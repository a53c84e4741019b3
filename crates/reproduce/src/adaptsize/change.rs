//! Figures 15 (in two readings of its crowd) and 16: tuners where the traffic changes.

use super::replays::{Catalogue, Found, Run, Traffic, replay_all, work};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_replay::{Access, Crowd, FlashCrowd, TrafficMix};
use larder_units::Streams;
use serde::Deserialize;
use serde::de::DeserializeOwned;

const FLASH: (&str, &str) =
    ("adaptsize/flash-crowd.toml", include_str!("../../../../experiments/adaptsize/flash-crowd.toml"));
const CHUNKS: (&str, &str) =
    ("adaptsize/flash-chunks.toml", include_str!("../../../../experiments/adaptsize/flash-chunks.toml"));
const MIX: (&str, &str) =
    ("adaptsize/traffic-mix.toml", include_str!("../../../../experiments/adaptsize/traffic-mix.toml"));

/// Conditions; `How` the traffic changes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep<How> {
    /// Of the web; `requests` of all the traffic.
    catalogue: Catalogue,
    /// Bytes.
    capacity: u64,
    /// Requests until the traffic changes.
    calm: u64,
    change: How,
    /// Randomised repetitions.
    seeds: u64,
    lookahead_interval: u64,
    lookahead_window: u64,
}

/// A crowd comes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Comes {
    /// How many objects, at least and at most.
    crowd: [u64; 2],
    /// Bytes of each, if it is a new video's chunk.
    chunk_bytes: Option<u64>,
}

/// The kind of traffic changes, every so many requests as it was calm.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Changes {}

/// In the order of the runs of one seed.
const TUNERS: [&str; 4] = ["LookAhead", "AdaptSize", "HillClimb", "Static"];

pub(super) fn flash_crowd(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    crowd(FLASH, request, watch)
}

pub(super) fn flash_chunks(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    crowd(CHUNKS, request, watch)
}

fn crowd((name, text): (&str, &str), request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep<Comes>>::parse(name, text)?;
    // What counts begins with the crowd.
    tuners(&experiment, request, watch, |sweep, seed| {
        let Comes { crowd, chunk_bytes } = sweep.change;
        let crowd = Crowd { objects: crowd, chunk_bytes };
        let crowd = FlashCrowd::of(crowd, sweep.catalogue.cdn(seed)?, &Streams::new(seed)).after(sweep.calm);
        Ok(crowd.requests().take(sweep.catalogue.requests).collect())
    })
}

pub(super) fn traffic_mix(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep<Changes>>::parse(MIX.0, MIX.1)?;
    // What counts begins with the first change.
    tuners(&experiment, request, watch, |sweep, seed| {
        let Catalogue { objects, requests, exponent } = sweep.catalogue;
        let mix = TrafficMix::new(objects, exponent, sweep.calm, &Streams::new(seed));
        Ok(mix.map_err(|error| Error(error.to_string()))?.requests().take(requests).collect())
    })
}

fn tuners<How: DeserializeOwned>(
    experiment: &Experiment<Sweep<How>>,
    request: &Request<'_>,
    watch: &dyn Watch,
    generate: impl Fn(&Sweep<How>, u64) -> Result<Vec<Access>, Error>,
) -> Result<Section, Error> {
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(experiment, request.scale);
    section.condition(
        "traffic",
        format!("{} requests, a change after {}, {} times", sweep.catalogue.requests, sweep.calm, sweep.seeds),
    );
    section.condition("cache", format!("{} bytes", sweep.capacity));
    let (interval, window) = (sweep.lookahead_interval, sweep.lookahead_window);
    // As in the paper: Static is Threshold, tuned on the traffic before the change, the others are Chance.
    let specs = [
        format!("lookahead(chance,interval={interval},window={window})+lru"),
        "adaptsize(chance)+lru".to_owned(),
        "hillclimb+lru".to_owned(),
        format!("static(threshold,window={})+lru", sweep.calm),
    ];
    let seeds = request.seed..request.seed + sweep.seeds;
    let traffics = seeds.clone().map(|seed| generate(sweep, seed).map(|accesses| Traffic::new("changing", accesses)));
    let traffics: Vec<Traffic> = traffics.collect::<Result<_, Error>>()?;
    // All seeds at once, LookAhead's before the others: it takes as long as a hundred of them, and would leave a core without work at the end of each.
    let (capacity, warm_up) = (sweep.capacity, sweep.calm as usize);
    let of = |spec: &String| {
        let run = |traffic| Run { traffic, spec: spec.clone(), capacity, warm_up };
        traffics.iter().map(run).collect::<Vec<_>>()
    };
    let runs: Vec<Run<'_>> = specs.iter().flat_map(of).collect();
    watch.begin(&experiment.title, work(&runs));
    let found = replay_all(runs, request, watch)?;

    let mut shares: [Vec<f64>; 4] = Default::default();
    let mut rows = Vec::new();
    for (nth, seed) in seeds.enumerate() {
        let found: Vec<&Found> = found.iter().skip(nth).step_by(traffics.len()).collect();
        for (shares, found_of) in shares.iter_mut().zip(&found) {
            shares.push(found_of.hit_ratio / found[0].hit_ratio);
        }
        rows.push([format!("{seed}")].into_iter().chain(found.iter().map(|f| format!("{:.4}", f.hit_ratio))).collect());
        if nth == 0 {
            let course = |found: &Found| found.course.iter().map(|(at, ratio, _)| (*at, *ratio)).collect();
            section.figure(
                "course",
                TUNERS
                    .iter()
                    .zip(found.iter().copied())
                    .map(|(name, found)| Series::line(*name, course(found)))
                    .collect(),
            );
        }
    }
    let worst = shares.map(fifth_percentile);
    for (id, share) in ["adaptsize", "hillclimb", "static"].into_iter().zip(&worst[1..]) {
        section.measured(id_of(experiment, id), *share);
    }
    section.table("Object hit ratio after the change", ["seed"].into_iter().chain(TUNERS), rows);
    section.judged()
}

/// The paper's statistic, by nearest rank: of up to 20 repetitions it is the least.
fn fifth_percentile(mut shares: Vec<f64>) -> f64 {
    shares.sort_by(f64::total_cmp);
    let rank = shares.len().div_ceil(20).max(1);
    shares.get(rank - 1).copied().unwrap_or(f64::NAN)
}

/// The claim about this tuner: ids are unique in the paper, so the two experiments prefix theirs.
fn id_of<How>(experiment: &Experiment<Sweep<How>>, tuner: &str) -> String {
    let claim = experiment.claims.iter().find(|claim| claim.id.ends_with(tuner));
    claim.map_or_else(|| tuner.to_owned(), |claim| claim.id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_of_another_rank() {
        let shares = |count: usize| (1..=count).rev().map(|share| share as f64).collect();
        assert_eq!([1, 2, 20, 21, 50].map(|count| fifth_percentile(shares(count))), [1.0, 1.0, 1.0, 2.0, 3.0]);
    }
}
