//! The NDN side of the node: one thread, one [`Forwarder`], every socket, no lock.
//!
//! ```text
//!  Unix, TCP, WebSocket, UDP, Ethernet ──► event loop (epoll through mio) ─► Forwarder::on_packets ──► Outbox ──► send queues ──► sockets
//!                                      ▲                                                                 (once a turn)
//!  other threads ── Handle: snapshot, finished jobs, stop
//! ```
//!
//! A turn reads up to 64 KiB of each stream that has something, and a batch of datagrams, hands every packet to the forwarder, and writes each
//! face's queue once, or whenever it has grown to 32 packets or 64 KiB: what a packet costs in system calls falls with the load. A read that brings less than it
//! could is the last of its turn. What a socket does not take waits in its face's queue ([`link`]), and is marked when it waits too long ([`codel`]).

mod codel;
mod datagram;
mod ethernet;
mod event_loop;
mod face_requests;
mod faces;
mod frames;
mod interfaces;
mod link;
mod listen;
mod multicast;
mod packet_socket;
mod packets;
mod path_mtu;
mod reliable;
mod reload;
mod status;
mod stream;
mod upstream;
mod websocket;

use crate::config::NdnConfig;
use event_loop::EventLoop;
use larder_forwarder::{FaceStats, PrefixFigures, Stats};
use larder_policy::{Gauge, JobDone};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

pub use reload::Reload;

/// What the NDN side is doing now.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The forwarder's counters and table sizes.
    pub stats: Stats,
    /// Every face.
    pub faces: Vec<FaceStats>,
    /// The Content Store's policy, as its spec.
    pub policy: String,
    /// What the policy reports of itself, by stage.
    pub gauges: Vec<(&'static str, Gauge)>,
    /// Hits and misses by prefix, where they are counted, of those asked for most.
    pub by_prefix: Vec<PrefixFigures>,
}

enum Command {
    Snapshot(mpsc::Sender<Snapshot>),
    JobDone(JobDone),
    Reload(Box<Reload>, mpsc::Sender<Result<(), String>>),
    Stop,
}

/// The way to the event loop from other threads.
#[derive(Clone)]
pub struct Handle {
    commands: mpsc::Sender<Command>,
    waker: Arc<mio::Waker>,
}

impl Handle {
    fn command(&self, command: Command) {
        // Both fail only when the loop is gone, and then there is nobody to tell.
        if self.commands.send(command).is_ok() {
            let _ = self.waker.wake();
        }
    }

    /// What the NDN side is doing; `None` where it has stopped, or does not answer within a second.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let (sender, receiver) = mpsc::channel();
        self.command(Command::Snapshot(sender));
        receiver.recv_timeout(Duration::from_secs(1)).ok()
    }

    /// Takes over what can change while running. What came of it is known when the next packets are handled.
    ///
    /// # Errors
    /// One line; nothing has changed then.
    pub fn reload(&self, reload: Reload) -> Result<(), String> {
        let (sender, receiver) = mpsc::channel();
        self.command(Command::Reload(Box::new(reload), sender));
        let gone = |_| Err("[ndn]: the NDN thread does not answer".to_owned());
        receiver.recv_timeout(crate::limits::RELOAD_PATIENCE).unwrap_or_else(gone)
    }

    /// Ends the event loop.
    pub fn stop(&self) {
        self.command(Command::Stop);
    }
}

/// Calls its function when it goes.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then();
        }
    }
}

/// The running NDN side.
pub struct Ndn {
    /// The way to it.
    pub handle: Handle,
    /// What was bound, for people: `unix:///run/nfd/nfd.sock`, `tcp://[::]:6363`.
    pub listening: Vec<String>,
    /// The socket for applications on this machine.
    pub unix: Option<PathBuf>,
    thread: JoinHandle<()>,
}

impl Ndn {
    /// Binds every listener, connects every route, and starts the thread, which calls `ended` when it ends.
    ///
    /// # Errors
    /// One line that names the setting, what is wrong and what to do.
    pub fn start(config: &NdnConfig, ended: impl FnOnce() + Send + 'static) -> Result<Ndn, String> {
        let (commands, receiver) = mpsc::channel();
        let mut event_loop = EventLoop::new(config, receiver).map_err(|error| format!("[ndn]: {error}"))?;
        let handle = Handle { commands, waker: event_loop.waker() };
        event_loop.set_handle(handle.clone());
        let (listening, unix) = event_loop.listen(config)?;
        let clean_up = |error| {
            if let Some(path) = &unix {
                let _ = std::fs::remove_file(path);
            }
            error
        };
        event_loop.add_routes(config).map_err(clean_up)?;
        let ended = OnDrop(Some(ended));
        let run = move || {
            // A panic ends the thread too, and must be told.
            let _ended = ended;
            event_loop.run();
        };
        let thread = std::thread::Builder::new()
            .name("ndn".to_owned())
            .spawn(run)
            .map_err(|error: io::Error| clean_up(format!("cannot start the NDN thread: {error}")))?;
        Ok(Ndn { handle, listening, unix, thread })
    }

    /// Stops the thread and removes the socket file.
    pub fn stop(self) {
        self.handle.stop();
        let _ = self.thread.join();
        if let Some(path) = &self.unix {
            let _ = std::fs::remove_file(path);
        }
    }
}
