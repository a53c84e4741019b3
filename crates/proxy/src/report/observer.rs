//! What every finished exchange is reported to: the figures, and the access log.

use crate::access_log::{
    AccessLog, CLIENT_LEFT, CacheResult, Fields, Outcome, Protocol, Record, Template, WriterEnd,
};
use crate::base::error::Error;
use crate::config::http_config::HttpConfig;
use crate::message::field_names::remove_variable;
use crate::message::normal_request::NormalRequest;
use crate::message::request_id::{RequestIds, X_REQUEST_ID};
use crate::message::trusted_proxies::TrustedPeer;
use crate::origin::server_requests::ServerRequests;
use crate::report::exchange_figures::{ExchangeFigures, RuleRefusal};
use crate::report::top_urls::{ContentSample, Miss, UrlParts};
use crate::rules::PassedBy;
use ::http::header::{CONTENT_LENGTH, HOST};
use ::http::request::Parts;
use ::http::uri::PathAndQuery;
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, Version};
use larder_admin::Metrics;
use larder_host::Peer;
use serde_json::{Map, Value};
use std::net::IpAddr;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The reason of a 400: an extension of the response, for the access log.
#[derive(Clone, Copy)]
pub(crate) struct RefusalReason(pub(crate) &'static str);

/// The figures, the access log and the request ids of one HTTP side.
pub(crate) struct Observer {
    figures: Arc<ExchangeFigures>,
    content: Arc<ContentSample>,
    log: Option<Arc<AccessLog>>,
    ids: RequestIds,
    threads: usize,
}

impl Observer {
    /// Opens the access log, if there is one.
    ///
    /// # Errors
    /// One line if its file cannot be opened.
    pub(crate) fn new(config: &HttpConfig, threads: usize) -> Result<Observer, Error> {
        let log = config
            .access_log
            .as_ref()
            .map(|log| AccessLog::start(log, threads).map(Arc::new))
            .transpose()?;
        let hosts = config
            .origins
            .iter()
            .filter_map(|origin| origin.host.as_deref());
        let figures = ExchangeFigures::new(hosts.filter(|host| !host.starts_with('*')));
        let ids = RequestIds::new(config.request_id);
        Ok(Observer {
            figures: Arc::new(figures),
            content: Arc::default(),
            log,
            ids,
            threads,
        })
    }

    /// Returns the observer for another configuration, with the same figures; `None` if nothing
    /// would change.
    ///
    /// # Errors
    /// As [`Observer::new`].
    pub(crate) fn changed(&self, config: &HttpConfig) -> Result<Option<Observer>, Error> {
        let is_same_log = self.log.as_ref().map(|log| log.config()) == config.access_log.as_ref();
        if is_same_log && self.ids.source() == config.request_id {
            return Ok(None);
        }
        let log = match &config.access_log {
            _ if is_same_log => self.log.clone(),
            Some(log) => Some(Arc::new(AccessLog::start(log, self.threads)?)),
            None => None,
        };
        let (figures, content) = (Arc::clone(&self.figures), Arc::clone(&self.content));
        let ids = RequestIds::new(config.request_id);
        Ok(Some(Observer {
            figures,
            content,
            log,
            ids,
            threads: self.threads,
        }))
    }

    #[cfg(test)]
    pub(crate) fn without_log() -> Observer {
        let (figures, ids) = (
            ExchangeFigures::new(std::iter::empty()),
            RequestIds::new(Default::default()),
        );
        Observer {
            figures: Arc::new(figures),
            content: Arc::default(),
            log: None,
            ids,
            threads: 1,
        }
    }

    /// Returns the format of the access log, if there is one.
    pub(crate) fn template(&self) -> Option<&Template> {
        self.log.as_ref().map(|log| log.template())
    }

    /// Returns the tables of URLs.
    pub(crate) fn content(&self) -> &ContentSample {
        &self.content
    }

    /// Reports an exchange. `miss` says why the store did not answer it, `passed_by` which rule has
    /// bypassed the store.
    fn report(&self, record: &Record<'_>, miss: Option<Miss>, passed_by: Option<&PassedBy>) {
        let is_sampled = self.figures.add(&record.outcome());
        let url = UrlParts {
            scheme: record.scheme,
            host: record.host,
            target: record.target,
        };
        if is_sampled && !url.target.is_empty() {
            self.content.add(url, miss, record.body_bytes);
        }
        if let Some(refusal) = miss.and_then(|miss| miss.refusal) {
            self.content.add_refused(url, refusal, passed_by);
        }
        if let Some(log) = &self.log {
            log.append(record);
        }
    }

    pub(crate) fn reopen_log(&self) {
        if let Some(log) = &self.log {
            log.reopen();
        }
    }

    /// Writes the last lines.
    pub(crate) fn stop(&self) {
        if let Some(log) = &self.log {
            log.stop();
        }
    }

    /// Counts a request that a rule has refused.
    pub(crate) fn add_rule_refusal(&self, refusal: RuleRefusal) {
        self.figures.add_rule_refusal(refusal);
    }

    /// Returns the end of the writer of its log.
    pub(crate) fn log_end(&self) -> Option<WriterEnd> {
        self.log.as_ref().map(|log| log.end())
    }

    /// Adds the figures to the status page.
    pub(crate) fn status(&self, page: &mut Map<String, Value>) {
        self.figures.status(page);
    }

    pub(crate) fn metrics(&self, metrics: &mut Metrics<'_, '_>) {
        self.figures.metrics(metrics);
        if let Some(log) = &self.log {
            let (written, dropped) = log.lines();
            metrics.counter(
                "larder_http_access_log_lines",
                "Lines written to the access log",
                written,
            );
            let help =
                "Lines of the access log that were dropped: no room, or a destination that fails";
            metrics.counter("larder_http_access_log_dropped", help, dropped);
        }
    }
}

/// One connection of a client, for its records.
#[derive(Clone)]
pub(crate) struct ObservedClient(Arc<Connection>);

struct Connection {
    observer: Arc<Observer>,
    peer: Peer,
    trusted: Option<TrustedPeer>,
    is_secure: bool,
    /// Set after the handshake.
    tls: OnceLock<&'static str>,
}

/// A plain hit whose answer has ended, well or not.
pub(crate) struct PlainExchange<'a> {
    /// The bytes of the request.
    pub(crate) request: &'a [u8],
    /// The head of the response; only used if the log names fields of it.
    pub(crate) response: &'a [u8],
    /// `http` or `https`, as the client or a trusted proxy says.
    pub(crate) scheme: &'static str,
    pub(crate) target: Range<usize>,
    pub(crate) host: Range<usize>,
    /// The client that a trusted proxy names.
    pub(crate) client: Option<IpAddr>,
    /// The places of the fields that the log names in the request, and of `X-Request-Id`.
    pub(crate) fields: &'a [Range<usize>],
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    pub(crate) first_byte: Option<Duration>,
    pub(crate) total: Duration,
    pub(crate) is_complete: bool,
}

impl ObservedClient {
    pub(crate) fn new(
        observer: &Arc<Observer>,
        peer: Peer,
        trusted: Option<TrustedPeer>,
        is_secure: bool,
    ) -> ObservedClient {
        let observer = Arc::clone(observer);
        ObservedClient(Arc::new(Connection {
            observer,
            peer,
            trusted,
            is_secure,
            tls: OnceLock::new(),
        }))
    }

    /// Records the result of the handshake.
    pub(crate) fn set_tls(&self, version: Option<rustls::ProtocolVersion>) {
        if let Some(name) = version.and_then(|version| version.as_str()) {
            let _ = self.0.tls.set(match name {
                "TLSv1_2" => "TLSv1.2",
                "TLSv1_3" => "TLSv1.3",
                other => other,
            });
        }
    }

    pub(crate) fn template(&self) -> Option<&Template> {
        self.0.observer.template()
    }

    /// Returns a record of this client, of an exchange that has not begun.
    fn record(&self) -> Record<'_> {
        Record {
            client: self.0.peer,
            scheme: if self.0.is_secure { "https" } else { "http" },
            method: "",
            target: "",
            host: "",
            protocol: Protocol::Http11,
            status: CLIENT_LEFT,
            body_bytes: 0,
            cache: CacheResult::None,
            first_byte: None,
            total: Duration::ZERO,
            is_complete: false,
            upstream: &[],
            tls: self.0.tls.get().copied(),
            request_id: None,
            refusal: None,
            request_fields: Fields::NONE,
            response_fields: Fields::NONE,
        }
    }

    /// Returns the client that a trusted proxy names, or the other end of the connection.
    fn named(&self, client: Option<IpAddr>) -> Peer {
        // Proxies name no port.
        client
            .filter(|client| self.0.peer.ip() != Some(*client))
            .map_or(self.0.peer, |ip| Peer::Tcp((ip, 0).into()))
    }

    /// Reports a plain hit.
    pub(crate) fn plain(&self, exchange: &PlainExchange<'_>) {
        let (bytes, observer) = (exchange.request, &self.0.observer);
        let outcome = Outcome {
            host: bytes.get(exchange.host.clone()).unwrap_or_default(),
            protocol: Protocol::Http11,
            status: exchange.status,
            body_bytes: exchange.body_bytes,
            cache: CacheResult::Hit,
            first_byte: exchange.first_byte,
            total: exchange.total,
            is_complete: exchange.is_complete,
        };
        let text = |range: &Range<usize>| {
            str::from_utf8(bytes.get(range.clone()).unwrap_or_default()).unwrap_or_default()
        };
        let Some(log) = &observer.log else {
            if observer.figures.add(&outcome) {
                let (host, target) = (text(&exchange.host), text(&exchange.target));
                let url = UrlParts {
                    scheme: exchange.scheme,
                    host,
                    target,
                };
                observer.content.add(url, None, outcome.body_bytes);
            }
            return;
        };
        let mut record = Record {
            client: self.named(exchange.client),
            scheme: exchange.scheme,
            method: "GET",
            target: text(&exchange.target),
            host: text(&exchange.host),
            status: outcome.status,
            body_bytes: outcome.body_bytes,
            cache: outcome.cache,
            first_byte: outcome.first_byte,
            total: outcome.total,
            is_complete: outcome.is_complete,
            request_fields: Fields::Places(exchange.fields, bytes),
            ..self.record()
        };
        let (template, mut made) = (log.template(), [0; 32]);
        if template.names_request_id() && !observer.ids.are_off() {
            let kept = exchange
                .fields
                .last()
                .and_then(|place| bytes.get(place.clone()));
            let kept = kept.filter(|id| observer.ids.accepts(id));
            record.request_id = Some(kept.unwrap_or_else(|| {
                made = observer.ids.generate();
                &made
            }));
        }
        let places: Vec<Range<usize>> = template
            .response_fields()
            .iter()
            .map(|name| place_in(exchange.response, name))
            .collect();
        record.response_fields = Fields::Places(&places, exchange.response);
        observer.report(&record, None, None);
    }

    /// Reports a request that is no HTTP, with the status that hyper gave it, and its reason.
    pub(crate) fn malformed(&self, status: u16, reason: &str) {
        let record = Record {
            status,
            is_complete: true,
            refusal: Some(reason),
            ..self.record()
        };
        self.0.observer.report(&record, None, None);
    }

    /// Begins an exchange, and gives its request an id if there are ids.
    pub(crate) fn begin(&self, request: &mut NormalRequest) -> Box<ObservedExchange> {
        let observer = &self.0.observer;
        let headers = &mut request.parts.headers;
        let id = observer.ids.of(headers.get(X_REQUEST_ID));
        if let Some(id) = &id {
            remove_variable(headers, &X_REQUEST_ID);
            headers.insert(X_REQUEST_ID, id.clone());
        }
        let servers = observer
            .template()
            .is_some_and(Template::names_servers)
            .then(ServerRequests::default);
        if let Some(servers) = &servers {
            request.parts.extensions.insert(servers.clone());
        }
        let client = if self.0.trusted.is_some() {
            self.named(request.client)
        } else {
            self.0.peer
        };
        let mut exchange = Box::new(self.exchange(&request.parts, request.host.clone(), client));
        exchange.scheme = Some(request.scheme);
        if let Some(kept) = &mut exchange.kept {
            (kept.servers, kept.id) = (servers, id);
        }
        exchange
    }

    /// Begins an exchange whose request is refused.
    pub(crate) fn begin_refused(&self, parts: &Parts) -> Box<ObservedExchange> {
        let host = match (parts.uri.authority(), parts.headers.get(HOST)) {
            (Some(authority), _) => HeaderValue::from_str(authority.as_str()).ok(),
            (None, field) => field.cloned(),
        };
        Box::new(self.exchange(
            parts,
            host.unwrap_or(HeaderValue::from_static("")),
            self.0.peer,
        ))
    }

    fn exchange(&self, parts: &Parts, host: HeaderValue, peer: Peer) -> ObservedExchange {
        let kept = self.0.observer.template().map(|template| {
            Box::new(Kept {
                method: parts.method.clone(),
                request_fields: values(&parts.headers, template.request_fields()),
                response_fields: Vec::new(),
                servers: None,
                id: None,
                refusal: None,
            })
        });
        let protocol = match parts.version {
            Version::HTTP_10 => Protocol::Http10,
            Version::HTTP_2 => Protocol::Http2,
            Version::HTTP_3 => Protocol::Http3,
            _ => Protocol::Http11,
        };
        ObservedExchange {
            peer,
            scheme: None,
            client: self.clone(),
            begun: Instant::now(),
            protocol,
            host,
            target: parts.uri.path_and_query().cloned(),
            kept,
            status: None,
            cache: CacheResult::None,
            miss: Some(Miss::default()),
            passed_by: None,
            first_byte: None,
            body_bytes: 0,
            length: None,
            is_complete: false,
        }
    }
}

/// Returns the place of a field's value in a head.
fn place_in(head: &[u8], name: &HeaderName) -> Range<usize> {
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', head) {
        let line = &head[start..end];
        if let Some(colon) = memchr::memchr(b':', line)
            && line[..colon].eq_ignore_ascii_case(name.as_str().as_bytes())
        {
            let value = &line[colon + 1..];
            let at = start + colon + 1 + (value.len() - value.trim_ascii_start().len());
            return at..at + value.trim_ascii().len();
        }
        start = end + 1;
    }
    0..0
}

fn values(headers: &HeaderMap, names: &[HeaderName]) -> Vec<Option<HeaderValue>> {
    names
        .iter()
        .map(|name| headers.get(name).cloned())
        .collect()
}

/// What only the log needs.
struct Kept {
    method: Method,
    request_fields: Vec<Option<HeaderValue>>,
    response_fields: Vec<Option<HeaderValue>>,
    servers: Option<ServerRequests>,
    id: Option<HeaderValue>,
    /// The reason for which the request is refused.
    refusal: Option<&'static str>,
}

/// An exchange of hyper, until its response has ended. It is reported when it is dropped.
pub(crate) struct ObservedExchange {
    peer: Peer,
    /// The scheme of the request's normal form.
    scheme: Option<&'static str>,
    client: ObservedClient,
    begun: Instant,
    protocol: Protocol,
    host: HeaderValue,
    target: Option<PathAndQuery>,
    kept: Option<Box<Kept>>,
    /// `None` before the response.
    status: Option<u16>,
    cache: CacheResult,
    miss: Option<Miss>,
    passed_by: Option<PassedBy>,
    first_byte: Option<Duration>,
    body_bytes: u64,
    /// `Content-Length` of the response. A body with as many bytes is complete: hyper does not ask
    /// for its end, which a body in progress tells late.
    length: Option<u64>,
    is_complete: bool,
}

impl ObservedExchange {
    /// Records the head of the response.
    pub(crate) fn answered<B>(&mut self, response: &Response<B>) {
        self.status = Some(response.status().as_u16());
        self.first_byte = Some(self.begun.elapsed());
        let length = response
            .headers()
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok());
        self.length = length.and_then(|length| length.parse().ok());
        let own = response
            .headers()
            .get_all(CACHE_STATUS)
            .into_iter()
            .next_back();
        self.cache = own.map_or(CacheResult::None, |field| CacheResult::of(field.as_bytes()));
        let is_hit = matches!(self.cache, CacheResult::Hit | CacheResult::Stale);
        self.miss =
            (!is_hit).then(|| own.map_or(Miss::default(), |field| Miss::of(field.as_bytes())));
        self.passed_by = response.extensions().get().cloned();
        if let (Some(kept), Some(template)) = (&mut self.kept, self.client.template()) {
            kept.response_fields = values(response.headers(), template.response_fields());
            kept.refusal = response
                .extensions()
                .get()
                .map(|RefusalReason(reason)| *reason);
        }
    }

    /// Records bytes of the body.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.body_bytes += bytes as u64;
    }

    /// Records that bytes of the body did not leave.
    pub(crate) fn unsent(&mut self, bytes: usize) {
        self.body_bytes = self.body_bytes.saturating_sub(bytes as u64);
    }

    /// Records that the whole body was passed to the connection.
    pub(crate) fn complete(&mut self) {
        self.is_complete = true;
    }
}

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

impl Drop for ObservedExchange {
    fn drop(&mut self) {
        let attempts = self
            .kept
            .as_ref()
            .and_then(|kept| kept.servers.as_ref())
            .map(ServerRequests::attempts);
        let mut record = Record {
            client: self.peer,
            host: self.host.to_str().unwrap_or_default(),
            protocol: self.protocol,
            status: self.status.unwrap_or(CLIENT_LEFT),
            body_bytes: self.body_bytes,
            cache: self.cache,
            first_byte: self.first_byte,
            total: self.begun.elapsed(),
            is_complete: self.is_complete || self.length == Some(self.body_bytes),
            upstream: attempts.as_deref().unwrap_or_default(),
            ..self.client.record()
        };
        record.scheme = self.scheme.unwrap_or(record.scheme);
        record.target = self.target.as_ref().map_or("", PathAndQuery::as_str);
        if let Some(kept) = &self.kept {
            record.method = kept.method.as_str();
            record.request_id = kept.id.as_ref().map(HeaderValue::as_bytes);
            record.request_fields = Fields::Values(&kept.request_fields);
            record.response_fields = Fields::Values(&kept.response_fields);
            record.refusal = kept.refusal;
        }
        self.client
            .0
            .observer
            .report(&record, self.miss, self.passed_by.as_ref());
    }
}
