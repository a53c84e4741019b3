//! Bodies: what is sent to clients, and what is sent to the origin.

use super::assemble::Pieces;
use super::connections::Lease;
use super::limits;
use super::ndn_origin::Named;
use super::origin::Content;
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
    /// From the store, or the cache's own: shared, not copied. `None` where it has been sent.
    Whole(Option<Bytes>),
    /// The same in several pieces, the last first.
    Parts(Vec<Bytes>),
    /// Put together from slices, or read from the disk.
    Assembled(Pieces),
    /// On its way into the store, read by whoever asked for it meanwhile.
    Shared(Reader),
    /// From the origin, as it comes. Backpressure is the client's: nothing is read ahead of it.
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

/// Reads a body from the origin into the store and to all who read it meanwhile, at the origin's
/// pace; past what may be stored, at that of the slowest reader. Clients that go away do not stop
/// it: what is wanted in the store is fetched once.
///
/// A future by hand: a small body has come with its head, and is read to its end where it stands,
/// without a box or a task.
pub(super) struct Collecting {
    body: Timed<OriginBody>,
    /// `None` where it is done.
    fill: Option<Box<Fill>>,
    proxy: Arc<Proxy>,
    /// While slices wait for the disk: since when, and until when.
    slices_wait: Option<(Instant, Pin<Box<Sleep>>)>,
    /// All of the body has come.
    has_ended: bool,
    /// Among the requests under way.
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

    /// Hands slices to the disk, and waits a moment for one that is slower than the origin.
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

    /// Whether it has ended well.
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
            // The store has it before any reader sees the end: a request that comes then hits.
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
pub(crate) enum OriginBody {
    /// With its connection, until it has been read to its end.
    Received(Incoming, Option<Box<Lease>>),
    Generated(Content),
    Named(Box<Named>),
}

impl OriginBody {
    /// Without a lease, its connection serves nobody after it.
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
            OriginBody::Named(body) => body.poll_piece(cx).map(|piece| piece.map(|piece| piece.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            OriginBody::Received(body, _) => body.is_end_stream(),
            OriginBody::Generated(content) => content.is_at_end(),
            OriginBody::Named(body) => body.left() == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            OriginBody::Received(body, _) => body.size_hint(),
            OriginBody::Generated(content) => content.size_hint(),
            OriginBody::Named(body) => body.left().map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

/// A request's body on its way to the origin.
pub(crate) enum Upload {
    /// As the client sends it.
    Coming(Coming),
    /// Here already; `None` where it is empty, or has been sent.
    Whole(Option<Bytes>),
}

/// A body that the client sends.
pub(crate) struct Coming {
    body: Timed<Incoming>,
    /// The client waits until it is asked for it.
    expects: bool,
    /// It has been asked for.
    asked: Arc<AtomicBool>,
    /// Until the origin asks for it, or has had its time.
    held: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Told when all of it has come.
    end: Option<oneshot::Sender<()>>,
}

impl Upload {
    /// A body whose client may be silent for so long.
    pub(super) fn new(body: Incoming, expects: bool, silence: Duration) -> Upload {
        Upload::Coming(Coming {
            body: Timed::new(body, silence),
            expects,
            asked: Arc::default(),
            held: None,
            end: None,
        })
    }

    /// Hears when all of the body has come; an error where it is dropped before that. `None` where
    /// all of it is here.
    pub(super) fn watch_end(&mut self) -> Option<oneshot::Receiver<()>> {
        let Upload::Coming(coming) = self else { return None };
        let (end, ended) = oneshot::channel();
        coming.end = Some(end);
        Some(ended)
    }

    /// Where the client waits until it is asked for its body: whether it has been.
    pub(super) fn asked(&self) -> Option<Arc<AtomicBool>> {
        match self {
            Upload::Coming(Coming { expects: true, asked, .. }) => Some(Arc::clone(asked)),
            _ => None,
        }
    }

    pub(crate) fn empty() -> Upload {
        Upload::Whole(None)
    }

    pub(crate) fn whole(bytes: Bytes) -> Upload {
        Upload::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    /// Where the client waits until it is asked for its body (RFC 9110 §10.1.1): holds it back
    /// until the gate is opened, or [`limits::CONTINUE`] is over.
    pub(super) fn gate(&mut self) -> Option<Gate> {
        let Upload::Coming(coming) = self else { return None };
        if !coming.expects {
            return None;
        }
        let (open, opened) = oneshot::channel();
        coming.held = Some(Box::pin(async {
            let asked = async {
                if opened.await.is_err() {
                    // The response has come, and does not need it.
                    std::future::pending().await
                }
            };
            let _ = tokio::time::timeout(limits::CONTINUE, asked).await;
        }));
        Some(Gate(Mutex::new(Some(open))))
    }

    /// It waits behind a gate.
    pub(super) fn is_held(&self) -> bool {
        matches!(self, Upload::Coming(Coming { held: Some(_), .. }))
    }

    /// Reads a small body that nobody takes. Answered without it, the connection would be closed on
    /// a client that is still sending, and the reset may take the answer with it (RFC 9112, section
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
        // Late or not, the answer goes out.
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
                // hyper may drop it without a look behind its last frame.
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

/// What a request's body waits behind.
pub(super) struct Gate(Mutex<Option<oneshot::Sender<()>>>);

impl Gate {
    /// The origin asks for it.
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
    /// Made at the first wait, and moved ahead by every piece.
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
pub(crate) struct BodyError(Box<dyn Error + Send + Sync>);

impl BodyError {
    pub(super) fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> BodyError {
        BodyError(error.into())
    }

    /// Whether the body broke off because nothing more came in time.
    pub(super) fn is_silence(&self) -> bool {
        self.0.is::<Silent>()
    }
}

/// Nothing more of a body came in time.
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

    /// A body that brings a byte after each of these pauses, then nothing more.
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

    /// The fear: an origin, or a client that uploads, that falls silent keeps everything behind it
    /// for ever.
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
