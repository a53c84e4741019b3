//! Clients that take their responses too slowly are left: they hold an object, and perhaps a
//! connection of the origin.
//!
//! Who takes nothing for `client_send` is left in any case, and who takes a little now and then in
//! none, as long as he is in nobody's way. But bodies that clients are still being sent have their
//! room (`larder_http::limits::filling`), and where that is spent, nothing new is stored. So while
//! somebody is refused there (the [`MemoryPressure`]), a client must take [`limits::SLOW_BYTES`] in
//! each [`limits::SLOW`] that is spent waiting for it. Small responses are through before that,
//! however slowly they are taken.
//!
//! This is HTTP/1's, and any connection's as a whole; `streams.rs` has the same for the streams of
//! HTTP/2.

use super::limits;
use larder_http::Budget;
use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Those who find no room for a body, and those who were left for them.
#[derive(Default)]
pub(super) struct MemoryPressure {
    /// `None` where nobody needs any.
    budget: Option<Budget>,
    left: AtomicU64,
}

impl MemoryPressure {
    pub(super) fn of(budget: Budget) -> Arc<MemoryPressure> {
        Arc::new(MemoryPressure { budget: Some(budget), left: AtomicU64::new(0) })
    }

    /// How many were refused so far.
    pub(super) fn refused(&self) -> u64 {
        self.budget.as_ref().map_or(0, Budget::refusals)
    }

    /// Whether what clients are sent takes most of the room now.
    pub(super) fn is_short(&self) -> bool {
        self.budget.as_ref().is_some_and(Budget::is_short)
    }

    /// Connections of slow clients that were ended so far.
    pub(super) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// One more. One line says so, since the others would all be the same.
    pub(super) fn leave(&self) {
        if self.left.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(
                "bodies find no room in the cache while slow clients are sent others: who takes little loses the connection \
                 (larder_http_slow_clients)"
            );
        }
    }
}

/// A client's stream.
pub(super) struct WriteTimeout<S> {
    stream: S,
    memory_pressure: Arc<MemoryPressure>,
    /// A write may wait so long.
    stall: Duration,
    /// From the first write that had to wait.
    slow: Option<Box<Slow>>,
}

/// How slowly a client takes what it is sent.
struct Slow {
    /// Since when a write waits, where one does.
    since: Option<Instant>,
    /// Waiting is counted up to then.
    counted: Instant,
    /// Waiting since the count began, and what was taken meanwhile.
    waited: Duration,
    taken: u64,
    /// Who had been refused when it began.
    refused: u64,
    alarm: Pin<Box<Sleep>>,
    /// Why the client was left, once it was: hyper may try again.
    over: Option<&'static str>,
}

impl Slow {
    fn new(now: Instant, refused: u64) -> Slow {
        let (waited, taken) = (Duration::ZERO, 0);
        Slow { since: None, counted: now, waited, taken, refused, alarm: Box::pin(sleep_until(now)), over: None }
    }

    fn on_taken(&mut self, bytes: usize) {
        self.taken += bytes as u64;
        if self.since.take().is_some() {
            self.count(Instant::now());
        }
    }

    fn count(&mut self, now: Instant) {
        self.waited += now - self.counted;
        self.counted = now;
    }

    fn begin_anew(&mut self, refused: u64) {
        (self.waited, self.taken, self.refused) = (Duration::ZERO, 0, refused);
    }

    /// A write waits. Ready where the client is to be left: why.
    fn poll_over(
        &mut self,
        memory_pressure: &MemoryPressure,
        stall: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<&'static str> {
        if self.over.is_none() {
            self.over = Some(ready!(self.poll_patience(memory_pressure, stall, cx)));
        }
        self.over.map_or(Poll::Pending, Poll::Ready)
    }

    fn poll_patience(
        &mut self,
        memory_pressure: &MemoryPressure,
        stall: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<&'static str> {
        loop {
            let now = Instant::now();
            if self.since.is_none() {
                // Who was refused long ago is not in this client's way.
                if now - self.counted > limits::SLOW {
                    self.begin_anew(memory_pressure.refused());
                }
                self.counted = now;
            }
            let since = *self.since.get_or_insert(now);
            if now >= since + stall {
                return Poll::Ready("the client takes nothing");
            }
            self.count(now);
            if self.waited >= limits::SLOW {
                let refused = memory_pressure.refused();
                if refused > self.refused && memory_pressure.is_short() && self.taken < limits::SLOW_BYTES {
                    memory_pressure.leave();
                    return Poll::Ready("the client takes little, and others need the room");
                }
                self.begin_anew(refused);
            }
            let next = (since + stall).min(now + (limits::SLOW - self.waited));
            if self.alarm.deadline() != next {
                self.alarm.as_mut().reset(next);
            }
            ready!(self.alarm.as_mut().poll(cx));
        }
    }
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S, memory_pressure: &Arc<MemoryPressure>, stall: Duration) -> WriteTimeout<S> {
        WriteTimeout { stream, memory_pressure: Arc::clone(memory_pressure), stall, slow: None }
    }

    pub(super) fn memory_pressure(&self) -> &Arc<MemoryPressure> {
        &self.memory_pressure
    }

    fn patiently(&mut self, cx: &mut Context<'_>, write: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = &write {
            if let (Some(slow), Ok(bytes)) = (&mut self.slow, written) {
                slow.on_taken(*bytes);
            }
            return write;
        }
        let memory_pressure = &self.memory_pressure;
        let slow = self.slow.get_or_insert_with(|| Box::new(Slow::new(Instant::now(), memory_pressure.refused())));
        let why = ready!(slow.poll_over(memory_pressure, self.stall, cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

thread_local! {
    /// Where small pieces are put together, so that they are one piece for the kernel.
    static JOINED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.patiently(cx, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = match slices.iter().map(|slice| slice.len()).sum::<usize>() <= limits::JOINED_BYTES {
            true => JOINED.with_borrow_mut(|joined| {
                joined.clear();
                slices.iter().for_each(|slice| joined.extend_from_slice(slice));
                Pin::new(&mut self.stream).poll_write(cx, joined)
            }),
            false => Pin::new(&mut self.stream).poll_write_vectored(cx, slices),
        };
        self.patiently(cx, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::super::proxy::Proxy;
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::sleep;

    /// The fear: a client that reads nothing keeps its object and its place for ever.
    #[tokio::test(start_paused = true)]
    async fn a_write_that_stalls_fails_and_one_that_crawls_does_not() {
        let (near, mut far) = duplex(100);
        let mut near = WriteTimeout::new(near, &Arc::default(), limits::WRITE_STALL);
        let crawling = tokio::spawn(async move {
            let mut buffer = [0; 100];
            for _ in 0..20 {
                sleep(limits::WRITE_STALL * 9 / 10).await;
                far.read_exact(&mut buffer).await.unwrap();
            }
            far
        });
        near.write_all(&[1; 2100]).await.unwrap();
        let _far = crawling.await.unwrap();
        let start = Instant::now();
        let error = near.write_all(&[1; 1]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), limits::WRITE_STALL.as_secs());
    }

    /// A client that takes so many bytes each second, to the end.
    fn reading(mut far: DuplexStream, bytes: usize) {
        tokio::spawn(async move {
            let mut buffer = vec![0; bytes];
            while far.read_exact(&mut buffer).await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
    }

    /// The fear: a few clients that take a byte now and then keep everything from being stored, for
    /// as long as they please; or somebody whose line is slow, and who is in nobody's way, loses
    /// his page.
    #[tokio::test(start_paused = true)]
    async fn who_takes_little_is_left_where_others_need_the_room_and_not_else() {
        let (proxy, a_second) = (Proxy::generated(), limits::SLOW_BYTES as usize / limits::SLOW.as_secs() as usize);
        let memory_pressure = proxy.memory_pressure();
        let budget = proxy.read(|cache| cache.budget());
        for (is_crowded, pace, body, is_left) in [
            (false, a_second / 100, 60, false),
            (true, a_second * 11 / 10, 300, false),
            (true, a_second * 9 / 10, 300, true),
            // Through before its time.
            (true, a_second / 100, 40, false),
        ] {
            let (near, far) = duplex(pace);
            let mut near = WriteTimeout::new(near, memory_pressure, limits::WRITE_STALL);
            reading(far, pace);
            let (before, start) = (memory_pressure.left(), Instant::now());
            let held: Vec<_> = std::iter::from_fn(|| is_crowded.then(|| budget.reserve(1 << 10)).flatten()).collect();
            let others = budget.clone();
            let crowding = tokio::spawn(async move {
                loop {
                    assert_eq!(others.reserve(1 << 10).is_none(), is_crowded);
                    sleep(Duration::from_secs(7)).await;
                }
            });
            let sent = near.write_all(&vec![1; pace * body]).await;
            if is_left {
                near.write_all(&[1]).await.unwrap_err();
            }
            crowding.abort();
            drop(held);
            assert_eq!(
                (sent.is_err(), memory_pressure.left() - before),
                (is_left, u64::from(is_left)),
                "{pace} a second"
            );
            if is_left {
                let took = start.elapsed();
                assert!(took >= limits::SLOW && took <= limits::SLOW * 2, "{took:?}");
            }
        }
    }
}
