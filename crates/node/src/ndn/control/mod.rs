//! What the operator sets and sees: the settings that a reload changes, the status page and the
//! metrics.

mod metrics;
pub(crate) mod settings;
pub(crate) mod snapshot;
mod status;
