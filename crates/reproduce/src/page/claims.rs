//! The claims of an experiment: a table, with a strip that has the band, the stated value and the
//! measured one on one axis.

use super::{escaped, kind_name};
use crate::{Judged, Stated, Verdict};
use std::fmt::Write;

/// What stands above the claims of which some have a strip.
const STRIPS: &str = "<p class=\"soft\">Strips: the band is grey, the published or expected value a diamond, the \
    measured value a dot.</p>\n";

pub(super) fn write(page: &mut String, claims: &[Judged]) {
    if claims.is_empty() {
        return;
    }
    if claims.iter().any(|claim| strip(claim).is_some()) {
        page.push_str(STRIPS);
    }
    page.push_str(
        "<div class=\"scroll\"><table class=\"claims\">\n<thead><tr><th>claim, and why its band<th>kind<th>published\
         <th>expected<th>measured<th>band<th>strip<th>verdict</tr></thead>\n<tbody>\n",
    );
    for claim in claims {
        write_claim(page, claim);
    }
    page.push_str("</tbody></table></div>\n");
}

fn write_claim(page: &mut String, claim: &Judged) {
    let [published, expected, measured, band] = claim.shown().map(|text| escaped(&text));
    let source = claim
        .source
        .iter()
        .map(|source| format!(" Expected by: {source}."))
        .collect::<String>();
    let class = match claim.verdict() {
        Verdict::Holds | Verdict::HoldsThoughListed => "holds",
        Verdict::FailsAsListed => "listed",
        Verdict::Fails | Verdict::NotMeasured => "fails",
    };
    let listed = claim
        .known_failure
        .iter()
        .map(|reason| format!("<br>Known to fail: {}", escaped(reason)));
    let _ = writeln!(
        page,
        "<tr id=\"{0}\"><td>{1} <small>{0}<br>{5}{6}</small><td data-label=\"kind\">{2}<td data-label=\"published\" class=\"number\">\
         {published}<td data-label=\"expected\">{expected}<td data-label=\"measured\" class=\"number\">{measured}\
         <td data-label=\"band\" class=\"number\">{band}<td>{3}<td data-label=\"verdict\" class=\"{class}\">{4}</tr>",
        escaped(&claim.id),
        escaped(&claim.says),
        kind_name(claim.kind),
        strip(claim).unwrap_or_default(),
        escaped(&claim.verdict_text()),
        escaped(&(claim.reason.clone() + &source)),
        listed.collect::<String>(),
    );
}

/// The size of a strip and its margin, in its own units.
const WIDTH: f64 = 150.0;
const MARGIN: f64 = 8.0;

/// Returns a small picture of the claim; `None` without two different values to show.
fn strip(claim: &Judged) -> Option<String> {
    let [low, high] = match claim.published.or(claim.expected)? {
        Stated::Figure(value) => [value; 2],
        Stated::Range(range) => range,
    };
    let finite = |values: &[f64]| {
        values
            .iter()
            .copied()
            .filter(|value| value.is_finite())
            .collect::<Vec<_>>()
    };
    let shown = finite(&[&[low, high], &claim.band[..], claim.measured.as_slice()].concat());
    let (least, most) = shown.iter().fold((f64::MAX, f64::MIN), |(least, most), v| {
        (least.min(*v), most.max(*v))
    });
    let is_log = least > 0.0 && most / least > 8.0;
    let scaled = |value: f64| if is_log { value.ln() } else { value };
    let span = scaled(most) - scaled(least);
    if span <= 0.0 || !span.is_finite() {
        return None;
    }
    let x = |value: f64| {
        let share = ((scaled(value) - scaled(least)) / span).clamp(0.0, 1.0);
        MARGIN + share * (WIDTH - 2.0 * MARGIN)
    };
    // An open side of a band goes to the end of the strip.
    let left = if claim.band[0].is_finite() {
        x(claim.band[0])
    } else {
        0.0
    };
    let right = if claim.band[1].is_finite() {
        x(claim.band[1])
    } else {
        WIDTH
    };
    let mut svg = format!(
        "<svg class=\"strip\" viewBox=\"0 0 {WIDTH} 18\" role=\"img\" aria-label=\"band, stated and measured value\">\
         <rect class=\"band\" x=\"{left:.1}\" y=\"2\" width=\"{:.1}\" height=\"14\"/>\
         <path class=\"axis\" d=\"M0 9H{WIDTH}\"/>",
        (right - left).max(1.0)
    );
    if low < high {
        let _ = write!(
            svg,
            "<path class=\"stated\" d=\"M{:.1} 9H{:.1}\"/>",
            x(low),
            x(high)
        );
    }
    for at in if low < high {
        vec![low, high]
    } else {
        vec![low]
    } {
        let _ = write!(
            svg,
            "<path class=\"stated\" d=\"M{:.1} 3l5 6-5 6-5-6z\"/>",
            x(at)
        );
    }
    if let Some(measured) = claim.measured {
        let class = if claim.holds {
            "measured"
        } else {
            "measured off"
        };
        let _ = write!(
            svg,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"9\" r=\"4\"/>",
            x(measured)
        );
    }
    svg.push_str("</svg>");
    Some(svg)
}
