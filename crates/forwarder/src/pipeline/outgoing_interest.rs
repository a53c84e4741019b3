//! Selects the next hops of a pending Interest: asks the FIB and the strategy of its name, and
//! carries out the decision. Also handles Nacks in both directions.

use super::interest_finalize::on_interest_finalize;
use super::link_service::{Arrival, received_hop_limit};
use crate::data_plane::{DataPlane, Scratch};
use crate::drop_reason::{DropReason, Dropped};
use crate::face::FaceId;
use crate::local_names::{is_localhop, is_localhost};
use crate::outbox::{Body, Outbox};
use crate::strategy::{Decision, HeldInterest, Instance, Strategy};
use crate::tables::fib::{Fib, NextHopSet};
use crate::tables::name_hash::{Hashed, NameHasher, Prefix};
use crate::tables::pit::{InRecord, Pit, PitEntry};
use bytes::Bytes;
use larder_packet::tlv::{Tlv, write_header, write_tlv};
use larder_packet::{Interest, NackReason, types};
use larder_units::Time;
use std::time::Duration;

/// The pending Interest of a decision.
#[derive(Clone, Copy)]
pub(crate) struct PendingInterest<'a> {
    pub(crate) slot: u32,
    pub(crate) interest: &'a Interest<'a>,
    /// The prefixes of its name.
    pub(crate) hashed: Hashed<'a>,
    /// Its next hops, if they were looked up already.
    pub(crate) routes: Option<Routes>,
    /// The nonce of the upstream Interest.
    pub(crate) nonce: u32,
    /// The time for an answer.
    pub(crate) lifetime: Duration,
}

/// The next hops of a name: valid until the FIB changes.
#[derive(Clone, Copy)]
pub(crate) struct Routes {
    /// The hash of their prefix.
    namespace: u64,
    next_hops: Option<NextHopSet>,
}

/// Looks up the next hops of an Interest whose prefixes are known.
#[inline]
pub(crate) fn look_up_fib(
    plane: &mut DataPlane,
    interest: &Interest<'_>,
    hashed: Hashed<'_>,
) -> Option<Routes> {
    let prefixes = hashed.of(plane.prefix_lengths())?;
    Some(routes(
        &plane.hasher,
        &plane.fib,
        interest,
        prefixes,
        &mut plane.scratch.hinted,
    ))
}

/// Asks the strategy of the name, and carries out its decision.
pub(crate) fn dispatch_to_strategy(
    plane: &mut DataPlane,
    arrival: &Arrival<'_>,
    pending: &PendingInterest<'_>,
    out: &mut Outbox,
    ask: impl FnOnce(&mut dyn Strategy, &mut Decision<'_>),
) {
    let PendingInterest {
        slot,
        interest,
        hashed,
        routes: known,
        nonce,
        lifetime,
    } = *pending;
    let lengths = plane.prefix_lengths();
    let Scratch {
        prefixes,
        hinted,
        send_to,
        ..
    } = &mut plane.scratch;
    send_to.clear();
    let prefixes = match hashed.of(lengths) {
        Some(prefixes) => prefixes,
        None => {
            plane.hasher.prefixes(interest.name, lengths, prefixes);
            prefixes
        }
    };
    let Some(instance) = plane.strategies.longest_match_mut(interest.name, prefixes) else {
        debug_assert!(false, "the root has no strategy");
        return;
    };
    let Routes {
        namespace,
        next_hops,
    } = known.unwrap_or_else(|| routes(&plane.hasher, &plane.fib, interest, prefixes, hinted));
    let next_hops = next_hops.map_or(&[][..], |set| plane.fib.next_hops(set));
    let faces = &plane.faces;
    let is_local = |record: &InRecord| faces.get(record.face).is_some_and(|face| face.is_local());
    let entry = plane.pit.entry_mut(slot);
    entry.namespace = namespace;
    let stays_here = is_localhost(interest.name)
        || (is_localhop(interest.name) && !entry.in_records.iter().any(is_local));
    let mut refused = None;
    let mut decision = Decision {
        now: arrival.now,
        from: arrival.face,
        packet: interest.wire,
        mark: arrival.header.congestion_mark,
        non_discovery: arrival.header.non_discovery,
        entry,
        next_hops,
        faces,
        nonce,
        hop_limit: interest.hop_limit,
        lifetime,
        // HopLimit 0 after the decrement: the Interest may only reach applications on this
        // node.
        local_only: interest.hop_limit == Some(0) || stays_here,
        send_to,
        refused: &mut refused,
    };
    ask(&mut *instance.strategy, &mut decision);
    for number in 0..plane.scratch.send_to.len() {
        let (face, nonce) = plane.scratch.send_to[number];
        on_outgoing_interest(plane, arrival, pending, face, nonce, out);
    }
    if let Some(reason) = refused {
        reject_pending_interest(plane, arrival, pending, reason, out);
    }
}

/// Sends a pending Interest to an upstream, with this nonce if the strategy has chosen another.
// A call of its own costs 17 instructions for each Interest that is forwarded.
#[inline(always)]
fn on_outgoing_interest(
    plane: &DataPlane,
    arrival: &Arrival<'_>,
    pending: &PendingInterest<'_>,
    face: FaceId,
    nonce: Option<u32>,
    out: &mut Outbox,
) {
    let PendingInterest { slot, interest, .. } = *pending;
    let body = match nonce {
        None => arrival.source.body(),
        Some(nonce) => Body::Stored(rewritten(interest, nonce, interest.hop_limit).into()),
    };
    let header = out.push(face, body);
    header.congestion_mark = arrival.header.congestion_mark;
    header.non_discovery = arrival.header.non_discovery;
    if plane.faces.local_fields(face) {
        let downstream = downstream_of(plane.pit.entry(slot), pending.nonce, arrival.face);
        header.incoming_face = Some(downstream.0);
    }
    if let Some(paths) = &plane.paths {
        header.path = plane.path_to(face, Some(paths.of_interest(slot)));
    }
}

/// Releases Interests that strategies have held back until now.
pub(crate) fn release_held_interests(plane: &mut DataPlane, now: Time, out: &mut Outbox) {
    if !plane.strategies.any_holds() {
        return;
    }
    let (pit, faces, paths, hasher) = (&mut plane.pit, &plane.faces, &plane.paths, &plane.hasher);
    let mut send = |held: HeldInterest| {
        let Some(upstream) = faces.get(held.to) else {
            return false;
        };
        let Some((slot, entry)) = entry_of(pit, hasher, &held) else {
            return false;
        };
        // A removed face waits for nothing.
        if !entry
            .in_records
            .iter()
            .any(|record| !record.expires.has_passed(now) && faces.get(record.face).is_some())
        {
            entry.out_records.retain(|record| record.face != held.to);
            return false;
        }
        let HeldInterest {
            packet,
            from,
            to,
            mark,
            non_discovery,
        } = held;
        let Some(record) = entry
            .out_records
            .iter_mut()
            .find(|record| record.face == to)
        else {
            return false;
        };
        (record.held, record.sent) = (false, now);
        let nonce = record.nonce;
        let header = out.push(to, Body::Stored(packet));
        (header.congestion_mark, header.non_discovery) = (mark, non_discovery);
        header.path = paths
            .as_ref()
            .filter(|_| !upstream.is_local())
            .map(|paths| paths.of_interest(slot));
        header.incoming_face = faces
            .local_fields(to)
            .then(|| downstream_of(entry, nonce, from).0);
        true
    };
    for strategy in plane.strategies.strategies_mut() {
        strategy.release(now, &mut send);
    }
}

/// Forgets the Interests that a removed strategy held back. They were not sent; a
/// retransmission sends them.
pub(crate) fn forget_held_interests(plane: &mut DataPlane, strategy: Option<Instance>) {
    let (pit, hasher) = (&mut plane.pit, &plane.hasher);
    let mut forget = |held: HeldInterest| {
        if let Some((_, entry)) = entry_of(pit, hasher, &held) {
            entry
                .out_records
                .retain(|record| !(record.face == held.to && record.held));
        }
        false
    };
    if let Some(mut instance) = strategy {
        instance.strategy.release(Time::MAX, &mut forget);
    }
}

/// Sends every consumer of the entry a Nack with the Interest that it sent, and removes the
/// entry.
fn reject_pending_interest(
    plane: &mut DataPlane,
    arrival: &Arrival<'_>,
    pending: &PendingInterest<'_>,
    reason: NackReason,
    out: &mut Outbox,
) {
    let PendingInterest { slot, interest, .. } = *pending;
    let entry = plane.pit.entry(slot);
    if reason == NackReason::NoRoute && entry.out_records.is_empty() {
        plane.drops.count(DropReason::NoRoute);
    }
    for consumer in entry
        .in_records
        .iter()
        .filter(|consumer| !consumer.expires.has_passed(arrival.now))
    {
        if !plane
            .faces
            .get(consumer.face)
            .is_some_and(|face| face.config.is_point_to_point())
        {
            continue;
        }
        let is_unchanged =
            interest.nonce == Some(consumer.nonce) && interest.hop_limit == consumer.hop_limit;
        let body = if is_unchanged {
            arrival.source.body()
        } else {
            Body::Stored(rewritten(interest, consumer.nonce, consumer.hop_limit).into())
        };
        let header = out.push(consumer.face, body);
        (header.pit_token, header.nack) = (consumer.token, Some(reason));
    }
    plane.unsatisfied += entry.in_records.len() as u64;
    on_interest_finalize(plane, arrival.now, slot);
}

/// Sends a Nack for the Interest that has just come.
pub(crate) fn on_outgoing_nack(
    arrival: &Arrival<'_>,
    interest: &Interest<'_>,
    reason: NackReason,
    out: &mut Outbox,
) {
    if !arrival.point_to_point {
        return;
    }
    let body = match received_hop_limit(interest) {
        None => arrival.source.body(),
        hop_limit => {
            Body::Stored(rewritten(interest, interest.nonce.unwrap_or_default(), hop_limit).into())
        }
    };
    let header = out.push(arrival.face, body);
    (header.pit_token, header.nack) = (arrival.header.pit_token, Some(reason));
}

/// Processes a Nack from an upstream.
pub(crate) fn on_incoming_nack(
    plane: &mut DataPlane,
    arrival: &Arrival<'_>,
    reason: NackReason,
    interest: &Interest<'_>,
    hash: u64,
    out: &mut Outbox,
) -> Result<(), Dropped> {
    let unexpected = Dropped::new(DropReason::UnexpectedNack);
    let nonce = interest
        .nonce
        .filter(|_| arrival.point_to_point)
        .ok_or(unexpected)?;
    interest.check_parameters_digest().map_err(|_| unexpected)?;
    let (slot, hop_limit) = plane
        .pit
        .find_asked(hash, interest, arrival.face, nonce)
        .ok_or(unexpected)?;
    if interest.hop_limit != hop_limit {
        // The HopLimit that this upstream has spent counts for it alone, as in NFD.
        let packet = Bytes::from(rewritten(interest, nonce, hop_limit));
        return on_incoming_nack(
            plane,
            &arrival.made(packet.clone()),
            reason,
            &Interest::decode(&packet)?,
            hash,
            out,
        );
    }
    let entry = plane.pit.entry_mut(slot);
    for record in entry
        .out_records
        .iter_mut()
        .filter(|record| record.face == arrival.face)
    {
        record.nacked = Some(reason);
    }
    if entry.waits_for_tier() {
        // An application that chose its next hop gets no other one: the Interest keeps waiting.
        // So do Interests that wait for the tier, which no strategy knows.
        return Ok(());
    }
    let lifetime = entry.last_expiry().since(arrival.now);
    let pending = PendingInterest {
        slot,
        interest,
        hashed: Hashed::default(),
        routes: None,
        nonce,
        lifetime,
    };
    dispatch_to_strategy(plane, arrival, &pending, out, |strategy, decision| {
        strategy.on_nack(decision)
    });
    Ok(())
}

/// Returns the pending entry of an Interest that is still held back.
fn entry_of<'a>(
    pit: &'a mut Pit,
    hasher: &NameHasher,
    held: &HeldInterest,
) -> Option<(u32, &'a mut PitEntry)> {
    let interest = Interest::decode(&held.packet).ok()?;
    let hash = hasher.hash(interest.name.strip_implicit_digest().0.as_bytes());
    let slot = pit.find(hash, &interest)?;
    let entry = pit.entry_mut(slot);
    let is_held = entry
        .out_records
        .iter()
        .any(|record| record.face == held.to && record.held);
    is_held.then_some((slot, entry))
}

/// Returns the next hops of the Interest's name, or of its first delegation with a route (packet
/// specification 0.3, "ForwardingHint").
fn routes(
    hasher: &NameHasher,
    fib: &Fib,
    interest: &Interest<'_>,
    prefixes: &[Prefix],
    hinted: &mut Vec<Prefix>,
) -> Routes {
    let found = match interest.forwarding_hint {
        None => fib.longest_match(interest.name, prefixes),
        // The name itself is not looked up, as in NFD: here it is not known to the routing.
        Some(_) => interest.forwarding_hints().find_map(|delegation| {
            hasher.prefixes(delegation, fib.lengths(), hinted);
            fib.longest_match(delegation, hinted)
        }),
    };
    Routes {
        namespace: found.map_or(0, |(hash, _)| hash),
        next_hops: found.map(|(_, set)| set),
    }
}

/// Returns the consumer whose Interest goes upstream with this nonce, which may be the strategy's
/// own. `from` is the face of the packet that causes it: an upstream that refused, or the tier.
fn downstream_of(entry: &PitEntry, nonce: u32, from: FaceId) -> FaceId {
    let records = &entry.in_records;
    let of_nonce = records.iter().find(|record| record.nonce == nonce);
    let record = of_nonce
        .or_else(|| records.iter().find(|record| record.face == from))
        .or(records.first());
    record.map_or(from, |record| record.face)
}

/// Returns the Interest with this nonce, and with or without this HopLimit: each consumer gets back
/// what it sent (except for the InterestLifetime).
pub(crate) fn rewritten(interest: &Interest<'_>, nonce: u32, hop_limit: Option<u8>) -> Vec<u8> {
    let element = Tlv::only(interest.wire, types::INTEREST).ok();
    // Another element of this type, in another place, is no HopLimit. After the parameters, their
    // digest covers it.
    let is_hop_limit =
        |element: &Tlv<'_>| interest.hop_limit_offset == Some(element.value_offset());
    let mut hop_limit = hop_limit;
    let mut value = Vec::with_capacity(interest.wire.len() + 3);
    let mut limit_hops = |value: &mut Vec<u8>| {
        if let Some(hops) = hop_limit.take() {
            write_tlv(value, types::HOP_LIMIT, &[hops]);
        }
    };
    for child in element
        .iter()
        .flat_map(|element| element.children().flatten())
    {
        match child.typ {
            types::NONCE => write_tlv(&mut value, types::NONCE, &nonce.to_be_bytes()),
            types::HOP_LIMIT if is_hop_limit(&child) => {}
            _ => {
                if child.typ == types::APPLICATION_PARAMETERS {
                    limit_hops(&mut value);
                }
                value.extend_from_slice(child.wire);
            }
        }
    }
    limit_hops(&mut value);
    let mut wire = Vec::with_capacity(value.len() + 4);
    write_header(&mut wire, types::INTEREST, value.len());
    wire.extend_from_slice(&value);
    wire
}
