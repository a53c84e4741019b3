//! Readvertisement: tells the routing daemon of this machine, NLSR or `ndnd dv`, which prefixes
//! applications have registered here, so that other nodes have routes to them.
//!
//! The protocol is the one that NFD uses with NLSR: the commands `rib/register` and
//! `rib/unregister` under `/localhost/nlsr`, which the daemon answers with a ControlResponse. The
//! commands are ordinary Interests that management sends, so they go where the daemon has
//! registered `/localhost/nlsr`. `control/readvertise.rs` says which, and when.
//!
//! They are signed by a digest. The daemons accept every signature here, because only programs of
//! this machine can send Interests under `/localhost`.

use crate::control::readvertise::{PARAMETERS, command_name};
use crate::control_plane::ControlPlane;
use crate::data_plane::DataPlane;
use crate::face::FaceId;
use crate::limits::READVERTISE_LIFETIME;
use crate::outbox::Outbox;
use crate::pipeline::incoming_interest::on_incoming_interest;
use crate::pipeline::link_service::Arrival;
use crate::tables::name_hash::Hashed;
use bytes::Bytes;
use larder_packet::{
    ControlParameters, ControlResponse, Data, DigestSigner, Interest, InterestBuilder, LpHeader,
    Name, SignatureFreshness, types,
};
use larder_units::Time;

/// Sends the commands that are due.
pub(crate) fn send_commands(
    plane: &mut DataPlane,
    control: &mut ControlPlane,
    now: Time,
    out: &mut Outbox,
) {
    let readvertise = &mut control.management.readvertise;
    while let Some((prefix, cost)) = readvertise.next(now) {
        let packet = Bytes::from(command(plane, now, &prefix, cost));
        let Ok(interest) = Interest::decode(&packet) else {
            return;
        };
        let hash = plane.hash_of(interest.name);
        readvertise.sent(now, &prefix, hash);
        let arrival = Arrival::internal(now, &LpHeader::EMPTY, packet.clone());
        // A drop is counted below. The command is repeated as if it had got no answer.
        if let Err(dropped) =
            on_incoming_interest(plane, &arrival, &interest, hash, Hashed::default(), out)
        {
            plane.count_drop(FaceId::INTERNAL, dropped.reason);
        }
    }
}

fn command(plane: &mut DataPlane, now: Time, prefix: &Name, cost: Option<u64>) -> Vec<u8> {
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
    let signature_nonce = plane.nonces.bits().to_be_bytes();
    let time = Some(plane.unix_millis(now));
    let freshness = SignatureFreshness {
        nonce: Some(&signature_nonce),
        time,
        seq_num: None,
    };
    InterestBuilder::new(name)
        .must_be_fresh(true)
        .nonce(plane.nonces.bits() as u32)
        .lifetime(READVERTISE_LIFETIME)
        .application_parameters(&[])
        .sign(&DigestSigner, freshness)
        .unwrap_or_default() // a digest needs no key and never fails
}

/// Takes Data for management: the daemon's answer to a command.
pub(super) fn on_answer(plane: &DataPlane, control: &mut ControlPlane, now: Time, data: &Data<'_>) {
    let parameters = data
        .name
        .component(PARAMETERS)
        .filter(|part| part.typ == types::GENERIC_NAME_COMPONENT);
    let Some(Ok(parameters)) = parameters.map(|part| ControlParameters::decode(part.value)) else {
        return;
    };
    let Some(prefix) = parameters.name else {
        return;
    };
    // Codes below 400 are no errors: NLSR says 204 for a prefix that it advertises already.
    let is_accepted =
        ControlResponse::decode(data.content).is_ok_and(|response| response.status_code < 400);
    let hash = plane.hash_of(data.name);
    control
        .management
        .readvertise
        .answered(now, &prefix, hash, is_accepted);
}
