//! Failure: an object of the third tier is put together with another response, or a request fails
//! because of it.

use crate::wire::{self, Asked, Client, Node, Origin, dead, say};
use larder_object_host::{ObjectStoreConfig, Prices};
use larder_proxy::{HttpConfig, Upstream};
use larder_units::ByteSize;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const BODY: usize = 200_000;

fn body(version: u64) -> Vec<u8> {
    let digit = b'0' + (version % 10) as u8;
    (0..BODY)
        .map(|at| {
            if at % 10 == 0 {
                digit
            } else {
                b'a' + (at % 23) as u8
            }
        })
        .collect()
}

/// A bucket that speaks as much of S3 as the tier needs.
#[derive(Default)]
struct Bucket {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Objects that are no filter break off in the middle.
    tears: AtomicBool,
}

impl Bucket {
    fn answer(&self, asked: &Asked, stream: &mut TcpStream) -> bool {
        let mut parts = asked.line.split(' ');
        let (method, target) = (parts.next().unwrap(), parts.next().unwrap());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let name = path
            .strip_prefix("/bucket")
            .unwrap()
            .trim_start_matches('/');
        let mut objects = self.objects.lock().unwrap();
        match method {
            "PUT" => {
                objects.insert(name.to_owned(), asked.body.clone());
                say(
                    stream,
                    "HTTP/1.1 200 OK\r\netag: \"1\"\r\ncontent-length: 0\r\n\r\n",
                )
            }
            "DELETE" => {
                objects.remove(name);
                say(stream, "HTTP/1.1 204 No Content\r\n\r\n")
            }
            _ if query.contains("list-type=2") => {
                let mut text = "<ListBucketResult><IsTruncated>false</IsTruncated>".to_owned();
                for (name, bytes) in objects.iter().filter(|(name, _)| name.contains("filters/")) {
                    text.push_str(&format!(
                        "<Contents><Key>{name}</Key><Size>{}</Size><ETag>\"1\"</ETag>\
                         <LastModified>2090-01-01T00:00:00.000Z</LastModified></Contents>",
                        bytes.len()
                    ));
                }
                text.push_str("</ListBucketResult>");
                let length = text.len();
                say(
                    stream,
                    &format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{text}"),
                )
            }
            _ => {
                let Some(bytes) = objects.get(name) else {
                    return say(
                        stream,
                        "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
                    );
                };
                let head = format!(
                    "HTTP/1.1 200 OK\r\netag: \"1\"\r\ncontent-length: {}\r\n\
                     last-modified: Mon, 30 Nov 2026 10:00:00 GMT\r\n\r\n",
                    bytes.len()
                );
                let is_torn = self.tears.load(Ordering::SeqCst) && !name.contains("filters/");
                let end = if is_torn {
                    bytes.len() / 2
                } else {
                    bytes.len()
                };
                say(stream, &head) && stream.write_all(&bytes[..end]).is_ok() && !is_torn
            }
        }
    }

    /// The objects that are no filter.
    fn count(&self) -> usize {
        let objects = self.objects.lock().unwrap();
        objects
            .keys()
            .filter(|name| !name.contains("filters/"))
            .count()
    }
}

/// The status of an answer, and the range that was asked for.
type Said = (u16, Option<String>);

/// An origin of one page, whose version changes; and the bucket.
struct World {
    bucket: Arc<Bucket>,
    store: Origin,
    origin: Origin,
    version: Arc<AtomicU64>,
    answers: Arc<Mutex<Vec<Said>>>,
    credentials: tempfile::NamedTempFile,
}

impl World {
    fn new() -> World {
        let bucket = Arc::new(Bucket::default());
        let version = Arc::new(AtomicU64::new(1));
        let answers: Arc<Mutex<Vec<Said>>> = Arc::default();
        let (objects, current, said) = (bucket.clone(), version.clone(), answers.clone());
        let mut credentials = tempfile::NamedTempFile::new().unwrap();
        write!(
            credentials,
            "aws_access_key_id = a\naws_secret_access_key = b\n"
        )
        .unwrap();
        World {
            bucket,
            store: Origin::new(move |asked, stream| objects.answer(asked, stream)),
            origin: Origin::new(move |asked, stream| {
                answer(asked, stream, current.load(Ordering::SeqCst), &said)
            }),
            version,
            answers,
            credentials,
        }
    }

    fn config(&self, origin: SocketAddr) -> HttpConfig {
        let url = "s3://bucket/site".parse().unwrap();
        let free = Prices {
            put: 0.0,
            get: 0.0,
            gigabyte_month: 0.0,
            origin_gigabyte: 0.0,
        };
        let upstream = Upstream::Http(format!("http://{origin}").parse().unwrap());
        HttpConfig {
            object_store: Some(ObjectStoreConfig {
                endpoint: Some(format!("http://{}", self.store.address)),
                credentials: Some(self.credentials.path().to_owned()),
                prices: free,
                queue: ByteSize::from_mib(4),
                ..ObjectStoreConfig::new(url)
            }),
            ..wire::config(upstream)
        }
    }

    /// A node that knows which objects exist.
    fn node(&self, origin: SocketAddr, known: u64) -> Node {
        let node = Node::with(&self.config(origin));
        for _ in 0..500 {
            if node.status()["object_store"]["known"].as_u64() >= Some(known) {
                return node;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("{}", node.status()["object_store"]);
    }

    /// The page is an object, and its node has gone.
    fn written() -> World {
        let world = World::new();
        let node = world.node(world.origin.address, 0);
        let mut client = Client::new(&node);
        for _ in 0..2 {
            assert_eq!(client.get("/page").body, body(1));
        }
        for _ in 0..500 {
            if world.bucket.count() == 1 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(world.bucket.count(), 1);
        drop(node);
        world.answers.lock().unwrap().clear();
        world
    }

    fn answers(&self) -> Vec<Said> {
        std::mem::take(&mut self.answers.lock().unwrap())
    }
}

fn answer(asked: &Asked, stream: &mut TcpStream, version: u64, said: &Mutex<Vec<Said>>) -> bool {
    let tag = format!("\"{version}\"");
    let fields = format!("etag: {tag}\r\ncache-control: max-age=600\r\n");
    if asked.header("if-none-match") == Some(&tag) {
        said.lock().unwrap().push((304, None));
        return say(
            stream,
            &format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n"),
        );
    }
    let range = asked
        .header("range")
        .filter(|_| asked.header("if-range") == Some(&tag));
    let whole = body(version);
    let (status, first) = match range {
        Some(range) => {
            let first = range.trim_start_matches("bytes=").trim_end_matches('-');
            (206, first.parse().unwrap())
        }
        None => (200, 0),
    };
    said.lock()
        .unwrap()
        .push((status, range.map(str::to_owned)));
    let part = if status == 206 {
        format!("content-range: bytes {first}-{}/{BODY}\r\n", BODY - 1)
    } else {
        String::new()
    };
    let length = BODY - first;
    let head = format!("HTTP/1.1 {status} OK\r\n{fields}{part}content-length: {length}\r\n\r\n");
    say(stream, &head) && stream.write_all(&whole[first..]).is_ok()
}

#[test]
fn a_body_breaks_off_with_its_object() {
    let world = World::written();
    world.bucket.tears.store(true, Ordering::SeqCst);
    let node = world.node(world.origin.address, 1);
    let seen = Client::new(&node).get("/page");
    assert!(!seen.cut && seen.body == body(1));
    assert!(seen.header("cache-status").ends_with("detail=object-store"));
    let answers = world.answers();
    let [(304, None), (206, Some(range))] = &answers[..] else {
        panic!("{answers:?}");
    };
    let first: usize = range[6..range.len() - 1].parse().unwrap();
    assert!((1..BODY).contains(&first), "{range}");
    // What is stored is whole, too.
    let seen = Client::new(&node).get("/page");
    assert!(seen.is_hit() && seen.body == body(1));
}

/// Failure: the rest of a torn object is that of a newer page.
#[test]
fn a_body_is_put_together_from_two_pages() {
    let world = World::written();
    world.bucket.tears.store(true, Ordering::SeqCst);
    // It changes between the confirmation and the rest.
    let (version, said) = (world.version.clone(), world.answers.clone());
    let origin = Origin::new(move |asked, stream| {
        let now = version.load(Ordering::SeqCst);
        let goes_on = answer(asked, stream, now, &said);
        version.store(2, Ordering::SeqCst);
        goes_on
    });
    let node = world.node(origin.address, 1);
    let seen = Client::new(&node).get("/page");
    assert!(seen.cut && seen.body.len() < BODY, "{}", seen.body.len());
    let seen = Client::new(&node).get("/page");
    assert_eq!((seen.status, seen.cut), (200, false));
    assert!(seen.body == body(2), "{}", seen.header("cache-status"));
}

#[test]
fn an_object_hides_a_change_or_a_failure() {
    let world = World::written();
    world.version.store(2, Ordering::SeqCst);
    let node = world.node(world.origin.address, 1);
    let seen = Client::new(&node).get("/page");
    assert!(seen.body == body(2));
    assert!(!seen.header("cache-status").contains("object-store"));
    assert_eq!(world.answers(), [(200, None)]);
    let figures = &node.status()["object_store"];
    assert_eq!(
        (&figures["outdated"], &figures["confirmed"]),
        (&1.into(), &0.into())
    );
    drop(node);
    // Nobody can confirm it.
    let node = world.node(dead(), 1);
    assert_eq!(Client::new(&node).get("/page").status, 502);
}

/// Failure: a store that nobody can reach makes requests fail, or keeps a node from starting.
#[test]
fn a_store_is_away() {
    let world = World::new();
    let mut config = world.config(world.origin.address);
    let store = config.object_store.as_mut().unwrap();
    store.endpoint = Some(format!("http://{}", dead()));
    let node = Node::with(&config);
    for target in ["/1", "/2", "/1", "/2", "/1"] {
        assert_eq!(Client::new(&node).get(target).status, 200);
    }
    assert_eq!(node.status()["object_store"]["written"], 0);
}
