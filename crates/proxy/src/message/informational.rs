//! Informational responses (RFC 9110 §15.2) from the origin to a client: `103 Early Hints`
//! (RFC 8297) and others, which a proxy has to forward unless it has requested them itself.
//!
//! On HTTP/2, the task of the stream sends them before its response (`http2_stream.rs`).
//!
//! On HTTP/1.1, hyper's client passes them to a callback, but its server cannot send one. So the
//! stream below hyper writes them (`client_stream.rs`), at points where nothing else can be
//! interrupted:
//!
//! 1. hyper asks for a request's response when the whole previous one is in its buffer, or further;
//! 2. it flushes the stream only when that buffer is empty, and waiting bytes are written only at a
//!    flush;
//! 3. it creates the head of a response when the service's future has ended, and [`Last`] does not
//!    end while bytes wait.
//!
//! By 1 and 2, an informational response follows everything of the previous response; by 3, it
//! precedes everything of its own. Only hyper's `100 Continue` may come between, when the stream
//! has accepted a part of the waiting bytes: then the next write begins with their rest.
//!
//! HTTP/1.0 gets none (§15.2 forbids it). A follower of another request gets none either: they
//! belong to the request that went to the origin. hyper's client drops those of an origin that
//! speaks HTTP/2.

use crate::base::limits;
use ::http::{HeaderMap, Response, StatusCode, Version};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

/// The informational responses of one connection that wait to be written.
#[derive(Clone, Default)]
pub(crate) struct InformationalResponses(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// True while bytes wait. A flush checks it first.
    waiting: AtomicBool,
    /// True after a part of them was written.
    begun: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Counts requests, to separate late informational responses from those of the next request.
    turn: u64,
    is_over: bool,
    bytes: Vec<u8>,
    /// The task of the connection.
    task: Option<Waker>,
}

/// One request's permission to send informational responses, until it has its response.
#[derive(Clone)]
pub(crate) enum Turn {
    /// On a connection of HTTP/1.1.
    Connection(ConnectionTurn),
    /// On a stream of HTTP/2.
    Stream(Arc<StreamInterims>),
}

/// The turn of one request of a connection of HTTP/1.1.
#[derive(Clone)]
pub(crate) struct ConnectionTurn {
    shared: Arc<Shared>,
    number: u64,
}

/// The informational responses of one stream of HTTP/2 that wait to be sent.
#[derive(Default)]
pub(crate) struct StreamInterims(Mutex<StreamState>);

#[derive(Default)]
struct StreamState {
    waiting: Vec<Response<()>>,
    /// Bytes of all that the stream has had. Sending them needs no window, so h2 would keep any
    /// number for a client that reads nothing.
    bytes: usize,
    is_over: bool,
    /// The task of the stream.
    task: Option<Waker>,
}

impl StreamInterims {
    fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an informational response, unless the final one is on its way, or the stream has had
    /// [`limits::INTERIM_BYTES`].
    pub(crate) fn add(&self, status: StatusCode, fields: HeaderMap) {
        let mut state = self.lock();
        let fields_bytes: usize = fields
            .iter()
            .map(|(name, value)| FIELD_BYTES + name.as_str().len() + value.len())
            .sum();
        let bytes = state.bytes + FIELD_BYTES + fields_bytes;
        if state.is_over || bytes > limits::INTERIM_BYTES {
            return;
        }
        state.bytes = bytes;
        let mut response = Response::new(());
        *response.status_mut() = status;
        *response.headers_mut() = fields;
        state.waiting.push(response);
        if let Some(task) = state.task.take() {
            task.wake();
        }
    }

    /// Takes those that wait. The task is woken when there are more.
    pub(crate) fn take(&self, cx: &Context<'_>) -> Vec<Response<()>> {
        let mut state = self.lock();
        if !state
            .task
            .as_ref()
            .is_some_and(|task| task.will_wake(cx.waker()))
        {
            state.task = Some(cx.waker().clone());
        }
        std::mem::take(&mut state.waiting)
    }

    /// Takes the last ones: the response follows.
    pub(crate) fn end(&self) -> Vec<Response<()>> {
        let mut state = self.lock();
        state.is_over = true;
        std::mem::take(&mut state.waiting)
    }
}

/// The size of a field beside its name and its value (RFC 9113 §6.5.2).
const FIELD_BYTES: usize = 32;

impl InformationalResponses {
    /// Starts the next request's turn. On an HTTP/1 connection the previous request has its
    /// response.
    pub(crate) fn turn(&self) -> ConnectionTurn {
        let mut state = self.0.lock();
        state.turn += 1;
        state.is_over = false;
        ConnectionTurn {
            shared: Arc::clone(&self.0),
            number: state.turn,
        }
    }

    /// Returns true while bytes wait to be written.
    pub(crate) fn are_waiting(&self) -> bool {
        self.0.waiting.load(Ordering::Relaxed)
    }

    /// Returns true if the waiting bytes were written in part: nothing may precede their rest.
    pub(crate) fn are_begun(&self) -> bool {
        self.0.begun.load(Ordering::Relaxed)
    }

    /// Writes the waiting bytes with `write`, as far as it accepts them.
    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&mut Context<'_>, &[u8]) -> Poll<std::io::Result<usize>>,
    ) -> Poll<std::io::Result<()>> {
        let mut state = self.0.lock();
        while !state.bytes.is_empty() {
            match ready!(write(cx, &state.bytes))? {
                0 => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                written => drop(state.bytes.drain(..written)),
            }
            self.0
                .begun
                .store(!state.bytes.is_empty(), Ordering::Relaxed);
        }
        state.bytes = Vec::new();
        self.0.waiting.store(false, Ordering::Relaxed);
        state.wake();
        Poll::Ready(Ok(()))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }
}

impl Turn {
    /// Sends an informational response of an origin, unless the final one is on its way, or there
    /// are too many bytes.
    pub(crate) fn send(&self, status: StatusCode, version: Version, headers: &HeaderMap) {
        let fields = larder_http::interim_fields(headers, version);
        match self {
            Turn::Connection(turn) => turn.send(status, &fields),
            Turn::Stream(interims) => interims.add(status, fields),
        }
    }

    /// Returns the turn for which the response waits. On a stream of HTTP/2 it waits for none.
    pub(crate) fn of_connection(&self) -> Option<ConnectionTurn> {
        match self {
            Turn::Connection(turn) => Some(turn.clone()),
            Turn::Stream(_) => None,
        }
    }
}

impl ConnectionTurn {
    pub(crate) fn send(&self, status: StatusCode, fields: &HeaderMap) {
        let mut head = format!(
            "HTTP/1.1 {} {}\r\n",
            status.as_u16(),
            status.canonical_reason().unwrap_or("")
        )
        .into_bytes();
        for (name, value) in fields {
            for text in &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                head.extend_from_slice(text);
            }
        }
        head.extend_from_slice(b"\r\n");
        let mut state = self.shared.lock();
        let is_ours = state.turn == self.number && !state.is_over;
        if is_ours && state.bytes.len() + head.len() <= limits::INTERIM_BYTES {
            state.bytes.extend_from_slice(&head);
            self.shared.waiting.store(true, Ordering::Relaxed);
            state.wake();
        }
    }

    /// Registers the task that a send wakes.
    fn watch(&self, cx: &Context<'_>) {
        let mut state = self.shared.lock();
        if !state
            .task
            .as_ref()
            .is_some_and(|task| task.will_wake(cx.waker()))
        {
            state.task = Some(cx.waker().clone());
        }
    }

    /// Ready when everything has been written. After that, nothing more is accepted.
    fn poll_end(&self, cx: &Context<'_>) -> Poll<()> {
        self.watch(cx);
        let mut state = self.shared.lock();
        state.is_over = true;
        if state.bytes.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// A response that waits until the informational ones of its turn are written.
pub(crate) struct Last<F: Future> {
    turn: Option<ConnectionTurn>,
    future: F,
    response: Option<F::Output>,
}

impl<F: Future> Last<F> {
    pub(crate) fn new(turn: Option<ConnectionTurn>, future: F) -> Last<F> {
        Last {
            turn,
            future,
            response: None,
        }
    }
}

impl<F: Future<Output: Unpin> + Unpin> Future for Last<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        if this.response.is_none() {
            if let Some(turn) = &this.turn {
                turn.watch(cx);
            }
            this.response = Some(ready!(Pin::new(&mut this.future).poll(cx)));
        }
        if let Some(turn) = &this.turn {
            ready!(turn.poll_end(cx));
        }
        this.response.take().map_or(Poll::Pending, Poll::Ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(interims: &InformationalResponses, at_most: usize) -> String {
        let mut all = Vec::new();
        let mut cx = Context::from_waker(Waker::noop());
        let mut left = at_most;
        let _ = interims.poll_write(&mut cx, |_, bytes| {
            let taken = bytes.len().min(left).min(7);
            left -= taken;
            all.extend_from_slice(&bytes[..taken]);
            if taken == 0 {
                Poll::Pending
            } else {
                Poll::Ready(Ok(taken))
            }
        });
        String::from_utf8(all).unwrap()
    }

    fn hint(turn: &ConnectionTurn) {
        turn.send(StatusCode::EARLY_HINTS, &HeaderMap::new());
    }

    const HINT: &str = "HTTP/1.1 103 Early Hints\r\n\r\n";

    /// Failure: half a head before a response; an informational response before another request's
    /// response; an origin that sends them without end.
    #[test]
    fn what_waits_is_written_whole_in_its_turn_or_not_at_all() {
        let interims = InformationalResponses::default();
        let mut cx = Context::from_waker(Waker::noop());
        let turn = interims.turn();
        hint(&turn);
        let mut last_one = Last::new(Some(turn.clone()), std::future::ready(()));
        assert!(Pin::new(&mut last_one).poll(&mut cx).is_pending());
        hint(&turn);
        assert_eq!(written(&interims, 20), HINT[..20]);
        assert!(Pin::new(&mut last_one).poll(&mut cx).is_pending() && interims.are_waiting());
        assert_eq!(
            written(&interims, 1000),
            HINT[20..],
            "and what came after its time is dropped"
        );
        assert!(Pin::new(&mut last_one).poll(&mut cx).is_ready() && !interims.are_waiting());
        let next = interims.turn();
        hint(&turn);
        assert!(!interims.are_waiting(), "its turn is over");
        for _ in 0..10_000 {
            hint(&next);
        }
        let all = written(&interims, usize::MAX);
        assert!(all.len() <= limits::INTERIM_BYTES && all.len() > limits::INTERIM_BYTES / 2);
        assert_eq!(all, HINT.repeat(all.len() / HINT.len()));
    }

    /// Failure: an origin that sends them without end fills the memory, by a client of HTTP/2 that
    /// reads nothing; or a late one comes after the response.
    #[test]
    fn a_stream_has_so_many_bytes_of_them_and_none_after_its_response() {
        let interims = Arc::<StreamInterims>::default();
        let turn = Turn::Stream(Arc::clone(&interims));
        let cx = Context::from_waker(Waker::noop());
        let mut taken = 0;
        for _ in 0..10_000 {
            turn.send(StatusCode::EARLY_HINTS, Version::HTTP_11, &HeaderMap::new());
            taken += interims.take(&cx).len();
        }
        let each = 2 * FIELD_BYTES + "via".len() + "1.1 larder".len();
        assert_eq!(taken, limits::INTERIM_BYTES / each);
        let other = StreamInterims::default();
        other.add(StatusCode::EARLY_HINTS, HeaderMap::new());
        assert_eq!(other.end().len(), 1);
        other.add(StatusCode::EARLY_HINTS, HeaderMap::new());
        assert!(other.end().is_empty());
    }
}
