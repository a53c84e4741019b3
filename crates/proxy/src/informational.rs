//! Informational responses (RFC 9110 §15.2) from the origin to a client of HTTP/1.1:
//! `103 Early Hints` (RFC 8297) and others, which a proxy has to forward unless it has requested
//! them itself.
//!
//! hyper's client passes them to a callback, but its server cannot send one. So the stream below
//! hyper writes them (`client_stream.rs`), at points where nothing else can be interrupted:
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
//! HTTP/1.0 gets none (§15.2 forbids it), and HTTP/2 neither, because hyper writes the frames and
//! does not expose the number of a stream. A follower of another request gets none either: they
//! belong to the request that went to the origin.

use super::limits;
use ::http::{HeaderMap, StatusCode, Version};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

/// The informational responses of one connection that wait to be written.
#[derive(Clone, Default)]
pub(super) struct InformationalResponses(Arc<Shared>);

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
pub(super) struct Turn {
    shared: Arc<Shared>,
    number: u64,
}

impl InformationalResponses {
    /// Starts the next request's turn. On an HTTP/1 connection the previous request has its
    /// response.
    pub(super) fn turn(&self) -> Turn {
        let mut state = self.0.lock();
        state.turn += 1;
        state.is_over = false;
        Turn { shared: Arc::clone(&self.0), number: state.turn }
    }

    /// Returns true while bytes wait to be written.
    pub(super) fn are_waiting(&self) -> bool {
        self.0.waiting.load(Ordering::Relaxed)
    }

    /// Returns true if the waiting bytes were written in part: nothing may precede their rest.
    pub(super) fn are_begun(&self) -> bool {
        self.0.begun.load(Ordering::Relaxed)
    }

    /// Writes the waiting bytes with `write`, as far as it accepts them.
    pub(super) fn poll_write(
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
            self.0.begun.store(!state.bytes.is_empty(), Ordering::Relaxed);
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
    /// Sends an informational response, unless the final one is on its way, or too many bytes wait.
    pub(super) fn send(&self, status: StatusCode, version: Version, headers: &HeaderMap) {
        let fields = larder_http::interim_fields(headers, version);
        let mut head =
            format!("HTTP/1.1 {} {}\r\n", status.as_u16(), status.canonical_reason().unwrap_or("")).into_bytes();
        for (name, value) in &fields {
            [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]
                .iter()
                .for_each(|text| head.extend_from_slice(text));
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
        if !state.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            state.task = Some(cx.waker().clone());
        }
    }

    /// Ready when everything has been written. After that, nothing more is accepted.
    fn poll_end(&self, cx: &Context<'_>) -> Poll<()> {
        self.watch(cx);
        let mut state = self.shared.lock();
        state.is_over = true;
        if state.bytes.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// A response that waits until the informational ones of its turn are written.
pub(super) struct Last<F: Future> {
    turn: Option<Turn>,
    future: F,
    response: Option<F::Output>,
}

impl<F: Future> Last<F> {
    pub(super) fn new(turn: Option<Turn>, future: F) -> Last<F> {
        Last { turn, future, response: None }
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
            if taken == 0 { Poll::Pending } else { Poll::Ready(Ok(taken)) }
        });
        String::from_utf8(all).unwrap()
    }

    fn hint(turn: &Turn) {
        turn.send(StatusCode::EARLY_HINTS, Version::HTTP_11, &HeaderMap::new());
    }

    const HINT: &str = "HTTP/1.1 103 Early Hints\r\nvia: 1.1 larder\r\n\r\n";

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
        assert_eq!(written(&interims, 1000), HINT[20..], "and what came after its time is dropped");
        assert!(Pin::new(&mut last_one).poll(&mut cx).is_ready() && !interims.are_waiting());
        let next = interims.turn();
        hint(&turn);
        assert!(!interims.are_waiting(), "its turn is over");
        (0..10_000).for_each(|_| hint(&next));
        let all = written(&interims, usize::MAX);
        assert!(all.len() <= limits::INTERIM_BYTES && all.len() > limits::INTERIM_BYTES / 2);
        assert_eq!(all, HINT.repeat(all.len() / HINT.len()));
    }
}
