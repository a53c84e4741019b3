//! Failure: half a page that looks whole, a page that comes only when its last byte has, or one
//! that fills the memory.

use super::{Place, noise, pair, route};
use crate::wire::{Asked, Client, Origin, say, say_last};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[test]
fn what_the_origin_breaks_off_breaks_off() {
    let origin = Origin::new(|asked: &Asked, stream| {
        let head = if asked.line.contains("chunked") {
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n186a0\r\n"
        } else {
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 200000\r\n\r\n"
        };
        let _ = say(stream, head) && stream.write_all(&noise(100_000)).is_ok();
        say_last(stream, "\r\n")
    });
    let (edge, far) = pair(&origin);
    for target in ["/length", "/chunked", "/length"] {
        let seen = edge.client().get(target);
        assert_eq!((seen.status, seen.cut), (200, true), "{target}");
        assert!(
            noise(100_002).starts_with(&seen.body[..seen.body.len().min(100_000)]),
            "{target}: what came is right"
        );
    }
    // A small one, which would have come with its head.
    let origin = Origin::new(|_, stream| {
        say_last(stream, "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
    });
    let (edge, small) = pair(&origin);
    assert_eq!(
        edge.client().get("/small").status,
        502,
        "nothing of it was sent yet"
    );
    assert_eq!(
        (
            far.figure("/gateway/broken"),
            small.figure("/gateway/broken")
        ),
        (3, 0)
    );
}

#[test]
fn the_first_byte_comes_before_the_last_is_sent() {
    let released = Arc::new(AtomicBool::new(false));
    let is_released = Arc::clone(&released);
    let origin = Origin::new(move |_, stream| {
        say(
            stream,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n",
        );
        while !is_released.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        say(stream, "4\r\nlast\r\n0\r\n\r\n")
    });
    let (edge, _far) = pair(&origin);
    let mut stream = TcpStream::connect(edge.http()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(9)))
        .unwrap();
    stream
        .write_all(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n")
        .unwrap();
    let mut seen = Vec::new();
    while !seen.windows(5).any(|window| window == b"first") {
        let mut buffer = [0; 1000];
        let read = stream
            .read(&mut buffer)
            .expect("the first piece comes while the origin holds the last");
        seen.extend_from_slice(&buffer[..read]);
    }
    released.store(true, Ordering::SeqCst);
    while !seen.ends_with(b"0\r\n\r\n") {
        let mut buffer = [0; 1000];
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0);
        seen.extend_from_slice(&buffer[..read]);
    }
    assert!(seen.windows(4).any(|window| window == b"last"));
}

/// A large body whose client stands still, then reads on.
#[test]
fn a_client_that_stands_still_holds_the_origin_back() {
    const LENGTH: u64 = 40 << 20;
    let sent = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&sent);
    let piece = noise(1 << 20);
    let origin = Origin::new(move |_, stream| {
        let mut goes = say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: {LENGTH}\r\n\r\n"
            ),
        );
        for at in (0..LENGTH).step_by(1 << 20) {
            goes = goes && stream.write_all(&piece).is_ok();
            counter.fetch_max(if goes { at + (1 << 20) } else { 0 }, Ordering::SeqCst);
        }
        goes
    });
    // No more than a window, and its origin's socket.
    let far = Place::far(origin.address, "memory = \"20MiB\"");
    let edge = Place::edge(&far.tcp(), "");
    let mut stream = TcpStream::connect(edge.http()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
        .write_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n")
        .unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    let (mut last, mut since) = (0, Instant::now());
    while since.elapsed() < Duration::from_millis(700) {
        let now = sent.load(Ordering::SeqCst);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(
        last < 25 << 20,
        "the origin has sent {last} bytes to nobody"
    );
    assert!(far.figure("/gateway/reserved_bytes") <= 20 << 20);
    let mut left = LENGTH;
    let mut buffer = vec![0; 1 << 20];
    while left > 2000 {
        let read = stream.read(&mut buffer).unwrap() as u64;
        assert!(read > 0, "{left} bytes are missing");
        left = left.saturating_sub(read);
    }
    assert!(far.figure("/gateway/reserved_bytes") <= 20 << 20);
}

/// Two edges read one body of unknown length; a client of the one stands still until the other has
/// all of it.
#[test]
fn who_reads_slowly_misses_what_another_has_read_already() {
    let body = noise(18 << 20);
    let (sent, asked) = (body.clone(), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&asked);
    let origin = Origin::new(move |_, stream| {
        count.fetch_add(1, Ordering::SeqCst);
        say(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ntransfer-encoding: chunked\r\n\r\n",
        ) && sent.chunks(1 << 20).all(|piece| {
            say(stream, &format!("{:x}\r\n", piece.len()))
                && stream.write_all(piece).is_ok()
                && say(stream, "\r\n")
        }) && say(stream, "0\r\n\r\n")
    });
    let far = Place::far(origin.address, "");
    // What is not stored goes at the pace of its reader.
    let http = "listen = \"127.0.0.1:0\"\nmax_object = \"1MiB\"\n[http.upstream]\nndn = \"/far\"";
    let [slow, fast] = [(); 2].map(|()| Place::new(&route(&far.tcp()), http));
    let stream = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    stream.set_recv_buffer_size(1 << 16).unwrap();
    stream.connect(&slow.http().into()).unwrap();
    let mut stream = TcpStream::from(stream);
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
        .write_all(b"GET /a HTTP/1.1\r\nhost: example.test\r\nconnection: close\r\n\r\n")
        .unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    let seen = fast.client().get("/a");
    assert!(seen.body == body && !seen.cut, "{} bytes", seen.body.len());
    assert_eq!(asked.load(Ordering::SeqCst), 1, "it is one body");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(
        rest.len() > body.len() - 1000 && rest.ends_with(b"0\r\n\r\n"),
        "{} bytes",
        rest.len()
    );
}

#[test]
fn answers_that_nobody_needs_any_more_take_the_room_of_new_ones() {
    let origin =
        Origin::new(|_, stream| say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"));
    let far = Place::far(origin.address, "memory = \"20MiB\"");
    let edge = Place::edge(&far.tcp(), "");
    let mut client = edge.client();
    // Each is kept for 10 s, and 20 MiB hold 2140.
    for number in 0..2300 {
        let seen = client.send("GET", &format!("/{number}"), &[("cookie", "a=b")], b"");
        assert_eq!(seen.status, 200, "{number}");
    }
    assert!(far.figure("/gateway/reserved_bytes") <= 20 << 20);
    assert_eq!(far.figure("/gateway/no_room"), 0);
}

#[test]
fn without_room_the_far_node_says_so() {
    let origin = Origin::new(|_, stream| {
        let _ = say(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: 50000000\r\n\r\n",
        );
        while stream.write_all(&[7; 1 << 16]).is_ok() {}
        false
    });
    let far = Place::far(origin.address, "memory = \"20MiB\"");
    let edge = Place::edge(&far.tcp(), "");
    let hold = |target: &str| {
        let mut stream = TcpStream::connect(edge.http()).unwrap();
        stream
            .write_all(format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes())
            .unwrap();
        stream.read_exact(&mut [0; 100]).unwrap();
        stream
    };
    let _held = [hold("/1"), hold("/2")];
    let seen = Client::to(edge.http()).get("/3");
    assert_eq!((seen.status, seen.header("retry-after")), (503, "1"));
}
