//! `adaptsize`: size-aware admission against production caches, research policies and other tuners,
//! by the replayer.
//!
//! The paper's traces are not public. Traffic is generated with their published properties
//! (`larder_replay::Cdn`), which are marginals, not a trace, so a gain may differ: its band is half
//! to twice the published gain, or the range where one is published for two traces that are not
//! told apart and is wide; a share of LookAhead's may fall short by 5 points (10 where traffic
//! changes). What a replay cannot show, throughput of a server under concurrent clients (figure
//! 13), stands as cost a request, and is measured on the testbed: real servers, a client and an
//! origin, as the paper has them. The real traces that are public stand beside it all.

mod change;
mod cost;
mod production;
mod public;
mod replays;
mod research;
mod sensitivity;
mod testbed;
mod traces;

use crate::Paper;

pub(crate) const PAPER: Paper = Paper {
    name: "adaptsize",
    citation: "Berger, Sitaraman, Harchol-Balter, AdaptSize: orchestrating the hot object memory cache in a content delivery network, NSDI 2017",
    experiments: &[
        ("traces", traces::run),
        ("production", production::run),
        ("research", research::run),
        ("sensitivity", sensitivity::run),
        ("flash-crowd", change::flash_crowd),
        ("flash-chunks", change::flash_chunks),
        ("traffic-mix", change::traffic_mix),
        ("cost", cost::run),
        ("public", public::run),
    ],
    testbed: testbed::EXPERIMENTS,
    minutes: testbed::MINUTES,
    builds_networks: false,
};
