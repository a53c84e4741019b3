//! A body that gets its content coding while it is sent.

use crate::base::places::Place;
use crate::message::body::BodyError;
use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use larder_content_coding::Encoder;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// Bytes that are coded before other connections of the thread get their turn: a fraction of a
/// millisecond, even with brotli.
const TURN_BYTES: usize = 32 << 10;

/// Counts what is coded while it is sent.
#[derive(Default)]
pub(crate) struct CodingCounters {
    pub(crate) responses: AtomicU64,
    /// Bytes as they came.
    pub(crate) bytes: AtomicU64,
    /// Coded bytes.
    pub(crate) sent: AtomicU64,
    /// Responses that found no place.
    pub(crate) refused: AtomicU64,
}

/// A body with a content coding. What its origin has sent so far reaches the client when the origin
/// pauses, so a page that is made slowly is also shown slowly.
pub(crate) struct CodedBody<B> {
    body: B,
    /// `None` after the end.
    encoder: Option<Encoder>,
    /// Received, and not coded yet.
    piece: Bytes,
    /// True if the encoder may keep bytes that the client lacks.
    keeps: bool,
    /// The trailers, which follow the last coded bytes.
    trailers: Option<Frame<Bytes>>,
    counters: Arc<CodingCounters>,
    _place: Place,
}

impl<B> CodedBody<B> {
    pub(crate) fn new(
        body: B,
        encoder: Encoder,
        counters: &Arc<CodingCounters>,
        place: Place,
    ) -> CodedBody<B> {
        counters.responses.fetch_add(1, Ordering::Relaxed);
        CodedBody {
            body,
            encoder: Some(encoder),
            piece: Bytes::new(),
            keeps: false,
            trailers: None,
            counters: Arc::clone(counters),
            _place: place,
        }
    }

    /// Codes the next bytes of the piece.
    fn code_turn(&mut self) -> Result<Vec<u8>, BodyError> {
        let turn = self.piece.len().min(TURN_BYTES);
        let Some(encoder) = &mut self.encoder else {
            return Ok(Vec::new());
        };
        let coded = encoder.write(&self.piece[..turn]).map_err(BodyError::new)?;
        self.piece.advance(turn);
        let bytes = &self.counters.bytes;
        bytes.fetch_add(turn as u64, Ordering::Relaxed);
        self.keeps = true;
        Ok(coded)
    }

    /// Returns the last coded bytes.
    fn finish(&mut self) -> Result<Vec<u8>, BodyError> {
        match self.encoder.take() {
            Some(encoder) => encoder.finish().map_err(BodyError::new),
            None => Ok(Vec::new()),
        }
    }

    fn code_turn_frame(&mut self) -> Option<Result<Frame<Bytes>, BodyError>> {
        let coded = self.code_turn();
        self.data(coded)
    }

    fn flush_frame(&mut self) -> Option<Result<Frame<Bytes>, BodyError>> {
        let coded = self.flush();
        self.data(coded)
    }

    fn finish_frame(&mut self) -> Option<Result<Frame<Bytes>, BodyError>> {
        let coded = self.finish();
        self.data(coded)
    }

    /// Returns a frame of coded bytes; `None` without any.
    fn data(&self, coded: Result<Vec<u8>, BodyError>) -> Option<Result<Frame<Bytes>, BodyError>> {
        match coded {
            Ok(coded) if coded.is_empty() => None,
            Ok(coded) => {
                let sent = &self.counters.sent;
                sent.fetch_add(coded.len() as u64, Ordering::Relaxed);
                Some(Ok(Frame::data(coded.into())))
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Returns the coded bytes that the client lacks, if there are any.
    fn flush(&mut self) -> Result<Vec<u8>, BodyError> {
        match &mut self.encoder {
            Some(encoder) if std::mem::take(&mut self.keeps) => {
                encoder.flush().map_err(BodyError::new)
            }
            _ => Ok(Vec::new()),
        }
    }
}

impl<B: Body<Data = Bytes, Error = BodyError> + Unpin> Body for CodedBody<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if !this.piece.is_empty() {
            // The second turn of a piece waits until others have had theirs.
            return match this.code_turn_frame() {
                Some(frame) => Poll::Ready(Some(frame)),
                None => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
            };
        }
        if this.encoder.is_none() {
            return Poll::Ready(this.trailers.take().map(Ok));
        }
        loop {
            let frame = match Pin::new(&mut this.body).poll_frame(cx) {
                Poll::Pending => {
                    return this
                        .flush_frame()
                        .map_or(Poll::Pending, |frame| Poll::Ready(Some(frame)));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(None) => return Poll::Ready(this.finish_frame()),
            };
            match frame.into_data() {
                Ok(piece) => this.piece = piece,
                Err(trailers) => {
                    this.trailers = Some(trailers);
                    let last = this.finish_frame();
                    return Poll::Ready(last.or_else(|| this.trailers.take().map(Ok)));
                }
            }
            if this.piece.is_empty() {
                continue;
            }
            if let Some(frame) = this.code_turn_frame() {
                return Poll::Ready(Some(frame));
            }
            if !this.piece.is_empty() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.encoder.is_none() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::places::Places;
    use http_body_util::BodyExt;
    use larder_content_coding::Effort;
    use larder_http::ContentCoding;
    use std::collections::VecDeque;
    use std::io::Read;

    enum Event {
        Piece(Vec<u8>),
        Pause,
        Trailers,
        Break,
    }

    /// A body that does this.
    struct Script(VecDeque<Event>);

    impl Body for Script {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            Poll::Ready(match self.get_mut().0.pop_front() {
                Some(Event::Piece(piece)) => Some(Ok(Frame::data(piece.into()))),
                Some(Event::Trailers) => {
                    let mut trailers = http::HeaderMap::new();
                    trailers.insert("x-sum", http::HeaderValue::from_static("1"));
                    Some(Ok(Frame::trailers(trailers)))
                }
                Some(Event::Break) => Some(Err(BodyError::new("it broke off"))),
                Some(Event::Pause) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                None => None,
            })
        }
    }

    fn coded(events: Vec<Event>) -> CodedBody<Script> {
        let encoder = Encoder::new(ContentCoding::Gzip, Effort::Streaming).unwrap();
        let place = Places::new(1).try_acquire().unwrap();
        CodedBody::new(Script(events.into()), encoder, &Arc::default(), place)
    }

    fn decoded(coded: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(coded);
        // Without its end, the coded text ends in an error.
        let _ = reader.read_to_end(&mut all);
        all
    }

    /// Failure: bytes are lost between turns, or at the end; trailers disappear.
    #[tokio::test]
    async fn the_whole_body_comes_with_its_trailers() {
        let text: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
        let events = vec![
            Event::Piece(Vec::new()),
            Event::Piece(text.clone()),
            Event::Pause,
            Event::Piece(b"end".to_vec()),
            Event::Trailers,
        ];
        let body = coded(events).collect().await.unwrap();
        assert_eq!(body.trailers().unwrap()["x-sum"], "1");
        let whole = [&text[..], b"end"].concat();
        assert!(decoded(&body.to_bytes()) == whole);
        let empty = coded(Vec::new()).collect().await.unwrap();
        assert!(decoded(&empty.to_bytes()).is_empty());
    }

    /// Failure: a client waits for what a slow origin has sent already.
    #[tokio::test]
    async fn a_pause_of_the_origin_flushes() {
        let mut body = coded(vec![
            Event::Piece(b"first".to_vec()),
            Event::Pause,
            Event::Piece(b"second".to_vec()),
        ]);
        let mut sent = Vec::new();
        while decoded(&sent) != b"first" {
            let frame = body.frame().await.expect("it has not ended").unwrap();
            sent.extend_from_slice(&frame.into_data().unwrap());
        }
        assert_eq!(body.body.0.len(), 1, "the second piece has not been read");
    }

    /// Failure: a body that broke off looks like a whole one.
    #[tokio::test]
    async fn a_broken_body_is_not_finished() {
        let body = coded(vec![Event::Piece(b"first".to_vec()), Event::Break]);
        assert!(body.collect().await.is_err());
    }
}
