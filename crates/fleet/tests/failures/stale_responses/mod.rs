//! Failure: a node serves a response that was purged, longer than `max_lag` after the purge.
//!
//! Each seed is a fleet of two or three nodes in virtual time, with the real follower and acceptor,
//! over a model of the log. The log and the network delay, lose and repeat republished entries and
//! acknowledgements; replicas lag; a leader is deposed; the log is away, forgets old entries,
//! returns to an older copy (sequences are used twice), or is made anew. Nodes lose their
//! connection without notice, hear nothing, stop, crash between any two actions, restart with
//! an older position, and lose their disk. Each start has a clock of its own.
//!
//! Each of these rules was removed once, and a seed, or a test of the other modules for what seeds
//! meet seldom, failed:
//!
//! * Entries are applied in order. A gap is read, also one that only the own beat shows, together
//!   with all that came before the read.
//! * A proof begins at the time before the beat, and needs its sequence to be applied. A lookup
//!   compares its end with the clock. A start is not fresh.
//! * After a connection, the applied entries from the last beat on are compared with the log's, and
//!   so are the identity and the first kept sequence. What cannot be compared is missed.
//! * A new beat at or below the applied sequence, two acknowledgements of one sequence, an entry
//!   with another id than was acknowledged or applied there: the log was rolled back.
//! * A node that begins, misses entries, or finds a roll-back or another identity makes all stale.
//! * A node reports a roll-back by a barrier. It repeats it until it is acknowledged, and keeps no
//!   position before. The barrier and what is unreadable make all stale.
//! * A position is kept when it is settled, and only at a beat.
//! * "Not found" by a lagging replica or a deposed leader is no loss.
//! * What is read, and differs from what has come meanwhile, is read again.
//! * A purge is journaled, then published, repeated with the same id, and stays after its
//!   acknowledgement, also while there is no connection or the log is in doubt. After a barrier and
//!   each new beginning it is published again, under a new id; after a restart as well, unless the
//!   journal knows its entry, which is compared with the log's.
//!
//! ```text
//! LARDER_SEEDS=0..200000 cargo test --release -p larder-fleet stale_responses
//! ```

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a search prints its coverage, and the command for a failing seed"
)]

mod log;
mod node;
mod oracle;
mod world;

use std::ops::Range;
use world::{Seen, World};

/// The seeds of `cargo test`, which take seconds without optimisation.
const SEEDS: Range<u64> = 0..2000;

/// Prints the command for a seed when it panics.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.0;
            eprintln!(
                "seed {seed} fails: LARDER_SEEDS={seed}..{} cargo test -p larder-fleet stale",
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
        .filter(|seeds: &Range<u64>| !seeds.is_empty())
        .unwrap_or_else(|| panic!("LARDER_SEEDS={range_text}: it reads FROM..TO, as 0..1000"))
}

/// Failure: a purged response is served without validation after `max_lag`, a node does not follow
/// again after all faults, a purge is lost, or responses become stale without a loss of the log.
#[test]
fn a_purged_response_is_served() {
    let mut all = Seen::default();
    let seeds = seeds();
    for seed in seeds.clone() {
        let _replay = Replay(seed);
        let seen = World::new(seed).run();
        // Runs are many and short, so only every 64th is run a second time.
        if seed % 64 == 0 {
            assert_eq!(
                seen,
                World::new(seed).run(),
                "the same seed gave another run"
            );
        }
        all.add(&seen);
    }
    println!("{seeds:?}: {all:?}");
    if seeds.end - seeds.start >= 1000 {
        all.check_coverage();
    }
}
