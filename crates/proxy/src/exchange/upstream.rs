//! The origins: selects the origin of a request, and sends it over the connections to its servers,
//! or to the generated origin. `servers/` decides which server is used; this file sends the
//! request, and sends it to another server if that is allowed.

use crate::base::error::{Error, Problem};
use crate::base::header_limits::HeaderLimits;
use crate::base::limits;
use crate::base::timeouts::Timeouts;
use crate::config::http_config::HttpConfig;
use crate::exchange::upgrade::Accepted;
use crate::exchange::upstream_target::UpstreamTarget;
use crate::message::buffered_upload::Room;
use crate::message::field_names::X_FORWARDED_PREFIX;
use crate::message::host_pattern::HostPattern;
use crate::message::informational::Turn;
use crate::message::target::Target;
use crate::message::upload::Upload;
use crate::origin::connections::{Failed, ReceivedBody, Server};
use crate::origin::custom::{Origin, OriginRequest};
use crate::origin::dns::{Dns, Found, NotFound};
use crate::origin::files;
use crate::origin::files::FilesOrigin;
use crate::origin::generated_origin;
use crate::origin::named_server::{NamedServer, member_config};
use crate::origin::origin_body::OriginBody;
use crate::origin::origin_config::{OriginGroup, PoolServer, Upstream};
use crate::origin::server_requests::recorded;
use crate::origin::servers;
use crate::origin::servers::{
    Asking, Known, NameFigures, NoMember, Pool, SharedPool, Snapshot, Tried,
};
use crate::origin::trust::Trust;
use ::http::header::{CONNECTION, EXPECT, HOST, TE, UPGRADE};
use ::http::uri::{Authority, PathAndQuery, Scheme, Uri};
use ::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Body;
use larder_admin::histogram::Times;
use larder_http::UpstreamFailure;
use larder_static_files::Tag;
use larder_units::Time;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// All origins.
pub(crate) struct Origins {
    /// The closest match is used; of equal matches, the first.
    groups: Vec<Arc<Group>>,
    /// The authority of a request without `Host` (HTTP/1.0).
    authority: String,
    /// Present if some server uses TLS.
    trust: Option<Trust>,
    /// The origin of a last group without servers; without one, that group is the generated
    /// origin.
    custom: Option<Arc<dyn Origin>>,
    /// The limits of its connections.
    limits: ConnectionLimits,
    /// Resolves names of servers.
    dns: Arc<Dns>,
    /// The name of the origin of other requests, for the status page.
    name: String,
    /// True if some requests are for files.
    pub(crate) has_files: bool,
    /// The largest file that is stored, in bytes.
    most_stored: u64,
}

/// The time limits of connections to servers, and of their header blocks.
type ConnectionLimits = ([Duration; 4], HeaderLimits);

/// Creates the fields of a request, each time that it is sent. They are complete, with `Host`.
pub(crate) type Fields<'a> = &'a (dyn Fn() -> HeaderMap + Send + Sync);

/// Returns the origin of requests that match no other.
pub(crate) fn rest_of(config: &HttpConfig) -> OriginGroup {
    let servers = match &config.upstream {
        Upstream::Generated | Upstream::Custom(_) | Upstream::Files(_) => Vec::new(),
        Upstream::Http(uri) => vec![PoolServer {
            resolve: config.origin_resolve,
            ..PoolServer::from(uri.clone())
        }],
    };
    OriginGroup {
        path: "/".to_owned(),
        servers,
        files: match &config.upstream {
            Upstream::Files(files) => Some(files.clone()),
            _ => None,
        },
        protocol: config.origin_protocol,
        buffer_requests: config.buffer_requests,
        ..OriginGroup::default()
    }
}

/// Returns the name of that origin, for the status page.
fn name_of(upstream: &Upstream) -> String {
    match upstream {
        Upstream::Generated => "generated".to_owned(),
        Upstream::Http(uri) => uri.to_string(),
        Upstream::Files(config) => files::name(config),
        Upstream::Custom(origin) => origin.name(),
    }
}

fn connection_limits(config: &HttpConfig) -> ConnectionLimits {
    let Timeouts {
        origin_connect,
        origin_send,
        origin_response,
        origin_keepalive,
        ..
    } = config.timeouts;
    let times = [
        origin_connect,
        origin_send,
        origin_response,
        origin_keepalive,
    ];
    (times, config.limits.headers())
}

/// One origin and its servers. Without servers, it is the generated one.
struct Group {
    config: OriginGroup,
    host: HostPattern,
    pool: Arc<SharedPool>,
    /// Servers with a member for each address of their name.
    names: Vec<NamedServer>,
    /// The time of the next probes.
    check_at: AtomicU64,
    /// Room for buffered requests, if they are buffered.
    buffered: Option<Arc<Room>>,
    /// The files, in the place of servers.
    files: Option<Arc<FilesOrigin>>,
}

impl Origins {
    /// Creates the origins of a configuration. Takes over from `before` what has not changed, with
    /// connections and health.
    ///
    /// # Errors
    /// One line if a server is no `http://HOST[:PORT][/PATH]`, `https://` or `unix:/SOCKET`, or the
    /// certificates cannot be read.
    pub(crate) fn new(config: &HttpConfig, before: Option<&Origins>) -> Result<Origins, Error> {
        if config
            .origins
            .iter()
            .any(|origin| origin.servers.is_empty() == origin.files.is_none())
        {
            return Err(Error::setting(
                "[[http.origins]] servers",
                Problem::ServerCount,
            ));
        }
        let rest = rest_of(config);
        let all = || config.origins.iter().chain([&rest]);
        let is_secret = |server: &PoolServer| server.uri.scheme() == Some(&Scheme::HTTPS);
        let speaks_tls = all().any(|group| group.servers.iter().any(is_secret));
        let trust = speaks_tls
            .then(|| Trust::read(config.origin_ca.as_deref()))
            .transpose()?;
        let trusts_as_before = match (&trust, before.and_then(|before| before.trust.as_ref())) {
            (Some(trust), Some(before)) => trust.is_same(before),
            (trust, before) => trust.is_none() && before.is_none(),
        };
        let limits = connection_limits(config);
        let has_limits = before.is_some_and(|before| before.limits == limits);
        let groups_before = before.map_or(&[][..], |before| &before.groups);
        let mut groups = Vec::new();
        for group in all() {
            let is_trust_same = trusts_as_before || !group.servers.iter().any(is_secret);
            let same = groups_before
                .iter()
                .find(|known| has_limits && is_trust_same && known.config == *group);
            groups.push(match same {
                Some(known) => Arc::clone(known),
                None => {
                    let setting = match (std::ptr::eq(group, &rest), &group.files) {
                        (true, _) => "[http] origin",
                        (false, Some(_)) => "[[http.origins]] origin",
                        (false, None) => "[[http.origins]] servers",
                    };
                    let before = groups_before
                        .iter()
                        .find(|known| known.config.is_at_place_of(group));
                    let before = before.map(|group| (&**group, is_trust_same));
                    Arc::new(Group::read(group, setting, trust.as_ref(), config, before)?)
                }
            });
        }
        let authority = rest
            .servers
            .first()
            .and_then(|server| server.uri.authority())
            .map_or("localhost", Authority::as_str)
            .to_owned();
        let custom = match &config.upstream {
            Upstream::Custom(origin) => Some(Arc::clone(origin)),
            _ => None,
        };
        let dns = match before
            .map(|before| &before.dns)
            .filter(|dns| dns.servers() == config.resolver)
        {
            Some(dns) => Arc::clone(dns),
            None => Arc::new(Dns::new(config.resolver.clone())),
        };
        Ok(Origins {
            has_files: groups.iter().any(|group| group.files.is_some()),
            most_stored: config.cache.max_object.bytes(),
            groups,
            authority,
            custom,
            trust,
            limits,
            dns,
            name: name_of(&config.upstream),
        })
    }

    #[cfg(test)]
    pub(crate) fn generated() -> Origins {
        let config = OriginGroup {
            path: "/".to_owned(),
            ..OriginGroup::default()
        };
        let pool = SharedPool::new(Pool::new(config.pool, Time::ZERO), Instant::now());
        let group = Arc::new(Group::new(&config, HostPattern::Any, pool, Vec::new()));
        let limits = (
            [
                limits::CONNECT,
                limits::ORIGIN_SEND,
                limits::RESPONSE,
                limits::ORIGIN_IDLE,
            ],
            HeaderLimits::default(),
        );
        Origins {
            has_files: false,
            most_stored: 0,
            groups: vec![group],
            authority: "localhost".to_owned(),
            custom: None,
            trust: None,
            limits,
            dns: Arc::default(),
            name: "generated".to_owned(),
        }
    }

    /// Returns the name of the origin of requests that match no other, for the status page.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the authority of a request without `Host` (HTTP/1.0).
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Sends a request.
    pub(crate) async fn ask(
        &self,
        method: Method,
        upstream_target: &UpstreamTarget,
        fields: Fields<'_>,
        body: Upload,
    ) -> Result<Response<OriginBody>, UpstreamFailure> {
        let UpstreamTarget { host, target, .. } = upstream_target;
        match self.group(host.to_str().unwrap_or_default(), target.path()) {
            Some(group) if !group.config.servers.is_empty() => {
                group.ask(method, upstream_target, fields, body).await
            }
            Some(group) if let Some(files) = &group.files => {
                let open = upstream_target
                    .servers
                    .as_ref()
                    .map(|servers| servers.begin(files.name()));
                let ([.., response_limit, _], _) = self.limits;
                let target = group.config.target(target);
                let asked = files
                    .respond(method, &target, fields(), self.most_stored, response_limit)
                    .await?;
                let Some(open) = open else { return Ok(asked) };
                open.answered(asked.status().as_u16());
                Ok(asked.map(|body| recorded(body, open)))
            }
            _ if let Some(origin) = &self.custom => {
                // It was created from text.
                let authority = host.to_str().unwrap_or_default().to_owned();
                origin
                    .ask(OriginRequest {
                        method,
                        authority,
                        target: target.clone(),
                        headers: fields(),
                        body,
                    })
                    .await
            }
            _ => Ok(generated_origin::respond(&method, target, &fields())
                .await
                .map(OriginBody::Generated)),
        }
    }

    /// Returns the files of requests for this host, as it is keyed, and this path.
    pub(crate) fn files_of(&self, host: &str, path: &str) -> Option<&Arc<FilesOrigin>> {
        Some(self.group_of_files(host, path)?.1)
    }

    /// Returns the entity tag that a GET of a file would get now; `None` if it is for another
    /// origin, for no file, or stored responses are fresh for a while.
    pub(crate) fn tag_of(
        &self,
        host: &str,
        path: &str,
        fields: impl FnOnce() -> HeaderMap,
    ) -> Option<Tag> {
        let (group, files) = self.group_of_files(host, path)?;
        if !files.check().is_zero() {
            return None;
        }
        if !group.config.strip_path {
            return files.tag(path, &fields());
        }
        let whole = PathAndQuery::try_from(path).ok()?;
        files.tag(group.config.target(&whole).path(), &fields())
    }

    fn group_of_files(&self, host: &str, path: &str) -> Option<(&Group, &Arc<FilesOrigin>)> {
        let group = self.has_files.then(|| self.group(host, path))??;
        Some((group, group.files.as_ref()?))
    }

    /// Returns the servers of a request.
    pub(crate) fn servers_of(&self, host: &str, target: &str) -> Vec<String> {
        let path = target.split('?').next().unwrap_or_default();
        let Some(group) = self.group(host, path) else {
            return Vec::new();
        };
        if let Some(files) = &group.files {
            return vec![files.name().to_owned()];
        }
        let servers = &group.config.servers;
        servers
            .iter()
            .filter_map(|server| server.uri.authority().map(ToString::to_string))
            .collect()
    }

    fn group(&self, host: &str, path: &str) -> Option<&Arc<Group>> {
        // As rules read it: another spelling leads to the same servers.
        let path = Target::from(path).matched_path();
        let fit = |group: &Group| group.fit(host, &path);
        let first = self.groups.iter().find(|group| fit(group).is_some())?;
        if !matches!(first.host, HostPattern::Below(_)) {
            return Some(first);
        }
        // The first of equal matches.
        self.groups.iter().rev().max_by_key(|group| fit(group))
    }

    /// Makes every name of a server due, as an operator expects of a reload.
    pub(crate) fn expire_names(&self) {
        self.groups
            .iter()
            .flat_map(|group| &group.names)
            .for_each(NamedServer::expire);
    }

    /// Starts the resolutions and the probes that are due, and closes idle connections.
    pub(crate) fn check(&self) {
        for group in &self.groups {
            group.resolve(&self.dns);
            let members: Vec<_> = group.pool.pool().items().map(Arc::clone).collect();
            for known in &members {
                known.server.sweep();
            }
            let Some((path, every)) = &group.config.check else {
                continue;
            };
            let now = group.pool.now();
            if now.nanos() < group.check_at.load(Ordering::Relaxed) {
                continue;
            }
            group
                .check_at
                .store((now + *every).nanos(), Ordering::Relaxed);
            for known in members {
                let (group, path) = (Arc::clone(group), path.clone());
                tokio::spawn(async move { group.probe(known, path).await });
            }
        }
    }

    /// Returns the times to the heads of responses, by server.
    pub(crate) fn times(&self) -> BTreeMap<String, Times> {
        let mut all: BTreeMap<String, Times> = BTreeMap::new();
        let members = self.groups.iter().flat_map(|group| group.members());
        for known in members.map(|member| member.item) {
            known.times.sum(all.entry(known.name.clone()).or_default());
        }
        all
    }

    /// Returns every server of all origins once, and whether it is used as it should be.
    pub(crate) fn servers(&self) -> BTreeMap<String, bool> {
        let mut all = BTreeMap::new();
        for group in &self.groups {
            let mut servers = BTreeMap::new();
            for member in group.members() {
                *servers
                    .entry(member.item.server.address.name.clone())
                    .or_insert(false) |= member.is_usable;
            }
            for (server, usable) in servers {
                *all.entry(server).or_insert(true) &= usable;
            }
        }
        all
    }

    /// Returns the members and the names of each origin, with the origin's host and path.
    pub(crate) fn pools(&self) -> impl Iterator<Item = PoolStatus> {
        let pool = |group: &Arc<Group>| {
            let OriginGroup { host, path, .. } = &group.config;
            PoolStatus {
                origin: format!("{}{path}", host.as_deref().unwrap_or("*")),
                members: group.members(),
                names: group
                    .names
                    .iter()
                    .map(NamedServer::figures)
                    .map(|(name, it)| (Arc::clone(name), it))
                    .collect(),
            }
        };
        self.groups
            .iter()
            .filter(|group| !group.config.servers.is_empty())
            .map(pool)
    }

    /// Returns the files of each origin of files, with the origin's host and path.
    pub(crate) fn files(&self) -> impl Iterator<Item = (String, &FilesOrigin)> {
        self.groups.iter().filter_map(|group| {
            let OriginGroup { host, path, .. } = &group.config;
            let origin = format!("{}{path}", host.as_deref().unwrap_or("*"));
            Some((origin, &**group.files.as_ref()?))
        })
    }

    /// Returns the retries that budgets did not allow, and the requests that found no server.
    pub(crate) fn refusals(&self) -> (u64, u64) {
        let refusals = self.groups.iter().map(|group| group.pool.pool().refusals());
        refusals.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }
}

/// The state of one origin's servers, for the status page.
pub(crate) struct PoolStatus {
    /// The origin's host and path.
    pub(crate) origin: String,
    /// Its members.
    pub(crate) members: Vec<Snapshot<Arc<Known>>>,
    /// Its names with a member for each address.
    pub(crate) names: Vec<(Arc<str>, NameFigures)>,
}

impl Group {
    /// `before`: the same origin before a reload, and true if TLS trusts the same certificates.
    fn read(
        group: &OriginGroup,
        setting: &str,
        trust: Option<&Trust>,
        config: &HttpConfig,
        before: Option<(&Group, bool)>,
    ) -> Result<Group, Error> {
        if group.servers.len() > limits::SERVERS {
            return Err(Error::setting(
                "[[http.origins]] servers",
                Problem::ServerCount,
            ));
        }
        let host = group
            .host
            .as_deref()
            .map_or(Some(HostPattern::Any), HostPattern::parse);
        let host =
            host.ok_or_else(|| Error::setting("[[http.origins]] host", Problem::Wildcard))?;
        let started = before.map_or_else(Instant::now, |(before, _)| before.pool.started());
        let pool = SharedPool::new(Pool::new(group.pool, Time::ZERO), started);
        let now = pool.now();
        let mut names = Vec::new();
        let files = group.files.as_ref().map(FilesOrigin::open).transpose();
        let files = files.map_err(|error| Error::setting(setting, Problem::Root(error)))?;
        for (number, one) in group.servers.iter().enumerate() {
            let trust = trust.map(|trust| &trust.config);
            let server = Server::new(&one.uri, trust, config.timeouts, config.limits.headers());
            let server = server
                .ok_or_else(|| Error::setting(setting, Problem::NotAServer(one.uri.clone())))?;
            let server = server.with_protocol(group.protocol);
            if let Some(host) = server
                .address
                .host()
                .filter(|_| one.resolve)
                .map(str::to_owned)
            {
                names.push(NamedServer::new(number, one, (host, server)));
                continue;
            }
            let member = member_config(one, &server.address.name);
            let is_same =
                |known: &Arc<Known>| known.of_name.is_none() && known.server.is_like(&server);
            let (kept, past) = before.filter(|(_, is_trust_same)| *is_trust_same).map_or(
                (None, None),
                |(before, _)| {
                    let pool = before.pool.pool();
                    (
                        pool.items().find(|known| is_same(known)).cloned(),
                        pool.past(is_same),
                    )
                },
            );
            let known = kept.unwrap_or_else(|| Arc::new(Known::new(Arc::new(server), None)));
            // There is room: names come later.
            pool.pool().add(known, member, past.as_ref(), now);
        }
        if let Some((before, is_trust_same)) = before {
            for (name, later) in names.iter().zip((0..names.len()).rev()) {
                // Each later name has one place.
                let room = limits::SERVERS.saturating_sub(pool.pool().items().count() + later);
                name.take_over((&pool, &before.pool), &before.names, room, is_trust_same);
            }
        }
        Ok(Group {
            files: files.map(Arc::new),
            ..Group::new(group, host, pool, names)
        })
    }

    fn new(
        config: &OriginGroup,
        host: HostPattern,
        pool: SharedPool,
        names: Vec<NamedServer>,
    ) -> Group {
        let most = config.buffer_requests.bytes();
        let buffered = (most > 0).then(|| Arc::new(Room::new(most)));
        let (config, pool, check_at) = (config.clone(), Arc::new(pool), AtomicU64::new(0));
        let group = Group {
            config,
            host,
            pool,
            names,
            check_at,
            buffered,
            files: None,
        };
        group.count_pending();
        group
    }

    /// Starts a task for each name that is due.
    fn resolve(self: &Arc<Self>, dns: &Arc<Dns>) {
        for (at, name) in self.names.iter().enumerate() {
            if name.begin(&self.pool) {
                let resolution = Resolution {
                    group: Arc::clone(self),
                    at,
                    result: None,
                };
                let dns = Arc::clone(dns);
                tokio::spawn(async move {
                    let result = dns.resolve(resolution.group.names[at].host()).await;
                    resolution.end(result);
                });
            }
        }
    }

    /// Tells the pool how many names are not known yet. The locks of names come before the pool's.
    fn count_pending(&self) {
        let pending = self.names.iter().filter(|name| name.is_pending()).count();
        self.pool.pool().set_pending(pending);
        self.pool.wake_all();
    }

    /// Returns how closely it matches a request; `None` if it does not.
    fn fit(&self, host: &str, path: &[u8]) -> Option<usize> {
        let is_path = self.config.path == "/" || path.starts_with(self.config.path.as_bytes());
        self.host.fit(host).filter(|_| is_path)
    }

    fn members(&self) -> Vec<Snapshot<Arc<Known>>> {
        let now = self.pool.now();
        self.pool.pool().snapshot(now)
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
        let UpstreamTarget {
            host,
            target,
            servers,
            ..
        } = upstream_target;
        let (target, stripped) = (&*self.config.target(target), self.config.stripped());
        let fields = &|| {
            let mut fields = fields();
            if let Some(stripped) = &stripped {
                fields.insert(X_FORWARDED_PREFIX, stripped.clone());
            }
            fields
        };
        let is_alone = self.pool.pool().is_single();
        let may_repeat = !is_alone && method.is_idempotent() && body.is_end_stream();
        let key = if is_alone {
            0
        } else {
            servers::key(&[host.as_bytes(), target.as_str().as_bytes()])
        };
        let body = match &self.buffered {
            Some(room) if !body.is_end_stream() => {
                body.buffered(upstream_target.client, room).await?
            }
            _ => body,
        };
        let asking = Asking {
            key,
            is_repeatable: may_repeat,
            client: upstream_target.client,
        };
        let (mut tried, mut body) = (Tried::default(), Some(body));
        let mut failed = UpstreamFailure::Unreachable;
        loop {
            let mut in_progress = match self.pool.next(asking, &mut tried).await {
                Ok(in_progress) => in_progress,
                Err(NoMember::Exhausted) => break,
                Err(NoMember::Unavailable(after)) => {
                    if let Some(mut body) = body {
                        body.take_rest().await;
                    }
                    return Err(unavailable(after));
                }
            };
            let body = body.take().unwrap_or_else(Upload::empty);
            let begun = Instant::now();
            let open = servers
                .as_ref()
                .map(|servers| servers.begin(in_progress.name()));
            let asked = ask_http(
                in_progress.server(),
                &method,
                target,
                fields,
                body,
                Some(upstream_target),
            )
            .await;
            in_progress.on_result(asked.as_ref().err());
            failed = match asked {
                Ok(response) => {
                    in_progress.times().add_shared(begun.elapsed());
                    // A tunnel holds it until it ends.
                    let goes_on = !response.body().is_end_stream()
                        || response.status() == StatusCode::SWITCHING_PROTOCOLS;
                    let in_progress = goes_on.then_some(in_progress);
                    let response = response.map(|body| OriginBody::Received(body, in_progress));
                    let Some(open) = open else {
                        return Ok(response);
                    };
                    open.answered(response.status().as_u16());
                    return Ok(response.map(|body| recorded(body, open)));
                }
                Err(failed) => failed.failure,
            };
            // After a time-out, the client does not wait as long again.
            let repeatable = matches!(
                failed,
                UpstreamFailure::Unreachable | UpstreamFailure::Malformed
            );
            if !may_repeat || !repeatable || tried.count() > limits::RETRIES {
                break;
            }
        }
        Err(failed)
    }

    /// Sends a health check.
    async fn probe(&self, known: Arc<Known>, path: PathAndQuery) {
        let authority = &known.server.address.authority;
        let fields = || {
            let host = HeaderValue::from_str(authority.as_str()).ok();
            host.into_iter().map(|host| (HOST, host)).collect()
        };
        let asked = ask_http(
            &known.server,
            &Method::GET,
            &path,
            &fields,
            Upload::empty(),
            None,
        );
        let answer = tokio::time::timeout(limits::PROBE, asked).await;
        let well = matches!(&answer, Ok(Ok(response)) if response.status().as_u16() < 400);
        let now = self.pool.now();
        let change = self
            .pool
            .pool()
            .on_check(|member| Arc::ptr_eq(member, &known), well, now);
        if change.is_some() {
            let state = if well {
                "in service again"
            } else {
                "out of service"
            };
            tracing::warn!(server = %known.name, "[[http.origins]] check: {state}");
        }
    }
}

/// A resolution in progress. Its end is recorded even if its task panics.
struct Resolution {
    group: Arc<Group>,
    /// The place of the name.
    at: usize,
    result: Option<Result<Found, NotFound>>,
}

impl Resolution {
    fn end(mut self, result: Result<Found, NotFound>) {
        self.result = Some(result);
    }
}

impl Drop for Resolution {
    fn drop(&mut self) {
        let Resolution { group, at, result } = self;
        let result = result
            .take()
            .unwrap_or_else(|| Err(NotFound::Failed("the resolution was broken off".to_owned())));
        group.names[*at].on_result(result, &group.pool, group.names.len());
        group.count_pending();
    }
}

fn unavailable(after: Duration) -> UpstreamFailure {
    let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
    UpstreamFailure::Unavailable {
        retry_after: u32::try_from(seconds.max(1)).unwrap_or(u32::MAX),
    }
}

async fn ask_http(
    server: &Arc<Server>,
    method: &Method,
    target: &PathAndQuery,
    fields: Fields<'_>,
    body: Upload,
    client: Option<&UpstreamTarget>,
) -> Result<Response<ReceivedBody>, Failed> {
    let interims = client.and_then(|client| client.interims.as_ref());
    let protocols = client.and_then(|client| client.protocols.as_deref());
    let full_target = server.address.target(target);
    let request = |mut body: Upload| {
        let gate = body.gate();
        let mut request = Request::new(body);
        *request.method_mut() = method.clone();
        *request.uri_mut() = Uri::from(full_target.clone());
        *request.headers_mut() = fields();
        if client.is_some_and(|client| client.trailers) {
            request
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("te"));
            request
                .headers_mut()
                .insert(TE, HeaderValue::from_static("trailers"));
        }
        if let Some(protocols) = protocols {
            request
                .headers_mut()
                .append(CONNECTION, HeaderValue::from_static("upgrade"));
            request.headers_mut().insert(UPGRADE, protocols.clone());
        }
        if gate.is_some() {
            request
                .headers_mut()
                .insert(EXPECT, HeaderValue::from_static("100-continue"));
        }
        if gate.is_some() || interims.is_some() {
            let interims: Option<Turn> = interims.cloned();
            hyper::ext::on_informational(&mut request, move |response| match (&gate, &interims) {
                // hyper sends this to the client when it polls the body.
                (Some(gate), _) if response.status() == StatusCode::CONTINUE => gate.open(),
                (_, Some(turn)) => {
                    turn.send(response.status(), response.version(), response.headers())
                }
                _ => {}
            });
        }
        request
    };
    let mut response = server
        .ask(request(body), || request(Upload::empty()))
        .await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        // RFC 9110 §15.2.2 forbids a protocol that `Upgrade` did not offer.
        let Some(accepted) = Accepted::of(&mut response, protocols) else {
            return Err(Failed::new(
                UpstreamFailure::Malformed,
                "it switches to a protocol that was not offered",
            ));
        };
        response.extensions_mut().insert(accepted);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a name whose resolution panics is never resolved again, and requests wait for it.
    #[tokio::test]
    async fn a_resolution_without_an_end() {
        let uri = Uri::from_static("http://backend.example");
        let server = Server::new(&uri, None, Timeouts::default(), HeaderLimits::default()).unwrap();
        let name = NamedServer::new(
            0,
            &PoolServer::from(uri),
            ("backend.example".to_owned(), server),
        );
        let config = OriginGroup::default();
        let pool = SharedPool::new(Pool::new(config.pool, Time::ZERO), Instant::now());
        let group = Arc::new(Group::new(&config, HostPattern::Any, pool, vec![name]));
        let name = &group.names[0];
        assert!(name.begin(&group.pool) && name.is_pending());
        let resolution = Resolution {
            group: Arc::clone(&group),
            at: 0,
            result: None,
        };
        let task = tokio::spawn(async move {
            let _resolution = resolution;
            panic!("a defect");
        });
        assert!(task.await.unwrap_err().is_panic());
        assert!(!name.is_pending() && name.figures().1.failure.is_some());
        name.expire();
        assert!(name.begin(&group.pool));
    }
}
