//! Claims: a published or expected value, the band in which the measured value must lie, and the
//! judgement.

use crate::Scale;
use serde::{Deserialize, Deserializer, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// A claim of an experiment's file, before the measurement.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Identifies the claim within its paper.
    pub id: String,
    /// What is claimed, with the unit, in one line.
    pub says: String,
    /// What supports the claim. Reports count each kind separately.
    pub kind: Kind,
    /// The value that the paper prints, or that follows from values that it prints. Without it,
    /// `expected` must be present, except for an order that the paper states in words.
    #[serde(default)]
    pub published: Option<Stated>,
    /// A value that the paper does not print, but that follows from theory or from another
    /// program's run on the same requests.
    #[serde(default)]
    pub expected: Option<Stated>,
    /// The source of the expected value.
    #[serde(default)]
    pub source: Option<String>,
    /// The least and the greatest measured value with which the claim holds. An order is claimed by
    /// a band that is open (`inf`) on one side.
    pub band: [f64; 2],
    /// The reason for the band. A band that was changed after a run says so.
    pub reason: String,
    /// The form of the claim at the quick scale, where catalogue and cache are smaller.
    #[serde(default)]
    pub quick: Option<Quick>,
    /// True if the claim is judged at the full scale only, because the quick one cannot show it.
    #[serde(default)]
    pub full_only: bool,
    /// The scales at which the claim is known to fail, each with the reason.
    #[serde(default)]
    pub fails: KnownFailure,
    /// True if the measured value is a time or depends on one, so that the processor and its load
    /// move it.
    #[serde(default)]
    pub timed: bool,
    /// The items of the paper that the claim covers, by their names in the paper's `coverage.toml`.
    #[serde(default)]
    pub covers: Vec<String>,
    /// The figures under which the claim stands, and the places of its published value in them.
    #[serde(default)]
    pub drawn: Vec<DrawnIn>,
}

/// The place of a claim's published value in a figure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawnIn {
    /// The figure's id.
    pub figure: String,
    /// The place on the horizontal axis. Without it, the claim stands in the figure's caption only.
    #[serde(default)]
    pub x: Option<f64>,
    /// For a ratio: the x of the measured value of which the published one is a multiple.
    #[serde(default)]
    pub times: Option<f64>,
    /// The name of the series with that measured value; the first series if absent.
    #[serde(default)]
    pub series: Option<String>,
}

/// Why a claim is known to fail, at each scale.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownFailure {
    /// The reason at the quick scale, if the claim fails there.
    #[serde(default)]
    pub quick: Option<String>,
    /// The reason at the full scale, if the claim fails there.
    #[serde(default)]
    pub full: Option<String>,
}

impl KnownFailure {
    fn at(&self, scale: Scale) -> Option<&String> {
        match scale {
            Scale::Quick => self.quick.as_ref(),
            Scale::Full => self.full.as_ref(),
        }
    }
}

/// What supports a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The paper prints the value. The claim has `published`.
    Value,
    /// The paper states an order or a shape: which is larger, what rises, what is equal. Where it
    /// is an order of two measured values, the band has a margin that was stated before the run.
    Order,
    /// The value follows from an equation, a model, or another program's run. The claim has
    /// `expected` and its source.
    Theory,
    /// The value follows from numbers that the paper or the claim's file prints, so no measurement
    /// can change it: it shows whether the paper's numbers fit together.
    Arithmetic,
    /// The project's own aim, which the paper does not support. The claim has `expected` and its
    /// source.
    Goal,
}

impl Kind {
    /// All kinds, in the order of reports.
    pub const ALL: [Kind; 5] = [
        Kind::Value,
        Kind::Order,
        Kind::Theory,
        Kind::Arithmetic,
        Kind::Goal,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Value => "value",
            Kind::Order => "order",
            Kind::Theory => "theory",
            Kind::Arithmetic => "arithmetic",
            Kind::Goal => "goal",
        })
    }
}

/// A value, or a range if the source gives one. In JSON, a number or an array of two.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Stated {
    /// One figure.
    Figure(f64),
    /// From the least to the greatest.
    Range([f64; 2]),
}

impl Stated {
    /// Returns true if the figure, or a part of the range, lies in the band.
    fn meets(&self, [low, high]: [f64; 2]) -> bool {
        let [least, greatest] = match *self {
            Stated::Figure(figure) => [figure; 2],
            Stated::Range(range) => range,
        };
        least <= high && low <= greatest
    }
}

/// The quick scale's form of a claim: the band that follows from its conditions.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// In place of the claim's band.
    pub band: [f64; 2],
    /// In place of the claim's reason.
    pub reason: String,
}

impl Claim {
    /// Returns the fault in the statement of the claim, if any.
    pub(crate) fn fault(&self) -> Option<String> {
        let bands = std::iter::once(self.band).chain(self.quick.as_ref().map(|quick| quick.band));
        for [low, high] in bands {
            if low.partial_cmp(&high).is_none_or(Ordering::is_gt) {
                return Some(format!("no value lies in the band [{low}, {high}]"));
            }
            if low.is_infinite() && high.is_infinite() {
                return Some(format!("every value lies in the band [{low}, {high}]"));
            }
        }
        if let Some(published) = self
            .published
            .filter(|published| !published.meets(self.band))
        {
            return Some(format!(
                "no published value, {published:?}, lies in the band {:?}",
                self.band
            ));
        }
        match (self.published, self.expected, &self.source) {
            (None, None, None) if self.kind == Kind::Order => None,
            (None, None, _) => Some("it has neither `published` nor `expected`".to_owned()),
            (_, Some(_), None) => Some("`expected` needs a `source`".to_owned()),
            (_, None, Some(_)) => Some("`source` needs `expected`".to_owned()),
            (published, ..) => match (self.kind, published.is_some()) {
                (Kind::Value, false) => Some("a value needs `published`".to_owned()),
                (Kind::Theory | Kind::Goal, true) => {
                    Some(format!("a {} has no `published`", self.kind))
                }
                _ => None,
            },
        }
    }

    /// Returns true if the claim is judged at this scale.
    pub fn is_judged_at(&self, scale: Scale) -> bool {
        scale == Scale::Full || !self.full_only
    }

    /// Compares the claim with the measured value. A claim without one (`None`) fails.
    pub fn judge(&self, scale: Scale, measured: Option<f64>) -> Judged {
        let (band, reason) = match &self.quick {
            Some(quick) if scale == Scale::Quick => (quick.band, &quick.reason),
            _ => (self.band, &self.reason),
        };
        Judged {
            id: self.id.clone(),
            kind: self.kind,
            published: self.published,
            expected: self.expected,
            source: self.source.clone(),
            measured,
            band,
            holds: measured.is_some_and(|measured| band[0] <= measured && measured <= band[1]),
            known_failure: self.fails.at(scale).cloned(),
            timed: self.timed,
            covers: self.covers.clone(),
            says: self.says.clone(),
            reason: reason.clone(),
        }
    }
}

/// A claim and its measured value. In JSON, an entry of `claims.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The claim's name within its paper.
    pub id: String,
    /// What supports the claim.
    pub kind: Kind,
    /// What the paper prints.
    pub published: Option<Stated>,
    /// The expected value, if the paper prints none.
    pub expected: Option<Stated>,
    /// The source of the expected value.
    pub source: Option<String>,
    /// The figure of this run; `None` if it was not measured.
    pub measured: Option<f64>,
    /// The band of this scale. In JSON, an open side is `null`.
    #[serde(deserialize_with = "band")]
    pub band: [f64; 2],
    /// True if the measured value lies in the band.
    pub holds: bool,
    /// Why the claim is known to fail at this scale, if it is.
    pub known_failure: Option<String>,
    /// True if the processor and its load move the measured value.
    pub timed: bool,
    /// The items of the paper that the claim covers.
    pub covers: Vec<String>,
    /// What is claimed.
    pub says: String,
    /// Why the band is where it is.
    pub reason: String,
}

/// Deserializes a band with open sides.
fn band<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[f64; 2], D::Error> {
    let [low, high] = <[Option<f64>; 2]>::deserialize(deserializer)?;
    Ok([
        low.unwrap_or(f64::NEG_INFINITY),
        high.unwrap_or(f64::INFINITY),
    ])
}

/// What a claim's judgement means for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Holds,
    /// It holds, although the file lists it as failing.
    HoldsThoughListed,
    /// It fails, as its file lists with a reason.
    FailsAsListed,
    /// It fails, and its file lists no reason.
    Fails,
    /// It was not measured.
    NotMeasured,
}

impl Verdict {
    /// Returns true if the failure is not listed with a reason.
    pub fn is_unexpected_failure(self) -> bool {
        matches!(self, Verdict::Fails | Verdict::NotMeasured)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Holds => "holds",
            Verdict::HoldsThoughListed => "holds, listed as failing",
            Verdict::FailsAsListed => "fails as listed",
            Verdict::Fails => "FAILS",
            Verdict::NotMeasured => "NOT MEASURED",
        })
    }
}

impl Judged {
    /// Returns what the judgement means for the run.
    pub fn verdict(&self) -> Verdict {
        match (self.measured, self.holds, &self.known_failure) {
            (None, ..) => Verdict::NotMeasured,
            (_, true, None) => Verdict::Holds,
            (_, true, Some(_)) => Verdict::HoldsThoughListed,
            (_, false, Some(_)) => Verdict::FailsAsListed,
            (_, false, None) => Verdict::Fails,
        }
    }
}

/// Formats a value with its significant digits.
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
    /// Returns the verdict, and whether the band leaves the published value out, as bands of
    /// smaller conditions may.
    pub fn verdict_text(&self) -> String {
        let verdict = self.verdict();
        let is_left_out = self
            .published
            .is_some_and(|published| !published.meets(self.band));
        if is_left_out && self.measured.is_some() {
            format!("{verdict} (the band of this scale leaves the published value out)")
        } else {
            verdict.to_string()
        }
    }

    /// Returns the line under a figure: what is published, what was measured, and the verdict.
    pub(crate) fn caption(&self) -> String {
        let [published, expected, measured, _] = self.shown();
        let stated = if self.published.is_some() {
            published
        } else {
            expected
        };
        let from = if self.published.is_some() {
            "published"
        } else {
            "expected"
        };
        format!(
            "{}: {from} {stated}, measured {measured}; {}.",
            self.says,
            self.verdict_text()
        )
    }

    /// Returns the published, expected and measured value and the band as text, with the same
    /// digits in the table and on the page.
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
        let measured = self
            .measured
            .map_or_else(|| "not measured".to_owned(), number);
        [
            stated(self.published),
            stated(self.expected),
            measured,
            band,
        ]
    }
}
