//! Places for bodies that are coded while they are sent.

use crate::base::places::Places;
use larder_content_coding::ContentCoding;
use std::sync::Arc;

/// Encoders of brotli and zstd at once. One of brotli has up to 4 MiB and one of zstd 1.3 MiB, so
/// they have 128 MiB at most.
const LARGE: usize = 32;

/// Encoders of gzip at once. One has 80 KiB, so they have 80 MiB at most.
const SMALL: usize = 1024;

/// The places, by the memory of an encoder.
pub(crate) struct EncoderPlaces {
    large: Arc<Places>,
    small: Arc<Places>,
}

impl EncoderPlaces {
    pub(crate) fn new() -> EncoderPlaces {
        EncoderPlaces {
            large: Places::new(LARGE),
            small: Places::new(SMALL),
        }
    }

    /// Returns the places for encoders of a coding.
    pub(crate) fn of(&self, coding: ContentCoding) -> &Arc<Places> {
        if coding == ContentCoding::Gzip {
            &self.small
        } else {
            &self.large
        }
    }
}
