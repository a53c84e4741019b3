//! Accepts connections, runs TLS on some of them, and serves HTTP/1 or HTTP/2 until it is stopped.

use super::client_stream::{Before, ClientStream};
use super::exchanges::{Counted, Exchanges};
use super::header_limits::HeaderLimits;
use super::http2::{http2, said};
use super::informational::InformationalResponses;
use super::limits;
use super::plain::PlainHits;
use super::slow_client::{MemoryPressure, WriteTimeout};
use super::timeouts::Timeouts;
use super::tls::{self, Identity};
use super::upgrade::Switch;
use crate::error::Error;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;

/// Listens on `address`. `setting` names it in the error.
pub(super) fn bind(setting: &str, address: SocketAddr) -> Result<std::net::TcpListener, Error> {
    try_bind(address).map_err(|error| Error::listen(setting, address, error))
}

/// Listens on `address`.
pub(crate) fn try_bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    // A restart does not have to wait until connections of the previous run time out.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// A listener for clients.
pub(super) struct Listener {
    pub(super) listener: std::net::TcpListener,
    /// The identity for TLS, if this listener uses it.
    pub(super) identity: Option<Arc<Identity>>,
    /// Answers plain hits before the service, if enabled.
    pub(super) plain: Option<PlainHits>,
}

impl Listener {
    /// Returns the same listener for another thread. A free thread accepts.
    pub(super) fn again(&self) -> io::Result<Listener> {
        let (identity, plain) = (self.identity.clone(), self.plain.clone());
        Ok(Listener { listener: self.listener.try_clone()?, identity, plain })
    }
}

/// The limits for clients of a server.
#[derive(Clone)]
pub(super) struct Bounds {
    /// The number of connections, over all listeners and threads.
    places: Arc<Semaphore>,
    timeouts: Timeouts,
    headers: HeaderLimits,
    /// The memory pressure for which slow clients are dropped.
    memory_pressure: Arc<MemoryPressure>,
}

impl Bounds {
    pub(super) fn new(connections: usize, timeouts: Timeouts) -> Bounds {
        let (places, headers) = (Arc::new(Semaphore::new(connections)), HeaderLimits::default());
        Bounds { places, timeouts, headers, memory_pressure: Arc::default() }
    }

    pub(super) fn with_headers(self, headers: HeaderLimits) -> Bounds {
        Bounds { headers, ..self }
    }

    pub(super) fn with_memory_pressure(self, memory_pressure: &Arc<MemoryPressure>) -> Bounds {
        Bounds { memory_pressure: Arc::clone(memory_pressure), ..self }
    }
}

/// A connected client.
pub(super) struct Client {
    pub(super) address: SocketAddr,
    /// True for TLS.
    pub(super) is_secure: bool,
    /// Informational responses for this client.
    pub(super) interims: InformationalResponses,
    /// The change of protocol of the connection.
    pub(super) switch: Switch,
}

/// Serves every connection with its own service, on this thread, until `stopped` fires or its
/// sender is gone. Then requests in progress have `shutdown` of [`Timeouts`]. The service gets the
/// client; `beside` runs on the same thread.
pub(super) fn serve<S, B>(
    listeners: Vec<Listener>,
    bounds: Bounds,
    stopped: oneshot::Receiver<()>,
    beside: impl Future<Output = ()> + Send + 'static,
    service: impl Fn(Client) -> S + Send + Sync + 'static,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + Unpin + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => {
            runtime.spawn(beside);
            runtime.block_on(accept_all(listeners, bounds, stopped, service));
            // Long work of a policy may run on a blocking thread; the stop does not wait for it.
            runtime.shutdown_background();
        }
        Err(error) => tracing::error!(%error, "cannot start a runtime"),
    }
}

async fn accept_all<S, B>(
    listeners: Vec<Listener>,
    bounds: Bounds,
    stopped: oneshot::Receiver<()>,
    service: impl Fn(Client) -> S + Send + Sync + 'static,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + Unpin + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let at_most = bounds.timeouts.shutdown;
    let (stopping, stop) = watch::channel(());
    let service = Arc::new(service);
    for listener in listeners {
        tokio::spawn(accept(listener, bounds.clone(), stop.clone(), Arc::clone(&service)));
    }
    let _ = stopped.await;
    drop(stop);
    let _ = stopping.send(());
    // Every connection holds a receiver.
    if timeout(limits::STOP_NOTICE.min(at_most), stopping.closed()).await.is_err() {
        tracing::info!(connections = stopping.receiver_count(), ?at_most, "stopping: waiting for requests under way");
        let _ = timeout(at_most.saturating_sub(limits::STOP_NOTICE), stopping.closed()).await;
    }
}

async fn accept<S, B>(
    listener: Listener,
    bounds: Bounds,
    mut stop: watch::Receiver<()>,
    service: Arc<impl Fn(Client) -> S>,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + Unpin + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let Listener { listener, identity, plain } = listener;
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot listen"),
    };
    let mut failing = Failing::default();
    loop {
        let accepted = async {
            let place = Arc::clone(&bounds.places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            biased;
            _ = stop.changed() => break,
            next = accepted => next,
        };
        // The semaphore is never closed.
        let Ok(place) = place else { break };
        match accepted {
            Ok((stream, address)) => {
                let _ = stream.set_nodelay(true);
                let (interims, switch) = (InformationalResponses::default(), Switch::default());
                let is_secure = identity.is_some();
                let client = Client { address, is_secure, interims: interims.clone(), switch: switch.clone() };
                let service = service(client);
                let identity = identity.as_ref().map(|identity| identity.current());
                let before = Before { interims, plain: plain.clone(), timeouts: bounds.timeouts, switch };
                let stream = WriteTimeout::new(stream, &bounds.memory_pressure, bounds.timeouts.client_send);
                let connection = connect((stream, before, bounds.headers), identity, service, stop.clone());
                tokio::spawn(async move {
                    connection.await;
                    drop(place);
                });
                // After many connections at once, other threads get their turn.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                if let Some(times) = failing.again() {
                    tracing::warn!(%error, times, "cannot accept connections");
                }
                tokio::time::sleep(limits::ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Counts failures of accept, so that one line stands for many.
#[derive(Default)]
struct Failing {
    /// Failures since the last line.
    times: u64,
    said: Option<Instant>,
}

impl Failing {
    /// Counts one more. Returns their number if a line is due.
    fn again(&mut self) -> Option<u64> {
        self.times += 1;
        if self.said.is_some_and(|said| said.elapsed() < limits::ACCEPT_WARNING) {
            return None;
        }
        self.said = Some(Instant::now());
        Some(std::mem::take(&mut self.times))
    }
}

/// Serves one connection from its first to its last request.
async fn connect<S, B>(
    (stream, before, headers): (WriteTimeout<TcpStream>, Before, HeaderLimits),
    identity: Option<Arc<ServerConfig>>,
    service: S,
    mut stop: watch::Receiver<()>,
) where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Future: Send + Unpin + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let Some(identity) = identity else { return http1((stream, before, headers), service, stop).await };
    let memory_pressure = Arc::clone(stream.memory_pressure());
    let handshake = timeout(limits::HANDSHAKE, TlsAcceptor::from(identity).accept(stream));
    let stream = tokio::select! {
        shaken = handshake => match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "no TLS"),
            Err(_) => return tracing::debug!("no TLS in time"),
        },
        _ = stop.changed() => return,
    };
    match stream.get_ref().1.alpn_protocol() {
        Some(tls::H2) => Box::pin(http2(stream, service, (before.timeouts, headers, &memory_pressure), stop)).await,
        _ => Box::pin(http1((stream, before, headers), service, stop)).await,
    }
}

async fn http1<S, B>(
    (stream, before, headers): (impl AsyncRead + AsyncWrite + Send + Unpin + 'static, Before, HeaderLimits),
    service: S,
    mut stop: watch::Receiver<()>,
) where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Future: Unpin,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body + Unpin + 'static,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    // Not pipeline_flush: with it, hyper buffers a response without bound while the client does not
    // read.
    let (exchanges, switch) = (Exchanges::default(), before.switch.clone());
    let service = Counted::new(service, &exchanges);
    let mut http1 = http1::Builder::new();
    http1.max_header_size(headers.bytes()).max_buf_size(headers.buffer());
    if let Some(fields) = headers.fields_to_set() {
        http1.max_headers(fields);
    }
    let connection = http1.serve_connection(TokioIo::new(ClientStream::new(stream, before, exchanges)), service);
    let mut connection = std::pin::pin!(connection.with_upgrades());
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stop.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    said(ended);
    // Its place and its share of a stop are those of the connection.
    if let Some(tunnel) = switch.take() {
        Box::pin(tunnel.run()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    /// Failure: a process out of descriptors fills the disk with log lines.
    #[tokio::test(start_paused = true)]
    async fn failures_to_accept_are_one_line_a_second() {
        let mut failing = Failing::default();
        let mut said = Vec::new();
        for _ in 0..100 {
            said.extend(failing.again());
            sleep(limits::ACCEPT_PAUSE).await;
        }
        assert_eq!(said, [1, 20, 20, 20, 20], "the first at once, then the number of a second");
    }
}
