//! The progress of a `cs/erase`.

use crate::limits::ERASE_AT_ONCE;
use larder_packet::{ControlParameters, Name};

/// The progress of a `cs/erase`. The shards erase one after the other, each as much as the Count
/// still allows.
#[derive(Clone, Debug)]
pub(crate) struct Erasure {
    pub(crate) prefix: Name,
    /// As the command says.
    pub(crate) most: u64,
    pub(crate) erased: u64,
    /// True if a shard has more Data than the Count allowed it to erase, or has not visited all its
    /// Data.
    pub(crate) more: bool,
}

impl Erasure {
    /// Returns the number of Data that the next shard may erase.
    pub(crate) fn left(&self) -> usize {
        (self.most.min(ERASE_AT_ONCE) - self.erased) as usize
    }

    pub(crate) fn with(self, erased: usize, more: bool) -> Erasure {
        Erasure {
            erased: self.erased + (erased as u64).min(self.left() as u64),
            more: self.more || more,
            ..self
        }
    }

    /// Returns true if the response asks the client to repeat the command.
    pub(crate) fn goes_on(&self) -> bool {
        self.more && self.erased < self.most
    }

    pub(crate) fn answer(self) -> ControlParameters {
        ControlParameters {
            // It tells the client to ask again.
            capacity: self.goes_on().then_some(ERASE_AT_ONCE),
            name: Some(self.prefix),
            count: Some(self.erased),
            ..ControlParameters::default()
        }
    }
}
