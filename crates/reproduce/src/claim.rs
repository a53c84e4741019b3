//! Claims: a published figure, the band in which the measured one must lie, and the judgement.

use crate::Scale;
use serde::{Deserialize, Serialize};

/// A claim as an experiment's file states it, before anything is measured.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Names it within its paper.
    pub id: String,
    /// What is claimed, with the unit, in one line.
    pub says: String,
    /// The figure in the paper.
    pub published: f64,
    /// The least and the greatest measured figure with which the claim holds.
    pub band: [f64; 2],
    /// Why the band is where it is.
    pub reason: String,
    /// What differs at the quick scale, where catalogue and cache are smaller.
    #[serde(default)]
    pub quick: Option<Quick>,
    /// Judged at the full scale only: the quick one cannot show it.
    #[serde(default)]
    pub full_only: bool,
}

/// The quick scale's form of a claim: what its conditions make of the band.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// In place of the claim's band.
    pub band: [f64; 2],
    /// In place of the claim's reason.
    pub reason: String,
}

impl Claim {
    /// Whether it is judged at this scale.
    pub fn is_judged_at(&self, scale: Scale) -> bool {
        scale == Scale::Full || !self.full_only
    }

    /// The claim beside what was measured.
    pub fn judge(&self, scale: Scale, measured: f64) -> Judged {
        let (band, reason) = match &self.quick {
            Some(quick) if scale == Scale::Quick => (quick.band, &quick.reason),
            _ => (self.band, &self.reason),
        };
        Judged {
            id: self.id.clone(),
            published: self.published,
            measured,
            band,
            holds: band[0] <= measured && measured <= band[1],
            says: self.says.clone(),
            reason: reason.clone(),
        }
    }
}

/// A claim and what was measured. As JSON, an entry of `claims.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The claim's name within its paper.
    pub id: String,
    /// The figure in the paper.
    pub published: f64,
    /// The figure of this run.
    pub measured: f64,
    /// Within which the measured figure had to lie.
    pub band: [f64; 2],
    /// Whether it does.
    pub holds: bool,
    /// What is claimed.
    #[serde(skip)]
    pub says: String,
    /// Why the band is where it is.
    #[serde(skip)]
    pub reason: String,
}
