//! `clock`: the effect of a coarse clock on rate-based congestion control, the remedies, and the
//! paper's future work.
//!
//! The network, the forwarders and the consumers are those of `netsim`, `forwarder` and `transfer`,
//! so the experiments run the deployed code. The paper does not state two of its semantics, on
//! which its tables depend. First, the token bucket leaks in quanta, as in ndnSIM 1.0. A continuous
//! leak refuses nothing at a tick of 50 ms. Second, the "throughput" of Tables I and II counts the
//! segments requested by the end, while that of section V counts the Data received. The reports
//! have both values everywhere.

mod cells;
#[cfg(test)]
mod compared;
mod consumer;
mod dumbbell;
mod linear;
mod methods;
mod network;
mod several;

use crate::Paper;

pub(crate) const PAPER: Paper = Paper {
    name: "clock",
    citation: "Kato, Osada, Yamamoto, Ohzahata, Impacts of system clock granularity on performance of NDN rate-based congestion control, Int. J. on Advances in Telecommunications 11(3&4), 2018",
    experiments: &[
        ("linear", linear::run),
        ("dumbbell", dumbbell::run),
        ("methods", methods::run),
    ],
    testbed: &[],
    minutes: &[
        ("linear", [0, 0]),
        ("dumbbell", [0, 1]),
        ("methods", [0, 0]),
    ],
    builds_networks: false,
    with_applications: None,
    requirements: |_| Ok(()),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Scale};
    use serde::de::DeserializeOwned;
    use std::fmt::Debug;

    fn claims<Sweep: DeserializeOwned + Debug>((name, text): (&str, &str)) -> usize {
        let experiment =
            Experiment::<Sweep>::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
        assert_ne!(
            format!("{:?}", experiment.sweep(Scale::Quick)),
            format!("{:?}", experiment.sweep(Scale::Full)),
            "{name}"
        );
        experiment.claims.len()
    }

    #[test]
    fn a_run_ends_with_a_mistake_in_a_file() {
        let claims = [
            claims::<linear::Sweep>(linear::FILE),
            claims::<cells::Sweep>(dumbbell::FILE),
            claims::<methods::Sweep>(methods::FILE),
        ];
        assert_eq!(claims, [25, 33, 11]);
    }
}
