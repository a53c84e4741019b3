//! The progress of a `cs/erase`.

use crate::limits::ERASE_AT_ONCE;
use larder_packet::{ControlParameters, Name};

/// What a `cs/erase` has done so far: one shard after the other erases what is left to erase.
#[derive(Clone, Debug)]
pub(crate) struct Erasure {
    pub(crate) prefix: Name,
    /// As the command says.
    pub(crate) most: u64,
    pub(crate) erased: u64,
    /// Whether a shard has more than it was to erase, or has not looked at all that it has.
    pub(crate) more: bool,
}

impl Erasure {
    /// What the next may erase.
    pub(crate) fn left(&self) -> usize {
        (self.most.min(ERASE_AT_ONCE) - self.erased) as usize
    }

    pub(crate) fn with(self, erased: usize, more: bool) -> Erasure {
        Erasure { erased: self.erased + (erased as u64).min(self.left() as u64), more: self.more || more, ..self }
    }

    /// Whether the answer asks the client to repeat the command.
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
