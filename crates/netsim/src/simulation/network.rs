//! The network of a simulation: forwarders and channels around one queue of events.
//!
//! This part moves frames. A frame that arrives at a node goes through its forwarder, and each
//! frame that the forwarder sends goes into a channel or to an application. Applications and TCP
//! hosts are not known here.

use crate::events::{Event, EventQueue, Frames};
use crate::frame::{Frame, is_segment};
use crate::link::{Channel, ChannelId, LinkId};
use crate::node::{Node, NodeId, Port};
use crate::tcp::NetworkContext;
use larder_forwarder::{Body, FaceId, Outbox};
use larder_packet::encode_lp;
use larder_units::Time;

/// Nodes, channels, and the frames and events between them.
pub(super) struct Network {
    pub(super) now: Time,
    pub(super) events: EventQueue,
    pub(super) frames: Frames,
    pub(super) nodes: Vec<Node>,
    pub(super) channels: Vec<Channel>,
    /// The actions of the forwarder that runs; empty between two calls.
    outbox: Outbox,
    /// Frames that reached the end of a channel.
    pub(super) packet_hops: u64,
}

impl Network {
    pub(super) fn new() -> Self {
        Network {
            now: Time::ZERO,
            events: EventQueue::default(),
            frames: Frames::default(),
            nodes: Vec::new(),
            channels: Vec::new(),
            outbox: Outbox::new(),
            packet_hops: 0,
        }
    }

    /// Returns the view that TCP hosts have of the network.
    pub(super) fn context(&mut self) -> NetworkContext<'_> {
        let Network {
            now,
            events,
            frames,
            channels,
            nodes,
            ..
        } = self;
        NetworkContext {
            now: *now,
            events,
            frames,
            channels,
            nodes,
        }
    }

    /// Handles a frame that reached the end of a channel. Returns it with its node if it is a TCP
    /// segment.
    pub(super) fn on_arrival(
        &mut self,
        channel: u32,
        frame: u32,
        epoch: u32,
    ) -> Option<(NodeId, Frame)> {
        let frame = self.frames.take(frame);
        let channel = &mut self.channels[channel as usize];
        if channel.epoch != epoch {
            channel.count_lost();
            return None;
        }
        self.packet_hops += 1;
        let (node, face, back) = (channel.to, channel.to_face, channel.id ^ 1);
        if is_segment(&frame) {
            return Some((node, frame));
        }
        // A node that is down acknowledges nothing, so the other end sends the frame again.
        let is_down = !self.nodes[node.0 as usize].is_up;
        if is_down
            || self.channels[back as usize].receive_reliability(self.now, &frame, &mut self.events)
        {
            self.forward(node, face, frame);
        }
        None
    }

    /// Starts the next frame of a channel that has sent its last one.
    pub(super) fn on_ready(&mut self, channel: u32, epoch: u32) {
        let channel = &mut self.channels[channel as usize];
        if channel.epoch == epoch {
            channel.on_ready(self.now, &mut self.events, &mut self.frames);
        }
    }

    /// Runs the timer of a channel's link reliability.
    pub(super) fn on_reliability(&mut self, channel: u32) {
        self.channels[channel as usize].on_reliability(
            self.now,
            &mut self.events,
            &mut self.frames,
        );
    }

    /// Runs a forwarder's timer. An event whose time has changed since it was planned does nothing.
    pub(super) fn on_wake(&mut self, id: usize) {
        let node = &mut self.nodes[id];
        if node.wake != self.now || !node.is_up {
            return;
        }
        node.wake = Time::MAX;
        // The event may be early: an answer may have removed the entry that it was planned for.
        if node
            .forwarder
            .next_timeout()
            .is_some_and(|at| at <= self.now)
        {
            node.forwarder.on_timeout(self.now, &mut self.outbox);
            return self.transmit(id, Frame::default());
        }
        self.plan_wake(id);
    }

    /// Gives a frame to a node's forwarder and sends what the forwarder sends.
    pub(super) fn forward(&mut self, id: NodeId, face: FaceId, mut frame: Frame) {
        if !self.accepts(id) {
            return;
        }
        let node = &mut self.nodes[id.0 as usize];
        // The forwarder counts the packets that it drops, with their reasons.
        let _ = match &mut frame {
            Frame::Own(bytes) => node
                .forwarder
                .on_packet(self.now, face, bytes, &mut self.outbox),
            Frame::Shared(packet) => {
                node.forwarder
                    .on_shared(self.now, face, packet, &mut self.outbox)
            }
        };
        self.transmit(id.0 as usize, frame);
    }

    /// Returns true if a node is up, and else counts a frame that it missed.
    pub(super) fn accepts(&mut self, id: NodeId) -> bool {
        let node = &mut self.nodes[id.0 as usize];
        node.missed += u64::from(!node.is_up);
        node.is_up
    }

    /// Returns the face from which a channel starts, at its first node.
    pub(super) fn face_of(&self, channel: ChannelId) -> FaceId {
        // The other direction of the link ends at this face.
        self.channels[(channel.0 ^ 1) as usize].to_face
    }

    /// Cuts or mends both channels of a link.
    pub(super) fn set_link_up(&mut self, link: LinkId, is_up: bool) {
        for channel in link.channels() {
            self.channels[channel.0 as usize].set_up(self.now, is_up);
        }
    }

    /// Executes the forwarder's actions; `input` is the frame that it was given.
    fn transmit(&mut self, id: usize, mut input: Frame) {
        let range = self.outbox.input();
        let mut left = self.outbox.sends().len();
        for send in self.outbox.sends() {
            left -= 1;
            let port = self.nodes[id].port(send.face);
            let fits = |bytes: usize| match port {
                Some(Port::Channel(channel)) => self.channels[channel as usize].fits(bytes),
                _ => true,
            };
            let is_input = matches!(send.body, Body::Input) && range == (0..input.len());
            // A packet without a new link header goes on without a copy.
            let unchanged = match (&send.body, &input) {
                _ if !send.header.is_empty() => None,
                (Body::Cached(packet), _) => {
                    fits(packet.len()).then(|| Frame::Shared(packet.clone()))
                }
                (Body::Input, Frame::Shared(packet)) if is_input && fits(packet.len()) => {
                    Some(Frame::Shared(packet.clone()))
                }
                (Body::Input, bytes) if is_input && left == 0 && fits(bytes.len()) => {
                    Some(std::mem::take(&mut input))
                }
                _ => None,
            };
            let packet = input.get(range.clone()).unwrap_or_default();
            match port {
                Some(Port::Channel(channel)) => {
                    let channel = &mut self.channels[channel as usize];
                    match unchanged {
                        Some(frame) => {
                            channel.send_frame(self.now, frame, &mut self.events, &mut self.frames)
                        }
                        None => {
                            channel.send(self.now, send, packet, &mut self.events, &mut self.frames)
                        }
                    }
                }
                Some(Port::App(app)) => {
                    let frame = unchanged.unwrap_or_else(|| {
                        let packet = send.packet(packet);
                        let mut frame = Vec::with_capacity(packet.len() + 64);
                        encode_lp(&send.header, packet, &mut frame);
                        frame.into()
                    });
                    self.events.plan(
                        self.now,
                        Event::Deliver {
                            app,
                            frame: self.frames.put(frame),
                        },
                    );
                }
                None => {}
            }
        }
        // The frames hold copies by now. Requests to open sockets are dropped: a simulation has no
        // sockets.
        self.outbox.drain();
        self.outbox.drain_requests();
        self.plan_wake(id);
    }

    fn plan_wake(&mut self, id: usize) {
        let node = &mut self.nodes[id];
        if let Some(at) = node.forwarder.next_timeout()
            && at < node.wake
        {
            node.wake = at.max(self.now);
            self.events.plan(node.wake, Event::Wake { node: id as u32 });
        }
    }
}
