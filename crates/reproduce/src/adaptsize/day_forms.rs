//! What moves c of AdaptSize as published on traffic without hours of the day: its model, its
//! shape or its interval. The traffic is that of the controls of `day` in which it moves most.

use super::day::Mix;
use super::production::of_day;
use super::replays::{Catalogue, Run};
use crate::cell::{measure_all, units};
use crate::statistics::greatest;
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use serde::Deserialize;
use std::collections::BTreeMap;

const FILE: (&str, &str) = experiment_file!("adaptsize/day-forms.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    /// The traffic without larger objects.
    us: Catalogue,
    /// The capacity, bytes.
    capacity: u64,
    /// Mixes of larger objects without hours: the shares at noon of videos and of downloads in the
    /// mix with hours.
    mixes: Vec<[f64; 2]>,
    /// Forms of AdaptSize, by the infixes of their claims.
    forms: BTreeMap<String, String>,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition("traffic", format!("{}; a quarter to warm up", sweep.us.conditions()));
    section.condition("cache", format!("{} bytes", sweep.capacity));
    // By form, the change of c within a day of each mix.
    let mut changes = vec![Vec::new(); sweep.forms.len()];
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for &[videos, downloads] in &sweep.mixes {
        let mix = Mix { videos, downloads, is_constant: true };
        // The seed is that of `day`.
        let traffic = mix.traffic(sweep.us, request.seed + 1)?;
        let run = |spec: &String| Run {
            traffic: &traffic,
            spec: spec.clone(),
            capacity: sweep.capacity,
            warm_up: sweep.us.requests / 4,
        };
        let runs: Vec<Run<'_>> = sweep.forms.values().map(run).collect();
        watch.begin(&mix.name(), units(&runs));
        for (at, found) in measure_all(runs, request, watch)?.iter().enumerate() {
            let change = of_day(found);
            changes[at].push(change);
            rows.push(vec![mix.name(), found.spec.clone(), format!("{:.4}", found.hit_ratio), format!("{change:.2}")]);
            let course = found.timeline.iter().filter_map(|(at, _, c)| Some((*at, (*c)?)));
            if lines.len() < sweep.forms.len() {
                lines.push(Series::line(found.spec.clone(), course.collect()));
            }
        }
    }
    for (form, changes) in sweep.forms.keys().zip(changes) {
        section.measured_if_claimed(format!("day-forms-{form}"), greatest(changes));
    }
    section.figure("day-forms", lines);
    section.table("c within a day", ["traffic", "policy", "object hit ratio", "the greatest c over the least"], rows);
    section.judged()
}
