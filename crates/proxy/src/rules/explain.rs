//! What the rules do to one request, for `larder rules explain`.

use super::config::{HeaderChanges, Ignored, Rule, Scheme};
use super::{RuleRequest, Rules, Values};
use crate::message::host_pattern::HostPattern;
use http::{HeaderMap, StatusCode};
use larder_http::Overrides;
use serde::Serialize;
use std::fmt::{self, Display};

/// What the rules result in.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// The rules whose conditions on the request hold.
    pub rules: Vec<ExplainedRule>,
    /// The answer of the node itself: 403, or the status and the target of a redirect. A rate limit
    /// does not count here.
    pub answer: Option<String>,
    /// True if the cache is bypassed.
    pub pass: bool,
    /// Scheme, host and target under which the response is stored.
    pub key: String,
    /// The lifetimes that take the place of the response's own, and what does not prevent storing.
    pub storing: Vec<String>,
    /// The target of the request to the origin.
    pub origin_target: String,
    /// `Host` of the request to the origin.
    pub origin_host: String,
    /// The fields of the request after the changes.
    pub request_headers: Vec<String>,
    /// The fields of the response after the changes.
    pub response_headers: Vec<String>,
}

/// One rule.
#[derive(Debug, Serialize)]
pub struct ExplainedRule {
    /// Its number in the table, from 1.
    pub number: usize,
    /// Its conditions.
    pub conditions: Vec<String>,
    /// What it sets.
    pub sets: Vec<String>,
    /// True if the conditions on the response hold too.
    pub applies: bool,
}

impl Rules {
    /// Explains a request, and a response to it.
    pub fn explain(
        &self,
        request: &RuleRequest<'_>,
        headers: &HeaderMap,
        status: StatusCode,
        response: &HeaderMap,
    ) -> Explanation {
        let bits = self.of_request(request);
        let with_response = self.of_response(bits, status, response);
        let host = larder_http::keyed_authority(request.scheme, request.host).into_owned();
        let target = request.target.as_str();
        let values = Values {
            scheme: request.scheme,
            host: host.clone(),
            target: target.to_owned(),
            client: request.client,
        };
        let rules = bits.iter().map(|place| {
            let applies = with_response.iter().any(|other| other == place);
            self.explain_rule(place, applies)
        });
        let redirect = self.redirect(bits, &values);
        let answer = redirect.map(|(status, target)| {
            format!(
                "{} {}",
                status.as_u16(),
                String::from_utf8_lossy(target.as_bytes())
            )
        });
        let answer = if self.denies(bits, request.client) {
            Some("403".to_owned())
        } else {
            answer
        };
        let (mut request_headers, mut response_headers) = (headers.clone(), response.clone());
        self.change_request(bits, &values, &mut request_headers);
        self.change_response(bits, &values, status, &mut response_headers);
        let pass = self.passes(bits);
        let keyed = self.keyed_target(bits, target).filter(|_| !pass);
        let keyed = keyed.unwrap_or_else(|| target.to_owned());
        if !pass {
            self.select_cookies(bits, &mut request_headers);
        }
        let rewrite = self.rewrite(
            bits,
            &Values {
                target: keyed.clone(),
                ..values
            },
        );
        let answer = answer.or_else(|| {
            rewrite
                .is_none()
                .then(|| "400: a rule makes no path of the target".to_owned())
        });
        let rewrite = rewrite.unwrap_or_default();
        let lines = |headers: &HeaderMap| {
            headers
                .iter()
                .map(|(name, value)| {
                    format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))
                })
                .collect()
        };
        Explanation {
            rules: rules.collect(),
            answer,
            pass,
            storing: storing(&self.overrides(bits, status, response)),
            key: format!("{}://{host}{keyed}", request.scheme),
            origin_target: rewrite.target.map_or(keyed, |target| target.to_string()),
            origin_host: rewrite.host.map_or(host, |host| {
                String::from_utf8_lossy(host.as_bytes()).into_owned()
            }),
            request_headers: lines(&request_headers),
            response_headers: lines(&response_headers),
        }
    }
}

impl Rules {
    fn explain_rule(&self, place: usize, applies: bool) -> ExplainedRule {
        let rule = &self.rules[place];
        ExplainedRule {
            number: place + 1,
            conditions: conditions(rule),
            sets: effects(rule),
            applies,
        }
    }

    /// Describes a rule in one line.
    pub(crate) fn describe(&self, place: usize) -> String {
        self.explain_rule(place, true).to_string()
    }
}

impl fmt::Display for ExplainedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conditions = if self.conditions.is_empty() {
            "always".to_owned()
        } else {
            self.conditions.join(", ")
        };
        write!(
            f,
            "rule {}: {conditions}: {}",
            self.number,
            self.sets.join(", ")
        )
    }
}

fn storing(overrides: &Overrides) -> Vec<String> {
    let times = [
        ("ttl", overrides.ttl),
        ("default_ttl", overrides.default_ttl),
        ("stale_while_revalidate", overrides.stale_while_revalidate),
        ("stale_if_error", overrides.stale_if_error),
    ];
    let mut lines: Vec<String> = times
        .iter()
        .filter_map(|(key, time)| Some(format!("{key} {}s", (*time)?)))
        .collect();
    let ignored = [
        ("no-store", overrides.ignores_no_store),
        ("private", overrides.ignores_private),
    ];
    lines.extend(
        ignored
            .iter()
            .filter(|(_, is_set)| *is_set)
            .map(|(name, _)| format!("ignore {name}")),
    );
    lines
}

fn list<T: Display>(key: &str, values: &[T]) -> Option<String> {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    (!values.is_empty()).then(|| format!("{key} {}", values.join(", ")))
}

fn conditions(rule: &Rule) -> Vec<String> {
    let scheme = rule.scheme.map(|scheme| match scheme {
        Scheme::Http => "scheme http".to_owned(),
        Scheme::Https => "scheme https".to_owned(),
    });
    let hosts: Vec<String> = rule
        .host
        .iter()
        .map(|pattern| match pattern {
            HostPattern::Any => "*".to_owned(),
            HostPattern::Name(host) | HostPattern::Authority(host) => host.clone(),
            HostPattern::Below(domain) => format!("*{domain}"),
        })
        .collect();
    let lists = [
        scheme,
        list("host", &hosts),
        list("path", &rule.path),
        list("method", &rule.method),
        list("client", &rule.client),
        list("cookie", &rule.cookie),
        list("status", &rule.status),
        list("content_type", &rule.content_type),
    ];
    lists.into_iter().flatten().collect()
}

fn effects(rule: &Rule) -> Vec<String> {
    let one = |key: &str, value: Option<&dyn Display>| value.map(|value| format!("{key} {value}"));
    let limits = [
        list("allow", &rule.allow),
        list("deny", &rule.deny),
        one(
            "rate_limit",
            rule.rate_limit.as_ref().map(|limit| limit as &dyn Display),
        ),
        one(
            "client_body_size",
            rule.client_body_size
                .as_ref()
                .map(|size| size as &dyn Display),
        ),
        rule.error_page
            .as_ref()
            .map(|path| format!("error_page {}", path.display())),
    ];
    let single = [
        one("pass", rule.pass.as_ref().map(|pass| pass as &dyn Display)),
        one(
            "collapse",
            rule.collapse
                .as_ref()
                .map(|collapses| collapses as &dyn Display),
        ),
        one(
            "compress",
            rule.compress
                .as_ref()
                .map(|compresses| compresses as &dyn Display),
        ),
        one(
            "redirect",
            rule.redirect.as_ref().map(|target| target as &dyn Display),
        ),
        one(
            "redirect_status",
            rule.redirect_status
                .as_ref()
                .map(|status| status as &dyn Display),
        ),
        one(
            "rewrite",
            rule.rewrite.as_ref().map(|target| target as &dyn Display),
        ),
        one(
            "rewrite_host",
            rule.rewrite_host.as_ref().map(|host| host as &dyn Display),
        ),
    ];
    let mut all: Vec<String> = limits.into_iter().chain(single).flatten().collect();
    let times = [
        ("ttl", rule.ttl),
        ("default_ttl", rule.default_ttl),
        ("stale_while_revalidate", rule.stale_while_revalidate),
        ("stale_if_error", rule.stale_if_error),
    ];
    all.extend(
        times
            .iter()
            .filter_map(|(key, time)| Some(format!("{key} {}s", (*time)?))),
    );
    let ignored = rule.ignore.iter().map(|ignored| match ignored {
        Ignored::NoStore => "ignore no-store",
        Ignored::Private => "ignore private",
        Ignored::SetCookie => "ignore set-cookie",
    });
    all.extend(ignored.map(str::to_owned));
    all.extend(list("query_drop", &rule.query_drop));
    let kept = [
        ("query_keep", &rule.query_keep),
        ("cookie_keep", &rule.cookie_keep),
    ];
    let kept = kept
        .iter()
        .filter_map(|(key, globs)| Some((key, globs.as_ref()?)));
    all.extend(kept.map(|(key, globs)| list(key, globs).unwrap_or_else(|| format!("{key} none"))));
    all.extend(one(
        "query_sort",
        rule.query_sort.as_ref().map(|sorts| sorts as &dyn Display),
    ));
    all.extend(changes("request", &rule.request_headers));
    all.extend(changes("response", &rule.response_headers));
    all
}

fn changes(of: &str, changes: &HeaderChanges) -> Vec<String> {
    let removed = changes
        .remove
        .iter()
        .map(|name| format!("{of} remove {name}"));
    let set = changes
        .set
        .iter()
        .map(|(name, value)| format!("{of} set {name}: {value}"));
    let appended = changes
        .append
        .iter()
        .map(|(name, value)| format!("{of} append {name}: {value}"));
    removed.chain(set).chain(appended).collect()
}
