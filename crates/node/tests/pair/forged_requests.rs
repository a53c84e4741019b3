//! Failure: a peer of the egress sends its origin what no ingress would, or takes its places from
//! everybody else.

use super::{Place, fetch_by_name};
use crate::wire::{Asked, Origin, say};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use larder_client::{Client, Received, Transport};
use larder_gateway::message::{Answer, Content, Head, Request};
use larder_gateway::naming::Object;
use larder_packet::{DigestSigner, HmacSigner, InterestBuilder, Name, SignatureFreshness};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// An origin that answers with what it got.
fn mirror() -> Origin {
    Origin::new(|asked: &Asked, stream| {
        let fields: Vec<String> = asked
            .head
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        let text = format!("{}\n{}", asked.line, fields.join("\n"));
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: {}\r\n\r\n{text}",
                text.len()
            ),
        )
    })
}

/// A request in full.
fn request(method: &str, fields: &[(&str, &str)]) -> Request {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(
            HeaderName::try_from(*name).unwrap(),
            HeaderValue::try_from(*value).unwrap(),
        );
    }
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    Request {
        method,
        headers,
        body: Bytes::new(),
        unique: Some(rand()),
    }
}

fn rand() -> u64 {
    let [word] = larder_client::entropy::words();
    word
}

/// An Interest with a request for a page, signed with the secret if there is one.
fn interest(name: &Name, request: &Request, secret: Option<&[u8]>) -> Vec<u8> {
    let builder = InterestBuilder::new(name)
        .nonce(rand() as u32)
        .lifetime(Duration::from_secs(8));
    let parameters = request.encode();
    let builder = builder.application_parameters(&parameters);
    let freshness = SignatureFreshness {
        nonce: None,
        time: None,
        seq_num: None,
    };
    match secret {
        Some(secret) => builder
            .sign(&HmacSigner::new(secret, Name::root()), freshness)
            .unwrap(),
        None => builder.sign(&DigestSigner, freshness).unwrap(),
    }
}

fn page(authority: &str, target: &str) -> Name {
    Object::new("/far".parse::<Name>().unwrap().as_name(), authority, target)
        .unwrap()
        .question()
}

/// A neighbour that sends Interests by its own face.
struct Neighbour(Client);

impl Neighbour {
    fn of(place: &Place) -> Neighbour {
        Neighbour(Client::connect_to(Transport::parse(&place.tcp(), None).unwrap()).unwrap())
    }

    fn send(&mut self, wire: &[u8]) {
        self.0
            .output()
            .send(None, |out| out.extend_from_slice(wire));
        self.0.flush(Duration::from_secs(20)).unwrap();
    }

    /// Waits for the answer to an Interest; `None` if the Interest expires.
    fn ask(&mut self, wire: &[u8]) -> Option<Head> {
        self.send(wire);
        let until = self.0.now() + Duration::from_secs(8);
        let mut found = None;
        while found.is_none() && self.0.now() < until {
            let received = self.0.receive(Some(until), |_, received, _| {
                if let Received::Data { data, .. } = received
                    && let Ok(Answer::Head(head)) = Answer::decode(data.content)
                {
                    found = Some(head);
                }
            });
            received.unwrap();
        }
        found
    }

    fn text(&mut self, wire: &[u8]) -> String {
        let head = self.ask(wire).expect("an answer");
        match head.body {
            Content::Inline(body) => String::from_utf8_lossy(&body).into_owned(),
            Content::Segments { .. } => panic!("the text does not fit"),
        }
    }
}

/// Fields from which programs take a target, a scheme, a host, a method or a client other than
/// those of the request.
const UNKEYED: [&str; 34] = [
    "forwarded",
    "x-original-url",
    "x-original-uri",
    "x-original-host",
    "x-rewrite-url",
    "x-host",
    "x-forwarded-server",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-protocol",
    "x-forwarded-scheme",
    "x-forwarded-ssl",
    "x-forwarded-uri",
    "x-forwarded-by",
    "x-scheme",
    "x-url-scheme",
    "front-end-https",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x_original_url",
    "x.original.url",
    "x_forwarded_for",
    "x_forwarded_host",
    "x.forwarded.proto",
    "content_length",
    "transfer_encoding",
    "x-real-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "remote-user",
    "x-sendfile-type",
    "x-middleware-subrequest",
    "http2-settings",
];

#[test]
fn an_interest_has_fields_that_no_ingress_sends() {
    let origin = mirror();
    let far = Place::far(origin.address, "");
    let mut neighbour = Neighbour::of(&far);
    let mut fields: Vec<(&str, &str)> = UNKEYED.iter().map(|name| (*name, "forged")).collect();
    fields.extend([
        ("x-forwarded-for", "10.9.8.7"),
        ("x-forwarded-host", "forged"),
        ("x-forwarded-proto", "forged"),
        ("connection", "x-secret, upgrade"),
        ("x-secret", "forged"),
        ("upgrade", "forged"),
        ("te", "forged"),
        ("proxy-authorization", "forged"),
        ("transfer-encoding", "chunked"),
        ("content-length", "100"),
        ("expect", "100-continue"),
        ("host", "forged"),
        ("user-agent", "passes"),
    ]);
    let seen = neighbour.text(&interest(
        &page("example.test", "/a"),
        &request("POST", &fields),
        None,
    ));
    assert!(seen.starts_with("POST /a HTTP/1.1"), "{seen}");
    assert!(
        seen.contains("user-agent: passes") && seen.contains("host: example.test"),
        "{seen}"
    );
    assert!(
        !seen.contains("forged")
            && !seen.contains("10.9.8.7")
            && !seen.contains("transfer-encoding"),
        "{seen}"
    );
    assert!(
        !seen.contains("expect") && !seen.contains("content-length: 100"),
        "{seen}"
    );
    assert!(
        seen.contains("x-forwarded-for: unknown"),
        "its client would be this machine: {seen}"
    );
}

/// Failure: the ingress of a pair that shares a secret cannot say who its client is.
#[test]
fn the_client_that_a_signed_request_names_is_lost() {
    let origin = mirror();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secret");
    std::fs::write(&path, "0123456789abcdef0123456789abcdef").unwrap();
    let secret = format!("secret = {path:?}");
    let far = Place::far(origin.address, &secret);
    let edge = Place::edge(&far.tcp(), &secret);
    let seen = edge
        .client()
        .send("GET", "/a", &[("cookie", "a=1")], b"")
        .text();
    assert!(
        seen.contains("x-forwarded-for: 127.0.0.1") && seen.contains("x-forwarded-proto: http"),
        "{seen}"
    );
    let mut neighbour = Neighbour::of(&far);
    let fields = [
        ("x-original-url", "/admin"),
        ("x-real-ip", "10.0.0.1"),
        ("x-forwarded-for", "10.0.0.2, 10.0.0.3"),
    ];
    let wire = interest(
        &page("a", "/"),
        &request("GET", &fields),
        Some(b"0123456789abcdef0123456789abcdef"),
    );
    let seen = neighbour.text(&wire);
    assert!(!seen.contains("/admin"), "{seen}");
    assert!(
        seen.contains("x-real-ip: 10.0.0.1")
            && seen.contains("x-forwarded-for: 10.0.0.2, 10.0.0.3"),
        "{seen}"
    );
}

#[test]
fn an_interest_has_a_method_a_host_or_a_path_that_no_ingress_sends() {
    let origin = mirror();
    let far = Place::far(origin.address, "");
    let mut neighbour = Neighbour::of(&far);
    let methods = [
        "CONNECT", "TRACE", "TRACK", "PRI", "post", "Get", "PURGE", "BAN", "DEBUG", "X",
    ];
    for method in methods {
        neighbour.send(&interest(
            &page("example.test", "/a"),
            &request(method, &[]),
            None,
        ));
    }
    until(|| far.figure("/gateway/not_ours") == methods.len() as u64);
    let hosts = "|a..|.a|[a]|a,b|a@b|A|a:|a:b|a:99999|a:080|a b|a/b|[::1|[::1]a|a?|a#|ä|a%2fb|a\\b"
        .split('|');
    let targets =
        "/a#b|/../a|/a/..|/./a|/%2e%2e/a|/.%2E/a|/a\\..\\b|/%2e|/a/%5c../b|/..%2fa|/a b|/%zz|/a%|/\u{1}".split('|');
    let names = hosts
        .map(|host| page(host, "/a"))
        .chain(targets.map(|target| page("example.test", target)));
    for name in names {
        for method in ["GET", "POST"] {
            let head = neighbour
                .ask(&interest(&name, &request(method, &[]), None))
                .expect("an answer");
            assert_eq!(head.status, 400, "{method} {name}");
        }
    }
    assert_eq!(origin.requests(), 0);
    let seen = neighbour.text(&interest(
        &page("[::1]:81", "/a//b/...%2f?c=/../d%"),
        &request("PROPFIND", &[]),
        None,
    ));
    assert!(
        seen.starts_with("PROPFIND /a//b/...%2f?c=/../d% HTTP/1.1"),
        "{seen}"
    );
    assert!(seen.contains("host: [::1]:81"), "{seen}");
}

/// A gate that holds the origin's answers to slow pages.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// An origin that answers slow pages when the gate is open: nothing at all, or the rest of a
    /// body.
    fn origin(&self, body: bool) -> Origin {
        let held = self.clone();
        Origin::new(move |asked: &Asked, stream| {
            if asked.line.contains("slow") {
                if body
                    && !say(
                        stream,
                        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n",
                    )
                {
                    return false;
                }
                held.pass();
                return false;
            }
            say(
                stream,
                "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 5\r\n\r\nhello",
            )
        })
    }

    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(open, |open| !*open).unwrap());
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

/// Failure: a neighbour that asks for slow pages takes every place and all memory, and the clients
/// of other neighbours get 503.
#[test]
fn one_neighbour_takes_the_places_of_all() {
    for body in [false, true] {
        let gate = Gate::default();
        let origin = gate.origin(body);
        let far = Place::far(origin.address, "memory = \"20MiB\"");
        let edge = Place::edge(&far.tcp(), "");
        let mut neighbour = Neighbour::of(&far);
        for number in 0..3_000 {
            neighbour.send(&interest(
                &page("a", &format!("/slow{number}")),
                &request("GET", &[]),
                None,
            ));
        }
        until(|| far.figure("/gateway/questions") >= 3_000);
        for number in 0..20 {
            let seen = edge.client().get(&format!("/fast{number}"));
            assert_eq!(
                (seen.status, seen.text().as_str()),
                (200, "hello"),
                "{number} of slow bodies: {body}"
            );
            let seen = edge
                .client()
                .send("POST", &format!("/fast{number}"), &[], b"a");
            assert_eq!(
                (seen.status, seen.text().as_str()),
                (200, "hello"),
                "{number} of slow bodies: {body}"
            );
        }
        assert!(fetch_by_name(&far, "/far/a/fast").is_ok());
        gate.open();
    }
}

/// Failure: somebody behind the same face as an ingress takes its places, though the ingress signs
/// its requests.
#[test]
fn an_ingress_has_no_places_beside_a_stranger_behind_its_face() {
    for body in [false, true] {
        let gate = Gate::default();
        let origin = gate.origin(body);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        std::fs::write(&path, "0123456789abcdef0123456789abcdef").unwrap();
        let secret = format!("secret = {path:?}");
        // With more memory, the places at the origin are short before the room is.
        for memory in ["20MiB", "256MiB"] {
            let far = Place::far(origin.address, &format!("memory = \"{memory}\"\n{secret}"));
            let between = Place::between(&far);
            let edge = Place::edge(&between.tcp(), &secret);
            let mut stranger = Neighbour::of(&between);
            for number in 0..3_000 {
                let shared = Request {
                    unique: None,
                    ..request("GET", &[])
                };
                stranger.send(&interest(
                    &page("a", &format!("/slow{number}")),
                    &shared,
                    None,
                ));
            }
            until(|| far.figure("/gateway/questions") >= 3_000);
            for number in 0..20 {
                let seen = edge.client().get(&format!("/fast{number}"));
                assert_eq!(
                    (seen.status, seen.text().as_str()),
                    (200, "hello"),
                    "{number}, {memory}, slow bodies: {body}"
                );
            }
        }
        gate.open();
    }
}

fn until(mut is_so: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !is_so() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "it never comes"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
