//! Larder's simulator beside the second simulation (`tests/clock_simulation`), which shares no code
//! with it, cell by cell.

use super::cells::Cell;
use super::network::{INTEREST, Run, clock, congestion, strategy};
use crate::on_all_cores;
use second::{Conditions, Network};
use std::time::Duration;

#[path = "../../tests/clock_simulation/network.rs"]
mod second;

const LINE_RATE: u64 = 10_000;

/// The length of the runs, s. The experiment's runs last ten; a build without optimizations would
/// take minutes for them.
const SECONDS: u64 = 4;

/// Pairs, depth, tick in ms, and smoothing: each number of pairs, depth and tick of the figures.
/// Left out are cells whose results differ with the order of events of one moment alone: one pair
/// with smoothing whose bursts equal the depth (one Nack or two), two pairs with bursts of 100 at a
/// depth of 100 (whether they fall together), and fine clocks or ten pairs at a depth of 500.
const CELLS: [(usize, u64, u64, bool); 14] = [
    (1, 50, 5, false),
    (1, 50, 10, true),
    (1, 100, 10, false),
    (2, 50, 0, false),
    (2, 50, 5, false),
    (2, 100, 5, true),
    (2, 500, 10, true),
    (5, 50, 10, false),
    (5, 100, 1, false),
    (5, 100, 10, false),
    (5, 50, 5, true),
    (5, 500, 1, false),
    (10, 100, 5, false),
    (10, 50, 1, true),
];

/// Failure: the deployed code and a second simulation of the same semantics disagree about several
/// pairs, a depth, a tick, smoothing, or Nacks.
///
/// The two draw the moments of first leaks from different streams, and may order events of the same
/// moment differently. Where flows meet, such a difference grows. So Larder's result must lie
/// within the second simulation's range over four moments of the first leaks, with a margin of 5 %
/// of the throughput, and of 10 % of the Nacks and 2.
#[test]
fn a_cell_has_another_result_in_a_second_simulation() {
    let compared = on_all_cores(CELLS.to_vec(), |(pairs, depth, tick, smoothing)| {
        let cell = Cell {
            pairs,
            depth,
            tick,
            smoothing,
        };
        let run = Run {
            seconds: SECONDS,
            ..cell.run(LINE_RATE, 1).expect("a run")
        };
        (
            cell,
            run.outcome().expect("an outcome"),
            [1, 2, 3, 4].map(|seed| alone(cell, seed)),
        )
    });
    for (cell, outcome, alone) in compared {
        let within = |value: f64, others: [f64; 4], margin: &dyn Fn(f64) -> f64| {
            let (least, greatest) = (
                others.iter().copied().fold(f64::MAX, f64::min),
                others.iter().copied().fold(0.0, f64::max),
            );
            value >= least - margin(least) && value <= greatest + margin(greatest)
        };
        let is_same = within(
            outcome.total(),
            alone.map(|(received, _)| received),
            &|received| 0.05 * received,
        ) && within(
            outcome.nacks as f64,
            alone.map(|(_, nacks)| nacks),
            &|nacks| 0.1 * nacks + 2.0,
        );
        assert!(
            is_same,
            "{cell:?}: {:.1} Mb/s, {} Nacks, alone {alone:?}",
            outcome.total(),
            outcome.nacks
        );
    }
}

/// Failure: a coarse tick over 10 Mb/s reduces the rate to another value in a second simulation.
///
/// One flow has no other to race with, and whole milliseconds leak between two ticks, so results
/// are equal for every start between two ticks.
#[test]
fn a_burst_leaves_another_rate_in_a_second_simulation() {
    for (tick, start) in [(100, 0), (100, 36), (200, 0), (200, 14), (200, 90)] {
        let begin = Duration::from_millis(start);
        let run = Run {
            line_rate: 1000,
            strategy: strategy("stateful/v=1/rate~1000/depth~50/leak~quanta").expect("a strategy"),
            congestion: congestion("rate(start=200,most=1000,nack=halve)")
                .expect("a congestion control"),
            clock: clock(tick, false),
            start: begin,
            ..Cell {
                pairs: 1,
                depth: 50,
                tick,
                smoothing: false,
            }
            .run(LINE_RATE, 1)
            .expect("a run")
        };
        let outcome = run.outcome().expect("an outcome");
        let alone = Network::new(Conditions {
            line_rate: 1000,
            start: 200.0,
            bucket_for_each_pair: false,
            begin: begin.as_nanos() as u64,
            seconds: run.seconds,
            ..conditions(
                Cell {
                    pairs: 1,
                    depth: 50,
                    tick,
                    smoothing: false,
                },
                1,
            )
        });
        let alone = alone.run();
        let course = &outcome.courses[0];
        let least = course.rates.expect("rates").0;
        let ours = (outcome.total_asked(), outcome.nacks, course.most_at_once);
        assert_eq!(
            ours,
            (alone.asked, alone.nacks, alone.most_at_once),
            "{tick} {start}"
        );
        assert!(
            (least - alone.least).abs() < 1e-9,
            "{tick} {start}: {least}, alone {}",
            alone.least
        );
    }
}

/// Returns the second simulation's Mb/s received and Nacks.
fn alone(cell: Cell, seed: u64) -> (f64, f64) {
    let outcome = Network::new(conditions(cell, seed)).run();
    (outcome.received, outcome.nacks as f64)
}

fn conditions(cell: Cell, seed: u64) -> Conditions {
    Conditions {
        pairs: cell.pairs,
        line_rate: LINE_RATE,
        start: (LINE_RATE / cell.pairs as u64) as f64,
        depth: cell.depth as f64,
        bucket_for_each_pair: true,
        interest_bytes: INTEREST as u64,
        tick: cell.tick * 1_000_000,
        smoothing: cell.smoothing,
        begin: 0,
        seconds: SECONDS,
        seed,
    }
}
