//! Failure: one client with few connections keeps all others out.

use crate::wire::http2::{Http2, pseudo};
use crate::wire::{self, Client, Node, Origin, say};
use larder_proxy::{
    Admin, HttpConfig, HttpLimits, OriginGroup, OriginProtocol, PoolServer, Upstream,
};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Connects from another address of this machine: for the node, another client.
fn from_another(address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket
        .bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into())
        .unwrap();
    socket.connect(&address.into()).unwrap();
    socket.into()
}

/// An origin that answers `/slow` only when it is released.
struct Slow {
    origin: Origin,
    waiting: Arc<AtomicUsize>,
    released: Arc<(Mutex<bool>, Condvar)>,
}

impl Slow {
    fn new() -> Slow {
        let (waiting, released) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new((Mutex::new(false), Condvar::new())),
        );
        let (count, gate) = (Arc::clone(&waiting), Arc::clone(&released));
        let origin = Origin::new(move |asked, stream| {
            if asked.line.contains("/slow") {
                count.fetch_add(1, Ordering::SeqCst);
                let (lock, condition) = &*gate;
                drop(condition.wait_while(lock.lock().unwrap(), |is_released| !*is_released));
            }
            say(
                stream,
                "HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: 2\r\n\r\nok",
            )
        });
        Slow {
            origin,
            waiting,
            released,
        }
    }

    fn node(&self, limits: HttpLimits) -> Node {
        let upstream = Upstream::Http(format!("http://{}", self.origin.address).parse().unwrap());
        Node::with(&HttpConfig {
            limits,
            ..wire::config(upstream)
        })
    }

    /// Waits until so many requests wait at the origin.
    fn await_waiting(&self, count: usize) {
        for _ in 0..1000 {
            if self.waiting.load(Ordering::SeqCst) >= count {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!(
            "{} of {count} requests wait at the origin",
            self.waiting.load(Ordering::SeqCst)
        );
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        *self.released.0.lock().unwrap() = true;
        self.released.1.notify_all();
    }
}

#[test]
fn silent_connections_stop_the_node() {
    let limits = HttpLimits {
        connections: 20,
        ..HttpLimits::default()
    };
    let node = Node::with(&HttpConfig {
        limits,
        ..wire::config(Upstream::Generated)
    });
    let mut silent: Vec<_> = (0..30).map(|_| from_another(node.address)).collect();
    // A half head, and a request that has ended.
    silent[3].write_all(b"GET /10/a HTTP/1.1\r\nhost:").unwrap();
    let mut own = Client::new(&node);
    assert_eq!(own.get("/10/b").status, 200);
    for round in 0..10 {
        silent.extend((0..5).map(|_| from_another(node.address)));
        assert_eq!(Client::new(&node).get("/10/c").status, 200, "{round}");
        assert_eq!(
            own.get("/10/d").status,
            200,
            "an open connection of a client with few is closed"
        );
    }
    assert!(node.status()["displaced_connections"].as_u64() > Some(0));
}

#[test]
fn a_connection_with_a_request_is_displaced() {
    let slow = Slow::new();
    let node = slow.node(HttpLimits {
        connections: 6,
        ..HttpLimits::default()
    });
    let mut busy: Vec<_> = (0..2).map(|_| from_another(node.address)).collect();
    for (number, stream) in busy.iter_mut().enumerate() {
        let request =
            format!("GET /slow/{number} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
    }
    slow.await_waiting(2);
    let _silent: Vec<_> = (0..10).map(|_| from_another(node.address)).collect();
    assert_eq!(Client::new(&node).get("/a").status, 200);
    drop(slow);
    for mut stream in busy {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[test]
fn uploads_that_never_begin_take_all_places_and_connections() {
    let slow = Slow::new();
    let node = slow.node(HttpLimits {
        uploads: 8,
        ..HttpLimits::default()
    });
    let mut attackers: Vec<_> = (0..3)
        .map(|_| Http2::on(from_another(node.address), &[]))
        .collect();
    for attacker in &mut attackers {
        for _ in 0..20 {
            attacker.head(&pseudo("POST", "/slow"), false);
        }
    }
    for _ in 0..5 {
        assert_eq!(
            Client::new(&node).send("POST", "/a", &[], b"abc").status,
            200
        );
    }
    assert_eq!(
        slow.origin.requests(),
        5,
        "an upload without a body has reached the origin"
    );
}

#[test]
fn uploads_that_stop_take_all_places() {
    let slow = Slow::new();
    let node = slow.node(HttpLimits {
        uploads: 8,
        ..HttpLimits::default()
    });
    let mut attackers: Vec<_> = (0..3)
        .map(|_| Http2::on(from_another(node.address), &[]))
        .collect();
    for attacker in &mut attackers {
        for _ in 0..20 {
            let stream = attacker.head(&pseudo("POST", "/slow"), false);
            attacker.data(stream, b"x", false);
        }
    }
    for _ in 0..5 {
        assert_eq!(
            Client::new(&node).send("POST", "/a", &[], b"abc").status,
            200
        );
    }
}

#[test]
fn slow_requests_of_one_client_stop_the_misses_of_others() {
    let slow = Slow::new();
    let node = slow.node(HttpLimits {
        connections: 30,
        ..HttpLimits::default()
    });
    let mut attackers: Vec<_> = (0..3)
        .map(|_| Http2::on(from_another(node.address), &[]))
        .collect();
    for (number, attacker) in attackers.iter_mut().enumerate() {
        for request in 0..50 {
            attacker.head(&pseudo("GET", &format!("/slow/{number}/{request}")), true);
        }
    }
    slow.await_waiting(15);
    let mut others = Client::new(&node);
    for number in 0..5 {
        assert_eq!(others.get(&format!("/{number}")).status, 200);
    }
    assert_eq!(
        slow.waiting.load(Ordering::SeqCst),
        15,
        "one client has more than half"
    );
    // A page that the client has asked for, whose request waits for a place.
    for attacker in &mut attackers {
        attacker.head(&pseudo("GET", "/popular"), true);
    }
    node.await_figure("requests", 3 * 50 + 5 + 3);
    assert_eq!(others.get("/popular").status, 200);
}

#[test]
fn slow_requests_of_one_client_take_all_places_of_a_server() {
    let slow = Slow::new();
    let server = PoolServer {
        max_conns: 18,
        ..format!("http://{}", slow.origin.address)
            .parse::<http::Uri>()
            .unwrap()
            .into()
    };
    let group = OriginGroup {
        path: "/".to_owned(),
        servers: vec![server],
        ..OriginGroup::default()
    };
    let node = Node::with(&HttpConfig {
        origins: vec![group],
        ..wire::config(Upstream::Generated)
    });
    let mut attacker = Http2::on(from_another(node.address), &[]);
    for request in 0..100 {
        attacker.head(&pseudo("GET", &format!("/slow/{request}")), true);
    }
    slow.await_waiting(16);
    for number in 0..5 {
        assert_eq!(Client::new(&node).get(&format!("/{number}")).status, 200);
    }
}

#[test]
fn silent_connections_keep_health_checks_out() {
    let admin = Admin::start(SocketAddr::from(([127, 0, 0, 1], 0)), Vec::new(), None).unwrap();
    let address = admin.local_addr();
    let _silent: Vec<_> = (0..40)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    for _ in 0..3 {
        let seen = Client::to(address).get("/healthz");
        assert_eq!((seen.status, seen.text()), (200, "alive\n".to_owned()));
    }
    admin.stop();
}

#[test]
fn endless_heads_take_all_memory() {
    let node = Node::with(&wire::config(Upstream::Generated));
    let head = [
        b"GET / HTTP/1.1\r\nhost: a\r\nx: ".to_vec(),
        vec![b'y'; 60_000],
    ]
    .concat();
    let mut endless = Vec::new();
    for _ in 0..700 {
        let mut stream = from_another(node.address);
        // The node may have closed it already.
        let _ = stream.write_all(&head);
        endless.push(stream);
    }
    node.await_some("refused_heads");
    assert_eq!(Client::new(&node).get("/10/a").status, 200);
}

/// Failure: an origin that speaks first waits for a client that speaks second.
#[test]
fn a_conversation_that_the_origin_begins_waits_for_ever() {
    let (address, _) = wire::http2::origin(|_, stream| {
        let head = wire::http2::head_frames(stream, &[(":status", "200")], false);
        [
            head,
            wire::http2::frame(wire::http2::DATA, 1, stream, b"first"),
        ]
        .concat()
    });
    let upstream = Upstream::Http(format!("http://{address}").parse().unwrap());
    let node = Node::with(&HttpConfig {
        origin_protocol: OriginProtocol::Http2,
        ..wire::config(upstream)
    });
    let mut client = Http2::new(&node);
    let mut fields = pseudo("POST", "/grpc");
    fields.extend([("te", "trailers"), ("content-type", "application/grpc")]);
    let stream = client.head(&fields, false);
    assert!(client.read_body(stream, 5));
}
