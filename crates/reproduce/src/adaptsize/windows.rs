//! How the gains depend on temporal locality: the comparison at the typical size on traffic with
//! windows of several sizes, from those of the recorded trace with the most locality to independent
//! requests.

use super::nginx::{Occupied, Uses};
use super::replays::{Catalogue, Run, lookahead};
use crate::cell::{measure_all, units};
use crate::statistics::{greatest, least};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use serde::Deserialize;

const FILE: (&str, &str) = experiment_file!("adaptsize/windows.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    /// The traffic; `windows` replaces its windows.
    hk: Catalogue,
    /// The least windows, as shares of the trace. 1 leaves the requests independent.
    windows: Vec<f64>,
    /// The capacity, bytes.
    capacity: u64,
    nginx: Uses,
    lookahead_interval: u64,
    lookahead_window: u64,
    /// AdaptSize as published.
    published: String,
    /// The research policies, of which the best one counts.
    rivals: Vec<String>,
}

/// The compared values, in the order of the columns.
const GAINS: [(&str, &str); 4] = [
    ("nginx", "over Nginx"),
    ("varnish", "over Varnish"),
    ("next-best", "over the next best"),
    ("lookahead", "of LookAhead"),
];

/// The forms of AdaptSize whose gains are compared: infixes of the claims' and figures' ids, names.
const FORMS: [(&str, &str); 2] = [
    ("", "AdaptSize(Chance)"),
    ("published-", "AdaptSize as published"),
];

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition("cache", format!("{} bytes", sweep.capacity));
    let mut found = Vec::new();
    for least in &sweep.windows {
        let gains = gains(sweep, *least, request, watch);
        found.push(gains.map_err(|error| Error(format!("windows from {least} on: {error}")))?);
    }
    for (form, (infix, name)) in FORMS.into_iter().enumerate() {
        for (at, (id, _)) in GAINS.into_iter().enumerate() {
            let of = || found.iter().map(|gains| gains[form][at]);
            section.measured(format!("windows-{infix}{id}-least"), least(of()));
            section.measured(format!("windows-{infix}{id}-most"), greatest(of()));
        }
        let points = |at: usize| {
            sweep
                .windows
                .iter()
                .zip(&found)
                .map(move |(least, gains)| (*least, gains[form][at]))
        };
        let lines = GAINS
            .iter()
            .enumerate()
            .map(|(at, (_, says))| Series::line(*says, points(at).collect()));
        section.figure(&format!("{infix}windows"), lines.collect());
        let rows = sweep.windows.iter().zip(&found).map(|(least, gains)| {
            [least.to_string()]
                .into_iter()
                .chain(gains[form].iter().map(|gain| format!("{gain:.3}")))
                .collect()
        });
        let header = ["least window"]
            .into_iter()
            .chain(GAINS.iter().map(|(_, says)| *says));
        section.table(
            &format!("{name}: ratios of object hit ratios"),
            header,
            rows.collect(),
        );
    }
    section.judged()
}

/// Returns the values of [`GAINS`] with these windows, of each of [`FORMS`].
fn gains(
    sweep: &Sweep,
    least: f64,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<[[f64; GAINS.len()]; FORMS.len()], Error> {
    let traffic = Catalogue {
        windows: Some(least),
        ..sweep.hk
    }
    .traffic("hk", request.seed)?;
    let warm_up = sweep.hk.requests / 4;
    let ahead = lookahead("chance", [sweep.lookahead_interval, sweep.lookahead_window]);
    let forms = ["adaptsize(chance)+lru".to_owned(), sweep.published.clone()];
    let specs = [ahead, "lru".to_owned()]
        .into_iter()
        .chain(forms)
        .chain(sweep.rivals.iter().cloned());
    let run = |spec| Run {
        traffic: &traffic,
        spec,
        capacity: sweep.capacity,
        warm_up,
    };
    let runs: Vec<Run<'_>> = specs.map(run).collect();
    watch.begin(&format!("windows from {least} on"), units(&runs));
    let found = measure_all(runs, request, watch)?;
    let limits = [sweep.capacity, warm_up as u64];
    let (_, nginx) = sweep
        .nginx
        .tuned(&traffic, limits, Occupied::Body, request, watch)?;
    let [ahead, varnish, deployed, published, rivals @ ..] = found.as_slice() else {
        return Err(Error(format!(
            "experiments/{}: a system was not measured",
            FILE.0
        )));
    };
    let rival = greatest(rivals.iter().map(|found| found.hit_ratio));
    let others = [nginx.hit_ratio, varnish.hit_ratio, rival, ahead.hit_ratio];
    Ok([deployed, published].map(|form| others.map(|other| form.hit_ratio / other)))
}
