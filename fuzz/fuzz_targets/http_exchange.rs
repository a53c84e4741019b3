//! The HTTP cache: any requests and responses, at any times. Nothing panics, memory stays within
//! the capacity, and a plain hit is what the long way says.
//!
//! The input is text: heads separated by empty lines, a request and its response in turn, the
//! response left out where the cache answers. A request begins with `METHOD TARGET SECONDS` (since
//! the last one), a response with `STATUS BYTES` (of its body); fields follow, one a line.
#![no_main]

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use larder_http::{
    Answer, AnswerCoding, Assembly, BodyWakes, Cache, Compression, Config, Fill, Now, Outbox,
    Piece, PlainField, PlainRequest, Pushed, Read, Reply, RequestHead, ResponseHead, SharedBody,
    Step, UpstreamFailure,
};
use larder_units::{ByteSize, Streams, Time};
use libfuzzer_sys::fuzz_target;

const CAPACITY_BYTES: u64 = 32 << 10;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let mut heads = text.split("\n\n");
    let mut cache = cache();
    let mut seconds = 0;
    while let Some(request) = heads.next() {
        let (first, headers) = head(request);
        let mut words = first.split(' ');
        let Ok(method) = Method::from_bytes(words.next().unwrap_or_default().as_bytes()) else {
            return;
        };
        let target = words.next().unwrap_or("/");
        seconds += words
            .next()
            .and_then(|word| word.parse::<u32>().ok())
            .map_or(0, u64::from);
        let coding = compression().chosen_by(&headers);
        let request = RequestHead {
            method: &method,
            scheme: "http",
            authority: "example.com",
            target,
            version: Version::HTTP_11,
            headers: &headers,
            has_body: false,
            coding,
            confirmed: None,
        };
        let has = |kind| {
            headers
                .keys()
                .any(|name| PlainField::of(name.as_str()) == kind)
        };
        let is_plain = method == Method::GET && !has(PlainField::Prevents);
        let asks_for_less = has(PlainField::AsksForLess);
        let plain = PlainRequest {
            scheme: "http",
            authority: "example.com",
            target,
            asks_for_less,
            coding,
            confirmed: None,
        };
        let mut start = Vec::new();
        let hit = is_plain
            .then(|| cache.plain_hit(plain, || headers.clone(), at(seconds), &mut start))
            .flatten();
        let step = cache.on_request(&request, at(seconds));
        if let Some(hit) = hit {
            // A small body follows the head; the rest is a piece of its own.
            let head_end = start
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
                .expect("a head has an end")
                + 4;
            let body = [&start[head_end..], &hit.rest].concat();
            assert_eq!(body.len() as u64, hit.body_bytes);
            assert!(
                matches!(&step, Step::Answer(answer) if answer.body == body),
                "the long way says {step:?}"
            );
        }
        match step {
            Step::Forward(mut exchange) => {
                exchange.take_headers(headers.clone());
                let _ = exchange.upstream_headers();
                answered(&mut cache, exchange, heads.next(), seconds);
            }
            Step::Assemble(assembled) => {
                assemble(&mut cache, assembled.body, heads.next(), seconds)
            }
            // The origin does not answer in the background.
            Step::Refresh(_, exchange) => cache.on_abandoned(exchange, &mut Outbox::default()),
            Step::Follow(_) => panic!("nothing else is in flight"),
            Step::Answer(answer) => code(&mut cache, answer, seconds),
        }
        assert!(cache.engine().used().bytes() <= CAPACITY_BYTES);
        assert!(cache.filling() <= cache.filling_limit());
    }
});

fn answered(
    cache: &mut Cache,
    mut exchange: Box<larder_http::Exchange>,
    response: Option<&str>,
    seconds: u64,
) {
    let mut outbox = Outbox::default();
    loop {
        let Some((head, body)) = response_head(response) else {
            let _ = cache.on_failure(
                exchange,
                UpstreamFailure::Malformed,
                at(seconds),
                &mut outbox,
            );
            return;
        };
        match cache.on_response(exchange, head, at(seconds), &mut outbox) {
            Reply::Answer(_) | Reply::Relay { fill: None, .. } => return,
            Reply::Relay {
                fill: Some(fill), ..
            } => return collect(cache, fill, body, seconds),
            Reply::Assemble(assembled, fill) => {
                if let Some(fill) = fill {
                    collect(cache, fill, body, seconds);
                }
                return assemble(cache, assembled.body, response, seconds);
            }
            Reply::Retry(again) => exchange = again,
        }
    }
}

/// Every slice that is asked for gets the same response.
fn assemble(cache: &mut Cache, mut assembly: Assembly, response: Option<&str>, seconds: u64) {
    let mut outbox = Outbox::default();
    if assembly.take_in_progress().is_some() {
        return;
    }
    loop {
        match cache.next_piece(&mut assembly, at(seconds)) {
            Piece::Bytes(_) => {}
            Piece::Ask(exchange) => {
                let Some((head, body)) = response_head(response) else {
                    return cache.on_slice_failure(exchange, &mut outbox);
                };
                let Some(fill) = cache.on_slice(exchange, head, at(seconds), &mut outbox) else {
                    return;
                };
                collect(cache, fill, body, seconds);
                if body == 0 {
                    return;
                }
                assembly.took(usize::from(body));
            }
            Piece::Wait(_) => panic!("nothing else is in flight"),
            Piece::TierLookup(_) | Piece::End => return,
        }
    }
}

fn collect(cache: &mut Cache, mut fill: Box<Fill>, body: u16, seconds: u64) {
    let (mut shared, mut wakes) = (SharedBody::default(), BodyWakes::default());
    let mut client = shared.reader(&fill.part()).expect("nothing has come yet");
    for piece in vec![7; usize::from(body)].chunks(4096) {
        if fill.push(piece, &mut shared, &mut wakes) == Pushed::Passing {
            cache.on_passing(&fill);
        }
        assert!(cache.filling() <= cache.filling_limit());
        // It is slow at first.
        if body % 2 == 0 {
            while let Read::Bytes(_) = shared.read(&mut client, &mut wakes) {}
        }
    }
    let collected = shared.take_collected();
    let (_, end) = cache.on_complete(
        fill,
        collected.map(Into::into),
        at(seconds),
        &mut Outbox::default(),
    );
    shared.finish(end, &mut wakes);
    while let Read::Bytes(_) = shared.read(&mut client, &mut wakes) {}
    assert_ne!(
        shared.read(&mut client, &mut wakes),
        Read::Wait,
        "it waits without end"
    );
    shared.leave(client, &mut wakes);
    cache.check_invariants();
}

fn response_head(response: Option<&str>) -> Option<(ResponseHead, u16)> {
    let (first, headers) = head(response.unwrap_or_default());
    let mut words = first.split(' ');
    let status = words
        .next()
        .and_then(|word| StatusCode::from_bytes(word.as_bytes()).ok())?;
    let body = words
        .next()
        .and_then(|word| word.parse::<u16>().ok())
        .unwrap_or(0);
    Some((
        ResponseHead {
            status,
            version: Version::HTTP_11,
            headers,
        },
        body,
    ))
}

/// Any body of text may have coded forms.
fn compression() -> Compression {
    Compression {
        least_bytes: 1,
        ..Compression::default()
    }
}

/// Stores the form that an answer wants: half of its body takes the place of the coded one.
fn code(cache: &mut Cache, answer: Answer, seconds: u64) {
    if let AnswerCoding::Wanted(form) = answer.coding {
        let coded = form.body.slice(..form.body.len() / 2);
        cache.store_coded(&form, coded, at(seconds), &mut Outbox::default());
        cache.check_invariants();
    }
}

fn cache() -> Cache {
    let config = Config {
        capacity: ByteSize::from_bytes(CAPACITY_BYTES),
        policy: "lru".parse().expect("a policy"),
        max_object: ByteSize::from_bytes(CAPACITY_BYTES),
        slice: ByteSize::from_bytes(4096),
        compression: Some(compression()),
        hash_key: [7; 16],
        ..Config::default()
    };
    Cache::new(&config, &Streams::new(1)).expect("a cache")
}

fn at(seconds: u64) -> Now {
    Now {
        time: Time::from_secs(seconds),
        unix_seconds: 1_700_000_000 + seconds,
    }
}

/// The first line, and the fields of the others.
fn head(text: &str) -> (&str, HeaderMap) {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(':')).take(64) {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value.trim())) {
            headers.append(name, value);
        }
    }
    (first, headers)
}
