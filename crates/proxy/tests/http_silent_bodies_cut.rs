//! Failure: a page of server-sent events, or a long poll, is cut because the origin is silent for
//! a while.

use crate::wire::{self, Client, Node, Origin, say, say_last};
use larder_proxy::{HttpConfig, Timeouts, Upstream};
use std::time::Duration;

const SILENCE: Duration = Duration::from_millis(900);

/// Says a half, and after a silence the other one.
fn origin(fields: &'static str) -> Origin {
    Origin::new(move |_, stream| {
        say(
            stream,
            &format!("HTTP/1.1 200 OK\r\n{fields}transfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n"),
        );
        std::thread::sleep(SILENCE);
        say_last(stream, "5\r\n-last\r\n0\r\n\r\n")
    })
}

fn node(origin: &Origin) -> Node {
    // A third of the silence; ten times as long for what is only passed on.
    let timeouts = Timeouts {
        origin_read: SILENCE / 3,
        ..Timeouts::default()
    };
    let upstream = Upstream::Http(format!("http://{}", origin.address).parse().unwrap());
    Node::with(&HttpConfig {
        timeouts,
        ..wire::config(upstream)
    })
}

#[test]
fn what_is_only_passed_on_may_be_silent() {
    let kinds = [
        "content-type: text/event-stream\r\n",
        "content-type: text/event-stream\r\ncache-control: no-cache\r\n",
        "content-type: text/event-stream\r\ncache-control: no-cache\r\netag: \"1\"\r\n",
        "content-type: text/event-stream\r\ncache-control: max-age=600\r\n",
        "content-type: application/json\r\ncache-control: no-store\r\n",
        "content-type: application/json\r\ncache-control: private\r\n",
        "content-type: application/json\r\n",
    ];
    let asked = kinds.map(|fields| {
        std::thread::spawn(move || {
            let origin = origin(fields);
            let node = node(&origin);
            (fields, Client::new(&node).get("/events"))
        })
    });
    for (fields, seen) in asked.map(|asked| asked.join().unwrap()) {
        assert!(
            !seen.cut && seen.body == b"first-last",
            "{fields:?}: {seen:?}"
        );
    }
}

/// Other clients may wait for it.
#[test]
fn a_page_that_is_stored_may_not() {
    let origin = origin("content-type: text/html\r\ncache-control: max-age=600\r\n");
    let node = node(&origin);
    assert!(Client::new(&node).get("/page").cut);
    node.await_figure("truncated", 1);
}
