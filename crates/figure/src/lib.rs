//! Figures as SVG: series over two axes.
//!
//! A [`Figure`] is a value, and [`Figure::svg`] returns its picture: a function of the value alone,
//! so the same figure gives the same bytes. The crate isolates `plotters`, which draws; no font of
//! the system is needed. Files, pages, tables and interaction are left to the hosts.
//!
//! The picture is readable on light and dark pages: it follows `prefers-color-scheme` if the viewer
//! supports it, and is light otherwise. The first colours can be distinguished by colour-blind
//! readers (Okabe and Ito, Color Universal Design, 2008), the others are Tol's "muted" ones; lines
//! beyond the palette are dashed. The title is also the picture's accessible name.
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
pub use draw::COLOURS;

/// A picture of series over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The title: above the plot, and the accessible name.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series, in the order of the legend.
    pub series: Vec<Series>,
}

/// Points with a name and a style.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// (x, y), in the order in which a line joins them. A point that the scale cannot show (not
    /// finite, or not positive on a logarithmic axis) is left out.
    pub points: Vec<(f64, f64)>,
    /// The style.
    pub style: Style,
    /// The least and the greatest y of each point, in the order of `points`: a confidence interval,
    /// or the band of a claim. They are drawn as whiskers.
    pub interval: Option<Vec<(f64, f64)>>,
    /// The first and the third quartile of each point, in the order of `points`; for
    /// [`Style::Boxes`].
    pub quartiles: Vec<(f64, f64)>,
    /// The place of the colour in the palette of [`COLOURS`]. `None`: the series' own place.
    pub colour: Option<usize>,
    /// The colour of each bar, in the order of `points`, in the place of the series' colour.
    pub bar_colours: Vec<usize>,
    /// A text beside each point, in the order of `points`; for [`Style::Reference`].
    pub labels: Vec<String>,
}

/// The style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Points joined by straight lines, with a mark at each point if they are few.
    Line,
    /// Marks alone, for measured points beside a line of theory.
    Points,
    /// A bar from the axis to each point. Several series of bars are drawn side by side.
    Bars,
    /// A box between the quartiles of each point, with a line at the point, which is the median.
    Boxes,
    /// A hollow diamond in the colour of text at each point, with its label: a value from another
    /// source, such as a published one.
    Reference,
}

impl Series {
    /// Creates a line through `points`.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series {
            name: name.into(),
            points,
            style: Style::Line,
            interval: None,
            quartiles: Vec::new(),
            colour: None,
            bar_colours: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// Creates a mark at each of `points`.
    pub fn points(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series {
            style: Style::Points,
            ..Series::line(name, points)
        }
    }

    /// Creates a bar for each of `points`.
    pub fn bars(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series {
            style: Style::Bars,
            ..Series::line(name, points)
        }
    }

    /// Creates a box plot: medians, and the first and the third quartile at each.
    pub fn boxes(
        name: impl Into<String>,
        medians: Vec<(f64, f64)>,
        quartiles: Vec<(f64, f64)>,
    ) -> Series {
        Series {
            style: Style::Boxes,
            quartiles,
            ..Series::line(name, medians)
        }
    }

    /// Creates a mark for each value from another source, with a text beside it.
    pub fn reference(
        name: impl Into<String>,
        points: Vec<(f64, f64)>,
        labels: Vec<String>,
    ) -> Series {
        Series {
            style: Style::Reference,
            labels,
            ..Series::line(name, points)
        }
    }

    /// Sets the colour, by its place in the palette; places beyond [`COLOURS`] start again, dashed.
    pub fn coloured(self, colour: usize) -> Series {
        Series {
            colour: Some(colour),
            ..self
        }
    }

    /// Adds an interval of y at each point.
    pub fn with_interval(self, interval: Vec<(f64, f64)>) -> Series {
        Series {
            interval: Some(interval),
            ..self
        }
    }
}

impl Figure {
    /// Returns the picture: one `<svg>` element for a file or a page.
    pub fn svg(&self) -> String {
        draw::svg(self)
    }
}
