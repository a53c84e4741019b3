//! `adaptsize`: size-aware admission compared with production caches, research policies and other
//! tuners, in the replayer and with real servers.
//!
//! The paper's traces are not public. The experiments generate traffic with the published
//! properties (`larder_replay::Cdn`). These are marginals, not a trace, so a gain may differ from
//! the published one. The band of a gain is half to twice the published value. If the paper gives
//! one wide range for two traces without distinguishing them, the band is that range. A share of
//! LookAhead's hit ratio may be 5 points lower (10 points when the traffic changes).
//!
//! A replay cannot show the throughput of a server under concurrent clients (figure 13). It shows
//! the cost per request instead. The testbed measures the throughput with real servers, a client
//! and an origin, as in the paper. The public real traces run in addition to the generated traffic.

mod change;
mod constant_c;
mod constant_c_crowds;
mod cost;
mod day;
mod day_end;
mod intervals;
mod locality;
mod nginx;
mod production;
mod public;
mod replays;
mod research;
mod second_level;
mod sensitivity;
mod systems;
mod testbed;
mod traces;
mod windows;

use crate::Paper;

/// The experiment that replays the traces of [`crate::Request::traces`].
pub(crate) const WITH_TRACES: &str = "public";

pub(crate) const PAPER: Paper = Paper {
    name: "adaptsize",
    citation: "Berger, Sitaraman, Harchol-Balter, AdaptSize: orchestrating the hot object memory cache in a content delivery network, NSDI 2017",
    experiments: &[
        ("traces", traces::run),
        ("locality", locality::run),
        ("production-local", production::run_local),
        ("production", production::run),
        ("research-local", research::run_local),
        ("research", research::run),
        ("systems", systems::run),
        ("windows", windows::run),
        ("day", day::run),
        ("day-end", day_end::run),
        ("second-level", second_level::run),
        ("sensitivity", sensitivity::run),
        ("intervals", intervals::run),
        ("constant-c", constant_c::run),
        ("constant-c-crowds", constant_c_crowds::run),
        ("flash-crowd", change::flash_crowd),
        ("flash-chunks", change::flash_chunks),
        ("flash-local", change::flash_local),
        ("traffic-mix", change::traffic_mix),
        ("mix-chunks", change::mix_chunks),
        ("cost", cost::run),
        (WITH_TRACES, public::run),
    ],
    testbed: testbed::EXPERIMENTS,
    minutes: &[
        ("traces", [0, 0]),
        ("locality", [0, 0]),
        ("production-local", [0, 4]),
        ("production", [0, 3]),
        ("research-local", [0, 5]),
        ("research", [0, 5]),
        ("systems", [0, 0]),
        ("windows", [0, 5]),
        ("day", [0, 18]),
        ("day-end", [0, 3]),
        ("second-level", [0, 3]),
        ("sensitivity", [0, 1]),
        ("intervals", [0, 7]),
        ("constant-c", [0, 9]),
        ("constant-c-crowds", [0, 9]),
        ("flash-crowd", [0, 9]),
        ("flash-chunks", [0, 3]),
        ("flash-local", [0, 4]),
        ("traffic-mix", [0, 20]),
        ("mix-chunks", [0, 20]),
        ("cost", [0, 0]),
        ("public", [0, 0]),
        ("testbed-hk", [1, 95]),
        ("testbed-us", [1, 95]),
        ("testbed-published", [0, 12]),
        ("testbed-throughput", [1, 4]),
        ("testbed-gigabits", [1, 5]),
        ("testbed-change", [4, 7]),
        ("testbed-disk", [1, 35]),
    ],
    builds_networks: false,
    with_applications: None,
    requirements: |request| {
        if request.testbed {
            testbed::check_installed()
        } else {
            Ok(())
        }
    },
};
