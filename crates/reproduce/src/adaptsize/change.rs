//! Figures 15 (in two readings of its crowd) and 16: tuners where the traffic changes.

use super::replays::{Catalogue, ReplayResult, Run, Traffic, weight};
use crate::{Error, Experiment, Request, Section, Watch, on_all_cores};
use larder_figure::Series;
use larder_replay::{Access, CrowdShape, FlashCrowd, TrafficMix};
use larder_units::Streams;
use serde::Deserialize;
use serde::de::DeserializeOwned;

const FLASH: (&str, &str) =
    ("adaptsize/flash-crowd.toml", include_str!("../../experiments/adaptsize/flash-crowd.toml"));
const CHUNKS: (&str, &str) =
    ("adaptsize/flash-chunks.toml", include_str!("../../experiments/adaptsize/flash-chunks.toml"));
const MIX: (&str, &str) = ("adaptsize/traffic-mix.toml", include_str!("../../experiments/adaptsize/traffic-mix.toml"));

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
        let crowd = CrowdShape { objects: crowd, chunk_bytes };
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

fn tuners<How: DeserializeOwned + Sync>(
    experiment: &Experiment<Sweep<How>>,
    request: &Request<'_>,
    watch: &dyn Watch,
    generate: impl Fn(&Sweep<How>, u64) -> Result<Vec<Access>, Error> + Sync,
) -> Result<Section, Error> {
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(experiment, request.scale);
    section.condition(
        "traffic",
        format!("{} requests, a change after {}, {} times", sweep.catalogue.requests, sweep.calm, sweep.seeds),
    );
    section.condition("cache", format!("{} bytes", sweep.capacity));
    let (interval, window) = (sweep.lookahead_interval, sweep.lookahead_window);
    // As in the paper: Static is Threshold, tuned on the traffic before the change, the others are
    // Chance.
    let specs = [
        format!("lookahead(chance,interval={interval},window={window})+lru"),
        "adaptsize(chance)+lru".to_owned(),
        "hillclimb+lru".to_owned(),
        format!("static(threshold,window={})+lru", sweep.calm),
    ];
    let (capacity, warm_up) = (sweep.capacity, sweep.calm as usize);
    let seeds: Vec<u64> = (request.seed..request.seed + sweep.seeds).collect();
    let requests = sweep.seeds * sweep.catalogue.requests as u64;
    watch.begin(&experiment.title, requests * specs.iter().map(|spec| weight(spec)).sum::<u64>());
    // One scenario is up to 3 GB, with what LookAhead foresees: as many are held as there are
    // cores.
    let found = on_all_cores(seeds.clone(), |seed| {
        let traffic = &Traffic::new("changing", generate(sweep, seed)?);
        let found =
            specs.iter().map(|spec| Run { traffic, spec: spec.clone(), capacity, warm_up }.found(request, watch));
        found.collect::<Result<Vec<ReplayResult>, Error>>()
    });
    let found = found.into_iter().collect::<Result<Vec<_>, Error>>()?;

    let [mut shares, mut ratios]: [[Vec<f64>; 4]; 2] = Default::default();
    for of_seed in &found {
        for (tuner, found) in of_seed.iter().enumerate() {
            shares[tuner].push(found.hit_ratio / of_seed[0].hit_ratio);
            ratios[tuner].push(found.hit_ratio);
        }
    }
    for (id, shares) in ["adaptsize", "hillclimb", "static"].into_iter().zip(&shares[1..]) {
        section.measured(id_of(experiment, id), percentile(shares, 5));
    }
    if let Some(first) = found.first() {
        let timeline = |found: &ReplayResult| found.timeline.iter().map(|(at, ratio, _)| (*at, *ratio)).collect();
        let series = TUNERS.iter().zip(first).map(|(name, found)| Series::line(*name, timeline(found)));
        section.figure("course", series.collect());
    }
    boxes(&mut section, &ratios);
    let ratios =
        |found: &Vec<ReplayResult>| found.iter().map(|found| format!("{:.4}", found.hit_ratio)).collect::<Vec<_>>();
    let rows = seeds.iter().zip(&found).map(|(seed, found)| [vec![seed.to_string()], ratios(found)].concat());
    section.table("Object hit ratio after the change", ["seed"].into_iter().chain(TUNERS), rows.collect());
    section.judged()
}

/// Figures 15b and 16b: from the 25th to the 75th percentile of the repetitions, whiskers from the
/// 5th to the 95th.
fn boxes(section: &mut Section, ratios: &[Vec<f64>; 4]) {
    let of = |percent| ratios.iter().map(|ratios| percentile(ratios, percent)).collect::<Vec<f64>>();
    let points = |percent| (0..).map(f64::from).zip(of(percent)).collect();
    let median = Series::points("median, and 5 to 95 % of the repetitions", points(50));
    let series = vec![
        median.with_interval(of(5).into_iter().zip(of(95)).collect()),
        Series::points("25 %", points(25)),
        Series::points("75 %", points(75)),
    ];
    section.named_figure("boxes", TUNERS, series);
    let rows = [5, 25, 50, 75, 95].map(|percent| {
        let ratios = of(percent).into_iter().map(|ratio| format!("{ratio:.4}"));
        [format!("{percent} %")].into_iter().chain(ratios).collect()
    });
    section.table("The same, percentiles of the repetitions", ["percentile"].into_iter().chain(TUNERS), rows.into());
}

/// By nearest rank: the fifth percentile of up to 20 repetitions is the least.
fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).copied().unwrap_or(f64::NAN)
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
        let shares = |count: usize| (1..=count).rev().map(|share| share as f64).collect::<Vec<f64>>();
        let of = |percent| [1, 2, 20, 21, 50].map(|count| percentile(&shares(count), percent));
        assert_eq!(of(5), [1.0, 1.0, 1.0, 2.0, 3.0]);
        assert_eq!(of(50), [1.0, 1.0, 10.0, 11.0, 25.0]);
        assert_eq!(of(95), [1.0, 2.0, 19.0, 20.0, 48.0]);
        assert!(percentile(&[], 5).is_nan());
    }
}
