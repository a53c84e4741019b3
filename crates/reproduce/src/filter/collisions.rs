//! False positives of the counter table, and its memory.

use crate::{Error, Experiment, Request, Section, Watch};
use larder_policy::{Engine, Spec};
use larder_units::{ByteSize, Streams, Time};
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("filter/collisions.toml");

/// The names between two messages to the progress bar.
const STRIDE: u64 = 1 << 18;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    window: u64,
    table: u64,
    /// The number of names, none of which was requested before.
    asked: u64,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let Sweep {
        window,
        table,
        asked,
    } = *experiment.sweep(request.scale);
    // Only the admission decision is used. Nothing is inserted.
    let spec: Spec = format!("filter(theta=1,window={window},table={table})+fifo")
        .parse()
        .map_err(Error::from_cause)?;
    let mut engine = Engine::new(&spec, ByteSize::from_bytes(1), &Streams::new(request.seed))
        .map_err(Error::from_cause)?;
    watch.begin("collisions", asked);
    // Names are hashes, so random numbers stand for them. Repetitions are too rare to matter.
    let mut names = Streams::new(request.seed).stream("collisions");
    for _ in 0..window {
        engine.miss(names.bits(), Time::ZERO);
    }
    let mut admitted = 0_u64;
    for number in 0..asked {
        admitted += u64::from(engine.admit(names.bits(), 1, Time::ZERO));
        if number % STRIDE == 0 {
            watch.advance(STRIDE);
        }
    }
    let mut section = Section::new(&experiment, request.scale);
    section.condition("history", format!("{window} requests"));
    section.condition("table", format!("{table} slots"));
    section.condition("asked", format!("{asked} names, {admitted} admitted"));
    section.measured("false-positives", 100.0 * admitted as f64 / asked as f64);
    section.measured("memory", engine.state_bytes() as f64 / 1e6);
    section.judged()
}
