//! A cache that stores slices, an origin that knows ranges or treats them badly, and a client that
//! reads to the end.

use crate::stage::{self, Reader, Request, Stage, get};
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use larder_http::{
    Assembled, Cache, Completion, Config, Exchange, Fill, Piece, Read, Reply, ResponseHead, Step,
    UpstreamFailure,
};
use larder_units::{ByteSize, Streams};

pub const SLICE: usize = 4096;

/// An origin that supports ranges and conditions, unless it is configured otherwise.
pub struct Origin {
    pub content: Vec<u8>,
    pub version: u32,
    pub fields: Vec<(&'static str, String)>,
    /// How it treats a range.
    pub manner: Manner,
    /// The `Range` of every request, or `whole`; with ` 304` where that was the answer.
    pub asked: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Manner {
    Exact,
    /// 200, all of it.
    Ignores,
    /// Half of what was asked for.
    Less,
    /// The right Content-Range over too few bytes.
    Lies,
    /// Knows no If-Range: of what has changed it sends the part of the new.
    Unconditional,
    /// Confirms with a weak tag what had a strong one.
    Weakens,
    /// The length of the whole is `*`.
    LengthUnknown,
    Down,
}

impl Origin {
    pub fn new(length: usize) -> Origin {
        let fields = vec![("cache-control", "max-age=60".to_owned())];
        let mut origin = Origin {
            content: vec![],
            version: 0,
            fields,
            manner: Manner::Exact,
            asked: vec![],
        };
        origin.change(length);
        origin
    }

    /// Another version, each byte of which differs from the one before.
    pub fn change(&mut self, length: usize) {
        self.version += 1;
        let version = self.version;
        self.content = (0..length)
            .map(|at| (at / 7 + at / 4096 * 31 + version as usize * 101) as u8)
            .collect();
    }

    pub fn respond(&mut self, request: &HeaderMap) -> Option<(StatusCode, HeaderMap, Vec<u8>)> {
        let text = |name: &str| {
            request
                .get(name)
                .map(|value| value.to_str().unwrap().to_owned())
        };
        let range = text("range");
        self.asked
            .push(range.clone().unwrap_or_else(|| "whole".into()));
        if self.manner == Manner::Down {
            return None;
        }
        let tag = format!("\"{}\"", self.version);
        let mut headers = HeaderMap::new();
        let mut set = |name: &'static str, value: String| {
            headers.insert(name, HeaderValue::try_from(value).unwrap())
        };
        set("etag", tag.clone());
        for (name, value) in &self.fields {
            set(name, value.clone());
        }
        if text("if-none-match").is_some_and(|known| known == tag) {
            self.asked.last_mut().unwrap().push_str(" 304");
            if self.manner == Manner::Weakens {
                headers.insert("etag", HeaderValue::try_from(format!("W/{tag}")).unwrap());
            }
            return Some((StatusCode::NOT_MODIFIED, headers, vec![]));
        }
        let length = self.content.len();
        let valid = self.manner == Manner::Unconditional
            || text("if-range").is_none_or(|known| known == tag);
        let wanted = range
            .filter(|_| valid && self.manner != Manner::Ignores)
            .and_then(|range| {
                let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
                match first {
                    "" => Some((length - last.parse::<usize>().ok()?.min(length), length)),
                    first => Some((
                        first.parse().ok()?,
                        last.parse::<usize>()
                            .map_or(length, |last| (last + 1).min(length)),
                    )),
                }
            });
        let Some((first, mut end)) = wanted else {
            set("content-length", length.to_string());
            return Some((StatusCode::OK, headers, self.content.clone()));
        };
        if first >= length {
            set("content-range", format!("bytes */{length}"));
            set("content-length", "0".into());
            return Some((StatusCode::RANGE_NOT_SATISFIABLE, headers, vec![]));
        }
        if self.manner == Manner::Less {
            end = (first + end).div_ceil(2);
        }
        let total = if self.manner == Manner::LengthUnknown {
            "*".into()
        } else {
            length.to_string()
        };
        set(
            "content-range",
            format!("bytes {first}-{}/{total}", end - 1),
        );
        if self.manner == Manner::Lies {
            end = (first + end).div_ceil(2);
        }
        set("content-length", (end - first).to_string());
        Some((
            StatusCode::PARTIAL_CONTENT,
            headers,
            self.content[first..end].to_vec(),
        ))
    }
}

pub struct World {
    pub stage: Stage,
    pub origin: Origin,
    pub completions: Vec<Completion>,
}

/// What a client got.
#[derive(Debug)]
pub struct Got {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub broken: bool,
}

impl Got {
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    pub fn is_hit(&self) -> bool {
        self.header("cache-status").starts_with("larder; hit")
    }
}

impl World {
    pub fn new(length: usize) -> World {
        World::with(length, 16 << 20, "lru")
    }

    pub fn with(length: usize, capacity: u64, policy: &str) -> World {
        let mut stage = Stage::new();
        let config = Config {
            slice: ByteSize::from_bytes(SLICE as u64),
            ..stage::config(capacity, policy)
        };
        stage.cache = Cache::new(&config, &Streams::new(1)).unwrap();
        World {
            stage,
            origin: Origin::new(length),
            completions: vec![],
        }
    }

    pub fn range(&mut self, range: &str) -> Got {
        self.fetch(&get("/").with("range", range))
    }

    pub fn fetch(&mut self, request: &Request) -> Got {
        self.stage.cache.check_invariants();
        let now = self.stage.now;
        match self.stage.cache.on_request(&request.head(), now) {
            Step::Answer(answer) => {
                let body = [&[answer.body], &answer.more[..]].concat().concat();
                Got {
                    status: answer.status.as_u16(),
                    headers: answer.headers,
                    body,
                    broken: false,
                }
            }
            Step::Refresh(answer, exchange) => {
                self.stage.abandon(exchange);
                let body = [&[answer.body], &answer.more[..]].concat().concat();
                Got {
                    status: answer.status.as_u16(),
                    headers: answer.headers,
                    body,
                    broken: false,
                }
            }
            Step::Assemble(assembled) => self.assemble(assembled, None),
            Step::Forward(mut exchange) => {
                exchange.take_headers(request.headers.clone());
                let headers = exchange.upstream_headers();
                self.forward(exchange, headers)
            }
            step => panic!("{step:?}"),
        }
    }

    pub fn forward(&mut self, exchange: Box<Exchange>, headers: HeaderMap) -> Got {
        let Some((status, headers, body)) = self.origin.respond(&headers) else {
            let answer = self.stage.fail(exchange, UpstreamFailure::Unreachable);
            return Got {
                status: answer.status.as_u16(),
                headers: answer.headers,
                body: answer.body.to_vec(),
                broken: false,
            };
        };
        let head = ResponseHead {
            status,
            version: Version::HTTP_11,
            headers,
        };
        match self.stage.respond(exchange, head) {
            Reply::Answer(answer) => {
                let body = [&[answer.body], &answer.more[..]].concat().concat();
                Got {
                    status: answer.status.as_u16(),
                    headers: answer.headers,
                    body,
                    broken: false,
                }
            }
            Reply::Relay {
                status,
                headers,
                fill: None,
            } => Got {
                status: status.as_u16(),
                headers,
                body,
                broken: false,
            },
            Reply::Relay {
                status,
                headers,
                fill: Some(fill),
            } => {
                let reader = self.stage.reader(&fill.part()).unwrap();
                self.collect(fill, &body);
                let (body, broken) = self.read(reader);
                Got {
                    status: status.as_u16(),
                    headers,
                    body,
                    broken,
                }
            }
            Reply::Assemble(assembled, fill) => {
                self.assemble(assembled, fill.map(|fill| (fill, body)))
            }
            Reply::Retry(exchange) => {
                let headers = exchange.retry_headers();
                self.forward(exchange, headers)
            }
        }
    }

    pub fn collect(&mut self, mut fill: Box<Fill>, body: &[u8]) {
        for piece in body.chunks(1000) {
            self.stage.push(&mut fill, piece);
        }
        let completion = self.stage.complete(fill);
        self.completions.push(completion);
    }

    /// `coming` is the slice that the origin sends already.
    pub fn assemble(
        &mut self,
        assembled: Assembled,
        mut coming: Option<(Box<Fill>, Vec<u8>)>,
    ) -> Got {
        let mut assembly = assembled.body;
        let declared = assembly.left();
        let mut got = Got {
            status: assembled.status.as_u16(),
            headers: assembled.headers,
            body: vec![],
            broken: false,
        };
        assert_eq!(got.header("content-length"), declared.to_string());
        // Its reader begins before it comes: nothing is kept of a body that only passes.
        let mut first = assembly
            .take_in_progress()
            .map(|part| self.stage.reader(&part).expect("it is not too late"));
        if let Some((fill, body)) = coming.take() {
            self.collect(fill, &body);
        }
        while !got.broken {
            let piece = match first.take() {
                Some(reader) => {
                    let (body, broken) = self.read(reader);
                    assembly.took(body.len());
                    got.body.extend_from_slice(&body);
                    got.broken = broken;
                    continue;
                }
                None => self.stage.cache.next_piece(&mut assembly, self.stage.now),
            };
            let reader = match piece {
                Piece::End => break,
                Piece::Bytes(bytes) => {
                    got.body.extend_from_slice(&bytes);
                    continue;
                }
                Piece::Wait(_) => panic!("nobody else asks"),
                Piece::TierLookup(_) => panic!("there is no second tier"),
                Piece::Ask(exchange) => match self.slice(exchange) {
                    None => {
                        got.broken = true;
                        break;
                    }
                    reader => reader,
                },
            };
            let (body, broken) = self.read(reader.expect("it is not too late"));
            assembly.took(body.len());
            got.body.extend_from_slice(&body);
            got.broken = broken;
        }
        assert!(got.broken || got.body.len() as u64 == declared, "{got:?}");
        got
    }

    pub fn slice(&mut self, exchange: Box<Exchange>) -> Option<Reader> {
        let headers = exchange.retry_headers();
        let Some((status, headers, body)) = self.origin.respond(&headers) else {
            self.stage
                .cache
                .on_slice_failure(exchange, &mut self.stage.outbox);
            return None;
        };
        let head = ResponseHead {
            status,
            version: Version::HTTP_11,
            headers,
        };
        let fill = self.stage.respond_with_slice(exchange, head)?;
        let reader = self.stage.reader(&fill.part()).unwrap();
        self.collect(fill, &body);
        Some(reader)
    }

    pub fn asked(&mut self) -> Vec<String> {
        std::mem::take(&mut self.origin.asked)
    }

    /// The rest of a body that has ended, and whether it broke off.
    pub fn read(&mut self, mut reader: Reader) -> (Vec<u8>, bool) {
        let mut body = Vec::new();
        let broken = loop {
            match self.stage.read(&mut reader) {
                Read::Bytes(piece) => body.extend_from_slice(&piece),
                Read::Broken => break true,
                Read::End => break false,
                Read::Wait => panic!("it waits"),
            }
        };
        self.stage.leave(reader);
        (body, broken)
    }
}
