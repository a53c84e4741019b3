//! `filter`: hit rates, insertion rates, the model, and the cycles that a packet costs.
//!
//! Where the paper does not add up, both readings run, and the bands come from its equations; each experiment's file says which.

mod collisions;
mod cycles;
mod hit_rates;
mod parameters;
mod replays;
mod sizes;

use crate::{Error, Paper, Request, Section, Watch};

pub(crate) const PAPER: Paper = Paper {
    name: "filter",
    citation: "Takemasa, Koizumi, Hasegawa, Lightweight cache admission algorithm for fast NDN software routers, Journal of Information Processing 27, 2019",
    run,
};

fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Vec<Section>, Error> {
    let hit_rates = hit_rates::run(request, watch)?;
    let (sizes, on_web) = sizes::run(request, watch)?;
    let parameters = parameters::run(request, watch)?;
    let collisions = collisions::run(request, watch)?;
    let cycles = cycles::run(request, watch, &on_web)?;
    Ok(vec![hit_rates, sizes, parameters, collisions, cycles])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Scale};
    use serde::de::DeserializeOwned;
    use std::fmt::Debug;

    fn claims<Sweep: DeserializeOwned + Debug>((name, text): (&str, &str)) -> usize {
        let experiment = Experiment::<Sweep>::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
        let shown = [Scale::Quick, Scale::Full].map(|scale| format!("{:?}", experiment.sweep(scale)));
        assert!(!shown[0].is_empty() && !shown[1].is_empty());
        experiment.claims.len()
    }

    #[test]
    fn an_hour_ends_with_a_mistake_in_a_file() {
        let claims = [
            claims::<hit_rates::Sweep>(hit_rates::FILE),
            claims::<sizes::Sweep>(sizes::FILE),
            claims::<parameters::Sweep>(parameters::FILE),
            claims::<collisions::Sweep>(collisions::FILE),
            claims::<cycles::Sweep>(cycles::FILE),
        ];
        assert_eq!(claims, [13, 9, 5, 2, 8]);
    }
}
