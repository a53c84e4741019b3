//! Reproductions of papers: runs their experiments with the deployed code, and compares each
//! published figure with the measured one.
//!
//! The crate has a common frame, and one module per paper. An experiment is a TOML file under
//! `experiments/PAPER/` of this crate, embedded here. It has its conditions at two scales, the axes
//! of its figures and its **claims**: what supports each ([`Kind`]), the published value, or the
//! expected value and its source, the band in which the measured value must lie, and the reason for
//! the width of the band. A band that was changed after a run says so. The paper's module turns the
//! conditions into the cells of a grid and knows how to measure one. The frame runs the cells on
//! all cores, stores their rows, and judges the claims. A claim that was not measured fails; a
//! value that is not a number is an error. Progress bars, files and the exit status belong to the
//! command line (`larder reproduce`).
//!
//! The crate is a host: it owns threads and the wall clock. Measurements without a clock do not
//! depend on the machine: the same seed gives the same figures.
//!
//! ```text
//!   experiments/PAPER/*.toml ──► Experiment ──► the paper's module: all cores ──► Section ──► Report ──► table, report.html, claims.json
//!   conditions, axes, claims     one scale      measured(id), figure, table       judged
//! ```
//!
//! Read first: [`reproduce`], [`Section`].
//!
//! ```
//! use larder_reproduce::Paper;
//!
//! assert!(Paper::named("philter").unwrap_err().to_string().contains("`filter`"));
//! ```
#![deny(unsafe_code)]

#[macro_use]
mod experiment;

mod adaptsize;
mod archive;
mod cell;
mod chunk_size;
mod claim;
mod clock;
mod colours;
mod coverage;
mod filter;
mod grid;
mod ndn_vs_http;
mod page;
mod programs;
mod provenance;
mod repeat;
mod report;
mod rows;
mod section;
mod site;
mod statistics;
mod work;

pub use archive::{ArchivedFile, EarlierArchive, sources};
pub use claim::{Claim, DrawnIn, Judged, Kind, KnownFailure, Quick, Stated, Verdict};
pub use coverage::{Coverage, CoveredItem, CoveringClaim};
pub use experiment::{Experiment, FigureText};
pub use provenance::{BUILD_COMMIT, Provenance};
pub use report::{Count, Report};
pub use rows::Rows;
pub use section::{Drawing, Section, Table};
pub use work::{Unwatched, Watch, on_all_cores, thread_time};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// A paper, and the way to reproduce it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The paper.
    pub paper: &'static Paper,
    /// The scale.
    pub scale: Scale,
    /// The seed of all random choices.
    pub seed: u64,
    /// A directory of traces to use in addition to the generated ones, for papers that support it
    /// ([`Paper::takes_traces`]).
    pub traces: Option<&'a Path>,
    /// Whether to run [`Paper::on_testbed`] in the place of [`Paper::experiments`].
    pub testbed: bool,
    /// The names of the experiments to run; empty for all.
    pub only: &'a [String],
    /// The shell command of a forwarder to run in place of Larder's node, for papers that support
    /// it ([`Paper::takes_forwarder`]).
    pub forwarder: Option<&'a str>,
    /// A directory of applications of other NDN implementations, for papers that support it
    /// ([`Paper::takes_applications`]): programs `NAME-producer OBJECT FILE`, which serves a file
    /// until it is killed, and `NAME-consumer OBJECT FILE`, which fetches it.
    pub applications: Option<&'a Path>,
    /// The rows that are finished, and the store for new ones.
    pub rows: &'a Rows,
}

impl Request<'_> {
    /// Returns the names of the experiments to run, in order.
    pub fn experiments(&self) -> impl Iterator<Item = &'static str> {
        self.runs().map(|(name, _)| *name)
    }

    fn runs(&self) -> impl Iterator<Item = &'static (&'static str, Run)> {
        self.paper
            .runs(self.testbed)
            .iter()
            .filter(|(name, _)| self.wants(name))
    }

    /// For tests: a paper's experiments at the quick scale.
    #[cfg(test)]
    fn quick<'a>(paper: &'static Paper, rows: &'a Rows) -> Request<'a> {
        let (traces, forwarder, applications) = (None, None, None);
        Request {
            paper,
            scale: Scale::Quick,
            seed: 1,
            traces,
            testbed: false,
            only: &[],
            forwarder,
            applications,
            rows,
        }
    }

    fn wants(&self, experiment: &str) -> bool {
        if self.only.is_empty() {
            return self.applications.is_some() || self.paper.with_applications != Some(experiment);
        }
        self.only.iter().any(|name| name == experiment)
    }
}

/// An experiment of a paper.
type Run = fn(&Request<'_>, &dyn Watch) -> Result<Section, Error>;

/// The scale of the experiments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Catalogue and cache scaled down together ([`Paper::minutes`]).
    #[default]
    Quick,
    /// The published conditions: minutes to hours ([`Paper::minutes`]).
    Full,
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scale::Quick => "quick",
            Scale::Full => "full",
        })
    }
}

/// A paper that can be reproduced.
pub struct Paper {
    /// Its short name, as typed.
    pub name: &'static str,
    /// Authors, title, where and when it was published.
    pub citation: &'static str,
    experiments: &'static [(&'static str, Run)],
    testbed: &'static [(&'static str, Run)],
    /// Minutes on two idle cores, at the quick scale and at the full one; 0 is less than one. Those
    /// of `filter` have half the processor time of the quick scale, times the ratio of the work,
    /// times 3 where a full cache exceeds the processor's caches; `readings` has half of what it
    /// took with half of the processors. The others were measured, at the full scale `testbed-hk`
    /// and `testbed-us` side by side, and `testbed-disk` beside other work.
    minutes: &'static [(&'static str, [u64; 2])],
    builds_networks: bool,
    /// The experiment that needs [`Request::applications`], and runs only with them.
    with_applications: Option<&'static str>,
    /// Checks that the programs and the privilege that a request needs are there.
    requirements: fn(&Request<'_>) -> Result<(), Error>,
}

/// The papers, in alphabetical order.
pub const PAPERS: &[Paper] = &[
    adaptsize::PAPER,
    chunk_size::PAPER,
    clock::PAPER,
    filter::PAPER,
    ndn_vs_http::PAPER,
];

impl Paper {
    /// Returns the names of its experiments, in the order in which they run. Their files have the
    /// same names.
    pub fn experiments(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.experiments.iter().map(|(name, _)| *name)
    }

    /// Returns the names of the experiments that run real servers beside Larder's, for a paper
    /// whose experiments also run without.
    pub fn on_testbed(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.testbed.iter().map(|(name, _)| *name)
    }

    /// Returns the estimated minutes of an experiment on two idle cores, or `None` if there is no
    /// estimate.
    pub fn minutes(&self, experiment: &str, scale: Scale) -> Option<u64> {
        let (_, [quick, full]) = self.minutes.iter().find(|(name, _)| *name == experiment)?;
        Some(if scale == Scale::Quick { *quick } else { *full })
    }

    /// Returns true if it builds networks of namespaces, which persist until they are removed. Such
    /// a paper ends by itself at [`Watch::is_stopped`].
    pub fn builds_networks(&self) -> bool {
        self.builds_networks
    }

    /// Checks that this machine has the programs and the privilege that the request needs.
    ///
    /// # Errors
    /// [`Error`] with the first missing program and its package, or the missing privilege.
    pub fn check_requirements(&self, request: &Request<'_>) -> Result<(), Error> {
        (self.requirements)(request)
    }

    /// Returns true if it can run another forwarder in place of Larder's node
    /// ([`Request::forwarder`]). These are the papers whose nodes are real programs.
    pub fn takes_forwarder(&self) -> bool {
        self.builds_networks
    }

    /// Returns true if it can run applications of other NDN implementations
    /// ([`Request::applications`]).
    pub fn takes_applications(&self) -> bool {
        self.with_applications.is_some()
    }

    /// The experiment that replays real traces.
    pub const WITH_TRACES: &str = adaptsize::WITH_TRACES;

    /// Returns true if it can replay real traces in addition to the generated ones
    /// ([`Request::traces`]).
    pub fn takes_traces(&self) -> bool {
        self.experiments
            .iter()
            .any(|(name, _)| *name == adaptsize::WITH_TRACES)
    }

    fn runs(&self, testbed: bool) -> &'static [(&'static str, Run)] {
        if testbed {
            self.testbed
        } else {
            self.experiments
        }
    }

    /// Returns the paper with this short name.
    ///
    /// # Errors
    /// [`Error`] with the existing names.
    pub fn named(name: &str) -> Result<&'static Paper, Error> {
        PAPERS
            .iter()
            .find(|paper| paper.name == name)
            .ok_or_else(|| {
                let known: Vec<String> = PAPERS
                    .iter()
                    .map(|paper| format!("`{}`", paper.name))
                    .collect();
                Error(format!(
                    "unknown paper `{name}`; the papers are {}",
                    known.join(", ")
                ))
            })
    }

    /// Checks that there is something to run: `only` may contain only names of its experiments, or
    /// of its testbed's.
    ///
    /// # Errors
    /// [`Error`] with the first unknown name and the known ones; or that the paper has no testbed,
    /// and which ones have.
    pub fn check(&self, testbed: bool, only: &[String]) -> Result<(), Error> {
        let known: Vec<&str> = self.runs(testbed).iter().map(|(name, _)| *name).collect();
        if known.is_empty() {
            let with: Vec<&str> = PAPERS
                .iter()
                .filter(|paper| !paper.testbed.is_empty())
                .map(|paper| paper.name)
                .collect();
            return Err(Error(format!(
                "`{}` has no experiments with --testbed; {} has",
                self.name,
                with.join(", ")
            )));
        }
        let unknown = only.iter().find(|name| !known.contains(&name.as_str()));
        unknown.map_or(Ok(()), |unknown| {
            Err(Error(format!(
                "`{}` has no experiment `{unknown}`; its experiments are {}",
                self.name,
                known.join(", ")
            )))
        })
    }
}

impl fmt::Debug for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Runs the experiments of a paper. Passes the report to `watch` after each ([`Watch::ended`]).
///
/// # Errors
/// [`Error`] if an experiment does not exist, if it could not measure what it claims, or if `watch`
/// could not store the report. A claim that does not hold is not an error: see
/// [`Report::unexpected_failures`].
pub fn reproduce(request: &Request<'_>, watch: &dyn Watch) -> Result<Report, Error> {
    request.paper.check(request.testbed, request.only)?;
    let mut report = Report::new(request);
    let minutes: Vec<(&str, u64)> = request
        .experiments()
        .filter_map(|name| Some((name, request.paper.minutes(name, request.scale)?)))
        .collect();
    if minutes.iter().any(|(_, minutes)| *minutes > 0) {
        let each: Vec<String> = minutes
            .iter()
            .map(|(name, minutes)| format!("{name} {minutes}"))
            .collect();
        let all: u64 = minutes.iter().map(|(_, minutes)| minutes).sum();
        watch.warn(&format!(
            "about {all} minutes on two idle cores: {}",
            each.join(", ")
        ));
    }
    for (name, run) in request.runs() {
        if watch.is_stopped() {
            return Err(Error::interrupted());
        }
        let run = || run(request, watch);
        let of_program = &report.provenance;
        let mut section = repeat::undisturbed(
            name,
            of_program,
            run,
            request,
            watch,
            Provenance::disturbance,
        )?;
        (*name).clone_into(&mut section.name);
        report.sections.push(section);
        report.missing.retain(|missing| missing != name);
        watch.ended(&report)?;
    }
    Ok(report)
}

/// The reason why a reproduction failed: one line.
#[derive(Debug)]
pub struct Error(pub(crate) String);

impl Error {
    fn interrupted() -> Error {
        Error("interrupted".into())
    }

    /// Returns an error with the text of its cause.
    pub(crate) fn from_cause(cause: impl fmt::Display) -> Error {
        Error(cause.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<String> for Error {
    fn from(line: String) -> Error {
        Error(line)
    }
}
