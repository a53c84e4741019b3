//! Commands and their replies (NFD wiki, "ControlCommand"), and the prefix announcement that one of
//! them carries.

use super::element::{
    Element, Millis, NameElement, NameInside, Nanos, Nested, Number, Text, elements,
};
use crate::data::Data;
use crate::name::Name;
use crate::tlv::{DecodeError, DecodeErrorKind, TlvReader};
use crate::types::{self, nfd};
use std::time::Duration;

elements! {
    /// Arguments of a command, and in its reply what came of them.
    ControlParameters = nfd::CONTROL_PARAMETERS => {
        /// A name prefix.
        name: Option<Name> = opt(NameElement, types::NAME),
        /// A face; 0 stands for the one that the command came from.
        face_id: Option<u64> = opt(Number, nfd::FACE_ID),
        /// Face URI of the other end.
        uri: Option<String> = opt(Text, nfd::URI),
        /// Face URI of this end.
        local_uri: Option<String> = opt(Text, nfd::LOCAL_URI),
        /// The origin of the route: 0 an application, 65 a client, 255 the operator.
        origin: Option<u64> = opt(Number, nfd::ORIGIN),
        /// The route's cost.
        cost: Option<u64> = opt(Number, nfd::COST),
        /// Content Store capacity, in packets.
        capacity: Option<u64> = opt(Number, nfd::CAPACITY),
        /// A number of packets.
        count: Option<u64> = opt(Number, nfd::COUNT),
        /// Flag bits.
        flags: Option<u64> = opt(Number, nfd::FLAGS),
        /// Which of the flag bits are meant.
        mask: Option<u64> = opt(Number, nfd::MASK),
        /// A strategy.
        strategy: Option<Name> = opt(NameInside, nfd::STRATEGY),
        /// Time until expiration, in whole milliseconds.
        expiration: Option<Duration> = opt(Millis, nfd::EXPIRATION_PERIOD),
        /// 0 persistent, 1 on-demand, 2 permanent.
        face_persistency: Option<u64> = opt(Number, nfd::FACE_PERSISTENCY),
        /// Time between two congestion marks, in whole nanoseconds.
        base_congestion_marking_interval: Option<Duration> = opt(Nanos, nfd::BASE_CONGESTION_MARKING_INTERVAL),
        /// Queue length that counts as congestion, in bytes.
        default_congestion_threshold: Option<u64> = opt(Number, nfd::DEFAULT_CONGESTION_THRESHOLD),
        /// The face's MTU, in bytes.
        mtu: Option<u64> = opt(Number, nfd::MTU),
        /// Larder's own: a policy spec of the Content Store.
        policy: Option<String> = opt(Text, nfd::LARDER_POLICY),
        /// Larder's own: Content Store capacity, in bytes.
        capacity_bytes: Option<u64> = opt(Number, nfd::LARDER_CAPACITY_BYTES),
    }

    /// Reply to a command: the content of the Data that answers it. A body that is no
    /// ControlParameters is skipped.
    ControlResponse = nfd::CONTROL_RESPONSE => {
        /// As HTTP counts: 200, 400, 403, 404, 409, 501.
        status_code: u64 = one(Number, nfd::STATUS_CODE),
        /// The same in words.
        status_text: String = one(Text, nfd::STATUS_TEXT),
        /// What came of the command.
        body: Option<ControlParameters> = opt(Nested<ControlParameters>, nfd::CONTROL_PARAMETERS),
    }

    /// The body of the reply to `faces/create`: ControlParameters in the order of the protocol's
    /// definition (NFD wiki, "ControlCommand"), which python-ndn and ndnd require. NFD writes the
    /// interval, the threshold and the MTU at the end: python-ndn refuses this, and ndnd passes
    /// over them. ndn-cxx reads any order. NDNts expects NFD's order, and passes over flags and
    /// persistency here.
    NewFace = nfd::CONTROL_PARAMETERS => {
        /// The number of the face.
        face_id: u64 = one(Number, nfd::FACE_ID),
        /// Face URI of the other end.
        uri: String = one(Text, nfd::URI),
        /// Face URI of this end.
        local_uri: String = one(Text, nfd::LOCAL_URI),
        /// Time between two congestion marks, in whole nanoseconds.
        base_congestion_marking_interval: Duration = one(Nanos, nfd::BASE_CONGESTION_MARKING_INTERVAL),
        /// Queue length that counts as congestion, in bytes.
        default_congestion_threshold: u64 = one(Number, nfd::DEFAULT_CONGESTION_THRESHOLD),
        /// The face's MTU, in bytes.
        mtu: u64 = one(Number, nfd::MTU),
        /// Flag bits.
        flags: u64 = one(Number, nfd::FLAGS),
        /// 0 persistent, 1 on-demand, 2 permanent.
        face_persistency: u64 = one(Number, nfd::FACE_PERSISTENCY),
    }

    /// Reply to `faces/create` if there is a face: it was made (200), or was there before (409).
    NewFaceResponse = nfd::CONTROL_RESPONSE => {
        /// As HTTP counts.
        status_code: u64 = one(Number, nfd::STATUS_CODE),
        /// The same in words.
        status_text: String = one(Text, nfd::STATUS_TEXT),
        /// The face.
        body: NewFace = one(Nested<NewFace>, nfd::CONTROL_PARAMETERS),
    }
}

impl ControlParameters {
    /// Reads exactly one ControlParameters element.
    ///
    /// # Errors
    /// Where it is none, with the offset in `wire`.
    pub fn decode(wire: &[u8]) -> Result<Self, DecodeError> {
        <Self as Element>::decode(wire)
    }

    /// The whole element, which as a name component's value ends the name of a command.
    pub fn encode(&self) -> Vec<u8> {
        <Self as Element>::encode(self)
    }

    /// The flag bit `bit` where the mask means it; `None` where it is not meant.
    pub fn flag(&self, bit: u64) -> Option<bool> {
        let meant = self.mask.unwrap_or(0) & bit != 0;
        meant.then(|| self.flags.unwrap_or(0) & bit != 0)
    }
}

impl ControlResponse {
    /// Reads exactly one ControlResponse element.
    ///
    /// # Errors
    /// Where it is none, with the offset in `wire`.
    pub fn decode(wire: &[u8]) -> Result<Self, DecodeError> {
        <Self as Element>::decode(wire)
    }

    /// The whole element.
    pub fn encode(&self) -> Vec<u8> {
        <Self as Element>::encode(self)
    }
}

/// A prefix announcement: Data by which somebody offers to serve a prefix (NFD wiki,
/// "PrefixAnnouncement").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixAnnouncement {
    /// The announced prefix.
    pub prefix: Name,
    /// How long the route may live.
    pub expiration: Duration,
}

impl PrefixAnnouncement {
    /// Reads it out of the Data, which is called `PREFIX/32=PA/v=…/seg=0` and has content type 5.
    /// Its ValidityPeriod, where there is one, is passed over: it means something to who verifies
    /// the signature, as a certificate's does.
    ///
    /// # Errors
    /// Where it is none.
    pub fn of_data(data: &Data<'_>) -> Result<Self, DecodeError> {
        let no_announcement = DecodeErrorKind::BadValue(types::NAME).at(0);
        let prefix = data
            .name
            .component_count()
            .checked_sub(3)
            .ok_or(no_announcement)?;
        let mut tail = data.name.components().skip(prefix);
        let named = tail
            .next()
            .is_some_and(|component| component.is_keyword(b"PA"))
            && tail
                .next()
                .is_some_and(|component| component.as_version().is_some())
            && tail
                .next()
                .is_some_and(|component| component.as_segment() == Some(0));
        if !named || data.content_type != Some(types::CONTENT_PREFIX_ANNOUNCEMENT) {
            return Err(no_announcement);
        }
        for element in TlvReader::new(data.content) {
            let element = element?;
            if element.typ == nfd::EXPIRATION_PERIOD {
                let expiration = Duration::from_millis(element.number()?);
                return Ok(PrefixAnnouncement {
                    prefix: data.name.prefix(prefix).to_name(),
                    expiration,
                });
            }
        }
        Err(DecodeErrorKind::Missing("ExpirationPeriod").at(0))
    }
}
