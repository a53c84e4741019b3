//! The datasets that consumers fetch.

use super::refusal::Refusal;
use crate::limits::{DATASET_BYTES, DATASETS, DATASETS_BYTES};
use bytes::Bytes;
use larder_packet::mgmt::Element;
use larder_packet::{DataBuilder, DigestSigner, Name, NameRef};
use std::collections::VecDeque;
use std::time::Duration;

/// The FreshnessPeriod of a segment, as in NFD.
pub(crate) const FRESHNESS: Duration = Duration::from_secs(1);

/// The content of a dataset in the making.
#[derive(Default)]
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
}

impl Content {
    /// Adds an entry. Fails if the dataset becomes too large.
    pub(crate) fn push(&mut self, element: &impl Element) -> Result<(), Refusal> {
        element.encode_into(&mut self.bytes);
        if self.bytes.len() > DATASET_BYTES {
            Err((
                507,
                format!("the dataset is larger than {DATASET_BYTES} bytes"),
            ))
        } else {
            Ok(())
        }
    }

    /// Adds fields without an element around them.
    pub(crate) fn push_fields(&mut self, element: &impl Element) {
        element.encode_fields(&mut self.bytes);
    }
}

/// The datasets that are being fetched.
#[derive(Default)]
pub(crate) struct Datasets {
    pub(crate) renditions: VecDeque<Rendition>,
    pub(crate) bytes: usize,
    pub(crate) last_version: u64,
}

pub(crate) struct Rendition {
    /// The name, which ends with the version.
    pub(crate) name: Name,
    pub(crate) content: Bytes,
    pub(crate) segment_bytes: usize,
    pub(crate) content_type: Option<u64>,
}

impl Datasets {
    pub(crate) fn keep(&mut self, rendition: Rendition) {
        self.bytes += rendition.content.len();
        self.renditions.push_back(rendition);
        while self.renditions.len() > DATASETS
            || (self.bytes > DATASETS_BYTES && self.renditions.len() > 1)
        {
            self.bytes -= self
                .renditions
                .pop_front()
                .map_or(0, |gone| gone.content.len());
        }
    }

    pub(crate) fn find(&self, versioned: NameRef<'_>) -> Option<&Rendition> {
        self.renditions
            .iter()
            .rev()
            .find(|rendition| rendition.name.as_name() == versioned)
    }
}

impl Rendition {
    /// The Data of a segment, if there is one of this number.
    pub(crate) fn segment(&self, number: u64) -> Option<Bytes> {
        let last = (self.content.len().max(1) - 1) / self.segment_bytes;
        let number = usize::try_from(number)
            .ok()
            .filter(|number| *number <= last)?;
        let from = number * self.segment_bytes;
        let to = self.content.len().min(from + self.segment_bytes);
        let mut name = self.name.clone();
        name.push_segment(number as u64);
        let mut final_name = Name::root();
        final_name.push_segment(last as u64);
        let mut builder = DataBuilder::new(&name)
            .freshness(FRESHNESS)
            .content(&self.content[from..to]);
        if let Some(component) = final_name.as_name().last() {
            builder = builder.final_block_id(component);
        }
        if let Some(content_type) = self.content_type {
            builder = builder.content_type(content_type);
        }
        builder.build(&DigestSigner).ok().map(Bytes::from)
    }
}
