//! The entries of the log.
//!
//! A purge is a JSON object of at most 64 KiB on the subject `larder.FLEET.purge`, with its id in
//! the header `Nats-Msg-Id`. Programs other than Larder may publish it:
//!
//! ```json
//! {"v":1,"id":"8f14…","from":"fra-1","soft":false,
//!  "urls":["https://example.com/a"],"prefixes":[],"tags":[],"everything":false}
//! ```
//!
//! * `v` is 1.
//! * `id` is unique, such as a UUID. A repetition has the same id.
//! * `from` is the name of the publisher. It is only reported.
//! * `soft`: the responses become stale and are validated before their next use. Otherwise they
//!   are removed.
//! * `urls`, `prefixes`, `tags`: what is purged, up to 256 items in all. URLs and prefixes are in
//!   the form that the nodes use as keys, because no node changes them.
//! * `everything`: all responses are purged.
//!
//! All but `v` and `id` may be absent. Readers ignore fields that they do not know. A message with
//! another `v`, or that is not readable, counts as a soft purge of everything: it may be a purge
//! that this version does not understand.

use crate::ids::Id;
use crate::limits;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// The version of [`Message`] that this crate reads and writes.
const VERSION: u64 = 1;

/// A purge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    v: u64,
    /// See [`Id`].
    #[serde(serialize_with = "write_id", deserialize_with = "read_id")]
    pub id: Id,
    /// The name of the publisher.
    #[serde(default)]
    pub from: String,
    /// Whether the responses become stale, instead of being removed.
    #[serde(default)]
    pub soft: bool,
    /// URLs, as keys of the cache.
    #[serde(default)]
    pub urls: Vec<String>,
    /// Prefixes of keys.
    #[serde(default)]
    pub prefixes: Vec<String>,
    /// Tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Whether all responses are purged.
    #[serde(default)]
    pub everything: bool,
}

/// A reason why a message cannot be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// More items than [`limits::ITEMS`].
    Items(usize),
    /// More bytes than [`limits::MESSAGE_BYTES`].
    Bytes(usize),
    /// An empty id, or one longer than [`limits::ID_BYTES`], or with control characters.
    Id,
    /// Bytes that are no message of this version.
    Unreadable,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageError::Items(items) => write!(
                f,
                "a purge has {items} items; send at most {} at once",
                limits::ITEMS
            ),
            MessageError::Bytes(bytes) => write!(
                f,
                "a purge has {bytes} bytes; send at most {} at once",
                limits::MESSAGE_BYTES
            ),
            MessageError::Id => write!(
                f,
                "the id of a purge has 1 to {} printable characters of ASCII",
                limits::ID_BYTES
            ),
            MessageError::Unreadable => f.write_str("no purge of version 1"),
        }
    }
}

impl std::error::Error for MessageError {}

impl Message {
    /// Creates a hard purge of nothing, for the caller to fill.
    pub fn new(id: Id, from: &str) -> Self {
        Message {
            v: VERSION,
            id,
            from: from.to_owned(),
            soft: false,
            urls: Vec::new(),
            prefixes: Vec::new(),
            tags: Vec::new(),
            everything: false,
        }
    }

    /// Returns the number of URLs, prefixes and tags.
    pub fn items(&self) -> usize {
        self.urls.len() + self.prefixes.len() + self.tags.len()
    }

    /// Returns the message as JSON.
    ///
    /// # Errors
    /// [`MessageError::Items`], [`MessageError::Bytes`] and [`MessageError::Id`].
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        self.check()?;
        let bytes = serde_json::to_vec(self).map_err(|_| MessageError::Unreadable)?;
        if bytes.len() > limits::MESSAGE_BYTES {
            return Err(MessageError::Bytes(bytes.len()));
        }
        Ok(bytes)
    }

    /// Reads a message.
    ///
    /// # Errors
    /// All of [`MessageError`].
    pub fn decode(bytes: &[u8]) -> Result<Message, MessageError> {
        if bytes.len() > limits::MESSAGE_BYTES {
            return Err(MessageError::Bytes(bytes.len()));
        }
        let message: Message =
            serde_json::from_slice(bytes).map_err(|_| MessageError::Unreadable)?;
        if message.v != VERSION {
            return Err(MessageError::Unreadable);
        }
        message.check()?;
        Ok(message)
    }

    fn check(&self) -> Result<(), MessageError> {
        if self.items() > limits::ITEMS {
            return Err(MessageError::Items(self.items()));
        }
        if !is_id(&self.id) {
            return Err(MessageError::Id);
        }
        Ok(())
    }

    /// Returns about how many bytes of memory the message takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let items = self.urls.iter().chain(&self.prefixes).chain(&self.tags);
        let text: usize = items.map(|item| item.len() + size_of::<String>()).sum();
        size_of::<Message>() + self.id.len() + self.from.len() + text
    }
}

fn write_id<S: Serializer>(id: &Id, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(id)
}

fn read_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
    String::deserialize(deserializer).map(Id::from)
}

fn is_id(id: &str) -> bool {
    (1..=limits::ID_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What an entry of the log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A purge.
    Purge(Arc<Message>),
    /// A node proves its freshness. It is published once, and not repeated.
    Beat {
        /// The name of the node.
        node: String,
    },
    /// A node found that the log has lost entries. All nodes make all responses stale.
    Barrier,
    /// An entry that this version does not understand.
    Unreadable,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its sequence in the log; the first one is 1.
    pub sequence: u64,
    /// Its id: that of the header `Nats-Msg-Id`, otherwise of its body, otherwise a hash of it.
    pub id: Id,
    /// What it says.
    pub body: Body,
}

impl LogEntry {
    /// Reads an entry. `subject` is that to which it was published, and not that to which the
    /// server republished it. `header` is its `Nats-Msg-Id`. What is not readable becomes
    /// [`Body::Unreadable`].
    pub fn decode(
        fleet: &str,
        subject: &str,
        sequence: u64,
        header: Option<&str>,
        payload: &[u8],
    ) -> LogEntry {
        let kind = subject
            .strip_prefix("larder.")
            .and_then(|rest| rest.strip_prefix(fleet))
            .and_then(|rest| rest.strip_prefix('.'));
        let mut body_id = None;
        let body = match kind {
            Some("purge") => match Message::decode(payload) {
                Ok(message) => {
                    body_id = Some(message.id.clone());
                    Body::Purge(Arc::new(message))
                }
                Err(_) => Body::Unreadable,
            },
            Some("barrier") => Body::Barrier,
            Some(kind) => match kind.strip_prefix("beat.") {
                Some(node) if is_name(node) => Body::Beat {
                    node: node.to_owned(),
                },
                _ => Body::Unreadable,
            },
            None => Body::Unreadable,
        };
        let id = match header {
            Some(id) if is_id(id) => id.into(),
            Some(id) => hashed(id.as_bytes()),
            None => body_id.unwrap_or_else(|| hashed(payload)),
        };
        LogEntry { sequence, id, body }
    }
}

/// Returns an id for bytes without one: a hash (FNV-1a) and their number.
fn hashed(bytes: &[u8]) -> Id {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("hash-{hash:016x}-{}", bytes.len()).into()
}

/// Returns whether this can be the name of a node or a fleet: one token of a subject, of letters,
/// digits, `-` and `_`, with at most [`limits::NAME_BYTES`] bytes.
pub fn is_name(name: &str) -> bool {
    (1..=limits::NAME_BYTES).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// A message for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// Its id, for the header `Nats-Msg-Id`.
    pub id: Id,
    /// Its body. It is never [`Body::Unreadable`].
    pub body: Body,
}

impl Publication {
    /// Returns the subject to publish to.
    pub fn subject(&self, fleet: &str) -> String {
        match &self.body {
            Body::Purge(_) => format!("larder.{fleet}.purge"),
            Body::Beat { node } => format!("larder.{fleet}.beat.{node}"),
            Body::Barrier | Body::Unreadable => format!("larder.{fleet}.barrier"),
        }
    }

    /// Returns the payload: that of a purge, and nothing for others, whose subject says all.
    ///
    /// # Errors
    /// As [`Message::encode`]. A purge that [`crate::Acceptor::accept`] took has none.
    pub fn payload(&self) -> Result<Vec<u8>, MessageError> {
        match &self.body {
            Body::Purge(message) => message.encode(),
            Body::Beat { .. } | Body::Barrier | Body::Unreadable => Ok(Vec::new()),
        }
    }
}
