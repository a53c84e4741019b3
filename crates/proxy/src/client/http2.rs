//! One HTTP/2 connection, with deadlines that h2 does not have, and with few large writes.

use crate::base::drain::{Phase, PhaseWatch};
use crate::base::http_limits::HttpLimits;
use crate::base::limits;
use crate::base::slow_client::MemoryPressure;
use crate::base::timeouts::Timeouts;
use crate::client::client_connections::Activity;
use crate::client::http2_stream::{Exchange, StreamData};
use crate::client::stream_activity::{Streams, Watched};
use crate::message::client_body::ClientBody;
use bytes::Buf;
use h2::server::{Builder, Connection, Handshake};
use hyper::body::Body;
use hyper::service::Service;
use hyper::{Request, Response};
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, BufWriter, ReadBuf};
use tokio::time::{Instant, timeout};

/// Serves many requests at once, bounded in number and in memory, until the client leaves, is idle
/// for too long, does not read a response, or the server stops.
pub(crate) async fn http2<S, B>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    service: S,
    (timeouts, most, memory_pressure): (Timeouts, HttpLimits, &MemoryPressure),
    activity: &Arc<Activity>,
    mut phase: PhaseWatch,
) where
    S: Service<Request<ClientBody>, Response = Response<B>>,
    S::Future: Send + Unpin + 'static,
    S::Error: Error + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Error + Send + Sync + 'static,
{
    let streams = Streams::new(most.keepalive_requests(), activity);
    let gathered = Gathered::new(stream);
    let mut server = Server::new(gathered.clone(), Watched::new(service, &streams), &most);
    let mut idle = std::pin::pin!(idle(&streams, &timeouts, memory_pressure));
    let over = tokio::select! {
        ended = gathered.drive(&mut server) => return said(ended),
        over = idle.as_mut() => over,
        _ = phase.reached(Phase::Draining) => Over::Stopped,
        () = streams.used_up() => Over::UsedUp,
    };
    let time = match over {
        Over::Stalled => return tracing::debug!("a stream's client takes nothing, or too little"),
        Over::Quiet => limits::GOODBYE,
        Over::Stopped => timeouts.shutdown,
        Over::UsedUp => limits::TIMEOUT_LONGEST,
    };
    let pause = limits::GOAWAY_PAUSE.min(time);
    gathered.announce_end();
    if let Ok(ended) = timeout(pause, gathered.drive(&mut server)).await {
        return said(ended);
    }
    server.end();
    tokio::select! {
        // h2 waits for the client's answer, which may not come.
        ended = timeout(time - pause, gathered.drive(&mut server)) => ended.into_iter().for_each(said),
        _ = idle, if matches!(over, Over::UsedUp) => {}
        () = drained(&mut phase, timeouts.shutdown), if matches!(over, Over::UsedUp) => {}
    }
}

/// The requests of one connection.
struct Server<T, S, D: Buf> {
    state: State<T, D>,
    service: S,
    is_ending: bool,
}

enum State<T, D: Buf> {
    /// The client has not sent its first frames yet.
    Beginning(Handshake<T, StreamData<D>>),
    Open(Connection<T, StreamData<D>>),
}

impl<T, S, B, D> Server<T, S, D>
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<ClientBody>, Response = Response<B>>,
    S::Future: Send + Unpin + 'static,
    S::Error: Error + Send + Sync + 'static,
    B: Body<Data = D> + Send + Unpin + 'static,
    B::Error: Error + Send + Sync + 'static,
    D: Buf + Send + 'static,
{
    fn new(stream: T, service: S, most: &HttpLimits) -> Server<T, S, D> {
        let handshake = Builder::new()
            .max_concurrent_streams(most.http2_streams)
            .enable_connect_protocol()
            .max_header_list_size(u32::try_from(most.headers().bytes()).unwrap_or(u32::MAX))
            .initial_window_size(limits::BUFFER_BYTES as u32)
            .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
            .max_send_buffer_size(limits::BUFFER_BYTES)
            .max_pending_accept_reset_streams(limits::RESET_STREAMS)
            .max_local_error_reset_streams(Some(limits::RESET_STREAMS))
            .handshake(stream);
        Server {
            state: State::Beginning(handshake),
            service,
            is_ending: false,
        }
    }

    /// Accepts no more requests. Those in progress are served.
    fn end(&mut self) {
        self.is_ending = true;
        if let State::Open(connection) = &mut self.state {
            connection.graceful_shutdown();
        }
    }

    /// Serves the requests that arrive. Ready at the end of the connection.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        if let State::Beginning(handshake) = &mut self.state {
            let mut connection = ready!(Pin::new(handshake).poll(cx))?;
            if self.is_ending {
                connection.graceful_shutdown();
            }
            self.state = State::Open(connection);
        }
        let State::Open(connection) = &mut self.state else {
            return Poll::Pending;
        };
        while let Some(accepted) = ready!(connection.poll_accept(cx)) {
            let (request, reply) = accepted?;
            let (exchange, request) = Exchange::begin(request, reply);
            run(exchange.run(self.service.call(request)));
        }
        Poll::Ready(Ok(()))
    }
}

/// Runs a request at once, and as a task only if it has to wait. A hit that fits into the window of
/// its stream does not wait.
pub(crate) fn run(request: impl Future<Output = ()> + Send + 'static) {
    let mut request = Box::pin(request);
    let mut poll = || {
        request
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
    };
    // A panic ends this request, as in a task, and not the connection.
    if let Ok(Poll::Pending) = catch_unwind(AssertUnwindSafe(&mut poll)) {
        // The task polls it again at once, with a waker of its own.
        tokio::spawn(request);
    }
}

/// Waits for the end of the listener, and then for the time that requests in progress have.
pub(crate) async fn drained(phase: &mut PhaseWatch, shutdown: Duration) {
    phase.reached(Phase::Draining).await;
    tokio::time::sleep(shutdown).await;
}

/// GOAWAY with the largest stream number: the client opens no more streams, and all that it has
/// opened are served. h2 sends the same, and with the answer to a PING the real number. That may
/// come too early: clients answer a PING before they send requests that they have queued.
/// RFC 9113 §6.8 recommends a pause.
const GOAWAY: [u8; 17] = [
    0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0,
];

/// The reason why a connection is closed.
pub(crate) enum Over {
    Quiet,
    Stalled,
    Stopped,
    /// The connection has had `keepalive_requests`. Those in progress continue.
    UsedUp,
}

/// Waits until the connection is idle, or a stream's client reads nothing or too little.
pub(crate) async fn idle(
    streams: &Streams,
    timeouts: &Timeouts,
    memory_pressure: &MemoryPressure,
) -> Over {
    let (mut refused, mut crowded) = (memory_pressure.refused(), None::<Instant>);
    loop {
        tokio::time::sleep(limits::STREAMS_LOOK).await;
        let before = std::mem::replace(&mut refused, memory_pressure.refused());
        if refused > before {
            crowded = Some(Instant::now());
        }
        if streams.are_quiet(timeouts.keepalive) {
            return Over::Quiet;
        }
        if streams.are_stalled(timeouts.client_stream()) {
            return Over::Stalled;
        }
        let is_crowded =
            memory_pressure.is_short() && crowded.is_some_and(|at| at.elapsed() < limits::SLOW);
        if is_crowded && streams.are_slow(limits::SLOW_BYTES, limits::SLOW) {
            memory_pressure.leave();
            return Over::Stalled;
        }
    }
}

/// Collects writes up to [`limits::RECORD_BYTES`] until the connection's turn ends. h2 flushes
/// after every frame of data, which would cost a record of TLS and a system call each.
struct Gathered<S>(Arc<Mutex<Output<S>>>);

struct Output<S> {
    stream: BufWriter<S>,
    /// True if whole frames have been written, the server's first one among them.
    is_between_frames: bool,
    /// True if [`GOAWAY`] has to be written.
    owes_goaway: bool,
}

impl<S> Clone for Gathered<S> {
    fn clone(&self) -> Self {
        Gathered(Arc::clone(&self.0))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Output<S> {
    fn stream(&mut self) -> Pin<&mut BufWriter<S>> {
        Pin::new(&mut self.stream)
    }

    /// Writes what has been collected.
    fn poll_end_of_turn(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.owes_goaway && self.is_between_frames {
            // The buffer takes it as a whole.
            ready!(self.stream().poll_write(cx, &GOAWAY))?;
            self.owes_goaway = false;
        }
        self.stream().poll_flush(cx)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Gathered<T> {
    fn new(stream: T) -> Gathered<T> {
        let stream = BufWriter::with_capacity(limits::RECORD_BYTES, stream);
        Gathered(Arc::new(Mutex::new(Output {
            stream,
            is_between_frames: false,
            owes_goaway: false,
        })))
    }

    /// The lock is free: one task polls the connection and the collected writes in turn.
    fn output(&self) -> MutexGuard<'_, Output<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends [`GOAWAY`] with the next turn.
    fn announce_end(&self) {
        self.output().owes_goaway = true;
    }

    /// Runs the connection, and writes what each of its turns has collected.
    async fn drive<S, B, D>(
        &self,
        server: &mut Server<Self, S, D>,
    ) -> Result<(), Box<dyn Error + Send + Sync>>
    where
        S: Service<Request<ClientBody>, Response = Response<B>>,
        S::Future: Send + Unpin + 'static,
        S::Error: Error + Send + Sync + 'static,
        B: Body<Data = D> + Send + Unpin + 'static,
        B::Error: Error + Send + Sync + 'static,
        D: Buf + Send + 'static,
    {
        poll_fn(|cx| {
            let turn = server.poll(cx);
            let written = self.output().poll_end_of_turn(cx);
            match (turn, written) {
                (Poll::Ready(ended), _) => Poll::Ready(ended.map_err(Into::into)),
                (Poll::Pending, Poll::Ready(Err(error))) => Poll::Ready(Err(error.into())),
                (Poll::Pending, _) => Poll::Pending,
            }
        })
        .await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.output().stream().poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut output = self.output();
        output.is_between_frames = false;
        output.stream().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut output = self.output();
        output.is_between_frames = false;
        output.stream().poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.output().stream.is_write_vectored()
    }

    /// The end of the turn writes. h2 flushes when it has written whole frames.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output().is_between_frames = true;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut output = self.output();
        ready!(output.stream().poll_flush(cx))?;
        output.stream().poll_shutdown(cx)
    }
}

/// Clients leave and send invalid bytes all day: the operator's log does not show it.
pub(crate) fn said<E: std::fmt::Display>(ended: Result<(), E>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::drain::PhaseSwitch;
    use bytes::Bytes;
    use http_body_util::{BodyExt, Empty, Full};
    use hyper::client::conn::http2::{Builder, SendRequest};
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::task::JoinHandle;
    use tokio::time::sleep;

    const QUIET: Duration = Duration::from_secs(60);

    /// Returns a server behind a stream of so many bytes, the other end of the stream, and a
    /// counter of requests.
    fn server(bytes: usize) -> (DuplexStream, JoinHandle<()>, Arc<AtomicUsize>, PhaseSwitch) {
        let (near, far) = tokio::io::duplex(256 * 1024);
        let (stopping, phase, _) = PhaseSwitch::new();
        let asked = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&asked);
        let service = service_fn(move |_| {
            counting.fetch_add(1, Ordering::Relaxed);
            let body = Full::new(Bytes::from(vec![7; bytes]));
            Box::pin(async move { Ok::<_, Infallible>(Response::new(body)) })
        });
        let timeouts = Timeouts {
            keepalive: QUIET,
            ..Timeouts::default()
        };
        let serving = async move {
            http2(
                near,
                service,
                (timeouts, HttpLimits::default(), &MemoryPressure::default()),
                &Arc::default(),
                phase,
            )
            .await
        };
        (far, tokio::spawn(serving), asked, stopping)
    }

    /// Failure: a request that panics ends the others of its connection.
    #[tokio::test]
    async fn a_panic_ends_the_connection() {
        let (near, far) = tokio::io::duplex(256 * 1024);
        let (_stopping, phase, _) = PhaseSwitch::new();
        let service = service_fn(|request: Request<ClientBody>| {
            Box::pin(async move {
                assert_ne!(request.uri().path(), "/panic");
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"well"))))
            })
        });
        let parts = (Timeouts::default(), HttpLimits::default());
        tokio::spawn(async move {
            http2(
                near,
                service,
                (parts.0, parts.1, &MemoryPressure::default()),
                &Arc::default(),
                phase,
            )
            .await
        });
        let mut client = client(far).await;
        for (path, is_well) in [("/a", true), ("/panic", false), ("/b", true)] {
            let request = Request::get(format!("http://a.example{path}"))
                .body(Empty::new())
                .unwrap();
            client.ready().await.unwrap();
            assert_eq!(
                client.send_request(request).await.is_ok(),
                is_well,
                "{path}"
            );
        }
    }

    async fn client(stream: DuplexStream) -> SendRequest<Empty<Bytes>> {
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .initial_stream_window_size(1000)
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        sender
    }

    fn request() -> Request<Empty<Bytes>> {
        Request::get("http://localhost/")
            .body(Empty::new())
            .unwrap()
    }

    /// Failure: clients that grant no window keep ten thousand large objects in memory, while pings
    /// keep them alive.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_of_a_stream_loses_its_connection() {
        let (stream, server, _, _stopping) = server(1 << 20);
        let mut sender = client(stream).await;
        let stuck = sender.send_request(request()).await.unwrap();
        let mut moving = sender.send_request(request()).await.unwrap().into_body();
        let start = Instant::now();
        // The other stream continues meanwhile.
        while !server.is_finished() && moving.frame().await.is_some_and(|frame| frame.is_ok()) {
            sleep(Duration::from_millis(100)).await;
        }
        server.await.unwrap();
        let took = start.elapsed();
        assert!(took >= Timeouts::default().client_stream(), "{took:?}");
        assert!(
            took <= Timeouts::default().client_stream() + 2 * limits::STREAMS_LOOK,
            "{took:?}"
        );
        drop(stuck);
    }

    /// Failure: idle connections occupy all places; or a working one is closed.
    #[tokio::test(start_paused = true)]
    async fn a_quiet_connection_is_closed_and_one_that_asks_now_and_then_is_not() {
        let (stream, server, asked, _stopping) = server(100);
        let mut sender = client(stream).await;
        for _ in 0..5 {
            let body = sender.send_request(request()).await.unwrap().into_body();
            assert_eq!(body.collect().await.unwrap().to_bytes().len(), 100);
            sleep(QUIET * 9 / 10).await;
        }
        assert_eq!(asked.load(Ordering::Relaxed), 5);
        let start = Instant::now();
        server.await.unwrap();
        assert!(start.elapsed() <= QUIET / 10 + 2 * limits::STREAMS_LOOK + limits::GOODBYE);
    }

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    /// `:method GET`, `:scheme http`, `:path /`, `:authority a`.
    const HEADERS: &[u8] = b"\x82\x86\x84\x41\x01a";

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    /// Writes until the server stops reading, or the attack is over. Returns the bytes that the
    /// server read.
    async fn attack(stream: DuplexStream, attack: impl Iterator<Item = Vec<u8>>) -> usize {
        let (mut read, mut write) = tokio::io::split(stream);
        tokio::spawn(async move { tokio::io::copy(&mut read, &mut tokio::io::sink()).await });
        let mut sent = 0;
        write.write_all(PREFACE).await.unwrap();
        for frames in attack {
            if write.write_all(&frames).await.is_err() {
                break;
            }
            sent += frames.len();
        }
        sent
    }

    /// CVE-2023-44487. Failure: a request costs the attacker two frames, and the server all its
    /// work.
    #[tokio::test(start_paused = true)]
    async fn rapid_resets_end_the_connection() {
        let (stream, server, asked, _stopping) = server(100);
        let resets = (0..100_000).map(|number| {
            let stream = 2 * number + 1;
            [
                frame(1, 5, stream, HEADERS),
                frame(3, 0, stream, &[0, 0, 0, 8]),
            ]
            .concat()
        });
        let sent = attack(stream, resets).await;
        server.await.unwrap();
        // The buffers in between, at 28 bytes per request.
        assert!(sent < 1 << 20, "{sent} bytes were read");
        assert!(asked.load(Ordering::Relaxed) < 1000, "{asked:?}");
    }

    /// Failure: a header block without end fills the memory, or is read for ever.
    #[tokio::test(start_paused = true)]
    async fn endless_continuations_end_the_connection() {
        for piece in [&[][..], &[0x40, 1, b'a', 1, b'b'], &[0; 10_000]] {
            let (stream, server, asked, _stopping) = server(100);
            let start = std::iter::once(frame(1, 1, 1, HEADERS));
            let sent = attack(
                stream,
                start.chain((0..200_000).map(|_| frame(9, 0, 1, piece))),
            )
            .await;
            server.await.unwrap();
            assert!(
                sent < 1 << 20,
                "{sent} bytes of {} a frame were read",
                piece.len()
            );
            assert_eq!(asked.load(Ordering::Relaxed), 0);
        }
    }

    /// Failure: a client answers the PING of a graceful end before it sends what it has queued, and
    /// its requests are refused.
    #[tokio::test(start_paused = true)]
    async fn requests_that_a_client_has_queued_are_refused_at_the_end() {
        const PING: u8 = 6;
        const GOAWAY: u8 = 7;
        let (stream, _server, asked, stopping) = server(100);
        let (mut read, mut write) = tokio::io::split(stream);
        write.write_all(PREFACE).await.unwrap();
        sleep(Duration::from_millis(1)).await;
        stopping.begin(Phase::Draining);
        let mut has_sent = false;
        loop {
            let mut head = [0; 9];
            read.read_exact(&mut head).await.unwrap();
            let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
            read.read_exact(&mut payload).await.unwrap();
            match head[3] {
                PING => write.write_all(&frame(PING, 1, 0, &payload)).await.unwrap(),
                GOAWAY if !has_sent => {
                    // Frames that the server sends at once are answered first.
                    sleep(Duration::from_millis(1)).await;
                    let mut more = [0; 17];
                    let waiting =
                        tokio::time::timeout(Duration::from_millis(1), read.read_exact(&mut more))
                            .await;
                    if waiting.is_ok() {
                        write
                            .write_all(&frame(PING, 1, 0, &more[9..]))
                            .await
                            .unwrap();
                        sleep(Duration::from_millis(1)).await;
                    }
                    write.write_all(&frame(1, 5, 1, HEADERS)).await.unwrap();
                    has_sent = true;
                }
                // The head of the response.
                1 => break,
                _ => {}
            }
        }
        assert!(has_sent && asked.load(Ordering::Relaxed) == 1);
    }
}
