//! The HTTP cache in another program, without sockets: the program passes in requests and the
//! origin's responses, with the time, and sends what the cache returns. It keeps a body while it
//! comes, and reads it for the client.
//!
//! ```sh
//! cargo run -p larder-http --example embedded_cache
//! ```

#![allow(clippy::print_stdout, reason = "an example prints its result")]

use http::header::{CACHE_CONTROL, CONTENT_LENGTH, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use larder_http::{
    BodyWakes, Cache, Config, Fill, Now, Outbox, Purge, Pushed, Read, Reply, RequestHead,
    ResponseHead, Scope, SharedBody, Step,
};
use larder_units::{ByteSize, Streams, Time};
use std::error::Error;

/// The origin: returns the head and the body of any page.
fn origin(target: &str) -> (ResponseHead, Vec<u8>) {
    let body = format!("the page {target}\n").into_bytes();
    let mut headers = HeaderMap::new();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
    headers.insert(ETAG, HeaderValue::from_static("\"1\""));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    (
        ResponseHead {
            status: StatusCode::OK,
            version: Version::HTTP_11,
            headers,
        },
        body,
    )
}

/// Collects a body for the cache. Returns what the client reads of it meanwhile.
fn collect(
    cache: &mut Cache,
    mut fill: Box<Fill>,
    pieces: &[u8],
    now: Now,
    outbox: &mut Outbox,
) -> Vec<u8> {
    // Which readers may go on, and whether more may be pushed: with one client, after every call.
    let (mut body, mut wakes) = (SharedBody::default(), BodyWakes::default());
    let mut reader = body.reader(&fill.part()).expect("nothing has come yet");
    let mut sent = Vec::new();
    for piece in pieces.chunks(8) {
        if fill.push(piece, &mut body, &mut wakes) == Pushed::Passing {
            cache.on_passing(&fill);
        }
        if let Read::Bytes(bytes) = body.read(&mut reader, &mut wakes) {
            sent.extend_from_slice(&bytes);
        }
    }
    let collected = body.take_collected();
    let (_completion, end) = cache.on_complete(fill, collected.map(Into::into), now, outbox);
    body.finish(end, &mut wakes);
    while let Read::Bytes(bytes) = body.read(&mut reader, &mut wakes) {
        sent.extend_from_slice(&bytes);
    }
    body.leave(reader, &mut wakes);
    sent
}

/// Answers a GET. Returns the status and the fields for the client; a real host sends the body too.
fn get(cache: &mut Cache, target: &str, headers: &HeaderMap, now: Now) -> (StatusCode, HeaderMap) {
    let request = RequestHead {
        method: &Method::GET,
        scheme: "https",
        authority: "example.com",
        target,
        version: Version::HTTP_11,
        headers,
        has_body: false,
        coding: None,
        confirmed: None,
    };
    let mut exchange = match cache.on_request(&request, now) {
        Step::Answer(answer) => return (answer.status, answer.headers),
        Step::Forward(exchange) => exchange,
        // These need a second request in flight, slices, or an origin that allows stale answers.
        Step::Follow(_) | Step::Assemble(_) | Step::Refresh(..) => {
            unreachable!("not in this program")
        }
    };
    exchange.take_headers(headers.clone());
    let _sent_to_the_origin = exchange.upstream_headers();
    let (head, body) = origin(target);
    // A real host wakes the followers that it names.
    let mut outbox = Outbox::default();
    match cache.on_response(exchange, head, now, &mut outbox) {
        Reply::Answer(answer) => (answer.status, answer.headers),
        Reply::Relay {
            status,
            headers,
            fill,
        } => {
            if let Some(fill) = fill {
                let sent = collect(cache, fill, &body, now, &mut outbox);
                assert_eq!(sent, body);
            }
            (status, headers)
        }
        Reply::Retry(_) | Reply::Assemble(..) => {
            unreachable!("the origin sends no 304 and no parts")
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let config = Config {
        capacity: ByteSize::from_mib(64),
        policy: "agd".parse()?,
        max_object: ByteSize::from_mib(8),
        slice: ByteSize::from_bytes(0),
        targets: Vec::new(),
        // A real host draws it from its entropy.
        compression: None,
        hash_key: [7; 16],
        ..Config::default()
    };
    let mut cache = Cache::new(&config, &Streams::new(1))?;
    let at = |seconds| Now {
        time: Time::from_secs(seconds),
        unix_seconds: 1_700_000_000 + seconds,
    };
    let plain = HeaderMap::new();
    let mut conditional = HeaderMap::new();
    conditional.insert(IF_NONE_MATCH, HeaderValue::from_static("\"1\""));

    let show = |what: &str, (status, headers): (StatusCode, HeaderMap)| {
        let cache_status = headers
            .get("cache-status")
            .and_then(|value| value.to_str().ok())
            .unwrap_or("none");
        println!("{what:<22} {} {cache_status}", status.as_u16());
    };
    show("first request", get(&mut cache, "/a", &plain, at(0)));
    show("second request", get(&mut cache, "/a", &plain, at(10)));
    show(
        "with the entity tag",
        get(&mut cache, "/a", &conditional, at(20)),
    );
    let purge = Purge {
        scope: Scope::Everything,
        soft: false,
    };
    let mut from = 0;
    loop {
        let step = cache.purge(&purge, from, at(30));
        println!("purged {} responses", step.objects);
        match step.next {
            Some(next) => from = next,
            None => break,
        }
    }
    show("after the purge", get(&mut cache, "/a", &plain, at(31)));
    Ok(())
}
