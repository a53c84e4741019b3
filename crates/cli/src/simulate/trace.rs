//! A run over time as one table: a row per step, component and quantity. Every column has one type,
//! so Parquet, pandas or a database can read it directly.

use crate::destination::write_whole;
use crate::failure::Failure;
use larder_netsim::scenario::{Step, Timeline};
use std::fmt::Write;
use std::path::Path;

/// A quantity, its unit and its value.
type Value = (&'static str, &'static str, f64);

/// Writes the table into `path`: `time_s,component,quantity,unit,value`. `time_s` is the step's
/// end. A missing value has no row, such as the delay of a step without Data.
///
/// # Errors
/// If it cannot be written.
pub fn write(timeline: &Timeline, path: &Path) -> Result<(), Failure> {
    write_whole(path, &table(timeline))
}

fn table(timeline: &Timeline) -> String {
    let consumers = timeline.consumers.iter().map(|(label, _)| label.clone());
    let nodes = timeline
        .nodes
        .iter()
        .map(|each| format!("node {}", each.name));
    let channels = timeline
        .channels
        .iter()
        .map(|channel| format!("channel {}", channel.name));
    // A scenario file defines the names of nodes, which may contain quotes.
    let components: Vec<String> = consumers
        .chain(nodes)
        .chain(channels)
        .map(|name| format!("\"{}\"", name.replace('"', "\"\"")))
        .collect();
    let mut out = "time_s,component,quantity,unit,value\n".to_owned();
    for step in &timeline.steps {
        let at = step.at.as_secs_f64();
        for (component, values) in components.iter().zip(values(step)) {
            for (quantity, unit, value) in
                values.into_iter().filter(|(.., value)| value.is_finite())
            {
                let _ = writeln!(out, "{at},{component},{quantity},{unit},{value}");
            }
        }
    }
    out
}

/// Returns the values of each component in the order of the timeline: consumers, nodes, channels.
fn values(step: &Step) -> impl Iterator<Item = Vec<Value>> {
    let consumers = step.consumers.iter().map(|consumer| {
        let goodput = ("goodput", "Mbps", consumer.goodput_mbps);
        vec![
            goodput,
            ("data", "", consumer.data as f64),
            ("delay", "ms", consumer.delay * 1e3),
        ]
    });
    let nodes = step.nodes.iter().map(|node| {
        vec![
            ("interests", "", node.interests as f64),
            ("hits", "", node.hits as f64),
            ("misses", "", node.misses as f64),
            ("stored", "", node.stored as f64),
            ("satisfied", "", node.satisfied as f64),
            ("unsatisfied", "", node.unsatisfied as f64),
            ("pending", "", node.pending as f64),
            ("up", "", f64::from(u8::from(node.is_up))),
        ]
    });
    let channels = step.channels.iter().map(|channel| {
        let rate = ("rate", "Mbps", channel.rate_mbps);
        vec![
            rate,
            ("waiting", "", channel.waiting as f64),
            ("gone", "", channel.gone as f64),
        ]
    });
    consumers.chain(nodes).chain(channels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_netsim::scenario::{Scenario, Watch};
    use std::time::Duration;

    #[test]
    fn a_row_is_of_another_component_or_has_no_number() {
        let text = "duration = \"2s\"\n[line]\nnodes = 2\nlink = { rate = \"10Mbps\", delay = \"5ms\" }\n\
            [[producer]]\nnode = \"n1\"\nprefix = \"/a\"\n[[cbr]]\nnode = \"n0\"\nprefix = \"/a\"\nfrequency = 100\nstop = \"1s\"\n";
        let watch = Watch {
            step: Duration::from_millis(500),
            closely: false,
        };
        let (figures, timeline) = Scenario::parse(text, "two.toml")
            .unwrap()
            .watch(1, watch)
            .unwrap();
        let table = table(&timeline);
        let rows: Vec<Vec<&str>> = table
            .lines()
            .skip(1)
            .map(|line| line.split(',').collect())
            .collect();
        assert!(
            rows.iter()
                .all(|row| row.len() == 5 && row[4].parse::<f64>().is_ok_and(f64::is_finite))
        );
        let sum = |component: &str, quantity: &str| -> f64 {
            let of = rows
                .iter()
                .filter(|row| row[1] == format!("\"{component}\"") && row[2] == quantity);
            of.map(|row| row[4].parse::<f64>().unwrap()).sum()
        };
        for (component, quantity) in [
            ("cbr n0 /a", "data"),
            ("node n1", "interests"),
            ("node n0", "hits"),
        ] {
            let figure = figures.iter().find(|figure| {
                (figure.component.as_str(), figure.quantity) == (component, quantity)
            });
            assert_eq!(
                sum(component, quantity),
                figure.unwrap().value,
                "{quantity} of {component}"
            );
        }
        assert!(sum("channel n1 n0", "rate") > 0.0);
        // Four steps; in the last one nothing arrives, so there is no delay.
        let delays = rows.iter().filter(|row| row[2] == "delay").count();
        assert_eq!(
            (
                rows.iter().filter(|row| row[2] == "goodput").count(),
                delays
            ),
            (4, 3)
        );
    }
}
