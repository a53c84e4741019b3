//! Commands of the NFD Management Protocol and their replies: what clients send to register a prefix, and what they get back.
//!
//! NFD wiki, "ControlCommand" and the pages of the modules. As in NFD, elements are read in any order, the first of a type counts, and
//! unknown ones are skipped, for clients of ten years have sent many kinds.

use crate::name::{Name, NameRef};
use crate::tlv::{self, DecodeError, DecodeErrorKind, Tlv};
use crate::types::{self, nfd};
use std::time::Duration;

/// Arguments of a command, and in its reply what came of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlParameters {
    /// A name prefix.
    pub name: Option<Name>,
    /// A face; 0 stands for the one that the command came from.
    pub face_id: Option<u64>,
    /// Face URI of the other end.
    pub uri: Option<String>,
    /// Face URI of this end.
    pub local_uri: Option<String>,
    /// Who makes the route: 0 an application, 65 a client, 255 the operator.
    pub origin: Option<u64>,
    /// The route's cost.
    pub cost: Option<u64>,
    /// Content Store capacity, in packets.
    pub capacity: Option<u64>,
    /// A number of packets.
    pub count: Option<u64>,
    /// Time between two congestion marks, in whole nanoseconds.
    pub base_congestion_marking_interval: Option<Duration>,
    /// Queue length that counts as congestion, in bytes.
    pub default_congestion_threshold: Option<u64>,
    /// The face's MTU, in bytes.
    pub mtu: Option<u64>,
    /// Flag bits.
    pub flags: Option<u64>,
    /// Which of the flag bits are meant.
    pub mask: Option<u64>,
    /// A strategy.
    pub strategy: Option<Name>,
    /// Time until expiration, in whole milliseconds.
    pub expiration: Option<Duration>,
    /// 0 persistent, 1 on-demand, 2 permanent.
    pub face_persistency: Option<u64>,
}

impl ControlParameters {
    /// Reads exactly one ControlParameters element.
    ///
    /// # Errors
    /// Where it is none, with the offset in `wire`.
    pub fn decode(wire: &[u8]) -> Result<Self, DecodeError> {
        ControlParameters::of_element(&Tlv::only(wire, nfd::CONTROL_PARAMETERS)?)
    }

    fn of_element(element: &Tlv<'_>) -> Result<Self, DecodeError> {
        let mut parameters = ControlParameters::default();
        for element in element.children() {
            parameters.set(&element?)?;
        }
        Ok(parameters)
    }

    fn set(&mut self, element: &Tlv<'_>) -> Result<(), DecodeError> {
        match element.typ {
            types::NAME => first(&mut self.name, read_name(element)),
            nfd::FACE_ID => first(&mut self.face_id, element.number()),
            nfd::URI => first(&mut self.uri, read_text(element)),
            nfd::LOCAL_URI => first(&mut self.local_uri, read_text(element)),
            nfd::ORIGIN => first(&mut self.origin, element.number()),
            nfd::COST => first(&mut self.cost, element.number()),
            nfd::CAPACITY => first(&mut self.capacity, element.number()),
            nfd::COUNT => first(&mut self.count, element.number()),
            nfd::BASE_CONGESTION_MARKING_INTERVAL => {
                first(&mut self.base_congestion_marking_interval, element.number().map(Duration::from_nanos))
            }
            nfd::DEFAULT_CONGESTION_THRESHOLD => first(&mut self.default_congestion_threshold, element.number()),
            nfd::MTU => first(&mut self.mtu, element.number()),
            nfd::FLAGS => first(&mut self.flags, element.number()),
            nfd::MASK => first(&mut self.mask, element.number()),
            nfd::STRATEGY => first(&mut self.strategy, read_strategy(element)),
            nfd::EXPIRATION_PERIOD => first(&mut self.expiration, element.number().map(Duration::from_millis)),
            nfd::FACE_PERSISTENCY => first(&mut self.face_persistency, element.number()),
            _ => Ok(()),
        }
    }

    /// The whole element, which as a name component's value ends the name of a command.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_into(&mut out);
        out
    }

    fn encode_into(&self, out: &mut Vec<u8>) {
        let nanos = self.base_congestion_marking_interval.map(|span| whole(span.as_nanos()));
        let millis = self.expiration.map(|span| whole(span.as_millis()));
        tlv::write_nested(out, nfd::CONTROL_PARAMETERS, 0, |out| {
            if let Some(name) = &self.name {
                tlv::write_tlv(out, types::NAME, name.as_bytes());
            }
            write_number(out, nfd::FACE_ID, self.face_id);
            write_text(out, nfd::URI, self.uri.as_deref());
            write_text(out, nfd::LOCAL_URI, self.local_uri.as_deref());
            write_number(out, nfd::ORIGIN, self.origin);
            write_number(out, nfd::COST, self.cost);
            write_number(out, nfd::CAPACITY, self.capacity);
            write_number(out, nfd::COUNT, self.count);
            write_number(out, nfd::BASE_CONGESTION_MARKING_INTERVAL, nanos);
            write_number(out, nfd::DEFAULT_CONGESTION_THRESHOLD, self.default_congestion_threshold);
            write_number(out, nfd::MTU, self.mtu);
            write_number(out, nfd::FLAGS, self.flags);
            write_number(out, nfd::MASK, self.mask);
            if let Some(strategy) = &self.strategy {
                tlv::write_nested(out, nfd::STRATEGY, 0, |out| {
                    tlv::write_tlv(out, types::NAME, strategy.as_bytes());
                });
            }
            write_number(out, nfd::EXPIRATION_PERIOD, millis);
            write_number(out, nfd::FACE_PERSISTENCY, self.face_persistency);
        });
    }
}

/// Reply to a command: the content of the Data that answers it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlResponse {
    /// As HTTP counts: 200, 400, 403, 404, 409, 501.
    pub status_code: u64,
    /// The same in words.
    pub status_text: String,
    /// What came of the command.
    pub body: Option<ControlParameters>,
}

impl ControlResponse {
    /// Reads exactly one ControlResponse element. A body that is no ControlParameters is skipped.
    ///
    /// # Errors
    /// Where it is none, with the offset in `wire`.
    pub fn decode(wire: &[u8]) -> Result<Self, DecodeError> {
        let mut elements = Tlv::only(wire, nfd::CONTROL_RESPONSE)?.children();
        let status_code = elements.require(nfd::STATUS_CODE, "StatusCode")?.number()?;
        let status_text = read_text(&elements.require(nfd::STATUS_TEXT, "StatusText")?)?;
        let mut body = None;
        for element in elements {
            let element = element?;
            if element.typ == nfd::CONTROL_PARAMETERS {
                first(&mut body, ControlParameters::of_element(&element))?;
            }
        }
        Ok(ControlResponse { status_code, status_text, body })
    }

    /// The whole element.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        tlv::write_nested(&mut out, nfd::CONTROL_RESPONSE, 0, |out| {
            tlv::write_nni(out, nfd::STATUS_CODE, self.status_code);
            tlv::write_tlv(out, nfd::STATUS_TEXT, self.status_text.as_bytes());
            if let Some(body) = &self.body {
                body.encode_into(out);
            }
        });
        out
    }
}

/// Sets `slot` where nothing is in it yet.
fn first<T>(slot: &mut Option<T>, value: Result<T, DecodeError>) -> Result<(), DecodeError> {
    if slot.is_none() {
        *slot = Some(value?);
    }
    Ok(())
}

fn read_name(element: &Tlv<'_>) -> Result<Name, DecodeError> {
    NameRef::validate(element.value, element.value_offset()).map(|(name, _)| name.to_name())
}

fn read_strategy(element: &Tlv<'_>) -> Result<Name, DecodeError> {
    read_name(&element.children().require(types::NAME, "Name of the strategy")?)
}

fn read_text(element: &Tlv<'_>) -> Result<String, DecodeError> {
    let text = std::str::from_utf8(element.value);
    text.map(str::to_owned).map_err(|_| DecodeErrorKind::BadValue(element.typ).at(element.offset))
}

fn write_number(out: &mut Vec<u8>, typ: u32, number: Option<u64>) {
    if let Some(number) = number {
        tlv::write_nni(out, typ, number);
    }
}

fn write_text(out: &mut Vec<u8>, typ: u32, text: Option<&str>) {
    if let Some(text) = text {
        tlv::write_tlv(out, typ, text.as_bytes());
    }
}

fn whole(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
