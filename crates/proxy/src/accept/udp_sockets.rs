//! The UDP sockets of a listener for HTTP/3. They live as long as the address: their number decides
//! which one the kernel chooses for a client, so a reload keeps it.
//!
//! A socket has one reader at a time. When another listener takes the address over, in this process
//! or in the next one, the connections of the former one end first (GOAWAY), and what comes
//! meanwhile from new clients is refused: they use HTTP/2. The readers of a listener end together:
//! the next process reads no socket before all are left, and one without a reader answers nobody.

#![cfg_attr(
    not(feature = "http3"),
    allow(dead_code, reason = "nothing reads them without HTTP/3")
)]

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

/// The sockets of one address.
#[derive(Clone)]
pub(crate) struct UdpSockets {
    sockets: Arc<[Shared]>,
    port: u16,
}

#[derive(Clone)]
struct Shared {
    socket: Arc<UdpSocket>,
    /// Locked by the reader.
    turn: Arc<Mutex<()>>,
}

/// Holds sockets back from their readers until it is dropped.
pub(crate) struct HeldBack {
    _guards: Vec<OwnedMutexGuard<()>>,
}

/// The readers of one listener, which end together.
pub(crate) struct UdpReaders {
    /// Closed when no reader has connections any more.
    open: Arc<watch::Sender<()>>,
    /// Each reader has one more while it has connections.
    one_more: watch::Receiver<()>,
}

/// One socket, for its next reader.
pub(crate) struct UdpTurn {
    shared: Shared,
    open: Arc<watch::Sender<()>>,
    one_more: watch::Receiver<()>,
}

/// A socket that is read, until this is dropped.
pub(crate) struct UdpReader {
    socket: Arc<UdpSocket>,
    _turn: OwnedMutexGuard<()>,
    open: Arc<watch::Sender<()>>,
    /// `None` when it has no connections any more.
    one_more: Option<watch::Receiver<()>>,
}

impl Default for UdpReaders {
    fn default() -> UdpReaders {
        let (open, one_more) = watch::channel(());
        UdpReaders {
            open: Arc::new(open),
            one_more,
        }
    }
}

impl UdpSockets {
    /// Binds so many sockets.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn bind(address: SocketAddr, count: usize) -> io::Result<UdpSockets> {
        #[cfg(feature = "http3")]
        return UdpSockets::new(larder_http3::bind(address, count)?);
        #[cfg(not(feature = "http3"))]
        Err(io::Error::other(format!(
            "without HTTP/3: {count} sockets of {address}"
        )))
    }

    /// Takes sockets over that are bound.
    ///
    /// # Errors
    /// There is none, or the system's.
    pub(crate) fn new(sockets: Vec<UdpSocket>) -> io::Result<UdpSockets> {
        let first = sockets.first().ok_or(io::ErrorKind::NotFound)?;
        let port = first.local_addr()?.port();
        let sockets = sockets.into_iter().map(|socket| Shared {
            socket: Arc::new(socket),
            turn: Arc::default(),
        });
        Ok(UdpSockets {
            sockets: sockets.collect(),
            port,
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn count(&self) -> usize {
        self.sockets.len()
    }

    /// Holds all sockets back that have no reader.
    pub(crate) fn hold_back(&self) -> HeldBack {
        let held = |shared: &Shared| Arc::clone(&shared.turn).try_lock_owned().ok();
        HeldBack {
            _guards: self.sockets.iter().filter_map(held).collect(),
        }
    }

    /// Returns the sockets of one of so many threads of a listener. Each thread has some, or none
    /// if there are more threads than sockets.
    pub(crate) fn of_thread(
        &self,
        thread: usize,
        threads: usize,
        readers: &UdpReaders,
    ) -> Vec<UdpTurn> {
        let own = self.sockets.iter().skip(thread).step_by(threads.max(1));
        let turn = |shared: &Shared| UdpTurn {
            shared: shared.clone(),
            open: Arc::clone(&readers.open),
            one_more: readers.one_more.clone(),
        };
        own.map(turn).collect()
    }

    /// Returns other descriptors of the sockets, in their order.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn descriptors(&self) -> io::Result<Vec<UdpSocket>> {
        let sockets = self.sockets.iter();
        sockets.map(|shared| shared.socket.try_clone()).collect()
    }

    /// Returns true if no socket has a reader.
    pub(crate) fn are_unread(&self) -> bool {
        let is_unread = |shared: &Shared| shared.turn.try_lock().is_ok();
        self.sockets.iter().all(is_unread)
    }
}

impl UdpTurn {
    /// Waits until the readers before have ended.
    pub(crate) async fn wait(self) -> UdpReader {
        let Shared { socket, turn } = self.shared;
        UdpReader {
            socket,
            _turn: turn.lock_owned().await,
            open: self.open,
            one_more: Some(self.one_more),
        }
    }
}

impl UdpReader {
    /// Returns another descriptor of the socket.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn descriptor(&self) -> io::Result<UdpSocket> {
        self.socket.try_clone()
    }

    /// Tells that this socket has no connections any more, and waits until that holds for all
    /// sockets of the listener.
    pub(crate) async fn end(&mut self) {
        self.one_more = None;
        self.open.closed().await;
    }
}
