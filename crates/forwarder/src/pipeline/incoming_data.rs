//! Incoming Data: finds the pending Interests, decides whether to store the Data, and passes it to
//! the consumers (`outgoing_data.rs`).

use super::link_service::Arrival;
use crate::drop_reason::{DropReason, Dropped};
use crate::face::FaceId;
use crate::forwarder::Forwarder;
use crate::local_names::is_localhost;
use crate::outbox::Outbox;
use crate::tables::paths::Place;
use crate::tier::Record;
use crate::verification::Verdict;
use larder_packet::Data;
use larder_units::Time;

impl Forwarder {
    /// Processes Data. `hash` is of its name.
    pub(crate) fn on_incoming_data(
        &mut self,
        arrival: &Arrival<'_>,
        data: &Data<'_>,
        hash: u64,
        out: &mut Outbox,
    ) -> Result<(), Dropped> {
        let mut found = std::mem::take(&mut self.data.scratch.found);
        found.clear();
        let waiting = self.find_pit_matches(arrival, data, hash, &mut found);
        if waiting.is_ok() {
            let first_found = found.first().copied();
            let place = self
                .data
                .paths
                .as_ref()
                .and_then(|paths| Some(paths.of_data(arrival.header.path, first_found?)));
            self.insert_content_store(arrival, data, hash, &found, place.as_ref());
            let first = out.sends.len();
            for slot in &found {
                self.on_outgoing_data(arrival, data, *slot, place.as_ref(), first, out);
                self.on_interest_finalize(arrival.now, *slot);
            }
        }
        self.data.scratch.found = found;
        waiting
    }

    /// Appends the pending Interests that the Data answers to `found`.
    ///
    /// # Errors
    /// There are none, or the Data may not be here. `found` is undefined then.
    #[inline]
    pub(crate) fn find_pit_matches(
        &mut self,
        arrival: &Arrival<'_>,
        data: &Data<'_>,
        hash: u64,
        found: &mut Vec<u32>,
    ) -> Result<(), Dropped> {
        if !arrival.local && is_localhost(data.name) {
            return Err(Dropped::new(DropReason::Scope));
        }
        let from = found.len();
        self.data.pit.matches(
            &self.data.hasher,
            hash,
            data,
            &mut self.data.scratch.prefixes,
            found,
        );
        // Only an upstream that was asked may answer. The answer is then for all consumers of this
        // name.
        let asked_here = |slot: &u32| {
            self.data
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
                at <= from || !self.data.pit.entry(*slot).must_be_fresh()
            });
        }
        Ok(())
    }

    /// Stores Data that answers the Interests `found`, if it may be stored and the policy wants it.
    #[inline]
    pub(crate) fn insert_content_store(
        &mut self,
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
        let (rules, started) = (&mut self.data.verification, self.data.started);
        let mut judge = || match rules {
            None => Verdict::Trusted,
            Some(rules) => rules.judge(now, (started + now.since(Time::ZERO)).as_secs(), data),
        };
        let verdict = match &mut self.data.tier {
            Some(tier) if !from_tier && self.data.content_store.admits => {
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
        let pit = &self.data.pit;
        let must_be_fresh = found.iter().all(|slot| pit.entry(*slot).must_be_fresh());
        self.data
            .content_store
            .observe_fetched(now, hash, data, must_be_fresh);
        let asked = found.iter().map(|slot| pit.entry(*slot).name_hash());
        self.data
            .content_store
            .insert(now, hash, data, asked, path, judge);
    }
}

/// Drops Data that no consumer waits for, or that comes from a face that was not asked. It is not
/// stored: NFD calls this policy `drop-all`.
#[cold]
fn on_data_unsolicited() -> Dropped {
    Dropped::new(DropReason::Unsolicited)
}
