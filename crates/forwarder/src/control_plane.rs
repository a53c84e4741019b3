//! The control plane: the routes and settings from which the data plane's tables follow, and the
//! state of management.

use crate::config::Config;
use crate::control::Management;
use crate::control::change::Change;
use crate::strategy::StrategyRegistry;
use crate::tables::rib::Rib;
use larder_units::{ByteSize, Streams, Time};

/// The RIB, the settings over all shards, and the state of management.
pub(crate) struct ControlPlane {
    pub(crate) rib: Rib,
    pub(crate) strategy_registry: StrategyRegistry,
    pub(crate) streams: Streams,
    /// Changes for the other shards.
    pub(crate) changes: Vec<Change>,
    /// The Content Store's capacity over all shards.
    pub(crate) capacity: ByteSize,
    pub(crate) management: Management,
    /// The time of the last call.
    pub(crate) clock: Time,
}

impl ControlPlane {
    /// Creates a control plane without routes. The capacity is that over all shards.
    pub(crate) fn new(config: &Config, capacity: ByteSize) -> Self {
        ControlPlane {
            rib: Rib::default(),
            strategy_registry: StrategyRegistry::installed().clone(),
            streams: config.streams,
            changes: Vec::new(),
            capacity,
            management: Management::new(),
            clock: Time::ZERO,
        }
    }
}
