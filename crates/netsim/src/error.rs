//! Errors: a network that cannot be built, and a run that does not end.

use crate::limits;
use larder_units::{ByteSize, Time};
use std::fmt;

/// A network that cannot be built, as one line that names the cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(String);

impl ConfigError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        ConfigError(text.into())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// A run that stopped because it would not end, or would fill the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunError {
    /// [`limits::EVENTS_AN_INSTANT`] events happened at one instant.
    StandsStill {
        /// The instant.
        at: Time,
    },
    /// More than [`limits::EVENTS_PLANNED`] events are planned.
    Grows {
        /// The time at which the limit was exceeded.
        at: Time,
    },
    /// Frames on links and in queues, pending Interests of consumers, and TCP connections take more
    /// than [`limits::BYTES_HELD`].
    Fills {
        /// The time at which the limit was exceeded.
        at: Time,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::StandsStill { at } => {
                let most = limits::EVENTS_AN_INSTANT;
                write!(
                    f,
                    "time stands still at {at}: {most} events at one instant; look for an application whose next timer is always in the past"
                )
            }
            RunError::Grows { at } => {
                let most = limits::EVENTS_PLANNED;
                write!(
                    f,
                    "the network only grows: more than {most} events are planned at {at}; look for a consumer that sends more than its link can carry"
                )
            }
            RunError::Fills { at } => {
                let most = ByteSize::from_bytes(limits::BYTES_HELD);
                write!(
                    f,
                    "the network only grows: the sum of frames, queues and pending Interests takes more than {most} at {at}; look for a queue without a bound, or a consumer without answers"
                )
            }
        }
    }
}

impl std::error::Error for RunError {}
