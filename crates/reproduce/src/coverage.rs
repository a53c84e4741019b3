//! What of a paper is covered: each table, figure, equation, algorithm and comparator, with the
//! claims that cover it.
//!
//! `experiments/PAPER/coverage.toml` lists the items. A claim names the ones that it covers
//! (`covers`). An item without a claim has a reason, or counts as missing.

use crate::{Error, Judged};
use serde::Deserialize;

/// The coverage of a paper.
#[derive(Clone, Debug)]
pub struct Coverage {
    /// All items, in the order of `coverage.toml`.
    pub items: Vec<CoveredItem>,
}

/// An item of a paper.
#[derive(Clone, Debug)]
pub struct CoveredItem {
    /// Its name in the paper: "figure 8".
    pub name: String,
    /// What it is or says.
    pub what: String,
    /// Why no claim covers it, if there is a reason.
    pub reason: Option<String>,
    /// The claims that cover it.
    pub claims: Vec<CoveringClaim>,
}

/// A claim that covers an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoveringClaim {
    /// The claim's id.
    pub id: String,
    /// Its experiment.
    pub experiment: &'static str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Items {
    item: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    name: String,
    what: String,
    #[serde(default)]
    reason: Option<String>,
}

/// The part of an experiment's file that says what it covers.
#[derive(Deserialize)]
struct Claims {
    #[serde(default, rename = "claim")]
    claims: Vec<Covers>,
}

#[derive(Deserialize)]
struct Covers {
    id: String,
    #[serde(default)]
    covers: Vec<String>,
}

/// A paper, its `coverage.toml`, and its experiments' files, by name.
struct Files {
    paper: &'static str,
    items: &'static str,
    experiments: &'static [(&'static str, &'static str)],
}

macro_rules! files {
    ($paper:literal: $($name:literal)*) => {
        Files {
            paper: $paper,
            items: experiment_file!($paper, "coverage"),
            experiments: &[$(($name, experiment_file!($paper, $name))),*],
        }
    };
}

/// The files of all papers. A test compares them with the directory.
const FILES: [Files; 5] = [
    files!("adaptsize": "traces" "locality" "production-local" "production" "research-local" "research" "systems" "windows" "day" "day-end"
        "second-level" "sensitivity" "intervals" "constant-c" "constant-c-crowds" "flash-crowd" "flash-chunks" "flash-local" "traffic-mix" "mix-chunks" "cost" "public" "testbed-hk" "testbed-us" "testbed-throughput" "testbed-gigabits" "testbed-change" "testbed-disk" "testbed-published"),
    files!("chunk-size": "figures" "ndnsim" "ambiguities" "skew" "beyond"),
    files!("clock": "linear" "dumbbell" "methods"),
    files!("filter": "hit-rates" "sizes" "readings" "published-cycles" "parameters" "collisions" "cycles"),
    files!("ndn-vs-http": "large" "lossy" "peak" "simulated" "clean" "gigabit" "tcp" "varied" "applications"),
];

impl Coverage {
    /// Reads the coverage of a paper from its embedded files.
    ///
    /// # Errors
    /// [`Error`] with the file and the fault: it cannot be parsed, an item stands twice, a claim
    /// covers an item that is not listed, or an item has a reason although a claim covers it.
    pub fn of(paper: &str) -> Result<Coverage, Error> {
        let files = FILES.iter().find(|files| files.paper == paper);
        let files = files.ok_or_else(|| Error(format!("`{paper}` has no coverage.toml")))?;
        Coverage::parse(paper, files.items, files.experiments)
    }

    fn parse(
        paper: &str,
        items: &str,
        experiments: &[(&'static str, &str)],
    ) -> Result<Coverage, Error> {
        let fault = |file: &str, what: &dyn std::fmt::Display| {
            Error(format!("experiments/{paper}/{file}.toml: {what}"))
        };
        let Items { item } =
            toml::from_str(items).map_err(|error| fault("coverage", &error.message()))?;
        let mut coverage = Coverage {
            items: Vec::with_capacity(item.len()),
        };
        for Item { name, what, reason } in item {
            if coverage.items.iter().any(|other| other.name == name) {
                return Err(fault("coverage", &format!("`{name}` stands twice")));
            }
            coverage.items.push(CoveredItem {
                name,
                what,
                reason,
                claims: Vec::new(),
            });
        }
        for &(experiment, text) in experiments {
            let Claims { claims } =
                toml::from_str(text).map_err(|error| fault(experiment, &error.message()))?;
            for (id, name) in claims
                .iter()
                .flat_map(|claim| claim.covers.iter().map(|name| (&claim.id, name)))
            {
                let Some(item) = coverage.items.iter_mut().find(|item| item.name == *name) else {
                    return Err(fault(
                        experiment,
                        &format!("claim `{id}` covers `{name}`, which coverage.toml lacks"),
                    ));
                };
                item.claims.push(CoveringClaim {
                    id: id.clone(),
                    experiment,
                });
            }
        }
        if let Some(item) = coverage
            .items
            .iter()
            .find(|item| item.reason.is_some() && !item.claims.is_empty())
        {
            return Err(fault(
                "coverage",
                &format!("`{}` has a reason for no claim, and has claims", item.name),
            ));
        }
        Ok(coverage)
    }

    /// Returns the number of items with claims, with a reason for none, and with neither.
    pub fn counts(&self) -> [usize; 3] {
        let covered = self
            .items
            .iter()
            .filter(|item| !item.claims.is_empty())
            .count();
        let explained = self
            .items
            .iter()
            .filter(|item| item.reason.is_some())
            .count();
        [covered, explained, self.items.len() - covered - explained]
    }
}

impl CoveredItem {
    /// Returns the files of its claims, each once.
    pub fn files(&self) -> Vec<String> {
        let mut files: Vec<String> = Vec::new();
        for claim in &self.claims {
            let file = format!("{}.toml", claim.experiment);
            if !files.contains(&file) {
                files.push(file);
            }
        }
        files
    }

    /// Returns the state without a report: the number of claims, the reason for none, or "missing".
    pub fn plan(&self) -> String {
        match (self.claims.len(), &self.reason) {
            (0, Some(reason)) => format!("no claim: {reason}"),
            (0, None) => "missing".to_owned(),
            (1, _) => "1 claim".to_owned(),
            (claims, _) => format!("{claims} claims"),
        }
    }

    /// Returns the state after a run with these claims: how many of the item's hold.
    pub fn state(&self, all: &[&Judged]) -> String {
        let judged: Vec<bool> = self
            .claims
            .iter()
            .filter_map(|claim| all.iter().find(|judged| judged.id == claim.id))
            .map(|judged| judged.holds)
            .collect();
        match (judged.len(), self.claims.len()) {
            (_, 0) => self.plan(),
            (0, all) => format!("not judged in this run, {all} claims"),
            (some, _) => format!(
                "{} of {some} hold",
                judged.iter().filter(|holds| **holds).count()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, PAPERS};

    /// Failure: an experiment's claims are left out of the coverage, or a claim covers an item that
    /// the paper does not have; an id stands twice in a file, which a run alone would show.
    #[test]
    fn a_file_is_left_out_or_covers_something_else() {
        for paper in PAPERS {
            let files = FILES
                .iter()
                .find(|files| files.paper == paper.name)
                .unwrap();
            let mut listed: Vec<&str> = files.experiments.iter().map(|(name, _)| *name).collect();
            let mut run: Vec<&str> = paper.experiments().chain(paper.on_testbed()).collect();
            listed.sort_unstable();
            run.sort_unstable();
            assert_eq!(
                listed, run,
                "coverage.rs lists other files of {}",
                paper.name
            );
            for (name, text) in files.experiments {
                Experiment::<toml::Table>::parse(name, text)
                    .unwrap_or_else(|error| panic!("{error}"));
            }
            let coverage = Coverage::of(paper.name).unwrap_or_else(|error| panic!("{error}"));
            assert!(coverage.items.len() > 5, "{}", paper.name);
        }
    }

    #[test]
    fn an_item_without_a_claim_passes_for_covered() {
        let items = "[[item]]\nname = \"figure 1\"\nwhat = \"w\"\n[[item]]\nname = \"figure 2\"\nwhat = \"w\"\n\
                     [[item]]\nname = \"table 1\"\nwhat = \"w\"\nreason = \"No figures in it.\"\n";
        let claims = "[[claim]]\nid = \"a\"\ncovers = [\"figure 1\"]\n[[claim]]\nid = \"b\"\n";
        let parse =
            |items: &str, claims: &str| Coverage::parse("paper", items, &[("file", claims)]);
        let coverage = parse(items, claims).unwrap();
        assert_eq!(coverage.counts(), [1, 1, 1]);
        let plans: Vec<String> = coverage.items.iter().map(CoveredItem::plan).collect();
        assert_eq!(plans, ["1 claim", "missing", "no claim: No figures in it."]);
        assert_eq!(coverage.items[0].files(), ["file.toml"]);
        for (items, claims, words) in [
            (
                items.to_owned(),
                claims.replace("figure 1", "figure 9"),
                "claim `a` covers `figure 9`",
            ),
            (
                items.to_owned(),
                claims.replace("figure 1", "table 1"),
                "`table 1` has a reason",
            ),
            (
                items.replace("figure 2", "figure 1"),
                claims.to_owned(),
                "`figure 1` stands twice",
            ),
            (
                items.replace("what", "text"),
                claims.to_owned(),
                "coverage.toml: ",
            ),
        ] {
            let error = parse(&items, &claims).unwrap_err().to_string();
            assert!(
                error.contains(words) && error.contains("experiments/paper/"),
                "{error}"
            );
        }
    }
}
