//! Handles many frames at once: with the same result as one after the other, but stage by stage,
//! and with the memory that they need prefetched.
//!
//! Tables of millions of entries are in no cache, and an Interest reads some ten places of them,
//! each known from hashes alone. One frame after the other would wait for each place in turn. Here
//! a batch makes four passes that change nothing: decode, hash and prefetch the lines of the
//! indexes; prefetch the entries that they lead to, and the filter of the FIB; prefetch its index;
//! prefetch rows and packets. Their results are hints, and the stages look again.
//!
//! Then the frames are handled in runs. The Interests of a run pass the stages of
//! `incoming_interest.rs` together, its Data those of `incoming_data.rs`. What makes the result
//! that of the packets one after the other:
//! * A run has packets of one kind, so Data finds every Interest before it, and Interests every
//!   Data.
//! * No two packets of a run have the same hash of their names ([`Names`]). So they have different
//!   entries of PIT and Content Store, and what a stage does for one changes nothing that an
//!   earlier stage found for another. An Interest that repeats a name begins a new run.
//! * Within a stage, packets keep their order: so do the policy's requests and insertions, and the
//!   strategies' decisions. A run's sends are made in one stage, frame by frame. (One Data goes to
//!   several consumers in the order of the PIT's index, which says nothing.)
//! * Packets with effects on other names are alone in their run: management's, Interests that find
//!   the PIT full, Data while Interests with CanBePrefix are pending, and all packets of a node
//!   that sends paths. So are those under a link header (a PIT token, a reliable link), and
//!   Interests without a nonce, and those whose forwarding hint ends here: they would need room in
//!   each place.
//!
//! One thing differs: a run's Interests are all pending before the first is refused, so the PIT's
//! quota may take another face for the one with the most entries ([`PitQuota`]).
//!
//! [`PitQuota`]: crate::tables::pit_quota::PitQuota

use super::stages::{Meter, Stage};
use super::{end_of_frame, handle, pass_to_management};
use crate::control_plane::ControlPlane;
use crate::data_plane::DataPlane;
use crate::drop_reason::Dropped;
use crate::face::FaceId;
use crate::local_names::is_management;
use crate::outbox::Outbox;
use crate::pipeline::content_store_hit::on_content_store_hit;
use crate::pipeline::incoming_data::{find_pit_matches, insert_content_store};
use crate::pipeline::incoming_interest::{
    check_interest, drop_interest, find_pit_entry, insert_in_record, look_up_content_store,
    on_content_store_miss,
};
use crate::pipeline::interest_finalize::on_interest_finalize;
use crate::pipeline::link_service::{Arrivals, Frame, Packet};
use crate::pipeline::outgoing_data::on_outgoing_data;
use crate::pipeline::outgoing_interest::{PendingInterest, Routes, look_up_fib};
use crate::tables::name_hash::{Hashed, Lengths, Prefix};
use larder_packet::{Data, Interest};
use larder_policy::Slot;
use larder_units::Time;
use std::ops::Range;
use std::time::Duration;

/// Frames in progress at once: enough to hide the memory's latency, and few enough that their state
/// stays in the first cache.
const FRAMES: usize = 32;

/// One frame of a batch.
#[derive(Debug)]
pub struct Received<'a> {
    /// The face that received it.
    pub face: FaceId,
    /// An NDNLPv2 packet, or a bare Interest or Data.
    pub frame: &'a mut [u8],
}

/// A frame, and what is known of it.
struct PrefetchedFrame<'a> {
    frame: Frame<'a>,
    /// The slot that probably answers the Interest.
    stored: Option<Slot>,
    /// Of an Interest, the prefixes of its name, among those of the batch; of a Data, its pending
    /// Interests, among those of the run.
    places: Range<usize>,
    state: State,
}

impl PrefetchedFrame<'_> {
    const NOTHING: PrefetchedFrame<'static> = PrefetchedFrame {
        frame: Frame::NOTHING,
        stored: None,
        places: 0..0,
        state: State::Arrived,
    };
}

/// How far a packet has come.
#[derive(Clone, Copy)]
enum State {
    Arrived,
    Refused(Dropped),
    /// An Interest for a name that is pending or not.
    Passed {
        pending: Option<u32>,
    },
    /// The Content Store answers the Interest.
    Stored(Slot),
    /// The Interest is pending.
    Pending {
        slot: u32,
        lifetime: Duration,
        routes: Option<Routes>,
    },
}

/// The hashes of the names of a run, as bits: a name may also be found that is not there.
struct Names([u64; 32]);

impl Names {
    /// Adds a name; false if it is there.
    #[inline]
    fn add(&mut self, hash: u64) -> bool {
        let (word, bit) = ((hash >> 6) as usize % self.0.len(), 1 << (hash % 64));
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }
}

/// Handles a batch: see [`crate::Forwarder::on_packets`] and [`crate::Forwarder::profile`].
pub(crate) fn on_batch(
    plane: &mut DataPlane,
    control: &mut ControlPlane,
    now: Time,
    batch: &mut [Received<'_>],
    out: &mut Outbox,
    meter: &mut Meter<'_>,
) {
    let mut prefixes = std::mem::take(&mut plane.scratch.ahead);
    let lengths = plane.prefix_lengths();
    for batch in batch.chunks_mut(FRAMES) {
        prefixes.clear();
        let mut places: [PrefetchedFrame<'_>; FRAMES] =
            [const { PrefetchedFrame::NOTHING }; FRAMES];
        let prefetched = &mut places[..batch.len()];
        meter.start();
        for (PrefetchedFrame { frame, .. }, received) in prefetched.iter_mut().zip(batch) {
            frame.read(
                &plane.hasher,
                plane.max_packet_bytes,
                received.face,
                received.frame,
            );
            prefetch_index(plane, frame);
        }
        meter.end(Stage::Decode, prefetched.len());
        for prefetched in prefetched.iter_mut() {
            prefetch_entries(plane, prefetched, lengths, &mut prefixes);
        }
        let data = prefetched
            .iter()
            .filter(|prefetched| matches!(prefetched.frame.packet, Packet::Data(..)))
            .count();
        if data > 0 {
            plane.content_store.prefetch_victims(data);
        }
        for prefetched in prefetched.iter() {
            plane
                .fib
                .prefetch_index(&prefixes[prefetched.places.clone()])
        }
        for prefetched in prefetched.iter() {
            prefetch_rows(plane, prefetched, &prefixes);
        }
        if data > 0 {
            plane.content_store.prefetch_victims_further();
        }
        meter.end(Stage::Prefetch, prefetched.len());
        let hashed = Hashed {
            prefixes: &prefixes,
            lengths,
        };
        let mut rest = prefetched;
        while !rest.is_empty() {
            let (run, others) = rest.split_at_mut(length_of_run(plane, rest));
            match (run.len(), &run[0].frame.packet) {
                (1, _) => handle_alone(plane, control, now, &run[0], hashed, out),
                (_, Packet::Data(..)) => {
                    run_of_data(plane, now, run, out, meter);
                    pass_to_management(plane, control, now);
                }
                _ => run_of_interests(plane, now, run, hashed, out, meter),
            }
            rest = others;
        }
    }
    plane.scratch.ahead = prefixes;
}

#[inline]
pub(crate) fn prefetch_index(plane: &DataPlane, frame: &Frame<'_>) {
    match &frame.packet {
        Packet::Interest(interest, hash) => {
            plane.pit.prefetch(*hash);
            plane.content_store.prefetch(*hash);
            plane
                .dead_nonces
                .prefetch(*hash, interest.nonce.unwrap_or_default());
        }
        Packet::Data(_, hash) => plane.pit.prefetch(*hash),
        _ => {}
    }
}

fn prefetch_entries(
    plane: &DataPlane,
    prefetched: &mut PrefetchedFrame<'_>,
    lengths: Lengths,
    prefixes: &mut Vec<Prefix>,
) {
    match &prefetched.frame.packet {
        Packet::Interest(interest, hash) => {
            let stored = plane.content_store.prefetch_entry(*hash);
            plane.pit.prefetch_entry(*hash);
            if stored.is_none() {
                let from = prefixes.len();
                plane
                    .hasher
                    .append_prefixes(interest.name, lengths, prefixes);
                plane.fib.prefetch(&prefixes[from..]);
                prefetched.places = from..prefixes.len();
            }
            prefetched.stored = stored;
        }
        Packet::Data(_, hash) => plane.pit.prefetch_entry(*hash),
        _ => {}
    }
}

fn prefetch_rows(plane: &DataPlane, prefetched: &PrefetchedFrame<'_>, prefixes: &[Prefix]) {
    if let Packet::Interest(_, hash) = &prefetched.frame.packet {
        match prefetched.stored {
            Some(slot) => plane.content_store.prefetch_packet(*hash, slot),
            None => plane
                .fib
                .prefetch_rows(&prefixes[prefetched.places.clone()]),
        }
    }
}

/// Returns the number of the first frames that pass the stages together.
fn length_of_run(plane: &DataPlane, frames: &[PrefetchedFrame<'_>]) -> usize {
    let of_data = matches!(frames[0].frame.packet, Packet::Data(..));
    let may_be_long = if of_data {
        plane.pit.prefix_lengths() == Lengths::default()
    } else {
        plane
            .pit
            .has_room_for(frames.len(), frames.len() * plane.max_packet_bytes)
    };
    if !may_be_long || plane.paths.is_some() {
        return 1;
    }
    let mut names = Names([0; 32]);
    let goes_on = |prefetched: &&PrefetchedFrame<'_>| match &prefetched.frame.packet {
        Packet::Interest(interest, hash) => {
            let is_ordinary = is_ordinary(interest) && !plane.is_in_producer_region(interest);
            !of_data && prefetched.frame.is_bare && is_ordinary && names.add(*hash)
        }
        Packet::Data(_, hash) => of_data && prefetched.frame.is_bare && names.add(*hash),
        _ => false,
    };
    frames.iter().take_while(goes_on).count().max(1)
}

/// Handles one frame from end to end.
fn handle_alone(
    plane: &mut DataPlane,
    control: &mut ControlPlane,
    now: Time,
    prefetched: &PrefetchedFrame<'_>,
    hashed: Hashed<'_>,
    out: &mut Outbox,
) {
    let result = handle(
        plane,
        control,
        now,
        &prefetched.frame,
        hashed.at(&prefetched.places),
        out,
    );
    out.end_of_frame(result);
}

/// Takes Interests through their stages.
fn run_of_interests(
    plane: &mut DataPlane,
    now: Time,
    run: &mut [PrefetchedFrame<'_>],
    hashed: Hashed<'_>,
    out: &mut Outbox,
    meter: &mut Meter<'_>,
) {
    meter.start();
    let all = run.len();
    let mut arrivals = Arrivals::new(now);
    out.inputs_are(run.iter().map(|prefetched| &prefetched.frame.range));
    for (interest, hash, frame, _, state) in interests(run) {
        let arrival = arrivals.count(&mut plane.faces, frame);
        let pending = arrival.and_then(|arrival| {
            check_interest(arrival, interest)?;
            find_pit_entry(plane, arrival, interest, hash)
        });
        *state = pending.map_or_else(State::Refused, |pending| State::Passed { pending });
    }
    arrivals.add_counts(&mut plane.faces);
    meter.end(Stage::PitLookup, all);
    for (interest, hash, _, _, state) in interests(run) {
        if let State::Passed { pending } = *state
            && let Some(stored) = look_up_content_store(plane, now, interest, hash, pending)
        {
            *state = State::Stored(stored);
        }
    }
    meter.end(Stage::StoreLookup, all);
    let mut missed = 0;
    for (interest, hash, frame, _, state) in interests(run) {
        if let State::Passed { pending } = *state {
            missed += 1;
            let pended = insert_in_record(plane, now, frame.face, interest, hash, pending, None);
            let pends = |(slot, lifetime)| State::Pending {
                slot,
                lifetime,
                routes: None,
            };
            *state = pended.map_or_else(State::Refused, pends);
        }
    }
    meter.end(Stage::PitInsert, missed);
    for (interest, _, _, places, state) in interests(run) {
        if let State::Pending { routes, .. } = state {
            *routes = look_up_fib(plane, interest, hashed.at(places));
        }
    }
    meter.end(Stage::FibLookup, missed);
    for (interest, _, frame, places, state) in interests(run) {
        let first = out.sends.len();
        let result = arrivals
            .of(&mut plane.faces, frame.face)
            .and_then(|arrival| {
                match *state {
                    State::Refused(dropped) => {
                        return drop_interest(arrival, interest, dropped, out);
                    }
                    State::Stored(stored) => on_content_store_hit(plane, arrival, stored, out),
                    State::Pending {
                        slot,
                        lifetime,
                        routes,
                    } => {
                        let nonce = interest.nonce.unwrap_or_default();
                        let hashed = hashed.at(places);
                        on_content_store_miss(
                            plane,
                            arrival,
                            &PendingInterest {
                                slot,
                                interest,
                                hashed,
                                routes,
                                nonce,
                                lifetime,
                            },
                            out,
                        );
                    }
                    State::Arrived | State::Passed { .. } => {
                        debug_assert!(false, "an Interest has missed a stage");
                    }
                }
                Ok(())
            });
        end_of_frame(plane, first, frame, &result, out);
        out.end_of_frame(result);
    }
    meter.end(Stage::Answer, all);
}

/// Takes Data through their stages.
fn run_of_data(
    plane: &mut DataPlane,
    now: Time,
    run: &mut [PrefetchedFrame<'_>],
    out: &mut Outbox,
    meter: &mut Meter<'_>,
) {
    meter.start();
    let all = run.len();
    let mut found = std::mem::take(&mut plane.scratch.found);
    found.clear();
    let mut arrivals = Arrivals::new(now);
    out.inputs_are(run.iter().map(|prefetched| &prefetched.frame.range));
    for (data, hash, frame, places, state) in all_data(run) {
        let from = found.len();
        let arrival = arrivals.count(&mut plane.faces, frame);
        let waiting =
            arrival.and_then(|arrival| find_pit_matches(plane, arrival, data, hash, &mut found));
        if let Err(dropped) = waiting {
            found.truncate(from);
            *state = State::Refused(dropped);
        }
        *places = from..found.len();
    }
    arrivals.add_counts(&mut plane.faces);
    meter.end(Stage::PitMatch, all);
    let mut matched = 0;
    for (data, hash, frame, places, _) in all_data(run) {
        let slots = &found[places.clone()];
        if let (false, Ok(arrival)) = (slots.is_empty(), arrivals.of(&mut plane.faces, frame.face))
        {
            matched += 1;
            insert_content_store(plane, arrival, data, hash, slots, None);
        }
    }
    meter.end(Stage::StoreInsert, matched);
    for (data, _, frame, places, state) in all_data(run) {
        let first = out.sends.len();
        let result = match *state {
            State::Refused(dropped) => Err(dropped),
            _ => arrivals.of(&mut plane.faces, frame.face).map(|arrival| {
                let slots = &found[places.clone()];
                for slot in slots {
                    on_outgoing_data(plane, arrival, data, *slot, None, first, out)
                }
            }),
        };
        end_of_frame(plane, first, frame, &result, out);
        out.end_of_frame(result);
    }
    meter.end(Stage::DataSend, matched);
    for slot in &found {
        on_interest_finalize(plane, now, *slot);
    }
    meter.end(Stage::PitDelete, matched);
    plane.scratch.found = found;
}

/// Returns true for an Interest that changes nothing but its own entries of the tables.
#[inline]
fn is_ordinary(interest: &Interest<'_>) -> bool {
    interest.nonce.is_some() && !is_management(interest.name)
}

type Place<'r, 'a, P> = (
    &'r P,
    u64,
    &'r Frame<'a>,
    &'r mut Range<usize>,
    &'r mut State,
);

#[inline]
fn interests<'r, 'a>(
    run: &'r mut [PrefetchedFrame<'a>],
) -> impl Iterator<Item = Place<'r, 'a, Interest<'a>>> {
    run.iter_mut().filter_map(
        |PrefetchedFrame {
             frame,
             places,
             state,
             ..
         }| match &frame.packet {
            Packet::Interest(interest, hash) => Some((interest, *hash, &*frame, places, state)),
            _ => None,
        },
    )
}

#[inline]
fn all_data<'r, 'a>(
    run: &'r mut [PrefetchedFrame<'a>],
) -> impl Iterator<Item = Place<'r, 'a, Data<'a>>> {
    run.iter_mut().filter_map(
        |PrefetchedFrame {
             frame,
             places,
             state,
             ..
         }| match &frame.packet {
            Packet::Data(data, hash) => Some((data, *hash, &*frame, places, state)),
            _ => None,
        },
    )
}
