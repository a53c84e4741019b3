//! Failure: each spelling of `Accept-Encoding` is a request to the origin and a variant, a client
//! gets a coding that it refuses, or the origin does not see what the client accepts.

use crate::wire::{self, Asked, Client, Node, Origin, say};
use larder_http::Codings;
use larder_proxy::{HttpConfig, Upstream};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// An origin that uses the first coding that the request names, and notes what it names.
fn negotiating() -> (Origin, Arc<Mutex<Vec<Option<String>>>>) {
    let seen: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let origin = Origin::new(move |asked: &Asked, stream| {
        let value = asked.header("accept-encoding");
        noted.lock().unwrap().push(value.map(str::to_owned));
        let named = value.unwrap_or_default();
        let coding = ["br", "zstd", "gzip"]
            .into_iter()
            .find(|coding| named.contains(coding))
            .unwrap_or("identity");
        let fields = "cache-control: max-age=1000\r\nvary: Accept-Encoding\r\ncontent-length: 2";
        say(
            stream,
            &format!("HTTP/1.1 200 OK\r\ncontent-encoding: {coding}\r\n{fields}\r\n\r\nok"),
        )
    });
    (origin, seen)
}

fn node(origin: &Origin, codings: &[&str]) -> Node {
    let upstream = Upstream::Http(format!("http://{}", origin.address).parse().unwrap());
    let accept_encoding = Codings::of(codings.iter().copied()).unwrap();
    Node::with(&HttpConfig {
        accept_encoding,
        ..wire::config(upstream)
    })
}

/// Returns 1000 spellings, each with the codings that it names with a weight above 0.
fn spellings() -> Vec<(String, BTreeSet<&'static str>)> {
    let names = ["gzip", "br", "deflate", "zstd", "exi"];
    let weights = [
        ("", true),
        (";q=1.0", true),
        ("; Q=0.5", true),
        (";q=0", false),
        (" ;q=0.00", false),
    ];
    let one = |number: usize| {
        let (mut texts, mut accepted) = (Vec::new(), BTreeSet::new());
        for at in 0..1 + number % names.len() {
            let name = names[(number + at) % names.len()];
            let (weight, is_accepted) = weights[number / (7 * at + 3) % weights.len()];
            let shown = if number.is_multiple_of(3) {
                name.to_uppercase()
            } else {
                name.to_owned()
            };
            texts.push(format!("{shown}{weight}"));
            if is_accepted {
                accepted.insert(name);
            }
        }
        let comma = [",", ", ", " ,\t", ", ,"][number % 4];
        (texts.join(comma), accepted)
    };
    let mut all: Vec<_> = (0..20_000).map(one).collect();
    all.sort();
    all.dedup();
    all.truncate(1000);
    all
}

#[test]
fn a_thousand_spellings_are_a_thousand_requests() {
    let (origin, seen) = negotiating();
    let node = node(&origin, &["br", "gzip", "zstd"]);
    let mut client = Client::new(&node);
    let all = spellings();
    assert_eq!(all.len(), 1000);
    for (number, (spelling, accepted)) in all.iter().enumerate() {
        // Half of the requests are no plain ones.
        let field = if number.is_multiple_of(2) {
            "x-a"
        } else {
            "cache-control"
        };
        let answer = client.send(
            "GET",
            "/page",
            &[("accept-encoding", spelling), (field, "max-age=900")],
            b"",
        );
        let coding = answer.header("content-encoding").to_owned();
        let best = ["br", "zstd", "gzip"]
            .into_iter()
            .find(|coding| accepted.contains(coding))
            .unwrap_or("identity");
        assert_eq!(coding, best, "{spelling:?}");
    }
    let requests = seen.lock().unwrap().clone();
    let variants: BTreeSet<_> = requests.iter().collect();
    assert_eq!(
        requests.len(),
        variants.len(),
        "each of them once: {requests:?}"
    );
    assert!(variants.len() <= 8, "{variants:?}");
    assert_eq!(
        client.get("/page").header("content-encoding"),
        "identity",
        "no field is no coding for this origin"
    );
    assert_eq!(seen.lock().unwrap().last(), Some(&None));
}

#[test]
fn requests_that_are_not_reduced_lose_their_meaning() {
    let (origin, seen) = negotiating();
    let node = node(&origin, &["gzip"]);
    let mut client = Client::new(&node);
    let mut last = |method: &str, target: &str, value: &str| {
        client.send(
            method,
            target,
            &[("accept-encoding", value)],
            if method == "POST" { b"a" } else { b"" },
        );
        seen.lock().unwrap().last().cloned().unwrap().unwrap()
    };
    assert_eq!(last("GET", "/a", "br, gzip;q=0.1"), "gzip");
    assert_eq!(last("HEAD", "/b", "br"), "identity");
    assert_eq!(last("POST", "/c", "br;q=0.5"), "br;q=0.5");
    assert_eq!(
        last("GET", "/d", "gzip, identity;q=0"),
        "gzip, identity;q=0"
    );
    let requests = origin.requests();
    assert_eq!(
        last("GET", "/d", "identity;q=0.0,GZIP"),
        "gzip, identity;q=0",
        "another spelling"
    );
    assert_eq!(origin.requests(), requests, "a hit");
    let http = node.http.as_ref().unwrap();
    let upstream = Upstream::Http(format!("http://{}", origin.address).parse().unwrap());
    let config = HttpConfig {
        accept_encoding: Codings::default(),
        ..wire::config(upstream)
    };
    http.take_over(http.reload(&config).unwrap()).unwrap();
    assert_eq!(
        last("GET", "/e", "br, gzip;q=0.1"),
        "br, gzip;q=0.1",
        "the list is empty after a reload"
    );
}
