//! `rib`: routes that applications register, and prefix announcements (NFD wiki, "RIB Management").
//!
//! A remote application (`/localhop/nfd`) registers routes to its own face only, and neither `/`
//! nor a local prefix.

use super::managed_forwarder::ManagedForwarder;
use super::{Content, Refusal, Reply, Request, require};
use crate::face::FaceId;
use crate::limits::LARGEST_ORIGIN;
use crate::outbox::Outbox;
use crate::tables::rib::{CHILD_INHERIT, ORIGIN_FIB, Route, RouteError};
use larder_packet::mgmt::{PrefixAnnouncement, RibEntry, RouteRecord};
use larder_packet::{ControlParameters, Data, Name, NameRef};
use larder_units::Time;
use std::time::Duration;

/// The origin of the route of a prefix announcement.
const ORIGIN_ANNOUNCEMENT: u64 = 129;
/// The cost of the route of a prefix announcement, as in NFD: above the cost of ordinary routes.
const ANNOUNCEMENT_COST: u64 = 2048;
/// The smallest ExpirationPeriod that means "never". NFD counts milliseconds in 63 bits, and its
/// largest number means that the route does not expire.
const NEVER: Duration = Duration::from_millis(i64::MAX as u64);

pub(super) fn register(
    forwarder: &mut ManagedForwarder<'_>,
    request: &Request<'_>,
    _: &mut Outbox,
) -> Result<Reply, Refusal> {
    let (prefix, face) = prefix_and_face(request)?;
    let ControlParameters {
        origin,
        cost,
        flags,
        expiration,
        ..
    } = request.parameters;
    let route = Route {
        face,
        origin: origin_of(origin)?,
        cost: cost.unwrap_or(0),
        flags: flags.unwrap_or(CHILD_INHERIT),
        expires: expiration.and_then(|period| expiry(request.now, period)),
    };
    add(forwarder, request.now, prefix, route)
}

pub(super) fn unregister(
    forwarder: &mut ManagedForwarder<'_>,
    request: &Request<'_>,
    _: &mut Outbox,
) -> Result<Reply, Refusal> {
    let (prefix, face) = prefix_and_face(request)?;
    let origin = origin_of(request.parameters.origin)?;
    forwarder.remove_route(&prefix, face, origin);
    Ok(Reply::Done(ControlParameters {
        name: Some(prefix),
        face_id: Some(face.0),
        origin: Some(origin),
        ..ControlParameters::default()
    }))
}

/// Adds the route of a prefix announcement, which is a Data in the ApplicationParameters. The next
/// hop is the face that sent the command (NFD wiki, "PrefixAnnouncement").
pub(super) fn announce(
    forwarder: &mut ManagedForwarder<'_>,
    request: &Request<'_>,
    _: &mut Outbox,
) -> Result<Reply, Refusal> {
    let malformed = |error: larder_packet::DecodeError| {
        (400, format!("malformed prefix announcement: {error}"))
    };
    let wire = require(
        request.interest.application_parameters,
        "prefix announcement",
    )?;
    let data = Data::decode(wire).map_err(malformed)?;
    let PrefixAnnouncement { prefix, expiration } =
        PrefixAnnouncement::of_data(&data).map_err(malformed)?;
    check_prefix(request, &prefix)?;
    let route = Route {
        face: request.from,
        origin: ORIGIN_ANNOUNCEMENT,
        cost: ANNOUNCEMENT_COST,
        flags: CHILD_INHERIT,
        expires: expiry(request.now, expiration),
    };
    add(forwarder, request.now, prefix, route)
}

/// Returns the time at which a route with this ExpirationPeriod ends, if it ends.
fn expiry(now: Time, period: Duration) -> Option<Time> {
    // The clock ends after 584 years. A route with a later end does not expire.
    Some(now + period).filter(|end| period < NEVER && *end < Time::MAX)
}

fn add(
    forwarder: &mut ManagedForwarder<'_>,
    now: Time,
    prefix: Name,
    route: Route,
) -> Result<Reply, Refusal> {
    let body = ControlParameters {
        face_id: Some(route.face.0),
        origin: Some(route.origin),
        cost: Some(route.cost),
        flags: Some(route.flags),
        expiration: route.expires.map(|at| at.since(now)),
        ..ControlParameters::default()
    };
    forwarder.add_route(&prefix, route).map_err(refused)?;
    Ok(Reply::Done(ControlParameters {
        name: Some(prefix),
        ..body
    }))
}

/// Returns the prefix and the next hop of a command, if its sender may use them.
fn prefix_and_face(request: &Request<'_>) -> Result<(Name, FaceId), Refusal> {
    let prefix = require(request.parameters.name.clone(), "Name")?;
    check_prefix(request, &prefix)?;
    let face = request.face();
    if request.local || face == request.from {
        Ok((prefix, face))
    } else {
        Err((
            403,
            "a remote application registers for its own face only".to_owned(),
        ))
    }
}

/// Refuses `/` and local prefixes to remote applications: these routes would redirect all traffic,
/// or traffic that must stay on this machine or link.
fn check_prefix(request: &Request<'_>, prefix: &Name) -> Result<(), Refusal> {
    let first = prefix.as_name().component(0);
    let reserved =
        first.is_none_or(|first| first.value == b"localhost" || first.value == b"localhop");
    if reserved && !request.local {
        Err((
            403,
            "a remote application registers neither / nor a local prefix".to_owned(),
        ))
    } else {
        Ok(())
    }
}

fn origin_of(origin: Option<u64>) -> Result<u64, Refusal> {
    let origin = origin.unwrap_or(0);
    if origin > LARGEST_ORIGIN {
        Err((400, format!("{origin} is no origin of a route")))
    } else {
        Ok(origin)
    }
}

/// Returns the refusal for an error of the RIB.
pub(super) fn refused(error: RouteError) -> Refusal {
    let code = match error {
        RouteError::NoFace(_) => 410,
        RouteError::TooLong => 414,
        RouteError::Full => 507,
    };
    (code, error.to_string())
}

pub(super) fn list(
    forwarder: &ManagedForwarder<'_>,
    now: Time,
    _: NameRef<'_>,
    content: &mut Content,
) -> Result<(), Refusal> {
    forwarder.routes(&mut |name, routes| {
        let record = |route: &Route| RouteRecord {
            face_id: route.face.0,
            origin: route.origin,
            cost: route.cost,
            flags: route.flags,
            expiration: route.expires.map(|at| at.since(now)),
        };
        let routes: Vec<_> = routes
            .iter()
            .filter(|route| route.origin != ORIGIN_FIB)
            .map(record)
            .collect();
        if routes.is_empty() {
            Ok(())
        } else {
            content.push(&RibEntry { name, routes })
        }
    })
}
