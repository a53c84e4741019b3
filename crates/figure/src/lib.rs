//! Figures as SVG: series over two axes, and nothing else.
//!
//! What it is: a value, [`Figure`], and its picture, [`Figure::svg`]: a function of the value
//! alone, so the same figure gives the same bytes. It fences off `plotters`, which draws; no font
//! of the system is asked for. What it is not: files, pages, tables (the hosts' part), interaction.
//!
//! The picture reads on light and dark pages: it follows `prefers-color-scheme` where the viewer
//! knows it, and is light elsewhere. The colours are those that colour-blind eyes tell apart (Okabe
//! and Ito, Color Universal Design, 2008); lines beyond the palette are dashed. The title is also
//! the picture's accessible name.
//!
//! ```
//! use larder_figure::{Axis, Figure, Series};
//!
//! let svg = Figure {
//!     title: "Hit ratio of LRU".to_owned(),
//!     x: Axis::log("cache, objects"),
//!     y: Axis::linear("hit ratio"),
//!     series: vec![Series::line("lru", vec![(1e3, 0.07), (1e4, 0.15), (1e5, 0.25)])],
//! }
//! .svg();
//! assert!(svg.starts_with("<svg ") && svg.contains("<title"));
//! ```
#![forbid(unsafe_code)]

mod axis;
mod draw;
pub mod limits;

pub use axis::{Axis, Scale};

/// A picture of series over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it shows: stands above the plot and is the accessible name.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, in the order of the legend.
    pub series: Vec<Series>,
}

/// Points with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// As the legend tells it.
    pub name: String,
    /// (x, y), in the order in which a line joins them. What the scale cannot show (not finite, or
    /// not positive on a logarithmic axis) is left out.
    pub points: Vec<(f64, f64)>,
    /// How they are drawn.
    pub style: Style,
    /// The least and the greatest y of each point, in the order of `points`: an interval of
    /// confidence, or a claim's band. Drawn as whiskers.
    pub interval: Option<Vec<(f64, f64)>>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Joined by straight lines, with a mark at each point if they are few.
    Line,
    /// Marks alone: measured points beside a line of theory.
    Points,
    /// A bar from the axis to the point. Several series of bars stand side by side.
    Bars,
}

impl Series {
    /// A line through `points`.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), points, style: Style::Line, interval: None }
    }

    /// A mark at each of `points`.
    pub fn points(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { style: Style::Points, ..Series::line(name, points) }
    }

    /// A bar for each of `points`.
    pub fn bars(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { style: Style::Bars, ..Series::line(name, points) }
    }

    /// The same with an interval of y at each point.
    pub fn with_interval(self, interval: Vec<(f64, f64)>) -> Series {
        Series { interval: Some(interval), ..self }
    }
}

impl Figure {
    /// The picture: one `<svg>` element, to be written into a file or into a page.
    pub fn svg(&self) -> String {
        draw::svg(self)
    }
}
