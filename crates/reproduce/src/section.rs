//! The result of one experiment: measured values, tables and figures, then the judged claims.

use crate::claim::number;
use crate::{
    Claim, DrawnIn, Error, Experiment, FigureText, Judged, Provenance, Scale, Stated, colours,
};
use larder_figure::{Axis, Figure, Series};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The results of one experiment, while they are collected and in the report. In JSON, an entry of
/// `claims.json`, without figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Section {
    /// The experiment's name.
    pub name: String,
    /// The experiment's title.
    pub title: String,
    /// What it shows, and which interpretations of the paper it uses.
    pub shows: String,
    /// The conditions of the run, as names and values.
    pub conditions: Vec<(String, String)>,
    /// Its tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
    /// Its figures.
    #[serde(skip)]
    pub figures: Vec<Drawing>,
    /// Where and how it ran.
    pub run: Provenance,
    /// In an archive: its figure at the head of the page, as HTML, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) headline: String,
    /// Its claims; filled by [`Section::judged`].
    pub claims: Vec<Judged>,
    #[serde(skip)]
    scale: Scale,
    #[serde(skip)]
    stated: Vec<Claim>,
    #[serde(skip)]
    axes: Vec<FigureText>,
    #[serde(skip)]
    measured: BTreeMap<String, f64>,
    #[serde(skip)]
    drawn: Vec<String>,
    #[serde(skip)]
    lacks_runs: bool,
}

/// A figure of a report, with the claims about it.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// Its name within its experiment.
    pub id: String,
    /// The picture. [`Section::judged`] adds the published values.
    pub figure: Figure,
    /// Whether it stands at the head of the page.
    pub is_headline: bool,
    /// The claims about it, as texts with the published and the measured value.
    pub captions: Vec<String>,
}

/// A table of a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The columns.
    pub header: Vec<String>,
    /// The rows, with as many cells as the header.
    pub rows: Vec<Vec<String>>,
}

/// Returns the place of a claim's published value in a figure: x, then the least, the middle and
/// the greatest y, and a label. `None` if the claim has no place there, or if the scale has no
/// measured value of which the published one is a multiple.
fn mark(claim: &Claim, place: &DrawnIn, figure: &Figure) -> Option<(f64, [f64; 3], String)> {
    let x = place.x?;
    let [low, high] = match claim.published? {
        Stated::Figure(value) => [value; 2],
        Stated::Range(range) => range,
    };
    let shown = if low == high {
        number(low)
    } else {
        format!("{}\u{2013}{}", number(low), number(high))
    };
    let (unit, label) = match place.times {
        None => (1.0, shown),
        Some(at) => {
            let named = |series: &&Series| {
                place
                    .series
                    .as_ref()
                    .is_none_or(|name| *name == series.name)
            };
            let series = figure.series.iter().find(named)?;
            let (_, unit) = series
                .points
                .iter()
                .find(|(x, _)| (x - at).abs() <= 1e-9 * at.abs().max(1.0))?;
            (*unit, format!("\u{d7}{shown}"))
        }
    };
    Some((
        x,
        [low * unit, (low + high) / 2.0 * unit, high * unit],
        label,
    ))
}

/// Returns points with these values over 0, 1, … on the horizontal axis.
pub(crate) fn numbered(values: impl IntoIterator<Item = f64>) -> Vec<(f64, f64)> {
    (0..).map(f64::from).zip(values).collect()
}

impl Section {
    /// Creates the section of an experiment, without results.
    pub fn new<Sweep>(experiment: &Experiment<Sweep>, scale: Scale) -> Section {
        Section {
            name: String::new(),
            title: experiment.title.clone(),
            shows: experiment.shows.clone(),
            conditions: Vec::new(),
            tables: Vec::new(),
            figures: Vec::new(),
            run: Provenance::default(),
            headline: String::new(),
            claims: Vec::new(),
            scale,
            stated: experiment.claims.clone(),
            axes: experiment.figures.clone(),
            measured: BTreeMap::new(),
            drawn: Vec::new(),
            lacks_runs: false,
        }
    }

    /// Adds a condition of the run.
    pub fn condition(&mut self, name: &str, value: impl ToString) {
        self.conditions.push((name.to_owned(), value.to_string()));
    }

    /// Records the measured value of the claim `id`. A claim that is judged only at the full scale
    /// may be measured at the quick one, without effect.
    pub fn measured(&mut self, id: impl Into<String>, value: f64) {
        self.measured.insert(id.into(), value);
    }

    /// Says that runs are missing, as the report states. A claim that measures NaN then has no
    /// measured value, and fails.
    pub fn lacks_runs(&mut self) {
        self.lacks_runs = true;
    }

    /// Records a value if a claim has this id.
    pub fn measured_if_claimed(&mut self, id: impl Into<String>, value: f64) {
        let id = id.into();
        if self.stated.iter().any(|claim| claim.id == id) {
            self.measured.insert(id, value);
        }
    }

    /// Adds a table.
    pub fn table<H: Into<String>>(
        &mut self,
        title: &str,
        header: impl IntoIterator<Item = H>,
        rows: Vec<Vec<String>>,
    ) {
        let header = header.into_iter().map(Into::into).collect();
        self.tables.push(Table {
            title: title.to_owned(),
            header,
            rows,
        });
    }

    /// Adds the figure `id` of the experiment's file with these series.
    pub fn figure(&mut self, id: &str, series: Vec<Series>) {
        self.draw(id, Vec::new(), series);
    }

    /// Adds a figure like [`Section::figure`], with names instead of the numbers 0, 1, … on the
    /// horizontal axis.
    pub fn named_figure(
        &mut self,
        id: &str,
        names: impl IntoIterator<Item = impl Into<String>>,
        mut series: Vec<Series>,
    ) {
        let names = Axis::named("", names).names;
        colours::assign_bars(&mut series, &names);
        self.draw(id, names, series);
    }

    fn draw(&mut self, id: &str, names: Vec<(f64, String)>, mut series: Vec<Series>) {
        self.drawn.push(id.to_owned());
        colours::assign(&mut series);
        let Some(text) = self.axes.iter().find(|axes| axes.id == id) else {
            return;
        };
        let axis = |label: &str, is_log: bool| {
            if is_log {
                Axis::log(label)
            } else {
                Axis::linear(label)
            }
        };
        let figure = Figure {
            title: text.title.clone(),
            x: Axis {
                names,
                ..axis(&text.x, text.log_x)
            },
            y: axis(&text.y, text.log_y),
            series,
        };
        let is_headline = text.headline;
        self.figures.push(Drawing {
            id: id.to_owned(),
            figure,
            is_headline,
            captions: Vec::new(),
        });
    }

    /// Adds the published values to the figures, and the claims to their captions.
    fn draw_published(&mut self) {
        for drawing in &mut self.figures {
            let mut marks = (Vec::new(), Vec::new(), Vec::new());
            for (claim, judged) in self.stated.iter().filter_map(|claim| {
                Some((
                    claim,
                    self.claims.iter().find(|judged| judged.id == claim.id)?,
                ))
            }) {
                for place in claim
                    .drawn
                    .iter()
                    .filter(|place| place.figure == drawing.id)
                {
                    let caption = judged.caption();
                    if !drawing.captions.contains(&caption) {
                        drawing.captions.push(caption);
                    }
                    let Some((x, [low, middle, high], label)) = mark(claim, place, &drawing.figure)
                    else {
                        continue;
                    };
                    marks.0.push((x, middle));
                    marks.1.push((low, high));
                    marks.2.push(label);
                }
            }
            let (points, intervals, labels) = marks;
            if !points.is_empty() {
                let published = Series::reference("published", points, labels);
                drawing
                    .figure
                    .series
                    .push(published.with_interval(intervals));
            }
        }
    }

    /// Judges the claims. A claim without a measured value fails.
    ///
    /// # Errors
    /// [`Error`] if a measured value is not a number, if a figure of the file was not drawn, or if
    /// something was measured that is not in the file.
    pub fn judged(mut self) -> Result<Section, Error> {
        let fault = |what: String| Err(Error(format!("experiment \"{}\": {what}", self.title)));
        if let Some(id) = self
            .measured
            .keys()
            .find(|id| !self.stated.iter().any(|claim| claim.id == **id))
        {
            return fault(format!(
                "`{id}` was measured, but the file has no such claim"
            ));
        }
        for claim in self
            .stated
            .iter()
            .filter(|claim| claim.is_judged_at(self.scale))
        {
            match self.measured.get(&claim.id) {
                Some(value) if value.is_nan() && self.lacks_runs => {
                    self.claims.push(claim.judge(self.scale, None))
                }
                Some(value) if !value.is_finite() => {
                    return fault(format!(
                        "claim `{}` measured {value}, which is not a number",
                        claim.id
                    ));
                }
                value => self.claims.push(claim.judge(self.scale, value.copied())),
            }
        }
        if let Some(id) = self
            .drawn
            .iter()
            .find(|id| !self.axes.iter().any(|axes| axes.id == **id))
        {
            return fault(format!("`{id}` was drawn, but the file has no such figure"));
        }
        if let Some(axes) = self.axes.iter().find(|axes| !self.drawn.contains(&axes.id)) {
            return fault(format!("figure `{}` was not drawn", axes.id));
        }
        self.draw_published();
        Ok(self)
    }
}
