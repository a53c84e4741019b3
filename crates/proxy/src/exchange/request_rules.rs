//! What the rules do to one request of a client.

use crate::exchange::outgoing::{Outgoing, own_answer};
use crate::message::authority::normal_authority;
use crate::message::normal_request::NormalRequest;
use crate::message::target::{normal_prefix, normal_target};
use crate::report::exchange_figures::RuleRefusal;
use crate::rules::{
    Bits, ErrorPage, OwnAnswer, PassedBy, RequestFields, Rewrite, RuleRequest, Rules, Values,
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
use std::sync::Arc;

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
    pub(crate) fn get(&self) -> RuleRequest<'_> {
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

/// Returns a request, as rules read it.
pub(crate) fn rule_request(request: &NormalRequest) -> RuleRequest<'_> {
    RuleRequest {
        scheme: request.scheme,
        host: request.authority(),
        target: request.target(),
        method: &request.parts.method,
        client: address_of(request.client),
        fields: RequestFields::Map(&request.parts.headers),
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
    /// Returns those of the rules that are for a request. `answers`: they may answer it themselves.
    pub(crate) fn new(
        rules: &Arc<Rules>,
        bits: Bits,
        request: &RuleRequest<'_>,
        answers: bool,
    ) -> Arc<Ruled> {
        let method = request.method;
        let values = Values {
            scheme: request.scheme,
            host: request.host.to_owned(),
            target: request.target.as_str().to_owned(),
            client: request.client,
        };
        let own_answer = || rules.own_answer(bits, request, &values);
        let mut answer = answers.then(own_answer).flatten();
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
        Arc::new(Ruled {
            rules,
            bits,
            values,
            keyed_target,
            rewrite,
            answer,
            is_head,
            is_safe,
        })
    }

    /// Returns the reason for which the rules refuse the request, if they do.
    pub(crate) fn refusal(&self) -> Option<RuleRefusal> {
        match self.answer.as_ref()? {
            OwnAnswer::Denied => Some(RuleRefusal::Access),
            OwnAnswer::Limited(_) => Some(RuleRefusal::RateLimit),
            OwnAnswer::Redirect(..) | OwnAnswer::NoTarget => None,
        }
    }

    /// Returns the answer of the rules themselves, if they have one.
    pub(crate) fn answer(&self) -> Option<Response<Outgoing>> {
        Some(match self.answer.as_ref()? {
            OwnAnswer::Denied => own_answer(
                StatusCode::FORBIDDEN,
                "larder: access denied\n",
                "access-denied",
            ),
            OwnAnswer::Limited(wait) => {
                let mut response = own_answer(
                    StatusCode::TOO_MANY_REQUESTS,
                    "larder: too many requests\n",
                    "rate-limit",
                );
                let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                response
                    .headers_mut()
                    .insert(RETRY_AFTER, HeaderValue::from(seconds));
                response
            }
            OwnAnswer::Redirect(status, target) => {
                let mut response = own_answer(*status, "", "redirect");
                response.headers_mut().insert(LOCATION, target.clone());
                response
            }
            OwnAnswer::NoTarget => {
                let text = "larder: bad request: a rule makes no path of the target\n";
                own_answer(StatusCode::BAD_REQUEST, text, "no-target")
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

    /// Returns true if the response may get a content coding.
    pub(crate) fn compresses(&self) -> bool {
        self.rules.compresses(self.bits)
    }

    /// Returns the request as the rules change it, for the cache and the origin; `None` if they do
    /// not. `is_storable`: its response may be stored, so that cookies are selected. `edits`: its
    /// fields are not as the rules want them already.
    pub(crate) fn changed(&self, parts: &Parts, is_storable: bool, edits: bool) -> Option<Parts> {
        let selects_cookies =
            is_storable && self.rules.selects_cookies(self.bits) && !self.passes();
        let edits = edits && self.rules.changes_request(self.bits);
        if !edits && !selects_cookies && self.keyed_target.is_none() {
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
        if edits {
            self.rules
                .change_request(self.bits, &self.values, &mut parts.headers);
        }
        Some(parts)
    }

    /// Returns true if the request to the origin has another path or host.
    pub(crate) fn rewrites(&self) -> bool {
        self.rules.rewrites(self.bits)
    }

    /// Returns the client's target.
    pub(crate) fn target(&self) -> &str {
        &self.values.target
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
        for name in &OF_THE_BODY {
            drop(headers.remove(name));
        }
        headers.insert(CONTENT_TYPE, page.content_type.clone());
        headers.insert(CONTENT_LENGTH, HeaderValue::from(page.text.len()));
        *response.body_mut() = Outgoing::whole(if self.is_head {
            Bytes::new()
        } else {
            page.text.clone()
        });
    }
}
