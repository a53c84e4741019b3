//! The HTTP side of the node: a caching reverse proxy, a thread a core, and the admin server on one
//! more.
//!
//! ```text
//!  clients ──► listen ──► proxy ──► larder_http::Cache (one look-up; a hit copies no body; a plain one is answered before hyper sees it: plain)
//!                           │
//!                           ├─ miss ─► upstream ─► a connection to a server (connections), a far node, or the generated origin in this process
//!                           │            └─ collect: the body into the cache, and beside it to all who asked meanwhile
//!                           └─ the same miss once more: follow
//! ```
//!
//! Each thread runs a single-threaded runtime: a connection stays with the thread that accepted it,
//! and so do the connections to the origin that its requests use (`threads.rs`, `connections.rs`).
//! The cache is one, behind a mutex that nobody holds across an await or while a body is copied: so
//! purges, tags, the disk tier, followers and the policy are the same for any number of threads.
//! Long work of the policy (AdaptSize's search) runs on the runtime's blocking threads.
//!
//! # Towards the origin
//! The client's `Host` is passed on as it is keyed: in small letters, without port 80.
//! `X-Forwarded-For` gets the client's address appended, so its last entry is the one to trust.
//! `X-Forwarded-Host` and `X-Forwarded-Proto` are overwritten, and other fields that frameworks
//! take for the target are removed (a list in `upstream_request.rs`): they are not part of the key,
//! so what they select must not be stored under it.
//!
//! A request that comes back to this cache, by `CDN-Loop`, or has our name eight times there or in
//! `Via`, goes round in a circle and gets 508 (`round_trip.rs`); `Max-Forwards` of OPTIONS and
//! TRACE is counted (`max_forwards.rs`).
//!
//! # What is missing
//! HTTP/2 without TLS, and towards the origin, protocol upgrades (`Upgrade` is removed, so
//! WebSockets do not pass; a 101 that nobody asked for is no response), and interim responses
//! towards clients of HTTP/2 (hyper's server sends none; `interim.rs` has those of HTTP/1.1).

pub mod admin;
mod assemble;
mod body;
mod client_stream;
mod connections;
mod disk;
mod exchanges;
mod framing;
mod header_limits;
mod host_pattern;
mod http2;
mod informational;
pub mod limits;
pub(crate) mod listen;
mod loop_detection;
mod max_forwards;
mod ndn_origin;
mod origin;
mod origin_server;
mod plain;
mod proxy;
mod purge;
mod send_timeout;
mod servers;
mod service;
mod slow_client;
mod status;
mod streamed;
mod streams;
mod threads;
mod timeouts;
mod tls;
mod trust;
mod upstream;
mod upstream_request;

pub use admin::{Admin, Metrics, StatusSource};
pub use header_limits::HeaderLimits;
pub use origin_server::OriginServer;
pub use purge::Purging;
pub use timeouts::Timeouts;
pub use tls::TlsConfig;

pub(crate) use body::{OriginBody, Upload};
pub(crate) use connections::Server;
pub(crate) use host_pattern::HostPattern;
pub(crate) use trust::Trust;

use crate::disk::DiskConfig;
use crate::preflight::Preflight;
use larder_policy::{Spec, SpecError};
use larder_units::{ByteSize, Streams};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tls::Identity;
use tokio::sync::oneshot;
use upstream::Origins;

/// How to serve HTTP.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Where clients connect by HTTP; port 0 takes a free one. `None` where they connect by TLS
    /// only.
    pub listen: Option<SocketAddr>,
    /// Where they connect by TLS, if anywhere.
    pub tls: Option<TlsConfig>,
    /// Where responses come from that none of `origins` is for.
    pub upstream: Upstream,
    /// Origins for some hosts and paths; the first that fits is asked, or where that has a `*`, the
    /// one that fits best.
    pub origins: Vec<OriginGroup>,
    /// PEM file of the certificates that lead to those of `https://` origins; `None` for the
    /// system's.
    pub origin_ca: Option<PathBuf>,
    /// How long each step of a request may take.
    pub timeouts: Timeouts,
    /// How much a header block may hold.
    pub header_limits: HeaderLimits,
    /// Request threads, up to [`limits::THREADS`]; 0: one a core.
    pub threads: usize,
    /// Capacity of the cache.
    pub capacity: ByteSize,
    /// Its policies.
    pub policy: Spec,
    /// The largest body that is stored.
    pub max_object: ByteSize,
    /// Bodies that are asked for in ranges are fetched and stored in parts of this size; 0: only
    /// whole.
    pub slice: ByteSize,
    /// Responses with `Set-Cookie` are stored where their `Cache-Control` allows it.
    pub share_cookies: bool,
    /// What a client's `no-cache` does.
    pub client_no_cache: ClientNoCache,
    /// Response fields that speak to this cache (RFC 9213), the most telling first.
    pub targets: Vec<::http::HeaderName>,
    /// The disk tier, where there is one.
    pub disk: Option<DiskConfig>,
}

/// What a client's `Cache-Control: no-cache` or `max-age=0` (a reload) does.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ClientNoCache {
    /// The origin is asked (RFC 9111 §5.2.1).
    #[default]
    Obey,
    /// What is fresh answers it.
    Ignore,
}

/// Where responses come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// Objects made on the fly, in this process.
    Generated,
    /// `http://host:port`, or with `https`.
    Http(::http::Uri),
    /// A far node, over NDN.
    Named(Arc<crate::gateway::ingress::Handle>),
}

/// `[[http.origins]]`: servers that have the same, for a host and the paths under a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginGroup {
    /// As it is keyed: in small letters, without the scheme's own port. Without a port it is for
    /// every port; `*.` and a domain is for all hosts below. `None` for all.
    pub host: Option<String>,
    /// Paths begin so, as they are sent: nothing is decoded.
    pub path: String,
    /// `http://host:port` or `https://host:port`, 1 to 64 of them.
    pub servers: Vec<::http::Uri>,
    /// A path that healthy servers answer with a status below 400, and how often it is asked for.
    pub check: Option<(::http::uri::PathAndQuery, Duration)>,
}

/// The running HTTP side.
pub struct Http {
    local: Option<SocketAddr>,
    local_tls: Option<SocketAddr>,
    /// One of each thread.
    stops: Vec<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    source: Arc<status::CacheSource>,
    proxy: Arc<proxy::Proxy>,
    tls_identity: Option<Arc<Identity>>,
    timeouts: Timeouts,
    header_limits: HeaderLimits,
}

/// What [`Http::reload`] has read.
pub struct HttpReload {
    origins: Origins,
    identity: Option<rustls::ServerConfig>,
}

/// The way to the origins of a cache that listens at `local`; what is as it was in `before` is
/// taken over.
fn origins(config: &HttpConfig, local: Option<SocketAddr>, before: Option<&Origins>) -> Result<Origins, String> {
    match own_origins(config, local).into_iter().next() {
        Some(problem) => Err(problem),
        None => Origins::new(config, before),
    }
}

/// One line for each origin that is a listener of this cache itself.
fn own_origins(config: &HttpConfig, local: Option<SocketAddr>) -> Vec<String> {
    let fallback = match &config.upstream {
        Upstream::Generated | Upstream::Named(_) => None,
        Upstream::Http(origin) => Some(("[http] origin", origin)),
    };
    let servers = config.origins.iter().flat_map(|origin| &origin.servers);
    let servers = servers.map(|server| ("[[http.origins]] servers", server));
    let tls = config.tls.as_ref().map(|tls| ("[http.tls]", tls.listen));
    let listeners: Vec<_> = local.map(|local| ("[http]", local)).into_iter().chain(tls).collect();
    let own = |(setting, origin): (&str, &::http::Uri)| {
        let (listener, _) = listeners.iter().find(|(_, listener)| loop_detection::leads_to(origin, *listener))?;
        Some(format!("{setting}: {origin} is {listener} listen itself; set it to the server behind this cache"))
    };
    servers.chain(fallback).filter_map(own).collect()
}

/// Tries what [`Http::start`] does with listeners, certificates and origins.
pub(crate) fn check(config: &HttpConfig, preflight: &mut Preflight) {
    let tls = config.tls.as_ref().map(|tls| ("[http.tls] listen", tls.listen));
    for (setting, address) in config.listen.map(|listen| ("[http] listen", listen)).into_iter().chain(tls) {
        preflight.listen(setting, address);
    }
    preflight.add(config.tls.as_ref().and_then(|tls| tls::read(tls).err()));
    let own = own_origins(config, config.listen);
    if own.is_empty() {
        preflight.add(Origins::new(config, None).err());
    }
    own.into_iter().for_each(|problem| preflight.add(Some(problem)));
}

impl Http {
    /// Listens, and serves on threads of its own. `on_end` is called when the first of them ends,
    /// for whatever reason.
    ///
    /// # Errors
    /// One line that names the setting and what is wrong with it.
    pub fn start(config: &HttpConfig, on_end: impl FnOnce() + Send + 'static) -> Result<Http, String> {
        let listener = config.listen.map(|address| bind_at("[http] listen", address)).transpose()?;
        let origins = origins(config, listener.as_ref().map(|(_, local)| *local), None)?;
        let [seed] = crate::entropy::words();
        let streams = Streams::new(seed);
        let disk = config.disk.as_ref().map(|config| disk::start(config, &streams)).transpose()?;
        let started = Http::serve(config, listener, origins, disk.clone(), &streams, on_end);
        if let (Err(_), Some(disk)) = (&started, disk) {
            disk.stop();
        }
        started
    }

    fn serve(
        config: &HttpConfig,
        listener: Option<(std::net::TcpListener, SocketAddr)>,
        origins: Origins,
        disk: Option<disk::HttpDisk>,
        streams: &Streams,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Http, String> {
        let [key_a, key_b] = crate::entropy::words();
        let mut hash_key = [0; 16];
        hash_key[..8].copy_from_slice(&key_a.to_le_bytes());
        hash_key[8..].copy_from_slice(&key_b.to_le_bytes());
        let cache = larder_http::Config {
            capacity: config.capacity,
            policy: config.policy.clone(),
            max_object: config.max_object,
            slice: config.slice,
            share_cookies: config.share_cookies,
            ignore_reloads: config.client_no_cache == ClientNoCache::Ignore,
            targets: config.targets.clone(),
            // Variants on the disk are told apart by it.
            hash_key: disk.as_ref().map_or(hash_key, |disk| disk.with(|log, _| log.hash_key())),
        };
        let mut cache =
            larder_http::Cache::new(&cache, streams).map_err(|error: SpecError| format!("[http] policy: {error}"))?;
        if let Some(disk) = &disk {
            cache.set_tier(
                Box::new(disk::Tier(disk.clone())),
                config.disk.as_ref().map_or(ByteSize::from_bytes(0), |disk| disk.queue),
            );
        }
        let proxy = Arc::new(proxy::Proxy::new(cache, origins, disk, config.timeouts));
        let plain = |scheme| Some(plain::PlainHits::new(&proxy, scheme, config.header_limits));
        let (mut listeners, mut local, mut local_tls, mut tls_identity) = (Vec::new(), None, None, None);
        if let Some((listener, address)) = listener {
            local = Some(address);
            listeners.push(listen::Listener { listener, identity: None, plain: plain("http") });
        }
        if let Some(tls) = &config.tls {
            let identity = Some(Arc::new(Identity::read(tls)?));
            let (listener, address) = bind_at("[http.tls] listen", tls.listen)?;
            local_tls = Some(address);
            listeners.push(listen::Listener { listener, identity: identity.clone(), plain: plain("https") });
            tls_identity = identity;
        }
        let source = Arc::new(status::CacheSource::new(Arc::clone(&proxy), config, local.or(local_tls)));
        let bounds = listen::Bounds::new(limits::CONNECTIONS, config.timeouts)
            .with_memory_pressure(proxy.memory_pressure())
            .with_headers(config.header_limits);
        let on_end = Arc::new(Mutex::new(Some(on_end)));
        let (mut stops, mut running) = (Vec::new(), Vec::new());
        for number in 0..request_threads(config.threads) {
            let listeners = listeners.iter().map(listen::Listener::again).collect::<Result<_, _>>();
            let listeners = listeners.map_err(|error| format!("[http] listen: {error}"))?;
            let (stop, stopped) = oneshot::channel();
            stops.push(stop);
            let (serving, bounds, on_end) = (Arc::clone(&proxy), bounds.clone(), Arc::clone(&on_end));
            let serve = move || {
                threads::enter(number);
                let checks = check_origins(Arc::downgrade(&serving), number == 0);
                listen::serve(listeners, bounds, stopped, checks, move |client| {
                    service::Service::new(&serving, client)
                });
                let first = on_end.lock().unwrap_or_else(PoisonError::into_inner).take();
                first.into_iter().for_each(|on_end| on_end());
            };
            let thread = std::thread::Builder::new().name(format!("http{number}")).spawn(serve);
            running.push(thread.map_err(|error| format!("cannot start a thread: {error}"))?);
        }
        let (timeouts, header_limits) = (config.timeouts, config.header_limits);
        Ok(Http { local, local_tls, stops, threads: running, source, proxy, tls_identity, timeouts, header_limits })
    }

    /// Where it listens without TLS.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local
    }

    /// Where it speaks TLS.
    pub fn local_tls_addr(&self) -> Option<SocketAddr> {
        self.local_tls
    }

    /// Its figures, for the admin server.
    pub fn source(&self) -> Arc<dyn StatusSource> {
        Arc::clone(&self.source) as Arc<dyn StatusSource>
    }

    /// Its purge, for the admin server: open to who has the token, if there is one.
    pub fn purging(&self, token: Option<&str>) -> Arc<Purging> {
        Arc::new(Purging::new(Arc::clone(&self.proxy), token))
    }

    /// What of another configuration can change while it runs: the origins, and the certificate and
    /// key, whose files are read again. Nothing has changed yet.
    ///
    /// # Errors
    /// One line that names the setting and what is wrong with it.
    pub fn reload(&self, config: &HttpConfig) -> Result<HttpReload, String> {
        // These wait for a restart.
        let (timeouts, header_limits) = (self.timeouts, self.header_limits);
        let config = &HttpConfig { timeouts, header_limits, ..config.clone() };
        let origins = origins(config, self.local, Some(&self.proxy.origins()))?;
        let identity = match (&self.tls_identity, &config.tls) {
            (Some(_), Some(tls)) => Some(tls::read(tls)?),
            _ => None,
        };
        Ok(HttpReload { origins, identity })
    }

    /// Takes it over. Requests under way go on as they began.
    pub fn take_over(&self, reload: HttpReload) {
        if let (Some(running), Some(identity)) = (&self.tls_identity, reload.identity) {
            running.set(identity);
        }
        self.proxy.set_origins(reload.origins);
    }

    /// Stops accepting, gives requests in progress `shutdown` of [`Timeouts`], and returns when the
    /// threads have ended.
    pub fn stop(mut self) {
        // Either fails only where the thread has ended before.
        for stop in self.stops.drain(..) {
            let _ = stop.send(());
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if let Some(disk) = self.proxy.disk() {
            disk.stop();
        }
    }
}

/// Listens on `address`; returns the address that it got.
fn bind_at(setting: &str, address: SocketAddr) -> Result<(std::net::TcpListener, SocketAddr), String> {
    let listener = listen::bind(setting, address)?;
    let local = listener.local_addr().map_err(|error| format!("{setting}: {error}"))?;
    Ok((listener, local))
}

/// How many to start.
fn request_threads(configured: usize) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    (if configured == 0 { cores() } else { configured }).min(limits::THREADS)
}

/// What one thread does for the origins beside requests, as long as there is a proxy.
async fn check_origins(proxy: Weak<proxy::Proxy>, is_first: bool) {
    while is_first && let Some(proxy) = proxy.upgrade() {
        proxy.origins().check();
        drop(proxy);
        tokio::time::sleep(limits::PROBE_LOOK).await;
    }
}
