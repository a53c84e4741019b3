//! Figures of a run over time.

use crate::destination::write_whole;
use crate::failure::Failure;
use larder_figure::{Axis, Figure, Series};
use larder_netsim::scenario::{Step, Timeline};
use std::path::Path;

/// The default number of steps of a run. A step is a few pixels wide.
pub const STEPS: u32 = 240;

/// The most lines of one figure: those with the greatest values.
const MOST_LINES: usize = 12;

/// Writes `goodput.svg`, `delay.svg`, `hit-ratio.svg`, `queues.svg` and `links.svg` into
/// `directory`.
///
/// # Errors
/// If they cannot be written.
pub fn write(timeline: &Timeline, directory: &Path) -> Result<(), Failure> {
    make(directory)?;
    let consumers: Vec<String> = timeline
        .consumers
        .iter()
        .map(|(label, _)| label.clone())
        .collect();
    let nodes: Vec<String> = timeline
        .nodes
        .iter()
        .map(|node| node.name.clone())
        .collect();
    let channels: Vec<String> = timeline
        .channels
        .iter()
        .map(|channel| channel.name.clone())
        .collect();
    let ratio =
        |step: &Step, node: usize| step.nodes[node].hits as f64 / step.nodes[node].interests as f64;
    let figures = [
        (
            "goodput",
            "goodput, Mb/s",
            over(timeline, &consumers, |step, at| {
                step.consumers[at].goodput_mbps
            }),
        ),
        (
            "delay",
            "mean delay, ms",
            over(timeline, &consumers, |step, at| {
                step.consumers[at].delay * 1e3
            }),
        ),
        (
            "hit-ratio",
            "hits of all Interests",
            over(timeline, &nodes, ratio),
        ),
        (
            "queues",
            "frames that wait",
            over(timeline, &channels, |step, at| {
                step.channels[at].waiting as f64
            }),
        ),
        (
            "links",
            "rate, Mb/s",
            over(timeline, &channels, |step, at| step.channels[at].rate_mbps),
        ),
    ];
    for (file, label, series) in figures {
        let title = if series.len() < MOST_LINES {
            label.to_owned()
        } else {
            format!("{label}: the {MOST_LINES} with the most")
        };
        let figure = Figure {
            title,
            x: Axis::linear("time, s"),
            y: Axis::linear(label),
            series,
        };
        write_whole(&directory.join(format!("{file}.svg")), &figure.svg())?;
    }
    Ok(())
}

/// Creates the directory if it does not exist.
pub fn make(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).map_err(|error| {
        Failure::usage(format!(
            "cannot create {}: {}",
            directory.display(),
            larder_units::system_message(&error)
        ))
    })
}

fn over(timeline: &Timeline, names: &[String], value: impl Fn(&Step, usize) -> f64) -> Vec<Series> {
    let line = |at: usize| -> Vec<(f64, f64)> {
        timeline
            .steps
            .iter()
            .map(|step| (step.at.as_secs_f64(), value(step, at)))
            .collect()
    };
    let total = |at: usize| {
        timeline
            .steps
            .iter()
            .map(|step| value(step, at))
            .filter(|value| value.is_finite())
            .sum()
    };
    let mut places: Vec<(usize, f64)> = (0..names.len()).map(|at| (at, total(at))).collect();
    places.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    places.truncate(MOST_LINES);
    places.sort_by_key(|(at, _)| *at);
    places
        .into_iter()
        .map(|(at, _)| Series::line(names[at].clone(), line(at)))
        .collect()
}
