//! The queries of management to the other shards: their counters, their stored objects, and the
//! erasure of stored objects. The Content Store's second tier is asked to make an erasure durable.
//! The command or dataset pends in the meantime, as a `faces/create` does.

use super::datasets::{is_of_whole_dataset, on_dataset, render};
use super::managed_forwarder::{DatasetFn, ManagedForwarder};
use super::{Outcome, dataset_of, ok, publish, refusal, respond};
use crate::control::shard_queries::{Goal, PendingQuery, Report, ShardQuery};
use crate::control_plane::ControlPlane;
use crate::data_plane::DataPlane;
use crate::drop_reason::{DropReason, Dropped};
use crate::limits::SHARD_QUERIES;
use crate::outbox::{HostRequest, Outbox};
use crate::pipeline::link_service::Arrival;
use larder_packet::{Interest, NameRef};
use larder_units::Time;

/// A dataset of all shards: its function, and the query for the others.
#[derive(Clone, Copy)]
pub(super) struct DatasetOfAll {
    pub(super) function: DatasetFn,
    /// `None` if the others have nothing to add.
    pub(super) question: fn(NameRef<'_>) -> Option<ShardQuery>,
}

/// Returns the query that most datasets have for the other shards.
pub(super) fn figures(_: NameRef<'_>) -> Option<ShardQuery> {
    Some(ShardQuery::Figures)
}

/// Processes an Interest for a dataset that needs the figures of all shards.
pub(super) fn on_dataset_of_all(
    plane: &mut DataPlane,
    control: &mut ControlPlane,
    arrival: &Arrival<'_>,
    interest: &Interest<'_>,
    dataset: DatasetOfAll,
    out: &mut Outbox,
) -> Result<Outcome, Dropped> {
    let asks = control.shard.manages() && is_of_whole_dataset(interest);
    let question = asks.then(|| (dataset.question)(interest.name)).flatten();
    let Some(question) = question else {
        let now = arrival.now;
        return Ok(on_dataset(plane, control, now, interest, dataset.function));
    };
    let shard_queries = &mut control.management.shard_queries;
    if shard_queries.waiting.len() >= SHARD_QUERIES {
        return Err(Dropped::new(DropReason::PitFull));
    }
    let others = 1..control.shard.of();
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

/// Answers a query of the first shard.
pub(crate) fn report(
    plane: &mut DataPlane,
    control: &ControlPlane,
    now: Time,
    question: ShardQuery,
) -> Report {
    match question {
        ShardQuery::Figures => {
            let faces = plane
                .face_stats()
                .into_iter()
                .map(|face| (face.id, face.counters))
                .collect();
            Report::Figures(
                Box::new(control.stats(plane)),
                faces,
                plane.figures_by_prefix(usize::MAX),
            )
        }
        ShardQuery::Stored(prefix) => Report::Stored(plane.stored_under(now, prefix.as_name())),
        ShardQuery::Erase(prefix, most, client) => {
            let (erased, more) = plane
                .content_store
                .erase(now, client, prefix.as_name(), most);
            Report::Erased(erased, more)
        }
    }
}

/// Takes another shard's answer to a [`HostRequest::Ask`]. After the last answer, the response to
/// the command or dataset is in `out`.
pub(crate) fn on_report(
    plane: &mut DataPlane,
    control: &mut ControlPlane,
    now: Time,
    ticket: u64,
    report: Report,
    out: &mut Outbox,
) {
    let waiting = &mut control.management.shard_queries.waiting;
    let Some(PendingQuery { from, name, goal }) = waiting.remove(&ticket) else {
        return;
    };
    match (goal, report) {
        (Goal::Erase { shard, so_far }, Report::Erased(erased, more)) => {
            let so_far = so_far.with(erased, more);
            let mut managed = ManagedForwarder::new(plane, control);
            let done = managed.go_on_erasing(from, name.as_name(), shard, so_far, out);
            if let Some(done) = done {
                let response = ok(done.answer()).encode();
                respond(plane, now, from, name.as_name(), &response, out);
            }
        }
        (Goal::Settle { done }, Report::Settled(result)) => {
            let response = match result {
                Ok(()) => ok(done.answer()),
                Err(why) => refusal((504, why)),
            };
            respond(plane, now, from, name.as_name(), &response.encode(), out);
        }
        (Goal::Dataset { mut said, left }, report) => {
            said.push(report);
            if left > 1 {
                let goal = Goal::Dataset {
                    said,
                    left: left - 1,
                };
                waiting.insert(ticket, PendingQuery { from, name, goal });
                return;
            }
            control.management.shard_queries.said = said;
            let first = dataset_of(name.as_name())
                .and_then(|function| render(plane, control, now, name.as_name(), function));
            control.management.shard_queries.said.clear();
            if let Some(data) = first {
                publish(plane, now, data, out);
            }
        }
        (Goal::Erase { .. } | Goal::Settle { .. }, _) => {}
    }
}
