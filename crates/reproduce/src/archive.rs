//! Archived reports: what is kept of a full run in the repository, and the code that it depends on.
//!
//! A run of some experiments replaces these in the archive of its paper. The others stay, with the
//! commit, the day and the load of their own runs. So a reproduction of many hours can be archived
//! in parts. Experiments that the paper no longer has are left out.

use crate::page::{Detail, headline, page};
use crate::{Error, Paper, Report, Scale, Section};
use serde::Deserialize;

/// A file of an archived report: its name and its content.
pub type ArchivedFile = (&'static str, String);

/// What an archive has before a run. The default is an empty archive.
#[derive(Debug, Default)]
pub struct EarlierArchive {
    experiments: Vec<Section>,
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

    /// Reads the content of this file, for a run that adds to it.
    ///
    /// # Errors
    /// [`Error`] if it cannot be read, or has another paper, scale or seed.
    pub fn read(claims: &str, run: (&str, Scale, u64)) -> Result<EarlierArchive, Error> {
        let archived: Archived =
            serde_json::from_str(claims).map_err(|error| Error(error.to_string()))?;
        let Archived {
            paper,
            scale,
            seed,
            experiments,
        } = archived;
        if (&*paper, scale, seed) != run {
            return Err(Error(format!(
                "it has {paper} at the {scale} scale with seed {seed}"
            )));
        }
        Ok(EarlierArchive { experiments })
    }
}

impl Report {
    /// Returns the files that an archive keeps: `claims.json`, with commit and machine, and
    /// `report.html`, without the figures below its head, which are most of its bytes. Experiments
    /// of the earlier archive that this report lacks stay.
    pub fn archived(&self, earlier: &EarlierArchive) -> [ArchivedFile; 2] {
        let mut whole = self.clone();
        for section in &mut whole.sections {
            section.headline = headline(section);
        }
        let stays = |section: &&Section| !self.sections.iter().any(|new| new.name == section.name);
        whole
            .sections
            .extend(earlier.experiments.iter().filter(stays).cloned());
        let place = |name: &str| self.all.iter().position(|known| *known == name);
        whole
            .sections
            .retain(|section| place(&section.name).is_some());
        whole.sections.sort_by_key(|section| place(&section.name));
        let optional = Paper::named(self.paper)
            .ok()
            .and_then(|paper| paper.with_applications);
        let is_wanted = |name: &&str| Some(*name) != optional || self.missing.contains(name);
        let is_there = |name: &&str| whole.sections.iter().any(|section| section.name == *name);
        whole.missing = self
            .all
            .iter()
            .copied()
            .filter(|name| is_wanted(name) && !is_there(name))
            .collect();
        whole.only.clear();
        [
            (EarlierArchive::CLAIMS, whole.claims_json()),
            ("report.html", page(&whole, Detail::OneFigure)),
        ]
    }
}

/// The crates whose code decides the results of a paper, besides `reproduce` itself.
const CRATES: [(&str, &[&str]); 5] = [
    (
        "adaptsize",
        &["policy", "replay", "testbed", "node", "proxy", "http"],
    ),
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
    let crates = CRATES
        .iter()
        .find(|(name, _)| *name == paper)
        .map_or(&[][..], |(_, crates)| crates);
    let own = [
        "crates/reproduce/src",
        "crates/reproduce/data",
        "crates/units/src",
    ]
    .map(str::to_owned);
    let experiments = format!("crates/reproduce/experiments/{paper}");
    own.into_iter()
        .chain([experiments])
        .chain(crates.iter().map(|name| format!("crates/{name}/src")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::Drawing;
    use crate::{Experiment, Judged, Kind, Request, Rows};
    use larder_figure::{Axis, Figure, Series};

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

    fn headline_figure(commit: &str) -> Drawing {
        let figure = Figure {
            title: format!("Figure of {commit}"),
            x: Axis::linear("x"),
            y: Axis::linear("y"),
            series: vec![Series::line("s", vec![(0.0, 1.0), (1.0, 2.0)])],
        };
        Drawing {
            id: "f".to_owned(),
            figure,
            is_headline: true,
            captions: Vec::new(),
        }
    }

    /// A report of these experiments of `clock`, all run at one commit.
    fn report(names: &[&str], commit: &str, scale: Scale, rows: &Rows) -> Report {
        let request = Request {
            scale,
            ..Request::quick(Paper::named("clock").unwrap(), rows)
        };
        let mut report = Report::new(&request);
        for name in names {
            let text = "title = \"T\"\nshows = \"S\"\n[full]\n[quick]\n";
            let experiment =
                Experiment::<std::collections::HashMap<String, u64>>::parse("x", text).unwrap();
            let mut section = Section::new(&experiment, scale);
            (*name).clone_into(&mut section.name);
            commit.clone_into(&mut section.run.commit);
            section.run.steal_percent = 0.025_320_729_237_002_026;
            if *name == "linear" {
                section.figures.push(headline_figure(commit));
                section.table(
                    &format!("Table of {commit}"),
                    ["x", "y"],
                    vec![vec!["1".to_owned(), "2".to_owned()]],
                );
            }
            section.claims = vec![
                judged(name, [0.5, f64::INFINITY]),
                judged("b", [f64::NEG_INFINITY, 2.0]),
            ];
            report.sections.push(section);
        }
        report.missing.retain(|missing| !names.contains(missing));
        report
    }

    fn read(claims: &str) -> Result<EarlierArchive, Error> {
        EarlierArchive::read(claims, ("clock", Scale::Quick, 1))
    }

    /// Failure: an archived part ends with the archive of another part, or counts for the wrong
    /// commit.
    #[test]
    fn a_part_of_an_archive_is_lost_or_stays_old() {
        let rows = Rows::default();
        let first = report(&["methods", "linear"], "first", Scale::Quick, &rows);
        let [(_, claims), _] = first.archived(&EarlierArchive::default());
        let earlier = read(&claims).unwrap();
        let (kept, ran) = (&earlier.experiments[0], &first.sections[1]);
        assert_eq!(
            (&kept.claims, &kept.run, &kept.name),
            (&ran.claims, &ran.run, &ran.name),
            "a value has changed"
        );
        let [(_, claims), (_, page)] =
            report(&["methods"], "second", Scale::Quick, &rows).archived(&earlier);
        let json: serde_json::Value = serde_json::from_str(&claims).unwrap();
        let of = |at: usize| {
            (
                json["experiments"][at]["name"].as_str(),
                json["experiments"][at]["run"]["commit"].as_str(),
            )
        };
        assert_eq!(
            [of(0), of(1)],
            [
                (Some("linear"), Some("first")),
                (Some("methods"), Some("second"))
            ]
        );
        assert_eq!(json["experiments"].as_array().map(Vec::len), Some(2));
        assert_eq!(
            json["counts"]["order"],
            serde_json::json!({ "holding": 4, "judged": 4 })
        );
        assert_eq!(json["missing"], serde_json::json!(["dumbbell"]));
        assert!(
            page.contains("<code>first</code>") && page.contains("<code>second</code>"),
            "a run is not shown"
        );
        assert!(
            page.contains("Figure of first"),
            "the figure of the other part"
        );
        assert!(
            page.contains("Table of first"),
            "the table of the other part"
        );
        let [_, (_, page)] =
            report(&["linear"], "third", Scale::Quick, &rows).archived(&read(&claims).unwrap());
        assert!(
            page.contains("Figure of third") && !page.contains("Figure of first"),
            "an old figure"
        );
    }

    #[test]
    fn an_archive_mixes_scales_or_an_unreadable_one_is_replaced() {
        let rows = Rows::default();
        let [(_, full), _] =
            report(&["linear"], "first", Scale::Full, &rows).archived(&EarlierArchive::default());
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(error(&full), "it has clock at the full scale with seed 1");
        assert!(error("{}").contains("missing field"));
    }
}
