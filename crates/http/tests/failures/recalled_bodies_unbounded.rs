//! Failure: bodies from the disk that clients read slowly are in no store and in no budget, and
//! fill the memory.

use crate::stage::{Stage, get, request};
use bytes::Bytes;
use http::Method;
use larder_http::{
    Answer, Completion, Exchange, Purge, PurgeVerdict, Scope, SecondTier, Step, TierHit,
    TierResponse, TierStep,
};
use larder_units::ByteSize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

const MAX_AGE: crate::stage::Fields<'static> = &[("cache-control", "max-age=600")];

/// A disk that keeps everything, and shows it to the test.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<HashMap<Box<[u8]>, Bytes>>>);

impl SecondTier for Disk {
    fn request(&mut self, key: &[u8]) -> bool {
        self.0.lock().unwrap().contains_key(key)
    }

    fn put(&mut self, key: &[u8], _variant: u32, response: [Bytes; 2]) -> bool {
        self.0
            .lock()
            .unwrap()
            .insert(key.into(), response.concat().into());
        true
    }

    fn waiting(&self) -> u64 {
        0
    }

    fn remove(&mut self, key: &[u8]) {
        self.0.lock().unwrap().remove(key);
    }

    fn remove_variant(&mut self, key: &[u8], _variant: u32) {
        self.remove(key);
    }

    fn purge(&mut self, _purge: &Purge) {}

    fn capacity(&self) -> u64 {
        u64::MAX
    }

    fn has(&self, key: &[u8]) -> bool {
        self.0.lock().unwrap().contains_key(key)
    }

    fn verdict(&self, key: &[u8], _position: u64, _response: &[u8]) -> PurgeVerdict {
        if self.0.lock().unwrap().contains_key(key) {
            PurgeVerdict::Kept
        } else {
            PurgeVerdict::Purged
        }
    }
}

/// As a host does it; `None` where there is no room.
fn tier_lookup(stage: &mut Stage, disk: &Disk, target: &str) -> Option<Answer> {
    let asked = request(Method::GET, target);
    let exchange: Box<Exchange> = match stage.cache.on_request(&asked.head(), stage.now) {
        Step::Forward(exchange) => exchange,
        step => panic!("{step:?}"),
    };
    let response = disk.0.lock().unwrap()[&exchange.tier_key().unwrap()].clone();
    let Some(room) = stage.cache.budget().reserve(response.len() as u64) else {
        stage.abandon(exchange);
        return None;
    };
    let tier_hit = TierHit {
        response: TierResponse::Whole {
            bytes: response,
            room,
        },
        expired: false,
        position: 1,
    };
    match stage.cache.on_tier_lookup(
        exchange,
        Some(tier_hit),
        &asked.head(),
        stage.now,
        &mut stage.outbox,
    ) {
        TierStep::Answer(answer) => Some(answer),
        other => panic!("{other:?}"),
    }
}

/// A disk that has not written anything yet.
#[derive(Clone, Default)]
struct Queue(Arc<Mutex<Vec<[Bytes; 2]>>>);

impl SecondTier for Queue {
    fn request(&mut self, _key: &[u8]) -> bool {
        false
    }

    fn put(&mut self, _key: &[u8], _variant: u32, response: [Bytes; 2]) -> bool {
        self.0.lock().unwrap().push(response);
        true
    }

    fn waiting(&self) -> u64 {
        self.0
            .lock()
            .unwrap()
            .iter()
            .flatten()
            .map(|part| part.len() as u64)
            .sum()
    }

    fn remove(&mut self, _key: &[u8]) {}

    fn remove_variant(&mut self, _key: &[u8], _variant: u32) {
        self.put(b"", 0, [Bytes::new(), Bytes::new()]);
    }

    fn purge(&mut self, _purge: &Purge) {}

    fn capacity(&self) -> u64 {
        u64::MAX
    }

    fn has(&self, _key: &[u8]) -> bool {
        false
    }

    fn verdict(&self, _key: &[u8], _position: u64, _response: &[u8]) -> PurgeVerdict {
        PurgeVerdict::Purged
    }
}

/// Failure: a renewed response waits for a slow disk and holds the budget of bodies in progress,
/// and a small cache stores nothing until it is written.
#[test]
fn what_waits_for_the_disk_keeps_others_from_being_stored() {
    let mut stage = Stage::with(1 << 20, "lru");
    let queue = Queue::default();
    stage
        .cache
        .set_tier(Box::new(queue.clone()), ByteSize::from_bytes(1 << 20));
    let (body, half) = ("x".repeat(30_000), stage.cache.filling_limit().bytes() / 2);
    let fields: crate::stage::Fields<'_> = &[MAX_AGE[0], ("etag", "\"1\"")];
    for number in 0..10 {
        stage.ask(&get(&format!("/{number}")), 200, fields, &body);
    }
    // All of that is written.
    assert_eq!(std::mem::take(&mut *queue.0.lock().unwrap()).len(), 10);
    stage.wait(601);
    for number in 0..10 {
        let seen = stage.ask(&get(&format!("/{number}")), 304, fields, "");
        assert_eq!((seen.status, seen.body.len()), (200, 30_000));
    }
    let waiting = queue.0.lock().unwrap().clone();
    let written: Vec<usize> = waiting.iter().map(|[_, body]| body.len()).collect();
    assert_eq!(
        written,
        [30_000, 30_000, 0, 0, 0, 0, 0, 0, 0, 0],
        "two are renewed there, the others removed"
    );
    let everything = Purge {
        scope: Scope::Everything,
        soft: false,
    };
    assert_eq!(stage.cache.purge(&everything, 0, stage.now).objects, 10);
    assert_eq!(
        stage.cache.filling().bytes(),
        60_000,
        "which is below {half}"
    );
    stage.wait(1);
    let stored = Some(Completion::Stored);
    assert_eq!(
        stage
            .ask(
                &get("/new"),
                200,
                fields,
                &"y".repeat(half as usize - 20_000)
            )
            .completion,
        stored
    );
    drop(waiting);
    queue.0.lock().unwrap().clear();
    assert_eq!(stage.cache.filling().bytes(), 0);
}

#[test]
fn what_was_recalled_is_counted_until_its_last_reader_has_it() {
    const CAPACITY: u64 = 1 << 20;
    // Of larger ones, the store wants none when it is full.
    let mut stage = Stage::with(CAPACITY, "threshold(c=50000)+lru");
    let disk = Disk::default();
    stage
        .cache
        .set_tier(Box::new(disk.clone()), ByteSize::from_bytes(CAPACITY / 16));
    let limit = CAPACITY / 4 - CAPACITY / 16;
    assert_eq!(
        stage.cache.filling_limit().bytes(),
        limit,
        "the queue's share is taken from it"
    );
    let large = "x".repeat(60_000);
    for number in 0..30 {
        stage.ask(&get(&format!("/large/{number}")), 200, MAX_AGE, &large);
    }
    for number in 0..30 {
        stage.ask(
            &get(&format!("/small/{number}")),
            200,
            MAX_AGE,
            &large[..45_000],
        );
    }
    let mut reading: Vec<Answer> = Vec::new();
    for number in 0..10 {
        match tier_lookup(&mut stage, &disk, &format!("/large/{number}")) {
            Some(answer) => {
                assert_eq!(answer.body, large.as_bytes());
                reading.push(answer);
            }
            None => break,
        }
    }
    let held = stage.cache.filling().bytes();
    assert!(
        reading.len() == 2 && held > 120_000 && held <= limit,
        "{} hold {held}",
        reading.len()
    );
    // A part of one holds all of it.
    let part = reading.pop().unwrap().body.slice(..1);
    drop(reading);
    assert_eq!(stage.cache.filling().bytes(), held / 2);
    drop(part);
    assert_eq!(stage.cache.filling().bytes(), 0);
    // What the store takes is counted there, but for the head that was read with it.
    let used = stage.cache.engine().used().bytes();
    let answer = tier_lookup(&mut stage, &disk, "/small/0").unwrap();
    assert_eq!(answer.body.len(), 45_000);
    assert!(stage.cache.filling().bytes() < 1000);
    assert!(stage.cache.engine().used().bytes().abs_diff(used) < 100_000);
}
