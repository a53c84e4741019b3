//! The picture, drawn by plotters: axes and grid, the series, the legend.

use crate::limits::{LEGEND_LINES, POINTS_A_SERIES, TEXT_CHARS};
use crate::{Axis, Figure, Scale, Series, Style};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

/// The size of the plot with its axes, in pixels. The picture scales with the page.
const PLOT: (u32, u32) = (590, 400);
/// The least and the greatest width of the legend at the right, which grows with the names.
const LEGEND_WIDTH: (u32, u32) = (170, 460);
/// The height of a line of the legend.
const LEGEND_LINE: u32 = 22;
const FONT: &str = "system-ui, sans-serif";

const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFE);
const INK: RGBColor = RGBColor(0x1A, 0x1A, 0x1C);
const GRID: RGBColor = RGBColor(0xDD, 0xDE, 0xE0);

/// The number of colours in the palette.
pub const COLOURS: usize = PALETTE.len();

/// Okabe and Ito's colours without black and yellow, then four of Tol's, and the lighter form of
/// each for dark pages.
const PALETTE: [(RGBColor, &str); 10] = [
    (RGBColor(0x00, 0x72, 0xB2), "#4FB3E8"),
    (RGBColor(0xD5, 0x5E, 0x00), "#FF8A3C"),
    (RGBColor(0x00, 0x9E, 0x73), "#2FD1A2"),
    (RGBColor(0xCC, 0x79, 0xA7), "#E9A0C8"),
    (RGBColor(0x9A, 0x6A, 0x00), "#E6B84A"),
    (RGBColor(0x56, 0x6B, 0x8C), "#A9BBD6"),
    (RGBColor(0x88, 0x22, 0x55), "#E0609A"),
    (RGBColor(0x33, 0x22, 0x88), "#A08CFF"),
    (RGBColor(0x7A, 0x7A, 0x1E), "#CFCF4A"),
    (RGBColor(0x2A, 0x9D, 0xB5), "#7FE3F2"),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Track, Track>>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

pub(crate) fn svg(figure: &Figure) -> String {
    let mut drawing = String::new();
    // Plotters' errors come from the backend, and this one writes into a string. At worst, a part
    // of the picture would be missing.
    let _ = draw(figure, &mut drawing);
    let content = drawing.split_once('>').map_or("", |(_, content)| content);
    let (width, height) = size(figure);
    let title = escaped(&shown(&figure.title));
    format!(
        "<svg class=\"larder-figure\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n{}{content}",
        dark_style()
    )
}

/// Returns the size: the plot, and room for all names of the legend.
fn size(figure: &Figure) -> (u32, u32) {
    let longest = figure
        .series
        .iter()
        .map(|series| shown(&series.name).chars().count())
        .max()
        .unwrap_or(0);
    // A character of this font is at most seven pixels wide, and the series' sign precedes it.
    let legend = (40 + 7 * longest as u32).clamp(LEGEND_WIDTH.0, LEGEND_WIDTH.1);
    let lines = figure.series.len().min(LEGEND_LINES) as u32;
    (PLOT.0 + legend, PLOT.1.max(60 + LEGEND_LINE * lines))
}

/// Returns the colours for a dark page. The rules select the attribute of the light colours, so a
/// viewer without style sheets shows the light ones.
fn dark_style() -> String {
    let mut rules = String::new();
    let papers = [(PAPER, "#17181C"), (INK, "#E6E6E9"), (GRID, "#34363D")];
    for (light, dark) in papers.into_iter().chain(PALETTE) {
        let RGBColor(r, g, b) = light;
        for property in ["fill", "stroke"] {
            rules += &format!(
                ".larder-figure [{property}=\"#{r:02X}{g:02X}{b:02X}\"]{{{property}:{dark}}}"
            );
        }
    }
    format!(
        "<style>.larder-figure{{max-width:100%;height:auto}}@media (prefers-color-scheme:dark){{{rules}}}</style>\n"
    )
}

fn draw(figure: &Figure, into: &mut String) -> Drawn {
    let all: Vec<Placed> = figure
        .series
        .iter()
        .map(|series| Placed::new(series, figure))
        .collect();
    let (x_low, x_high) = extent(
        &figure.x,
        all.iter().flat_map(Placed::xs),
        has_bars(figure) || !figure.x.names.is_empty(),
    );
    // Bars begin at zero, if the axis contains it.
    let zero = (has_bars(figure) && figure.y.scale == Scale::Linear).then_some(0.0);
    let (y_low, y_high) = extent(
        &figure.y,
        all.iter().flat_map(Placed::ys).chain(zero),
        false,
    );
    let foot = zero.unwrap_or(y_low);

    let root = SVGBackend::with_string(into, size(figure)).into_drawing_area();
    root.fill(&PAPER)?;
    let (plot, legend) = root.split_horizontally(PLOT.0);
    let mut chart = ChartBuilder::on(&plot)
        .caption(shown(&figure.title), text(17))
        .margin(10)
        .x_label_area_size(46 + NAME_LINE * (Names::of(figure).lines().saturating_sub(1) as u32))
        .y_label_area_size(66)
        .build_cartesian_2d(
            Track::new(&figure.x, x_low, x_high),
            Track::new(&figure.y, y_low, y_high),
        )?;
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .label_style(text(13))
        .axis_desc_style(text(14))
        .x_desc(shown(&figure.x.label))
        .y_desc(shown(&figure.y.label))
        .draw()?;
    let bars = figure
        .series
        .iter()
        .filter(|series| series.style == Style::Bars)
        .count();
    let mut bar = 0;
    for (index, placed) in all.iter().enumerate() {
        let style = Pen::of(figure.series[index].colour.unwrap_or(index));
        match placed.style {
            Style::Line => draw_line(&mut chart, placed, &style)?,
            Style::Points => draw_marks(&mut chart, placed, &style)?,
            Style::Bars => {
                draw_bars(&mut chart, placed, &style, (bar, bars), foot)?;
                bar += 1;
            }
            Style::Boxes => draw_boxes(&mut chart, placed, &style)?,
            Style::Reference => draw_references(&mut chart, placed)?,
        }
    }
    draw_names(&plot, &chart, figure, y_low, (x_low, x_high))?;
    draw_legend(&legend, figure)?;
    root.present()?;
    Ok(())
}

/// An axis in the form of plotters: positions become pixels, with labels at the ticks.
struct Track {
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
    /// Whether the ticks have names, which [`draw_names`] draws.
    is_named: bool,
}

impl Track {
    fn new(axis: &Axis, low: f64, high: f64) -> Track {
        Track {
            low,
            high,
            ticks: axis.ticks(low, high),
            is_named: !axis.names.is_empty(),
        }
    }
}

impl Ranged for Track {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(at, _)| *at).collect()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Track {
    fn format_ext(&self, at: &f64) -> String {
        if self.is_named {
            return String::new();
        }
        self.ticks
            .iter()
            .find(|(tick, _)| tick == at)
            .map_or(String::new(), |(_, text)| shown(text))
    }
}

/// A series in positions of the axes, thinned.
struct Placed {
    style: Style,
    points: Vec<(f64, f64)>,
    intervals: Vec<(f64, f64, f64)>,
    quartiles: Vec<(f64, f64, f64)>,
    /// A text for each point, or none at all.
    labels: Vec<String>,
    /// The colour of each bar, or none at all.
    bar_colours: Vec<usize>,
}

impl Placed {
    fn new(series: &Series, figure: &Figure) -> Self {
        let every = series.points.len().div_ceil(POINTS_A_SERIES - 1).max(1);
        let last = series.points.len().saturating_sub(1);
        let drawn = (0..series.points.len()).filter(|at| at % every == 0 || *at == last);
        let place = |at: usize| {
            let (x, y) = series.points[at];
            Some((figure.x.position(x)?, figure.y.position(y)?))
        };
        let between = |ends: &[(f64, f64)], at: usize| {
            let (low, high) = *ends.get(at)?;
            Some((
                figure.x.position(series.points[at].0)?,
                figure.y.position(low)?,
                figure.y.position(high)?,
            ))
        };
        let intervals = series.interval.as_deref().unwrap_or_default();
        Placed {
            style: series.style,
            points: drawn.clone().filter_map(place).collect(),
            intervals: drawn
                .clone()
                .filter_map(|at| between(intervals, at))
                .collect(),
            quartiles: drawn
                .clone()
                .filter_map(|at| between(&series.quartiles, at))
                .collect(),
            bar_colours: drawn
                .clone()
                .filter(|at| place(*at).is_some())
                .filter_map(|at| series.bar_colours.get(at).copied())
                .collect(),
            labels: drawn
                .filter(|at| place(*at).is_some())
                .filter_map(|at| series.labels.get(at))
                .map(|label| shown(label))
                .collect(),
        }
    }

    fn xs(&self) -> impl Iterator<Item = f64> {
        self.points.iter().map(|(x, _)| *x)
    }

    fn ys(&self) -> impl Iterator<Item = f64> {
        let ends = self
            .intervals
            .iter()
            .chain(&self.quartiles)
            .flat_map(|(_, low, high)| [*low, *high]);
        self.points.iter().map(|(_, y)| *y).chain(ends)
    }
}

fn has_bars(figure: &Figure) -> bool {
    figure
        .series
        .iter()
        .any(|series| series.style == Style::Bars)
}

/// Returns the range from the least to the greatest position, with a margin. A linear axis of
/// positive values that come near zero begins at zero.
fn extent(axis: &Axis, positions: impl Iterator<Item = f64>, has_places: bool) -> (f64, f64) {
    let named = axis
        .names
        .iter()
        .filter_map(|(value, _)| axis.position(*value));
    let (low, high) = positions
        .chain(named)
        .fold((f64::MAX, f64::MIN), |(low, high), at| {
            (low.min(at), high.max(at))
        });
    if low > high {
        return (0.0, 1.0);
    }
    if has_places {
        // Half the width of a bar or a name at each end.
        return (low - 0.6, high + 0.6);
    }
    let span = (high - low).max(high.abs().max(low.abs()) * 1e-6).max(1e-9);
    let near_zero = axis.scale == Scale::Linear && low >= 0.0 && low < span;
    let is_all_ones = axis.scale == Scale::Linear && high == 1.0 && low >= 0.0;
    (
        if near_zero { 0.0 } else { low - 0.03 * span },
        if is_all_ones { 1.0 } else { high + 0.05 * span },
    )
}

/// The style of the series with this number.
struct Pen {
    colour: RGBColor,
    is_dashed: bool,
}

impl Pen {
    fn of(index: usize) -> Pen {
        Pen {
            colour: PALETTE[index % COLOURS].0,
            is_dashed: index / COLOURS % 2 == 1,
        }
    }

    fn stroke(&self) -> ShapeStyle {
        ShapeStyle {
            color: self.colour.into(),
            filled: false,
            stroke_width: 2,
        }
    }

    fn fill(&self) -> ShapeStyle {
        self.colour.filled()
    }
}

/// The most points that get marks on a line.
const MARKED: usize = 40;

fn draw_line(chart: &mut Chart<'_, '_>, placed: &Placed, pen: &Pen) -> Drawn {
    if pen.is_dashed {
        let dashes = DashedPathElement::new(placed.points.clone(), 7, 4, pen.stroke());
        chart.draw_series(std::iter::once(dashes))?
    } else {
        chart.draw_series(std::iter::once(PathElement::new(
            placed.points.clone(),
            pen.stroke(),
        )))?
    };
    if placed.points.len() <= MARKED {
        return draw_marks(chart, placed, pen);
    }
    draw_whiskers(chart, &placed.intervals, pen)
}

fn draw_marks(chart: &mut Chart<'_, '_>, placed: &Placed, pen: &Pen) -> Drawn {
    let size = if placed.style == Style::Points { 4 } else { 3 };
    chart.draw_series(
        placed
            .points
            .iter()
            .map(|point| Circle::new(*point, size, pen.fill())),
    )?;
    draw_whiskers(chart, &placed.intervals, pen)
}

/// Draws series `number` of the `of` series of bars that share each unit of x.
fn draw_bars(
    chart: &mut Chart<'_, '_>,
    placed: &Placed,
    pen: &Pen,
    (number, of): (usize, usize),
    foot: f64,
) -> Drawn {
    let width = 0.8 / of as f64;
    let left = |x: f64| x - 0.4 + width * number as f64;
    let fill = |at: usize| {
        placed
            .bar_colours
            .get(at)
            .map_or_else(|| pen.fill(), |colour| Pen::of(*colour).fill())
    };
    let bar = |(at, (x, y)): (usize, &(f64, f64))| {
        Rectangle::new([(left(*x), foot), (left(*x) + width * 0.92, *y)], fill(at))
    };
    chart.draw_series(placed.points.iter().enumerate().map(bar))?;
    let whiskers: Vec<_> = placed
        .intervals
        .iter()
        .map(|(x, low, high)| (left(*x) + width * 0.46, *low, *high))
        .collect();
    draw_whiskers(
        chart,
        &whiskers,
        &Pen {
            colour: INK,
            is_dashed: false,
        },
    )
}

/// Draws boxes half a unit of x wide, on their whiskers.
fn draw_boxes(chart: &mut Chart<'_, '_>, placed: &Placed, pen: &Pen) -> Drawn {
    draw_whiskers(chart, &placed.intervals, pen)?;
    let ends = |(x, low, high): &(f64, f64, f64)| [(x - 0.25, *low), (x + 0.25, *high)];
    chart.draw_series(
        placed
            .quartiles
            .iter()
            .map(|quartiles| Rectangle::new(ends(quartiles), PAPER.filled())),
    )?;
    chart.draw_series(
        placed
            .quartiles
            .iter()
            .map(|quartiles| Rectangle::new(ends(quartiles), pen.stroke())),
    )?;
    let median =
        |(x, y): &(f64, f64)| PathElement::new(vec![(x - 0.25, *y), (x + 0.25, *y)], pen.stroke());
    chart.draw_series(placed.points.iter().map(median))?;
    Ok(())
}

/// Draws a hollow diamond at each point, and its label at the right.
fn draw_references(chart: &mut Chart<'_, '_>, placed: &Placed) -> Drawn {
    let pen = Pen {
        colour: INK,
        is_dashed: false,
    };
    draw_whiskers(chart, &placed.intervals, &pen)?;
    // On paper of their own, because they may lie on a bar. The papers are drawn first, because one
    // may reach the mark of a neighbour.
    let paper = |(point, label): (&(f64, f64), &String)| {
        // A character of this size is at most 6.6 pixels wide.
        let width = (6.6 * label.chars().count() as f64) as i32;
        EmptyElement::at(*point) + Rectangle::new([(8, -9), (11 + width, 8)], PAPER.filled())
    };
    chart.draw_series(placed.points.iter().zip(&placed.labels).map(paper))?;
    let mark = |point: &(f64, f64)| {
        EmptyElement::at(*point)
            + Polygon::new(DIAMOND.to_vec(), PAPER.filled())
            + PathElement::new(DIAMOND.to_vec(), pen.stroke())
    };
    chart.draw_series(placed.points.iter().map(mark))?;
    let label = |(point, label): (&(f64, f64), &String)| {
        EmptyElement::at(*point) + Text::new(label.clone(), (10, -7), text(12))
    };
    chart.draw_series(placed.points.iter().zip(&placed.labels).map(label))?;
    Ok(())
}

/// The outline of a reference's mark, in pixels about its point.
const DIAMOND: [(i32, i32); 5] = [(0, -6), (6, 0), (0, 6), (-6, 0), (0, -6)];

/// The names under a named axis, each in lines that fit its place. If a word is wider than a place,
/// every second name stands lower.
struct Names {
    lines: Vec<Vec<String>>,
    is_staggered: bool,
}

/// The height of a line of a name, in pixels.
const NAME_LINE: u32 = 15;

impl Names {
    fn of(figure: &Figure) -> Names {
        let names = &figure.x.names;
        // The axis' own labels and margins take 86 pixels of the plot, a character seven.
        let place = (PLOT.0 - 86) as usize / 7 / names.len().max(1);
        let lines: Vec<Vec<String>> = names
            .iter()
            .map(|(_, name)| wrapped(&shown(name), place))
            .collect();
        let widest = lines
            .iter()
            .flatten()
            .map(|line| line.chars().count())
            .max()
            .unwrap_or(0);
        Names {
            lines,
            is_staggered: widest > place,
        }
    }

    /// The lines that the highest pile takes.
    fn lines(&self) -> usize {
        let most = self.most();
        if self.is_staggered { 2 * most } else { most }
    }

    fn most(&self) -> usize {
        self.lines.iter().map(Vec::len).max().unwrap_or(0)
    }
}

/// Breaks a name at spaces and before brackets into lines of at most `width` characters; a longer
/// word has a line of its own.
fn wrapped(name: &str, width: usize) -> Vec<String> {
    let spaced = name.replace('(', " (");
    let mut lines: Vec<String> = Vec::new();
    for word in spaced.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn draw_names(
    area: &Area<'_>,
    chart: &Chart<'_, '_>,
    figure: &Figure,
    foot: f64,
    (low, high): (f64, f64),
) -> Drawn {
    let names = Names::of(figure);
    let style = text(12).pos(Pos::new(HPos::Center, VPos::Top));
    for (at, ((value, _), lines)) in figure.x.names.iter().zip(&names.lines).enumerate() {
        let Some(place) = figure
            .x
            .position(*value)
            .filter(|place| (low..=high).contains(place))
        else {
            continue;
        };
        let (x, y) = chart.backend_coord(&(place, foot));
        let lower = if names.is_staggered && at % 2 == 1 {
            names.most()
        } else {
            0
        };
        for (line, content) in lines.iter().enumerate() {
            let below = 8 + (NAME_LINE * (line + lower) as u32) as i32;
            area.draw(&Text::new(content.clone(), (x, y + below), style.clone()))?;
        }
    }
    Ok(())
}

fn draw_whiskers(chart: &mut Chart<'_, '_>, intervals: &[(f64, f64, f64)], pen: &Pen) -> Drawn {
    let whisker = |(x, low, high): &(f64, f64, f64)| {
        PathElement::new(vec![(*x, *low), (*x, *high)], pen.stroke())
    };
    chart.draw_series(intervals.iter().map(whisker))?;
    Ok(())
}

fn draw_legend(area: &Area<'_>, figure: &Figure) -> Drawn {
    for (index, series) in figure.series.iter().enumerate() {
        let (pen, y) = (
            Pen::of(series.colour.unwrap_or(index)),
            50 + (LEGEND_LINE * index as u32) as i32,
        );
        match series.style {
            Style::Bars => area.draw(&Rectangle::new([(4, y - 6), (26, y + 6)], pen.fill()))?,
            Style::Points => area.draw(&Circle::new((15, y), 4, pen.fill()))?,
            Style::Boxes => {
                area.draw(&Rectangle::new([(4, y - 6), (26, y + 6)], pen.stroke()))?;
                area.draw(&PathElement::new(vec![(4, y), (26, y)], pen.stroke()))?;
            }
            Style::Reference => {
                let outline = DIAMOND.map(|(right, down)| (15 + right, y + down)).to_vec();
                area.draw(&PathElement::new(
                    outline,
                    Pen {
                        colour: INK,
                        is_dashed: false,
                    }
                    .stroke(),
                ))?;
            }
            Style::Line if pen.is_dashed => {
                area.draw(&DashedPathElement::new(
                    [(4, y), (26, y)],
                    7,
                    4,
                    pen.stroke(),
                ))?;
            }
            Style::Line => area.draw(&PathElement::new(vec![(4, y), (26, y)], pen.stroke()))?,
        }
        area.draw(&Text::new(shown(&series.name), (32, y - 7), text(13)))?;
    }
    Ok(())
}

fn text(size: u32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

/// Returns the text as drawn: without control characters, which XML forbids, and not longer than
/// fits.
fn shown(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control() && !matches!(c, '\u{FFFE}' | '\u{FFFF}'))
        .take(TEXT_CHARS)
        .collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
