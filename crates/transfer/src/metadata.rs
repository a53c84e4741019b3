//! The Content of an RDR metadata packet: the current version of an object.
//!
//! Source: Realtime Data Retrieval (RDR) as in `ndnputchunks`, `ndncatchunks` and ndn6-file-server.
//! `<name>/32=metadata/v=<n>/seg=0` contains the Name of the versioned object. ndn6-file-server
//! adds the last segment, sizes and times, each optional. Larder adds the root of a
//! [manifest](crate::manifest), which other implementations skip.

use crate::manifest::ManifestRoot;
use larder_packet::tlv::{TlvReader, write_nested, write_nni, write_tlv};
use larder_packet::{DecodeError, Name, NameRef, types};

/// The keyword component of metadata names.
pub const METADATA_KEYWORD: &[u8] = b"metadata";

/// TLV-TYPEs of ndn6-file-server's protocol.
const SEGMENT_SIZE: u32 = 0xF500;
const SIZE: u32 = 0xF502;
const MODIFIED: u32 = 0xF50C;

/// Larder's own TLV-TYPE, in the application range and not critical: the digest of the manifest's
/// root. Its fan-out follows as a NonNegativeInteger element of the next type.
const MANIFEST_DIGEST: u32 = 0xF580;
const MANIFEST_FAN_OUT: u32 = 0xF582;

/// The producer's description of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The versioned name, under which the segments are.
    pub name: Name,
    /// The number of the last segment.
    pub last_segment: Option<u64>,
    /// Bytes of content in every segment but the last.
    pub segment_bytes: Option<u64>,
    /// Bytes of the object.
    pub size_bytes: Option<u64>,
    /// The time of the last modification, in nanoseconds since 1970.
    pub modified_ns: Option<u64>,
    /// The manifest that authenticates the segments, if one signature covers the whole object.
    pub manifest: Option<ManifestRoot>,
}

impl Metadata {
    /// Decodes the Content of a metadata packet. Unknown elements are skipped as their types allow.
    ///
    /// # Errors
    /// [`DecodeError`] if the Name is missing or an element is malformed.
    pub fn decode(content: &[u8]) -> Result<Metadata, DecodeError> {
        let mut reader = TlvReader::new(content);
        let name = reader.require(types::NAME, "Name")?;
        let mut metadata = Metadata {
            name: NameRef::from_value(name.value)?.to_name(),
            ..Metadata::default()
        };
        let (mut digest, mut fan_out) = (None, None);
        for element in reader {
            let element = element?;
            match element.typ {
                types::FINAL_BLOCK_ID => {
                    let component = element
                        .children()
                        .require(types::SEGMENT.into(), "segment component")?;
                    metadata.last_segment = Some(component.number()?);
                }
                SEGMENT_SIZE => metadata.segment_bytes = Some(element.number()?),
                SIZE => metadata.size_bytes = Some(element.number()?),
                MODIFIED => metadata.modified_ns = Some(element.number()?),
                // A digest of another length matches nothing.
                MANIFEST_DIGEST => digest = Some(element.value.try_into().unwrap_or_default()),
                MANIFEST_FAN_OUT => fan_out = Some(element.number()?),
                _ => element.skip(false)?,
            }
        }
        metadata.manifest = digest
            .zip(fan_out)
            .map(|(digest, fan_out)| ManifestRoot { digest, fan_out });
        Ok(metadata)
    }

    /// Appends the Content of a metadata packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_tlv(out, types::NAME, self.name.as_name().as_bytes());
        if let Some(last) = self.last_segment {
            write_nested(out, types::FINAL_BLOCK_ID, 3, |out| {
                write_nni(out, types::SEGMENT.into(), last)
            });
        }
        for (typ, number) in [
            (SEGMENT_SIZE, self.segment_bytes),
            (SIZE, self.size_bytes),
            (MODIFIED, self.modified_ns),
        ] {
            if let Some(number) = number {
                write_nni(out, typ, number);
            }
        }
        if let Some(ManifestRoot { digest, fan_out }) = &self.manifest {
            write_tlv(out, MANIFEST_DIGEST, digest);
            write_nni(out, MANIFEST_FAN_OUT, *fan_out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_a_name_is_enough() {
        // The content that ndnputchunks sends for /A/v=1: only a Name.
        let metadata = Metadata::decode(&[7, 6, 8, 1, b'A', 54, 1, 1]).unwrap();
        assert_eq!(
            metadata,
            Metadata {
                name: "/A/v=1".parse().unwrap(),
                ..Metadata::default()
            }
        );
    }

    #[test]
    fn file_server_elements_are_read() {
        let wire = [
            &[7, 6, 8, 1, b'A', 54, 1, 1][..],
            &[26, 3, 50, 1, 9],
            &[0xFD, 0xF5, 0x00, 2, 0x18, 0x00],
            &[0xFD, 0xF5, 0x02, 2, 0xEA, 0x60],
            &[0xFD, 0xF5, 0x04, 2, 0x81, 0xA4],
            &[0xFD, 0xF5, 0x0C, 8, 0, 0, 0, 0, 0, 0, 0, 5],
        ]
        .concat();
        let metadata = Metadata::decode(&wire).unwrap();
        assert_eq!(metadata.last_segment, Some(9));
        assert_eq!(
            (metadata.segment_bytes, metadata.size_bytes),
            (Some(6144), Some(60000))
        );
        assert_eq!(metadata.modified_ns, Some(5));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            last: Option<u64>, size: Option<u64>, modified_ns: Option<u64>, root: Option<([u8; 32], u64)>,
        ) {
            let name = "/a/b/v=17".parse().unwrap();
            let manifest = root.map(|(digest, fan_out)| ManifestRoot { digest, fan_out });
            let metadata =
                Metadata { name, last_segment: last, segment_bytes: size, size_bytes: size, modified_ns, manifest };
            let mut out = Vec::new();
            metadata.encode(&mut out);
            prop_assert_eq!(Metadata::decode(&out), Ok(metadata));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Metadata::decode(&bytes);
            let _ = Metadata::decode(&[&[7, 3, 8, 1, b'A'], &bytes[..]].concat());
        }
    }
}
