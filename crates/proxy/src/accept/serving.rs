//! What the connections of a listener share, in each version of HTTP.

use crate::accept::tls::Identity;
use crate::base::alt_svc::AltSvc;
use crate::base::client_shares::{ClientShares, Share};
use crate::base::drain::{Phase, PhaseWatch};
use crate::base::http_limits::HttpLimits;
use crate::base::limits;
use crate::base::live_limits::LiveLimits;
use crate::base::slow_client::MemoryPressure;
use crate::base::timeouts::Timeouts;
use crate::client::client_connections::ClientConnections;
use crate::client::client_stream::Before;
use crate::client::partial_heads::{PartialHead, PartialHeads};
use crate::client::plain::PlainSettings;
use crate::exchange::client::Client;
use crate::exchange::https_redirect::HttpsRedirect;
use crate::exchange::upgrade::Switch;
use crate::message::informational::InformationalResponses;
use crate::message::trusted_proxies::{TrustedPeer, TrustedProxies};
use crate::report::observer::{ObservedClient, Observer};
use larder_host::Peer;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The limits for clients of a server.
#[derive(Clone)]
pub(crate) struct Bounds {
    pub(super) limits: Arc<LiveLimits>,
    /// The number of connections of each client, over all listeners and threads.
    clients: Arc<ClientShares>,
    /// All connections: idle ones are closed for others.
    pub(super) connections: Arc<ClientConnections>,
    /// The memory pressure for which slow clients are dropped.
    pub(super) memory_pressure: Arc<MemoryPressure>,
    pub(super) counters: Arc<ClientCounters>,
}

/// What a listener believes of its clients, and where it records them.
#[derive(Clone, Default)]
pub(crate) struct ClientSettings {
    pub(crate) trusted_proxies: Arc<TrustedProxies>,
    /// Gets the records of exchanges.
    pub(crate) observer: Option<Arc<Observer>>,
}

/// Counts connections that end before their first request.
#[derive(Default)]
pub(crate) struct ClientCounters {
    /// Without a valid header of the PROXY protocol where one is required.
    pub(crate) no_proxy_header: AtomicU64,
    /// In the TLS handshake.
    pub(crate) no_tls: AtomicU64,
    /// Connections of clients that have `connections_per_client` already.
    pub(crate) too_many: AtomicU64,
    /// Idle connections that were closed because another one had no place.
    pub(crate) displaced: AtomicU64,
    /// Handshakes of HTTP/3 that were refused or dropped, because there were too many.
    pub(crate) refused_handshakes: AtomicU64,
    /// Heads of requests that are not complete.
    pub(crate) partial_heads: Arc<PartialHeads>,
}

impl Bounds {
    pub(crate) fn new(limits: &Arc<LiveLimits>) -> Bounds {
        Bounds {
            limits: Arc::clone(limits),
            clients: Arc::default(),
            connections: Arc::default(),
            memory_pressure: Arc::default(),
            counters: Arc::default(),
        }
    }

    pub(crate) fn counters(&self) -> &Arc<ClientCounters> {
        &self.counters
    }

    pub(crate) fn with_memory_pressure(self, memory_pressure: &Arc<MemoryPressure>) -> Bounds {
        Bounds {
            memory_pressure: Arc::clone(memory_pressure),
            ..self
        }
    }
}

/// The parts that the connections of a listener share on one thread.
pub(super) struct Serving<F> {
    pub(super) identity: Option<Arc<OnceLock<Arc<Identity>>>>,
    pub(super) plain: Option<PlainSettings>,
    /// True if the clients are other nodes of the fleet.
    pub(super) is_peer: bool,
    pub(super) proxy_protocol: bool,
    pub(super) redirect: Option<HttpsRedirect>,
    pub(super) clients: ClientSettings,
    pub(super) bounds: Bounds,
    pub(super) service: Arc<F>,
    pub(super) alt_svc: Option<Arc<AltSvc>>,
}

impl<F> Serving<F> {
    /// Counts a connection of a client, if it is known already. Fails if the client has too many. A
    /// trusted proxy has no limit: its connections are those of many clients.
    pub(super) fn count(&self, peer: Peer, is_client: bool) -> io::Result<Option<Share>> {
        if !is_client || self.is_peer || self.clients.trusted_proxies.trusts(peer) {
            return Ok(None);
        }
        let Bounds {
            limits,
            clients,
            counters,
            ..
        } = &self.bounds;
        let share = clients.take(peer.ip(), limits.current().1.connections_per_client());
        if share.is_none() {
            counters.too_many.fetch_add(1, Ordering::Relaxed);
        }
        share
            .map(Some)
            .ok_or_else(|| io::ErrorKind::QuotaExceeded.into())
    }
}

/// Waits for the end of the time that connections have for one more request at a stop.
pub(super) async fn closing(phase: &mut PhaseWatch) {
    let begun = phase.reached(Phase::Closing).await;
    tokio::time::sleep_until(begun + limits::LAST_REQUEST).await;
}

/// A connection whose client is known.
pub(super) struct Begun {
    pub(super) client: Client,
    /// What stands before hyper.
    pub(super) before: Before,
    pub(super) timeouts: Timeouts,
    pub(super) limits: HttpLimits,
}

/// Returns what is known of a connection before TLS.
pub(super) fn begin_client<F>(
    peer: Peer,
    serving: &Serving<F>,
    (timeouts, limits): (Timeouts, HttpLimits),
) -> Begun {
    let trusted = TrustedPeer::new(&serving.clients.trusted_proxies, peer);
    let (interims, switch) = (InformationalResponses::default(), Switch::default());
    let is_secure = serving.identity.is_some();
    let redirects = serving.redirect.is_some();
    let plain = serving.plain.as_ref().map(|plain| {
        let alt_svc = serving.alt_svc.clone();
        plain.of_client(&trusted, peer.ip(), redirects, limits.headers(), alt_svc)
    });
    let observer = serving.clients.observer.as_ref();
    let observed =
        observer.map(|observer| ObservedClient::new(observer, peer, trusted.clone(), is_secure));
    let client = Client {
        peer,
        trusted,
        redirect: serving.redirect,
        is_secure,
        subject: None,
        interims: interims.clone(),
        switch: switch.clone(),
        observed: observed.clone(),
        limits,
        is_peer: serving.is_peer,
        alt_svc: serving.alt_svc.clone(),
    };
    let head = PartialHead::new(&serving.bounds.counters.partial_heads, peer.ip());
    let before = Before {
        interims,
        plain,
        client: observed,
        timeouts,
        switch,
        head,
    };
    Begun {
        client,
        before,
        timeouts,
        limits,
    }
}
