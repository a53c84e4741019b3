//! Failures of a figure: it shows values that were not measured, or cannot be shown at all.

use larder_figure::limits::POINTS_A_SERIES;
use larder_figure::{Axis, Figure, Scale, Series, Style};
use proptest::prelude::*;

fn figure(series: Vec<Series>) -> Figure {
    Figure {
        title: "A <title> & \"more\"".to_owned(),
        x: Axis::linear("x"),
        y: Axis::log("y"),
        series,
    }
}

/// The centres of the marks of a picture.
fn marks(svg: &str) -> Vec<(f64, f64)> {
    let number = |tag: &str, name: &str| {
        let value = tag
            .split(&format!(" {name}=\""))
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        value.and_then(|value| value.parse().ok()).unwrap()
    };
    svg.split("<circle")
        .skip(1)
        .map(|tag| (number(tag, "cx"), number(tag, "cy")))
        .collect()
}

#[test]
fn points_are_out_of_place() {
    // Equal factors are equal distances on the logarithmic axis, and equal steps on the linear one.
    // The last mark is that of the legend.
    let svg = figure(vec![Series::points(
        "s",
        vec![(0.0, 1.0), (1.0, 10.0), (2.0, 100.0), (3.0, 1000.0)],
    )])
    .svg();
    let marks = marks(&svg);
    assert_eq!(marks.len(), 5);
    for pair in marks[..4].windows(2) {
        assert!(
            (pair[1].0 - pair[0].0 - (marks[1].0 - marks[0].0)).abs() <= 1.0,
            "{marks:?}"
        );
        assert!(
            (pair[1].1 - pair[0].1 - (marks[1].1 - marks[0].1)).abs() <= 1.0,
            "{marks:?}"
        );
        assert!(pair[1].1 < pair[0].1, "up is more");
    }
}

#[test]
fn what_cannot_be_shown_is_shown_somewhere() {
    let unshowable = vec![
        (f64::NAN, 1.0),
        (1.0, 0.0),
        (1.0, -3.0),
        (f64::INFINITY, 2.0),
        (1.0, 5.0),
    ];
    let svg = figure(vec![Series::points("s", unshowable)]).svg();
    assert_eq!(marks(&svg).len(), 2, "one point, one mark of the legend");
}

#[test]
fn a_name_in_the_legend_is_cut_off() {
    let size = |svg: &str| {
        let (width, rest) = svg
            .split_once("viewBox=\"0 0 ")
            .unwrap()
            .1
            .split_once(' ')
            .unwrap();
        (
            width.parse::<usize>().unwrap(),
            rest.split_once('"').unwrap().0.parse::<usize>().unwrap(),
        )
    };
    let name = "filter(theta=2,window=50000)+fifo, twitter";
    let long = size(&figure(vec![Series::line(name, vec![])]).svg());
    let many = size(
        &figure(
            (0..30)
                .map(|n| Series::line(format!("{n}"), vec![]))
                .collect(),
        )
        .svg(),
    );
    assert!(
        long.0 >= 590 + 32 + 7 * name.len() && many.1 >= 50 + 30 * 22,
        "{long:?} {many:?}"
    );
}

#[test]
fn a_title_breaks_the_page() {
    let svg = figure(vec![Series::line("<script>\u{0}", vec![])]).svg();
    assert!(
        svg.contains("A &lt;title&gt; &amp; &quot;more&quot;")
            && !svg.contains("<script")
            && !svg.contains('\0')
    );
}

#[test]
fn the_same_figure_differs() {
    let make = || {
        figure(vec![Series::line(
            "s",
            (1..9).map(|i| (f64::from(i), f64::from(i * i))).collect(),
        )])
        .svg()
    };
    assert_eq!(make(), make());
}

#[test]
fn a_long_trace_makes_a_picture_of_its_size() {
    let long = Series::line(
        "s",
        (0..1_000_000)
            .map(|i| (f64::from(i), 1.0 + f64::from(i)))
            .collect(),
    );
    assert!(figure(vec![long]).svg().len() < POINTS_A_SERIES * 20);
}

/// The texts of a picture with the middle of each, in pixels, for texts that are centred.
fn texts(svg: &str) -> Vec<(String, f64, f64)> {
    let tags = svg
        .split("<text")
        .skip(1)
        .filter(|tag| tag.contains("text-anchor=\"middle\""));
    let parts = tags.filter_map(|tag| {
        let number = |name: &str| {
            tag.split(&format!(" {name}=\""))
                .nth(1)?
                .split('"')
                .next()?
                .parse()
                .ok()
        };
        let content = tag.split_once('>')?.1.split_once('<')?.0.trim().to_owned();
        (!content.is_empty()).then_some(())?;
        Some((content, number("x")?, number("y")?))
    });
    parts.collect()
}

#[test]
fn names_under_bars_overlap() {
    let systems = [
        "Varnish",
        "Nginx",
        "AdaptSize(Threshold)",
        "AdaptSize(Chance)",
        "LookAhead(Threshold)",
        "LookAhead(Chance)",
    ];
    for names in [&systems[..], &["AdaptSize(Threshold)"; 8]] {
        let bars = Series::bars(
            "hits",
            (0..names.len()).map(|at| (at as f64, 0.5)).collect(),
        );
        let x = Axis::named("", names.iter().copied());
        let svg = Figure {
            title: "t".to_owned(),
            x,
            y: Axis::linear("y"),
            series: vec![bars],
        }
        .svg();
        let texts = texts(&svg);
        let drawn = texts.iter().map(|(text, ..)| text.len()).sum::<usize>();
        assert!(
            drawn
                >= names
                    .iter()
                    .map(|name| name.replace(' ', "").len())
                    .sum::<usize>(),
            "{texts:?}"
        );
        for (at, (one, x, y)) in texts.iter().enumerate() {
            for (other, other_x, _) in texts[at + 1..]
                .iter()
                .filter(|(.., other_y)| (other_y - y).abs() < 10.0)
            {
                let apart = (x - other_x).abs() - 6.0 * (one.len() + other.len()) as f64 / 2.0;
                assert!(apart >= 0.0, "{one} and {other}: {apart}");
            }
        }
    }
}

#[test]
fn a_published_value_looks_measured_or_a_colour_moves_with_the_order() {
    let of = |series: Vec<Series>| figure(series).svg();
    let first = of(vec![
        Series::line("a", vec![(1.0, 1.0), (2.0, 2.0)]).coloured(4),
    ]);
    let second = of(vec![
        Series::line("b", vec![]),
        Series::line("a", vec![(1.0, 1.0), (2.0, 2.0)]).coloured(4),
    ]);
    let colour = "stroke=\"#9A6A00\"";
    assert!(
        first.matches(colour).count() >= 2
            && first.matches(colour).count() == second.matches(colour).count()
    );
    let published = Series::reference(
        "published",
        vec![(1.0, 3.0)],
        vec!["published 3".to_owned()],
    );
    let svg = of(vec![
        Series::points("measured", vec![(1.0, 2.0)]),
        published,
    ]);
    assert!(svg.contains("published 3"));
    assert_eq!(
        marks(&svg).len(),
        2,
        "a circle and that of the legend: the reference has none"
    );
}

/// The number of rectangles beyond those of an empty figure.
fn rectangles(series: Series) -> usize {
    let of = |series| figure(vec![series]).svg().matches("<rect").count();
    of(series) - of(Series::points("s", vec![(1.0, 2.0)]))
}

#[test]
fn a_box_is_not_drawn_or_has_no_whiskers() {
    let boxes = Series::boxes(
        "s",
        vec![(1.0, 2.0), (2.0, 3.0)],
        vec![(1.5, 2.5), (2.5, 4.0)],
    );
    // A box is paper and an outline; the legend has an outline.
    assert_eq!(rectangles(boxes.clone()), 2 * 2 + 1);
    let svg = figure(vec![boxes.clone()]).svg();
    let with_whiskers = figure(vec![boxes.with_interval(vec![(1.0, 3.0), (2.0, 5.0)])]).svg();
    let lines = |svg: &str| svg.matches("<polyline").count();
    assert!(lines(&with_whiskers) >= lines(&svg) + 2, "whiskers");
    let beyond = Series::boxes("s", vec![(1.0, 2.0)], vec![(1.5, 1e6)]);
    assert!(
        figure(vec![beyond]).svg().contains("1M"),
        "the axis ends before a quartile"
    );
}

fn series() -> impl Strategy<Value = Series> {
    let style = prop_oneof![
        Just(Style::Line),
        Just(Style::Points),
        Just(Style::Bars),
        Just(Style::Boxes),
        Just(Style::Reference)
    ];
    let points = prop::collection::vec(any::<(f64, f64)>(), 0..20);
    let ends = || prop::collection::vec(any::<(f64, f64)>(), 0..20);
    let interval = prop::option::of(ends());
    (".{0,8}", points, style, interval, ends()).prop_map(
        |(name, points, style, interval, quartiles)| Series {
            name,
            points,
            style,
            interval,
            quartiles,
            colour: None,
            bar_colours: vec![3],
            labels: vec!["label".to_owned()],
        },
    )
}

fn axis() -> impl Strategy<Value = Axis> {
    let scale = prop_oneof![Just(Scale::Linear), Just(Scale::Log)];
    (
        ".{0,8}",
        scale,
        prop::collection::vec(any::<(f64, String)>(), 0..4),
    )
        .prop_map(|(label, scale, names)| Axis {
            label,
            scale,
            names,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_figure_can_be_made(title in ".{0,20}", x in axis(), y in axis(), series in prop::collection::vec(series(), 0..4)) {
        let svg = Figure { title, x, y, series }.svg();
        prop_assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        prop_assert!(!svg.contains("NaN") && !svg.contains("inf\""));
    }
}
