//! Commands and their replies (NFD wiki, "ControlCommand"), and the prefix announcement that one of
//! the commands carries.

use super::element::{
    Element, Millis, NameElement, NameInside, Nanos, Nested, Number, Text, elements,
};
use crate::data::Data;
use crate::name::Name;
use crate::tlv::{DecodeError, DecodeErrorKind, TlvReader};
use crate::types::{self, nfd};
use std::time::Duration;

elements! {
    /// Arguments of a command; in its reply, the values that are in effect.
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
        /// The flag bits that the command sets.
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

    /// Reply to a command: the content of the Data that answers it. A body that is not a
    /// ControlParameters is skipped.
    ControlResponse = nfd::CONTROL_RESPONSE => {
        /// A status code with HTTP's numbers: 200, 400, 403, 404, 409, 501.
        status_code: u64 = one(Number, nfd::STATUS_CODE),
        /// The status in words.
        status_text: String = one(Text, nfd::STATUS_TEXT),
        /// The values that are in effect.
        body: Option<ControlParameters> = opt(Nested<ControlParameters>, nfd::CONTROL_PARAMETERS),
    }

    /// The body of the reply to `faces/create`: ControlParameters in the order of the protocol's
    /// definition (NFD wiki, "ControlCommand"). python-ndn and ndnd require this order. NFD writes
    /// the interval, the threshold and the MTU at the end; python-ndn rejects that order, and ndnd
    /// ignores the three fields. ndn-cxx reads any order. NDNts expects NFD's order, and ignores
    /// flags and persistency here.
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

    /// Reply to `faces/create` with a face that was created (200) or existed before (409).
    NewFaceResponse = nfd::CONTROL_RESPONSE => {
        /// A status code with HTTP's numbers.
        status_code: u64 = one(Number, nfd::STATUS_CODE),
        /// The status in words.
        status_text: String = one(Text, nfd::STATUS_TEXT),
        /// The face.
        body: NewFace = one(Nested<NewFace>, nfd::CONTROL_PARAMETERS),
    }
}

impl ControlParameters {
    /// Decodes exactly one ControlParameters element.
    ///
    /// # Errors
    /// [`DecodeError`] with the offset in `wire` if it is not such an element.
    pub fn decode(wire: &[u8]) -> Result<Self, DecodeError> {
        <Self as Element>::decode(wire)
    }

    /// Returns the whole element. As the value of a name component it ends the name of a command.
    pub fn encode(&self) -> Vec<u8> {
        <Self as Element>::encode(self)
    }

    /// Returns the flag bit `bit` if the mask selects it, otherwise `None`.
    pub fn flag(&self, bit: u64) -> Option<bool> {
        let meant = self.mask.unwrap_or(0) & bit != 0;
        meant.then(|| self.flags.unwrap_or(0) & bit != 0)
    }
}

impl ControlResponse {
    /// Decodes exactly one ControlResponse element.
    ///
    /// # Errors
    /// [`DecodeError`] with the offset in `wire` if it is not such an element.
    pub fn decode(wire: &[u8]) -> Result<Self, DecodeError> {
        <Self as Element>::decode(wire)
    }

    /// Returns the whole element.
    pub fn encode(&self) -> Vec<u8> {
        <Self as Element>::encode(self)
    }
}

/// A prefix announcement: Data by which a producer offers to serve a prefix (NFD wiki,
/// "PrefixAnnouncement").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixAnnouncement {
    /// The announced prefix.
    pub prefix: Name,
    /// The maximum lifetime of the route.
    pub expiration: Duration,
}

impl PrefixAnnouncement {
    /// Decodes the announcement in a Data. Its name is `PREFIX/32=PA/v=…/seg=0`, and its content
    /// type is 5. A ValidityPeriod is ignored: the code that verifies the signature checks it, as
    /// it does for a certificate.
    ///
    /// # Errors
    /// [`DecodeError`] if the Data is not an announcement.
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
