//! The NDN side of the node: threads, each with a [`Forwarder`](larder_forwarder::Forwarder) and
//! sockets of its own, no lock.
//!
//! ```text
//!  Unix, TCP, WebSocket, UDP, Ethernet ──► event loop (epoll through mio) ─► Forwarder::on_packets ──► Outbox ──► send queues ──► sockets
//!                                      ▲                                                                 (once a turn)
//!  other threads ── Handle: snapshot, finished jobs, stop
//! ```
//!
//! A turn reads up to 64 KiB of each stream that has something, and a batch of datagrams, hands
//! every packet to the forwarder, and writes each face's queue once, or whenever it has grown to 32
//! packets or 64 KiB: what a packet costs in system calls falls with the load. A read that brings
//! less than it could is the last of its turn. What a socket does not take waits in its face's
//! queue ([`link`]), and is marked when it waits too long ([`codel`]).
//!
//! With `shards` above 1 there are as many such threads. The first has the listeners, UDP, Ethernet
//! and WebSocket, the connections of routes and management; accepted connections are given to all
//! in turn. What is another's passes between them ([`shard_channel`]).

mod backpressure;
mod codel;
mod datagram;
mod disk;
mod ethernet;
mod event_loop;
mod face_requests;
mod faces;
mod fair_share;
mod frames;
mod interfaces;
mod link;
mod listen;
mod multicast;
mod packet_socket;
mod packets;
mod partial_input;
mod path_mtu;
mod permanent;
mod reliable;
mod reload;
mod shard_channel;
mod sharing;
mod status;
mod stream;
mod stream_places;
mod udp_peers;
mod udp_places;
mod upstream;
pub(crate) mod websocket;

use crate::config::NdnConfig;
use crate::disk::Disk;
use event_loop::EventLoop;
use larder_forwarder::{
    Change, FaceId, FaceStats, PrefixFigures, Report, ShardQuery, Stats, TierRecord, add_face_counters,
};
use larder_policy::{Gauge, JobDone};
use shard_channel::{Batch, Outgoing, Port, ShardContext};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stream::Socket;
use stream_places::Activity;

pub(crate) use listen::check;
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
    /// What the policy reports of itself, by stage; of several shards the first's.
    pub gauges: Vec<(&'static str, Gauge)>,
    /// Hits and misses by prefix, where they are counted, of those asked for most.
    pub by_prefix: Vec<PrefixFigures>,
    /// Bytes of packets whose end has not come yet.
    pub partial_bytes: usize,
    /// UDP peers that were heard first: the new ones, the known ones and those that hold their
    /// address.
    pub udp_peers: [usize; 3],
}

impl Snapshot {
    /// Adds what another shard is doing.
    fn add_shard(&mut self, other: Snapshot) {
        self.stats.add_shard(&other.stats);
        let counters: Vec<_> = other.faces.iter().map(|face| (face.id, face.counters)).collect();
        add_face_counters(&mut self.faces, &counters);
        self.by_prefix.extend(other.by_prefix);
        self.partial_bytes += other.partial_bytes;
        self.udp_peers.iter_mut().zip(other.udp_peers).for_each(|(sum, count)| *sum += count);
    }
}

/// What a thread is told, by others.
enum Command {
    Snapshot(mpsc::Sender<Snapshot>),
    JobDone(JobDone),
    Reload(Box<Reload>, mpsc::Sender<Result<(), String>>),
    Stop,
    /// Frames of other threads' faces.
    Frames(Batch<FaceId>),
    /// Packets to faces of this thread.
    Sends(Batch<Outgoing>),
    /// What the first shard's forwarder has for the others'.
    Changes(Vec<Change>),
    /// A new face is the thread's with this number.
    FaceAt(FaceId, usize),
    /// A new face is this thread's.
    Adopt(FaceId, Box<Socket>, Option<Activity>),
    /// To the first: a face has closed.
    Closed(FaceId, Option<String>),
    /// From the first: what its management asks.
    Ask(u64, ShardQuery),
    /// To the first: the answer.
    Said(u64, Report),
    /// What the disk tier has read.
    TierRecord(u64, Option<TierRecord>),
}

/// The way to the event loops from other threads.
#[derive(Clone)]
pub struct Handle {
    ports: Arc<[Port]>,
    disk: Option<Disk<disk::TierBans>>,
}

impl Handle {
    /// What the NDN side is doing; `None` where a thread of it has stopped, or does not answer
    /// within a second.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let ask = |port: &Port| {
            let (sender, receiver) = mpsc::channel();
            port.send(Command::Snapshot(sender));
            receiver
        };
        let answers: Vec<_> = self.ports.iter().map(ask).collect();
        let until = Instant::now() + Duration::from_secs(1);
        let mut answers = answers.into_iter().map(|answer| answer.recv_timeout(until - Instant::now()).ok());
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

    /// Takes over what can change while running. What came of it is known when the next packets are
    /// handled.
    ///
    /// # Errors
    /// One line; nothing has changed then.
    pub fn reload(&self, reload: Reload) -> Result<(), String> {
        let (sender, receiver) = mpsc::channel();
        self.ports[0].send(Command::Reload(Box::new(reload), sender));
        let gone = |_| Err("[ndn]: the NDN thread does not answer".to_owned());
        receiver.recv_timeout(crate::limits::RELOAD_PATIENCE).unwrap_or_else(gone)
    }

    fn stop_disk(&self) {
        if let Some(disk) = &self.disk {
            disk.stop();
        }
    }

    /// Ends the event loops.
    pub fn stop(&self) {
        self.ports.iter().for_each(|port| port.send(Command::Stop));
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
    /// Whether machines other than this one reach a listener of it.
    pub is_open: bool,
    /// The socket for applications on this machine.
    pub unix: Option<PathBuf>,
    threads: Vec<JoinHandle<()>>,
}

impl Ndn {
    /// Binds every listener, connects every route, and starts the threads; the first that ends
    /// calls `ended`. `source` is the configuration's file.
    ///
    /// # Errors
    /// One line that names the setting, what is wrong and what to do.
    pub fn start(
        config: &NdnConfig,
        source: Option<&Path>,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Ndn, String> {
        let (ports, shard_contexts) =
            shard_channel::shard_contexts(config.shards(), config.partial_input.bytes() as usize)
                .map_err(|error| format!("[ndn]: {error}"))?;
        let disk = config.disk.as_ref().map(|table| disk::start(&table.behind(config.content_store))).transpose()?;
        let handle = Handle { ports, disk };
        Ndn::start_loops(config, source, handle.clone(), shard_contexts, ended).inspect_err(|_| handle.stop_disk())
    }

    fn start_loops(
        config: &NdnConfig,
        source: Option<&Path>,
        handle: Handle,
        shard_contexts: Vec<ShardContext>,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Ndn, String> {
        let event_loop = |shard_context: ShardContext| {
            let event_loop = EventLoop::new(config, shard_context, handle.disk.clone());
            event_loop.map_err(|error| format!("[ndn]: {error}"))
        };
        let mut event_loops = shard_contexts.into_iter().map(event_loop).collect::<Result<Vec<_>, _>>()?;
        if let Some(source) = source {
            event_loops[0].forwarder.set_configuration(source.display().to_string());
        }
        let (listening, unix) = event_loops[0].listen(config)?;
        let clean_up = |error| {
            handle.stop();
            if let Some(path) = &unix {
                let _ = std::fs::remove_file(path);
            }
            error
        };
        event_loops[0].add_routes(config).map_err(clean_up)?;
        let ended = Arc::new(Mutex::new(Some(ended)));
        let mut threads = Vec::new();
        for (number, mut event_loop) in event_loops.into_iter().enumerate() {
            let ended = ended.clone();
            let first_ended = move || {
                if let Some(ended) = ended.lock().unwrap_or_else(PoisonError::into_inner).take() {
                    ended();
                }
            };
            // A panic ends the thread too, and must be told.
            let on_end = OnDrop(Some(first_ended));
            let run = move || {
                let _on_end = on_end;
                event_loop.run();
            };
            let name = if number == 0 { "ndn".to_owned() } else { format!("ndn{number}") };
            let thread = std::thread::Builder::new().name(name).spawn(run);
            threads.push(thread.map_err(|error| clean_up(format!("cannot start the NDN thread: {error}")))?);
        }
        let of_others = |address: &SocketAddr| !address.ip().is_loopback();
        let is_open = [config.tcp, config.udp, config.websocket].iter().flatten().any(of_others);
        Ok(Ndn { handle, listening, is_open, unix, threads })
    }

    /// Stops the threads and removes the socket file.
    pub fn stop(self) {
        self.handle.stop();
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
        self.handle.stop_disk();
        if let Some(path) = &self.unix {
            let _ = std::fs::remove_file(path);
        }
    }
}
