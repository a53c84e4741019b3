//! Archived reports: what is kept of a full run in the repository, and the code that it depends on.
//!
//! A run of some experiments replaces these in the archive of its paper. The others stay, with the
//! commit, the day and the load of their own runs. So a reproduction of many hours can be archived
//! in parts.

use crate::page::{Detail, headline, page};
use crate::{Error, Paper, Report, Request, Scale, Section};
use serde::Deserialize;

/// A file of an archived report: its name and its content.
pub type ArchivedFile = (&'static str, String);

/// What an archive had before a run. The default is an empty archive.
#[derive(Debug, Default)]
pub struct EarlierArchive {
    experiments: Vec<Section>,
    headline: String,
}

/// The part of `claims.json` that an archive keeps.
#[derive(Deserialize)]
struct Archived {
    paper: String,
    scale: Scale,
    seed: u64,
    experiments: Vec<Section>,
}

impl EarlierArchive {
    /// The file with the experiments.
    pub const CLAIMS: &str = "claims.json";
    /// The file with the figure at the head of the page, if there is one.
    pub const HEADLINE: &str = "headline.html";

    /// Reads the content of both files, for a request that adds to them.
    ///
    /// # Errors
    /// [`Error`] if the archive cannot be read, or has another paper, scale or seed.
    pub fn read(claims: &str, headline: String, request: &Request<'_>) -> Result<EarlierArchive, Error> {
        let archived: Archived = serde_json::from_str(claims).map_err(|error| Error(error.to_string()))?;
        let Archived { paper, scale, seed, experiments } = archived;
        if (&*paper, scale, seed) != (request.paper.name, request.scale, request.seed) {
            return Err(Error(format!("it has {paper} at the {scale} scale with seed {seed}")));
        }
        Ok(EarlierArchive { experiments, headline })
    }
}

impl Report {
    /// Returns the files that an archive keeps: `claims.json`, with commit and machine;
    /// `report.html` with the claims, the figure at its head and the coverage, without the other
    /// figures and the tables, which are most of its bytes; and that figure as `headline.html`, if
    /// there is one. Experiments of the earlier archive that this report lacks stay.
    pub fn archived(&self, earlier: &EarlierArchive) -> Vec<ArchivedFile> {
        let mut whole = self.clone();
        let is_new = |section: &&Section| !self.sections.iter().any(|new| new.name == section.name);
        whole.sections.extend(earlier.experiments.iter().filter(is_new).cloned());
        let place = |name: &str| self.all.iter().position(|known| *known == name);
        whole.sections.retain(|section| place(&section.name).is_some());
        whole.sections.sort_by_key(|section| place(&section.name));
        let optional = Paper::named(self.paper).ok().and_then(|paper| paper.with_applications);
        let is_wanted = |name: &&str| Some(*name) != optional || self.missing.contains(name);
        let is_there = |name: &&str| whole.sections.iter().any(|section| section.name == *name);
        whole.missing = self.all.iter().copied().filter(|name| is_wanted(name) && !is_there(name)).collect();
        whole.only.clear();
        let mut figure = headline(self);
        if figure.is_empty() {
            figure.clone_from(&earlier.headline);
        }
        let page = page(&whole, &figure, Detail::Claims);
        let mut files = vec![(EarlierArchive::CLAIMS, whole.claims_json()), ("report.html", page)];
        if !figure.is_empty() {
            files.push((EarlierArchive::HEADLINE, figure));
        }
        files
    }
}

/// The crates whose code decides the results of a paper, besides `reproduce` itself.
const CRATES: [(&str, &[&str]); 5] = [
    ("adaptsize", &["policy", "replay", "testbed", "node", "proxy", "http"]),
    ("chunk-size", &["netsim", "forwarder", "packet", "policy"]),
    ("clock", &["netsim", "forwarder", "packet", "transfer"]),
    ("filter", &["policy", "replay", "forwarder", "packet"]),
    (
        "ndn-vs-http",
        &[
            "testbed",
            "netsim",
            "node",
            "proxy",
            "http",
            "gateway",
            "forwarder",
            "packet",
            "client",
            "transfer",
            "policy",
        ],
    ),
];

/// Returns the directories, relative to the repository, whose code decides the results of a paper:
/// those of the deployed code, of the random streams, of the experiments, and of this crate.
pub fn sources(paper: &str) -> Vec<String> {
    let crates = CRATES.iter().find(|(name, _)| *name == paper).map_or(&[][..], |(_, crates)| crates);
    let own = ["crates/reproduce/src", "crates/reproduce/data", "crates/units/src"].map(str::to_owned);
    let experiments = format!("crates/reproduce/experiments/{paper}");
    own.into_iter().chain([experiments]).chain(crates.iter().map(|name| format!("crates/{name}/src"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Judged, Kind, Rows};

    fn judged(id: &str, band: [f64; 2]) -> Judged {
        Judged {
            id: id.to_owned(),
            kind: Kind::Order,
            published: None,
            expected: None,
            source: None,
            measured: Some(1.0),
            band,
            holds: true,
            known_failure: None,
            timed: false,
            covers: vec!["table I".to_owned()],
            says: "It is larger".to_owned(),
            reason: "Theory".to_owned(),
        }
    }

    /// A report of these experiments of `clock`, all run at one commit.
    fn report(names: &[&str], commit: &str, scale: Scale, rows: &Rows) -> Report {
        let request = Request { scale, ..Request::quick(Paper::named("clock").unwrap(), rows) };
        let mut report = Report::new(&request);
        for name in names {
            let text = "title = \"T\"\nshows = \"S\"\n[full]\n[quick]\n";
            let experiment = Experiment::<std::collections::HashMap<String, u64>>::parse("x", text).unwrap();
            let mut section = Section::new(&experiment, scale);
            (*name).clone_into(&mut section.name);
            commit.clone_into(&mut section.run.commit);
            section.claims = vec![judged(name, [0.5, f64::INFINITY]), judged("b", [f64::NEG_INFINITY, 2.0])];
            report.sections.push(section);
        }
        report.missing.retain(|missing| !names.contains(missing));
        report
    }

    fn claims(files: &[ArchivedFile]) -> String {
        files.iter().find(|(name, _)| *name == EarlierArchive::CLAIMS).unwrap().1.clone()
    }

    fn read(claims: &str, rows: &Rows) -> Result<EarlierArchive, Error> {
        EarlierArchive::read(claims, "<figure>".to_owned(), &Request::quick(Paper::named("clock").unwrap(), rows))
    }

    /// Failure: an archived part ends with the archive of another part, or counts for the wrong
    /// commit.
    #[test]
    fn a_part_of_an_archive_is_lost_or_stays_old() {
        let rows = Rows::default();
        let first = report(&["methods", "linear"], "first", Scale::Quick, &rows).archived(&EarlierArchive::default());
        let earlier = read(&claims(&first), &rows).unwrap();
        assert_eq!(earlier.experiments[0].claims, report(&["linear"], "", Scale::Quick, &rows).sections[0].claims);
        let files = report(&["methods"], "second", Scale::Quick, &rows).archived(&earlier);
        let json: serde_json::Value = serde_json::from_str(&claims(&files)).unwrap();
        let of =
            |at: usize| (json["experiments"][at]["name"].as_str(), json["experiments"][at]["run"]["commit"].as_str());
        assert_eq!([of(0), of(1)], [(Some("linear"), Some("first")), (Some("methods"), Some("second"))]);
        assert_eq!(json["experiments"].as_array().map(Vec::len), Some(2));
        assert_eq!(json["counts"]["order"], serde_json::json!({ "holding": 4, "judged": 4 }));
        assert_eq!(json["missing"], serde_json::json!(["dumbbell"]));
        let page = &files[1].1;
        assert!(page.contains("<code>first</code>") && page.contains("<code>second</code>"), "a run is not shown");
        assert_eq!(files[2], (EarlierArchive::HEADLINE, "<figure>".to_owned()), "the figure of the other part");
    }

    #[test]
    fn an_archive_mixes_scales_or_an_unreadable_one_is_replaced() {
        let rows = Rows::default();
        let full = report(&["linear"], "first", Scale::Full, &rows).archived(&EarlierArchive::default());
        let error = |text: &str| read(text, &rows).unwrap_err().to_string();
        assert_eq!(error(&claims(&full)), "it has clock at the full scale with seed 1");
        assert!(error("{}").contains("missing field"));
    }
}
