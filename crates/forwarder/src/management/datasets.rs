//! Status datasets: content in segments, under a version (NFD wiki, "Status Dataset").
//!
//! An Interest with CanBePrefix for the dataset's name creates a version. Larder keeps it while the
//! consumer fetches its segments, so they all show the same moment.

use super::managed_forwarder::{DatasetFn, ManagedForwarder};
use super::{Outcome, refusal};
use crate::control::datasets::{Content, Rendition};
use crate::control_plane::ControlPlane;
use crate::data_plane::DataPlane;
use crate::limits::{DATASET_SEGMENT_BYTES, MAX_PACKET_BYTES};
use bytes::Bytes;
use larder_packet::{Component, Interest, NameRef, types};
use larder_units::Time;

/// The bytes of a segment beside its name and content: MetaInfo, digest, headers.
const SEGMENT_OVERHEAD_BYTES: usize = 128;

/// Processes an Interest for a dataset, a version of it or a segment.
pub(super) fn on_dataset(
    plane: &mut DataPlane,
    control: &mut ControlPlane,
    now: Time,
    interest: &Interest<'_>,
    function: DatasetFn,
) -> Outcome {
    let segment = match place(interest.name) {
        Place::Whole if !interest.can_be_prefix => None,
        Place::Whole => render(plane, control, now, interest.name, function),
        Place::Version if !interest.can_be_prefix => None,
        Place::Version => control
            .management
            .datasets
            .find(interest.name)
            .and_then(|found| found.segment(0)),
        Place::Segment(number) => {
            let versioned = interest.name.without_last();
            control
                .management
                .datasets
                .find(versioned)
                .and_then(|found| found.segment(number))
        }
    };
    segment.map_or(Outcome::Unknown, Outcome::Answer)
}

/// Returns true if the Interest creates a new version of the dataset.
pub(super) fn is_of_whole_dataset(interest: &Interest<'_>) -> bool {
    interest.can_be_prefix && matches!(place(interest.name), Place::Whole)
}

/// Creates a version of the dataset, and returns its first segment.
pub(super) fn render(
    plane: &mut DataPlane,
    control: &mut ControlPlane,
    now: Time,
    name: NameRef<'_>,
    function: DatasetFn,
) -> Option<Bytes> {
    let (name, _) = name.strip_implicit_digest();
    // Version and segment number take up to 20 more bytes.
    let room = MAX_PACKET_BYTES.checked_sub(SEGMENT_OVERHEAD_BYTES + 20 + name.as_bytes().len())?;
    let segment_bytes = room.min(DATASET_SEGMENT_BYTES);
    if segment_bytes == 0 {
        return None;
    }
    let mut content = Content::default();
    let managed = ManagedForwarder::new(plane, control);
    let (bytes, content_type) = match function(&managed, now, name, &mut content) {
        Ok(()) => (content.bytes, None),
        // As in NFD, the content of a refused dataset is a ControlResponse.
        Err(refused) => (refusal(refused).encode(), Some(types::CONTENT_NACK)),
    };
    let version = plane
        .unix_millis(now)
        .max(control.management.datasets.last_version + 1);
    control.management.datasets.last_version = version;
    let mut name = name.to_name();
    name.push_version(version);
    let rendition = Rendition {
        name,
        content: bytes.into(),
        segment_bytes,
        content_type,
    };
    let first = rendition.segment(0);
    control.management.datasets.keep(rendition);
    first
}

/// The part of a dataset that a name stands for.
enum Place {
    Whole,
    Version,
    Segment(u64),
}

fn place(name: NameRef<'_>) -> Place {
    let last = name.last();
    let before = name.without_last().last();
    match (
        before.as_ref().and_then(Component::as_version),
        last.as_ref(),
    ) {
        (Some(_), Some(last)) if last.as_segment().is_some() => {
            Place::Segment(last.as_segment().unwrap_or_default())
        }
        (_, Some(last)) if last.as_version().is_some() => Place::Version,
        _ => Place::Whole,
    }
}
