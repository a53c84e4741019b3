//! `faces`: create, update, destroy and list faces (NFD wiki, "Face Management"). The host owns the
//! sockets. A command that needs a socket sends the host a [`HostRequest`] and waits for its
//! answer.

use super::managed_forwarder::ManagedForwarder;
use super::{Content, Refusal, Reply, Request, refusal, require, respond};
use crate::control::pending_faces::{Pending, PendingFaces};
use crate::data_plane::DataPlane;
use crate::face::{FaceConfig, FaceId, Persistency, Scope};
use crate::limits::{FACES_BEING_CREATED, LEAST_MTU, MAX_PACKET_BYTES};
use crate::outbox::{FaceAnswer, FaceRequest, HostRequest, Outbox};
use crate::stats::FaceStats;
use larder_packet::mgmt::{
    ChannelStatus, Element, FaceQueryFilter, FaceStatus, NewFace, NewFaceResponse,
};
use larder_packet::types::nfd::{FLAG_CONGESTION_MARKING, FLAG_LOCAL_FIELDS, FLAG_LP_RELIABILITY};
use larder_packet::{ControlParameters, ControlResponse, NameRef};
use larder_units::Time;

pub(super) fn create(
    forwarder: &mut ManagedForwarder<'_>,
    request: &Request<'_>,
    out: &mut Outbox,
) -> Result<Reply, Refusal> {
    let parameters = &request.parameters;
    let uri = require(parameters.uri.clone(), "Uri")?;
    request.check_mask()?;
    let persistency = persistency(parameters)?.unwrap_or(Persistency::Persistent);
    if persistency == Persistency::OnDemand {
        return Err((406, "an on-demand face is made by its peer".to_owned()));
    }
    let mtu = mtu(parameters)?;
    let pending = forwarder.pending_faces();
    if pending.commands.len() >= FACES_BEING_CREATED {
        return Err((507, "too many faces are being made".to_owned()));
    }
    let ticket = pending.next_ticket;
    pending.next_ticket += 1;
    pending.commands.insert(
        ticket,
        Pending {
            from: request.from,
            command: request.interest.name.to_name(),
        },
    );
    out.requests.push(HostRequest::CreateFace(FaceRequest {
        ticket,
        uri,
        local_uri: parameters.local_uri.clone(),
        persistency,
        mtu,
        local_fields: parameters.flag(FLAG_LOCAL_FIELDS).unwrap_or(false),
        link_reliability: parameters.flag(FLAG_LP_RELIABILITY).unwrap_or(false),
        congestion_marking: parameters.flag(FLAG_CONGESTION_MARKING).unwrap_or(true),
        base_congestion_marking_interval: parameters.base_congestion_marking_interval,
        default_congestion_threshold: parameters.default_congestion_threshold,
    }));
    Ok(Reply::Later)
}

/// Takes the host's answer to a [`FaceRequest`]. The response to the command is in `out`.
pub(crate) fn on_face_answer(
    plane: &mut DataPlane,
    pending_faces: &mut PendingFaces,
    now: Time,
    ticket: u64,
    answer: FaceAnswer,
    out: &mut Outbox,
) {
    let Some(Pending { from, command }) = pending_faces.commands.remove(&ticket) else {
        return;
    };
    let made = |face: FaceId, status_code: u64, status_text: &str| {
        let body = plane
            .faces
            .get(face)
            .map(|made| new_face(face, &made.config, plane.max_packet_bytes))?;
        Some(
            NewFaceResponse {
                status_code,
                status_text: status_text.to_owned(),
                body,
            }
            .encode(),
        )
    };
    let (code, text, content) = match answer {
        FaceAnswer::Created(face) => (
            504,
            "the face was lost as soon as it was made".to_owned(),
            made(face, 200, "OK"),
        ),
        FaceAnswer::Exists(face) => {
            let text = "a face to that peer is there already";
            (409, text.to_owned(), made(face, 409, text))
        }
        FaceAnswer::Refused(code, text) => (code, text, None),
    };
    let content = content.unwrap_or_else(|| refusal((code, text)).encode());
    respond(plane, now, from, command.as_name(), &content, out);
}

pub(super) fn update(
    forwarder: &mut ManagedForwarder<'_>,
    request: &Request<'_>,
    out: &mut Outbox,
) -> Result<Reply, Refusal> {
    let parameters = &request.parameters;
    request.check_mask()?;
    let id = request.face();
    let Some(config) = forwarder.face(id) else {
        return Err((404, format!("there is no face {id}")));
    };
    let mut config = config.clone();
    let mut wrong = ControlParameters::default();
    if let Some(code) = parameters.face_persistency {
        match Persistency::from_code(code).filter(|wanted| may_be(&config, *wanted)) {
            Some(wanted) => config.persistency = wanted,
            None => wrong.face_persistency = Some(code),
        }
    }
    if let Some(bytes) = parameters.mtu {
        match usable_mtu(bytes).filter(|_| config.mtu.is_some()) {
            Some(usable) => config.mtu = Some(usable),
            None => wrong.mtu = Some(bytes),
        }
    }
    let local_fields = parameters
        .flag(FLAG_LOCAL_FIELDS)
        .unwrap_or(config.local_fields);
    let mut wrong_flags = 0;
    if local_fields && config.scope != Scope::Local {
        wrong_flags |= FLAG_LOCAL_FIELDS;
    }
    let link_reliability = parameters
        .flag(FLAG_LP_RELIABILITY)
        .unwrap_or(config.link_reliability);
    // An Ack would come from one of a group's many receivers.
    if link_reliability && !config.is_point_to_point() {
        wrong_flags |= FLAG_LP_RELIABILITY;
    }
    if wrong_flags != 0 {
        (wrong.flags, wrong.mask) = (Some(wrong_flags), Some(wrong_flags));
    }
    if wrong != ControlParameters::default() {
        let status_text = "these properties cannot be set on this face".to_owned();
        return Ok(Reply::Response(ControlResponse {
            status_code: 409,
            status_text,
            body: Some(wrong),
        }));
    }
    config.local_fields = local_fields;
    config.link_reliability = link_reliability;
    config.congestion_marking = parameters
        .flag(FLAG_CONGESTION_MARKING)
        .unwrap_or(config.congestion_marking);
    if let Some(interval) = parameters.base_congestion_marking_interval {
        config.base_congestion_marking_interval = interval;
    }
    if let Some(bytes) = parameters.default_congestion_threshold {
        config.default_congestion_threshold = bytes;
    }
    let body = properties(id, &config, forwarder.max_packet_bytes());
    forwarder.configure_face(id, config);
    out.requests.push(HostRequest::UpdateFace(id));
    Ok(Reply::Done(body))
}

pub(super) fn destroy(
    forwarder: &mut ManagedForwarder<'_>,
    request: &Request<'_>,
    out: &mut Outbox,
) -> Result<Reply, Refusal> {
    let id = FaceId(require(
        request.parameters.face_id.filter(|id| *id != 0),
        "FaceId",
    )?);
    // As in NFD, the command succeeds if the face does not exist.
    if forwarder.face(id).is_some() {
        out.requests.push(HostRequest::DestroyFace(id));
    }
    Ok(Reply::Done(ControlParameters {
        face_id: Some(id.0),
        ..ControlParameters::default()
    }))
}

pub(super) fn list(
    forwarder: &ManagedForwarder<'_>,
    _: Time,
    _: NameRef<'_>,
    content: &mut Content,
) -> Result<(), Refusal> {
    let max_packet_bytes = forwarder.max_packet_bytes();
    forwarder
        .faces()
        .iter()
        .try_for_each(|face| content.push(&status(face, max_packet_bytes)))
}

pub(super) fn query(
    forwarder: &ManagedForwarder<'_>,
    _: Time,
    name: NameRef<'_>,
    content: &mut Content,
) -> Result<(), Refusal> {
    let filter = require(name.component(super::PREFIX_COMPONENTS), "FaceQueryFilter")?;
    let filter = FaceQueryFilter::decode(filter.value)
        .map_err(|error| (400, format!("malformed filter: {error}")))?;
    let max_packet_bytes = forwarder.max_packet_bytes();
    let faces = forwarder.faces();
    let statuses = faces.iter().map(|face| status(face, max_packet_bytes));
    statuses
        .filter(|status| matches(&filter, status))
        .try_for_each(|status| content.push(&status))
}

pub(super) fn channels(
    forwarder: &ManagedForwarder<'_>,
    _: Time,
    _: NameRef<'_>,
    content: &mut Content,
) -> Result<(), Refusal> {
    let channels = forwarder.channels().iter();
    channels.into_iter().try_for_each(|uri| {
        content.push(&ChannelStatus {
            local_uri: uri.clone(),
        })
    })
}

fn status(face: &FaceStats, max_packet_bytes: usize) -> FaceStatus {
    let FaceStats {
        id,
        config,
        counters,
    } = face;
    FaceStatus {
        face_id: id.0,
        uri: config.uri.clone(),
        local_uri: config.local_uri.clone(),
        expiration: None,
        scope: u64::from(config.scope == Scope::Local),
        persistency: config.persistency.code(),
        link_type: config.link_type as u64,
        base_congestion_marking_interval: Some(config.base_congestion_marking_interval),
        default_congestion_threshold: Some(config.default_congestion_threshold),
        mtu: Some(config.stated_mtu(max_packet_bytes)),
        in_interests: counters.in_interests,
        in_data: counters.in_data,
        in_nacks: counters.in_nacks,
        out_interests: counters.out_interests,
        out_data: counters.out_data,
        out_nacks: counters.out_nacks,
        in_bytes: counters.in_bytes,
        out_bytes: counters.out_bytes,
        flags: config.flags(),
    }
}

/// Returns the properties of a face for the response to `faces/create`.
fn new_face(id: FaceId, config: &FaceConfig, max_packet_bytes: usize) -> NewFace {
    NewFace {
        face_id: id.0,
        uri: config.uri.clone(),
        local_uri: config.local_uri.clone(),
        base_congestion_marking_interval: config.base_congestion_marking_interval,
        default_congestion_threshold: config.default_congestion_threshold,
        mtu: config.stated_mtu(max_packet_bytes),
        flags: config.flags(),
        face_persistency: config.persistency.code(),
    }
}

/// Returns the properties of a face for the response to `faces/update`.
fn properties(id: FaceId, config: &FaceConfig, max_packet_bytes: usize) -> ControlParameters {
    ControlParameters {
        face_id: Some(id.0),
        flags: Some(config.flags()),
        face_persistency: Some(config.persistency.code()),
        base_congestion_marking_interval: Some(config.base_congestion_marking_interval),
        default_congestion_threshold: Some(config.default_congestion_threshold),
        mtu: Some(config.stated_mtu(max_packet_bytes)),
        ..ControlParameters::default()
    }
}

fn matches(filter: &FaceQueryFilter, face: &FaceStatus) -> bool {
    let scheme = |uri: &str| uri.split_once("://").map(|(scheme, _)| scheme.to_owned());
    let schemes = [scheme(&face.uri), scheme(&face.local_uri)];
    filter.face_id.is_none_or(|wanted| wanted == face.face_id)
        && (filter.uri_scheme.is_none() || schemes.contains(&filter.uri_scheme))
        && filter.uri.as_ref().is_none_or(|wanted| *wanted == face.uri)
        && filter
            .local_uri
            .as_ref()
            .is_none_or(|wanted| *wanted == face.local_uri)
        && filter.scope.is_none_or(|wanted| wanted == face.scope)
        && filter
            .persistency
            .is_none_or(|wanted| wanted == face.persistency)
        && filter
            .link_type
            .is_none_or(|wanted| wanted == face.link_type)
}

/// Returns true if the host can give a face this persistency. The peer decides when a stream ends;
/// a datagram face is only memory.
fn may_be(config: &FaceConfig, wanted: Persistency) -> bool {
    let scheme = config
        .uri
        .split_once("://")
        .map_or("", |(scheme, _)| scheme);
    wanted == config.persistency
        || match scheme {
            _ if !config.is_point_to_point() => false,
            "udp4" | "udp6" | "ether" => true,
            // This end cannot open an accepted connection again.
            "tcp4" | "tcp6" => {
                config.persistency != Persistency::OnDemand || wanted != Persistency::Permanent
            }
            _ => false,
        }
}

fn persistency(parameters: &ControlParameters) -> Result<Option<Persistency>, Refusal> {
    let Some(code) = parameters.face_persistency else {
        return Ok(None);
    };
    Persistency::from_code(code)
        .map(Some)
        .ok_or_else(|| (400, format!("{code} is no FacePersistency")))
}

fn mtu(parameters: &ControlParameters) -> Result<Option<usize>, Refusal> {
    let Some(bytes) = parameters.mtu else {
        return Ok(None);
    };
    usable_mtu(bytes)
        .map(Some)
        .ok_or_else(|| (406, format!("an MTU has at least {LEAST_MTU} bytes")))
}

/// Returns the MTU for a requested one, or `None` if it is too small. No frame is larger than the
/// largest packet, as in NFD.
fn usable_mtu(bytes: u64) -> Option<usize> {
    (bytes >= LEAST_MTU).then_some(bytes.min(MAX_PACKET_BYTES as u64) as usize)
}
