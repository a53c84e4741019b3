//! Readvertisement: tells the routing daemon of this machine, NLSR or `ndnd dv`, which prefixes
//! applications have registered here, so that other nodes have routes to them.
//!
//! The protocol is the one that NFD uses with NLSR: the commands `rib/register` and
//! `rib/unregister` under `/localhost/nlsr`, which the daemon answers with a ControlResponse. The
//! commands are ordinary Interests that management sends, so they go where the daemon has
//! registered `/localhost/nlsr`. `control/readvertise.rs` says when.
//!
//! They are signed by a digest. The daemons accept every signature here, because only programs of
//! this machine can send Interests under `/localhost`.

use crate::face::FaceId;
use crate::forwarder::Forwarder;
use crate::limits::READVERTISE_LIFETIME;
use crate::local_names::{is_localhop, is_localhost, is_routing_daemon};
use crate::outbox::Outbox;
use crate::pipeline::link_service::Arrival;
use crate::tables::name_hash::Hashed;
use crate::tables::rib::{FibUpdate, Route};
use bytes::Bytes;
use larder_packet::{
    ControlParameters, ControlResponse, Data, DigestSigner, Interest, InterestBuilder, LpHeader,
    Name, NameRef, SignatureFreshness, types,
};
use larder_units::Time;

/// The origins of routes that are advertised: an application, and a client (NFD management
/// protocol, "Route origins"). Others are the operator's, or come from routing itself.
const ADVERTISED_ORIGINS: [u64; 2] = [0, 65];

/// The position of the ControlParameters in a command's name, after `/localhost/nlsr/rib/VERB`.
const PARAMETERS: usize = 4;

/// The least components of a route to the daemon. A default route does not lead to it.
const DAEMON_COMPONENTS: usize = 2;

impl Forwarder {
    /// Advertises the prefixes of applications to the routing daemon of this machine, or withdraws
    /// them.
    pub fn set_readvertise(&mut self, is_on: bool) {
        self.control.management.readvertise.is_on = is_on;
        self.find_routing_daemon();
        self.readvertise_all();
    }

    /// Notes which of these prefixes are to be advertised now. The routes have changed already.
    pub(crate) fn note_readvertised(&mut self, updates: &[FibUpdate]) {
        if self.control.management.readvertise.is_unused() {
            return;
        }
        if updates
            .iter()
            .any(|update| is_routing_daemon(update.prefix.as_name()))
            && self.find_routing_daemon()
        {
            // Routes to the daemon itself are not advertised.
            self.readvertise_all();
            return;
        }
        for update in updates {
            self.note_prefix(&update.prefix);
        }
    }

    fn readvertise_all(&mut self) {
        let mut names = self.control.management.readvertise.names();
        for (prefix, _) in self.control.rib.iter() {
            names.push(prefix.clone());
        }
        for name in names {
            self.note_prefix(&name);
        }
    }

    fn note_prefix(&mut self, prefix: &Name) {
        let cost = self.advertised_cost(prefix.as_name(), self.control.rib.of(prefix));
        self.control
            .management
            .readvertise
            .set(self.control.clock, prefix, cost);
    }

    /// Returns the cost to advertise, or `None` if the prefix is not to be advertised.
    fn advertised_cost(&self, prefix: NameRef<'_>, routes: &[Route]) -> Option<u64> {
        let readvertise = &self.control.management.readvertise;
        if !readvertise.is_on || is_localhost(prefix) || is_localhop(prefix) {
            return None;
        }
        let mut least: Option<u64> = None;
        for route in routes {
            if ADVERTISED_ORIGINS.contains(&route.origin) && !readvertise.is_daemon(route.face) {
                least = Some(least.map_or(route.cost, |least| least.min(route.cost)));
            }
        }
        least
    }

    /// Finds the faces that lead to the daemon. Returns true if they have changed.
    fn find_routing_daemon(&mut self) -> bool {
        let name = command_name("register");
        let mut faces = Vec::new();
        for components in (DAEMON_COMPONENTS..=PARAMETERS).rev() {
            // The prefix's own routes: a default route that it inherits is not the daemon's.
            for route in self
                .control
                .rib
                .of(&name.as_name().prefix(components).to_name())
            {
                if !faces.contains(&route.face)
                    && self
                        .data
                        .faces
                        .get(route.face)
                        .is_some_and(|face| face.is_local())
                {
                    faces.push(route.face);
                }
            }
            if !faces.is_empty() {
                break;
            }
        }
        self.control
            .management
            .readvertise
            .set_daemon(self.control.clock, faces)
    }

    /// Sends the commands that are due.
    pub(crate) fn readvertise(&mut self, now: Time, out: &mut Outbox) {
        while let Some((prefix, cost)) = self.control.management.readvertise.next(now) {
            let packet = Bytes::from(self.readvertise_command(now, &prefix, cost));
            let Ok(interest) = Interest::decode(&packet) else {
                return;
            };
            let hash = self.hash_of(interest.name);
            self.control.management.readvertise.sent(now, &prefix, hash);
            let arrival = Arrival::internal(now, &LpHeader::EMPTY, packet.clone());
            // A drop is counted below. The command is repeated as if it had got no answer.
            if let Err(dropped) =
                self.on_incoming_interest(&arrival, &interest, hash, Hashed::default(), out)
            {
                self.count_drop(FaceId::INTERNAL, dropped.reason);
            }
        }
    }

    fn readvertise_command(&mut self, now: Time, prefix: &Name, cost: Option<u64>) -> Vec<u8> {
        let mut name = command_name(if cost.is_some() {
            "register"
        } else {
            "unregister"
        });
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            cost,
            ..ControlParameters::default()
        };
        name.push_generic(&parameters.encode());
        let signature_nonce = self.data.nonces.bits().to_be_bytes();
        let time = Some(self.unix_millis(now));
        let freshness = SignatureFreshness {
            nonce: Some(&signature_nonce),
            time,
            seq_num: None,
        };
        InterestBuilder::new(name)
            .must_be_fresh(true)
            .nonce(self.data.nonces.bits() as u32)
            .lifetime(READVERTISE_LIFETIME)
            .application_parameters(&[])
            .sign(&DigestSigner, freshness)
            .unwrap_or_default() // a digest needs no key and never fails
    }

    /// Takes Data for management: the daemon's answer to a command.
    #[cold]
    pub(crate) fn on_readvertise_answer(&mut self, now: Time, data: &Data<'_>) {
        let parameters = data
            .name
            .component(PARAMETERS)
            .filter(|part| part.typ == types::GENERIC_NAME_COMPONENT);
        let Some(Ok(parameters)) = parameters.map(|part| ControlParameters::decode(part.value))
        else {
            return;
        };
        let Some(prefix) = parameters.name else {
            return;
        };
        // Codes below 400 are no errors: NLSR says 204 for a prefix that it advertises already.
        let is_accepted =
            ControlResponse::decode(data.content).is_ok_and(|response| response.status_code < 400);
        let hash = self.hash_of(data.name);
        self.control
            .management
            .readvertise
            .answered(now, &prefix, hash, is_accepted);
    }
}

/// Returns `/localhost/nlsr/rib/VERB`.
fn command_name(verb: &str) -> Name {
    let mut name = Name::root();
    for part in ["localhost", "nlsr", "rib", verb] {
        name.push_generic(part.as_bytes());
    }
    name
}
