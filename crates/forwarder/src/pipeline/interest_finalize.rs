//! The end of a pending Interest, with Data or without: its strategy measures the result, and its
//! entry leaves the PIT.

use crate::data_plane::DataPlane;
use crate::face::FaceId;
use crate::strategy::Strategy;
use crate::tables::pit::PitEntry;
use larder_units::Time;

/// Ends the pending Interests whose time is over.
pub(crate) fn expire_interests(plane: &mut DataPlane, now: Time) {
    let mut due = std::mem::take(&mut plane.scratch.found);
    due.clear();
    plane.pit.expire(now, &mut due);
    for slot in due.drain(..) {
        let entry = plane.pit.entry_mut(slot);
        plane.unsatisfied += entry.in_records.len() as u64;
        if entry.waits_for_tier() {
            entry
                .out_records
                .retain(|record| record.face != FaceId::CONTENT_STORE);
        }
        measure(plane, slot, |strategy, entry| {
            strategy.on_expiry(now, entry)
        });
        on_interest_finalize(plane, now, slot);
    }
    plane.scratch.found = due;
}

/// Informs the strategy of a pending Interest about its result, if it measures, and returns its
/// answer.
pub(crate) fn measure<R>(
    plane: &mut DataPlane,
    slot: u32,
    tell: impl FnOnce(&mut dyn Strategy, &PitEntry) -> R,
) -> Option<R> {
    if !plane.strategies.any_measures() {
        return None;
    }
    let entry = plane.pit.entry(slot);
    let name = entry.name();
    let prefixes = &mut plane.scratch.prefixes;
    plane
        .hasher
        .prefixes(name, plane.strategies.lengths(), prefixes);
    let instance = plane.strategies.longest_match_mut(name, prefixes)?;
    Some(tell(&mut *instance.strategy, entry))
}

/// Removes a pending Interest, and inserts the nonces that it sent into the dead nonce list.
pub(crate) fn on_interest_finalize(plane: &mut DataPlane, now: Time, slot: u32) {
    let entry = plane.pit.entry(slot);
    // A request to the second tier left no node, and cannot come back.
    for record in entry
        .out_records
        .iter()
        .filter(|record| record.face != FaceId::CONTENT_STORE)
    {
        plane
            .dead_nonces
            .insert(now, entry.name_hash(), record.nonce);
    }
    plane.pit.remove(slot);
}
