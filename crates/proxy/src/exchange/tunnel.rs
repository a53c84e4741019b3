//! Connections that have left HTTP: after a `101 Switching Protocols`, bytes are copied in both
//! directions until both have ended.
//!
//! The end of one direction is passed on, and the other one continues, for as long as it is not
//! silent for [`limits::TUNNEL_HALF_CLOSED`]. A connection on which neither side sends anything for
//! `upgrade` of [`Timeouts`](crate::base::timeouts::Timeouts) is closed.
//! A side that reads nothing loses its connection by the limits below (`slow_client.rs`,
//! `send_timeout.rs`). An idle tunnel holds no buffer: bytes are read into one of the thread, and
//! only those that the other side does not accept at once are kept.

use crate::base::client_shares::{ClientShares, Share};
use crate::base::limits;
use crate::base::places::{Place, Places};
use crate::exchange::websocket_stream::WebSocketStream;
use crate::origin::origin_body::OriginBody;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep_until};

/// The tunnels of a proxy: their places and their figures.
pub(crate) struct Tunnels {
    places: Arc<Places>,
    clients: Arc<ClientShares>,
    opened: AtomicU64,
    refused: AtomicU64,
    /// Bytes from clients, and bytes from origins.
    bytes: [AtomicU64; 2],
}

/// The figures of [`Tunnels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TunnelFigures {
    /// Tunnels that are open now, or being asked for.
    pub(crate) open: u64,
    /// Tunnels that were opened so far.
    pub(crate) opened: u64,
    /// Requests that found no place.
    pub(crate) refused: u64,
    /// Bytes from clients.
    pub(crate) received: u64,
    /// Bytes to clients.
    pub(crate) sent: u64,
}

impl Tunnels {
    pub(crate) fn new(places: &Arc<Places>) -> Arc<Tunnels> {
        Arc::new(Tunnels {
            places: Arc::clone(places),
            clients: Arc::default(),
            opened: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            bytes: Default::default(),
        })
    }

    /// Returns a place for a client, unless all are taken, or the client has more than are free.
    pub(crate) fn place(self: &Arc<Self>, client: Option<IpAddr>) -> Option<TunnelPlace> {
        let share = self.clients.take(client, self.places.free());
        let Some((place, share)) = self.places.try_acquire().zip(share) else {
            // Only the first is logged, because the others would repeat the line.
            if self.refused.fetch_add(1, Ordering::Relaxed) == 0 {
                let most = self.places.most();
                tracing::warn!(
                    most,
                    "[http.limits] upgrades: too many connections with another protocol, or too many of one client: \
                     further ones get 503"
                );
            }
            return None;
        };
        Some(TunnelPlace {
            tunnels: Arc::clone(self),
            _place: place,
            _share: share,
        })
    }

    /// Returns the figures.
    pub(crate) fn figures(&self) -> TunnelFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let [received, sent] = [0, 1].map(|at| read(&self.bytes[at]));
        let open = self.places.taken() as u64;
        TunnelFigures {
            open,
            opened: read(&self.opened),
            refused: read(&self.refused),
            received,
            sent,
        }
    }
}

/// The place of one tunnel, from its request on.
pub(crate) struct TunnelPlace {
    tunnels: Arc<Tunnels>,
    _place: Place,
    _share: Share,
}

/// The client's end of a tunnel, as soon as its response is on its way.
pub(crate) enum ClientEnd {
    /// A connection of HTTP/1.1.
    Connection(OnUpgrade),
    /// A stream of HTTP/2.
    Stream(OpeningTunnel),
}

/// The stream of a request for a tunnel, as soon as its response is on its way.
pub(crate) struct OpeningTunnel(pub(crate) oneshot::Receiver<TunnelStream>);

/// The stream of a tunnel.
pub(crate) struct TunnelStream {
    pub(crate) io: Box<dyn StreamBytes>,
}

/// Bytes in both directions.
pub(crate) trait StreamBytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> StreamBytes for T {}

/// Both ends of a tunnel, as soon as they are released.
pub(crate) struct Tunnel {
    pub(crate) client: ClientEnd,
    pub(crate) origin: OnUpgrade,
    /// The longest silence of both sides.
    pub(crate) idle: Duration,
    pub(crate) place: TunnelPlace,
    /// The body of the 101: it is empty, and a request at the origin's server (`max_conns`).
    pub(crate) _body: OriginBody,
    /// Present if the client's end is a stream of HTTP/2.
    pub(crate) _stream: Option<WebSocketStream>,
}

impl Tunnel {
    /// Copies until both directions have ended, one of them fails, or both are silent.
    pub(crate) async fn run(self) {
        let Tunnel {
            client,
            origin,
            idle,
            place,
            ..
        } = self;
        let client = match client {
            ClientEnd::Connection(client) => client
                .await
                .map(|client| Box::new(TokioIo::new(client)) as Box<dyn StreamBytes>),
            // Without a response, nobody sends it.
            ClientEnd::Stream(opening) => match opening.0.await {
                Ok(stream) => Ok(stream.io),
                Err(_) => return,
            },
        };
        let ends = async { Ok::<_, hyper::Error>((client?, origin.await?)) };
        let (client, origin) = match ends.await {
            Ok(ends) => ends,
            Err(error) => {
                return tracing::debug!(%error, "a connection ended before it changed its protocol");
            }
        };
        place.tunnels.opened.fetch_add(1, Ordering::Relaxed);
        let counters = &place.tunnels.bytes;
        if let Err(error) = copy(client, TokioIo::new(origin), idle, counters).await {
            tracing::debug!(%error, "a tunnel broke off");
        }
    }
}

thread_local! {
    /// The buffer of all reads.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; limits::TUNNEL_BYTES].into());
}

/// Copies between two streams, and counts the bytes of both directions.
async fn copy<A, B>(
    mut one: A,
    mut other: B,
    idle: Duration,
    counters: &[AtomicU64; 2],
) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let [mut there, mut back] = [0, 1].map(|at| Direction::new(&counters[at]));
    let mut alarm = Alarm::new(idle);
    poll_fn(|cx| {
        let before = there.moved + back.moved;
        let there_ends = there.poll(&mut one, &mut other, cx)?;
        let back_ends = back.poll(&mut other, &mut one, cx)?;
        if there_ends.is_ready() && back_ends.is_ready() {
            return Poll::Ready(Ok(()));
        }
        if there_ends.is_ready() || back_ends.is_ready() {
            alarm.shorten(limits::TUNNEL_HALF_CLOSED);
        }
        if there.moved + back.moved > before {
            alarm.last = Instant::now();
        }
        ready!(alarm.poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "both sides are silent",
        )))
    })
    .await
}

/// The alarm of silence. It fires at most once in that time, and is set again if bytes came in
/// between.
struct Alarm {
    idle: Duration,
    last: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl Alarm {
    fn new(idle: Duration) -> Alarm {
        let last = Instant::now();
        Alarm {
            idle,
            last,
            sleep: Box::pin(sleep_until(last + idle)),
        }
    }

    /// Accepts at most so much silence.
    fn shorten(&mut self, idle: Duration) {
        if self.idle > idle {
            (self.idle, self.last) = (idle, Instant::now());
            self.sleep.as_mut().reset(self.last + idle);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            let deadline = self.last + self.idle;
            if self.sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(deadline);
        }
    }
}

/// One direction of a tunnel.
struct Direction<'a> {
    counter: &'a AtomicU64,
    /// Bytes that the other side has accepted.
    moved: u64,
    /// Bytes that it has not accepted yet.
    rest: Vec<u8>,
    /// True while accepted bytes may stand in a buffer below.
    is_unflushed: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The sender has ended.
    Ending,
    Ended,
}

impl<'a> Direction<'a> {
    fn new(counter: &'a AtomicU64) -> Direction<'a> {
        Direction {
            counter,
            moved: 0,
            rest: Vec::new(),
            is_unflushed: false,
            state: State::Open,
        }
    }

    /// Ready when the end was passed on.
    fn poll(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_rest(to, cx))?;
            match self.state {
                State::Ended => return Poll::Ready(Ok(())),
                State::Ending => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    self.state = State::Ended;
                }
                State::Open => {
                    if self.poll_piece(from, to, cx)?.is_pending() {
                        if self.is_unflushed {
                            ready!(Pin::new(&mut *to).poll_flush(cx))?;
                            self.is_unflushed = false;
                        }
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Writes what is left of the last piece.
    fn poll_rest(
        &mut self,
        to: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.rest.is_empty() {
            let written = ready!(Pin::new(&mut *to).poll_write(cx, &self.rest))?;
            self.count(written)?;
            self.rest.drain(..written);
        }
        // An idle tunnel holds no buffer.
        if self.rest.capacity() > 0 {
            self.rest = Vec::new();
        }
        Poll::Ready(Ok(()))
    }

    /// Reads a piece, and writes as much of it as the other side accepts at once.
    fn poll_piece(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        BUFFER.with_borrow_mut(|buffer| {
            let mut buffer = ReadBuf::new(buffer);
            ready!(Pin::new(from).poll_read(cx, &mut buffer))?;
            let piece = buffer.filled();
            if piece.is_empty() {
                self.state = State::Ending;
                return Poll::Ready(Ok(()));
            }
            let written = match Pin::new(to).poll_write(cx, piece) {
                Poll::Ready(written) => {
                    let written = written?;
                    self.count(written)?;
                    written
                }
                Poll::Pending => 0,
            };
            self.rest.extend_from_slice(&piece[written..]);
            Poll::Ready(Ok(()))
        })
    }

    fn count(&mut self, written: usize) -> io::Result<()> {
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.is_unflushed = true;
        self.moved += written as u64;
        self.counter.fetch_add(written as u64, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    const IDLE: Duration = Duration::from_secs(60);

    /// The result of a copy, and the bytes that it has counted.
    type Copied = tokio::task::JoinHandle<(io::Result<()>, [u64; 2])>;

    /// Returns the ends of client and origin, and the result of the copy between them.
    fn tunnel() -> (DuplexStream, DuplexStream, Copied) {
        let ((client, near), (far, origin)) = (duplex(100), duplex(100));
        let copied = tokio::spawn(async move {
            let counters = Default::default();
            let result = copy(near, far, IDLE, &counters).await;
            (result, counters.map(AtomicU64::into_inner))
        });
        (client, origin, copied)
    }

    /// Failure: bytes are lost, doubled or out of order when one side reads slowly; or the end of
    /// one direction ends the other.
    #[tokio::test(start_paused = true)]
    async fn both_directions_are_whole_and_end_one_by_one() {
        let (mut client, mut origin, copied) = tunnel();
        let text: Vec<u8> = (0..100_000u32)
            .map(|number| (number * 7 % 251) as u8)
            .collect();
        let sent = text.clone();
        let asking = tokio::spawn(async move {
            client.write_all(&sent).await.unwrap();
            client.shutdown().await.unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            answer
        });
        let mut seen = Vec::new();
        origin.read_to_end(&mut seen).await.unwrap();
        assert!(seen == text);
        for piece in text.chunks(333) {
            origin.write_all(piece).await.unwrap();
            tokio::time::sleep(IDLE / 1000).await;
        }
        origin.shutdown().await.unwrap();
        assert!(asking.await.unwrap() == text);
        let (result, counted) = copied.await.unwrap();
        result.unwrap();
        assert_eq!(counted, [text.len() as u64; 2]);
    }

    /// Failure: a silent tunnel stays for ever, or one that speaks now and then is closed.
    #[tokio::test(start_paused = true)]
    async fn silence_of_both_sides_ends_a_tunnel_and_of_one_does_not() {
        let (mut client, mut origin, copied) = tunnel();
        let start = Instant::now();
        for _ in 0..5 {
            tokio::time::sleep(IDLE * 9 / 10).await;
            origin.write_all(b"x").await.unwrap();
            client.read_u8().await.unwrap();
        }
        let (result, _) = copied.await.unwrap();
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), (IDLE * 45 / 10 + IDLE).as_secs());
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }

    /// Failure: tunnels take all connections, or a closed one keeps its place.
    #[test]
    fn places_are_bounded_and_come_back() {
        let tunnels = Tunnels::new(&Places::new(2));
        let places = [tunnels.place(None), tunnels.place(None)];
        assert!(places.iter().all(Option::is_some) && tunnels.place(None).is_none());
        assert_eq!(tunnels.figures().refused, 1);
        drop(places);
        assert!(tunnels.place(None).is_some());
    }

    /// Failure: one client has all places, or clients have fewer than there are for them.
    #[test]
    fn a_client_has_at_most_as_many_places_as_are_free() {
        let tunnels = Tunnels::new(&Places::new(12));
        let all = |client: u8| {
            std::iter::from_fn(|| tunnels.place(Some([192, 0, 2, client].into()))).collect()
        };
        let places: Vec<Vec<TunnelPlace>> = (1..6).map(all).collect();
        assert_eq!(
            places.iter().map(Vec::len).collect::<Vec<_>>(),
            [6, 3, 2, 1, 0]
        );
        drop(places);
        assert_eq!(all(9).len(), 6);
    }

    /// Failure: the last answer of a peer that resets its connection keeps the other one open.
    #[tokio::test]
    async fn a_side_that_is_gone_ends_the_other() {
        let (mut client, origin, copied) = tunnel();
        drop(origin);
        client.write_all(b"x").await.unwrap();
        let (result, _) = copied.await.unwrap();
        assert!(result.is_err());
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }
}
