//! One colour for each policy and system, in all figures.
//!
//! Places are those of the figure crate's palette; a place of ten or more is the colour of the
//! place ten below, dashed: another form of the same policy.

use larder_figure::{COLOURS, Series, Style};

/// The colours of names by their beginning, in lower case. The longest beginning counts.
const PLACES: [(&str, usize); 32] = [
    ("fifo", 0),
    ("lru", 1),
    ("varnish", 1),
    ("lfu", 2),
    ("lfu (in cache)", 12),
    ("random", 3),
    ("random (ndnsim", 13),
    ("arc", 4),
    ("tinylfu", 5),
    ("filter", 6),
    ("adaptsize", 7),
    ("adaptsize(threshold)", 17),
    ("adaptsize(published)", 3),
    ("as(published)", 3),
    ("chance", 7),
    ("threshold", 17),
    ("lookahead", 8),
    ("lookahead(threshold)", 18),
    ("hillclimb", 9),
    ("hillclimb(tuned)", 19),
    ("static", 4),
    ("nginx", 5),
    ("larder", 0),
    ("larder, udp", 7),
    ("larder over udp", 7),
    ("larder, packets of 64", 9),
    ("squid", 1),
    ("squid, bbr", 11),
    ("lighttpd", 5),
    ("wget", 6),
    ("s4lru", 3),
    ("2q", 2),
];

/// Gives each series its colour: the policy's, or one that no other series of the figure has. Of
/// two series of the same colour and style, the second one is treated as one without a policy.
pub(crate) fn assign(series: &mut [Series]) {
    let mut taken: Vec<(usize, Style)> = Vec::new();
    for one in series
        .iter_mut()
        .filter(|one| one.style != Style::Reference)
    {
        let place = one.colour.or_else(|| place_of(&one.name));
        // Bars cannot be dashed.
        let place = place.filter(|place| one.style != Style::Bars || *place < COLOURS);
        one.colour = place.filter(|place| !taken.contains(&(*place, one.style)));
        taken.extend(one.colour.map(|place| (place, one.style)));
    }
    let mut free = (0..).filter(|place| taken.iter().all(|(other, _)| other != place));
    for one in series
        .iter_mut()
        .filter(|one| one.style != Style::Reference)
    {
        one.colour = one.colour.or_else(|| free.next());
    }
}

/// Gives each bar of a figure with one series of bars the colour of the policy under it, if every
/// name is a policy's.
pub(crate) fn assign_bars(series: &mut [Series], names: &[(f64, String)]) {
    if let [one] = series {
        let name_at = |x: f64| {
            names
                .iter()
                .find(|(place, _)| (place - x).abs() < 0.5)
                .map(|(_, name)| name)
        };
        let place = |(x, _): &(f64, f64)| Some(place_of(name_at(*x)?)? % COLOURS);
        if let (Style::Bars, Some(places)) = (
            one.style,
            one.points.iter().map(place).collect::<Option<Vec<_>>>(),
        ) {
            one.bar_colours = places;
        }
    }
}

fn place_of(name: &str) -> Option<usize> {
    let name = name.to_lowercase();
    let begins = PLACES.iter().filter(|(begin, _)| name.starts_with(begin));
    begins
        .max_by_key(|(begin, _)| begin.len())
        .map(|(_, place)| *place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colours(names: &[&str]) -> Vec<usize> {
        let mut series: Vec<Series> = names
            .iter()
            .map(|name| Series::line(*name, Vec::new()))
            .collect();
        assign(&mut series);
        series.iter().map(|one| one.colour.unwrap()).collect()
    }

    #[test]
    fn a_policy_changes_its_colour_with_the_figure() {
        assert_eq!(colours(&["FIFO", "LFU", "LRU"]), [0, 2, 1]);
        assert_eq!(colours(&["LRU", "FIFO, equations"]), [1, 0]);
        assert_eq!(colours(&["LFU (in cache)", "LFU (400 C)"]), [12, 2]);
        assert_eq!(
            colours(&["Varnish", "AdaptSize(Threshold)", "AdaptSize(Chance)"]),
            [1, 17, 7]
        );
    }

    #[test]
    fn a_bar_has_another_colour_than_its_policy_s_line() {
        let names: Vec<(f64, String)> = [(0.0, "Varnish"), (1.0, "AdaptSize(Threshold)")]
            .map(|(x, name)| (x, name.to_owned()))
            .into();
        let mut series = vec![Series::bars("hits", vec![(0.0, 0.1), (1.0, 0.2)])];
        assign_bars(&mut series, &names);
        assert_eq!(series[0].bar_colours, [1, 7]);
        let mut unknown = vec![Series::bars("hits", vec![(0.0, 0.1), (1.0, 0.2)])];
        assign_bars(
            &mut unknown,
            &[(0.0, "Varnish".to_owned()), (1.0, "x".to_owned())],
        );
        assert!(
            unknown[0].bar_colours.is_empty(),
            "one bar would look like another policy"
        );
    }

    #[test]
    fn two_series_have_one_colour() {
        assert_eq!(
            colours(&["x", "FIFO", "y", "LRU"]),
            [2, 0, 3, 1],
            "names without a policy"
        );
        assert_eq!(colours(&["LRU, a", "LRU, b"]), [1, 0]);
        let mut series = vec![
            Series::line("FIFO, equations", vec![]),
            Series::points("FIFO, replay", vec![]),
        ];
        assign(&mut series);
        assert_eq!(
            [series[0].colour, series[1].colour],
            [Some(0); 2],
            "a line and its points"
        );
        let mut bars = vec![
            Series::bars("threshold", vec![]),
            Series::reference("published", vec![], vec![]),
        ];
        assign(&mut bars);
        assert_eq!([bars[0].colour, bars[1].colour], [Some(0), None]);
    }
}
