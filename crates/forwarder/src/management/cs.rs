//! `cs`: the Content Store (NFD wiki, "Content Store Management").
//!
//! The protocol counts capacity in packets, and Larder counts bytes. A packet counts as
//! [`NOMINAL_PACKET_BYTES`] here. Elements of Larder's own, which NFD's clients skip, hold the
//! bytes. Larder's own are also the policy spec in `cs/config` (stored Data stays stored under the
//! new policy), `cs/query` and `cs/prefixes`.
//!
//! The Count of a `cs/erase` limits what is erased from memory. The second tier erases everything
//! under the prefix, because it does not know how much it has there. The response comes when a
//! restart can no longer bring the Data back.

use super::managed_forwarder::ManagedForwarder;
use super::{Content, Refusal, Reply, Request, ShardQuery, require};
use crate::control::erasure::Erasure;
use crate::limits::NOMINAL_PACKET_BYTES;
use crate::outbox::Outbox;
use larder_packet::mgmt::{CsInfo, CsPrefix};
use larder_packet::tlv::Tlv;
use larder_packet::types::nfd::{FLAG_CS_ADMIT, FLAG_CS_SERVE};
use larder_packet::{ControlParameters, DecodeError, Name, NameRef, types};
use larder_policy::SpecError;
use larder_units::{ByteSize, Time};

pub(super) fn config(
    forwarder: &mut ManagedForwarder<'_>,
    request: &Request<'_>,
    _: &mut Outbox,
) -> Result<Reply, Refusal> {
    request.check_mask()?;
    let parameters = &request.parameters;
    let of_packets = parameters
        .capacity
        .map(|packets| packets.saturating_mul(NOMINAL_PACKET_BYTES));
    let capacity = parameters
        .capacity_bytes
        .or(of_packets)
        .map(ByteSize::from_bytes);
    match &parameters.policy {
        Some(text) => {
            let refused = |error: SpecError| (406, format!("policy {text}: {error}"));
            let spec = text.parse().map_err(refused)?;
            forwarder
                .set_policy(request.now, &spec, capacity)
                .map_err(refused)?;
        }
        None => capacity
            .into_iter()
            .for_each(|capacity| forwarder.set_capacity(request.now, capacity)),
    }
    let (admits, serves) = forwarder.serving();
    let admits = parameters.flag(FLAG_CS_ADMIT).unwrap_or(admits);
    let serves = parameters.flag(FLAG_CS_SERVE).unwrap_or(serves);
    forwarder.set_serving(admits, serves);
    let info = information(forwarder);
    Ok(Reply::Done(ControlParameters {
        capacity: Some(info.capacity),
        flags: Some(info.flags),
        capacity_bytes: info.capacity_bytes,
        policy: info.policy,
        ..ControlParameters::default()
    }))
}

pub(super) fn erase(
    forwarder: &mut ManagedForwarder<'_>,
    request: &Request<'_>,
    out: &mut Outbox,
) -> Result<Reply, Refusal> {
    let prefix = require(request.parameters.name.clone(), "Name")?;
    let most = request.parameters.count.unwrap_or(u64::MAX);
    if most == 0 {
        return Err((400, "the Count must be positive".to_owned()));
    }
    let erasure = Erasure {
        prefix,
        most,
        erased: 0,
        more: false,
    };
    let done = forwarder.erase(
        request.now,
        request.from,
        request.interest.name,
        erasure,
        out,
    )?;
    Ok(done.map_or(Reply::Later, |done| Reply::Done(done.answer())))
}

pub(super) fn info(
    forwarder: &ManagedForwarder<'_>,
    _: Time,
    _: NameRef<'_>,
    content: &mut Content,
) -> Result<(), Refusal> {
    content.push(&information(forwarder))
}

/// Larder's own dataset: the stored objects under a prefix. The last component of the dataset's
/// name holds the prefix, a Name; without it, the dataset has every object.
pub(super) fn query(
    forwarder: &ManagedForwarder<'_>,
    now: Time,
    name: NameRef<'_>,
    content: &mut Content,
) -> Result<(), Refusal> {
    let prefix = queried(name).map_err(|error| (400, format!("malformed prefix: {error}")))?;
    let mut objects = forwarder.stored(now, prefix.as_name());
    objects.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    objects.iter().try_for_each(|object| content.push(object))
}

/// Returns the query of this dataset for the other shards.
pub(super) fn stored(name: NameRef<'_>) -> Option<ShardQuery> {
    queried(name).ok().map(ShardQuery::Stored)
}

fn queried(name: NameRef<'_>) -> Result<Name, DecodeError> {
    let Some(argument) = name.component(super::PREFIX_COMPONENTS) else {
        return Ok(Name::root());
    };
    let element = Tlv::only(argument.value, types::NAME)?;
    NameRef::from_value(element.value).map(|name| name.to_name())
}

/// Larder's own dataset: hits and misses by prefix, if the host counts them
/// ([`crate::Forwarder::set_figures_by_prefix`]).
pub(super) fn prefixes(
    forwarder: &ManagedForwarder<'_>,
    _: Time,
    _: NameRef<'_>,
    content: &mut Content,
) -> Result<(), Refusal> {
    let Some(prefixes) = forwarder.figures_by_prefix() else {
        return Err((
            404,
            "nothing is counted by prefix: set [ndn] count_by in the configuration".to_owned(),
        ));
    };
    prefixes.iter().try_for_each(|figures| {
        content.push(&CsPrefix {
            name: figures.name().to_name(),
            hits: figures.hits,
            misses: figures.misses,
            overcount: figures.overcount,
        })
    })
}

fn information(forwarder: &ManagedForwarder<'_>) -> CsInfo {
    let stats = forwarder.stats();
    let capacity = forwarder.capacity().bytes();
    let (admits, serves) = forwarder.serving();
    let tier = forwarder.tier();
    CsInfo {
        capacity: capacity / NOMINAL_PACKET_BYTES,
        flags: u64::from(admits) * FLAG_CS_ADMIT + u64::from(serves) * FLAG_CS_SERVE,
        entries: stats.content_store_entries as u64,
        hits: stats.content_store.hits,
        misses: stats.content_store.misses,
        capacity_bytes: Some(capacity),
        used_bytes: Some(stats.content_store_bytes),
        policy: Some(forwarder.policy().to_string()),
        disk_capacity_bytes: tier.map(|tier| tier.capacity.bytes()),
        disk_used_bytes: tier.map(|tier| tier.used.bytes()),
        disk_entries: tier.map(|tier| tier.entries as u64),
        disk_hits: tier.map(|_| stats.tier.hits),
        disk_misses: tier.map(|_| stats.tier.misses),
    }
}
