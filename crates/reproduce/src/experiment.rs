//! The file of an experiment: conditions at two scales, the axes of the figures, the claims.

use crate::{Claim, Error, Scale};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::HashSet;

/// Expands to the name and the text of a file under `experiments/`, for [`Experiment::parse`].
macro_rules! experiment_file {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/experiments/", $name)),
        )
    };
    // The text alone, of an experiment of a paper.
    ($paper:literal, $name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/experiments/",
            $paper,
            "/",
            $name,
            ".toml"
        ))
    };
}

/// One experiment of a paper. `Sweep` has the conditions that its module reads. Its fields are the
/// keys of the tables `[full]` and `[quick]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment<Sweep> {
    /// Its title, with the section or the figure of the paper.
    pub title: String,
    /// What it shows, and which interpretations of the paper it uses.
    pub shows: String,
    /// The published conditions.
    pub full: Sweep,
    /// The conditions scaled down.
    pub quick: Sweep,
    /// The axes of the figures.
    #[serde(default, rename = "figure")]
    pub figures: Vec<FigureText>,
    /// The claims.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
}

/// A figure without its series.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureText {
    /// Its name within its experiment.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The label of the horizontal axis.
    pub x: String,
    /// The label of the vertical axis.
    pub y: String,
    /// Whether the horizontal axis is logarithmic.
    #[serde(default)]
    pub log_x: bool,
    /// Whether the vertical axis is logarithmic.
    #[serde(default)]
    pub log_y: bool,
    /// Whether the figure stands at the head of the paper's page. One figure of a paper does.
    #[serde(default)]
    pub headline: bool,
}

impl<Sweep: DeserializeOwned> Experiment<Sweep> {
    /// Parses the experiment of the file `name`.
    ///
    /// # Errors
    /// [`Error`] with the file's name, the line and the fault: an unknown key, a claim without a
    /// band or with one that excludes nothing, an expected value without a source, a repeated id.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let experiment: Self = toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .map_or(0, |span| text[..span.start].matches('\n').count() + 1);
            Error(format!(
                "experiments/{name}, line {line}: {}",
                error.message()
            ))
        })?;
        let mut ids = HashSet::new();
        let figures = experiment.figures.iter().map(|figure| &figure.id);
        if let Some(twice) = experiment
            .claims
            .iter()
            .map(|claim| &claim.id)
            .chain(figures)
            .find(|id| !ids.insert(*id))
        {
            return Err(Error(format!(
                "experiments/{name}: the id `{twice}` is used twice"
            )));
        }
        let known = |id: &str| experiment.figures.iter().any(|figure| figure.id == id);
        let mut drawn = experiment
            .claims
            .iter()
            .flat_map(|claim| claim.drawn.iter().map(move |place| (claim, place)));
        if let Some((claim, place)) = drawn.find(|(_, place)| !known(&place.figure)) {
            let (id, figure) = (&claim.id, &place.figure);
            return Err(Error(format!(
                "experiments/{name}: claim `{id}` is drawn in `{figure}`, which is no figure"
            )));
        }
        let mut faults = experiment
            .claims
            .iter()
            .filter_map(|claim| Some((claim, claim.fault()?)));
        if let Some((claim, fault)) = faults.next() {
            return Err(Error(format!(
                "experiments/{name}: claim `{}`: {fault}",
                claim.id
            )));
        }
        Ok(experiment)
    }

    /// Returns the conditions at this scale.
    pub fn sweep(&self, scale: Scale) -> &Sweep {
        match scale {
            Scale::Full => &self.full,
            Scale::Quick => &self.quick,
        }
    }
}
