//! Prefix registration by applications: `rib/register` and `rib/unregister` of the NFD management protocol.
//!
//! Commands come as Interests under `/localhost/nfd` from local faces (and under `/localhop/nfd` from others where the configuration allows
//! it), signed in either form: the packet format 0.3's signed Interest, or the older one whose timestamp, nonce, SignatureInfo and
//! SignatureValue are four name components. Any signer is believed on local faces, as in NFD's default configuration; a bare digest is
//! checked. A command that comes again is answered again, and not carried out again; the memory is a face's own, so that applications that
//! sign with the same digest never get in each other's way. A remote application registers for itself only, and neither `/` nor what is
//! local; nothing proves who it is, so the configuration must be sure of its neighbours.
//!
//! Missing: trust anchors, the other modules (`faces`, `fib`, `cs`, `strategy-choice`) and the datasets; Interests for them get a Nack.

use crate::face::FaceId;
use crate::limits::{PREFIX_COMPONENTS, REPLAY_COMMANDS};
use crate::rib::{CHILD_INHERIT, Route};
use bytes::Bytes;
use larder_packet::tlv::Tlv;
use larder_packet::{
    ControlParameters, ControlResponse, DigestVerifier, Interest, Name, NameRef, SignatureInfo, Verifier, types,
};
use larder_units::Time;
use std::collections::VecDeque;

/// What a management Interest asks for, once it is found to be well-formed and signed.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Register(Name, Route),
    Unregister(Name, FaceId, u64),
}

/// A refusal: status code and text of the ControlResponse.
pub(crate) type Refusal = (u64, String);

/// Whether the name is one of the forwarder's own: `/localhost/nfd/…` or `/localhop/nfd/…`.
pub(crate) fn is_management(name: NameRef<'_>) -> bool {
    let mut components = name.components();
    let first = components.next().is_some_and(|c| c.value == b"localhost" || c.value == b"localhop");
    first && components.next().is_some_and(|c| c.value == b"nfd")
}

/// True for a command (it carries parameters and a signature), false for a dataset.
pub(crate) fn is_command(name: NameRef<'_>) -> bool {
    name.component(2).is_some_and(|module| module.value == b"rib")
        && name.component(4).is_some_and(|parameters| parameters.value.first() == Some(&CONTROL_PARAMETERS))
}

/// The first byte of a ControlParameters element.
const CONTROL_PARAMETERS: u8 = types::nfd::CONTROL_PARAMETERS as u8;

/// Reads and checks a command. `local` tells whether it came from a local face, which may register for others.
pub(crate) fn parse(now: Time, from: FaceId, local: bool, interest: &Interest<'_>) -> Result<Command, Refusal> {
    let bad = |text: &str| (400, text.to_owned());
    let name = interest.name;
    authenticate(interest)?;
    let verb = name.component(3).map(|c| c.value).unwrap_or_default();
    let parameters = name.component(4).ok_or_else(|| bad("ControlParameters are missing"))?;
    let parameters = ControlParameters::decode(parameters.value)
        .map_err(|error| (400, format!("malformed ControlParameters: {error}")))?;
    let prefix = parameters.name.clone().ok_or_else(|| bad("the Name is missing"))?;
    if prefix.as_name().component_count() > PREFIX_COMPONENTS {
        return Err((414, format!("a route's prefix has at most {PREFIX_COMPONENTS} components")));
    }
    if !local && is_reserved(prefix.as_name()) {
        return Err((403, "a remote application registers neither / nor a local prefix".to_owned()));
    }
    let face = match parameters.face_id {
        None | Some(0) => from,
        Some(id) if local || id == from.0 => FaceId(id),
        Some(_) => return Err((403, "a remote application registers for its own face only".to_owned())),
    };
    let origin = parameters.origin.unwrap_or(0);
    match verb {
        b"register" => Ok(Command::Register(
            prefix,
            Route {
                face,
                origin,
                cost: parameters.cost.unwrap_or(0),
                flags: parameters.flags.unwrap_or(CHILD_INHERIT),
                expires: parameters.expiration.map(|period| now + period),
            },
        )),
        b"unregister" => Ok(Command::Unregister(prefix, face, origin)),
        _ => Err((501, format!("rib has no verb {:?}", String::from_utf8_lossy(verb)))),
    }
}

/// Checks that the command is signed, in the newer or the older form, and that a bare digest is right.
fn authenticate(interest: &Interest<'_>) -> Result<(), Refusal> {
    let refused = |text: &str| Err((403, text.to_owned()));
    if let (Some(info), Some(value)) = (interest.signature_info, interest.signature_value) {
        let Some(portions) = interest.signed_portion() else {
            return refused("the digest of the command's parameters is not at the end of its name");
        };
        return check_digest(&info, &portions, value);
    }
    // …/<ControlParameters>/<timestamp>/<nonce>/<SignatureInfo>/<SignatureValue>
    let name = interest.name;
    let (Some(info), Some(value)) = (name.component(7), name.component(8)) else {
        return refused("the command is not signed");
    };
    let Ok(info) = SignatureInfo::decode(info.value) else {
        return refused("the command's SignatureInfo is malformed");
    };
    let Ok(value) = Tlv::only(value.value, types::SIGNATURE_VALUE) else {
        return refused("the command's SignatureValue is malformed");
    };
    check_digest(&info, &[name.prefix(8).as_bytes()], value.value)
}

fn check_digest(info: &SignatureInfo<'_>, portions: &[&[u8]], value: &[u8]) -> Result<(), Refusal> {
    if info.signature_type != types::DIGEST_SHA256 {
        return Ok(());
    }
    DigestVerifier
        .verify(info.signature_type, portions, value)
        .map_err(|_| (403, "the command's digest is wrong".to_owned()))
}

/// The response to a command that was carried out: the parameters with every default filled in.
pub(crate) fn done(now: Time, command: &Command) -> ControlResponse {
    let mut body = ControlParameters::default();
    match command {
        Command::Register(prefix, route) => {
            body.name = Some(prefix.clone());
            body.face_id = Some(route.face.0);
            body.origin = Some(route.origin);
            body.cost = Some(route.cost);
            body.flags = Some(route.flags);
            body.expiration = route.expires.map(|at| at.since(now));
        }
        Command::Unregister(prefix, face, origin) => {
            body.name = Some(prefix.clone());
            body.face_id = Some(face.0);
            body.origin = Some(*origin);
        }
    }
    ControlResponse { status_code: 200, status_text: "OK".to_owned(), body: Some(body) }
}

/// What strangers must not draw to themselves: everything, and what belongs to this machine or link.
fn is_reserved(prefix: NameRef<'_>) -> bool {
    prefix.component(0).is_none_or(|first| first.value == b"localhost" || first.value == b"localhop")
}

/// The commands that one face sent last, by the keyed hash of their names, which hold all that is signed or its digest; with their responses.
#[derive(Default)]
pub(crate) struct Replay {
    seen: VecDeque<(u64, Bytes)>,
}

impl Replay {
    /// The response to a command that came before.
    pub(crate) fn answer(&self, hash: u64) -> Option<Bytes> {
        self.seen.iter().find(|(seen, _)| *seen == hash).map(|(_, response)| response.clone())
    }

    pub(crate) fn remember(&mut self, hash: u64, response: Bytes) {
        if self.seen.len() >= REPLAY_COMMANDS {
            self.seen.pop_front();
        }
        self.seen.push_back((hash, response));
    }
}
