//! Runs exchanges through the forwarder one stage at a time, to measure the cost of each stage.
//!
//! [`Forwarder::on_packet`] handles a packet from end to end. Here a batch of exchanges passes each
//! stage together, by the same functions over the same tables. A clock, which is an argument, is
//! read between the stages, so a batch shares one reading. The stages are the blocks B1 to B13 of
//! Takemasa, Koizumi and Hasegawa, Lightweight cache admission algorithm for fast NDN software
//! routers, Journal of Information Processing 27, 2019, tables 1 and 2. Not for forwarding: it
//! supports one consumer, one producer and plain exchanges.

pub mod names;

use crate::face::FaceId;
use crate::forwarder::{Forwarder, Scratch};
use crate::outbox::{Body, Outbox};
use crate::pipeline::link_service::{Arrival, Opened, Packet, Source, open, received_hop_limit};
use crate::pipeline::outgoing_interest::{Asked, next_hops};
use crate::tables::content_store::ContentStore;
use crate::tables::name_hash::Hashed;
use crate::tables::pit::InRecord;
use crate::tables::rib::NextHop;
use crate::tables::stored_packet::StoredPacket;
use larder_packet::{Data, Interest, LpHeader, NameRef};
use larder_policy::{Engine, Slot};
use larder_units::Time;
use std::hint::black_box;

/// The stages, in the order in which a batch passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// B1: the link header, the Interest, HopLimit, the hash of the name.
    InterestDecode,
    /// B3: Content Store lookup of the whole name.
    StoreLookup,
    /// B2: the policy counts the request.
    HistoryUpdate,
    /// B4: the stored packet is fetched.
    Fetch,
    /// B5: duplicates, the pending Interest, its consumer and timer.
    PitInsert,
    /// B6: the hashes of all prefixes, the strategy, the next hops.
    FibLookup,
    /// B6 again, with its data in the processor's caches: to be subtracted from the next stage.
    FibLookupAgain,
    /// B6 and B7: the strategy decides, and the Interest goes to the host.
    Decide,
    /// B8: the link header, the Data, the hash of the name.
    DataDecode,
    /// B9: the consumers that wait, and the end of their wait.
    PitDelete,
    /// B13: the admission's decision.
    Admission,
    /// B12 and B10: the victim, and the Data into the Content Store.
    Insertion,
    /// B11: the Data goes to the host.
    DataSend,
}

/// The number of stages.
pub const STAGES: usize = Stage::DataSend as usize + 1;

/// The cost of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageProfile {
    /// Ticks of the clock in each stage.
    pub ticks: [u64; STAGES],
    /// Packets that passed each stage.
    pub packets: [u32; STAGES],
}

/// A pair of frames: an Interest and the Data that would answer it.
pub struct Exchange {
    /// The Interest's frame.
    pub interest: Vec<u8>,
    /// The Data's frame.
    pub data: Vec<u8>,
}

/// Puts a next hop into the FIB without a route: for a table of published size, without the cost of
/// registrations.
pub fn add_next_hop(forwarder: &mut Forwarder, prefix: NameRef<'_>, face: FaceId) {
    forwarder.fib.set(&forwarder.hasher, prefix, &[NextHop { face, cost: 0 }]);
}

/// Empties the Content Store and runs it under another policy. FIB and PIT stay.
pub fn replace_content_store(forwarder: &mut Forwarder, engine: Engine) {
    forwarder.content_store = ContentStore::new(forwarder.hasher.clone(), engine, false);
}

/// The results of the lookups, by the number of the exchange.
struct Found<'a> {
    interest: Interest<'a>,
    hash: u64,
    stored: Option<Slot>,
    pending: u32,
}

/// Takes the exchanges through all stages. The first Data of a name answers all its Interests in a
/// batch.
pub fn run(
    forwarder: &mut Forwarder,
    now: Time,
    (consumer, producer): (FaceId, FaceId),
    batch: &mut [Exchange],
    out: &mut Outbox,
    mut clock: impl FnMut() -> u64,
) -> StageProfile {
    out.sends.clear();
    let mut ledger = StageProfile::default();
    let mut time = |stage: Stage, work: &mut dyn FnMut() -> usize| {
        let begun = clock();
        let packets = work();
        ledger.ticks[stage as usize] = clock().saturating_sub(begun);
        ledger.packets[stage as usize] = packets as u32;
    };
    let mut found = Vec::with_capacity(batch.len());
    let mut answers = Vec::with_capacity(batch.len());
    let (mut interests, mut frames): (Vec<&mut Vec<u8>>, Vec<&mut Vec<u8>>) =
        batch.iter_mut().map(|exchange| (&mut exchange.interest, &mut exchange.data)).unzip();

    time(Stage::InterestDecode, &mut || {
        for frame in interests.drain(..) {
            if let Some((interest, hash)) = forwarder.decode_interest(consumer, frame) {
                found.push(Found { interest, hash, stored: None, pending: 0 });
            }
        }
        found.len()
    });
    time(Stage::StoreLookup, &mut || {
        for each in &mut found {
            each.stored = forwarder.content_store.exact(each.hash, each.interest.name);
        }
        found.len()
    });
    time(Stage::HistoryUpdate, &mut || {
        for each in &found {
            match each.stored {
                Some(slot) => forwarder.content_store.engine_mut().hit(slot, each.hash, now),
                None => forwarder.content_store.engine_mut().miss(each.hash, now),
            }
        }
        found.len()
    });
    let mut bodies: Vec<StoredPacket> = Vec::with_capacity(found.len());
    time(Stage::Fetch, &mut || {
        bodies.extend(found.iter().filter_map(|each| forwarder.content_store.wire(each.stored?)));
        bodies.len()
    });
    let mut missed: Vec<(Found<'_>, &mut Vec<u8>)> =
        found.into_iter().zip(frames.drain(..)).filter(|(each, _)| each.stored.is_none()).collect();
    time(Stage::PitInsert, &mut || {
        missed.iter_mut().for_each(|(each, _)| forwarder.await_answer(now, consumer, each));
        missed.len()
    });
    for stage in [Stage::FibLookup, Stage::FibLookupAgain] {
        time(stage, &mut || {
            missed.iter().for_each(|(each, _)| forwarder.look_up_routes(&each.interest));
            missed.len()
        });
    }
    let arrival = Arrival {
        now,
        face: consumer,
        local: true,
        point_to_point: true,
        header: &LpHeader::EMPTY,
        next_hop: None,
        source: Source::Input,
    };
    time(Stage::Decide, &mut || {
        for (each, _) in &missed {
            let (interest, nonce) = (&each.interest, each.interest.nonce.unwrap_or_default());
            let lifetime = interest.lifetime_or_default();
            let asked = Asked { slot: each.pending, interest, hashed: Hashed::default(), nonce, lifetime };
            forwarder.decide(&arrival, &asked, out, |strategy, decision| strategy.on_interest(decision));
        }
        forwarder.count_sends(0, &[], out);
        missed.len()
    });
    out.sends.clear();
    let hashes: Vec<u64> = missed.iter().map(|(each, _)| each.hash).collect();
    let mut frames: Vec<&mut Vec<u8>> = missed.into_iter().map(|(_, frame)| frame).collect();
    time(Stage::DataDecode, &mut || {
        for frame in frames.drain(..) {
            answers.extend(forwarder.decode_data(producer, frame));
        }
        answers.len()
    });
    debug_assert!(answers.iter().map(|(_, hash)| hash).eq(&hashes), "the Data are those that were asked for");
    let all = answers.len();
    time(Stage::PitDelete, &mut || {
        answers.retain(|(data, hash)| forwarder.end_waiting(now, producer, data, *hash));
        all
    });
    let matched = answers.len();
    time(Stage::Admission, &mut || {
        answers.retain(|(data, hash)| forwarder.content_store.is_wanted(now, data, std::iter::once(*hash), None));
        matched
    });
    time(Stage::Insertion, &mut || {
        answers.iter().for_each(|(data, hash)| {
            forwarder.content_store.store(now, *hash, data);
        });
        answers.len()
    });
    time(Stage::DataSend, &mut || {
        let stored = bodies.drain(..).map(Body::Cached);
        let bodies = stored.chain(std::iter::repeat_n(Body::Input, matched));
        bodies.for_each(|body| {
            out.push(consumer, body);
        });
        forwarder.count_sends(0, &[], out);
        out.sends.len()
    });
    out.sends.clear();
    ledger
}

impl Forwarder {
    fn decode_interest<'a>(&mut self, face: FaceId, frame: &'a mut [u8]) -> Option<(Interest<'a>, u64)> {
        match self.decode_frame(face, frame)? {
            Packet::Interest(interest, hash) if interest.check_parameters_digest().is_ok() => Some((interest, hash)),
            _ => None,
        }
    }

    fn decode_frame<'a>(&mut self, face: FaceId, frame: &'a mut [u8]) -> Option<Packet<'a>> {
        self.faces.get_mut(face)?.counters.in_bytes += frame.len() as u64;
        match open(frame, self.max_packet_bytes) {
            Opened::Whole(range) => Some(Packet::decode(&self.hasher, &frame[range])),
            _ => None,
        }
    }

    fn await_answer(&mut self, now: Time, face: FaceId, found: &mut Found<'_>) {
        let Found { interest, hash, .. } = found;
        let nonce = interest.nonce.unwrap_or_default();
        let pending = self.pit.find(*hash, interest);
        black_box(self.is_duplicate(now, *hash, nonce, Some(face), pending));
        let Some(slot) = pending.or_else(|| self.pit.insert(face, *hash, interest)) else { return };
        let (hop_limit, expires) = (received_hop_limit(interest), now + interest.lifetime_or_default());
        let record = InRecord { face, nonce, hop_limit, expires, token: None, repeated: false };
        let _ = self.add_consumer(slot, record);
        found.pending = slot;
    }

    fn look_up_routes(&mut self, interest: &Interest<'_>) {
        let lengths = self.prefix_lengths();
        let Scratch { prefixes, hinted, .. } = &mut self.scratch;
        self.hasher.prefixes(interest.name, lengths, prefixes);
        black_box(self.strategies.longest_match(interest.name, prefixes).is_some());
        black_box(next_hops(&self.hasher, &self.fib, interest, prefixes, hinted).1.len());
    }

    fn decode_data<'a>(&mut self, face: FaceId, frame: &'a mut [u8]) -> Option<(Data<'a>, u64)> {
        match self.decode_frame(face, frame)? {
            Packet::Data(data, hash) => Some((data, hash)),
            _ => None,
        }
    }

    /// Returns true if a consumer waited.
    fn end_waiting(&mut self, now: Time, face: FaceId, data: &Data<'_>, hash: u64) -> bool {
        let mut found = std::mem::take(&mut self.scratch.found);
        self.pit.matches(&self.hasher, hash, data, &mut self.scratch.prefixes, &mut found);
        let asked = |slot: &u32| self.pit.entry(*slot).out_records.iter().any(|record| record.face == face);
        let waited = found.iter().any(asked);
        for slot in found.drain(..) {
            self.finish(now, slot);
        }
        self.scratch.found = found;
        waited
    }
}
