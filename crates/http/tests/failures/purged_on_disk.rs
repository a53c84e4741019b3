//! Failure: a response of the disk is served or stored although it was purged while it was read, or
//! may have been purged unnoticed.

use crate::stage::{Fields, Request, Stage, config, get, headers, request};
use bytes::Bytes;
use larder_http::limits::TIER_FIRST_BYTES;
use larder_http::{
    Cache, Config, Exchange, JoinResult, Purge, PurgeVerdict, ResponseHead, Scope, SecondTier,
    Step, TierHit, TierResponse, TierStep, UpstreamFailure,
};
use larder_units::{ByteSize, Streams, Time};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

const OLD: Fields<'static> = &[
    ("cache-control", "max-age=60, stale-if-error=600"),
    ("etag", "\"a\""),
    ("surrogate-key", "tag"),
];

/// A disk that keeps everything, and says what the test says of what was read.
#[derive(Clone)]
struct Disk {
    records: Arc<Mutex<HashMap<Box<[u8]>, Bytes>>>,
    verdict: Arc<Mutex<PurgeVerdict>>,
}

impl SecondTier for Disk {
    fn request(&mut self, key: &[u8]) -> bool {
        self.has(key)
    }

    fn put(&mut self, key: &[u8], _variant: u32, response: [Bytes; 2]) -> bool {
        let response = response.concat().into();
        self.records.lock().unwrap().insert(key.into(), response);
        true
    }

    fn waiting(&self) -> u64 {
        0
    }

    fn remove(&mut self, key: &[u8]) {
        self.records.lock().unwrap().remove(key);
    }

    fn remove_variant(&mut self, key: &[u8], _variant: u32) {
        self.remove(key);
    }

    fn purge(&mut self, _purge: &Purge) {}

    fn capacity(&self) -> u64 {
        u64::MAX
    }

    fn has(&self, key: &[u8]) -> bool {
        self.records.lock().unwrap().contains_key(key)
    }

    fn verdict(&self, _key: &[u8], _position: u64, _response: &[u8]) -> PurgeVerdict {
        *self.verdict.lock().unwrap()
    }
}

impl Disk {
    /// A disk with the response to `/a`, and a cache that has it there alone.
    fn with(body: &str) -> (Disk, Stage) {
        let disk = Disk {
            records: Arc::default(),
            verdict: Arc::new(Mutex::new(PurgeVerdict::Kept)),
        };
        disk.cache().ask(&get("/a"), 200, OLD, body);
        let stage = disk.cache();
        (disk, stage)
    }

    fn cache(&self) -> Stage {
        let mut stage = Stage::new();
        let queue = ByteSize::from_bytes(1 << 16);
        stage.cache.set_tier(Box::new(self.clone()), queue);
        stage
    }

    /// What becomes of a request for `/a` when the disk has been read.
    fn found(&self, stage: &mut Stage, exchange: Box<Exchange>) -> TierStep {
        let key = exchange.tier_key().expect("it is on the disk");
        let bytes = self.records.lock().unwrap()[&key].clone();
        let response = if bytes.len() > TIER_FIRST_BYTES {
            TierResponse::First {
                bytes: bytes.slice(..TIER_FIRST_BYTES),
                length: bytes.len() as u64,
                record: Arc::new(()),
            }
        } else {
            let room = stage.cache.budget().reserve(bytes.len() as u64).unwrap();
            TierResponse::Whole { bytes, room }
        };
        let found = TierHit {
            response,
            expired: false,
            position: 1,
        };
        let (asked, now): (Request, _) = (get("/a"), stage.now);
        let (cache, outbox) = (&mut stage.cache, &mut stage.outbox);
        cache.on_tier_lookup(exchange, Some(found), &asked.head(), now, outbox)
    }

    /// The same for a response that the origin has to confirm.
    fn held(&self, stage: &mut Stage, exchange: Box<Exchange>) -> Box<Exchange> {
        match self.found(stage, exchange) {
            TierStep::Forward(exchange) if exchange.is_held() => exchange,
            step => panic!("{step:?}"),
        }
    }
}

fn hard(scope: Scope) -> Purge {
    Purge { scope, soft: false }
}

#[test]
fn a_purge_comes_while_the_disk_is_read() {
    for verdict in [
        PurgeVerdict::Kept,
        PurgeVerdict::Expired,
        PurgeVerdict::Purged,
    ] {
        let (disk, mut stage) = Disk::with("old");
        let exchange = stage.open(&get("/a"));
        *disk.verdict.lock().unwrap() = verdict;
        let seen = match disk.found(&mut stage, exchange) {
            TierStep::Answer(answer) if answer.status == 200 => PurgeVerdict::Kept,
            TierStep::Forward(exchange) => {
                let is_held = exchange.is_held();
                stage.abandon(exchange);
                if is_held {
                    PurgeVerdict::Expired
                } else {
                    PurgeVerdict::Purged
                }
            }
            step => panic!("{step:?}"),
        };
        assert_eq!(seen, verdict);
    }
}

/// Failure: a purge is recorded, but has not reached the disk, and a response from there counts as
/// requested after it: a 304 stores it again.
#[test]
fn a_304_confirms_what_the_disk_has_not_purged_yet() {
    let (disk, mut stage) = Disk::with("old");
    stage.wait(61);
    let purge = hard(Scope::Everything);
    let position = stage.cache.note_purge(&purge);
    let exchange = stage.open(&get("/a"));
    let exchange = disk.held(&mut stage, exchange);
    stage.cache.begin_purge(&purge);
    stage.cache.purge_tier(&purge, position);
    assert_eq!(stage.cache.continue_purge(&purge, 0, stage.now).next, None);
    stage.reply(exchange, 304, OLD, "");
    assert!(!stage.is_hit(&get("/a")));
}

/// Failure: a request that comes after a purge by tag gets the purged response of the disk from an
/// earlier request, which the origin has confirmed.
#[test]
fn a_follower_gets_a_purged_response_of_the_disk() {
    for (tag, is_purged) in [("tag", true), ("other", false)] {
        let (disk, mut stage) = Disk::with(&"old".repeat(TIER_FIRST_BYTES));
        stage.wait(61);
        let exchange = stage.open(&get("/a"));
        let exchange = disk.held(&mut stage, exchange);
        let purge = hard(Scope::Tag(tag.to_owned()));
        stage.cache.purge(&purge, 0, stage.now);
        let Step::Follow(follower) = stage.cache.on_request(&get("/a").head(), stage.now) else {
            panic!("it does not follow");
        };
        stage.reply(exchange, 304, OLD, "");
        let joined = stage.cache.join(follower, &get("/a").headers);
        let is_again = matches!(joined, JoinResult::Again(_));
        assert_eq!(is_again, is_purged, "{joined:?}");
    }
}

/// Failure: while the origin fails, a response of the disk that may have been purged is served.
#[test]
fn an_untrusted_response_of_the_disk_is_served_stale() {
    let (disk, mut stage) = Disk::with("old");
    stage.wait(61);
    let fails = |stage: &mut Stage| {
        let exchange = stage.open(&get("/a"));
        match disk.found(stage, exchange) {
            TierStep::Answer(answer) => (false, answer.status.as_u16()),
            TierStep::Forward(exchange) => {
                let answer = stage.fail(exchange, UpstreamFailure::Unreachable);
                (true, answer.status.as_u16())
            }
            step => panic!("{step:?}"),
        }
    };
    assert_eq!(fails(&mut stage), (true, 200));
    stage.cache.trust_since(stage.now.time);
    assert_eq!(fails(&mut stage), (true, 504));
    // The origin is known to fail, and is not asked.
    stage.cache.trust_since(Time::ZERO);
    assert_eq!(fails(&mut stage), (false, 200));
}

/// Failure: a large body that was requested before a purge is cut into slices for the disk.
#[test]
fn a_body_of_before_a_purge_is_cut() {
    for (tag, is_stored) in [("tag", false), ("other", true)] {
        let (disk, mut stage) = Disk::with("old");
        let config = Config {
            slice: ByteSize::from_bytes(4096),
            max_object: ByteSize::from_bytes(8192),
            ..config(16 << 20, "lru")
        };
        stage.cache = Cache::new(&config, &Streams::new(1)).unwrap();
        let queue = ByteSize::from_bytes(1 << 16);
        stage.cache.set_tier(Box::new(disk), queue);
        let exchange = stage.open(&get("/large"));
        let purge = hard(Scope::Tag(tag.to_owned()));
        stage.cache.purge(&purge, 0, stage.now);
        let more = [("accept-ranges", "bytes"), ("content-length", "20000")];
        let head = ResponseHead {
            status: http::StatusCode::OK,
            version: http::Version::HTTP_11,
            headers: headers(&[OLD, &more].concat()),
        };
        let reply = stage.respond(exchange, head);
        stage.break_off(reply);
        let head = request(http::Method::HEAD, "/large");
        assert_eq!(stage.is_hit(&head), is_stored, "{tag}");
    }
}
