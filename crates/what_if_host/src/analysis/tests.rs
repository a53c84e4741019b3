//! The analysis over the node's own path: shards, freshness, variants, purges.

use super::*;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use larder_http::{Config, Purge, RequestHead, ResponseHead, Scope};
use larder_proxy::shards::{Next, Response, Shards};
use larder_replay::{Access, Replay, Trace, WHAT_IF_SIZES, WhatIfCell};
use larder_units::Streams;
use std::collections::HashMap;
use std::path::Path;
use tokio::sync::mpsc;

/// The real HTTP cache.
struct HttpCache(Arc<Shards>);

impl ObservedCache for HttpCache {
    fn now(&self) -> Time {
        self.0.now().time
    }

    fn take(&self, last: Option<u64>, taken: &mut Vec<Observation>) -> Option<Totals> {
        Some(self.0.take_observations(last, taken))
    }

    fn state(&self) -> Option<CacheState> {
        let engine = self.0.engine();
        let (policy, capacity) = (engine.spec().clone(), engine.capacity());
        Some(CacheState {
            policy,
            capacity,
            used: engine.used(),
            objects: engine.len(),
        })
    }
}

struct Host {
    shards: Arc<Shards>,
    analysis: Analysis<HttpCache>,
    requests: u32,
}

impl Host {
    fn new(capacity: u64, policy: &str) -> Host {
        let config = Config {
            capacity: ByteSize::from_bytes(capacity),
            policy: policy.parse().unwrap(),
            max_object: ByteSize::from_bytes(capacity),
            slice: ByteSize::from_bytes(0),
            targets: Vec::new(),
            compression: None,
            hash_key: [1; 16],
            ..Config::default()
        };
        let shards = Shards::with(&config, &Streams::new(1), 4, None).unwrap();
        let shared = Arc::new(SharedState {
            is_enabled: true.into(),
            ..SharedState::default()
        });
        let mut analysis = Analysis::new(HttpCache(Arc::clone(&shards)), &shared);
        analysis.step();
        // On a slow machine, the share of the processor would make the samples smaller meanwhile.
        if let Some(running) = &mut analysis.running {
            running.measured = Time::from_secs(1 << 30);
        }
        Host {
            shards,
            analysis,
            requests: 0,
        }
    }

    /// One request; the origin answers with these fields. Returns true for a hit.
    fn ask(
        &mut self,
        target: &str,
        request: &[(HeaderName, &str)],
        bytes: usize,
        fields: &[(&str, &str)],
    ) -> bool {
        self.requests += 1;
        if self.requests.is_multiple_of(256) {
            self.analysis.step();
        }
        let map = |fields: &[(HeaderName, &str)]| -> HeaderMap {
            fields
                .iter()
                .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()))
                .collect()
        };
        let headers = map(request);
        let next = self.shards.step(
            &RequestHead {
                method: &Method::GET,
                scheme: "http",
                authority: "example.com",
                target,
                version: Version::HTTP_11,
                headers: &headers,
                has_body: false,
                coding: None,
                confirmed: None,
            },
            true,
        );
        let mut exchange = match next {
            Next::Answer(_) => return true,
            Next::Forward(exchange) => exchange,
            _ => return false,
        };
        exchange.take_headers(headers);
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), *value))
            .collect();
        let mut headers = map(&fields);
        headers.insert("content-length", bytes.into());
        let head = ResponseHead {
            status: StatusCode::OK,
            version: Version::HTTP_11,
            headers,
        };
        if let (Response::Relay(_, _, Some(mut fill)), _) = self.shards.on_response(exchange, head)
        {
            fill.push(&vec![7; bytes]);
            fill.complete();
        }
        false
    }

    /// Returns the cells of this policy, from the smallest to the largest, and the cache's own hit
    /// ratio.
    fn cells(&mut self, policy: &str) -> (Vec<WhatIfCell>, f64) {
        let running = self.analysis.running.as_mut().unwrap();
        let totals = self
            .shards
            .take_observations(running.what_if.sample(), &mut self.analysis.taken);
        running
            .what_if
            .observe(&mut self.analysis.taken, totals, self.shards.now().time);
        let report = running.what_if.report();
        let cells = report
            .cells
            .into_iter()
            .filter(|cell| cell.policy == policy)
            .collect();
        (cells, report.measured.object_hit_ratio)
    }
}

/// The number of the cell for the present size.
const PRESENT: usize = 4;

#[test]
fn the_present_size_is_no_cell() {
    assert_eq!(WHAT_IF_SIZES[PRESENT], 1.0);
}

fn trace(name: &str) -> Vec<Access> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../replay/tests/data")
        .join(name);
    Trace::open(&path, None)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

const DAY: (&str, &str) = ("cache-control", "max-age=86400");

/// Returns the bytes that each object of the trace takes in the node.
fn sizes(accesses: &[Access]) -> HashMap<u64, u64> {
    let mut host = Host::new(1 << 30, "lru");
    let mut sizes = HashMap::new();
    for access in accesses {
        let before = host.shards.engine().used().bytes();
        if !host.ask(
            &format!("/{:08}", access.id),
            &[],
            access.size as usize,
            &[DAY],
        ) {
            sizes.insert(access.id, host.shards.engine().used().bytes() - before);
        }
    }
    sizes
}

/// Failure: the estimates are those of another cache than the node's. Each policy at each size is
/// compared with a replay of the same requests with the sizes that the node gives its objects.
#[test]
fn estimates_are_off_the_replay_of_the_same_requests() {
    for (name, capacity) in [
        ("nasa_19950801.tsv.zst", 8 << 20),
        ("web07.trace.xz", 2 << 20),
    ] {
        let accesses = trace(name);
        let sizes = sizes(&accesses);
        let mut host = Host::new(capacity, "lru");
        let mut hits = 0;
        for access in &accesses {
            hits += u32::from(host.ask(
                &format!("/{:08}", access.id),
                &[],
                access.size as usize,
                &[DAY],
            ));
        }
        let measured = f64::from(hits) / accesses.len() as f64;
        for policy in WHAT_IF_POLICIES {
            let (cells, own) = host.cells(policy);
            assert_eq!(
                own, measured,
                "{name}: the analysis counts as the clients do"
            );
            for cell in cells {
                let mut replay = Replay::new(
                    &policy.parse().unwrap(),
                    ByteSize::from_bytes(cell.capacity),
                    1,
                )
                .unwrap()
                .filling();
                for access in &accesses {
                    replay.request(&Access {
                        size: sizes[&access.id],
                        ..*access
                    });
                }
                let exact = replay.row("").object_hit_ratio;
                let off = (cell.object_hit_ratio - exact).abs();
                assert!(
                    off <= 0.01_f64.max(cell.object_error),
                    "{name} {cell:?}: exact {exact}"
                );
            }
        }
        let (cells, own) = host.cells("lru");
        let off = (cells[PRESENT].object_hit_ratio - own).abs();
        assert!(
            off <= 0.005_f64.max(cells[PRESENT].object_error),
            "{name} {:?}: measured {own}",
            cells[PRESENT]
        );
    }
}

/// Failure: responses that the node may not store count as hits of a larger cache.
#[test]
fn what_may_not_be_stored_hits() {
    let mut host = Host::new(1 << 20, "lru");
    for _ in 0..50 {
        host.ask("/stored", &[], 100, &[DAY]);
        host.ask("/private", &[], 100, &[("cache-control", "private")]);
    }
    let (cells, own) = host.cells("lru");
    assert!(
        own == 0.49
            && cells
                .iter()
                .all(|cell| (cell.object_hit_ratio - 0.49).abs() < 1e-9),
        "{own} {cells:?}"
    );
}

/// Failure: variants of a URL are one object.
#[test]
fn variants_share_an_object() {
    let mut host = Host::new(1 << 20, "lru");
    let accept: HeaderName = "accept-language".parse().unwrap();
    for number in 0..100 {
        let language = format!("l{}", number % 10);
        host.ask(
            "/page",
            &[(accept.clone(), &language)],
            1_000,
            &[DAY, ("vary", "accept-language")],
        );
    }
    let (cells, own) = host.cells("lru");
    assert!(
        own == 0.9 && (cells[PRESENT].object_hit_ratio - 0.9).abs() < 1e-9,
        "{own} {:?}",
        cells[PRESENT]
    );
}

/// Failure: stale objects hit. Half of the objects live a second, and have no validator.
#[test]
fn short_lifetimes_last() {
    let mut host = Host::new(1 << 20, "lru");
    for _round in 0..3 {
        for object in 0..50 {
            host.ask(
                &format!("/short/{object}"),
                &[],
                100,
                &[("cache-control", "max-age=1")],
            );
            host.ask(&format!("/long/{object}"), &[], 100, &[DAY]);
        }
        std::thread::sleep(std::time::Duration::from_millis(1_100));
    }
    let (cells, own) = host.cells("lru");
    // Two of three rounds of one half.
    assert!((own - 1.0 / 3.0).abs() < 1e-9, "{own}");
    assert!(
        cells
            .iter()
            .all(|cell| (cell.object_hit_ratio - own).abs() < 1e-9),
        "{own} {cells:?}"
    );
}

/// Failure: a response that is fetched in the background, while a stale one answers, counts as a
/// request, or is unknown to the miniature caches.
#[test]
fn a_refresh_in_the_background_is_a_request() {
    let mut host = Host::new(1 << 20, "lru");
    let fields = ("cache-control", "max-age=1, stale-while-revalidate=3600");
    host.ask("/page", &[], 100, &[fields]);
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(1_100));
        // The stale one, and the refresh.
        let headers = HeaderMap::new();
        let next = host.shards.step(
            &RequestHead {
                method: &Method::GET,
                scheme: "http",
                authority: "example.com",
                target: "/page",
                version: Version::HTTP_11,
                headers: &headers,
                has_body: false,
                coding: None,
                confirmed: None,
            },
            true,
        );
        let Next::Refresh(_, mut exchange) = next else {
            panic!("it is stale")
        };
        exchange.take_headers(HeaderMap::new());
        let mut headers = HeaderMap::new();
        headers.insert("cache-control", HeaderValue::from_static(fields.1));
        headers.insert("content-length", HeaderValue::from_static("100"));
        let head = ResponseHead {
            status: StatusCode::OK,
            version: Version::HTTP_11,
            headers,
        };
        if let (Response::Relay(_, _, Some(mut fill)), _) = host.shards.on_response(exchange, head)
        {
            fill.push(&[7; 100]);
            fill.complete();
        }
    }
    let (cells, own) = host.cells("lru");
    assert_eq!(own, 0.75);
    assert!(
        cells
            .iter()
            .all(|cell| (cell.object_hit_ratio - own).abs() < 1e-9),
        "{own} {cells:?}"
    );
}

/// Failure: a purge leaves objects in the miniature caches, also such as the node has no more.
#[test]
fn purged_objects_hit() {
    // 40 objects of 1 KiB, and room for 16: the node forgets most of them.
    let mut host = Host::new(32 << 10, "lru");
    let url = |text: &str| text.parse().unwrap();
    let scopes = [
        Scope::Everything,
        Scope::Tag("all".to_owned()),
        Scope::Prefix(url("http://example.com/a/")),
    ];
    let mut requests = 0;
    for scope in std::iter::once(None).chain(scopes.map(Some)) {
        if let Some(scope) = scope {
            host.shards.purge(&Purge { scope, soft: false });
        }
        for object in 0..40 {
            host.ask(
                &format!("/a/{object}"),
                &[],
                1_000,
                &[DAY, ("surrogate-key", "one all")],
            );
            requests += 1;
        }
        let (cells, _) = host.cells("lru");
        let largest = cells.last().unwrap();
        assert_eq!(
            (largest.object_hit_ratio * f64::from(requests)).round(),
            0.0,
            "{largest:?}"
        );
    }
    // Without a purge in between, a larger cache hits them all.
    for object in 0..40 {
        host.ask(&format!("/a/{object}"), &[], 1_000, &[DAY]);
    }
    let (cells, own) = host.cells("lru");
    assert_eq!(
        (cells.last().unwrap().object_hit_ratio * 200.0).round(),
        40.0,
        "{own} {cells:?}"
    );
}

/// Failure: after another policy or capacity the estimates are still those of the former cache.
#[test]
fn another_capacity_keeps_the_estimates() {
    let mut host = Host::new(1 << 20, "lru");
    host.ask("/a", &[], 100, &[DAY]);
    let config = Config {
        capacity: ByteSize::from_mib(2),
        policy: "gdsf".parse().unwrap(),
        max_object: ByteSize::from_mib(1),
        slice: ByteSize::from_bytes(0),
        targets: Vec::new(),
        compression: None,
        hash_key: [1; 16],
        ..Config::default()
    };
    host.shards.reconfigure(&config, &Streams::new(1)).unwrap();
    std::thread::sleep(limits::WHAT_IF_REPORT);
    host.analysis.step();
    let running = host.analysis.running.as_ref().unwrap();
    assert_eq!(
        (running.policy.to_string().as_str(), running.capacity),
        ("gdsf", ByteSize::from_mib(2))
    );
    let (cells, _) = host.cells("gdsf");
    assert!(
        cells[PRESENT].capacity == 2 << 20 && cells.iter().all(|cell| cell.object_hit_ratio == 0.0),
        "{cells:?}"
    );
}

/// Failure: the analysis takes the processor from requests.
#[test]
fn a_busy_analysis_keeps_its_sample() {
    let mut host = Host::new(1 << 20, "lru");
    let running = host.analysis.running.as_mut().unwrap();
    let whole = running.what_if.sample();
    let start = host.shards.now().time;
    (running.measured, running.node) = (start, Duration::ZERO);
    let (mut seconds, mut node) = (0, 0);
    // Ten seconds later: these milliseconds of the analysis, and of the whole node.
    let mut pass = |used, of_node| {
        (seconds, node) = (seconds + 10, node + of_node);
        (running.used, running.saved) = (Duration::from_millis(used), Duration::ZERO);
        running.keep_to_share(running_time(start, seconds), Duration::from_millis(node));
        running.what_if.sample()
    };
    assert_eq!(pass(29, 29), whole, "a node with little work keeps it");
    assert_eq!(pass(290, 5_900), whole, "a twentieth of the node's time");
    let half = whole.map(|last| last / 2);
    assert_eq!(pass(290, 5_700), half, "more than a twentieth");
    assert_eq!(pass(299, 20_000), half, "a thirtieth of the time");
    let quarter = half.map(|last| last / 2);
    assert_eq!(pass(310, 20_000), quarter, "more than 3 % of a processor");
    let eighth = quarter.map(|last| last / 2);
    assert_eq!(pass(31, 100), eighth, "more than .3 %");
    assert_eq!(
        (running.used, running.saved),
        (Duration::ZERO, Duration::ZERO)
    );
    // Saved time of quiet looks, 30 ms each, pays for a burst, and no more than one.
    let mut look = |used| {
        seconds += 10;
        running.used = Duration::from_millis(used);
        running.keep_to_share(running_time(start, seconds), Duration::from_millis(node));
        running.what_if.sample()
    };
    assert_eq!(look(0), eighth);
    assert_eq!(look(0), eighth);
    assert_eq!(look(90), eighth, "a burst");
    assert_eq!(look(60), eighth.map(|last| last / 2), "another one");
    for _ in 0..300 {
        look(0);
    }
    assert!(
        running.saved <= Duration::from_millis(240 * 31),
        "it saves for ever: {:?}",
        running.saved
    );
}

fn running_time(now: Time, seconds: u64) -> Time {
    Time::from_nanos(now.nanos() + seconds * 1_000_000_000)
}

/// Failure: the node goes on to collect after the analysis was switched off.
#[test]
fn switched_off_it_collects() {
    let mut host = Host::new(1 << 20, "lru");
    host.ask("/a", &[], 100, &[DAY]);
    host.analysis
        .shared
        .is_enabled
        .store(false, Ordering::Relaxed);
    host.analysis.step();
    assert!(host.analysis.running.is_none() && host.analysis.shared.with(|_| ()).is_none());
    host.ask("/b", &[], 100, &[DAY]);
    let mut taken = Vec::new();
    host.shards.take_observations(None, &mut taken);
    assert!(taken.is_empty());
}

/// Failure: a capture lacks requests of its keys, has others, or thins the analysis out; or it goes
/// on when its client has left.
#[test]
fn a_capture_has_other_requests_than_came() {
    let mut host = Host::new(1 << 20, "lru");
    let mut lines = host.analysis.shared.captures.begin(1.0).unwrap();
    // It begins with the next step.
    host.analysis.step();
    for round in 0..3 {
        for object in 0..100 {
            host.ask(&format!("/{object}"), &[], 100, &[DAY]);
        }
        host.ask(
            &format!("/private/{round}"),
            &[],
            100,
            &[("cache-control", "private")],
        );
    }
    host.analysis.step();
    let text = received(&mut lines);
    let trace = Trace::read(std::io::Cursor::new(text), "capture.csv", None).unwrap();
    let accesses: Vec<Access> = trace.map(Result::unwrap).collect();
    let objects: std::collections::HashSet<u64> = accesses.iter().map(|access| access.id).collect();
    assert_eq!((accesses.len(), objects.len()), (300, 100));
    // What comes is counted with header lines that stored responses share.
    let stored = host.shards.engine().used().bytes() as f64;
    let captured = accesses.iter().map(|access| access.size).sum::<u64>() as f64 / 3.0;
    assert!(
        (captured / stored - 1.0).abs() < 0.05,
        "{captured} {stored}"
    );
    drop(lines);
    assert!(host.analysis.shared.captures.last().is_none());
    // Without the analysis, a capture is the only reader.
    host.analysis
        .shared
        .is_enabled
        .store(false, Ordering::Relaxed);
    let mut lines = host.analysis.shared.captures.begin(1.0).unwrap();
    host.analysis.step();
    host.ask("/0", &[], 100, &[DAY]);
    host.analysis.step();
    let text = String::from_utf8(received(&mut lines)).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
}

fn received(lines: &mut mpsc::Receiver<Bytes>) -> Vec<u8> {
    std::iter::from_fn(|| lines.try_recv().ok())
        .flatten()
        .collect()
}
