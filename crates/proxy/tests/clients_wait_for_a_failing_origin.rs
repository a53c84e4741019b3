//! Failure: what the origin says about stale responses counts for nothing beside `s-maxage`; or
//! each client waits for an origin that fails, before it gets the stale response.

use crate::wire::{self, Asked, Client, Node, Origin, say};
use larder_proxy::{HttpConfig, Timeouts, Upstream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// An origin that answers until it is stopped, and from then on is silent until the test ends.
struct Stopped {
    is_stopped: AtomicBool,
    silent: AtomicUsize,
    has_ended: Mutex<bool>,
    end: Condvar,
}

fn origin(control: &'static str) -> (Origin, Arc<Stopped>) {
    let (is_stopped, silent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let stopped = Arc::new(Stopped {
        is_stopped,
        silent,
        has_ended: Mutex::new(false),
        end: Condvar::new(),
    });
    let of_origin = Arc::clone(&stopped);
    let origin = Origin::new(move |_: &Asked, stream| {
        if of_origin.is_stopped.load(Ordering::SeqCst) {
            of_origin.silent.fetch_add(1, Ordering::SeqCst);
            let ended = of_origin.has_ended.lock().unwrap();
            drop(of_origin.end.wait_while(ended, |ended| !*ended).unwrap());
            return false;
        }
        // Stale already.
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncache-control: {control}\r\nage: 30\r\ncontent-length: 4\r\n\r\npage"
            ),
        )
    });
    (origin, stopped)
}

fn config(origin: &Origin) -> HttpConfig {
    let timeouts = Timeouts {
        origin_response: Duration::from_millis(300),
        ..Timeouts::default()
    };
    HttpConfig {
        timeouts,
        ..wire::config(Upstream::Http(
            format!("http://{}", origin.address).parse().unwrap(),
        ))
    }
}

#[test]
fn s_maxage_makes_stale_while_revalidate_void() {
    for strict_s_maxage in [false, true] {
        let (origin, _) = origin("s-maxage=1, stale-while-revalidate=600");
        let mut config = config(&origin);
        config.cache.strict_s_maxage = strict_s_maxage;
        let node = Node::with(&config);
        let mut client = Client::new(&node);
        assert!(!client.get("/").is_hit());
        assert_eq!(client.get("/").is_hit(), !strict_s_maxage);
    }
}

#[test]
fn each_client_waits_for_a_silent_origin() {
    for control in [
        "s-maxage=1, stale-if-error=600",
        "max-age=1, stale-if-error=600",
        "max-age=1",
    ] {
        let (origin, stopped) = origin(control);
        let node = Node::with(&config(&origin));
        let mut client = Client::new(&node);
        assert_eq!(client.get("/").status, 200);
        stopped.is_stopped.store(true, Ordering::SeqCst);
        let first = client.get("/");
        assert_eq!(
            (first.status, first.text().as_str()),
            (200, "page"),
            "{control}"
        );
        assert!(
            first.header("cache-status").contains("fwd=stale"),
            "{control}: the first one waits"
        );
        for _ in 0..20 {
            let seen = client.get("/");
            assert_eq!(
                (seen.status, seen.text().as_str()),
                (200, "page"),
                "{control}"
            );
            assert!(seen.is_hit(), "{control}: {}", seen.header("cache-status"));
        }
        assert!(
            stopped.silent.load(Ordering::SeqCst) < 10,
            "the origin is left alone"
        );
        *stopped.has_ended.lock().unwrap() = true;
        stopped.end.notify_all();
    }
}
