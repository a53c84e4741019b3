//! Long work of the policy, and what several shards do to each other.

use super::*;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, ETAG, LOCATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use larder_http::{RequestHead, Scope};
use std::future::poll_fn;

fn config(capacity: ByteSize, policy: &str) -> Config {
    Config {
        capacity,
        policy: policy.parse().unwrap(),
        max_object: capacity,
        slice: ByteSize::from_bytes(0),
        targets: Vec::new(),
        compression: None,
        hash_key: [1; 16],
        ..Config::default()
    }
}

fn shards(count: u16) -> Arc<Shards> {
    with_capacity(ByteSize::from_mib(1), count)
}

fn with_capacity(capacity: ByteSize, count: u16) -> Arc<Shards> {
    Shards::with(&config(capacity, "lru"), &Streams::new(1), count, None).unwrap()
}

fn step(shards: &Arc<Shards>, method: &Method, target: &str) -> Next {
    let headers = HeaderMap::new();
    shards.step(
        &RequestHead {
            method,
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
    )
}

fn head(bytes: usize, fields: &[(http::HeaderName, &str)]) -> ResponseHead {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=1000"));
    for (name, value) in fields {
        headers.insert(name, HeaderValue::from_str(value).unwrap());
    }
    ResponseHead {
        status: StatusCode::OK,
        version: Version::HTTP_11,
        headers,
    }
}

/// One request. The origin answers with so many bytes. Returns true for a hit.
fn get(shards: &Arc<Shards>, target: &str, bytes: usize) -> bool {
    let mut exchange = match step(shards, &Method::GET, target) {
        Next::Answer(_) => return true,
        Next::Forward(exchange) => exchange,
        _ => return false,
    };
    exchange.take_headers(HeaderMap::new());
    let tag = format!("\"{bytes}\"");
    let reply = shards.on_response(
        exchange,
        head(
            bytes,
            &[(ETAG, &tag), ("surrogate-key".parse().unwrap(), "all")],
        ),
    );
    if let (Response::Relay(_, _, Some(mut fill)), _) = reply {
        fill.push(&vec![7; bytes]);
        fill.complete();
    }
    false
}

fn is_stored(shards: &Arc<Shards>, target: &str) -> bool {
    matches!(step(shards, &Method::GET, target), Next::Answer(_))
}

/// A path in another shard than `target` is in.
fn path_elsewhere(shards: &Shards, target: &str) -> String {
    let shard = |target: &str| shards.router.route("http", "example.com", target).shard();
    (0..)
        .map(|number| format!("/elsewhere/{number}"))
        .find(|path| shard(path) != shard(target))
        .unwrap()
}

/// Failure: after one search that panics, the policy is never tuned again.
#[test]
fn long_work_that_panics_is_over() {
    let shards = shards(1);
    for under_lock in [false, true] {
        shards.job_running.store(true, Ordering::Relaxed);
        let running = JobRunning(Arc::clone(&shards));
        let work = std::thread::spawn(move || {
            let _state = under_lock.then(|| running.0.shards[0].lock());
            panic!("on purpose");
        });
        assert!(work.join().is_err());
        assert!(!shards.job_running.load(Ordering::Relaxed));
    }
}

/// Failure: an object is refused because it is larger than one shard's part of the capacity; or
/// what it displaces stays in the memory of the other shards.
#[test]
fn a_large_object_fits_with_any_number_of_shards() {
    for count in [1, 16, 64] {
        let shards = with_capacity(ByteSize::from_mib(16), count);
        let largest = usize::try_from(shards.shards[0].lock().cache.max_object_bytes()).unwrap();
        for object in 0..1000 {
            get(&shards, &format!("/small/{object}"), 20_000);
        }
        shards.check_invariants();
        let before = shards.figures();
        assert!(
            before.engine.used().bytes() > 15 << 20 && before.counters.evicted > 0,
            "{count}: full"
        );
        assert!(
            !get(&shards, "/large", largest) && is_stored(&shards, "/large"),
            "{count}"
        );
        shards.check_invariants();
        let after = shards.figures();
        assert!(
            after.counters.evicted - before.counters.evicted > largest as u64 / 30_000,
            "{count}"
        );
        assert!(after.engine.used() <= after.engine.capacity());
    }
}

/// Failure: an unsafe request leaves the page that its Location names in another shard.
#[test]
fn an_unsafe_request_invalidates_another_shard() {
    let shards = shards(16);
    let page = path_elsewhere(&shards, "/form");
    get(&shards, &page, 10);
    assert!(is_stored(&shards, &page));
    let Next::Forward(mut exchange) = step(&shards, &Method::POST, "/form") else {
        panic!()
    };
    exchange.take_headers(HeaderMap::new());
    shards.on_response(exchange, head(0, &[(LOCATION, &page)]));
    assert!(!is_stored(&shards, &page));
}

/// Failure: a purge of more than one key misses a shard, or a response that was requested before it
/// is stored after it.
#[test]
fn a_purge_reaches_all_shards() {
    let url = |text: &str| text.parse().unwrap();
    for scope in [
        Scope::Everything,
        Scope::Tag("all".to_owned()),
        Scope::Prefix(url("http://example.com/a")),
    ] {
        let shards = shards(16);
        for object in 0..100 {
            get(&shards, &format!("/a/{object}"), 10);
        }
        let late: Vec<OpenExchange> = (100..200)
            .map(
                |object| match step(&shards, &Method::GET, &format!("/a/{object}")) {
                    Next::Forward(exchange) => exchange,
                    _ => panic!("nothing is stored"),
                },
            )
            .collect();
        assert_eq!(
            shards.purge(&Purge {
                scope: scope.clone(),
                soft: false
            }),
            100,
            "{scope:?}"
        );
        for exchange in late {
            let reply = shards.on_response(
                exchange,
                head(3, &[("surrogate-key".parse().unwrap(), "all")]),
            );
            let (Response::Relay(_, _, Some(mut fill)), _) = reply else {
                panic!()
            };
            fill.push(b"old");
            fill.complete();
        }
        assert!(
            (0..200).all(|object| !is_stored(&shards, &format!("/a/{object}"))),
            "{scope:?}"
        );
        shards.check_invariants();
    }
    let shards = shards(16);
    get(&shards, "/a", 10);
    get(&shards, "/b", 10);
    assert_eq!(
        shards.purge(&Purge {
            scope: Scope::Exact(url("http://example.com/a")),
            soft: false
        }),
        1
    );
    assert_eq!(
        (is_stored(&shards, "/a"), is_stored(&shards, "/b")),
        (false, true)
    );
}

/// Failure: a task that ends in the middle strands the requests that wait for it.
#[tokio::test]
async fn a_leader_that_ends_strands_nobody() {
    let shards = shards(4);
    let Next::Forward(leader) = step(&shards, &Method::GET, "/") else {
        panic!()
    };
    let Next::Follow(mut waiting) = step(&shards, &Method::GET, "/") else {
        panic!()
    };
    let Next::Follow(gone) = step(&shards, &Method::GET, "/") else {
        panic!()
    };
    let none = HeaderMap::new();
    let waits = tokio::spawn(async move { poll_fn(|cx| waiting.poll_end(&none, cx)).await });
    tokio::task::yield_now().await;
    drop(gone);
    drop(leader);
    assert!(matches!(waits.await.unwrap(), WaitEnd::Again(_)));
    shards.check_invariants();
    // The same in the middle of a body.
    let Next::Forward(mut leader) = step(&shards, &Method::GET, "/") else {
        panic!()
    };
    leader.take_headers(HeaderMap::new());
    let (Response::Relay(_, _, Some(mut fill)), _) = shards.on_response(leader, head(10, &[]))
    else {
        panic!()
    };
    let Next::Follow(mut waiting) = step(&shards, &Method::GET, "/") else {
        panic!()
    };
    let none = HeaderMap::new();
    let WaitEnd::Stream(_, _, mut reader) = poll_fn(|cx| waiting.poll_end(&none, cx)).await else {
        panic!()
    };
    fill.push(b"half");
    let reads = tokio::spawn(async move {
        let first = poll_fn(|cx| reader.poll_piece(cx)).await;
        (first, poll_fn(|cx| reader.poll_piece(cx)).await)
    });
    tokio::task::yield_now().await;
    drop(fill);
    assert_eq!(
        reads.await.unwrap(),
        (Some(Ok(Bytes::from_static(b"half"))), Some(Err(BrokenOff)))
    );
    assert!(
        shards
            .shards
            .iter()
            .all(|shard| shard.lock().bodies.is_empty())
    );
    assert_eq!(shards.figures().filling.bytes(), 0);
}

/// Failure: threads that store, hit, purge and evict at the same time leave shards and engine in
/// disagreement, or the cache with more than its capacity.
#[test]
fn threads_leave_the_cache_consistent() {
    let shards = shards(16);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let shards = &shards;
            scope.spawn(move || {
                let mut stream = Streams::new(thread).stream("requests");
                for _ in 0..3000 {
                    let object = (stream.unit() * stream.unit() * 400.0) as u64;
                    match stream.below(100) {
                        0 => {
                            let url = format!("http://example.com/{object}").parse().unwrap();
                            shards.purge(&Purge {
                                scope: Scope::Exact(url),
                                soft: object.is_multiple_of(2),
                            });
                        }
                        1 if object == 0 => {
                            shards.purge(&Purge {
                                scope: Scope::Tag("all".to_owned()),
                                soft: false,
                            });
                        }
                        _ => {
                            get(
                                shards,
                                &format!("/{object}"),
                                (object * object % 20_011) as usize,
                            );
                        }
                    }
                }
            });
        }
    });
    shards.check_invariants();
    let figures = shards.figures();
    assert!(figures.engine.used() <= figures.engine.capacity());
    assert!(
        figures.counters.hits > 1000 && figures.counters.evicted > 100,
        "{:?}",
        figures.counters
    );
    assert_eq!(figures.filling.bytes(), 0);
}

/// Failure: a change of capacity, policy or sizes between requests loses the content, exceeds the
/// new capacity, or leaves index, engine and budget in contradiction.
#[test]
fn a_reconfiguration_loses_the_content_or_breaks_the_cache() {
    const POLICIES: [&str; 6] = [
        "lru",
        "fifo",
        "agd",
        "tinylfu+s3fifo",
        "filter(theta=2)+lru",
        "arc",
    ];
    for seed in 0..6 {
        let mut random = Streams::new(seed).stream("reconfigurations");
        let shards = with_capacity(ByteSize::from_mib(1), 4);
        let mut capacity = 1 << 20;
        for round in 0..40 {
            for _ in 0..50 {
                let target = format!("/{}", random.below(200));
                get(&shards, &target, 100 + (random.below(40) * 400) as usize);
            }
            let before = shards.figures().engine;
            let policy = POLICIES[random.below(POLICIES.len() as u64) as usize];
            capacity = if round % 2 == 0 {
                1 << 20
            } else {
                (64 << 10) + random.below(900 << 10)
            };
            let config = Config {
                max_object: ByteSize::from_bytes(capacity),
                slice: ByteSize::from_bytes(random.below(2) * (1 << 16)),
                ..config(ByteSize::from_bytes(capacity), policy)
            };
            shards.reconfigure(&config, &Streams::new(round)).unwrap();
            shards.check_invariants();
            let after = shards.figures().engine;
            assert_eq!(
                (after.capacity().bytes(), after.spec().to_string()),
                (capacity, policy.to_owned())
            );
            assert!(after.used() <= after.capacity());
            // What fits stays.
            if before.used().bytes() <= capacity {
                assert_eq!(
                    (after.len(), after.used()),
                    (before.len(), before.used()),
                    "{policy}"
                );
            } else {
                assert!(
                    !after.is_empty() || capacity < 64 << 10,
                    "{policy}: everything has left"
                );
            }
        }
        assert_eq!(shards.figures().engine.capacity().bytes(), capacity);
    }
}

/// Failure: the content is there, and is not found any more.
#[test]
fn a_stored_response_is_a_miss_after_a_change_of_the_policy() {
    let shards = shards(4);
    for number in 0..20 {
        _ = get(&shards, &format!("/{number}"), 1000);
    }
    for policy in ["fifo", "agd", "s3fifo", "lru"] {
        shards
            .reconfigure(&config(ByteSize::from_mib(2), policy), &Streams::new(1))
            .unwrap();
        for number in 0..20 {
            assert!(
                get(&shards, &format!("/{number}"), 1000),
                "{policy}: /{number}"
            );
        }
        shards.check_invariants();
    }
}
