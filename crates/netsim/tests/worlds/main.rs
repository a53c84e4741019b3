//! A seeded search over random worlds: what nobody thought of, on networks that nobody would build.
//!
//! Each seed makes a network (topology, links, policies, strategies, applications, faults), lets it
//! run until nothing happens any more, and checks what must hold of every network
//! (`invariants.rs`). `cargo test` looks at 200 seeds; for hours:
//!
//! ```text
//! LARDER_SEEDS=0..1000000 cargo test --release -p larder-netsim --test worlds
//! ```
//!
//! A seed that fails prints the command that runs it alone.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a search tells what it met, and the way back to what fails"
)]

mod apps;
mod invariants;
mod world;

use std::ops::Range;

/// Seeds of a run of `cargo test`: seconds without optimisation.
const SEEDS: Range<u64> = 0..200;

/// Prints the way back to a seed when it panics.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.0;
            eprintln!(
                "world {seed} fails: LARDER_SEEDS={seed}..{} cargo test -p larder-netsim --test worlds",
                seed + 1
            );
        }
    }
}

fn seeds() -> Range<u64> {
    #[allow(clippy::disallowed_methods, reason = "which worlds are looked at is for who runs the search")]
    let asked = std::env::var("LARDER_SEEDS");
    let Ok(asked) = asked else { return SEEDS };
    let range = asked.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    range
        .filter(|seeds| !seeds.is_empty())
        .unwrap_or_else(|| panic!("LARDER_SEEDS={asked}: it reads FROM..TO, as 0..1000"))
}

/// Seeds that once failed, with what failed there.
const FAILED_ONCE: [(u64, &str); 1] =
    [(513, "a Content Store answers an Interest with an InterestLifetime of 0, at the instant at which it expires")];

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
        // Worlds are many and short: every 16th is run again.
        if seed % 16 == 0 {
            assert_eq!(run.print, invariants::run(seed).print, "the same seed gave another run");
        }
        seen.add(&run);
    }
    seen.report();
    if seeds() == SEEDS {
        seen.check();
    }
}
