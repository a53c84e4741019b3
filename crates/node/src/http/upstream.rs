//! The way to the origins: which of them a request is for, hyper's client with its pools, or the generated origin. Which server of an origin is
//! asked is decided in `servers.rs`; here it is asked, and asked elsewhere where that may be done twice.

use super::body::{BodyError, OriginBody, Upload};
use super::servers::{self, Servers, Tried};
use super::{OriginGroup, Upstream, limits, named, origin};
use crate::pair::edge::Handle;
use ::http::header::HOST;
use ::http::uri::{Authority, PathAndQuery, Scheme, Uri};
use ::http::{HeaderMap, HeaderValue, Method, Request, Response, Version};
use hyper::body::Body;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use larder_http::UpstreamFailure;
use larder_units::Time;
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Everything that can be asked.
pub(super) struct Origins {
    /// The first that fits is asked.
    groups: Vec<Arc<Group>>,
    /// Whom a request without `Host` (HTTP/1.0) is for.
    authority: String,
    /// What the last group is where it has no servers: the generated origin where there is none.
    named: Option<Arc<Handle>>,
}

/// One origin and its servers. Without servers, it is the generated one.
struct Group {
    /// `None` for all hosts.
    host: Option<String>,
    /// Paths begin so.
    path: String,
    client: Client<HttpConnector, Upload>,
    servers: Vec<Known>,
    state: Mutex<Servers>,
    check: Option<(PathAndQuery, Duration)>,
    /// When the next probes are due.
    check_at: AtomicU64,
    started: Instant,
}

struct Known {
    authority: Authority,
    /// Since it last answered.
    failures: AtomicU64,
}

impl Origins {
    /// # Errors
    /// One line where a server is not `http://HOST[:PORT]`.
    pub(super) fn new(upstream: &Upstream, configured: &[OriginGroup]) -> Result<Origins, String> {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(limits::CONNECT));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(limits::ORIGIN_IDLE)
            .pool_max_idle_per_host(limits::ORIGIN_IDLE_CONNECTIONS)
            .http1_max_buf_size(limits::BUFFER_BYTES)
            .set_host(false)
            .build(connector);
        let mut groups = Vec::new();
        for group in configured {
            if group.servers.is_empty() || group.servers.len() > limits::SERVERS {
                return Err(format!("[[http.origins]] servers: expected 1 to {}", limits::SERVERS));
            }
            groups.push(Arc::new(Group::new(group, "[[http.origins]] servers", &client)?));
        }
        let servers = match upstream {
            Upstream::Generated | Upstream::Named(_) => Vec::new(),
            Upstream::Http(uri) => vec![uri.clone()],
        };
        let rest = OriginGroup { host: None, path: "/".to_owned(), servers, check: None };
        let rest = Group::new(&rest, "[http] origin", &client)?;
        let authority = rest.servers.first().map_or("localhost", |server| server.authority.as_str()).to_owned();
        groups.push(Arc::new(rest));
        let named = match upstream {
            Upstream::Named(edge) => Some(Arc::clone(edge)),
            _ => None,
        };
        Ok(Origins { groups, authority, named })
    }

    /// Whom a request without `Host` (HTTP/1.0) is for.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// Asks. The fields are complete, `Host` among them; `host` is the same, as it is keyed.
    pub(super) async fn ask(
        &self,
        method: Method,
        host: &HeaderValue,
        target: PathAndQuery,
        headers: HeaderMap,
        body: Upload,
    ) -> Result<Response<OriginBody>, UpstreamFailure> {
        let fits = |group: &&Arc<Group>| {
            group.host.as_ref().is_none_or(|wanted| wanted.as_bytes() == host.as_bytes())
                && target.path().starts_with(&group.path)
        };
        match self.groups.iter().find(fits) {
            Some(group) if !group.servers.is_empty() => group.ask(method, host, target, headers, body).await,
            _ if let Some(edge) = &self.named => named::ask(edge, method, host, target, headers, body).await,
            _ => Ok(origin::respond(&method, &target, &headers).await.map(OriginBody::Generated)),
        }
    }

    /// Starts the probes that are due.
    pub(super) fn check(&self) {
        for group in &self.groups {
            let Some((path, every)) = &group.check else { continue };
            let now = group.now();
            if now.nanos() < group.check_at.load(Ordering::Relaxed) {
                continue;
            }
            group.check_at.store((now + *every).nanos(), Ordering::Relaxed);
            for at in 0..group.servers.len() {
                let (group, path) = (Arc::clone(group), path.clone());
                tokio::spawn(async move { group.probe(at, path).await });
            }
        }
    }

    /// Every server once, and whether requests go there as they should, of all origins that have it.
    pub(super) fn servers(&self) -> BTreeMap<String, bool> {
        let mut all = BTreeMap::new();
        for group in &self.groups {
            let (state, now) = (group.state(), group.now());
            for (at, server) in group.servers.iter().enumerate() {
                *all.entry(server.authority.to_string()).or_insert(true) &= state.is_usable(at, now);
            }
        }
        all
    }
}

impl Group {
    fn new(config: &OriginGroup, setting: &str, client: &Client<HttpConnector, Upload>) -> Result<Group, String> {
        let known = |uri: &Uri| {
            let plain = uri.scheme() == Some(&Scheme::HTTP) && matches!(uri.path(), "" | "/") && uri.query().is_none();
            let authority = uri.authority().filter(|authority| plain && !authority.as_str().contains('@'));
            let authority = authority.ok_or_else(|| format!("{setting}: expected http://HOST:PORT, not {uri}"))?;
            Ok::<_, String>(Known { authority: authority.clone(), failures: AtomicU64::new(0) })
        };
        let servers = config.servers.iter().map(known).collect::<Result<Vec<_>, _>>()?;
        let state = Servers::new(servers.iter().map(|server| server.authority.as_str()));
        Ok(Group {
            host: config.host.clone(),
            path: config.path.clone(),
            client: client.clone(),
            servers,
            state: Mutex::new(state),
            check: config.check.clone(),
            check_at: AtomicU64::new(0),
            started: Instant::now(),
        })
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn state(&self) -> MutexGuard<'_, Servers> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the server of the key; where that fails and the request may be sent twice (RFC 9110 §9.2.2), others.
    async fn ask(
        &self,
        method: Method,
        host: &HeaderValue,
        target: PathAndQuery,
        headers: HeaderMap,
        body: Upload,
    ) -> Result<Response<OriginBody>, UpstreamFailure> {
        let may_repeat = self.servers.len() > 1 && method.is_idempotent() && body.is_end_stream();
        let key = servers::key(&[host.as_bytes(), target.as_str().as_bytes()]);
        let (mut tried, mut headers, mut body) = (Tried::default(), Some(headers), Some(body));
        let mut failed = UpstreamFailure::Unreachable;
        while let Some(at) = self.next(key, &mut tried) {
            let fields = if may_repeat { headers.clone() } else { headers.take() };
            let body = body.take().unwrap_or_else(Upload::empty);
            let server = &self.servers[at];
            let fields = fields.unwrap_or_default();
            let asked = ask_http(&self.client, &server.authority, method.clone(), target.clone(), fields, body).await;
            // A client that breaks off its upload says nothing of the origin.
            if !matches!(&asked, Err((UpstreamFailure::Upload, _))) {
                self.learn(at, asked.as_ref().err());
            }
            failed = match asked {
                Ok(response) => return Ok(response),
                Err((failure, _)) => failure,
            };
            // After a time-out, nobody waits as long again.
            let repeatable = matches!(failed, UpstreamFailure::Unreachable | UpstreamFailure::Malformed);
            if !may_repeat || !repeatable || tried.count() > limits::RETRIES {
                break;
            }
        }
        Err(failed)
    }

    fn next(&self, key: u64, tried: &mut Tried) -> Option<usize> {
        let now = self.now();
        self.state().next(key, tried, now)
    }

    fn learn(&self, at: usize, failed: Option<&Failed>) {
        let now = self.now();
        match failed {
            Some(_) => self.state().on_failure(at, now),
            None => self.state().on_answer(at),
        }
        report(&self.servers[at].authority, &self.servers[at].failures, failed);
    }

    /// Asks for the path of the health checks.
    async fn probe(&self, at: usize, path: PathAndQuery) {
        let authority = &self.servers[at].authority;
        let mut headers = HeaderMap::new();
        if let Ok(host) = HeaderValue::from_str(authority.as_str()) {
            headers.insert(HOST, host);
        }
        let asked = ask_http(&self.client, authority, Method::GET, path, headers, Upload::empty());
        let answer = tokio::time::timeout(limits::PROBE, asked).await;
        let well = matches!(&answer, Ok(Ok(response)) if response.status().as_u16() < 400);
        if self.state().on_probe(at, well) {
            let state = if well { "in service again" } else { "out of service" };
            tracing::warn!(server = %authority, "[[http.origins]] check: {state}");
        }
    }
}

type Failed = (UpstreamFailure, String);

async fn ask_http(
    client: &Client<HttpConnector, Upload>,
    authority: &Authority,
    method: Method,
    target: PathAndQuery,
    headers: HeaderMap,
    body: Upload,
) -> Result<Response<OriginBody>, Failed> {
    let uri = Uri::builder().scheme(Scheme::HTTP).authority(authority.clone()).path_and_query(target).build();
    let uri = uri.map_err(|error| (UpstreamFailure::Malformed, error.to_string()))?;
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = headers;
    let response = tokio::time::timeout(limits::RESPONSE, client.request(request)).await;
    match response {
        Ok(Ok(response)) => Ok(response.map(OriginBody::Received)),
        Ok(Err(error)) => Err(classify(&error, error.is_connect())),
        Err(_) => Err((UpstreamFailure::TimedOut, format!("no response within {:?}", limits::RESPONSE))),
    }
}

/// `unconnected`: there was no connection, so that nothing was sent. A host that says nothing to a SYN counts as any other that is not there.
fn classify(error: &(dyn Error + 'static), unconnected: bool) -> Failed {
    let causes = || std::iter::successors(Some(error), |error: &&(dyn Error + 'static)| (*error).source());
    let text = causes().map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let timed_out = |cause: &(dyn Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
    };
    let malformed =
        |cause: &(dyn Error + 'static)| cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse);
    // Before the head of the response, only the request's body can break off: the client did, the origin did nothing wrong.
    let failure = if causes().any(|cause| cause.is::<BodyError>()) {
        UpstreamFailure::Upload
    } else if !unconnected && causes().any(timed_out) {
        UpstreamFailure::TimedOut
    } else if causes().any(malformed) {
        UpstreamFailure::Malformed
    } else {
        UpstreamFailure::Unreachable
    };
    (failure, text)
}

/// One line when the origin stops answering, one when it answers again: not one a request.
fn report(authority: &Authority, failures: &AtomicU64, failed: Option<&Failed>) {
    match failed {
        Some((_, reason)) => {
            if failures.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::warn!(origin = %authority, %reason, "an origin does not answer; what no other answers gets 502 or 504");
            }
        }
        None => {
            let failed = failures.load(Ordering::Relaxed);
            if failed > 0 {
                failures.store(0, Ordering::Relaxed);
                tracing::info!(origin = %authority, failed_requests = failed, "an origin answers again");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Socket, Type};
    use std::net::SocketAddr;

    /// The fear: a server whose host is off, so that nothing comes back at all, costs clients their answers, where one that refuses costs nothing.
    #[tokio::test]
    async fn who_says_nothing_to_a_connection_is_not_there_and_another_may_be_asked() {
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let listener = socket();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        // Nobody accepts: its queue is soon full, and what comes then is not answered.
        let waiting = [(); 8].map(|()| socket());
        for socket in &waiting {
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&address);
        }
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(Duration::from_millis(50)));
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let authority = address.as_socket().unwrap().to_string().parse().unwrap();
        let target = PathAndQuery::from_static("/");
        let asked = ask_http(&client, &authority, Method::GET, target, HeaderMap::new(), Upload::empty()).await;
        let (failure, text) = asked.err().unwrap();
        assert_eq!(failure, UpstreamFailure::Unreachable, "{text}");
    }
}
