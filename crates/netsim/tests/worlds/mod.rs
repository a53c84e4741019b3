//! A seeded search over random worlds, for failures that no written test covers.
//!
//! Each seed builds a network (topology, links, policies, strategies, applications, faults), runs
//! it until no event is left, and checks the invariants of every network (`invariants.rs`).
//! `cargo test` runs 200 seeds. For longer searches:
//!
//! ```text
//! LARDER_SEEDS=0..1000000 cargo test --release -p larder-netsim --test failures no_world
//! ```
//!
//! A failing seed prints the command that runs it alone.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a search prints its coverage, and the command for a failing seed"
)]

mod apps;
mod invariants;
mod world;

use std::ops::Range;

/// The seeds of `cargo test`, which take seconds without optimisation.
const SEEDS: Range<u64> = 0..200;

/// Prints the command for a seed when it panics.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.0;
            eprintln!(
                "world {seed} fails: LARDER_SEEDS={seed}..{} cargo test -p larder-netsim --test failures no_world",
                seed + 1
            );
        }
    }
}

fn seeds() -> Range<u64> {
    #[allow(
        clippy::disallowed_methods,
        reason = "the environment selects the seeds of the search"
    )]
    let range_text = std::env::var("LARDER_SEEDS");
    let Ok(range_text) = range_text else {
        return SEEDS;
    };
    let range = range_text
        .split_once("..")
        .and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    range
        .filter(|seeds| !seeds.is_empty())
        .unwrap_or_else(|| panic!("LARDER_SEEDS={range_text}: it reads FROM..TO, as 0..1000"))
}

/// Seeds that failed before, with the failure.
const FAILED_ONCE: [(u64, &str); 1] = [(
    513,
    "a Content Store answers an Interest with an InterestLifetime of 0, at the instant at which it expires",
)];

#[test]
fn a_seed_that_once_failed_fails_again() {
    for (seed, why) in FAILED_ONCE {
        println!("world {seed}: {why}");
        let _replay = Replay(seed);
        invariants::run(seed);
    }
}

#[test]
fn no_world_breaks_what_holds_of_every_network() {
    let mut seen = invariants::Seen::default();
    for seed in seeds() {
        let _replay = Replay(seed);
        let run = invariants::run(seed);
        // Worlds are many and short, so only every 16th is run a second time.
        if seed % 16 == 0 {
            assert_eq!(
                run.print,
                invariants::run(seed).print,
                "the same seed gave another run"
            );
        }
        seen.add(&run);
    }
    seen.report();
    if seeds() == SEEDS {
        seen.check();
    }
}
