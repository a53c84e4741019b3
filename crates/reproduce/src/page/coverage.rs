//! The coverage table of the page.

use super::escaped;
use crate::{Judged, Report};
use std::fmt::Write;

pub(super) fn write(page: &mut String, report: &Report) {
    let Ok(coverage) = report.coverage() else {
        return;
    };
    let [covered, explained, missing] = coverage.counts();
    let _ = writeln!(
        page,
        "<section>\n<h2 id=\"coverage\">What of the paper is covered</h2>\n<p>{} items: {covered} have claims, {explained} \
         have a reason for none, <span class=\"{}\">{missing} are missing</span>.</p>\n\
         <div class=\"scroll\"><table>\n<tr><th>item<th>what<th>file<th>claims<th>state</tr>",
        coverage.items.len(),
        if missing == 0 { "holds" } else { "fails" },
    );
    let all: Vec<&Judged> = report.claims().collect();
    for item in &coverage.items {
        let claims = item.claims.iter().map(|claim| {
            let id = escaped(&claim.id);
            let is_here = report.claims().any(|judged| judged.id == claim.id);
            if is_here {
                format!("<a href=\"#{id}\">{id}</a>")
            } else {
                id
            }
        });
        let _ = writeln!(
            page,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            escaped(&item.name),
            escaped(&item.what),
            escaped(&item.files().join(", ")),
            claims.collect::<Vec<_>>().join(", "),
            escaped(&item.state(&all)),
        );
    }
    page.push_str("</table></div>\n</section>\n");
}
