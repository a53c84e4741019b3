//! The oracle: decides by the history of responses whether RFC 9111 allows what a client got.
//!
//! It knows nothing of the caches' decisions. A response names, in an extension directive of
//! `Cache-Control`, the message of the origin that described it last: the original response or a
//! later confirmation. Caches pass unknown directives on (RFC 9111 §5.2.3), also in a 304.
//!
//! The age is at least the time from that message to the client's request. Each cache but the one
//! next to the origin may have lost a second of it, because `Age` is in whole seconds.

use super::directives::{has, number};
use super::origin::{REQUEST, RESPONSE, Rules, variant_of};
use http::header::{AGE, AUTHORIZATION, CONTENT_LENGTH, ETAG, IF_NONE_MATCH};
use http::{Method, StatusCode};
use larder_netsim::tcp::{HttpPurge, HttpRequest, HttpResponse};
use larder_units::Time;
use std::time::Duration;

/// A message of the origin.
pub struct Sent {
    pub at: Time,
    /// The client's request that it answered.
    pub request: usize,
    pub object: u64,
    /// The value that selected it, if responses of the object vary.
    pub variant: Option<Option<u8>>,
    /// The status of the response that it is or confirms.
    pub status: StatusCode,
    /// The length of the body of that response.
    pub length: u64,
    pub etag: Option<String>,
    pub rules: Rules,
    pub is_error: bool,
    pub is_safe: bool,
}

/// A request of a client.
pub struct Asked {
    pub at: Time,
    /// The client's first cache.
    pub cache: Option<usize>,
    pub request: HttpRequest,
    /// The time at which the client got the last byte of the response.
    pub ended: Option<Time>,
    /// The same of an unsafe request that was carried out.
    pub acknowledged: Option<Time>,
}

/// An unsafe request that the origin carried out.
pub struct Write {
    pub at: Time,
    pub object: u64,
    pub request: usize,
}

/// A purge of some caches at one time.
#[derive(Debug)]
pub struct Purge {
    pub at: Time,
    pub caches: Vec<usize>,
    pub purge: HttpPurge,
}

/// The counts of what clients got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub worlds: u64,
    pub responses: u64,
    pub failures: u64,
    /// Responses to the same request of the client.
    pub own: u64,
    /// Responses to another request.
    pub reused: u64,
    /// Reused ones that came from the origin after the request that they answered.
    pub collapsed: u64,
    pub stale: u64,
    pub not_modified: u64,
    pub variants: u64,
    /// Errors of caches.
    pub errors: u64,
    /// Requests after a purge, or after an unsafe request, that may have been answered wrongly.
    pub after_purges: u64,
    pub after_writes: u64,
    pub evictions: u64,
    pub joined: u64,
    pub validated: u64,
}

impl Seen {
    pub fn add(&mut self, more: &Seen) {
        let Seen {
            worlds,
            responses,
            failures,
            own,
            reused,
            collapsed,
            stale,
            not_modified,
            ..
        } = more;
        self.worlds += worlds;
        self.responses += responses;
        self.failures += failures;
        self.own += own;
        self.reused += reused;
        self.collapsed += collapsed;
        self.stale += stale;
        self.not_modified += not_modified;
        self.variants += more.variants;
        self.errors += more.errors;
        self.after_purges += more.after_purges;
        self.after_writes += more.after_writes;
        self.evictions += more.evictions;
        self.joined += more.joined;
        self.validated += more.validated;
    }

    /// Checks that a search of the default seeds covers the cases.
    pub fn check(&self) {
        let Seen {
            own,
            reused,
            collapsed,
            stale,
            not_modified,
            variants,
            errors,
            ..
        } = self;
        let counts = [
            own,
            reused,
            collapsed,
            stale,
            not_modified,
            variants,
            errors,
        ];
        assert!(counts.into_iter().all(|count| *count >= 50), "{self:?}");
        let counts = [
            self.after_purges,
            self.after_writes,
            self.evictions,
            self.joined,
            self.validated,
        ];
        assert!(counts.into_iter().all(|count| count >= 50), "{self:?}");
    }
}

/// What has happened in a world.
#[derive(Default)]
pub struct History {
    pub sent: Vec<Sent>,
    pub asked: Vec<Asked>,
    pub writes: Vec<Write>,
    pub purges: Vec<Purge>,
    /// For each cache, itself and the caches between it and the origin.
    pub paths: Vec<Vec<usize>>,
    /// Whether a connection to the upstream may fail.
    pub may_disconnect: bool,
    pub seen: Seen,
}

/// The time for which an error of the origin may be on its way to the followers of a request.
const ERROR_UNDERWAY: Duration = Duration::from_secs(30);

/// RFC 9111 §4.2.4 lets a disconnected cache serve stale responses; this cache does for so long.
const DISCONNECTED: Duration = Duration::from_secs(3600);

impl History {
    /// Judges a response.
    ///
    /// # Panics
    /// If RFC 9111 forbids it.
    pub fn check(&mut self, now: Time, request: &HttpRequest, response: &HttpResponse) {
        self.seen.responses += 1;
        let asked: usize = request.headers[REQUEST].to_str().unwrap().parse().unwrap();
        if let Err(why) = self.judge(asked, now, request, response) {
            let sent = number(&response.headers, RESPONSE).map(|id| &self.sent[id as usize]);
            let sent = sent.map(|sent| {
                format!(
                    "sent at {} to request {}: {:?}",
                    sent.at, sent.request, sent.rules
                )
            });
            panic!(
                "{why}\nrequest {asked} at {}, by cache {:?}: {request:?}\nresponse at {now}: {response:?}\n{}",
                self.asked[asked].at,
                self.asked[asked].cache,
                sent.unwrap_or_default(),
            );
        }
        self.asked[asked].ended = Some(now);
        if !request.method.is_safe() && response.status.is_success() {
            self.asked[asked].acknowledged = Some(now);
        }
    }

    fn judge(
        &mut self,
        asked: usize,
        now: Time,
        request: &HttpRequest,
        response: &HttpResponse,
    ) -> Result<(), String> {
        let Some(id) = number(&response.headers, RESPONSE) else {
            return self.judge_error(asked, now, response);
        };
        let sent = &self.sent[id as usize];
        if sent.object != request.object {
            return Err(format!("the object is {}", sent.object));
        }
        if let Some(variant) = sent.variant {
            self.seen.variants += 1;
            if variant != variant_of(&request.headers) {
                return Err("Vary: another variant".to_owned());
            }
        }
        self.judge_form(request, response, id as usize)?;
        let sent = &self.sent[id as usize];
        let is_own = sent.request == asked;
        if is_own {
            self.seen.own += 1;
            return if request.method.is_safe() && has(&request.headers, "only-if-cached") {
                Err("only-if-cached: the origin was asked".to_owned())
            } else {
                Ok(())
            };
        }
        self.seen.reused += 1;
        self.seen.collapsed += u64::from(sent.at >= self.asked[asked].at);
        self.judge_sharing(id as usize)?;
        self.judge_invalidation(asked, id as usize)?;
        self.judge_freshness(asked, now, id as usize)?;
        self.judge_age(asked, response, id as usize)
    }

    /// Judges the error of a cache.
    fn judge_error(
        &mut self,
        asked: usize,
        now: Time,
        response: &HttpResponse,
    ) -> Result<(), String> {
        self.seen.errors += 1;
        let Asked { request, .. } = &self.asked[asked];
        if !response.status.is_server_error() {
            return Err("no response of the origin".to_owned());
        }
        if has(&request.headers, "only-if-cached") && response.status == StatusCode::GATEWAY_TIMEOUT
        {
            return Ok(());
        }
        if self.may_have_failed(asked, now) {
            Ok(())
        } else {
            Err("the origin did not fail".to_owned())
        }
    }

    /// Returns true if the cache may have had an error or no connection while it answered.
    fn may_have_failed(&self, asked: usize, now: Time) -> bool {
        let Asked { at, request, .. } = &self.asked[asked];
        let in_time = |sent: &&Sent| sent.at + ERROR_UNDERWAY >= *at && sent.at <= now;
        let mut of_object = self
            .sent
            .iter()
            .rev()
            .filter(|sent| sent.object == request.object)
            .filter(in_time);
        self.may_disconnect || of_object.any(|sent| sent.is_error)
    }

    /// Judges status, body and validators (RFC 9110).
    fn judge_form(
        &mut self,
        request: &HttpRequest,
        response: &HttpResponse,
        id: usize,
    ) -> Result<(), String> {
        let sent = &self.sent[id];
        if response.status == StatusCode::NOT_MODIFIED {
            self.seen.not_modified += 1;
            let known = request.headers.get(IF_NONE_MATCH).map(|tag| tag.as_bytes());
            let is_known = known.is_some() && known == sent.etag.as_ref().map(String::as_bytes);
            let is_named = response.headers.get(ETAG).map(|tag| tag.as_bytes()) == known;
            return if is_known && is_named {
                Ok(())
            } else {
                Err("304: the client has another one".to_owned())
            };
        }
        if response.status != sent.status {
            return Err(format!("the status is not {}", sent.status));
        }
        let length = if request.method == Method::HEAD {
            0
        } else {
            sent.length
        };
        if response.body != length {
            return Err(format!("the body has not {length} bytes"));
        }
        let declared = response
            .headers
            .get(CONTENT_LENGTH)
            .map(|value| value.to_str().unwrap());
        if declared.is_some_and(|declared| declared != sent.length.to_string()) {
            Err("the Content-Length is of another version".to_owned())
        } else {
            Ok(())
        }
    }

    /// Judges whether another request may get the response (RFC 9111 §3).
    fn judge_sharing(&self, id: usize) -> Result<(), String> {
        let sent = &self.sent[id];
        let says = |directive| sent.rules.directives.contains(&directive);
        let headers = &self.asked[sent.request].request.headers;
        let forbidden = match () {
            () if sent.is_error => "an error of the origin",
            () if !sent.is_safe => "the response to an unsafe request",
            () if says("no-store") => "no-store",
            () if says("private") => "private",
            () if says("no-cache") => "no-cache: it was not validated",
            () if has(headers, "no-store") => "its request had no-store",
            () if headers.contains_key(AUTHORIZATION)
                && !says("public")
                && !says("must-revalidate") =>
            {
                "its request had Authorization"
            }
            () => return Ok(()),
        };
        Err(format!("shared: {forbidden}"))
    }

    /// Judges whether an unsafe request or a purge has invalidated the response (RFC 9111 §4.4).
    fn judge_invalidation(&mut self, asked: usize, id: usize) -> Result<(), String> {
        let (sent, Asked { at, cache, .. }) = (&self.sent[id], &self.asked[asked]);
        let Some(cache) = *cache else { return Ok(()) };
        for write in self
            .writes
            .iter()
            .filter(|write| write.object == sent.object)
        {
            let Asked {
                cache: writer,
                acknowledged,
                ..
            } = &self.asked[write.request];
            // The caches between the writer and the origin saw the write.
            let is_on_path = writer.is_some_and(|writer| self.paths[writer].contains(&cache));
            if is_on_path && acknowledged.is_some_and(|then| then < *at) {
                self.seen.after_writes += 1;
                if sent.at < write.at {
                    return Err(format!(
                        "an unsafe request at {} has invalidated it",
                        write.at
                    ));
                }
            }
        }
        let purges = self
            .purges_of(cache, sent.object)
            .filter(|purge| purge.at < *at && !purge.purge.soft);
        let Some(last) = purges.map(|purge| purge.at).max() else {
            return Ok(());
        };
        let is_purged = sent.at < last;
        self.seen.after_purges += 1;
        if is_purged {
            Err(format!("it was purged at {last}"))
        } else {
            Ok(())
        }
    }

    /// Returns the purges of an object that all caches between this one and the origin had.
    fn purges_of(&self, cache: usize, object: u64) -> impl Iterator<Item = &Purge> {
        let path = &self.paths[cache];
        let is_of = move |purge: &&Purge| {
            path.iter().all(|cache| purge.caches.contains(cache))
                && purge.purge.object.is_none_or(|of| of == object)
        };
        self.purges.iter().filter(is_of)
    }

    /// Returns the seconds that `Age` may have lost.
    fn slack(&self, asked: usize) -> Duration {
        let caches = self.asked[asked]
            .cache
            .map_or(0, |cache| self.paths[cache].len() as u64);
        Duration::from_secs(caches.saturating_sub(1))
    }

    /// Judges freshness (RFC 9111 §4.2), and the client's directives (§5.2.1).
    fn judge_freshness(&mut self, asked: usize, now: Time, id: usize) -> Result<(), String> {
        let (
            sent,
            Asked {
                at, cache, request, ..
            },
        ) = (&self.sent[id], &self.asked[asked]);
        let (headers, age, slack) = (&request.headers, at.since(sent.at), self.slack(asked));
        let seconds = |name: &str| number(headers, name).map(Duration::from_secs);
        let is_reload = self.follows_reload(asked, id);
        if has(headers, "no-cache") && sent.at < *at && !is_reload {
            return Err("no-cache: it is older than the request".to_owned());
        }
        let mut lifetime = Duration::from_secs(sent.rules.lifetime.unwrap_or(0));
        // A soft purge makes a response stale, which its fields do not say. So another cache may
        // get it for a request with max-stale, and store it as fresh.
        if let Some(cache) = cache.filter(|cache| self.paths[*cache].len() == 1) {
            let purges = self
                .purges_of(cache, sent.object)
                .filter(|purge| purge.at < *at && sent.at < purge.at);
            lifetime = purges
                .map(|purge| purge.at.since(sent.at))
                .chain([lifetime])
                .min()
                .unwrap_or(lifetime);
        }
        let has_failed = self.may_have_failed(asked, now);
        if age < lifetime + slack {
            let is_too_old = seconds("max-age").is_some_and(|most| age > most + slack);
            let is_too_stale =
                seconds("min-fresh").is_some_and(|least| age + least > lifetime + slack);
            return match () {
                () if is_too_old && !has_failed && !is_reload => {
                    Err("max-age of the request".to_owned())
                }
                () if is_too_stale && !has_failed => Err("min-fresh".to_owned()),
                () => Ok(()),
            };
        }
        // A collapsed request is answered as if the response were stored when the request came.
        self.seen.stale += 1;
        let staleness = age.saturating_sub(lifetime + slack);
        let says = |directive| sent.rules.directives.contains(&directive);
        if says("must-revalidate") || says("proxy-revalidate") {
            return Err(format!(
                "stale by {staleness:?} in spite of must-revalidate"
            ));
        }
        let is_within = |limit: Option<Duration>| limit.is_some_and(|limit| staleness <= limit);
        // A client that limits the age does not want a stale response.
        let is_limited = ["max-age", "min-fresh", "max-stale"]
            .iter()
            .any(|name| has(headers, name));
        let while_revalidate = sent.rules.while_revalidate.filter(|_| !is_limited);
        let if_error = sent
            .rules
            .if_error
            .map_or(DISCONNECTED, Duration::from_secs);
        let is_allowed = is_within(seconds("max-stale"))
            || is_within(while_revalidate.map(Duration::from_secs))
            || has_failed && is_within(Some(if_error));
        if is_allowed {
            Ok(())
        } else {
            Err(format!("stale by {staleness:?}"))
        }
    }

    /// Returns true if the response was requested by a reload whose response may not have reached
    /// the cache when this request came. RFC 9111 §4 lets a cache collapse the two.
    fn follows_reload(&self, asked: usize, id: usize) -> bool {
        let leader = &self.asked[self.sent[id].request];
        let headers = &leader.request.headers;
        let is_reload = has(headers, "no-cache") || number(headers, "max-age") == Some(0);
        is_reload
            && leader
                .ended
                .is_none_or(|ended| ended >= self.asked[asked].at)
    }

    /// Judges the field `Age` (RFC 9111 §5.1).
    fn judge_age(&self, asked: usize, response: &HttpResponse, id: usize) -> Result<(), String> {
        let age = self.asked[asked]
            .at
            .since(self.sent[id].at)
            .saturating_sub(self.slack(asked))
            .as_secs();
        let stated = response
            .headers
            .get(AGE)
            .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if stated.unwrap_or(0) < age {
            Err(format!("Age: it is {age} s old"))
        } else {
            Ok(())
        }
    }
}
