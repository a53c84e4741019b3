//! A seeded search for responses that RFC 9111 forbids, in random networks of caches.
//!
//! Each seed builds a network (`world.rs`): a tree of caches, clients with random directives, lossy
//! links that fail, an origin whose objects change, purges and unsafe requests. An oracle
//! (`oracle.rs`) keeps the history of the origin's responses, and decides for each response that a
//! client gets whether RFC 9111 allows it. `cargo test` runs 300 seeds. For longer searches:
//!
//! ```text
//! LARDER_SEEDS=0..100000 cargo test --release -p larder-netsim --test failures http_worlds::
//! ```
//!
//! A failing seed prints its world and the command that runs it alone.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a search prints its coverage, and the command for a failing seed"
)]

mod directives;
mod oracle;
mod origin;
mod requester;
mod world;

use std::ops::Range;
use world::World;

/// The seeds of `cargo test`, which take seconds without optimisation.
const SEEDS: Range<u64> = 0..300;

/// Describes a world, and prints the command for its seed, when it panics.
struct Replay<'a>(u64, &'a str);

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let &mut Replay(seed, words) = self;
            let range = format!("{seed}..{}", seed + 1);
            eprintln!(
                "{words}world {seed} fails: LARDER_SEEDS={range} cargo test -p larder-netsim --test failures http_worlds::"
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

fn run(seed: u64) -> oracle::Seen {
    let mut world = World::new(seed);
    let words = std::mem::take(&mut world.words);
    let _replay = Replay(seed, &words);
    world.run()
}

#[test]
fn a_client_gets_a_response_that_rfc_9111_forbids() {
    let mut seen = oracle::Seen::default();
    for seed in seeds() {
        let run_seen = run(seed);
        // Worlds are many and short, so only every 16th is run a second time.
        if seed % 16 == 0 {
            assert_eq!(run_seen, run(seed), "seed {seed} gave another run");
        }
        seen.add(&run_seen);
    }
    println!("{seen:#?}");
    if seeds() == SEEDS {
        seen.check();
    }
}
