//! Closes connections of clients that read their responses too slowly: they hold an object, and
//! perhaps a connection to the origin.
//!
//! A client that reads nothing for `client_send` always loses its connection. A client that reads a
//! little now and then keeps it as long as others do not need the room. But bodies that clients
//! still read share one room (`larder_http::limits::filling`), and when it is full, nothing new is
//! stored. So while bodies are refused for want of room (the [`MemoryPressure`]), a client has to
//! read [`limits::SLOW_BYTES`] in each [`limits::SLOW`] spent waiting for it. A small response is
//! complete before that, at any pace.
//!
//! This applies to HTTP/1, and to any connection as a whole; `stream_activity.rs` does the same
//! for the streams of HTTP/2 and 3.

use crate::base::limits;
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

/// Counts bodies that found no room, and slow clients that were closed for them.
#[derive(Default)]
pub(crate) struct MemoryPressure {
    /// `None` if no body needs room.
    budget: Option<Budget>,
    left: AtomicU64,
}

impl MemoryPressure {
    pub(crate) fn of(budget: Budget) -> Arc<MemoryPressure> {
        Arc::new(MemoryPressure {
            budget: Some(budget),
            left: AtomicU64::new(0),
        })
    }

    /// Returns the number of refusals so far.
    pub(crate) fn refused(&self) -> u64 {
        self.budget.as_ref().map_or(0, Budget::refusals)
    }

    /// Returns true if bodies in progress take most of the room now.
    pub(crate) fn is_short(&self) -> bool {
        self.budget.as_ref().is_some_and(Budget::is_short)
    }

    /// Returns the number of slow clients that were closed so far.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Counts one more. Only the first is logged, because the others would repeat the line.
    pub(crate) fn leave(&self) {
        if self.left.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(
                "bodies find no room in the cache while slow clients are sent others: who takes little loses the connection \
                 (larder_http_slow_clients)"
            );
        }
    }
}

/// A client's stream.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    memory_pressure: Arc<MemoryPressure>,
    /// The longest wait of a write.
    stall: Duration,
    /// Present from the first write that had to wait.
    slow: Option<Box<Slow>>,
}

/// The pace at which a client reads.
struct Slow {
    /// The start of the present wait.
    since: Option<Instant>,
    /// The time up to which waiting is counted.
    counted: Instant,
    /// The waiting time since the count began, and the bytes that were read meanwhile.
    waited: Duration,
    taken: u64,
    /// The number of refusals when the count began.
    refused: u64,
    alarm: Pin<Box<Sleep>>,
    /// The reason for closing, after it was decided: hyper may try again.
    over: Option<&'static str>,
}

impl Slow {
    fn new(now: Instant, refused: u64) -> Slow {
        let (waited, taken) = (Duration::ZERO, 0);
        Slow {
            since: None,
            counted: now,
            waited,
            taken,
            refused,
            alarm: Box::pin(sleep_until(now)),
            over: None,
        }
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

    /// Called while a write waits. Ready with the reason if the connection has to be closed.
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
                // An old refusal has nothing to do with this client.
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
                if refused > self.refused
                    && memory_pressure.is_short()
                    && self.taken < limits::SLOW_BYTES
                {
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
    pub(crate) fn new(
        stream: S,
        memory_pressure: &Arc<MemoryPressure>,
        stall: Duration,
    ) -> WriteTimeout<S> {
        WriteTimeout {
            stream,
            memory_pressure: Arc::clone(memory_pressure),
            stall,
            slow: None,
        }
    }

    fn patiently(
        &mut self,
        cx: &mut Context<'_>,
        write: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = &write {
            if let (Some(slow), Ok(bytes)) = (&mut self.slow, written) {
                slow.on_taken(*bytes);
            }
            return write;
        }
        let memory_pressure = &self.memory_pressure;
        let slow = self
            .slow
            .get_or_insert_with(|| Box::new(Slow::new(Instant::now(), memory_pressure.refused())));
        let why = ready!(slow.poll_over(memory_pressure, self.stall, cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

thread_local! {
    /// A buffer that joins small pieces, so that the kernel gets one piece.
    static JOINED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.patiently(cx, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = if slices.iter().map(|slice| slice.len()).sum::<usize>() <= limits::JOINED_BYTES
        {
            JOINED.with_borrow_mut(|joined| {
                joined.clear();
                for slice in slices {
                    joined.extend_from_slice(slice);
                }
                Pin::new(&mut self.stream).poll_write(cx, joined)
            })
        } else {
            Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
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
    use super::*;
    use crate::exchange::proxy::Proxy;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::sleep;

    /// Failure: a client that reads nothing keeps its object and its place for ever.
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

    /// A client that reads so many bytes per second, to the end.
    fn reading(mut far: DuplexStream, bytes: usize) {
        tokio::spawn(async move {
            let mut buffer = vec![0; bytes];
            while far.read_exact(&mut buffer).await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
    }

    /// Failure: a few clients that read a byte now and then prevent all storing, for as long as
    /// they like; or a client with a slow line, whose room nothing else needs, loses its response.
    #[tokio::test(start_paused = true)]
    async fn who_takes_little_is_left_where_others_need_the_room_and_not_else() {
        let (proxy, a_second) = (
            Proxy::generated(),
            limits::SLOW_BYTES as usize / limits::SLOW.as_secs() as usize,
        );
        let memory_pressure = proxy.memory_pressure();
        let budget = proxy.budget().clone();
        for (is_crowded, pace, body, is_left) in [
            (false, a_second / 100, 60, false),
            (true, a_second * 11 / 10, 300, false),
            (true, a_second * 9 / 10, 300, true),
            // Complete before its time.
            (true, a_second / 100, 40, false),
        ] {
            let (near, far) = duplex(pace);
            let mut near = WriteTimeout::new(near, memory_pressure, limits::WRITE_STALL);
            reading(far, pace);
            let (before, start) = (memory_pressure.left(), Instant::now());
            let held: Vec<_> =
                std::iter::from_fn(|| is_crowded.then(|| budget.reserve(1 << 10)).flatten())
                    .collect();
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
