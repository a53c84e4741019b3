//! The store's reports to another thread, which runs other policies and sizes on a sample of the
//! requests: see [`larder_policy::observe`].

use crate::store::entry::{Entry, View};
use crate::store::line_table::LineTable;
use crate::store::stored::Stored;
use http::header::{ETAG, LAST_MODIFIED};
use larder_policy::observe::{Label, Observed, Outcome};
use larder_units::Time;

/// Bytes of key and tags of an observation. Purges by prefix or tag do not find longer ones in the
/// what-if analysis. All shards together keep 33 MB of them, if all are that long and new.
const MAX_LABEL_BYTES: usize = 512;

/// Returns the observation of a hit.
pub(crate) fn hit(
    entry: &Entry,
    lines: &LineTable,
    overhead: u64,
    outcome: Outcome,
    place: u64,
    now: Time,
) -> Observed {
    let view = View::new(entry, lines);
    Observed {
        now,
        place,
        variant: variant(entry.selector()),
        size: overhead + entry.size(),
        bytes: entry.own_length(),
        outcome,
        lifetime: entry.freshness.usable(),
        any_age: false,
        validates: [ETAG, LAST_MODIFIED]
            .iter()
            .any(|name| view.values(name).next().is_some()),
        label: None,
    }
}

/// Returns the observation of a response from the origin, or from the second tier, that may be
/// stored. It takes `size` bytes, and has a body of `bytes`.
pub(crate) fn fetched(
    stored: &Stored,
    (size, bytes): (u64, u64),
    outcome: Outcome,
    place: u64,
    now: Time,
) -> Observed {
    Observed {
        now,
        place,
        variant: variant(stored.selector.as_bytes()),
        size,
        bytes,
        outcome,
        lifetime: stored.freshness.usable(),
        any_age: false,
        validates: stored.has_validator(),
        label: label(stored),
    }
}

/// Returns the names for purges by prefix and tag; `None` if they are too long.
fn label(stored: &Stored) -> Option<Box<Label>> {
    let mut tags: Vec<Box<[u8]>> = Vec::new();
    stored.each_tag(&mut |tag| tags.push(tag.into()));
    let bytes = stored.key.len() + tags.iter().map(|tag| tag.len()).sum::<usize>();
    (bytes <= MAX_LABEL_BYTES).then(|| {
        Box::new(Label {
            key: stored.key.clone(),
            tags: tags.into(),
        })
    })
}

/// Returns a number for the variants of a key: 0 for a response without `Vary`.
fn variant(selector: &[u8]) -> u32 {
    // FNV-1a. A collision makes two variants one object of the sample.
    let hash = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    if selector.is_empty() {
        0
    } else {
        selector.iter().fold(0x811c_9dc5, hash)
    }
}
