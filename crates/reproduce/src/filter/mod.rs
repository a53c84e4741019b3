//! `filter`: hit rates, insertion rates, the model, and the cycles that a packet costs.
//!
//! Where the paper does not add up, both readings run, and the bands come from its equations; each experiment's file says which.

mod hit_rates;
mod replays;

use crate::{Error, Paper, Request, Section, Watch};

pub(crate) const PAPER: Paper = Paper {
    name: "filter",
    citation: "Takemasa, Koizumi, Hasegawa, Lightweight cache admission algorithm for fast NDN software routers, Journal of Information Processing 27, 2019",
    run,
};

fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Vec<Section>, Error> {
    [hit_rates::run].into_iter().map(|experiment| experiment(request, watch)).collect()
}
