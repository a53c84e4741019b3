//! What the operator sets and sees: the settings that a reload changes, the state and the metrics.

pub(crate) mod metrics;
pub(crate) mod settings;
pub(crate) mod snapshot;
