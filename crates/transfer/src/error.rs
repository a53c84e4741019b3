//! Why a transfer failed. Every message names the packet concerned, so that it can be asked for by
//! hand.

use larder_packet::{DecodeError, Name, SignError};
use std::fmt;

/// Why a [`Fetcher`](crate::Fetcher) gave up.
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
        /// How often it was sent.
        sends: u32,
        /// What became of the last one.
        last: Refusal,
    },
    /// The producer says that there is no such object or segment (ContentType Nack).
    NotFound {
        /// The Data's name.
        name: Name,
    },
    /// The metadata is not what RDR asks for.
    BadMetadata {
        /// The Data's name.
        name: Name,
        /// What is wrong with it.
        problem: MetadataProblem,
    },
    /// There is no metadata, and no Data of the object's own name.
    NoObject {
        /// Why there is no metadata.
        metadata: Box<FetchError>,
        /// What became of the Interest for the name.
        plain: Box<FetchError>,
    },
    /// There is no metadata and no Data of this name, but one of a longer name.
    OnlyLonger {
        /// The object's name.
        name: Name,
        /// The Data's name.
        found: Name,
    },
    /// The segments contradict each other about the end of the object.
    Contradiction {
        /// The Data's name.
        name: Name,
        /// What contradicts what.
        problem: EndProblem,
    },
    /// The object is larger than the consumer accepts.
    TooLarge {
        /// The Data's name with which the limit was passed.
        name: Name,
        /// The limit.
        max_bytes: u64,
    },
}

/// What became of an Interest that brought no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing came within the retransmission time-out.
    TimeOut,
    /// Nack with reason NoRoute.
    NoRoute,
    /// Nack with reason Congestion.
    Congestion,
    /// Nack with another reason, or none.
    Nack,
    /// Data came, but its digest or its signature is wrong.
    BadSignature,
}

/// What is wrong with a metadata packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataProblem {
    /// Its Content cannot be decoded.
    Malformed(DecodeError),
    /// Its Content is longer than [`crate::limits::MAX_METADATA_BYTES`].
    TooLong,
    /// The versioned name does not consist of the object's name and a version.
    ForeignName,
    /// Its manifest is none that can be: too many segments or none
    /// ([`crate::limits::MAX_MANIFEST_SEGMENTS`]), a fan-out beyond a packet, or a packet that
    /// holds another number of digests than it should.
    Manifest,
}

/// How segments contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndProblem {
    /// FinalBlockId is not a segment number.
    NotASegment,
    /// FinalBlockId names a segment before one that arrived already.
    Shrank {
        /// What FinalBlockId says.
        last: u64,
        /// The highest segment that arrived.
        arrived: u64,
    },
    /// A segment said of itself that it is the last, and now another one is.
    Moved {
        /// What FinalBlockId says.
        last: u64,
        /// The segment that called itself the last.
        was: u64,
    },
    /// The metadata announced another size than the segments have.
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
            FetchError::NoAnswer { name, sends: 1, last } => write!(f, "no answer to {name}: {last}"),
            FetchError::NoAnswer { name, sends, last } => {
                write!(f, "no answer to {name} after {sends} Interests: the last one {last}")
            }
            FetchError::NotFound { name } => write!(f, "the producer has no such object: {name}"),
            FetchError::BadMetadata { name, problem } => write!(f, "bad metadata in {name}: {problem}"),
            FetchError::NoObject { metadata, plain } => write!(f, "{metadata}; {plain}"),
            FetchError::OnlyLonger { name, found } => {
                write!(f, "neither a segmented object nor a Data has the name {name}, but there is {found}")
            }
            FetchError::Contradiction { name, problem } => write!(f, "inconsistent object at {name}: {problem}"),
            FetchError::TooLarge { name, max_bytes } => {
                write!(f, "the object is larger than the allowed {max_bytes} bytes, at {name}")
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
            Refusal::BadSignature => "brought Data with a wrong digest or signature",
        })
    }
}

impl fmt::Display for MetadataProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetadataProblem::Malformed(error) => write!(f, "{error} of the content"),
            MetadataProblem::TooLong => write!(f, "more than {} bytes of content", crate::limits::MAX_METADATA_BYTES),
            MetadataProblem::Manifest => f.write_str("its manifest of digests is malformed or too large"),
            MetadataProblem::ForeignName => f.write_str("it names something else than a version of the object"),
        }
    }
}

impl fmt::Display for EndProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndProblem::NotASegment => f.write_str("FinalBlockId is not a segment number"),
            EndProblem::Shrank { last, arrived } => {
                write!(f, "FinalBlockId says that seg={last} is the last, but seg={arrived} arrived")
            }
            EndProblem::Moved { last, was } => {
                write!(f, "FinalBlockId says that seg={last} is the last, but seg={was} was")
            }
            EndProblem::Size { announced, arrived } => {
                write!(f, "the metadata announced {announced} bytes, the segments have {arrived}")
            }
        }
    }
}

/// Why a [`Publisher`](crate::Publisher) cannot serve.
#[derive(Debug)]
#[non_exhaustive]
pub enum PublishError {
    /// Packets of this segment size would pass the
    /// [largest](crate::PublishOptions::largest_packet).
    SegmentSize {
        /// Bytes of content asked for in a segment.
        asked: usize,
        /// The most that fits with this name and signature; 0 where not even an empty segment does.
        largest: usize,
    },
    /// The object has more segments than a manifest may.
    ManifestTooLarge {
        /// Segments of the object.
        segments: u64,
    },
    /// The object changed while it was being served. Nothing more is answered, so that no consumer
    /// gets a mixture.
    Changed,
    /// The object cannot be read any more.
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
