//! Takes packets from faces to the pipelines and to management: one frame at a time, or a batch
//! (`batch.rs`, whose `stages` measure what each step costs).
//!
//! `pipeline/link_service.rs` reads a frame. Here its packet is counted, a fragment is reassembled,
//! and the packet goes to the pipeline of its kind. The pipelines know nothing of management: an
//! Interest for management goes there directly, and Data that answers one of management's own
//! Interests after the pipeline.

pub(crate) mod batch;
pub mod stages;

pub use batch::Received;

use crate::control_plane::ControlPlane;
use crate::data_plane::DataPlane;
use crate::drop_reason::{DropReason, Dropped};
use crate::face::FaceId;
use crate::local_names::is_management;
use crate::management;
use crate::outbox::Outbox;
use crate::pipeline::incoming_data::on_incoming_data;
use crate::pipeline::incoming_interest::on_incoming_interest;
use crate::pipeline::link_service::{Arrival, Frame, Packet, Source, check_and_age};
use crate::pipeline::outgoing_interest::on_incoming_nack;
use crate::tables::name_hash::Hashed;
use bytes::Bytes;
use larder_packet::limits::REASSEMBLY_TIMEOUT;
use larder_packet::{Interest, LpHeader, Reassembled, Reassembler, encode_lp, types};
use larder_units::Time;

/// Handles the next frame of the input. `hashed` are its Interest's prefixes.
#[inline]
pub(crate) fn handle(
    plane: &mut DataPlane,
    control: &mut ControlPlane,
    now: Time,
    frame: &Frame<'_>,
    hashed: Hashed<'_>,
    out: &mut Outbox,
) -> Result<(), Dropped> {
    let first = out.sends.len();
    let result = receive(plane, control, now, frame, hashed, out);
    end_of_frame(plane, first, frame, &result, out);
    result
}

/// Counts what the frame has caused: its drop, and the sends from number `first` on.
#[inline]
pub(crate) fn end_of_frame(
    plane: &mut DataPlane,
    first: usize,
    frame: &Frame<'_>,
    result: &Result<(), Dropped>,
    out: &Outbox,
) {
    if let Err(dropped) = result {
        plane.count_drop(frame.face, dropped.reason);
    }
    plane.count_sends(
        first,
        frame.range.len(),
        matches!(frame.packet, Packet::Interest(..)),
        out,
    );
}

#[inline]
fn receive(
    plane: &mut DataPlane,
    control: &mut ControlPlane,
    now: Time,
    frame: &Frame<'_>,
    hashed: Hashed<'_>,
    out: &mut Outbox,
) -> Result<(), Dropped> {
    let face = plane
        .faces
        .get_mut(frame.face)
        .ok_or(Dropped::new(DropReason::NoFace))?;
    face.counters.in_bytes += frame.bytes.len() as u64;
    match &frame.packet {
        Packet::Nothing => Ok(()),
        Packet::Bad(dropped) => Err(*dropped),
        Packet::Piece(piece) => {
            on_piece(plane, control, now, frame.face, &frame.header(), piece, out)
        }
        packet => {
            out.next(frame.range.clone());
            let read;
            let header = if frame.is_bare {
                &LpHeader::EMPTY
            } else {
                read = frame.header();
                &read
            };
            let arrival = Arrival::new(now, frame.face, face, header, Source::Input);
            face.counters.count_arrival(packet, header.nack);
            on_network_packet(plane, control, &arrival, packet, hashed, out)
        }
    }
}

#[inline(never)]
fn on_piece(
    plane: &mut DataPlane,
    control: &mut ControlPlane,
    now: Time,
    id: FaceId,
    header: &LpHeader,
    piece: &[u8],
    out: &mut Outbox,
) -> Result<(), Dropped> {
    let face = plane
        .faces
        .get_mut(id)
        .ok_or(Dropped::new(DropReason::NoFace))?;
    plane
        .reassembly
        .next_sweep
        .get_or_insert(now + REASSEMBLY_TIMEOUT);
    let largest = plane.max_packet_bytes;
    let is_reliable = face.config.link_reliability;
    let reassembler = face.reassembler.get_or_insert_with(|| {
        let reassembler = Reassembler::for_packets_of(largest);
        Box::new(if is_reliable {
            reassembler.of_reliable_link()
        } else {
            reassembler
        })
    });
    let before = reassembler.counters().incomplete_packets();
    let held = reassembler.held_bytes();
    let outcome = reassembler.accept(now, header, piece);
    plane.reassembly.bytes = plane.reassembly.bytes - held + reassembler.held_bytes();
    for _ in before..reassembler.counters().incomplete_packets() {
        plane.drops.count(DropReason::Reassembly);
        face.counters.dropped += 1;
    }
    if plane.reassembly.bytes > plane.reassembly.most_bytes {
        plane.reassembly.reclaim(&mut plane.faces, &mut plane.drops);
    }
    let face = plane
        .faces
        .get_mut(id)
        .ok_or(Dropped::new(DropReason::NoFace))?;
    match outcome {
        Reassembled::Done(packet, header) if !plane.shard.is_only() => {
            // A link packet in a link packet would make fragments of fragments.
            if !matches!(
                packet.first().map(|first| u32::from(*first)),
                Some(types::INTEREST | types::DATA)
            ) {
                return Err(Dropped::new(DropReason::Malformed));
            }
            let mut frame = Vec::new();
            encode_lp(&header, &packet, &mut frame);
            // Its fragments were counted; it is counted again when it is handled.
            face.counters.in_bytes = face.counters.in_bytes.saturating_sub(frame.len() as u64);
            out.reassemble(id, frame);
            Ok(())
        }
        Reassembled::Done(mut packet, header) => {
            check_and_age(&mut packet, header.nack, largest)?;
            let bytes = Bytes::from(packet);
            let arrival = Arrival::new(now, id, face, &header, Source::Made(bytes.clone()));
            let packet = Packet::decode(&plane.hasher, &bytes);
            face.counters.count_arrival(&packet, header.nack);
            on_network_packet(plane, control, &arrival, &packet, Hashed::default(), out)
        }
        Reassembled::Partial | Reassembled::Whole(_) => Ok(()),
        Reassembled::Dropped(_) => Err(Dropped::new(DropReason::Reassembly)),
    }
}

/// Distinguishes Interest, Data and Nack.
// A call of its own costs 1.6 % of the instructions of packets that come one at a time.
#[inline(always)]
fn on_network_packet(
    plane: &mut DataPlane,
    control: &mut ControlPlane,
    arrival: &Arrival<'_>,
    packet: &Packet<'_>,
    hashed: Hashed<'_>,
    out: &mut Outbox,
) -> Result<(), Dropped> {
    match (packet, arrival.header.nack) {
        (Packet::Bad(dropped), _) => Err(*dropped),
        (Packet::Interest(interest, hash), None) => {
            if is_for_management(control, arrival, interest) {
                management::on_interest(plane, control, arrival, interest, *hash, out)
            } else {
                on_incoming_interest(plane, arrival, interest, *hash, hashed, out)
            }
        }
        (Packet::Interest(interest, hash), Some(reason)) => {
            on_incoming_nack(plane, arrival, reason, interest, *hash, out)
        }
        (Packet::Data(data, hash), None) => {
            let result = on_incoming_data(plane, arrival, data, *hash, out);
            pass_to_management(plane, control, arrival.now);
            result
        }
        _ => Err(Dropped::new(DropReason::Malformed)),
    }
}

/// Returns true if management answers the Interest.
#[inline]
fn is_for_management(
    control: &ControlPlane,
    arrival: &Arrival<'_>,
    interest: &Interest<'_>,
) -> bool {
    is_management(interest.name)
        && (arrival.local || control.management.authority.allows_localhop())
}

/// Passes management the Data that came for its own Interests.
#[inline]
fn pass_to_management(plane: &mut DataPlane, control: &mut ControlPlane, now: Time) {
    if !plane.for_management.is_empty() {
        management::on_data(plane, control, now);
    }
}
