//! The face events of late.

use crate::face::{FaceConfig, FaceId, Scope};
use crate::limits::FACE_EVENTS;
use bytes::Bytes;
use larder_packet::mgmt::{Element, FaceEventNotification};
use larder_packet::{DataBuilder, DigestSigner, Name};
use larder_units::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// The FreshnessPeriod of an event. A request without a number gets the last event for this time.
pub(crate) const FRESHNESS: Duration = Duration::from_secs(1);

/// The kind of an event, with the protocol's numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FaceEvent {
    Created = 1,
    Destroyed = 2,
}

/// The events of late.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) recent: VecDeque<(Time, FaceEventNotification)>,
    /// The number of the first of them.
    pub(crate) first: u64,
    /// The number of events, at the end of the list, that have not been published.
    pub(crate) unpublished: usize,
    /// True if a subscriber may be waiting.
    pub(crate) awaited: bool,
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

    /// Returns true if there are events to publish, and perhaps a subscriber.
    pub(crate) fn is_due(&self) -> bool {
        self.awaited && self.unpublished > 0
    }

    pub(crate) fn next(&self) -> u64 {
        self.first + self.recent.len() as u64
    }

    pub(crate) fn data(&self, number: u64) -> Option<Bytes> {
        let (_, notification) = self
            .recent
            .get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        let mut name = stream_name();
        name.push_sequence(number);
        let content = notification.encode();
        let builder = DataBuilder::new(&name)
            .freshness(FRESHNESS)
            .content(&content);
        builder.build(&DigestSigner).ok().map(Bytes::from)
    }
}

pub(crate) fn stream_name() -> Name {
    let mut name = Name::root();
    for component in ["localhost", "nfd", "faces", "events"] {
        name.push_generic(component.as_bytes());
    }
    name
}
