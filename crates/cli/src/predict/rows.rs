//! The rows of the models, with the replays of their policies.

use super::args::PredictArgs;
use super::traffic::Traffic;
use crate::failure::Failure;
use crate::lists::parse_all;
use crate::output::error_line;
use larder_policy::Spec;
use larder_replay::model::{
    HistoryLength, ModelParameters, ParameterError, Popularity, Prediction,
};
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
    let parameters = parameters(args)?;
    let mut rows = Vec::new();
    for size in parse_all::<Size>(&args.size)? {
        let capacity = size.of(traffic.unique_bytes).map_err(Failure::refused)?;
        report_history(&parameters, &traffic.popularity, capacity);
        rows.extend(
            parameters
                .models(&traffic.popularity, capacity)
                .into_iter()
                .map(|modelled| PredictionRow {
                    capacity: capacity.bytes(),
                    unit: traffic.popularity.unit(),
                    model: modelled.model,
                    policy: modelled.policy,
                    predicted: modelled.predicted,
                    replayed: None,
                }),
        );
    }
    if args.replay {
        let mut replayed = replay(args, traffic, &rows)?.into_iter();
        for row in rows.iter_mut().filter(|row| row.policy.is_some()) {
            row.replayed = replayed.next();
        }
    }
    Ok(rows)
}

/// Returns the parameters of the models. An error names the flag.
fn parameters(args: &PredictArgs) -> Result<ModelParameters, Failure> {
    let PredictArgs {
        theta,
        window,
        table,
        admit,
        ..
    } = *args;
    let parameters = ModelParameters {
        theta,
        window,
        table,
        admit,
    };
    let named = |error: ParameterError| {
        Failure::usage(format!(
            "--{} {}: {}",
            error.name, error.value, error.reason
        ))
    };
    parameters.check().map_err(named).map(|()| parameters)
}

/// Reports a history of Filter that is not as long as the capacity asks for.
fn report_history(parameters: &ModelParameters, popularity: &Popularity, capacity: ByteSize) {
    let HistoryLength { used, derived } = parameters.history(popularity, capacity);
    if used != derived {
        error_line!(
            "larder: size {capacity}: Filter's history has {used} requests, not one an object that fits ({derived})"
        );
    }
}

fn replay(
    args: &PredictArgs,
    traffic: &Traffic<'_>,
    rows: &[PredictionRow],
) -> Result<Vec<Prediction>, Failure> {
    let mut caches = Vec::new();
    for row in rows {
        let Some(policy) = &row.policy else { continue };
        let spec: Spec = policy
            .parse()
            .map_err(|error: larder_policy::SpecError| Failure::usage(error.to_string()))?;
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
