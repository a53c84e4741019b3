//! What the sample of the what-if analysis costs a hit, in instructions:
//!
//!     cargo bench -p larder-proxy --bench what_if --no-run
//!     valgrind --tool=callgrind target/release/deps/what_if-… HITS RATE
//!
//! HITS plain hits of 1 KiB, as a request thread asks for them without its socket, with a share
//! RATE of the keys in the sample; 0: none. The difference of two runs with other numbers of hits
//! leaves the start out.
#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use http::{HeaderMap, Method, StatusCode, Version};
use larder_http::{Config, PlainRequest, RequestHead, ResponseHead};
use larder_proxy::shards::{Next, Response, Shards};
use larder_units::{ByteSize, Streams};
use std::sync::Arc;

const OBJECTS: usize = 5_000;
const BODY: usize = 1_024;

fn fill(shards: &Arc<Shards>, target: &str) {
    let none = HeaderMap::new();
    let head = RequestHead {
        method: &Method::GET,
        scheme: "http",
        authority: "example.com",
        target,
        version: Version::HTTP_11,
        headers: &none,
        has_body: false,
        coding: None,
        confirmed: None,
    };
    let Next::Forward(mut exchange) = shards.step(&head, true) else {
        return;
    };
    exchange.take_headers(HeaderMap::new());
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("cache-control", "max-age=1000000"),
        ("content-type", "image/jpeg"),
        ("etag", "\"0123456789abcdef\""),
        ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("server", "origin"),
    ] {
        headers.insert(name, value.parse().expect("a value"));
    }
    headers.insert("content-length", BODY.into());
    let head = ResponseHead {
        status: StatusCode::OK,
        version: Version::HTTP_11,
        headers,
    };
    if let (Response::Relay(_, _, Some(mut fill)), _) = shards.on_response(exchange, head) {
        fill.push(&[0; BODY]);
        fill.complete();
    }
}

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    let number = arguments
        .next()
        .map_or(100_000, |text| text.parse().expect("HITS is a number"));
    let rate = arguments
        .next()
        .map_or(0.001, |text| text.parse().expect("RATE is a share"));
    let config = Config {
        capacity: ByteSize::from_mib(256),
        policy: "agd".parse().expect("a policy"),
        max_object: ByteSize::from_mib(8),
        slice: ByteSize::from_bytes(0),
        targets: Vec::new(),
        compression: None,
        hash_key: [7; 16],
        ..Config::default()
    };
    let shards = Shards::with(&config, &Streams::new(1), 64, None).expect("a cache");
    let targets: Vec<String> = (0..OBJECTS)
        .map(|object| format!("/object/{object}"))
        .collect();
    for target in &targets {
        fill(&shards, target);
    }
    let last = (rate > 0.0).then_some((rate * 2_f64.powi(64)) as u64);
    let (mut taken, mut head, mut hits) = (Vec::new(), Vec::new(), 0);
    shards.take_observations(last, &mut taken);
    for request in 0..number {
        let target = &targets[request * 7_919 % OBJECTS];
        let plain = PlainRequest {
            scheme: "http",
            authority: "example.com",
            target,
            asks_for_less: false,
            coding: None,
            confirmed: None,
        };
        head.clear();
        hits += usize::from(
            shards
                .plain_hit(plain, HeaderMap::new, &mut head, |_| ())
                .is_some(),
        );
        if request % 1_024 == 0 {
            shards.take_observations(last, &mut taken);
            taken.clear();
        }
    }
    assert_eq!(hits, number, "each is a hit");
    println!("{hits} hits");
}
