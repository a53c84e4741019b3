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
