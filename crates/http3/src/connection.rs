//! One connection: its streams, and its end.

use crate::code::Code;
use crate::limits;
use crate::request::RequestStream;
use crate::shared::{OpenRequest, Settings, Shared};
use crate::signals::{Signals, StreamType};
use crate::varint;
use bytes::{Buf, Bytes, BytesMut};
use quinn::{RecvStream, SendStream};
use std::fmt;
use std::sync::Arc;
use tokio::time::timeout;

/// A connection that has ended, with the reason.
#[derive(Debug)]
pub struct Ended(quinn::ConnectionError);

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Ended {}

/// A connection of a client. Dropped, it closes.
pub struct Connection {
    shared: Arc<Shared>,
    control: SendStream,
    /// Frames of the control stream that [`Connection::accept`] has to send.
    unsent: BytesMut,
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
        let shared = Arc::new(Shared::new(quic, settings));
        tokio::spawn(accept_signals(Arc::clone(&shared)));
        Ok(Connection {
            shared,
            control,
            unsent: BytesMut::new(),
            next: 0,
        })
    }

    /// Waits for the next request, and sends what announces the end of the connection. After
    /// [`Connection::end`], rejects requests that come.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn accept(&mut self) -> Result<RequestStream, Ended> {
        loop {
            let accepted = tokio::select! {
                biased;
                written = self.control.write(&self.unsent), if !self.unsent.is_empty() => {
                    match written {
                        Ok(bytes) => self.unsent.advance(bytes),
                        // The client learns it by the close.
                        Err(_) => self.unsent.clear(),
                    }
                    continue;
                }
                accepted = self.shared.quic.accept_bi() => accepted,
            };
            let (mut send, mut recv) = accepted.map_err(Ended)?;
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
    /// that it has sent already are accepted. [`Connection::accept`] sends it, as soon as the
    /// client gives credit for it.
    pub fn announce_end(&mut self) {
        self.goaway(LARGEST_STREAM);
    }

    /// Accepts no more requests. The client learns which was the last one (RFC 9114 §5.2), so that
    /// it can repeat the others. Those that were accepted are served.
    pub fn end(&mut self) {
        self.shared.end();
        self.goaway(self.next);
    }

    fn goaway(&mut self, stream: u64) {
        let (mut payload, mut frame) = (Vec::new(), Vec::new());
        varint::encode(stream, &mut payload);
        append_frame(0x7, &payload, &mut frame);
        self.unsent.extend_from_slice(&frame);
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
        self.0.idle().await;
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
        return shared.count_unknown();
    };
    let Some(mut signals) = Signals::new(kind) else {
        // RFC 9114 §6.2: a server need not read it.
        let _ = stream.stop(Code::STREAM_CREATION_ERROR.into());
        return shared.count_unknown();
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
