//! Failure: a response that is an object of a store is another one, was purged, or is older than
//! it says; or it is written for nothing.

use crate::stage::{Request, Seen, Stage, get, headers};
use bytes::Bytes;
use larder_http::{
    Exchange, ObjectHead, ObjectTier, OfferedObject, Purge, ReadObject, Scope, object_head_bytes,
};
use larder_units::{ByteSize, Time};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

type Names = HashMap<(Box<[u8]>, u32), Vec<u8>>;

/// The objects of a store, and how often one was written.
#[derive(Clone, Default)]
struct Bucket(Arc<Mutex<(Names, usize, Vec<u64>)>>);

/// Objects of fewer bytes are not worth their price.
const LEAST: u64 = 3;

impl ObjectTier for Bucket {
    fn is_worth(&self, bytes: u64) -> bool {
        bytes >= LEAST
    }

    fn was_fetched(&mut self, hash: u64) -> bool {
        let (_, _, fetched) = &mut *self.0.lock().unwrap();
        let was = fetched.contains(&hash);
        fetched.push(hash);
        was
    }

    fn offer(&mut self, offered: OfferedObject) -> bool {
        let (objects, writes, _) = &mut *self.0.lock().unwrap();
        if !offered.is_new && objects.contains_key(&(offered.key.clone(), offered.variant)) {
            return false;
        }
        *writes += 1;
        if let Some(note) = offered.note {
            objects.insert((offered.key.clone(), 0), note.to_vec());
        }
        let bytes = [&offered.head[..], &offered.body].concat();
        objects.insert((offered.key, offered.variant), bytes);
        true
    }

    fn remove(&mut self, _: &[u8]) {}
}

impl Bucket {
    fn writes(&self) -> usize {
        self.0.lock().unwrap().1
    }

    fn get(&self, key: &[u8], variant: u32) -> Option<Vec<u8>> {
        let (objects, ..) = &*self.0.lock().unwrap();
        objects.get(&(key.into(), variant)).cloned()
    }

    /// A cache with room for a response or two.
    fn cache(&self, writer: u8) -> Stage {
        let mut stage = Stage::with(2000, "lru");
        let tier = Box::new(self.clone());
        let queue = ByteSize::from_bytes(0);
        stage.cache.set_objects(tier, [writer; 16], queue);
        stage
    }

    /// What the store has for a request.
    fn read(&self, stage: &Stage, exchange: &Exchange) -> Option<(ReadObject, Vec<u8>)> {
        let key = exchange.object_key()?;
        let mut variant = 0;
        loop {
            let bytes = self.get(&key, variant)?;
            match stage
                .cache
                .read_object(exchange, &bytes, bytes.len() as u64, stage.now)
            {
                ReadObject::Variant(other) if other != variant => variant = other,
                read => return Some((read, bytes)),
            }
        }
    }

    /// One request, which an object answers.
    fn ask_fresh(&self, stage: &mut Stage, request: &Request) -> Seen {
        let mut exchange = stage.open(request);
        let (read, bytes) = self.read(stage, &exchange).expect("an object");
        let ReadObject::Fresh(mut head, fresh) = read else {
            panic!("{read:?}");
        };
        exchange.set_object(&mut head.headers, Some(fresh));
        reply(stage, exchange, &head, &bytes)
    }

    /// One request, which an object answers after the origin has confirmed it.
    fn ask_confirmed(&self, stage: &mut Stage, request: &Request) -> Seen {
        let mut exchange = stage.open(request);
        let (read, bytes) = self.read(stage, &exchange).expect("an object");
        let ReadObject::Stale(mut head) = read else {
            panic!("{read:?}");
        };
        let mut asked = exchange.upstream_headers();
        head.set_validators(&mut asked);
        assert_eq!(asked["if-none-match"], "\"a\"");
        let said = [("etag", "\"a\""), ("cache-control", "max-age=60")];
        assert!(head.confirm(&headers(&said)));
        exchange.set_object(&mut head.headers, None);
        reply(stage, exchange, &head, &bytes)
    }

    /// Whether the store has nothing for a request.
    fn is_unusable(&self, stage: &mut Stage, request: &Request) -> bool {
        let exchange = stage.open(request);
        let read = self.read(stage, &exchange);
        stage.abandon(exchange);
        matches!(read, None | Some((ReadObject::Unusable, _)))
    }
}

fn reply(stage: &mut Stage, exchange: Box<Exchange>, head: &ObjectHead, bytes: &[u8]) -> Seen {
    assert_eq!((bytes.len() - head.start) as u64, head.body_bytes);
    let texts = head.headers.iter();
    let fields: Vec<(&str, &str)> = texts
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    let body = std::str::from_utf8(&bytes[head.start..]).unwrap();
    stage.reply(exchange, head.status.as_u16(), &fields, body)
}

const LARGE: &str = "0123456789012345678901234567890123456789";

const FIELDS: [(&str, &str); 3] = [
    ("cache-control", "max-age=60"),
    ("etag", "\"a\""),
    ("surrogate-key", "tag"),
];

/// A bucket with the response to `/a`, which the cache that wrote it has no more.
fn written() -> (Bucket, Stage) {
    let bucket = Bucket::default();
    let mut stage = bucket.cache(1);
    stage.ask(&get("/a"), 200, &FIELDS, LARGE);
    assert!(stage.is_hit(&get("/a")));
    evict(&mut stage);
    (bucket, stage)
}

fn evict(stage: &mut Stage) {
    for number in 0..20 {
        let target = format!("/{number}");
        stage.ask(
            &get(&target),
            200,
            &[("cache-control", "max-age=60")],
            LARGE,
        );
    }
    assert!(!stage.is_hit(&get("/a")));
}

/// Failure: each response is written although nobody asks for it again; or each hit writes.
#[test]
fn an_object_is_written_for_one_request() {
    let bucket = Bucket::default();
    let mut stage = bucket.cache(1);
    stage.ask(&get("/a"), 200, &FIELDS, LARGE);
    assert_eq!(bucket.writes(), 0);
    // The first hit goes the long way, which offers it.
    assert!(!stage.is_plain_hit("/a"));
    assert!(stage.is_hit(&get("/a")));
    assert_eq!(bucket.writes(), 1);
    assert!(stage.is_plain_hit("/a") && stage.is_hit(&get("/a")));
    assert_eq!(bucket.writes(), 1);
    // Without a hit in memory, the second fetch is the sign.
    stage.ask(&get("/b"), 200, &FIELDS, LARGE);
    evict(&mut stage);
    stage.ask(&get("/b"), 200, &FIELDS, LARGE);
    assert_eq!(bucket.writes(), 2);
    // It is not worth its price, or of no use later.
    for (target, fields, body) in [
        ("/c", &FIELDS[..], "ab"),
        ("/d", &FIELDS[..1], LARGE),
        ("/e", &[("cache-control", "no-store")], LARGE),
    ] {
        stage.ask(&get(target), 200, fields, body);
        stage.is_hit(&get(target));
        stage.is_hit(&get(target));
    }
    assert_eq!(bucket.writes(), 2);
    // Each variant for itself.
    let fields = [&FIELDS[..], &[("vary", "user-agent")]].concat();
    for agent in 0..10 {
        let request = get("/g").with("user-agent", &agent.to_string());
        stage.ask(&request, 200, &fields, LARGE);
    }
    assert_eq!(bucket.writes(), 2);
    // A page that changes often.
    for version in 0..10 {
        stage.wait(61);
        let body = format!("{LARGE}{version}");
        stage.ask(&get("/h"), 200, &FIELDS, &body);
        assert!(stage.is_hit(&get("/h")));
    }
    assert_eq!(bucket.writes(), 3);
}

/// Failure: an object is fresh longer than the response was, or is written again.
#[test]
fn an_object_is_older_than_it_says() {
    let (bucket, mut stage) = written();
    stage.wait(20);
    let seen = bucket.ask_fresh(&mut stage, &get("/a"));
    assert_eq!((seen.status, &seen.body[..]), (200, LARGE.as_bytes()));
    assert_eq!(
        seen.header("cache-status"),
        "larder; fwd=uri-miss; fwd-status=200; stored; ttl=40; detail=object-store"
    );
    let hit = stage.ask_store(&get("/a"));
    let age: u64 = hit.header("age").parse().unwrap();
    assert!((20..=21).contains(&age), "{age}");
    assert_eq!(hit.header("etag"), "\"a\"");
    assert_eq!(bucket.writes(), 1);
    stage.wait(41);
    assert!(!stage.is_hit(&get("/a")));
    // As an object it is stale, too.
    evict(&mut stage);
    let seen = bucket.ask_confirmed(&mut stage, &get("/a"));
    assert_eq!(&seen.body[..], LARGE.as_bytes());
    let hit = stage.ask_store(&get("/a"));
    assert_eq!(
        (
            hit.header("age"),
            hit.header("via").matches("larder").count()
        ),
        ("0", 1)
    );
    assert_eq!(bucket.writes(), 1);
}

/// Failure: what another cache has written, or this one before a restart, is served although it may
/// have been purged.
#[test]
fn an_object_of_another_cache_is_not_confirmed() {
    let (bucket, _) = written();
    let mut other = bucket.cache(2);
    let seen = bucket.ask_confirmed(&mut other, &get("/a"));
    assert_eq!(&seen.body[..], LARGE.as_bytes());
    assert_eq!(other.ask_store(&get("/a")).header("surrogate-key"), "tag");
    // A 304 for another representation.
    let mut third = bucket.cache(3);
    let exchange = third.open(&get("/a"));
    let Some((ReadObject::Stale(mut head), _)) = bucket.read(&third, &exchange) else {
        panic!("it is not stale");
    };
    assert!(!head.confirm(&headers(&[("etag", "\"b\"")])));
    third.abandon(exchange);
}

/// Failure: the origin has replaced or removed a response, and its object brings it back.
#[test]
fn a_replaced_response_comes_back() {
    // Without a stored response, a reload asks, and the answer is not stored.
    let news = [
        (404, &[("cache-control", "no-store")][..]),
        (200, &[("cache-control", "no-store")]),
        (200, &[("cache-control", "max-age=1")]),
        (301, &[("location", "/other")]),
    ];
    for (status, fields) in news {
        let (bucket, mut stage) = written();
        let reload = get("/a").with("cache-control", "no-cache");
        stage.ask(&reload, status, fields, "other");
        evict(&mut stage);
        // It is another page's word until the origin confirms it.
        bucket.ask_confirmed(&mut stage, &get("/a"));
    }
    // A 304 that forbids to keep it.
    let (bucket, mut stage) = written();
    let mut exchange = stage.open(&get("/a").with("cache-control", "no-cache"));
    let Some((ReadObject::Stale(mut head), bytes)) = bucket.read(&stage, &exchange) else {
        panic!("a reload is not confirmed");
    };
    let said = [("etag", "\"a\""), ("cache-control", "no-store")];
    assert!(head.confirm(&headers(&said)));
    exchange.set_object(&mut head.headers, None);
    reply(&mut stage, exchange, &head, &bytes);
    bucket.ask_confirmed(&mut stage, &get("/a"));
    // A HEAD that tells of another one.
    let (bucket, mut stage) = written();
    bucket.ask_fresh(&mut stage, &get("/a"));
    let head = crate::stage::request(http::Method::HEAD, "/a").with("cache-control", "no-cache");
    stage.ask(
        &head,
        200,
        &[("etag", "\"b\""), ("content-length", "7")],
        "",
    );
    evict(&mut stage);
    bucket.ask_confirmed(&mut stage, &get("/a"));
}

/// Failure: a hit offers the version before while the body of the next one arrives.
#[test]
fn a_response_is_replaced_while_it_is_offered() {
    let bucket = Bucket::default();
    let mut stage = bucket.cache(1);
    let lasting = [("cache-control", "max-age=9000"), ("etag", "\"a\"")];
    stage.ask(&get("/a"), 200, &lasting, LARGE);
    let reload = stage.open(&get("/a").with("cache-control", "no-cache"));
    let length = LARGE.len().to_string();
    let newer = [&lasting[..], &[("content-length", &*length)]].concat();
    let mut fill = stage.begin(reload, &newer);
    assert!(stage.is_hit(&get("/a")));
    assert_eq!(bucket.writes(), 1);
    stage.push(&mut fill, LARGE.as_bytes());
    stage.complete(fill);
    evict(&mut stage);
    bucket.ask_confirmed(&mut stage, &get("/a"));
}

/// Failure: a 304 shortens the life of a response, or gives it a tag, and its object keeps those of
/// before.
#[test]
fn a_response_is_renewed() {
    let bucket = Bucket::default();
    let mut stage = bucket.cache(1);
    let lasting = [("cache-control", "max-age=9000"), ("etag", "\"a\"")];
    stage.ask(&get("/a"), 200, &lasting, LARGE);
    assert!(stage.is_hit(&get("/a")));
    let reload = get("/a").with("cache-control", "no-cache");
    stage.ask(&reload, 304, &FIELDS, "");
    evict(&mut stage);
    bucket.ask_confirmed(&mut stage, &get("/a"));
}

/// Failure: an older version is written later than a newer one, or the newer one is not written at
/// all.
#[test]
fn an_older_version_is_written_last() {
    let bucket = Bucket::default();
    let mut stage = bucket.cache(1);
    let key = b"http example.com /a";
    let mut first = None;
    for version in 1..=2 {
        let fields = [("cache-control", "max-age=9000"), ("etag", "\"a\"")];
        stage.ask(
            &get("/a").with("cache-control", "no-cache"),
            200,
            &fields,
            LARGE,
        );
        assert!(stage.is_hit(&get("/a")));
        assert_eq!(bucket.writes(), version);
        first = first.or(bucket.get(key, 0));
        stage.wait(3700);
    }
    evict(&mut stage);
    let first = first.unwrap();
    let exchange = stage.open(&get("/a"));
    let read = |bytes: &[u8]| {
        let whole = bytes.len() as u64;
        stage.cache.read_object(&exchange, bytes, whole, stage.now)
    };
    assert!(matches!(
        read(&bucket.get(key, 0).unwrap()),
        ReadObject::Fresh(..)
    ));
    assert!(matches!(read(&first), ReadObject::Stale(_)));
    stage.abandon(exchange);
}

/// Failure: a cookie is given to everybody because it was stored with another setting.
#[test]
fn an_object_has_a_cookie() {
    let bucket = Bucket::default();
    let shares = |writer, share_cookies| {
        let config = larder_http::Config {
            share_cookies,
            ..crate::stage::config(2000, "lru")
        };
        let mut stage = bucket.cache(writer);
        stage.cache.reconfigure(&Arc::new(config));
        stage
    };
    let fields = [&FIELDS[..], &[("set-cookie", "a=1")]].concat();
    let mut stage = shares(1, true);
    stage.ask(&get("/a"), 200, &fields, LARGE);
    assert!(stage.is_hit(&get("/a")));
    assert_eq!(bucket.writes(), 1);
    bucket.ask_confirmed(&mut shares(2, true), &get("/a"));
    assert!(bucket.is_unusable(&mut shares(3, false), &get("/a")));
}

/// Failure: a purged response comes back as an object.
#[test]
fn a_purged_object_is_served() {
    let url = "http://example.com/a".parse().unwrap();
    let scopes = [
        Scope::Exact(url),
        Scope::Tag("tag".into()),
        Scope::Prefix("http://example.com/".parse().unwrap()),
        Scope::Everything,
    ];
    for scope in scopes {
        for soft in [false, true] {
            let (bucket, mut own) = written();
            let mut other = bucket.cache(2);
            let purge = Purge {
                scope: scope.clone(),
                soft,
            };
            for stage in [&mut own, &mut other] {
                stage.cache.purge(&purge, 0, stage.now);
                if soft {
                    bucket.ask_confirmed(stage, &get("/a"));
                } else {
                    assert!(bucket.is_unusable(stage, &get("/a")), "{purge:?}");
                }
            }
        }
    }
    // An unsafe request does the same.
    let (bucket, mut stage) = written();
    stage.ask(
        &crate::stage::request(http::Method::POST, "/a"),
        200,
        &[],
        "done",
    );
    assert!(bucket.is_unusable(&mut stage, &get("/a")));
}

/// Failure: an object of a cache that has executed many purges counts as requested after the purge
/// of another one, which has executed few.
#[test]
fn the_purges_of_two_caches_are_compared() {
    let bucket = Bucket::default();
    let (mut own, mut other) = (bucket.cache(1), bucket.cache(2));
    let purge = |tag: &str| Purge {
        scope: Scope::Tag(tag.into()),
        soft: false,
    };
    for _ in 0..3 {
        own.cache.purge(&purge("another tag"), 0, own.now);
    }
    own.ask(&get("/a"), 200, &FIELDS, LARGE);
    assert!(own.is_hit(&get("/a")));
    assert!(!bucket.is_unusable(&mut other, &get("/a")));
    other.cache.purge(&purge("tag"), 0, other.now);
    assert!(bucket.is_unusable(&mut other, &get("/a")));
}

/// Failure: a response is stored although it was purged between the object's reading and the end of
/// its body.
#[test]
fn a_purge_comes_while_an_object_is_read() {
    let (bucket, mut stage) = written();
    let mut exchange = stage.open(&get("/a"));
    let Some((ReadObject::Fresh(mut head, fresh), bytes)) = bucket.read(&stage, &exchange) else {
        panic!("it is not fresh");
    };
    let purge = Purge {
        scope: Scope::Tag("tag".into()),
        soft: false,
    };
    stage.cache.purge(&purge, 0, stage.now);
    exchange.set_object(&mut head.headers, Some(fresh));
    reply(&mut stage, exchange, &head, &bytes);
    assert!(!stage.is_hit(&get("/a")));
}

/// Failure: a client gets another variant, or its own is not found.
#[test]
fn an_object_is_of_another_variant() {
    let bucket = Bucket::default();
    let mut stage = bucket.cache(1);
    let asked = |language| get("/a").with("accept-language", language);
    for language in ["de", "fr"] {
        let fields = [&FIELDS[..], &[("vary", "accept-language")]].concat();
        let body = format!("{LARGE}{language}");
        stage.ask(&asked(language), 200, &fields, &body);
        assert!(stage.is_hit(&asked(language)));
    }
    assert_eq!(bucket.writes(), 2);
    let mut other = bucket.cache(2);
    for language in ["fr", "de"] {
        let seen = bucket.ask_confirmed(&mut other, &asked(language));
        assert!(seen.body.ends_with(language.as_bytes()));
    }
    assert!(bucket.is_unusable(&mut other, &asked("it")));
    assert!(bucket.is_unusable(&mut other, &get("/a")));
}

/// Failure: an object answers a request that asks for something else, or the client has a say that
/// is not heard.
#[test]
fn an_object_answers_another_request() {
    let (bucket, mut stage) = written();
    let requests = [
        get("/a").with("range", "bytes=0-3"),
        get("/a").with("if-none-match", "\"a\""),
        get("/a").with("cache-control", "no-store"),
        get("/a").with("authorization", "Basic YTpi"),
        crate::stage::request(http::Method::HEAD, "/a"),
        crate::stage::request(http::Method::POST, "/a"),
    ];
    for request in requests {
        let exchange = stage.open(&request);
        assert_eq!(exchange.object_key(), None, "{:?}", request.headers);
        stage.abandon(exchange);
    }
    stage.wait(1);
    for directive in ["no-cache", "max-age=0"] {
        bucket.ask_confirmed(&mut stage, &get("/a").with("cache-control", directive));
        evict(&mut stage);
    }
    // The node does not know which purges it has missed.
    let later = stage.now.time + std::time::Duration::from_nanos(1);
    stage.cache.trust_since(later);
    bucket.ask_confirmed(&mut stage, &get("/a"));
    stage.cache.trust_since(Time::ZERO);
}

/// Failure: bytes that are no object, or that of another URL, are served.
#[test]
fn bytes_are_taken_for_an_object() {
    let (bucket, mut stage) = written();
    let exchange = stage.open(&get("/a"));
    let other = stage.open(&get("/other"));
    let key = exchange.object_key().unwrap();
    let whole = bucket.get(&key, 0).unwrap();
    let is_unusable = |exchange: &Exchange, bytes: &[u8]| {
        let read = stage
            .cache
            .read_object(exchange, bytes, bytes.len() as u64, stage.now);
        matches!(read, ReadObject::Unusable)
    };
    assert!(!is_unusable(&exchange, &whole));
    assert!(is_unusable(&other, &whole));
    let head = object_head_bytes(&whole).unwrap();
    assert_eq!(whole.len() - head, LARGE.len());
    for length in 0..head {
        assert!(is_unusable(&exchange, &whole[..length]), "{length}");
    }
    // The body is cut.
    assert!(is_unusable(&exchange, &whole[..whole.len() - 1]));
    assert_eq!(object_head_bytes(b"LRO"), None);
    assert_eq!(object_head_bytes(b"<Error><Code>"), Some(0));
    assert_eq!(object_head_bytes(b"LRO1\xff\xff\xff\xff"), Some(0));
    stage.abandon(exchange);
    stage.abandon(other);
}

proptest! {
    #[test]
    fn no_object_panics(at in 0..400_usize, with in proptest::collection::vec(any::<u8>(), 0..8)) {
        let (bucket, mut stage) = written();
        let exchange = stage.open(&get("/a"));
        let mut bytes = bucket.get(&exchange.object_key().unwrap(), 0).unwrap();
        let at = at.min(bytes.len() - with.len());
        bytes[at..at + with.len()].copy_from_slice(&with);
        let bytes = Bytes::from(bytes);
        if let ReadObject::Stale(mut head) = stage.cache.read_object(&exchange, &bytes, bytes.len() as u64, stage.now) {
            head.confirm(&headers(&FIELDS));
        }
        stage.abandon(exchange);
    }
}
