//! A run as one page that plays it: the drawn network with the links' loads, queues and hits, and a
//! time slider. The page needs no other file.

use crate::destination::write_whole;
use crate::failure::Failure;
use larder_netsim::scenario::{Step, Timeline};
use serde::Serialize;
use std::path::Path;

/// The page. The data of the run replaces `DATA`.
const PAGE: &str = include_str!("replay.html");

/// The most moments that the page shows.
const MOMENTS: usize = 240;

/// The most numbers in the page, about 10 MB.
const NUMBERS: usize = 3_000_000;

/// The data of the page: names, ends, and a row of each per moment.
#[derive(Serialize)]
struct Data<'a> {
    title: &'a str,
    nodes: Vec<&'a str>,
    positions: Vec<Option<(f64, f64)>>,
    /// The ends of the channels, two channels per link.
    channels: Vec<[usize; 2]>,
    consumers: Vec<&'a str>,
    moments: Vec<Moment>,
}

#[derive(Serialize)]
struct Moment {
    /// The time in seconds.
    t: f64,
    /// For each node: hits of all Interests in percent, -1 without Interests, -2 while it is down;
    /// then pending Interests.
    h: Vec<i32>,
    p: Vec<usize>,
    /// For each channel: its load in thousandths of its rate, at least 1 if there is any, -1
    /// without a rate; waiting frames; lost frames.
    u: Vec<i32>,
    w: Vec<usize>,
    x: Vec<u64>,
    /// For each consumer: kb/s, and the mean delay in tenths of a millisecond, -1 without Data.
    g: Vec<u64>,
    d: Vec<i64>,
}

/// Writes the page.
///
/// # Errors
/// If it cannot be written.
pub fn write(timeline: &Timeline, title: &str, path: &Path) -> Result<(), Failure> {
    // `<` could end the script.
    let data = serde_json::to_string(&data(timeline, title))
        .unwrap_or_default()
        .replace('<', "\\u003c");
    write_whole(path, &PAGE.replacen("DATA", &data, 1))
}

fn data<'a>(timeline: &'a Timeline, title: &'a str) -> Data<'a> {
    let numbers =
        2 * timeline.nodes.len() + 3 * timeline.channels.len() + 2 * timeline.consumers.len();
    let most = (NUMBERS / numbers.max(1)).clamp(2, MOMENTS);
    let every = timeline.steps.len().div_ceil(most).max(1);
    Data {
        title,
        nodes: timeline
            .nodes
            .iter()
            .map(|node| node.name.as_str())
            .collect(),
        positions: timeline.nodes.iter().map(|node| node.position).collect(),
        channels: timeline
            .channels
            .iter()
            .map(|channel| channel.ends)
            .collect(),
        consumers: timeline
            .consumers
            .iter()
            .map(|(label, _)| label.as_str())
            .collect(),
        moments: timeline
            .steps
            .chunks(every)
            .map(|steps| moment(timeline, steps))
            .collect(),
    }
}

/// Merges several steps: means of rates, sums of counts, and the state at the end.
fn moment(timeline: &Timeline, steps: &[Step]) -> Moment {
    let last = &steps[steps.len() - 1];
    let nodes = 0..timeline.nodes.len();
    let hits = |node: usize| {
        let sum = |of: fn(&larder_netsim::scenario::NodeStep) -> u64| -> u64 {
            steps.iter().map(|step| of(&step.nodes[node])).sum()
        };
        let interests = sum(|node| node.interests);
        match () {
            () if !last.nodes[node].is_up => -2,
            () if interests == 0 => -1,
            () => (100.0 * sum(|node| node.hits) as f64 / interests as f64).round() as i32,
        }
    };
    let load = |channel: usize| {
        let rate = steps
            .iter()
            .map(|step| step.channels[channel].rate_mbps)
            .sum::<f64>()
            / steps.len() as f64;
        timeline.channels[channel]
            .rate
            .map_or(-1, |most| (rate * 1e9 / most as f64).ceil() as i32)
    };
    let channels = 0..timeline.channels.len();
    let gone = |channel: usize| steps.iter().map(|step| step.channels[channel].gone).sum();
    let consumers = 0..timeline.consumers.len();
    let goodput = |consumer: usize| {
        let sum: f64 = steps
            .iter()
            .map(|step| step.consumers[consumer].goodput_mbps)
            .sum();
        (sum * 1e3 / steps.len() as f64).round() as u64
    };
    let delay = |consumer: usize| match last.consumers[consumer].delay {
        delay if delay.is_finite() => (delay * 1e4).round() as i64,
        _ => -1,
    };
    Moment {
        t: (last.at.as_secs_f64() * 1e3).round() / 1e3,
        h: nodes.map(hits).collect(),
        p: last.nodes.iter().map(|node| node.pending).collect(),
        u: channels.clone().map(load).collect(),
        w: last
            .channels
            .iter()
            .map(|channel| channel.waiting)
            .collect(),
        x: channels.map(gone).collect(),
        g: consumers.clone().map(goodput).collect(),
        d: consumers.map(delay).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_netsim::scenario::{Scenario, Watch};
    use std::time::Duration;

    #[test]
    fn the_page_needs_nothing_else_and_is_not_ended_by_a_name() {
        let text = r#"
            duration = "2s"
            [[node]]
            name = "a</script>"
            [[node]]
            name = "b"
            [[link]]
            ends = ["a</script>", "b"]
            like = { rate = "1Mbps", delay = "1ms" }
            [[producer]]
            node = "b"
            prefix = "/p"
            [[cbr]]
            node = "a</script>"
            prefix = "/p"
            frequency = 100
        "#;
        let watch = Watch {
            step: Duration::from_millis(1),
            closely: false,
        };
        let (_, timeline) = Scenario::parse(text, "two.toml")
            .unwrap()
            .watch(1, watch)
            .unwrap();
        assert_eq!(timeline.steps.len(), 2000);
        let data = data(&timeline, "two.toml");
        assert!(data.moments.len() <= MOMENTS);
        // A hundred packets of about 1.1 kB per second on one megabit per second.
        assert!(
            (800..1000).contains(&data.moments[100].u[1]),
            "{:?}",
            data.moments[100].u
        );
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.html");
        write(&timeline, "two.toml", &path).unwrap();
        let page = std::fs::read_to_string(path).unwrap();
        assert_eq!(page.matches("</script>").count(), 1);
        assert!(
            !["http:", "https:", "src=", "url(", "@import"]
                .iter()
                .any(|outside| page.contains(outside))
        );
    }
}
