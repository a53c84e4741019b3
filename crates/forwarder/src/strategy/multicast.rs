//! multicast: sends an Interest to every next hop. A repetition goes again to those next hops whose
//! suppression time is over (NFD's multicast version 5, with one suppression interval per Interest
//! rather than per upstream). A next hop that did not get the first Interest gets the repetition at
//! once: neighbours that synchronise send each other the same Interest at the same time, and each
//! is a next hop for the Interests of the others and of the applications here.

use super::suppression::Suppression;
use super::{Decision, Strategy, StrategyEntry};

pub(super) const ENTRY: StrategyEntry = StrategyEntry {
    name: "multicast",
    version: 5,
    summary: "sends an Interest to every next hop",
    parameters: &[],
    build: |parameters, _| {
        Ok(Box::new(Multicast {
            suppression: Suppression::new(parameters)?,
        }))
    },
};

struct Multicast {
    suppression: Suppression,
}

impl Strategy for Multicast {
    fn on_interest(&mut self, decision: &mut Decision<'_>) {
        let waits = self.suppression.suppresses(decision);
        let now = decision.now();
        let may_answer = |face| {
            decision
                .tried(face)
                .is_some_and(|out| !out.expires.has_passed(now))
        };
        let hops = decision
            .next_hops()
            .map(|hop| hop.face)
            .filter(|face| !waits || !may_answer(*face));
        let hops: Vec<_> = hops.collect();
        if hops.is_empty() && !waits {
            decision.refuse_if_all_refused();
        }
        for face in hops {
            decision.send(face);
        }
    }

    fn on_nack(&mut self, decision: &mut Decision<'_>) {
        decision.refuse_if_all_refused();
    }
}
