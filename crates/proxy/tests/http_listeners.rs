//! Failure: one of several listeners serves nothing or another cache, an address of the node is
//! taken for an origin, or a socket file stays behind.

use crate::wire::http2::{Http2, PREFACE};
use crate::wire::{self, Client, Node};
use larder_host::{ListenAddress, ListenConfig};
use larder_proxy::access_log::{Escape, LogTarget, Template};
use larder_proxy::{
    AccessLogConfig, Http, HttpConfig, InheritedListener, Listeners, RequestIdSource, Upstream,
};
use std::io::{BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

fn any_port() -> ListenConfig {
    SocketAddr::from(([127, 0, 0, 1], 0)).into()
}

fn socket_file(path: &Path) -> ListenConfig {
    ListenAddress::Unix(path.to_owned()).into()
}

fn get_unix(path: &Path, target: &str) -> wire::Seen {
    let mut stream = UnixStream::connect(path).unwrap();
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nhost: example.test\r\n\r\n"
    )
    .unwrap();
    wire::read_response(&mut BufReader::new(stream), false)
}

#[test]
fn a_listener_of_several_serves_nothing_or_another_cache() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("http.sock");
    let listen = vec![any_port(), any_port(), socket_file(&path)];
    let node = Node::with(&HttpConfig {
        listen,
        ..wire::config(Upstream::Generated)
    });
    let listening = node.http.as_ref().unwrap().listening().to_vec();
    assert_eq!(node.status()["listen"].as_array().map(Vec::len), Some(3));
    let tcp: Vec<SocketAddr> = listening
        .iter()
        .filter_map(|(address, _)| address.tcp())
        .collect();
    assert!(!Client::to(tcp[0]).get("/1000/a").is_hit());
    assert!(Client::to(tcp[1]).get("/1000/a").is_hit());
    let seen = get_unix(&path, "/1000/a");
    assert!(seen.is_hit() && seen.body.len() == 1000, "{seen:?}");
    drop(node);
    assert!(!path.exists(), "the socket file stays");
}

/// HTTP/2 without TLS, by prior knowledge (RFC 9113 §3.3): also behind a header of the PROXY
/// protocol, and where requests are redirected.
#[test]
fn a_client_that_begins_with_http2_is_not_understood() {
    let proxied = ListenConfig {
        proxy_protocol: true,
        ..any_port()
    };
    let node = Node::with(&HttpConfig {
        listen: vec![any_port(), proxied],
        ..wire::config(Upstream::Generated)
    });
    let mut client = Http2::new(&node);
    let streams =
        [1000, 2000, 1000].map(|size| client.request("GET", &format!("/{size}/a"), &[], true));
    for (stream, size) in streams.into_iter().zip([1000, 2000, 1000]) {
        let answer = client.answer(stream);
        assert_eq!((answer.status, answer.body.len()), (Some(200), size));
    }
    // It is the cache of HTTP/1.1.
    assert!(Client::new(&node).get("/1000/a").is_hit());
    let behind = node.http.as_ref().unwrap().listening()[1].0.tcp().unwrap();
    let mut stream = TcpStream::connect(behind).unwrap();
    stream
        .write_all(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n")
        .unwrap();
    let mut client = Http2::on(stream, &[]);
    let stream = client.request("GET", "/1000/a", &[], true);
    assert_eq!(client.answer(stream).body.len(), 1000);
    let redirecting = Node::with(&HttpConfig {
        redirect_to_https: true,
        ..wire::config(Upstream::Generated)
    });
    let mut client = Http2::new(&redirecting);
    let stream = client.request("GET", "/1000/a", &[], true);
    assert_eq!(client.answer(stream).status, Some(308));
    // What only looks like it is HTTP/1.1, or nothing.
    for (bytes, answer) in [
        (&b"PRI * HTTP/2.1\r\n\r\n"[..], "HTTP/1.1 400 "),
        (&PREFACE[..20], ""),
        (b"PRI", ""),
    ] {
        let seen = wire::raw(node.address, bytes);
        assert!(
            seen.starts_with(answer) && !seen.contains(" 200 "),
            "{seen}"
        );
    }
}

/// The origin learns of a client without an address what nginx would tell it.
#[test]
fn a_client_on_a_socket_file_gets_an_address() {
    let origin = wire::Origin::new(|asked, stream| {
        let peer = asked
            .head
            .iter()
            .find(|(name, _)| name == "x-forwarded-for")
            .unwrap()
            .1
            .clone();
        wire::say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{peer}",
                peer.len()
            ),
        )
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("http.sock");
    let upstream = Upstream::Http(format!("http://{}", origin.address).parse().unwrap());
    let node = Node::with(&HttpConfig {
        listen: vec![any_port(), socket_file(&path)],
        ..wire::config(upstream)
    });
    assert_eq!(get_unix(&path, "/").text(), "unix:");
    drop(node);
}

#[test]
fn the_second_listener_is_taken_for_an_origin() {
    let bound = Listeners::bind(&HttpConfig {
        listen: vec![any_port(), any_port()],
        ..wire::config(Upstream::Generated)
    });
    let bound = bound.unwrap();
    let second = bound.iter().nth(1).unwrap().local().to_string();
    let upstream = Upstream::Http(format!("http://{second}").parse().unwrap());
    let refused = Http::start_on(bound, &wire::config(upstream), || ())
        .err()
        .expect("a refusal")
        .to_string();
    assert!(
        refused.starts_with("[http] origin: ") && refused.contains("is [http] listen itself"),
        "{refused}"
    );
}

/// Returns true if a request on a connection of its own is answered from the cache.
fn is_hit(address: SocketAddr) -> bool {
    let mut answer = String::new();
    let read = TcpStream::connect(address).and_then(|mut stream| {
        stream
            .write_all(b"GET /10/a HTTP/1.1\r\nhost: example.test\r\nconnection: close\r\n\r\n")?;
        stream.read_to_string(&mut answer)
    });
    read.is_ok()
        && answer
            .to_ascii_lowercase()
            .contains("cache-status: larder; hit")
}

/// Failure: a listener on loopback cannot be opened to others without a restart, or another program
/// gets its port.
#[test]
fn an_address_that_overlaps_the_running_one_is_refused() {
    let node = Node::with(&wire::config(Upstream::Generated));
    let http = node.http.as_ref().unwrap();
    let port = node.address.port();
    let reload = |addresses: &[[u8; 4]]| {
        let listen = addresses
            .iter()
            .map(|ip| SocketAddr::from((*ip, port)).into())
            .collect();
        http.reload(&HttpConfig {
            listen,
            ..wire::config(Upstream::Generated)
        })
        .and_then(|reload| http.take_over(reload))
    };
    let (narrow, wide) = ([127, 0, 0, 1], [0, 0, 0, 0]);
    let mut open = Client::new(&node);
    open.get("/10/a");
    for address in [narrow, wide, narrow, wide] {
        // The threads close the socket before it within moments.
        let start = Instant::now();
        while let Err(error) = reload(&[address]) {
            assert!(start.elapsed() < Duration::from_secs(20), "{error}");
            std::thread::sleep(Duration::from_millis(10));
        }
        // A connection between the last look at the closing socket and its end is reset.
        assert!((0..10).any(|_| is_hit(node.address)), "{address:?}");
        assert_eq!(
            http.listening()[0].0.tcp().unwrap().ip(),
            IpAddr::from(address)
        );
    }
    assert_eq!(open.get("/10/a").header("connection"), "close");
    assert!(
        TcpListener::bind(node.address).is_err(),
        "another program has the port"
    );
    // A start would refuse both at once.
    let refused = reload(&[wide, narrow]).unwrap_err().to_string();
    assert!(
        refused.contains("127.0.0.1") && refused.contains("in use"),
        "{refused}"
    );
    assert!(is_hit(node.address));
}

/// Failure: a socket that another process has bound is bound again, or its file is removed.
#[test]
fn a_socket_that_is_handed_over_is_bound_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("http.sock");
    let config = HttpConfig {
        listen: vec![socket_file(&path)],
        ..wire::config(Upstream::Generated)
    };
    let first = Listeners::bind(&config).unwrap();
    let handed = first.iter().next().unwrap().socket().try_clone().unwrap();
    let mut handed = Some(handed);
    let inherited = |_: &_, _| InheritedListener {
        socket: handed.take(),
        udp: Vec::new(),
    };
    let second = Listeners::bind_or_inherit(&config, inherited).unwrap();
    let http = Http::start_on(second, &config, || ()).unwrap();
    assert_eq!(get_unix(&path, "/10/a").status, 200);
    http.stop();
    assert!(path.exists());
    drop(first);
    assert!(!path.exists());
}

/// Failure: a reload adds no listener, leaves one that is gone, or cuts a connection.
#[test]
fn a_reload_does_not_change_listeners() {
    let folder = tempfile::tempdir().unwrap();
    let (gone, added) = (
        folder.path().join("gone.sock"),
        folder.path().join("added.sock"),
    );
    let config = HttpConfig {
        listen: vec![any_port(), socket_file(&gone)],
        ..wire::config(Upstream::Generated)
    };
    let node = Node::with(&config);
    let http = node.http.as_ref().unwrap();
    let reload = |config: &HttpConfig| {
        http.reload(config)
            .and_then(|reload| http.take_over(reload))
    };
    let mut stays = Client::new(&node);
    stays.get("/10/a");
    let mut idle = BufReader::new(UnixStream::connect(&gone).unwrap());
    let mut ask = || {
        write!(
            idle.get_mut(),
            "GET /10/a HTTP/1.1\r\nhost: example.test\r\n\r\n"
        )
        .unwrap();
        wire::read_response(&mut idle, false)
    };
    assert_eq!(ask().header("connection"), "");
    // One that cannot be bound: nothing changes.
    let wrong = folder.path().join("no").join("folder");
    let error = reload(&HttpConfig {
        listen: vec![any_port(), socket_file(&wrong)],
        ..config.clone()
    });
    assert!(error.unwrap_err().to_string().contains("folder"));
    assert_eq!(get_unix(&gone, "/10/a").status, 200);
    let config = HttpConfig {
        listen: vec![any_port(), socket_file(&added)],
        ..config
    };
    reload(&config).unwrap();
    assert_eq!(get_unix(&added, "/10/a").status, 200);
    assert!(!gone.exists(), "the file of a listener that is gone stays");
    assert_eq!(
        ask().header("connection"),
        "close",
        "it has one more answer"
    );
    assert_eq!(stays.get("/10/a").header("connection"), "");
    assert_eq!(node.status()["listen"].as_array().map(Vec::len), Some(2));
    // Connections get the access log from their listener: it is replaced, on the same socket.
    let log = folder.path().join("log");
    let template = Template::parse("$request_uri $request_id", Escape::Default).unwrap();
    let access_log = AccessLogConfig {
        target: LogTarget::File(log.clone()),
        template,
        sample: 1.0,
        rotation: None,
    };
    let logged = HttpConfig {
        access_log: Some(access_log),
        request_id: RequestIdSource::Generate,
        ..config
    };
    reload(&logged).unwrap();
    assert_eq!(stays.get("/10/before").header("connection"), "close");
    assert_eq!(Client::new(&node).get("/10/logged").status, 200);
    assert_eq!(get_unix(&added, "/10/logged").status, 200);
    reload(&HttpConfig {
        access_log: None,
        ..logged
    })
    .unwrap();
    assert_eq!(Client::new(&node).get("/10/after").status, 200);
    drop(node);
    let lines = std::fs::read_to_string(log).unwrap();
    assert_eq!(
        lines
            .lines()
            .filter(|line| line.starts_with("/10/logged ") && line.len() == 43)
            .count(),
        2,
        "{lines}"
    );
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(!added.exists());
}
