//! The event loop: reads sockets, passes packets to the forwarder, writes queues.
//!
//! | part | task |
//! | --- | --- |
//! | `listeners` | the sockets at which others connect, and the socket of UDP |
//! | `links` | the links of faces, their send queues, reliability and backpressure |
//! | `places` | how many faces there may be, and the memory of incomplete packets |
//! | `outgoing` | connections that this node opens, and opens again |
//! | `shard_channel` | the other threads, and the faces whose sockets they have |
//! | `polling` | when shared memory is polled before the loop sleeps |
//!
//! This file has one turn. The other files have what needs several of these parts: a read may end a
//! face, and the end of a face concerns all of them.

mod accept;
mod connect;
mod faces;
mod management;
mod neighbours;
mod packets;
mod reliable;
mod reload;
mod report;
mod room;
mod shared_memory;
mod sharing;
mod udp_peers;

use crate::config::NdnConfig;
use crate::limits;
use crate::ndn::bounds::Bounds;
use crate::ndn::control::settings::Settings;
use crate::ndn::disk::{NdnDisk, tier};
use crate::ndn::error::NdnError;
use crate::ndn::faces::outgoing::OutgoingFaces;
use crate::ndn::guard::places::Places;
use crate::ndn::polling::Polling;
use crate::ndn::send::link::Connection;
use crate::ndn::send::links::Links;
use crate::ndn::shards::channel::{ShardChannel, ShardContext};
use crate::ndn::shards::command::Command;
use crate::ndn::tokens::{TCP, UDP, UDP_OUTGOING, UNIX, WAKER, WEBSOCKET, face_of_bell};
use crate::ndn::transport::ethernet::port_of;
use crate::ndn::transport::listeners::Listeners;
use crate::ndn::transport::reading::Framed;
use crate::ndn::transport::udp::datagram::{DatagramBatch, Via};
use larder_forwarder::{Config, FaceId, Forwarder, HostRequest, Outbox, Send};
use larder_policy::Engine;
use larder_units::{Streams, Time};
use mio::{Events, Poll, Token};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// One thread of the NDN side.
pub(super) struct EventLoop {
    /// The start of the clock.
    start: Instant,
    poll: Poll,
    commands: Receiver<Command>,
    /// The queues to the other threads.
    shard_channel: ShardChannel,
    /// The listeners of this thread.
    pub(super) listeners: Listeners,
    pub(super) forwarder: Forwarder,
    /// The tier behind the Content Store.
    disk: Option<NdnDisk>,
    /// Buffers that are used again in each turn.
    scratch: Scratch,
    /// The places of faces to other machines, and the memory of their incomplete packets.
    places: Places,
    /// The bounds of the configuration.
    bounds: Bounds,
    /// The reloadable settings that are in force.
    applied: Settings,
    /// Sources with more input than their turn allowed.
    ready: Vec<Token>,
    /// The UDP peer whose path MTU was read last.
    path_looked_at: FaceId,
    /// Connections that this node opens.
    outgoing: OutgoingFaces,
    /// The links of this thread's faces, with their send queues.
    links: Links,
    /// Turns of the loop so far.
    turns: u64,
    /// Whether the loop polls shared memory before it waits.
    polling: Polling,
    housekeeping: Time,
    /// The time until which no warning about a peer is logged, so that a flood does not fill the
    /// log.
    next_warning: Time,
    stopping: bool,
}

/// Buffers that are used again in each turn.
struct Scratch {
    outbox: Outbox,
    /// A buffer for the sends of a batch. It is empty in between.
    sends: Vec<Send>,
    buffer: Vec<u8>,
    frames: Vec<Framed>,
    datagrams: DatagramBatch,
    /// Requests of management in this turn.
    requests: Vec<HostRequest>,
}

/// Creates the forwarder of one shard. The first one has the rules and strategies, and sends them
/// to the others.
fn new_forwarder(
    config: &NdnConfig,
    shard_channel: &ShardChannel,
    disk: Option<&NdnDisk>,
    start: Instant,
    streams: Streams,
    hash_key: [u64; 2],
) -> Result<Forwarder, NdnError> {
    let shard = shard_channel.shard;
    let engine = Engine::new(
        &config.policy,
        shard.part_of(config.content_store),
        &streams,
    )
    .map_err(NdnError::Policy)?;
    let mut forwarder_config = Config::new(hash_key, streams);
    forwarder_config.shard = shard;
    forwarder_config.max_packet_bytes = config.largest_packet;
    forwarder_config.reassembly_bytes = config.partial_input.bytes() as usize;
    // A large disk tier takes time to open, and the clock has been running since before that.
    let calendar = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    forwarder_config.started = calendar.saturating_sub(start.elapsed());
    let mut forwarder = Forwarder::new(forwarder_config, engine);
    if let Some(disk) = disk {
        forwarder.set_tier(tier(disk, shard_channel));
    }
    if shard.number() == 0 {
        forwarder.set_capacity(Time::ZERO, config.content_store);
        forwarder.set_rules(config.rules().map_err(NdnError::Certificate)?);
        forwarder.set_verification(config.verification().map_err(NdnError::Certificate)?);
        forwarder.set_network_regions(config.network_region.clone());
        forwarder.set_readvertise(config.readvertise.is_some());
        forwarder.set_figures_by_prefix(config.count_by);
        for choice in &config.strategies {
            (forwarder.set_strategy(&choice.prefix, &choice.strategy)).map_err(|error| {
                NdnError::Strategy {
                    prefix: choice.prefix.clone(),
                    error,
                }
            })?;
        }
    }
    Ok(forwarder)
}

impl EventLoop {
    pub(super) fn new(
        config: &NdnConfig,
        shard_context: ShardContext,
        disk: Option<NdnDisk>,
    ) -> Result<Self, NdnError> {
        let ShardContext {
            poll,
            commands,
            shard_channel,
            start,
            partial,
        } = shard_context;
        let [seed, key0, key1, key2, key3] = larder_client::entropy::words();
        let forwarder = new_forwarder(
            config,
            &shard_channel,
            disk.as_ref(),
            start,
            Streams::new(seed),
            [key0, key1],
        )?;
        let bounds = Bounds::of(config);
        let polling = Polling::new(shard_channel.shard.is_only());
        let links = Links::new(shard_channel.shard.of());
        Ok(EventLoop {
            start,
            poll,
            commands,
            shard_channel,
            listeners: Listeners::new(config.origins()),
            forwarder,
            disk,
            scratch: Scratch {
                outbox: Outbox::new(),
                sends: Vec::new(),
                buffer: vec![0; limits::READ_BYTES + bounds.largest_frame],
                frames: Vec::new(),
                datagrams: DatagramBatch::new(),
                requests: Vec::new(),
            },
            places: Places::new([key2, key3], partial),
            bounds,
            applied: Settings::of(config),
            ready: Vec::new(),
            path_looked_at: FaceId(0),
            outgoing: OutgoingFaces::default(),
            links,
            turns: 0,
            polling,
            housekeeping: Time::ZERO,
            next_warning: Time::ZERO,
            stopping: false,
        })
    }

    pub(super) fn now(&self) -> Time {
        Time::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    // ---- Running ----

    pub(super) fn run(&mut self) {
        let mut events = Events::with_capacity(1024);
        while !self.stopping {
            self.turns += 1;
            let mut timeout = self.timeout();
            let waits_since = (!timeout.is_zero()).then(Instant::now);
            if self.poll_shared_memory(waits_since.is_some()) {
                timeout = Duration::ZERO;
            }
            if let Err(error) = self.poll.poll(&mut events, Some(timeout))
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "the event loop cannot wait for events; stopping");
                return;
            }
            if let Some(since) = waits_since {
                self.polling.waited(since.elapsed());
            }
            let now = self.now();
            let mut turn = std::mem::take(&mut self.ready);
            for event in &events {
                let token = event.token();
                if event.is_writable() {
                    self.writable(now, token);
                }
                if event.is_read_closed() || event.is_error() {
                    self.ending(token, event.is_write_closed());
                }
                // A closed or failed socket shows its state when it is read.
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    turn.push(token);
                    if face_of_bell(token).is_none() {
                        self.polling.on_other_socket(now);
                    }
                }
            }
            turn.sort_unstable();
            turn.dedup();
            for token in turn {
                self.readable(now, token);
            }
            self.on_time(now);
            self.flush();
            if !self.scratch.requests.is_empty() {
                self.obey_management(now);
                self.flush();
            }
        }
    }

    fn timeout(&mut self) -> Duration {
        if !self.ready.is_empty() {
            return Duration::ZERO;
        }
        let now = self.now();
        let next = [self.forwarder.next_timeout(), self.links.next_reliable()]
            .into_iter()
            .flatten()
            .min();
        let next = next.map_or(limits::HOUSEKEEPING, |at| at.since(now));
        let longest = if self.links.has_paused() {
            limits::BACKPRESSURE_STALL / 4
        } else {
            limits::HOUSEKEEPING
        };
        next.min(longest)
    }

    fn writable(&mut self, now: Time, token: Token) {
        if token == UDP || token == UDP_OUTGOING || port_of(token).is_some() {
            self.links.unblock_shared();
        } else if token.0 >= 256 {
            let face = FaceId(token.0 as u64);
            self.links.unblock(face);
            self.on_connected(now, face);
        }
    }

    fn ending(&mut self, Token(face): Token, has_hung_up: bool) {
        let face = FaceId(face as u64);
        let connection = self.links.connection_mut(face);
        if connection.is_some_and(|connection| connection.set_ending(has_hung_up)) {
            // A write ends the face, also if it is not read because its queue is long.
            self.links.unblock(face);
        }
    }

    fn readable(&mut self, now: Time, token: Token) {
        match token {
            WAKER => self.obey(now),
            UNIX | TCP | WEBSOCKET => self.accept(now, token),
            UDP => self.read_udp(now, Via::Listening),
            UDP_OUTGOING => self.read_udp(now, Via::Outgoing),
            Token(face) => {
                if let Some(port) = port_of(token) {
                    return self.read_ethernet(now, port);
                }
                if let Some(face) = face_of_bell(token) {
                    return self.on_bell(now, face);
                }
                let face = FaceId(face as u64);
                match self.links.connection(face) {
                    Some(Connection::Multicast(_)) => self.read_multicast(now, face),
                    Some(_) => self.read_stream(now, face),
                    None => {}
                }
            }
        }
    }

    fn obey(&mut self, now: Time) {
        self.shard_channel.own().looks();
        let mut batches = 0;
        while batches < limits::BATCHES_PER_TURN {
            let Ok(command) = self.commands.try_recv() else {
                return;
            };
            batches += usize::from(matches!(
                command,
                Command::Frames(_) | Command::Sends(_) | Command::Datagrams(_)
            ));
            self.carry_out(now, command);
        }
        self.ready.push(WAKER);
    }

    fn carry_out(&mut self, now: Time, command: Command) {
        match command {
            Command::Stop => self.stopping = true,
            Command::Listen(is_listening, reply) => {
                let registry = self.poll.registry();
                self.listeners.set_listening(registry, is_listening);
                let _ = reply.send(());
            }
            Command::JobDone(done) => self.forwarder.complete(done),
            Command::Frames(batch) => self.handle_batch(now, batch),
            Command::Sends(batch) => self.send_batch(now, batch),
            Command::Changes(changes) => changes
                .into_iter()
                .for_each(|change| self.change(now, change)),
            Command::FaceAt(face, shard) => self.shard_channel.note_face(face, shard),
            Command::Adopt(face, socket, activity) => self.adopt(face, *socket, activity),
            Command::Closed(face, why) => self.close(face, why),
            Command::Udp(udp) => self.replace_udp(udp.map(|udp| *udp)),
            Command::Datagrams(datagrams) => self.take_passed(now, datagrams),
            Command::AdoptPeer(new) => self.adopt_peer(now, *new),
            Command::Peer(face, setting) => self.set_peer(face, setting),
            Command::Answered(faces, shard) => self.tell_who_answered(&faces, shard),
            Command::Proven(faces) => self.prove(&faces),
            Command::Ask(ticket, question) => {
                let report = self.forwarder.report(now, question);
                self.shard_channel
                    .port(0)
                    .send(Command::Said(ticket, report));
            }
            Command::TierRecord(ticket, found) => {
                self.forwarder
                    .on_tier_lookup(now, ticket, found, &mut self.scratch.outbox);
                self.post(now, &[]);
            }
            Command::Said(ticket, report) => {
                self.forwarder
                    .on_report(now, ticket, report, &mut self.scratch.outbox);
                self.post(now, &[]);
            }
            // The caller waits no longer.
            Command::Reload(reload, _) if reload.begun.swap(true, Ordering::SeqCst) => {}
            Command::Reload(reload, reply) => {
                let now = self.now();
                let result = self.reload(now, *reload);
                self.tell_others();
                let _ = reply.send(result.map(|()| self.listeners.listening()));
            }
            Command::Bounds(bounds) => self.set_bounds(bounds),
            Command::Observations(last, reply) => drop(reply.send(self.observations(last))),
            Command::Snapshot(reply) => drop(reply.send(self.snapshot(now))),
        }
    }

    fn on_time(&mut self, now: Time) {
        if self.forwarder.next_timeout().is_some_and(|at| at <= now) {
            self.forwarder.on_timeout(now, &mut self.scratch.outbox);
            self.post(now, &[]);
            self.places
                .partial
                .fragments_are(self.forwarder.partial_bytes());
        }
        if self.links.has_reliable() {
            self.links.keep_reliable(now, &mut self.forwarder);
        }
        if self.links.has_paused() {
            self.watch_paused(now);
        }
        if let Some(job) = self.forwarder.job() {
            let ports = self.shard_channel.ports.clone();
            let number = self.shard_channel.shard.number();
            let work = move || ports[number].send(Command::JobDone(job.run()));
            if let Err(error) = std::thread::Builder::new()
                .name("tuning".to_owned())
                .spawn(work)
            {
                tracing::warn!(%error, "cannot start a thread for the policy's tuning; it keeps its parameters");
            }
        }
        if !self.shard_channel.shard.is_only() {
            // Another shard may have found the budget full, and this shard's holder the largest.
            self.obey_budget(self.places.partial.verdict());
        }
        if now >= self.housekeeping {
            self.housekeeping = now + limits::HOUSEKEEPING;
            self.keep_house(now);
        }
    }

    fn keep_house(&mut self, now: Time) {
        self.connect_upstreams(now);
        self.connect_permanent(now);
        self.look_at_paths();
        self.ask_who_answered();
        for token in self.listeners.take_accept_again() {
            self.accept(now, token);
        }
        self.give_up_connecting(now);
        self.close_stalled(now);
        let over: Vec<FaceId> = self
            .links
            .iter()
            .filter(|(_, link)| link.connection.is_idle(now))
            .map(|(face, _)| face)
            .collect();
        for face in over {
            self.close(face, Some("idle".to_owned()));
        }
    }
}
