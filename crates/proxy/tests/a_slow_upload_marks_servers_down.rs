//! Failure: a client that is slow to send its body takes healthy servers out of a pool, or gets
//! 504 for its own slowness.
//!
//! Before, the time for a response ran from the start of the request: ten uploads of a byte each
//! second for 70 s got 504, and took the pool down.

use crate::wire::{self, Node, Origin, Seen, say};
use larder_proxy::{HttpConfig, OriginGroup, Timeouts, Upstream};
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

/// Answers with the length of what it got.
fn counting() -> Origin {
    Origin::new(|asked, stream| {
        let length = asked.body.len().to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: {}\r\n\r\n",
            length.len()
        );
        say(stream, &format!("{head}{length}"))
    })
}

fn pool(servers: &[std::net::SocketAddr], timeouts: Timeouts) -> Node {
    let servers = servers
        .iter()
        .map(|address| {
            format!("http://{address}")
                .parse::<http::Uri>()
                .unwrap()
                .into()
        })
        .collect();
    let group = OriginGroup {
        host: None,
        path: "/".into(),
        servers,
        ..OriginGroup::default()
    };
    Node::with(&HttpConfig {
        origins: vec![group],
        timeouts,
        ..wire::config(Upstream::Generated)
    })
}

/// Sends so many bytes of a body of `announced`, one in each pause, and reads the response.
fn upload(
    node: &Node,
    target: String,
    announced: usize,
    sent: usize,
    pause: Duration,
) -> JoinHandle<Seen> {
    let mut stream = TcpStream::connect(node.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    std::thread::spawn(move || {
        write!(
            stream,
            "POST {target} HTTP/1.1\r\nhost: a\r\ncontent-length: {announced}\r\n\r\n"
        )
        .unwrap();
        for _ in 0..sent {
            std::thread::sleep(pause);
            stream.write_all(b"x").unwrap();
        }
        wire::read_response(&mut BufReader::new(stream), false)
    })
}

fn are_up(node: &Node) -> bool {
    node.status()["servers"]
        .as_object()
        .unwrap()
        .values()
        .all(|is_up| is_up == true)
}

#[test]
fn uploads_that_take_longer_than_a_response_may_are_answered() {
    let (one, other) = (counting(), counting());
    let timeouts = Timeouts {
        origin_response: Duration::from_secs(1),
        ..Timeouts::default()
    };
    let node = pool(&[one.address, other.address], timeouts);
    let uploads: Vec<_> = (0..10)
        .map(|number| {
            upload(
                &node,
                format!("/{number}"),
                10,
                10,
                Duration::from_millis(200),
            )
        })
        .collect();
    let answers: Vec<_> = uploads
        .into_iter()
        .map(|upload| upload.join().unwrap())
        .collect();
    assert!(
        answers
            .iter()
            .all(|seen| seen.status == 200 && seen.text() == "10"),
        "{answers:?}"
    );
    assert!(are_up(&node), "{}", node.status()["servers"]);
}

#[test]
fn a_client_that_stops_sending_gets_408_and_its_server_stays() {
    let server = counting();
    let timeouts = Timeouts {
        client_body: Duration::from_millis(200),
        ..Timeouts::default()
    };
    let node = pool(&[server.address], timeouts);
    let uploads: Vec<_> = (0..10)
        .map(|number| upload(&node, format!("/{number}"), 10, 3, Duration::ZERO))
        .collect();
    for upload in uploads {
        let seen = upload.join().unwrap();
        assert_eq!((seen.status, seen.header("connection")), (408, "close"));
    }
    assert!(are_up(&node), "{}", node.status()["servers"]);
    assert_eq!(node.status()["origin_failures"], 0);
}

/// Servers have limits of their own for uploads, and some just close.
#[test]
fn a_server_that_gives_up_slow_uploads_stays() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 1000];
            let read = stream.read(&mut head).unwrap();
            if head[..read].starts_with(b"GET") {
                say(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
            }
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
    let node = pool(&[address], Timeouts::default());
    let uploads: Vec<_> = (0..10)
        .map(|number| upload(&node, format!("/{number}"), 10, 1, Duration::ZERO))
        .collect();
    for upload in uploads {
        assert_eq!(upload.join().unwrap().status, 502);
    }
    assert!(are_up(&node), "{}", node.status()["servers"]);
    assert_eq!(wire::Client::new(&node).get("/").status, 200);
}

#[test]
fn a_server_that_takes_or_says_nothing_is_still_found_out() {
    // Accepts, and takes nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = Duration::from_millis(200);
    let timeouts = Timeouts {
        origin_response: silent,
        origin_send: silent,
        ..Timeouts::default()
    };
    for length in [10, 64 << 20] {
        let node = pool(&[listener.local_addr().unwrap()], timeouts);
        for _ in 0..3 {
            let mut stream = TcpStream::connect(node.address).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            let reader = BufReader::new(stream.try_clone().unwrap());
            let answer =
                std::thread::spawn(move || wire::read_response(&mut { reader }, false).status);
            write!(
                stream,
                "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n"
            )
            .unwrap();
            // The answer may come, and the connection end, before all is sent.
            let _ = stream.write_all(&vec![0; length]);
            assert_eq!(answer.join().unwrap(), 504);
        }
        assert!(!are_up(&node), "{length}");
    }
}
