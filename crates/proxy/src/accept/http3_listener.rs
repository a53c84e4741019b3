//! Accepts connections of HTTP/3 on one UDP socket, with the limits of the other connections of its
//! listener.

use crate::accept::serving::{Begun, Serving, begin_client, closing};
use crate::accept::tls::Identity;
use crate::accept::udp_sockets::UdpTurn;
use crate::base::client_shares::{ClientShares, Share};
use crate::base::drain::{AcceptToken, Phase, PhaseWatch};
use crate::base::http_limits::HttpLimits;
use crate::base::limits;
use crate::base::places::Place;
use crate::base::timeouts::Timeouts;
use crate::client::client_connections::ClientConnection;
use crate::client::http3::{Limits, http3};
use crate::exchange::client::Client;
use crate::message::client_body::ClientBody;
use crate::message::first_bytes::FirstBytes;
use hyper::body::Body;
use hyper::service::Service;
use hyper::{Request, Response};
use larder_host::Peer;
use larder_http3::{Endpoint, Established, Handshake, Settings, Transport};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;
use tokio::time::timeout;

/// Accepts the connections that come to a socket, when it is its turn, until the listener drains.
/// Then refuses new ones until those that are open, on all sockets of the listener, have ended.
/// `_held` is held until then.
pub(super) async fn accept<S, B, F>(
    socket: UdpTurn,
    serving: Arc<Serving<F>>,
    mut phase: PhaseWatch,
    (accepting, _held): (AcceptToken, impl Send),
) where
    F: Fn(Client) -> S + Send + Sync + 'static,
    S: Service<Request<ClientBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + Unpin + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: FirstBytes + Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let mut reader = tokio::select! {
        biased;
        _ = phase.reached(Phase::Draining) => return,
        reader = socket.wait() => reader,
    };
    let opened = Identities::new(&serving).and_then(|identities| {
        let endpoint = Endpoint::new(reader.descriptor()?, &identities.current)?;
        Ok((identities, endpoint))
    });
    let (mut identities, endpoint) = match opened {
        Ok(opened) => opened,
        Err(error) => return tracing::error!(%error, "cannot serve HTTP/3"),
    };
    let announced = serving.alt_svc.as_ref().map(|alt_svc| alt_svc.read());
    // Every connection holds a receiver.
    let (open, one_more) = watch::channel(());
    let pending = Arc::new(Handshakes::default());
    loop {
        let handshake = tokio::select! {
            biased;
            _ = phase.reached(Phase::Draining) => break,
            handshake = endpoint.accept() => handshake,
        };
        let Some(handshake) = handshake else { break };
        if let Some(admitted) = admit(handshake, &serving, &pending) {
            let identity = identities.current(&serving);
            let (serving, phase) = (Arc::clone(&serving), phase.clone());
            let one_more = one_more.clone();
            tokio::spawn(async move {
                connect(admitted, identity, serving, phase).await;
                drop(one_more);
            });
        }
    }
    drop((announced, one_more, accepting));
    let mut ended = pin!(async {
        open.closed().await;
        // QUIC reads the socket until then.
        let _ = timeout(limits::UDP_CLOSE, endpoint.idle()).await;
        reader.end().await;
    });
    loop {
        tokio::select! {
            biased;
            () = ended.as_mut() => break,
            handshake = endpoint.accept() => match handshake {
                Some(handshake) => handshake.refuse(),
                None => break,
            },
        }
    }
}

/// The identity for new connections, which changes with the certificates and the limits.
struct Identities {
    tls: Arc<rustls::ServerConfig>,
    transport: Transport,
    current: larder_http3::Identity,
}

impl Identities {
    fn new<F>(serving: &Serving<F>) -> io::Result<Identities> {
        let (tls, transport) = (tls(serving)?, transport(serving));
        let current = larder_http3::Identity::new(&tls, &transport)?;
        Ok(Identities {
            tls,
            transport,
            current,
        })
    }

    /// Returns the present one. If a change cannot be used, the former one stays.
    fn current<F>(&mut self, serving: &Serving<F>) -> larder_http3::Identity {
        let is_same = tls(serving).is_ok_and(|tls| Arc::ptr_eq(&tls, &self.tls))
            && transport(serving) == self.transport;
        if !is_same {
            match Identities::new(serving) {
                Ok(changed) => *self = changed,
                Err(error) => tracing::error!(%error, "HTTP/3 keeps the former certificates"),
            }
        }
        self.current.clone()
    }
}

fn identity<F>(serving: &Serving<F>) -> Option<&Identity> {
    serving.identity.as_ref()?.get().map(|identity| &**identity)
}

fn tls<F>(serving: &Serving<F>) -> io::Result<Arc<rustls::ServerConfig>> {
    let identity = identity(serving).ok_or(io::ErrorKind::NotFound)?;
    Ok(identity.current())
}

/// Returns the limits of QUIC, which are those of HTTP/2.
fn transport<F>(serving: &Serving<F>) -> Transport {
    let (timeouts, most) = serving.bounds.limits.current();
    Transport {
        streams: most.http2_streams,
        stream_window: limits::BUFFER_BYTES as u32,
        connection_window: limits::CONNECTION_WINDOW_BYTES,
        // A connection with requests may be silent for as long as a body that is only forwarded; an
        // idle one is closed before that.
        silence: timeouts.origin_relay().max(timeouts.keepalive),
    }
}

/// A handshake that may go on, with what it holds.
struct Admitted {
    handshake: Handshake,
    place: Place,
    share: Option<Share>,
    pending: Pending,
}

/// The handshakes in progress on one socket.
#[derive(Default)]
struct Handshakes {
    count: AtomicUsize,
    /// Those of clients that have shown their address.
    shares: Arc<ClientShares>,
}

/// A handshake in progress, until this is dropped.
struct Pending {
    all: Arc<Handshakes>,
    _share: Share,
}

impl Pending {
    /// Adds one, unless its client has as many as it may. A client whose address is not shown takes
    /// none of the share of the one that really has it.
    fn new(all: &Arc<Handshakes>, peer: Peer, has_share: bool) -> Option<Pending> {
        let most = if has_share {
            limits::HANDSHAKES_PER_CLIENT
        } else {
            usize::MAX
        };
        let share = all.shares.take(peer.ip(), most)?;
        all.count.fetch_add(1, Ordering::Relaxed);
        Some(Pending {
            all: Arc::clone(all),
            _share: share,
        })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.all.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Decides whether a handshake goes on. A client whose address is not shown takes nothing from the
/// client that really has it: it has to show it first if connections are counted by client, or if
/// many handshakes are in progress. One that has shown it is refused where others are ignored: it
/// then uses HTTP/2 at once.
fn admit<F>(
    handshake: Handshake,
    serving: &Serving<F>,
    pending: &Arc<Handshakes>,
) -> Option<Admitted> {
    let counters = &serving.bounds.counters;
    let in_progress = pending.count.load(Ordering::Relaxed);
    let is_validated = handshake.is_validated();
    if in_progress >= limits::HANDSHAKES {
        counters.refused_handshakes.fetch_add(1, Ordering::Relaxed);
        if is_validated {
            handshake.refuse();
        } else {
            handshake.ignore();
        }
        return None;
    }
    let (_, most) = serving.bounds.limits.current();
    let are_counted = most.connections_per_client() < usize::MAX;
    if !is_validated && (are_counted || in_progress >= limits::HANDSHAKES_UNVALIDATED) {
        handshake.retry();
        return None;
    }
    let peer = Peer::Tcp(handshake.peer());
    let has_share = is_validated && !serving.clients.trusted_proxies.trusts(peer);
    let Some(pending) = Pending::new(pending, peer, has_share) else {
        counters.refused_handshakes.fetch_add(1, Ordering::Relaxed);
        handshake.refuse();
        return None;
    };
    // Both are counted where they are refused, the second one as displaced.
    let Ok(share) = serving.count(peer, true) else {
        handshake.refuse();
        return None;
    };
    let Some(place) = serving.bounds.limits.connections.try_acquire() else {
        if serving.bounds.connections.displace() {
            counters.displaced.fetch_add(1, Ordering::Relaxed);
        }
        counters.refused_handshakes.fetch_add(1, Ordering::Relaxed);
        handshake.refuse();
        return None;
    };
    Some(Admitted {
        handshake,
        place,
        share,
        pending,
    })
}

/// Serves one connection from its handshake on, or until it is closed for another.
async fn connect<S, B, F>(
    admitted: Admitted,
    identity: larder_http3::Identity,
    serving: Arc<Serving<F>>,
    phase: PhaseWatch,
) where
    F: Fn(Client) -> S,
    S: Service<Request<ClientBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + Unpin + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: FirstBytes + Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let Admitted {
        handshake,
        place: _place,
        share: _share,
        pending,
    } = admitted;
    let peer = Peer::Tcp(handshake.peer());
    let is_trusted = serving.clients.trusted_proxies.trusts(peer);
    let connections = &serving.bounds.connections;
    let connection = connections.add(if is_trusted { Peer::Unix } else { peer });
    let activity = Arc::clone(connection.activity());
    let (timeouts, most) = serving.bounds.limits.current();
    let established = async {
        let shaken = timeout(timeouts.tls_handshake, handshake.accept(&identity)).await;
        drop(pending);
        match shaken {
            Ok(Ok(established)) => {
                let limits = (timeouts, most);
                let parts = (peer, established, connection);
                Box::pin(converse(parts, limits, &serving, phase)).await;
            }
            Ok(Err(error)) => {
                serving
                    .bounds
                    .counters
                    .no_tls
                    .fetch_add(1, Ordering::Relaxed);
                tracing::debug!(%error, %peer, "no QUIC");
            }
            Err(_late) => {
                serving
                    .bounds
                    .counters
                    .no_tls
                    .fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    tokio::select! {
        biased;
        () = established => {}
        () = activity.displaced() => {
            tracing::debug!(%peer, "an idle connection is closed for another one");
        }
    }
}

/// Serves one connection from its first to its last request.
async fn converse<S, B, F>(
    (peer, established, connection): (Peer, Established, ClientConnection),
    (timeouts, most): (Timeouts, HttpLimits),
    serving: &Serving<F>,
    mut phase: PhaseWatch,
) where
    F: Fn(Client) -> S,
    S: Service<Request<ClientBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + Unpin + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: FirstBytes + Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let Begun { mut client, .. } = begin_client(peer, serving, (timeouts, most));
    client.alt_svc = None;
    if let Some(observed) = &client.observed {
        observed.set_tls(Some(rustls::ProtocolVersion::TLSv1_3));
    }
    let certificates = established.certificates();
    client.subject =
        identity(serving).and_then(|identity| identity.subject(certificates.as_deref()));
    let observed = client.observed.clone();
    let service = (serving.service)(client);
    let settings = Settings {
        section_bytes: most.headers().bytes(),
        streams: most.http2_streams,
        unacknowledged: timeouts.client_stream(),
    };
    let begun = tokio::select! {
        biased;
        begun = established.begin(settings) => begun,
        () = closing(&mut phase) => return,
    };
    let http3_connection = match begun {
        Ok(begun) => begun,
        Err(error) => return tracing::debug!(%error, %peer, "no HTTP/3"),
    };
    let limits = Limits {
        timeouts,
        most,
        memory_pressure: &serving.bounds.memory_pressure,
        heads: &serving.bounds.counters.partial_heads,
        client: peer.ip(),
        observed,
    };
    let activity = connection.activity();
    http3(http3_connection, service, limits, activity, phase).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    /// Failure: one client takes all handshakes; or one that forges addresses takes the share of
    /// the clients that have them; or what has ended is still counted.
    #[test]
    fn a_client_takes_the_handshakes_of_others() {
        let all = Arc::default();
        let peer = |last| Peer::Tcp(SocketAddr::from(([192, 0, 2, last], 1)));
        let forged: Vec<_> = (0..100)
            .map(|_| Pending::new(&all, peer(1), false))
            .collect();
        assert!(forged.iter().all(Option::is_some));
        let mut held = Vec::new();
        while let Some(pending) = Pending::new(&all, peer(1), true) {
            held.push(pending);
        }
        assert_eq!(held.len(), limits::HANDSHAKES_PER_CLIENT);
        assert!(Pending::new(&all, peer(2), true).is_some());
        held.pop();
        assert!(Pending::new(&all, peer(1), true).is_some());
        drop((forged, held));
        assert_eq!(all.count.load(Ordering::Relaxed), 0);
    }
}
