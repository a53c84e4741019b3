//! The search for the version of an object, or for a Data of its name.

use crate::error::FetchError;
use crate::metadata::METADATA_KEYWORD;
use larder_packet::{Name, NameRef, types};

/// The number of the metadata, or of the first segment, in the window of a discovery.
pub(super) const METADATA: u64 = 0;
/// The number of the Data with the object's own name in that window.
pub(super) const PLAIN: u64 = 1;

/// The search for an object's version, or for a Data of its name.
pub(super) struct Discovery {
    pub(super) object: Name,
    pub(super) metadata: Name,
    /// True if the first segment is requested instead of the metadata, because the name has a
    /// version.
    pub(super) is_segment: bool,
    /// True if Data with the object's own name is requested.
    pub(super) requests_plain: bool,
    /// The reason why there is no metadata.
    pub(super) failure: Option<Box<FetchError>>,
    /// The error for a Data of a longer name, which was not requested.
    pub(super) longer: Option<FetchError>,
}

impl Discovery {
    /// Returns the discovery of this object. It requests the first segment instead of the metadata
    /// if `is_segment`.
    pub(super) fn new(object: Name, is_segment: bool) -> Self {
        let mut metadata = object.clone();
        if is_segment {
            metadata.push_segment(0)
        } else {
            metadata.push_keyword(METADATA_KEYWORD)
        };
        Discovery {
            object,
            metadata,
            is_segment,
            requests_plain: false,
            failure: None,
            longer: None,
        }
    }

    /// Returns the number that answers to this name: of a Data if `is_data`, of an Interest
    /// otherwise.
    pub(super) fn number_of(&self, name: NameRef<'_>, is_data: bool) -> Option<u64> {
        if name == self.object.as_name() {
            return Some(PLAIN);
        }
        let metadata = self.metadata.as_name();
        (name == metadata || (is_data && name.starts_with(metadata))).then_some(METADATA)
    }

    /// Returns the versioned name if `found` is a segment of a version of the object.
    pub(super) fn version_of(&self, found: NameRef<'_>) -> Option<Name> {
        let versioned = found.without_last();
        let is_version = versioned
            .last()
            .is_some_and(|last| last.typ == types::VERSION)
            && versioned.without_last() == self.object.as_name();
        let is_segment = found.last().is_some_and(|last| last.as_segment().is_some());
        (is_version && is_segment).then(|| versioned.to_name())
    }

    /// Returns the selectors of the Interest for the object's own name. The first transmission
    /// requests this Data only. Retransmissions also accept Data of a longer name: alternately
    /// fresh Data, which has the current version (as in ndn-cxx's SegmentFetcher), and any Data.
    pub(super) fn plain_selectors(sends: u32) -> &'static [u8] {
        const CAN_BE_PREFIX: u8 = types::CAN_BE_PREFIX as u8;
        const MUST_BE_FRESH: u8 = types::MUST_BE_FRESH as u8;
        match sends {
            0 => &[],
            sends if sends % 2 == 1 => &[CAN_BE_PREFIX, 0, MUST_BE_FRESH, 0],
            _ => &[CAN_BE_PREFIX, 0],
        }
    }
}
