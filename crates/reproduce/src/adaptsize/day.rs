//! Hours of the day: whether larger objects, with hours of the day or without, show two published
//! results that the web's objects alone do not show. These are how much AdaptSize steadies the hit
//! ratio (section 5.1.1) and how much c changes within a day (section 5.1.3).
//!
//! The shares of larger objects rise from none at night to their peaks at noon and fall again, as
//! (1 − cos) / 2 of five days, which is the length of the published US trace. The larger objects
//! are videos and downloads as in [`Class`], with the locality of the web's. A control has the same
//! objects and about as many requests for them, but no hours: their share is half of the peak at
//! all times.

use super::nginx::{Occupied, Uses};
use super::production::{DAYS, of_day, steadier};
use super::replays::{Catalogue, Run, Traffic, variation};
use crate::cell::{measure_all, units};
use crate::statistics::{count, greatest};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_replay::{Access, Class};
use larder_units::Streams;
use serde::Deserialize;
use std::f64::consts::TAU;

const FILE: (&str, &str) = experiment_file!("adaptsize/day.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    /// The traffic without larger objects.
    us: Catalogue,
    /// The capacity, bytes.
    capacity: u64,
    nginx: Uses,
    /// AdaptSize as published.
    published: String,
    /// The shares of requests at noon, of videos and of downloads. 0 is tried too.
    peaks: Vec<f64>,
    /// The published improvement of the variation.
    published_variation: f64,
    /// Half to twice that improvement.
    variation: [f64; 2],
    /// The published change of c within a day, the greatest c over the least.
    published_c: f64,
    /// A mix counts if AdaptSize's gains over Nginx and over Varnish are in these ranges.
    gains: [[f64; 2]; 2],
}

/// What is requested beside the web's objects.
#[derive(Clone, Copy)]
pub(super) struct Mix {
    /// The shares of the requests at noon.
    pub videos: f64,
    pub downloads: f64,
    /// True if the shares are half of those at noon, at all times.
    pub is_constant: bool,
}

impl Mix {
    pub fn name(self) -> String {
        let Mix {
            videos,
            downloads,
            is_constant,
        } = self;
        let parts = [("videos", videos), ("downloads", downloads)]
            .into_iter()
            .filter(|(_, peak)| *peak > 0.0);
        let parts: Vec<String> = parts
            .map(|(class, peak)| format!("{class} {peak}"))
            .collect();
        match (parts.is_empty(), is_constant) {
            (true, _) => "none".to_owned(),
            (false, true) => format!("{}, without hours", parts.join(", ")),
            (false, false) => parts.join(", "),
        }
    }

    /// Returns the class of the request `nth` of `day` requests a day; `chance` is uniform in
    /// [0, 1).
    fn class(self, nth: usize, day: f64, chance: f64) -> Class {
        let level = if self.is_constant {
            0.5
        } else {
            (1.0 - (TAU * nth as f64 / day).cos()) / 2.0
        };
        match chance {
            chance if chance < level * self.videos => Class::Video,
            chance if chance < level * (self.videos + self.downloads) => Class::Download,
            _ => Class::Web,
        }
    }

    /// Returns `us` with as many of its requests for larger objects as the mix says.
    pub fn traffic(self, us: Catalogue, seed: u64) -> Result<Traffic, Error> {
        if self.videos + self.downloads == 0.0 {
            return us.traffic("us", seed);
        }
        let mut stream = Streams::new(seed).stream("hours of the day");
        let day = us.requests as f64 / DAYS as f64;
        let classes: Vec<Class> = (0..us.requests)
            .map(|nth| self.class(nth, day, stream.unit()))
            .collect();
        let mut first_id = 0;
        let mut of_classes = Vec::new();
        for class in Class::ALL {
            let requests = classes.iter().filter(|of| **of == class).count();
            let seed = if class == Class::Web {
                seed
            } else {
                stream.bits()
            };
            let accesses = Catalogue { requests, ..us }.accesses(class.factor(), seed)?;
            let from = first_id;
            of_classes.push(accesses.into_iter().map(move |access| Access {
                id: access.id + from,
                ..access
            }));
            first_id += us.objects.div_ceil(class.factor() as usize) as u64;
        }
        let place = |class: &Class| Class::ALL.iter().position(|of| of == class);
        let accesses = classes
            .iter()
            .filter_map(|class| of_classes.get_mut(place(class)?)?.next());
        let cdn = us.cdn(seed)?;
        let times = cdn.requests().map(|access| access.now);
        Ok(Traffic::new(
            self.name(),
            accesses
                .zip(times)
                .map(|(access, now)| Access { now, ..access })
                .collect(),
        ))
    }
}

/// The forms of AdaptSize(Chance): infixes of the claims' ids, names.
const FORMS: [(&str, &str); 2] = [("", "AdaptSize"), ("published-", "AdaptSize as published")];

/// The results of a mix with a form of AdaptSize.
struct Found {
    mix: Mix,
    /// The gains of AdaptSize(Chance) over Nginx and over Varnish.
    gains: [f64; 2],
    /// The coefficient of variation of AdaptSize's hit ratio, and the lesser of Nginx' and
    /// Varnish's as a multiple of it.
    variation: [f64; 2],
    /// The greatest c within a day over the least, of this form and of Threshold as deployed.
    c: [f64; 2],
}

impl Found {
    fn counts(&self, sweep: &Sweep) -> bool {
        let is_in = |(gain, [least, most]): (&f64, [f64; 2])| (least..=most).contains(gain);
        self.gains.iter().zip(sweep.gains).all(is_in)
    }

    /// Returns true if both published results are shown.
    fn shows_both(&self, sweep: &Sweep) -> bool {
        let [least, most] = sweep.variation;
        (least..=most).contains(&self.variation[1]) && self.c[0] >= sweep.published_c
    }
}

/// What the mixes show whose gains count.
#[derive(Debug, PartialEq)]
struct Shown {
    /// The improvement of the variation that is nearest to the published one.
    variation: f64,
    /// The greatest change of c within a day.
    c: f64,
    /// The number of mixes that show both.
    both: f64,
}

impl Shown {
    /// Returns `None` if no mix counts.
    fn by(found: &[&Found], sweep: &Sweep) -> Option<Shown> {
        let counted = || found.iter().filter(|found| found.counts(sweep));
        let distance = |variation: &f64| (variation / sweep.published_variation).ln().abs();
        let variations = counted().map(|found| found.variation[1]);
        let variation = variations.min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        let c = greatest(counted().map(|found| found.c[0]));
        Some(Shown {
            variation,
            c,
            both: count(counted().map(|found| found.shows_both(sweep))),
        })
    }

    fn record(&self, section: &mut Section, prefix: &str) {
        section.measured(format!("{prefix}variation"), self.variation);
        section.measured(format!("{prefix}c"), self.c);
        section.measured(format!("{prefix}both"), self.both);
    }
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition(
        "traffic",
        format!(
            "{}; {DAYS} days; a quarter to warm up",
            sweep.us.conditions()
        ),
    );
    section.condition("cache", format!("{} bytes", sweep.capacity));
    let peaks: Vec<f64> = [0.0]
        .into_iter()
        .chain(sweep.peaks.iter().copied())
        .collect();
    let mut found = Vec::new();
    for &videos in &peaks {
        for &downloads in &peaks {
            found.push(measure(
                sweep,
                Mix {
                    videos,
                    downloads,
                    is_constant: false,
                },
                request,
                watch,
            )?);
        }
    }
    // The first one has no larger objects.
    let counts = |form: usize, at: usize| at > 0 && found[at][form].counts(sweep);
    let mut controls = Vec::new();
    for at in (0..found.len()).filter(|at| (0..FORMS.len()).any(|form| counts(form, *at))) {
        controls.push((
            at,
            measure(
                sweep,
                Mix {
                    is_constant: true,
                    ..found[at][0].mix
                },
                request,
                watch,
            )?,
        ));
    }
    for (form, (infix, name)) in FORMS.into_iter().enumerate() {
        let hours: Vec<&Found> = found.iter().map(|found| &found[form]).collect();
        let controls = controls
            .iter()
            .filter(|(at, _)| counts(form, *at))
            .map(|(_, found)| &found[form]);
        let controls: Vec<&Found> = controls.collect();
        for (kind, found) in [("", &hours[1..]), ("constant-", &controls[..])] {
            if let Some(shown) = Shown::by(found, sweep) {
                shown.record(&mut section, &format!("day-{infix}{kind}"));
            }
        }
        if form == 0 {
            draw(&mut section, sweep, &peaks, &hours);
        }
        let rows = hours.iter().chain(&controls).map(|found| row(found, sweep));
        section.table(&format!("Hours of the day, {name}"), HEADER, rows.collect());
    }
    section.judged()
}

/// One of the two results of a mix.
type Value = fn(&Found) -> f64;

/// Draws both results over the share of downloads at noon: a line for each share of videos, and
/// points where a mix counts.
fn draw(section: &mut Section, sweep: &Sweep, peaks: &[f64], found: &[&Found]) {
    let figures: [(&str, Value); 2] = [
        ("day", |found| found.variation[1]),
        ("day-change", |found| found.c[0]),
    ];
    for (id, of) in figures {
        let lines = peaks
            .iter()
            .zip(found.chunks(peaks.len()))
            .map(|(videos, found)| {
                let points = found
                    .iter()
                    .enumerate()
                    .map(|(at, found)| (at as f64, of(found)));
                Series::line(format!("videos {videos}"), points.collect())
            });
        let counted = found
            .iter()
            .enumerate()
            .filter(|(_, found)| found.counts(sweep));
        let points = counted.map(|(at, found)| ((at % peaks.len()) as f64, of(found)));
        let lines = lines.chain([Series::points("the mix counts", points.collect())]);
        section.named_figure(id, peaks.iter().map(f64::to_string), lines.collect());
    }
}

const HEADER: [&str; 8] = [
    "larger objects, share at noon",
    "over Nginx",
    "over Varnish",
    "counts",
    "AdaptSize's variation",
    "Nginx' or Varnish's, of it",
    "c in a day",
    "c of Threshold in a day",
];

fn row(found: &Found, sweep: &Sweep) -> Vec<String> {
    let Found {
        mix,
        gains,
        variation,
        c,
    } = found;
    let counts = if found.counts(sweep) { "yes" } else { "no" };
    let shown = |values: [f64; 2], digits: usize| values.map(|value| format!("{value:.digits$}"));
    let gains = shown(*gains, 3).into_iter().chain([counts.to_owned()]);
    [mix.name()]
        .into_iter()
        .chain(gains)
        .chain(shown(*variation, 4))
        .chain(shown(*c, 2))
        .collect()
}

/// Returns the results of each of [`FORMS`].
fn measure(
    sweep: &Sweep,
    mix: Mix,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<[Found; FORMS.len()], Error> {
    // The seed is that of the other experiments' US trace.
    let traffic = mix.traffic(sweep.us, request.seed + 1)?;
    let warm_up = sweep.us.requests / 4;
    let run = |spec: &str| Run {
        traffic: &traffic,
        spec: spec.to_owned(),
        capacity: sweep.capacity,
        warm_up,
    };
    let specs = [
        "adaptsize(chance)+lru",
        &sweep.published,
        "adaptsize(threshold)+lru",
        "lru",
    ];
    let runs: Vec<Run<'_>> = specs.map(run).into();
    watch.begin(&mix.name(), units(&runs));
    let found = measure_all(runs, request, watch)?;
    let limits = [sweep.capacity, warm_up as u64];
    let (_, nginx) = sweep
        .nginx
        .tuned(&traffic, limits, Occupied::Body, request, watch)?;
    let [deployed, published, threshold, varnish] = &found[..] else {
        return Err(Error(format!(
            "experiments/{}: a system was not measured",
            FILE.0
        )));
    };
    let found = [deployed, published].map(|chance| Found {
        mix,
        gains: [&nginx, varnish].map(|rival| chance.hit_ratio / rival.hit_ratio),
        variation: [variation(chance), steadier(chance, [&nginx, varnish])],
        c: [chance, threshold].map(of_day),
    });
    let mut values = found
        .iter()
        .flat_map(|found| [found.gains, found.variation, found.c])
        .flatten();
    if values.all(f64::is_finite) {
        Ok(found)
    } else {
        Err(Error(format!(
            "experiments/{}: {}: a value is not a number",
            FILE.0,
            mix.name()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;
    use std::collections::BTreeMap;

    const US: Catalogue = Catalogue {
        objects: 5_120,
        requests: 50_000,
        exponent: 0.9,
        windows: Some(0.05),
        popular: None,
    };

    /// Returns the share of the requests whose ids are in this range.
    fn share(accesses: &[Access], ids: std::ops::Range<u64>) -> f64 {
        accesses
            .iter()
            .filter(|access| ids.contains(&access.id))
            .count() as f64
            / accesses.len() as f64
    }

    #[test]
    fn the_day_has_no_noon_or_loses_requests() {
        let mix = Mix {
            videos: 0.2,
            downloads: 0.3,
            is_constant: false,
        };
        let Traffic { accesses, .. } = mix.traffic(US, 1).unwrap();
        assert_eq!(accesses.len(), US.requests);
        // 5,120 objects of the web, 160 videos, 10 downloads.
        let larger = 5_120..5_290;
        // The eighths of a day: midnight is in the first and the last one, noon between the fourth
        // and the fifth.
        let parts: Vec<f64> = accesses
            .chunks(US.requests / DAYS / 8)
            .map(|part| share(part, larger.clone()))
            .collect();
        for day in parts.chunks(8) {
            assert!(
                day[0] < 0.08 && day[7] < 0.08 && (0.43..0.54).contains(&day[3]),
                "{day:?}"
            );
        }
        assert!(accesses.iter().all(|access| access.id < larger.end));
        // The mean of (1 - cos) / 2 is a half.
        let of = |ids| share(&accesses, ids);
        assert!((of(5_120..5_280) - 0.1).abs() < 0.01 && (of(5_280..5_290) - 0.15).abs() < 0.01);
    }

    #[test]
    fn the_control_has_hours_or_other_objects() {
        let mix = Mix {
            videos: 0.2,
            downloads: 0.3,
            is_constant: true,
        };
        let Traffic { accesses, .. } = mix.traffic(US, 1).unwrap();
        for part in accesses.chunks(US.requests / DAYS / 4) {
            assert!(
                (share(part, 5_120..5_280) - 0.1).abs() < 0.04
                    && (share(part, 5_280..5_290) - 0.15).abs() < 0.05
            );
        }
        let hours = Mix {
            is_constant: false,
            ..mix
        }
        .traffic(US, 1)
        .unwrap();
        for ids in [5_120..5_280, 5_280..5_290] {
            let sizes = |accesses: &[Access]| -> BTreeMap<u64, u64> {
                let of = accesses.iter().filter(|access| ids.contains(&access.id));
                of.map(|access| (access.id, access.size)).collect()
            };
            let (control, hours) = (sizes(&accesses), sizes(&hours.accesses));
            assert!(
                hours
                    .iter()
                    .all(|(id, size)| control.get(id).is_none_or(|of| of == size))
            );
        }
    }

    #[test]
    fn none_is_other_traffic_than_without_this_experiment() {
        let none = Mix {
            videos: 0.0,
            downloads: 0.0,
            is_constant: false,
        };
        assert_eq!(
            none.traffic(US, 3).unwrap().accesses,
            US.traffic("us", 3).unwrap().accesses
        );
    }

    #[test]
    fn a_mix_whose_gains_do_not_count_is_shown() {
        let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1).unwrap();
        let sweep = experiment.sweep(Scale::Full);
        let mix = Mix {
            videos: 0.1,
            downloads: 0.1,
            is_constant: false,
        };
        let of = |gain, variation, c| Found {
            mix,
            gains: [gain, 1.9],
            variation: [0.1, variation],
            c: [c, 1.0],
        };
        assert_eq!(Shown::by(&[], sweep), None);
        assert_eq!(
            Shown::by(&[&of(1.1, 3.8, 5.0)], sweep),
            None,
            "a gain over Nginx below its range"
        );
        let found = [
            of(1.1, 3.8, 5.0),
            of(1.5, 1.9, 2.5),
            of(1.5, 5.0, 1.5),
            of(1.5, 2.5, 2.0),
        ];
        let found = found.each_ref();
        assert_eq!(
            Shown::by(&found[..3], sweep),
            Some(Shown {
                variation: 5.0,
                c: 2.5,
                both: 0.0
            })
        );
        assert_eq!(
            Shown::by(&found, sweep),
            Some(Shown {
                variation: 5.0,
                c: 2.5,
                both: 1.0
            })
        );
    }

    #[test]
    fn both_are_shown_by_other_bands_than_each() {
        let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1).unwrap();
        let band = |id: &str| {
            experiment
                .claims
                .iter()
                .find(|claim| claim.id == id)
                .unwrap()
                .band
        };
        for sweep in [Scale::Full, Scale::Quick].map(|scale| experiment.sweep(scale)) {
            assert_eq!(
                (band("day-variation"), band("day-c")[0]),
                (sweep.variation, sweep.published_c)
            );
        }
    }
}
