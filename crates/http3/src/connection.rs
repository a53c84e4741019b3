//! One connection: its streams, and its end.

use crate::code::Code;
use crate::limits;
use crate::request::RequestStream;
use crate::signals::{Signals, StreamType};
use crate::varint;
use bytes::Bytes;
use quinn::{RecvStream, SendStream};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Notify;
use tokio::time::timeout;

/// The limits of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of one field section (RFC 9114 §4.2.2).
    pub section_bytes: usize,
    /// Streams of requests at once.
    pub streams: u32,
}

/// A connection that has ended, with the reason.
#[derive(Debug)]
pub struct Ended(quinn::ConnectionError);

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Ended {}

/// What all streams of a connection share.
pub(crate) struct Shared {
    pub(crate) quic: quinn::Connection,
    pub(crate) settings: Settings,
    /// Requests so far.
    requests: AtomicU64,
    /// Frames and instructions that the client has sent on its control and QPACK streams.
    signals: AtomicU64,
    /// Streams that the client has given up, less those that ended well.
    given_up: AtomicU32,
    /// Unidirectional streams of unknown types.
    unknown: AtomicU32,
    has: [AtomicBool; 3],
    /// Requests whose responses have not ended.
    open: AtomicUsize,
    /// Informed when there are none.
    idle: Notify,
    is_ending: AtomicBool,
}

impl Shared {
    /// Ends the connection because the client violates the protocol or a limit.
    pub(crate) fn fail(&self, code: Code) {
        tracing::debug!(?code, "a client of HTTP/3 violates the protocol");
        self.quic.close(code.into(), b"");
    }

    /// Counts a stream that the client has given up before its response ended. More than two for
    /// each stream that it may have at once, without others that end well, are an attack
    /// (CVE-2023-44487, "rapid reset"): a browser that leaves a page gives all of one page up.
    pub(crate) fn give_up(&self) {
        let given_up = self.given_up.fetch_add(1, Ordering::Relaxed) + 1;
        if given_up > self.settings.streams.saturating_mul(2) {
            self.fail(Code::EXCESSIVE_LOAD);
        }
    }

    /// Counts a response that the client has taken.
    pub(crate) fn complete(&self) {
        let less = |given_up: u32| given_up.checked_sub(1);
        let _ = self
            .given_up
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Returns true if the connection takes no more requests.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Counts frames and instructions of the client.
    fn count_signals(&self, count: u64) -> Result<(), Code> {
        let so_far = self.signals.fetch_add(count, Ordering::Relaxed) + count;
        let requests = self.requests.load(Ordering::Relaxed);
        if so_far > limits::SIGNALS + requests.saturating_mul(limits::SIGNALS_PER_REQUEST) {
            return Err(Code::EXCESSIVE_LOAD);
        }
        Ok(())
    }

    /// Returns false if the client has opened a stream of this type before.
    fn is_first(&self, kind: StreamType) -> bool {
        let has = |at: usize| self.has[at].swap(true, Ordering::Relaxed);
        match kind {
            StreamType::Control => !has(0),
            StreamType::Encoder => !has(1),
            StreamType::Decoder => !has(2),
            StreamType::Unknown => true,
        }
    }
}

/// A request whose response has not ended, until this is dropped.
pub(crate) struct OpenRequest(pub(crate) Arc<Shared>);

impl OpenRequest {
    fn new(shared: &Arc<Shared>) -> OpenRequest {
        shared.open.fetch_add(1, Ordering::Relaxed);
        shared.requests.fetch_add(1, Ordering::Relaxed);
        OpenRequest(Arc::clone(shared))
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.idle.notify_one();
        }
    }
}

/// A connection of a client. Dropped, it closes.
pub struct Connection {
    shared: Arc<Shared>,
    control: SendStream,
    /// The number after that of the last request stream.
    next: u64,
}

/// The largest number of a request stream: a GOAWAY with it says that the connection ends, and
/// refuses nothing.
const LARGEST_STREAM: u64 = varint::MOST - 3;

impl Connection {
    /// Begins after the handshake. Runs tasks on the runtime of the caller until the connection
    /// ends.
    ///
    /// # Errors
    /// The client gives no credit for the control stream, or has left.
    pub async fn begin(quic: quinn::Connection, settings: Settings) -> Result<Connection, Ended> {
        let mut start = Vec::new();
        varint::encode(0, &mut start);
        let mut payload = Vec::new();
        const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
        varint::encode(MAX_FIELD_SECTION_SIZE, &mut payload);
        varint::encode(settings.section_bytes as u64, &mut payload);
        append_frame(0x4, &payload, &mut start);
        let opening = async {
            let mut control = quic.open_uni().await?;
            let written = control.write_all(&start).await;
            Ok(written.map(|()| control))
        };
        let control = match timeout(limits::CONTROL_WRITE, opening).await {
            Ok(Ok(Ok(control))) => control,
            Ok(Err(error)) => return Err(Ended(error)),
            // RFC 9114 §6.2: a client has to allow three streams.
            Err(_) | Ok(Ok(Err(_))) => {
                quic.close(Code::CLOSED_CRITICAL_STREAM.into(), b"");
                return Err(Ended(quic.closed().await));
            }
        };
        let shared = Arc::new(Shared {
            quic,
            settings,
            requests: AtomicU64::new(0),
            signals: AtomicU64::new(0),
            given_up: AtomicU32::new(0),
            unknown: AtomicU32::new(0),
            has: Default::default(),
            open: AtomicUsize::new(0),
            idle: Notify::new(),
            is_ending: AtomicBool::new(false),
        });
        tokio::spawn(accept_signals(Arc::clone(&shared)));
        Ok(Connection {
            shared,
            control,
            next: 0,
        })
    }

    /// Waits for the next request. After [`Connection::end`], rejects those that come.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn accept(&mut self) -> Result<RequestStream, Ended> {
        loop {
            let (mut send, mut recv) = self.shared.quic.accept_bi().await.map_err(Ended)?;
            if self.shared.is_ending() {
                let _ = send.reset(Code::REQUEST_REJECTED.into());
                let _ = recv.stop(Code::REQUEST_REJECTED.into());
                continue;
            }
            // Streams are accepted in the order of their numbers.
            self.next = (recv.id().index() + 1) * 4;
            return Ok(RequestStream::new(
                send,
                recv,
                OpenRequest::new(&self.shared),
            ));
        }
    }

    /// Announces the end of the connection: the client sends new requests on another one. Those
    /// that it has sent already are accepted.
    pub async fn announce_end(&mut self) {
        self.goaway(LARGEST_STREAM).await;
    }

    /// Accepts no more requests. The client learns which was the last one (RFC 9114 §5.2), so that
    /// it can repeat the others. Those that were accepted are served.
    pub async fn end(&mut self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        self.goaway(self.next).await;
    }

    async fn goaway(&mut self, stream: u64) {
        let (mut payload, mut frame) = (Vec::new(), Vec::new());
        varint::encode(stream, &mut payload);
        append_frame(0x7, &payload, &mut frame);
        // A client that does not read its control stream learns it by the close.
        let _ = timeout(limits::CONTROL_WRITE, self.control.write_all(&frame)).await;
    }

    /// Returns the requests whose responses have not ended.
    pub fn last_requests(&self) -> LastRequests {
        LastRequests(Arc::clone(&self.shared))
    }

    /// Returns the datagrams that were sent, and the calls of the system for them.
    pub fn sent_datagrams(&self) -> (u64, u64) {
        let sent = self.shared.quic.stats().udp_tx;
        (sent.datagrams, sent.ios)
    }
}

/// Closes the connection, if it is open. What the client has not acknowledged is lost.
impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.quic.close(Code::NO_ERROR.into(), b"");
    }
}

/// The requests of a connection that accepts no more.
pub struct LastRequests(Arc<Shared>);

impl LastRequests {
    /// Waits until their responses have ended.
    pub async fn ended(&self) {
        while self.0.open.load(Ordering::Relaxed) > 0 {
            self.0.idle.notified().await;
        }
    }
}

/// Appends a frame.
pub(crate) fn append_frame(kind: u64, payload: &[u8], into: &mut Vec<u8>) {
    varint::encode(kind, into);
    varint::encode(payload.len() as u64, into);
    into.extend_from_slice(payload);
}

/// Reads the client's unidirectional streams until the connection ends.
async fn accept_signals(shared: Arc<Shared>) {
    while let Ok(stream) = shared.quic.accept_uni().await {
        tokio::spawn(watch_signals(Arc::clone(&shared), stream));
    }
}

async fn watch_signals(shared: Arc<Shared>, mut stream: RecvStream) {
    if let Err(code) = read_signals(&shared, &mut stream).await {
        shared.fail(code);
    }
}

/// Reads one of these streams to its end.
async fn read_signals(shared: &Shared, stream: &mut RecvStream) -> Result<(), Code> {
    let Some((kind, mut input)) = read_type(stream).await? else {
        return Ok(());
    };
    let Some(mut signals) = Signals::new(kind) else {
        // RFC 9114 §6.2: a server need not read it.
        let _ = stream.stop(Code::STREAM_CREATION_ERROR.into());
        let before = shared.unknown.fetch_add(1, Ordering::Relaxed);
        return if before < limits::UNKNOWN_STREAMS {
            Ok(())
        } else {
            Err(Code::EXCESSIVE_LOAD)
        };
    };
    if !shared.is_first(kind) {
        return Err(Code::STREAM_CREATION_ERROR);
    }
    loop {
        shared.count_signals(signals.read(&mut input)?)?;
        match stream.read_chunk(limits::BODY_READ_BYTES, true).await {
            Ok(Some(chunk)) => input = chunk.bytes,
            Err(quinn::ReadError::ConnectionLost(_)) => return Ok(()),
            // It lasts as long as the connection.
            Ok(None) | Err(_) => return Err(Code::CLOSED_CRITICAL_STREAM),
        }
    }
}

/// Reads the type of a stream, and what has come behind it; `None` if the stream ends before that.
async fn read_type(stream: &mut RecvStream) -> Result<Option<(StreamType, Bytes)>, Code> {
    let mut start = Vec::new();
    loop {
        match stream.read_chunk(limits::HEAD_READ_BYTES, true).await {
            Ok(Some(chunk)) => start.extend_from_slice(&chunk.bytes),
            Ok(None) | Err(_) => return Ok(None),
        }
        if let Some((number, length)) = varint::decode(&start) {
            let rest = Bytes::from(start).slice(length..);
            return Ok(Some((StreamType::of(number)?, rest)));
        }
    }
}
