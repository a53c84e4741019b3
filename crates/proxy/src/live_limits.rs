//! `[http.timeouts]` and `[http.limits]`, which a reload replaces, and the places that they bound.

use super::fair_places::FairPlaces;
use super::http_limits::HttpLimits;
use super::places::Places;
use super::timeouts::Timeouts;
use std::sync::{Arc, PoisonError, RwLock};

/// The limits of new connections and requests. Those in progress keep what they began with.
pub(super) struct LiveLimits {
    current: RwLock<(Timeouts, HttpLimits)>,
    /// Places for client connections.
    pub(super) connections: Arc<Places>,
    /// Places for requests without a body at the origins, as many as for connections. Those that
    /// others may wait for continue when their client leaves, so the bound on clients does not
    /// bound them. Further ones wait, and leave with their client.
    pub(super) requests: Arc<FairPlaces>,
    /// Places for requests with a body.
    pub(super) uploads: Arc<FairPlaces>,
    /// Places for connections with another protocol.
    pub(super) upgrades: Arc<Places>,
}

impl LiveLimits {
    pub(super) fn new(timeouts: Timeouts, limits: HttpLimits) -> Arc<LiveLimits> {
        Arc::new(LiveLimits {
            current: RwLock::new((timeouts, limits)),
            connections: Places::new(limits.connections),
            requests: FairPlaces::new(limits.connections),
            uploads: FairPlaces::new(limits.uploads),
            upgrades: Places::new(limits.upgrades),
        })
    }

    /// Replaces them.
    pub(super) fn set(&self, timeouts: Timeouts, limits: HttpLimits) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = (timeouts, limits);
        self.connections.set(limits.connections);
        self.requests.set(limits.connections);
        self.uploads.set(limits.uploads);
        self.upgrades.set(limits.upgrades);
    }

    pub(super) fn current(&self) -> (Timeouts, HttpLimits) {
        *self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn timeouts(&self) -> Timeouts {
        self.current().0
    }
}
