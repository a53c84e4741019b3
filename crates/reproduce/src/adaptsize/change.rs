//! Figures 15 and 16: tuners when the traffic changes. Each runs with more than one interpretation
//! of its traffic.

use super::replays::{Catalogue, ReplayResult, Run, Traffic, lookahead, weight};
use crate::cell::measure;
use crate::section::numbered;
use crate::statistics::{least, median, percentile};
use crate::{Error, Experiment, Request, Section, Watch, on_all_cores};
use larder_figure::Series;
use larder_replay::{Access, Class, CrowdShape};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

const FLASH: (&str, &str) = experiment_file!("adaptsize/flash-crowd.toml");
const CHUNKS: (&str, &str) = experiment_file!("adaptsize/flash-chunks.toml");
const LOCAL: (&str, &str) = experiment_file!("adaptsize/flash-local.toml");
const MIX: (&str, &str) = experiment_file!("adaptsize/traffic-mix.toml");
const MIX_CHUNKS: (&str, &str) = experiment_file!("adaptsize/mix-chunks.toml");

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
    /// AdaptSize(Chance) as it was published and deployed by its authors.
    published: String,
    /// HillClimb, with the step interval that was declared before the run.
    hillclimb: String,
    /// HillClimb, with the step interval that is best where the traffic does not change
    /// (`intervals`).
    tuned_hillclimb: String,
    /// The number of parts of the timelines.
    parts: usize,
    /// Other settings of AdaptSize as published, for all repetitions, by the infixes of their
    /// claims.
    #[serde(default)]
    variants: BTreeMap<String, String>,
    /// Other settings of the tuners, for the first `swept_seeds` repetitions.
    swept: Vec<String>,
    swept_seeds: usize,
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
struct KindChange {
    /// The bytes of each video and of each download, if all of a kind have the same.
    object_bytes: Option<[u64; 2]>,
}

/// Traffic that changes, and the kind of each period of [`Sweep::calm`] requests, if kinds follow
/// each other.
type Changing = (Vec<Access>, Vec<Class>);

/// The tuners, in the order of the runs of one seed.
const TUNERS: [&str; 6] = [
    "LookAhead",
    "AdaptSize",
    "AS(published)",
    "HillClimb",
    "Static",
    "HillClimb(tuned)",
];
/// The percentiles at which the paper compares the tuners: the worst 5 % and 25 %, and the median.
const PERCENTILES: [usize; 3] = [5, 25, 50];

pub(super) fn flash_crowd(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    crowd(FLASH, request, watch)
}

pub(super) fn flash_chunks(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    crowd(CHUNKS, request, watch)
}

pub(super) fn flash_local(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    crowd(LOCAL, request, watch)
}

fn crowd(
    (name, text): (&str, &str),
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep<FlashChange>>::parse(name, text)?;
    // Counting starts with the crowd.
    tuners(&experiment, request, watch, |sweep, seed| {
        let FlashChange { crowd, chunk_bytes } = sweep.change;
        let crowd = CrowdShape {
            objects: crowd,
            chunk_bytes,
        };
        Ok((
            sweep.catalogue.flash_crowd(crowd, sweep.calm, seed)?,
            Vec::new(),
        ))
    })
}

pub(super) fn traffic_mix(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    kinds(MIX, request, watch)
}

pub(super) fn mix_chunks(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    kinds(MIX_CHUNKS, request, watch)
}

fn kinds(
    (name, text): (&str, &str),
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep<KindChange>>::parse(name, text)?;
    // Counting starts with the first change.
    tuners(&experiment, request, watch, |sweep, seed| {
        sweep
            .catalogue
            .traffic_mix(sweep.calm, sweep.change.object_bytes, seed)
    })
}

fn tuners<Change: DeserializeOwned + Sync>(
    experiment: &Experiment<Sweep<Change>>,
    request: &Request<'_>,
    watch: &dyn Watch,
    generate: impl Fn(&Sweep<Change>, u64) -> Result<Changing, Error> + Sync,
) -> Result<Section, Error> {
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(experiment, request.scale);
    section.condition(
        "traffic",
        format!(
            "{} requests, a change after {}, {} times",
            sweep.catalogue.requests, sweep.calm, sweep.seeds
        ),
    );
    section.condition("cache", format!("{} bytes", sweep.capacity));
    let specs = specs_of(sweep);
    let (capacity, warm_up) = (sweep.capacity, sweep.calm as usize);
    let seeds: Vec<u64> = (request.seed..request.seed + sweep.seeds).collect();
    let requests = sweep.seeds * sweep.catalogue.requests as u64;
    let swept = sweep.swept.len() as u64
        * sweep.swept_seeds.min(seeds.len()) as u64
        * sweep.catalogue.requests as u64;
    watch.begin(
        &experiment.title,
        requests * specs.iter().map(|spec| weight(spec)).sum::<u64>() + swept,
    );
    // One scenario occupies up to 3 GB, with the future requests for LookAhead. There is one
    // scenario in memory per core.
    let found = on_all_cores(seeds.clone(), |seed| {
        let (accesses, kinds) = generate(sweep, seed)?;
        let traffic = &Traffic::new("changing", accesses).in_parts(sweep.parts);
        let is_swept = seed < request.seed + sweep.swept_seeds as u64;
        let swept = sweep.swept.iter().filter(|_| is_swept);
        let found = specs.iter().chain(swept);
        let found = found.map(|spec| {
            measure(
                &Run {
                    traffic,
                    spec: spec.clone(),
                    capacity,
                    warm_up,
                },
                request,
                watch,
            )
        });
        Ok((kinds, found.collect::<Result<Vec<ReplayResult>, Error>>()?))
    });
    let (kinds, found): (Vec<_>, Vec<_>) = found
        .into_iter()
        .collect::<Result<Vec<_>, Error>>()?
        .into_iter()
        .unzip();

    let ratios = measured(experiment, &mut section, sweep, &found);
    if let Some(first) = found.first() {
        let timeline = |found: &ReplayResult| {
            found
                .timeline
                .iter()
                .map(|(at, ratio, _)| (*at, *ratio))
                .collect()
        };
        let series = TUNERS
            .iter()
            .zip(first)
            .map(|(name, found)| Series::line(*name, timeline(found)));
        section.figure("course", series.collect());
    }
    boxes(&mut section, &ratios);
    let calm = kinds
        .iter()
        .all(|kinds| !kinds.is_empty())
        .then_some(sweep.calm);
    let everywhere = TUNERS.len() + sweep.variants.len();
    if everywhere > TUNERS.len() {
        settings(
            &mut section,
            calm,
            &found
                .iter()
                .map(|found| &found[..everywhere])
                .collect::<Vec<_>>(),
        );
    }
    let with_sweep = found.iter().filter(|found| found.len() > everywhere);
    settings(
        &mut section,
        calm,
        &with_sweep.map(Vec::as_slice).collect::<Vec<_>>(),
    );
    by_kind(experiment, &mut section, sweep.calm, &kinds, &found);
    repetitions(&mut section, &seeds, &found);
    section.judged()
}

/// Returns the tuners in the order of [`TUNERS`], and then the variants.
fn specs_of<Change>(sweep: &Sweep<Change>) -> Vec<String> {
    // As in the paper: Static is Threshold, tuned on the traffic before the change; the others are
    // Chance.
    let tuners = [
        lookahead("chance", [sweep.lookahead_interval, sweep.lookahead_window]),
        "adaptsize(chance)+lru".to_owned(),
        sweep.published.clone(),
        sweep.hillclimb.clone(),
        format!("static(threshold,window={})+lru", sweep.calm),
        sweep.tuned_hillclimb.clone(),
    ];
    tuners
        .into_iter()
        .chain(sweep.variants.values().cloned())
        .collect()
}

/// Adds the table of the hit ratios of each repetition.
fn repetitions(section: &mut Section, seeds: &[u64], found: &[Vec<ReplayResult>]) {
    let ratios = |found: &Vec<ReplayResult>| {
        found
            .iter()
            .take(TUNERS.len())
            .map(|found| format!("{:.4}", found.hit_ratio))
            .collect::<Vec<_>>()
    };
    let rows = seeds
        .iter()
        .zip(found)
        .map(|(seed, found)| [vec![seed.to_string()], ratios(found)].concat());
    section.table(
        "Object hit ratio after the change",
        ["seed"].into_iter().chain(TUNERS),
        rows.collect(),
    );
}

/// Records the values of the claims. `found` has the results of each repetition. Returns the hit
/// ratios of each tuner.
fn measured<Change>(
    experiment: &Experiment<Sweep<Change>>,
    section: &mut Section,
    sweep: &Sweep<Change>,
    found: &[Vec<ReplayResult>],
) -> [Vec<f64>; TUNERS.len()] {
    let [mut shares, mut ratios]: [[Vec<f64>; TUNERS.len()]; 2] = Default::default();
    for of_seed in found {
        for (tuner, found) in of_seed.iter().take(TUNERS.len()).enumerate() {
            shares[tuner].push(found.hit_ratio / of_seed[0].hit_ratio);
            ratios[tuner].push(found.hit_ratio);
        }
    }
    let ids = [
        "adaptsize",
        "published",
        "hillclimb",
        "static",
        "tuned-hillclimb",
    ];
    for (id, shares) in ids.into_iter().zip(&shares[1..]) {
        section.measured_if_claimed(id_of(experiment, id), percentile(shares, 5));
    }
    let of = |run: usize| {
        found
            .iter()
            .map(|found| found[run].hit_ratio)
            .collect::<Vec<f64>>()
    };
    // The least lead over the percentiles.
    let lead = |form: usize, other: usize| {
        let (form, other) = (of(form), of(other));
        least(PERCENTILES.map(|percent| percentile(&form, percent) / percentile(&other, percent)))
    };
    for (id, [form, other]) in [
        ("adaptsize-over-hillclimb", [1, 3]),
        ("adaptsize-over-static", [1, 4]),
        ("published-over-hillclimb", [2, 3]),
        ("published-over-static", [2, 4]),
        ("adaptsize-over-tuned-hillclimb", [1, 5]),
        ("published-over-tuned-hillclimb", [2, 5]),
    ] {
        section.measured_if_claimed(id_of(experiment, id), lead(form, other));
    }
    let variants = sweep
        .variants
        .keys()
        .map(String::as_str)
        .zip(TUNERS.len()..);
    for (id, form) in [("adaptsize", 1), ("published", 2)]
        .into_iter()
        .chain(variants.clone())
    {
        let reactions = found
            .iter()
            .flat_map(|of_seed| reactions(&of_seed[form], &of_seed[0], sweep.calm));
        section.measured_if_claimed(
            id_of(experiment, &format!("{id}-reaction")),
            median(reactions.collect()) / 1e3,
        );
    }
    for (id, form) in variants {
        section.measured_if_claimed(
            id_of(experiment, &format!("{id}-over-hillclimb")),
            lead(form, 3),
        );
    }
    ratios
}

/// Returns the requests from each change, which comes after every `calm` requests, to the end of
/// the first part in which the tuner has nine tenths of LookAhead's hits; at most those to the next
/// change, if it never has.
fn reactions(tuner: &ReplayResult, ahead: &ReplayResult, calm: u64) -> Vec<f64> {
    let ends: Vec<f64> = ahead
        .timeline
        .iter()
        .map(|(end, ..)| (end * 1e6).round())
        .collect();
    let changes = (1..)
        .map(|change| (change * calm) as f64)
        .take_while(|at| ends.last().is_some_and(|end| at < end));
    let reaction = |at: f64| {
        let parts = ends.iter().zip(tuner.timeline.iter().zip(&ahead.timeline));
        let mut after = parts.filter(|(end, _)| **end > at && **end <= at + calm as f64);
        let caught_up = after.find(|(_, ((_, own, _), (_, ahead, _)))| *own >= 0.9 * ahead);
        caught_up.map_or(calm as f64, |(end, _)| end - at)
    };
    changes.map(reaction).collect()
}

/// Adds the table of these repetitions, with other settings behind the tuners. With `calm`, the
/// traffic changes after every `calm` requests.
fn settings(section: &mut Section, calm: Option<u64>, found: &[&[ReplayResult]]) {
    let Some(first) = found.first() else { return };
    let rows = first.iter().enumerate().skip(1).map(|(at, setting)| {
        let shares: Vec<f64> = found
            .iter()
            .map(|found| found[at].hit_ratio / found[0].hit_ratio)
            .collect();
        let reaction = calm.map(|calm| {
            let reactions = found
                .iter()
                .flat_map(|found| reactions(&found[at], &found[0], calm))
                .collect();
            format!("{:.0}", median(reactions) / 1e3)
        });
        let figures = [percentile(&shares, 5), median(shares)].map(|share| format!("{share:.3}"));
        [setting.spec.clone()]
            .into_iter()
            .chain(figures)
            .chain(reaction)
            .collect()
    });
    let title = format!(
        "With other settings, shares of LookAhead in {} repetitions",
        found.len()
    );
    let columns = ["policy", "the least 5 %", "median"].into_iter();
    section.table(
        &title,
        columns.chain(calm.map(|_| "median reaction, thousand requests")),
        rows.collect(),
    );
}

/// Records, if kinds of traffic follow each other, what HillClimb and Static have of the hits
/// outside of the web, and adds the table of the hits by kind. Rows have the kind of the first
/// period, for which Static is tuned, and the kind of later periods.
fn by_kind<Change>(
    experiment: &Experiment<Sweep<Change>>,
    section: &mut Section,
    calm: u64,
    kinds: &[Vec<Class>],
    found: &[Vec<ReplayResult>],
) {
    let periods = kinds
        .iter()
        .zip(found)
        .flat_map(|(kinds, found)| hits_by_period(kinds, found, calm));
    let periods: Vec<(Class, Class, [f64; TUNERS.len()])> = periods.collect();
    if periods.is_empty() {
        return;
    }
    let shares = |is_counted: &dyn Fn(Class, Class) -> bool| {
        let counted = || {
            periods
                .iter()
                .filter(|(first, kind, _)| is_counted(*first, *kind))
                .map(|(.., hits)| hits)
        };
        let hits: [f64; TUNERS.len()] =
            std::array::from_fn(|tuner| counted().map(|hits| hits[tuner]).sum());
        (
            counted().count(),
            hits[0] / counted().count() as f64,
            hits.map(|of| of / hits[0]),
        )
    };
    let of = |name, shares: [f64; TUNERS.len()]| {
        TUNERS
            .into_iter()
            .zip(shares)
            .find(|(tuner, _)| *tuner == name)
            .map_or(f64::NAN, |(_, share)| share)
    };
    let (.., of_others) = shares(&|_, kind| kind != Class::Web);
    section.measured_if_claimed(
        id_of(experiment, "hillclimb-others"),
        of("HillClimb", of_others),
    );
    let (.., of_others_after_web) =
        shares(&|first, kind| first == Class::Web && kind != Class::Web);
    section.measured_if_claimed(
        id_of(experiment, "static-others"),
        of("Static", of_others_after_web),
    );
    let pairs = Class::ALL
        .into_iter()
        .flat_map(|first| Class::ALL.map(|kind| (first, kind)));
    let rows = pairs.filter_map(|(first, kind)| {
        let (count, ratio, shares) =
            shares(&|of_first, of_kind| (of_first, of_kind) == (first, kind));
        let names = [first, kind].map(|kind| format!("{kind:?}").to_lowercase());
        let shares = shares.iter().skip(1).map(|share| format!("{share:.3}"));
        (count > 0).then(|| {
            names
                .into_iter()
                .chain([count.to_string(), format!("{ratio:.4}")])
                .chain(shares)
                .collect()
        })
    });
    let columns = ["first kind", "kind", "periods", "LookAhead's hit ratio"]
        .into_iter()
        .chain(TUNERS.into_iter().skip(1));
    section.table(
        "Hits by kind of traffic, shares of LookAhead's",
        columns,
        rows.collect(),
    );
}

/// Returns, of each period after the first, the kind of the first one, its own kind, and the hit
/// ratio of each tuner.
fn hits_by_period(
    kinds: &[Class],
    found: &[ReplayResult],
    calm: u64,
) -> Vec<(Class, Class, [f64; TUNERS.len()])> {
    let mean = |tuner: usize, period: usize| {
        let is_in =
            |end: f64| ((end * 1e6).round() as u64).saturating_sub(1) / calm == period as u64;
        let ratios: Vec<f64> = found[tuner]
            .timeline
            .iter()
            .filter(|(end, ..)| is_in(*end))
            .map(|(_, ratio, _)| *ratio)
            .collect();
        ratios.iter().sum::<f64>() / ratios.len() as f64
    };
    let after_first = kinds.iter().enumerate().skip(1);
    after_first
        .map(|(period, kind)| {
            (
                kinds[0],
                *kind,
                std::array::from_fn(|tuner| mean(tuner, period)),
            )
        })
        .collect()
}

/// Adds figures 15b and 16b: a box from the 25th to the 75th percentile of the repetitions, and
/// whiskers from the 5th to the 95th.
fn boxes(section: &mut Section, ratios: &[Vec<f64>; TUNERS.len()]) {
    let of = |percent| {
        ratios
            .iter()
            .map(|ratios| percentile(ratios, percent))
            .collect::<Vec<f64>>()
    };
    let between = |low, high| of(low).into_iter().zip(of(high)).collect();
    let name = "25, 50 and 75 % of the repetitions; whiskers 5 and 95 %";
    let boxes =
        Series::boxes(name, numbered(of(50)), between(25, 75)).with_interval(between(5, 95));
    section.named_figure("boxes", TUNERS, vec![boxes]);
    let rows = [5, 25, 50, 75, 95].map(|percent| {
        let ratios = of(percent).into_iter().map(|ratio| format!("{ratio:.4}"));
        [format!("{percent} %")].into_iter().chain(ratios).collect()
    });
    section.table(
        "The same, percentiles of the repetitions",
        ["percentile"].into_iter().chain(TUNERS),
        rows.into(),
    );
}

/// Returns the id of this claim. Ids are unique within the paper, so the experiments use different
/// prefixes: that of the file's first claim.
fn id_of<Change>(experiment: &Experiment<Sweep<Change>>, claim: &str) -> String {
    let first = experiment
        .claims
        .first()
        .and_then(|claim| claim.id.split_once('-'));
    first.map_or_else(
        || claim.to_owned(),
        |(prefix, _)| format!("{prefix}-{claim}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_belong_to_another_kind() {
        let of = |ratios: &[f64]| ReplayResult {
            timeline: (1..)
                .zip(ratios)
                .map(|(part, ratio)| (f64::from(part) * 10e-6, *ratio, None))
                .collect(),
            ..ReplayResult::default()
        };
        let found: Vec<ReplayResult> = (0..TUNERS.len())
            .map(|tuner| of(&[0.9, 0.9, 0.25, 0.75, 0.125, tuner as f64]))
            .collect();
        // Periods of 20 requests, parts of 10.
        let kinds = [Class::Web, Class::Download, Class::Video];
        let periods = hits_by_period(&kinds, &found, 20);
        let last = std::array::from_fn(|tuner| (0.125 + tuner as f64) / 2.0);
        assert_eq!(
            periods,
            [
                (Class::Web, Class::Download, [0.5; TUNERS.len()]),
                (Class::Web, Class::Video, last)
            ]
        );
    }

    #[test]
    fn a_reaction_begins_at_another_change_or_never_ends() {
        let of = |ratios: &[f64]| ReplayResult {
            timeline: (1..)
                .zip(ratios)
                .map(|(part, ratio)| (f64::from(part) * 10e-6, *ratio, None))
                .collect(),
            ..ReplayResult::default()
        };
        let ahead = of(&[0.5; 6]);
        // Changes after 20 and after 40 requests, parts of 10.
        assert_eq!(
            reactions(&of(&[0.5, 0.5, 0.1, 0.46, 0.5, 0.1]), &ahead, 20),
            [20.0, 10.0]
        );
        assert_eq!(
            reactions(&of(&[0.5, 0.5, 0.1, 0.1, 0.1, 0.1]), &ahead, 20),
            [20.0, 20.0]
        );
    }
}
