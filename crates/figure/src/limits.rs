//! The limits of a figure.

/// The points of a series that are drawn, including the first and the last: about four per pixel of
/// the plot's width. More points are thinned evenly.
pub const POINTS_A_SERIES: usize = 2_000;

/// Values of this magnitude or more are not drawn, like infinities, because differences between
/// them would overflow.
pub const GREATEST_VALUE: f64 = 1e100;

/// The characters of a title, label or name that are drawn. More do not fit the picture.
pub const TEXT_CHARS: usize = 120;

/// The most ticks of an axis, so that labels do not overlap.
pub const TICKS: usize = 9;

/// The most names of a legend for which the picture grows. A reader cannot distinguish more lines.
pub const LEGEND_LINES: usize = 60;
