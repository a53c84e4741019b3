//! multicast: every next hop at once; a repetition asks again those whose suppression time is over (NFD's multicast version 4, with the
//! suppression an Interest rather than an upstream).

use super::{Decision, Strategy, StrategyEntry};
use larder_packet::NackReason;

pub(super) const ENTRY: StrategyEntry =
    StrategyEntry { name: "multicast", uri: "/localhost/nfd/strategy/multicast/v=4", strategy: &Multicast };

struct Multicast;

impl Strategy for Multicast {
    fn on_interest(&self, decision: &mut Decision<'_>) {
        if decision.suppressed() {
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

    fn on_nack(&self, decision: &mut Decision<'_>) {
        decision.refuse_if_all_refused();
    }
}
