//! HTTP/2 connections of one thread to one server. Each carries up to [`limits::ORIGIN_STREAMS`]
//! requests at once.
//!
//! A request is sent again only if the server has not processed it: it refused the stream, or its
//! GOAWAY excludes it (RFC 9113 §8.7). Then that is safe for every method.

use crate::base::limits;
use crate::message::upload::Upload;
use ::http::header::{CONNECTION, EXPECT, HOST, TRANSFER_ENCODING};
use ::http::uri::{Authority, PathAndQuery, Scheme, Uri};
use ::http::{HeaderValue, Request, Version};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use larder_http::UpstreamFailure;
use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite};

/// The connections of one thread to one server.
#[derive(Default)]
pub(crate) struct Http2Connections {
    /// Held during a handshake: requests that come meanwhile share its connection.
    pub(crate) opening: tokio::sync::Mutex<Opening>,
    connections: Mutex<Vec<Arc<Http2Connection>>>,
}

/// The result of the last handshake, for the requests that waited for it.
#[derive(Default)]
pub(crate) struct Opening(Option<(Instant, UpstreamFailure, String)>);

impl Opening {
    /// Returns the failure of a handshake that ended after `since`.
    pub(crate) fn failed(&self, since: Instant) -> Option<(UpstreamFailure, String)> {
        let (_, failure, reason) = self.0.as_ref().filter(|(at, ..)| *at >= since)?;
        Some((*failure, reason.clone()))
    }

    /// Records a failure.
    pub(crate) fn fail(&mut self, failure: UpstreamFailure, reason: &str) {
        self.0 = Some((Instant::now(), failure, reason.to_owned()));
    }
}

struct Http2Connection {
    sender: SendRequest<Upload>,
    opened: Instant,
    streams: AtomicUsize,
    /// True after a request got no response in time: the connection may be dead.
    is_retired: AtomicBool,
    /// The end of the last request.
    since: Mutex<Instant>,
}

impl Http2Connection {
    fn is_usable(&self) -> bool {
        !self.sender.is_closed() && !self.is_retired.load(Ordering::Relaxed)
    }

    fn is_idle(&self) -> bool {
        let is_old = || lock(&self.since).elapsed() >= limits::ORIGIN_HTTP2_IDLE;
        self.streams.load(Ordering::Relaxed) == 0
            && (self.is_retired.load(Ordering::Relaxed) || is_old())
    }
}

/// A place for one request on a connection.
pub(crate) struct Http2Stream {
    pub(crate) sender: SendRequest<Upload>,
    connection: Arc<Http2Connection>,
}

impl Http2Stream {
    fn on(connection: &Arc<Http2Connection>) -> Http2Stream {
        connection.streams.fetch_add(1, Ordering::Relaxed);
        Http2Stream {
            sender: connection.sender.clone(),
            connection: Arc::clone(connection),
        }
    }

    /// No further request uses this connection.
    pub(crate) fn retire(&self) {
        self.connection.is_retired.store(true, Ordering::Relaxed);
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        *lock(&self.connection.since) = Instant::now();
        self.connection.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Http2Connections {
    /// Returns a place on an open connection, one that was opened after `after` if that is some
    /// time. `None` if all are full and another one may be opened.
    pub(crate) fn stream(&self, after: Option<Instant>) -> Option<Http2Stream> {
        let connections = lock(&self.connections);
        let is_new =
            |connection: &Http2Connection| after.is_none_or(|after| connection.opened > after);
        let usable = connections
            .iter()
            .filter(|connection| connection.is_usable() && is_new(connection));
        let least = usable.min_by_key(|connection| connection.streams.load(Ordering::Relaxed))?;
        let is_full = least.streams.load(Ordering::Relaxed) >= limits::ORIGIN_STREAMS;
        let may_open = connections.len() < limits::ORIGIN_HTTP2_CONNECTIONS;
        (!is_full || !may_open).then(|| Http2Stream::on(least))
    }

    /// Adds a new connection. Returns its first place.
    pub(crate) fn add(&self, sender: SendRequest<Upload>) -> Http2Stream {
        let connection = Arc::new(Http2Connection {
            sender,
            opened: Instant::now(),
            streams: AtomicUsize::new(0),
            is_retired: AtomicBool::new(false),
            since: Mutex::new(Instant::now()),
        });
        let stream = Http2Stream::on(&connection);
        lock(&self.connections).push(connection);
        stream
    }

    /// Closes idle connections.
    pub(crate) fn sweep(&self) {
        lock(&self.connections)
            .retain(|connection| !connection.sender.is_closed() && !connection.is_idle());
    }
}

/// Begins HTTP/2 on a stream. The connection runs by itself until either side ends it. The caller
/// has to compare the heads of responses with the limits: the error of h2 would not say that one is
/// too large.
pub(crate) async fn speak(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> io::Result<SendRequest<Upload>> {
    let mut http2 = http2::Builder::new(TokioExecutor::new());
    // The window of the connection lets every stream be full: a slow client stops its own only.
    let window = limits::BUFFER_BYTES as u32;
    http2
        .initial_stream_window_size(window)
        .initial_connection_window_size(window * limits::ORIGIN_STREAMS as u32)
        .max_send_buf_size(limits::BUFFER_BYTES)
        .max_header_list_size(limits::ORIGIN_HEADER_LIST_BYTES);
    let (sender, connection) = http2
        .handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(async move {
        // A request that waits for a response gets the error.
        let _ = connection.await;
    });
    Ok(sender)
}

/// Gives a request the form for HTTP/2: the host is a part of the target.
pub(crate) fn adapt(request: &mut Request<Upload>, is_secure: bool, authority: &Authority) {
    let headers = request.headers_mut();
    let host = headers
        .remove(HOST)
        .and_then(|host| Authority::try_from(host.as_bytes()).ok());
    // hyper would remove TE too, if `Connection` names it.
    headers.remove(CONNECTION);
    headers.remove(TRANSFER_ENCODING);
    // hyper's client cannot see that the server asks for the body.
    headers.remove(EXPECT);
    request.body_mut().release();
    if request.uri().authority().is_none() {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(if is_secure {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        });
        parts.authority = Some(host.unwrap_or_else(|| authority.clone()));
        parts
            .path_and_query
            .get_or_insert_with(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
    }
    *request.version_mut() = Version::HTTP_2;
}

/// Gives a request the form for HTTP/1.1 again.
pub(crate) fn adapt_back(request: &mut Request<Upload>) {
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    if let Some(host) = parts
        .authority
        .take()
        .and_then(|host| HeaderValue::from_str(host.as_str()).ok())
    {
        request.headers_mut().insert(HOST, host);
        parts.scheme = None;
    }
    *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
    *request.version_mut() = Version::HTTP_11;
}

/// Returns HTTP/2's error among the causes of an error.
pub(crate) fn http2_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a h2::Error> {
    let mut causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.find_map(|cause| cause.downcast_ref::<h2::Error>())
}

/// Returns true if the server says that it has not processed the request.
pub(crate) fn is_unprocessed(error: &hyper::Error) -> bool {
    let refused =
        |error: &h2::Error| error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    http2_error(error)
        .is_some_and(|error| error.is_remote() && (error.is_go_away() || refused(error)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
