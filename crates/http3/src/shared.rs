//! What the streams of one connection share: its limits, and what is counted against them.

use crate::code::Code;
use crate::limits;
use crate::signals::StreamType;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// The limits of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of one field section (RFC 9114 §4.2.2).
    pub section_bytes: usize,
    /// Streams of requests at once.
    pub streams: u32,
    /// The time in which a client that has not got all of its responses acknowledges something.
    pub unacknowledged: Duration,
}

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
    /// Responses to come that do not count as ended well, because their requests were malformed.
    spoilt: AtomicU32,
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
    pub(crate) fn new(quic: quinn::Connection, settings: Settings) -> Shared {
        Shared {
            quic,
            settings,
            requests: AtomicU64::new(0),
            signals: AtomicU64::new(0),
            given_up: AtomicU32::new(0),
            spoilt: AtomicU32::new(0),
            unknown: AtomicU32::new(0),
            has: Default::default(),
            open: AtomicUsize::new(0),
            idle: Notify::new(),
            is_ending: AtomicBool::new(false),
        }
    }

    /// Returns the number of acknowledgements that have come.
    pub(crate) fn acknowledgements(&self) -> u64 {
        self.quic.stats().frame_rx.acks
    }

    /// Accepts no more requests.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Waits until no request is open.
    pub(crate) async fn idle(&self) {
        while self.open.load(Ordering::Relaxed) > 0 {
            self.idle.notified().await;
        }
    }

    /// Counts a unidirectional stream of an unknown type, or one that ends before its type.
    pub(crate) fn count_unknown(&self) -> Result<(), Code> {
        let before = self.unknown.fetch_add(1, Ordering::Relaxed);
        if before < limits::UNKNOWN_STREAMS {
            Ok(())
        } else {
            Err(Code::EXCESSIVE_LOAD)
        }
    }

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

    /// Counts a request whose body is malformed: the node has worked for nothing, as for one that
    /// is given up (CVE-2025-8671, "made you reset"). It may get a response still.
    pub(crate) fn spoil(&self) {
        self.spoilt.fetch_add(1, Ordering::Relaxed);
        self.give_up();
    }

    /// Counts a response that the client has taken.
    pub(crate) fn complete(&self) {
        let less = |count: u32| count.checked_sub(1);
        let spoilt = &self.spoilt;
        if spoilt
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
        {
            return;
        }
        let _ = self
            .given_up
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Returns true if the connection takes no more requests.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Counts frames and instructions of the client.
    pub(crate) fn count_signals(&self, count: u64) -> Result<(), Code> {
        let so_far = self.signals.fetch_add(count, Ordering::Relaxed) + count;
        let requests = self.requests.load(Ordering::Relaxed);
        if so_far > limits::SIGNALS + requests.saturating_mul(limits::SIGNALS_PER_REQUEST) {
            return Err(Code::EXCESSIVE_LOAD);
        }
        Ok(())
    }

    /// Returns false if the client has opened a stream of this type before.
    pub(crate) fn is_first(&self, kind: StreamType) -> bool {
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
    pub(crate) fn new(shared: &Arc<Shared>) -> OpenRequest {
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
