//! Failure: a request goes to the wrong origin; one server's death is the clients' affair; a
//! request that must not be repeated is; a reload drops what is under way.

use crate::wire::{self, Client, Node, Origin, say};
use larder_proxy::{HttpConfig, OriginGroup, PoolServer, Upstream};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Says who it is.
fn named(name: &'static str) -> Origin {
    Origin::new(move |_, stream| {
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: {}\r\n\r\n{name}",
                name.len()
            ),
        )
    })
}

fn group(host: Option<&str>, path: &str, servers: &[SocketAddr]) -> OriginGroup {
    let server = |server: &SocketAddr| {
        PoolServer::from(format!("http://{server}").parse::<http::Uri>().unwrap())
    };
    let servers = servers.iter().map(server).collect();
    OriginGroup {
        host: host.map(str::to_owned),
        path: path.to_owned(),
        servers,
        ..OriginGroup::default()
    }
}

fn config(rest: SocketAddr, origins: Vec<OriginGroup>) -> HttpConfig {
    HttpConfig {
        origins,
        ..wire::config(Upstream::Http(format!("http://{rest}").parse().unwrap()))
    }
}

#[test]
fn host_and_path_choose_the_origin_and_the_first_that_fits_is_asked() {
    let (images, files, rest) = (named("images"), named("files"), named("rest"));
    let origins = vec![
        group(Some("img.example.test"), "/", &[images.address]),
        group(None, "/files/", &[files.address]),
    ];
    let node = Node::with(&config(rest.address, origins));
    let mut client = Client::new(&node);
    for (host, target, who) in [
        ("img.example.test", "/a", "images"),
        ("IMG.example.test:80", "/files/a", "images"),
        ("img.example.test:81", "/a", "images"),
        ("example.test", "/files/a", "files"),
        ("example.test", "/files", "rest"),
        ("example.test", "/a/files/", "rest"),
        ("example.test", "/?/files/", "rest"),
    ] {
        client.host = host.to_owned();
        assert_eq!(client.get(target).text(), who, "{host}{target}");
    }
}

/// Says what it is asked for.
fn echo() -> Origin {
    Origin::new(|asked, stream| {
        let target = asked.line.split(' ').nth(1).unwrap();
        assert_eq!(asked.header("x-forwarded-prefix"), Some("/api"));
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: {}\r\n\r\n{target}",
                target.len()
            ),
        )
    })
}

/// Failure: an application that knows nothing of its place in the site gets the prefix; or cutting
/// it makes a target that is a host, climbs, or meets another origin.
#[test]
fn a_prefix_reaches_an_origin_that_has_none() {
    let (origin, rest) = (echo(), named("rest"));
    let stripped = OriginGroup {
        strip_path: true,
        ..group(None, "/api/", &[origin.address])
    };
    let node = Node::with(&config(rest.address, vec![stripped]));
    let mut client = Client::new(&node);
    for (target, at_origin) in [
        ("/api/", "/"),
        ("/api/users?page=2", "/users?page=2"),
        ("/api/?q=/api/", "/?q=/api/"),
        ("/api/api/a", "/api/a"),
        ("/api//users//7", "/users//7"),
        ("/%61pi/users", "/users"),
        ("/api%2fusers", "/users"),
        ("/api/a%2fb%20c", "/a%2Fb%20c"),
        ("/x/../api/a", "/a"),
        ("/api", "rest"),
        ("/apis/a", "rest"),
        ("/api/../a", "rest"),
    ] {
        // The second answer is the stored one.
        for _ in 0..2 {
            let forged = [("x-forwarded-prefix", "/evil")];
            let seen = client.send("GET", target, &forged, b"").text();
            assert_eq!(seen.to_lowercase(), at_origin.to_lowercase(), "{target}");
        }
    }
}

/// Failure: a browser that names a port is sent to another origin; or a `*` that `--check` takes
/// never fits.
#[test]
fn a_port_is_ignored_and_the_closest_host_wins() {
    let origins = ["below", "deep", "exact", "port", "files", "rest"].map(named);
    let [below, deep, exact, port, files, rest] = origins.each_ref().map(|origin| origin.address);
    let groups = vec![
        group(Some("*.example.test"), "/", &[below]),
        group(Some("*.img.example.test"), "/", &[deep]),
        group(Some("a.img.example.test"), "/", &[exact]),
        group(Some("a.img.example.test:8443"), "/", &[port]),
        group(None, "/files/", &[files]),
    ];
    let node = Node::with(&config(rest, groups));
    let mut client = Client::new(&node);
    for (host, target, who) in [
        ("www.example.test:8080", "/a", "below"),
        ("a.b.example.test", "/files/a", "below"),
        ("b.img.example.test:8080", "/a", "deep"),
        ("A.img.example.test:8080", "/a", "exact"),
        ("a.img.example.test", "/a", "exact"),
        ("a.img.example.test:8443", "/a", "port"),
        ("example.test:8080", "/files/a", "files"),
        ("example.test:8080", "/a", "rest"),
        ("other.test", "/a", "rest"),
    ] {
        client.host = host.to_owned();
        assert_eq!(client.get(target).text(), who, "{host}{target}");
    }
}

#[test]
fn a_dead_server_costs_no_client_anything_but_what_may_not_be_repeated() {
    let alive = named("alive");
    let node = Node::with(&config(
        wire::dead(),
        vec![group(
            None,
            "/",
            &[wire::dead(), alive.address, wire::dead()],
        )],
    ));
    let mut client = Client::new(&node);
    // Of three servers two are dead, and one request is sent to two of them at most; soon the dead
    // are known.
    let first: Vec<u16> = (0..30)
        .map(|number| client.get(&format!("/{number}")).status)
        .collect();
    assert!(
        first.iter().filter(|status| **status == 502).count() <= 4,
        "{first:?}"
    );
    assert!(first[20..].iter().all(|status| *status == 200), "{first:?}");
    let posted = Node::with(&config(
        wire::dead(),
        vec![group(
            None,
            "/",
            &[wire::dead(), wire::dead(), alive.address],
        )],
    ));
    let before = alive.requests();
    let mut client = Client::new(&posted);
    let statuses: Vec<u16> = (0..30)
        .map(|number| client.send("POST", &format!("/{number}"), &[], b"x").status)
        .collect();
    let failed = statuses.iter().filter(|status| **status == 502).count();
    assert!(
        failed > 0 && alive.requests() - before == 30 - failed,
        "a POST that failed is not sent again: {statuses:?}"
    );
}

#[test]
fn who_sends_a_body_after_its_head_hears_that_no_server_answers_and_keeps_the_connection() {
    let node = Node::with(&config(wire::dead(), Vec::new()));
    let mut stream = std::net::TcpStream::connect(node.address).unwrap();
    let mut answers = std::io::BufReader::new(stream.try_clone().unwrap());
    for _ in 0..2 {
        stream
            .write_all(b"POST /a HTTP/1.1\r\nhost: example.test\r\ncontent-length: 4\r\n\r\n")
            .unwrap();
        std::thread::sleep(Duration::from_millis(100));
        stream.write_all(b"body").unwrap();
        assert_eq!(wire::read_response(&mut answers, false).status, 502);
    }
}

#[test]
fn a_server_whose_checks_fail_gets_nothing_until_they_succeed() {
    let well = Arc::new(AtomicBool::new(true));
    let says = Arc::clone(&well);
    let sick = Origin::new(move |asked, stream| {
        let status = if asked.line.contains("/healthz") && !says.load(Ordering::SeqCst) {
            "500 No"
        } else {
            "200 OK"
        };
        say(
            stream,
            &format!(
                "HTTP/1.1 {status}\r\ncache-control: no-store\r\ncontent-length: 4\r\n\r\nsick"
            ),
        )
    });
    let other = named("other");
    let mut checked = group(None, "/", &[sick.address, other.address]);
    checked.check = Some(("/healthz".parse().unwrap(), Duration::from_secs(1)));
    let node = Node::with(&config(wire::dead(), vec![checked]));
    let mut client = Client::new(&node);
    let mut share = || {
        (0..40)
            .filter(|number| client.get(&format!("/{number}")).text() == "sick")
            .count()
    };
    assert!((5..35).contains(&share()), "both get some");
    for (is_well, expected) in [(false, 0..1), (true, 5..35)] {
        well.store(is_well, Ordering::SeqCst);
        for _ in 0..100 {
            if node.status()["servers"][sick.address.to_string()] == is_well {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(
            expected.contains(&share()),
            "while its checks say {is_well}"
        );
    }
}

#[test]
fn a_reload_changes_the_origin_for_the_next_request_and_keeps_connections_and_store() {
    let (before, after) = (named("before"), named("after"));
    let node = Node::with(&config(before.address, Vec::new()));
    let http = node.http.as_ref().unwrap();
    let mut client = Client::new(&node);
    assert_eq!(client.get("/a").text(), "before");
    http.take_over(http.reload(&config(after.address, Vec::new())).unwrap())
        .unwrap();
    let sound = config(before.address, vec![group(None, "/b", &[before.address])]);
    http.take_over(http.reload(&sound).unwrap()).unwrap();
    assert_eq!(client.get("/b").text(), "before");
    // What is wrong changes nothing.
    let refused = http
        .reload(&config(
            after.address,
            vec![group(None, "/", &[http.local_addr().unwrap()])],
        ))
        .err()
        .unwrap()
        .to_string();
    assert!(
        refused.contains("[[http.origins]] servers") && !refused.contains('\n'),
        "{refused}"
    );
    assert_eq!(client.get("/c").text(), "before");
    http.take_over(http.reload(&config(after.address, Vec::new())).unwrap())
        .unwrap();
    assert_eq!(client.get("/d").text(), "after");
}
