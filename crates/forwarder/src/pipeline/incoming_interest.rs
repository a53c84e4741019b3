//! The path of an Interest: checks whether it may pass, whether the name is already pending, and
//! whether the Content Store answers; otherwise it becomes pending.
//!
//! The steps are functions of their own, because the Interests of a batch pass each step together
//! (`receive/batch.rs`).

use super::content_store_hit::on_content_store_hit;
use super::interest_finalize::on_interest_finalize;
use super::link_service::{Arrival, check_size, received_hop_limit};
use super::outgoing_interest::{PendingInterest, dispatch_to_strategy, on_outgoing_nack};
use super::tier_lookup::tier_lookup;
use crate::data_plane::DataPlane;
use crate::drop_reason::{DropReason, Dropped};
use crate::face::FaceId;
use crate::limits;
use crate::local_names::is_localhost;
use crate::outbox::Outbox;
use crate::tables::name_hash::Hashed;
use crate::tables::pit::{InRecord, PitEntry};
use bytes::Bytes;
use larder_packet::{Interest, NackReason, PitToken, with_nonce, without_forwarding_hint};
use larder_policy::Slot;
use larder_units::Time;
use std::time::Duration;

/// Processes an Interest. `hash` is of its name ([`DataPlane::hash_of`]); `hashed` are the name's
/// prefixes.
pub(crate) fn on_incoming_interest(
    plane: &mut DataPlane,
    arrival: &Arrival<'_>,
    interest: &Interest<'_>,
    hash: u64,
    hashed: Hashed<'_>,
    out: &mut Outbox,
) -> Result<(), Dropped> {
    if is_incomplete(plane, interest) {
        let packet = completed(plane, interest)?;
        let interest = Interest::decode(&packet)?;
        let arrival = arrival.made(packet.clone());
        return on_incoming_interest(plane, &arrival, &interest, hash, hashed, out);
    }
    check_interest(arrival, interest)?;
    let pending = match find_pit_entry(plane, arrival, interest, hash) {
        Ok(pending) => pending,
        Err(dropped) => return drop_interest(arrival, interest, dropped, out),
    };
    let Arrival {
        now, face, header, ..
    } = *arrival;
    if let Some(stored) = look_up_content_store(plane, now, interest, hash, pending) {
        on_content_store_hit(plane, arrival, stored, out);
        return Ok(());
    }
    let (slot, lifetime) =
        insert_in_record(plane, now, face, interest, hash, pending, header.pit_token)?;
    if let Some(paths) = plane.paths.as_mut().filter(|_| pending.is_none()) {
        paths.remember(slot, header.path);
    }
    on_content_store_miss(
        plane,
        arrival,
        &PendingInterest {
            slot,
            interest,
            hashed,
            routes: None,
            nonce: interest.nonce.unwrap_or_default(),
            lifetime,
        },
        out,
    );
    Ok(())
}

/// Returns true for an Interest without a nonce, and for one whose forwarding hint ends here. It
/// goes on as [`completed`] says.
#[inline]
pub(crate) fn is_incomplete(plane: &DataPlane, interest: &Interest<'_>) -> bool {
    interest.nonce.is_none() || plane.is_in_producer_region(interest)
}

/// Returns the packet that takes the place of an incomplete Interest.
#[cold]
pub(crate) fn completed(plane: &mut DataPlane, interest: &Interest<'_>) -> Result<Bytes, Dropped> {
    if interest.nonce.is_some() {
        return Ok(without_forwarding_hint(interest.wire).into());
    }
    // Applications may leave the nonce to the forwarder (packet specification 0.3, "Nonce").
    let packet = Bytes::from(with_nonce(interest.wire, plane.nonces.bits() as u32));
    check_size(&packet, plane.max_packet_bytes)?;
    Ok(packet)
}

/// Checks that an Interest may pass.
#[inline]
pub(crate) fn check_interest(
    arrival: &Arrival<'_>,
    interest: &Interest<'_>,
) -> Result<(), Dropped> {
    let name = interest.name;
    if !arrival.local && is_localhost(name) {
        return Err(Dropped::new(DropReason::Scope));
    }
    if interest.check_parameters_digest().is_err() {
        return Err(Dropped::new(DropReason::ParametersDigest));
    }
    if interest.can_be_prefix && name.component_count() > limits::CAN_BE_PREFIX_COMPONENTS {
        return Err(Dropped::new(DropReason::NameTooDeep));
    }
    Ok(())
}

/// Returns the PIT entry of the name, if there is one.
///
/// # Errors
/// The Interest is in a loop. See [`drop_interest`].
#[inline]
pub(crate) fn find_pit_entry(
    plane: &mut DataPlane,
    arrival: &Arrival<'_>,
    interest: &Interest<'_>,
    hash: u64,
) -> Result<Option<u32>, Dropped> {
    let pending = plane.pit.find(hash, interest);
    let peer = arrival.point_to_point.then_some(arrival.face);
    if is_duplicate(
        plane,
        arrival.now,
        hash,
        interest.nonce.unwrap_or_default(),
        peer,
        pending,
    ) {
        Err(Dropped::new(DropReason::DuplicateNonce))
    } else {
        Ok(pending)
    }
}

/// Ends the path of an Interest that may not pass, which is in a loop or has another fault.
#[cold]
pub(crate) fn drop_interest(
    arrival: &Arrival<'_>,
    interest: &Interest<'_>,
    dropped: Dropped,
    out: &mut Outbox,
) -> Result<(), Dropped> {
    if dropped.reason == DropReason::DuplicateNonce {
        on_interest_loop(arrival, interest, out);
    }
    Err(dropped)
}

/// Answers an Interest whose nonce another one had with a Nack.
fn on_interest_loop(arrival: &Arrival<'_>, interest: &Interest<'_>, out: &mut Outbox) {
    on_outgoing_nack(arrival, interest, NackReason::Duplicate, out);
}

/// Returns the slot of the Data in the Content Store that answers the Interest, unless others
/// wait for the same; the policy counts the request in any case.
#[inline]
pub(crate) fn look_up_content_store(
    plane: &mut DataPlane,
    now: Time,
    interest: &Interest<'_>,
    hash: u64,
    pending: Option<u32>,
) -> Option<Slot> {
    if pending.is_some_and(|slot| is_waiting(now, plane.pit.entry(slot))) {
        plane.content_store.engine_mut().miss(hash, now);
        return None;
    }
    let found = plane.content_store.look_up(now, hash, interest);
    if let Some(figures) = &mut plane.figures_by_prefix {
        figures.note(&plane.hasher, interest.name, found.is_some());
    }
    found
}

/// Inserts the in-record of a consumer into its PIT entry, a new one if none is `pending`.
/// Returns the entry and how long the Interest may wait.
#[inline]
pub(crate) fn insert_in_record(
    plane: &mut DataPlane,
    now: Time,
    face: FaceId,
    interest: &Interest<'_>,
    hash: u64,
    pending: Option<u32>,
    token: Option<PitToken>,
) -> Result<(u32, Duration), Dropped> {
    let slot = match pending {
        Some(slot) => slot,
        None => {
            make_room_in_pit(plane, now, face, interest);
            plane
                .pit
                .insert(face, hash, interest)
                .ok_or(Dropped::new(DropReason::PitFull))?
        }
    };
    let lifetime = interest
        .lifetime_or_default()
        .min(limits::INTEREST_LIFETIME);
    let (nonce, hop_limit) = (
        interest.nonce.unwrap_or_default(),
        received_hop_limit(interest),
    );
    let record = InRecord {
        face,
        nonce,
        hop_limit,
        expires: now + lifetime,
        token,
        repeated: false,
    };
    set_in_record(plane, slot, record)?;
    Ok((slot, lifetime))
}

/// Passes a pending Interest to the second tier, or to the strategy of its name.
#[inline]
pub(crate) fn on_content_store_miss(
    plane: &mut DataPlane,
    arrival: &Arrival<'_>,
    pending: &PendingInterest<'_>,
    out: &mut Outbox,
) {
    if plane.tier.is_some() && tier_lookup(plane, arrival, pending) {
        return;
    }
    match arrival.next_hop {
        // The application has chosen: no strategy is asked (NDNLPv2, "Consumer Controlled
        // Forwarding").
        Some(chosen) => dispatch_to_strategy(plane, arrival, pending, out, |_, decision| {
            decision.send_to_chosen(chosen)
        }),
        None => dispatch_to_strategy(plane, arrival, pending, out, |strategy, decision| {
            strategy.on_interest(decision)
        }),
    }
}

/// Makes room in a full PIT: the face that holds the most entries loses one.
fn make_room_in_pit(plane: &mut DataPlane, now: Time, face: FaceId, interest: &Interest<'_>) {
    let mut shared = 0;
    while plane.pit.is_full_for(interest) && shared < limits::SHARED_ENTRIES_TO_MAKE_ROOM {
        let Some((from, slot)) = plane.pit.take_from(face) else {
            return;
        };
        plane.count_drop(from, DropReason::PitFull);
        plane.unsatisfied += 1;
        match slot {
            Some(slot) => on_interest_finalize(plane, now, slot),
            None => shared += 1,
        }
    }
}

/// Returns true if another Interest, pending or dead, had the same nonce: the Interest is in a
/// loop. `peer` is the face that it comes from, if that face has only one peer.
pub(crate) fn is_duplicate(
    plane: &mut DataPlane,
    now: Time,
    hash: u64,
    nonce: u32,
    peer: Option<FaceId>,
    pending: Option<u32>,
) -> bool {
    if plane.dead_nonces.contains(now, hash, nonce) {
        return true;
    }
    let Some(slot) = pending else { return false };
    let entry = plane.pit.entry(slot);
    // From the same peer it is a retransmission (NFD, "DUPLICATE_NONCE_IN_SAME"); on a link
    // with several peers, another node has relayed it.
    let repeated = entry
        .in_records
        .iter()
        .any(|record| record.nonce == nonce && peer == Some(record.face));
    let carried = entry.in_records.iter().map(|record| record.nonce);
    !repeated
        && carried
            .chain(entry.out_records.iter().map(|record| record.nonce))
            .any(|carried| carried == nonce)
}

fn set_in_record(plane: &mut DataPlane, slot: u32, record: InRecord) -> Result<(), Dropped> {
    let entry = plane.pit.entry_mut(slot);
    match entry
        .in_records
        .iter()
        .position(|old| old.face == record.face)
    {
        Some(known) => {
            entry.in_records[known] = InRecord {
                repeated: true,
                ..record
            }
        }
        None if entry.in_records.len() < limits::RECORDS_PER_ENTRY => entry.in_records.push(record),
        None => return Err(Dropped::new(DropReason::PitFull)),
    }
    let last = plane.pit.entry(slot).last_expiry();
    plane.pit.set_timer(slot, last);
    Ok(())
}

pub(crate) fn is_waiting(now: Time, entry: &PitEntry) -> bool {
    entry
        .in_records
        .iter()
        .any(|record| !record.expires.has_passed(now))
}
