//! Failure: a page for one is given to another; or a page for everybody is fetched for each.

use super::{Place, fetch_by_name, noise};
use crate::wire::{Asked, Origin, say};
use larder_client::{Client, Received, Transport};
use larder_packet::{InterestBuilder, Name, types};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Two edges over one node.
fn network(origin: &Origin) -> (Place, Place, Place, Place) {
    let far = Place::far(origin.address, "");
    let between = Place::between(&far);
    let (one, other) = (
        Place::edge(&between.tcp(), ""),
        Place::edge(&between.tcp(), ""),
    );
    (one, other, between, far)
}

#[test]
fn two_edges_share_what_the_node_between_has() {
    let large = noise(400_000);
    let origin = Origin::new(move |_, stream| {
        say(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 400000\r\n\r\n",
        ) && stream.write_all(&large).is_ok()
    });
    let (one, other, between, far) = network(&origin);
    let first = one.client().send(
        "GET",
        "/page",
        &[("user-agent", "one"), ("accept", "*/*")],
        b"",
    );
    let segments = far.figure("/gateway/segments");
    let second = other.client().send(
        "GET",
        "/page",
        &[("user-agent", "other"), ("accept", "*/*")],
        b"",
    );
    assert!(first.body == noise(400_000) && second.body == first.body);
    assert_eq!(origin.requests(), 1);
    assert_eq!(segments, 50);
    assert_eq!(
        far.figure("/gateway/segments"),
        segments,
        "no segment came twice over the link behind the node between"
    );
    assert!(between.figure("/ndn/content_store/hits") > 50);
}

/// Failure: every answer that names an unchanged body sends all of it over the network again; or
/// one that has changed is put together of old and new parts.
#[test]
fn an_unchanged_body_crosses_the_network_once() {
    let large = noise(400_000);
    let origin = Origin::new(move |asked: &Asked, stream| {
        let tag = match asked.line.split(' ').nth(1).unwrap() {
            "/weak" => "W/\"1\"",
            "/changed" if asked.header("accept-language") == Some("fr") => "\"2\"",
            _ => "\"1\"",
        };
        let fields = format!("etag: {tag}\r\ncache-control: max-age=60\r\ncontent-length: 400000");
        let of = if tag == "\"2\"" {
            &large[1..]
        } else {
            &large[..]
        };
        say(stream, &format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n"))
            && stream.write_all(of).is_ok()
            && stream.write_all(&large[..400_000 - of.len()]).is_ok()
    });
    let (one, other, _between, far) = network(&origin);
    let get = |edge: &Place, host: &str, target: &str, language: &str| {
        let mut client = edge.client();
        client.host = host.to_owned();
        let seen = client.send("GET", target, &[("accept-language", language)], b"");
        assert_eq!(
            (seen.status, seen.body.len(), seen.cut),
            (200, 400_000, false),
            "{target}"
        );
        seen.body
    };
    let mut sent = 0;
    // A body has 50 segments. A few may be sent twice, on a slow machine.
    for (host, target, again) in [
        ("a", "/same", false),
        ("a", "/weak", true),
        ("a", "/changed", true),
        ("b", "/same", false),
    ] {
        let requests = origin.requests();
        // Another question, so that its answer is in no Content Store.
        let first = get(&one, host, target, "de");
        let second = get(&other, host, target, "fr");
        assert_eq!(first == second, target != "/changed", "{target}");
        assert!(
            first == noise(400_000)
                && second.starts_with(if target == "/changed" {
                    &first[1..]
                } else {
                    &first
                })
        );
        assert_eq!(origin.requests() - requests, 2, "{target}");
        let segments = segments_after(&far, sent + if again { 100 } else { 50 });
        assert!(
            again || segments - sent < 100,
            "{target} of {host}: {}",
            segments - sent
        );
        sent = segments;
    }
}

/// Failure: a Content Store keeps the word of a far node that it has not got a body, and every
/// later client gets half of it.
#[test]
fn that_a_body_was_gone_once_does_no_harm() {
    let large = noise(400_000);
    let origin = Origin::new(move |_, stream| {
        say(
            stream,
            "HTTP/1.1 200 OK\r\netag: \"1\"\r\ncache-control: max-age=60\r\ncontent-length: 400000\r\n\r\n",
        ) && stream.write_all(&large).is_ok()
    });
    let known = Place::far(origin.address, "");
    let (body, name) = fetch_by_name(&known, "/far/example.test/page").unwrap();
    assert!(body == noise(400_000));
    // Another far node of the same origin, as after a restart.
    let far = Place::far(origin.address, "");
    let between = Place::between(&far);
    let edge = Place::edge(&between.tcp(), "");
    for segment in [0, 7] {
        let mut name = name.clone();
        name.push_segment(segment);
        assert_eq!(ask_for(&between, &name), Some(types::CONTENT_NACK));
    }
    let seen = edge.client().get("/page");
    assert!((seen.status, seen.cut) == (200, false) && seen.body == noise(400_000));
    assert!(
        segments_after(&far, 50) < 100,
        "under the names that the other one gave them"
    );
    assert_eq!(
        ask_for(&between, name.clone().push_segment(7)),
        None,
        "the segment has taken the word's place"
    );
}

/// Waits until a far node has sent this number of segments, of which it tells a little later.
/// Returns the number.
fn segments_after(far: &Place, number: u64) -> u64 {
    let started = Instant::now();
    loop {
        let segments = far.figure("/gateway/segments");
        if segments >= number {
            return segments;
        }
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{segments} segments, not {number}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The content type of the Data of this name.
fn ask_for(node: &Place, name: &Name) -> Option<u64> {
    let mut client = Client::connect_to(Transport::unix(node.socket())).unwrap();
    let nonce = client.random_stream("nonces").bits() as u32;
    client.output().send(None, |out| {
        out.extend_from_slice(&InterestBuilder::new(name).nonce(nonce).build());
        true
    });
    let (mut found, patience) = (None, client.now() + Duration::from_secs(20));
    while found.is_none() && client.now() < patience {
        let received = client.receive(Some(patience), |_, received, _| {
            if let Received::Data { data, .. } = received {
                found = Some(data.content_type);
            }
        });
        received.unwrap();
    }
    found.expect("Data")
}

#[test]
fn everybody_has_a_session_of_his_own() {
    let sessions = AtomicUsize::new(0);
    let origin = Origin::new(move |asked: &Asked, stream| {
        // So that both ask at the same time.
        std::thread::sleep(Duration::from_millis(100));
        let number = sessions.fetch_add(1, Ordering::SeqCst);
        let fields = if asked.line.contains("private") {
            "cache-control: private, max-age=60\r\n".to_owned()
        } else {
            format!("set-cookie: session={number}\r\n")
        };
        let body = format!("for {number}");
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\n{fields}content-length: {}\r\n\r\n{body}",
                body.len()
            ),
        )
    });
    let (one, other, between, _far) = network(&origin);
    for target in ["/session", "/private", "/session"] {
        let (mut a, mut b) = (one.client(), other.client());
        let (a, b) = std::thread::scope(|scope| {
            let a = scope.spawn(move || a.get(target));
            let b = scope.spawn(move || b.get(target));
            (a.join().unwrap(), b.join().unwrap())
        });
        assert_eq!((a.status, b.status), (200, 200));
        assert_ne!(a.text(), b.text(), "{target}");
    }
    let cookie = |cookie: &str| {
        one.client()
            .send("GET", "/own", &[("cookie", cookie)], b"")
            .text()
    };
    assert_ne!(
        cookie("a=1"),
        cookie("a=1"),
        "the same request of the same client is another"
    );
    assert!(between.figure("/ndn/content_store/entries") < 100);
}

/// Failure: a purge, a reload or a page's end that a cache on the way does not hear of.
#[test]
fn a_reload_reaches_the_origin() {
    let version = AtomicUsize::new(0);
    let origin = Origin::new(move |_, stream| {
        let body = format!("version {}", version.fetch_add(1, Ordering::SeqCst));
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ),
        )
    });
    let (one, other, _between, _far) = network(&origin);
    assert_eq!(one.client().get("/a").text(), "version 0");
    assert_eq!(other.client().get("/a").text(), "version 0");
    let reload = one
        .client()
        .send("GET", "/a", &[("cache-control", "no-cache")], b"");
    assert_eq!(reload.text(), "version 1");
}
