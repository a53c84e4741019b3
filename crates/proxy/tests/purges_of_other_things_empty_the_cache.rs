//! Failure: purges of other URLs, prefixes and tags keep responses from being stored, or remove
//! stored ones, in memory or on disk.

use crate::wire::{self, Asked, Client, Node, Origin, Seen, say};
use larder_proxy::{Admin, HttpConfig, Upstream};
use larder_tier_host::DiskConfig;
use larder_units::ByteSize;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

const TOKEN: &str = "0123456789abcdef";
const URLS: usize = 60;

/// The admin server of a node, for purges.
struct Purger(Admin);

impl Purger {
    fn new(node: &Node) -> Purger {
        let http = node.http.as_ref().unwrap();
        let purging = Some(http.purging(Some(TOKEN)));
        Purger(Admin::start(([127, 0, 0, 1], 0).into(), vec![http.source()], purging).unwrap())
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr()
    }
}

fn purge(client: &mut Client, order: &str) -> u64 {
    let bearer = format!("Bearer {TOKEN}");
    let seen = client.send(
        "POST",
        "/purge",
        &[("authorization", &bearer)],
        order.as_bytes(),
    );
    assert_eq!(seen.status, 200, "{}", seen.text());
    let answer: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
    answer["purged"]
        .as_u64()
        .unwrap_or_else(|| panic!("{answer}"))
}

/// What nothing stored has.
fn other(kind: &str, number: u64) -> String {
    match kind {
        "tag" => format!("{{\"tag\": \"other-{number}\"}}"),
        "soft tag" => format!("{{\"tag\": \"other-{number}\", \"soft\": true}}"),
        "prefix" => format!("{{\"prefix\": \"http://other.test/{number}/\"}}"),
        "prefix of the same host" => {
            format!("{{\"prefix\": \"http://example.test/other-{number}/\"}}")
        }
        "url" => format!("{{\"url\": \"http://example.test/other-{number}\"}}"),
        _ => panic!("{kind}"),
    }
}

const KINDS: [&str; 5] = [
    "tag",
    "soft tag",
    "prefix",
    "prefix of the same host",
    "url",
];

fn config(upstream: SocketAddr, disk: Option<&Path>) -> HttpConfig {
    let disk = disk.map(|folder| DiskConfig {
        path: folder.join("tier"),
        capacity: ByteSize::from_mib(64),
        policy: "fifo".parse().unwrap(),
        queue: ByteSize::from_mib(8),
    });
    HttpConfig {
        disk,
        ..wire::config(Upstream::Http(
            format!("http://{upstream}").parse().unwrap(),
        ))
    }
}

fn page(stream: &mut std::net::TcpStream) -> bool {
    say(
        stream,
        "HTTP/1.1 200 OK\r\ncache-control: max-age=600\r\netag: \"a\"\r\nsurrogate-key: all page\r\ncontent-length: 4\r\n\r\npage",
    )
}

/// Nobody listens there.
fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

fn round(node: &Node) -> usize {
    let mut client = Client::new(node);
    (0..URLS)
        .map(|page| client.get(&format!("/{page}")))
        .filter(Seen::is_hit)
        .count()
}

/// During each request to the origin, something else is purged.
#[test]
fn a_purge_during_each_fetch_leaves_nothing_to_hit() {
    for kind in KINDS {
        for with_disk in [false, true] {
            let admin: Arc<OnceLock<SocketAddr>> = Arc::default();
            let (of_origin, number) = (Arc::clone(&admin), AtomicU64::new(0));
            let origin = Origin::new(move |_: &Asked, stream| {
                let mut client = Client::to(*of_origin.get().unwrap());
                assert_eq!(
                    purge(
                        &mut client,
                        &other(kind, number.fetch_add(1, Ordering::SeqCst))
                    ),
                    0
                );
                page(stream)
            });
            let folder = tempfile::tempdir().unwrap();
            let node = Node::with(&config(origin.address, with_disk.then(|| folder.path())));
            let purger = Purger::new(&node);
            admin.set(purger.address()).unwrap();
            assert_eq!(
                (round(&node), round(&node)),
                (0, URLS),
                "{kind}, with a disk: {with_disk}"
            );
            assert_eq!(
                purge(&mut Client::to(purger.address()), "{\"tag\": \"page\"}"),
                URLS as u64
            );
            assert_eq!(round(&node), 0, "{kind}, with a disk: {with_disk}");
            purger.0.stop();
        }
    }
}

/// As a site with a disk tier purges in a week.
#[test]
fn many_purges_of_other_things_empty_the_disk() {
    let origin = Origin::new(|_: &Asked, stream| page(stream));
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let node = Node::with(&config(origin.address, Some(folder.path())));
        assert_eq!(round(&node), 0);
        let purger = Purger::new(&node);
        std::thread::scope(|scope| {
            for client in 0..8 {
                let address = purger.address();
                scope.spawn(move || {
                    let mut admin = Client::to(address);
                    for number in 0..150 {
                        purge(&mut admin, &other(kind, client * 150 + number));
                    }
                });
            }
        });
        purger.0.stop();
        assert_eq!(round(&node), URLS, "{kind}: in memory");
        drop(node);
        let node = Node::with(&config(nowhere(), Some(folder.path())));
        assert_eq!(round(&node), URLS, "{kind}: on disk, after a restart");
    }
}

/// Failure: between the many, the purge of what is stored is forgotten.
#[test]
fn a_purge_is_forgotten_among_many_others() {
    let origin = Origin::new(|_: &Asked, stream| page(stream));
    for order in [
        "{\"tag\": \"page\"}",
        "{\"prefix\": \"http://example.test/\"}",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let node = Node::with(&config(origin.address, Some(folder.path())));
        assert_eq!(round(&node), 0);
        let purger = Purger::new(&node);
        let mut admin = Client::to(purger.address());
        assert_eq!(purge(&mut admin, order), URLS as u64);
        for number in 0..100 {
            for kind in &KINDS {
                _ = purge(&mut admin, &other(kind, number));
            }
        }
        purger.0.stop();
        drop(node);
        let node = Node::with(&config(nowhere(), Some(folder.path())));
        assert_eq!(round(&node), 0, "{order}");
    }
}
