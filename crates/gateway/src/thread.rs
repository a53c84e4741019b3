//! The thread of either end, with a connection to this node's forwarder as any application has, and
//! the figures that it publishes.

use super::error::Error;
use larder_client::{Client, ClientError, Transport};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The work of a thread.
pub(super) trait Work: Send + 'static {
    /// Processes messages of other threads and of the forwarder, waits if there are none, and
    /// sends.
    ///
    /// # Errors
    /// The connection to the forwarder is gone.
    fn turn(&mut self) -> Result<(), ClientError>;

    /// The last action of the thread.
    fn end(self);
}

/// A running thread.
pub(super) struct Running {
    stop: Arc<AtomicBool>,
    waker: Arc<mio::Waker>,
    thread: JoinHandle<()>,
}

/// Returns a connection to the forwarder, and its waker.
///
/// # Errors
/// One line that names the table of the configuration.
pub(super) fn connect(
    table: &'static str,
    forwarder: &Path,
) -> Result<(Client, Arc<mio::Waker>), Error> {
    let failed = |error| Error::Forwarder { table, error };
    let mut client = Client::connect_to(Transport::unix(forwarder.to_owned())).map_err(failed)?;
    // The forwarder is a part of this process, and a socket at the same path that of another one.
    client.wait_out(Duration::ZERO);
    let waker = client.waker().map_err(failed)?;
    Ok((client, Arc::new(waker)))
}

impl Running {
    /// Runs until it is stopped or the forwarder is gone, then calls `on_end`.
    ///
    /// # Errors
    /// One line if the thread cannot be started.
    pub(super) fn start(
        name: &str,
        table: &'static str,
        waker: Arc<mio::Waker>,
        mut work: impl Work,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Running, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let run = move || {
            while !stopping.load(Ordering::Relaxed) {
                if let Err(error) = work.turn() {
                    if !stopping.load(Ordering::Relaxed) {
                        tracing::error!(%error, "{table} is cut off from this node's forwarder");
                    }
                    break;
                }
            }
            work.end();
            on_end();
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.map_err(Error::Thread)?;
        Ok(Running {
            stop,
            waker,
            thread,
        })
    }

    /// Ends the thread. Transfers in progress break off.
    pub(super) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.waker.wake();
        let _ = self.thread.join();
    }
}

/// Figures that one thread publishes for others.
#[derive(Default)]
pub(super) struct Shown<T>(Arc<Mutex<T>>);

impl<T> Clone for Shown<T> {
    fn clone(&self) -> Self {
        Shown(Arc::clone(&self.0))
    }
}

impl<T: Copy> Shown<T> {
    pub(super) fn get(&self) -> T {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, figures: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = figures;
    }
}
