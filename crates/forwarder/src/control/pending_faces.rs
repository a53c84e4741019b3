//! Commands that wait for the host to create a face.

use crate::face::FaceId;
use larder_packet::{Name, NameRef};
use std::collections::HashMap;

/// The `faces/create` commands that wait for the host.
#[derive(Default)]
pub(crate) struct PendingFaces {
    pub(crate) commands: HashMap<u64, Pending>,
    pub(crate) next_ticket: u64,
}

impl PendingFaces {
    /// Returns true if this face sent the command already and it still waits. The consumer's
    /// Interest may have ended before the host's answer.
    pub(crate) fn contains(&self, from: FaceId, command: NameRef<'_>) -> bool {
        self.commands
            .values()
            .any(|pending| pending.from == from && pending.command.as_name() == command)
    }
}

pub(crate) struct Pending {
    pub(crate) from: FaceId,
    pub(crate) command: Name,
}
