//! Failures of the disk tier: a restart loses what was stored, or brings back what was purged or
//! replaced; a response comes back younger or as another variant than it was; a burst reads the
//! disk a hundred times; a disk that cannot be used takes the cache with it.

use crate::wire::{self, Asked, Client, Node, Origin, Seen, say};
use larder_admin::StatusSource;
use larder_proxy::{Http, HttpConfig, Upstream};
use larder_tier_host::DiskConfig;
use larder_units::ByteSize;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An origin whose pages say their path, the language asked for, and how many there have been.
fn origin() -> Origin {
    let count = AtomicU64::new(0);
    Origin::new(move |asked: &Asked, stream| {
        if asked.line.starts_with("POST") {
            return say(stream, "HTTP/1.1 204 No Content\r\n\r\n");
        }
        let path = asked.line.split(' ').nth(1).unwrap();
        let language = asked.header("accept-language").unwrap_or("none");
        let body = format!("{path} {language} {}", count.fetch_add(1, Ordering::SeqCst));
        let vary = if path.starts_with("/vary") {
            "vary: accept-language\r\n"
        } else {
            ""
        };
        let tag = &path[path.len() - 1..];
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncache-control: max-age=600\r\nage: 7\r\nsurrogate-key: tag-{tag}\r\netag: \"{tag}\"\r\n{vary}\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            ),
        )
    })
}

/// Nobody listens there.
fn nowhere() -> SocketAddr {
    wire::dead()
}

fn config(origin: SocketAddr, path: &Path) -> HttpConfig {
    let upstream = Upstream::Http(format!("http://{origin}").parse().unwrap());
    let disk = DiskConfig {
        path: path.join("tier"),
        capacity: ByteSize::from_mib(8),
        policy: "fifo".parse().unwrap(),
        queue: ByteSize::from_mib(8),
    };
    HttpConfig {
        disk: Some(disk),
        ..wire::config(upstream)
    }
}

fn disk(node: &Node, figure: &str) -> u64 {
    node.status()["disk"][figure].as_u64().unwrap()
}

fn is_recalled(seen: &Seen) -> bool {
    seen.is_hit() && seen.header("cache-status").ends_with("detail=recalled")
}

#[test]
fn what_was_stored_is_there_after_a_restart() {
    let (origin, folder) = (origin(), tempfile::tempdir().unwrap());
    let node = Node::with(&config(origin.address, folder.path()));
    let mut client = Client::new(&node);
    let first: Vec<Seen> = (0..50)
        .map(|page| client.get(&format!("/page-{page}")))
        .collect();
    drop(node);
    let node = Node::with(&config(nowhere(), folder.path()));
    let mut client = Client::new(&node);
    for (page, before) in first.iter().enumerate() {
        let seen = client.get(&format!("/page-{page}"));
        assert!(is_recalled(&seen), "{:?}", seen.head);
        assert_eq!((seen.status, &seen.body), (200, &before.body));
        let age: u64 = seen.header("age").parse().unwrap();
        assert!((7..30).contains(&age), "{age}");
        assert!(client.get(&format!("/page-{page}")).is_hit());
    }
    assert_eq!((disk(&node, "recalled"), disk(&node, "objects")), (50, 50));
    // Each was read from the disk once, and from memory once.
    let bytes: u64 = first.iter().map(|seen| seen.body.len() as u64).sum();
    let figure = |name: &str| node.status()[name].as_u64().unwrap();
    assert_eq!(
        (figure("disk_hit_bytes"), figure("hit_bytes")),
        (bytes, 2 * bytes)
    );
    assert_eq!(
        client
            .send("GET", "/other", &[("cache-control", "only-if-cached")], b"")
            .status,
        504
    );
    assert_eq!(client.get("/other").status, 502);
}

#[test]
fn variants_come_back_as_what_they_were() {
    let (origin, folder) = (origin(), tempfile::tempdir().unwrap());
    let node = Node::with(&config(origin.address, folder.path()));
    let mut client = Client::new(&node);
    for language in ["de", "en", "fr"] {
        client.send("GET", "/vary", &[("accept-language", language)], b"");
    }
    drop(node);
    let node = Node::with(&config(nowhere(), folder.path()));
    let mut client = Client::new(&node);
    for (language, text) in [
        ("fr", "/vary fr 2"),
        ("de", "/vary de 0"),
        ("en", "/vary en 1"),
    ] {
        let seen = client.send(
            "GET",
            "/vary",
            &[
                ("accept-language", language),
                ("cache-control", "only-if-cached"),
            ],
            b"",
        );
        assert_eq!((seen.status, seen.text().as_str()), (200, text));
    }
    assert_eq!(
        client
            .send("GET", "/vary", &[("accept-language", "it")], b"")
            .status,
        502
    );
    assert_eq!(
        client
            .send("HEAD", "/vary", &[("accept-language", "de")], b"")
            .header("content-length"),
        "10"
    );
}

#[test]
fn purges_and_invalidations_hold_across_restarts() {
    let orders = [
        "{\"url\": \"http://example.test/page-1\"}",
        "{\"prefix\": \"http://example.test/page\"}",
        "{\"tag\": \"tag-1\"}",
        "{\"everything\": true}",
        "POST",
    ];
    for order in orders {
        for restarts_between in [false, true] {
            let (origin, folder) = (origin(), tempfile::tempdir().unwrap());
            let mut node = Node::with(&config(origin.address, folder.path()));
            let mut client = Client::new(&node);
            client.get("/page-1");
            client.get("/other-2");
            if restarts_between {
                // Then it is on disk alone.
                drop(node);
                node = Node::with(&config(origin.address, folder.path()));
                client = Client::new(&node);
            }
            match order {
                "POST" => assert_eq!(client.send("POST", "/page-1", &[], b"x").status, 204),
                _ => node.purge(order),
            }
            if restarts_between {
                assert!(!client.get("/page-1").is_hit(), "{order}");
                node.purge("{\"url\": \"http://example.test/page-1\"}");
            }
            drop(node);
            let node = Node::with(&config(nowhere(), folder.path()));
            let mut client = Client::new(&node);
            assert_eq!(client.get("/page-1").status, 502, "{order}");
            let other = if order.contains("everything") {
                502
            } else {
                200
            };
            assert_eq!(client.get("/other-2").status, other, "{order}");
        }
    }
}

/// A 304 may say that from now on nothing is to be served without asking.
#[test]
fn a_lifetime_that_was_taken_away_is_not_on_the_disk_any_more() {
    let origin = Origin::new(|asked: &Asked, stream| {
        let validated = asked.header("if-none-match").is_some();
        let answer = if validated {
            "HTTP/1.1 304 Not Modified\r\ncache-control: no-cache\r\netag: \"a\"\r\n\r\n"
        } else {
            "HTTP/1.1 200 OK\r\ncache-control: max-age=600\r\netag: \"a\"\r\ncontent-length: 4\r\n\r\npage"
        };
        say(stream, answer)
    });
    let folder = tempfile::tempdir().unwrap();
    let node = Node::with(&config(origin.address, folder.path()));
    let mut client = Client::new(&node);
    client.get("/page");
    assert!(client.get("/page").is_hit());
    assert_eq!(
        client
            .send("GET", "/page", &[("cache-control", "no-cache")], b"")
            .text(),
        "page"
    );
    drop(node);
    let node = Node::with(&config(nowhere(), folder.path()));
    assert_eq!(Client::new(&node).get("/page").status, 502);
}

/// Softly purged, it may serve while the origin is down, and is validated while it is not.
#[test]
fn a_soft_purge_holds_across_a_restart() {
    let (origin, folder) = (origin(), tempfile::tempdir().unwrap());
    let node = Node::with(&config(origin.address, folder.path()));
    Client::new(&node).get("/page-1");
    node.purge("{\"tag\": \"tag-1\", \"soft\": true}");
    drop(node);
    let node = Node::with(&config(nowhere(), folder.path()));
    let seen = Client::new(&node).get("/page-1");
    assert_eq!((seen.status, seen.text().as_str()), (200, "/page-1 none 0"));
    assert!(
        seen.header("cache-status").contains("fwd=stale") && !seen.is_hit(),
        "{:?}",
        seen.head
    );
    drop(node);
    let node = Node::with(&config(origin.address, folder.path()));
    assert_eq!(Client::new(&node).get("/page-1").text(), "/page-1 none 1");
}

/// What memory's policy refuses, or lets go, is on the disk; and a hundred who ask for it at once
/// read it once.
#[test]
fn memory_refuses_and_the_disk_has_it() {
    let (origin, folder) = (origin(), tempfile::tempdir().unwrap());
    let mut config = config(origin.address, folder.path());
    config.cache.policy = "threshold(c=1)+lru".parse().unwrap();
    config.cache.capacity = ByteSize::from_bytes(64 << 10);
    let node = Node::with(&config);
    let mut client = Client::new(&node);
    // Memory fills while there is room.
    let pages = 400;
    for page in 0..pages {
        assert!(!client.get(&format!("/page-{page}")).is_hit());
    }
    assert_eq!(disk(&node, "stored"), pages);
    for page in 0..pages {
        assert!(client.get(&format!("/page-{page}")).is_hit(), "{page}");
    }
    assert_eq!(origin.requests() as u64, pages);
    let before = disk(&node, "recalled");
    let address = node.address;
    let last = format!("/page-{}", pages - 1);
    let crowd: Vec<_> = (0..100)
        .map(|_| {
            let target = last.clone();
            std::thread::spawn(move || Client::to(address).get(&target))
        })
        .collect();
    for client in crowd {
        assert!(client.join().unwrap().is_hit());
    }
    assert_eq!(origin.requests() as u64, pages);
    assert!(disk(&node, "recalled") - before <= 100);
}

/// Power fails while the newest records are written, and their file is what it is: the rest is
/// served, and what is damaged is not.
#[test]
fn a_torn_tail_and_rotten_bytes() {
    let (origin, folder) = (origin(), tempfile::tempdir().unwrap());
    let node = Node::with(&config(origin.address, folder.path()));
    let mut client = Client::new(&node);
    let first: Vec<Seen> = (0..20)
        .map(|page| client.get(&format!("/page-{page}")))
        .collect();
    drop(node);
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(folder.path().join("tier"))
        .unwrap();
    let mut region = vec![0; 1 << 20];
    file.read_exact_at(&mut region, 4096).unwrap();
    let of = |page: usize| {
        region
            .windows(40)
            .position(|at| at.starts_with(&first[page].body))
            .unwrap() as u64
    };
    // The newest region has no footer: it ends where a record is not whole. The next start finds
    // one, and misses only what is damaged.
    for (page, lost) in [(19, &[19][..]), (10, &[10, 19])] {
        file.write_all_at(b"!", 4096 + of(page)).unwrap();
        let node = Node::with(&config(nowhere(), folder.path()));
        let mut client = Client::new(&node);
        for (page, before) in first.iter().enumerate() {
            let seen = client.get(&format!("/page-{page}"));
            assert!(
                if lost.contains(&page) {
                    seen.status == 502
                } else {
                    seen.body == before.body
                },
                "{page} {lost:?}"
            );
        }
        drop(node);
    }
}

#[test]
fn a_disk_that_is_full_is_done_without() {
    let (origin, folder) = (origin(), tempfile::tempdir().unwrap());
    let mut config = config(origin.address, folder.path());
    // More than any disk has.
    config.disk.as_mut().unwrap().capacity = ByteSize::from_mib(200 << 20);
    let node = Node::with(&config);
    let mut client = Client::new(&node);
    for page in 0..5 {
        assert!(!client.get(&format!("/page-{page}")).is_hit());
        assert!(client.get(&format!("/page-{page}")).is_hit());
    }
    node.purge("{\"everything\": true}");
    assert!(
        node.status()["disk"]["failure"].is_string(),
        "{}",
        node.status()
    );
    assert_eq!(
        std::fs::metadata(folder.path().join("tier")).unwrap().len(),
        0
    );
}

#[test]
fn bad_settings_are_one_line_that_names_them() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("foreign"), "a letter to my mother").unwrap();
    let base = config(nowhere(), folder.path());
    let node = Node::with(&base);
    let with = |change: &dyn Fn(&mut DiskConfig)| {
        let mut config = base.clone();
        change(config.disk.as_mut().unwrap());
        config
    };
    let path = |name: &str| folder.path().join(name);
    for (config, parts) in [
        (
            with(&|disk| disk.path = path("no/folder")),
            ["[http.disk] path", "No such file"],
        ),
        (
            with(&|disk| disk.path = path("")),
            ["[http.disk] path", "directory"],
        ),
        (
            with(&|disk| disk.path = path("foreign")),
            ["[http.disk] path", "something else"],
        ),
        (with(&|_| ()), ["[http.disk] path", "another process"]),
        (
            with(&|disk| disk.capacity = ByteSize::from_mib(1)),
            ["[http.disk] capacity", "8MiB"],
        ),
    ] {
        let error = Http::start(&config, || ())
            .err()
            .expect("a refusal")
            .to_string();
        assert!(
            parts.iter().all(|part| error.contains(part)) && !error.contains('\n'),
            "{error}"
        );
    }
    assert_eq!(
        std::fs::read_to_string(path("foreign")).unwrap(),
        "a letter to my mother"
    );
    let source: Arc<dyn StatusSource> = node.http.as_ref().unwrap().source();
    assert!(source.status()["disk"]["failure"].is_null());
}
