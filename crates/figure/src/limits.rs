//! What bounds a figure.

/// Points that are drawn of a series, the first and the last among them: about four a pixel of the
/// plot's width. More are thinned evenly.
pub const POINTS_A_SERIES: usize = 2_000;

/// Magnitudes from here on are not drawn, as infinities are not: differences between them would
/// overflow.
pub const GREATEST_VALUE: f64 = 1e100;

/// Characters of a title, label or name that are drawn; what does not fit the picture is of no use.
pub const TEXT_CHARS: usize = 120;

/// Ticks of an axis at most, so that labels do not run into each other.
pub const TICKS: usize = 9;

/// Names of a legend that the picture grows for: nobody tells more lines than these apart.
pub const LEGEND_LINES: usize = 60;
