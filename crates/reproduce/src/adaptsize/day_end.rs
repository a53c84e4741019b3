//! Whether c changes within a day of `day`, or at the end of its traffic only. The windows of the
//! requests end there, so that the last part has other traffic than those before.

use super::day::Mix;
use super::production::{mirrored, most_of_day, of_day, settled_c};
use super::replays::{Catalogue, ReplayResult, Run};
use crate::cell::{measure_all, units};
use crate::statistics::{greatest, median};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use serde::Deserialize;
use std::collections::BTreeMap;

const FILE: (&str, &str) = experiment_file!("adaptsize/day-end.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    /// The traffic without larger objects.
    us: Catalogue,
    /// The capacity, bytes.
    capacity: u64,
    /// Mixes with hours of the day: the shares at noon of videos and of downloads.
    hours: Vec<[f64; 2]>,
    /// Mixes without hours, by the shares at noon of those with hours.
    constant: Vec<[f64; 2]>,
    /// Forms of AdaptSize, by the infixes of their claims.
    forms: BTreeMap<String, String>,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition(
        "traffic",
        format!("{}; a quarter to warm up", sweep.us.conditions()),
    );
    section.condition("cache", format!("{} bytes", sweep.capacity));
    let (mut rows, mut mirror_rows, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for (id, mixes, is_constant) in [
        ("hours", &sweep.hours, false),
        ("constant", &sweep.constant, true),
    ] {
        // By form, the change of c within a day of each mix, without the last part.
        let mut changes = vec![Vec::new(); sweep.forms.len()];
        let mut mirrors = Vec::new();
        for &[videos, downloads] in mixes {
            let mix = Mix {
                videos,
                downloads,
                is_constant,
            };
            // The seed is that of `day`.
            let traffic = mix.traffic(sweep.us, request.seed + 1)?;
            let warm_up = sweep.us.requests / 4;
            let run = |spec: &String| Run {
                traffic: &traffic,
                spec: spec.clone(),
                capacity: sweep.capacity,
                warm_up,
            };
            let runs: Vec<Run<'_>> = sweep.forms.values().map(run).collect();
            watch.begin(&mix.name(), units(&runs));
            let found = measure_all(runs, request, watch)?;
            for ((form, found), changes) in sweep.forms.keys().zip(&found).zip(&mut changes) {
                let (inside, all) = (of_day(found), settled_c(found));
                changes.push(inside);
                let last = all.last().copied().unwrap_or(f64::NAN) / 1024.0;
                let figures = [most_of_day(&all), inside].map(|change| format!("{change:.2}"));
                let names = [mix.name(), form.clone(), format!("{last:.1}")];
                rows.push(names.into_iter().chain(figures).collect());
            }
            let of = |form: &str| {
                sweep
                    .forms
                    .keys()
                    .zip(&found)
                    .find(|(name, _)| *name == form)
                    .map(|(_, found)| found)
            };
            if let Some((chance, threshold)) = of("deployed").zip(of("threshold")) {
                let correlation = mirrored(chance, threshold);
                mirrors.push(correlation);
                mirror_rows.push(vec![mix.name(), format!("{correlation:.2}")]);
            }
            if lines.is_empty() && is_constant {
                let course = |found: &ReplayResult| {
                    found
                        .timeline
                        .iter()
                        .filter_map(|(at, _, c)| Some((*at, (*c)?)))
                        .collect()
                };
                lines.extend(
                    sweep
                        .forms
                        .keys()
                        .zip(&found)
                        .map(|(form, found)| Series::line(form, course(found))),
                );
            }
        }
        section.measured_if_claimed(format!("day-end-{id}-mirrored"), median(mirrors));
        for (form, changes) in sweep.forms.keys().zip(changes) {
            section.measured_if_claimed(format!("day-end-{id}-{form}"), greatest(changes));
        }
    }
    section.figure("day-end", lines);
    let columns = [
        "traffic",
        "AdaptSize",
        "the last c, KiB",
        "the greatest c of a day over the least",
        "without the last part",
    ];
    section.table("c within a day", columns, rows);
    let columns = [
        "traffic",
        "correlation of the logarithms of c of Chance and Threshold, without the last part",
    ];
    section.table("The courses of c of both forms", columns, mirror_rows);
    section.judged()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_counts() {
        let timeline = (1..=40).map(|part| {
            (
                f64::from(part),
                0.5,
                Some(if part == 40 { 40.0 } else { 10.0 }),
            )
        });
        let found = ReplayResult {
            timeline: timeline.collect(),
            ..ReplayResult::default()
        };
        assert_eq!(
            (most_of_day(&settled_c(&found)), of_day(&found)),
            (4.0, 1.0)
        );
    }
}
