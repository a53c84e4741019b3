//! The figures of exchanges for `/metrics`: times by what the cache did and by protocol, status
//! classes, bytes, and hosts.
//!
//! Each request thread has counters of its own, which only it changes, so a hit takes no lock that
//! other requests take. The admin server adds them up.

use crate::access_log::{CacheResult, Outcome, Protocol};
use crate::base::{limits, threads};
use larder_admin::histogram::{Histogram, Times, add};
use larder_admin::{MetricLine, Metrics};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

const RESULTS: usize = CacheResult::ALL.len();
const PROTOCOLS: usize = Protocol::ALL.len();
/// The reasons for which a rule refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleRefusal {
    /// `allow` or `deny`: 403.
    Access,
    /// `rate_limit`: 429.
    RateLimit,
}

const RULE_REFUSALS: [(&str, RuleRefusal); 2] = [
    ("access", RuleRefusal::Access),
    ("rate_limit", RuleRefusal::RateLimit),
];

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The figures of all request threads.
pub(crate) struct ExchangeFigures {
    /// By thread. Those of a thread begin with its first exchange.
    threads: [OnceLock<Box<ThreadFigures>>; limits::THREADS],
    /// The hosts with figures of their own, in the order in which they came. Their number is above
    /// by one: 0 is `other`.
    hosts: [OnceLock<Box<str>>; limits::HOST_FIGURES],
    /// Held while a host is added.
    adding: Mutex<usize>,
}

#[derive(Default)]
struct ThreadFigures {
    first_byte: [[Histogram; PROTOCOLS]; RESULTS],
    total: [[Histogram; PROTOCOLS]; RESULTS],
    classes: [AtomicU64; CLASSES.len()],
    sent_bytes: AtomicU64,
    broken: AtomicU64,
    rule_refusals: [AtomicU64; RULE_REFUSALS.len()],
    /// Exchanges, for the choice of those in the sample.
    exchanges: AtomicU64,
    hosts: Box<[HostFigures]>,
    names: Mutex<HostNames>,
}

#[derive(Default)]
struct HostFigures {
    requests: AtomicU64,
    hits: AtomicU64,
    sent_bytes: AtomicU64,
    server_errors: AtomicU64,
}

/// The numbers of hosts that a thread knows, by the spelling of clients. Only its thread locks it.
#[derive(Default)]
struct HostNames {
    last: (Box<str>, usize),
    known: HashMap<Box<str>, usize, foldhash::fast::RandomState>,
}

impl ThreadFigures {
    fn new() -> ThreadFigures {
        let hosts = (0..=limits::HOST_FIGURES)
            .map(|_| HostFigures::default())
            .collect();
        ThreadFigures {
            hosts,
            ..ThreadFigures::default()
        }
    }
}

impl ExchangeFigures {
    /// Creates the figures. The hosts of the configuration have places from the start.
    pub(crate) fn new<'a>(hosts: impl Iterator<Item = &'a str>) -> ExchangeFigures {
        let figures = ExchangeFigures {
            threads: [const { OnceLock::new() }; limits::THREADS],
            hosts: [const { OnceLock::new() }; limits::HOST_FIGURES],
            adding: Mutex::new(0),
        };
        for host in hosts {
            let _ = figures.add_host(host);
        }
        figures
    }

    fn threads(&self) -> impl Iterator<Item = &ThreadFigures> {
        self.threads
            .iter()
            .filter_map(OnceLock::get)
            .map(|thread| &**thread)
    }

    /// Counts an exchange. Returns true if it is in the sample for the console.
    pub(crate) fn add(&self, outcome: &Outcome<'_>) -> bool {
        let thread =
            self.threads[threads::current()].get_or_init(|| Box::new(ThreadFigures::new()));
        let (result, protocol) = (outcome.cache as usize, outcome.protocol as usize);
        if let Some(time) = outcome.first_byte {
            thread.first_byte[result][protocol].add(time);
        }
        thread.total[result][protocol].add(outcome.total);
        let class = usize::from(outcome.status / 100).clamp(1, CLASSES.len()) - 1;
        add(&thread.classes[class], 1);
        add(&thread.sent_bytes, outcome.body_bytes);
        if !outcome.is_complete {
            add(&thread.broken, 1);
        }
        let host = &thread.hosts[self.host(thread, outcome.host, outcome.status)];
        add(&host.requests, 1);
        add(&host.sent_bytes, outcome.body_bytes);
        if matches!(
            outcome.cache,
            CacheResult::Hit | CacheResult::Stale | CacheResult::Revalidated
        ) {
            add(&host.hits, 1);
        }
        if class == 4 {
            add(&host.server_errors, 1);
        }
        let number = thread.exchanges.load(Ordering::Relaxed);
        add(&thread.exchanges, 1);
        number.is_multiple_of(limits::CONTENT_SAMPLE)
    }

    /// Counts a request that a rule has refused.
    pub(crate) fn add_rule_refusal(&self, refusal: RuleRefusal) {
        let thread =
            self.threads[threads::current()].get_or_init(|| Box::new(ThreadFigures::new()));
        add(&thread.rule_refusals[refusal as usize], 1);
    }

    /// Returns the requests that rules have refused, by reason.
    fn rule_refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        RULE_REFUSALS.into_iter().map(|(name, refusal)| {
            let count = self.sum(|thread| &thread.rule_refusals[refusal as usize]);
            (name, count)
        })
    }

    /// Returns the number of a host. A new one gets a place if its response was no error: clients
    /// may name any host.
    fn host(&self, thread: &ThreadFigures, name: &[u8], status: u16) -> usize {
        let mut names = thread.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.last.0.as_bytes() == name {
            return names.last.1;
        }
        let name = str::from_utf8(name).unwrap_or_default();
        let number = match names.known.get(name) {
            Some(number) => *number,
            None => {
                let keyed = larder_http::keyed_authority("http", name);
                let is_good = status < 400;
                let known = self
                    .find_host(&keyed)
                    .or_else(|| is_good.then(|| self.add_host(&keyed)).flatten());
                let number = known.unwrap_or_default();
                if number == 0 && !is_good {
                    return 0;
                }
                // Spellings of hosts, which clients choose.
                if names.known.len() >= 4 * limits::HOST_FIGURES {
                    names.known.clear();
                }
                names.known.insert(name.into(), number);
                number
            }
        };
        names.last = (name.into(), number);
        number
    }

    fn find_host(&self, keyed: &str) -> Option<usize> {
        let mut hosts = self.hosts.iter().map_while(OnceLock::get);
        hosts.position(|host| **host == *keyed).map(|at| at + 1)
    }

    /// Gives a host a place, if there is one.
    fn add_host(&self, keyed: &str) -> Option<usize> {
        let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if keyed.is_empty()
            || !keyed.bytes().all(is_of_host)
            || self.hosts[limits::HOST_FIGURES - 1].get().is_some()
        {
            return None;
        }
        let mut count = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = self.find_host(keyed) {
            return Some(number);
        }
        let _ = self.hosts.get(*count)?.set(keyed.into());
        *count += 1;
        Some(*count)
    }

    /// Returns the sum of a counter over all threads.
    fn sum(&self, counter: impl Fn(&ThreadFigures) -> &AtomicU64) -> u64 {
        self.threads()
            .map(|thread| counter(thread).load(Ordering::Relaxed))
            .sum()
    }

    /// Returns the responses by the class of their status.
    fn classes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let classes = CLASSES.iter().enumerate();
        classes.map(|(at, class)| (*class, self.sum(|thread| &thread.classes[at])))
    }

    /// Adds the figures to the status page of the cache. Hits are answers without the origin; times
    /// are counted by the bounds of the histograms of `/metrics`.
    pub(crate) fn status(&self, page: &mut Map<String, Value>) {
        let classes: Map<String, Value> = self
            .classes()
            .map(|(class, count)| (class.to_owned(), json!(count)))
            .collect();
        let times = |of: &[CacheResult]| {
            let mut times = Times::default();
            for histogram in self
                .threads()
                .flat_map(|thread| of.iter().flat_map(|of| &thread.first_byte[*of as usize]))
            {
                histogram.sum(&mut times);
            }
            times.counts().to_vec()
        };
        let hits = times(&[CacheResult::Hit, CacheResult::Stale]);
        let misses = times(&[
            CacheResult::Miss,
            CacheResult::Expired,
            CacheResult::Revalidated,
            CacheResult::Bypass,
        ]);
        page.insert("responses".to_owned(), Value::Object(classes));
        let refused = self.rule_refusals();
        let refused = refused.map(|(reason, count)| (reason.to_owned(), json!(count)));
        page.insert(
            "refused_by_rules".to_owned(),
            Value::Object(refused.collect()),
        );
        page.insert(
            "first_byte_seconds".to_owned(),
            json!({ "hits": hits, "misses": misses }),
        );
        MetricLine::add_to_page(&EXCHANGES, self, page);
    }

    /// Writes the figures.
    pub(crate) fn metrics(&self, metrics: &mut Metrics<'_, '_>) {
        for (name, help, table) in TIMES {
            self.time_metrics(metrics, name, help, table);
        }
        metrics.counters(
            "larder_http_responses",
            "Responses by the class of their status",
            "class",
            self.classes(),
        );
        metrics.counters(
            "larder_http_refused_by_rules",
            "Requests that [[http.rules]] refused: 403 by access, 429 by rate_limit",
            "reason",
            self.rule_refusals(),
        );
        metrics.lines(&EXCHANGES, self);
        self.host_metrics(metrics);
    }

    fn time_metrics(
        &self,
        metrics: &mut Metrics<'_, '_>,
        name: &str,
        help: &str,
        table: fn(&ThreadFigures) -> &TimeTable,
    ) {
        let mut rows = Vec::new();
        for result in CacheResult::ALL {
            for protocol in Protocol::ALL {
                let mut times = Times::default();
                for thread in self.threads() {
                    table(thread)[result as usize][protocol as usize].sum(&mut times);
                }
                if times.count() > 0 {
                    let labels = [("cache", result.name()), ("protocol", protocol.name())];
                    rows.push((labels, times));
                }
            }
        }
        metrics.histograms(name, help, &rows);
    }

    fn host_metrics(&self, metrics: &mut Metrics<'_, '_>) {
        let known = self.hosts.iter().map_while(OnceLock::get);
        let known = (1..).zip(known.map(|host| &**host));
        let hosts: Vec<(usize, &str)> = known.chain([(0, "other")]).collect();
        for (name, help, counter) in HOSTS {
            let counts = hosts
                .iter()
                .map(|(number, host)| (*host, self.sum(|thread| counter(&thread.hosts[*number]))));
            metrics.counters(name, help, "host", counts);
        }
    }
}

/// Times of the exchanges of a thread.
type TimeTable = [[Histogram; PROTOCOLS]; RESULTS];

/// Name, help and reading of a histogram.
type TimeLine = (&'static str, &'static str, fn(&ThreadFigures) -> &TimeTable);

static TIMES: [TimeLine; 2] = [
    (
        "larder_http_first_byte_seconds",
        "Time from a request's head to the head of its response",
        |thread| &thread.first_byte,
    ),
    (
        "larder_http_request_seconds",
        "Time from a request's head to the end of its response",
        |thread| &thread.total,
    ),
];

static EXCHANGES: [MetricLine<ExchangeFigures>; 2] = [
    MetricLine::counter(
        "sent_bytes",
        "larder_http_sent_bytes",
        "Body bytes of responses",
        |figures| figures.sum(|thread| &thread.sent_bytes),
    ),
    MetricLine::counter(
        "broken_exchanges",
        "larder_http_broken_exchanges",
        "Exchanges whose body broke off, or whose client left",
        |figures| figures.sum(|thread| &thread.broken),
    ),
];

/// Name, help and reading of a counter by host.
type HostLine = (&'static str, &'static str, fn(&HostFigures) -> &AtomicU64);

static HOSTS: [HostLine; 4] = [
    ("larder_http_host_requests", "Requests by host", |host| {
        &host.requests
    }),
    (
        "larder_http_host_hits",
        "Requests answered from the store by host",
        |host| &host.hits,
    ),
    (
        "larder_http_host_sent_bytes",
        "Body bytes of responses by host",
        |host| &host.sent_bytes,
    ),
    (
        "larder_http_host_server_errors",
        "Responses with a status from 500 by host",
        |host| &host.server_errors,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn outcome(host: &str, status: u16) -> Outcome<'_> {
        Outcome {
            host: host.as_bytes(),
            protocol: Protocol::Http11,
            status,
            body_bytes: 10,
            cache: CacheResult::Hit,
            first_byte: Some(Duration::from_micros(5)),
            total: Duration::from_micros(5),
            is_complete: true,
        }
    }

    fn requests(figures: &ExchangeFigures, host: &str) -> Option<u64> {
        let number = if host == "other" {
            0
        } else {
            figures.find_host(host)?
        };
        Some(
            figures
                .threads()
                .map(|thread| thread.hosts[number].requests.load(Ordering::Relaxed))
                .sum(),
        )
    }

    /// Failure: a client makes a series for each host that it invents, or takes the places of the
    /// configured hosts.
    #[test]
    fn hosts_without_end_have_figures_of_their_own() {
        let figures = ExchangeFigures::new(["img.example"].into_iter());
        for number in 0..3 * limits::HOST_FIGURES {
            let _ = figures.add(&outcome(&format!("bad{number}.example"), 404));
            let _ = figures.add(&outcome(&format!("h{number}.example"), 200));
        }
        let _ = figures.add(&outcome("IMG.example:80", 200));
        let _ = figures.add(&outcome("img.example", 503));
        let _ = figures.add(&outcome("img.example", 200));
        assert_eq!(requests(&figures, "img.example"), Some(3));
        assert_eq!(
            (
                requests(&figures, "h0.example"),
                requests(&figures, "bad0.example")
            ),
            (Some(1), None)
        );
        assert_eq!(
            figures
                .hosts
                .iter()
                .filter(|host| host.get().is_some())
                .count(),
            limits::HOST_FIGURES
        );
        let own = limits::HOST_FIGURES - 1;
        assert_eq!(
            requests(&figures, "other"),
            Some((6 * limits::HOST_FIGURES - own) as u64)
        );
        assert!(
            figures
                .threads()
                .next()
                .unwrap()
                .names
                .lock()
                .unwrap()
                .known
                .len()
                <= 4 * limits::HOST_FIGURES
        );
    }
}
