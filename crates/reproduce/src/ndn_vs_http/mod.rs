//! `ndn-vs-http`: a file to many clients, over NDN and over HTTP, on clean and on lossy links, with
//! real programs on the testbed's links.
//!
//! It needs root, and lighttpd, Squid and wget as Debian packages them. Rates, file and clients are
//! scaled to one machine. Each experiment states how.

mod applications;
mod cell;
mod cells;
mod clean;
mod configurations;
mod lossy;
mod names;
mod peak;
mod programs;
mod simulated;
mod tcp;
mod tree;
mod varied;

use crate::statistics::{self, Confidence, median};
use crate::{Error, Paper, Request, Section};
use larder_figure::Series;

pub(crate) const PAPER: Paper = Paper {
    name: "ndn-vs-http",
    citation: "Yuan, Crowley, Experimental evaluation of content distribution with NDN and HTTP, IEEE INFOCOM Mini-Conference, 2013",
    experiments: &[
        ("large", clean::run_large),
        ("lossy", lossy::run),
        ("peak", peak::run),
        ("simulated", simulated::run),
        ("clean", clean::run),
        ("gigabit", clean::run_gigabit),
        ("tcp", tcp::run),
        ("varied", varied::run),
        (applications::NAME, applications::run),
    ],
    testbed: &[],
    minutes: &[
        ("large", [1, 7]),
        ("lossy", [3, 33]),
        ("peak", [1, 3]),
        ("simulated", [1, 5]),
        ("clean", [1, 45]),
        ("gigabit", [1, 7]),
        ("tcp", [1, 9]),
        ("varied", [1, 10]),
        (applications::NAME, [1, 12]),
    ],
    builds_networks: true,
    with_applications: Some(applications::NAME),
    requirements: |request| {
        let has_applications = request.experiments().any(|name| name == applications::NAME);
        if has_applications || request.applications.is_some() {
            applications::check(request, has_applications)?;
        }
        cells::check_requirements(
            request
                .experiments()
                .any(|name| !["tcp", applications::NAME].contains(&name)),
        )
    },
};

impl From<larder_testbed::Error> for Error {
    fn from(error: larder_testbed::Error) -> Self {
        Error(format!("testbed: {error}"))
    }
}

/// States the forwarder that ran in place of Larder's node, if one did.
fn state_forwarder(section: &mut Section, request: &Request<'_>) {
    if let Some(command) = request.forwarder {
        section.condition("nodes that only forward, in place of Larder's", command);
    }
}

/// Returns a mean and half the width of its 90 % interval, as in the paper's figures.
fn mean_and_interval(runs: &[f64]) -> (f64, f64) {
    statistics::mean_and_interval(runs, Confidence::Ninety)
}

/// Returns a value as text for a table; a dash if it was not measured.
fn shown(value: f64) -> String {
    if value.is_finite() {
        format!("{value:.2}")
    } else {
        "\u{2013}".to_owned()
    }
}

/// Returns a line with intervals from x, mean and half the interval's width.
fn series(name: impl Into<String>, points: &[(f64, f64, f64)]) -> Series {
    let line = Series::line(
        name,
        points.iter().map(|(x, mean, _)| (*x, *mean)).collect(),
    );
    line.with_interval(
        points
            .iter()
            .map(|(_, mean, half)| (mean - half, mean + half))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Scale};

    #[test]
    fn the_files_are_read_after_the_network_was_built() {
        let clean = Experiment::<clean::Sweep>::parse(clean::FILE.0, clean::FILE.1).unwrap();
        let large = Experiment::<clean::Sweep>::parse(clean::LARGE.0, clean::LARGE.1).unwrap();
        let gigabit =
            Experiment::<clean::Sweep>::parse(clean::GIGABIT.0, clean::GIGABIT.1).unwrap();
        let peak = Experiment::<peak::Sweep>::parse(peak::FILE.0, peak::FILE.1).unwrap();
        let simulated =
            Experiment::<simulated::Sweep>::parse(simulated::FILE.0, simulated::FILE.1).unwrap();
        let lossy = Experiment::<lossy::Sweep>::parse(lossy::FILE.0, lossy::FILE.1).unwrap();
        for scale in [Scale::Quick, Scale::Full] {
            let sweep = lossy.sweep(scale);
            assert!(clean.sweep(scale).runs > 0 && large.sweep(scale).runs > 0 && sweep.runs > 0);
            assert!(
                gigabit.sweep(scale).runs > 0
                    && peak.sweep(scale).runs > 0
                    && simulated.sweep(scale).seeds > 0
            );
            assert!(sweep.network(sweep.greatest()).unwrap().rate.is_some());
        }
        let of = [
            &clean.claims,
            &large.claims,
            &gigabit.claims,
            &lossy.claims,
            &peak.claims,
            &simulated.claims,
        ];
        assert_eq!(of.map(|claims| claims.len()), [8, 4, 4, 25, 4, 7]);
    }
}
