//! Incoming Data: finds the pending Interests, decides whether to store the Data, and passes it to
//! the consumers (`outgoing_data.rs`).

use super::interest_finalize::on_interest_finalize;
use super::link_service::Arrival;
use super::outgoing_data::on_outgoing_data;
use crate::data_plane::DataPlane;
use crate::drop_reason::{DropReason, Dropped};
use crate::face::FaceId;
use crate::local_names::is_localhost;
use crate::outbox::Outbox;
use crate::tables::paths::Place;
use crate::tier::Record;
use crate::verification::Verdict;
use larder_packet::Data;
use larder_units::Time;

/// Processes Data. `hash` is of its name.
pub(crate) fn on_incoming_data(
    plane: &mut DataPlane,
    arrival: &Arrival<'_>,
    data: &Data<'_>,
    hash: u64,
    out: &mut Outbox,
) -> Result<(), Dropped> {
    let mut found = std::mem::take(&mut plane.scratch.found);
    found.clear();
    let waiting = find_pit_matches(plane, arrival, data, hash, &mut found);
    if waiting.is_ok() {
        let first_found = found.first().copied();
        let place = plane
            .paths
            .as_ref()
            .and_then(|paths| Some(paths.of_data(arrival.header.path, first_found?)));
        insert_content_store(plane, arrival, data, hash, &found, place.as_ref());
        let first = out.sends.len();
        for slot in &found {
            on_outgoing_data(plane, arrival, data, *slot, place.as_ref(), first, out);
            on_interest_finalize(plane, arrival.now, *slot);
        }
    }
    plane.scratch.found = found;
    waiting
}

/// Appends the pending Interests that the Data answers to `found`.
///
/// # Errors
/// There are none, or the Data may not be here. `found` is undefined then.
#[inline]
pub(crate) fn find_pit_matches(
    plane: &mut DataPlane,
    arrival: &Arrival<'_>,
    data: &Data<'_>,
    hash: u64,
    found: &mut Vec<u32>,
) -> Result<(), Dropped> {
    if !arrival.local && is_localhost(data.name) {
        return Err(Dropped::new(DropReason::Scope));
    }
    let from = found.len();
    plane.pit.matches(
        &plane.hasher,
        hash,
        data,
        &mut plane.scratch.prefixes,
        found,
    );
    // Only an upstream that was asked may answer. The answer is then for all consumers of this
    // name.
    let asked_here = |slot: &u32| {
        plane
            .pit
            .entry(*slot)
            .out_records
            .iter()
            .any(|record| record.face == arrival.face)
    };
    if !found[from..].iter().any(asked_here) {
        return Err(on_data_unsolicited());
    }
    if arrival.face == FaceId::CONTENT_STORE && data.freshness.is_none() {
        // Another consumer may have asked upstream for the same Data, but fresh.
        let mut at = 0;
        found.retain(|slot| {
            at += 1;
            at <= from || !plane.pit.entry(*slot).must_be_fresh()
        });
    }
    Ok(())
}

/// Stores Data that answers the Interests `found`, if it may be stored and the policy wants it.
#[inline]
pub(crate) fn insert_content_store(
    plane: &mut DataPlane,
    arrival: &Arrival<'_>,
    data: &Data<'_>,
    hash: u64,
    found: &[u32],
    place: Option<&Place>,
) {
    if arrival.header.no_cache || is_localhost(data.name) {
        return;
    }
    let now = arrival.now;
    let from_tier = arrival.face == FaceId::CONTENT_STORE;
    let path = place.map(|place| &place.path);
    let (rules, started) = (&mut plane.verification, plane.started);
    let mut judge = || match rules {
        None => Verdict::Trusted,
        Some(rules) => rules.judge(now, (started + now.since(Time::ZERO)).as_secs(), data),
    };
    let verdict = match &mut plane.tier {
        Some(tier) if !from_tier && plane.content_store.admits => {
            let verdict = judge();
            if verdict == Verdict::Trusted {
                let unix_millis = (started + now.since(Time::ZERO)).as_millis() as u64;
                tier.host.put(data.name, Record::encode(data, unix_millis));
            }
            Some(verdict)
        }
        // It was verified before it became the answer.
        _ => from_tier.then_some(Verdict::Trusted),
    };
    let judge = || verdict.unwrap_or_else(judge);
    let pit = &plane.pit;
    let must_be_fresh = found.iter().all(|slot| pit.entry(*slot).must_be_fresh());
    plane
        .content_store
        .observe_fetched(now, hash, data, must_be_fresh);
    let asked = found.iter().map(|slot| pit.entry(*slot).name_hash());
    plane
        .content_store
        .insert(now, hash, data, asked, path, judge);
}

/// Drops Data that no consumer waits for, or that comes from a face that was not asked. It is not
/// stored: NFD calls this policy `drop-all`.
#[cold]
fn on_data_unsolicited() -> Dropped {
    Dropped::new(DropReason::Unsolicited)
}
