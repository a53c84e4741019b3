//! AdaptSize as published, in Larder's node, with the traffic of `testbed-production` at the
//! typical size. A model stands for nginx and a replay for Varnish: `testbed-production` compares
//! both with the servers.

use super::production::{Bench, Sweep as Testbed};
use super::servers::System;
use crate::{Error, Experiment, Request, Section, Watch};
use serde::Deserialize;

const FILE: (&str, &str) = experiment_file!("adaptsize/testbed-published.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    /// The policy.
    published: String,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let testbed = Experiment::<Testbed>::parse(super::production::FILE.0, super::production::FILE.1)?;
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let (testbed, Sweep { published }) = (testbed.sweep(request.scale), experiment.sweep(request.scale));
    let [_, capacity, _] = testbed.capacities;
    let mut section = Section::new(&experiment, request.scale);
    section.condition("cache", format!("{capacity} bytes"));
    let mut rows = Vec::new();
    for (name, catalogue, seed) in [("hk", testbed.hk, request.seed), ("us", testbed.us, request.seed + 1)] {
        let bench = Bench::new(name, catalogue.traffic(name, seed)?, testbed, request, watch)?;
        let traffic = bench.cut(capacity);
        let replayed = bench.replayed(&traffic, vec![published.clone(), "lru".to_owned()], capacity)?;
        let (_, nginx) = bench.tuned_nginx(&traffic, capacity)?;
        let served = bench.served(&traffic, &[System::Larder(published.clone())], capacity)?;
        let ([served], [own, varnish]) = (&served[..], &replayed[..]) else {
            return Err(Error(format!("experiments/{}: a system was not measured", FILE.0)));
        };
        let (hits, own, varnish) = (served.hit_ratio(1), own.hit_ratio, varnish.hit_ratio);
        section.measured(format!("bed-{name}-published-replayed"), hits / own);
        section.measured(format!("bed-{name}-published-nginx"), hits / nginx);
        section.measured(format!("bed-{name}-published-varnish"), hits / varnish);
        rows.push([name.to_owned()].into_iter().chain([hits, own, nginx, varnish].map(|ratio| format!("{ratio:.4}"))));
    }
    let header = ["traffic", "the node", "its replay", "nginx by its model", "LRU by replay, for Varnish"];
    section.table("Object hit ratio", header, rows.into_iter().map(Iterator::collect).collect());
    section.judged()
}
