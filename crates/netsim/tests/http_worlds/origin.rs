//! An origin whose objects change, each with rules of its own.

use super::oracle::{History, Sent, Write};
use http::header::{
    ACCEPT_LANGUAGE, CACHE_CONTROL, CONTENT_LENGTH, DATE, ETAG, EXPIRES, IF_NONE_MATCH, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use larder_netsim::tcp::{HttpRequest, HttpResponse, Origin, http_date};
use larder_units::{Stream, Time};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The names of the request's and the response's numbers.
pub const REQUEST: &str = "x-request";
pub const RESPONSE: &str = "response";

/// The rules of an object.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The freshness lifetime in seconds, if the object states one.
    pub lifetime: Option<u64>,
    /// Whether `Expires` states it.
    pub expires: bool,
    pub directives: Vec<&'static str>,
    pub while_revalidate: Option<u64>,
    pub if_error: Option<u64>,
    pub has_etag: bool,
    pub varies: bool,
    /// The time between two versions.
    pub period: Duration,
    pub status: StatusCode,
    pub size: u64,
    /// The probability of an error of the server.
    pub errors: f64,
}

impl Rules {
    pub fn draw(stream: &mut Stream, is_faultless: bool) -> Rules {
        let restrictions = [
            "no-store",
            "private",
            "no-cache",
            "must-revalidate",
            "proxy-revalidate",
            "public",
        ];
        let mut directives = Vec::new();
        while stream.chance(0.3) {
            directives.push(restrictions[stream.below(restrictions.len() as u64) as usize]);
        }
        let mut some = |chance: f64, bound: u64| stream.chance(chance).then(|| stream.below(bound));
        let (lifetime, while_revalidate, if_error) = (some(0.9, 9), some(0.3, 6), some(0.3, 20));
        let most = [200, 1000, 3000, 20_000][stream.below(4) as usize];
        Rules {
            lifetime,
            expires: stream.chance(0.2),
            directives,
            while_revalidate,
            if_error,
            has_etag: stream.chance(0.7),
            varies: stream.chance(0.4),
            period: Duration::from_millis(100 + stream.below(6000)),
            status: if stream.chance(0.1) {
                StatusCode::NOT_FOUND
            } else {
                StatusCode::OK
            },
            size: 1 + stream.below(most),
            errors: if !is_faultless && stream.chance(0.3) {
                0.4 * stream.unit()
            } else {
                0.0
            },
        }
    }

    /// The length of a version's body for a variant: it makes a wrong one detectable.
    fn length(&self, version: u64, variant: Option<u8>) -> u64 {
        self.size + 7 * (version % 50) + u64::from(variant.unwrap_or(0))
    }
}

pub struct RandomOrigin {
    pub rules: Vec<Rules>,
    /// The number of writes of each object.
    pub writes: Vec<u64>,
    pub stream: Stream,
    pub history: Arc<Mutex<History>>,
}

/// Returns the variant that a request selects.
pub fn variant_of(headers: &HeaderMap) -> Option<u8> {
    headers
        .get(ACCEPT_LANGUAGE)
        .and_then(|value| value.as_bytes().last().copied())
}

fn number_of(headers: &HeaderMap) -> Option<usize> {
    headers.get(REQUEST)?.to_str().ok()?.parse().ok()
}

impl Origin for RandomOrigin {
    fn respond(&mut self, now: Time, request: &HttpRequest) -> HttpResponse {
        // Ranks begin at 1.
        let object = request.object as usize - 1;
        let rules = self.rules[object].clone();
        let is_safe = request.method.is_safe();
        let is_error = self.stream.chance(rules.errors);
        if !is_safe && !is_error {
            self.writes[object] += 1;
        }
        let version = now.nanos() / rules.period.as_nanos() as u64 * 1000 + self.writes[object];
        let variant = if rules.varies {
            variant_of(&request.headers)
        } else {
            None
        };
        let etag = rules
            .has_etag
            .then(|| format!("\"{object}-{version}-{}\"", variant.unwrap_or(b'-')));
        let known = request
            .headers
            .get_all(IF_NONE_MATCH)
            .into_iter()
            .any(|known| {
                etag.as_ref()
                    .is_some_and(|etag| known.as_bytes() == etag.as_bytes())
            });
        let mut sent = Sent {
            at: now,
            request: number_of(&request.headers).expect("caches forward the client's fields"),
            object: request.object,
            variant: rules.varies.then_some(variant),
            status: rules.status,
            length: rules.length(version, variant),
            etag: etag.clone(),
            rules,
            is_error,
            is_safe,
        };
        let mut history = self.history.lock().unwrap();
        let id = history.sent.len();
        let mut headers = HeaderMap::new();
        headers.insert(DATE, http_date(now));
        let mut cache_control = vec![format!("{RESPONSE}={id}")];
        let mut response = HttpResponse {
            status: StatusCode::NO_CONTENT,
            headers,
            body: 0,
        };
        if is_error {
            let statuses = [
                StatusCode::INTERNAL_SERVER_ERROR,
                StatusCode::BAD_GATEWAY,
                StatusCode::SERVICE_UNAVAILABLE,
            ];
            response.status = statuses[self.stream.below(3) as usize];
            sent.status = response.status;
            (sent.length, sent.etag) = (0, None);
        } else if !is_safe {
            sent.status = StatusCode::NO_CONTENT;
            sent.length = 0;
            history.writes.push(Write {
                at: now,
                object: request.object,
                request: sent.request,
            });
        } else {
            describe(
                &sent.rules,
                now,
                etag.as_deref(),
                &mut response.headers,
                &mut cache_control,
            );
            response.status = if known {
                StatusCode::NOT_MODIFIED
            } else {
                sent.status
            };
            if !known {
                response
                    .headers
                    .insert(CONTENT_LENGTH, HeaderValue::from(sent.length));
                response.body = if request.method == Method::HEAD {
                    0
                } else {
                    sent.length
                };
            }
        }
        response.headers.insert(
            CACHE_CONTROL,
            HeaderValue::try_from(cache_control.join(", ")).unwrap(),
        );
        history.sent.push(sent);
        response
    }
}

fn describe(
    rules: &Rules,
    now: Time,
    etag: Option<&str>,
    headers: &mut HeaderMap,
    cache_control: &mut Vec<String>,
) {
    match rules.lifetime {
        Some(seconds) if rules.expires => {
            headers.insert(EXPIRES, http_date(now + Duration::from_secs(seconds)));
        }
        Some(seconds) => cache_control.push(format!("max-age={seconds}")),
        None => {}
    }
    cache_control.extend(
        rules
            .directives
            .iter()
            .map(|directive| (*directive).to_owned()),
    );
    cache_control.extend(
        rules
            .while_revalidate
            .map(|seconds| format!("stale-while-revalidate={seconds}")),
    );
    cache_control.extend(
        rules
            .if_error
            .map(|seconds| format!("stale-if-error={seconds}")),
    );
    if let Some(etag) = etag {
        headers.insert(ETAG, HeaderValue::try_from(etag).unwrap());
    }
    if rules.varies {
        headers.insert(VARY, HeaderValue::from_static("accept-language"));
    }
}
