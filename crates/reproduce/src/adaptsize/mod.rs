//! `adaptsize`: size-aware admission against production caches, research policies and other tuners, by the replayer.
//!
//! The paper's traces are not public. Traffic is generated with their published properties (`larder_replay::Cdn`), which are marginals, not a trace, so a
//! gain may differ: its band is half to twice the published gain, or the range where one is published for two traces that are not told apart and
//! is wide; a share of LookAhead's may fall short by 5 points (10 where traffic changes).
//! What a replay cannot show, throughput of a server under concurrent clients (figure 13), stands as cost a request; the real traces that are
//! public stand beside it all.

mod change;
mod cost;
mod production;
mod public;
mod replays;
mod research;
mod sensitivity;

use crate::{Error, Paper, Request, Run, Section, Watch};

pub(crate) const PAPER: Paper = Paper {
    name: "adaptsize",
    citation: "Berger, Sitaraman, Harchol-Balter, AdaptSize: orchestrating the hot object memory cache in a content delivery network, NSDI 2017",
    experiments: &[
        "production",
        "research",
        "sensitivity",
        "flash-crowd",
        "flash-chunks",
        "traffic-mix",
        "cost",
        "public",
    ],
    run,
};

fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Vec<Section>, Error> {
    let experiments: [Run; 8] = [
        production::run,
        research::run,
        sensitivity::run,
        change::flash_crowd,
        change::flash_chunks,
        change::traffic_mix,
        cost::run,
        public::run,
    ];
    request.sections(&experiments, watch)
}
