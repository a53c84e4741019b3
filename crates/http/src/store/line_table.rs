//! Header lines that several stored responses have. Each is in memory once.

use bytes::Bytes;
use hashbrown::HashTable;
use http::header::{DATE, ETAG, EXPIRES, LAST_MODIFIED, SET_COOKIE};
use http::{HeaderName, HeaderValue};
use larder_units::allocated;
use siphasher::sip::SipHasher13;

/// Longest line that is shared. Content-Security-Policy takes up to some KiB.
const MAX_LINE_BYTES: usize = 8 * 1024;

/// Header lines that the table remembers to have seen once (4 bytes each). A response has about
/// three lines of its own. So a line is recognised if it comes again within some thousand
/// responses.
const SEEN_LINES: usize = 8192;

/// Fields of one response. Equal lines of them are a coincidence (the same second), and would
/// displace lines that are reused.
const NEVER_SHARED: [HeaderName; 5] = [DATE, ETAG, EXPIRES, LAST_MODIFIED, SET_COOKIE];

/// The number of a shared line. It is valid until its last reference is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineId(pub u16);

/// Header lines with the number of references to each. A line is stored when it occurs for the
/// second time, and removed with its last reference.
pub(crate) struct LineTable {
    /// By number.
    lines: Vec<Option<SharedLine>>,
    free: Vec<LineId>,
    ids: HashTable<LineId>,
    /// The fingerprints of earlier lines; the hash determines the position. If two lines have one
    /// position, both are stored later.
    seen: Box<[u32]>,
    /// The secret of the hash, so that an origin cannot choose lines that collide.
    secret: [u8; 16],
    bytes: u64,
    limit: u64,
}

struct SharedLine {
    hash: u64,
    references: u32,
    name: HeaderName,
    value: HeaderValue,
    /// The line `name: value\r\n`; `value` is a part of it.
    text: Bytes,
}

impl LineTable {
    /// Returns an empty table that takes up to `limit` bytes.
    pub(crate) fn new(limit: u64, secret: &[u8; 16]) -> LineTable {
        LineTable {
            lines: Vec::new(),
            free: Vec::new(),
            ids: HashTable::new(),
            seen: Box::default(),
            secret: *secret,
            bytes: 0,
            limit,
        }
    }

    /// Returns the number of a line, with one more reference to it. `text` is the line as HTTP/1.1
    /// sends it. `None` if the line occurs for the first time, is not worth storing, or if the
    /// table is full.
    pub(crate) fn acquire(
        &mut self,
        name: &HeaderName,
        value: &HeaderValue,
        text: &[u8],
    ) -> Option<LineId> {
        if value.is_sensitive() || value.len() > MAX_LINE_BYTES || NEVER_SHARED.contains(name) {
            return None;
        }
        let hash = SipHasher13::new_with_key(&self.secret).hash(text);
        if let Some(id) = self.ids.find(hash, |id| self.line(*id).text == text) {
            let id = *id;
            self.line_mut(id).references += 1;
            return Some(id);
        }
        if !self.is_repeated(hash) {
            return None;
        }
        let cost = cost(name, text);
        let id = self
            .free
            .last()
            .copied()
            .or_else(|| u16::try_from(self.lines.len()).ok().map(LineId))?;
        if self.bytes + cost > self.limit {
            return None;
        }
        let start = name.as_str().len() + 2;
        let text = Bytes::copy_from_slice(text);
        let value = HeaderValue::from_maybe_shared(text.slice(start..start + value.len())).ok()?;
        let line = SharedLine {
            hash,
            references: 1,
            name: name.clone(),
            value,
            text,
        };
        self.bytes += cost;
        if self.free.pop().is_some() {
            self.lines[usize::from(id.0)] = Some(line);
        } else {
            self.lines.push(Some(line));
        }
        let lines = &self.lines;
        self.ids.insert_unique(hash, id, |id| {
            lines[usize::from(id.0)]
                .as_ref()
                .map_or(0, |line| line.hash)
        });
        Some(id)
    }

    /// Releases one reference.
    pub(crate) fn release(&mut self, id: LineId) {
        let line = self.line_mut(id);
        line.references -= 1;
        if line.references > 0 {
            return;
        }
        if let Some(line) = self.lines[usize::from(id.0)].take() {
            self.bytes -= cost(&line.name, &line.text);
            if let Ok(entry) = self.ids.find_entry(line.hash, |other| *other == id) {
                entry.remove();
            }
            self.free.push(id);
        }
    }

    pub(crate) fn name(&self, id: LineId) -> &HeaderName {
        &self.line(id).name
    }

    pub(crate) fn value(&self, id: LineId) -> &HeaderValue {
        &self.line(id).value
    }

    /// Returns the line as HTTP/1.1 sends it.
    pub(crate) fn text(&self, id: LineId) -> &[u8] {
        &self.line(id).text
    }

    /// Returns the bytes that the lines take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Panics if the lines have other references than those of `references`, or if their bytes are
    /// counted wrongly.
    pub(crate) fn check_invariants(&self, references: impl Iterator<Item = LineId>) {
        let mut counted = vec![0; self.lines.len()];
        for id in references {
            counted[usize::from(id.0)] += 1;
        }
        let (mut bytes, mut lines) = (0, 0);
        for (line, counted) in self.lines.iter().zip(counted) {
            assert_eq!(
                line.as_ref().map_or(0, |line| line.references),
                counted,
                "the references of a line"
            );
            if let Some(line) = line {
                (bytes, lines) = (bytes + cost(&line.name, &line.text), lines + 1);
            }
        }
        assert_eq!(
            (bytes, lines),
            (self.bytes, self.ids.len()),
            "the bytes and the number of lines"
        );
        assert_eq!(
            lines + self.free.len(),
            self.lines.len(),
            "a place is in use or free"
        );
        assert!(bytes <= self.limit);
    }

    /// Returns true if a line with this hash is remembered from before.
    fn is_repeated(&mut self, hash: u64) -> bool {
        if self.seen.is_empty() {
            self.seen = vec![0; SEEN_LINES].into();
        }
        // 0 marks a free position.
        let fingerprint = (hash >> 32) as u32 | 1;
        let place = &mut self.seen[hash as usize % SEEN_LINES];
        std::mem::replace(place, fingerprint) == fingerprint
    }

    fn line(&self, id: LineId) -> &SharedLine {
        self.lines[usize::from(id.0)]
            .as_ref()
            .expect("a line with references")
    }

    fn line_mut(&mut self, id: LineId) -> &mut SharedLine {
        self.lines[usize::from(id.0)]
            .as_mut()
            .expect("a line with references")
    }
}

/// Appends the line of a field as HTTP/1.1 sends it.
pub(crate) fn append_line(name: &[u8], value: &[u8], text: &mut Vec<u8>) {
    text.reserve(name.len() + value.len() + 4);
    for part in [name, b": ", value, b"\r\n"] {
        text.extend_from_slice(part);
    }
}

/// The memory of a line: its record, its text, and its name, which has memory of its own unless it
/// is a standard one.
fn cost(name: &HeaderName, text: &[u8]) -> u64 {
    let structures = size_of::<Option<SharedLine>>() + 2 * 16;
    let bytes = structures + allocated(text.len()) + allocated(name.as_str().len());
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table() -> LineTable {
        LineTable::new(1 << 20, &[7; 16])
    }

    fn acquire(table: &mut LineTable, name: &HeaderName, value: &HeaderValue) -> Option<LineId> {
        let mut text = Vec::new();
        append_line(name.as_str().as_bytes(), value.as_bytes(), &mut text);
        table.acquire(name, value, &text)
    }

    fn value(text: &str) -> HeaderValue {
        HeaderValue::from_str(text).expect("a value")
    }

    /// Failure: a line of one response is stored, or a line of many is not.
    #[test]
    fn a_line_is_shared_from_its_second_time_to_its_last_reference() {
        let mut table = table();
        let (name, value) = (HeaderName::from_static("server"), value("origin"));
        assert_eq!(
            acquire(&mut table, &name, &value),
            None,
            "it may be the only one"
        );
        let id = acquire(&mut table, &name, &value).expect("it comes again");
        assert_eq!(acquire(&mut table, &name, &value), Some(id));
        assert_eq!(
            (table.name(id), table.value(id), table.text(id)),
            (&name, &value, &b"server: origin\r\n"[..])
        );
        table.check_invariants([id, id].into_iter());
        table.release(id);
        table.check_invariants([id].into_iter());
        table.release(id);
        table.check_invariants(std::iter::empty());
        assert_eq!(table.bytes(), 0);
    }

    /// Failure: HPACK indexes a secret (RFC 7541 §7.1.3), or lines with the same second fill the
    /// table.
    #[test]
    fn some_lines_are_never_shared() {
        let mut table = table();
        let mut secret = value("secret");
        secret.set_sensitive(true);
        let long = value(&"x".repeat(MAX_LINE_BYTES + 1));
        for _ in 0..3 {
            assert_eq!(
                acquire(&mut table, &HeaderName::from_static("x-secret"), &secret),
                None
            );
            assert_eq!(
                acquire(&mut table, &HeaderName::from_static("x-long"), &long),
                None
            );
            for name in NEVER_SHARED {
                assert_eq!(acquire(&mut table, &name, &value("a")), None);
            }
        }
    }

    proptest! {
        /// Failure: the table grows past its limit, loses a reference or returns another line.
        #[test]
        fn references_are_counted(
            limit in 0_u64..2_000,
            steps in proptest::collection::vec((any::<bool>(), 0_u8..4, 0_u8..8), 1..300),
        ) {
            let mut table = LineTable::new(limit, &[7; 16]);
            let mut held = Vec::new();
            for (is_new, name, text) in steps {
                let name = HeaderName::try_from(format!("x-{name}")).expect("a name");
                let value = value(&text.to_string());
                if is_new {
                    held.extend(acquire(&mut table, &name, &value).map(|id| (id, name, value)));
                } else if let Some((id, ..)) = held.pop() {
                    table.release(id);
                }
                for (id, name, value) in &held {
                    prop_assert_eq!((table.name(*id), table.value(*id)), (name, value));
                }
                table.check_invariants(held.iter().map(|(id, ..)| *id));
            }
        }
    }
}
