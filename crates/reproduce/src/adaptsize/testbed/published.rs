//! AdaptSize as published, in Larder's node, with the traffic of `testbed-hk` and `testbed-us`
//! at the typical size. A model stands for nginx and a replay for Varnish: those two compare both
//! with the servers.

use super::production::{Bench, HK, Sweep as Testbed, Trace, US};
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
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let Sweep { published } = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    let mut rows = Vec::new();
    for trace in [HK, US] {
        let Trace { name, file, .. } = trace;
        let testbed = Experiment::<Testbed>::parse(file.0, file.1)?;
        let testbed = testbed.sweep(request.scale);
        let [_, capacity, _] = testbed.capacities;
        section.condition(&format!("{name}: cache"), format!("{capacity} bytes"));
        let bench = Bench::new(trace, testbed, request, watch)?;
        let traffic = bench.cut(capacity);
        let replayed = bench.replayed(
            &traffic,
            vec![published.clone(), "lru".to_owned()],
            capacity,
        )?;
        let (_, nginx) = bench.tuned_nginx(&traffic, capacity)?;
        let served = bench.served(&traffic, &[System::Larder(published.clone())], capacity)?;
        let ([served], [own, varnish]) = (&served[..], &replayed[..]) else {
            return Err(Error(format!(
                "experiments/{}: a system was not measured",
                FILE.0
            )));
        };
        let (hits, own, varnish) = (served.hit_ratio(1), own.hit_ratio, varnish.hit_ratio);
        section.measured(format!("bed-{name}-published-replayed"), hits / own);
        section.measured(format!("bed-{name}-published-nginx"), hits / nginx);
        section.measured(format!("bed-{name}-published-varnish"), hits / varnish);
        rows.push(
            [name.to_owned()]
                .into_iter()
                .chain([hits, own, nginx, varnish].map(|ratio| format!("{ratio:.4}"))),
        );
    }
    let header = [
        "traffic",
        "the node",
        "its replay",
        "nginx by its model",
        "LRU by replay, for Varnish",
    ];
    section.table(
        "Object hit ratio",
        header,
        rows.into_iter().map(Iterator::collect).collect(),
    );
    section.judged()
}
