//! The generated origin, as in the testbed of the AdaptSize paper (§6): an object of any size,
//! generated on the fly, with validators and a max-age.
//!
//! `GET /1MiB`, `/64KiB/any/name`, `/10000?max-age=5`. The first line of a body is its path; the
//! rest is printable text from one block of 64 KiB, from an offset that the path determines. No
//! byte is computed, so the origin is never the bottleneck. `GET /` lists the options. `Range` is
//! ignored, as RFC 9110 §14.2 allows.

use crate::base::limits;
use crate::message::body::BodyError;
use ::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    LAST_MODIFIED, SET_COOKIE, TRANSFER_ENCODING, VARY,
};
use ::http::uri::PathAndQuery;
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use bytes::Bytes;
use hyper::body::SizeHint;
use larder_units::ByteSize;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;
use std::time::Duration;

const INDEX: &str = "\
larder: the generated origin

GET /SIZE and GET /SIZE/any/name make an object of that size: /1MiB, /64KiB/a/b, /10000.
It has a strong ETag, a Last-Modified and Cache-Control: max-age=3600. HEAD and conditional requests work.

Options, as in /1KiB/a?max-age=5&vary=Accept-Language:
  max-age=SECONDS  s-maxage=SECONDS  no-store  no-cache  private  public  must-revalidate
  vary=FIELD       the body and the ETag differ by that request field
  no-validators    neither ETag nor Last-Modified
  cookie           with Set-Cookie
  chunked          without Content-Length
  cut              breaks off halfway
  status=CODE      that status, 200 to 599
  delay=TIME       answers after, say, 50ms (at most 60s)
";

/// The modification time of every object.
const LAST_MODIFIED_TEXT: &str = "Mon, 01 Jan 2024 00:00:00 GMT";
const LAST_MODIFIED_SECONDS: u64 = 1_704_067_200;
const DEFAULT_MAX_AGE: &str = "3600";
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// Bytes of text before it repeats. Also the largest piece.
const BLOCK: usize = 64 * 1024;

/// The text twice, so that a piece can start at any offset.
static TEXT: LazyLock<Bytes> = LazyLock::new(|| {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut stream = larder_units::Streams::new(1).stream("generated origin");
    let letter = |at: usize, bits: u64| {
        if at % 64 == 63 {
            b'\n'
        } else {
            ALPHABET[(bits >> 58) as usize]
        }
    };
    let block: Vec<u8> = (0..BLOCK).map(|at| letter(at, stream.bits())).collect();
    Bytes::from([&block[..], &block[..]].concat())
});

/// Answers one request.
pub(crate) async fn respond(
    method: &Method,
    target: &PathAndQuery,
    headers: &HeaderMap,
) -> Response<Content> {
    if method != Method::GET && method != Method::HEAD {
        let mut response = text(
            StatusCode::METHOD_NOT_ALLOWED,
            "larder: the generated origin knows GET and HEAD\n",
        );
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let response = match Object::parse(target) {
        Ok(None) => text(StatusCode::OK, INDEX),
        Err(refusal) => text(StatusCode::NOT_FOUND, &refusal),
        Ok(Some(object)) => {
            // A sleep of zero would last until the timer's next millisecond.
            if !object.delay.is_zero() {
                tokio::time::sleep(object.delay).await;
            }
            object.respond(target.path(), headers)
        }
    };
    if method == Method::HEAD {
        response.map(|_| Content::empty())
    } else {
        response
    }
}

/// The object that a target names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Object {
    size: u64,
    cache_control: Vec<String>,
    vary: Option<HeaderName>,
    no_validators: bool,
    cookie: bool,
    chunked: bool,
    cut: bool,
    status: StatusCode,
    delay: Duration,
}

impl Object {
    /// Returns `None` for the index. The error is one line.
    fn parse(target: &PathAndQuery) -> Result<Option<Object>, String> {
        let name = target
            .path()
            .trim_start_matches('/')
            .split('/')
            .next()
            .unwrap_or("");
        if name.is_empty() {
            return Ok(None);
        }
        let size: ByteSize = name
            .parse()
            .map_err(|error| format!("larder: {error}; GET / says what there is\n"))?;
        if size.bytes() > limits::GENERATED_BYTES {
            let most = ByteSize::from_bytes(limits::GENERATED_BYTES);
            return Err(format!("larder: {size} is more than {most}\n"));
        }
        let mut object = Object {
            size: size.bytes(),
            ..Object::default()
        };
        for option in target
            .query()
            .unwrap_or("")
            .split('&')
            .filter(|option| !option.is_empty())
        {
            object.set(option).ok_or_else(|| {
                format!("larder: cannot read the option `{option}`; GET / lists them\n")
            })?;
        }
        if !object
            .cache_control
            .iter()
            .any(|directive| directive.starts_with("max-age="))
        {
            object
                .cache_control
                .push(format!("max-age={DEFAULT_MAX_AGE}"));
        }
        Ok(Some(object))
    }

    fn set(&mut self, option: &str) -> Option<()> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name {
            "max-age" | "s-maxage" => self
                .cache_control
                .push(format!("{name}={}", value.parse::<u64>().ok()?)),
            "no-store" | "no-cache" | "private" | "public" | "must-revalidate" => {
                self.cache_control.push(name.to_owned());
            }
            "vary" => self.vary = Some(value.parse().ok()?),
            "no-validators" => self.no_validators = true,
            "cookie" => self.cookie = true,
            "chunked" => self.chunked = true,
            "cut" => self.cut = true,
            "status" => {
                let final_one = |status: &StatusCode| (200..=599).contains(&status.as_u16());
                self.status = StatusCode::from_bytes(value.as_bytes())
                    .ok()
                    .filter(final_one)?;
            }
            "delay" => {
                self.delay = larder_units::parse_duration(value)
                    .ok()
                    .filter(|d| *d <= LONGEST_DELAY)?
            }
            _ => return None,
        }
        Some(())
    }

    fn respond(&self, path: &str, request: &HeaderMap) -> Response<Content> {
        let selected = self
            .vary
            .as_ref()
            .and_then(|name| request.get(name))
            .map_or(&b""[..], HeaderValue::as_bytes);
        let mut hasher = DefaultHasher::new();
        (path, selected).hash(&mut hasher);
        let seed = hasher.finish();
        let tag = format!("\"{seed:016x}\"");
        let mut headers = HeaderMap::new();
        let value = |text: &str| {
            HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
        };
        headers.insert(CACHE_CONTROL, value(&self.cache_control.join(", ")));
        if let Some(name) = &self.vary {
            headers.insert(VARY, value(name.as_str()));
        }
        if !self.no_validators {
            headers.insert(ETAG, value(&tag));
            headers.insert(LAST_MODIFIED, HeaderValue::from_static(LAST_MODIFIED_TEXT));
            if self.status == StatusCode::OK && is_not_modified(request, &tag) {
                let mut response = Response::new(Content::empty());
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                *response.headers_mut() = headers;
                return response;
            }
        }
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        );
        if self.cookie {
            headers.insert(SET_COOKIE, HeaderValue::from_static("larder=1"));
        }
        // RFC 9110 §8.6, §15.3.5, §15.3.6, §15.4.5: these have no content, and a 204 no length
        // either.
        let content = match self.status {
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => Content::empty(),
            StatusCode::RESET_CONTENT => {
                headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
                Content::empty()
            }
            _ if self.chunked => {
                // As over a connection.
                headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
                self.content(path, selected, seed)
            }
            _ => {
                headers.insert(CONTENT_LENGTH, HeaderValue::from(self.size));
                self.content(path, selected, seed)
            }
        };
        let mut response = Response::new(content);
        *response.status_mut() = self.status;
        *response.headers_mut() = headers;
        response
    }

    fn content(&self, path: &str, selected: &[u8], seed: u64) -> Content {
        let mut line = path.as_bytes().to_vec();
        if !selected.is_empty() {
            line.push(b' ');
            line.extend_from_slice(selected);
        }
        line.push(b'\n');
        Content {
            line: Bytes::from(line),
            at: 0,
            size: self.size,
            end: if self.cut { self.size / 2 } else { self.size },
            shift: seed as usize % BLOCK,
            sized: !self.chunked,
        }
    }
}

fn is_not_modified(request: &HeaderMap, tag: &str) -> bool {
    if let Some(tags) = request
        .get(IF_NONE_MATCH)
        .and_then(|tags| tags.to_str().ok())
    {
        // The origin's own tags contain no commas.
        return tags
            .split(',')
            .map(|t| t.trim().trim_start_matches("W/"))
            .any(|t| t == tag || t == "*");
    }
    let since = request
        .get(IF_MODIFIED_SINCE)
        .and_then(|date| date.to_str().ok());
    let since = since.and_then(|date| httpdate::parse_http_date(date).ok());
    since.is_some_and(|since| {
        since >= std::time::UNIX_EPOCH + Duration::from_secs(LAST_MODIFIED_SECONDS)
    })
}

fn text(status: StatusCode, text: &str) -> Response<Content> {
    let line = Bytes::copy_from_slice(text.as_bytes());
    let size = line.len() as u64;
    let mut response = Response::new(Content {
        line,
        at: 0,
        size,
        end: size,
        shift: 0,
        sized: true,
    });
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
    response
}

/// A body that is generated while it is read.
pub struct Content {
    /// The first line.
    line: Bytes,
    at: u64,
    /// The size of the object.
    size: u64,
    /// The position at which it breaks off.
    end: u64,
    /// The offset of the text.
    shift: usize,
    sized: bool,
}

impl Content {
    fn empty() -> Content {
        Content {
            line: Bytes::new(),
            at: 0,
            size: 0,
            end: 0,
            shift: 0,
            sized: true,
        }
    }

    /// Returns the next piece of at most 64 KiB, or an error if the body breaks off.
    pub(crate) fn next_piece(&mut self) -> Option<Result<Bytes, BodyError>> {
        if self.at == self.end {
            return (self.end < self.size)
                .then(|| Err(BodyError::new("the object was asked to break off")));
        }
        let left = self.end - self.at;
        let line = self.line.len() as u64;
        let piece = if self.at < line {
            self.line
                .slice(self.at as usize..line.min(self.end) as usize)
        } else {
            let start = ((self.at - line) as usize).wrapping_add(self.shift) % BLOCK;
            TEXT.slice(start..start + left.min(BLOCK as u64) as usize)
        };
        self.at += piece.len() as u64;
        Some(Ok(piece))
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.size
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        if self.sized {
            SizeHint::with_exact(self.size - self.at)
        } else {
            SizeHint::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body(target: &str) -> Vec<u8> {
        let target: PathAndQuery = target.parse().unwrap();
        let object = Object::parse(&target).unwrap().unwrap();
        let mut content = object.respond(target.path(), &HeaderMap::new()).into_body();
        std::iter::from_fn(|| content.next_piece())
            .flat_map(|piece| piece.unwrap())
            .collect()
    }

    #[test]
    fn the_size_is_the_name_and_the_text_is_the_names() {
        for (target, size) in [
            ("/0", 0),
            ("/1", 1),
            ("/10000", 10_000),
            ("/64KiB/a/b", 65_536),
            ("/1.5MiB", 1_572_864),
        ] {
            assert_eq!(body(target).len(), size, "{target}");
        }
        assert_eq!(body("/10000/a"), body("/10000/a"));
        assert_ne!(body("/10000/a"), body("/10000/b"));
        assert!(body("/300KiB").starts_with(b"/300KiB\n"));
        assert!(body("/300KiB").is_ascii());
    }

    /// Failure: a benchmark of a cache measures the origin's timer, one millisecond per miss.
    #[test]
    fn an_object_without_delay_is_waited_for() {
        let (target, fields) = ("/10/a".parse().unwrap(), HeaderMap::new());
        let mut answer = std::pin::pin!(respond(&Method::GET, &target, &fields));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(std::future::Future::poll(answer.as_mut(), &mut cx).is_ready());
    }

    /// Failure: bytes after a response without content are read as the next response.
    #[test]
    fn statuses_without_content() {
        for status in ["204", "205", "304"] {
            for option in ["", "&chunked", "&cut"] {
                let target: PathAndQuery =
                    format!("/1000?status={status}{option}").parse().unwrap();
                let response = Object::parse(&target)
                    .unwrap()
                    .unwrap()
                    .respond(target.path(), &HeaderMap::new());
                let length = response
                    .headers()
                    .get(CONTENT_LENGTH)
                    .map(HeaderValue::as_bytes);
                assert_eq!(length, (status == "205").then_some(&b"0"[..]), "{target}");
                assert!(
                    !response.headers().contains_key(TRANSFER_ENCODING),
                    "{target}"
                );
                let mut content = response.into_body();
                assert!(
                    content.is_at_end() && content.next_piece().is_none(),
                    "{target}"
                );
            }
        }
    }

    #[test]
    fn refusals_name_the_option() {
        for (target, part) in [
            ("/favicon.ico", "favicon.ico"),
            ("/2TiB", "1TiB"),
            ("/1?maxage=5", "`maxage=5`"),
            ("/1?status=99", "`status=99`"),
            ("/1?status=103", "`status=103`"),
            ("/1?status=600", "`status=600`"),
        ] {
            let said = Object::parse(&target.parse().unwrap()).unwrap_err();
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(Object::parse(&"/".parse().unwrap()), Ok(None));
    }

    proptest! {
        #[test]
        fn no_target_panics(path in "/[0-9a-zA-Z./]{0,12}", query in "[a-z0-9=&-]{0,30}") {
            if let Ok(target) = format!("{path}?{query}").parse::<PathAndQuery>()
                && let Ok(Some(object)) = Object::parse(&target)
            {
                let mut content = object.respond(target.path(), &HeaderMap::new()).into_body();
                for _ in 0..5 {
                    let _ = content.next_piece();
                }
            }
        }
    }
}
