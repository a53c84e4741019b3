//! The rules in force, and what they do to one request of a client.

use crate::base::limits;
use crate::exchange::outgoing::{Outgoing, plain_error};
use crate::message::authority::normal_authority;
use crate::message::normal_request::NormalRequest;
use crate::message::target::{normal_prefix, normal_target};
use crate::rules::{
    Bits, ErrorPage, Explanation, HostRules, OwnAnswer, PassedBy, RequestFields, Rewrite,
    RuleRequest, Rules, Values,
};
use ::http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    ETAG, LAST_MODIFIED, LOCATION, RETRY_AFTER,
};
use ::http::request::Parts;
use ::http::uri::PathAndQuery;
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use bytes::Bytes;
use larder_http::{Overrides, ResponseRules};
use larder_units::ByteSize;
use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The rules in force, which a reload replaces.
pub(crate) struct RulesCell {
    /// Counts the replacements.
    generation: AtomicU64,
    /// `None` if there is no rule.
    rules: Mutex<Option<Arc<Rules>>>,
}

impl RulesCell {
    pub(crate) fn new(rules: Option<Arc<Rules>>) -> Arc<RulesCell> {
        Arc::new(RulesCell {
            generation: AtomicU64::new(0),
            rules: Mutex::new(rules),
        })
    }

    pub(crate) fn set(&self, rules: Option<Arc<Rules>>) {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = rules;
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Returns the URL under which the response to a GET of this URL is stored.
    ///
    /// # Errors
    /// The reason for which such a request is refused.
    pub(crate) fn keyed_url(&self, url: &str) -> Result<String, &'static str> {
        let url = NormalUrl::new(url)?;
        let keyed = self.get().and_then(|rules| {
            let bits = rules.of_request(&url.get());
            rules.keyed_target(bits, &url.target)
        });
        let target = keyed.as_deref().unwrap_or(&url.target);
        Ok(format!("{}://{}{target}", url.scheme, url.authority))
    }

    /// Explains what the rules do to a GET of this URL, and to a response with 200.
    pub(crate) fn explain(&self, url: &NormalUrl) -> Option<Explanation> {
        let none = HeaderMap::new();
        Some(
            self.get()?
                .explain(&url.get(), &none, StatusCode::OK, &none),
        )
    }

    fn get(&self) -> Option<Arc<Rules>> {
        self.rules
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// A URL that an operator names, in the normal form of a client's request for it.
pub struct NormalUrl {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The host as it is keyed.
    pub authority: String,
    /// Path and query.
    pub target: String,
}

impl NormalUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// The reason for which a request for it is refused.
    pub fn new(url: &str) -> Result<NormalUrl, &'static str> {
        NormalUrl::read(url, |target| normal_target(target).map(Cow::into_owned))
    }

    /// Reads the beginning of URLs.
    ///
    /// # Errors
    /// As [`NormalUrl::new`].
    pub fn prefix(url: &str) -> Result<NormalUrl, &'static str> {
        NormalUrl::read(url, normal_prefix)
    }

    fn read(
        url: &str,
        normal: impl Fn(&str) -> Result<String, &'static str>,
    ) -> Result<NormalUrl, &'static str> {
        const EXPECTED: &str = "it is no URL such as http://host/path";
        let (scheme, rest) = url.split_once("://").ok_or(EXPECTED)?;
        let scheme = ["http", "https"]
            .into_iter()
            .find(|known| scheme.eq_ignore_ascii_case(known))
            .ok_or(EXPECTED)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let authority = normal_authority(scheme, &rest[..end])?.into_owned();
        Ok(NormalUrl {
            scheme,
            authority,
            target: normal(&rest[end..])?,
        })
    }

    /// Returns a GET of this URL by a client without an address, without fields.
    fn get(&self) -> RuleRequest<'_> {
        RuleRequest {
            scheme: self.scheme,
            host: &self.authority,
            target: self.target.as_str().into(),
            method: &Method::GET,
            client: address_of(None),
            fields: RequestFields::Parsed(&[]),
        }
    }
}

impl fmt::Display for NormalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.target)
    }
}

/// Returns the address of a client, as rules compare it. A program on a Unix socket, and a client
/// that its trusted proxy does not know, have the unspecified one, `::`. Only `all` and `::/0`
/// have it.
pub(crate) fn address_of(client: Option<IpAddr>) -> IpAddr {
    client.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED))
}

/// A connection's view of the rules. It looks at the cell only after a reload, so connections do
/// not share a lock.
#[derive(Clone)]
pub(crate) struct RulesView {
    cell: Arc<RulesCell>,
    generation: u64,
    rules: Option<Arc<Rules>>,
    /// The rules of the host that the connection asked last.
    host: Option<HostRules>,
}

impl RulesView {
    pub(crate) fn new(cell: &Arc<RulesCell>) -> RulesView {
        let generation = cell.generation.load(Ordering::Acquire);
        RulesView {
            cell: Arc::clone(cell),
            generation,
            rules: cell.get(),
            host: None,
        }
    }

    /// Returns those of the rules in force that are for a request; `None` if no rule is.
    pub(crate) fn of_request(&mut self, request: &RuleRequest<'_>) -> Option<(&Arc<Rules>, Bits)> {
        let generation = self.cell.generation.load(Ordering::Acquire);
        if generation != self.generation {
            (self.generation, self.rules, self.host) = (generation, self.cell.get(), None);
        }
        let rules = self.rules.as_ref()?;
        let bits = match &self.host {
            Some(host) if host.are_of(request.scheme, request.host) => {
                rules.of_request_to(host, request)
            }
            _ => {
                let host = rules.host_rules(request);
                let bits = rules.of_request_to(&host, request);
                self.host = (request.host.len() <= limits::KNOWN_HOST_BYTES).then_some(host);
                bits
            }
        };
        (!bits.is_empty()).then_some((rules, bits))
    }
}

/// The rules of one request, and the values of their variables.
pub(crate) struct Ruled {
    rules: Arc<Rules>,
    bits: Bits,
    values: Values,
    /// The target under which the response is stored, if it is not the client's.
    keyed_target: Option<PathAndQuery>,
    /// What the rules change in the request to the origin.
    rewrite: Rewrite,
    /// The answer of the rules themselves.
    answer: Option<OwnAnswer>,
    is_head: bool,
    /// True for GET and HEAD.
    is_safe: bool,
}

impl fmt::Debug for Ruled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.bits, self.values)
    }
}

impl ResponseRules for Ruled {
    fn overrides(&self, status: StatusCode, headers: &HeaderMap) -> Overrides {
        self.rules.overrides(self.bits, status, headers)
    }
}

impl Ruled {
    /// Returns the rules of a request; `None` if there are none.
    pub(crate) fn of(rules: &mut RulesView, request: &NormalRequest) -> Option<Arc<Ruled>> {
        let NormalRequest { parts, scheme, .. } = request;
        let (client, target, method) =
            (address_of(request.client), request.target(), &parts.method);
        let fields = RequestFields::Map(&parts.headers);
        let request = RuleRequest {
            scheme,
            host: request.authority(),
            target,
            method,
            client,
            fields,
        };
        let (rules, bits) = rules.of_request(&request)?;
        let target = target.as_str().to_owned();
        let values = Values {
            scheme,
            host: request.host.to_owned(),
            target,
            client,
        };
        let mut answer = rules.own_answer(bits, &request, &values);
        let is_head = *method == Method::HEAD;
        let is_safe = is_head || *method == Method::GET;
        let keyed_target: Option<PathAndQuery> = if rules.passes(bits) {
            None
        } else {
            rules
                .keyed_target(bits, &values.target)
                .and_then(|target| target.parse().ok())
        };
        let rewrite = match &keyed_target {
            None => rules.rewrite(bits, &values),
            Some(target) => rules.rewrite(
                bits,
                &Values {
                    target: target.to_string(),
                    ..values.clone()
                },
            ),
        };
        if rewrite.is_none() {
            answer = answer.or(Some(OwnAnswer::NoTarget));
        }
        let (rules, rewrite) = (Arc::clone(rules), rewrite.unwrap_or_default());
        Some(Arc::new(Ruled {
            rules,
            bits,
            values,
            keyed_target,
            rewrite,
            answer,
            is_head,
            is_safe,
        }))
    }

    /// Returns the answer of the rules themselves, if they have one.
    pub(crate) fn answer(&self) -> Option<Response<Outgoing>> {
        Some(match self.answer.as_ref()? {
            OwnAnswer::Denied => plain_error(StatusCode::FORBIDDEN, "larder: access denied\n"),
            OwnAnswer::Limited(wait) => {
                let mut response =
                    plain_error(StatusCode::TOO_MANY_REQUESTS, "larder: too many requests\n");
                let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                response
                    .headers_mut()
                    .insert(RETRY_AFTER, HeaderValue::from(seconds));
                response
            }
            OwnAnswer::Redirect(status, target) => {
                let mut response = plain_error(*status, "");
                response.headers_mut().insert(LOCATION, target.clone());
                response
            }
            OwnAnswer::NoTarget => {
                let text = "larder: bad request: a rule makes no path of the target\n";
                plain_error(StatusCode::BAD_REQUEST, text)
            }
        })
    }

    /// Returns the largest body of the request, if a rule sets it; 0: no limit.
    pub(crate) fn client_body_size(&self) -> Option<ByteSize> {
        self.rules.client_body_size(self.bits)
    }

    /// Returns true if the request bypasses the cache.
    pub(crate) fn passes(&self) -> bool {
        self.rules.passes(self.bits)
    }

    /// Returns true if the request may wait for another one's response, and others for its own.
    pub(crate) fn collapses(&self) -> bool {
        self.rules.collapses(self.bits)
    }

    /// Returns the request as the rules change it, for the cache and the origin; `None` if they do
    /// not. `is_storable`: its response may be stored, so that cookies are selected.
    pub(crate) fn changed(&self, parts: &Parts, is_storable: bool) -> Option<Parts> {
        let selects_cookies =
            is_storable && self.rules.selects_cookies(self.bits) && !self.passes();
        if !self.rules.changes_request(self.bits) && !selects_cookies && self.keyed_target.is_none()
        {
            return None;
        }
        let mut parts = parts.clone();
        if let Some(target) = &self.keyed_target {
            let mut uri = parts.uri.clone().into_parts();
            uri.path_and_query = Some(target.clone());
            parts.uri = Uri::from_parts(uri).unwrap_or(parts.uri);
        }
        if selects_cookies {
            self.rules.select_cookies(self.bits, &mut parts.headers);
        }
        self.rules
            .change_request(self.bits, &self.values, &mut parts.headers);
        Some(parts)
    }

    /// Returns what the rules change in the request to the origin.
    pub(crate) fn rewrite(&self) -> &Rewrite {
        &self.rewrite
    }

    /// Changes the head of the origin's response before the cache sees it, if the cache may store
    /// it: nobody's login loses its cookie.
    pub(crate) fn change_origin_response(&self, status: StatusCode, headers: &mut HeaderMap) {
        if self.is_safe && !self.passes() {
            self.rules
                .change_origin_response(self.bits, status, headers);
        }
    }

    /// Changes a response to the client.
    pub(crate) fn finish(&self, response: &mut Response<Outgoing>) {
        let status = response.status();
        if let Some(page) = self.rules.error_page(self.bits, status, response.headers()) {
            self.replace_body(response, page);
        }
        self.rules
            .change_response(self.bits, &self.values, status, response.headers_mut());
        if let Some(place) = self.rules.passed_by(self.bits) {
            response
                .extensions_mut()
                .insert(PassedBy::new(&self.rules, place));
        }
    }

    fn replace_body(&self, response: &mut Response<Outgoing>, page: &ErrorPage) {
        const OF_THE_BODY: [HeaderName; 6] = [
            ACCEPT_RANGES,
            CONTENT_ENCODING,
            CONTENT_LANGUAGE,
            CONTENT_RANGE,
            ETAG,
            LAST_MODIFIED,
        ];
        let headers = response.headers_mut();
        OF_THE_BODY
            .iter()
            .for_each(|name| drop(headers.remove(name)));
        headers.insert(CONTENT_TYPE, page.content_type.clone());
        headers.insert(CONTENT_LENGTH, HeaderValue::from(page.text.len()));
        *response.body_mut() = Outgoing::whole(if self.is_head {
            Bytes::new()
        } else {
            page.text.clone()
        });
    }
}
