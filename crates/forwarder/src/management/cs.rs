//! `cs`: the Content Store (NFD wiki, "Content Store Management").
//!
//! The protocol counts its capacity in packets, Larder in bytes: a packet counts as [`NOMINAL_PACKET_BYTES`] here, and elements of Larder's
//! own, which NFD's clients skip, say the bytes.

use super::{Content, Refusal, Reply, Request, require};
use crate::forwarder::Forwarder;
use crate::limits::{ERASE_AT_ONCE, NOMINAL_PACKET_BYTES};
use crate::outbox::Outbox;
use larder_packet::mgmt::CsInfo;
use larder_packet::types::nfd::{FLAG_CS_ADMIT, FLAG_CS_SERVE};
use larder_packet::{ControlParameters, NameRef};
use larder_units::{ByteSize, Time};

pub(super) fn config(forwarder: &mut Forwarder, request: &Request<'_>, _: &mut Outbox) -> Result<Reply, Refusal> {
    let parameters = &request.parameters;
    let store = &mut forwarder.content_store;
    let of_packets = parameters.capacity.map(|packets| packets.saturating_mul(NOMINAL_PACKET_BYTES));
    if let Some(bytes) = parameters.capacity_bytes.or(of_packets) {
        store.set_capacity(ByteSize::from_bytes(bytes));
    }
    if let Some(admit) = parameters.flag(FLAG_CS_ADMIT) {
        store.admits = admit;
    }
    if let Some(serve) = parameters.flag(FLAG_CS_SERVE) {
        store.serves = serve;
    }
    let info = information(forwarder);
    Ok(Reply::Done(ControlParameters {
        capacity: Some(info.capacity),
        flags: Some(info.flags),
        capacity_bytes: info.capacity_bytes,
        policy: info.policy,
        ..ControlParameters::default()
    }))
}

pub(super) fn erase(forwarder: &mut Forwarder, request: &Request<'_>, _: &mut Outbox) -> Result<Reply, Refusal> {
    let prefix = require(request.parameters.name.clone(), "Name")?;
    let most = request.parameters.count.unwrap_or(u64::MAX);
    if most == 0 {
        return Err((400, "the Count must be positive".to_owned()));
    }
    let (erased, more) = forwarder.content_store.erase(prefix.as_name(), most.min(ERASE_AT_ONCE) as usize);
    Ok(Reply::Done(ControlParameters {
        name: Some(prefix),
        count: Some(erased as u64),
        // It tells the client to ask again.
        capacity: (more && most > ERASE_AT_ONCE).then_some(ERASE_AT_ONCE),
        ..ControlParameters::default()
    }))
}

pub(super) fn info(forwarder: &Forwarder, _: Time, _: NameRef<'_>, content: &mut Content) -> Result<(), Refusal> {
    content.push(&information(forwarder))
}

fn information(forwarder: &Forwarder) -> CsInfo {
    let store = &forwarder.content_store;
    let engine = store.engine();
    let capacity = engine.capacity().bytes();
    CsInfo {
        capacity: capacity / NOMINAL_PACKET_BYTES,
        flags: u64::from(store.admits) * FLAG_CS_ADMIT + u64::from(store.serves) * FLAG_CS_SERVE,
        entries: engine.len() as u64,
        hits: store.counters.hits,
        misses: store.counters.misses,
        capacity_bytes: Some(capacity),
        used_bytes: Some(engine.used().bytes()),
        policy: Some(engine.spec().to_string()),
    }
}
