//! The fear: a byte from the network that stops the node. Any fields, in any order, with time going anywhere.

mod stage;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use larder_http::{Reply, RequestHead, ResponseHead, Step};
use proptest::prelude::*;
use stage::Stage;

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
    let bytes =
        prop::collection::vec(any::<u8>(), 0..30).prop_filter_map("a value", |b| HeaderValue::from_bytes(&b).ok());
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
        "W/\"1\"",
        "\"1",
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "bytes=0-",
        "bytes=-1",
        "bytes=5-2",
        "bytes 0-1/2",
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
    prop::collection::vec((prop::sample::select(NAMES.to_vec()), value()), 0..8).prop_map(|fields| {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::from_static(name), value);
        }
        headers
    })
}

fn method() -> impl Strategy<Value = Method> {
    prop::sample::select(vec![Method::GET, Method::GET, Method::GET, Method::HEAD, Method::POST, Method::OPTIONS])
}

proptest! {
    #[test]
    fn whatever_comes(
        steps in prop::collection::vec(
            (method(), fields(), "(/[ab]?)|(\\PC{0,8})", fields(), prop::sample::select(vec![200u16, 200, 200, 204, 206, 301, 304, 304, 404, 500]), 0usize..40, any::<u32>()),
            1..30,
        ),
    ) {
        let mut stage = Stage::with(20_000, "lru");
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
            };
            let Step::Forward(mut exchange) = stage.cache.on_request(&request, stage.now) else { continue };
            exchange.upstream_headers(asked.clone());
            let mut attempts = 0;
            let mut next = Some(exchange);
            while let Some(exchange) = next.take() {
                attempts += 1;
                prop_assert!(attempts <= 2, "a retry leads to no other");
                let status = StatusCode::from_u16(status).unwrap();
                let head = ResponseHead { status, version: Version::HTTP_11, headers: answered.clone() };
                match stage.cache.on_response(exchange, head, stage.now) {
                    Reply::Answer(_) | Reply::Relay { fill: None, .. } => {}
                    Reply::Relay { fill: Some(mut fill), .. } => {
                        fill.push(&vec![1; length]);
                        stage.cache.on_complete(fill, stage.now);
                    }
                    Reply::Retry(exchange) => next = Some(exchange),
                }
            }
            prop_assert!(stage.cache.engine().used() <= stage.cache.engine().capacity());
        }
    }
}
