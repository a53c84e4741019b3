//! `cs`: the Content Store (NFD wiki, "Content Store Management").
//!
//! The protocol counts its capacity in packets, Larder in bytes: a packet counts as
//! [`NOMINAL_PACKET_BYTES`] here, and elements of Larder's own, which NFD's clients skip, say the
//! bytes. Larder's own, too: a policy spec in `cs/config`, under which what is stored stays stored,
//! `cs/query` and `cs/prefixes`.
//!
//! A `cs/erase` erases everything under the prefix in the second tier, whatever its Count, which is
//! of memory: the tier does not know how much it has there. The answer comes when no restart brings
//! it back.

use super::{Content, Refusal, Reply, Request, ShardQuery, require};
use crate::control::erasure::Erasure;
use crate::forwarder::Forwarder;
use crate::limits::{DATASET_BYTES, NOMINAL_PACKET_BYTES};
use crate::outbox::Outbox;
use crate::tables::content_store::Entry;
use larder_packet::mgmt::{CsInfo, CsObject, CsPrefix};
use larder_packet::tlv::Tlv;
use larder_packet::types::nfd::{FLAG_CS_ADMIT, FLAG_CS_SERVE};
use larder_packet::{ControlParameters, DecodeError, Name, NameRef, types};
use larder_policy::SpecError;
use larder_units::{ByteSize, Time};

/// The smallest entry of `cs/query`, a TLV with a name, a size, an age and hits, but for the name's
/// value.
const LEAST_OBJECT_BYTES: usize = 12;

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
    let store = &forwarder.content_store;
    let admits = parameters.flag(FLAG_CS_ADMIT).unwrap_or(store.admits);
    let serves = parameters.flag(FLAG_CS_SERVE).unwrap_or(store.serves);
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

pub(super) fn erase(forwarder: &mut Forwarder, request: &Request<'_>, out: &mut Outbox) -> Result<Reply, Refusal> {
    let prefix = require(request.parameters.name.clone(), "Name")?;
    let most = request.parameters.count.unwrap_or(u64::MAX);
    if most == 0 {
        return Err((400, "the Count must be positive".to_owned()));
    }
    forwarder.may_ask()?;
    let so_far = Erasure { prefix, most, erased: 0, more: false };
    if let Some(tier) = &mut forwarder.tier {
        // First: what is read from there until the shards have erased theirs is judged by it.
        tier.host.erase(so_far.prefix.as_name());
    }
    let (erased, more) =
        forwarder.content_store.erase(request.now, request.from, so_far.prefix.as_name(), so_far.left());
    let erasure = so_far.with(erased, more);
    let (from, command) = (request.from, request.interest.name);
    let Some(done) = forwarder.ask_next_to_erase(from, command, 0, erasure, out) else { return Ok(Reply::Later) };
    let Some(done) = forwarder.settle(from, command, done, out) else { return Ok(Reply::Later) };
    Ok(Reply::Done(done.answer()))
}

pub(super) fn info(forwarder: &Forwarder, _: Time, _: NameRef<'_>, content: &mut Content) -> Result<(), Refusal> {
    content.push(&information(forwarder))
}

/// Larder's own: what is stored under the prefix that the last component of the dataset's name
/// holds, a Name; all where there is none.
pub(super) fn query(forwarder: &Forwarder, now: Time, name: NameRef<'_>, content: &mut Content) -> Result<(), Refusal> {
    let prefix = queried(name).map_err(|error| (400, format!("malformed prefix: {error}")))?;
    let mut objects = forwarder.stored_under(now, prefix.as_name());
    objects.extend(forwarder.stored_by_others());
    objects.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    objects.iter().try_for_each(|object| content.push(object))
}

/// What the other shards are asked for it.
pub(super) fn stored(name: NameRef<'_>) -> Option<ShardQuery> {
    queried(name).ok().map(ShardQuery::Stored)
}

fn queried(name: NameRef<'_>) -> Result<Name, DecodeError> {
    let Some(argument) = name.component(super::PREFIX_COMPONENTS) else { return Ok(Name::root()) };
    let element = Tlv::only(argument.value, types::NAME)?;
    NameRef::from_value(element.value).map(|name| name.to_name())
}

impl Forwarder {
    /// In no order. Of more than a dataset can tell, so many that it is refused.
    pub(super) fn stored_under(&self, now: Time, prefix: NameRef<'_>) -> Vec<CsObject> {
        let mut bytes = 0;
        let entries = self.content_store.under(prefix).take_while(|entry| {
            let fits = bytes <= DATASET_BYTES;
            bytes += LEAST_OBJECT_BYTES + entry.name_bytes().len();
            fits
        });
        let object = |entry: &Entry| CsObject {
            name: entry.name().to_name(),
            bytes: entry.packet_bytes() as u64,
            age: now.since(entry.stored),
            fresh: (entry.fresh_until > now).then(|| entry.fresh_until.since(now)),
            hits: entry.hits.into(),
        };
        entries.map(object).collect()
    }
}

/// Larder's own: hits and misses by prefix, where the host counts them
/// ([`Forwarder::set_figures_by_prefix`]).
pub(super) fn prefixes(forwarder: &Forwarder, _: Time, _: NameRef<'_>, content: &mut Content) -> Result<(), Refusal> {
    if forwarder.figures_by_prefix.is_none() {
        return Err((404, "nothing is counted by prefix: set [ndn] count_by in the configuration".to_owned()));
    }
    forwarder.figures_by_prefix_of_all().iter().try_for_each(|figures| {
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
    let stats = forwarder.stats_of_all();
    let capacity = forwarder.capacity.bytes();
    let tier = forwarder.tier.as_ref().map(|tier| tier.host.figures());
    CsInfo {
        capacity: capacity / NOMINAL_PACKET_BYTES,
        flags: u64::from(store.admits) * FLAG_CS_ADMIT + u64::from(store.serves) * FLAG_CS_SERVE,
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
