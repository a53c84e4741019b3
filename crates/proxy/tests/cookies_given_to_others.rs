//! Failure: a client gets the cookie that the origin has set for another one.

use crate::wire::{self, Asked, Client, Node, Origin, say};
use larder_proxy::rules::Rule;
use larder_proxy::{HttpConfig, Upstream};
use larder_tier_host::DiskConfig;
use larder_units::ByteSize;
use std::sync::atomic::{AtomicU64, Ordering};

/// An origin that gives each client a session, and its pages a lifetime.
fn origin(fields: &'static str) -> Origin {
    let count = AtomicU64::new(0);
    Origin::new(move |_: &Asked, stream| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let head = format!(
            "HTTP/1.1 200 OK\r\n{fields}\r\nset-cookie: session={number}\r\ncontent-length: 4\r\n\r\npage"
        );
        say(stream, &head)
    })
}

fn config(origin: &Origin) -> HttpConfig {
    wire::config(Upstream::Http(
        format!("http://{}", origin.address).parse().unwrap(),
    ))
}

const LIFETIMES: [&str; 6] = [
    "cache-control: public",
    "cache-control: public, max-age=600",
    "cache-control: s-maxage=600",
    "expires: Sun, 06 Nov 2094 08:49:37 GMT\r\ncache-control: public",
    "cdn-cache-control: public, max-age=600",
    "cdn-cache-control: s-maxage=600",
];

#[test]
fn a_session_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    for fields in LIFETIMES {
        for default_ttl in [None, Some(600)] {
            for with_disk in [false, true] {
                let origin = origin(fields);
                let rules = vec![Rule {
                    default_ttl,
                    ..Rule::default()
                }];
                let disk = with_disk.then(|| DiskConfig {
                    path: folder.path().join("tier"),
                    capacity: ByteSize::from_mib(8),
                    policy: "fifo".parse().unwrap(),
                    queue: ByteSize::from_mib(8),
                });
                let node = Node::with(&HttpConfig {
                    rules,
                    disk,
                    ..config(&origin)
                });
                for number in 0..3 {
                    let seen = Client::new(&node).get("/");
                    let session = format!("session={number}");
                    assert_eq!(
                        (seen.is_hit(), seen.header("set-cookie")),
                        (false, session.as_str()),
                        "{fields}"
                    );
                }
            }
        }
    }
}

/// What was stored while cookies were shared is not given to others after the change.
#[test]
fn a_session_comes_back_from_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let origin = origin("cache-control: public, max-age=600");
    for share_cookies in [true, false] {
        let disk = DiskConfig {
            path: folder.path().join("tier"),
            capacity: ByteSize::from_mib(8),
            policy: "fifo".parse().unwrap(),
            queue: ByteSize::from_mib(8),
        };
        let mut config = config(&origin);
        config.cache.share_cookies = share_cookies;
        config.disk = Some(disk);
        let node = Node::with(&config);
        let [first, second] = [(); 2].map(|()| Client::new(&node).get("/"));
        assert_eq!(second.is_hit(), share_cookies);
        assert!(!first.is_hit());
    }
}
