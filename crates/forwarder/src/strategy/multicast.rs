//! multicast: every next hop at once; a repetition asks again those whose suppression time is over (NFD's multicast version 4, with the
//! suppression an Interest rather than an upstream).

use super::suppression::Suppression;
use super::{Decision, Strategy, StrategyEntry};
use larder_packet::NackReason;

pub(super) const ENTRY: StrategyEntry = StrategyEntry {
    name: "multicast",
    version: 4,
    build: |parameters, _| Ok(Box::new(Multicast { suppression: Suppression::new(parameters)? })),
};

struct Multicast {
    suppression: Suppression,
}

impl Strategy for Multicast {
    fn on_interest(&mut self, decision: &mut Decision<'_>) {
        if self.suppression.suppresses(decision) {
            return;
        }
        let hops: Vec<_> = decision.next_hops().map(|hop| hop.face).collect();
        if hops.is_empty() {
            decision.refuse(NackReason::NoRoute);
        }
        for face in hops {
            decision.send(face);
        }
    }

    fn on_nack(&mut self, decision: &mut Decision<'_>) {
        decision.refuse_if_all_refused();
    }
}
