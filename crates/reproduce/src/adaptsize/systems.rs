//! Table 1: the 35 systems. Each has a policy of Larder, an equivalent one, or the reason for its
//! absence, in `data/table1.toml`.

use super::replays::{Catalogue, Run};
use crate::cell::{measure_all, units};
use crate::statistics::greatest;
use crate::{Error, Experiment, Request, Section, Watch};
use larder_policy::Spec;
use serde::Deserialize;

const FILE: (&str, &str) = experiment_file!("adaptsize/systems.toml");
const TABLE: (&str, &str) = ("table1.toml", include_str!("../../data/table1.toml"));

/// The constant c of figure 5 (a), which calibrates the popularity of the traffic.
const CALIBRATION: &str = "expsize(c=32768)+lru";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    hk: Catalogue,
    /// The capacity, bytes.
    capacity: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    system: Vec<System>,
}

/// A row of table 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct System {
    name: String,
    year: u32,
    /// Whether the paper states constant time for a request.
    constant_time: bool,
    state: State,
    /// The policy, if `state` is not `absent`.
    #[serde(default)]
    spec: Option<String>,
    /// Why the policy is equivalent, or why there is none.
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Implemented,
    Equivalent,
    Absent,
}

/// Reads table 1.
///
/// # Errors
/// [`Error`] if a system has no policy and is not absent, or lacks a reason that it needs.
fn table() -> Result<Vec<System>, Error> {
    let (name, text) = TABLE;
    let fault = |what: String| Error(format!("data/{name}: {what}"));
    let Table { system } =
        toml::from_str(text).map_err(|error| fault(error.message().to_owned()))?;
    for row in &system {
        if (row.state == State::Absent) == row.spec.is_some() {
            return Err(fault(format!("`{}` needs a spec, or is absent", row.name)));
        }
        if row.state != State::Implemented && row.reason.is_none() {
            return Err(fault(format!("`{}` needs a reason", row.name)));
        }
        if let Some(spec) = &row.spec {
            spec.parse::<Spec>()
                .map_err(|error| fault(format!("`{}`: {error}", row.name)))?;
        }
    }
    Ok(system)
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let Sweep { hk, capacity } = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition("cache", format!("{capacity} bytes"));
    section.condition("hk", format!("{}; a quarter to warm up", hk.conditions()));
    let systems = table()?;
    let traffic = hk.traffic("hk", request.seed)?;
    let calibration = CALIBRATION.to_owned();
    let mut specs: Vec<&String> = systems
        .iter()
        .filter_map(|system| system.spec.as_ref())
        .chain([&calibration])
        .collect();
    specs.sort();
    specs.dedup();
    let run = |spec: &&String| Run {
        traffic: &traffic,
        spec: (*spec).clone(),
        capacity: *capacity,
        warm_up: hk.requests / 4,
    };
    let runs: Vec<Run<'_>> = specs.iter().map(run).collect();
    watch.begin("systems of table 1", units(&runs));
    let found = measure_all(runs, request, watch)?;
    let ratio = |system: &System| {
        let spec = system.spec.as_ref()?;
        found
            .iter()
            .find(|found| found.spec == *spec)
            .map(|found| found.hit_ratio)
    };
    let of_constant = found.iter().find(|found| found.spec == CALIBRATION);
    section.measured(
        "systems-calibration",
        of_constant.map_or(f64::NAN, |found| found.hit_ratio),
    );
    let own = systems.first().and_then(ratio).unwrap_or(f64::NAN);
    let fast = systems
        .iter()
        .skip(1)
        .filter(|system| system.constant_time)
        .filter_map(ratio);
    section.measured("systems-constant-time", own / greatest(fast));
    let rows = systems.iter().map(|system| {
        let state = match system.state {
            State::Implemented => "implemented",
            State::Equivalent => "equivalent",
            State::Absent => "absent",
        };
        vec![
            system.name.clone(),
            system.year.to_string(),
            if system.constant_time { "O(1)" } else { "more" }.to_owned(),
            state.to_owned(),
            system.spec.clone().unwrap_or_default(),
            ratio(system).map_or_else(String::new, |ratio| format!("{ratio:.4}")),
            system.reason.clone().unwrap_or_default(),
        ]
    });
    let header = [
        "system",
        "year",
        "time",
        "state",
        "policy",
        "object hit ratio",
        "reason",
    ];
    section.table("Table 1", header, rows.collect());
    section.judged()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_of_table_1_has_neither_a_policy_nor_a_reason() {
        let systems = table().unwrap();
        assert_eq!(systems.len(), 35);
        assert!(
            systems.iter().map(|system| system.year).rev().is_sorted(),
            "the order of the paper"
        );
    }
}
