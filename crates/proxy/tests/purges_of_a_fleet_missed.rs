//! Failure: a node that may have missed purges of its fleet serves what may be purged; a purge is
//! not shared with the fleet, or its client does not learn that.

use crate::wire::{Client, Node, Origin, Seen, config, say};
use larder_http::{Purge, Scope, Url};
use larder_proxy::{
    Admin, CertificateFiles, Fleet, HttpConfig, Owner, PeersConfig, Publishing, Unpublished,
    Upstream, Wait,
};
use larder_units::Time;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const TOKEN: &str = "0123456789abcdef";

/// A fleet that does what the test says.
#[derive(Debug, Default)]
struct Script {
    /// In nanoseconds of the cache's clock.
    trusted_since: AtomicU64,
    refuses: AtomicBool,
    published: Mutex<Vec<String>>,
    invalidated: Mutex<Vec<String>>,
    /// The node that owns all objects, if it is another one.
    owner: Mutex<Option<Owner>>,
    is_behind: AtomicBool,
}

impl Fleet for Script {
    fn trusted_since(&self, _now: Time) -> Time {
        Time::from_nanos(self.trusted_since.load(Ordering::Relaxed))
    }

    fn publish<'a>(&'a self, purge: &Purge, wait: Wait) -> Publishing<'a> {
        let waits = if wait == Wait::All { ", waits" } else { "" };
        let said = format!("{purge}{waits}");
        self.published.lock().unwrap().push(said);
        Box::pin(async {
            if self.refuses.load(Ordering::Relaxed) {
                return Err(Unpublished::Unknown("it is sent again".to_owned()));
            }
            Ok(serde_json::json!({ "position": 7 }))
        })
    }

    fn shares_invalidations(&self) -> bool {
        true
    }

    fn invalidate(&self, urls: Vec<Url>) {
        let urls = urls.iter().map(Url::to_string);
        self.invalidated.lock().unwrap().extend(urls);
    }

    fn owners(&self, _url: &str) -> Vec<Owner> {
        self.owner.lock().unwrap().clone().into_iter().collect()
    }

    fn position(&self) -> Option<String> {
        Some("7 log".to_owned())
    }

    fn has_applied(&self, position: &str) -> bool {
        position == "7 log" && !self.is_behind.load(Ordering::Relaxed)
    }
}

fn in_front_of(origin: &Origin) -> Upstream {
    Upstream::Http(format!("http://{}", origin.address).parse().unwrap())
}

fn purge(admin: &Admin, body: &str) -> Seen {
    let bearer = format!("Bearer {TOKEN}");
    Client::to(admin.local_addr()).send(
        "POST",
        "/purge",
        &[("authorization", &bearer)],
        body.as_bytes(),
    )
}

#[test]
fn a_node_without_a_proof_serves_what_may_be_purged() {
    let is_down = Arc::new(AtomicBool::new(false));
    let down = Arc::clone(&is_down);
    let origin = Origin::new(move |request, stream| {
        const FIELDS: &str = "cache-control: max-age=60, stale-while-revalidate=60, stale-if-error=60\r\netag: \"a\"";
        if down.load(Ordering::Relaxed) {
            return false;
        }
        match request.header("if-none-match") {
            Some(_) => say(
                stream,
                &format!("HTTP/1.1 304 Not Modified\r\n{FIELDS}\r\n\r\n"),
            ),
            None => say(
                stream,
                &format!("HTTP/1.1 200 OK\r\n{FIELDS}\r\ncontent-length: 1\r\n\r\nx"),
            ),
        }
    });
    let fleet = Arc::new(Script::default());
    let node = Node::with(&HttpConfig {
        fleet: Some(Arc::clone(&fleet) as Arc<dyn Fleet>),
        ..config(in_front_of(&origin))
    });
    let mut client = Client::new(&node);
    client.get("/a");
    assert!(client.get("/a").is_hit());
    // Everything so far may be purged: it is validated once, and then known again.
    let now = node.http.as_ref().unwrap().purger().now();
    fleet.trusted_since.store(now.nanos(), Ordering::Relaxed);
    let seen = client.get("/a");
    assert!(
        seen.header("cache-status").contains("fwd-status=304"),
        "{seen:?}"
    );
    assert!(client.get("/a").is_hit());
    // The origin is down: nothing that may be purged is served instead.
    is_down.store(true, Ordering::Relaxed);
    let now = node.http.as_ref().unwrap().purger().now();
    fleet.trusted_since.store(now.nanos(), Ordering::Relaxed);
    assert_eq!(client.get("/a").status, 504);
    fleet.trusted_since.store(0, Ordering::Relaxed);
    assert!(client.get("/a").is_hit());
}

#[test]
fn a_purge_stays_on_one_node() {
    let origin = Origin::new(|_, stream| {
        say(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 1\r\n\r\nx",
        )
    });
    let fleet = Arc::new(Script::default());
    let node = Node::with(&HttpConfig {
        fleet: Some(Arc::clone(&fleet) as Arc<dyn Fleet>),
        ..config(in_front_of(&origin))
    });
    let http = node.http.as_ref().unwrap();
    let purging = Some(http.purging(Some(TOKEN)));
    let admin = Admin::start(([127, 0, 0, 1], 0).into(), vec![http.source()], purging).unwrap();
    let mut client = Client::new(&node);
    client.get("/a");
    let seen = purge(
        &admin,
        "{\"url\": \"http://example.test/a\", \"soft\": true, \"wait\": \"all\"}",
    );
    let said = seen.text().trim().to_owned();
    assert_eq!(said, "{\"fleet\":{\"position\":7},\"purged\":1}");
    fleet.refuses.store(true, Ordering::Relaxed);
    let seen = purge(&admin, "{\"tag\": \"b\"}");
    assert_eq!(seen.status, 503);
    assert!(seen.text().contains("it is sent again"), "{seen:?}");
    // What is malformed is not published.
    assert_eq!(purge(&admin, "{}").status, 400);
    let published = fleet.published.lock().unwrap().clone();
    assert_eq!(
        published,
        ["url http://example.test/a softly, waits", "tag \"b\""]
    );
    admin.stop();
}

/// Failure: what an unsafe request has changed stays on the other nodes; or a safe or failed
/// request, or a field that names another site, purges there.
#[test]
fn a_change_stays_on_one_node() {
    let origin = Origin::new(|request, stream| {
        let status = if request.line.contains("fails") {
            "500 Internal Server Error"
        } else {
            "200 OK"
        };
        say(
            stream,
            &format!(
                "HTTP/1.1 {status}\r\nlocation: /made\r\ncontent-location: http://other.test/a\r\n\
                 cache-control: max-age=60\r\ncontent-length: 1\r\n\r\nx"
            ),
        )
    });
    let fleet = Arc::new(Script::default());
    let node = Node::with(&HttpConfig {
        fleet: Some(Arc::clone(&fleet) as Arc<dyn Fleet>),
        ..config(in_front_of(&origin))
    });
    let mut client = Client::new(&node);
    client.get("/a");
    client.send("POST", "/fails", &[], b"x");
    assert!(fleet.invalidated.lock().unwrap().is_empty());
    client.send("POST", "/a?b=%20", &[], b"x");
    client.send("DELETE", "/a", &[], b"");
    let invalidated = fleet.invalidated.lock().unwrap().clone();
    let urls = ["/a?b=%20", "/made", "/a", "/made"];
    assert_eq!(
        invalidated,
        urls.map(|path| format!("http://example.test{path}"))
    );
}

fn data(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.join("tests/data").join(name)
}

/// A node that shares its responses, with this certificate.
fn sharing(
    origin: &Origin,
    fleet: &Arc<Script>,
    ca: &Path,
    certificate: &str,
    listen: SocketAddr,
) -> Node {
    let peers = PeersConfig {
        listen: listen.into(),
        ca: ca.to_owned(),
        certificate: CertificateFiles {
            certificate: data(&format!("{certificate}.pem")),
            key: data(&format!("{certificate}.key")),
        },
    };
    Node::with(&HttpConfig {
        fleet: Some(Arc::clone(fleet) as Arc<dyn Fleet>),
        peers: Some(peers),
        ..config(in_front_of(origin))
    })
}

/// Failure: a node has executed a purge, and gets the purged response from the owner, which has
/// not; or it takes the owner's refusal for a response.
#[test]
fn an_owner_gives_what_it_has_not_purged_yet() {
    let version = Arc::new(AtomicUsize::new(1));
    let made = Arc::clone(&version);
    let origin = Origin::new(move |_, stream| {
        let body = made.load(Ordering::Relaxed);
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 1\r\n\r\n{body}"
            ),
        )
    });
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    let authorities = ["authority.pem", "other_authority.pem"].map(|name| {
        let text = std::fs::read(data(name));
        text.unwrap()
    });
    std::fs::write(&ca, authorities.concat()).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = free.local_addr().unwrap();
    drop(free);
    let (of_owner, of_asker) = (Arc::new(Script::default()), Arc::new(Script::default()));
    let _owner = sharing(&origin, &of_owner, &ca, "localhost", listen);
    let any = ([127, 0, 0, 1], 0).into();
    let asker = sharing(&origin, &of_asker, &ca, "alice", any);
    *of_asker.owner.lock().unwrap() = Some(Owner {
        node: "localhost".into(),
        address: listen,
    });
    let mut client = Client::new(&asker);
    assert_eq!(client.get("/a").text(), "1");
    // The owner has it, and answers.
    version.store(2, Ordering::Relaxed);
    assert_eq!(client.get("/a").text(), "1");
    assert_eq!(asker.status()["peers"]["answered"], 2);
    of_owner.is_behind.store(true, Ordering::Relaxed);
    let purge = Purge {
        scope: Scope::Exact("http://example.test/a".parse().unwrap()),
        soft: false,
    };
    asker.http.as_ref().unwrap().purger().purge(&purge);
    let seen = client.get("/a");
    assert_eq!((seen.status, &*seen.text()), (200, "2"));
    // It keeps what the origin has said.
    version.store(3, Ordering::Relaxed);
    let seen = client.get("/a");
    assert!(seen.is_hit() && seen.text() == "2", "{seen:?}");
}
