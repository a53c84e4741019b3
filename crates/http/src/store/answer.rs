//! Answers from stored responses, and the cache's own errors.

use crate::body::streamed::Streamed;
use crate::now::Now;
use crate::rfc::cache_status::CacheStatus;
use crate::rfc::date;
use crate::rfc::selection::Response;
use crate::store::coded_forms::AnswerCoding;
use crate::store::stored::Stored;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, DATE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

/// A whole response.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// All fields, ready to be sent.
    pub headers: HeaderMap,
    /// The body. Empty for HEAD, though `Content-Length` is that of GET.
    pub body: Bytes,
    /// Further pieces: the parts of an answer with several ranges.
    pub more: Vec<Bytes>,
    /// The body instead of `body`, if it must be read from the second tier.
    pub streamed: Option<Box<Streamed>>,
    /// The content coding of the body.
    pub coding: AnswerCoding,
}

impl Response {
    pub(crate) fn without_body(self) -> Answer {
        Answer::of(self.status, self.headers, Bytes::new())
    }

    /// Returns the answer with the part of the stored body that it needs.
    pub(crate) fn with_body_of(mut self, stored: &Stored) -> Answer {
        if !self.has_body {
            return self.without_body();
        }
        if let Some(in_tier) = stored.in_tier() {
            let streamed = Streamed::new(in_tier.clone(), &mut self);
            return Answer {
                streamed: Some(Box::new(streamed)),
                ..self.without_body()
            };
        }
        self.with_body(|| stored.body.clone())
    }

    /// Returns the answer with the part of a body in memory that it needs.
    pub(crate) fn with_body(self, body: impl FnOnce() -> Bytes) -> Answer {
        if !self.has_body {
            return self.without_body();
        }
        let body = body();
        if let Some(parts) = self.parts {
            let more = parts.over(&body);
            return Answer {
                more,
                ..Answer::of(self.status, self.headers, Bytes::new())
            };
        }
        let end = self.end.map_or(body.len(), |end| end as usize);
        Answer::of(
            self.status,
            self.headers,
            body.slice(self.first as usize..end),
        )
    }
}

impl Answer {
    /// Returns the length of the body in bytes.
    pub fn length(&self) -> u64 {
        let in_memory = self.body.len() + self.more.iter().map(Bytes::len).sum::<usize>();
        in_memory as u64 + self.streamed.as_ref().map_or(0, |streamed| streamed.left())
    }

    pub(crate) fn of(status: StatusCode, headers: HeaderMap, body: Bytes) -> Answer {
        Answer {
            status,
            headers,
            body,
            more: Vec::new(),
            streamed: None,
            coding: AnswerCoding::Open,
        }
    }

    /// Returns an error of the cache itself, in one line of text, with `no-store` for other caches.
    pub(crate) fn error(
        status: StatusCode,
        method: &Method,
        line: &'static str,
        cache_status: CacheStatus,
        now: Now,
    ) -> Answer {
        let mut headers = HeaderMap::with_capacity(5);
        headers.insert(DATE, date::format(now.unix_seconds));
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        );
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(line.len()));
        cache_status.set(&mut headers);
        let body = if method == Method::HEAD {
            Bytes::new()
        } else {
            Bytes::from_static(line.as_bytes())
        };
        Answer::of(status, headers, body)
    }
}
