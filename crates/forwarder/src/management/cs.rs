//! `cs`: the Content Store (NFD wiki, "Content Store Management").
//!
//! The protocol counts its capacity in packets, Larder in bytes: a packet counts as [`NOMINAL_PACKET_BYTES`] here, and elements of Larder's
//! own, which NFD's clients skip, say the bytes. Larder's own, too: a policy spec in `cs/config`, under which what is stored stays stored,
//! `cs/query` and `cs/prefixes`.

use super::{Content, Refusal, Reply, Request, require};
use crate::forwarder::Forwarder;
use crate::limits::{ERASE_AT_ONCE, NOMINAL_PACKET_BYTES};
use crate::outbox::Outbox;
use larder_packet::mgmt::{CsInfo, CsObject, CsPrefix};
use larder_packet::tlv::Tlv;
use larder_packet::types::nfd::{FLAG_CS_ADMIT, FLAG_CS_SERVE};
use larder_packet::{ControlParameters, NameRef, types};
use larder_policy::SpecError;
use larder_units::{ByteSize, Time};

pub(super) fn config(forwarder: &mut Forwarder, request: &Request<'_>, _: &mut Outbox) -> Result<Reply, Refusal> {
    let parameters = &request.parameters;
    let of_packets = parameters.capacity.map(|packets| packets.saturating_mul(NOMINAL_PACKET_BYTES));
    let capacity = parameters.capacity_bytes.or(of_packets).map(ByteSize::from_bytes);
    match &parameters.policy {
        Some(text) => {
            let refused = |error: SpecError| (406, format!("policy {text}: {error}"));
            let spec = text.parse().map_err(refused)?;
            forwarder.set_policy(request.now, &spec, capacity).map_err(refused)?;
        }
        None => capacity.into_iter().for_each(|capacity| forwarder.set_capacity(request.now, capacity)),
    }
    let store = &mut forwarder.content_store;
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

/// Larder's own: what is stored under the prefix that the last component of the dataset's name holds, a Name; all where there is none.
pub(super) fn query(forwarder: &Forwarder, now: Time, name: NameRef<'_>, content: &mut Content) -> Result<(), Refusal> {
    let prefix = match name.component(super::PREFIX_COMPONENTS) {
        Some(argument) => Tlv::only(argument.value, types::NAME)
            .and_then(|element| NameRef::from_value(element.value).map(|_| element.value))
            .map_err(|error| (400, format!("malformed prefix: {error}")))?,
        None => &[],
    };
    let prefix = NameRef::from_value(prefix).unwrap_or_default();
    let mut entries: Vec<_> = forwarder.content_store.under(prefix).collect();
    entries.sort_unstable_by_key(|entry| entry.name());
    for entry in entries {
        content.push(&CsObject {
            name: entry.name().to_name(),
            bytes: entry.packet_bytes() as u64,
            age: now.since(entry.stored),
            fresh: (entry.fresh_until > now).then(|| entry.fresh_until.since(now)),
            hits: entry.hits.into(),
        })?;
    }
    Ok(())
}

/// Larder's own: hits and misses by prefix, where the host counts them ([`Forwarder::set_figures_by_prefix`]).
pub(super) fn prefixes(forwarder: &Forwarder, _: Time, _: NameRef<'_>, content: &mut Content) -> Result<(), Refusal> {
    if forwarder.figures_by_prefix.is_none() {
        return Err((404, "nothing is counted by prefix: set [ndn] count_by in the configuration".to_owned()));
    }
    forwarder.figures_by_prefix(usize::MAX).iter().try_for_each(|figures| {
        content.push(&CsPrefix {
            name: figures.name().to_name(),
            hits: figures.hits,
            misses: figures.misses,
            overcount: figures.overcount,
        })
    })
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
