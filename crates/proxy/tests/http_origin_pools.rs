//! Failure: an origin that fails gets every request of every client, clients hang while it does, or
//! nobody sees its state; a limit or a weight of a server is ignored; a reload forgets its health.

use crate::wire::{self, Client, Node, Origin, say, say_last};
use larder_proxy::{HttpConfig, OriginGroup, PoolServer, Timeouts, Upstream};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

fn server(address: SocketAddr) -> PoolServer {
    PoolServer::from(format!("http://{address}").parse::<http::Uri>().unwrap())
}

fn config(group: OriginGroup) -> HttpConfig {
    HttpConfig {
        origins: vec![OriginGroup {
            path: "/".into(),
            ..group
        }],
        ..wire::config(Upstream::Generated)
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\ncache-control: max-age=1, stale-if-error=600\r\ncontent-length: 2\r\n\r\nok";

/// An origin that does not answer while `is_down`.
fn silent(is_down: &Arc<AtomicBool>) -> Origin {
    let is_down = Arc::clone(is_down);
    Origin::new(move |_, stream| {
        if is_down.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_secs(3));
            return false;
        }
        say(stream, OK)
    })
}

/// An origin that closes connections without a response while `is_down`.
fn failing(is_down: &Arc<AtomicBool>) -> Origin {
    let is_down = Arc::clone(is_down);
    Origin::new(move |_, stream| !is_down.load(Ordering::SeqCst) && say(stream, OK))
}

fn member(node: &Node, at: usize) -> Value {
    node.status()["pools"][0]["servers"][at].clone()
}

/// Failure: a program that crashes at one page takes all other pages away, because whoever requests
/// that page a few times makes the only server a dead one.
#[test]
fn a_page_that_crashes_takes_no_other_page_away() {
    let origin = Origin::new(|asked, stream| match asked.line.contains("/bad") {
        true if asked.line.contains("malformed") => say_last(stream, "SSH-2.0-OpenSSH_9.0\r\n\r\n"),
        true => false,
        false => say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"),
    });
    // Nobody listens there, and no other test gets the port.
    let vacant = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    vacant
        .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .unwrap();
    let vacant = || server(vacant.local_addr().unwrap().as_socket().unwrap());
    for others in [
        vec![],
        vec![vacant()],
        vec![PoolServer {
            is_backup: true,
            ..vacant()
        }],
    ] {
        let servers = [vec![server(origin.address)], others].concat();
        let node = Node::with(&config(OriginGroup {
            servers,
            ..OriginGroup::default()
        }));
        let mut client = Client::new(&node);
        for target in ["/bad", "/bad/malformed"] {
            for number in 0..10 {
                assert_eq!(client.get(&format!("{target}/{number}")).status, 502)
            }
            assert_eq!(client.get("/good").status, 200, "after {target}");
        }
        assert_eq!(member(&node, 0)["ejections"], 0);
        assert_eq!(member(&node, 0)["failures"], 20);
    }
}

#[test]
fn a_dead_origin_is_tried_by_single_requests_and_others_end_at_once() {
    let is_down = Arc::new(AtomicBool::new(false));
    let origin = silent(&is_down);
    let timeouts = Timeouts {
        origin_response: Duration::from_secs(1),
        ..Timeouts::default()
    };
    let servers = vec![server(origin.address)];
    let node = Node::with(&HttpConfig {
        timeouts,
        ..config(OriginGroup {
            servers,
            ..OriginGroup::default()
        })
    });
    let mut client = Client::new(&node);
    assert_eq!(client.get("/stored").text(), "ok");
    thread::sleep(Duration::from_millis(1100));
    is_down.store(true, Ordering::SeqCst);
    let before = origin.requests();
    let statuses: Vec<u16> = (0..3)
        .map(|number| client.get(&format!("/{number}")).status)
        .collect();
    assert_eq!(statuses, [504; 3]);
    let arrived = origin.requests();
    assert_eq!(arrived - before, 3);
    for number in 0..50 {
        let seen = client.get(&format!("/more/{number}"));
        assert!(seen.status == 503 || seen.status == 504, "{seen:?}");
        assert!(
            seen.status == 504 || seen.header("retry-after") == "1",
            "{seen:?}"
        );
    }
    assert_eq!(
        client.get("/stored").text(),
        "ok",
        "stale, as its response allows"
    );
    assert!(
        origin.requests() - arrived <= 4,
        "{} requests at a dead origin",
        origin.requests() - arrived
    );
    let (state, ejections) = (
        member(&node, 0)["state"].clone(),
        member(&node, 0)["ejections"].clone(),
    );
    assert!(
        (state == "open" || state == "probing") && ejections == 1,
        "{state} {ejections}"
    );
    assert_eq!(node.status()["servers"][origin.address.to_string()], false);
    assert!(node.status()["no_server"].as_u64() >= Some(40));
    is_down.store(false, Ordering::SeqCst);
    let recovered = (0..100).any(|number| {
        thread::sleep(Duration::from_millis(100));
        client.get(&format!("/then/{number}")).status == 200
    });
    assert!(recovered);
    assert_eq!(member(&node, 0)["state"], "up");
}

/// An origin that knows the most requests that it had at once.
fn counting() -> (Origin, Arc<AtomicUsize>) {
    let (now, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let origin = Origin::new(move |_, stream| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(30));
        now.fetch_sub(1, Ordering::SeqCst);
        say(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: 2\r\n\r\nok",
        )
    });
    (origin, most)
}

#[test]
fn a_server_has_at_most_its_requests_and_others_wait_for_a_place() {
    let (origin, most) = counting();
    let limited = PoolServer {
        max_conns: 2,
        ..server(origin.address)
    };
    let node = Node::with(&config(OriginGroup {
        servers: vec![limited],
        ..OriginGroup::default()
    }));
    thread::scope(|scope| {
        for client in 0..8 {
            let node = &node;
            scope.spawn(move || {
                let mut to = Client::new(node);
                for number in 0..3 {
                    assert_eq!(to.get(&format!("/{client}/{number}")).status, 200)
                }
            });
        }
    });
    assert_eq!(most.load(Ordering::SeqCst), 2);
    assert_eq!(member(&node, 0)["requests"], 24);
    node.await_figure("requests", 24);
    for _ in 0..500 {
        if member(&node, 0)["outstanding"] == 0 {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("requests that have ended count");
}

#[test]
fn a_reload_keeps_the_health_of_servers_that_stay() {
    let (is_down, is_up) = (
        Arc::new(AtomicBool::new(true)),
        Arc::new(AtomicBool::new(false)),
    );
    let (dead, alive) = (failing(&is_down), failing(&is_up));
    let servers = vec![server(dead.address), server(alive.address)];
    let node = Node::with(&config(OriginGroup {
        servers: servers.clone(),
        ..OriginGroup::default()
    }));
    let mut client = Client::new(&node);
    for number in 0..20 {
        assert_eq!(client.get(&format!("/{number}")).status, 200);
    }
    let before = member(&node, 0);
    assert!(
        before["state"] == "open" && before["failures"].as_u64() >= Some(3),
        "{before}"
    );
    let http = node.http.as_ref().unwrap();
    let heavier = PoolServer {
        weight: 5,
        ..server(dead.address)
    };
    let backup = PoolServer {
        is_backup: true,
        ..server(alive.address)
    };
    let changed = OriginGroup {
        servers: vec![heavier, backup],
        ..OriginGroup::default()
    };
    http.take_over(http.reload(&config(changed)).unwrap())
        .unwrap();
    let after = member(&node, 0);
    assert_eq!(
        (&after["state"], &after["ejections"], &after["weight"]),
        (&"open".into(), &1.into(), &5.into())
    );
    assert_eq!(client.get("/after").status, 200, "the backup");
}
