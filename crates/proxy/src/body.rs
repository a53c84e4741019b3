//! Bodies of responses to clients and of requests to the origin.

use super::assemble::Pieces;
use super::connections::Lease;
use super::generated_origin::Content;
use super::limits;
use super::proxy::Proxy;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use larder_http::{BrokenOff, Fill, Reader};
use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, Sleep};

/// The body of a response to a client.
pub(super) enum Outgoing {
    /// From the store, or made by the cache: shared, not copied. `None` after it was sent.
    Whole(Option<Bytes>),
    /// The same in several pieces, the last first.
    Parts(Vec<Bytes>),
    /// Put together from slices, or read from the disk.
    Assembled(Pieces),
    /// On its way into the store, and read by every request for it.
    Shared(Reader),
    /// From the origin as it arrives. Nothing is read ahead of the client.
    Relay(Box<Timed<OriginBody>>),
}

impl Outgoing {
    pub(super) fn whole(bytes: Bytes) -> Outgoing {
        Outgoing::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    pub(super) fn parts(mut pieces: Vec<Bytes>) -> Outgoing {
        pieces.retain(|piece| !piece.is_empty());
        pieces.reverse();
        Outgoing::Parts(pieces)
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Outgoing::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Outgoing::Parts(pieces) => Poll::Ready(pieces.pop().map(|bytes| Ok(Frame::data(bytes)))),
            Outgoing::Assembled(pieces) => pieces.poll(cx).map(|piece| piece.map(|piece| piece.map(Frame::data))),
            Outgoing::Shared(reader) => reader.poll_piece(cx).map(|piece| {
                piece.map(|piece| {
                    piece.map(Frame::data).map_err(|BrokenOff| BodyError::new("the origin's body broke off"))
                })
            }),
            Outgoing::Relay(body) => Pin::new(&mut **body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outgoing::Whole(bytes) => bytes.is_none(),
            Outgoing::Parts(pieces) => pieces.is_empty(),
            Outgoing::Assembled(pieces) => pieces.left == 0,
            Outgoing::Shared(reader) => reader.left() == Some(0),
            Outgoing::Relay(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Outgoing::Parts(pieces) => SizeHint::with_exact(pieces.iter().map(|bytes| bytes.len() as u64).sum()),
            Outgoing::Assembled(pieces) => SizeHint::with_exact(pieces.left),
            Outgoing::Shared(reader) => reader.left().map_or_else(SizeHint::default, SizeHint::with_exact),
            Outgoing::Relay(body) => body.size_hint(),
        }
    }
}

/// Reads a body from the origin into the store and to all its readers, at the pace of the origin; a
/// part that may not be stored, at the pace of the slowest reader. It continues when clients leave,
/// so that a body for the store is fetched once.
///
/// A hand-written future: a small body arrives with its head, and is read to its end here, without
/// a box or a task.
pub(super) struct Collecting {
    body: Timed<OriginBody>,
    /// `None` after it is done.
    fill: Option<Box<Fill>>,
    proxy: Arc<Proxy>,
    /// While slices wait for the disk: the start of the wait, and its end.
    slices_wait: Option<(Instant, Pin<Box<Sleep>>)>,
    /// True after the whole body has arrived.
    has_ended: bool,
    /// A place among the requests in progress.
    _place: Option<OwnedSemaphorePermit>,
}

impl Collecting {
    pub(super) fn new(
        body: OriginBody,
        fill: Box<Fill>,
        proxy: Arc<Proxy>,
        place: Option<OwnedSemaphorePermit>,
    ) -> Collecting {
        let timeouts = proxy.timeouts();
        let silence = if fill.may_be_silent() { timeouts.origin_relay() } else { timeouts.origin_read };
        let body = Timed::new(body, silence);
        Collecting { body, fill: Some(fill), proxy, slices_wait: None, has_ended: false, _place: place }
    }

    /// Passes slices to the disk, and waits briefly if it is slower than the origin.
    fn poll_slices(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(fill) = self.fill.as_mut().filter(|fill| fill.has_slices()) {
            if self.proxy.put_slices(fill) {
                self.slices_wait = None;
                continue;
            }
            let pause = || Instant::now() + limits::SLICES_PAUSE;
            let new = || (Instant::now(), Box::pin(tokio::time::sleep_until(pause())));
            let (since, sleep) = self.slices_wait.get_or_insert_with(new);
            if since.elapsed() >= limits::SLICES_WAIT {
                fill.stop_slicing();
                continue;
            }
            ready!(sleep.as_mut().poll(cx));
            sleep.as_mut().reset(pause());
        }
        Poll::Ready(())
    }

    /// Returns true if the body has ended without an error.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            ready!(self.poll_slices(cx));
            let Some(fill) = &mut self.fill else { return Poll::Ready(false) };
            if self.has_ended {
                return Poll::Ready(true);
            }
            if !ready!(fill.poll_room(cx)) {
                return Poll::Ready(false);
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        fill.push(data);
                    }
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "the origin's body broke off");
                    return Poll::Ready(false);
                }
                None => self.has_ended = true,
            }
            // The store gets the body before any reader sees its end, so that a request after that
            // hits.
            self.has_ended |= self.body.is_end_stream();
        }
    }
}

impl Future for Collecting {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let well = ready!(self.poll_end(cx));
        match self.fill.take() {
            Some(fill) if well => self.proxy.complete(fill),
            Some(fill) => self.proxy.abort(fill),
            None => {}
        }
        Poll::Ready(())
    }
}

/// A body from the origin.
pub enum OriginBody {
    /// A body with its connection, until it has been read to its end.
    Received(Incoming, Option<Box<Lease>>),
    /// A body that this process generates.
    Generated(Content),
    /// A body of an [`super::Origin`].
    Custom(Pin<Box<dyn Body<Data = Bytes, Error = BodyError> + Send>>),
}

impl OriginBody {
    /// Returns a body of an [`super::Origin`].
    pub fn new(body: impl Body<Data = Bytes, Error = BodyError> + Send + 'static) -> OriginBody {
        OriginBody::Custom(Box::pin(body))
    }

    /// Without a lease, the connection is not used again.
    pub(super) fn received(body: Incoming, lease: Option<Lease>) -> OriginBody {
        if body.is_end_stream() {
            lease.into_iter().for_each(Lease::give_back);
            return OriginBody::Received(body, None);
        }
        OriginBody::Received(body, lease.map(Box::new))
    }
}

impl Body for OriginBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            OriginBody::Received(body, lease) => {
                let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
                let at_end = frame.is_none() || body.is_end_stream() && matches!(frame, Some(Ok(_)));
                if at_end && let Some(lease) = lease.take() {
                    lease.give_back();
                }
                Poll::Ready(frame.map(|frame| frame.map_err(BodyError::new)))
            }
            OriginBody::Generated(content) => Poll::Ready(content.next_piece().map(|piece| piece.map(Frame::data))),
            OriginBody::Custom(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            OriginBody::Received(body, _) => body.is_end_stream(),
            OriginBody::Generated(content) => content.is_at_end(),
            OriginBody::Custom(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            OriginBody::Received(body, _) => body.size_hint(),
            OriginBody::Generated(content) => content.size_hint(),
            OriginBody::Custom(body) => body.size_hint(),
        }
    }
}

/// A request's body on its way to the origin.
pub enum Upload {
    /// A body that the client is sending.
    Coming(Coming),
    /// A body that is complete. `None` if it is empty, or has been sent.
    Whole(Option<Bytes>),
}

/// A body that the client sends.
pub struct Coming {
    body: Timed<Incoming>,
    /// True if the client waits for `100 Continue`.
    expects: bool,
    /// True after the client was asked for the body.
    asked: Arc<AtomicBool>,
    /// The wait until the origin asks for the body, or until the time for that is over.
    held: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Informed when the whole body has arrived.
    end: Option<oneshot::Sender<()>>,
}

impl Upload {
    /// A body whose client may be silent for this long.
    pub(super) fn new(body: Incoming, expects: bool, silence: Duration) -> Upload {
        Upload::Coming(Coming {
            body: Timed::new(body, silence),
            expects,
            asked: Arc::default(),
            held: None,
            end: None,
        })
    }

    /// Returns a receiver that learns when the whole body has arrived, or gets an error if the body
    /// is dropped before. `None` if the body is complete.
    pub(super) fn watch_end(&mut self) -> Option<oneshot::Receiver<()>> {
        let Upload::Coming(coming) = self else { return None };
        let (end, ended) = oneshot::channel();
        coming.end = Some(end);
        Some(ended)
    }

    /// Returns whether the client has been asked for its body, if it waits for that.
    pub(super) fn asked(&self) -> Option<Arc<AtomicBool>> {
        match self {
            Upload::Coming(Coming { expects: true, asked, .. }) => Some(Arc::clone(asked)),
            _ => None,
        }
    }

    /// Returns an empty body.
    pub fn empty() -> Upload {
        Upload::Whole(None)
    }

    /// Returns a body that is complete.
    pub fn whole(bytes: Bytes) -> Upload {
        Upload::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    /// If the client waits for `100 Continue` (RFC 9110 §10.1.1): holds the body back until the
    /// gate is opened, or until [`limits::CONTINUE`] is over.
    pub(super) fn gate(&mut self) -> Option<Gate> {
        let Upload::Coming(coming) = self else { return None };
        if !coming.expects {
            return None;
        }
        let (open, opened) = oneshot::channel();
        coming.held = Some(Box::pin(async {
            let asked = async {
                if opened.await.is_err() {
                    // The response has arrived, and does not need the body.
                    std::future::pending().await
                }
            };
            let _ = tokio::time::timeout(limits::CONTINUE, asked).await;
        }));
        Some(Gate(Mutex::new(Some(open))))
    }

    /// Returns true if it waits behind a gate.
    pub(super) fn is_held(&self) -> bool {
        matches!(self, Upload::Coming(Coming { held: Some(_), .. }))
    }

    /// Reads a small body that no server takes. Without this, the connection would be closed on a
    /// client that is still sending, and the reset could destroy the answer (RFC 9112, section
    /// 9.6).
    pub(super) async fn take_rest(&mut self) {
        let small = |left: u64| left <= limits::UNWANTED_UPLOAD_BYTES;
        let Upload::Coming(Coming { body, expects: false, .. }) = self else { return };
        if !body.size_hint().upper().is_none_or(small) {
            return;
        }
        let all = async {
            let mut left = limits::UNWANTED_UPLOAD_BYTES;
            while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
                let taken = frame.data_ref().map_or(0, |piece| piece.len() as u64);
                left = match left.checked_sub(taken) {
                    Some(left) => left,
                    None => return,
                };
            }
        };
        // The answer leaves in any case.
        let _ = tokio::time::timeout(limits::UNWANTED_UPLOAD, all).await;
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Upload::Coming(Coming { body, held, expects, asked, end }) => {
                if let Some(wait) = held {
                    ready!(wait.as_mut().poll(cx));
                    *held = None;
                }
                if *expects {
                    asked.store(true, Ordering::Relaxed);
                }
                let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
                // hyper may drop the body without a poll after its last frame.
                let is_whole = frame.as_ref().is_none_or(|frame| frame.is_ok() && body.is_end_stream());
                if is_whole && let Some(end) = end.take() {
                    // The request may have been given up.
                    let _ = end.send(());
                }
                Poll::Ready(frame)
            }
            Upload::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Upload::Coming(coming) => coming.body.is_end_stream(),
            Upload::Whole(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Upload::Coming(coming) => coming.body.size_hint(),
            Upload::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
        }
    }
}

/// A gate that holds the body of a request back.
pub(super) struct Gate(Mutex<Option<oneshot::Sender<()>>>);

impl Gate {
    /// Opens the gate: the origin asks for the body.
    pub(super) fn open(&self) {
        if let Some(open) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // The body may have gone.
            let _ = open.send(());
        }
    }
}

/// A body that fails after so long without a piece.
pub(crate) struct Timed<B> {
    body: B,
    silence: Duration,
    /// Created at the first wait, and moved ahead by every piece.
    stalled: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl<B> Timed<B> {
    pub(super) fn new(body: B, silence: Duration) -> Timed<B> {
        Timed { body, silence, stalled: None, waiting: false }
    }
}

impl<B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin> Body for Timed<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.waiting = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::new)));
        }
        let silence = this.silence;
        let deadline = || Instant::now() + silence;
        let stalled = this.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline())));
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

    /// Returns true if the body broke off because it was silent for too long.
    pub fn is_silence(&self) -> bool {
        self.0.is::<Silent>()
    }
}

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

    /// A body that yields one byte after each of these pauses, and then nothing.
    struct Drip(Vec<Duration>, Pin<Box<Sleep>>);

    impl Body for Drip {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
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
        let mut body = Timed::new(Drip(pauses, Box::pin(tokio::time::sleep(Duration::ZERO))), limits::BODY_STALL);
        let mut pieces = 0;
        let start = Instant::now();
        let error = loop {
            match poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                Some(Ok(_)) => pieces += 1,
                Some(Err(error)) => break error,
                None => panic!("it does not end"),
            }
        };
        assert_eq!((pieces, error.to_string().as_str()), (6, "nothing more came in time"));
        assert_eq!(start.elapsed().as_secs(), (limits::BODY_STALL * 45 / 10 + limits::BODY_STALL).as_secs());
    }
}
