//! best-route: the cheapest next hop first; a repetition tries the next one.
//!
//! As NFD's best-route version 5: a new Interest goes to the cheapest next hop; a repetition that
//! is not suppressed goes to the cheapest one that has not been tried, else to the one that was
//! tried longest ago. Beyond it, a Nack is answered by trying another next hop at once; the refusal
//! goes downstream when none is left.

use super::suppression::Suppression;
use super::{Decision, Strategy, StrategyEntry};

pub(super) const ENTRY: StrategyEntry = StrategyEntry {
    name: "best-route",
    version: 5,
    summary: "sends an Interest to the cheapest next hop, and a repetition of it to the next one",
    parameters: &[],
    build: |parameters, _| {
        Ok(Box::new(BestRoute {
            suppression: Suppression::new(parameters)?,
        }))
    },
};

struct BestRoute {
    suppression: Suppression,
}

impl Strategy for BestRoute {
    fn on_interest(&mut self, decision: &mut Decision<'_>) {
        if self.suppression.suppresses(decision) {
            return;
        }
        let untried = decision
            .next_hops()
            .find(|hop| decision.tried(hop.face).is_none());
        let hop = untried.or_else(|| {
            decision
                .next_hops()
                .min_by_key(|hop| decision.tried(hop.face).map(|out| out.sent))
        });
        match hop {
            Some(hop) => decision.send(hop.face),
            None => decision.refuse_if_all_refused(),
        }
    }

    fn on_nack(&mut self, decision: &mut Decision<'_>) {
        let untried = decision
            .next_hops()
            .find(|hop| decision.tried(hop.face).is_none());
        match untried {
            Some(hop) => decision.send(hop.face),
            None => decision.refuse_if_all_refused(),
        }
    }
}
