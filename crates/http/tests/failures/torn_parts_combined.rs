//! Failure: a body consists of parts of two versions, or has a part in the wrong place; or a range
//! of a large object fetches, or stores, the whole object.

use crate::stage::get;
use crate::world::{Manner, SLICE, World};
use larder_http::Completion;
use proptest::prelude::*;

#[test]
fn a_range_fetches_and_stores_its_slices_only() {
    let mut world = World::new(100_000);
    let content = world.origin.content.clone();
    let got = world.range("bytes=50000-50099");
    assert_eq!((got.status, &got.body[..]), (206, &content[50_000..50_100]));
    assert_eq!(got.header("content-range"), "bytes 50000-50099/100000");
    assert_eq!(
        got.header("cache-status"),
        "larder; fwd=uri-miss; fwd-status=206"
    );
    assert_eq!(world.asked(), ["bytes=49152-53247"]);
    // Within the same slice, and by its end.
    for (range, part) in [
        ("bytes=49152-53247", 49_152..53_248),
        ("bytes=53247-53247", 53_247..53_248),
    ] {
        let got = world.range(range);
        assert!(
            got.is_hit() && got.body == content[part],
            "{range}: {got:?}"
        );
    }
    // Across slices, of which some are there: only the others are asked for.
    let got = world.range("bytes=49000-57400");
    assert_eq!((got.status, &got.body[..]), (206, &content[49_000..57_401]));
    assert!(
        got.header("cache-status")
            .starts_with("larder; fwd=partial; ttl=")
    );
    assert_eq!(
        world.asked(),
        [
            "bytes=45056-49151",
            "bytes=53248-57343",
            "bytes=57344-61439"
        ]
    );
    assert!(world.range("bytes=49000-57400").is_hit());
    let only = get("/")
        .with("range", "bytes=0-9")
        .with("cache-control", "only-if-cached");
    assert_eq!(world.fetch(&only).status, 504);
    // The end, whose place is known by now; the last slice is a short one.
    let got = world.range("bytes=-10");
    assert_eq!(
        (got.header("content-range"), &got.body[..]),
        ("bytes 99990-99999/100000", &content[99_990..])
    );
    assert_eq!(world.asked(), ["bytes=98304-99999"]);
    // HEAD, conditions, and what cannot be.
    let head = world.fetch(&crate::stage::request(http::Method::HEAD, "/"));
    assert_eq!(
        (head.status, head.header("content-length"), head.is_hit()),
        (200, "100000", true)
    );
    assert_eq!(
        world.fetch(&get("/").with("if-none-match", "\"1\"")).status,
        304
    );
    assert_eq!(world.range("bytes=100000-").status, 416);
    assert!(world.asked().is_empty());
    // All of it: combined with what is there (RFC 9111 §3.4).
    let got = world.fetch(&get("/"));
    assert_eq!(
        (got.status, got.body == content, got.header("content-range")),
        (200, true, "")
    );
    assert_eq!(world.asked().len(), 25 - 5);
    assert!(world.fetch(&get("/")).is_hit());
}

#[test]
fn several_ranges_in_slices_and_in_one_piece() {
    for length in [100_000, 3_000] {
        let mut world = World::new(length);
        let content = world.origin.content.clone();
        world.range("bytes=0-0");
        let got = world.range("bytes=0-9,1000-1009,-20");
        assert_eq!(got.status, 206);
        let boundary = got
            .header("content-type")
            .strip_prefix("multipart/byteranges; boundary=")
            .unwrap();
        assert_eq!(
            (got.header("content-range"), got.header("content-length")),
            ("", &*got.body.len().to_string())
        );
        let mut expected = Vec::new();
        for (first, end) in [(0, 10), (1000, 1010), (length - 20, length)] {
            let lines = format!(
                "\r\n--{boundary}\r\nContent-Range: bytes {first}-{}/{length}\r\n\r\n",
                end - 1
            );
            expected.extend_from_slice(lines.as_bytes());
            expected.extend_from_slice(&content[first..end]);
        }
        expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        assert_eq!(got.body, expected, "{length}");
    }
}

/// A part that is all of it is stored as a whole, and the client gets what it asked for.
#[test]
fn a_small_body_is_whole() {
    let mut world = World::new(3_000);
    let content = world.origin.content.clone();
    let got = world.range("bytes=100-199");
    assert_eq!((got.status, &got.body[..]), (206, &content[100..200]));
    assert_eq!(got.header("content-range"), "bytes 100-199/3000");
    assert_eq!(world.completions, [Completion::Stored]);
    let got = world.fetch(&get("/"));
    assert!(got.is_hit() && got.status == 200 && got.body == content);
    assert_eq!(world.asked(), ["bytes=0-4095"]);
    // Where the origin ignores ranges, too.
    let mut world = World::new(30_000);
    world.origin.manner = Manner::Ignores;
    let got = world.range("bytes=100-199");
    assert_eq!((got.status, got.body.len()), (206, 100));
    assert!(world.fetch(&get("/")).is_hit());
}

/// The object changes between two slices of one answer: that ends visibly, and the next answer is
/// all new.
#[test]
fn a_change_in_the_middle_breaks_off() {
    for (length, manner) in [
        (100_000, Manner::Exact),
        (40_000, Manner::Exact),
        (100_000, Manner::Unconditional),
    ] {
        let mut world = World::new(100_000);
        world.origin.manner = manner;
        world.range("bytes=0-100");
        world.range("bytes=90000-90100");
        world.origin.change(length);
        let got = world.range("bytes=0-20000");
        assert!(got.broken && got.body.len() == SLICE, "{got:?}");
        world.stage.wait(130);
        let content = world.origin.content.clone();
        let got = world.range("bytes=0-20000");
        assert_eq!((got.broken, &got.body[..]), (false, &content[..20_001]));
        // What is stored of the old one is not found again.
        let last = world.range("bytes=-100");
        assert_eq!(
            (last.broken, &last.body[..]),
            (false, &content[length - 100..])
        );
    }
}

#[test]
fn what_is_stale_is_validated_with_the_slice_it_needs() {
    let mut world = World::new(100_000);
    let content = world.origin.content.clone();
    world.range("bytes=5000-5001");
    world.stage.wait(60);
    world.asked();
    let got = world.range("bytes=5000-5002");
    assert_eq!((got.status, &got.body[..]), (206, &content[5000..5003]));
    assert!(
        got.header("cache-status")
            .starts_with("larder; fwd=stale; fwd-status=304")
    );
    assert_eq!(world.asked(), ["bytes=4096-8191 304"]);
    assert!(world.range("bytes=5000-5002").is_hit());
    // Changed meanwhile: the new slice comes with the answer.
    world.stage.wait(60);
    world.origin.change(50_000);
    let got = world.range("bytes=5000-9000");
    assert!(!got.broken && got.body == world.origin.content[5000..9001]);
    assert_eq!(world.asked(), ["bytes=4096-8191", "bytes=8192-12287"]);
    // What is confirmed by a weak tag is not known to be the same bytes.
    world.stage.wait(60);
    world.origin.manner = Manner::Weakens;
    world.asked();
    assert!(world.range("bytes=5000-9000").body == world.origin.content[5000..9001]);
    assert_eq!(
        world.asked(),
        ["bytes=4096-8191 304", "bytes=4096-8191", "bytes=8192-12287"]
    );
    world.origin.manner = Manner::Exact;
    // Shorter than before, so that its last bytes are elsewhere.
    world.stage.wait(60);
    world.origin.change(10_000);
    let got = world.range("bytes=-10");
    assert_eq!(
        (got.status, &got.body[..]),
        (206, &world.origin.content[9990..])
    );
    // The origin is gone: one slice that is there does, two do not.
    let mut world = World::new(100_000);
    world.range("bytes=5000-5001");
    world.stage.wait(60);
    world.origin.manner = Manner::Down;
    assert_eq!(world.range("bytes=5000-5002").status, 206);
    assert_eq!(world.range("bytes=5000-9000").status, 502);
}

/// What does not fit is neither combined nor passed off as what was asked for.
#[test]
fn an_origin_that_does_not_keep_to_the_range() {
    for manner in [Manner::Less, Manner::Lies, Manner::LengthUnknown] {
        let mut world = World::new(100_000);
        world.origin.manner = manner;
        world.range("bytes=50000-50099");
        // Asked again as the client did, and from then on only so.
        assert_eq!(
            world.asked(),
            ["bytes=49152-53247", "bytes=50000-50099"],
            "{manner:?}"
        );
        world.range("bytes=50000-50099");
        assert_eq!(world.asked(), ["bytes=50000-50099"], "{manner:?}");
        assert!(world.completions.is_empty(), "{manner:?}");
        // In the middle of an answer.
        let mut world = World::new(100_000);
        world.range("bytes=0-0");
        world.origin.manner = manner;
        let got = world.range("bytes=0-9999");
        assert!(
            got.broken && got.body == world.origin.content[..SLICE],
            "{manner:?}"
        );
    }
}

/// RFC 9111 §3.4: only what shares a strong validator is combined. And what may not be stored is
/// not.
#[test]
fn without_a_strong_validator_or_leave_nothing_is_sliced() {
    for (name, value) in [
        ("etag", "W/\"1\""),
        ("cache-control", "no-store"),
        ("cache-control", "private, max-age=60"),
        ("vary", "*"),
    ] {
        let mut world = World::new(100_000);
        world.origin.fields.push((name, value.into()));
        for _ in 0..2 {
            let got = world.range("bytes=50000-50099");
            assert_eq!(
                (got.status, &got.body[..]),
                (206, &world.origin.content[50_000..50_100]),
                "{name}: {value}"
            );
        }
        assert_eq!(
            world.asked(),
            [
                "bytes=49152-53247",
                "bytes=50000-50099",
                "bytes=50000-50099"
            ]
        );
        assert_eq!(world.stage.cache.engine().len(), 0);
    }
}

#[test]
fn if_range_of_the_client() {
    let mut world = World::new(100_000);
    let part = |tag: &str| {
        get("/")
            .with("range", "bytes=9000-9009")
            .with("if-range", tag)
    };
    assert_eq!(
        world.fetch(&part("\"1\"")).body,
        world.origin.content[9000..9010]
    );
    // Another version than it has: all of it, and not the part.
    let got = world.fetch(&part("\"0\""));
    assert_eq!((got.status, got.body == world.origin.content), (200, true));
    let mut world = World::new(100_000);
    let got = world.fetch(&part("\"0\""));
    assert_eq!((got.status, got.body == world.origin.content), (200, true));
    // Past the end of a newer, shorter version: what the client gets is decided by its condition.
    let mut world = World::new(100);
    assert_eq!(world.fetch(&part("\"0\"")).status, 200);
    assert_eq!(world.fetch(&part("\"1\"")).status, 416);
}

/// The last bytes of something unknown: passed through, and known from then on.
#[test]
fn a_last_part_teaches_the_length() {
    let mut world = World::new(100_000);
    let got = world.range("bytes=-100");
    assert_eq!(
        (got.status, &got.body[..]),
        (206, &world.origin.content[99_900..])
    );
    assert_eq!(world.asked(), ["bytes=-100"]);
    assert_eq!(
        world.range("bytes=-100").body,
        world.origin.content[99_900..]
    );
    assert_eq!(world.asked(), ["bytes=98304-99999"]);
    assert!(world.range("bytes=-100").is_hit());
}

/// A purge, or an unsafe request, takes the slices with the whole.
#[test]
fn slices_survive_no_purge() {
    for everything in [false, true] {
        let mut world = World::new(100_000);
        world.range("bytes=0-9000");
        world.asked();
        let scope = if everything {
            larder_http::Scope::Everything
        } else {
            larder_http::Scope::Exact("http://example.com/".parse().unwrap())
        };
        world.stage.wait(1);
        world.stage.cache.purge(
            &larder_http::Purge { scope, soft: false },
            0,
            world.stage.now,
        );
        world.stage.wait(1);
        world.range("bytes=0-9000");
        assert_eq!(world.asked().len(), 3);
    }
}

/// Failure: the head of slices, or of a last part, that was requested before a purge is stored
/// after it.
#[test]
fn a_head_of_before_a_purge_is_stored() {
    for range in ["bytes=0-99", "bytes=-100"] {
        for (target, is_stored) in [("/", false), ("/other", true)] {
            let mut world = World::new(100_000);
            let exchange = world.stage.open(&get("/").with("range", range));
            let headers = exchange.upstream_headers();
            let url = format!("http://example.com{target}");
            let scope = larder_http::Scope::Exact(url.parse().unwrap());
            let purge = larder_http::Purge { scope, soft: false };
            world.stage.cache.purge(&purge, 0, world.stage.now);
            world.forward(exchange, headers);
            let head = crate::stage::request(http::Method::HEAD, "/");
            assert_eq!(world.stage.is_hit(&head), is_stored, "{range}, {target}");
        }
    }
}

/// A slice that the store has no room for, or does not want, passes through.
#[test]
fn little_room() {
    for (capacity, policy) in [(20_000, "lru"), (60_000, "filter(theta=2)+fifo")] {
        let mut world = World::with(300_000, capacity, policy);
        let got = world.range("bytes=1000-");
        assert!(
            !got.broken && got.body == world.origin.content[1000..],
            "{policy}"
        );
        assert!(world.stage.cache.engine().used().bytes() <= capacity);
        assert_eq!(world.stage.cache.filling().bytes(), 0);
    }
}

fn manner() -> impl Strategy<Value = Manner> {
    use Manner::*;
    prop::sample::select(vec![
        Exact,
        Exact,
        Exact,
        Exact,
        Unconditional,
        Weakens,
        Ignores,
        Less,
        Lies,
        LengthUnknown,
        Down,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Whatever changes when: what a client gets whole is exactly a part of one version.
    #[test]
    fn no_answer_is_torn(
        steps in prop::collection::vec((0u64..70, 0usize..30_000, 0usize..30_000, manner(), any::<bool>(), 0u8..8), 1..25),
    ) {
        let mut world = World::with(20_000, 60_000, "lru");
        for (wait, first, more, manner, changes, form) in steps {
            world.stage.wait(wait / 3);
            world.origin.manner = manner;
            if changes && form > 4 {
                world.origin.change(10_000 + more);
            }
            let versions = [world.origin.content.clone()];
            let request = match form {
                0 => get("/"),
                1 => get("/").with("range", &format!("bytes=-{more}")),
                2 => get("/").with("range", &format!("bytes={first}-")),
                _ => get("/").with("range", &format!("bytes={first}-{}", first + more)),
            };
            let got = world.fetch(&request);
            if got.broken || ![200, 206].contains(&got.status) || manner == Manner::Lies {
                continue;
            }
            let place = got.header("content-range").strip_prefix("bytes ").and_then(|text| text.split('-').next()?.parse().ok());
            let (first, tag) = (place.unwrap_or(0), got.header("etag"));
            // A hit may be of an older version, which this origin no longer has: its bytes tell the
            // version of each.
            let version: usize = tag.trim_start_matches("W/").trim_matches('"').parse().unwrap();
            let byte = |at: usize| (at / 7 + at / 4096 * 31 + version * 101) as u8;
            prop_assert!(got.body.iter().enumerate().all(|(at, found)| *found == byte(first + at)), "{:?} {:?}", request.headers, got.headers);
            prop_assert!(got.status == 206 || got.body.len() >= 10_000.min(versions[0].len()));
        }
        prop_assert!(world.stage.cache.engine().used() <= world.stage.cache.engine().capacity());
    }
}
