//! random: one of the next hops by lot (NFD's random version 1). Costs do not count. A Nack, or a
//! repetition that is not suppressed, draws among those that have not been tried.

use super::suppression::Suppression;
use super::{Decision, Strategy, StrategyEntry};
use crate::face::FaceId;
use larder_units::Stream;

pub(super) const ENTRY: StrategyEntry = StrategyEntry {
    name: "random",
    version: 1,
    summary: "draws one of the next hops, whatever they cost",
    parameters: &[],
    build: |parameters, chance| {
        Ok(Box::new(Random {
            suppression: Suppression::new(parameters)?,
            chance,
        }))
    },
};

struct Random {
    suppression: Suppression,
    chance: Stream,
}

impl Random {
    /// One of the next hops that have not been tried, else, with `again`, of all.
    fn draw(&mut self, decision: &Decision<'_>, again: bool) -> Option<FaceId> {
        let untried = decision
            .next_hops()
            .filter(|hop| decision.tried(hop.face).is_none());
        let mut hops: Vec<FaceId> = untried.map(|hop| hop.face).collect();
        if hops.is_empty() && again {
            hops.extend(decision.next_hops().map(|hop| hop.face));
        }
        let at = self.chance.below((hops.len() as u64).max(1));
        hops.get(at as usize).copied()
    }
}

impl Strategy for Random {
    fn on_interest(&mut self, decision: &mut Decision<'_>) {
        if self.suppression.suppresses(decision) {
            return;
        }
        match self.draw(decision, true) {
            Some(face) => decision.send(face),
            None => decision.refuse_if_all_refused(),
        }
    }

    fn on_nack(&mut self, decision: &mut Decision<'_>) {
        match self.draw(decision, false) {
            Some(face) => decision.send(face),
            None => decision.refuse_if_all_refused(),
        }
    }
}
