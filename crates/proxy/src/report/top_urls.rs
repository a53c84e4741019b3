//! The URLs that are requested, missed, refused and purged most, and the largest ones, from a
//! sample of the exchanges.
//!
//! Each thread counts its exchanges, and reports each [`limits::CONTENT_SAMPLE`]th of them; one
//! whose response was refused is always reported. A report that finds the tables in use is dropped,
//! so no request waits.

use crate::base::limits;
use crate::report::heavy_hitters::{Entry, Top};
use crate::rules::PassedBy;
use larder_http::{ForwardReason, Refusal};
use serde_json::{Value, json};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// The tables.
pub(crate) struct ContentSample(Mutex<Tables>);

struct Tables {
    requested: Top<Requested>,
    missed: Top<&'static str>,
    refused: Top<Refused>,
    /// By size, the largest last.
    largest: Vec<(u64, Box<str>)>,
    purged: Top<u64>,
}

#[derive(Default)]
struct Requested {
    requests: u64,
    hits: u64,
    bytes: u64,
}

/// Why a response was not stored.
#[derive(Default)]
struct Refused {
    refusal: Option<Refusal>,
    /// The rule by which the request has bypassed the cache.
    passed_by: Option<PassedBy>,
}

/// The URL of an exchange, in parts that clients have sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UrlParts<'a> {
    pub(crate) scheme: &'a str,
    pub(crate) host: &'a str,
    pub(crate) target: &'a str,
}

/// Why a request went to the origin, and its response into no store, as our member of
/// `Cache-Status` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Miss {
    pub(crate) reason: Option<ForwardReason>,
    pub(crate) refusal: Option<Refusal>,
}

impl Miss {
    /// Reads the last member of the field (RFC 9211 §2).
    pub(crate) fn of(cache_status: &[u8]) -> Miss {
        let own = cache_status
            .rsplit(|byte| *byte == b',')
            .next()
            .unwrap_or_default();
        let value = |name: &[u8]| {
            let parameters = own.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            parameters
                .into_iter()
                .find_map(|parameter| parameter.strip_prefix(name))
        };
        let (reason, refusal) = (value(b"fwd="), value(b"detail="));
        Miss {
            reason: ForwardReason::ALL
                .into_iter()
                .find(|known| Some(known.name().as_bytes()) == reason),
            refusal: Refusal::ALL
                .into_iter()
                .find(|known| Some(known.name().as_bytes()) == refusal),
        }
    }
}

impl UrlParts<'_> {
    /// Returns the URL, cut to a bounded length.
    fn text(&self) -> String {
        let mut text = format!("{}://{}{}", self.scheme, self.host, self.target);
        if text.len() > limits::CONTENT_URL_BYTES {
            text.truncate(text.floor_char_boundary(limits::CONTENT_URL_BYTES));
            text.push('…');
        }
        text
    }
}

impl Default for ContentSample {
    fn default() -> ContentSample {
        let most = limits::CONTENT_URLS;
        ContentSample(Mutex::new(Tables {
            requested: Top::new(most),
            missed: Top::new(most),
            refused: Top::new(most),
            largest: Vec::new(),
            purged: Top::new(most),
        }))
    }
}

impl ContentSample {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Tables>> {
        match self.0.try_lock() {
            Ok(tables) => Some(tables),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Reports a sampled exchange: a hit, or why it was none.
    #[cold]
    pub(crate) fn add(&self, url: UrlParts<'_>, miss: Option<Miss>, body_bytes: u64) {
        let Some(mut tables) = self.try_lock() else {
            return;
        };
        let text = url.text();
        let requested = tables.requested.add(&text);
        requested.requests += 1;
        requested.hits += u64::from(miss.is_none());
        requested.bytes += body_bytes;
        if let Some(reason) = miss.and_then(|miss| miss.reason) {
            *tables.missed.add(&text) = reason.name();
        }
        tables.add_size(&text, body_bytes);
    }

    /// Reports a response that was not stored, and the rule by which its request has bypassed the
    /// cache.
    #[cold]
    pub(crate) fn add_refused(
        &self,
        url: UrlParts<'_>,
        refusal: Refusal,
        passed_by: Option<&PassedBy>,
    ) {
        let Some(mut tables) = self.try_lock() else {
            return;
        };
        *tables.refused.add(&url.text()) = Refused {
            refusal: Some(refusal),
            passed_by: passed_by.cloned(),
        };
    }

    /// Reports a purge of so many responses.
    pub(crate) fn add_purge(&self, what: &str, responses: u64) {
        let end = what.floor_char_boundary(limits::CONTENT_URL_BYTES);
        *self.lock().purged.add(&what[..end]) += responses;
    }

    /// Returns the hits and the requests of a URL in the sample.
    pub(crate) fn of_url(&self, url: &str) -> Option<(u64, u64)> {
        let tables = self.lock();
        let found = tables
            .requested
            .first(limits::CONTENT_URLS)
            .into_iter()
            .find(|(known, _)| *known == url)?;
        Some((found.1.more.hits, found.1.more.requests))
    }

    /// Returns the tables for the console.
    pub(crate) fn to_json(&self) -> Value {
        let tables = self.lock();
        let Tables {
            requested,
            missed,
            refused,
            largest,
            purged,
        } = &*tables;
        let most = limits::CONTENT_SHOWN;
        let request = |(url, Entry { count, more, .. }): (&str, &Entry<Requested>)| {
            json!({
                "url": url,
                "count": count,
                "share": requested.share(*count),
                "hit_ratio": more.hits as f64 / more.requests.max(1) as f64,
                "bytes": more.bytes / more.requests.max(1),
            })
        };
        let miss = |(url, entry): (&str, &Entry<&str>)| json!({ "url": url, "count": entry.count, "share": missed.share(entry.count), "reason": entry.more });
        let refusal = |(url, entry): (&str, &Entry<Refused>)| {
            let Refused { refusal, passed_by } = &entry.more;
            let (reason, meaning) = match (refusal, passed_by) {
                (_, Some(rule)) => ("pass", format!("{} ([[http.rules]])", rule.describe())),
                (Some(refusal), None) => (refusal.name(), meaning(*refusal).to_owned()),
                (None, None) => ("", String::new()),
            };
            json!({
                "url": url,
                "count": entry.count,
                "share": refused.share(entry.count),
                "reason": reason,
                "meaning": meaning,
            })
        };
        let purge = |(url, entry): (&str, &Entry<u64>)| json!({ "url": url, "purges": entry.count, "responses": entry.more });
        let size = |(bytes, url): &(u64, Box<str>)| json!({ "url": url, "bytes": bytes });
        json!({
            "sample": limits::CONTENT_SAMPLE,
            "totals": {
                "requested": requested.total(),
                "missed": missed.total(),
                "refused": refused.total(),
            },
            "requested": requested.first(most).into_iter().map(request).collect::<Vec<_>>(),
            "missed": missed.first(most).into_iter().map(miss).collect::<Vec<_>>(),
            "refused": refused.first(most).into_iter().map(refusal).collect::<Vec<_>>(),
            "largest": largest.iter().rev().take(most).map(size).collect::<Vec<_>>(),
            "purged": purged.first(most).into_iter().map(purge).collect::<Vec<_>>(),
        })
    }
}

impl Tables {
    fn add_size(&mut self, url: &str, bytes: u64) {
        let most = limits::CONTENT_SHOWN;
        let is_large = self.largest.len() < most
            || self
                .largest
                .first()
                .is_some_and(|(least, _)| bytes > *least);
        if bytes == 0 || !is_large {
            return;
        }
        if let Some(known) = self.largest.iter().position(|(_, known)| **known == *url) {
            if self.largest[known].0 >= bytes {
                return;
            }
            self.largest.remove(known);
        } else if self.largest.len() == most {
            self.largest.remove(0);
        }
        let place = self.largest.partition_point(|(size, _)| *size <= bytes);
        self.largest.insert(place, (bytes, url.into()));
    }
}

/// Returns the cause of a refusal, and what changes it.
fn meaning(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Request => "the method, the target or the body of the request",
        Refusal::NoStore => {
            "Cache-Control: no-store in the response or the request; a rule may ignore it"
        }
        Refusal::Private => "Cache-Control: private in the response; a rule may ignore it",
        Refusal::Authorization => {
            "Authorization in the request; the response needs Cache-Control: public or s-maxage"
        }
        Refusal::Status => "the status of the response, or must-understand",
        Refusal::Useless => {
            "no max-age, Expires, ETag or Last-Modified in the response; a rule may set ttl"
        }
        Refusal::Vary => {
            "Vary in the response: *, too many names, or one that differs with every client"
        }
        Refusal::SetCookie => "Set-Cookie in the response; a rule may remove the field",
        Refusal::TooLarge => "larger than [http] max_object; slice stores large objects in parts",
        Refusal::Busy => {
            "no room for bodies in progress: [http] cache is small, or clients are slow"
        }
        Refusal::Unframed => {
            "Content-Length or Transfer-Encoding of the response contradict each other"
        }
        Refusal::NotAdmitted => "the policy keeps objects that are worth more",
        Refusal::Trailers => "Trailer in the response",
        Refusal::Invalidated => "a POST, PUT, DELETE or purge of the URL during the fetch",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(target: &str) -> UrlParts<'_> {
        UrlParts {
            scheme: "http",
            host: "a.example",
            target,
        }
    }

    /// Failure: a URL is missing, the reason is that of another cache, or long URLs fill the
    /// memory.
    #[test]
    fn a_url_has_the_reason_of_another() {
        let content = ContentSample::default();
        let miss = Miss::of(
            b"far; fwd=stale; detail=busy, larder; fwd=uri-miss; fwd-status=200; detail=set-cookie",
        );
        assert_eq!(
            miss,
            Miss {
                reason: Some(ForwardReason::UriMiss),
                refusal: Some(Refusal::SetCookie)
            }
        );
        content.add(url("/a"), None, 10);
        content.add(url("/a"), Some(miss), 30);
        content.add_refused(url("/a"), Refusal::SetCookie, None);
        content.add(
            url(&"/é".repeat(10_000)),
            Some(Miss::of(b"larder; hit; ttl=3")),
            1,
        );
        content.add_purge("tag x", 7);
        let page = content.to_json();
        assert_eq!(page["requested"][0]["url"], "http://a.example/a");
        assert_eq!(
            (
                &page["requested"][0]["hit_ratio"],
                &page["requested"][0]["bytes"]
            ),
            (&json!(0.5), &json!(20))
        );
        assert_eq!(
            (&page["missed"][0]["reason"], &page["missed"][1]),
            (&json!("uri-miss"), &Value::Null)
        );
        assert_eq!(page["refused"][0]["reason"], "set-cookie");
        assert_eq!(
            (&page["largest"][0]["bytes"], &page["largest"][1]["bytes"]),
            (&json!(30), &json!(1))
        );
        assert!(
            page["largest"][1]["url"].as_str().unwrap().len()
                <= limits::CONTENT_URL_BYTES + "…".len()
        );
        assert_eq!(
            (&page["purged"][0]["url"], &page["purged"][0]["responses"]),
            (&json!("tag x"), &json!(7))
        );
        assert_eq!(content.of_url("http://a.example/a"), Some((1, 2)));
    }

    /// Failure: the list of the largest has one URL several times, or grows.
    #[test]
    fn the_largest_are_listed_twice() {
        let content = ContentSample::default();
        for number in 0..200u64 {
            content.add(url(&format!("/{}", number % 100)), None, number);
        }
        let page = content.to_json();
        let largest: Vec<u64> = page["largest"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["bytes"].as_u64().unwrap())
            .collect();
        let wanted: Vec<u64> = (0..limits::CONTENT_SHOWN as u64)
            .map(|at| 199 - at)
            .collect();
        assert_eq!(largest, wanted);
    }
}
