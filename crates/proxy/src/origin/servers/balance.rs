//! The choice between members that may get a request.
//!
//! - **Hash**: rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase
//!   hit rates", 1998), with weights (Schindelhauer and Schomaker, "Weighted distributed hash
//!   tables", 2005). Every member has a score for the key; the highest is used. So each member gets
//!   the same keys from every node, and if one disappears, only its keys move, to all others.
//!   The load is bounded (Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with bounded
//!   loads", 2018): a member has at most [`limits::LOAD_FACTOR`] times its part of the outstanding
//!   requests, and then the next score is used.
//! - **Least outstanding**: the member with the fewest outstanding requests for its weight; among
//!   equal ones, the one of the key.

use crate::base::limits;
use serde::Deserialize;

/// The choice between the servers of an origin.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// Each URL goes to the same server.
    #[default]
    Hash,
    /// The server with the fewest outstanding requests for its weight.
    LeastOutstanding,
}

/// A member that may get the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub at: usize,
    pub hash: u64,
    pub weight: f64,
    pub outstanding: u32,
}

/// Chooses one of the candidates; `None` only if there are none.
pub(super) fn choose(balance: Balance, key: u64, candidates: &[Candidate]) -> Option<Candidate> {
    let (first, rest) = candidates.split_first()?;
    if rest.is_empty() {
        return Some(*first);
    }
    let has_same_weight = rest.iter().all(|one| one.weight == first.weight);
    // The logarithm is monotonic, so equal weights need none.
    let score = |one: &Candidate| match mix(one.hash ^ key) {
        hash if has_same_weight => hash as f64,
        hash => one.weight / -unit(hash).ln(),
    };
    match balance {
        Balance::Hash => {
            let load = Load::of(candidates);
            let with_room = candidates
                .iter()
                .filter(|one| one.outstanding < load.most(one.weight));
            with_room
                .max_by(|a, b| score(a).total_cmp(&score(b)))
                .copied()
        }
        Balance::LeastOutstanding => {
            let load = |one: &Candidate| (f64::from(one.outstanding) + 1.0) / one.weight;
            let order = |a: &&Candidate, b: &&Candidate| {
                load(a)
                    .total_cmp(&load(b))
                    .then_with(|| score(b).total_cmp(&score(a)))
            };
            candidates.iter().min_by(order).copied()
        }
    }
}

/// The outstanding requests of several members, and their weights.
pub(super) struct Load {
    outstanding: f64,
    weight: f64,
}

impl Load {
    pub(super) fn of(candidates: &[Candidate]) -> Load {
        Load {
            outstanding: candidates
                .iter()
                .map(|one| f64::from(one.outstanding))
                .sum(),
            weight: candidates.iter().map(|one| one.weight).sum(),
        }
    }

    /// Returns the most requests that a member of this weight may have, with the next one. A few
    /// are always allowed: with so little load, the order of keys is worth more than the balance.
    /// All members together have more places than requests, so one of them has room.
    pub(super) fn most(&self, weight: f64) -> u32 {
        let part = limits::LOAD_FACTOR * (self.outstanding + 1.0) * weight / self.weight;
        (part.ceil() as u32).max(limits::LOAD_ALWAYS)
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every bit of the result depends on
/// every bit of the word.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Returns a number above 0 and below 1 from the upper bits of a word.
fn unit(word: u64) -> f64 {
    ((word >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}
