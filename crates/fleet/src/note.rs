//! Messages between the nodes outside the log: they may be lost, and nothing is kept of them.
//!
//! | subject | payload | says |
//! | --- | --- | --- |
//! | `$KV.larder_FLEET_members.NODE` | `{"v":1}` | the node is there, for [`limits::LEASE`] |
//! | the same | `{"v":1,"instance":"…","state":"following",…}` | it also tells its [`Standing`] |
//! | the same | `{"v":1,"peer":"10.0.0.1:7443","capacity":1073741824,"zone":"fra"}` | it also answers other nodes |
//! | the same | `{"v":1,"renew":20}` | its next renewal comes within 20 s: a large fleet |
//! | the same, with `KV-Operation: DEL` | | the node has stopped |
//! | `larder.FLEET.wait.NODE` | `{"v":1,"log":"…","position":66,"id":"…"}` | it waits until all have that |
//! | `larder.FLEET.applied.NODE.OTHER` | the same | it has applied that; `OTHER` waits for it |
//!
//! The subject has the name of the node that speaks, so that the servers can forbid others to. Only
//! the node that waits hears the answers of all others.

use crate::limits;
use crate::message::is_name;
use crate::peers::PeerOffer;
use serde::{Deserialize, Deserializer, Serialize};
use std::time::Duration;

/// The header of a key-value bucket that says what a message without a value does.
pub const OPERATION: &str = "KV-Operation";

/// The value of [`OPERATION`] for a key that is deleted.
pub const DELETED: &str = "DEL";

/// The version of a note's payload.
const VERSION: u64 = 1;

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The identity of the log.
    pub log: String,
    /// The sequence of an entry.
    #[serde(rename = "position")]
    pub sequence: u64,
    /// The id of that entry. After a roll-back, the log may have another one there.
    pub id: String,
}

/// A message between the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The name of the node that says it.
    pub node: String,
    /// What it says.
    pub word: Word,
}

/// What a [`Note`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// The node is there.
    Lease(Lease),
    /// The node has stopped.
    Left,
    /// The node waits until all nodes have applied this.
    Wait(Position),
    /// The node has applied this, and all before.
    Applied {
        /// What it has applied.
        position: Position,
        /// The node that waits for it.
        to: String,
    },
}

/// What a node says of itself while it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// What it offers to the others.
    #[serde(flatten)]
    pub offer: Option<PeerOffer>,
    /// How it stands; nodes of earlier versions do not tell.
    #[serde(flatten)]
    pub standing: Option<Standing>,
    /// Seconds up to the next renewal at the latest, if they are more than [`limits::RENEW`].
    #[serde(
        rename = "renew",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_renewal"
    )]
    pub renewal_seconds: Option<u64>,
}

impl Lease {
    /// Returns the time up to the next renewal at the latest.
    pub fn renewal(&self) -> Duration {
        let said = self.renewal_seconds.map(Duration::from_secs);
        said.map_or(limits::RENEW, |said| {
            said.clamp(limits::RENEW, limits::RENEW_LONGEST)
        })
    }

    /// Returns how long the lease lasts.
    pub fn lasts(&self) -> Duration {
        self.renewal() * limits::RENEWALS
    }
}

/// What is no number of seconds does not make the rest of a lease unreadable.
fn read_renewal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let said = serde_json::Value::deserialize(deserializer)?;
    Ok(said.as_u64())
}

/// How a node follows the log, for the operator of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The process: no other one has this name.
    pub instance: String,
    /// The version of the program.
    pub version: String,
    /// The state, as `/status` has it.
    pub state: String,
    /// The last entry of the log that was applied, and all before.
    pub applied: u64,
    /// Entries after it that the node knows of.
    pub behind: u64,
}

impl Standing {
    /// Returns whether the node follows the log: it has a proof that it knows all purges.
    pub fn is_sound(&self) -> bool {
        matches!(&*self.state, "following" | "catching")
    }

    /// Returns whether the texts can be shown.
    fn is_valid(&self) -> bool {
        let texts = [&self.instance, &self.version, &self.state];
        texts.into_iter().all(|text| {
            text.len() <= limits::NAME_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic())
        })
    }
}

#[derive(Serialize, Deserialize)]
struct Payload {
    v: u64,
    #[serde(flatten)]
    position: Option<Position>,
    #[serde(flatten)]
    lease: Lease,
}

/// Returns the name of the bucket of a fleet's leases.
pub fn members_bucket(fleet: &str) -> String {
    format!("larder_{fleet}_members")
}

impl Note {
    /// Returns the subject to publish to.
    pub fn subject(&self, fleet: &str) -> String {
        let node = &self.node;
        match &self.word {
            Word::Lease(_) | Word::Left => format!("$KV.{}.{node}", members_bucket(fleet)),
            Word::Wait(_) => format!("larder.{fleet}.wait.{node}"),
            Word::Applied { to, .. } => format!("larder.{fleet}.applied.{node}.{to}"),
        }
    }

    /// Returns the subjects that a node of this name subscribes to.
    pub fn subjects(fleet: &str, node: &str) -> [String; 3] {
        [
            format!("$KV.{}.*", members_bucket(fleet)),
            format!("larder.{fleet}.wait.*"),
            format!("larder.{fleet}.applied.*.{node}"),
        ]
    }

    /// Returns the payload. That of [`Word::Left`] is empty, and its header is [`OPERATION`].
    pub fn payload(&self) -> Vec<u8> {
        let (position, lease) = match &self.word {
            Word::Left => return Vec::new(),
            Word::Lease(lease) => (None, lease.clone()),
            Word::Wait(position) | Word::Applied { position, .. } => {
                (Some(position.clone()), Lease::default())
            }
        };
        let payload = Payload {
            v: VERSION,
            position,
            lease,
        };
        // It has only numbers and texts.
        serde_json::to_vec(&payload).unwrap_or_default()
    }

    /// Reads a note. `operation` is its header [`OPERATION`]. `None` if it is not one of this
    /// version: what is not understood is as if it were lost.
    pub fn decode(
        fleet: &str,
        subject: &str,
        operation: Option<&str>,
        payload: &[u8],
    ) -> Option<Note> {
        if payload.len() > limits::NOTE_BYTES {
            return None;
        }
        let of_bucket = subject
            .strip_prefix("$KV.")
            .and_then(|rest| rest.strip_prefix(&*members_bucket(fleet)));
        let (node, word) = if let Some(node) = of_bucket.and_then(|rest| rest.strip_prefix('.')) {
            let word = match operation {
                // Another version may say more about itself: its lease counts all the same.
                None => Word::Lease(read_lease(payload)),
                Some(_) => Word::Left,
            };
            (node, word)
        } else {
            let rest = subject.strip_prefix("larder.")?.strip_prefix(fleet)?;
            let read: Payload = serde_json::from_slice(payload).ok()?;
            let position = read.position.filter(|_| read.v == VERSION)?;
            if let Some(node) = rest.strip_prefix(".wait.") {
                (node, Word::Wait(position))
            } else {
                let (node, to) = rest.strip_prefix(".applied.")?.split_once('.')?;
                let to = Some(to).filter(|to| is_name(to))?.to_owned();
                (node, Word::Applied { position, to })
            }
        };
        let node = Some(node).filter(|node| is_name(node))?;
        Some(Note {
            node: node.to_owned(),
            word,
        })
    }
}

/// Returns what a lease says, as far as this version understands it.
fn read_lease(payload: &[u8]) -> Lease {
    let read = serde_json::from_slice(payload).ok();
    let Some(Payload { lease, .. }) = read.filter(|read: &Payload| read.v == VERSION) else {
        return Lease::default();
    };
    Lease {
        offer: lease.offer.filter(PeerOffer::is_valid),
        standing: lease.standing.filter(Standing::is_valid),
        renewal_seconds: lease.renewal_seconds,
    }
}
