//! The path of an Interest: checks whether it may pass, whether the name is already pending, and
//! whether the Content Store answers; otherwise it becomes pending.
//!
//! The steps are functions of their own, because the Interests of a batch pass each step together
//! (`batch.rs`).

use super::link_service::{Arrival, check_size, received_hop_limit};
use super::outgoing_interest::PendingInterest;
use crate::drop_reason::{DropReason, Dropped};
use crate::face::FaceId;
use crate::forwarder::Forwarder;
use crate::limits;
use crate::local_names::{is_localhost, is_management};
use crate::outbox::Outbox;
use crate::tables::name_hash::Hashed;
use crate::tables::pit::{InRecord, PitEntry};
use bytes::Bytes;
use larder_packet::{Interest, NackReason, NameRef, PitToken, with_nonce, without_forwarding_hint};
use larder_policy::Slot;
use larder_units::Time;
use std::time::Duration;

impl Forwarder {
    /// Processes an Interest. `hash` is of its name ([`Forwarder::hash_of`]); `hashed` are the
    /// name's prefixes.
    pub(crate) fn on_incoming_interest(
        &mut self,
        arrival: &Arrival<'_>,
        interest: &Interest<'_>,
        hash: u64,
        hashed: Hashed<'_>,
        out: &mut Outbox,
    ) -> Result<(), Dropped> {
        let Some(nonce) = interest.nonce else {
            // Applications may leave the nonce to the forwarder (packet specification 0.3,
            // "Nonce").
            let packet = Bytes::from(with_nonce(interest.wire, self.data.nonces.bits() as u32));
            check_size(&packet, self.data.max_packet_bytes)?;
            let interest = Interest::decode(&packet)?;
            return self.on_incoming_interest(
                &arrival.made(packet.clone()),
                &interest,
                hash,
                hashed,
                out,
            );
        };
        if self.is_in_producer_region(interest) {
            let packet = Bytes::from(without_forwarding_hint(interest.wire));
            let interest = Interest::decode(&packet)?;
            return self.on_incoming_interest(
                &arrival.made(packet.clone()),
                &interest,
                hash,
                hashed,
                out,
            );
        }
        self.check_interest(arrival, interest)?;
        if is_management(interest.name)
            && (arrival.local || self.control.management.authority.allows_localhop())
        {
            return self.on_management(arrival, interest, hash, out);
        }
        let pending = match self.find_pit_entry(arrival, interest, hash) {
            Ok(pending) => pending,
            Err(dropped) => return self.drop_interest(arrival, interest, dropped, out),
        };
        let Arrival {
            now, face, header, ..
        } = *arrival;
        if let Some(stored) = self.look_up_content_store(now, interest, hash, pending) {
            self.on_content_store_hit(arrival, stored, out);
            return Ok(());
        }
        let (slot, lifetime) =
            self.insert_in_record(now, face, interest, hash, pending, header.pit_token)?;
        if let Some(paths) = self.data.paths.as_mut().filter(|_| pending.is_none()) {
            paths.remember(slot, header.path);
        }
        self.on_content_store_miss(
            arrival,
            &PendingInterest {
                slot,
                interest,
                hashed,
                routes: None,
                nonce,
                lifetime,
            },
            out,
        );
        Ok(())
    }

    /// Checks that an Interest may pass.
    #[inline]
    pub(crate) fn check_interest(
        &self,
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
    /// The Interest is in a loop. See [`Forwarder::drop_interest`].
    #[inline]
    pub(crate) fn find_pit_entry(
        &mut self,
        arrival: &Arrival<'_>,
        interest: &Interest<'_>,
        hash: u64,
    ) -> Result<Option<u32>, Dropped> {
        let pending = self.data.pit.find(hash, interest);
        let peer = arrival.point_to_point.then_some(arrival.face);
        if self.is_duplicate(
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
        &mut self,
        arrival: &Arrival<'_>,
        interest: &Interest<'_>,
        dropped: Dropped,
        out: &mut Outbox,
    ) -> Result<(), Dropped> {
        if dropped.reason == DropReason::DuplicateNonce {
            self.on_interest_loop(arrival, interest, out);
        }
        Err(dropped)
    }

    /// Answers an Interest whose nonce another one had with a Nack.
    fn on_interest_loop(
        &mut self,
        arrival: &Arrival<'_>,
        interest: &Interest<'_>,
        out: &mut Outbox,
    ) {
        self.on_outgoing_nack(arrival, interest, NackReason::Duplicate, out);
    }

    /// Returns the slot of the Data in the Content Store that answers the Interest, unless others
    /// wait for the same; the policy counts the request in any case.
    #[inline]
    pub(crate) fn look_up_content_store(
        &mut self,
        now: Time,
        interest: &Interest<'_>,
        hash: u64,
        pending: Option<u32>,
    ) -> Option<Slot> {
        if pending.is_some_and(|slot| is_waiting(now, self.data.pit.entry(slot))) {
            self.data.content_store.engine_mut().miss(hash, now);
            return None;
        }
        let found = self.data.content_store.look_up(now, hash, interest);
        if let Some(figures) = &mut self.data.figures_by_prefix {
            figures.note(&self.data.hasher, interest.name, found.is_some());
        }
        found
    }

    /// Inserts the in-record of a consumer into its PIT entry, a new one if none is `pending`.
    /// Returns the entry and how long the Interest may wait.
    #[inline]
    pub(crate) fn insert_in_record(
        &mut self,
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
                self.make_room_in_pit(now, face, interest);
                self.data
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
        self.set_in_record(slot, record)?;
        Ok((slot, lifetime))
    }

    /// Passes a pending Interest to the second tier, or to the strategy of its name.
    #[inline]
    pub(crate) fn on_content_store_miss(
        &mut self,
        arrival: &Arrival<'_>,
        pending: &PendingInterest<'_>,
        out: &mut Outbox,
    ) {
        if self.data.tier.is_some() && self.tier_lookup(arrival, pending) {
            return;
        }
        match arrival.next_hop {
            // The application has chosen: no strategy is asked (NDNLPv2, "Consumer Controlled
            // Forwarding").
            Some(chosen) => self.dispatch_to_strategy(arrival, pending, out, |_, decision| {
                decision.send_to_chosen(chosen)
            }),
            None => self.dispatch_to_strategy(arrival, pending, out, |strategy, decision| {
                strategy.on_interest(decision)
            }),
        }
    }

    /// Makes room in a full PIT: the face that holds the most entries loses one.
    fn make_room_in_pit(&mut self, now: Time, face: FaceId, interest: &Interest<'_>) {
        let mut shared = 0;
        while self.data.pit.is_full_for(interest) && shared < limits::SHARED_ENTRIES_TO_MAKE_ROOM {
            let Some((from, slot)) = self.data.pit.take_from(face) else {
                return;
            };
            self.count_drop(from, DropReason::PitFull);
            self.data.unsatisfied += 1;
            match slot {
                Some(slot) => self.on_interest_finalize(now, slot),
                None => shared += 1,
            }
        }
    }

    /// Returns the hash under which an Interest is pending and cached Data is found: that of its
    /// name without an implicit digest.
    pub(crate) fn hash_of(&self, name: NameRef<'_>) -> u64 {
        let (name, _) = name.strip_implicit_digest();
        self.data.hasher.hash(name.as_bytes())
    }

    /// Returns true if another Interest, pending or dead, had the same nonce: the Interest is in a
    /// loop. `peer` is the face that it comes from, if that face has only one peer.
    pub(crate) fn is_duplicate(
        &mut self,
        now: Time,
        hash: u64,
        nonce: u32,
        peer: Option<FaceId>,
        pending: Option<u32>,
    ) -> bool {
        if self.data.dead_nonces.contains(now, hash, nonce) {
            return true;
        }
        let Some(slot) = pending else { return false };
        let entry = self.data.pit.entry(slot);
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

    fn set_in_record(&mut self, slot: u32, record: InRecord) -> Result<(), Dropped> {
        let entry = self.data.pit.entry_mut(slot);
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
            None if entry.in_records.len() < limits::RECORDS_PER_ENTRY => {
                entry.in_records.push(record)
            }
            None => return Err(Dropped::new(DropReason::PitFull)),
        }
        let last = self.data.pit.entry(slot).last_expiry();
        self.data.pit.set_timer(slot, last);
        Ok(())
    }

    /// Removes a pending Interest, and inserts the nonces that it sent into the dead nonce list.
    pub(crate) fn on_interest_finalize(&mut self, now: Time, slot: u32) {
        let entry = self.data.pit.entry(slot);
        // A request to the second tier left no node, and cannot come back.
        for record in entry
            .out_records
            .iter()
            .filter(|record| record.face != FaceId::CONTENT_STORE)
        {
            self.data
                .dead_nonces
                .insert(now, entry.name_hash(), record.nonce);
        }
        self.data.pit.remove(slot);
    }
}

pub(crate) fn is_waiting(now: Time, entry: &PitEntry) -> bool {
    entry
        .in_records
        .iter()
        .any(|record| !record.expires.has_passed(now))
}
