//! `fib`: next hops that a command adds to the FIB, beside those that the RIB computes (NFD wiki,
//! "FIB Management").
//!
//! The RIB holds such a next hop as a route with an origin of its own. `rib/list` does not list it,
//! and longer prefixes do not inherit it.

use super::managed_forwarder::ManagedForwarder;
use super::{Content, Refusal, Reply, Request, require, rib};
use crate::outbox::Outbox;
use crate::tables::rib::{ORIGIN_FIB, Route};
use larder_packet::mgmt::{FibEntry, NextHopRecord};
use larder_packet::{ControlParameters, NameRef};
use larder_units::Time;

pub(super) fn add_next_hop(
    forwarder: &mut ManagedForwarder<'_>,
    request: &Request<'_>,
    _: &mut Outbox,
) -> Result<Reply, Refusal> {
    let prefix = require(request.parameters.name.clone(), "Name")?;
    let (face, cost) = (request.face(), request.parameters.cost.unwrap_or(0));
    let route = Route {
        face,
        origin: ORIGIN_FIB,
        cost,
        flags: 0,
        expires: None,
    };
    forwarder.add_route(&prefix, route).map_err(rib::refused)?;
    Ok(Reply::Done(ControlParameters {
        name: Some(prefix),
        face_id: Some(face.0),
        cost: Some(cost),
        ..ControlParameters::default()
    }))
}

pub(super) fn remove_next_hop(
    forwarder: &mut ManagedForwarder<'_>,
    request: &Request<'_>,
    _: &mut Outbox,
) -> Result<Reply, Refusal> {
    let prefix = require(request.parameters.name.clone(), "Name")?;
    let face = request.face();
    forwarder.remove_route(&prefix, face, ORIGIN_FIB);
    Ok(Reply::Done(ControlParameters {
        name: Some(prefix),
        face_id: Some(face.0),
        ..ControlParameters::default()
    }))
}

pub(super) fn list(
    forwarder: &ManagedForwarder<'_>,
    _: Time,
    _: NameRef<'_>,
    content: &mut Content,
) -> Result<(), Refusal> {
    forwarder.next_hops(&mut |name, next_hops| {
        let records = next_hops.iter().map(|hop| NextHopRecord {
            face_id: hop.face.0,
            cost: hop.cost,
        });
        content.push(&FibEntry {
            name,
            next_hops: records.collect(),
        })
    })
}
