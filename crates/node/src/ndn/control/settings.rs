//! SIGHUP on the NDN side: replaces the settings of the old configuration by those of the new one.
//! Settings that management has changed stay if the file has not changed them.

use crate::config::WebOrigins;
use crate::config::{NdnConfig, RouteTarget};
use crate::ndn::bounds::Bounds;
use crate::ndn::error::NdnError;
use crate::ndn::faces::upstream::Upstream;
use crate::ndn::transport::new_listeners::NewListeners;
use larder_forwarder::{Rule, VerifyRule};
use larder_packet::Name;
use larder_policy::Spec;
use larder_units::ByteSize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The settings that can change while the node runs.
pub(crate) struct Reload {
    /// True when it is being applied, or will not be any more.
    pub(crate) begun: Arc<AtomicBool>,
    pub(crate) settings: Settings,
    pub(crate) rules: Vec<Rule>,
    pub(crate) verification: Vec<VerifyRule>,
    pub(crate) regions: Vec<Name>,
    pub(crate) readvertise: bool,
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) listeners: NewListeners,
    /// The web pages that may connect.
    pub(crate) origins: Arc<WebOrigins>,
    pub(crate) bounds: Bounds,
}

/// The part that is compared with the former settings.
pub(crate) struct Settings {
    pub(crate) content_store: ByteSize,
    pub(crate) policy: Spec,
    pub(crate) strategies: Vec<(Name, Name)>,
    pub(crate) count_by: usize,
}

impl Settings {
    pub(crate) fn of(config: &NdnConfig) -> Self {
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
    pub(crate) fn new(config: &NdnConfig, listeners: NewListeners) -> Result<Self, NdnError> {
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
pub(crate) fn udp_is_off(target: &RouteTarget) -> Option<NdnError> {
    let is_udp = matches!(target, RouteTarget::Udp(_));
    is_udp.then(|| NdnError::UdpIsOff(target.clone()))
}
