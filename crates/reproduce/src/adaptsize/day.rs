//! Hours of the day: whether a mix of traffic that changes over the day shows two published results
//! that traffic without hours does not show. These are how much AdaptSize steadies the hit
//! ratio (section 5.1.1) and how much c changes within a day (section 5.1.3).
//!
//! The share of larger objects rises from none at night to its peak at noon and falls again, as
//! (1 − cos) / 2 of five days, which is the length of the published US trace. The larger objects
//! are videos or downloads as in [`Class`], with the locality of the web's, and with as many bytes
//! before the cut at [`LARGEST`].

use super::nginx::{Occupied, Uses};
use super::production::{DAYS, of_day, steadier};
use super::replays::{Catalogue, Run, Traffic, variation};
use crate::cell::{measure_all, units};
use crate::statistics::greatest;
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
    /// The shares of requests for larger objects at noon.
    peaks: Vec<f64>,
    /// The published improvement of the variation.
    published_variation: f64,
    /// A mix counts if AdaptSize's gains over Nginx and over Varnish are in these ranges.
    gains: [[f64; 2]; 2],
}

/// The largest object of the published traces, bytes.
const LARGEST: u64 = 1_600_000_000;

/// What changes over the day.
#[derive(Clone, Copy)]
struct Hours {
    /// The larger objects. [`Class::Web`] has none.
    class: Class,
    /// Their share of the requests at noon.
    peak: f64,
}

impl Hours {
    fn name(self) -> String {
        let Hours { class, peak } = self;
        match class {
            Class::Web => "no hours".to_owned(),
            Class::Video => format!("videos, {peak}"),
            Class::Download => format!("downloads, {peak}"),
        }
    }

    /// Returns `us` with as many of its requests for larger objects as the hours say.
    fn traffic(self, us: Catalogue, seed: u64) -> Result<Traffic, Error> {
        let mut stream = Streams::new(seed).stream("hours of the day");
        let day = us.requests as f64 / DAYS as f64;
        let share = |nth: usize| self.peak * (1.0 - (TAU * nth as f64 / day).cos()) / 2.0;
        let is_larger: Vec<bool> = (0..us.requests).map(|nth| stream.unit() < share(nth)).collect();
        let requests = is_larger.iter().filter(|is_larger| **is_larger).count();
        let (factor, first_id) = (u64::from(self.class.factor()), us.objects as u64);
        let objects = us.objects.div_ceil(self.class.factor() as usize);
        let larger = Catalogue { objects, requests, ..us }.traffic("larger", stream.bits())?;
        let magnified =
            |access: Access| Access { id: access.id + first_id, size: (access.size * factor).min(LARGEST), ..access };
        let mut larger = larger.accesses.into_iter().map(magnified);
        let web = Catalogue { requests: us.requests - requests, ..us }.traffic("us", seed)?;
        let mut web = web.accesses.into_iter();
        let next = |is_larger| if is_larger { larger.next() } else { web.next() };
        let cdn = us.cdn(seed)?;
        let times = cdn.requests().map(|access| access.now);
        let accesses = is_larger.into_iter().filter_map(next).zip(times);
        Ok(Traffic::new(self.name(), accesses.map(|(access, now)| Access { now, ..access }).collect()))
    }
}

/// The results of a mix.
struct Found {
    hours: Hours,
    /// The gains of AdaptSize(Chance) over Nginx and over Varnish.
    gains: [f64; 2],
    /// The coefficient of variation of AdaptSize's hit ratio, and the lesser of Nginx' and
    /// Varnish's as a multiple of it.
    variation: [f64; 2],
    /// The greatest c within a day over the least, of Chance and of Threshold.
    c: [f64; 2],
}

impl Found {
    fn counts(&self, sweep: &Sweep) -> bool {
        let is_in = |(gain, [least, most]): (&f64, [f64; 2])| (least..=most).contains(gain);
        self.gains.iter().zip(sweep.gains).all(is_in)
    }
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition("traffic", format!("{}; {DAYS} days; a quarter to warm up", sweep.us.conditions()));
    section.condition("cache", format!("{} bytes", sweep.capacity));
    let mut found = vec![measure(sweep, Hours { class: Class::Web, peak: 0.0 }, request, watch)?];
    for class in [Class::Video, Class::Download] {
        for &peak in &sweep.peaks {
            found.push(measure(sweep, Hours { class, peak }, request, watch)?);
        }
    }
    let counted: Vec<&Found> = found[1..].iter().filter(|found| found.counts(sweep)).collect();
    let distance = |variation: f64| (variation / sweep.published_variation).ln().abs();
    let nearest = counted.iter().map(|found| found.variation[1]).min_by(|a, b| distance(*a).total_cmp(&distance(*b)));
    section.measured("day-variation", nearest.unwrap_or(f64::NAN));
    section.measured("day-c", greatest(counted.iter().map(|found| found.c[0])));
    let none = &found[0];
    section.measured("day-none-variation", none.variation[1]);
    section.measured("day-none-c", none.c[0]);
    let names: Vec<String> = found.iter().map(|found| found.hours.name()).collect();
    let bars = |of: fn(&Found) -> f64| found.iter().enumerate().map(|(at, found)| (at as f64, of(found))).collect();
    let series = vec![
        Series::bars("rivals' variation over AdaptSize's", bars(|found| found.variation[1])),
        Series::bars("greatest c of a day over the least", bars(|found| found.c[0])),
    ];
    section.named_figure("day", names.iter().map(String::as_str), series);
    section.table("Hours of the day", HEADER, found.iter().map(|found| row(found, sweep)).collect());
    section.judged()
}

const HEADER: [&str; 8] = [
    "larger objects, share at noon",
    "over Nginx",
    "over Varnish",
    "counts",
    "AdaptSize's variation",
    "Nginx' or Varnish's, of it",
    "c of Chance in a day",
    "c of Threshold in a day",
];

fn row(found: &Found, sweep: &Sweep) -> Vec<String> {
    let Found { hours, gains, variation, c } = found;
    let counts = if found.counts(sweep) { "yes" } else { "no" };
    let shown = |values: [f64; 2], digits: usize| values.map(|value| format!("{value:.digits$}"));
    let gains = shown(*gains, 3).into_iter().chain([counts.to_owned()]);
    [hours.name()].into_iter().chain(gains).chain(shown(*variation, 4)).chain(shown(*c, 2)).collect()
}

fn measure(sweep: &Sweep, hours: Hours, request: &Request<'_>, watch: &dyn Watch) -> Result<Found, Error> {
    // The seed is that of the other experiments' US trace.
    let traffic = hours.traffic(sweep.us, request.seed + 1)?;
    let warm_up = sweep.us.requests / 4;
    let run = |spec: &str| Run { traffic: &traffic, spec: spec.to_owned(), capacity: sweep.capacity, warm_up };
    let runs: Vec<Run<'_>> = ["adaptsize(chance)+lru", "adaptsize(threshold)+lru", "lru"].map(run).into();
    watch.begin(&hours.name(), units(&runs));
    let found = measure_all(runs, request, watch)?;
    let limits = [sweep.capacity, warm_up as u64];
    let (_, nginx) = sweep.nginx.tuned(&traffic, limits, Occupied::Body, request, watch)?;
    let [chance, threshold, varnish] = &found[..] else {
        return Err(Error(format!("experiments/{}: a system was not measured", FILE.0)));
    };
    Ok(Found {
        hours,
        gains: [&nginx, varnish].map(|rival| chance.hit_ratio / rival.hit_ratio),
        variation: [variation(chance), steadier(chance, [&nginx, varnish])],
        c: [chance, threshold].map(of_day),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Catalogue = Catalogue { objects: 5_120, requests: 50_000, exponent: 0.9, windows: Some(0.05) };

    #[test]
    fn the_day_has_no_noon_or_loses_requests() {
        let hours = Hours { class: Class::Download, peak: 0.3 };
        let traffic = hours.traffic(US, 1).unwrap();
        assert_eq!(traffic.accesses.len(), US.requests);
        // The eighths of a day: midnight is in the first and the last one, noon between the fourth
        // and the fifth.
        let share = |accesses: &[Access]| {
            accesses.iter().filter(|access| access.id >= 5_120).count() as f64 / accesses.len() as f64
        };
        let parts: Vec<f64> = traffic.accesses.chunks(US.requests / DAYS / 8).map(share).collect();
        for day in parts.chunks(8) {
            assert!(day[0] < 0.05 && day[7] < 0.05 && (0.25..0.33).contains(&day[3]), "{day:?}");
        }
        let largest = traffic.accesses.iter().map(|access| access.id).max().unwrap();
        assert!(largest < 5_120 + 10, "5,120 / 512 objects");
        assert!((share(&traffic.accesses) - 0.15).abs() < 0.01, "the mean of (1 - cos) / 2 is a half");
    }

    #[test]
    fn no_hours_are_other_traffic_than_without_this_experiment() {
        let traffic = Hours { class: Class::Web, peak: 0.0 }.traffic(US, 3).unwrap();
        assert_eq!(traffic.accesses, US.traffic("us", 3).unwrap().accesses);
    }
}
