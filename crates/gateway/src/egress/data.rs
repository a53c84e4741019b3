//! The Data that an egress makes besides segments, which [`super::body::Body`] makes: heads and
//! errors, metadata, and messages that something is gone.

use crate::limits;
use crate::message::{Answer, Content, Head};
use crate::naming::Object;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use larder_packet::{DataBuilder, Name, NameRef, Signer, types};
use larder_transfer::Metadata;
use std::time::Duration;

/// An error of the egress itself: the status, and a line for its reader.
pub(super) type OwnError = (StatusCode, &'static str);

pub(super) const NO_ROOM: OwnError = (
    StatusCode::SERVICE_UNAVAILABLE,
    "larder: the far node has no room for another response\n",
);
pub(super) const BAD_NAME: OwnError = (
    StatusCode::BAD_REQUEST,
    "larder: the host or the path is not as an ingress writes it\n",
);
pub(super) const TIMED_OUT: OwnError = (
    StatusCode::GATEWAY_TIMEOUT,
    "larder: the origin does not answer the far node\n",
);
pub(super) const UNREACHABLE: OwnError = (
    StatusCode::BAD_GATEWAY,
    "larder: the far node does not reach the origin\n",
);
pub(super) const HEAD_TOO_LARGE: OwnError = (
    StatusCode::BAD_GATEWAY,
    "larder: the fields of the origin's response do not fit a Data\n",
);

/// Signs Data in the egress's name.
pub(super) struct DataSigner {
    signer: Box<dyn Signer>,
}

impl DataSigner {
    pub(super) fn new(signer: Box<dyn Signer>) -> DataSigner {
        DataSigner { signer }
    }

    pub(super) fn signer(&self) -> &dyn Signer {
        self.signer.as_ref()
    }

    /// Returns the answer to the question of this name.
    pub(super) fn answer(&self, key: &[u8], content: &[u8], fresh: Duration) -> Option<Bytes> {
        let name = NameRef::from_value(key).ok()?;
        let mut data = DataBuilder::new(name).content(content);
        if !fresh.is_zero() {
            data = data.freshness(fresh);
        }
        data.build(self.signer.as_ref()).ok().map(Bytes::from)
    }

    /// Returns the message that this name fetches nothing.
    pub(super) fn nothing(&self, key: &[u8], fresh: Duration) -> Option<Bytes> {
        let data = DataBuilder::new(NameRef::from_value(key).ok()?)
            .freshness(fresh)
            .content_type(types::CONTENT_NACK);
        data.build(self.signer.as_ref()).ok().map(Bytes::from)
    }

    pub(super) fn error(
        &self,
        key: &[u8],
        (status, line): OwnError,
        is_head: bool,
    ) -> Option<Bytes> {
        let mut headers = HeaderMap::new();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        );
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(line.len()));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        let text = if is_head {
            Bytes::new()
        } else {
            Bytes::from_static(line.as_bytes())
        };
        let head = Head {
            status,
            headers,
            body: Content::Inline(text),
            unframed: false,
        };
        self.answer(key, &Answer::Head(head).encode(), Duration::ZERO)
    }

    /// Returns the metadata with the version of the object's body.
    pub(super) fn metadata(&self, object: &Object, content: &Content) -> Option<Bytes> {
        let Content::Segments { version, length } = content else {
            return None;
        };
        let segment_bytes = segment_bytes(object) as u64;
        let metadata = Metadata {
            name: object.versioned(*version),
            last_segment: length.map(|length| length.div_ceil(segment_bytes).max(1) - 1),
            segment_bytes: length.map(|_| segment_bytes),
            size_bytes: *length,
            ..Metadata::default()
        };
        let mut content = Vec::new();
        metadata.encode(&mut content);
        let mut name = object.name.clone();
        name.push_keyword(larder_transfer::METADATA_KEYWORD)
            .push_version(*version)
            .push_segment(0);
        let data = DataBuilder::new(&name)
            .freshness(limits::METADATA_FRESHNESS)
            .content(&content);
        data.build(self.signer.as_ref()).ok().map(Bytes::from)
    }

    /// Returns the message that a segment will not come, so that its reader does not wait.
    pub(super) fn gone(&self, mut name: Name, segment: u64) -> Option<Bytes> {
        name.push_segment(segment);
        let data = DataBuilder::new(&name)
            .content_type(types::CONTENT_NACK)
            .build(self.signer.as_ref());
        data.ok().map(Bytes::from)
    }
}

/// Returns the bytes of body for which an answer has room.
pub(super) fn inline_room(key: &[u8], headers: &HeaderMap) -> usize {
    // A field takes four bytes besides its name and value, or eight if it is long.
    let fields: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 8)
        .sum();
    limits::MAX_PACKET_BYTES
        .saturating_sub(limits::OVERHEAD_BYTES + key.len() * 2 + fields)
        .min(limits::SEGMENT_BYTES)
}

/// Returns the bytes of each segment but the last of this object. The key's name, which is in every
/// packet, is shorter than the object's name and 16 bytes.
pub(super) fn segment_bytes(object: &Object) -> usize {
    let names = 2 * object.versioned(u64::MAX).as_bytes().len() + 32;
    (limits::MAX_PACKET_BYTES - limits::OVERHEAD_BYTES)
        .saturating_sub(names)
        .clamp(1, limits::SEGMENT_BYTES)
}
