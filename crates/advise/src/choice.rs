//! Chooses a policy and a size.

use crate::candidate::Candidate;
use crate::gathering::Traffic;
use crate::price::Prices;
use serde::Serialize;

/// Seconds of a month, as clouds bill it: 730 hours.
const MONTH: f64 = 730.0 * 3600.0;

/// Without prices, the smallest size is chosen from which twice the size saves less than this, or
/// less than the error of the estimate.
const KNEE: f64 = 0.01;

/// What a cache should save.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// Requests to the origin.
    Requests,
    /// Bytes from the origin.
    Bytes,
}

impl Goal {
    /// Returns the hit ratio that this goal counts.
    pub fn ratio(self, candidate: &Candidate) -> f64 {
        match self {
            Goal::Requests => candidate.object_hit_ratio,
            Goal::Bytes => candidate.byte_hit_ratio,
        }
    }

    /// Returns the error of [`Goal::ratio`].
    pub fn error(self, candidate: &Candidate) -> f64 {
        match self {
            Goal::Requests => candidate.object_error,
            Goal::Bytes => candidate.byte_error,
        }
    }
}

/// The advice.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// What the cache should save.
    pub goal: Goal,
    /// The policy and the size.
    pub chosen: Candidate,
    /// LRU at the same size, if it was compared: what most caches run.
    pub lru: Option<Candidate>,
    /// Why this size was chosen.
    pub reason: String,
    /// The sum of memory and egress for a month, in the currency of the prices.
    pub cost_per_month: Option<f64>,
    /// The same without a cache.
    pub cost_without_cache: Option<f64>,
}

impl Choice {
    /// Chooses among `candidates`, of which there is at least one.
    pub(crate) fn new(
        candidates: &[Candidate],
        traffic: &Traffic,
        goal: Goal,
        prices: Option<Prices>,
    ) -> Choice {
        let goal = if prices.is_some() { Goal::Bytes } else { goal };
        let cost = |candidate: &Candidate| {
            prices.map(|Prices { egress, memory }| {
                let missed = (1.0 - candidate.byte_hit_ratio) * traffic.requested_bytes;
                let missed = traffic.in_seconds(missed, MONTH).unwrap_or_default();
                candidate.capacity as f64 * memory.per_byte + missed * egress.per_byte
            })
        };
        let (chosen, reason) = match prices {
            Some(_) => {
                let costs = |candidate: &&Candidate| cost(candidate).unwrap_or_default();
                let chosen = candidates
                    .iter()
                    // Of equal ones the smallest.
                    .min_by(|a, b| {
                        let by_size = a.capacity.cmp(&b.capacity);
                        costs(a).total_cmp(&costs(b)).then(by_size)
                    });
                (
                    chosen.unwrap_or(&candidates[0]),
                    "memory and egress cost least".to_owned(),
                )
            }
            None => knee(candidates, traffic, goal),
        };
        let without = prices.and_then(|Prices { egress, .. }| {
            traffic
                .in_seconds(traffic.requested_bytes, MONTH)
                .map(|bytes| bytes * egress.per_byte)
        });
        let reason = match cost(chosen).zip(without) {
            Some((cost, without)) if cost >= without => {
                "at these prices no cache costs less than this one, which costs least of those compared".to_owned()
            }
            _ => reason,
        };
        let lru = candidates
            .iter()
            .find(|other| other.policy == "lru" && other.capacity == chosen.capacity);
        Choice {
            goal,
            chosen: chosen.clone(),
            lru: lru.filter(|_| chosen.policy != "lru").cloned(),
            reason,
            cost_per_month: cost(chosen),
            cost_without_cache: without,
        }
    }
}

/// Returns the best policy at each size, from the smallest to the largest.
pub(crate) fn best_by_size(candidates: &[Candidate], goal: Goal) -> Vec<&Candidate> {
    let mut sizes: Vec<u64> = candidates
        .iter()
        .map(|candidate| candidate.capacity)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let best = |size: &u64| {
        let here = candidates
            .iter()
            .filter(|candidate| candidate.capacity == *size);
        // Of equal ones the first, in the order of the arguments.
        here.reduce(|best, other| {
            if goal.ratio(other) > goal.ratio(best) {
                other
            } else {
                best
            }
        })
    };
    sizes.iter().filter_map(best).collect()
}

fn knee<'a>(candidates: &'a [Candidate], traffic: &Traffic, goal: Goal) -> (&'a Candidate, String) {
    let best = best_by_size(candidates, goal);
    if best.len() == 1 {
        return (best[0], "it is the only size that was compared".to_owned());
    }
    let is_worth_it = |pair: &[&Candidate]| {
        let gain = goal.ratio(pair[1]) - goal.ratio(pair[0]);
        // Sizes may be further apart than a factor of two.
        let doublings = (pair[1].capacity as f64 / pair[0].capacity as f64)
            .log2()
            .max(f64::MIN_POSITIVE);
        gain / doublings >= KNEE && gain > goal.error(pair[0]).max(goal.error(pair[1]))
    };
    let what = match goal {
        Goal::Requests => "requests",
        Goal::Bytes => "bytes",
    };
    // From here on, no doubling is worth it.
    let last = best
        .windows(2)
        .rposition(is_worth_it)
        .map_or(0, |place| place + 1);
    let chosen = best.get(last).copied().unwrap_or(&candidates[0]);
    // A capacity is a whole number, and the footprint may be an estimate.
    let holds_all = (chosen.capacity as f64 + 1.0) > traffic.footprint;
    let reason = if last + 1 == best.len() && holds_all {
        "it holds all objects, so every policy does the same there; with prices (--egress, --memory) the advice weighs what that costs"
            .to_owned()
    } else if last + 1 == best.len() {
        "it is the largest that was compared, and doubling to it saved one point or more".to_owned()
    } else {
        format!("twice the size, or more, saves less than one point of the {what}")
    };
    (chosen, reason)
}
