//! The activity of the streams of one connection of HTTP/2 or 3, to close a connection that is idle
//! or whose client does not read a response.
//!
//! h2 and quinn have no such deadlines. A client may keep its connection open by pings alone, or
//! request large objects and grant them no window, and they stay in memory. So the bodies of
//! responses come in [`Piece`]s that record when bytes of them were last sent, and how many. The
//! transport alone (`slow_client.rs`) cannot tell, because other streams continue.

use crate::client::client_connections::Activity;
use crate::exchange::websocket_stream::KeptBusy;
use crate::message::first_bytes::FirstBytes;
use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use hyper::service::Service;
use hyper::{Method, Request, Response};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The requests of one connection, and the pieces that are being sent.
pub(crate) struct Streams {
    begun: Instant,
    /// Requests and pieces of responses in progress.
    busy: AtomicUsize,
    /// The time at which the last of them ended, in milliseconds since `begun`.
    quiet_since: AtomicU64,
    pieces: Mutex<Vec<Weak<Sent>>>,
    /// Requests that the connection may still have.
    left: AtomicUsize,
    /// Informed when there are none.
    used_up: Notify,
    /// Of the connection.
    activity: Arc<Activity>,
}

/// The progress of a piece. Times are milliseconds since the connection began.
struct Sent {
    begun: u64,
    last: AtomicU64,
    bytes: AtomicU64,
}

impl Streams {
    /// The streams of a connection that may have so many requests.
    pub(crate) fn new(most: usize, activity: &Arc<Activity>) -> Arc<Streams> {
        Arc::new(Streams {
            begun: Instant::now(),
            busy: AtomicUsize::new(0),
            quiet_since: AtomicU64::new(0),
            pieces: Mutex::default(),
            left: AtomicUsize::new(most),
            used_up: Notify::new(),
            activity: Arc::clone(activity),
        })
    }

    /// Waits until the connection has had as many requests as it may.
    pub(crate) async fn used_up(&self) {
        self.used_up.notified().await;
    }

    fn count(&self) {
        // One task counts.
        let left = self.left.load(Ordering::Relaxed).saturating_sub(1);
        self.left.store(left, Ordering::Relaxed);
        if left == 0 {
            self.used_up.notify_one();
        }
    }

    /// Returns true if nothing has been in progress for so long.
    pub(crate) fn are_quiet(&self, since: Duration) -> bool {
        self.busy.load(Ordering::Relaxed) == 0 && self.is_older(&self.quiet_since, since)
    }

    /// Returns true if the client has read nothing of some piece for so long.
    pub(crate) fn are_stalled(&self, since: Duration) -> bool {
        self.pieces()
            .iter()
            .filter_map(Weak::upgrade)
            .any(|sent| self.is_older(&sent.last, since))
    }

    /// Returns true if some piece has been in progress for longer than `time`, with less than its
    /// share of `bytes` in each such time on average: a connection of many streams gives each a
    /// little. Each piece of a body is counted separately.
    pub(crate) fn are_slow(&self, bytes: u64, time: Duration) -> bool {
        let (now, time) = (self.milliseconds(), time.as_millis() as u64);
        let pieces: Vec<_> = self.pieces().iter().filter_map(Weak::upgrade).collect();
        let bytes = bytes / pieces.len().max(1) as u64;
        let is_slow = |sent: Arc<Sent>| {
            let took = now.saturating_sub(sent.begun);
            took >= time
                && sent.bytes.load(Ordering::Relaxed).saturating_mul(time)
                    < bytes.saturating_mul(took)
        };
        pieces.into_iter().any(is_slow)
    }

    fn is_older(&self, milliseconds: &AtomicU64, than: Duration) -> bool {
        let age = self
            .milliseconds()
            .saturating_sub(milliseconds.load(Ordering::Relaxed));
        Duration::from_millis(age) >= than
    }

    fn milliseconds(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn pieces(&self) -> MutexGuard<'_, Vec<Weak<Sent>>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) -> Arc<Sent> {
        let now = self.milliseconds();
        let sent = Arc::new(Sent {
            begun: now,
            last: AtomicU64::new(now),
            bytes: AtomicU64::new(0),
        });
        let mut pieces = self.pieces();
        // Sent pieces make room: there are at most twice as many as live ones, or a few.
        if pieces.len() == pieces.capacity() {
            pieces.retain(|piece| piece.strong_count() > 0);
        }
        pieces.push(Arc::downgrade(&sent));
        sent
    }
}

/// Something is in progress while this exists.
pub(crate) struct Busy(Arc<Streams>);

impl Busy {
    fn new(streams: &Arc<Streams>) -> Busy {
        streams.busy.fetch_add(1, Ordering::Relaxed);
        streams.activity.begin();
        Busy(Arc::clone(streams))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0
            .quiet_since
            .store(self.0.milliseconds(), Ordering::Relaxed);
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
        self.0.activity.end();
    }
}

/// A service whose requests and responses are watched.
pub(crate) struct Watched<S> {
    service: S,
    streams: Arc<Streams>,
}

impl<S> Watched<S> {
    pub(crate) fn new(service: S, streams: &Arc<Streams>) -> Watched<S> {
        Watched {
            service,
            streams: Arc::clone(streams),
        }
    }
}

impl<S, R, B> Service<Request<R>> for Watched<S>
where
    S: Service<Request<R>, Response = Response<B>, Future: Unpin>,
{
    type Response = Response<WatchedBody<B>>;
    type Error = S::Error;
    type Future = WatchedFuture<S::Future>;

    fn call(&self, mut request: Request<R>) -> Self::Future {
        self.streams.count();
        if request.method() == Method::CONNECT {
            // The stream of a WebSocket goes on after the response.
            request
                .extensions_mut()
                .insert(KeptBusy::new(Busy::new(&self.streams)));
        }
        WatchedFuture {
            busy: Some(Busy::new(&self.streams)),
            future: self.service.call(request),
        }
    }
}

pub(crate) struct WatchedFuture<F> {
    /// Held here until the body holds it.
    busy: Option<Busy>,
    future: F,
}

impl<F: Future<Output = Result<Response<B>, E>> + Unpin, B, E> Future for WatchedFuture<F> {
    type Output = Result<Response<WatchedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let response = ready!(Pin::new(&mut this.future).poll(cx));
        let busy = this.busy.take();
        Poll::Ready(response.map(|response| {
            response.map(|body| WatchedBody {
                body,
                busy: busy.map(Arc::new),
            })
        }))
    }
}

/// A body in [`Piece`]s.
pub(crate) struct WatchedBody<B> {
    body: B,
    busy: Option<Arc<Busy>>,
}

impl<B: Body + Unpin> Body for WatchedBody<B> {
    type Data = Piece<B::Data>;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let piece = |data| {
            let watch = self
                .busy
                .as_ref()
                .map(|busy| (Arc::clone(busy), busy.0.watch()));
            Piece { data, watch }
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Data of a body, until it is sent or dropped.
pub(crate) struct Piece<D> {
    data: D,
    /// The connection that it keeps busy, and its progress.
    watch: Option<(Arc<Busy>, Arc<Sent>)>,
}

impl<D: Buf> Buf for Piece<D> {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [std::io::IoSlice<'a>]) -> usize {
        self.data.chunks_vectored(slices)
    }

    fn advance(&mut self, bytes: usize) {
        if let Some((busy, sent)) = &self.watch {
            sent.last.store(busy.0.milliseconds(), Ordering::Relaxed);
            sent.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        self.data.advance(bytes);
    }
}

impl<D: FirstBytes> FirstBytes for Piece<D> {
    fn first_bytes(&self, most: usize) -> Bytes {
        self.data.first_bytes(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    /// Failure: pieces that were sent long ago count as stalled, or pile up as long as the
    /// connection lives.
    #[tokio::test(start_paused = true)]
    async fn what_was_sent_is_forgotten_and_what_moves_is_not_stalled() {
        const LONG: Duration = Duration::from_secs(10);
        let streams = Streams::new(usize::MAX, &Arc::default());
        let busy = Arc::new(Busy::new(&streams));
        for _ in 0..10_000 {
            let sent = streams.watch();
            drop(Piece {
                data: Bytes::from_static(b"x"),
                watch: Some((Arc::clone(&busy), sent)),
            });
        }
        assert!(streams.pieces().len() <= 8, "{}", streams.pieces().len());
        let mut piece = Piece {
            data: Bytes::from_static(b"abcdef"),
            watch: Some((busy, streams.watch())),
        };
        for _ in 0..5 {
            advance(LONG * 9 / 10).await;
            assert!(!streams.are_stalled(LONG));
            piece.advance(1);
        }
        advance(LONG).await;
        assert!(streams.are_stalled(LONG) && !streams.are_quiet(Duration::ZERO));
        drop(piece);
        assert!(!streams.are_stalled(LONG) && !streams.are_quiet(LONG));
        advance(LONG).await;
        assert!(streams.are_quiet(LONG));
    }

    /// Failure: a client reads one stream quickly and the others a byte now and then, and holds a
    /// hundred objects; or many streams of one slow line are taken for that.
    #[tokio::test(start_paused = true)]
    async fn a_piece_of_which_little_is_sent_is_slow() {
        const TIME: Duration = Duration::from_secs(10);
        let streams = Streams::new(usize::MAX, &Arc::default());
        let busy = Arc::new(Busy::new(&streams));
        let [mut quick, mut slow] = [0, 1].map(|_| Piece {
            data: Bytes::from_static(&[0; 1000]),
            watch: Some((Arc::clone(&busy), streams.watch())),
        });
        for second in 1..=30 {
            advance(TIME / 10).await;
            quick.advance(10);
            slow.advance(4);
            assert_eq!(streams.are_slow(100, TIME), second >= 10);
        }
        drop(slow);
        assert!(!streams.are_slow(100, TIME));
    }
}
