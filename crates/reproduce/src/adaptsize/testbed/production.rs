//! Figures 1, 10 and 12 with real servers, and whether a node hits as often as the replayer
//! predicts.

use super::serve::{Run, Served, overhead};
use super::servers::System;
use crate::adaptsize::nginx::{Occupied, Uses};
use crate::adaptsize::replays::{self, Catalogue, ReplayResult, Traffic};
use crate::cell::{measure, measure_all, units};
use crate::section::numbered;
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_units::ByteSize;
use serde::Deserialize;

/// One of the two traces.
#[derive(Clone, Copy)]
pub(super) struct Trace {
    pub(super) name: &'static str,
    /// The experiment file.
    pub(super) file: (&'static str, &'static str),
    /// Added to the seed of the request: the traces are independent.
    seed: u64,
}

pub(super) const HK: Trace = Trace {
    name: "hk",
    file: experiment_file!("adaptsize/testbed-hk.toml"),
    seed: 0,
};
pub(super) const US: Trace = Trace {
    name: "us",
    file: experiment_file!("adaptsize/testbed-us.toml"),
    seed: 1,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    catalogue: Catalogue,
    /// The small, the typical and the large capacity, bytes.
    pub(super) capacities: [u64; 3],
    /// Objects are cut at this part of the cache that they are requested from.
    pub(super) largest: f64,
    /// The request numbers at which nginx may admit an object. A model finds the best one.
    nginx: Uses,
    connections: usize,
    /// The number of requests between two tunings.
    adaptsize_interval: u64,
    lookahead_interval: u64,
    lookahead_window: u64,
}

/// The number of parts of the traffic. The first one is the warm-up.
const PARTS: usize = 4;

pub(super) fn run_hk(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    run(HK, request, watch)
}

pub(super) fn run_us(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    run(US, request, watch)
}

fn run(trace: Trace, request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    super::servers::check_installed()?;
    let experiment = Experiment::<Sweep>::parse(trace.file.0, trace.file.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    section.condition(
        "client",
        format!(
            "{} connections, closed loop; a quarter of the requests to warm up",
            sweep.connections
        ),
    );
    section.condition("largest object", format!("{} of the cache", sweep.largest));
    let Catalogue {
        objects,
        requests,
        exponent,
        ..
    } = sweep.catalogue;
    section.condition(
        "traffic",
        format!("{requests} requests, {objects} objects, Zipf {exponent}"),
    );
    let bench = Bench::new(trace, sweep, request, watch)?;
    section.condition(
        "bytes an object beside its body's memory, in Larder",
        bench.overhead,
    );
    bench.typical(&mut section)?;
    bench.over_size(&mut section)?;
    section.judged()
}

/// A trace with everything that its measurements need.
pub(super) struct Bench<'a> {
    name: &'static str,
    /// The traffic before its objects are cut.
    traffic: Traffic,
    /// The bytes that Larder counts for an object in addition to those of its body's memory.
    overhead: u64,
    sweep: &'a Sweep,
    request: &'a Request<'a>,
    watch: &'a dyn Watch,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        trace: Trace,
        sweep: &'a Sweep,
        request: &'a Request<'a>,
        watch: &'a dyn Watch,
    ) -> Result<Bench<'a>, Error> {
        let Trace { name, seed, .. } = trace;
        let traffic = sweep.catalogue.traffic(name, request.seed + seed)?;
        let bench = Bench {
            name,
            traffic,
            overhead: 0,
            sweep,
            request,
            watch,
        };
        let overhead = overhead(&bench.cut(sweep.capacities[1]))?;
        Ok(Bench { overhead, ..bench })
    }

    /// Returns the traffic of a cache of this capacity.
    pub(super) fn cut(&self, capacity: u64) -> Traffic {
        self.traffic
            .cut((capacity as f64 * self.sweep.largest) as u64)
    }

    /// Adds figures 1 and 10.
    fn typical(&self, section: &mut Section) -> Result<(), Error> {
        let [_, capacity, _] = self.sweep.capacities;
        let [threshold, chance] = self.adaptsize();
        let policies = [
            "lru".to_owned(),
            "filter(theta=2)+lru".to_owned(),
            "agd".to_owned(),
            threshold,
            chance,
        ];
        let ahead = [self.sweep.lookahead_interval, self.sweep.lookahead_window];
        let lookahead = ["threshold", "chance"].map(|shape| replays::lookahead(shape, ahead));
        let traffic = self.cut(capacity);
        let replayed = self.replayed(
            &traffic,
            policies.iter().chain(&lookahead).cloned().collect(),
            capacity,
        )?;
        let (uses, nginx_model) = self.tuned_nginx(&traffic, capacity)?;
        let mut systems = vec![System::Varnish { is_exact: true }, System::Nginx(uses)];
        systems.extend(policies.iter().cloned().map(System::Larder));
        let served = self.served(&traffic, &systems, capacity)?;

        let ratios: Vec<f64> = served.iter().map(|served| served.hit_ratio(1)).collect();
        let [varnish, nginx, lru, _, agd, threshold, chance] = ratios[..] else {
            return Err(Error(
                "the measured systems are not the expected ones".to_owned(),
            ));
        };
        let [ahead_threshold, ahead_chance] = [5, 6].map(|at| replayed[at].hit_ratio);
        let name = self.name;
        section.measured(
            format!("bed-{name}-lru-replayed"),
            lru / replayed[0].hit_ratio,
        );
        section.measured(
            format!("bed-{name}-agd-replayed"),
            agd / replayed[2].hit_ratio,
        );
        section.measured(
            format!("bed-{name}-chance-replayed"),
            chance / replayed[4].hit_ratio,
        );
        section.measured(format!("bed-{name}-nginx-model"), nginx / nginx_model);
        section.measured(format!("bed-{name}-nginx"), chance / nginx);
        section.measured(format!("bed-{name}-varnish"), chance / varnish);
        section.measured(
            format!("bed-{name}-lookahead-threshold"),
            threshold / ahead_threshold,
        );
        section.measured(
            format!("bed-{name}-lookahead-chance"),
            chance / ahead_chance,
        );

        let names = [
            "Varnish",
            "nginx",
            "lru",
            "filter",
            "agd",
            "AdaptSize(Threshold)",
            "AdaptSize(Chance)",
            "LookAhead(Threshold)",
            "LookAhead(Chance)",
        ];
        let bars = ratios
            .iter()
            .copied()
            .chain([ahead_threshold, ahead_chance]);
        section.named_figure(
            &format!("bed-{name}-typical"),
            names,
            vec![Series::bars("object hit ratio", numbered(bars))],
        );
        self.table(section, &systems, &served, nginx_model, &replayed);
        Ok(())
    }

    fn table(
        &self,
        section: &mut Section,
        systems: &[System],
        served: &[Served],
        nginx_model: f64,
        replayed: &[ReplayResult],
    ) {
        let known = [None, Some(nginx_model)]
            .into_iter()
            .chain(replayed.iter().map(|found| Some(found.hit_ratio)));
        let known =
            known.map(|ratio| ratio.map_or("\u{2013}".to_owned(), |ratio| format!("{ratio:.4}")));
        let known: Vec<String> = known.collect();
        let rows = systems
            .iter()
            .zip(served)
            .enumerate()
            .map(|(at, (system, served))| {
                let [cache, origin, client] =
                    served.microseconds().map(|time| format!("{time:.0}"));
                let held = served
                    .held
                    .map_or("\u{2013}".to_owned(), |held| format!("{held:.2}"));
                let refused = served.not_stored.iter().filter(|(_, count)| **count > 0);
                let refused: Vec<String> = refused
                    .map(|(reason, count)| format!("{reason} {count}"))
                    .collect();
                vec![
                    system.name(),
                    format!("{:.4}", served.hit_ratio(1)),
                    known[at].clone(),
                    format!("{:.0}", served.requests() as f64 / served.seconds),
                    cache,
                    origin,
                    client,
                    held,
                    refused.join(", "),
                ]
            });
        let header = [
            "system",
            "hit ratio",
            "replayed",
            "requests/s",
            "cache, CPU \u{b5}s a request",
            "origin",
            "client",
            "held, of its bytes",
            "not stored",
        ];
        section.table(
            &format!("{}: the typical size", self.name),
            header,
            rows.collect(),
        );
    }

    /// Adds figure 12.
    fn over_size(&self, section: &mut Section) -> Result<(), Error> {
        let names = [
            "Varnish",
            "nginx",
            "AdaptSize(Threshold)",
            "AdaptSize(Chance)",
        ];
        let mut series = names.map(|name| Series::line(name, Vec::new())).to_vec();
        let mut rows = Vec::new();
        for (at, capacity) in self.sweep.capacities.into_iter().enumerate() {
            let traffic = self.cut(capacity);
            let mut systems = vec![
                System::Varnish { is_exact: true },
                System::Nginx(self.tuned_nginx(&traffic, capacity)?.0),
            ];
            systems.extend(self.adaptsize().map(System::Larder));
            let ratios: Vec<f64> = self
                .served(&traffic, &systems, capacity)?
                .iter()
                .map(|served| served.hit_ratio(1))
                .collect();
            for (series, ratio) in series.iter_mut().zip(&ratios) {
                series.points.push((capacity as f64, *ratio));
            }
            if let Some(size) = [Some("small"), None, Some("large")][at] {
                section.measured(
                    format!("bed-{}-{size}-nginx", self.name),
                    ratios[3] / ratios[1],
                );
                section.measured(
                    format!("bed-{}-{size}-varnish", self.name),
                    ratios[3] / ratios[0],
                );
            }
            let gains = [
                self.replayed_gain(&traffic, capacity)?,
                self.replayed_gain(&self.traffic, capacity)?,
            ];
            let gains = [ratios[3] / ratios[1]]
                .into_iter()
                .chain(gains)
                .map(|gain| format!("{gain:.3}"));
            let shown = ratios
                .iter()
                .map(|ratio| format!("{ratio:.4}"))
                .chain(gains);
            rows.push(
                [
                    ByteSize::from_bytes(capacity).to_string(),
                    systems[1].name(),
                ]
                .into_iter()
                .chain(shown)
                .collect(),
            );
        }
        section.figure(&format!("bed-{}-sizes", self.name), series);
        let systems = [
            "cache",
            "nginx'",
            "Varnish",
            "nginx",
            "AdaptSize(Threshold)",
            "AdaptSize(Chance)",
        ];
        let header = systems.into_iter().chain([
            "Chance over nginx",
            "replayed",
            "replayed, objects not cut",
        ]);
        section.table(
            &format!("{}: object hit ratio over the cache's size", self.name),
            header,
            rows,
        );
        Ok(())
    }

    /// Returns the gain of AdaptSize(Chance) over nginx by replays. With `traffic` before and after
    /// the cut, it shows what the cut takes.
    fn replayed_gain(&self, traffic: &Traffic, capacity: u64) -> Result<f64, Error> {
        let [_, chance] = self.adaptsize();
        let (_, nginx) = self.tuned_nginx(traffic, capacity)?;
        let found = self.replayed(traffic, vec![chance], capacity)?;
        Ok(found
            .first()
            .map_or(f64::NAN, |found| found.hit_ratio / nginx))
    }

    fn adaptsize(&self) -> [String; 2] {
        let interval = self.sweep.adaptsize_interval;
        ["threshold", "chance"].map(|shape| format!("adaptsize({shape},interval={interval})+lru"))
    }

    /// Returns the request number at which nginx admits best, and the hit ratio with it, by the
    /// model of nginx. The paper also tunes nginx offline.
    pub(super) fn tuned_nginx(
        &self,
        traffic: &Traffic,
        capacity: u64,
    ) -> Result<(u64, f64), Error> {
        let limits = [capacity, self.warm_up() as u64];
        let (uses, found) =
            self.sweep
                .nginx
                .tuned(traffic, limits, Occupied::File, self.request, self.watch)?;
        Ok((uses, found.hit_ratio))
    }

    fn warm_up(&self) -> usize {
        self.traffic.accesses.len().div_ceil(PARTS)
    }

    /// Returns the results of replays of these policies, with the bytes that Larder counts.
    pub(super) fn replayed(
        &self,
        traffic: &Traffic,
        specs: Vec<String>,
        capacity: u64,
    ) -> Result<Vec<ReplayResult>, Error> {
        let stored = traffic.stored(self.overhead);
        let run = |spec| replays::Run {
            traffic: &stored,
            spec,
            capacity,
            warm_up: self.warm_up(),
        };
        let runs: Vec<replays::Run<'_>> = specs.into_iter().map(run).collect();
        self.watch
            .begin(&format!("{}: replays", self.name), units(&runs));
        measure_all(runs, self.request, self.watch)
    }

    /// Returns the results of the real servers, one after another.
    pub(super) fn served(
        &self,
        traffic: &Traffic,
        systems: &[System],
        capacity: u64,
    ) -> Result<Vec<Served>, Error> {
        let what = format!("{}, {}", self.name, ByteSize::from_bytes(capacity));
        self.watch
            .begin(&what, (systems.len() * self.traffic.accesses.len()) as u64);
        let serve_one = |system: &System| {
            self.watch.now(&format!("{what}: {}", system.name()));
            let connections = self.sweep.connections;
            let run = Run {
                system: system.clone(),
                traffic,
                capacity,
                connections,
                parts: PARTS,
            };
            measure(&run, self.request, self.watch)
        };
        systems.iter().map(serve_one).collect()
    }
}
