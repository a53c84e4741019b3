//! The applications of a simulation, with their faces and timers.

use super::network::Network;
use crate::app::{App, AppId, Received, Sends};
use crate::events::Event;
use crate::frame::Frame;
use crate::node::{NodeId, Port};
use larder_forwarder::{FaceConfig, FaceId};
use larder_packet::LpPacket;
use larder_units::Time;
use std::any::Any;

/// One application at its node.
pub(super) struct AppSlot {
    app: Box<dyn App>,
    pub(super) node: NodeId,
    pub(super) face: FaceId,
    /// The time of the planned timer. A timer event with another time is void.
    timer: Option<Time>,
}

/// The applications by number.
#[derive(Default)]
pub(super) struct AppTable {
    slots: Vec<AppSlot>,
    /// The packets that the running application sends; kept for its capacity.
    sends: Sends,
}

impl AppTable {
    /// Adds an application; see [`super::Simulation::add_app`].
    pub(super) fn add(&mut self, network: &mut Network, node: NodeId, app: Box<dyn App>) -> AppId {
        let id = AppId(self.slots.len() as u32);
        let config = FaceConfig::local(format!("app://{}", id.0));
        let face = network.nodes[node.0 as usize].add_face(config, Port::App(id.0));
        self.slots.push(AppSlot {
            app,
            node,
            face,
            timer: None,
        });
        self.plan_timer(network, id.0);
        id
    }

    /// Returns an application with its node and face.
    pub(super) fn slot(&self, app: AppId) -> &AppSlot {
        &self.slots[app.0 as usize]
    }

    /// Returns an application if it is an `A`.
    pub(super) fn get<A: App>(&self, app: AppId) -> Option<&A> {
        let app: &dyn Any = &*self.slots[app.0 as usize].app;
        app.downcast_ref()
    }

    /// Returns an application if it is an `A`.
    pub(super) fn get_mut<A: App>(&mut self, app: AppId) -> Option<&mut A> {
        let app: &mut dyn Any = &mut *self.slots[app.0 as usize].app;
        app.downcast_mut()
    }

    /// The bytes that all applications keep.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.slots.iter().map(|slot| slot.app.kept_bytes()).sum()
    }

    /// Gives a frame to an application.
    pub(super) fn deliver(&mut self, network: &mut Network, app: u32, frame: u32) {
        let frame = network.frames.take(frame);
        let Ok(LpPacket {
            header,
            fragment: Some(packet),
            ..
        }) = LpPacket::decode(&frame)
        else {
            return;
        };
        self.call(network, app, |app, now, sends| {
            app.on_packet(now, &Received { header, packet }, sends)
        });
    }

    /// Runs an application's timer.
    pub(super) fn on_timer(&mut self, network: &mut Network, app: u32) {
        let slot = &mut self.slots[app as usize];
        if slot.timer == Some(network.now) {
            slot.timer = None;
            self.call(network, app, |app, now, sends| app.on_timer(now, sends));
        }
    }

    /// Calls an application, gives what it sends to its forwarder, and plans its next timer.
    fn call(
        &mut self,
        network: &mut Network,
        app: u32,
        act: impl FnOnce(&mut dyn App, Time, &mut Sends),
    ) {
        let slot = &mut self.slots[app as usize];
        act(&mut *slot.app, network.now, &mut self.sends);
        for packet in self.sends.drain() {
            network.forward(slot.node, slot.face, Frame::sent(packet));
        }
        self.plan_timer(network, app);
    }

    fn plan_timer(&mut self, network: &mut Network, app: u32) {
        let slot = &mut self.slots[app as usize];
        let next = slot.app.next_timer().map(|at| at.max(network.now));
        if next != slot.timer {
            slot.timer = next;
            if let Some(at) = next {
                network.events.plan(at, Event::Timer { app });
            }
        }
    }
}
