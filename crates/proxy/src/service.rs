//! Validates a client's request, and passes it to the proxy.

use super::host_pattern::is_plain_host;
use super::http_limits::HttpLimits;
use super::https_redirect::HttpsRedirect;
use super::informational::{InformationalResponses, Last};
use super::listen::Client;
use super::max_forwards;
use super::outgoing::Outgoing;
use super::outgoing::plain_error;
use super::proxy::Proxy;
use super::proxy::forward::DetachOnDrop;
use super::ruled::{Ruled, RulesView};
use super::shards::Next;
use super::trusted_proxies::{Forwarded, TrustedPeer};
use super::upgrade::{Offer, Switch, Upgrade};
use super::upload::linger;
use super::upstream_request::{UpstreamRequest, head, is_one_variable};
use ::http::header::{CONNECTION, COOKIE, EXPECT, HOST, RETRY_AFTER, TRANSFER_ENCODING};
use ::http::request::Parts;
use ::http::uri::{Authority, PathAndQuery};
use ::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use std::cell::RefCell;
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// One connection's service.
pub(super) struct Service {
    proxy: Arc<Proxy>,
    /// The client's address for `X-Forwarded-For`.
    peer: HeaderValue,
    /// The same address; `None` for a Unix socket.
    client: Option<IpAddr>,
    /// `http` or `https`.
    scheme: &'static str,
    /// Reads what a trusted proxy says of a request's client.
    trusted: Option<TrustedPeer>,
    redirect: Option<HttpsRedirect>,
    /// The subject of the client's certificate.
    subject: Option<HeaderValue>,
    interims: InformationalResponses,
    switch: Switch,
    limits: HttpLimits,
    rules: RefCell<RulesView>,
}

impl Service {
    pub(super) fn new(proxy: &Arc<Proxy>, client: Client) -> Service {
        let rules = RefCell::new(RulesView::new(proxy.rules()));
        let peer = HeaderValue::try_from(client.peer.to_string()).expect("an address is visible ASCII");
        let scheme = if client.is_secure { "https" } else { "http" };
        let address = client.peer.ip();
        let Client { trusted, redirect, subject, interims, switch, limits, .. } = client;
        Service {
            proxy: Arc::clone(proxy),
            peer,
            client: address,
            scheme,
            trusted,
            redirect,
            subject,
            interims,
            switch,
            limits,
            rules,
        }
    }
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<Outgoing>;
    type Error = Infallible;
    type Future = Responding;

    fn call(&self, request: Request<Incoming>) -> Responding {
        let waits = waits_to_be_asked(&request);
        match self.answer(request) {
            // RFC 9110 §10.1.1: a response before the body says whether the connection ends. It
            // ends, because the client may send the body all the same.
            Responding::Now(Some(mut response)) if waits => {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                Responding::Now(Some(response))
            }
            responding => responding,
        }
    }
}

impl Service {
    /// Sets the field with the subject of the client's certificate, and removes a client's own.
    fn set_subject(&self, headers: &mut HeaderMap) {
        let Some(field) = self.proxy.subject_field() else { return };
        while let Some(name) = headers.keys().find(|name| is_one_variable(name.as_str(), field.as_str())).cloned() {
            headers.remove(name);
        }
        if let Some(subject) = &self.subject {
            headers.insert(field.clone(), subject.clone());
        }
    }

    /// Returns the client of a request, and what it asked for, as far as a trusted proxy says it.
    fn forwarded<'a>(&self, headers: &'a HeaderMap) -> Forwarded<'a> {
        match &self.trusted {
            Some(trusted) => trusted.read(fields(headers)),
            None => Forwarded { client: self.client, scheme: None, host: None },
        }
    }

    /// Returns the redirect to HTTPS, if the request gets one.
    fn redirected(&self, parts: &Parts, scheme: &str, authority: &str) -> Option<Response<Outgoing>> {
        self.redirect.filter(|_| scheme == "http")?.answer(authority, target(parts))
    }

    /// Returns the refusal of a request that is larger than the limits. hyper knows those of header
    /// blocks, except the number of fields in HTTP/2.
    fn too_large(&self, parts: &Parts, body: &Incoming, rules: Option<&Ruled>) -> Option<Response<Outgoing>> {
        if parts.version == Version::HTTP_2 && parts.headers.len() > self.limits.header_fields {
            let text = "larder: the request has too many header fields\n";
            return Some(plain_error(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, text));
        }
        if body.is_end_stream() || body.size_hint().lower() <= self.body_bytes(rules) {
            return None;
        }
        let text = "larder: the request's body is too large\n";
        let mut refusal = plain_error(StatusCode::PAYLOAD_TOO_LARGE, text);
        if parts.version <= Version::HTTP_11 {
            refusal.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Some(refusal)
    }

    /// Returns the largest body of a request.
    fn body_bytes(&self, rules: Option<&Ruled>) -> u64 {
        self.limits.body_bytes(rules.and_then(Ruled::client_body_size))
    }

    fn answer(&self, request: Request<Incoming>) -> Responding {
        let (mut parts, body) = request.into_parts();
        if parts.version == Version::HTTP_2 {
            join_cookies(&mut parts.headers);
        }
        self.set_subject(&mut parts.headers);
        let origins = (parts.version == Version::HTTP_10).then(|| self.proxy.origins());
        let fallback = origins.as_ref().map_or("", |origins| origins.authority());
        let own_answer = max_forwards::spend(&mut parts);
        let offer = Offer::of(&mut parts, !body.is_end_stream());
        // Nothing stored changes a protocol, and what the origin tells one subject is nobody
        // else's: such requests go to the origin, as one with a body.
        let goes_by = !body.is_end_stream() || offer.is_some() || self.subject.is_some();
        let is_storable = !goes_by && matches!(parts.method, Method::GET | Method::HEAD);
        if is_storable {
            self.proxy.codings().reduce(&mut parts.headers);
        }
        let Forwarded { scheme, host, client } = self.forwarded(&parts.headers);
        let scheme = scheme.unwrap_or(self.scheme);
        let schemes = [self.scheme, scheme];
        let offer = offer.map(|offer| (offer, client));
        let authority = match framing(&parts).and_then(|()| authority(&parts, &schemes, host, fallback)) {
            Err(refusal) => return Responding::Now(Some(refuse(refusal))),
            Ok(_) if own_answer.is_some() => return Responding::Now(own_answer),
            Ok(authority) => authority,
        };
        if let Some(redirect) = self.redirected(&parts, scheme, authority) {
            return Responding::Now(Some(redirect));
        }
        let rules = Ruled::of(&mut self.rules.borrow_mut(), &parts, scheme, authority, client);
        let own_answer = rules.as_ref().and_then(|rules| rules.answer());
        if let Some(answer) = own_answer.or_else(|| self.too_large(&parts, &body, rules.as_deref())) {
            if !body.is_end_stream() && !expects(&parts.headers) {
                linger(body);
            }
            return rules.iter().fold(Responding::Now(Some(answer)), Responding::ruled);
        }
        let Some(rules) = rules else {
            let step = self.proxy.shards().step(&head(&parts, scheme, authority, goes_by), true);
            if let Next::Answer(answer) = step {
                return Responding::Now(Some(self.proxy.sent(answer)));
            }
            let host = larder_http::keyed_authority(scheme, authority).into_owned();
            return self.go_on(step, (parts, body), (scheme, &host), None, offer);
        };
        let changed = rules.changed(&parts, is_storable);
        let request = head(changed.as_ref().unwrap_or(&parts), scheme, authority, goes_by);
        let shards = self.proxy.shards();
        let step = match rules.passes() {
            true => shards.pass(&request),
            false => shards.step(&request, rules.collapses()),
        };
        let host = larder_http::keyed_authority(scheme, authority).into_owned();
        let parts = changed.unwrap_or(parts);
        self.go_on(step, (parts, body), (scheme, &host), Some(Arc::clone(&rules)), offer).ruled(&rules)
    }

    /// Carries out the cache's decision. `host` is the host as it is keyed.
    fn go_on(
        &self,
        step: Next,
        (mut parts, body): (Parts, Incoming),
        (scheme, host): (&'static str, &str),
        rules: Option<Arc<Ruled>>,
        offer: Option<(Offer, Option<IpAddr>)>,
    ) -> Responding {
        // An authority is visible ASCII.
        let Ok(host) = HeaderValue::from_str(host) else {
            return Responding::Now(Some(refuse("the host has odd characters")));
        };
        let goes_round = self.proxy.shards().cdn_loop().goes_round(&parts.headers);
        // RFC 9110 §10.1.1: ignored for HTTP/1.0; for HTTP/2, hyper does not ask for a body.
        let is_current = parts.version == Version::HTTP_11;
        let expects = expects(&parts.headers);
        parts.headers.remove(EXPECT);
        let upgrade = match offer.map(|(offer, client)| (offer, self.proxy.tunnels().place(client))) {
            Some((_, None)) => return Responding::Now(Some(no_place())),
            Some((offer, Some(place))) => Some(Box::new(Upgrade::new(offer, &self.switch, place))),
            None => None,
        };
        let turn = is_current.then(|| self.interims.turn());
        let (proxy, interims) = (Arc::clone(&self.proxy), turn.clone());
        let (peer, expects) = (self.peer.clone(), is_current && expects);
        let body_bytes = self.body_bytes(rules.as_deref());
        let upstream_request =
            UpstreamRequest { parts, peer, scheme, host, expects, body_bytes, interims, upgrade, rules };
        match step {
            Next::Answer(answer) => Responding::Now(Some(proxy.sent(answer))),
            Next::Assemble(_) | Next::Follow(_) if goes_round => {
                let text = "larder: the request goes round in a circle\n";
                Responding::Now(Some(plain_error(StatusCode::LOOP_DETECTED, text)))
            }
            Next::Assemble(assembled) => {
                Responding::Now(Some(proxy.assembled(assembled, upstream_request.upstream_target())))
            }
            Next::Forward(exchange) if goes_round => Responding::Now(Some(proxy.refuse_circle(exchange))),
            Next::Forward(exchange) => {
                let sent = proxy.send_forward(exchange, upstream_request, body);
                Responding::Later(Last::new(turn, sent), None)
            }
            Next::Follow(waiting) => {
                let followed = DetachOnDrop::new(false, Box::pin(proxy.follow(waiting, upstream_request, body)));
                Responding::Later(Last::new(turn, followed), None)
            }
            Next::Refresh(answer, exchange) => {
                if !goes_round {
                    proxy.refresh(exchange, upstream_request);
                }
                Responding::Now(Some(proxy.sent(answer)))
            }
        }
    }
}

const CONTINUE: &[u8] = b"100-continue";

/// Returns names and values.
fn fields(headers: &HeaderMap) -> impl Iterator<Item = (&str, &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()))
}

fn target(parts: &Parts) -> &str {
    parts.uri.path_and_query().map_or("/", PathAndQuery::as_str)
}

/// Returns true if the client waits with its body until it gets `100 Continue`.
fn waits_to_be_asked(request: &Request<Incoming>) -> bool {
    request.version() == Version::HTTP_11 && !request.body().is_end_stream() && expects(request.headers())
}

fn expects(headers: &HeaderMap) -> bool {
    headers.get(EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(CONTINUE))
}

/// The future of a response. A hit needs no box, a miss one.
pub(super) enum Responding {
    Now(Option<Response<Outgoing>>),
    Later(Last<DetachOnDrop<Response<Outgoing>>>, Option<Arc<Ruled>>),
}

impl Responding {
    /// Lets the rules change the response.
    fn ruled(self, rules: &Arc<Ruled>) -> Responding {
        match self {
            Responding::Now(mut response) => {
                response.iter_mut().for_each(|response| rules.finish(response));
                Responding::Now(response)
            }
            Responding::Later(last, _) => Responding::Later(last, Some(Arc::clone(rules))),
        }
    }
}

impl Future for Responding {
    type Output = Result<Response<Outgoing>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Responding::Now(response) => response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
            Responding::Later(last, rules) => Pin::new(last).poll(cx).map(|mut response| {
                rules.iter().for_each(|rules| rules.finish(&mut response));
                Ok(response)
            }),
        }
    }
}

/// RFC 9112 §6.1: `chunked` is the only supported transfer coding. With another one below it, the
/// forwarded body would be encoded without a declaration. In HTTP/2, h2 refuses such fields, but
/// not spaces around a value, which another protocol would not have there (RFC 9113 §8.2.1).
fn framing(parts: &Parts) -> Result<(), &'static str> {
    if parts.version == Version::HTTP_2 {
        let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        let has_spaces = |value: &HeaderValue| is_space(value.as_bytes().first()) || is_space(value.as_bytes().last());
        return if parts.headers.values().any(has_spaces) { Err("spaces around the value of a field") } else { Ok(()) };
    }
    let mut lines = parts.headers.get_all(TRANSFER_ENCODING).into_iter();
    let plain = lines.next().is_none_or(|line| line.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"));
    if plain && lines.next().is_none() { Ok(()) } else { Err("its transfer coding is not just chunked") }
}

/// Returns the authority of a request. RFC 9112 §3.2: a request with no `Host`, several, or an
/// invalid one gets 400; a target in absolute form overrides it (§3.2.2). HTTP/2 has `:authority`,
/// and a `Host` beside it has to be equal (RFC 9113 §8.3.1).
///
/// The host that a trusted proxy got (`said`) counts more than the one that it sends. `schemes` are
/// those of the connection and of the proxy's client.
fn authority<'a>(
    parts: &'a Parts,
    schemes: &[&str],
    said: Option<&'a str>,
    fallback: &'a str,
) -> Result<&'a str, &'static str> {
    if parts.method == Method::CONNECT {
        return Err("this is no tunnel");
    }
    // RFC 9112 §3.2.4: for OPTIONS only.
    if parts.uri.path() == "*" && parts.method != Method::OPTIONS {
        return Err("the target is no path");
    }
    let mut hosts = parts.headers.get_all(HOST).into_iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().map_err(|_| "the host has odd characters")?,
        (None, _) if parts.version == Version::HTTP_10 => fallback,
        (None, _) if parts.version == Version::HTTP_2 => parts.uri.authority().map_or("", Authority::as_str),
        (None, _) => return Err("there is no Host"),
        (Some(_), Some(_)) => return Err("there are several Hosts"),
    };
    let named = match parts.uri.authority() {
        Some(_) if parts.uri.scheme_str().is_none_or(|scheme| !schemes.contains(&scheme)) => {
            return Err("another scheme is served here");
        }
        Some(authority) if parts.version == Version::HTTP_2 && authority.as_str() != host => {
            return Err("Host is not :authority");
        }
        Some(authority) => authority.as_str(),
        None => host,
    };
    let named = said.unwrap_or(named);
    let sound =
        |text: &str| is_plain_host(text) || text.parse::<Authority>().is_ok_and(|authority| is_host(&authority));
    if sound(host) && (named == host || sound(named)) { Ok(named) } else { Err("the host is not a host") }
}

/// RFC 3986 §3.2: no user, and a port of digits.
fn is_host(authority: &Authority) -> bool {
    let port = authority.as_str().strip_prefix(authority.host()).and_then(|rest| rest.strip_prefix(':').or(Some(rest)));
    port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// RFC 9113 §8.2.3: HTTP/2 may split cookies into several fields; HTTP/1.1 has one.
fn join_cookies(headers: &mut HeaderMap) {
    let mut crumbs = headers.get_all(COOKIE).into_iter().map(HeaderValue::as_bytes);
    let (Some(first), Some(second)) = (crumbs.next(), crumbs.next()) else { return };
    let mut cookie = [first, second].join(&b"; "[..]);
    crumbs.for_each(|crumb| cookie.extend([b"; ", crumb].concat()));
    if let Ok(cookie) = HeaderValue::from_maybe_shared(Bytes::from(cookie)) {
        headers.insert(COOKIE, cookie);
    }
}

/// Returns the answer to a request that offers to change the protocol, when there are too many such
/// connections, or too many of one client.
fn no_place() -> Response<Outgoing> {
    let text = "larder: too many connections with another protocol\n";
    let mut response = plain_error(StatusCode::SERVICE_UNAVAILABLE, text);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
    response
}

/// Returns a 400 that closes the connection: after a malformed request, the start of the next one
/// is unknown.
fn refuse(reason: &'static str) -> Response<Outgoing> {
    let text = format!("larder: bad request: {reason}\n");
    let mut response = plain_error(StatusCode::BAD_REQUEST, text);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
