//! Failure: thirty clients reload one page at once, and the origin is asked thirty times; or a
//! reload gets what was asked for before it.

use crate::wire::{self, Client, Node, Origin, Seen, say};
use larder_proxy::{ClientNoCache, Upstream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const CLIENTS: usize = 30;

/// Answers wait until it is opened.
#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn wait(&self) {
        let is_open = self.0.lock().unwrap();
        let _ = self
            .1
            .wait_timeout_while(is_open, Duration::from_secs(15), |is_open| !*is_open)
            .unwrap();
    }
}

/// Counts its answers in their bodies, from the second on behind the gate; `validates` answers 304
/// to who asks for that.
fn origin(gate: &Arc<Gate>, validates: bool) -> Origin {
    let (gate, count) = (Arc::clone(gate), AtomicUsize::new(0));
    Origin::new(move |asked, stream| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        if number > 1 {
            gate.wait();
        }
        let head = "cache-control: max-age=600\r\netag: \"1\"\r\n";
        if validates && asked.header("if-none-match").is_some() {
            return say(stream, &format!("HTTP/1.1 304 Not Modified\r\n{head}\r\n"));
        }
        say(
            stream,
            &format!("HTTP/1.1 200 OK\r\n{head}content-length: 3\r\n\r\n{number:03}"),
        )
    })
}

fn ask(node: &Node, wish: Option<&'static str>) -> JoinHandle<Seen> {
    let address = node.address;
    std::thread::spawn(move || {
        let wish: Vec<_> = wish
            .map(|wish| ("cache-control", wish))
            .into_iter()
            .collect();
        Client::to(address).send("GET", "/page", &wish, b"")
    })
}

#[test]
fn thirty_reloads_at_once_cost_one_fetch_or_validation() {
    for wish in ["no-cache", "max-age=0"] {
        for validates in [false, true] {
            let gate = Arc::new(Gate::default());
            let origin = origin(&gate, validates);
            let node = Node::of(origin.address);
            Client::new(&node).get("/page");
            node.await_figure("stored", 1);
            let clients: Vec<_> = (0..CLIENTS).map(|_| ask(&node, Some(wish))).collect();
            node.await_figure("collapsed", CLIENTS as u64 - 1);
            gate.open();
            let expected = if validates { "001" } else { "002" };
            for client in clients {
                let seen = client.join().unwrap();
                assert_eq!(
                    (seen.status, seen.text().as_str()),
                    (200, expected),
                    "{wish}"
                );
            }
            assert_eq!(origin.requests(), 2, "{wish}");
        }
    }
}

/// A plain request that is under way is not enough for a reload. What comes after the reload
/// follows it.
#[test]
fn a_reload_is_not_answered_with_what_was_asked_for_before_it() {
    let gate = Arc::new(Gate::default());
    let origin = origin(&gate, false);
    let node = Node::of(origin.address);
    Client::new(&node).get("/other");
    let plain = ask(&node, None);
    node.await_figure("requests", 2);
    let reload = ask(&node, Some("no-cache"));
    for _ in 0..500 {
        if origin.requests() == 3 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let after: Vec<_> = [None, Some("no-cache"), Some("max-age=0")]
        .map(|wish| ask(&node, wish))
        .into();
    node.await_figure("collapsed", 3);
    gate.open();
    assert_eq!(plain.join().unwrap().status, 200);
    let reloaded = reload.join().unwrap().text();
    for client in after {
        assert_eq!(client.join().unwrap().text(), reloaded);
    }
    assert_eq!(origin.requests(), 3);
}

#[test]
fn an_operator_may_have_reloads_ignored() {
    let gate = Arc::new(Gate::default());
    gate.open();
    let origin = origin(&gate, false);
    let upstream = Upstream::Http(format!("http://{}", origin.address).parse().unwrap());
    let mut config = wire::config(upstream);
    config.cache.client_no_cache = ClientNoCache::Ignore;
    let node = Node::with(&config);
    let mut client = Client::new(&node);
    client.get("/page");
    for wish in [
        ("cache-control", "no-cache"),
        ("cache-control", "max-age=0"),
        ("pragma", "no-cache"),
    ] {
        assert!(
            client.send("GET", "/page", &[wish], b"").is_hit(),
            "{wish:?}"
        );
    }
    assert_eq!(origin.requests(), 1);
}
