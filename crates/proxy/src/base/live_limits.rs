//! `[http.timeouts]` and `[http.limits]`, which a reload replaces, and the places that they bound.

use crate::base::fair_places::FairPlaces;
use crate::base::http_limits::HttpLimits;
use crate::base::places::Places;
use crate::base::timeouts::Timeouts;
use std::sync::{Arc, PoisonError, RwLock};

/// The limits of new connections and requests. Those in progress keep what they began with.
pub(crate) struct LiveLimits {
    current: RwLock<(Timeouts, HttpLimits)>,
    /// Places for client connections.
    pub(crate) connections: Arc<Places>,
    /// Places for requests without a body at the origins, as many as for connections. Those that
    /// others may wait for continue when their client leaves, so the bound on clients does not
    /// bound them. Further ones wait, and leave with their client.
    pub(crate) requests: Arc<FairPlaces>,
    /// Places for requests with a body.
    pub(crate) uploads: Arc<FairPlaces>,
    /// Places for connections with another protocol.
    pub(crate) upgrades: Arc<Places>,
}

impl LiveLimits {
    pub(crate) fn new(timeouts: Timeouts, limits: HttpLimits) -> Arc<LiveLimits> {
        Arc::new(LiveLimits {
            current: RwLock::new((timeouts, limits)),
            connections: Places::new(limits.connections),
            requests: FairPlaces::new(limits.connections),
            uploads: FairPlaces::new(limits.uploads),
            upgrades: Places::new(limits.upgrades),
        })
    }

    /// Replaces them.
    pub(crate) fn set(&self, timeouts: Timeouts, limits: HttpLimits) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = (timeouts, limits);
        self.connections.set(limits.connections);
        self.requests.set(limits.connections);
        self.uploads.set(limits.uploads);
        self.upgrades.set(limits.upgrades);
    }

    pub(crate) fn current(&self) -> (Timeouts, HttpLimits) {
        *self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        self.current().0
    }
}
