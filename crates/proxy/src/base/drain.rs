//! The phases of a listener and of its connections: they serve, then drain, then close.

use crate::base::limits;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use tokio::sync::watch;
use tokio::time::Instant;

/// A phase. The later one is the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Connections are accepted.
    Serving,
    /// Another socket or process serves new connections. Open ones have one more request: an idle
    /// HTTP/1.1 connection stays open until its client sends it, because its client may have sent
    /// it already. The answer ends the connection. HTTP/2 has GOAWAY for that.
    Draining,
    /// Nothing serves new connections. Open ones have one more request, as above, but only for
    /// [`crate::base::limits::LAST_REQUEST`].
    Closing,
}

/// Sets the phase of a listener.
pub(crate) struct PhaseSwitch {
    phase: watch::Sender<(Phase, Instant)>,
    /// Its senders are the tasks that accept connections.
    accepting: mpsc::Receiver<Infallible>,
    is_draining: Arc<AtomicBool>,
    is_last: Arc<AtomicBool>,
}

/// A task that accepts the connections of a listener has one, and drops it when it ends.
#[derive(Clone)]
pub(crate) struct AcceptToken {
    _sender: mpsc::Sender<Infallible>,
}

/// The phase of a listener, for its connections.
#[derive(Clone)]
pub(crate) struct PhaseWatch {
    phase: watch::Receiver<(Phase, Instant)>,
    is_draining: Arc<AtomicBool>,
    /// True if nothing else accepts the connections that wait in the socket.
    is_last: Arc<AtomicBool>,
}

impl PhaseSwitch {
    pub(crate) fn new() -> (PhaseSwitch, PhaseWatch, AcceptToken) {
        let (token, accepting) = mpsc::channel();
        let (sender, phase) = watch::channel((Phase::Serving, Instant::now()));
        let (is_draining, is_last) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let watch = PhaseWatch {
            phase,
            is_draining: Arc::clone(&is_draining),
            is_last: Arc::clone(&is_last),
        };
        (
            PhaseSwitch {
                phase: sender,
                accepting,
                is_draining,
                is_last,
            },
            watch,
            AcceptToken { _sender: token },
        )
    }

    /// Begins a phase. A later one that has begun already stays.
    pub(crate) fn begin(&self, phase: Phase) {
        self.is_draining.store(true, Ordering::Relaxed);
        self.phase.send_if_modified(|now| {
            let is_later = phase > now.0;
            if is_later {
                *now = (phase, Instant::now());
            }
            is_later
        });
    }

    /// Begins [`Phase::Draining`] of a listener whose socket closes: connections that wait there
    /// have one request, too.
    pub(crate) fn drain_socket(&self) {
        self.is_last.store(true, Ordering::Relaxed);
        self.begin(Phase::Draining);
    }

    /// Waits until no task accepts connections of the listener, which drains. A task that does not
    /// come to it for a second, because its thread is busy, is not waited for.
    pub(crate) fn wait_for_acceptors(&self) {
        // The result is an error in both cases: nothing is ever sent.
        let _ = self.accepting.recv_timeout(limits::ACCEPTORS_END);
    }

    /// Returns true if no connection of the listener is left.
    pub(crate) fn is_unused(&self) -> bool {
        self.phase.is_closed()
    }
}

impl PhaseWatch {
    /// Waits until this phase, or a later one, has begun. A switch that is gone closes. Returns the
    /// time at which the phase in force began.
    pub(crate) async fn reached(&mut self, phase: Phase) -> Instant {
        let _ = self.phase.wait_for(|now| now.0 >= phase).await;
        self.phase.borrow().1
    }

    /// Returns true after [`PhaseSwitch::drain_socket`].
    pub(crate) fn is_last(&self) -> bool {
        self.is_last.load(Ordering::Relaxed)
    }

    /// Returns the flag that is true from [`Phase::Draining`] on: cheaper than a look at the phase.
    pub(crate) fn is_draining(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_draining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a connection after a reload is accepted with the settings from before it.
    #[test]
    fn a_reload_is_complete_before_former_acceptors_have_ended() {
        let (switch, watch, token) = PhaseSwitch::new();
        let has_ended = Arc::new(AtomicBool::new(false));
        let acceptor = std::thread::spawn({
            let (has_ended, mut watch) = (Arc::clone(&has_ended), watch.clone());
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .build()
                    .unwrap();
                runtime.block_on(watch.reached(Phase::Draining));
                has_ended.store(true, Ordering::SeqCst);
                drop(token);
            }
        });
        switch.begin(Phase::Draining);
        switch.wait_for_acceptors();
        assert!(has_ended.load(Ordering::SeqCst));
        acceptor.join().unwrap();
        // A connection has the watch still.
        assert!(!switch.is_unused());
        drop(watch);
        assert!(switch.is_unused());
    }
}
