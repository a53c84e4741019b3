//! Why there is no advice.

use larder_policy::SpecError;
use larder_replay::limits::CURVE_MAX_BYTES;
use larder_replay::{Size, SizeError};
use std::fmt;

/// Why there is no advice.
#[derive(Debug)]
pub enum AdviseError {
    /// There is no policy to compare.
    NoPolicy,
    /// This policy needs the requests of the future.
    Offline(String),
    /// None of these files has a request; and what they have in the place of requests.
    NoRequest {
        /// Their names.
        files: String,
        /// Why lines do not count, with the name of the file.
        reasons: Vec<String>,
    },
    /// So few objects are left in the sample that the errors could not be told.
    TooFewObjects(u64),
    /// The objects have no sizes, which this needs.
    NoSizes(&'static str),
    /// The requests have no times, which prices need.
    NoTimes,
    /// A size in bytes, of a cache for objects without sizes.
    BytesOfObjects(Size),
    /// A size in bytes beyond [`CURVE_MAX_BYTES`].
    TooLarge(u64),
    /// A share of less than a byte.
    Size(SizeError),
    /// A policy refuses its parameters at one of the sizes.
    Spec(SpecError),
    /// The host ended the work.
    Stopped,
}

impl fmt::Display for AdviseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdviseError::NoPolicy => f.write_str("no policy to compare; give at least one"),
            AdviseError::Offline(spec) => {
                write!(f, "policy `{spec}` knows the future, so no node can run it")
            }
            AdviseError::NoRequest { files, reasons } => {
                write!(f, "{files}: no request was read")?;
                reasons
                    .iter()
                    .try_for_each(|reason| write!(f, "; {reason}"))
            }
            AdviseError::TooFewObjects(objects) => {
                write!(
                    f,
                    "only {objects} objects are left in the sample, too few to judge by; keep more requests"
                )
            }
            AdviseError::NoSizes(needed) => {
                write!(
                    f,
                    "the objects have no sizes, so there is no {needed}: leave out what asks for it"
                )
            }
            AdviseError::NoTimes => f.write_str(
                "the trace has no times, so it has no costs per month; leave out the prices",
            ),
            AdviseError::BytesOfObjects(size) => write!(
                f,
                "the objects have no sizes, so a cache of {size} has no meaning; give a number of objects (1000) or a share (10%)"
            ),
            AdviseError::TooLarge(size) => {
                write!(f, "size {size} is above {CURVE_MAX_BYTES} bytes (8 PiB)")
            }
            AdviseError::Size(error) => error.fmt(f),
            AdviseError::Spec(error) => error.fmt(f),
            AdviseError::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for AdviseError {}

impl From<SizeError> for AdviseError {
    fn from(error: SizeError) -> Self {
        AdviseError::Size(error)
    }
}

impl From<SpecError> for AdviseError {
    fn from(error: SpecError) -> Self {
        AdviseError::Spec(error)
    }
}
