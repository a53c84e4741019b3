//! Answers the requests of one connection: in their normal form, they pass the rules and go to the
//! cache.

use crate::base::http_limits::HttpLimits;
use crate::cache::shards::Next;
use crate::coding::asked_coding::AskedCoding;
use crate::exchange::acme_challenge;
use crate::exchange::client::Client;
use crate::exchange::https_redirect::HttpsRedirect;
use crate::exchange::live::LiveView;
use crate::exchange::max_forwards;
use crate::exchange::outgoing::{Outgoing, own_answer};
use crate::exchange::peers::peer_request;
use crate::exchange::proxy::Proxy;
use crate::exchange::proxy::forward::DetachOnDrop;
use crate::exchange::request_rules::{Ruled, address_of, rule_request};
use crate::exchange::upgrade::{Offer, Switch, Upgrade};
use crate::exchange::upstream_request::{UpstreamRequest, head};
use crate::message::client_body::ClientBody;
use crate::message::field_names::{is_one_variable, remove_where};
use crate::message::informational::{InformationalResponses, Last, Turn};
use crate::message::normal_request::{Connection, NormalRequest, RefusedRequest};
use crate::message::trusted_proxies::TrustedPeer;
use crate::message::upload::linger;
use crate::report::observer::RefusalReason;
use ::http::header::{ACCEPT_ENCODING, CONNECTION, EXPECT, RETRY_AFTER};
use ::http::request::Parts;
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::Body;
use larder_http::RequestHead;
use larder_static_files::Tag;
use std::cell::RefCell;
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// One connection's service.
pub(crate) struct Service {
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
    /// True for another node of the fleet.
    is_peer: bool,
    /// Renewed when a request begins.
    live: RefCell<LiveView>,
}

impl Service {
    pub(crate) fn new(proxy: &Arc<Proxy>, client: Client) -> Service {
        let live = RefCell::new(LiveView::new(proxy.live_cell()));
        let peer =
            HeaderValue::try_from(client.peer.to_string()).expect("an address is visible ASCII");
        let scheme = if client.is_secure { "https" } else { "http" };
        let address = client.peer.ip();
        let Client {
            trusted,
            redirect,
            subject,
            interims,
            switch,
            limits,
            is_peer,
            ..
        } = client;
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
            is_peer,
            live,
        }
    }
}

impl hyper::service::Service<Request<ClientBody>> for Service {
    type Response = Response<Outgoing>;
    type Error = Infallible;
    type Future = Responding;

    fn call(&self, request: Request<ClientBody>) -> Responding {
        let (parts, body) = request.into_parts();
        match self.normalise(parts) {
            Ok(request) => self.respond(request, body),
            Err(refused) => Responding::refusal(refused.reason),
        }
    }
}

impl Service {
    /// Sets the field with the subject of the client's certificate, and removes a client's own.
    fn set_subject(&self, field: Option<&HeaderName>, headers: &mut HeaderMap) {
        let Some(field) = field else {
            return;
        };
        remove_where(headers, |name| {
            is_one_variable(name.as_str(), field.as_str())
        });
        if let Some(subject) = &self.subject {
            headers.insert(field.clone(), subject.clone());
        }
    }

    /// Returns the redirect to HTTPS, if the request gets one.
    fn redirected(&self, request: &NormalRequest) -> Option<Response<Outgoing>> {
        let redirect = self.redirect.filter(|_| request.scheme == "http")?;
        redirect.answer(request.authority(), request.target().as_str())
    }

    /// Returns the refusal of a request that is larger than the limits. hyper knows those of header
    /// blocks, except the number of fields in HTTP/2 and 3.
    fn too_large(
        &self,
        parts: &Parts,
        body: &ClientBody,
        rules: Option<&Ruled>,
    ) -> Option<Response<Outgoing>> {
        if parts.version >= Version::HTTP_2 && parts.headers.len() > self.limits.header_fields {
            let text = "larder: the request has too many header fields\n";
            return Some(own_answer(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                text,
                "request-too-large",
            ));
        }
        if body.is_end_stream() || body.size_hint().lower() <= self.body_bytes(rules) {
            return None;
        }
        let text = "larder: the request's body is too large\n";
        let mut refusal = own_answer(StatusCode::PAYLOAD_TOO_LARGE, text, "request-too-large");
        if parts.version <= Version::HTTP_11 {
            refusal
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Some(refusal)
    }

    /// Returns the rules of a request; `None` if there are none.
    fn rules_of(&self, request: &NormalRequest) -> Option<Arc<Ruled>> {
        let mut view = self.live.borrow_mut();
        let request = rule_request(request);
        let (rules, bits) = view.rules_of(&request)?;
        Some(Ruled::new(rules, bits, &request, !self.is_peer))
    }

    /// Returns the largest body of a request.
    fn body_bytes(&self, rules: Option<&Ruled>) -> u64 {
        self.limits
            .body_bytes(rules.and_then(Ruled::client_body_size))
    }

    /// Returns a request in its normal form.
    ///
    /// # Errors
    /// It is malformed, or servers read it in several ways.
    pub(crate) fn normalise(&self, parts: Parts) -> Result<NormalRequest, Box<RefusedRequest>> {
        let mut view = self.live.borrow_mut();
        view.renew();
        let live = (parts.version == Version::HTTP_10)
            .then(|| view.live())
            .flatten();
        let fallback = live.as_ref().map_or("", |live| live.origins.authority());
        let (mut trusted, mut client, mut scheme) =
            (self.trusted.as_ref(), self.client, self.scheme);
        let mut parts = parts;
        if self.is_peer {
            (trusted, (scheme, client)) = (None, peer_request::take_client(&mut parts));
        }
        let mut request = NormalRequest::new(
            parts,
            &Connection {
                scheme,
                client,
                trusted,
                fallback,
            },
        )?;
        self.set_subject(view.subject_field(), &mut request.parts.headers);
        Ok(request)
    }

    /// Answers a request.
    pub(crate) fn respond(&self, request: NormalRequest, body: ClientBody) -> Responding {
        let waits = waits_to_be_asked(&request.parts, &body);
        let responding = self.answer(request, body);
        if self.is_peer {
            return responding.for_peer();
        }
        match responding {
            // RFC 9110 §10.1.1: a response before the body says whether the connection ends. It
            // ends, because the client may send the body all the same.
            Responding::Now(Some(mut response)) if waits => {
                response
                    .headers_mut()
                    .insert(CONNECTION, HeaderValue::from_static("close"));
                Responding::Now(Some(response))
            }
            responding => responding,
        }
    }

    /// Returns the codings that the client accepts, if responses get such.
    fn asked_coding(&self, parts: &Parts) -> Option<AskedCoding> {
        let view = self.live.borrow();
        Some(AskedCoding::new(view.compression()?, parts))
    }

    fn answer(&self, mut request: NormalRequest, body: ClientBody) -> Responding {
        if self.is_peer
            && let Some(answer) = peer_request::answer(&self.proxy, &mut request.parts)
        {
            return Responding::Now(Some(answer));
        }
        let (acme, method) = (self.proxy.certificates(), &request.parts.method);
        if let Some(answer) = acme_challenge::answer(acme, method, request.target().as_str()) {
            return Responding::Now(Some(answer));
        }
        let parts = &mut request.parts;
        let own_answer = max_forwards::spend(parts);
        let offer = Offer::of(parts, !body.is_end_stream());
        if own_answer.is_some() {
            return Responding::Now(own_answer);
        }
        if parts.method == Method::CONNECT {
            return Responding::refusal("this is no tunnel");
        }
        // Nothing stored changes a protocol, and what the origin tells one subject is nobody
        // else's: such requests go to the origin, as one with a body.
        let goes_by = !body.is_end_stream() || offer.is_some() || self.subject.is_some();
        let is_storable = !goes_by && matches!(parts.method, Method::GET | Method::HEAD);
        let asked = self.asked_coding(parts).filter(|_| !self.is_peer);
        if is_storable {
            let codings = self.live.borrow().codings();
            codings.reduce(&mut parts.headers);
        }
        let offer = offer.map(|offer| (offer, request.client));
        if let Some(redirect) = self.redirected(&request) {
            return Responding::Now(Some(redirect));
        }
        let rules = self.rules_of(&request);
        let answering = rules.as_ref().filter(|_| !self.is_peer);
        let own_answer = answering.and_then(|rules| rules.answer());
        if let Some(refusal) = answering.and_then(|rules| rules.refusal()) {
            self.proxy.observers().current().add_rule_refusal(refusal);
        }
        if let Some(answer) =
            own_answer.or_else(|| self.too_large(&request.parts, &body, rules.as_deref()))
        {
            if !body.is_end_stream() && !expects(&request.parts.headers) {
                linger(body);
            }
            return rules
                .iter()
                .fold(Responding::Now(Some(answer)), Responding::ruled);
        }
        let is_exempt = rules.as_ref().is_some_and(|rules| !rules.compresses());
        let asked = asked.map(|asked| if is_exempt { asked.exempt() } else { asked });
        request.coding = asked.as_ref().and_then(|asked| asked.coding);
        let responding = self.look_up(request, body, rules, offer, goes_by);
        match asked {
            Some(asked) => responding.coded(&self.proxy, asked),
            None => responding,
        }
    }

    /// Passes a request, which the rules let through, to the cache. With `goes_by`, nothing stored
    /// answers it.
    fn look_up(
        &self,
        mut request: NormalRequest,
        body: ClientBody,
        rules: Option<Arc<Ruled>>,
        offer: Option<(Offer, Option<IpAddr>)>,
        goes_by: bool,
    ) -> Responding {
        let is_storable = !goes_by && matches!(request.parts.method, Method::GET | Method::HEAD);
        let Some(rules) = rules else {
            let tag = self.file_tag(&request, is_storable);
            let request_head = request_head(&request, goes_by);
            let step = self
                .proxy
                .shards()
                .step(&confirmed(request_head, tag.as_ref()), true);
            if let Next::Answer(answer) = step {
                return Responding::Now(Some(self.proxy.sent(answer)));
            }
            return self.go_on(step, request, body, None, offer);
        };
        if let Some(changed) = rules.changed(&request.parts, is_storable, !self.is_peer) {
            request.parts = changed;
        }
        let is_named = is_storable && !rules.passes() && !rules.rewrites();
        let tag = self.file_tag(&request, is_named);
        let request_head = confirmed(request_head(&request, goes_by), tag.as_ref());
        let shards = self.proxy.shards();
        let step = if rules.passes() {
            shards.pass(&request_head)
        } else {
            shards.step(&request_head, rules.collapses())
        };
        let responding = self.go_on(step, request, body, Some(Arc::clone(&rules)), offer);
        if self.is_peer {
            responding
        } else {
            responding.ruled(&rules)
        }
    }

    /// Returns the entity tag of the file that a request would get now. `is_named`: the target of
    /// the request is its path.
    fn file_tag(&self, request: &NormalRequest, is_named: bool) -> Option<Tag> {
        let view = self.live.borrow();
        let files = view.files().filter(|_| is_named)?;
        // A file's tag depends on no other field.
        let fields = || {
            let lines = request.parts.headers.get_all(ACCEPT_ENCODING);
            let lines = lines.into_iter().cloned();
            lines.map(|line| (ACCEPT_ENCODING, line)).collect()
        };
        let target = request.target();
        files.tag(request.scheme, request.authority(), target.as_str(), fields)
    }

    /// Carries out the cache's decision.
    fn go_on(
        &self,
        step: Next,
        request: NormalRequest,
        mut body: ClientBody,
        rules: Option<Arc<Ruled>>,
        offer: Option<(Offer, Option<IpAddr>)>,
    ) -> Responding {
        // A hit does not look at the configuration.
        let step = match step {
            Next::Answer(answer) => return Responding::Now(Some(self.proxy.sent(answer))),
            step => step,
        };
        let NormalRequest {
            mut parts,
            host,
            scheme,
            client,
            coding,
        } = request;
        let goes_round = self.proxy.shards().cdn_loop().goes_round(&parts.headers);
        // RFC 9110 §10.1.1: ignored for HTTP/1.0.
        let is_current = parts.version >= Version::HTTP_11;
        let expects = is_current && expects(&parts.headers);
        parts.headers.remove(EXPECT);
        let live = self
            .live
            .borrow()
            .live()
            .unwrap_or_else(|| self.proxy.live());
        let upgrade = match offer.map(|(offer, client)| (offer, self.proxy.tunnels().place(client)))
        {
            Some((_, None)) => return Responding::Now(Some(no_place())),
            Some((offer, Some(place))) => Some(Box::new(Upgrade::new(offer, &self.switch, place))),
            None => None,
        };
        let turn = match &mut body {
            ClientBody::Http1(_) => is_current.then(|| Turn::Connection(self.interims.turn())),
            ClientBody::Http2(body) => Some(Turn::Stream(body.interims(expects))),
            #[cfg(feature = "http3")]
            ClientBody::Http3(body) => Some(Turn::Stream(body.interims(expects))),
        };
        let interims = turn.clone();
        let turn = turn.and_then(|turn| turn.of_connection());
        let (proxy, peer) = (&self.proxy, self.peer.clone());
        let body_bytes = self.body_bytes(rules.as_deref());
        let upstream_request = UpstreamRequest {
            live,
            parts,
            peer,
            client: address_of(client),
            scheme,
            coding,
            host,
            expects,
            body_bytes,
            interims,
            upgrade,
            rules,
            is_of_peer: self.is_peer,
        };
        match step {
            Next::Answer(answer) => Responding::Now(Some(proxy.sent(answer))),
            Next::Assemble(_) | Next::Follow(_) if goes_round => {
                let text = "larder: the request goes round in a circle\n";
                Responding::Now(Some(own_answer(StatusCode::LOOP_DETECTED, text, "loop")))
            }
            Next::Assemble(assembled) => Responding::Now(Some(
                proxy.assembled(assembled, proxy.owned_target(&upstream_request)),
            )),
            Next::Forward(exchange) if goes_round => {
                Responding::Now(Some(proxy.refuse_circle(exchange)))
            }
            Next::Forward(exchange) => {
                let sent = Arc::clone(proxy).send_forward(exchange, upstream_request, body);
                Responding::Later(Last::new(turn, sent), Filters::default())
            }
            Next::Follow(waiting) => {
                let followed = DetachOnDrop::new(
                    false,
                    Box::pin(Arc::clone(proxy).follow(waiting, upstream_request, body)),
                );
                Responding::Later(Last::new(turn, followed), Filters::default())
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

/// Returns the head of a request for a file with this entity tag.
fn confirmed<'a>(head: RequestHead<'a>, tag: Option<&'a Tag>) -> RequestHead<'a> {
    RequestHead {
        confirmed: tag.map(Tag::as_bytes),
        ..head
    }
}

const CONTINUE: &[u8] = b"100-continue";

fn request_head(request: &NormalRequest, goes_by: bool) -> RequestHead<'_> {
    head(
        &request.parts,
        request.scheme,
        request.authority(),
        request.coding,
        goes_by,
    )
}

/// Returns true if the client waits with its body until it gets `100 Continue`.
fn waits_to_be_asked(parts: &Parts, body: &ClientBody) -> bool {
    parts.version == Version::HTTP_11 && !body.is_end_stream() && expects(&parts.headers)
}

fn expects(headers: &HeaderMap) -> bool {
    headers
        .get(EXPECT)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(CONTINUE))
}

/// The future of a response. A hit needs no box, a miss one.
pub(crate) enum Responding {
    Now(Option<Response<Outgoing>>),
    Later(Last<DetachOnDrop<Response<Outgoing>>>, Filters),
}

/// What changes a response before it is sent, in this order.
#[derive(Default)]
pub(crate) struct Filters {
    rules: Option<Arc<Ruled>>,
    coding: Option<Box<(Arc<Proxy>, AskedCoding)>>,
    /// Whether it goes to another node.
    is_for_peer: bool,
}

impl Filters {
    fn apply(&self, mut response: Response<Outgoing>) -> Response<Outgoing> {
        if let Some(rules) = &self.rules {
            rules.finish(&mut response);
        }
        if self.is_for_peer {
            peer_request::mark(&mut response);
        }
        match self.coding.as_deref() {
            Some((proxy, asked)) => proxy.coded(response, asked),
            None => response,
        }
    }
}

impl Responding {
    /// Returns a 400 that closes the connection: after a malformed request, the start of the next
    /// one is unknown.
    pub(crate) fn refusal(reason: &'static str) -> Responding {
        let text = format!("larder: bad request: {reason}\n");
        let mut response = own_answer(StatusCode::BAD_REQUEST, text, "bad-request");
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
        response.extensions_mut().insert(RefusalReason(reason));
        Responding::Now(Some(response))
    }

    /// Lets the rules change the response.
    fn ruled(self, rules: &Arc<Ruled>) -> Responding {
        match self {
            Responding::Now(mut response) => {
                if let Some(response) = &mut response {
                    rules.finish(response);
                }
                Responding::Now(response)
            }
            Responding::Later(last, filters) => {
                let rules = Some(Arc::clone(rules));
                Responding::Later(last, Filters { rules, ..filters })
            }
        }
    }

    /// Says another node what kind of answer it is.
    fn for_peer(self) -> Responding {
        match self {
            Responding::Now(mut response) => {
                if let Some(response) = &mut response {
                    peer_request::mark(response);
                }
                Responding::Now(response)
            }
            Responding::Later(last, filters) => {
                let is_for_peer = true;
                Responding::Later(
                    last,
                    Filters {
                        is_for_peer,
                        ..filters
                    },
                )
            }
        }
    }

    /// Gives the response the coding that its client gets.
    fn coded(self, proxy: &Arc<Proxy>, asked: AskedCoding) -> Responding {
        match self {
            Responding::Now(response) => {
                Responding::Now(response.map(|response| proxy.coded(response, &asked)))
            }
            Responding::Later(last, filters) => {
                let coding = Some(Box::new((Arc::clone(proxy), asked)));
                Responding::Later(last, Filters { coding, ..filters })
            }
        }
    }
}

impl Future for Responding {
    type Output = Result<Response<Outgoing>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Responding::Now(response) => response
                .take()
                .map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
            Responding::Later(last, filters) => Pin::new(last)
                .poll(cx)
                .map(|response| Ok(filters.apply(response))),
        }
    }
}

/// Returns the answer to a request that offers to change the protocol, when there are too many such
/// connections, or too many of one client.
fn no_place() -> Response<Outgoing> {
    let text = "larder: too many connections with another protocol\n";
    let mut response = own_answer(StatusCode::SERVICE_UNAVAILABLE, text, "no-place");
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("10"));
    response
}
