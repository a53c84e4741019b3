//! The producer: serves one version of one object as segments, which it makes on request, and its
//! RDR metadata.
//!
//! It answers these names:
//! * `<name>/v=<n>/seg=<i>`: that segment, with FinalBlockId in every one. An empty object is one
//!   empty segment.
//! * `<name>/32=metadata` (CanBePrefix) and the full metadata name: the version, the number of
//!   segments and the size, as ndn6-file-server does.
//! * `<name>/v=<n>/32=manifest/seg=<i>`, if only the metadata is signed: the
//!   [manifest](crate::manifest) that leads from it to the segments, which then carry digests only.
//! * `<name>` and `<name>/v=<n>` with CanBePrefix: segment 0, from whose name older consumers learn
//!   the version.
//!
//! It does not answer other names or segments past the end, and counts them (as ndn6-file-server
//! does: a Nack would be cached). Only segments that were read ahead are in memory. It makes a
//! manifest at the beginning, by reading the whole source once. After every read the publisher
//! compares the source's stamp (size and time of modification) with the first one. After a
//! difference it stops answering, so that no consumer gets a mixture of two files under one
//! version. It cannot detect a write of the same length within the tick of the file system's clock
//! (4 ms on Linux) in which the file was last modified before.

use crate::error::PublishError;
use crate::limits::{
    DEFAULT_FRESHNESS, DEFAULT_SEGMENT_BYTES, MAX_PACKET_BYTES, METADATA_FRESHNESS,
    READ_AHEAD_SEGMENTS,
};
use crate::manifest::{MANIFEST_KEYWORD, Manifest, Tree};
use crate::metadata::{METADATA_KEYWORD, Metadata};
use crate::object::segment_number;
use larder_packet::tlv::nni_len;
use larder_packet::{
    Component, Data, DataBuilder, DigestSigner, Interest, Name, NameRef, Signer, types,
};
use std::io;
use std::ops::Range;
use std::time::Duration;

/// The length of the longest ECDSA P-256 signature in DER. Lengths vary, and the size of a packet
/// must be known before it is signed.
const MAX_ECDSA_BYTES: usize = 72;

/// The source of an object's bytes.
pub trait Source {
    /// Returns the source's present size and time of modification.
    ///
    /// # Errors
    /// If the source cannot be inspected.
    fn stamp(&mut self) -> io::Result<Stamp>;

    /// Fills `buffer` with the bytes at `offset`.
    ///
    /// # Errors
    /// If they cannot be read, or there are fewer (`UnexpectedEof`).
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// The stamp of a source, which shows whether the source has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The size in bytes.
    pub size_bytes: u64,
    /// The time of the last modification, in nanoseconds since 1970; 0 if there is none.
    pub modified_ns: u64,
}

impl Source for Vec<u8> {
    fn stamp(&mut self) -> io::Result<Stamp> {
        Ok(Stamp {
            size_bytes: self.len() as u64,
            modified_ns: 0,
        })
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.get(start..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Options of a [`Publisher`].
#[derive(Clone, Copy, Debug)]
pub struct PublishOptions {
    /// The size of the largest packet that every node on the path accepts, in bytes.
    pub largest_packet: usize,
    /// Bytes of content in every segment but the last.
    pub segment_bytes: usize,
    /// FreshnessPeriod of segments.
    pub freshness: Duration,
    /// True if only the metadata is signed, for the whole object.
    pub manifest: bool,
}

impl Default for PublishOptions {
    fn default() -> Self {
        PublishOptions {
            largest_packet: MAX_PACKET_BYTES,
            segment_bytes: DEFAULT_SEGMENT_BYTES,
            freshness: DEFAULT_FRESHNESS,
            manifest: false,
        }
    }
}

/// The answer to an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// This segment.
    Segment(u64),
    /// The metadata.
    Metadata,
    /// This packet of the manifest.
    Manifest(u64),
    /// No Data: the object ends before this segment.
    PastEnd,
    /// No Data: the name does not belong to this object.
    NotOurs,
}

/// The counters of a producer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishStats {
    /// Segments sent.
    pub segments: u64,
    /// Bytes of content in them.
    pub bytes: u64,
    /// Metadata packets sent.
    pub metadata: u64,
    /// Packets of the manifest sent.
    pub manifest: u64,
    /// Interests for segments past the end.
    pub past_end: u64,
    /// Interests for other names.
    pub not_ours: u64,
}

/// Serves one version of one object. See the module's documentation.
pub struct Publisher<S> {
    name: Name,
    versioned: Name,
    manifest_name: Name,
    metadata_name: Name,
    metadata: Vec<u8>,
    manifest: Option<Manifest>,
    source: S,
    stamp: Stamp,
    changed: bool,
    last_segment: u64,
    signer: Box<dyn Signer>,
    options: PublishOptions,
    held: Held,
    stats: PublishStats,
}

/// Bytes of the source: one segment, or several if segments are requested in order.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    offset: u64,
    /// The segment that is next in order.
    next: Option<u64>,
}

impl Held {
    /// Returns the position of `length` bytes at `offset`, if they are present.
    fn find(&self, offset: u64, length: usize) -> Option<Range<usize>> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        let end = start
            .checked_add(length)
            .filter(|end| *end <= self.bytes.len())?;
        Some(start..end)
    }
}

impl<S: Source> Publisher<S> {
    /// Creates a publisher of `source` as `name` in version `version`.
    ///
    /// # Errors
    /// [`PublishError`] if the source cannot be inspected, or segments of this size do not fit into
    /// a packet (the error states the size that does). With a manifest also if the source cannot be
    /// read, or has too many segments.
    pub fn new(
        name: Name,
        version: u64,
        mut source: S,
        signer: Box<dyn Signer>,
        options: PublishOptions,
    ) -> Result<Self, PublishError> {
        let stamp = source.stamp().map_err(PublishError::Read)?;
        let segment_bytes = options.segment_bytes;
        let last_segment = stamp
            .size_bytes
            .div_ceil(segment_bytes.max(1) as u64)
            .max(1)
            - 1;
        let mut versioned = name.clone();
        versioned.push_version(version);
        let mut metadata_name = name.clone();
        metadata_name
            .push_keyword(METADATA_KEYWORD)
            .push_version(version)
            .push_segment(0);
        let mut manifest_name = versioned.clone();
        manifest_name.push_keyword(MANIFEST_KEYWORD);
        let mut publisher = Publisher {
            name,
            versioned,
            manifest_name,
            metadata_name,
            metadata: Vec::new(),
            manifest: None,
            source,
            stamp,
            changed: false,
            last_segment,
            signer,
            options,
            held: Held::default(),
            stats: PublishStats::default(),
        };
        publisher.check_segment_size()?;
        if options.manifest {
            publisher.make_manifest()?;
        }
        publisher.encode_metadata();
        Ok(publisher)
    }

    fn encode_metadata(&mut self) {
        let Stamp {
            size_bytes,
            modified_ns,
        } = self.stamp;
        let metadata = Metadata {
            name: self.versioned.clone(),
            last_segment: Some(self.last_segment),
            segment_bytes: Some(self.options.segment_bytes as u64),
            size_bytes: Some(size_bytes),
            modified_ns: (modified_ns > 0).then_some(modified_ns),
            manifest: self.manifest.as_ref().map(Manifest::root),
        };
        metadata.encode(&mut self.metadata);
    }

    /// Makes every segment for its digest, and then the packets above them.
    fn make_manifest(&mut self) -> Result<(), PublishError> {
        let segments = self.last_segment + 1;
        let tree = Tree::new(segments, Tree::fan_out(self.options.segment_bytes));
        let mut manifest = Manifest::new(tree.ok_or(PublishError::ManifestTooLarge { segments })?);
        let mut packet = Vec::new();
        for segment in 0..segments {
            packet.clear();
            self.write_segment(segment, &mut packet)?;
            if let Ok(data) = Data::decode(&packet) {
                manifest.record_segment(segment, &data);
            }
        }
        for number in (0..manifest.tree().packets()).rev() {
            packet.clear();
            self.encode_manifest(&manifest, number, &mut packet)?;
            if let Ok(data) = Data::decode(&packet) {
                manifest.record_packet(number, &data);
            }
        }
        self.manifest = Some(manifest);
        Ok(())
    }

    /// Returns the name with its version, which the metadata names as the current one.
    pub fn versioned_name(&self) -> &Name {
        &self.versioned
    }

    /// Returns the number of the last segment.
    pub fn last_segment(&self) -> u64 {
        self.last_segment
    }

    /// Returns the size of the object in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.stamp.size_bytes
    }

    /// Returns the counters.
    pub fn stats(&self) -> &PublishStats {
        &self.stats
    }

    /// Answers an Interest: appends the Data to `out`, or leaves it unchanged.
    ///
    /// # Errors
    /// [`PublishError`] if the source changed or cannot be read, or the packet cannot be signed.
    /// `out` is then unchanged.
    pub fn on_interest(
        &mut self,
        interest: &Interest<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Reply, PublishError> {
        let (name, digest) = interest.name.strip_implicit_digest();
        // A digest follows the whole name of a Data, so it excludes a prefix match.
        let prefix = interest.can_be_prefix && digest.is_none();
        let reply = self.find(name, prefix);
        let start = out.len();
        match reply {
            Reply::Segment(segment) => self.write_segment(segment, out)?,
            Reply::Metadata => self.write_metadata(out)?,
            Reply::Manifest(number) => self.write_manifest(number, out)?,
            Reply::PastEnd => self.stats.past_end += 1,
            Reply::NotOurs => self.stats.not_ours += 1,
        }
        if let Some(digest) = digest.filter(|_| out.len() > start) {
            let same =
                Data::decode(&out[start..]).is_ok_and(|data| data.implicit_digest() == digest);
            if !same {
                out.truncate(start);
                self.stats.not_ours += 1;
                return Ok(Reply::NotOurs);
            }
        }
        match reply {
            Reply::Segment(segment) => {
                self.stats.segments += 1;
                self.stats.bytes += self.extent(segment).1 as u64;
            }
            Reply::Metadata => self.stats.metadata += 1,
            Reply::Manifest(_) => self.stats.manifest += 1,
            Reply::PastEnd | Reply::NotOurs => {}
        }
        Ok(reply)
    }

    fn find(&self, name: NameRef<'_>, prefix: bool) -> Reply {
        if let Some(rest) = name
            .as_bytes()
            .strip_prefix(self.manifest_name.as_name().as_bytes())
        {
            let packets = self
                .manifest
                .as_ref()
                .map(|manifest| manifest.tree().packets());
            return match segment_number(rest).zip(packets) {
                Some((number, packets)) if number < packets => Reply::Manifest(number),
                Some(_) => Reply::PastEnd,
                None => Reply::NotOurs,
            };
        }
        if let Some(rest) = name
            .as_bytes()
            .strip_prefix(self.versioned.as_name().as_bytes())
        {
            return match segment_number(rest) {
                Some(segment) if segment <= self.last_segment => Reply::Segment(segment),
                Some(_) => Reply::PastEnd,
                None if rest.is_empty() && prefix => Reply::Segment(0),
                None => Reply::NotOurs,
            };
        }
        let metadata = self.metadata_name.as_name();
        if name == metadata {
            return Reply::Metadata;
        }
        if !prefix {
            return Reply::NotOurs;
        }
        // Only the metadata can match a name longer than the object's. A shorter one matches both,
        // and selects the object.
        if name.component_count() > self.name.as_name().component_count() {
            return if metadata.starts_with(name) {
                Reply::Metadata
            } else {
                Reply::NotOurs
            };
        }
        if self.versioned.as_name().starts_with(name) {
            Reply::Segment(0)
        } else {
            Reply::NotOurs
        }
    }

    fn write_segment(&mut self, segment: u64, out: &mut Vec<u8>) -> Result<(), PublishError> {
        let content = self.read(segment)?;
        self.encode_segment(segment, &self.held.bytes[content], out)
    }

    /// Returns a segment's offset and length in the source, in bytes.
    fn extent(&self, segment: u64) -> (u64, usize) {
        let segment_bytes = self.options.segment_bytes as u64;
        let offset = segment * segment_bytes;
        (
            offset,
            segment_bytes.min(self.stamp.size_bytes - offset) as usize,
        )
    }

    /// Reads a segment's content, and those after it if segments are requested in order. Then
    /// checks that the file is unchanged. Returns the position of the content.
    fn read(&mut self, segment: u64) -> Result<Range<usize>, PublishError> {
        if self.changed {
            return Err(PublishError::Changed);
        }
        let (offset, length) = self.extent(segment);
        let in_order = self.held.next.replace(segment + 1) == Some(segment);
        // Out of order, the segment is read again and the source is inspected, so that a change is
        // also found for an object of one segment.
        if let Some(found) = self.held.find(offset, length).filter(|_| in_order) {
            return Ok(found);
        }
        let segments = if in_order { READ_AHEAD_SEGMENTS } else { 1 };
        let left = usize::try_from(self.stamp.size_bytes - offset).unwrap_or(usize::MAX);
        self.held.bytes.resize((length * segments).min(left), 0);
        let read = self.source.read_at(offset, &mut self.held.bytes);
        // The buffer is invalid until its bytes are known to belong to the same file.
        self.held.offset = u64::MAX;
        // The stamp changes before the bytes do, so an inspection after the read is early enough.
        if self.source.stamp().map_err(PublishError::Read)? != self.stamp {
            self.changed = true;
            return Err(PublishError::Changed);
        }
        read.map_err(PublishError::Read)?;
        self.held.offset = offset;
        Ok(0..length)
    }

    fn encode_segment(
        &self,
        segment: u64,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), PublishError> {
        self.encode(&self.versioned, segment, self.last_segment, content, out)
    }

    fn write_manifest(&self, number: u64, out: &mut Vec<u8>) -> Result<(), PublishError> {
        self.manifest.as_ref().map_or(Ok(()), |manifest| {
            self.encode_manifest(manifest, number, out)
        })
    }

    fn encode_manifest(
        &self,
        manifest: &Manifest,
        number: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), PublishError> {
        let last = manifest.tree().packets() - 1;
        self.encode(
            &self.manifest_name,
            number,
            last,
            manifest.content(number),
            out,
        )
    }

    /// Encodes segment `number` of those under `prefix`.
    fn encode(
        &self,
        prefix: &Name,
        number: u64,
        last: u64,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), PublishError> {
        let mut name = prefix.clone();
        name.push_segment(number);
        let mut digits = [0; 8];
        DataBuilder::new(&name)
            .freshness(self.options.freshness)
            .final_block_id(segment_component(last, &mut digits))
            .content(content)
            .build_into(self.segment_signer(), out)
            .map_err(PublishError::Sign)
    }

    /// Returns the signer of segments. With a manifest it makes digests, for consumers that do not
    /// read the manifest.
    fn segment_signer(&self) -> &dyn Signer {
        if self.options.manifest {
            &DigestSigner
        } else {
            self.signer.as_ref()
        }
    }

    fn write_metadata(&self, out: &mut Vec<u8>) -> Result<(), PublishError> {
        let mut digits = [0; 8];
        DataBuilder::new(&self.metadata_name)
            .freshness(METADATA_FRESHNESS)
            .final_block_id(segment_component(0, &mut digits))
            .content(&self.metadata)
            .build_into(self.signer.as_ref(), out)
            .map_err(PublishError::Sign)
    }

    /// Builds the packet with the longest name, to check that it fits.
    fn check_segment_size(&self) -> Result<(), PublishError> {
        let asked = self.options.segment_bytes;
        let trial = vec![0; asked.min(self.options.largest_packet)];
        let mut packet = Vec::new();
        self.encode_segment(self.last_segment, &trial, &mut packet)?;
        let signature = Data::decode(&packet).map_or(0, |data| data.signature_value.len());
        let may_grow = if self.segment_signer().signature_type() == types::SHA256_WITH_ECDSA {
            MAX_ECDSA_BYTES.saturating_sub(signature)
        } else {
            0
        };
        let overhead = packet.len() + may_grow - trial.len();
        let largest = self.options.largest_packet.saturating_sub(overhead);
        if asked == 0 || asked > largest {
            return Err(PublishError::SegmentSize { asked, largest });
        }
        Ok(())
    }
}

fn segment_component(number: u64, digits: &mut [u8; 8]) -> Component<'_> {
    *digits = number.to_be_bytes();
    Component {
        typ: types::SEGMENT,
        value: &digits[8 - nni_len(number)..],
    }
}
