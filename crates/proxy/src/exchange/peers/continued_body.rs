//! A body of another node that goes on from the origin if that node ends meanwhile.
//!
//! The rest is asked for by `Range` with `If-Range` (RFC 9110, sections 13.1.5 and 14.2), once. So
//! it needs a strong entity tag, unless nothing has been received yet: then the same tag, or the
//! same time of change and length, are enough.

use crate::message::body::BodyError;
use crate::origin::origin_body::OriginBody;
use ::http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE,
};
use ::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Sends the request for the rest, with these fields beside those of the request before; without
/// the conditions that the client had.
pub(crate) type AskRest = Box<dyn FnOnce(Vec<(HeaderName, HeaderValue)>) -> AskedRest + Send>;

/// The response to it; `None` without one.
pub(crate) type AskedRest = Pin<Box<dyn Future<Output = Option<Response<OriginBody>>> + Send>>;

/// Removes the conditions and the range of a client: the rest is asked for by others.
pub(crate) fn without_conditions(headers: &mut HeaderMap) {
    const CONDITIONS: [HeaderName; 6] = [
        IF_MATCH,
        IF_MODIFIED_SINCE,
        IF_NONE_MATCH,
        IF_RANGE,
        IF_UNMODIFIED_SINCE,
        RANGE,
    ];
    for name in &CONDITIONS {
        headers.remove(name);
    }
}

/// Ends when the node that sends a body gives no sign of life.
pub(crate) type IsGone = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Watches the node that sends a body while its next piece does not come: a virtual machine that is
/// paused breaks no connection.
#[derive(Clone)]
pub(crate) struct Watch(pub(crate) Arc<dyn Fn() -> IsGone + Send + Sync>);

/// A body that goes on.
pub(crate) struct ContinuedBody {
    source: Source,
    representation: Representation,
    /// Bytes that were received.
    received: u64,
    /// Bytes that are still to come, if that is known.
    left: Option<u64>,
    /// Present until the rest is asked for.
    ask_rest: Option<AskRest>,
    /// For the body of another node.
    watch: Option<Watch>,
    /// Present while the next piece does not come.
    is_gone: Option<IsGone>,
}

enum Source {
    /// A body; its first bytes may be known already.
    Body { body: OriginBody, skip: u64 },
    /// The request for the rest.
    Asked(AskedRest),
}

/// What is received, to know the rest of it again.
struct Representation {
    status: StatusCode,
    tag: Option<HeaderValue>,
    modified: Option<HeaderValue>,
    length: Option<HeaderValue>,
    /// The place of the body's first byte, and of the last one of a part.
    first: u64,
    last: Option<u64>,
}

impl Representation {
    /// `None` for a response that has no rest to ask for.
    fn of(status: StatusCode, headers: &HeaderMap) -> Option<Representation> {
        let (first, last) = match status {
            StatusCode::OK => (0, None),
            StatusCode::PARTIAL_CONTENT => {
                let (first, last, _) = range(headers)?;
                (first, Some(last))
            }
            _ => return None,
        };
        let field = |name| headers.get(name).cloned();
        Some(Representation {
            status,
            tag: field(ETAG),
            modified: field(LAST_MODIFIED),
            length: field(CONTENT_LENGTH),
            first,
            last,
        })
    }

    fn strong_tag(&self) -> Option<&HeaderValue> {
        let tag = self.tag.as_ref();
        tag.filter(|tag| !tag.as_bytes().starts_with(b"W/"))
    }

    /// Returns the fields that ask for the rest from this byte on; `None` if it could be that of
    /// another representation.
    fn fields(&self, received: u64) -> Option<Vec<(HeaderName, HeaderValue)>> {
        let from = self.first + received;
        let is_whole = from == 0 && self.last.is_none();
        let Some(tag) = self.strong_tag() else {
            let is_known = self.tag.is_some() || self.modified.is_some();
            return (is_whole && is_known).then(Vec::new);
        };
        if is_whole {
            return Some(Vec::new());
        }
        let last = self.last.map_or(String::new(), |last| last.to_string());
        let range = HeaderValue::try_from(format!("bytes={from}-{last}")).ok()?;
        Some(vec![(RANGE, range), (IF_RANGE, tag.clone())])
    }

    /// Returns the body of the rest, and how many of its bytes are known already. `None` if it is
    /// that of another representation.
    fn rest(&self, response: Response<OriginBody>, received: u64) -> Option<(OriginBody, u64)> {
        let (head, body) = response.into_parts();
        let is_same = |name: HeaderName, known: &Option<HeaderValue>| {
            head.headers.get(name) == known.as_ref()
        };
        let from = self.first + received;
        if !is_same(ETAG, &self.tag)
            || self.tag.is_none() && !is_same(LAST_MODIFIED, &self.modified)
        {
            return None;
        }
        match head.status {
            StatusCode::PARTIAL_CONTENT => {
                let (first, last, total) = range(&head.headers)?;
                let ends_there = match self.last {
                    Some(wanted) => wanted == last,
                    None => total == Some(last + 1),
                };
                (first == from && ends_there).then_some((body, 0))
            }
            // The origin knows no ranges. A part would need another end.
            StatusCode::OK if self.status == StatusCode::OK => {
                is_same(CONTENT_LENGTH, &self.length).then_some((body, from))
            }
            _ => None,
        }
    }
}

/// Reads the first and the last byte of `Content-Range: bytes 0-99/200`, and the length of the
/// whole, if it is known.
fn range(headers: &HeaderMap) -> Option<(u64, u64, Option<u64>)> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < u64::MAX).then_some((first, last, total.parse().ok()))
}

/// Lets the body of a response go on if it breaks off.
pub(crate) fn continued(response: Response<OriginBody>, ask_rest: AskRest) -> Response<OriginBody> {
    let (mut head, body) = response.into_parts();
    let watch = head.extensions.remove::<Watch>();
    let representation = Representation::of(head.status, &head.headers);
    let body = match representation {
        Some(representation) if !body.is_end_stream() => OriginBody::new(ContinuedBody {
            left: body.size_hint().exact(),
            source: Source::Body { body, skip: 0 },
            representation,
            received: 0,
            ask_rest: Some(ask_rest),
            watch,
            is_gone: None,
        }),
        _ => body,
    };
    Response::from_parts(head, body)
}

impl ContinuedBody {
    /// Counts bytes, and drops those that were received before.
    fn take(&mut self, mut data: Bytes) -> Option<Bytes> {
        if let Source::Body { skip, .. } = &mut self.source {
            let known = data.len().min(usize::try_from(*skip).unwrap_or(usize::MAX));
            data.advance(known);
            *skip -= known as u64;
        }
        if data.is_empty() {
            return None;
        }
        self.received += data.len() as u64;
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(data.len() as u64);
        }
        Some(data)
    }

    /// Asks for the rest, if that is possible.
    fn ask_rest(&mut self, error: BodyError) -> Result<(), BodyError> {
        let Some(ask) = self.ask_rest.take() else {
            return Err(error);
        };
        let Some(fields) = self.representation.fields(self.received) else {
            return Err(error);
        };
        tracing::debug!(%error, received = self.received, "a body goes on from the origin");
        self.source = Source::Asked(ask(fields));
        (self.watch, self.is_gone) = (None, None);
        Ok(())
    }
}

impl ContinuedBody {
    /// Returns the next piece of the body; an error if its node is gone meanwhile.
    fn poll_watched(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Source::Body { body, .. } = &mut self.source else {
            return Poll::Pending;
        };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
            self.is_gone = None;
            return Poll::Ready(frame);
        }
        // Without a rest to ask for, a node that is only busy may still go on.
        let has_rest = || self.representation.fields(self.received).is_some();
        let Some(Watch(watch)) = self.watch.as_ref().filter(|_| has_rest()) else {
            return Poll::Pending;
        };
        let is_gone = self.is_gone.get_or_insert_with(|| watch());
        ready!(is_gone.as_mut().poll(cx));
        let error = BodyError::new("another node gives no sign of life");
        Poll::Ready(Some(Err(error)))
    }
}

impl Body for ContinuedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        loop {
            match &mut this.source {
                Source::Body { .. } => match ready!(this.poll_watched(cx)) {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) => {
                            if let Some(data) = this.take(data) {
                                return Poll::Ready(Some(Ok(Frame::data(data))));
                            }
                        }
                        Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                    },
                    Some(Err(error)) => {
                        if let Err(error) = this.ask_rest(error) {
                            return Poll::Ready(Some(Err(error)));
                        }
                    }
                    None if this.left.is_some_and(|left| left > 0) => {
                        let error =
                            BodyError::new("the rest of a body of another node is too short");
                        return Poll::Ready(Some(Err(error)));
                    }
                    None => return Poll::Ready(None),
                },
                Source::Asked(asked) => {
                    let response = ready!(asked.as_mut().poll(cx));
                    let rest = response
                        .and_then(|response| this.representation.rest(response, this.received));
                    let Some((body, skip)) = rest else {
                        let error =
                            BodyError::new("another node has ended, and its rest is not had");
                        return Poll::Ready(Some(Err(error)));
                    };
                    // A body without a length may end anywhere.
                    let length = |body: &OriginBody| body.size_hint().exact();
                    this.left = this.left.or_else(|| length(&body)?.checked_sub(skip));
                    this.source = Source::Body { body, skip };
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Body { body, .. } => body.is_end_stream(),
            Source::Asked(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.source, self.left) {
            (_, Some(left)) => SizeHint::with_exact(left),
            (Source::Body { body, skip: 0 }, None) => body.size_hint(),
            _ => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::time::Duration;

    const TEXT: &str = "0123456789";

    /// A body of pieces, which breaks off after them or not.
    fn body(pieces: &[&str], breaks: bool) -> OriginBody {
        let mut frames: Vec<Result<Frame<Bytes>, BodyError>> = pieces
            .iter()
            .map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece.as_bytes()))))
            .collect();
        if breaks {
            frames.push(Err(BodyError::new("broken")));
        }
        OriginBody::new(Pieces(frames.into()))
    }

    struct Pieces(VecDeque<Result<Frame<Bytes>, BodyError>>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            Poll::Ready(self.0.pop_front())
        }
    }

    fn response(status: u16, fields: &[(&str, &str)], body: OriginBody) -> Response<OriginBody> {
        let mut builder = Response::builder().status(status);
        for (name, value) in fields {
            builder = builder.header(*name, *value);
        }
        builder.body(body).unwrap()
    }

    /// Reads a body of a node that breaks off after these bytes. Returns what came, and the fields
    /// that the origin got.
    async fn read(
        fields: &[(&str, &str)],
        status: u16,
        before: &[&str],
        rest: Option<Response<OriginBody>>,
    ) -> (Result<String, String>, Option<String>) {
        let asked = Arc::new(Mutex::new(None));
        let note = Arc::clone(&asked);
        let ask: AskRest = Box::new(move |fields| {
            let texts = fields.iter();
            let texts: Vec<_> = texts
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
                .collect();
            *note.lock().unwrap() = Some(texts.join("; "));
            Box::pin(async { rest })
        });
        let response = continued(response(status, fields, body(before, true)), ask);
        let read = response.into_body().collect().await;
        let read = read.map(|read| String::from_utf8(read.to_bytes().to_vec()).unwrap());
        let read = read.map_err(|error| error.to_string());
        let asked = asked.lock().unwrap().take();
        (read, asked)
    }

    const STRONG: [(&str, &str); 2] = [("etag", "\"a\""), ("content-length", "10")];

    /// Failure: a client gets half of a body because another node has ended.
    #[tokio::test]
    async fn a_body_breaks_off_with_its_node() {
        let part = response(
            206,
            &[("etag", "\"a\""), ("content-range", "bytes 4-9/10")],
            body(&["45", "6789"], false),
        );
        let (read_all, asked) = read(&STRONG, 200, &["01", "23"], Some(part)).await;
        assert_eq!(read_all.as_deref(), Ok(TEXT));
        assert_eq!(asked.as_deref(), Some("range: bytes=4-; if-range: \"a\""));
        // An origin without ranges.
        let whole = response(200, &STRONG, body(&["012345", "6789"], false));
        let (read_all, _) = read(&STRONG, 200, &["01", "23"], Some(whole)).await;
        assert_eq!(read_all.as_deref(), Ok(TEXT));
        // Nothing was received: weak tags and times are enough.
        for fields in [
            [("etag", "W/\"a\""), ("content-length", "10")],
            [
                ("last-modified", "Mon, 30 Nov 2026 10:00:00 GMT"),
                ("content-length", "10"),
            ],
        ] {
            let whole = response(200, &fields, body(&[TEXT], false));
            let (read_all, asked) = read(&fields, 200, &[], Some(whole)).await;
            assert_eq!(
                (read_all.as_deref(), asked.as_deref()),
                (Ok(TEXT), Some(""))
            );
        }
        // A part that the client asked for.
        let fields = [("etag", "\"a\""), ("content-range", "bytes 2-7/10")];
        let part = response(
            206,
            &[("etag", "\"a\""), ("content-range", "bytes 4-7/10")],
            body(&["4567"], false),
        );
        let (read_all, asked) = read(&fields, 206, &["23"], Some(part)).await;
        assert_eq!(read_all.as_deref(), Ok("234567"));
        assert_eq!(asked.as_deref(), Some("range: bytes=4-7; if-range: \"a\""));
    }

    /// Failure: a client waits for a body whose node has stopped, although its connection stands.
    #[tokio::test(start_paused = true)]
    async fn a_body_hangs_with_its_node() {
        struct Endless(VecDeque<&'static str>);
        impl Body for Endless {
            type Data = Bytes;
            type Error = BodyError;
            fn poll_frame(
                mut self: Pin<&mut Self>,
                _: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
                self.0.pop_front().map_or(Poll::Pending, |piece| {
                    Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(piece.as_bytes())))))
                })
            }
        }
        let gone = || -> IsGone { Box::pin(tokio::time::sleep(Duration::from_secs(1))) };
        let hangs = |pieces: &[&'static str], fields: &[(&str, &str)], rest| {
            let body = OriginBody::new(Endless(pieces.iter().copied().collect()));
            let mut response = response(200, fields, body);
            response.extensions_mut().insert(Watch(Arc::new(gone)));
            let ask: AskRest = Box::new(move |_| Box::pin(async { rest }));
            continued(response, ask).into_body().collect()
        };
        let part = response(
            206,
            &[("etag", "\"a\""), ("content-range", "bytes 4-9/10")],
            body(&["456789"], false),
        );
        let read = hangs(&["01", "23"], &STRONG, Some(part)).await.unwrap();
        assert_eq!(read.to_bytes(), TEXT);
        // Without a tag there is no rest to ask for: the node may only be busy.
        let length = [("content-length", "10")];
        let read = hangs(&["01"], &length, None);
        assert!(
            tokio::time::timeout(Duration::from_secs(30), read)
                .await
                .is_err()
        );
    }

    /// Failure: a body is put together from two representations.
    #[tokio::test]
    async fn two_representations_become_one_body() {
        let tail = "456789";
        let wrong = [
            (200, vec![("etag", "\"b\""), ("content-length", "10")]),
            (200, vec![("etag", "\"a\""), ("content-length", "11")]),
            (200, vec![("content-length", "10")]),
            (
                206,
                vec![("etag", "\"b\""), ("content-range", "bytes 4-9/10")],
            ),
            (
                206,
                vec![("etag", "\"a\""), ("content-range", "bytes 5-9/10")],
            ),
            (206, vec![("etag", "\"a\"")]),
            (
                206,
                vec![("etag", "\"a\""), ("content-range", "bytes 4-8/10")],
            ),
            (
                206,
                vec![("etag", "\"a\""), ("content-range", "bytes 4-9/*")],
            ),
            (404, vec![("etag", "\"a\"")]),
            (304, vec![("etag", "\"a\"")]),
        ];
        for (status, fields) in wrong {
            let rest = response(status, &fields, body(&[tail], false));
            let (all, _) = read(&STRONG, 200, &["01", "23"], Some(rest)).await;
            assert!(all.is_err(), "{status} {fields:?}: {all:?}");
        }
        assert!(read(&STRONG, 200, &["0123"], None).await.0.is_err());
        // Nothing says that the rest belongs to it: nobody is asked.
        for fields in [
            vec![("content-length", "10")],
            vec![("etag", "W/\"a\""), ("content-length", "10")],
            vec![("last-modified", "Mon, 30 Nov 2026 10:00:00 GMT")],
        ] {
            let whole = response(200, &fields, body(&[TEXT], false));
            let (all, asked) = read(&fields, 200, &["0123"], Some(whole)).await;
            assert!(all.is_err() && asked.is_none(), "{fields:?}: {all:?}");
        }
        // The rest breaks off, too: once is enough.
        let part = response(
            206,
            &[("etag", "\"a\""), ("content-range", "bytes 4-9/10")],
            body(&["45"], true),
        );
        assert!(read(&STRONG, 200, &["0123"], Some(part)).await.0.is_err());
    }
}
