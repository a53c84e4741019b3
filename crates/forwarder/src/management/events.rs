//! The notification stream `faces/events`: one Data an event, numbered; subscribers wait for the
//! next (NFD wiki, "Notification").
//!
//! Events are remembered for a while, so that who asks for the next one by its number misses none
//! that came in between.

use super::Outcome;
use crate::face::{FaceConfig, FaceId, Scope};
use crate::forwarder::Forwarder;
use crate::limits::FACE_EVENTS;
use crate::outbox::Outbox;
use bytes::Bytes;
use larder_packet::mgmt::{Element, FaceEventNotification};
use larder_packet::{DataBuilder, DigestSigner, Interest, Name, types};
use larder_units::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// For so long an event answers who asks for whatever is new.
const FRESHNESS: Duration = Duration::from_secs(1);

/// What happened to a face; the numbers are the protocol's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FaceEvent {
    Created = 1,
    Destroyed = 2,
}

/// The events of late.
#[derive(Default)]
pub(crate) struct Events {
    recent: VecDeque<(Time, FaceEventNotification)>,
    /// The number of the first of them.
    first: u64,
    /// How many of them, at the end, have not been published.
    unpublished: usize,
    /// Whether somebody may be waiting.
    awaited: bool,
}

impl Events {
    pub(crate) fn push(&mut self, now: Time, event: FaceEvent, id: FaceId, config: &FaceConfig) {
        let notification = FaceEventNotification {
            kind: event as u64,
            face_id: id.0,
            uri: config.uri.clone(),
            local_uri: config.local_uri.clone(),
            scope: u64::from(config.scope == Scope::Local),
            persistency: config.persistency.code(),
            link_type: config.link_type as u64,
            flags: config.flags(),
        };
        self.recent.push_back((now, notification));
        self.unpublished += 1;
        if self.recent.len() > FACE_EVENTS {
            self.recent.pop_front();
            self.first += 1;
            self.unpublished = self.unpublished.min(self.recent.len());
        }
    }

    /// Whether there is something to tell to somebody.
    pub(crate) fn is_due(&self) -> bool {
        self.awaited && self.unpublished > 0
    }

    fn next(&self) -> u64 {
        self.first + self.recent.len() as u64
    }

    fn data(&self, number: u64) -> Option<Bytes> {
        let (_, notification) = self.recent.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        let mut name = stream_name();
        name.push_sequence(number);
        let content = notification.encode();
        let builder = DataBuilder::new(&name).freshness(FRESHNESS).content(&content);
        builder.build(&DigestSigner).ok().map(Bytes::from)
    }
}

fn stream_name() -> Name {
    let mut name = Name::root();
    for component in ["localhost", "nfd", "faces", "events"] {
        name.push_generic(component.as_bytes());
    }
    name
}

impl Forwarder {
    pub(super) fn on_events(&mut self, now: Time, interest: &Interest<'_>) -> Outcome {
        let name = interest.name;
        // Neither has an event that would be its Data.
        if name.component_count() > super::PREFIX_COMPONENTS + 1
            || (name.component_count() == super::PREFIX_COMPONENTS && !interest.can_be_prefix)
        {
            return Outcome::Unknown;
        }
        let events = &mut self.management.events;
        let next = events.next();
        let asked = name.component(super::PREFIX_COMPONENTS);
        let number = match asked {
            // Whatever is new: the last event, if it is.
            None => next.checked_sub(1).filter(|last| {
                let last = events.recent.get((last - events.first) as usize);
                last.is_some_and(|(at, _)| now.since(*at) < FRESHNESS)
            }),
            Some(component) if component.typ == types::SEQUENCE_NUM => component.as_number(),
            Some(_) => return Outcome::Unknown,
        };
        match number {
            Some(number) if number < next => events.data(number).map_or(Outcome::Unknown, Outcome::Answer),
            _ => {
                if !std::mem::replace(&mut events.awaited, true) {
                    // What happened before anybody listened is news to nobody.
                    events.unpublished = 0;
                }
                Outcome::Wait
            }
        }
    }

    /// Tells who waits what has happened.
    pub(crate) fn publish_events(&mut self, now: Time, out: &mut Outbox) {
        let next = self.management.events.next();
        let new = std::mem::take(&mut self.management.events.unpublished) as u64;
        for number in next - new..next {
            if let Some(data) = self.management.events.data(number) {
                self.publish(now, data, out);
            }
        }
    }
}
