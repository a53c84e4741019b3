//! `[[http.rules]]`: one ordered table of conditions and effects, compiled when it is loaded.
//!
//! All rules whose conditions hold apply, in the order of the table. What several of them set once
//! (`pass`, `redirect`, `rewrite`) is as the last one sets it. Changes of fields are carried out
//! one rule after another. `docs/guides/rules.md` describes every key.
//!
//! [`Rules::of_request`] finds the rules of a request as a set; the other functions return what a
//! set results in. Conditions on the response are checked when the response is there:
//! [`Rules::of_response`].

mod bits;
mod config;
mod explain;
mod fields;
mod key;
mod matcher;
mod passed_by;
mod pattern;
mod rate_limit;
mod template;

pub use bits::{Bits, RULES};
pub use config::{HeaderChanges, Ignored, Rule};
pub use explain::Explanation;
pub(crate) use passed_by::PassedBy;
pub use template::Values;

use crate::base::limits;
use crate::message::authority::normal_authority;
use crate::message::network::Network;
use crate::message::target::{Target, rewritten_target};
use bytes::Bytes;
use fields::HeaderEdits;
use http::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use key::QueryFilter;
use larder_http::Overrides;
use larder_units::ByteSize;
pub(crate) use matcher::HostRules;
use matcher::Matcher;
use pattern::{Glob, captures};
use rate_limit::{LimitKey, Limiter, RateLimit};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use template::{Place, Template};

/// The compiled rules.
pub struct Rules {
    rules: Vec<Rule>,
    matcher: Matcher,
    request_edits: Vec<HeaderEdits>,
    response_edits: Vec<HeaderEdits>,
    with: Masks,
    /// Present if some rule limits a rate.
    limiter: Option<Limiter>,
    /// The pages of `error_page`, by the places of their rules.
    pages: HashMap<usize, ErrorPage>,
}

/// A page in the place of a response's body.
#[derive(Clone)]
pub struct ErrorPage {
    /// The content of the file.
    pub text: Bytes,
    /// Its type, by the name of the file.
    pub content_type: HeaderValue,
}

/// The rules that have something.
#[derive(Default)]
struct Masks {
    /// Conditions on the client or its cookies.
    checks: Bits,
    /// Conditions on the response.
    response_conditions: Bits,
    access: Bits,
    rate_limit: Bits,
    client_body_size: Bits,
    error_page: Bits,
    pass: Bits,
    collapse: Bits,
    compress: Bits,
    /// Lifetimes, or what does not prevent storing.
    storing: Bits,
    query: Bits,
    cookie_keep: Bits,
    redirect: Bits,
    rewrite: Bits,
    rewrite_host: Bits,
    request_headers: Bits,
    response_headers: Bits,
    /// Changes of request fields that the cache evaluates.
    cache_fields: Bits,
    /// Changes of response fields that differ between the forms of a response.
    coding_fields: Bits,
}

/// A request, as conditions see it.
pub struct RuleRequest<'a> {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The authority.
    pub host: &'a str,
    /// Path and query, in their normal form.
    pub target: Target<'a>,
    /// The method.
    pub method: &'a Method,
    /// The client.
    pub client: IpAddr,
    /// Its fields.
    pub fields: RequestFields<'a>,
}

/// The fields of a request.
pub enum RequestFields<'a> {
    /// As a map.
    Map(&'a HeaderMap),
    /// As they were parsed.
    Parsed(&'a [httparse::Header<'a>]),
}

/// The answer that rules give themselves.
#[derive(Debug, PartialEq, Eq)]
pub enum OwnAnswer {
    /// The client may not come here: 403.
    Denied,
    /// It has sent too many requests, and may come again after this time: 429.
    Limited(Duration),
    /// A redirect with this status to this target.
    Redirect(StatusCode, HeaderValue),
    /// The request to the origin that a rule makes of this one would leave its path, or would be
    /// none: 400.
    NoTarget,
}

/// The request to the origin, where a rule changes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// The target.
    pub target: Option<PathAndQuery>,
    /// The host.
    pub host: Option<HeaderValue>,
}

impl RequestFields<'_> {
    fn value(&self, name: &HeaderName) -> Option<&[u8]> {
        match self {
            RequestFields::Map(map) => map.get(name).map(HeaderValue::as_bytes),
            RequestFields::Parsed(fields) => fields
                .iter()
                .find(|field| field.name.eq_ignore_ascii_case(name.as_str()))
                .map(|field| field.value),
        }
    }

    fn has_cookie(&self, names: &[Glob]) -> bool {
        let is_one = |line: &[u8]| {
            line.split(|byte| *byte == b';').any(|cookie| {
                let name = cookie
                    .split(|byte| *byte == b'=')
                    .next()
                    .unwrap_or_default()
                    .trim_ascii();
                !name.is_empty()
                    && names
                        .iter()
                        .any(|glob| glob.matches(name) || glob.matches(php_name(name)))
            })
        };
        match self {
            RequestFields::Map(map) => map
                .get_all(COOKIE)
                .iter()
                .any(|line| is_one(line.as_bytes())),
            RequestFields::Parsed(fields) => fields
                .iter()
                .any(|field| field.name.eq_ignore_ascii_case("cookie") && is_one(field.value)),
        }
    }
}

/// Returns the name that a cookie has for PHP, which reads `session.a` as `session_a`.
fn php_name(name: &[u8]) -> Vec<u8> {
    let php = |byte: &u8| {
        if matches!(byte, b'.' | b' ' | b'[') {
            b'_'
        } else {
            *byte
        }
    };
    name.iter().map(php).collect()
}

/// The problem of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The number of the rule in the table, from 1.
    pub number: usize,
    /// The problem and the remedy.
    pub problem: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[[http.rules]] number {}: {}", self.number, self.problem)
    }
}

impl std::error::Error for RuleError {}

impl Rules {
    /// Compiles a table.
    ///
    /// # Errors
    /// One for each contradiction in a rule.
    pub fn new(rules: Vec<Rule>) -> Result<Rules, Vec<RuleError>> {
        let problems = |(place, rule): (usize, &Rule)| {
            let error = move |problem| RuleError {
                number: place + 1,
                problem,
            };
            contradictions(rule).into_iter().map(error)
        };
        let mut errors: Vec<RuleError> = rules.iter().enumerate().flat_map(problems).collect();
        if rules.len() > RULES {
            let problem = format!(
                "expected up to {RULES} rules, not {}: put several hosts or paths into one rule",
                rules.len()
            );
            errors.push(RuleError {
                number: RULES + 1,
                problem,
            });
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let edits = |changes: fn(&Rule) -> &HeaderChanges| {
            rules
                .iter()
                .map(|rule| HeaderEdits::new(changes(rule)))
                .collect()
        };
        let request_edits = edits(|rule| &rule.request_headers);
        let response_edits = edits(|rule| &rule.response_headers);
        let with = Masks::new(&rules);
        let limiter = (!with.rate_limit.is_empty()).then(Limiter::new);
        let (matcher, pages) = (Matcher::new(&rules), HashMap::new());
        Ok(Rules {
            matcher,
            request_edits,
            response_edits,
            with,
            rules,
            limiter,
            pages,
        })
    }

    /// Reads the files of `error_page`.
    ///
    /// # Errors
    /// The file that cannot be read, or is longer than [`limits::ERROR_PAGE_BYTES`].
    pub(crate) fn read_pages(&mut self) -> Result<(), (PathBuf, io::Error)> {
        for (place, rule) in self.rules.iter().enumerate() {
            let Some(path) = &rule.error_page else {
                continue;
            };
            let text = read_page(path).map_err(|error| (path.clone(), error))?;
            self.pages.insert(
                place,
                ErrorPage {
                    text,
                    content_type: type_by_name(path),
                },
            );
        }
        Ok(())
    }

    /// Returns the rules whose conditions on the request hold.
    pub fn of_request(&self, request: &RuleRequest<'_>) -> Bits {
        self.of_request_to(&self.host_rules(request), request)
    }

    /// Returns the rules whose conditions on the scheme and the host of a request hold.
    pub(crate) fn host_rules(&self, request: &RuleRequest<'_>) -> HostRules {
        self.matcher.host_rules(request.scheme, request.host)
    }

    /// Returns those of the rules of a host whose conditions on a request to it hold.
    #[inline]
    pub(crate) fn of_request_to(&self, host: &HostRules, request: &RuleRequest<'_>) -> Bits {
        let mut bits = self.matcher.rules_of(host, request.target, request.method);
        if bits.is_empty() {
            return bits;
        }
        for place in bits.and(self.with.checks).iter() {
            let rule = &self.rules[place];
            let is_client = rule.client.is_empty()
                || rule
                    .client
                    .iter()
                    .any(|network| network.contains(request.client));
            if !is_client || !(rule.cookie.is_empty() || request.fields.has_cookie(&rule.cookie)) {
                bits.remove(place);
            }
        }
        bits
    }

    /// Returns those of the rules of a request whose conditions on the response hold.
    pub fn of_response(&self, mut bits: Bits, status: StatusCode, headers: &HeaderMap) -> Bits {
        let conditional = bits.and(self.with.response_conditions);
        if conditional.is_empty() {
            return bits;
        }
        let content_type = headers
            .get(CONTENT_TYPE)
            .map_or(&b""[..], HeaderValue::as_bytes);
        for place in conditional.iter() {
            if !self.rules[place].is_for_response(status, content_type) {
                bits.remove(place);
            }
        }
        bits
    }

    /// Returns the rule of the set that determines something.
    fn last(&self, bits: Bits, having: Bits) -> Option<&Rule> {
        bits.and(having).last().map(|place| &self.rules[place])
    }

    /// Returns the answer of the rules themselves, if they have one. Counts the request.
    pub fn own_answer(
        &self,
        bits: Bits,
        request: &RuleRequest<'_>,
        values: &Values,
    ) -> Option<OwnAnswer> {
        if self.denies(bits, request.client) {
            return Some(OwnAnswer::Denied);
        }
        if let Some(wait) = self.limited(bits, request, false) {
            return Some(OwnAnswer::Limited(wait));
        }
        self.redirect(bits, values)
            .map(|(status, target)| OwnAnswer::Redirect(status, target))
    }

    /// Returns true if the client may not come here: as the last rule says that names clients.
    fn denies(&self, bits: Bits, client: IpAddr) -> bool {
        self.last(bits, self.with.access).is_some_and(|rule| {
            let is_in =
                |networks: &[Network]| networks.iter().any(|network| network.contains(client));
            is_in(&rule.deny) || !rule.allow.is_empty() && !is_in(&rule.allow)
        })
    }

    /// Returns the time to wait if the client has sent too many requests for a rule. Counts the
    /// request, unless `only_looks`.
    fn limited(&self, bits: Bits, request: &RuleRequest<'_>, only_looks: bool) -> Option<Duration> {
        let bits = bits.and(self.with.rate_limit);
        let limiter = self.limiter.as_ref().filter(|_| !bits.is_empty())?;
        let now = limiter.now();
        let one = |place: usize, only_looks: bool| {
            let limit: &RateLimit = self.rules[place].rate_limit.as_ref()?;
            let value = match &limit.by {
                LimitKey::Client => None,
                LimitKey::Header(name) => request.fields.value(name),
            };
            limiter.take(
                limiter.key(place, request.client, value),
                limit,
                now,
                only_looks,
            )
        };
        // A request that one of several limits refuses takes no token of the others.
        let refused = bits.iter().find_map(|place| one(place, true));
        if refused.is_some() || only_looks {
            return refused;
        }
        bits.iter().find_map(|place| one(place, false))
    }

    /// Counts a plain hit.
    pub(crate) fn count(&self, bits: Bits, request: &RuleRequest<'_>) {
        self.limited(bits, request, false);
    }

    /// Returns the page that replaces the body of a response with these fields.
    pub fn error_page(
        &self,
        bits: Bits,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<&ErrorPage> {
        let bits = bits.and(self.with.error_page);
        if bits.is_empty() || status.as_u16() < 400 {
            return None;
        }
        self.pages
            .get(&self.of_response(bits, status, headers).last()?)
    }

    /// Returns the largest body of a request, as the last rule says that names one; 0: no limit.
    pub(crate) fn client_body_size(&self, bits: Bits) -> Option<ByteSize> {
        self.last(bits, self.with.client_body_size)?
            .client_body_size
    }

    /// Returns true if the cache has to be bypassed.
    pub fn passes(&self, bits: Bits) -> bool {
        self.passed_by(bits).is_some()
    }

    /// Returns the place of the rule by which the cache has to be bypassed.
    pub(crate) fn passed_by(&self, bits: Bits) -> Option<usize> {
        let conditional = self.with.response_conditions;
        let pass = bits.and(self.with.pass.without(conditional));
        // What a rule fetches for some clients only is for them, whatever later rules say.
        let of_some = pass
            .iter()
            .find(|place| self.rules[*place].fetches_for_some());
        of_some.or_else(|| {
            pass.last()
                .filter(|place| self.rules[*place].pass == Some(true))
        })
    }

    /// Returns true if the request may wait for another one's response, and others for its own.
    pub(crate) fn collapses(&self, bits: Bits) -> bool {
        self.last(bits, self.with.collapse)
            .and_then(|rule| rule.collapse)
            .unwrap_or(true)
    }

    /// Returns true if the response may get a content coding.
    pub(crate) fn compresses(&self, bits: Bits) -> bool {
        self.last(bits, self.with.compress)
            .and_then(|rule| rule.compress)
            .unwrap_or(true)
    }

    /// Returns true if rules change response fields that differ between the forms of a response.
    pub(crate) fn change_coding_fields(&self, bits: Bits) -> bool {
        !bits.and(self.with.coding_fields).is_empty()
    }

    /// Returns true if a stored response may answer as a plain hit: the rules neither bypass the
    /// cache nor answer themselves.
    pub(crate) fn allow_plain(&self, bits: Bits, request: &RuleRequest<'_>) -> bool {
        bits.and(self.with.redirect.or(self.with.cache_fields))
            .is_empty()
            && !self.passes(bits)
            && !self.denies(bits, request.client)
            && self.limited(bits, request, true).is_none()
    }

    /// Returns the status and the target of a redirect.
    pub fn redirect(&self, bits: Bits, values: &Values) -> Option<(StatusCode, HeaderValue)> {
        let rule = self.last(bits, self.with.redirect)?;
        let target = expand(rule, rule.redirect.as_ref()?, values, Place::Url);
        Some((
            rule.redirect_status.unwrap_or(StatusCode::FOUND),
            HeaderValue::try_from(target).ok()?,
        ))
    }

    /// Returns the target under which the response is stored, and that the origin gets; `None` if
    /// it is the client's.
    pub fn keyed_target(&self, bits: Bits, target: &str) -> Option<String> {
        let bits = bits.and(self.with.query);
        if bits.is_empty() {
            return None;
        }
        let mut filter = QueryFilter::default();
        for rule in bits.iter().map(|place| &self.rules[place]) {
            filter.drop.extend(&rule.query_drop);
            filter.keep = rule.query_keep.as_deref().or(filter.keep);
            filter.sorts = rule.query_sort.unwrap_or(filter.sorts);
        }
        filter.apply(target)
    }

    /// Returns true if only some cookies stay.
    pub fn selects_cookies(&self, bits: Bits) -> bool {
        !bits.and(self.with.cookie_keep).is_empty()
    }

    /// Removes the cookies that do not stay.
    pub fn select_cookies(&self, bits: Bits, headers: &mut HeaderMap) {
        if let Some(names) = self
            .last(bits, self.with.cookie_keep)
            .and_then(|rule| rule.cookie_keep.as_deref())
        {
            key::keep_cookies(names, headers);
        }
    }

    /// Changes the fields of the origin's response before the cache sees it: `Set-Cookie` goes if
    /// it is ignored, and `Vary` names the cookies that stay.
    pub fn change_origin_response(&self, bits: Bits, status: StatusCode, headers: &mut HeaderMap) {
        let kept = self
            .last(bits, self.with.cookie_keep)
            .and_then(|rule| rule.cookie_keep.as_ref());
        if kept.is_some_and(|names| !names.is_empty()) {
            key::vary_by_cookie(status == StatusCode::NOT_MODIFIED, headers);
        }
        let storing = bits.and(self.with.storing);
        if storing.is_empty() || !headers.contains_key(SET_COOKIE) {
            return;
        }
        // A 304 renews a stored response, whose status and type it does not have.
        let ignores = match status {
            StatusCode::NOT_MODIFIED => storing
                .iter()
                .any(|place| self.rules[place].ignore.contains(&Ignored::SetCookie)),
            _ => {
                let ignores = |place: usize| self.rules[place].ignores(Ignored::SetCookie, status);
                self.of_response(storing, status, headers)
                    .iter()
                    .any(ignores)
            }
        };
        if ignores {
            headers.remove(SET_COOKIE);
        }
    }

    /// Returns what the rules say about storing a response.
    pub fn overrides(&self, bits: Bits, status: StatusCode, headers: &HeaderMap) -> Overrides {
        let mut found = Overrides::default();
        for place in self
            .of_response(bits.and(self.with.storing), status, headers)
            .iter()
        {
            let rule = &self.rules[place];
            if rule.has_lifetime_for(status) {
                found.ttl = rule.ttl.or(found.ttl);
                found.default_ttl = rule.default_ttl.or(found.default_ttl);
            }
            found.stale_while_revalidate =
                rule.stale_while_revalidate.or(found.stale_while_revalidate);
            found.stale_if_error = rule.stale_if_error.or(found.stale_if_error);
            found.ignores_no_store |= rule.ignores(Ignored::NoStore, status);
            found.ignores_private |= rule.ignores(Ignored::Private, status);
        }
        found
    }

    /// Returns true if a rule changes the path or the host of the request to the origin.
    pub fn rewrites(&self, bits: Bits) -> bool {
        !bits.and(self.with.rewrite).is_empty() || !bits.and(self.with.rewrite_host).is_empty()
    }

    /// Returns true if a rule changes fields of the request.
    pub fn changes_request(&self, bits: Bits) -> bool {
        !bits.and(self.with.request_headers).is_empty()
    }

    /// Changes the fields of the request.
    pub fn change_request(&self, bits: Bits, values: &Values, headers: &mut HeaderMap) {
        for place in bits.and(self.with.request_headers).iter() {
            let edits = &self.request_edits[place];
            edits.apply_to_request(headers, |template| {
                expand(&self.rules[place], template, values, Place::Field)
            });
        }
    }

    /// Returns what the rules change in the request to the origin; `None` if that is no request, or
    /// its path has dot segments, by which it would leave the path that the rule names.
    pub fn rewrite(&self, bits: Bits, values: &Values) -> Option<Rewrite> {
        let mut rewrite = Rewrite::default();
        if let Some(rule) = self.last(bits, self.with.rewrite)
            && let Some(template) = &rule.rewrite
        {
            let target = String::from_utf8(expand(rule, template, values, Place::Url)).ok()?;
            rewrite.target = Some(rewritten_target(&target).ok()?.parse().ok()?);
        }
        if let Some(rule) = self.last(bits, self.with.rewrite_host)
            && let Some(template) = &rule.rewrite_host
        {
            let host = String::from_utf8(expand(rule, template, values, Place::Url)).ok()?;
            let host = normal_authority(values.scheme, &host).ok()?;
            rewrite.host = Some(HeaderValue::try_from(&*host).ok()?);
        }
        Some(rewrite)
    }

    /// Changes the fields of a response to the client.
    pub fn change_response(
        &self,
        bits: Bits,
        values: &Values,
        status: StatusCode,
        headers: &mut HeaderMap,
    ) {
        if bits.and(self.with.response_headers).is_empty() {
            return;
        }
        let bits = self.of_response(bits, status, headers);
        for place in bits.and(self.with.response_headers).iter() {
            self.response_edits[place].apply(headers, |template| {
                expand(&self.rules[place], template, values, Place::Field)
            });
        }
    }

    /// Changes the fields of the head of a response to the client, which stands there as bytes.
    pub(crate) fn change_head(&self, bits: Bits, values: &dyn Fn() -> Values, head: &mut Vec<u8>) {
        let mut bits = bits.and(self.with.response_headers);
        if !bits.and(self.with.response_conditions).is_empty() {
            let (status, content_type) = fields::status_and_type(head);
            for place in bits.and(self.with.response_conditions).iter() {
                if !self.rules[place].is_for_response(status, content_type) {
                    bits.remove(place);
                }
            }
        }
        for place in bits.iter() {
            self.response_edits[place].apply_to_head(head, |template| {
                expand(&self.rules[place], template, &values(), Place::Field)
            });
        }
    }
}

impl Masks {
    fn new(rules: &[Rule]) -> Masks {
        let with = |holds: &dyn Fn(&Rule) -> bool| -> Bits {
            rules
                .iter()
                .enumerate()
                .filter(|(_, rule)| holds(rule))
                .map(|(place, _)| place)
                .collect()
        };
        Masks {
            checks: with(&|rule| !rule.client.is_empty() || !rule.cookie.is_empty()),
            response_conditions: with(&Rule::has_response_condition),
            access: with(&|rule| !rule.allow.is_empty() || !rule.deny.is_empty()),
            rate_limit: with(&|rule| rule.rate_limit.is_some()),
            client_body_size: with(&|rule| rule.client_body_size.is_some()),
            error_page: with(&|rule| rule.error_page.is_some()),
            pass: with(&|rule| rule.pass.is_some()),
            collapse: with(&|rule| rule.collapse.is_some()),
            compress: with(&|rule| rule.compress.is_some()),
            storing: with(&Rule::is_about_storing),
            query: with(&|rule| {
                !rule.query_drop.is_empty()
                    || rule.query_keep.is_some()
                    || rule.query_sort.is_some()
            }),
            cookie_keep: with(&|rule| rule.cookie_keep.is_some()),
            redirect: with(&|rule| rule.redirect.is_some()),
            rewrite: with(&|rule| rule.rewrite.is_some()),
            rewrite_host: with(&|rule| rule.rewrite_host.is_some()),
            request_headers: with(&|rule| !rule.request_headers.is_empty()),
            response_headers: with(&|rule| !rule.response_headers.is_empty()),
            cache_fields: with(&|rule| HeaderEdits::new(&rule.request_headers).name_cache_fields()),
            coding_fields: with(&|rule| {
                HeaderEdits::new(&rule.response_headers).name_coding_fields()
            }),
        }
    }
}

fn read_page(path: &Path) -> io::Result<Bytes> {
    let length = std::fs::metadata(path)?.len();
    if length > limits::ERROR_PAGE_BYTES {
        let text = format!("it is longer than {} bytes", limits::ERROR_PAGE_BYTES);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    std::fs::read(path).map(Bytes::from)
}

fn type_by_name(path: &Path) -> HeaderValue {
    HeaderValue::from_static(
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("html" | "htm") => "text/html; charset=utf-8",
            Some("json") => "application/json",
            Some("xml") => "application/xml",
            Some("svg") => "image/svg+xml",
            _ => "text/plain; charset=utf-8",
        },
    )
}

/// Returns the text of a template of this rule.
fn expand(rule: &Rule, template: &Template, values: &Values, place: Place) -> Vec<u8> {
    if template.captures() == 0 {
        return template.expand(values, &[], place);
    }
    template.expand(
        values,
        &captures(&rule.path, Target::from(values.target.as_str())),
        place,
    )
}

/// Returns the settings of a rule that exclude each other.
fn contradictions(rule: &Rule) -> Vec<String> {
    let mut problems = Vec::new();
    let before_response = [
        ("allow", !rule.allow.is_empty()),
        ("deny", !rule.deny.is_empty()),
        ("rate_limit", rule.rate_limit.is_some()),
        ("client_body_size", rule.client_body_size.is_some()),
        ("redirect", rule.redirect.is_some()),
        ("rewrite", rule.rewrite.is_some()),
        ("rewrite_host", rule.rewrite_host.is_some()),
        ("request_headers", !rule.request_headers.is_empty()),
        ("pass", rule.pass.is_some()),
        ("collapse", rule.collapse.is_some()),
        ("compress", rule.compress.is_some()),
        ("query_drop", !rule.query_drop.is_empty()),
        ("query_keep", rule.query_keep.is_some()),
        ("query_sort", rule.query_sort.is_some()),
        ("cookie_keep", rule.cookie_keep.is_some()),
    ];
    for (key, _) in before_response
        .iter()
        .filter(|(_, is_set)| *is_set && rule.has_response_condition())
    {
        problems
            .push(format!("status and content_type are known after {key} is applied: put it into a rule without them"));
    }
    if rule.redirect_status.is_some() && rule.redirect.is_none() {
        problems.push("redirect_status needs redirect".to_owned());
    }
    if rule.error_page.is_some()
        && (rule.status.is_empty() || rule.status.iter().any(|status| !status.is_error()))
    {
        problems.push("error_page needs status, with statuses from 400".to_owned());
    }
    let stars = rule
        .path
        .iter()
        .map(|glob| glob.parts().len() - 1)
        .min()
        .unwrap_or(0);
    let (request, response) = (
        rule.request_headers.templates(),
        rule.response_headers.templates(),
    );
    let targets = [&rule.redirect, &rule.rewrite, &rule.rewrite_host]
        .into_iter()
        .flatten();
    if let Some(template) = targets
        .chain(request)
        .chain(response)
        .find(|template| template.captures() > stars)
    {
        problems.push(format!(
            "{:?}: every path of the rule needs that many *",
            template.to_string()
        ));
    }
    if rule.fetches_for_some() && rule.pass != Some(true) {
        let problem = "what rewrite and request_headers fetch is stored under the client's URL, so others would get it: add pass = true, or leave out client and cookie";
        problems.push(problem.to_owned());
    }
    problems
}

impl Rule {
    fn has_response_condition(&self) -> bool {
        !self.status.is_empty() || !self.content_type.is_empty()
    }

    /// Returns true if the origin gets another request from some clients than from others, for what
    /// is one URL.
    fn fetches_for_some(&self) -> bool {
        let is_for_some = !self.client.is_empty() || !self.cookie.is_empty();
        is_for_some
            && (self.rewrite.is_some()
                || self.rewrite_host.is_some()
                || !self.request_headers.is_empty())
    }

    fn is_about_storing(&self) -> bool {
        let times = [
            self.ttl,
            self.default_ttl,
            self.stale_while_revalidate,
            self.stale_if_error,
        ];
        times.iter().any(Option::is_some) || !self.ignore.is_empty()
    }

    /// Returns true if its lifetimes are for this status. Without `status`, they are for successes,
    /// slices (206) among them, and permanent redirects: an error is not stored by accident.
    fn has_lifetime_for(&self, status: StatusCode) -> bool {
        !self.status.is_empty()
            || matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 308)
    }

    fn ignores(&self, what: Ignored, status: StatusCode) -> bool {
        self.has_lifetime_for(status) && self.ignore.contains(&what)
    }

    fn is_for_response(&self, status: StatusCode, content_type: &[u8]) -> bool {
        let media_type = content_type
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        let has_type = || {
            let media_type = media_type.to_ascii_lowercase();
            self.content_type
                .iter()
                .any(|glob| glob.matches(&media_type))
        };
        (self.status.is_empty() || self.status.iter().any(|pattern| pattern.contains(status)))
            && (self.content_type.is_empty() || has_type())
    }
}
