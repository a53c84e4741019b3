//! Errors of transfers. Every message names the packet concerned, so that a person can request it
//! by hand.

use larder_packet::{Data, DecodeError, KeyLocator, Name, SignError, VerifyError, types};
use std::fmt;

/// The reason why a [`Fetcher`](crate::Fetcher) gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchError {
    /// The network has no route to the name (Nack NoRoute).
    NoRoute {
        /// The Interest's name.
        name: Name,
    },
    /// The Interest was sent as often as allowed.
    NoAnswer {
        /// The Interest's name.
        name: Name,
        /// The number of Interests sent.
        sends: u32,
        /// The result of the last one.
        last: Refusal,
    },
    /// The producer reports that there is no such object or segment (ContentType Nack).
    NotFound {
        /// The Data's name.
        name: Name,
    },
    /// The metadata does not conform to RDR.
    BadMetadata {
        /// The Data's name.
        name: Name,
        /// The problem.
        problem: MetadataProblem,
    },
    /// There is no metadata, and no Data of the object's own name.
    NoObject {
        /// The reason why there is no metadata.
        metadata: Box<FetchError>,
        /// The result of the Interest for the name.
        plain: Box<FetchError>,
    },
    /// There is no metadata and no Data of this name, but there is Data of a longer name.
    OnlyLonger {
        /// The object's name.
        name: Name,
        /// The Data's name.
        found: Name,
    },
    /// A Data arrived, but it is not authentic.
    Invalid {
        /// The Data's name.
        name: Name,
        /// The check that it has failed.
        problem: Invalid,
    },
    /// The segments contradict each other about the end of the object.
    Contradiction {
        /// The Data's name.
        name: Name,
        /// The contradiction.
        problem: EndProblem,
    },
    /// The object is larger than the consumer accepts.
    TooLarge {
        /// The name of the Data that exceeded the limit.
        name: Name,
        /// The limit.
        max_bytes: u64,
    },
}

/// The result of an Interest that brought no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing arrived within the retransmission timeout.
    TimeOut,
    /// Nack with reason NoRoute.
    NoRoute,
    /// Nack with reason Congestion.
    Congestion,
    /// Nack with another reason, or without one.
    Nack,
}

/// The check that a Data has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// Its digest is not the one that the manifest names.
    Manifest,
    /// Its SHA-256 digest is not that of its bytes.
    Digest,
    /// The Data has no signature by the trusted key.
    Signature {
        /// The reason.
        error: VerifyError,
        /// The key that it names.
        key_locator: Option<Name>,
    },
}

impl Invalid {
    pub(crate) fn signature(error: VerifyError, data: &Data<'_>) -> Self {
        let key_locator = match data.signature_info().key_locator {
            Some(KeyLocator::Name(name)) => Some(name.to_name()),
            Some(KeyLocator::Digest(_)) | None => None,
        };
        Invalid::Signature { error, key_locator }
    }

    /// Returns true if a signature is missing, and only a digest is there.
    pub fn is_only_digest(&self) -> bool {
        let Invalid::Signature { error, .. } = self else {
            return false;
        };
        matches!(
            error,
            VerifyError::WrongType {
                found: types::DIGEST_SHA256,
                ..
            }
        )
    }
}

/// A problem of a metadata packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataProblem {
    /// Its Content cannot be decoded.
    Malformed(DecodeError),
    /// Its Content is longer than [`crate::limits::MAX_METADATA_BYTES`].
    TooLong,
    /// The versioned name does not consist of the object's name and a version.
    ForeignName,
    /// Its manifest is not possible: too many segments or none
    /// ([`crate::limits::MAX_MANIFEST_SEGMENTS`]), a fan-out beyond a packet, or a packet with a
    /// wrong number of digests.
    Manifest,
}

/// A contradiction between segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndProblem {
    /// FinalBlockId is not a segment number.
    NotASegment,
    /// FinalBlockId names a segment before one that has already arrived.
    Shrank {
        /// The segment that FinalBlockId names.
        last: u64,
        /// The highest segment that arrived.
        arrived: u64,
    },
    /// A segment named itself as the last, and a later one names another.
    Moved {
        /// The segment that FinalBlockId names.
        last: u64,
        /// The segment that named itself as the last.
        was: u64,
    },
    /// The metadata announced another size than that of the segments.
    Size {
        /// Bytes announced.
        announced: u64,
        /// Bytes that arrived.
        arrived: u64,
    },
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::NoRoute { name } => write!(f, "no route to {name}"),
            FetchError::NoAnswer {
                name,
                sends: 1,
                last,
            } => write!(f, "no answer to {name}: {last}"),
            FetchError::NoAnswer { name, sends, last } => {
                write!(
                    f,
                    "no answer to {name} after {sends} Interests: the last one {last}"
                )
            }
            FetchError::NotFound { name } => write!(f, "the producer has no such object: {name}"),
            FetchError::BadMetadata { name, problem } => {
                write!(f, "bad metadata in {name}: {problem}")
            }
            FetchError::NoObject { metadata, plain } => write!(f, "{metadata}; {plain}"),
            FetchError::OnlyLonger { name, found } => {
                write!(
                    f,
                    "neither a segmented object nor a Data has the name {name}, but there is {found}"
                )
            }
            FetchError::Invalid { name, problem } => write!(f, "{name} is not accepted: {problem}"),
            FetchError::Contradiction { name, problem } => {
                write!(f, "inconsistent object at {name}: {problem}")
            }
            FetchError::TooLarge { name, max_bytes } => {
                write!(
                    f,
                    "the object is larger than the allowed {max_bytes} bytes, at {name}"
                )
            }
        }
    }
}

impl std::error::Error for FetchError {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::TimeOut => "timed out",
            Refusal::NoRoute => "found no route",
            Refusal::Congestion => "met congestion",
            Refusal::Nack => "was refused by the network",
        })
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Manifest => f.write_str("its digest is not the one in the manifest"),
            Invalid::Digest => f.write_str("its SHA-256 digest is wrong: its bytes were changed"),
            Invalid::Signature { .. } if self.is_only_digest() => {
                f.write_str("it has only a SHA-256 digest, and no signature by the trusted key")
            }
            Invalid::Signature { error, key_locator } => {
                match error {
                    VerifyError::WrongType { expected, found } => {
                        let (found, expected) = (signature_name(*found), signature_name(*expected));
                        write!(
                            f,
                            "it is signed with {found}, and the trusted key is for {expected}"
                        )?;
                    }
                    VerifyError::Mismatch | VerifyError::NotSigned => {
                        f.write_str("its signature is not by the trusted key")?;
                    }
                }
                match key_locator {
                    Some(name) => write!(f, " (its key locator is {name})"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Returns the name of a SignatureType.
fn signature_name(signature_type: u64) -> String {
    match signature_type {
        types::DIGEST_SHA256 => "SHA-256 digest".to_owned(),
        types::SHA256_WITH_RSA => "RSA".to_owned(),
        types::SHA256_WITH_ECDSA => "ECDSA".to_owned(),
        types::HMAC_WITH_SHA256 => "HMAC".to_owned(),
        types::ED25519 => "Ed25519".to_owned(),
        other => format!("the unknown SignatureType {other}"),
    }
}

impl fmt::Display for MetadataProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetadataProblem::Malformed(error) => write!(f, "{error} of the content"),
            MetadataProblem::TooLong => write!(
                f,
                "more than {} bytes of content",
                crate::limits::MAX_METADATA_BYTES
            ),
            MetadataProblem::Manifest => {
                f.write_str("its manifest of digests is malformed or too large")
            }
            MetadataProblem::ForeignName => {
                f.write_str("it names something else than a version of the object")
            }
        }
    }
}

impl fmt::Display for EndProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndProblem::NotASegment => f.write_str("FinalBlockId is not a segment number"),
            EndProblem::Shrank { last, arrived } => {
                write!(
                    f,
                    "FinalBlockId says that seg={last} is the last, but seg={arrived} arrived"
                )
            }
            EndProblem::Moved { last, was } => {
                write!(
                    f,
                    "FinalBlockId says that seg={last} is the last, but seg={was} was"
                )
            }
            EndProblem::Size { announced, arrived } => {
                write!(
                    f,
                    "the metadata announced {announced} bytes, the segments have {arrived}"
                )
            }
        }
    }
}

/// The reason why a [`Publisher`](crate::Publisher) cannot serve.
#[derive(Debug)]
#[non_exhaustive]
pub enum PublishError {
    /// Packets of this segment size would exceed the
    /// [largest](crate::PublishOptions::largest_packet).
    SegmentSize {
        /// The requested bytes of content in a segment.
        asked: usize,
        /// The most that fits with this name and signature; 0 if even an empty segment does not
        /// fit.
        largest: usize,
    },
    /// The object has more segments than a manifest may have.
    ManifestTooLarge {
        /// The segments of the object.
        segments: u64,
    },
    /// The object changed while it was being served. The publisher stops answering, so that no
    /// consumer gets a mixture.
    Changed,
    /// The object can no longer be read.
    Read(std::io::Error),
    /// A packet cannot be signed.
    Sign(SignError),
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PublishError::SegmentSize { largest: 0, .. } => {
                f.write_str("the name is too long: no segment fits a packet")
            }
            PublishError::SegmentSize { asked, largest } => {
                write!(
                    f,
                    "segments of {asked} bytes do not fit a packet; with this name and signature 1 to {largest} do"
                )
            }
            PublishError::ManifestTooLarge { segments } => {
                let most = crate::limits::MAX_MANIFEST_SEGMENTS;
                write!(
                    f,
                    "{segments} segments are too many for one signature: at most {most}; make them larger, or sign each"
                )
            }
            PublishError::Changed => f.write_str("the file changed while it was being served"),
            PublishError::Read(error) => write!(f, "cannot read: {error}"),
            PublishError::Sign(error) => write!(f, "cannot sign: {error}"),
        }
    }
}

impl std::error::Error for PublishError {}
