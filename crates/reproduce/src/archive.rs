//! Archived reports: what is kept of a full run in the repository, and the code that it depends on.

use crate::Report;
use crate::page::{Detail, page};

/// A file of an archived report: its name and its content.
pub type ArchivedFile = (&'static str, String);

impl Report {
    /// Returns the files that an archive keeps: `claims.json`, with commit and machine, and
    /// `report.html` with the claims, the figure at its head and the coverage, without the other
    /// figures and the tables, which are most of its bytes.
    pub fn archived(&self) -> [ArchivedFile; 2] {
        [("claims.json", self.claims_json()), ("report.html", page(self, Detail::Claims))]
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
