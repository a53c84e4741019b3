//! Status datasets: content cut into segments under a version.
//!
//! A dataset is made when its name is asked for by prefix, and remembered under its version while
//! its segments are fetched: the answers to one fetch are of one moment. (NFD wiki, "Status
//! Dataset".)

use super::{DatasetFn, Outcome, Refusal, refusal};
use crate::forwarder::Forwarder;
use crate::limits::{DATASET_BYTES, DATASET_SEGMENT_BYTES, DATASETS, DATASETS_BYTES, MAX_PACKET_BYTES};
use bytes::Bytes;
use larder_packet::mgmt::Element;
use larder_packet::{Component, DataBuilder, DigestSigner, Interest, Name, NameRef, types};
use larder_units::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// How long a segment is fresh, as NFD's are.
const FRESHNESS: Duration = Duration::from_secs(1);

/// Bytes of a segment beside name and content: MetaInfo, digest, headers.
const SEGMENT_OVERHEAD_BYTES: usize = 128;

/// The content of a dataset in the making.
#[derive(Default)]
pub(crate) struct Content {
    bytes: Vec<u8>,
}

impl Content {
    /// Adds an entry. An error where the dataset gets too large to be told.
    pub(super) fn push(&mut self, element: &impl Element) -> Result<(), Refusal> {
        element.encode_into(&mut self.bytes);
        match self.bytes.len() > DATASET_BYTES {
            true => Err((507, format!("the dataset is larger than {DATASET_BYTES} bytes"))),
            false => Ok(()),
        }
    }

    /// Adds fields without an element around them.
    pub(super) fn push_fields(&mut self, element: &impl Element) {
        element.encode_fields(&mut self.bytes);
    }
}

/// The datasets that are being fetched.
#[derive(Default)]
pub(crate) struct Datasets {
    renditions: VecDeque<Rendition>,
    bytes: usize,
    last_version: u64,
}

struct Rendition {
    /// With the version at the end.
    name: Name,
    content: Bytes,
    segment_bytes: usize,
    content_type: Option<u64>,
}

impl Datasets {
    fn keep(&mut self, rendition: Rendition) {
        self.bytes += rendition.content.len();
        self.renditions.push_back(rendition);
        while self.renditions.len() > DATASETS || (self.bytes > DATASETS_BYTES && self.renditions.len() > 1) {
            self.bytes -= self.renditions.pop_front().map_or(0, |gone| gone.content.len());
        }
    }

    fn find(&self, versioned: NameRef<'_>) -> Option<&Rendition> {
        self.renditions.iter().rev().find(|rendition| rendition.name.as_name() == versioned)
    }
}

impl Rendition {
    /// The Data of a segment, if there is one of this number.
    fn segment(&self, number: u64) -> Option<Bytes> {
        let last = (self.content.len().max(1) - 1) / self.segment_bytes;
        let number = usize::try_from(number).ok().filter(|number| *number <= last)?;
        let from = number * self.segment_bytes;
        let to = self.content.len().min(from + self.segment_bytes);
        let mut name = self.name.clone();
        name.push_segment(number as u64);
        let mut final_name = Name::root();
        final_name.push_segment(last as u64);
        let mut builder = DataBuilder::new(&name).freshness(FRESHNESS).content(&self.content[from..to]);
        if let Some(component) = final_name.as_name().last() {
            builder = builder.final_block_id(component);
        }
        if let Some(content_type) = self.content_type {
            builder = builder.content_type(content_type);
        }
        builder.build(&DigestSigner).ok().map(Bytes::from)
    }
}

impl Forwarder {
    pub(super) fn on_dataset(&mut self, now: Time, interest: &Interest<'_>, function: DatasetFn) -> Outcome {
        let segment = match place(interest.name) {
            Place::Whole if !interest.can_be_prefix => None,
            Place::Whole => self.render(now, interest.name, function),
            Place::Version if !interest.can_be_prefix => None,
            Place::Version => self.management.datasets.find(interest.name).and_then(|found| found.segment(0)),
            Place::Segment(number) => {
                let versioned = interest.name.without_last();
                self.management.datasets.find(versioned).and_then(|found| found.segment(number))
            }
        };
        segment.map_or(Outcome::Unknown, Outcome::Answer)
    }

    /// Whether a new rendition is asked for.
    pub(super) fn is_of_whole_dataset(interest: &Interest<'_>) -> bool {
        interest.can_be_prefix && matches!(place(interest.name), Place::Whole)
    }

    /// Makes the dataset as it is now; returns its first segment.
    pub(super) fn render(&mut self, now: Time, name: NameRef<'_>, function: DatasetFn) -> Option<Bytes> {
        let (name, _) = name.strip_implicit_digest();
        // Version and segment number take up to 20 bytes more.
        let room = MAX_PACKET_BYTES.checked_sub(SEGMENT_OVERHEAD_BYTES + 20 + name.as_bytes().len())?;
        let segment_bytes = room.min(DATASET_SEGMENT_BYTES);
        if segment_bytes == 0 {
            return None;
        }
        let mut content = Content::default();
        let (bytes, content_type) = match function(self, now, name, &mut content) {
            Ok(()) => (content.bytes, None),
            // As NFD's: the content of a refused dataset is a ControlResponse.
            Err(refused) => (refusal(refused).encode(), Some(types::CONTENT_NACK)),
        };
        let version = self.unix_millis(now).max(self.management.datasets.last_version + 1);
        self.management.datasets.last_version = version;
        let mut name = name.to_name();
        name.push_version(version);
        let rendition = Rendition { name, content: bytes.into(), segment_bytes, content_type };
        let first = rendition.segment(0);
        self.management.datasets.keep(rendition);
        first
    }
}

/// Which part of a dataset a name asks for.
enum Place {
    Whole,
    Version,
    Segment(u64),
}

fn place(name: NameRef<'_>) -> Place {
    let last = name.last();
    let before = name.without_last().last();
    match (before.as_ref().and_then(Component::as_version), last.as_ref()) {
        (Some(_), Some(last)) if last.as_segment().is_some() => Place::Segment(last.as_segment().unwrap_or_default()),
        (_, Some(last)) if last.as_version().is_some() => Place::Version,
        _ => Place::Whole,
    }
}
