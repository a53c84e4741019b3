//! The NDN side of the node: threads, each with its own [`Forwarder`](larder_forwarder::Forwarder)
//! and sockets, and without locks.
//!
//! ```text
//!  sockets ──► event loop (epoll through mio) ─► Forwarder::on_packets ──► Outbox ──► send queues ──► sockets
//!                      ▲                                                 (once per turn)
//!  other threads ── Handle: snapshot, finished jobs, stop
//! ```
//!
//! A turn reads up to 64 KiB of each readable stream and a batch of datagrams, passes every packet
//! to the forwarder, and writes each face's queue once, or whenever it reaches 32 packets or 64
//! KiB. So the system calls per packet decrease with the load. A read that returns less than it
//! could is the last of its turn. Bytes that a socket does not accept wait in the face's queue
//! ([`send::link`]); packets that come while the queue is long are marked ([`transport::codel`]).
//!
//! With `shards` above 1 there are as many such threads, each with a UDP socket. The first one has
//! the listeners, Ethernet, WebSocket, and the connections of routes and management. Accepted
//! connections go to all threads in turn, UDP peers by their address
//! ([`transport::udp::steering`]). Packets for another thread pass through [`shards::channel`].
//!
//! | part | task |
//! | --- | --- |
//! | `event_loop` | one turn: waits, reads, passes packets to the forwarder, writes |
//! | `transport` | the sockets: one file for each kind |
//! | `send` | the queue of each face |
//! | `faces` | faces that this node makes |
//! | `guard` | places and memory, shared fairly by peers |
//! | `shards` | the threads among themselves |
//! | `control` | settings of a reload, the state and the metrics |

mod address;
mod bounds;
mod check;
mod control;
mod disk;
mod error;
mod event_loop;
mod faces;
mod guard;
mod polling;
mod send;
mod shards;
mod status;
mod tokens;
mod transport;
mod what_if;

use crate::config::NdnConfig;
use crate::handover::HandedSocket;
use crate::inherited::{Inherited, Role};
use crate::supervisor;
use event_loop::EventLoop;
use larder_forwarder::PrefixFigures;
use larder_tier_host::Disk;
use larder_units::Time;
use larder_what_if_host::LiveWhatIf;
use shards::channel::{Port, ShardContext};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) use check::check;
pub use control::snapshot::{QueueFigures, Snapshot, StrategyFigures};
pub use error::{NdnError, SocketError};
pub(crate) use transport::listen::{SOCKET_MODE, bind_unix_socket, remove_empty, socket_folders};

use control::settings::Reload;
use shards::command::Command;
use transport::new_listeners::{Bound, ListenKeys, RunningListeners, UnixFile};
use what_if::ObservedContentStore;

/// A handle on the event loops for other threads.
#[derive(Clone)]
pub struct Handle {
    ports: Arc<[Port]>,
    disk: Option<Disk<disk::TierBans>>,
    what_if: Arc<LiveWhatIf>,
}

impl Handle {
    /// Returns the state of the NDN side; `None` if one of its threads has stopped, or does not
    /// answer within a second.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let ask = |port: &Port| {
            let (sender, receiver) = mpsc::channel();
            port.send(Command::Snapshot(sender));
            receiver
        };
        let answers: Vec<_> = self.ports.iter().map(ask).collect();
        let until = Instant::now() + Duration::from_secs(1);
        let mut answers = answers
            .into_iter()
            .map(|answer| answer.recv_timeout(until - Instant::now()).ok());
        let mut snapshot = answers.next()??;
        for other in answers {
            snapshot.add_shard(other?);
        }
        if self.ports.len() > 1 {
            snapshot.by_prefix = PrefixFigures::merged(snapshot.by_prefix);
            snapshot.by_prefix.truncate(crate::limits::PREFIXES_SHOWN);
        }
        Some(snapshot)
    }

    /// Applies new settings. Returns the addresses of the listeners when the event loop has applied
    /// or refused them. An event loop that has not begun within [`crate::limits::RELOAD_PATIENCE`]
    /// does not apply them any more.
    ///
    /// # Errors
    /// One line. Nothing has changed then.
    fn reload(&self, reload: Reload) -> Result<Vec<String>, NdnError> {
        let (sender, receiver) = mpsc::channel();
        let begun = Arc::clone(&reload.begun);
        self.ports[0].send(Command::Reload(Box::new(reload), sender));
        for _ in 0..crate::limits::RELOAD_PATIENCE.as_secs() {
            match receiver.recv_timeout(Duration::from_secs(1)) {
                Ok(applied) => return applied,
                Err(mpsc::RecvTimeoutError::Timeout) => supervisor::alive(),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(NdnError::NoAnswer),
            }
        }
        if !begun.swap(true, Ordering::SeqCst) {
            return Err(NdnError::NoAnswer);
        }
        receiver.recv().unwrap_or(Err(NdnError::NoAnswer))
    }

    /// Pauses the listeners for another process, and closes the disk tier, or goes on with both:
    /// the tier is empty then, and not used any more. Faces stay, except those of UDP peers, whose
    /// socket is a listener.
    pub fn set_listening(&self, is_listening: bool) {
        let until = Instant::now() + crate::limits::RELOAD_PATIENCE;
        let ask = |port: &Port| {
            let (sender, receiver) = mpsc::channel();
            port.send(Command::Listen(is_listening, sender));
            receiver
        };
        let answers: Vec<_> = self.ports.iter().map(ask).collect();
        // A thread that has ended listens to nothing.
        for answer in answers {
            let _ = answer.recv_timeout(until - Instant::now());
        }
        match &self.disk {
            Some(disk) if is_listening => disk.take_back(),
            Some(disk) => disk.release(),
            None => {}
        }
    }

    fn stop_disk(&self) {
        if let Some(disk) = &self.disk {
            disk.stop();
        }
    }

    /// Ends the event loops.
    pub fn stop(&self) {
        for port in self.ports.iter() {
            port.send(Command::Stop);
        }
    }
}

/// Calls its function when it is dropped.
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
    /// The handle for other threads.
    pub handle: Handle,
    /// The bound addresses, for messages: `unix:///run/nfd/nfd.sock`, `tcp://[::]:6363`.
    pub listening: Vec<String>,
    /// True if other machines can reach a listener.
    pub is_open: bool,
    /// The socket for applications on this machine.
    pub unix: Option<PathBuf>,
    /// Its file, if this process removes it.
    unix_file: Option<UnixFile>,
    keys: ListenKeys,
    /// The sockets of the listeners, for another process.
    sockets: Vec<(Role, OwnedFd)>,
    threads: Vec<JoinHandle<()>>,
}

impl Ndn {
    /// Binds every listener that is not inherited, connects every route, and starts the threads.
    /// The first thread that ends calls `ended`. `source` is the configuration's file.
    ///
    /// # Errors
    /// One line that names the setting, the problem and the remedy.
    pub fn start(
        config: &NdnConfig,
        source: Option<&Path>,
        inherited: &mut Inherited,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Ndn, NdnError> {
        let (ports, shard_contexts) =
            shards::channel::shard_contexts(config.shards(), config.partial_input.bytes() as usize)
                .map_err(NdnError::Events)?;
        let disk = config
            .disk
            .as_ref()
            .map(|table| disk::start(&table.clone().behind(config.content_store)))
            .transpose()?;
        let what_if = LiveWhatIf::start(ObservedContentStore::new(&ports), config.what_if);
        let what_if = Arc::new(what_if.map_err(NdnError::Thread)?);
        let handle = Handle {
            ports,
            disk,
            what_if,
        };
        let origin = (source, inherited);
        Ndn::start_loops(config, origin, handle.clone(), shard_contexts, ended).inspect_err(|_| {
            handle.what_if.stop();
            handle.stop_disk();
        })
    }

    fn start_loops(
        config: &NdnConfig,
        (source, inherited): (Option<&Path>, &mut Inherited),
        handle: Handle,
        shard_contexts: Vec<ShardContext>,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Ndn, NdnError> {
        let event_loop = |shard_context: ShardContext| {
            EventLoop::new(config, shard_context, handle.disk.clone())
        };
        let mut event_loops = shard_contexts
            .into_iter()
            .map(event_loop)
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(source) = source {
            event_loops[0]
                .forwarder
                .set_configuration(source.display().to_string());
        }
        let keys = ListenKeys::of(config);
        let Bound {
            listeners,
            sockets,
            unix_file,
        } = Bound::new(
            config,
            config.shards(),
            &RunningListeners::default(),
            inherited,
        )?;
        let unix = listeners
            .unix
            .as_ref()
            .and_then(|unix| Some(unix.as_ref()?.1.clone()));
        event_loops[0].open_neighbours(config)?;
        event_loops[0].replace_listeners(Time::ZERO, listeners)?;
        let listening = event_loops[0].listeners.listening();
        event_loops[0].add_routes(config)?;
        let ended = Arc::new(Mutex::new(Some(ended)));
        let mut threads = Vec::new();
        for (number, mut event_loop) in event_loops.into_iter().enumerate() {
            let ended = ended.clone();
            let first_ended = move || {
                if let Some(ended) = ended.lock().unwrap_or_else(PoisonError::into_inner).take() {
                    ended();
                }
            };
            // A panic ends the thread too, and has to be reported.
            let on_end = OnDrop(Some(first_ended));
            let run = move || {
                let _on_end = on_end;
                event_loop.run();
            };
            let name = if number == 0 {
                "ndn".to_owned()
            } else {
                format!("ndn{number}")
            };
            let thread = std::thread::Builder::new().name(name).spawn(run);
            threads.push(
                thread
                    .map_err(NdnError::Thread)
                    .inspect_err(|_| handle.stop())?,
            );
        }
        let sockets = sockets
            .into_iter()
            .filter_map(|(role, socket)| Some((role, socket?)))
            .collect();
        Ok(Ndn {
            handle,
            listening,
            is_open: keys.are_open(),
            unix,
            unix_file,
            keys,
            sockets,
            threads,
        })
    }

    /// Applies the keys of another configuration that can change while the node runs. New listeners
    /// are bound before old ones close.
    ///
    /// # Errors
    /// One line. Nothing has changed then.
    pub fn reload(&mut self, config: &NdnConfig) -> Result<(), NdnError> {
        let running = RunningListeners {
            keys: self.keys.clone(),
            path: self.unix.as_deref(),
            sockets: &self.sockets,
        };
        let Bound {
            listeners,
            sockets,
            unix_file,
        } = Bound::new(
            config,
            self.handle.ports.len(),
            &running,
            &mut Inherited::default(),
        )?;
        let unix = listeners
            .unix
            .as_ref()
            .map(|unix| unix.as_ref().map(|(_, path)| path.clone()));
        self.listening = self.handle.reload(Reload::new(config, listeners)?)?;
        if let Some(unix) = unix {
            (self.unix, self.unix_file) = (unix, unix_file);
        }
        self.handle.what_if.enable(config.what_if);
        self.keys = ListenKeys::of(config);
        self.is_open = self.keys.are_open();
        self.sockets
            .retain(|(role, _)| !sockets.iter().any(|(changed, _)| changed == role));
        self.sockets.extend(
            sockets
                .into_iter()
                .filter_map(|(role, socket)| Some((role, socket?))),
        );
        Ok(())
    }

    /// Returns the sockets of the listeners, for another process.
    pub fn sockets(&self) -> std::io::Result<Vec<HandedSocket>> {
        let handed = |(role, descriptor): &(Role, OwnedFd)| {
            let owns_file = self.unix_file.is_some() && *role == Role::NdnUnix;
            Ok(HandedSocket {
                role: *role,
                descriptor: descriptor.try_clone()?,
                owns_file,
            })
        };
        self.sockets.iter().map(handed).collect()
    }

    /// Removes the socket file at the end if it is one of these: another process has left it.
    pub fn own_files(&mut self, paths: &[PathBuf]) {
        if let Some(path) = self.unix.as_ref().filter(|path| paths.contains(path)) {
            self.unix_file.get_or_insert_with(|| UnixFile(path.clone()));
        }
    }

    /// Leaves the socket file in place at the end: another process listens on its socket.
    pub fn leave_files(&mut self) {
        self.unix_file.take().into_iter().for_each(UnixFile::leave);
    }

    /// Stops the threads and removes the socket file.
    pub fn stop(self) {
        // Its thread asks the others.
        self.handle.what_if.stop();
        self.handle.stop();
        for thread in self.threads {
            drop(thread.join());
        }
        self.handle.stop_disk();
    }
}
