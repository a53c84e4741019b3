//! The origins: selects the origin of a request, and sends it over the connections to its servers,
//! or to the generated origin. `servers.rs` decides which server is used; this file sends the
//! request, and sends it to another server if that is allowed.

use super::config::{HttpConfig, OriginGroup, Upstream};
use super::connections::{ConnectionVerdict, Failed, Server};
use super::host_pattern::HostPattern;
use super::informational::Turn;
use super::origin::{Origin, OriginRequest};
use super::origin_body::OriginBody;
use super::servers::{self, Servers, Tried};
use super::trust::Trust;
use super::upgrade::Accepted;
use super::upload::Upload;
use super::upstream_request::UpstreamTarget;
use super::{generated_origin, limits};
use crate::error::{Error, Problem};
use ::http::header::{CONNECTION, EXPECT, HOST, UPGRADE};
use ::http::uri::{Authority, PathAndQuery, Scheme, Uri};
use ::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Body;
use larder_http::UpstreamFailure;
use larder_units::Time;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// All origins.
pub(super) struct Origins {
    /// The closest match is used; of equal matches, the first.
    groups: Vec<Arc<Group>>,
    /// The authority of a request without `Host` (HTTP/1.0).
    authority: String,
    /// Present if some server uses TLS.
    trust: Option<Trust>,
    /// The origin of a last group without servers; without one, that group is the generated
    /// origin.
    custom: Option<Arc<dyn Origin>>,
}

/// Creates the fields of a request, each time that it is sent. They are complete, with `Host`.
pub(super) type Fields<'a> = &'a (dyn Fn() -> HeaderMap + Send + Sync);

/// One origin and its servers. Without servers, it is the generated one.
struct Group {
    config: OriginGroup,
    host: HostPattern,
    servers: Vec<Known>,
    state: Mutex<Servers>,
    /// The time of the next probes.
    check_at: AtomicU64,
    started: Instant,
}

struct Known {
    server: Arc<Server>,
    /// Failures since its last answer.
    failures: AtomicU64,
}

impl Origins {
    /// Creates the origins of a configuration. Takes over from `before` what has not changed, with
    /// connections and health.
    ///
    /// # Errors
    /// One line if a server is not `http://HOST[:PORT]` or `https://HOST[:PORT]`, or the
    /// certificates cannot be read.
    pub(super) fn new(config: &HttpConfig, before: Option<&Origins>) -> Result<Origins, Error> {
        if config.origins.iter().any(|origin| origin.servers.is_empty()) {
            return Err(Error::setting("[[http.origins]] servers", Problem::ServerCount));
        }
        let rest = match &config.upstream {
            Upstream::Generated | Upstream::Custom(_) => Vec::new(),
            Upstream::Http(uri) => vec![uri.clone()],
        };
        let rest = OriginGroup { host: None, path: "/".to_owned(), servers: rest, check: None };
        let all = || config.origins.iter().chain([&rest]);
        let is_secret = |server: &Uri| server.scheme() == Some(&Scheme::HTTPS);
        let speaks_tls = all().any(|group| group.servers.iter().any(is_secret));
        let trust = speaks_tls.then(|| Trust::read(config.origin_ca.as_deref())).transpose()?;
        let trusts_as_before = match (&trust, before.and_then(|before| before.trust.as_ref())) {
            (Some(trust), Some(before)) => trust.is_same(before),
            (trust, before) => trust.is_none() && before.is_none(),
        };
        let mut groups = Vec::new();
        for group in all() {
            let known = before.and_then(|before| before.groups.iter().find(|known| known.config == *group));
            let known = known.filter(|_| trusts_as_before || !group.servers.iter().any(is_secret));
            groups.push(match known {
                Some(known) => Arc::clone(known),
                None => {
                    let setting = if std::ptr::eq(group, &rest) { "[http] origin" } else { "[[http.origins]] servers" };
                    Arc::new(Group::read(group, setting, trust.as_ref(), config)?)
                }
            });
        }
        let authority = rest.servers.first().and_then(Uri::authority).map_or("localhost", Authority::as_str).to_owned();
        let custom = match &config.upstream {
            Upstream::Custom(origin) => Some(Arc::clone(origin)),
            _ => None,
        };
        Ok(Origins { groups, authority, custom, trust })
    }

    #[cfg(test)]
    pub(super) fn generated() -> Origins {
        let config = OriginGroup { host: None, path: "/".to_owned(), servers: Vec::new(), check: None };
        let group = Arc::new(Group::new(&config, HostPattern::Any, Vec::new()));
        Origins { groups: vec![group], authority: "localhost".to_owned(), custom: None, trust: None }
    }

    /// Returns the authority of a request without `Host` (HTTP/1.0).
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// Sends a request.
    pub(super) async fn ask(
        &self,
        method: Method,
        upstream_target: &UpstreamTarget,
        fields: Fields<'_>,
        body: Upload,
    ) -> Result<Response<OriginBody>, UpstreamFailure> {
        let UpstreamTarget { host, target, .. } = upstream_target;
        match self.group(host.to_str().unwrap_or_default(), target.path()) {
            Some(group) if !group.servers.is_empty() => group.ask(method, upstream_target, fields, body).await,
            _ if let Some(origin) = &self.custom => {
                // It was created from text.
                let authority = host.to_str().unwrap_or_default().to_owned();
                origin.ask(OriginRequest { method, authority, target: target.clone(), headers: fields(), body }).await
            }
            _ => Ok(generated_origin::respond(&method, target, &fields()).await.map(OriginBody::Generated)),
        }
    }

    fn group(&self, host: &str, path: &str) -> Option<&Arc<Group>> {
        let fit = |group: &Group| group.fit(host, path);
        let first = self.groups.iter().find(|group| fit(group).is_some())?;
        if !matches!(first.host, HostPattern::Below(_)) {
            return Some(first);
        }
        // The first of equal matches.
        self.groups.iter().rev().max_by_key(|group| fit(group))
    }

    /// Starts the probes that are due, and closes idle connections.
    pub(super) fn check(&self) {
        for group in &self.groups {
            group.servers.iter().for_each(|known| known.server.sweep());
            let Some((path, every)) = &group.config.check else { continue };
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

    /// Returns every server of all origins once, and whether it is used as it should be.
    pub(super) fn servers(&self) -> BTreeMap<String, bool> {
        let mut all = BTreeMap::new();
        for group in &self.groups {
            let (state, now) = (group.state(), group.now());
            for (at, known) in group.servers.iter().enumerate() {
                *all.entry(known.server.authority.to_string()).or_insert(true) &= state.is_usable(at, now);
            }
        }
        all
    }
}

impl Group {
    fn read(group: &OriginGroup, setting: &str, trust: Option<&Trust>, config: &HttpConfig) -> Result<Group, Error> {
        if group.servers.len() > limits::SERVERS {
            return Err(Error::setting("[[http.origins]] servers", Problem::ServerCount));
        }
        let known = |uri: &Uri| {
            let server = Server::new(uri, trust.map(|trust| &trust.config), config.timeouts, config.header_limits);
            let server = server.ok_or_else(|| Error::setting(setting, Problem::NotAServer(uri.clone())))?;
            Ok::<_, Error>(Known { server: Arc::new(server), failures: AtomicU64::new(0) })
        };
        let servers = group.servers.iter().map(known).collect::<Result<_, _>>()?;
        let host = group.host.as_deref().map_or(Some(HostPattern::Any), HostPattern::parse);
        let host = host.ok_or_else(|| Error::setting("[[http.origins]] host", Problem::Wildcard))?;
        Ok(Group::new(group, host, servers))
    }

    fn new(config: &OriginGroup, host: HostPattern, servers: Vec<Known>) -> Group {
        let state = Servers::new(servers.iter().map(|known| known.server.authority.as_str()));
        Group {
            config: config.clone(),
            host,
            servers,
            state: Mutex::new(state),
            check_at: AtomicU64::new(0),
            started: Instant::now(),
        }
    }

    /// Returns how closely it matches a request; `None` if it does not.
    fn fit(&self, host: &str, path: &str) -> Option<usize> {
        // Every target begins with `/`, except the `*` of OPTIONS.
        let is_path = self.config.path == "/" || path.starts_with(&self.config.path);
        self.host.fit(host).filter(|_| is_path)
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn state(&self) -> MutexGuard<'_, Servers> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the request to the server of the key. If that fails and the request may be sent twice
    /// (RFC 9110 §9.2.2), to others.
    async fn ask(
        &self,
        method: Method,
        upstream_target: &UpstreamTarget,
        fields: Fields<'_>,
        body: Upload,
    ) -> Result<Response<OriginBody>, UpstreamFailure> {
        let UpstreamTarget { host, target, .. } = upstream_target;
        let several = self.servers.len() > 1;
        let may_repeat = several && method.is_idempotent() && body.is_end_stream();
        let key = if several { servers::key(&[host.as_bytes(), target.as_str().as_bytes()]) } else { 0 };
        let (mut tried, mut body) = (Tried::default(), Some(body));
        let mut failed = UpstreamFailure::Unreachable;
        while let Some(at) = self.next(key, &mut tried) {
            let body = body.take().unwrap_or_else(Upload::empty);
            let asked = ask_http(&self.servers[at].server, &method, target, fields, body, Some(upstream_target)).await;
            self.learn(at, asked.as_ref().err());
            failed = match asked {
                Ok(response) => return Ok(response),
                Err(failed) => failed.failure,
            };
            // After a time-out, the client does not wait as long again.
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
        match failed.map_or(ConnectionVerdict::Answered, |failed| failed.verdict) {
            ConnectionVerdict::Failed => self.state().on_failure(at, now),
            ConnectionVerdict::Answered => self.state().on_answer(at),
            ConnectionVerdict::Nothing => return,
        }
        let failed = failed.filter(|failed| failed.verdict == ConnectionVerdict::Failed);
        report(&self.servers[at].server.authority, &self.servers[at].failures, failed);
    }

    /// Sends a health check.
    async fn probe(&self, at: usize, path: PathAndQuery) {
        let server = &self.servers[at].server;
        let authority = &server.authority;
        let fields = || {
            let host = HeaderValue::from_str(authority.as_str()).ok();
            host.into_iter().map(|host| (HOST, host)).collect()
        };
        let asked = ask_http(server, &Method::GET, &path, &fields, Upload::empty(), None);
        let answer = tokio::time::timeout(limits::PROBE, asked).await;
        let well = matches!(&answer, Ok(Ok(response)) if response.status().as_u16() < 400);
        if self.state().on_probe(at, well) {
            let state = if well { "in service again" } else { "out of service" };
            tracing::warn!(server = %authority, "[[http.origins]] check: {state}");
        }
    }
}

async fn ask_http(
    server: &Arc<Server>,
    method: &Method,
    target: &PathAndQuery,
    fields: Fields<'_>,
    body: Upload,
    client: Option<&UpstreamTarget>,
) -> Result<Response<OriginBody>, Failed> {
    let interims = client.and_then(|client| client.interims.as_ref());
    let protocols = client.and_then(|client| client.protocols.as_ref());
    let request = |mut body: Upload| {
        let gate = body.gate();
        let mut request = Request::new(body);
        *request.method_mut() = method.clone();
        *request.uri_mut() = Uri::from(target.clone());
        *request.headers_mut() = fields();
        if let Some(protocols) = protocols {
            request.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
            request.headers_mut().insert(UPGRADE, protocols.clone());
        }
        if gate.is_some() {
            request.headers_mut().insert(EXPECT, HeaderValue::from_static("100-continue"));
        }
        if gate.is_some() || interims.is_some() {
            let interims: Option<Turn> = interims.cloned();
            hyper::ext::on_informational(&mut request, move |response| match (&gate, &interims) {
                // hyper sends this to the client when it polls the body.
                (Some(gate), _) if response.status() == StatusCode::CONTINUE => gate.open(),
                (_, Some(turn)) => turn.send(response.status(), response.version(), response.headers()),
                _ => {}
            });
        }
        request
    };
    let mut response = server.ask(request(body), || request(Upload::empty())).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        // RFC 9110 §15.2.2 forbids a protocol that `Upgrade` did not offer.
        let Some(accepted) = Accepted::of(&mut response, protocols) else {
            return Err(Failed::new(UpstreamFailure::Malformed, "it switches to a protocol that was not offered"));
        };
        response.extensions_mut().insert(accepted);
    }
    Ok(response.map(OriginBody::Received))
}

/// Logs one line when the origin stops answering, and one when it answers again: not one per
/// request.
fn report(authority: &Authority, failures: &AtomicU64, failed: Option<&Failed>) {
    match failed {
        Some(Failed { reason, .. }) => {
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
