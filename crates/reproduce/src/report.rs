//! The report of a reproduction: what ran, what it found, which claims hold.

use crate::{Judged, Request, Scale, Section, Stated};
use std::time::Duration;

/// What a reproduction found.
#[derive(Debug)]
pub struct Report {
    /// The paper's short name.
    pub paper: &'static str,
    /// Authors, title, where and when it was published.
    pub citation: &'static str,
    /// At which scale it ran.
    pub scale: Scale,
    /// The seed of every random choice.
    pub seed: u64,
    /// The experiments that alone were asked for; none: all.
    pub only: Vec<String>,
    /// Wall time.
    pub took: Duration,
    /// The experiments that are finished, in the paper's order.
    pub sections: Vec<Section>,
    /// Those that were asked for and are not finished.
    pub missing: Vec<&'static str>,
}

impl Report {
    pub(crate) fn new(request: &Request<'_>) -> Report {
        let Request { paper, scale, seed, only, .. } = *request;
        Report {
            paper: paper.name,
            citation: paper.citation,
            scale,
            seed,
            only: only.to_vec(),
            took: Duration::ZERO,
            sections: Vec::new(),
            missing: request.experiments().collect(),
        }
    }

    /// Every claim, judged.
    pub fn claims(&self) -> impl Iterator<Item = &Judged> {
        self.sections.iter().flat_map(|section| &section.claims)
    }

    /// The claims that do not hold.
    pub fn failures(&self) -> impl Iterator<Item = &Judged> {
        self.claims().filter(|claim| !claim.holds)
    }

    /// `claims.json`: `[{id, published, expected, source, measured, band, holds}]`, null where
    /// there is none.
    pub fn claims_json(&self) -> String {
        let claims: Vec<&Judged> = self.claims().collect();
        // Numbers are finite and keys are strings: nothing of it can be refused.
        serde_json::to_string_pretty(&claims).unwrap_or_default()
    }
}

/// A figure with as many digits as tell something.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 && value.abs() < 1e9 => format!("{value}"),
        1e9.. => format!("{value:.3e}"),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        0.01.. => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

impl Judged {
    /// The published, the expected and the measured figure and the band as printed: the same digits
    /// in the table and on the page.
    pub fn shown(&self) -> [String; 4] {
        let stated = |stated: Option<Stated>| match stated {
            None => "\u{2013}".to_owned(),
            Some(Stated::Figure(figure)) => number(figure),
            Some(Stated::Range([low, high])) => format!("{} … {}", number(low), number(high)),
        };
        let band = match self.band {
            [low, f64::INFINITY] => format!("at least {}", number(low)),
            [f64::NEG_INFINITY, high] => format!("at most {}", number(high)),
            [low, high] => format!("{} … {}", number(low), number(high)),
        };
        [stated(self.published), stated(self.expected), number(self.measured), band]
    }
}
