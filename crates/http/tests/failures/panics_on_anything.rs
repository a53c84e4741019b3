//! Failure: bytes from the network end the process. Any fields, in any order, at any time.

use crate::stage::Stage;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use larder_http::{Assembly, Cache, Config, Piece, Reply, RequestHead, ResponseHead, Step};
use larder_units::{ByteSize, Streams};
use proptest::prelude::*;

const NAMES: [&str; 22] = [
    "age",
    "authorization",
    "cache-control",
    "cache-status",
    "connection",
    "content-length",
    "content-location",
    "content-range",
    "date",
    "etag",
    "expires",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "last-modified",
    "location",
    "pragma",
    "range",
    "transfer-encoding",
    "vary",
    "x-other",
];

fn value() -> impl Strategy<Value = HeaderValue> {
    let bytes = prop::collection::vec(any::<u8>(), 0..30)
        .prop_filter_map("a value", |b| HeaderValue::from_bytes(&b).ok());
    let telling = prop::sample::select(vec![
        "",
        "*",
        "0",
        "1",
        "-1",
        "18446744073709551615",
        "99999999999999999999",
        "max-age=60",
        "max-age=18446744073709551615",
        "s-maxage=5, must-revalidate",
        "no-cache",
        "no-store",
        "public",
        "min-fresh=99999999999",
        "max-stale",
        "only-if-cached",
        "\"1\"",
        "\"1\"",
        "W/\"1\"",
        "\"1",
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "bytes=0-",
        "bytes=-1",
        "bytes=5-2",
        "bytes 0-1/2",
        "bytes 0-4095/8200",
        "bytes 4096-8191/8200",
        "bytes=4000-5000",
        "bytes=0-0,8000-",
        "chunked",
        "close, x-other",
        "/",
        "../..",
        "//",
        "http://",
        "http://example.com/?",
        "x-other",
    ]);
    prop_oneof![1 => bytes, 3 => telling.prop_map(HeaderValue::from_static)]
}

fn fields() -> impl Strategy<Value = HeaderMap> {
    prop::collection::vec((prop::sample::select(NAMES.to_vec()), value()), 0..8).prop_map(
        |fields| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(HeaderName::from_static(name), value);
            }
            headers
        },
    )
}

fn method() -> impl Strategy<Value = Method> {
    prop::sample::select(vec![
        Method::GET,
        Method::GET,
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::OPTIONS,
    ])
}

proptest! {
    #[test]
    fn whatever_comes(
        steps in prop::collection::vec(
            (method(), fields(), "(/[ab]?)|(\\PC{0,8})", fields(), prop::sample::select(vec![200u16, 200, 200, 204, 206, 301, 304, 304, 404, 500]), 0usize..40, any::<u32>()),
            1..30,
        ),
    ) {
        let mut stage = Stage::with(40_000, "lru");
        let config = Config { slice: ByteSize::from_bytes(4096), ..crate::stage::config(40_000, "lru") };
        stage.cache = Cache::new(&config, &Streams::new(1)).unwrap();
        for (method, asked, target, answered, status, length, wait) in steps {
            stage.wait(u64::from(wait) % 100);
            if wait % 11 == 0 {
                stage.now.unix_seconds = u64::from(wait) * u64::from(wait);
            }
            let request = RequestHead {
                method: &method,
                scheme: "http",
                authority: &target,
                target: &target,
                version: Version::HTTP_11,
                headers: &asked,
                has_body: false,
                coding: None,
                confirmed: None,
            };
            let mut exchange = match stage.cache.on_request(&request, stage.now) {
                Step::Forward(exchange) => exchange,
                Step::Assemble(assembled) => {
                    assemble(&mut stage, assembled.body, status, &answered, length);
                    continue;
                }
                Step::Follow(_) => panic!("nothing else is in flight"),
                step => {
                    stage.give_up(step);
                    continue;
                }
            };
            exchange.take_headers(asked.clone());
            exchange.upstream_headers();
            let mut attempts = 0;
            let mut next = Some(exchange);
            while let Some(exchange) = next.take() {
                attempts += 1;
                prop_assert!(attempts <= 1 + larder_http::limits::RETRIES);
                let status = StatusCode::from_u16(status).unwrap();
                let head = ResponseHead { status, version: Version::HTTP_11, headers: answered.clone() };
                match stage.respond(exchange, head) {
                    Reply::Answer(_) | Reply::Relay { fill: None, .. } => {}
                    Reply::Relay { fill: Some(mut fill), .. } => {
                        stage.push(&mut fill, &vec![1; length]);
                        stage.complete(fill);
                    }
                    Reply::Assemble(assembled, fill) => {
                        if let Some(mut fill) = fill {
                            stage.push(&mut fill, &vec![1; length]);
                            stage.complete(fill);
                        }
                        assemble(&mut stage, assembled.body, status.as_u16(), &answered, length);
                    }
                    Reply::Retry(exchange) => next = Some(exchange),
                }
            }
            prop_assert!(stage.cache.engine().used() <= stage.cache.engine().capacity());
        }
    }
}

fn assemble(
    stage: &mut Stage,
    mut assembly: Assembly,
    status: u16,
    answered: &HeaderMap,
    length: usize,
) {
    if assembly.take_in_progress().is_some() {
        return;
    }
    loop {
        match stage.cache.next_piece(&mut assembly, stage.now) {
            Piece::End => return,
            Piece::Bytes(_) => {}
            Piece::TierLookup(_) => return,
            Piece::Wait(_) => panic!("nothing else is in flight"),
            Piece::Ask(exchange) => {
                let _ = exchange.retry_headers();
                let status = StatusCode::from_u16(status).unwrap();
                let head = ResponseHead {
                    status,
                    version: Version::HTTP_11,
                    headers: answered.clone(),
                };
                let Some(mut fill) = stage.respond_with_slice(exchange, head) else {
                    return;
                };
                stage.push(&mut fill, &vec![1; length]);
                stage.complete(fill);
                if length == 0 {
                    return;
                }
                assembly.took(length);
            }
        }
    }
}
