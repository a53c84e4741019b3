//! A stored response as an object of a third tier: a store that outlives the node, such as S3, and
//! that several nodes may share. All numbers little-endian.
//!
//! ```text
//! magic │ length of all but the body u32 │ kind u8: 0 a response, 1 a note │ writer, 16 bytes │ position u64
//! │ number u64 │ bytes of the body u64 │ key, its length before it as u32 │ everything but the body of a record (`record.rs`) │ body
//! ```
//!
//! The responses of a key without selecting fields (`Vary`) are one object. Otherwise each variant
//! is one, and the object of the key is a note, which says by which fields they vary.
//!
//! The writer is a random number of a cache, and the position is that of the request among its
//! purges. So a cache knows which of its own purges an object has missed. The number tells the last
//! version that the cache has offered from an earlier one, which a newer response of the origin has
//! replaced or removed, whether or not that became an object. What another cache has written, or
//! this one before a restart, may have been purged or replaced unnoticed. Such objects are used
//! after the origin has confirmed them by their entity tag, which costs a request without a body.

use crate::codec::{Reader, Writer};
use crate::limits;
use crate::now::Now;
use crate::rfc::conditional;
use crate::rfc::fields;
use crate::store::purge_table::Position;
use crate::store::record;
use crate::store::stored::Stored;
use bytes::Bytes;
use http::header::{AGE, CONTENT_LENGTH, DATE, VIA};
use http::{HeaderMap, HeaderValue, StatusCode};
use larder_units::Time;
use std::collections::BTreeMap;
use std::time::Duration;

const MAGIC: [u8; 4] = *b"LRO1";

/// Bytes before the kind.
const START_BYTES: usize = MAGIC.len() + 4;

const RESPONSE: u8 = 0;
pub(crate) const NOTE: u8 = 1;

/// Least time between two writes of one object. A page that changes more often is not written each
/// time: an object that is older is used after its confirmation, or not at all.
const REWRITE: Duration = Duration::from_secs(3600);

/// Objects of a shard whose last version is known, and up to twice as many. The others are
/// confirmed at each read.
const LATEST: usize = 1 << 14;

/// The secret of the numbers of variants in names of objects. All caches that share a store have
/// the same one. Variants with the same number replace each other, and are compared completely.
pub(crate) const VARIANT_SECRET: [u8; 16] = *b"larder variants\0";

/// The host's side of a third tier. Calls come under the cache's lock, so none may wait.
pub trait ObjectTier: Send {
    /// Returns true if an object with so many bytes of body is worth its price.
    fn is_worth(&self, bytes: u64) -> bool;

    /// Takes note that the response with this hash of its key and variant was fetched. Returns true
    /// if it was fetched before.
    fn was_fetched(&mut self, hash: u64) -> bool;

    /// Takes a response to write. Returns false if it is not written.
    fn offer(&mut self, offered: OfferedObject) -> bool;

    /// Removes the object of a key, soon. Correctness does not depend on it.
    fn remove(&mut self, key: &[u8]);
}

/// A response for the third tier: its name is that of `key` and `variant`.
#[derive(Clone, Debug)]
pub struct OfferedObject {
    /// The key of its URL.
    pub key: Box<[u8]>,
    /// The number of its variant; 0 without selecting fields.
    pub variant: u32,
    /// The object of variant 0, if it is not this one.
    pub note: Option<Bytes>,
    /// The names of the fields that select it: a note with other names leads nowhere.
    pub selected_by: Box<str>,
    /// True if the tier cannot have it yet.
    pub is_new: bool,
    /// The part before the body.
    pub head: Bytes,
    /// The body.
    pub body: Bytes,
}

/// Whether the third tier may have a response already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It has not: it came from the origin.
    New,
    /// It may: it was in another tier.
    Known,
}

/// The third tier of a cache.
pub(crate) struct Objects {
    pub tier: Box<dyn ObjectTier>,
    writer: [u8; 16],
    /// By the hash of the key, and the variant.
    latest: BTreeMap<(u64, u32), Latest>,
    /// Those that were offered before, as far as `latest` does not have them.
    before: BTreeMap<(u64, u32), Latest>,
    /// The last number.
    last: u64,
}

/// The last version that was offered.
#[derive(Clone, Copy)]
struct Latest {
    /// 0 if a newer response has replaced or removed it.
    number: u64,
    offered: Time,
}

impl Objects {
    pub(crate) fn new(tier: Box<dyn ObjectTier>, writer: [u8; 16]) -> Objects {
        Objects {
            tier,
            writer,
            latest: BTreeMap::new(),
            before: BTreeMap::new(),
            last: 0,
        }
    }

    /// Offers a response.
    pub(crate) fn offer(&mut self, stored: &Stored, offer: Offer, now: Now) {
        let variant = stored.selector.variant(&VARIANT_SECRET);
        let place = (stored.hash, variant);
        let is_new = offer == Offer::New;
        let last = self.look_up(place).filter(|_| is_new);
        if last.is_some_and(|last| now.time.since(last.offered) < REWRITE) {
            return;
        }
        let names: Vec<&str> = stored.selector.fields().map(|(name, _)| name).collect();
        let selected_by = names.join(",");
        self.last += 1;
        let (writer, number) = (&self.writer, self.last);
        let is_written = self.tier.offer(OfferedObject {
            key: stored.key.clone(),
            variant,
            note: (variant != 0).then(|| encode(stored, NOTE, writer, number, now)),
            selected_by: selected_by.into(),
            is_new,
            head: encode(stored, RESPONSE, writer, number, now),
            body: stored.body.clone(),
        });
        if is_written {
            if self.latest.len() >= LATEST {
                self.before = std::mem::take(&mut self.latest);
            }
            let offered = now.time;
            self.latest.insert(place, Latest { number, offered });
        }
    }

    /// Records that the origin has said something newer than the objects of a key.
    pub(crate) fn outdate(&mut self, hash: u64) {
        for map in [&mut self.latest, &mut self.before] {
            for (_, latest) in map.range_mut((hash, 0)..=(hash, u32::MAX)) {
                latest.number = 0;
            }
        }
    }

    fn look_up(&self, place: (u64, u32)) -> Option<&Latest> {
        self.latest.get(&place).or_else(|| self.before.get(&place))
    }

    /// Returns true if an object is the last version that this cache has offered.
    pub(crate) fn is_latest(&self, decoded: &Decoded) -> bool {
        let stored = &decoded.stored;
        let place = (stored.hash, stored.selector.variant(&VARIANT_SECRET));
        let latest = self.look_up(place);
        self.is_own(decoded) && latest.is_some_and(|latest| latest.number == decoded.number)
    }

    /// Returns true if this cache has written an object.
    pub(crate) fn is_own(&self, decoded: &Decoded) -> bool {
        decoded.writer == self.writer
    }
}

/// What an object is to a request.
#[derive(Debug)]
pub enum ReadObject {
    /// Nothing: it cannot be read, was purged, or is of another URL.
    Unusable,
    /// The response has this variant.
    Variant(u32),
    /// The response. Call [`Exchange::set_object`](crate::Exchange::set_object).
    Fresh(ObjectHead, FreshObject),
    /// The response, if the origin confirms it.
    Stale(ObjectHead),
}

/// What a cache knows of an object that it uses as it is.
#[derive(Clone, Copy, Debug)]
pub struct FreshObject {
    pub(crate) ttl_seconds: i64,
    pub(crate) asked_at: Position,
}

/// The head of a response that is an object.
#[derive(Clone, Debug)]
pub struct ObjectHead {
    /// Its status.
    pub status: StatusCode,
    /// Its fields, as an origin would send them, with `Age`.
    pub headers: HeaderMap,
    /// The bytes before its body.
    pub start: usize,
    /// The bytes of its body.
    pub body_bytes: u64,
}

impl ObjectHead {
    pub(crate) fn new(stored: &Stored, start: usize, body_bytes: u64, now: Now) -> ObjectHead {
        let mut headers = stored.headers();
        fields::remove_last_line(&mut headers, &VIA);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body_bytes));
        let age = stored.freshness.age(now.time).as_secs();
        headers.insert(AGE, HeaderValue::from(age));
        ObjectHead {
            status: stored.status,
            headers,
            start,
            body_bytes,
        }
    }

    /// Makes a request one for its confirmation.
    pub fn set_validators(&self, request: &mut HeaderMap) {
        conditional::set_validators(request, &self.headers);
    }

    /// Takes over the fields of a 304 (RFC 9111 §4.3.4). Returns false if it concerns another
    /// response.
    pub fn confirm(&mut self, not_modified: &HeaderMap) -> bool {
        if !conditional::selects(not_modified, &self.headers) {
            return false;
        }
        self.headers.remove(AGE);
        // Its own is that of the receipt then.
        self.headers.remove(DATE);
        Stored::renew_fields(&mut self.headers, not_modified);
        true
    }
}

/// Returns the number of bytes before the body of an object that begins so; `None` if more bytes
/// are needed. 0 if it is no object.
pub fn object_head_bytes(start: &[u8]) -> Option<usize> {
    let start = start.get(..START_BYTES)?;
    let length = u32::from_le_bytes([start[4], start[5], start[6], start[7]]) as usize;
    let is_one = start[..4] == MAGIC && (START_BYTES..=limits::OBJECT_HEAD_BYTES).contains(&length);
    Some(if is_one { length } else { 0 })
}

/// Encodes everything but the body.
fn encode(stored: &Stored, kind: u8, writer: &[u8; 16], number: u64, now: Now) -> Bytes {
    let mut bytes = Writer::after([&MAGIC[..], &[0; 4]].concat());
    bytes.byte(kind);
    bytes.bytes(writer);
    bytes.u64(stored.asked_at.0);
    bytes.u64(number);
    bytes.u64(if kind == NOTE { 0 } else { stored.length() });
    bytes.value(&stored.key);
    bytes.bytes(&record::encode(stored, now));
    let mut bytes = bytes.into_bytes();
    let length = bytes.len() as u32;
    bytes[MAGIC.len()..START_BYTES].copy_from_slice(&length.to_le_bytes());
    bytes.into()
}

/// Everything but the body.
pub(crate) struct Decoded {
    pub kind: u8,
    writer: [u8; 16],
    number: u64,
    /// With its position.
    pub stored: Stored,
    /// The bytes before the body.
    pub start: usize,
    pub body_bytes: u64,
}

pub(crate) fn decode(bytes: &[u8], key: &[u8], hash: u64, now: Now) -> Option<Decoded> {
    let start = object_head_bytes(bytes).filter(|length| *length > 0)?;
    let mut reader = Reader::new(bytes.get(START_BYTES..start)?);
    let (kind, writer, position) = (reader.byte()?, reader.array()?, reader.u64()?);
    let (number, body_bytes) = (reader.u64()?, reader.u64()?);
    if reader.value()? != key {
        return None;
    }
    let (stored, end) = record::decode_head(reader.rest(), key.into(), hash, now)?;
    let is_whole = end == reader.rest().len() && stored.sliced().is_none();
    is_whole.then(|| Decoded {
        kind,
        writer,
        number,
        stored: stored.at(Position(position)),
        start,
        body_bytes,
    })
}
