//! Failure: clients that get other variants of a page wait for each other at the origin, one after
//! another.

use crate::wire::{self, Asked, Client, Node, Origin, say};
use larder_proxy::rules::Rule;
use larder_proxy::{HttpConfig, Upstream};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const CLIENTS: usize = 10;

/// Requests that are under way at the origin. Each waits until there are as many as expected.
#[derive(Default)]
struct Gate {
    state: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Gate {
    fn expect(&self, expected: usize) {
        *self.state.lock().unwrap() = (0, expected);
    }

    /// Waits, with a limit so that a failing test ends. Returns true if all have come.
    fn pass(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        let limit = Duration::from_secs(10);
        let waited = self
            .changed
            .wait_timeout_while(state, limit, |(come, expected)| come < expected)
            .unwrap();
        !waited.1.timed_out()
    }
}

fn origin(gate: &Arc<Gate>, control: &'static str, vary: &'static str) -> Origin {
    let gate = Arc::clone(gate);
    Origin::new(move |asked: &Asked, stream| {
        let body = if gate.pass() {
            asked.header("cookie").unwrap_or("none").to_owned()
        } else {
            "alone".to_owned()
        };
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncache-control: {control}\r\nvary: {vary}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ),
        )
    })
}

/// Asks with so many cookies at once. Returns the bodies.
fn ask(address: SocketAddr, cookies: &[String]) -> Vec<String> {
    std::thread::scope(|scope| {
        let client = |cookie: &String| {
            let cookie = cookie.clone();
            scope.spawn(move || {
                Client::to(address)
                    .send("GET", "/", &[("cookie", &cookie)], b"")
                    .text()
            })
        };
        let clients: Vec<_> = cookies.iter().map(client).collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    })
}

fn cookies(name: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{name}={number}"))
        .collect()
}

fn config(origin: &Origin) -> HttpConfig {
    wire::config(Upstream::Http(
        format!("http://{}", origin.address).parse().unwrap(),
    ))
}

/// After the first response, all that get another variant are under way at once.
#[test]
fn clients_with_other_cookies_are_served_one_after_another() {
    for control in ["public, max-age=60", "private, max-age=60", "no-cache"] {
        let gate = Arc::new(Gate::default());
        let origin = origin(&gate, control, "Cookie");
        let node = Node::with(&config(&origin));
        // The first one shows what varies.
        gate.expect(1);
        assert_eq!(
            ask(node.address, &cookies("first", 1)),
            ["first=0"],
            "{control}"
        );
        for round in 0..3 {
            gate.expect(CLIENTS);
            let sent = cookies(&format!("round-{round}"), CLIENTS);
            assert_eq!(ask(node.address, &sent), sent, "{control}");
        }
    }
}

/// Those that wait when it becomes known what varies go to the origin together.
#[test]
fn what_varies_is_learned_by_one_client_at_a_time() {
    let gates: Arc<[Gate; 2]> = Arc::default();
    let first = Mutex::new(true);
    let of_origin = Arc::clone(&gates);
    let origin = Origin::new(move |asked: &Asked, stream| {
        let is_first = std::mem::take(&mut *first.lock().unwrap());
        let all = of_origin[usize::from(!is_first)].pass();
        let body = if all {
            asked.header("cookie").unwrap().to_owned()
        } else {
            "alone".to_owned()
        };
        let head = "cache-control: public, max-age=60\r\nvary: Cookie";
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ),
        )
    });
    let node = Node::with(&config(&origin));
    // The first, and this test, when all others wait for the first.
    gates[0].expect(2);
    gates[1].expect(CLIENTS - 1);
    let sent = cookies("id", CLIENTS);
    let address = node.address;
    let bodies = std::thread::scope(|scope| {
        let clients = scope.spawn(|| ask(address, &sent));
        node.await_figure("collapsed", CLIENTS as u64 - 1);
        gates[0].pass();
        clients.join().unwrap()
    });
    assert_eq!(bodies, sent);
}

/// Failure: a rule switches collapsing off, and requests wait for each other all the same.
#[test]
fn a_rule_that_forbids_collapsing_is_ignored() {
    let gate = Arc::new(Gate::default());
    let origin = origin(&gate, "public, max-age=60", "Accept");
    let rules = vec![Rule {
        collapse: Some(false),
        ..Rule::default()
    }];
    let node = Node::with(&HttpConfig {
        rules,
        ..config(&origin)
    });
    gate.expect(CLIENTS);
    let sent = cookies("id", CLIENTS);
    assert_eq!(ask(node.address, &sent), sent);
}
