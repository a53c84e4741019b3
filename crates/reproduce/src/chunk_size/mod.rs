//! `chunk-size`: the dumbbell of figures 1 to 4, ndnSIM 2.8's own run of it, and the effect of each
//! property that the paper leaves open.
//!
//! The paper states neither the version of ndnSIM nor the length of its queues. It also does not
//! state whether packets were fragmented, or whether the consumers shared their names. The assumed
//! properties are those with which ndnSIM 2.8 agrees with the paper's text. Each experiment's file
//! states them.

mod ambiguities;
mod beyond;
mod dumbbell;
mod figures;
mod ndnsim;
mod no_network;
mod skew;
mod steady;

use crate::Paper;

pub(crate) const PAPER: Paper = Paper {
    name: "chunk-size",
    citation: "Natsis, Sarros, Tsaoussidis, The impact of chunk size on Named Data Networking performance, 2020",
    experiments: &[
        ("figures", figures::run),
        ("ndnsim", ndnsim::run),
        ("ambiguities", ambiguities::run),
        ("skew", skew::run),
        ("beyond", beyond::run),
    ],
    testbed: &[],
    minutes: &[
        ("figures", [0, 8]),
        ("ndnsim", [0, 1]),
        ("beyond", [0, 3]),
        ("ambiguities", [0, 2]),
        ("skew", [0, 6]),
    ],
    builds_networks: false,
    with_applications: None,
    requirements: |_| Ok(()),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Scale};

    #[test]
    fn a_minute_ends_with_a_mistake_in_a_file() {
        let figures =
            Experiment::<figures::Sweep>::parse(figures::FILE.0, figures::FILE.1).unwrap();
        let ndnsim = Experiment::<ndnsim::Sweep>::parse(ndnsim::FILE.0, ndnsim::FILE.1).unwrap();
        let ambiguities =
            Experiment::<ambiguities::Sweep>::parse(ambiguities::FILE.0, ambiguities::FILE.1)
                .unwrap();
        let beyond = Experiment::<beyond::Sweep>::parse(beyond::FILE.0, beyond::FILE.1).unwrap();
        let skew = Experiment::<skew::Sweep>::parse(skew::FILE.0, skew::FILE.1).unwrap();
        let claims = [
            figures.claims.len(),
            ndnsim.claims.len(),
            ambiguities.claims.len(),
            beyond.claims.len(),
        ];
        assert_eq!(claims, [26, 45, 3, 13]);
        assert_eq!(skew.claims.len(), 12);
        assert!(figures.sweep(Scale::Quick).seeds < figures.sweep(Scale::Full).seeds);
    }
}
