//! Resolves the names of servers, and tells how long their addresses hold. Isolates
//! hickory-resolver.
//!
//! A name in `/etc/hosts` has the addresses that it has there. Otherwise name servers are asked:
//! those of `[http] resolver`, or those of `/etc/resolv.conf`, with its search list. Both files are
//! read for each resolution, so a change of them needs no reload.

use super::limits;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::{Hosts, TokioResolver, system_conf};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

/// The name servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Dns {
    /// None: those of the system.
    pub(super) servers: Vec<SocketAddr>,
}

/// The addresses of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The IPv4 addresses; `None` if the name servers failed to tell them.
    pub(super) v4: Option<Vec<IpAddr>>,
    /// The IPv6 addresses; `None` if the name servers failed to tell them.
    pub(super) v6: Option<Vec<IpAddr>>,
    /// The time for which they hold, as the name servers say.
    pub(super) ttl: Duration,
}

/// The reason why a name has no addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotFound {
    /// The name servers say that there are none: NXDOMAIN, or no data.
    NoAddress,
    /// The name servers did not answer, or not usefully: the reason in words.
    Failed(String),
}

impl Dns {
    /// Resolves a name. Takes at most [`limits::RESOLVE`].
    pub(super) async fn resolve(&self, host: &str) -> Result<Found, NotFound> {
        let late = |_| NotFound::Failed(format!("no answer within {:?}", limits::RESOLVE));
        let mut found = tokio::time::timeout(limits::RESOLVE, self.lookup(host)).await.map_err(late)??;
        if let (Some(&[v4, ..]), Some(&[v6, ..])) = (found.v4.as_deref(), found.v6.as_deref()) {
            // RFC 6724 §5, rule 1. The other family may reach the same machines.
            match (has_route(v4), has_route(v6)) {
                (true, false) => found.v6 = Some(Vec::new()),
                (false, true) => found.v4 = Some(Vec::new()),
                _ => {}
            }
        }
        Ok(found)
    }

    async fn lookup(&self, host: &str) -> Result<Found, NotFound> {
        let failed = |error: NetError| NotFound::Failed(error.to_string());
        let name = Name::from_ascii(host).map_err(|error| failed(error.into()))?;
        let servers = self.servers.clone();
        let of_hosts = name.clone();
        // The files may be large, such as a list of blocked hosts.
        let read = tokio::task::spawn_blocking(move || (hosts_file(of_hosts), config(&servers)));
        let (from_hosts, config) = read.await.map_err(|error| NotFound::Failed(error.to_string()))?;
        if let Some(found) = from_hosts {
            return Ok(found);
        }
        let (config, mut options) = config.map_err(failed)?;
        (options.cache_size, options.use_hosts_file) = (0, ResolveHosts::Never);
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = options;
        let resolver = builder.build().map_err(failed)?;
        let (v4, v6) =
            tokio::join!(resolver.lookup(name.clone(), RecordType::A), resolver.lookup(name, RecordType::AAAA));
        found(v4, v6)
    }
}

/// Returns the name servers and their options.
fn config(servers: &[SocketAddr]) -> Result<(ResolverConfig, ResolverOpts), NetError> {
    if servers.is_empty() {
        let of_system = system_conf::read_system_conf();
        return of_system.map_err(|error| NetError::Msg(format!("/etc/resolv.conf: {error}")));
    }
    let server = |address: &SocketAddr| {
        let mut server = NameServerConfig::udp_and_tcp(address.ip());
        server.connections.iter_mut().for_each(|connection| connection.port = address.port());
        server
    };
    let config = ResolverConfig::from_parts(None, Vec::new(), servers.iter().map(server).collect());
    Ok((config, ResolverOpts::default()))
}

/// Returns the addresses of a name in `/etc/hosts`; `None` if it is not there.
fn hosts_file(mut name: Name) -> Option<Found> {
    let hosts = Hosts::from_system().ok()?;
    name.set_fqdn(true);
    let of = |kind| hosts.lookup_static_host(&Query::query(name.clone(), kind)).map(|lookup| addresses(&lookup));
    let (v4, v6) = (of(RecordType::A).unwrap_or_default(), of(RecordType::AAAA).unwrap_or_default());
    let is_there = !v4.is_empty() || !v6.is_empty();
    is_there.then_some(Found { v4: Some(v4), v6: Some(v6), ttl: limits::RESOLVED_LONGEST })
}

fn found(v4: Result<Lookup, NetError>, v6: Result<Lookup, NetError>) -> Result<Found, NotFound> {
    let ttl = |lookup: &Lookup| lookup.answers().iter().map(|record| record.ttl).min();
    let ttls = [v4.as_ref().ok().and_then(ttl), v6.as_ref().ok().and_then(ttl)];
    let ttl = Duration::from_secs(ttls.into_iter().flatten().min().unwrap_or(0).into());
    let is_none = |error: &NetError| error.is_no_records_found();
    // A search list may end at another name for each: the IPv4 addresses decide.
    let other = match (&v4, &v6) {
        (Ok(v4), Ok(v6)) => v4.query().name() != v6.query().name(),
        _ => false,
    };
    let family = |answer: Result<Lookup, NetError>| match answer {
        Ok(lookup) => Ok(Some(addresses(&lookup))),
        Err(error) if is_none(&error) => Ok(Some(Vec::new())),
        Err(error) => Err(error.to_string()),
    };
    let (v4, v6) = match (family(v4), family(v6)) {
        (Ok(v4), Ok(_)) if other => (v4, Some(Vec::new())),
        (Ok(v4), Ok(v6)) => (v4, v6),
        (Ok(v4), Err(reason)) | (Err(reason), Ok(v4)) if v4.iter().flatten().next().is_none() => {
            return Err(NotFound::Failed(reason));
        }
        (Ok(v4), Err(_)) => (v4, None),
        (Err(_), Ok(v6)) => (None, v6),
        (Err(reason), Err(_)) => return Err(NotFound::Failed(reason)),
    };
    if v4.iter().chain(&v6).flatten().next().is_none() {
        return Err(NotFound::NoAddress);
    }
    Ok(Found { v4, v6, ttl })
}

fn addresses(lookup: &Lookup) -> Vec<IpAddr> {
    let address = |data: &RData| match data {
        RData::A(address) => Some(IpAddr::from(address.0)),
        RData::AAAA(address) => Some(IpAddr::from(address.0)),
        _ => None,
    };
    lookup.answers().iter().filter_map(|record| address(&record.data)).collect()
}

/// Returns true if this machine has a route to an address. Sends nothing.
fn has_route(address: IpAddr) -> bool {
    let local: SocketAddr = match address {
        IpAddr::V4(_) => ([0; 4], 0).into(),
        IpAddr::V6(_) => ([0; 16], 0).into(),
    };
    UdpSocket::bind(local).and_then(|socket| socket.connect((address, 80))).is_ok()
}
