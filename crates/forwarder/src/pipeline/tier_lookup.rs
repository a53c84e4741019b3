//! The path of an Interest through the second tier of the Content Store (`tier.rs`).
//!
//! It becomes pending as any other, with an out-record to the Content Store instead of an upstream,
//! so that others may wait for the same, and no strategy is asked. The record that was read takes
//! the path of all Data and answers all consumers. If the read fails, returns another Data than
//! requested, or takes longer than [`TIER_PATIENCE`], the Interest goes to the strategy as if it
//! had come now: with the nonce of a waiting consumer, with the largest HopLimit of those that
//! joined, and to any next hop except a consumer that waits alone. An Interest whose application
//! has chosen its next hop goes there, during any read.
//!
//! The tier counts as a separate cache above this one: memory's policy treats its records as Data
//! from upstream.

use super::incoming_data::on_incoming_data;
use super::link_service::{Arrival, check_size};
use super::outgoing_interest::{PendingInterest, dispatch_to_strategy, rewritten};
use crate::data_plane::DataPlane;
use crate::face::FaceId;
use crate::limits::TIER_PATIENCE;
use crate::local_names::is_localhost;
use crate::outbox::Outbox;
use crate::tables::name_hash::Hashed;
use crate::tables::pit::{InRecord, OutRecord};
use crate::tier::{Read, Record, TierLookup, TierRecord};
use crate::verification::Verdict;
use bytes::Bytes;
use larder_packet::{Data, Interest, LpHeader};
use larder_units::Time;

/// Looks a pending Interest up in the tier. Returns true if it waits for the tier now, and no
/// strategy has to be asked.
pub(crate) fn tier_lookup(
    plane: &mut DataPlane,
    arrival: &Arrival<'_>,
    pending: &PendingInterest<'_>,
) -> bool {
    let Some(tier) = &mut plane.tier else {
        return false;
    };
    let PendingInterest {
        slot,
        interest,
        nonce,
        ..
    } = *pending;
    let entry = plane.pit.entry_mut(slot);
    if let Some(read) = entry
        .out_records
        .iter_mut()
        .find(|record| record.face == FaceId::CONTENT_STORE)
    {
        read.hop_limit = read
            .hop_limit
            .zip(interest.hop_limit)
            .map(|(one, other)| one.max(other));
        return arrival.next_hop.is_none();
    }
    if !entry.out_records.is_empty() {
        return false;
    }
    let (name, _) = interest.name.strip_implicit_digest();
    let hash = entry.name_hash();
    let is_asked = plane.content_store.serves && arrival.next_hop.is_none() && !is_localhost(name);
    // If memory has Data of the name that was not fresh enough or had another digest, the tier
    // has the same.
    if !is_asked || plane.content_store.exact(hash, name).is_some() {
        return false;
    }
    let ticket = tier.next_ticket;
    let tier_lookup = if tier.reads.len() < tier.most {
        tier.host.tier_lookup(name, ticket)
    } else {
        TierLookup::Busy
    };
    match tier_lookup {
        TierLookup::Absent => tier.counters.misses += 1,
        TierLookup::Busy => tier.counters.busy += 1,
        TierLookup::Reading => {
            let (now, header) = (arrival.now, arrival.header);
            let (mark, non_discovery) = (header.congestion_mark, header.non_discovery);
            let until = now + TIER_PATIENCE;
            let packet = Bytes::copy_from_slice(interest.wire);
            tier.next_ticket += 1;
            tier.reads.insert(
                ticket,
                Read {
                    packet,
                    hash,
                    nonce,
                    mark,
                    non_discovery,
                    until,
                },
            );
            entry.out_records.push(OutRecord {
                face: FaceId::CONTENT_STORE,
                nonce,
                hop_limit: interest.hop_limit,
                sent: now,
                expires: until,
                nacked: None,
                held: false,
            });
        }
    }
    tier_lookup == TierLookup::Reading
}

/// Processes the result of a [`SecondTier::tier_lookup`](crate::SecondTier::tier_lookup); `None` if
/// the read failed.
pub(crate) fn on_tier_lookup(
    plane: &mut DataPlane,
    now: Time,
    ticket: u64,
    found: Option<TierRecord>,
    out: &mut Outbox,
) {
    let Some(read) = plane
        .tier
        .as_mut()
        .and_then(|tier| tier.reads.remove(&ticket))
    else {
        return;
    };
    if answer_from_tier(plane, now, &read, found, out).is_none() {
        on_tier_miss(plane, now, &read, out);
    }
}

/// Gives up reads that are not finished in time.
pub(crate) fn give_up_reads(plane: &mut DataPlane, now: Time, out: &mut Outbox) {
    while let Some(tier) = &mut plane.tier
        && let Some(first) = tier
            .reads
            .first_entry()
            .filter(|first| first.get().until <= now)
    {
        let read = first.remove();
        tier.counters.late += 1;
        on_tier_miss(plane, now, &read, out);
    }
}

/// `None` if the record is no answer.
fn answer_from_tier(
    plane: &mut DataPlane,
    now: Time,
    read: &Read,
    found: Option<TierRecord>,
    out: &mut Outbox,
) -> Option<()> {
    let unix_millis = plane.unix_millis(now);
    let interest = Interest::decode(&read.packet).ok()?;
    let (name, digest) = interest.name.strip_implicit_digest();
    let tier = plane.tier.as_mut()?;
    let still_there = |found: &TierRecord| tier.host.holds(name, found.position);
    let record = found
        .filter(still_there)
        .and_then(|found| Record::decode(&found.record));
    let data = record
        .as_ref()
        .and_then(|record| Data::decode(&record.wire).ok())
        .filter(|data| data.name == name);
    let (Some(record), Some(mut data)) = (record.as_ref(), data) else {
        tier.counters.failed += 1;
        return None;
    };
    data.freshness = record.fresh_for(unix_millis);
    // The rules may be newer than the record: Data that would no longer be stored is not served
    // from there.
    let mut is_trusted = || match &mut plane.verification {
        None => true,
        Some(rules) => rules.judge(now, unix_millis / 1000, &data) == Verdict::Trusted,
    };
    let fits = (!interest.must_be_fresh || data.freshness.is_some())
        && digest.is_none_or(|digest| data.implicit_digest() == digest)
        && check_size(data.wire, plane.max_packet_bytes).is_ok()
        && plane.content_store.serves
        && is_trusted();
    if !fits {
        tier.counters.unfit += 1;
        return None;
    }
    let arrival = Arrival {
        face: FaceId::CONTENT_STORE,
        ..Arrival::internal(now, &LpHeader::EMPTY, record.wire.clone())
    };
    // If no consumer waits any more, another read may have answered them.
    let is_answer = on_incoming_data(plane, &arrival, &data, read.hash, out).is_ok();
    if let Some(figures) = plane.figures_by_prefix.as_mut().filter(|_| is_answer) {
        figures.note_tier_hit(&plane.hasher, interest.name);
    }
    let counters = &mut plane.tier.as_mut()?.counters;
    *(if is_answer {
        &mut counters.hits
    } else {
        &mut counters.late
    }) += 1;
    Some(())
}

/// The tier does not answer: if a consumer still waits, the Interest takes the path without it.
fn on_tier_miss(plane: &mut DataPlane, now: Time, read: &Read, out: &mut Outbox) {
    let Ok(interest) = Interest::decode(&read.packet) else {
        debug_assert!(false, "the tier kept bytes that are no Interest");
        return;
    };
    let Some(slot) = plane.pit.find(read.hash, &interest) else {
        return;
    };
    let entry = plane.pit.entry_mut(slot);
    // It may be another Interest for the same name, which came after the first was over.
    let of_read =
        |record: &OutRecord| record.face == FaceId::CONTENT_STORE && record.nonce == read.nonce;
    let Some(at) = entry.out_records.iter().position(of_read) else {
        return;
    };
    let hop_limit = entry.out_records.remove(at).hop_limit;
    // A removed face waits for nothing.
    let is_there = |record: &&InRecord| {
        !record.expires.has_passed(now) && plane.faces.get(record.face).is_some()
    };
    let mut waiting = entry.in_records.iter().filter(is_there);
    let Some(InRecord { face, nonce, .. }) = waiting.next() else {
        return;
    };
    // If several consumers wait, the Interest may go to one of them.
    let face = waiting.next().map_or(*face, |_| FaceId::CONTENT_STORE);
    let packet = Bytes::from(rewritten(&interest, *nonce, hop_limit));
    let Ok(interest) = Interest::decode(&packet) else {
        debug_assert!(false, "an Interest with another nonce is none");
        return;
    };
    let (nonce, lifetime) = (*nonce, entry.last_expiry().since(now));
    let header = LpHeader {
        congestion_mark: read.mark,
        non_discovery: read.non_discovery,
        ..LpHeader::EMPTY
    };
    let arrival = Arrival {
        face,
        ..Arrival::internal(now, &header, packet.clone())
    };
    let pending = PendingInterest {
        slot,
        interest: &interest,
        hashed: Hashed::default(),
        routes: None,
        nonce,
        lifetime,
    };
    dispatch_to_strategy(plane, &arrival, &pending, out, |strategy, decision| {
        strategy.on_interest(decision)
    });
}
