//! The configurations of the HTTP cache and of the gateway, from the tables of the file.

use crate::config::{
    AccessLogTable, Config, GatewayTable, HttpTable, Origin, OriginTable, TlsTable, UpstreamTable,
};
use larder_gateway::NdnOrigin;
use larder_gateway::egress::EgressConfig;
use larder_gateway::ingress::{Ingress, IngressConfig};
use larder_proxy::{HttpConfig, OriginGroup, Upstream};
use std::path::PathBuf;
use std::sync::Arc;

/// Returns the HTTP configuration of the table; `None` if nothing is served by HTTP. `ingress` is
/// the origin over NDN.
pub(crate) fn http(table: &HttpTable, ingress: Option<&Ingress>) -> Option<HttpConfig> {
    let has_tls = table.tls.as_ref().is_some_and(|tls| !tls.listen.is_empty());
    (table.enabled && (has_tls || !table.listen.is_empty())).then(|| http_with(table, ingress))
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
    let tls = table
        .tls
        .as_ref()
        .filter(|tls| table.enabled && !tls.listen.is_empty())
        .map(TlsTable::config);
    HttpConfig {
        listen: if table.enabled {
            table.listen.clone()
        } else {
            Vec::new()
        },
        tls,
        redirect_to_https: table.redirect_to_https,
        trusted_proxies: table
            .trusted_proxies
            .clone()
            .with_fields(table.trusted_headers),
        upstream: match &table.origin {
            Origin::Generated => ingress.map_or(Upstream::Generated, custom),
            Origin::Http(uri) => Upstream::Http(uri.clone()),
            Origin::Files(root) => {
                Upstream::Files(table.files.clone().unwrap_or_default().config(root))
            }
        },
        origins: table.origins.iter().map(origin_group).collect(),
        rules: table.rules.clone(),
        origin_protocol: table.origin_protocol,
        origin_resolve: table.origin_resolve,
        buffer_requests: table.buffer_requests,
        resolver: table.resolver.clone(),
        origin_ca: table.origin_ca.clone(),
        timeouts: table.timeouts,
        limits: table.limits,
        threads: table.threads,
        capacity: table.cache,
        policy: table.policy.clone(),
        max_object: table.max_object,
        slice: table.slice,
        share_cookies: table.share_cookies,
        strict_s_maxage: table.strict_s_maxage,
        variants: table.variants,
        what_if: table.what_if,
        client_no_cache: table.client_no_cache,
        accept_encoding: table.accept_encoding,
        compression: table.compression.clone(),
        targets: table.targets.clone(),
        disk: table.disk.as_ref().map(|disk| disk.behind(table.cache)),
        access_log: table.access_log.as_ref().map(AccessLogTable::config),
        request_id: table.request_id,
    }
}

fn origin_group(table: &OriginTable) -> OriginGroup {
    OriginGroup {
        host: table.host.clone(),
        path: table.path.clone(),
        servers: table.servers.clone(),
        files: table.files(),
        pool: table.pool(),
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
        origin_ca: config.http.origin_ca.clone(),
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
