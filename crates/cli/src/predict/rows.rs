//! The models, each with its policy.

use super::args::PredictArgs;
use super::traffic::Traffic;
use crate::failure::Failure;
use crate::lists::parse_all;
use larder_policy::Spec;
use larder_policy::adaptsize_model::Shape;
use larder_policy::limits::FILTER_MAX_WINDOW;
use larder_replay::model::{self, FilterTable, Popularity, Prediction};
use larder_replay::{Replay, Size, Unit};
use larder_units::ByteSize;
use serde::Serialize;

/// One capacity under one model, as `--json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct PredictionRow {
    /// The capacity in `unit`s.
    pub capacity: u64,
    /// The unit of the capacity.
    pub unit: Unit,
    /// The name of the model.
    pub model: &'static str,
    /// The modelled policy; absent for a bound that no policy reaches.
    pub policy: Option<String>,
    /// The model's prediction.
    pub predicted: Prediction,
    /// The result of a replay, if requested.
    pub replayed: Option<Prediction>,
}

/// Returns the rows of all models at all capacities, with the replays if requested.
pub fn rows(args: &PredictArgs, traffic: &Traffic<'_>) -> Result<Vec<PredictionRow>, Failure> {
    check_flags(args)?;
    let mut rows = Vec::new();
    for size in parse_all::<Size>(&args.size)? {
        let capacity = size.of(traffic.unique_bytes).map_err(Failure::refused)?;
        rows.extend(models(args, &traffic.popularity, capacity));
    }
    if args.replay {
        let mut replayed = replay(args, traffic, &rows)?.into_iter();
        for row in rows.iter_mut().filter(|row| row.policy.is_some()) {
            row.replayed = replayed.next();
        }
    }
    Ok(rows)
}

fn models(args: &PredictArgs, popularity: &Popularity, capacity: ByteSize) -> Vec<PredictionRow> {
    let window = args.window.unwrap_or_else(|| derived_window(args, popularity, capacity));
    let table = FilterTable { theta: u32::from(args.theta), window, slots: Some(args.table) };
    let filter = format!("filter(theta={},window={window},table={})+fifo", args.theta, args.table);
    let fifo = model::fifo(popularity, capacity);
    let mut models = vec![
        ("Gelenbe", Some("fifo".to_owned()), fifo),
        ("Gelenbe", Some("random".to_owned()), fifo),
        ("Che", Some("lru".to_owned()), model::che_lru(popularity, capacity)),
        ("Filter, (3) to (7)", Some(filter), model::filter(popularity, capacity, table)),
        ("most requested", Some("lfu".to_owned()), model::lfu_limit(popularity, capacity)),
        ("best fixed set", None, model::static_limit(popularity, capacity)),
    ];
    if let Some(c) = args.admit {
        for (name, shape) in [("threshold", Shape::Threshold), ("expsize", Shape::Chance)] {
            let predicted = model::adaptsize(popularity, capacity, shape, c.bytes() as f64);
            models.push(("AdaptSize, Lemma 2", Some(format!("{name}(c={})+lru", c.bytes())), predicted));
        }
    }
    let row = |(model, policy, predicted)| PredictionRow {
        capacity: capacity.bytes(),
        unit: popularity.unit(),
        model,
        policy,
        predicted,
        replayed: None,
    };
    models.into_iter().map(row).collect()
}

/// Checks the flags before anything is predicted. A model accepts values that a policy refuses, and
/// the error names the flag.
fn check_flags(args: &PredictArgs) -> Result<(), Failure> {
    let check = |flag: String, spec: String| match spec.parse::<Spec>() {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::usage(format!("{flag}: {error}"))),
    };
    let PredictArgs { theta, table, .. } = *args;
    check(format!("--table {table}"), format!("filter(table={table})+fifo"))?;
    if let Some(window) = args.window {
        check(format!("--window {window}"), format!("filter(window={window})+fifo"))?;
        if window > table {
            return Err(Failure::usage(format!(
                "--window {window} is longer than --table {table}, so the table would be full"
            )));
        }
    }
    let window = args.window.unwrap_or(table);
    if u64::from(theta) > window {
        return Err(Failure::usage(format!(
            "--theta {theta}: a history of {window} requests never holds as many; give a longer --window"
        )));
    }
    args.admit.map_or(Ok(()), |c| check(format!("--admit {c}"), format!("threshold(c={})+lru", c.bytes())))
}

/// Returns the paper's q = C, limited to what the filter accepts. Reports if the limit applies.
fn derived_window(args: &PredictArgs, popularity: &Popularity, capacity: ByteSize) -> u64 {
    let fitting = fitting(popularity, capacity);
    let window = fitting.clamp(u64::from(args.theta), args.table.min(FILTER_MAX_WINDOW));
    if window != fitting {
        eprintln!(
            "larder: size {capacity}: Filter's history has {window} requests, not one an object that fits ({fitting})"
        );
    }
    window
}

/// Returns the number of objects of the mean size of a request that fit.
fn fitting(popularity: &Popularity, capacity: ByteSize) -> u64 {
    let sum = |of: fn(&model::Group) -> f64| popularity.groups().iter().map(of).sum::<f64>();
    let mean_size = sum(|group| group.objects * group.rate * group.size) / sum(|group| group.objects * group.rate);
    (capacity.bytes() as f64 / mean_size).round() as u64
}

fn replay(args: &PredictArgs, traffic: &Traffic<'_>, rows: &[PredictionRow]) -> Result<Vec<Prediction>, Failure> {
    let mut caches = Vec::new();
    for row in rows {
        let Some(policy) = &row.policy else { continue };
        let spec: Spec = policy.parse().map_err(|error: larder_policy::SpecError| Failure::usage(error.to_string()))?;
        let cache = Replay::new(&spec, ByteSize::from_bytes(row.capacity), args.seed);
        caches.push(cache.map_err(|error| Failure::usage(error.to_string()))?);
    }
    let rows = traffic.replay(caches)?;
    let figures = |row: larder_replay::Row| Prediction {
        object_hit_ratio: row.object_hit_ratio,
        byte_hit_ratio: row.byte_hit_ratio,
        insertion_ratio: row.insertion_ratio,
    };
    Ok(rows.into_iter().map(figures).collect())
}
