//! SIGHUP on the NDN side: replaces the settings of the old configuration by those of the new one.
//! Settings that management has changed stay if the file has not changed them.

use super::bounds::Bounds;
use super::error::NdnError;
use super::new_listeners::NewListeners;
use super::upstream::Upstream;
use super::websocket::Origins;
use crate::config::{NdnConfig, RouteTarget};
use larder_forwarder::{Rule, VerifyRule};
use larder_packet::Name;
use larder_policy::Spec;
use larder_units::ByteSize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The settings that can change while the node runs.
pub(super) struct Reload {
    /// True when it is being applied, or will not be any more.
    pub(super) begun: Arc<AtomicBool>,
    pub(super) settings: Settings,
    pub(super) rules: Vec<Rule>,
    pub(super) verification: Vec<VerifyRule>,
    pub(super) regions: Vec<Name>,
    pub(super) readvertise: bool,
    pub(super) upstreams: Vec<Upstream>,
    pub(super) listeners: NewListeners,
    /// The web pages that may connect.
    pub(super) origins: Arc<Origins>,
    pub(super) bounds: Bounds,
}

/// The part that is compared with the former settings.
pub(super) struct Settings {
    pub(super) content_store: ByteSize,
    pub(super) policy: Spec,
    pub(super) strategies: Vec<(Name, Name)>,
    pub(super) count_by: usize,
}

impl Settings {
    pub(super) fn of(config: &NdnConfig) -> Self {
        let strategies = config
            .strategies
            .iter()
            .map(|choice| (choice.prefix.clone(), choice.strategy.clone()));
        Settings {
            content_store: config.content_store,
            policy: config.policy.clone(),
            strategies: strategies.collect(),
            count_by: config.count_by,
        }
    }
}

impl Reload {
    /// Reads the reloadable settings of a configuration, with its certificates. `listeners` are
    /// those that change.
    ///
    /// # Errors
    /// One line: the file and its problem.
    pub(super) fn new(config: &NdnConfig, listeners: NewListeners) -> Result<Self, NdnError> {
        Ok(Reload {
            settings: Settings::of(config),
            rules: config.rules().map_err(NdnError::Certificate)?,
            verification: config.verification().map_err(NdnError::Certificate)?,
            regions: config.network_region.clone(),
            readvertise: config.readvertise.is_some(),
            upstreams: Upstream::of(config),
            listeners,
            origins: Arc::new(config.origins()),
            bounds: Bounds::of(config),
            begun: Arc::default(),
        })
    }
}

/// Returns the error for a route over UDP in a node without UDP.
pub(super) fn udp_is_off(target: &RouteTarget) -> Option<NdnError> {
    let is_udp = matches!(target, RouteTarget::Udp(_));
    is_udp.then(|| NdnError::UdpIsOff(target.clone()))
}
