//! Failure: a page for one is given to another; or a page for everybody is fetched for each.

use crate::wire::{Asked, Origin, say};
use crate::{Place, noise};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Two edges over one node.
fn network(origin: &Origin) -> (Place, Place, Place, Place) {
    let far = Place::far(origin.address, "");
    let between = Place::between(&far);
    let (one, other) = (Place::edge(&between.tcp(), ""), Place::edge(&between.tcp(), ""));
    (one, other, between, far)
}

#[test]
fn two_edges_share_what_the_node_between_has() {
    let large = noise(400_000);
    let origin = Origin::new(move |_, stream| {
        say(stream, "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 400000\r\n\r\n")
            && stream.write_all(&large).is_ok()
    });
    let (one, other, between, far) = network(&origin);
    let first = one.client().send("GET", "/page", &[("user-agent", "one"), ("accept", "*/*")], b"");
    let segments = far.figure("/gateway/segments");
    let second = other.client().send("GET", "/page", &[("user-agent", "other"), ("accept", "*/*")], b"");
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

#[test]
fn everybody_has_a_session_of_his_own() {
    let sessions = AtomicUsize::new(0);
    let origin = Origin::new(move |asked: &Asked, stream| {
        // So that both ask at the same time.
        std::thread::sleep(Duration::from_millis(100));
        let number = sessions.fetch_add(1, Ordering::SeqCst);
        let fields = match asked.line.contains("private") {
            true => "cache-control: private, max-age=60\r\n".to_owned(),
            false => format!("set-cookie: session={number}\r\n"),
        };
        let body = format!("for {number}");
        say(stream, &format!("HTTP/1.1 200 OK\r\n{fields}content-length: {}\r\n\r\n{body}", body.len()))
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
    let cookie = |cookie: &str| one.client().send("GET", "/own", &[("cookie", cookie)], b"").text();
    assert_ne!(cookie("a=1"), cookie("a=1"), "the same request of the same client is another");
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
            &format!("HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
        )
    });
    let (one, other, _between, _far) = network(&origin);
    assert_eq!(one.client().get("/a").text(), "version 0");
    assert_eq!(other.client().get("/a").text(), "version 0");
    let reload = one.client().send("GET", "/a", &[("cache-control", "no-cache")], b"");
    assert_eq!(reload.text(), "version 1");
}
