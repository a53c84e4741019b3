//! The notification stream `faces/events`: one numbered Data per event. Subscribers wait for the
//! next one (NFD wiki, "Notification").
//!
//! Larder keeps the latest events. A subscriber that requests each event by its number misses none
//! of those that came between two requests.

use super::{Outcome, publish};
use crate::control::events::{Events, FRESHNESS};
use crate::data_plane::DataPlane;
use crate::outbox::Outbox;
use larder_packet::{Interest, types};
use larder_units::Time;

/// Processes an Interest for the next event, or for one by its number.
pub(super) fn on_events(events: &mut Events, now: Time, interest: &Interest<'_>) -> Outcome {
    let name = interest.name;
    // No event has such a name.
    if name.component_count() > super::PREFIX_COMPONENTS + 1
        || (name.component_count() == super::PREFIX_COMPONENTS && !interest.can_be_prefix)
    {
        return Outcome::Unknown;
    }
    let next = events.next();
    let asked = name.component(super::PREFIX_COMPONENTS);
    let number = match asked {
        // Without a number, the Data is the last event if it is new.
        None => next.checked_sub(1).filter(|last| {
            let last = events.recent.get((last - events.first) as usize);
            last.is_some_and(|(at, _)| now.since(*at) < FRESHNESS)
        }),
        Some(component) if component.typ == types::SEQUENCE_NUM => component.as_number(),
        Some(_) => return Outcome::Unknown,
    };
    match number {
        Some(number) if number < next => events
            .data(number)
            .map_or(Outcome::Unknown, Outcome::Answer),
        _ => {
            if !std::mem::replace(&mut events.awaited, true) {
                // Events before the first subscription are not published.
                events.unpublished = 0;
            }
            Outcome::Wait
        }
    }
}

/// Sends new events to the subscribers that wait.
pub(crate) fn publish_events(
    plane: &mut DataPlane,
    events: &mut Events,
    now: Time,
    out: &mut Outbox,
) {
    let next = events.next();
    let new = std::mem::take(&mut events.unpublished) as u64;
    for number in next - new..next {
        if let Some(data) = events.data(number) {
            publish(plane, now, data, out);
        }
    }
}
