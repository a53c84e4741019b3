//! The queries of management to the other shards: their counters, their stored objects, and the
//! erasure of stored objects. The Content Store's second tier is asked to make an erasure durable.
//! The command or dataset pends in the meantime, as a `faces/create` does.

use super::managed_forwarder::DatasetFn;
use super::{Outcome, Refusal, dataset_of, ok, refusal, response_data};
use crate::control::erasure::Erasure;
use crate::control::shard_queries::{Goal, PendingQuery, Report, ShardQuery};
use crate::drop_reason::{DropReason, Dropped};
use crate::face::{FaceCounters, FaceId};
use crate::forwarder::Forwarder;
use crate::limits::{DATASET_BYTES, SHARD_QUERIES};
use crate::outbox::{HostRequest, Outbox};
use crate::pipeline::link_service::Arrival;
use crate::stats::{FaceStats, Stats, add_face_counters};
use crate::tables::content_store::Entry;
use crate::tables::prefix_figures::PrefixFigures;
use larder_packet::mgmt::CsObject;
use larder_packet::{ControlResponse, Interest, NameRef};
use larder_units::Time;

/// The bytes of the smallest entry of `cs/query` without the value of its name: a TLV with a name,
/// a size, an age and hits.
const LEAST_OBJECT_BYTES: usize = 12;

/// Returns the query that most datasets have for the other shards.
pub(super) fn figures(_: NameRef<'_>) -> Option<ShardQuery> {
    Some(ShardQuery::Figures)
}

impl Forwarder {
    /// Processes an Interest for a dataset that needs the figures of all shards.
    pub(super) fn on_dataset_of_all(
        &mut self,
        arrival: &Arrival<'_>,
        interest: &Interest<'_>,
        function: DatasetFn,
        question: fn(NameRef<'_>) -> Option<ShardQuery>,
        out: &mut Outbox,
    ) -> Result<Outcome, Dropped> {
        let asks = self.data.shard.manages() && Forwarder::is_of_whole_dataset(interest);
        let Some(question) = asks.then(|| question(interest.name)).flatten() else {
            return Ok(self.on_dataset(arrival.now, interest, function));
        };
        let shard_queries = &mut self.control.management.shard_queries;
        if shard_queries.waiting.len() >= SHARD_QUERIES {
            return Err(Dropped::new(DropReason::PitFull));
        }
        let others = 1..self.data.shard.of();
        let goal = Goal::Dataset {
            said: Vec::new(),
            left: others.len(),
        };
        let ticket = shard_queries.add(PendingQuery {
            from: arrival.face,
            name: interest.name.to_name(),
            goal,
        });
        let ask = |shard| HostRequest::Ask {
            ticket,
            shard,
            question: question.clone(),
        };
        out.requests.extend(others.map(ask));
        Ok(Outcome::Wait)
    }

    /// Refuses a command that has to query other shards or the second tier if too many commands
    /// wait already. It is called before the command changes anything.
    pub(super) fn may_ask(&self) -> Result<(), Refusal> {
        if (self.data.shard.manages() || self.data.tier.is_some())
            && self.control.management.shard_queries.waiting.len() >= SHARD_QUERIES
        {
            Err((507, "too many commands wait".to_owned()))
        } else {
            Ok(())
        }
    }

    /// Asks the shard after `shard` to erase what is left. Returns the erasure if no shard is left.
    pub(super) fn ask_next_to_erase(
        &mut self,
        from: FaceId,
        command: NameRef<'_>,
        shard: usize,
        so_far: Erasure,
        out: &mut Outbox,
    ) -> Option<Erasure> {
        let next = shard + 1;
        if next >= self.data.shard.of() || !self.data.shard.manages() {
            return Some(so_far);
        }
        // If nothing is left to erase, the shard still reports whether it has more.
        let question = ShardQuery::Erase(so_far.prefix.clone(), so_far.left(), from);
        let goal = Goal::Erase {
            shard: next,
            so_far,
        };
        let ticket = self.control.management.shard_queries.add(PendingQuery {
            from,
            name: command.to_name(),
            goal,
        });
        out.requests.push(HostRequest::Ask {
            ticket,
            shard: next,
            question,
        });
        None
    }

    /// Asks the second tier to make a complete erasure durable. Returns the erasure if there is no
    /// tier, or if the client has to repeat the command.
    pub(super) fn settle(
        &mut self,
        from: FaceId,
        command: NameRef<'_>,
        done: Erasure,
        out: &mut Outbox,
    ) -> Option<Erasure> {
        if self.data.tier.is_none() || done.goes_on() {
            return Some(done);
        }
        let ticket = self.control.management.shard_queries.add(PendingQuery {
            from,
            name: command.to_name(),
            goal: Goal::Settle { done },
        });
        out.requests.push(HostRequest::SettleTier { ticket });
        None
    }

    /// Answers a query of the first shard.
    pub fn report(&mut self, now: Time, question: ShardQuery) -> Report {
        match question {
            ShardQuery::Figures => {
                let faces = self
                    .face_stats()
                    .into_iter()
                    .map(|face| (face.id, face.counters))
                    .collect();
                Report::Figures(
                    Box::new(self.stats()),
                    faces,
                    self.figures_by_prefix(usize::MAX),
                )
            }
            ShardQuery::Stored(prefix) => Report::Stored(self.stored_under(now, prefix.as_name())),
            ShardQuery::Erase(prefix, most, client) => {
                let (erased, more) =
                    self.data
                        .content_store
                        .erase(now, client, prefix.as_name(), most);
                Report::Erased(erased, more)
            }
        }
    }

    /// Takes another shard's answer to a [`HostRequest::Ask`]. After the last answer, the response
    /// to the command or dataset is in `out`.
    pub fn on_report(&mut self, now: Time, ticket: u64, report: Report, out: &mut Outbox) {
        out.clear();
        self.control.clock = now;
        let Some(PendingQuery { from, name, goal }) = self
            .control
            .management
            .shard_queries
            .waiting
            .remove(&ticket)
        else {
            return;
        };
        match (goal, report) {
            (Goal::Erase { shard, so_far }, Report::Erased(erased, more)) => {
                let so_far = so_far.with(erased, more);
                let Some(done) = self.ask_next_to_erase(from, name.as_name(), shard, so_far, out)
                else {
                    return;
                };
                let Some(done) = self.settle(from, name.as_name(), done, out) else {
                    return;
                };
                self.respond(now, from, name.as_name(), &ok(done.answer()), out);
            }
            (Goal::Settle { done }, Report::Settled(result)) => {
                let response = match result {
                    Ok(()) => ok(done.answer()),
                    Err(why) => refusal((504, why)),
                };
                self.respond(now, from, name.as_name(), &response, out);
            }
            (Goal::Dataset { mut said, left }, report) => {
                said.push(report);
                if left > 1 {
                    let goal = Goal::Dataset {
                        said,
                        left: left - 1,
                    };
                    self.control
                        .management
                        .shard_queries
                        .waiting
                        .insert(ticket, PendingQuery { from, name, goal });
                    return;
                }
                self.control.management.shard_queries.said = said;
                let first = dataset_of(name.as_name())
                    .and_then(|function| self.render(now, name.as_name(), function));
                self.control.management.shard_queries.said.clear();
                if let Some(data) = first {
                    self.publish(now, data, out);
                }
            }
            (Goal::Erase { .. } | Goal::Settle { .. }, _) => {}
        }
        self.count_made_sends(out);
    }

    fn respond(
        &mut self,
        now: Time,
        to: FaceId,
        command: NameRef<'_>,
        response: &ControlResponse,
        out: &mut Outbox,
    ) {
        if let Ok(data) = response_data(command, response) {
            self.remember_command(to, self.hash_of(command), &data);
            self.publish(now, data, out);
        }
    }

    // ---- Figures of all shards, while a dataset is made ----

    pub(super) fn stats_of_all(&self) -> Stats {
        let mut stats = self.stats();
        for (others, _, _) in self.figures_of_others() {
            stats.add_shard(others);
        }
        stats
    }

    pub(super) fn face_stats_of_all(&self) -> Vec<FaceStats> {
        let mut faces = self.face_stats();
        for (_, others, _) in self.figures_of_others() {
            add_face_counters(&mut faces, others);
        }
        faces
    }

    pub(super) fn figures_by_prefix_of_all(&self) -> Vec<PrefixFigures> {
        let own = self.figures_by_prefix(usize::MAX);
        let others = self
            .figures_of_others()
            .flat_map(|(_, _, by_prefix)| by_prefix.iter().cloned());
        PrefixFigures::merged(own.into_iter().chain(others).collect())
    }

    fn figures_of_others(
        &self,
    ) -> impl Iterator<Item = (&Stats, &[(FaceId, FaceCounters)], &[PrefixFigures])> {
        self.control
            .management
            .shard_queries
            .said
            .iter()
            .filter_map(|report| match report {
                Report::Figures(stats, faces, by_prefix) => {
                    Some((&**stats, &faces[..], &by_prefix[..]))
                }
                _ => None,
            })
    }

    pub(super) fn stored_by_others(&self) -> impl Iterator<Item = CsObject> {
        let stored = self
            .control
            .management
            .shard_queries
            .said
            .iter()
            .filter_map(|report| match report {
                Report::Stored(objects) => Some(objects),
                _ => None,
            });
        stored.flatten().cloned()
    }

    /// Returns the objects that this shard stores under a prefix, in no order. If a dataset cannot
    /// hold them all, it returns more than fit.
    pub(super) fn stored_under(&self, now: Time, prefix: NameRef<'_>) -> Vec<CsObject> {
        let mut bytes = 0;
        let entries = self.data.content_store.under(prefix).take_while(|entry| {
            let fits = bytes <= DATASET_BYTES;
            bytes += LEAST_OBJECT_BYTES + entry.name_bytes().len();
            fits
        });
        let object = |entry: &Entry| CsObject {
            name: entry.name().to_name(),
            bytes: entry.packet_bytes() as u64,
            age: now.since(entry.stored),
            fresh: (entry.fresh_until > now).then(|| entry.fresh_until.since(now)),
            hits: entry.hits.into(),
        };
        entries.map(object).collect()
    }
}
