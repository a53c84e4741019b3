//! Connections to one server of an origin: opened on demand, and kept for a while when idle.
//!
//! Each request thread has its own, so the thread whose requests a connection carries also drives
//! it. A request takes the connection that was returned last. If the server closed it before hyper
//! wrote the request, the request goes to another connection. If hyper had written it, the server
//! may have acted on it: it is sent once more on a new connection only if the method allows that
//! (RFC 9110 §9.2.2, RFC 9112 §9.3.1).

use super::body::BodyError;
use super::header_limits::HeaderLimits;
use super::send_timeout::SendTimeout;
use super::timeouts::Timeouts;
use super::upload::Upload;
use super::{limits, threads};
use ::http::uri::{Authority, Scheme, Uri};
use ::http::{Request, Response, StatusCode};
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use larder_http::UpstreamFailure;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// One server of an origin, and the connections to it.
pub struct Server {
    pub(super) authority: Authority,
    /// A name, or an address without brackets.
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    timeouts: Timeouts,
    headers: HeaderLimits,
    /// Idle connections by thread; the last returned ones are at the end.
    idle: Box<[Mutex<Vec<Idle>>]>,
}

struct Idle {
    sender: SendRequest<Upload>,
    since: Instant,
    _place: SemaphorePermit<'static>,
}

/// Places for idle connections to all servers together.
static IDLE: Semaphore = Semaphore::const_new(limits::ORIGIN_IDLE_IN_ALL);

/// The reason why a server gave no response.
pub struct Failed {
    /// The kind of the failure.
    pub failure: UpstreamFailure,
    /// The reason in words.
    pub reason: String,
    /// What the failure says about the server.
    pub verdict: ConnectionVerdict,
}

/// What a request without a response says about its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionVerdict {
    /// The server has failed.
    Failed,
    /// The server has answered, with a response that is not forwarded.
    Answered,
    /// Nothing: the client may be the cause.
    Nothing,
}

impl Failed {
    pub(super) fn new(failure: UpstreamFailure, reason: impl Into<String>) -> Failed {
        Failed { failure, reason: reason.into(), verdict: ConnectionVerdict::Failed }
    }
}

/// The result of a request in hyper.
type Sent = Result<Response<Incoming>, TrySendError<Request<Upload>>>;

impl Server {
    /// Creates the server of `http://HOST[:PORT]`, or of `https`, whose certificate `trust` has to
    /// verify. `None` for any other URI.
    pub fn new(
        uri: &Uri,
        trust: Option<&Arc<ClientConfig>>,
        timeouts: Timeouts,
        headers: HeaderLimits,
    ) -> Option<Server> {
        let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        let authority = uri.authority().filter(|authority| is_bare && !authority.as_str().contains('@'))?.clone();
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned();
        let (port, tls) = if uri.scheme() == Some(&Scheme::HTTPS) {
            let name = ServerName::try_from(host.clone()).ok()?;
            (443, Some((TlsConnector::from(Arc::clone(trust?)), name)))
        } else {
            (80, None)
        };
        let port = authority.port_u16().unwrap_or(port);
        let idle = (0..limits::THREADS).map(|_| Mutex::default()).collect();
        let server = Server { authority, host, port, tls, timeouts, headers, idle };
        (server.tls.is_some() || uri.scheme() == Some(&Scheme::HTTP)).then_some(server)
    }

    /// Returns true if this is the same server, with the same settings.
    pub(super) fn is_like(&self, other: &Server) -> bool {
        (&self.authority, self.port, self.tls.is_some()) == (&other.authority, other.port, other.tls.is_some())
            && self.timeouts == other.timeouts
            && self.headers == other.headers
    }

    /// Sends a request. The fields are complete, with `Host`; the target has the origin form.
    /// `again` creates the same request if it may be sent twice, which is rare: a copy of each
    /// request would cost a fiftieth of a miss.
    ///
    /// # Errors
    /// [`Failed`] if there is no response.
    pub async fn ask(
        self: &Arc<Self>,
        mut request: Request<Upload>,
        again: impl Fn() -> Request<Upload>,
    ) -> Result<Response<ReceivedBody>, Failed> {
        let may_repeat = request.method().is_idempotent() && request.body().is_end_stream();
        let mut kept_may_serve = true;
        loop {
            let (mut sender, is_fresh) = match kept_may_serve.then(|| self.take()).flatten() {
                Some(sender) => (sender, false),
                // Boxed, because it is rare and a handshake's state would make every request's as
                // large.
                None => match Box::pin(self.connect()).await {
                    Ok(sender) => (sender, true),
                    Err(failed) => {
                        request.body_mut().take_rest().await;
                        return Err(failed);
                    }
                },
            };
            // If the server answers before it gets the body, it may read the body later as one, or
            // as the next request. No other request may use this connection.
            let is_held = request.body().is_held();
            let body_end = request.body_mut().watch_end();
            let (sent, has_ended) = self.within(sender.try_send_request(request), body_end).await?;
            match sent {
                Ok(response) => {
                    // Nor after a change of protocol.
                    let is_http = response.status() != StatusCode::SWITCHING_PROTOCOLS;
                    let lease = (is_http && !is_held).then(|| Lease { sender, server: Arc::clone(self) });
                    return Ok(response.map(|body| ReceivedBody::new(body, lease)));
                }
                // A new connection fails for a reason of its own; a kept one perhaps because the
                // server has just closed it.
                Err(mut error) => match error.take_message() {
                    Some(unsent) if !is_fresh => request = unsent,
                    None if !is_fresh && may_repeat && is_unreachable(error.error()) => {
                        (request, kept_may_serve) = (again(), false);
                    }
                    _ => return Err(classify(error.error(), has_ended)),
                },
            }
        }
    }

    /// Waits for the response: `origin_response` from the end of the request's body, however long
    /// that takes. Also returns whether the whole body had arrived.
    ///
    /// # Errors
    /// The time is over.
    async fn within(
        &self,
        sent: impl Future<Output = Sent>,
        body_end: Option<oneshot::Receiver<()>>,
    ) -> Result<(Sent, bool), Failed> {
        let mut sent = std::pin::pin!(sent);
        if let Some(mut body_end) = body_end {
            tokio::select! {
                biased;
                sent = sent.as_mut() => return Ok((sent, body_end.try_recv().is_ok())),
                _ = &mut body_end => {}
            }
        }
        let time = self.timeouts.origin_response;
        let late = |_| Failed::new(UpstreamFailure::TimedOut, format!("no response within {time:?}"));
        timeout(time, sent).await.map(|sent| (sent, true)).map_err(late)
    }

    /// Closes connections that were idle for [`limits::ORIGIN_IDLE`].
    pub fn sweep(&self) {
        for idle in &self.idle {
            lock(idle).retain(|one| !one.sender.is_closed() && one.since.elapsed() < limits::ORIGIN_IDLE);
        }
    }

    fn take(&self) -> Option<SendRequest<Upload>> {
        let mut idle = lock(&self.idle[threads::current()]);
        let at = idle.iter().rposition(|one| one.sender.is_ready())?;
        let one = idle.remove(at);
        (one.since.elapsed() < limits::ORIGIN_IDLE).then_some(one.sender)
    }

    fn give_back(&self, sender: SendRequest<Upload>) {
        let mut idle = lock(&self.idle[threads::current()]);
        if idle.len() < limits::ORIGIN_IDLE_CONNECTIONS
            && !sender.is_closed()
            && let Ok(place) = IDLE.try_acquire()
        {
            idle.push(Idle { sender, since: Instant::now(), _place: place });
        }
    }

    async fn connect(&self) -> Result<SendRequest<Upload>, Failed> {
        let time = self.timeouts.origin_connect;
        let late = |_| Failed::new(UpstreamFailure::Unreachable, format!("no connection within {time:?}"));
        let unreachable = |error: io::Error| Failed::new(UpstreamFailure::Unreachable, error.to_string());
        let opened = async {
            let stream = self.open().await?;
            stream.set_nodelay(true)?;
            let stream = SendTimeout::new(stream, self.timeouts.origin_send);
            match &self.tls {
                None => speak(stream, &self.headers).await,
                Some((connector, name)) => speak(connector.connect(name.clone(), stream).await?, &self.headers).await,
            }
        };
        timeout(time, opened).await.map_err(late)?.map_err(unreachable)
    }

    async fn open(&self) -> io::Result<TcpStream> {
        let addresses: Vec<_> = tokio::net::lookup_host((self.host.as_str(), self.port)).await?.collect();
        first_of(&addresses, self.timeouts.origin_connect).await
    }
}

/// Connects to the first address that answers (RFC 8305, "happy eyeballs"). Each address is tried
/// [`limits::CONNECT_STAGGER`] after the one before, or as soon as that one fails; earlier attempts
/// continue. The order is that of the system, sorted by RFC 6724.
async fn first_of(addresses: &[SocketAddr], time: Duration) -> io::Result<TcpStream> {
    let pause = time / u32::try_from(addresses.len() + 1).unwrap_or(u32::MAX);
    let pause = pause.min(limits::CONNECT_STAGGER);
    let mut attempts = JoinSet::new();
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut left = addresses.iter();
    loop {
        let next = left.next();
        if let Some(address) = next {
            attempts.spawn(TcpStream::connect(*address));
        }
        // The last address has the rest of the time, which the caller bounds.
        let attempt_time = if next.is_some() && left.len() > 0 { pause } else { time };
        match timeout(attempt_time, attempts.join_next()).await {
            Ok(Some(Ok(Ok(stream)))) => return Ok(stream),
            Ok(Some(Ok(Err(error)))) => failed = error,
            Ok(Some(Err(error))) => failed = io::Error::other(error),
            Ok(None) => return Err(failed),
            Err(_) => {}
        }
    }
}

/// The connection runs by itself until either side ends it.
async fn speak(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    headers: &HeaderLimits,
) -> io::Result<SendRequest<Upload>> {
    let mut http1 = http1::Builder::new();
    http1.max_buf_size(headers.buffer()).max_header_size(headers.bytes());
    if let Some(fields) = headers.fields_to_set() {
        http1.max_headers(fields);
    }
    let (sender, connection) = http1.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(async move {
        // A request that waits for a response gets the error.
        let _ = connection.with_upgrades().await;
    });
    Ok(sender)
}

fn lock(idle: &Mutex<Vec<Idle>>) -> MutexGuard<'_, Vec<Idle>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection whose response is being read.
pub struct Lease {
    sender: SendRequest<Upload>,
    server: Arc<Server>,
}

impl Lease {
    /// The response has been read to its end.
    pub(super) fn give_back(self) {
        self.server.give_back(self.sender);
    }
}

/// The body of a response, with its connection until it has been read to its end.
pub struct ReceivedBody {
    body: Incoming,
    lease: Option<Box<Lease>>,
}

impl ReceivedBody {
    /// Without a lease, the connection is not used again.
    fn new(body: Incoming, mut lease: Option<Lease>) -> ReceivedBody {
        if body.is_end_stream() {
            lease.take().into_iter().for_each(Lease::give_back);
        }
        ReceivedBody { body, lease: lease.map(Box::new) }
    }
}

impl Body for ReceivedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        let at_end = frame.is_none() || this.body.is_end_stream() && matches!(frame, Some(Ok(_)));
        if at_end && let Some(lease) = this.lease.take() {
            lease.give_back();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(BodyError::new)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Classifies an error on a connection. An error while the client still sends its body says nothing
/// about the server: a server may close a connection on which a slow client sends nothing.
/// `has_ended`: the whole body had arrived.
fn classify(error: &hyper::Error, has_ended: bool) -> Failed {
    let reason = causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let timed_out = |cause: &(dyn Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
    };
    let (failure, verdict) = if let Some(upload) = causes(error).find_map(|cause| cause.downcast_ref::<BodyError>()) {
        let failure = if upload.is_silence() { UpstreamFailure::UploadTimedOut } else { UpstreamFailure::Upload };
        (failure, ConnectionVerdict::Nothing)
    } else if causes(error).any(timed_out) {
        (UpstreamFailure::TimedOut, ConnectionVerdict::Failed)
    } else if error.is_parse_too_large() {
        (UpstreamFailure::HeadTooLarge, ConnectionVerdict::Answered)
    } else if error.is_parse() {
        (UpstreamFailure::Malformed, ConnectionVerdict::Failed)
    } else {
        (UpstreamFailure::Unreachable, if has_ended { ConnectionVerdict::Failed } else { ConnectionVerdict::Nothing })
    };
    Failed { failure, reason, verdict }
}

fn is_unreachable(error: &hyper::Error) -> bool {
    classify(error, true).failure == UpstreamFailure::Unreachable
}

fn causes(error: &hyper::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let first: &(dyn Error + 'static) = error;
    std::iter::successors(Some(first), |error: &&(dyn Error + 'static)| (*error).source())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::Method;
    use socket2::{Domain, Socket, Type};
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn nothing() -> Request<Upload> {
        Request::new(Upload::empty())
    }

    fn server(address: SocketAddr) -> Arc<Server> {
        let server = Server::new(
            &format!("http://{address}").parse().unwrap(),
            None,
            Timeouts::default(),
            HeaderLimits::default(),
        );
        Arc::new(server.unwrap())
    }

    /// Failure: a server whose host is off, and which does not answer at all, costs clients their
    /// answers, while one that refuses costs nothing.
    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_to_a_connection_is_not_there_and_another_may_be_asked() {
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let listener = socket();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        // No process accepts: the queue is soon full, and further connections get no answer.
        let waiting = [(); 8].map(|()| socket());
        for socket in &waiting {
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&address);
        }
        let asked = server(address.as_socket().unwrap()).ask(nothing(), nothing).await;
        let failed = asked.err().unwrap();
        assert_eq!(failed.failure, UpstreamFailure::Unreachable, "{}", failed.reason);
    }

    /// Failure: a server with one address of each kind, one of them unreachable, costs every client
    /// a time-out.
    #[tokio::test]
    async fn an_address_that_does_not_answer_costs_a_moment() {
        let silent = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        silent.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        silent.listen(0).unwrap();
        let nowhere = silent.local_addr().unwrap().as_socket().unwrap();
        let waiting = [(); 8].map(|()| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap());
        for socket in &waiting {
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&nowhere.into());
        }
        let refusing = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        for addresses in [&[nowhere, good][..], &[refusing, good], &[nowhere, refusing, good], &[good, nowhere]] {
            let found = first_of(addresses, limits::CONNECT).await.unwrap().peer_addr().unwrap();
            assert_eq!(found, good, "{addresses:?}");
        }
        let error = first_of(&[refusing, refusing], limits::CONNECT).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(first_of(&[], limits::CONNECT).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// Failure: every request costs a handshake; a connection that the server has closed fails the
    /// next request; idle connections stay for ever.
    #[tokio::test]
    async fn connections_serve_again_and_closed_ones_do_not() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = server(listener.local_addr().unwrap());
        let count = tokio::spawn(async move {
            // Two responses on the first connection, then one on each.
            let mut buffer = [0; 1000];
            for (connections, responses) in [(1, 2), (2, 1)] {
                let (mut stream, _) = listener.accept().await.unwrap();
                for _ in 0..responses {
                    let _ = stream.read(&mut buffer).await.unwrap();
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await.unwrap();
                }
                if connections == 2 {
                    // Still open when the test looks.
                    return stream;
                }
            }
            unreachable!()
        });
        for _ in 0..3 {
            let mut body = server.ask(nothing(), nothing).await.ok().unwrap().into_body();
            while std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await.is_some() {}
            drop(body);
            // The other side may close meanwhile.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let _open = count.await.unwrap();
        let kept = || lock(&server.idle[threads::current()]).len();
        server.sweep();
        assert_eq!(kept(), 1);
        lock(&server.idle[threads::current()])[0].since -= limits::ORIGIN_IDLE;
        server.sweep();
        assert_eq!(kept(), 0);
    }

    /// Failure: a server closes a kept connection when a request comes, and a page becomes a 502;
    /// or an unsafe request is executed twice.
    #[tokio::test]
    async fn what_a_kept_connection_swallows_is_asked_once_more_unless_it_changes_something() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = server(listener.local_addr().unwrap());
        let count = tokio::spawn(async move {
            let mut buffer = [0; 1000];
            let mut requests = 0;
            // Each connection answers once, reads once more, and closes.
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut buffer).await.unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
                requests += 1 + usize::from(stream.read(&mut buffer).await.unwrap() > 0);
            }
            requests
        });
        let asked = async |method: Method| {
            let request = || {
                let mut request = Request::new(Upload::empty());
                *request.method_mut() = method.clone();
                request
            };
            let answered = server.ask(request(), request).await.is_ok();
            tokio::time::sleep(Duration::from_millis(50)).await;
            answered
        };
        assert!(asked(Method::GET).await);
        assert!(asked(Method::GET).await, "swallowed, and asked anew");
        assert!(!asked(Method::POST).await, "swallowed");
        assert_eq!(count.await.unwrap(), 4);
    }
}
