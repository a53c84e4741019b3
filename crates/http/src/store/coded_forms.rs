//! Coded forms of stored responses: which ones are wanted, and how they get into the store and keep
//! up with their response.

use crate::body::budget::Budget;
use crate::limits;
use crate::rfc::coding::content_coding::{Compression, ContentCoding, code_fields, vary_by_coding};
use crate::rfc::vary::Selector;
use crate::store::entry::{Codable, Entry, View};
use crate::store::line_table::LineTable;
use crate::store::stored::Stored;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderName};

/// The share of its body below which a coded form is stored, in hundredths: with less gain, clients
/// get the response as it came.
const WORTH_PERCENT: u64 = 95;

/// A stored response of which a coded form is wanted. The host codes the body on another thread,
/// and passes the result to [`Cache::store_coded`](crate::Cache::store_coded).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedForm {
    pub(crate) shard: u16,
    pub(crate) key: Box<[u8]>,
    pub(crate) hash: u64,
    pub(crate) selector: Box<[u8]>,
    /// The coding.
    pub coding: ContentCoding,
    /// The body as it came.
    pub body: Bytes,
}

impl WantedForm {
    /// Returns the number of its shard.
    pub fn shard(&self) -> usize {
        usize::from(self.shard)
    }

    /// Returns a number that few others have.
    pub fn id(&self) -> u64 {
        self.hash
    }

    /// Returns true if the body of the entry is the one that was coded.
    pub(crate) fn is_of(&self, entry: &Entry) -> bool {
        is_same_body(&entry.body(), &self.body)
    }

    /// Returns true if the coded body is worth its memory.
    pub(crate) fn is_worth(&self, coded: &[u8]) -> bool {
        coded.len() as u64 * 100 < self.body.len() as u64 * WORTH_PERCENT
    }
}

/// Returns true if two references lead to one body. A small one is copied when it is read.
fn is_same_body(one: &Bytes, other: &Bytes) -> bool {
    let is_same_memory = one.as_ptr() == other.as_ptr() && one.len() == other.len();
    is_same_memory || one.len() <= limits::INLINE_BODY_BYTES && one == other
}

/// The coding of the answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AnswerCoding {
    /// The cache does not know whether the answer gets one: the host decides by its fields.
    #[default]
    Open,
    /// It is as it came, and no coding is due.
    Decided,
    /// It is a stored form. A rule that changes its entity tag or `Vary` changes them back to
    /// those of the response as it came: the host repairs them.
    Form(ContentCoding),
    /// It is as it came, and the client accepts a coding: the host may code it while it sends it,
    /// and once for all.
    Wanted(Box<WantedForm>),
}

/// The fields that decide whether a response gets a coding.
const DECIDING: [HeaderName; 5] = [
    CACHE_CONTROL,
    CONTENT_ENCODING,
    CONTENT_RANGE,
    CONTENT_TYPE,
    VARY,
];

/// Finds out whether clients get coded forms of a response.
pub(crate) fn codable(view: View<'_>, entry: &Entry, compression: &Compression) -> Codable {
    let deciding = view.fields(|name| {
        DECIDING
            .iter()
            .any(|other| other.as_str().as_bytes() == name)
    });
    let is_coded = entry.sliced().is_none()
        && compression.may_code(entry.status, &deciding, Some(entry.length()));
    if !is_coded {
        return Codable::No;
    }
    let mut varying = HeaderMap::new();
    for line in deciding.get_all(VARY) {
        varying.append(VARY, line.clone());
    }
    let lines = varying.len();
    vary_by_coding(&mut varying);
    if varying.len() == lines {
        Codable::YesAndSaysSo
    } else {
        Codable::Yes
    }
}

/// Returns a coded form of a response, with its own fields.
pub(crate) fn form(
    stored: &Stored,
    coding: ContentCoding,
    body: Bytes,
    lines: &mut LineTable,
) -> Entry {
    let mut headers = stored.fields().clone();
    code_fields(&mut headers, coding);
    let mut form = Stored::new(
        Box::default(),
        0,
        Selector::from_bytes(Box::default()),
        stored.status,
        &headers,
        stored.freshness,
    );
    form.set_earlier(stored.earlier());
    form.set_body(body);
    Entry::new(&form, lines)
}

/// Gives the renewed entry of a response the coded forms of the former one, as long as its new
/// fields allow it.
pub(crate) fn carry_over(
    former: &Entry,
    stored: &Stored,
    entry: &mut Entry,
    compression: Option<&Compression>,
    lines: &mut LineTable,
) {
    let length = Some(entry.length());
    let is_coded = compression
        .is_some_and(|compression| compression.may_code(stored.status, stored.fields(), length));
    // A 304 may confirm another response than the one that is stored meanwhile.
    if !is_coded || !is_same_body(&former.body(), &stored.body) {
        return;
    }
    for (coding, former) in former.forms() {
        let form = form(stored, coding, former.body(), lines);
        if let Some(other) = entry.set_form(coding, form) {
            other.release(lines);
        }
    }
}

/// Returns a coded body with a reservation in the budget, if the store shares it with readers;
/// `None` without room.
pub(crate) fn reserved(body: Bytes, budget: &Budget) -> Option<Bytes> {
    if body.len() <= limits::INLINE_BODY_BYTES {
        return Some(body);
    }
    Some(budget.reserve(body.len() as u64)?.lend(body))
}
