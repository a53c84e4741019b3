//! Connections to one server of an origin: opened on demand, and kept for a while when idle. Those
//! of HTTP/2 carry several requests at once (`origin_http2.rs`).
//!
//! Each request thread has its own, so the thread whose requests a connection carries also drives
//! it. A request takes the connection that was returned last. If the server closed it before hyper
//! wrote the request, the request goes to another connection. If hyper had written it, the server
//! may have acted on it: it is sent once more on a new connection only if the method allows that
//! (RFC 9110 §9.2.2, RFC 9112 §9.3.1).

use crate::base::header_limits::HeaderLimits;
use crate::base::timeouts::Timeouts;
use crate::base::{limits, threads};
use crate::message::body::{BodyError, UploadEnd};
use crate::message::field_names::without_forbidden_trailers;
use crate::message::upload::{Upload, UploadStart};
use crate::origin::dial::{Address, Connected, OriginProtocol};
use crate::origin::origin_http2;
use crate::origin::origin_http2::{Http2Connections, Http2Stream};
use crate::origin::send_timeout::SendTimeout;
use ::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use ::http::uri::Uri;
use ::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use larder_http::UpstreamFailure;
use rustls::ClientConfig;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::time::timeout;

/// One server of an origin, and the connections to it.
pub struct Server {
    pub(crate) address: Address,
    protocol: OriginProtocol,
    /// True after a server that may choose has chosen HTTP/1.1.
    has_chosen_http1: AtomicBool,
    timeouts: Timeouts,
    headers: HeaderLimits,
    /// Idle connections by thread; the last returned ones are at the end.
    idle: Box<[Mutex<Vec<Idle>>]>,
    /// Connections of HTTP/2 by thread.
    http2: Box<[Http2Connections]>,
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
    /// The server has failed: it cannot be reached, or the time is over.
    Failed,
    /// It has ended the connection or sent nonsense instead of a response. The request may be the
    /// cause: a program may crash at one page, and answer all others.
    Broken,
    /// The server has answered, with a response that is not forwarded.
    Answered,
    /// Nothing: the client may be the cause.
    Nothing,
}

impl Failed {
    pub(crate) fn new(failure: UpstreamFailure, reason: impl Into<String>) -> Failed {
        let verdict = match failure {
            UpstreamFailure::Malformed => ConnectionVerdict::Broken,
            _ => ConnectionVerdict::Failed,
        };
        Failed {
            failure,
            reason: reason.into(),
            verdict,
        }
    }
}

/// The result of a request in hyper.
type Sent = Result<Response<Incoming>, TrySendError<Request<Upload>>>;

impl Server {
    /// Creates the server of `http://HOST[:PORT][/PATH]`, or of `https`, whose certificate `trust`
    /// has to verify, or of `unix://localhost/SOCKET[:/PATH]`. `None` for any other URI.
    pub fn new(
        uri: &Uri,
        trust: Option<&Arc<ClientConfig>>,
        timeouts: Timeouts,
        headers: HeaderLimits,
    ) -> Option<Server> {
        Some(Server::with(Address::new(uri, trust)?, timeouts, headers))
    }

    fn with(address: Address, timeouts: Timeouts, headers: HeaderLimits) -> Server {
        let idle = (0..limits::THREADS).map(|_| Mutex::default()).collect();
        let http2 = (0..limits::THREADS)
            .map(|_| Http2Connections::default())
            .collect();
        let (protocol, has_chosen_http1) = (OriginProtocol::Http1, AtomicBool::new(false));
        Server {
            address,
            protocol,
            has_chosen_http1,
            timeouts,
            headers,
            idle,
            http2,
        }
    }

    /// Sets the protocol of its connections.
    #[must_use]
    pub fn with_protocol(mut self, protocol: OriginProtocol) -> Server {
        self.address.set_protocol(protocol);
        Server { protocol, ..self }
    }

    /// Returns the same server at one address of its name, without connections.
    pub(crate) fn at(&self, address: IpAddr) -> Server {
        let server = Server::with(self.address.at(address), self.timeouts, self.headers);
        Server {
            protocol: self.protocol,
            ..server
        }
    }

    /// Returns true if this is the same server, with the same settings.
    pub(crate) fn is_like(&self, other: &Server) -> bool {
        self.address.is_same(&other.address)
            && self.protocol == other.protocol
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
        let is_whole = request.body().is_end_stream();
        let may_repeat = request.method().is_idempotent() && is_whole;
        // A change of protocol is one of HTTP/1.1.
        let only_http1 = request.headers().contains_key(UPGRADE);
        // The time at which a kept connection failed: only a newer one gets the request then.
        let (mut failed_at, mut refused) = (None, 0);
        loop {
            let (mut channel, is_fresh) = match self.channel(only_http1, failed_at).await {
                Ok(channel) => channel,
                Err(failed) => {
                    request.body_mut().take_rest().await;
                    return Err(failed);
                }
            };
            self.adapt(&channel, &mut request);
            // If the server answers before it gets the body, it may read the body later as one, or
            // as the next request. No other request may use this connection.
            let is_held = request.body().is_held();
            let start = match &channel {
                Channel::Http1(_) => None,
                Channel::Http2(_) => request.body().keep_start(),
            };
            let (body_end, answered) = (request.body_mut().watch_end(), request.body().answered());
            let waited = match &mut channel {
                Channel::Http1(sender) => {
                    self.within(sender.try_send_request(request), body_end)
                        .await
                }
                Channel::Http2(stream) => {
                    let waited =
                        Box::pin(self.within(stream.sender.try_send_request(request), body_end))
                            .await;
                    if waited.is_err() {
                        stream.retire();
                    }
                    waited
                }
            };
            let (sent, end) = waited?;
            match sent {
                Ok(mut response) => {
                    self.check_head(&channel, response.headers())?;
                    normalise_framing(response.headers_mut())?;
                    if let Some(answered) = answered {
                        answered.store(true, Ordering::Relaxed);
                    }
                    // Nor after a change of protocol.
                    let is_http = response.status() != StatusCode::SWITCHING_PROTOCOLS;
                    let ends_by_flag = matches!(channel, Channel::Http2(_));
                    let lease = (is_http && !is_held).then(|| Lease {
                        channel,
                        server: Arc::clone(self),
                    });
                    return Ok(response.map(|body| ReceivedBody::new(body, ends_by_flag, lease)));
                }
                // A new connection fails for a reason of its own; a kept one perhaps because the
                // server has just closed it.
                Err(mut error) => match error.take_message() {
                    Some(unsent) if !is_fresh => request = unsent,
                    None if refused < limits::REFUSED
                        && origin_http2::is_unprocessed(error.error()) =>
                    {
                        let body = if is_whole {
                            Some(Upload::empty())
                        } else {
                            start.and_then(UploadStart::again)
                        };
                        let Some(body) = body else {
                            return Err(classify(error.error(), end));
                        };
                        (request, refused) = (again(), refused + 1);
                        *request.body_mut() = body;
                    }
                    None if !is_fresh
                        && failed_at.is_none()
                        && may_repeat
                        && is_unreachable(error.error()) =>
                    {
                        (request, failed_at) = (again(), Some(Instant::now()));
                    }
                    _ => return Err(classify(error.error(), end)),
                },
            }
        }
    }

    /// Gives a request the form for the protocol of the channel.
    fn adapt(&self, channel: &Channel, request: &mut Request<Upload>) {
        match channel {
            Channel::Http1(_) => {
                if request.uri().authority().is_some() {
                    origin_http2::adapt_back(request);
                }
                // Without this field, hyper would send a GET without its body.
                let is_chunked =
                    !request.body().is_end_stream() && request.body().size_hint().exact().is_none();
                if is_chunked && matches!(*request.method(), Method::GET | Method::HEAD) {
                    request
                        .headers_mut()
                        .insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
                }
            }
            Channel::Http2(_) => {
                origin_http2::adapt(request, self.address.is_secure(), &self.address.authority)
            }
        }
    }

    /// Compares the head of a response by HTTP/2 with the limits. hyper knows those of HTTP/1.1.
    fn check_head(&self, channel: &Channel, headers: &HeaderMap) -> Result<(), Failed> {
        if matches!(channel, Channel::Http1(_)) || self.headers.hold(headers) {
            return Ok(());
        }
        let (failure, verdict) = (UpstreamFailure::HeadTooLarge, ConnectionVerdict::Answered);
        Err(Failed {
            failure,
            reason: "the head of its response is too large".to_owned(),
            verdict,
        })
    }

    /// Waits for the response: `origin_response` from the end of the request's body, however long
    /// that takes. Also returns how the body had ended, if it had.
    ///
    /// # Errors
    /// The time is over.
    async fn within(
        &self,
        sent: impl Future<Output = Sent>,
        body_end: Option<oneshot::Receiver<UploadEnd>>,
    ) -> Result<(Sent, Option<UploadEnd>), Failed> {
        let mut sent = std::pin::pin!(sent);
        let mut end = UploadEnd::Whole;
        if let Some(mut body_end) = body_end {
            tokio::select! {
                biased;
                sent = sent.as_mut() => return Ok((sent, body_end.try_recv().ok())),
                ended = &mut body_end => end = ended.unwrap_or(UploadEnd::Whole),
            }
        }
        let time = self.timeouts.origin_response;
        let late = |_| {
            Failed::new(
                UpstreamFailure::TimedOut,
                format!("no response within {time:?}"),
            )
        };
        timeout(time, sent)
            .await
            .map(|sent| (sent, Some(end)))
            .map_err(late)
    }

    /// Closes connections that were idle for `origin_keepalive`, or of HTTP/2 for
    /// [`limits::ORIGIN_HTTP2_IDLE`].
    pub fn sweep(&self) {
        for idle in &self.idle {
            lock(idle).retain(|one| {
                !one.sender.is_closed() && one.since.elapsed() < self.timeouts.origin_keepalive
            });
        }
        self.http2.iter().for_each(Http2Connections::sweep);
    }

    fn take(&self) -> Option<SendRequest<Upload>> {
        let mut idle = lock(&self.idle[threads::current()]);
        let at = idle.iter().rposition(|one| one.sender.is_ready())?;
        let one = idle.remove(at);
        (one.since.elapsed() < self.timeouts.origin_keepalive).then_some(one.sender)
    }

    fn give_back(&self, sender: SendRequest<Upload>) {
        let mut idle = lock(&self.idle[threads::current()]);
        if idle.len() < limits::ORIGIN_IDLE_CONNECTIONS
            && !sender.is_closed()
            && let Ok(place) = IDLE.try_acquire()
        {
            idle.push(Idle {
                sender,
                since: Instant::now(),
                _place: place,
            });
        }
    }

    /// Returns a connection for one request, and whether it is new. `failed_at`: only one that was
    /// opened later.
    async fn channel(
        &self,
        only_http1: bool,
        failed_at: Option<Instant>,
    ) -> Result<(Channel, bool), Failed> {
        if !only_http1 && self.may_speak_http2() {
            return Box::pin(self.http2_channel(failed_at)).await;
        }
        match if failed_at.is_none() {
            self.take()
        } else {
            None
        } {
            Some(sender) => Ok((Channel::Http1(sender), false)),
            // Boxed, because it is rare and a handshake's state would make every request's as
            // large.
            None => match Box::pin(self.connect(false)).await? {
                Fresh::Http1(sender) => Ok((Channel::Http1(sender), true)),
                Fresh::Http2(_) => Err(Failed::new(
                    UpstreamFailure::Malformed,
                    "it speaks HTTP/2, unasked",
                )),
            },
        }
    }

    fn may_speak_http2(&self) -> bool {
        match self.protocol {
            OriginProtocol::Http1 => false,
            OriginProtocol::Http2 => true,
            OriginProtocol::Auto => {
                self.address.is_secure() && !self.has_chosen_http1.load(Ordering::Relaxed)
            }
        }
    }

    /// One request of a thread opens a connection, and those that come meanwhile share it.
    async fn http2_channel(&self, failed_at: Option<Instant>) -> Result<(Channel, bool), Failed> {
        let connections = &self.http2[threads::current()];
        let kept = || connections.stream(failed_at);
        if let Some(stream) = kept() {
            return Ok((Channel::Http2(stream), false));
        }
        let since = Instant::now();
        let mut opening = connections.opening.lock().await;
        if let Some((failure, reason)) = opening.failed(since) {
            return Err(Failed::new(failure, reason));
        }
        if let Some(stream) = kept() {
            return Ok((Channel::Http2(stream), false));
        }
        match self.connect(true).await {
            Ok(Fresh::Http2(sender)) => Ok((Channel::Http2(connections.add(sender)), true)),
            Ok(Fresh::Http1(sender)) => {
                self.has_chosen_http1.store(true, Ordering::Relaxed);
                Ok((Channel::Http1(sender), true))
            }
            Err(failed) => {
                opening.fail(failed.failure, &failed.reason);
                Err(failed)
            }
        }
    }

    async fn connect(&self, may_negotiate: bool) -> Result<Fresh, Failed> {
        let time = self.timeouts.origin_connect;
        let late = |_| {
            Failed::new(
                UpstreamFailure::Unreachable,
                format!("no connection within {time:?}"),
            )
        };
        let unreachable =
            |error: io::Error| Failed::new(UpstreamFailure::Unreachable, error.to_string());
        let opened = async {
            let stream =
                SendTimeout::new(self.address.open(time).await?, self.timeouts.origin_send);
            let (stream, negotiated) = self.address.secure(stream, may_negotiate).await?;
            let is_http2 = match (self.address.is_secure(), self.protocol) {
                _ if !may_negotiate => false,
                (true, _) => negotiated.as_deref() == Some(b"h2"),
                // By prior knowledge (RFC 9113 §3.3).
                (false, protocol) => protocol == OriginProtocol::Http2,
            };
            if may_negotiate && self.protocol == OriginProtocol::Http2 && !is_http2 {
                return Err(io::Error::other("it does not choose HTTP/2 (ALPN)"));
            }
            Ok(if is_http2 {
                Fresh::Http2(origin_http2::speak(stream).await?)
            } else {
                Fresh::Http1(speak(stream, &self.headers).await?)
            })
        };
        timeout(time, opened)
            .await
            .map_err(late)?
            .map_err(unreachable)
    }
}

/// A new connection.
enum Fresh {
    Http1(SendRequest<Upload>),
    Http2(hyper::client::conn::http2::SendRequest<Upload>),
}

/// A connection, or a place on one.
enum Channel {
    Http1(SendRequest<Upload>),
    Http2(Http2Stream),
}

/// The connection runs by itself until either side ends it.
async fn speak(
    stream: Box<dyn Connected>,
    headers: &HeaderLimits,
) -> io::Result<SendRequest<Upload>> {
    let mut http1 = http1::Builder::new();
    // RFC 9112 §5.1: a proxy removes a blank before the colon from a response.
    http1.allow_spaces_after_header_name_in_responses(true);
    http1
        .max_buf_size(headers.buffer())
        .max_header_size(headers.bytes());
    if let Some(fields) = headers.fields_to_set() {
        http1.max_headers(fields);
    }
    let (sender, connection) = http1
        .handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
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
    channel: Channel,
    server: Arc<Server>,
}

impl Lease {
    /// The response has been read to its end.
    pub(crate) fn give_back(self) {
        // A place on a connection of HTTP/2 ends by itself.
        if let Channel::Http1(sender) = self.channel {
            self.server.give_back(sender);
        }
    }
}

/// The body of a response, with its connection until it has been read to its end.
pub struct ReceivedBody {
    body: Incoming,
    /// True if its end has a flag, END_STREAM (HTTP/2). hyper also reports an end where a stream is
    /// reset without an error.
    ends_by_flag: bool,
    lease: Option<Box<Lease>>,
}

impl ReceivedBody {
    /// Without a lease, the connection is not used again.
    fn new(body: Incoming, ends_by_flag: bool, mut lease: Option<Lease>) -> ReceivedBody {
        if body.is_end_stream() {
            lease.take().into_iter().for_each(Lease::give_back);
        }
        ReceivedBody {
            body,
            ends_by_flag,
            lease: lease.map(Box::new),
        }
    }
}

impl Body for ReceivedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        let at_end = frame.is_none() || this.body.is_end_stream() && matches!(frame, Some(Ok(_)));
        if at_end && let Some(lease) = this.lease.take() {
            lease.give_back();
        }
        if frame.is_none() && this.ends_by_flag && !this.body.is_end_stream() {
            return Poll::Ready(Some(Err(BodyError::new("the stream was reset"))));
        }
        Poll::Ready(frame.map(|frame| {
            frame
                .map(without_forbidden_trailers)
                .map_err(BodyError::new)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Gives a response one length. Fails if it has a transfer coding besides `chunked`, which is the
/// only one that is taken off again (RFC 9112 §6.1): clients would not know of the other.
fn normalise_framing(headers: &mut HeaderMap) -> Result<(), Failed> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).into_iter();
    let is_chunked = codings.next().is_none_or(|coding| {
        coding
            .as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(b"chunked")
    });
    if !is_chunked || codings.next().is_some() {
        return Err(Failed::new(
            UpstreamFailure::Malformed,
            "its transfer coding is not just chunked",
        ));
    }
    // hyper has compared them if there are several.
    let Some(length) = headers.get(CONTENT_LENGTH) else {
        return Ok(());
    };
    let first = length
        .as_bytes()
        .split(|byte| *byte == b',')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    let number: Option<u64> = str::from_utf8(first)
        .ok()
        .and_then(|digits| digits.parse().ok());
    let Some(number) = number.filter(|_| first.iter().all(u8::is_ascii_digit)) else {
        return Err(Failed::new(
            UpstreamFailure::Malformed,
            "its length is no number",
        ));
    };
    let is_plain = first.len() == length.len() && (first == b"0" || first[0] != b'0');
    if !is_plain || headers.get_all(CONTENT_LENGTH).into_iter().nth(1).is_some() {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(number));
    }
    Ok(())
}

/// Classifies an error on a connection. An error while the client still sends its body says nothing
/// about the server: a server may close a connection on which a slow client sends nothing. `end`:
/// how the body ended, if it did.
fn classify(error: &hyper::Error, end: Option<UploadEnd>) -> Failed {
    let reason = causes(error)
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ");
    let http2 = origin_http2::http2_error(error);
    let is_late = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
    let timed_out =
        |cause: &(dyn Error + 'static)| cause.downcast_ref::<io::Error>().is_some_and(is_late);
    let upload = causes(error).find_map(|cause| cause.downcast_ref::<BodyError>());
    // HTTP/2 resets its stream after that, and has no cause.
    let upload = upload.map(BodyError::failure).or(match end {
        Some(UploadEnd::Failed(failure)) => Some(failure),
        _ => None,
    });
    let (failure, verdict) = if let Some(failure) = upload {
        (failure, ConnectionVerdict::Nothing)
    } else if origin_http2::is_unprocessed(error) {
        // It ends its connections as it may, or has too much to do.
        (UpstreamFailure::Unreachable, ConnectionVerdict::Nothing)
    } else if causes(error).any(timed_out) || http2.and_then(h2::Error::get_io).is_some_and(is_late)
    {
        (UpstreamFailure::TimedOut, ConnectionVerdict::Failed)
    } else if error.is_parse_too_large() {
        (UpstreamFailure::HeadTooLarge, ConnectionVerdict::Answered)
    } else if error.is_parse() || http2.is_some_and(h2::Error::is_library) {
        (UpstreamFailure::Malformed, ConnectionVerdict::Broken)
    } else {
        let verdict = if end.is_some() {
            ConnectionVerdict::Broken
        } else {
            ConnectionVerdict::Nothing
        };
        (UpstreamFailure::Unreachable, verdict)
    };
    Failed {
        failure,
        reason,
        verdict,
    }
}

fn is_unreachable(error: &hyper::Error) -> bool {
    classify(error, Some(UploadEnd::Whole)).failure == UpstreamFailure::Unreachable
}

fn causes(error: &hyper::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let first: &(dyn Error + 'static) = error;
    std::iter::successors(Some(first), |error: &&(dyn Error + 'static)| {
        (*error).source()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::Method;
    use socket2::{Domain, Socket, Type};
    use std::net::SocketAddr;
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
        listener
            .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
            .unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        // No process accepts: the queue is soon full, and further connections get no answer.
        let waiting = [(); 8].map(|()| socket());
        for socket in &waiting {
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&address);
        }
        let asked = server(address.as_socket().unwrap())
            .ask(nothing(), nothing)
            .await;
        let failed = asked.err().unwrap();
        assert_eq!(
            failed.failure,
            UpstreamFailure::Unreachable,
            "{}",
            failed.reason
        );
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
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
                        .await
                        .unwrap();
                }
                if connections == 2 {
                    // Still open when the test looks.
                    return stream;
                }
            }
            unreachable!()
        });
        for _ in 0..3 {
            let mut body = server
                .ask(nothing(), nothing)
                .await
                .ok()
                .unwrap()
                .into_body();
            while std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx))
                .await
                .is_some()
            {}
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
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                    .await
                    .unwrap();
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
