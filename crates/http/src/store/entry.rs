//! A stored response as the store keeps it: all its bytes in one piece of memory. Header lines that
//! several responses have are in the [`LineTable`].

use crate::limits;
use crate::rfc::cache_status::{self, CacheStatus};
use crate::rfc::coding::content_coding::{ContentCoding, vary_by_coding};
use crate::rfc::fields;
use crate::rfc::freshness::Freshness;
use crate::rfc::selection::NOT_MODIFIED_FIELDS;
use crate::rfc::vary::Selector;
use crate::store::line_table::{LineId, LineTable, append_line};
use crate::store::purge::{CACHE_TAG, SURROGATE_KEY, each_tag};
use crate::store::purge_table::Position;
use crate::store::sliced::Sliced;
use crate::store::stored::{Elsewhere, Stored, content_length, insert_written_anew};
use bytes::Bytes;
use http::header::{CONTENT_RANGE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use larder_units::{Time, allocated};
use memchr::memchr;
use std::iter;
use std::ops::Range;

/// A stored response. It has references to lines of the [`LineTable`], which [`Entry::release`]
/// gives back.
pub(crate) struct Entry {
    /// In order: the key, the [`Selector`], the numbers of shared lines, the entry's own lines, the
    /// `Cache-Status` of other caches, and a small body.
    bytes: Box<[u8]>,
    pub freshness: Freshness,
    /// The position of its request among the purges in the lower 45 bits, which are enough for
    /// 1,100 years of 1,000 purges a second. Then whether the next hit offers it to the object
    /// tier, in one bit, and its [`Codable`] in two. The number of its tags in the upper 16: it is
    /// at most half of [`limits::STORED_HEADER_BYTES`].
    asked_at_and_tags: u64,
    /// The body, if it is not in `bytes`.
    rest: Option<Box<Rest>>,
    // The lengths of the parts of `bytes`, in their order. `limits` bounds key, selector and header
    // lines.
    key_bytes: u16,
    selector_bytes: u16,
    /// The number of shared lines.
    shared: u16,
    own_bytes: u32,
    earlier_bytes: u16,
    pub status: StatusCode,
    /// The number of its own lines before the first one of a sensitive field: HPACK must not index
    /// such a field (RFC 7541 §7.1.3).
    indexable: u16,
}

/// The bits of a position in [`Entry::asked_at_and_tags`].
const ASKED_AT_BITS: u32 = 45;

const ASKED_AT: u64 = (1 << ASKED_AT_BITS) - 1;

/// The bit there that [`Entry::is_offered`] returns.
const OFFERED: u64 = 1 << ASKED_AT_BITS;

/// The position of the [`Codable`] there.
const CODABLE_SHIFT: u32 = 46;

/// The position of the number of tags there.
const TAGS_SHIFT: u32 = 48;

enum Rest {
    /// In memory of its own, which readers share.
    Body(Bytes),
    /// Rarer ones, in a box of their own, so that the other one stays small.
    Other(Box<Other>),
}

enum Other {
    /// In slices, each of which is stored by itself.
    Slices(Sliced),
    /// In memory of its own, with coded forms.
    Coded(Box<Coded>),
}

/// A body with its coded forms.
struct Coded {
    body: Bytes,
    /// By [`ContentCoding::index`]. They have no key and no selector: those of the entry are
    /// theirs, too.
    forms: [Option<Entry>; ContentCoding::ALL.len()],
    /// True for those that were made and are not worth their memory, or found no room.
    refused: [bool; ContentCoding::ALL.len()],
}

/// Whether clients get coded forms of a stored response. The settings decide it, so it is found out
/// at the first hit after they have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codable {
    /// Not found out.
    Unknown,
    /// They get it as it came.
    No,
    /// They do. An answer needs one more line, for `Vary`.
    Yes,
    /// They do, and its own fields have that line.
    YesAndSaysSo,
}

impl Codable {
    const ALL: [Codable; 4] = [
        Codable::Unknown,
        Codable::No,
        Codable::Yes,
        Codable::YesAndSaysSo,
    ];

    pub(crate) fn is_yes(self) -> bool {
        matches!(self, Codable::Yes | Codable::YesAndSaysSo)
    }
}

/// An [`Entry`] with the table of its shared lines.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    entry: &'a Entry,
    table: &'a LineTable,
    /// The freshness that its heads show.
    freshness: &'a Freshness,
}

impl Entry {
    /// Returns the compact form of a response whose body is not left in the second tier. It copies
    /// everything except a body that is not small, because a received value is a slice of a
    /// connection's read buffer, and would keep all of it in memory.
    pub(crate) fn new(stored: &Stored, table: &mut LineTable) -> Entry {
        let rest = match stored.elsewhere.as_deref() {
            Some(Elsewhere::Slices(sliced)) => {
                let slices = Box::new(Other::Slices(sliced.clone()));
                Some(Box::new(Rest::Other(slices)))
            }
            Some(Elsewhere::Tier(_)) => {
                unreachable!("a body that is left in the second tier is in no store")
            }
            None if stored.body.len() <= limits::INLINE_BODY_BYTES => None,
            None => Some(Box::new(Rest::Body(stored.body.clone()))),
        };
        let inline: &[u8] = if rest.is_none() { &stored.body } else { &[] };
        let (selector, earlier) = (stored.selector.as_bytes(), stored.earlier());
        let all = stored.fields();
        let (mut ids, mut sensitive, mut indexable) =
            (Vec::with_capacity(2 * all.len()), Vec::new(), 0);
        let mut lines = Vec::with_capacity(fields::bytes(all) + 4 * all.len());
        let mut fields = all.iter().peekable();
        let mut previous: Option<&HeaderName> = None;
        while let Some((name, value)) = fields.next() {
            // The lines of one field stay together, so that their order does not change.
            let is_other =
                |other: Option<&HeaderName>| other.is_none_or(|other| !std::ptr::eq(name, other));
            let is_alone = is_other(previous.replace(name))
                && is_other(fields.peek().map(|(other, _)| *other));
            let is_sensitive = if is_alone {
                value.is_sensitive()
            } else {
                all.get_all(name).iter().any(HeaderValue::is_sensitive)
            };
            let lines = if is_sensitive {
                &mut sensitive
            } else {
                &mut lines
            };
            let start = lines.len();
            append_line(name.as_str().as_bytes(), value.as_bytes(), lines);
            if is_alone && let Some(id) = table.acquire(name, value, &lines[start..]) {
                lines.truncate(start);
                ids.extend_from_slice(&id.0.to_le_bytes());
            } else {
                indexable += u16::from(!is_sensitive);
            }
        }
        let mut bytes = Vec::with_capacity(
            stored.key.len()
                + selector.len()
                + ids.len()
                + lines.len()
                + sensitive.len()
                + earlier.len()
                + inline.len(),
        );
        for part in [
            &stored.key,
            selector,
            &ids,
            &lines,
            &sensitive,
            earlier.as_bytes(),
            inline,
        ] {
            bytes.extend_from_slice(part);
        }
        Entry {
            bytes: bytes.into(),
            freshness: stored.freshness,
            asked_at_and_tags: stored.asked_at.0 & ASKED_AT
                | if stored.is_offered { OFFERED } else { 0 }
                | stored.tags().min(u16::MAX.into()) << TAGS_SHIFT,
            rest,
            key_bytes: stored.key.len() as u16,
            selector_bytes: selector.len() as u16,
            shared: (ids.len() / 2) as u16,
            own_bytes: (lines.len() + sensitive.len()) as u32,
            earlier_bytes: earlier.len() as u16,
            status: stored.status,
            indexable,
        }
    }

    /// Releases its shared lines, and those of its coded forms. The entry must not be used
    /// afterwards.
    pub(crate) fn release(&self, table: &mut LineTable) {
        for id in self.all_shared_lines() {
            table.release(id);
        }
    }

    pub(crate) fn codable(&self) -> Codable {
        Codable::ALL[(self.asked_at_and_tags >> CODABLE_SHIFT & 0b11) as usize]
    }

    pub(crate) fn set_codable(&mut self, codable: Codable) {
        self.asked_at_and_tags &= !(0b11 << CODABLE_SHIFT);
        self.asked_at_and_tags |= (codable as u64) << CODABLE_SHIFT;
    }

    /// Returns true if the next hit offers it to the object tier.
    pub(crate) fn is_offered(&self) -> bool {
        self.asked_at_and_tags & OFFERED != 0
    }

    pub(crate) fn clear_offered(&mut self) {
        self.asked_at_and_tags &= !OFFERED;
    }

    /// Returns its form with this coding.
    pub(crate) fn form(&self, coding: ContentCoding) -> Option<&Entry> {
        self.coded()?.forms[coding.index()].as_ref()
    }

    /// Returns true if a form with this coding would not be stored.
    pub(crate) fn refuses(&self, coding: ContentCoding) -> bool {
        self.coded()
            .is_some_and(|coded| coded.refused[coding.index()])
    }

    /// Records that a form with this coding is not worth its memory, or finds no room. Without any
    /// form, clients get the response as it came.
    pub(crate) fn refuse(&mut self, coding: ContentCoding) {
        match self.coded_mut() {
            Some(coded) => coded.refused[coding.index()] = true,
            None => self.set_codable(Codable::No),
        }
    }

    /// Returns its coded forms.
    pub(crate) fn forms(&self) -> impl Iterator<Item = (ContentCoding, &Entry)> {
        ContentCoding::ALL
            .into_iter()
            .filter_map(|coding| Some((coding, self.form(coding)?)))
    }

    /// Adds a coded form, and returns the one that it replaces.
    pub(crate) fn set_form(&mut self, coding: ContentCoding, form: Entry) -> Option<Entry> {
        if self.sliced().is_some() {
            // Nobody asks for a form of it.
            return Some(form);
        }
        if self.coded().is_none() {
            let coded = Coded {
                body: self.body(),
                forms: [const { None }; ContentCoding::ALL.len()],
                refused: [false; ContentCoding::ALL.len()],
            };
            let coded = Other::Coded(Box::new(coded));
            self.bytes = self.bytes[..self.earlier_end()].into();
            self.rest = Some(Box::new(Rest::Other(Box::new(coded))));
        }
        self.coded_mut()?.forms[coding.index()].replace(form)
    }

    fn coded(&self) -> Option<&Coded> {
        match self.other() {
            Some(Other::Coded(coded)) => Some(coded),
            _ => None,
        }
    }

    fn coded_mut(&mut self) -> Option<&mut Coded> {
        match self.rest.as_deref_mut() {
            Some(Rest::Other(other)) => match &mut **other {
                Other::Coded(coded) => Some(coded),
                Other::Slices(_) => None,
            },
            _ => None,
        }
    }

    fn other(&self) -> Option<&Other> {
        match self.rest.as_deref() {
            Some(Rest::Other(other)) => Some(other),
            _ => None,
        }
    }

    /// Makes it stale, with its coded forms.
    pub(crate) fn expire(&mut self, now: Time) {
        self.freshness.expire(now);
        for form in self
            .coded_mut()
            .iter_mut()
            .flat_map(|coded| coded.forms.iter_mut().flatten())
        {
            form.freshness.expire(now);
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[..usize::from(self.key_bytes)]
    }

    /// Returns the bytes of its [`Selector`].
    pub(crate) fn selector(&self) -> &[u8] {
        &self.bytes[usize::from(self.key_bytes)..self.selector_end()]
    }

    pub(crate) fn shared_lines(&self) -> impl Iterator<Item = LineId> {
        let start = self.selector_end();
        let (ids, _) = self.bytes[start..self.own_start()].as_chunks();
        ids.iter().map(|id| LineId(u16::from_le_bytes(*id)))
    }

    /// Returns its shared lines, and those of its coded forms.
    pub(crate) fn all_shared_lines(&self) -> impl Iterator<Item = LineId> {
        let of_forms = self.forms().flat_map(|(_, form)| form.shared_lines());
        self.shared_lines().chain(of_forms)
    }

    /// Returns the description of its slices, if its body is stored in slices.
    pub(crate) fn sliced(&self) -> Option<&Sliced> {
        match self.other() {
            Some(Other::Slices(sliced)) => Some(sliced),
            _ => None,
        }
    }

    /// Returns the body, if it is small and therefore in one piece of memory with the entry.
    pub(crate) fn inline_body(&self) -> Option<&[u8]> {
        self.rest
            .is_none()
            .then(|| &self.bytes[self.earlier_end()..])
    }

    /// Returns the body, which is a copy if it is small, and empty if it is in slices.
    pub(crate) fn body(&self) -> Bytes {
        match self.rest.as_deref() {
            Some(Rest::Body(body)) => body.clone(),
            Some(Rest::Other(other)) => match &**other {
                Other::Coded(coded) => coded.body.clone(),
                Other::Slices(_) => Bytes::new(),
            },
            None => Bytes::copy_from_slice(&self.bytes[self.earlier_end()..]),
        }
    }

    /// Returns the bytes of the bodies that readers share: they may be in memory for longer than
    /// the entry.
    pub(crate) fn shared_body_bytes(&self) -> usize {
        let (own, forms) = match self.rest.as_deref() {
            Some(Rest::Body(body)) => (body.len(), 0),
            Some(Rest::Other(other)) => match &**other {
                Other::Coded(coded) => {
                    let Coded { body, forms, .. } = &**coded;
                    let forms = forms.iter().flatten().map(Entry::shared_body_bytes);
                    (body.len(), forms.sum())
                }
                Other::Slices(_) => (0, 0),
            },
            None => (0, 0),
        };
        // A small body was copied when it was stored, and has no reservation.
        let is_small = own <= limits::INLINE_BODY_BYTES;
        forms + if is_small { 0 } else { own }
    }

    /// Returns the memory of its bytes and its body. The store adds that of its structures.
    pub(crate) fn size(&self) -> u64 {
        let large = match self.rest.as_deref() {
            Some(Rest::Body(body)) => {
                limits::LARGE_BODY_OVERHEAD_BYTES + allocated(body.len()) as u64
            }
            Some(Rest::Other(other)) => {
                let more = match &**other {
                    Other::Slices(sliced) => {
                        let (name, value) = sliced.pin.parts();
                        (name.as_str().len() + value.len()) as u64
                    }
                    Other::Coded(coded) => {
                        let Coded { body, forms, .. } = &**coded;
                        let forms: u64 = forms.iter().flatten().map(Entry::size).sum();
                        let own = allocated(size_of::<Coded>()) + allocated(body.len());
                        limits::LARGE_BODY_OVERHEAD_BYTES + own as u64 + forms
                    }
                };
                (allocated(size_of::<Rest>()) + allocated(size_of::<Other>())) as u64 + more
            }
            None => 0,
        };
        let index = if self.selector_bytes > 0 {
            limits::VARIANT_BYTES
        } else {
            0
        };
        allocated(self.bytes.len()) as u64 + large + self.tags() * limits::TAG_BYTES + index
    }

    /// Returns the length of the whole body in bytes, whatever its location.
    pub(crate) fn length(&self) -> u64 {
        self.sliced()
            .map_or(self.own_length(), |sliced| sliced.length)
    }

    /// Returns the bytes of the body that is stored with it; 0 if its slices are stored separately.
    pub(crate) fn own_length(&self) -> u64 {
        match self.rest.as_deref() {
            Some(Rest::Body(body)) => body.len() as u64,
            Some(Rest::Other(other)) => match &**other {
                Other::Coded(coded) => coded.body.len() as u64,
                Other::Slices(_) => 0,
            },
            None => (self.bytes.len() - self.earlier_end()) as u64,
        }
    }

    fn tags(&self) -> u64 {
        self.asked_at_and_tags >> TAGS_SHIFT
    }

    fn own_start(&self) -> usize {
        self.selector_end() + 2 * usize::from(self.shared)
    }

    fn selector_end(&self) -> usize {
        usize::from(self.key_bytes) + usize::from(self.selector_bytes)
    }

    fn own_end(&self) -> usize {
        self.own_start() + self.own_bytes as usize
    }

    fn earlier_end(&self) -> usize {
        self.own_end() + usize::from(self.earlier_bytes)
    }

    fn own_lines(&self) -> &[u8] {
        &self.bytes[self.own_start()..self.own_end()]
    }

    fn earlier(&self) -> &str {
        std::str::from_utf8(&self.bytes[self.own_end()..self.earlier_end()]).expect("it was a text")
    }
}

impl<'a> View<'a> {
    pub(crate) fn new(entry: &'a Entry, table: &'a LineTable) -> View<'a> {
        View {
            entry,
            table,
            freshness: &entry.freshness,
        }
    }

    /// Returns it with another freshness, for a response that has been confirmed.
    pub(crate) fn with_freshness(self, freshness: &'a Freshness) -> View<'a> {
        View { freshness, ..self }
    }

    /// Returns true if this is its one entity tag, weak or strong, and it is stored whole with a
    /// 200: the response that the host has confirmed.
    pub(crate) fn is_confirmed_by(&self, tag: &[u8]) -> bool {
        let mut tags = self.values(&ETAG);
        let has_tag = tags.next() == Some(tag) && tags.next().is_none();
        has_tag && self.entry.status == StatusCode::OK && self.entry.sliced().is_none()
    }

    pub(crate) fn key(&self) -> &'a [u8] {
        self.entry.key()
    }

    pub(crate) fn entry(&self) -> &'a Entry {
        self.entry
    }

    /// Returns the values of the field `name`, line by line.
    pub(crate) fn values(&self, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
        let View { entry, table, .. } = *self;
        let is_named = move |other: &[u8]| other == name.as_str().as_bytes();
        let shared = entry
            .shared_lines()
            .filter(move |id| table.name(*id) == *name);
        let own = lines(entry.own_lines())
            .filter(move |line| is_named(line.name))
            .map(|line| line.value);
        shared.map(|id| table.value(id).as_bytes()).chain(own)
    }

    /// Returns the response with a copy of its fields.
    pub(crate) fn to_stored(self, hash: u64) -> Stored {
        let entry = self.entry;
        let mut stored = Stored::new(
            entry.key().into(),
            hash,
            Selector::from_bytes(entry.selector().into()),
            entry.status,
            &self.fields(|_| true),
            entry.freshness,
        )
        .at(Position(entry.asked_at_and_tags & ASKED_AT));
        stored.is_offered = entry.is_offered();
        stored.set_earlier(entry.earlier());
        stored.set_body(entry.body());
        stored.elsewhere = entry
            .sliced()
            .map(|sliced| Box::new(Elsewhere::Slices(sliced.clone())));
        stored
    }

    /// Calls `look` with each of its tags.
    pub(crate) fn each_tag(&self, mut look: impl FnMut(&[u8])) {
        if self.entry.tags() == 0 {
            return;
        }
        for name in [SURROGATE_KEY, CACHE_TAG] {
            for line in self.values(&name) {
                each_tag(name.as_str(), line, &mut look);
            }
        }
    }

    /// Returns the headers of a hit at `now`.
    pub(crate) fn hit_headers(self, now: Time) -> HeaderMap {
        let length = content_length(self.entry.status, self.entry.length());
        self.headers(|_| true, length, now)
    }

    /// Returns the headers of a 304 in place of a hit at `now`.
    pub(crate) fn not_modified_headers(self, now: Time) -> HeaderMap {
        self.headers(is_kept_by_304, None, now)
    }

    fn headers(
        self,
        is_kept: impl Fn(&[u8]) -> bool,
        content_length: Option<u64>,
        now: Time,
    ) -> HeaderMap {
        let freshness = self.freshness;
        let mut headers = self.fields(is_kept);
        let cache_status = CacheStatus::Hit {
            ttl_seconds: freshness.ttl_seconds(now),
        };
        insert_written_anew(
            &mut headers,
            content_length,
            freshness.age(now),
            cache_status.after(self.entry.earlier()),
        );
        if self.entry.codable() == Codable::Yes {
            vary_by_coding(&mut headers);
        }
        headers
    }

    /// Appends the head of a hit at `now`, as HTTP/1.1 sends it, with the empty line at its end.
    /// The stored status is 200.
    pub(crate) fn write_hit(self, hit: &HitHead, now: Time, head: &mut Vec<u8>) {
        let View {
            entry,
            table,
            freshness,
        } = self;
        let mut digits = itoa::Buffer::new();
        // RFC 9112 §4, §5.
        if *hit == HitHead::Whole {
            head.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
            for id in entry.shared_lines() {
                head.extend_from_slice(table.text(id));
            }
            head.extend_from_slice(entry.own_lines());
            head.extend_from_slice(b"content-length: ");
            head.extend_from_slice(digits.format(entry.length()).as_bytes());
            head.extend_from_slice(b"\r\n");
        } else {
            self.write_less(hit, head);
        }
        if entry.codable() == Codable::Yes {
            head.extend_from_slice(b"vary: Accept-Encoding\r\n");
        }
        head.extend_from_slice(b"age: ");
        head.extend_from_slice(digits.format(freshness.age(now).as_secs()).as_bytes());
        head.extend_from_slice(b"\r\ncache-status: ");
        cache_status::append_hit(freshness.ttl_seconds(now), entry.earlier(), head);
        head.extend_from_slice(b"\r\n\r\n");
    }

    /// Appends the status line, the stored lines and the lengths of a part or of a 304.
    fn write_less(self, hit: &HitHead, head: &mut Vec<u8>) {
        let View { entry, table, .. } = self;
        let HitHead::Part(part) = hit else {
            head.extend_from_slice(b"HTTP/1.1 304 Not Modified\r\n");
            for id in entry
                .shared_lines()
                .filter(|id| is_kept_by_304(table.name(*id).as_str().as_bytes()))
            {
                head.extend_from_slice(table.text(id));
            }
            for line in lines(entry.own_lines()).filter(|line| is_kept_by_304(line.name)) {
                append_line(line.name, line.value, head);
            }
            return;
        };
        head.extend_from_slice(b"HTTP/1.1 206 Partial Content\r\n");
        // A 200 may have a Content-Range of its own, which means nothing (RFC 9110 §14.4).
        for id in entry
            .shared_lines()
            .filter(|id| *table.name(*id) != CONTENT_RANGE)
        {
            head.extend_from_slice(table.text(id));
        }
        for line in
            lines(entry.own_lines()).filter(|line| line.name != CONTENT_RANGE.as_str().as_bytes())
        {
            append_line(line.name, line.value, head);
        }
        let mut digits = itoa::Buffer::new();
        for (name, number) in [
            (&b"content-range: bytes "[..], part.start),
            (b"-", part.end - 1),
            (b"/", entry.length()),
            (b"\r\ncontent-length: ", part.end - part.start),
        ] {
            head.extend_from_slice(name);
            head.extend_from_slice(digits.format(number).as_bytes());
        }
        head.extend_from_slice(b"\r\n");
    }

    /// Returns the fields with these names, with room for those that each answer adds.
    pub(crate) fn fields(self, is_kept: impl Fn(&[u8]) -> bool) -> HeaderMap {
        let View { entry, table, .. } = self;
        let mut map =
            HeaderMap::with_capacity(usize::from(entry.shared) + usize::from(entry.indexable) + 3);
        for id in entry
            .shared_lines()
            .filter(|id| is_kept(table.name(*id).as_str().as_bytes()))
        {
            map.append(table.name(id).clone(), table.value(id).clone());
        }
        // The values share one copy of the lines.
        let own = Bytes::copy_from_slice(entry.own_lines());
        for (number, line) in lines(&own)
            .enumerate()
            .filter(|(_, line)| is_kept(line.name))
        {
            let name = HeaderName::from_bytes(line.name).expect("was a field's name");
            let value = own.slice(line.start..line.start + line.value.len());
            let mut value = HeaderValue::from_maybe_shared(value).expect("was a field's value");
            value.set_sensitive(number >= usize::from(entry.indexable));
            map.append(name, value);
        }
        map
    }
}

/// The part of a stored response that a hit sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HitHead {
    /// All of it.
    Whole,
    /// This part of the body, not an empty one.
    Part(Range<u64>),
    /// No body, because the client has it.
    NotModified,
}

fn is_kept_by_304(name: &[u8]) -> bool {
    NOT_MODIFIED_FIELDS
        .iter()
        .any(|kept| kept.as_str().as_bytes() == name)
}

/// A header line, `name: value\r\n`. The name is in lower case. The value has no line break,
/// because it was a [`HeaderValue`].
struct Line<'a> {
    name: &'a [u8],
    value: &'a [u8],
    /// The position of the value.
    start: usize,
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let mut at = 0;
    iter::from_fn(move || {
        let rest = &bytes[at..];
        let colon = memchr(b':', rest)?;
        let value = rest.get(colon + 2..)?;
        let length = memchr(b'\r', value)?;
        let line = Line {
            name: &rest[..colon],
            value: &value[..length],
            start: at + colon + 2,
        };
        at = line.start + length + 2;
        Some(line)
    })
}

#[cfg(test)]
mod tests;
