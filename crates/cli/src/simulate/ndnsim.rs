//! A run in the formats of ndnSIM's tracers (2.x: `L3RateTracer`, `CsTracer`, `AppDelayTracer`),
//! for scripts that read them.
//!
//! Differences: satisfied and timed-out Interests are reported per node (face `-1`, `all`) and not
//! per face, as the forwarder counts them. Nacks have no kilobytes. `HopCount` is 0, because
//! packets have no hop count.

use crate::destination::write_whole;
use crate::failure::Failure;
use larder_forwarder::FaceStats;
use larder_netsim::scenario::{Step, Timeline};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// ndnSIM's averaging period.
pub const STEP: Duration = Duration::from_millis(500);

/// The weight of the last period in ndnSIM's averages.
const LAST: f64 = 0.8;

/// Writes the three files into `directory`.
///
/// # Errors
/// If they cannot be written.
pub fn write(timeline: &Timeline, directory: &Path) -> Result<(), Failure> {
    super::pictures::make(directory)?;
    write_whole(&directory.join("rate-trace.txt"), &rates(timeline))?;
    write_whole(&directory.join("cs-trace.txt"), &content_stores(timeline))?;
    write_whole(&directory.join("app-delays-trace.txt"), &delays(timeline))
}

/// By node, face and type: the counts so far, and the averages of packets and kilobytes per second.
type Averages = HashMap<(usize, i64, &'static str), ([u64; 2], [f64; 2])>;

fn rates(timeline: &Timeline) -> String {
    let mut out =
        "Time\tNode\tFaceId\tFaceDescr\tType\tPackets\tKilobytes\tPacketRaw\tKilobytesRaw\n"
            .to_owned();
    let mut averages = Averages::new();
    let mut before = 0.0;
    for step in &timeline.steps {
        let at = step.at.as_secs_f64();
        for (node, faces) in step.faces.iter().enumerate() {
            let mut rows: Vec<(i64, &str, &str, [u64; 2])> =
                faces.iter().flat_map(face_rows).collect();
            let known = averages
                .entry((node, -1, "SatisfiedInterests"))
                .or_default()
                .0[0];
            rows.push((
                -1,
                "all",
                "SatisfiedInterests",
                [known + step.nodes[node].satisfied, 0],
            ));
            let known = averages
                .entry((node, -1, "TimedOutInterests"))
                .or_default()
                .0[0];
            rows.push((
                -1,
                "all",
                "TimedOutInterests",
                [known + step.nodes[node].unsatisfied, 0],
            ));
            for (face, description, kind, counts) in rows {
                let (known, average) = averages
                    .entry((node, face, KINDS[kind_of(kind)]))
                    .or_default();
                // The counts of a restarted node start at 0.
                let raw =
                    [0, 1].map(|at| counts[at].checked_sub(known[at]).unwrap_or(counts[at]) as f64);
                let raw = [raw[0], raw[1] / 1024.0];
                for (average, raw) in average.iter_mut().zip(raw) {
                    *average = LAST * raw / (at - before) + (1.0 - LAST) * *average;
                }
                *known = counts;
                let name = &timeline.nodes[node].name;
                let _ = writeln!(
                    out,
                    "{at}\t{name}\t{face}\t{description}\t{kind}\t{}\t{}\t{}\t{}",
                    short(average[0]),
                    short(average[1]),
                    short(raw[0]),
                    short(raw[1])
                );
            }
        }
        before = at;
    }
    out
}

const KINDS: [&str; 8] = [
    "InInterests",
    "OutInterests",
    "InData",
    "OutData",
    "InNacks",
    "OutNacks",
    "SatisfiedInterests",
    "TimedOutInterests",
];

fn kind_of(kind: &str) -> usize {
    KINDS.iter().position(|known| *known == kind).unwrap_or(0)
}

fn face_rows(face: &FaceStats) -> [(i64, &str, &'static str, [u64; 2]); 6] {
    let counters = &face.counters;
    let description = if face.config.uri.starts_with("app:") {
        "appFace://"
    } else {
        "netdev://"
    };
    let row = |kind: usize, packets, bytes| {
        (face.id.0 as i64, description, KINDS[kind], [packets, bytes])
    };
    [
        row(0, counters.in_interests, counters.in_interest_bytes),
        row(1, counters.out_interests, counters.out_interest_bytes),
        row(2, counters.in_data, counters.in_data_bytes),
        row(3, counters.out_data, counters.out_data_bytes),
        row(4, counters.in_nacks, 0),
        row(5, counters.out_nacks, 0),
    ]
}

/// Formats a number as C++ streams do, with six digits, but never with an exponent.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let before_point = value.abs().log10().floor() as i32 + 1;
    let text = format!("{value:.*}", (6 - before_point).max(0) as usize);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn content_stores(timeline: &Timeline) -> String {
    let mut out = "Time\tNode\tType\tPackets\t\n".to_owned();
    for Step { at, nodes, .. } in &timeline.steps {
        for (node, step) in timeline.nodes.iter().zip(nodes) {
            let at = at.as_secs_f64();
            let _ = writeln!(out, "{at}\t{}\tCacheHits\t{}", node.name, step.hits);
            let _ = writeln!(out, "{at}\t{}\tCacheMisses\t{}", node.name, step.misses);
        }
    }
    out
}

fn delays(timeline: &Timeline) -> String {
    let mut out =
        "Time\tNode\tAppId\tSeqNo\tType\tDelayS\tDelayUS\tRetxCount\tHopCount\n".to_owned();
    let consumers = timeline.consumers.iter().zip(&timeline.delays).enumerate();
    let mut rows: Vec<_> = consumers
        .flat_map(|(app, ((_, node), rows))| rows.iter().map(move |row| (row.at, app, *node, row)))
        .collect();
    rows.sort_by_key(|(at, app, ..)| (*at, *app));
    for (at, app, node, row) in rows {
        let (at, node) = (at.as_secs_f64(), &timeline.nodes[node].name);
        for (kind, delay, sends) in [
            ("LastDelay", row.last, 1),
            ("FullDelay", row.full, row.sends),
        ] {
            let (seconds, micros) = (delay.as_secs_f64(), delay.as_nanos() as f64 / 1e3);
            let number = row.number;
            let _ = writeln!(
                out,
                "{at}\t{node}\t{app}\t{number}\t{kind}\t{seconds}\t{micros}\t{sends}\t0"
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn numbers_have_six_digits() {
        let shown = [0.0, 80.0, 2.03125, 82.734_375, 1_234_567.0, 0.000_123_456_7].map(short);
        assert_eq!(
            shown,
            ["0", "80", "2.03125", "82.7344", "1234567", "0.000123457"]
        );
    }
}
