//! Figure 4: the effect of q and θ, by the equations and by replays, and the time that a threshold
//! takes to settle.

use super::replays::{Cell, Rates, Workload, filter, replay_all, spec, work};
use crate::{Error, Experiment, Request, Section, Watch, on_all_cores};
use larder_figure::Series;
use larder_replay::model::{self, FilterTable, Popularity, Prediction};
use larder_units::ByteSize;
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("filter/parameters.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    objects: u64,
    exponent: f64,
    capacity: u64,
    /// The values of q for the equations.
    windows: Vec<u64>,
    greatest_theta: u32,
    replays: Vec<Replayed>,
    reading: Reading,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replayed {
    window: u64,
    theta: u64,
    warm_up: u64,
    requests: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reading {
    /// The long history, 10 C.
    window: u64,
    /// The number of requests of a course from the empty cache.
    course: u64,
    /// The number of requests per point of the course.
    stretch: u64,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition(
        "workload",
        format!("web, {} objects, Zipf {}", sweep.objects, sweep.exponent),
    );
    section.condition("cache", format!("{} packets", sweep.capacity));

    let (cells, courses) = (sweep.cells()?, sweep.courses()?);
    watch.begin("q and the threshold", work(&cells) + work(&courses));
    let stretch = sweep.reading.stretch;
    let courses = on_all_cores(courses, |cell| cell.course(request.seed, stretch, watch));
    let courses = courses.into_iter().collect::<Result<Vec<_>, Error>>()?;
    let rates = replay_all(&cells, request, watch)?;

    let table = equations(&mut section, sweep, &rates)?;
    section.table(
        "Equations at every q and threshold: hit rate / insertion rate",
        table.0,
        table.1,
    );
    let long = sweep
        .replays
        .iter()
        .zip(&rates)
        .find(|(replay, _)| replay.window == sweep.reading.window && replay.theta == 2);
    if let Some((_, rates)) = long {
        section.measured("long-history-hits", rates.hit);
        section.measured("long-history-insertions", rates.insertion);
    }
    settle(&mut section, &courses, stretch);
    section.judged()
}

impl Sweep {
    pub(super) fn cells(&self) -> Result<Vec<Cell>, Error> {
        self.replays
            .iter()
            .map(|replayed| self.cell(replayed))
            .collect()
    }

    /// Returns the cells that start from the empty cache, with the thresholds 2 and 3.
    pub(super) fn courses(&self) -> Result<Vec<Cell>, Error> {
        let requests = self.reading.course;
        let course = |theta| {
            self.cell(&Replayed {
                window: self.capacity,
                theta,
                warm_up: 0,
                requests,
            })
        };
        [2, 3].into_iter().map(course).collect()
    }

    fn cell(&self, replayed: &Replayed) -> Result<Cell, Error> {
        let Replayed {
            window,
            theta,
            warm_up,
            requests,
        } = *replayed;
        let workload = Workload::Web {
            objects: self.objects,
            exponent: self.exponent,
        };
        let spec = spec(&filter(theta, window), self.capacity)?;
        Ok(Cell {
            workload,
            spec,
            capacity: self.capacity,
            warm_up,
            requests,
        })
    }
}

type Rows = (Vec<String>, Vec<Vec<String>>);

/// Adds the curves of figure 4, with the replays as points.
fn equations(section: &mut Section, sweep: &Sweep, rates: &[Rates]) -> Result<Rows, Error> {
    let popularity = Popularity::zipf(sweep.objects, sweep.exponent).ok_or_else(|| {
        Error(format!(
            "no Zipf distribution with exponent {} over {} objects",
            sweep.exponent, sweep.objects
        ))
    })?;
    let capacity = ByteSize::from_bytes(sweep.capacity);
    let thetas = 1..=sweep.greatest_theta;
    let curves: Vec<Vec<Prediction>> = on_all_cores(sweep.windows.clone(), |window| {
        let at = |theta| {
            model::filter(
                &popularity,
                capacity,
                FilterTable {
                    theta,
                    window,
                    slots: Some(1 << 24),
                },
            )
        };
        thetas.clone().map(at).collect()
    });
    let lines = |rate: fn(&Prediction) -> f64, measured: fn(&Rates) -> f64| {
        let x = thetas.clone().map(f64::from);
        let line = |(window, curve): (&u64, &Vec<Prediction>)| {
            Series::line(
                format!("q = {window}"),
                x.clone().zip(curve.iter().map(rate)).collect(),
            )
        };
        let points = sweep
            .replays
            .iter()
            .zip(rates)
            .map(|(replay, rates)| (replay.theta as f64, measured(rates)));
        let mut all: Vec<Series> = sweep.windows.iter().zip(&curves).map(line).collect();
        all.push(Series::points("replays", points.collect()));
        all
    };
    section.figure(
        "insertion",
        lines(|at| at.insertion_ratio, |rates| rates.insertion),
    );
    section.figure("hits", lines(|at| at.object_hit_ratio, |rates| rates.hit));

    let rows = sweep.replays.iter().zip(rates).map(|(replay, rates)| {
        let table = FilterTable {
            theta: replay.theta as u32,
            window: replay.window,
            slots: Some(1 << 24),
        };
        let model = model::filter(&popularity, capacity, table);
        let pair = |model: f64, measured: f64| format!("{model:.4} / {measured:.4}");
        let shown = [replay.window.to_string(), replay.theta.to_string()];
        let pairs = [
            pair(model.object_hit_ratio, rates.hit),
            pair(model.insertion_ratio, rates.insertion),
        ];
        shown.into_iter().chain(pairs).collect()
    });
    section.table(
        "Equations / replay",
        ["q", "threshold", "hit rate", "insertion rate"],
        rows.collect(),
    );

    let mut header = vec!["threshold".to_owned()];
    header.extend(sweep.windows.iter().map(|window| format!("q = {window}")));
    let row = |theta: u32| {
        let cells = curves.iter().map(|curve| curve[theta as usize - 1]);
        let cells =
            cells.map(|at| format!("{:.4} / {:.5}", at.object_hit_ratio, at.insertion_ratio));
        std::iter::once(theta.to_string()).chain(cells).collect()
    };
    Ok((header, thetas.clone().map(row).collect()))
}

/// Measures how long θ = 2 and θ = 3 take to settle.
fn settle(section: &mut Section, courses: &[Vec<f64>], stretch: u64) {
    let mut settled = Vec::new();
    let mut series = Vec::new();
    for (theta, course) in [2, 3].into_iter().zip(courses) {
        let last = course.last().copied().unwrap_or(f64::NAN);
        let at = course.iter().position(|hit| (last - hit).abs() < 0.01);
        settled.push(at.map_or(f64::NAN, |at| (at as f64 + 1.0) * stretch as f64));
        let points = course
            .iter()
            .enumerate()
            .map(|(at, hit)| ((at as f64 + 1.0) * stretch as f64, *hit));
        series.push(Series::line(format!("threshold {theta}"), points.collect()));
    }
    let last = |course: &Vec<f64>| course.last().copied().unwrap_or(f64::NAN);
    if let ([two, three], [course_of_2, course_of_3]) = (&settled[..], courses) {
        section.measured("theta-3-settles", *three);
        section.measured("theta-3-hits", last(course_of_3));
        section.measured("theta-2-to-3", last(course_of_2) / last(course_of_3));
        let rows = [("2", two), ("3", three)]
            .map(|(theta, at)| vec![theta.to_owned(), format!("{at:.2e}")]);
        section.table(
            "Requests until the hit rate is within a point of its last",
            ["threshold", "requests"],
            rows.into(),
        );
    }
    section.figure("course", series);
}
