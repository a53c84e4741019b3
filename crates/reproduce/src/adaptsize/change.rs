//! Figures 15 and 16: tuners when the traffic changes. Figure 15 runs with two interpretations of
//! its flash crowd.

use super::replays::{Catalogue, ReplayResult, Run, Traffic, weight};
use crate::cell::measure;
use crate::section::numbered;
use crate::statistics::percentile;
use crate::{Error, Experiment, Request, Section, Watch, on_all_cores};
use larder_figure::Series;
use larder_replay::{Access, CrowdShape};
use serde::Deserialize;
use serde::de::DeserializeOwned;

const FLASH: (&str, &str) = experiment_file!("adaptsize/flash-crowd.toml");
const CHUNKS: (&str, &str) = experiment_file!("adaptsize/flash-chunks.toml");
const MIX: (&str, &str) = experiment_file!("adaptsize/traffic-mix.toml");

/// Conditions, with the `Change` of the traffic.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep<Change> {
    /// The catalogue of the web objects. Its `requests` are those of all the traffic.
    catalogue: Catalogue,
    /// The capacity, bytes.
    capacity: u64,
    /// The number of requests until the traffic changes.
    calm: u64,
    change: Change,
    /// The number of randomised repetitions.
    seeds: u64,
    lookahead_interval: u64,
    lookahead_window: u64,
}

/// A flash crowd starts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FlashChange {
    /// The least and the greatest number of objects.
    crowd: [u64; 2],
    /// The bytes of each object, if the objects are chunks of a new video.
    chunk_bytes: Option<u64>,
}

/// The kind of traffic changes after every `calm` requests.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KindChange {}

/// The tuners, in the order of the runs of one seed.
const TUNERS: [&str; 4] = ["LookAhead", "AdaptSize", "HillClimb", "Static"];

pub(super) fn flash_crowd(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    crowd(FLASH, request, watch)
}

pub(super) fn flash_chunks(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    crowd(CHUNKS, request, watch)
}

fn crowd((name, text): (&str, &str), request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep<FlashChange>>::parse(name, text)?;
    // Counting starts with the crowd.
    tuners(&experiment, request, watch, |sweep, seed| {
        let FlashChange { crowd, chunk_bytes } = sweep.change;
        let crowd = CrowdShape { objects: crowd, chunk_bytes };
        sweep.catalogue.flash_crowd(crowd, sweep.calm, seed)
    })
}

pub(super) fn traffic_mix(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep<KindChange>>::parse(MIX.0, MIX.1)?;
    // Counting starts with the first change.
    tuners(&experiment, request, watch, |sweep, seed| sweep.catalogue.traffic_mix(sweep.calm, seed))
}

fn tuners<Change: DeserializeOwned + Sync>(
    experiment: &Experiment<Sweep<Change>>,
    request: &Request<'_>,
    watch: &dyn Watch,
    generate: impl Fn(&Sweep<Change>, u64) -> Result<Vec<Access>, Error> + Sync,
) -> Result<Section, Error> {
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(experiment, request.scale);
    section.condition(
        "traffic",
        format!("{} requests, a change after {}, {} times", sweep.catalogue.requests, sweep.calm, sweep.seeds),
    );
    section.condition("cache", format!("{} bytes", sweep.capacity));
    let (interval, window) = (sweep.lookahead_interval, sweep.lookahead_window);
    // As in the paper: Static is Threshold, tuned on the traffic before the change; the others are
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
    // One scenario occupies up to 3 GB, with the future requests for LookAhead. There is one
    // scenario in memory per core.
    let found = on_all_cores(seeds.clone(), |seed| {
        let traffic = &Traffic::new("changing", generate(sweep, seed)?);
        let found =
            specs.iter().map(|spec| measure(&Run { traffic, spec: spec.clone(), capacity, warm_up }, request, watch));
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

/// Adds figures 15b and 16b: the 25th and 75th percentile of the repetitions, and whiskers from the
/// 5th to the 95th.
fn boxes(section: &mut Section, ratios: &[Vec<f64>; 4]) {
    let of = |percent| ratios.iter().map(|ratios| percentile(ratios, percent)).collect::<Vec<f64>>();
    let points = |percent| numbered(of(percent));
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

/// Returns the id of the claim about this tuner. Ids are unique within the paper, so the two
/// experiments use different prefixes.
fn id_of<Change>(experiment: &Experiment<Sweep<Change>>, tuner: &str) -> String {
    let claim = experiment.claims.iter().find(|claim| claim.id.ends_with(tuner));
    claim.map_or_else(|| tuner.to_owned(), |claim| claim.id.clone())
}
