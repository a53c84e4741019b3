//! The caching reverse proxy: clients' requests into the cache, the cache's wishes to the origin, responses back.

use super::body::{OriginBody, Outgoing, Relay, Upload};
use super::upstream::Origin;
use super::{Upstream, limits, max_forwards, round_trip};
use ::http::header::{CONTENT_LENGTH, EXPECT, HOST};
use ::http::request::Parts;
use ::http::uri::{Authority, PathAndQuery};
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use larder_http::{
    Answer, Cache, Completion, Exchange, Fill, Now, Reply, RequestHead, ResponseHead, Step, UpstreamFailure,
};
use larder_units::Time;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Fields from which frameworks take a target, a scheme or a method other than the request's. They are not part of the cache key, so a
/// client could choose with them what others get (web cache poisoning): they do not pass. `X-Forwarded-Host` and `-Proto` are set anew.
const UNKEYED: [HeaderName; 10] = [
    HeaderName::from_static("forwarded"),
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-prefix"),
    HeaderName::from_static("x-forwarded-scheme"),
    HeaderName::from_static("x-forwarded-server"),
    HeaderName::from_static("x-host"),
    HeaderName::from_static("x-original-url"),
    HeaderName::from_static("x-rewrite-url"),
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-method-override"),
];
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The cache and the way to the origin, shared by all connections.
pub(super) struct Proxy {
    state: Mutex<State>,
    origin: Origin,
    started: Instant,
    /// A request that went round in a circle has been logged.
    circle_logged: AtomicBool,
}

struct State {
    cache: Cache,
    /// Requests since the policy was last asked for long work.
    since_job_check: u32,
    /// Long work is under way.
    job_running: bool,
}

impl Proxy {
    pub(super) fn new(cache: Cache, upstream: &Upstream) -> Result<Proxy, String> {
        let state = Mutex::new(State { cache, since_job_check: 0, job_running: false });
        let origin = Origin::new(upstream)?;
        Ok(Proxy { state, origin, started: Instant::now(), circle_logged: AtomicBool::new(false) })
    }

    /// Reads figures off the cache.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Cache) -> T) -> T {
        read(&self.lock().cache)
    }

    pub(super) fn complete(&self, fill: Box<Fill>) {
        let now = self.now();
        if self.lock().cache.on_complete(fill, now) == Completion::Truncated {
            tracing::debug!("the origin's body was not as long as it said");
        }
    }

    pub(super) fn abort(&self, fill: Box<Fill>) {
        self.lock().cache.on_abort(fill);
    }

    fn now(&self) -> Now {
        let nanos = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Now { time: Time::from_nanos(nanos), unix_seconds }
    }

    /// The cache's methods leave it consistent or do not return: a panic in one of them is a bug, and the cache goes on.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the cache, and now and then the policy whether it has long work.
    fn step(self: &Arc<Self>, head: &RequestHead<'_>) -> Step {
        let now = self.now();
        let mut state = self.lock();
        let step = state.cache.on_request(head, now);
        state.since_job_check += 1;
        if state.since_job_check >= limits::REQUESTS_PER_JOB_CHECK && !state.job_running {
            state.since_job_check = 0;
            if let Some(job) = state.cache.job() {
                state.job_running = true;
                let running = JobRunning(Arc::clone(self));
                // AdaptSize's search takes tens of milliseconds: not on the thread that answers.
                tokio::task::spawn_blocking(move || {
                    let done = job.run();
                    running.0.lock().cache.complete_job(done);
                });
            }
        }
        step
    }

    /// A request that has come round too often is not sent round again; one line says so, since the others would all be the same.
    fn refuse_circle(&self, exchange: &Exchange) -> Response<Outgoing> {
        if !self.circle_logged.swap(true, Ordering::Relaxed) {
            let host = exchange.authority();
            tracing::warn!(host, "[http] origin leads back to this cache: requests that go round in a circle get 508");
        }
        sent(self.lock().cache.on_failure(exchange, UpstreamFailure::Circle, self.now()))
    }

    /// A request that the store does not answer.
    async fn forward(
        self: Arc<Self>,
        mut exchange: Box<Exchange>,
        parts: Parts,
        body: Incoming,
        peer: SocketAddr,
        host: HeaderValue,
    ) -> Response<Outgoing> {
        let target = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        let mut headers = exchange.upstream_headers(parts.headers);
        introduce(&mut headers, peer, &host);
        let upload = if body.is_end_stream() { Upload::empty() } else { Upload::new(body) };
        let mut asked = self.origin.ask(parts.method.clone(), target.clone(), headers, upload).await;
        loop {
            let (head, body) = match asked {
                Ok(response) => response.into_parts(),
                Err(failure) => return sent(self.lock().cache.on_failure(&exchange, failure, self.now())),
            };
            let head = ResponseHead { status: head.status, version: head.version, headers: head.headers };
            let now = self.now();
            let reply = self.lock().cache.on_response(exchange, head, now);
            match reply {
                Reply::Answer(answer) => return sent(answer),
                Reply::Relay { status, headers, fill } => return self.relay(status, headers, body, fill),
                Reply::Retry(again) => {
                    exchange = again;
                    let mut headers = exchange.retry_headers();
                    introduce(&mut headers, peer, &host);
                    asked = self.origin.ask(parts.method.clone(), target.clone(), headers, Upload::empty()).await;
                }
            }
        }
    }

    fn relay(
        self: Arc<Self>,
        status: StatusCode,
        headers: HeaderMap,
        body: OriginBody,
        fill: Option<Box<Fill>>,
    ) -> Response<Outgoing> {
        let relay = Outgoing::Relay(Box::new(Relay::new(body, fill, self)));
        let mut response = Response::new(relay);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

/// Long work of the policy, under way until this is dropped: also where it panics, so that the next may run.
struct JobRunning(Arc<Proxy>);

impl Drop for JobRunning {
    fn drop(&mut self) {
        self.0.lock().job_running = false;
    }
}

/// One connection's service.
pub(super) struct Service {
    proxy: Arc<Proxy>,
    peer: SocketAddr,
}

impl Service {
    pub(super) fn new(proxy: &Arc<Proxy>, peer: SocketAddr) -> Service {
        Service { proxy: Arc::clone(proxy), peer }
    }
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<Outgoing>;
    type Error = Infallible;
    type Future = Responding;

    fn call(&self, request: Request<Incoming>) -> Responding {
        let (mut parts, body) = request.into_parts();
        let fallback = self.proxy.origin.authority();
        let own_answer = max_forwards::spend(&mut parts);
        let exchange = match authority(&parts, fallback) {
            Err(refusal) => return Responding::Now(Some(refuse(refusal))),
            Ok(_) if own_answer.is_some() => return Responding::Now(own_answer),
            Ok(authority) => {
                let head = RequestHead {
                    method: &parts.method,
                    scheme: "http",
                    authority,
                    target: parts.uri.path_and_query().map_or("/", PathAndQuery::as_str),
                    version: parts.version,
                    headers: &parts.headers,
                    has_body: !body.is_end_stream(),
                };
                match self.proxy.step(&head) {
                    Step::Answer(answer) => return Responding::Now(Some(sent(answer))),
                    Step::Forward(exchange) => exchange,
                }
            }
        };
        if round_trip::goes_round(&parts.headers) {
            return Responding::Now(Some(self.proxy.refuse_circle(&exchange)));
        }
        // As it is keyed: what `EXAMPLE.com:80` gets is stored for `example.com`. An authority is visible ASCII.
        let Ok(host) = HeaderValue::from_str(exchange.authority()) else {
            return Responding::Now(Some(refuse("the host has odd characters")));
        };
        parts.headers.remove(EXPECT);
        let forward = Arc::clone(&self.proxy).forward(exchange, parts, body, self.peer, host);
        Responding::Later(Box::pin(forward))
    }
}

/// A hit needs no boxed future.
pub(super) enum Responding {
    Now(Option<Response<Outgoing>>),
    Later(Pin<Box<dyn Future<Output = Response<Outgoing>> + Send>>),
}

impl Future for Responding {
    type Output = Result<Response<Outgoing>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Responding::Now(response) => response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
            Responding::Later(future) => future.as_mut().poll(cx).map(Ok),
        }
    }
}

/// Whom the request is for. RFC 9112 §3.2: a request with no `Host`, several or an invalid one is answered with 400; a target in absolute
/// form overrules it (§3.2.2).
fn authority<'a>(parts: &'a Parts, fallback: &'a str) -> Result<&'a str, &'static str> {
    if parts.method == Method::CONNECT {
        return Err("this is no tunnel");
    }
    let mut hosts = parts.headers.get_all(HOST).into_iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().map_err(|_| "the host has odd characters")?,
        (None, _) if parts.version == Version::HTTP_10 => fallback,
        (None, _) => return Err("there is no Host"),
        (Some(_), Some(_)) => return Err("there are several Hosts"),
    };
    let named = match parts.uri.authority() {
        Some(_) if parts.uri.scheme_str() != Some("http") => return Err("only http is served here"),
        Some(authority) => authority.as_str(),
        None => host,
    };
    let sound = |text: &str| !text.contains('@') && text.parse::<Authority>().is_ok();
    if sound(host) && (named == host || sound(named)) { Ok(named) } else { Err("the host is not a host") }
}

/// Tells the origin who asks whom, and nothing else of the kind.
fn introduce(headers: &mut HeaderMap, peer: SocketAddr, host: &HeaderValue) {
    for name in UNKEYED {
        headers.remove(name);
    }
    let mut path: Vec<u8> = Vec::new();
    for line in headers.get_all(X_FORWARDED_FOR) {
        path.extend_from_slice(line.as_bytes());
        path.extend_from_slice(b", ");
    }
    path.extend_from_slice(peer.ip().to_canonical().to_string().as_bytes());
    if let Ok(path) = HeaderValue::from_maybe_shared(Bytes::from(path)) {
        headers.insert(X_FORWARDED_FOR, path);
    }
    headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("http"));
    headers.insert(X_FORWARDED_HOST, host.clone());
    headers.insert(HOST, host.clone());
}

fn sent(answer: Answer) -> Response<Outgoing> {
    let mut response = Response::new(Outgoing::whole(answer.body));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response
}

/// A 400 that closes the connection: after a malformed request, nobody knows where the next one starts.
fn refuse(reason: &'static str) -> Response<Outgoing> {
    let text = Bytes::from(format!("larder: bad request: {reason}\n"));
    let length = HeaderValue::from(text.len());
    let mut response = Response::new(Outgoing::whole(text));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(CONTENT_LENGTH, length);
    response.headers_mut().insert(::http::header::CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fear: one search that panics, and the policy is never tuned again.
    #[test]
    fn long_work_that_panics_is_over() {
        let config = larder_http::Config {
            capacity: larder_units::ByteSize::from_mib(1),
            policy: "lru".parse().unwrap(),
            max_object: larder_units::ByteSize::from_mib(1),
            hash_key: [1; 16],
        };
        let cache = Cache::new(&config, &larder_units::Streams::new(1)).unwrap();
        let proxy = Arc::new(Proxy::new(cache, &Upstream::Generated).unwrap());
        for under_lock in [false, true] {
            proxy.lock().job_running = true;
            let running = JobRunning(Arc::clone(&proxy));
            let work = std::thread::spawn(move || {
                let _state = under_lock.then(|| running.0.lock());
                panic!("on purpose");
            });
            assert!(work.join().is_err());
            assert!(!proxy.lock().job_running);
        }
    }
}
