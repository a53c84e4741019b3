//! The path of Data: finds the consumers that wait, decides whether to store it, and sends it to
//! all of them.

use super::link_service::{Arrival, is_localhost};
use crate::drop_reason::{DropReason, Dropped};
use crate::face::FaceId;
use crate::forwarder::{Forwarder, Scratch};
use crate::limits;
use crate::outbox::Outbox;
use crate::tier::Record;
use crate::verification::Verdict;
use larder_packet::{Data, LpHeader};
use larder_units::Time;

impl Forwarder {
    /// Processes Data. `hash` is of its name.
    pub(crate) fn on_data(
        &mut self,
        arrival: &Arrival<'_>,
        data: &Data<'_>,
        hash: u64,
        out: &mut Outbox,
    ) -> Result<(), Dropped> {
        let is_localhost = is_localhost(data.name);
        if !arrival.local && is_localhost {
            return Err(Dropped::new(DropReason::Scope));
        }
        let now = arrival.now;
        let Scratch { prefixes, found, asked, .. } = &mut self.scratch;
        self.pit.matches(&self.hasher, hash, data, prefixes, found);
        // Only an upstream that was asked may answer. The answer is then for all consumers of this
        // name.
        let asked_here =
            |slot: &u32| self.pit.entry(*slot).out_records.iter().any(|record| record.face == arrival.face);
        if !found.iter().any(asked_here) {
            return Err(Dropped::new(DropReason::Unsolicited));
        }
        let from_tier = arrival.face == FaceId::CONTENT_STORE;
        if from_tier && data.freshness.is_none() {
            // Another consumer may have asked upstream for the same Data, but fresh.
            found.retain(|slot| !self.pit.entry(*slot).must_be_fresh());
        }
        asked.clear();
        asked.extend(found.iter().map(|slot| self.pit.entry(*slot).name_hash()));
        let place = self.paths.as_ref().and_then(|paths| Some(paths.of_data(arrival.header.path, *found.first()?)));
        if !arrival.header.no_cache && !is_localhost {
            let path = place.as_ref().map(|place| &place.path);
            let (rules, started) = (&mut self.verification, self.started);
            let mut judge = || match rules {
                None => Verdict::Trusted,
                Some(rules) => rules.judge(now, (started + now.since(Time::ZERO)).as_secs(), data),
            };
            let verdict = match &mut self.tier {
                Some(tier) if !from_tier && self.content_store.admits => {
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
            self.content_store.insert(now, hash, data, asked.iter().copied(), path, judge);
        }
        let found = std::mem::take(&mut self.scratch.found);
        let first = out.sends.len();
        for (number, slot) in found.iter().enumerate() {
            // The tier is no next hop, and no strategy knows the Interests that wait for it.
            let told = match from_tier || self.pit.entry(*slot).waits_for_tier() {
                true => None,
                false => self.measure(*slot, |strategy, entry| strategy.on_data(now, arrival.face, entry)),
            };
            let told = told.unwrap_or_default();
            let mark = arrival.header.congestion_mark.or(told.mark.then_some(1));
            let rate = [arrival.header.interest_rate, told.rate].into_iter().flatten().min();
            for consumer in &self.pit.entry(*slot).in_records {
                // A consumer that asked twice, with selectors and without, gets one.
                let again = number > 0
                    && (out.sends[first..].iter().rev().take(limits::REPEATS_LOOKED_FOR))
                        .any(|sent| sent.face == consumer.face && sent.header.pit_token == consumer.token);
                // The sender does not need the Data back, except on a multicast face, where other
                // listeners may have missed it.
                let has_it = consumer.face == arrival.face && !self.faces.is_ad_hoc(consumer.face);
                if consumer.expires.has_passed(now) || has_it {
                    self.unsatisfied += 1;
                    continue;
                }
                self.satisfied += 1;
                if !again {
                    let header = out.push(consumer.face, arrival.source.body());
                    (header.pit_token, header.congestion_mark, header.interest_rate) = (consumer.token, mark, rate);
                    self.tell_incoming(header, consumer.face, arrival.face);
                    if let Some(place) = &place {
                        header.path = self.path_to(consumer.face, Some(place.told));
                    }
                }
            }
            self.finish(now, *slot);
        }
        self.scratch.found = found;
        Ok(())
    }

    /// The header of a packet to `face` has the face `incoming` that it came from, if that may be
    /// shown.
    #[inline]
    pub(crate) fn tell_incoming(&self, header: &mut LpHeader, face: FaceId, incoming: FaceId) {
        if self.faces.local_fields(face) {
            header.incoming_face = Some(incoming.0);
        }
    }
}
