//! The configurations of the HTTP cache and of the gateway, from the tables of the file.

use crate::config::{
    Config, FleetTable, GatewayTable, HttpTable, Origin, OriginTable, UpstreamTable,
};
use larder_fleet_host::Member;
use larder_gateway::NdnOrigin;
use larder_gateway::egress::EgressConfig;
use larder_gateway::ingress::{Ingress, IngressConfig};
use larder_proxy::{HttpConfig, OriginGroup, Upstream};
use std::path::PathBuf;
use std::sync::Arc;

/// Returns the HTTP configuration of the table; `None` if nothing is served by HTTP. `ingress` is
/// the origin over NDN.
pub(crate) fn http(table: &HttpTable, ingress: Option<&Ingress>) -> Option<HttpConfig> {
    let config = http_with(table, ingress);
    (config.tls.is_some() || !config.listen.is_empty()).then_some(config)
}

/// Returns the configuration of the HTTP side before it has its first listener.
pub(crate) fn http_without_listeners(table: &HttpTable) -> HttpConfig {
    HttpConfig {
        listen: Vec::new(),
        tls: None,
        ..http_with(table, None)
    }
}

/// Returns the configuration of the HTTP side, also without a listener: a reload may remove the
/// last one, or disable HTTP.
pub(crate) fn http_with(table: &HttpTable, ingress: Option<&Ingress>) -> HttpConfig {
    let mut config = table.proxy.clone();
    config.tls = config
        .tls
        .filter(|tls| table.enabled && !tls.listen.is_empty());
    if !table.enabled {
        config.listen = Vec::new();
    }
    config.upstream = match &table.origin {
        Origin::Generated => ingress.map_or(Upstream::Generated, custom),
        Origin::Http(uri) => Upstream::Http(uri.clone()),
        Origin::Files(root) => {
            Upstream::Files(table.files.clone().unwrap_or_default().config(root))
        }
    };
    config.origins = table.origins.iter().map(origin_group).collect();
    let cache = config.cache.capacity;
    config.disk = config.disk.map(|disk| disk.behind(cache));
    config
}

/// Returns the node's part in its fleet, before it starts.
pub(crate) fn member(config: &Config, fleet: &FleetTable) -> Member {
    Member::new(fleet.config(&config.http.proxy))
}

fn origin_group(table: &OriginTable) -> OriginGroup {
    OriginGroup {
        host: table.host.clone(),
        path: table.path.clone(),
        strip_path: table.strip_path,
        servers: table.servers.clone(),
        files: table.files(),
        pool: table.pool,
        check: table.check.clone().map(|path| (path, table.check_every)),
        protocol: table.protocol,
        buffer_requests: table.buffer_requests,
    }
}

fn custom(ingress: &Ingress) -> Upstream {
    Upstream::Custom(Arc::new(NdnOrigin::new(ingress.handle())))
}

/// Returns the configuration of the egress, which reaches this node's forwarder at that socket.
pub(crate) fn egress(config: &Config, table: &GatewayTable, forwarder: PathBuf) -> EgressConfig {
    EgressConfig {
        prefix: table.prefix.clone(),
        origin: table.origin.clone(),
        origin_ca: config.http.proxy.origin_ca.clone(),
        key: table.key(),
        command_key: config.ndn.command_key(),
        memory: table.memory,
        shared_for: table.shared_for,
        forwarder,
    }
}

/// Returns the configuration of the ingress, which reaches this node's forwarder at that socket.
pub(crate) fn ingress(table: &UpstreamTable, forwarder: PathBuf) -> IngressConfig {
    IngressConfig {
        prefix: table.ndn.clone(),
        trust: table.trust(),
        forwarder,
    }
}
