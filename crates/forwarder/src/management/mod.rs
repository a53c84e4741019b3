//! The NFD management protocol: commands, status datasets and the notifications of face events,
//! under `/localhost/nfd` for local faces.
//!
//! Management is an application with a face of its own ([`FaceId::INTERNAL`]). It answers most
//! Interests at once. An Interest that has to wait (for a face that the host creates, or for the
//! next face event) pends in the PIT as any other, so the PIT handles several consumers, PIT tokens
//! and lifetimes. Each module of the protocol has a file, and each verb a row in [`VERBS`]. These
//! files use both planes through [`ManagedForwarder`].
//!
//! ```text
//! Interest ─► VERBS ─┬─ command: authority ─► function ─┬─► ControlResponse
//!                    │                                  └─► HostRequest ··· on_face_answer ─► ControlResponse
//!                    ├─ dataset: rendition ─► segment
//!                    └─ stream:  event ring ─► notification, or waits
//! ```
//!
//! Status codes are NFD's: 200, 400 malformed, 403 not authorized, 404 no such thing, 406
//! unsupported, 409 conflict, 410 no such face, 414 a name too long, 501 no such verb, 507 full.
//!
//! Missing: `/localhop` beyond the commands of `rib`.

mod cs;
mod datasets;
pub(crate) mod events;
pub(crate) mod faces;
mod fib;
mod managed_forwarder;
pub(crate) mod readvertise;
mod rib;
pub(crate) mod shard_query;
mod status;
mod strategy_choice;

use crate::control::Management;
use crate::control::datasets::Content;
use crate::control::refusal::Refusal;
use crate::control::shard_queries::ShardQuery;
use crate::control_plane::ControlPlane;
use crate::data_plane::DataPlane;
use crate::drop_reason::{DropReason, Dropped};
use crate::face::FaceId;
use crate::outbox::{Body, Outbox};
use crate::pipeline::incoming_data::on_incoming_data;
use crate::pipeline::incoming_interest::{
    check_interest, completed, insert_in_record, is_incomplete,
};
use crate::pipeline::link_service::Arrival;
use crate::pipeline::outgoing_interest::on_outgoing_nack;
use crate::tables::pit::OutRecord;
use bytes::Bytes;
use larder_packet::{
    ControlParameters, ControlResponse, Data, DataBuilder, DigestSigner, Interest, LpHeader,
    NackReason, NameRef, types,
};
use larder_units::Time;
use managed_forwarder::{DatasetFn, ManagedForwarder};

/// A command: its sender and its parameters.
struct Request<'a> {
    now: Time,
    from: FaceId,
    local: bool,
    interest: &'a Interest<'a>,
    parameters: ControlParameters,
}

/// The result of a command that was not refused.
enum Reply {
    /// 200, with these parameters.
    Done(ControlParameters),
    /// Another status with a body.
    Response(ControlResponse),
    /// The command waits for the host or for other shards.
    Later,
}

type CommandFn = fn(&mut ManagedForwarder<'_>, &Request<'_>, &mut Outbox) -> Result<Reply, Refusal>;

/// The kind of a verb.
enum Kind {
    Command(CommandFn),
    Dataset(DatasetFn),
    /// A dataset of all shards.
    DatasetOfAll(shard_query::DatasetOfAll),
    /// The notification stream of face events.
    Events,
}

struct Verb {
    module: &'static str,
    verb: &'static str,
    kind: Kind,
    /// True if applications on other machines may use it, where the configuration lets them
    /// register.
    localhop: bool,
}

const fn command(module: &'static str, verb: &'static str, function: CommandFn) -> Verb {
    Verb {
        module,
        verb,
        kind: Kind::Command(function),
        localhop: false,
    }
}

const fn dataset(module: &'static str, verb: &'static str, function: DatasetFn) -> Verb {
    Verb {
        module,
        verb,
        kind: Kind::Dataset(function),
        localhop: false,
    }
}

const fn of_all(verb: Verb, question: fn(NameRef<'_>) -> Option<ShardQuery>) -> Verb {
    match verb.kind {
        Kind::Dataset(function) => Verb {
            kind: Kind::DatasetOfAll(shard_query::DatasetOfAll { function, question }),
            ..verb
        },
        _ => verb,
    }
}

const fn also_localhop(verb: Verb) -> Verb {
    Verb {
        localhop: true,
        ..verb
    }
}

/// The whole protocol.
static VERBS: &[Verb] = &[
    command("faces", "create", faces::create),
    command("faces", "update", faces::update),
    command("faces", "destroy", faces::destroy),
    of_all(dataset("faces", "list", faces::list), shard_query::figures),
    of_all(
        dataset("faces", "query", faces::query),
        shard_query::figures,
    ),
    dataset("faces", "channels", faces::channels),
    Verb {
        module: "faces",
        verb: "events",
        kind: Kind::Events,
        localhop: false,
    },
    command("fib", "add-nexthop", fib::add_next_hop),
    command("fib", "remove-nexthop", fib::remove_next_hop),
    dataset("fib", "list", fib::list),
    also_localhop(command("rib", "register", rib::register)),
    also_localhop(command("rib", "unregister", rib::unregister)),
    also_localhop(command("rib", "announce", rib::announce)),
    dataset("rib", "list", rib::list),
    command("cs", "config", cs::config),
    command("cs", "erase", cs::erase),
    of_all(dataset("cs", "info", cs::info), shard_query::figures),
    of_all(dataset("cs", "query", cs::query), cs::stored),
    of_all(
        dataset("cs", "prefixes", cs::prefixes),
        shard_query::figures,
    ),
    command("strategy-choice", "set", strategy_choice::set),
    command("strategy-choice", "unset", strategy_choice::unset),
    dataset("strategy-choice", "list", strategy_choice::list),
    of_all(
        dataset("status", "general", status::general),
        shard_query::figures,
    ),
];

/// Returns the module and the verb of a name.
fn words(name: NameRef<'_>) -> [&[u8]; 2] {
    [2, 3].map(|at| name.component(at).map(|c| c.value).unwrap_or_default())
}

fn verb_of(name: NameRef<'_>) -> Option<&'static Verb> {
    let [module, verb] = words(name);
    VERBS
        .iter()
        .find(|row| row.module.as_bytes() == module && row.verb.as_bytes() == verb)
}

/// Returns the function of the dataset of this name.
fn dataset_of(name: NameRef<'_>) -> Option<DatasetFn> {
    match verb_of(name)?.kind {
        Kind::Dataset(function)
        | Kind::DatasetOfAll(shard_query::DatasetOfAll { function, .. }) => Some(function),
        Kind::Command(_) | Kind::Events => None,
    }
}

/// Components before a verb's own: `/localhost/nfd/MODULE/VERB`.
const PREFIX_COMPONENTS: usize = 4;

/// The result of an Interest.
enum Outcome {
    Answer(Bytes),
    Wait,
    /// The name is neither a command nor a dataset nor a stream.
    Unknown,
}

/// Processes an Interest under `/localhost/nfd`, or under `/localhop/nfd` where that is allowed.
#[cold]
pub(crate) fn on_interest(
    plane: &mut DataPlane,
    control: &mut ControlPlane,
    arrival: &Arrival<'_>,
    interest: &Interest<'_>,
    hash: u64,
    out: &mut Outbox,
) -> Result<(), Dropped> {
    if is_incomplete(plane, interest) {
        let packet = completed(plane, interest)?;
        let interest = Interest::decode(&packet)?;
        let arrival = arrival.made(packet.clone());
        return on_interest(plane, control, &arrival, &interest, hash, out);
    }
    check_interest(arrival, interest)?;
    // The same Interest waits already: this is one more consumer.
    let outcome = match plane.pit.find(hash, interest) {
        Some(_) => Outcome::Wait,
        None => answer(plane, control, arrival, interest, hash, out)?,
    };
    match outcome {
        Outcome::Answer(data) => {
            out.push(arrival.face, Body::Stored(data)).pit_token = arrival.header.pit_token;
            Ok(())
        }
        Outcome::Wait => wait_for_management(plane, arrival, interest, hash),
        Outcome::Unknown => {
            plane.drops.count(DropReason::NoRoute);
            on_outgoing_nack(arrival, interest, NackReason::NoRoute, out);
            Ok(())
        }
    }
}

fn answer(
    plane: &mut DataPlane,
    control: &mut ControlPlane,
    arrival: &Arrival<'_>,
    interest: &Interest<'_>,
    hash: u64,
    out: &mut Outbox,
) -> Result<Outcome, Dropped> {
    let name = interest.name;
    let localhop = name
        .component(0)
        .is_some_and(|first| first.value == b"localhop");
    let [module, verb] = words(name);
    let found = verb_of(name).filter(|row| row.localhop || !localhop);
    Ok(match found.map(|row| &row.kind) {
        Some(Kind::Command(function)) => {
            on_command(plane, control, arrival, interest, hash, *function, out)?
        }
        Some(Kind::Dataset(function)) => {
            datasets::on_dataset(plane, control, arrival.now, interest, *function)
        }
        Some(Kind::DatasetOfAll(dataset)) => {
            shard_query::on_dataset_of_all(plane, control, arrival, interest, *dataset, out)?
        }
        Some(Kind::Events) => {
            events::on_events(&mut control.management.events, arrival.now, interest)
        }
        None if is_command(name) => {
            let text = format!(
                "no verb {:?} of {:?}",
                String::from_utf8_lossy(verb),
                String::from_utf8_lossy(module)
            );
            Outcome::Answer(response_data(name, &refusal((501, text)))?)
        }
        None => Outcome::Unknown,
    })
}

fn on_command(
    plane: &mut DataPlane,
    control: &mut ControlPlane,
    arrival: &Arrival<'_>,
    interest: &Interest<'_>,
    hash: u64,
    function: CommandFn,
    out: &mut Outbox,
) -> Result<Outcome, Dropped> {
    let Arrival {
        now,
        face: from,
        local,
        ..
    } = *arrival;
    let face = plane
        .faces
        .get(from)
        .ok_or(Dropped::new(DropReason::NoFace))?;
    if let Some(response) = face.replay.answer(hash) {
        return Ok(Outcome::Answer(response));
    }
    let Management {
        pending_faces,
        shard_queries,
        ..
    } = &control.management;
    if pending_faces.contains(from, interest.name) || shard_queries.contains(from, interest.name) {
        return Ok(Outcome::Wait);
    }
    let unix_millis = plane.unix_millis(now);
    let module = interest
        .name
        .component(2)
        .map(|module| module.value)
        .unwrap_or_default();
    let localhop = interest
        .name
        .component(0)
        .is_some_and(|first| first.value == b"localhop");
    let authority = &mut control.management.authority;
    if let Err(refused) =
        authority.authorize(unix_millis, interest, &plane.hasher, module, localhop)
    {
        // The response is not remembered: the command changed nothing, and an unauthorized
        // sender must not take memory.
        return Ok(Outcome::Answer(response_data(
            interest.name,
            &refusal(refused),
        )?));
    }
    let reply = parameters(interest).and_then(|parameters| {
        function(
            &mut ManagedForwarder::new(plane, control),
            &Request {
                now,
                from,
                local,
                interest,
                parameters,
            },
            out,
        )
    });
    let response = match reply {
        Ok(Reply::Later) => return Ok(Outcome::Wait),
        Ok(Reply::Done(body)) => ok(body),
        Ok(Reply::Response(response)) => response,
        Err(refused) => refusal(refused),
    };
    let data = response_data(interest.name, &response)?;
    remember_command(plane, from, hash, &data);
    Ok(Outcome::Answer(data))
}

fn remember_command(plane: &mut DataPlane, from: FaceId, hash: u64, response: &Bytes) {
    if let Some(face) = plane.faces.get_mut(from) {
        face.replay.remember(hash, response.clone());
    }
}

/// Makes the Interest pend, with management as its only next hop.
fn wait_for_management(
    plane: &mut DataPlane,
    arrival: &Arrival<'_>,
    interest: &Interest<'_>,
    hash: u64,
) -> Result<(), Dropped> {
    let Arrival {
        now, face, header, ..
    } = *arrival;
    let pending = plane.pit.find(hash, interest);
    let (slot, lifetime) =
        insert_in_record(plane, now, face, interest, hash, pending, header.pit_token)?;
    let (nonce, expires) = (interest.nonce.unwrap_or_default(), now + lifetime);
    let records = &mut plane.pit.entry_mut(slot).out_records;
    if records.is_empty() {
        records.push(OutRecord {
            face: FaceId::INTERNAL,
            nonce,
            hop_limit: None,
            sent: now,
            expires,
            nacked: None,
            held: false,
        });
    }
    Ok(())
}

/// Sends the response to a command that waited for the host or for other shards.
fn respond(
    plane: &mut DataPlane,
    now: Time,
    to: FaceId,
    command: NameRef<'_>,
    content: &[u8],
    out: &mut Outbox,
) {
    if let Ok(data) = content_data(command, content) {
        remember_command(plane, to, plane.hash_of(command), &data);
        publish(plane, now, data, out);
    }
}

/// Takes the Data that came for management's own Interests.
#[cold]
pub(crate) fn on_data(plane: &mut DataPlane, control: &mut ControlPlane, now: Time) {
    for packet in std::mem::take(&mut plane.for_management) {
        if let Ok(data) = Data::decode(&packet) {
            readvertise::on_answer(plane, control, now, &data);
        }
    }
}

/// Sends management's Data to the Interests that wait for it. If none waits, it is dropped.
pub(crate) fn publish(plane: &mut DataPlane, now: Time, wire: Bytes, out: &mut Outbox) {
    let header = LpHeader {
        no_cache: true,
        ..LpHeader::EMPTY
    };
    let arrival = Arrival::internal(now, &header, wire.clone());
    if let Ok(data) = Data::decode(&wire) {
        let hash = plane.hasher.hash(data.name.as_bytes());
        let _ = on_incoming_data(plane, &arrival, &data, hash, out);
    }
}

/// Returns true if the name is a command: it has a ControlParameters element as a component.
fn is_command(name: NameRef<'_>) -> bool {
    name.component(PREFIX_COMPONENTS).is_some_and(|parameters| {
        parameters.value.first() == Some(&(types::nfd::CONTROL_PARAMETERS as u8))
    })
}

fn parameters(interest: &Interest<'_>) -> Result<ControlParameters, Refusal> {
    match interest.name.component(PREFIX_COMPONENTS) {
        Some(component) if component.typ == types::GENERIC_NAME_COMPONENT => {
            ControlParameters::decode(component.value)
                .map_err(|error| (400, format!("malformed ControlParameters: {error}")))
        }
        // rib/announce has its parameters elsewhere.
        _ => Ok(ControlParameters::default()),
    }
}

fn ok(body: ControlParameters) -> ControlResponse {
    ControlResponse {
        status_code: 200,
        status_text: "OK".to_owned(),
        body: Some(body),
    }
}

fn refusal((status_code, status_text): Refusal) -> ControlResponse {
    ControlResponse {
        status_code,
        status_text,
        body: None,
    }
}

fn response_data(name: NameRef<'_>, response: &ControlResponse) -> Result<Bytes, Dropped> {
    content_data(name, &response.encode())
}

/// Returns the Data with this content that answers a command.
fn content_data(name: NameRef<'_>, content: &[u8]) -> Result<Bytes, Dropped> {
    let data = DataBuilder::new(name).content(content).build(&DigestSigner);
    data.map(Bytes::from)
        .map_err(|_| Dropped::new(DropReason::Malformed))
}

/// Returns a parameter that must be present.
fn require<T>(value: Option<T>, name: &str) -> Result<T, Refusal> {
    value.ok_or_else(|| (400, format!("the {name} is missing")))
}

impl Request<'_> {
    /// Refuses Flags without a Mask that says which of them are meant, and a Mask without Flags, as
    /// NFD does.
    fn check_mask(&self) -> Result<(), Refusal> {
        if self.parameters.flags.is_some() == self.parameters.mask.is_some() {
            Ok(())
        } else {
            Err((400, "Flags must be accompanied by Mask".to_owned()))
        }
    }

    /// Returns the face that the command names, or the one that the command came from.
    fn face(&self) -> FaceId {
        self.parameters
            .face_id
            .filter(|id| *id != 0)
            .map_or(self.from, FaceId)
    }
}
