//! `filter`: hit rates, insertion rates, the model, and the cycles of a packet.
//!
//! If the paper contradicts itself, both interpretations run, and the bands come from its
//! equations. Each experiment's file states which.

mod collisions;
mod cycles;
mod duel;
mod exact_counts;
mod exact_filter;
mod hit_rates;
mod lfu_of_all;
mod parameters;
mod policies;
mod published_cycles;
mod readings;
mod replays;
mod sizes;

use crate::Paper;

pub(crate) const PAPER: Paper = Paper {
    name: "filter",
    citation: "Takemasa, Koizumi, Hasegawa, Lightweight cache admission algorithm for fast NDN software routers, Journal of Information Processing 27, 2019",
    experiments: &[
        ("hit-rates", hit_rates::run),
        ("sizes", sizes::run),
        ("readings", readings::run),
        ("published-cycles", published_cycles::run),
        ("parameters", parameters::run),
        ("collisions", collisions::run),
        ("cycles", cycles::run),
    ],
    testbed: &[],
    minutes: &[
        ("hit-rates", [0, 3]),
        ("sizes", [0, 18]),
        ("readings", [0, 11]),
        ("parameters", [0, 4]),
        ("collisions", [0, 0]),
    ],
    builds_networks: false,
    with_applications: None,
    requirements: |_| Ok(()),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, Experiment, Request, Rows, Scale};
    use serde::de::DeserializeOwned;
    use std::fmt::Debug;

    fn claims<Sweep: DeserializeOwned + Debug>((name, text): (&str, &str)) -> usize {
        let experiment =
            Experiment::<Sweep>::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
        let shown =
            [Scale::Quick, Scale::Full].map(|scale| format!("{:?}", experiment.sweep(scale)));
        assert!(!shown[0].is_empty() && !shown[1].is_empty());
        experiment.claims.len()
    }

    #[test]
    fn an_unknown_experiment_runs_nothing_in_silence() {
        let only = ["hit-rate".to_owned()];
        let rows = Rows::default();
        let request = Request {
            only: &only,
            ..Request::quick(&PAPER, &rows)
        };
        let error = crate::reproduce(&request, &crate::Unwatched)
            .expect_err("no such experiment")
            .to_string();
        assert!(
            error.contains("`hit-rate`; its experiments are hit-rates, sizes"),
            "{error}"
        );
    }

    #[test]
    fn an_hour_ends_with_a_policy_that_refuses_its_size() {
        let full = |cells: Result<Vec<replays::Cell>, Error>| {
            cells.unwrap_or_else(|error| panic!("{error}")).len()
        };
        let hit_rates =
            Experiment::<hit_rates::Sweep>::parse(hit_rates::FILE.0, hit_rates::FILE.1).unwrap();
        let sizes = Experiment::<sizes::Sweep>::parse(sizes::FILE.0, sizes::FILE.1).unwrap();
        let readings =
            Experiment::<readings::Sweep>::parse(readings::FILE.0, readings::FILE.1).unwrap();
        let parameters =
            Experiment::<parameters::Sweep>::parse(parameters::FILE.0, parameters::FILE.1).unwrap();
        for scale in [Scale::Quick, Scale::Full] {
            assert_eq!(full(hit_rates.sweep(scale).cells()), 16);
            assert_eq!(full(sizes.sweep(scale).cells()), 84);
            assert_eq!(full(sizes.sweep(scale).long_cells()), 56);
            assert_eq!(full(readings.sweep(scale).cells()), 216);
            assert_eq!(
                full(parameters.sweep(scale).cells()) + full(parameters.sweep(scale).courses()),
                6
            );
        }
    }

    #[test]
    fn an_hour_ends_with_a_mistake_in_a_file() {
        let claims = [
            claims::<hit_rates::Sweep>(hit_rates::FILE),
            claims::<sizes::Sweep>(sizes::FILE),
            claims::<readings::Sweep>(readings::FILE),
            claims::<published_cycles::Sweep>(published_cycles::FILE),
            claims::<parameters::Sweep>(parameters::FILE),
            claims::<collisions::Sweep>(collisions::FILE),
            claims::<cycles::Sweep>(cycles::FILE),
        ];
        assert_eq!(claims, [16, 21, 24, 13, 5, 2, 15]);
    }
}
