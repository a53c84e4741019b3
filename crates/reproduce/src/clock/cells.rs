//! The cells of section V's figures, and their runs.

use super::network::{INTEREST, Outcome, Run, SECONDS, clock, congestion, strategy};
use crate::cell::measure_all;
use crate::{Error, Request, Watch};
use serde::Deserialize;
use std::time::Duration;

/// The bucket depths of the figures' parts (a), (b) and (c).
pub(super) const DEPTHS: [u64; 3] = [50, 100, 500];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    pub(super) pairs: Vec<usize>,
    /// The depths of the token buckets, Interests.
    pub(super) depths: Vec<u64>,
    /// The clock's ticks, ms; 0 is the fine clock.
    pub(super) ticks: Vec<u64>,
    pub(super) line_rate: u64,
    /// The number of seeds with which several pairs run. Claims are of the first.
    pub(super) seeds: u64,
    /// The Interests of a tick at the line rate, as percents of the depth, with which several pairs
    /// run.
    pub(super) bursts: Vec<u64>,
}

impl Sweep {
    /// Returns the depths of the sweep of bursts. Queues of 100 packets drop Data at deeper ones.
    pub(super) fn burst_depths(&self) -> impl Iterator<Item = u64> {
        self.depths.iter().copied().filter(|depth| *depth <= 100)
    }

    /// Returns the Interests that are due in a tick at the line rate, over the depth.
    pub(super) fn burst(&self, depth: u64, tick_ms: u64) -> f64 {
        (self.line_rate * tick_ms) as f64 / (1000 * depth) as f64
    }
}

/// One cell of the figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) pairs: usize,
    pub(super) depth: u64,
    pub(super) tick: u64,
    pub(super) smoothing: bool,
}

pub(super) struct Cells(pub(super) Vec<(Cell, Outcome)>);

impl Cells {
    /// Runs these cells with one seed.
    pub(super) fn measured(
        cells: &[Cell],
        sweep: &Sweep,
        seed: u64,
        request: &Request<'_>,
        watch: &dyn Watch,
    ) -> Result<Cells, Error> {
        let runs = cells
            .iter()
            .map(|cell| cell.run(sweep.line_rate, seed))
            .collect::<Result<Vec<_>, Error>>()?;
        let outcomes = measure_all(runs, request, watch)?;
        Ok(Cells(cells.iter().copied().zip(outcomes).collect()))
    }

    /// Returns the outcome of a cell, if the scale has the cell.
    pub(super) fn of(
        &self,
        pairs: usize,
        depth: u64,
        tick: u64,
        smoothing: bool,
    ) -> Option<&Outcome> {
        let cell = Cell {
            pairs,
            depth,
            tick,
            smoothing,
        };
        self.0
            .iter()
            .find(|(other, _)| *other == cell)
            .map(|(_, outcome)| outcome)
    }
}

impl Cell {
    pub(super) fn run(&self, line_rate: u64, seed: u64) -> Result<Run, Error> {
        let Cell {
            pairs,
            depth,
            tick,
            smoothing,
        } = *self;
        let start = line_rate / pairs as u64;
        Ok(Run {
            pairs,
            line_rate,
            interest: INTEREST,
            strategy: strategy(&format!(
                "stateful/v=1/rate~{line_rate}/depth~{depth}/leak~quanta/fib~each"
            ))?,
            marks: false,
            congestion: congestion(&format!("rate(start={start},most={line_rate},nack=halve)"))?,
            clock: clock(tick, smoothing),
            start: Duration::ZERO,
            seconds: SECONDS,
            is_drawn: false,
            seed,
        })
    }
}

/// Returns the cells of the figures. Long runs start first.
pub(super) fn grid(sweep: &Sweep) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &pairs in sweep.pairs.iter().rev() {
        for &depth in sweep.depths.iter().rev() {
            for &tick in &sweep.ticks {
                let smoothings = if tick == 0 {
                    &[false][..]
                } else {
                    &[false, true]
                };
                cells.extend(smoothings.iter().map(|&smoothing| Cell {
                    pairs,
                    depth,
                    tick,
                    smoothing,
                }));
            }
        }
    }
    cells
}

/// Returns the cells with several pairs of the sweep of bursts: ticks that gather a part of each
/// depth, or more than it.
pub(super) fn of_bursts(sweep: &Sweep) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &pairs in sweep.pairs.iter().rev().filter(|pairs| **pairs > 1) {
        for depth in sweep.burst_depths() {
            cells.extend(sweep.bursts.iter().map(|percent| {
                let tick = depth * percent * 10 / sweep.line_rate;
                Cell {
                    pairs,
                    depth,
                    tick,
                    smoothing: false,
                }
            }));
        }
    }
    cells
}
