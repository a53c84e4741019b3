//! Bodies that break off: the error, and the time limit of silence.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use larder_http::UpstreamFailure;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// A body that fails after so long without a piece.
pub(crate) struct Timed<B> {
    body: B,
    silence: Duration,
    /// Created at the first wait, and moved ahead by every piece.
    stalled: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl<B> Timed<B> {
    pub(crate) fn new(body: B, silence: Duration) -> Timed<B> {
        Timed {
            body,
            silence,
            stalled: None,
            waiting: false,
        }
    }

    /// Accepts this much silence, if that is more than before, also for the present wait.
    pub(crate) fn extend(&mut self, silence: Duration) {
        let more = silence.saturating_sub(self.silence);
        self.silence += more;
        if let Some(stalled) = self.stalled.as_mut().filter(|_| self.waiting) {
            let deadline = stalled.deadline() + more;
            stalled.as_mut().reset(deadline);
        }
    }
}

impl<B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin> Body for Timed<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.waiting = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::new)));
        }
        let silence = this.silence;
        let deadline = || Instant::now() + silence;
        let stalled = this
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline())));
        if !this.waiting {
            this.waiting = true;
            stalled.as_mut().reset(deadline());
        }
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Some(Err(BodyError::new(Silent))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body that broke off.
#[derive(Debug)]
pub struct BodyError(Box<dyn Error + Send + Sync>);

impl BodyError {
    /// Returns the error of a body that broke off for this reason.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> BodyError {
        BodyError(error.into())
    }

    /// Returns the failure of a request whose body broke off.
    pub fn failure(&self) -> UpstreamFailure {
        match self {
            error if error.is_silence() => UpstreamFailure::UploadTimedOut,
            error if error.is_too_large() => UpstreamFailure::UploadTooLarge,
            _ => UpstreamFailure::Upload,
        }
    }

    /// Returns true if the body broke off because it was silent for too long.
    fn is_silence(&self) -> bool {
        self.0.is::<Silent>()
    }

    /// Returns true if the body broke off because it is larger than a limit.
    pub(crate) fn is_too_large(&self) -> bool {
        self.0.is::<TooLarge>()
    }
}

/// The way in which a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UploadEnd {
    /// The whole body has arrived.
    Whole,
    /// It broke off.
    Failed(UpstreamFailure),
}

/// The error of a body that is larger than a limit.
#[derive(Debug)]
pub(crate) struct TooLarge;

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is too large")
    }
}

impl Error for TooLarge {}

/// The error of a body that was silent for too long.
#[derive(Debug)]
struct Silent;

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing more came in time")
    }
}

impl Error for Silent {}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for BodyError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits;
    use std::future::poll_fn;

    /// A body that yields one byte after each of these pauses, and then nothing.
    struct Drip(Vec<Duration>, Pin<Box<Sleep>>);

    impl Body for Drip {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            let this = self.get_mut();
            ready!(this.1.as_mut().poll(cx));
            let pause = this.0.pop().unwrap_or(Duration::MAX / 1000);
            this.1 = Box::pin(tokio::time::sleep(pause));
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
        }
    }

    /// Failure: a silent origin, or a silent upload, blocks the resources behind it for ever.
    #[tokio::test(start_paused = true)]
    async fn a_silent_body_fails_and_a_slow_one_does_not() {
        let pauses = vec![limits::BODY_STALL * 9 / 10; 5];
        let mut body = Timed::new(
            Drip(pauses, Box::pin(tokio::time::sleep(Duration::ZERO))),
            limits::BODY_STALL,
        );
        let mut pieces = 0;
        let start = Instant::now();
        let error = loop {
            match poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                Some(Ok(_)) => pieces += 1,
                Some(Err(error)) => break error,
                None => panic!("it does not end"),
            }
        };
        assert_eq!(
            (pieces, error.to_string().as_str()),
            (6, "nothing more came in time")
        );
        assert_eq!(
            start.elapsed().as_secs(),
            (limits::BODY_STALL * 45 / 10 + limits::BODY_STALL).as_secs()
        );
    }
}
