//! Accepts connections, runs TLS on some of them, and serves HTTP/1 or HTTP/2 until it is stopped.
//! `http3_listener.rs` does so for HTTP/3.

#[cfg(feature = "http3")]
use crate::accept::http3_listener;
use crate::accept::serving::{Begun, Bounds, ClientSettings, Serving, begin_client, closing};
use crate::accept::sni::ACME_TLS;
use crate::accept::tls;
use crate::accept::tls::Identity;
use crate::accept::udp_sockets::UdpTurn;
use crate::base::alt_svc::AltSvc;
use crate::base::drain::{AcceptToken, Phase, PhaseWatch};
use crate::base::limits;
use crate::base::places::Place;
use crate::base::slow_client::WriteTimeout;
use crate::base::sockets::{Accepting, ClientSocket};
use crate::client::client_connections::{Activity, ClientConnection};
use crate::client::client_stream::ClientStream;
use crate::client::http2::{http2, said};
use crate::client::plain::PlainSettings;
use crate::client::request_counter::{Counted, Exchanges};
use crate::exchange::client::Client;
use crate::exchange::https_redirect::HttpsRedirect;
use crate::message::client_body::ClientBody;
use crate::message::first_bytes::FirstBytes;
use hyper::body::Body;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use larder_host::ListenSocket;
use larder_host::Peer;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A listener for clients.
pub(crate) struct Listener {
    pub(crate) socket: ListenSocket,
    /// The identity for TLS, if this listener uses it; set before it accepts connections.
    pub(crate) identity: Option<Arc<OnceLock<Arc<Identity>>>>,
    /// Answers plain hits before the service, if enabled.
    pub(crate) plain: Option<PlainSettings>,
    /// True if it is for the other nodes of the fleet.
    pub(crate) is_peer: bool,
    /// True if each connection begins with a header of the PROXY protocol.
    pub(crate) proxy_protocol: bool,
    /// Present if requests for `http` are redirected to HTTPS.
    pub(crate) redirect: Option<HttpsRedirect>,
    pub(crate) clients: ClientSettings,
    /// The phase of the listener and of its connections.
    pub(crate) phase: PhaseWatch,
    /// Kept as long as connections are accepted.
    pub(crate) accepting: AcceptToken,
    /// The UDP sockets of this thread, for HTTP/3.
    pub(crate) udp: Vec<UdpTurn>,
    /// What responses say of HTTP/3.
    pub(crate) alt_svc: Option<Arc<AltSvc>>,
}

impl Listener {
    /// Returns a listener without TLS and without plain hits.
    pub(crate) fn simple(
        socket: std::net::TcpListener,
        phase: PhaseWatch,
        accepting: AcceptToken,
    ) -> Listener {
        Listener {
            socket: ListenSocket::Tcp(socket),
            identity: None,
            plain: None,
            is_peer: false,
            proxy_protocol: false,
            redirect: None,
            clients: ClientSettings::default(),
            phase,
            accepting,
            udp: Vec::new(),
            alt_svc: None,
        }
    }
}

/// What a serving thread is asked to do.
enum Command {
    /// Accepts connections of another listener.
    Listen(Box<Listener>),
    /// Ends when nothing is left to do.
    Retire,
    /// Ends within this time.
    Stop(Duration),
}

/// The reason why a serving thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It has been retired, or its [`Control`] is gone.
    Dismissed,
    /// It has been stopped, or has failed.
    Stopped,
}

/// The commands for a serving thread. When it is dropped, the thread ends at once.
pub(crate) struct Control(mpsc::UnboundedSender<Command>);

/// The thread's end of [`Control`].
pub(crate) struct Commands(mpsc::UnboundedReceiver<Command>);

impl Control {
    pub(crate) fn new() -> (Control, Commands) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Control(sender), Commands(receiver))
    }

    /// Makes the thread accept connections of this listener, until its phase ends that.
    pub(crate) fn listen(&self, listener: Listener) {
        // Fails only if the thread has ended.
        let _ = self.0.send(Command::Listen(Box::new(listener)));
    }

    /// Returns true if the thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.is_closed()
    }

    /// Makes the thread end when its last task has ended. The phases of its listeners end its
    /// connections.
    pub(crate) fn retire(&self) {
        let _ = self.0.send(Command::Retire);
    }

    /// Makes the thread end when its connections have ended, and at the latest after this time.
    /// The phases of its listeners end its connections.
    pub(crate) fn stop(&self, within: Duration) {
        let _ = self.0.send(Command::Stop(within));
    }
}

/// Serves every connection with its own service, on this thread, until a command ends it. The
/// service gets the client; `beside` runs on the same thread.
pub(crate) fn serve<S, B>(
    commands: Commands,
    bounds: Bounds,
    beside: impl Future<Output = ()> + Send + 'static,
    service: impl Fn(Client) -> S + Send + Sync + 'static,
) -> End
where
    S: Service<Request<ClientBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + Unpin + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: FirstBytes + Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => {
            runtime.spawn(beside);
            let end = runtime.block_on(accept_all(commands, bounds, service));
            // Long work of a policy may run on a blocking thread; the stop does not wait for it.
            runtime.shutdown_background();
            end
        }
        Err(error) => {
            tracing::error!(%error, "cannot start a runtime");
            End::Stopped
        }
    }
}

async fn accept_all<S, B>(
    Commands(mut commands): Commands,
    bounds: Bounds,
    service: impl Fn(Client) -> S + Send + Sync + 'static,
) -> End
where
    S: Service<Request<ClientBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + Unpin + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: FirstBytes + Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    // Every connection holds a receiver.
    let (open, one_more) = watch::channel(());
    let service = Arc::new(service);
    let mut is_retired = false;
    let at_most = loop {
        match next_command(&mut commands, is_retired).await {
            Some(Command::Listen(listener)) => {
                tokio::spawn(accept(
                    *listener,
                    bounds.clone(),
                    one_more.clone(),
                    Arc::clone(&service),
                ));
            }
            Some(Command::Retire) => is_retired = true,
            Some(Command::Stop(within)) => break within,
            None => return End::Dismissed,
        }
    };
    drop(one_more);
    if timeout(limits::STOP_NOTICE.min(at_most), open.closed())
        .await
        .is_err()
    {
        tracing::info!(
            connections = open.receiver_count(),
            ?at_most,
            "stopping: waiting for requests under way"
        );
        let _ = timeout(at_most.saturating_sub(limits::STOP_NOTICE), open.closed()).await;
    }
    End::Stopped
}

/// Waits for the next command; `None` if there is none any more, or no task is left on a retired
/// thread.
async fn next_command(
    commands: &mut mpsc::UnboundedReceiver<Command>,
    is_retired: bool,
) -> Option<Command> {
    if !is_retired {
        return commands.recv().await;
    }
    loop {
        if let Ok(command) = timeout(limits::RETIRED_LOOK, commands.recv()).await {
            return command;
        }
        // Connections, bodies that are collected for other threads, and connections to origins.
        if tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
            == 0
        {
            return None;
        }
    }
}

async fn accept<S, B>(
    listener: Listener,
    bounds: Bounds,
    open: watch::Receiver<()>,
    service: Arc<impl Fn(Client) -> S + Send + Sync + 'static>,
) where
    S: Service<Request<ClientBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + Unpin + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: FirstBytes + Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let Listener {
        socket,
        identity,
        plain,
        is_peer,
        proxy_protocol,
        redirect,
        clients,
        mut phase,
        accepting,
        udp,
        alt_svc,
    } = listener;
    let listener = match Accepting::new(socket) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot listen"),
    };
    let limits = Arc::clone(&bounds.limits);
    let serving = Arc::new(Serving {
        identity,
        plain,
        is_peer,
        proxy_protocol,
        redirect,
        clients,
        bounds,
        service,
        alt_svc,
    });
    #[cfg(not(feature = "http3"))]
    drop(udp);
    #[cfg(feature = "http3")]
    for socket in udp {
        let held = (accepting.clone(), open.clone());
        tokio::spawn(http3_listener::accept(
            socket,
            Arc::clone(&serving),
            phase.clone(),
            held,
        ));
    }
    let mut failing = Failing::default();
    let begin = |(stream, peer), place, phase: &PhaseWatch| {
        let (held, serving) = ((place, open.clone()), Arc::clone(&serving));
        tokio::spawn(connect(stream, peer, serving, phase.clone(), held));
    };
    loop {
        let accepted = tokio::select! {
            biased;
            _ = phase.reached(Phase::Draining) => break,
            accepted = listener.accept() => accepted,
        };
        // Without a place, this connection waits here until an idle one is closed for it, and
        // others wait in the kernel's queue. When the listener goes, this one is served all the
        // same: its client cannot go elsewhere.
        let place = tokio::select! {
            biased;
            place = place_for_connection(&serving.bounds) => Some(place),
            _ = phase.reached(Phase::Draining) => None,
        };
        match accepted {
            Ok(accepted) => {
                begin(accepted, place, &phase);
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
    if phase.is_last() {
        let places = std::iter::from_fn(|| limits.connections.try_acquire());
        let waiting = listener.into_waiting().into_iter().flatten();
        for (place, accepted) in places.zip(waiting) {
            begin(accepted, Some(place), &phase);
        }
    }
    drop(accepting);
}

/// Waits for a place for a connection. If there is none, closes idle connections for it.
async fn place_for_connection(bounds: &Bounds) -> Place {
    if let Some(place) = bounds.limits.connections.try_acquire() {
        return place;
    }
    let mut place = std::pin::pin!(bounds.limits.connections.acquire());
    loop {
        if bounds.connections.displace() {
            bounds.counters.displaced.fetch_add(1, Ordering::Relaxed);
        }
        if let Ok(place) = timeout(limits::DISPLACED_AGAIN, place.as_mut()).await {
            return place;
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
        if self
            .said
            .is_some_and(|said| said.elapsed() < limits::ACCEPT_WARNING)
        {
            return None;
        }
        self.said = Some(Instant::now());
        Some(std::mem::take(&mut self.times))
    }
}

/// Serves one connection from its first to its last request, or until it is closed for another.
/// `_held` is what it holds meanwhile. The parts that a silent connection does not need are in
/// boxes: this future is its memory.
async fn connect<S, B, F>(
    socket: ClientSocket,
    peer: Peer,
    serving: Arc<Serving<F>>,
    phase: PhaseWatch,
    _held: impl Send,
) where
    F: Fn(Client) -> S,
    S: Service<Request<ClientBody>, Response = Response<B>>,
    S::Future: Send + Unpin + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: FirstBytes + Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    // The connections of a trusted proxy are those of many clients: they are not closed for others.
    let is_trusted = serving.clients.trusted_proxies.trusts(peer);
    let connection = serving
        .bounds
        .connections
        .add(if is_trusted { Peer::Unix } else { peer });
    let activity = Arc::clone(connection.activity());
    tokio::select! {
        biased;
        () = converse(socket, connection, peer, serving, phase) => {}
        () = activity.displaced() => tracing::debug!(%peer, "an idle connection is closed for another one"),
    }
}

/// Serves one connection from its first to its last request.
async fn converse<S, B, F>(
    mut socket: ClientSocket,
    mut open: ClientConnection,
    peer: Peer,
    serving: Arc<Serving<F>>,
    mut phase: PhaseWatch,
) where
    F: Fn(Client) -> S,
    S: Service<Request<ClientBody>, Response = Response<B>>,
    S::Future: Send + Unpin + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: FirstBytes + Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let Bounds {
        limits,
        memory_pressure,
        counters,
        ..
    } = &serving.bounds;
    let (timeouts, most) = &limits.current();
    let Ok(_share) = serving.count(peer, !serving.proxy_protocol) else {
        return;
    };
    let begin = timeout(timeouts.client_header, begin(&mut socket, &serving));
    let begun = tokio::select! {
        biased;
        begun = begin => begun,
        () = closing(&mut phase) => return,
    };
    let (client, is_http2) = match begun {
        Ok(Ok(begun)) => begun,
        failed => {
            if let (Ok(Err(error)), true) = (failed, serving.proxy_protocol) {
                counters.no_proxy_header.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(%error, %peer, "connection ended");
            }
            return;
        }
    };
    let peer = client.map_or(peer, Peer::from);
    if client.is_some() {
        open.set_client(peer);
    }
    let Ok(_share_behind_proxy) = serving.count(peer, serving.proxy_protocol) else {
        return;
    };
    let stream = WriteTimeout::new(socket, memory_pressure, timeouts.client_send);
    let begun = begin_client(peer, &serving, (*timeouts, *most));
    let activity = open.activity();
    if serving.identity.is_some() {
        Box::pin(serve_tls(stream, begun, &serving, activity, phase)).await;
    } else if is_http2 {
        Box::pin(serve_http2(stream, begun, &serving, activity, phase)).await;
    } else {
        Box::pin(serve_http1(stream, begun, &serving, activity, phase)).await;
    }
}

/// Serves a connection with TLS.
async fn serve_tls<S, B, F, T>(
    stream: T,
    mut begun: Begun,
    serving: &Serving<F>,
    activity: &Arc<Activity>,
    mut phase: PhaseWatch,
) where
    F: Fn(Client) -> S,
    S: Service<Request<ClientBody>, Response = Response<B>>,
    S::Future: Send + Unpin + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: FirstBytes + Send,
    B::Error: std::error::Error + Send + Sync + 'static,
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Some(identity) = serving
        .identity
        .as_ref()
        .and_then(|identity| identity.get())
    else {
        return;
    };
    let shaken = tokio::select! {
        biased;
        shaken = shake_hands(stream, identity, &serving.bounds) => shaken,
        () = closing(&mut phase) => return,
    };
    let Some(mut stream) = shaken else { return };
    let connection = stream.get_ref().1;
    // RFC 8737 §3: the handshake was the answer.
    if connection.alpn_protocol() == Some(ACME_TLS) {
        let _ = timeout(begun.timeouts.tls_handshake, stream.shutdown()).await;
        return;
    }
    if let Some(client) = &begun.before.client {
        client.set_tls(connection.protocol_version());
    }
    begun.client.subject = identity.subject(connection.peer_certificates());
    if begun.client.subject.is_some() {
        begun.before.plain = None;
    }
    if connection.alpn_protocol() == Some(tls::H2) {
        Box::pin(serve_http2(stream, begun, serving, activity, phase)).await;
    } else {
        Box::pin(serve_http1(stream, begun, serving, activity, phase)).await;
    }
}

/// Returns the stream within TLS; counts a handshake that fails.
async fn shake_hands<T: AsyncRead + AsyncWrite + Unpin>(
    stream: T,
    identity: &Identity,
    bounds: &Bounds,
) -> Option<TlsStream<T>> {
    let handshake = timeout(
        bounds.limits.timeouts().tls_handshake,
        TlsAcceptor::from(identity.current()).accept(stream),
    );
    match handshake
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    {
        Ok(stream) => Some(stream),
        Err(error) => {
            bounds.counters.no_tls.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%error, "no TLS");
            None
        }
    }
}

/// Reads the beginning of a connection: the client that the PROXY protocol names, and whether the
/// client uses HTTP/2 without TLS.
async fn begin<F>(
    socket: &mut ClientSocket,
    serving: &Serving<F>,
) -> io::Result<(Option<SocketAddr>, bool)> {
    let client = if serving.proxy_protocol {
        socket.read_proxy_header().await?
    } else {
        None
    };
    Ok((
        client,
        serving.identity.is_none() && socket.begins_http2().await?,
    ))
}

async fn serve_http2<S, B, F>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    begun: Begun,
    serving: &Serving<F>,
    activity: &Arc<Activity>,
    phase: PhaseWatch,
) where
    F: Fn(Client) -> S,
    S: Service<Request<ClientBody>, Response = Response<B>>,
    S::Future: Send + Unpin + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: FirstBytes + Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let service = (serving.service)(begun.client);
    let limits = (
        begun.timeouts,
        begun.limits,
        &*serving.bounds.memory_pressure,
    );
    http2(stream, service, limits, activity, phase).await;
}

async fn serve_http1<S, B, F>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    begun: Begun,
    serving: &Serving<F>,
    activity: &Arc<Activity>,
    mut phase: PhaseWatch,
) where
    F: Fn(Client) -> S,
    S: Service<Request<ClientBody>, Response = Response<B>>,
    S::Future: Unpin,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body + Unpin + 'static,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let Begun {
        client,
        before,
        limits,
        ..
    } = begun;
    let service = (serving.service)(client);
    // Not pipeline_flush: with it, hyper buffers a response without bound while the client does not
    // read.
    let exchanges = Exchanges::new(limits.keepalive_requests(), phase.is_draining(), activity);
    let (headers, client, switch) = (
        limits.headers(),
        before.client.clone(),
        before.switch.clone(),
    );
    let service = Counted::new(service, &exchanges);
    let mut http1 = http1::Builder::new();
    http1
        .max_header_size(headers.bytes())
        .max_buf_size(headers.buffer());
    if let Some(fields) = headers.fields_to_set() {
        http1.max_headers(fields);
    }
    let connection = http1.serve_connection(
        TokioIo::new(ClientStream::new(stream, before, exchanges)),
        service,
    );
    let mut connection = std::pin::pin!(connection.with_upgrades());
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = closing(&mut phase) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // hyper has answered it by itself.
    if let (Err(error), Some(client)) = (&ended, client)
        && error.is_parse()
    {
        client.malformed(
            if error.is_parse_too_large() { 431 } else { 400 },
            &error.to_string(),
        );
    }
    said(ended);
    // Its place and its share of a stop are those of the connection.
    if let Some(tunnel) = switch.take() {
        activity.begin();
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
        assert_eq!(
            said,
            [1, 20, 20, 20, 20],
            "the first at once, then the number of a second"
        );
    }
}
