//! The report of a reproduction: what ran, the results, and which claims hold.

use crate::{Coverage, Error, Judged, Kind, Provenance, Request, Scale, Section, Verdict};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The results of a reproduction.
#[derive(Clone, Debug)]
pub struct Report {
    /// The paper's short name.
    pub paper: &'static str,
    /// Authors, title, where and when it was published.
    pub citation: &'static str,
    /// The scale of the run.
    pub scale: Scale,
    /// The seed of all random choices.
    pub seed: u64,
    /// The experiments that were requested; empty for all.
    pub only: Vec<String>,
    /// The program, and the conditions at the start. Each section has those of its experiment.
    pub provenance: Provenance,
    /// The experiments that are finished, in the paper's order.
    pub sections: Vec<Section>,
    /// The requested experiments that have not finished.
    pub missing: Vec<&'static str>,
    /// All experiments of the paper, or of its testbed, in the order in which they run.
    pub(crate) all: Vec<&'static str>,
}

impl Report {
    pub(crate) fn new(request: &Request<'_>) -> Report {
        let Request {
            paper,
            scale,
            seed,
            only,
            ..
        } = *request;
        Report {
            paper: paper.name,
            citation: paper.citation,
            scale,
            seed,
            only: only.to_vec(),
            provenance: Provenance::now(),
            sections: Vec::new(),
            missing: request.experiments().collect(),
            all: paper
                .runs(request.testbed)
                .iter()
                .map(|(name, _)| *name)
                .collect(),
        }
    }

    /// Returns the wall time of its experiments, s, as far as it was recorded.
    pub fn seconds(&self) -> u64 {
        self.sections
            .iter()
            .filter_map(|section| section.run.seconds)
            .sum()
    }

    /// Returns all judged claims.
    pub fn claims(&self) -> impl Iterator<Item = &Judged> {
        self.sections.iter().flat_map(|section| &section.claims)
    }

    /// Returns the claims that fail although their files list no reason, or that were not measured.
    pub fn unexpected_failures(&self) -> impl Iterator<Item = &Judged> {
        self.claims()
            .filter(|claim| claim.verdict().is_unexpected_failure())
    }

    /// Returns the unexpected failures of measured times that others disturbed, each with what
    /// disturbed its experiment. Such a failure says nothing of the claim.
    pub fn disturbed_failures(&self) -> impl Iterator<Item = (&Judged, String)> {
        self.sections
            .iter()
            .filter_map(|section| Some((section, section.run.disturbance()?)))
            .flat_map(|(section, disturbance)| {
                section
                    .claims
                    .iter()
                    .filter(|claim| claim.timed && claim.measured.is_some())
                    .filter(|claim| claim.verdict().is_unexpected_failure())
                    .map(move |claim| (claim, disturbance.clone()))
            })
    }

    /// Returns the claims with this verdict.
    pub fn with_verdict(&self, verdict: Verdict) -> impl Iterator<Item = &Judged> {
        self.claims()
            .filter(move |claim| claim.verdict() == verdict)
    }

    /// Returns what of the paper its claims cover.
    ///
    /// # Errors
    /// [`Error`] if the files of the coverage have a fault.
    pub fn coverage(&self) -> Result<Coverage, Error> {
        Coverage::of(self.paper)
    }

    /// Returns the number of judged claims of each kind, in the order of [`Kind::ALL`].
    pub fn counts(&self) -> [Count; 5] {
        Kind::ALL.map(|kind| {
            let judged = || self.claims().filter(|claim| claim.kind == kind);
            Count {
                kind,
                holding: judged().filter(|claim| claim.holds).count(),
                judged: judged().count(),
            }
        })
    }

    /// Returns the counts as text: "value 5 of 6, order 1 of 1", without kinds that have no claim.
    pub fn counted(&self) -> String {
        let counts = self.counts().into_iter().filter(|count| count.judged > 0);
        counts
            .map(|count| count.to_string())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Returns the content of `claims.json`: the paper, the scale, the seed, the experiments that
    /// have not finished, the wall time, the counts of each kind as `{kind: {holding, judged}}`,
    /// and the experiments as `[{name, title, shows, conditions, tables, run, claims}]`: its tables
    /// as `[{title, header, rows}]`, where and how it ran ([`Provenance`]), and its claims
    /// ([`Judged`]), with null for absent values.
    pub fn claims_json(&self) -> String {
        let counts: BTreeMap<String, Count> = self
            .counts()
            .map(|count| (count.kind.to_string(), count))
            .into();
        let all = serde_json::json!({
            "paper": self.paper,
            "scale": self.scale.to_string(),
            "seed": self.seed,
            "only": self.only,
            "missing": self.missing,
            "seconds": self.seconds(),
            "counts": counts,
            "experiments": self.sections,
        });
        // Numbers are finite and keys are strings, so serialisation cannot fail.
        serde_json::to_string_pretty(&all).unwrap_or_default()
    }
}

/// The claims of one kind in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The kind.
    #[serde(skip)]
    pub kind: Kind,
    /// The claims that hold.
    pub holding: usize,
    /// All claims that were judged.
    pub judged: usize,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {}", self.kind, self.holding, self.judged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::number;
    use crate::{Paper, Rows, Stated};

    #[test]
    fn a_value_is_printed_with_too_few_digits_to_judge_it() {
        for (value, text) in [
            (0.0, "0"),
            (2.0, "2"),
            (-0.5, "-0.5000"),
            (0.01234, "0.0123"),
            (0.001_234, "1.23e-3"),
            (1.005_9, "1.01"),
            (12.34, "12.3"),
            (1234.5, "1234"),
            (2.5e9, "2.500e9"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    fn judged(id: &str, measured: f64, band: [f64; 2]) -> Judged {
        Judged {
            id: id.to_owned(),
            kind: if id == "a" { Kind::Value } else { Kind::Order },
            published: Some(Stated::Figure(1.0)),
            expected: None,
            source: None,
            measured: Some(measured),
            band,
            holds: band[0] <= measured && measured <= band[1],
            known_failure: None,
            timed: false,
            covers: Vec::new(),
            says: "A <claim>".to_owned(),
            reason: "Theory".to_owned(),
        }
    }

    #[test]
    fn a_time_that_others_disturbed_fails_as_if_it_were_a_claims_fault() {
        let timed = Judged {
            timed: true,
            ..judged("a", 9.0, [0.0, 1.0])
        };
        let unmeasured = Judged {
            id: "c".to_owned(),
            measured: None,
            ..timed.clone()
        };
        let claims = [timed, unmeasured, judged("b", 9.0, [0.0, 1.0])];
        let rows = Rows::default();
        let request = Request::quick(Paper::named("filter").unwrap(), &rows);
        let disturbed = |other_percent: Option<f64>| {
            let mut report = Report::new(&request);
            let mut section = section_of(claims.to_vec());
            section.run.other_percent = other_percent;
            report.sections.push(section);
            let disturbed = report.disturbed_failures();
            disturbed
                .map(|(claim, disturbance)| (claim.id.clone(), disturbance))
                .collect::<Vec<_>>()
        };
        assert_eq!(disturbed(None), []);
        assert_eq!(disturbed(Some(2.0)), []);
        let [(id, disturbance)] = &disturbed(Some(40.0))[..] else {
            panic!("one claim is of a time, and measured");
        };
        assert_eq!(id, "a");
        assert!(disturbance.contains("40.0 %"), "{disturbance}");
    }

    fn section_of(claims: Vec<Judged>) -> Section {
        let text = "title = \"T & U\"\nshows = \"S\"\n[full]\n[quick]\n";
        let experiment =
            crate::Experiment::<std::collections::HashMap<String, u64>>::parse("x", text).unwrap();
        let mut section = Section::new(&experiment, Scale::Quick);
        section.claims = claims;
        section
    }

    #[test]
    fn an_open_band_reads_as_a_closed_one() {
        assert_eq!(
            judged("a", 1.0, [0.5, f64::INFINITY]).shown()[3],
            "at least 0.5000"
        );
        assert_eq!(
            judged("a", 1.0, [f64::NEG_INFINITY, 2.0]).shown()[3],
            "at most 2"
        );
        assert_eq!(judged("a", 1.0, [1.0, 2.0]).shown()[3], "1 \u{2026} 2");
    }

    #[test]
    fn a_failing_claim_is_reported_as_holding_or_a_page_is_not_escaped() {
        let rows = Rows::default();
        let paper = Paper::named("filter").unwrap();
        let mut report = Report::new(&Request::quick(paper, &rows));
        assert!(
            report.missing.iter().copied().eq(paper.experiments()),
            "nothing has run"
        );
        let claims = vec![judged("b", 1.0, [0.0, 2.0]), judged("a", 3.0, [0.0, 2.0])];
        report.sections.push(section_of(claims));
        let failures: Vec<&str> = report
            .unexpected_failures()
            .map(|claim| claim.id.as_str())
            .collect();
        assert_eq!(failures, ["a"]);
        assert_eq!(
            report.counted(),
            "value 0 of 1, order 1 of 1",
            "kinds are mixed"
        );
        let json: serde_json::Value = serde_json::from_str(&report.claims_json()).unwrap();
        assert_eq!(
            json["counts"]["value"],
            serde_json::json!({ "holding": 0, "judged": 1 })
        );
        assert_eq!([&json["paper"], &json["scale"]], ["filter", "quick"]);
        let json = &json["experiments"][0]["claims"];
        assert_eq!(
            [&json[0]["id"], &json[1]["id"]],
            ["b", "a"],
            "claims keep their order"
        );
        assert_eq!([&json[0]["kind"], &json[1]["kind"]], ["order", "value"]);
        assert_eq!([&json[0]["holds"], &json[1]["holds"]], [true, false]);
        let page = report.html();
        assert!(
            page.contains("T &amp; U")
                && page.contains("A &lt;claim&gt;")
                && !page.contains("<claim>")
        );
    }
}
