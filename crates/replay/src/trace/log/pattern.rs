//! Lines of text as a sequence of fields and the texts between them.
//!
//! A field ends at the next text of the pattern. If the rest does not fit then, it ends at a later
//! one: a URL may have quotes, and a user's name brackets. The steps of a line have a bound.

use super::names::Role;
use super::record::Record;
use crate::trace::times::{self, TimeUnit};
use larder_units::Time;

/// Ends of fields that are tried in one line. A line that fits needs one or two for each field.
const MAX_TRIES: u32 = 400;

/// The form of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    parts: Vec<Part>,
    names: Vec<(Role, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Literal),
    /// One blank or several.
    Blanks,
    Field(Field),
}

/// A text that is always there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Literal {
    bytes: Vec<u8>,
    /// The place of the byte by which it is found: not a blank, which lines have many of.
    rare: usize,
}

impl Literal {
    fn of(bytes: Vec<u8>) -> Literal {
        let rare = bytes.iter().rposition(|byte| *byte != b' ').unwrap_or(0);
        Literal { bytes, rare }
    }

    /// Returns the first place of the text in `line`. A searcher of `memchr` would cost more to
    /// build than these short searches take.
    fn find(&self, line: &[u8]) -> Option<usize> {
        let rare = *self.bytes.get(self.rare)?;
        let mut from = self.rare;
        loop {
            let at = from + memchr::memchr(rare, line.get(from..)?)?;
            let start = at - self.rare;
            if line[start..].starts_with(&self.bytes) {
                return Some(start);
            }
            from = at + 1;
        }
    }
}

/// The last time that was read: many lines have the same second.
#[derive(Debug, Default)]
pub(super) struct LastTime {
    text: Vec<u8>,
    time: Time,
}

impl LastTime {
    fn read(&mut self, text: &[u8], unit: Option<TimeUnit>) -> Option<Time> {
        if self.text != text || text.is_empty() {
            self.time = times::any(text, unit).ok()?;
            self.text.clear();
            self.text.extend_from_slice(text);
        }
        Some(self.time)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    role: Option<Role>,
    /// True if the field may contain the blank that ends it.
    has_blanks: bool,
}

/// The places of a line that is being read.
struct Reading<'p, 'a> {
    parts: &'p [Part],
    line: &'a [u8],
    unit: Option<TimeUnit>,
    last_time: &'p mut LastTime,
    tries: u32,
}

impl Pattern {
    /// Returns a pattern without parts, to which a notation adds them.
    pub fn new() -> Pattern {
        Pattern {
            parts: Vec::new(),
            names: Vec::new(),
        }
    }

    /// Adds a text that is always there.
    pub fn add_text(&mut self, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        if text.iter().all(|byte| *byte == b' ') {
            self.parts.push(Part::Blanks);
        } else if let Some(Part::Text(before)) = self.parts.last_mut() {
            *before = Literal::of([&before.bytes, text].concat());
        } else {
            self.parts.push(Part::Text(Literal::of(text.to_owned())));
        }
    }

    /// Adds a field with this name.
    pub fn add_field(&mut self, role: Option<Role>, name: &str) {
        if let Some(role) = role {
            self.names.push((role, name.to_owned()));
        }
        let has_blanks = role.is_some_and(Role::is_unnamed) || name == "remote_user";
        self.parts.push(Part::Field(Field { role, has_blanks }));
    }

    /// Returns the fields that have a meaning, with their names.
    pub fn names(&self) -> &[(Role, String)] {
        &self.names
    }

    /// Returns true if a field has this role.
    pub fn has(&self, role: Role) -> bool {
        self.names.iter().any(|(known, _)| *known == role)
    }

    /// Reads the fields of a line; returns false if it has another form. The line may have more
    /// fields than the pattern.
    pub fn read<'a>(
        &self,
        line: &'a [u8],
        unit: Option<TimeUnit>,
        last_time: &mut LastTime,
        record: &mut Record<'a>,
    ) -> bool {
        let mut reading = Reading {
            parts: &self.parts,
            line,
            unit,
            last_time,
            tries: MAX_TRIES,
        };
        reading.fits(0, 0, record)
    }
}

impl<'a> Reading<'_, 'a> {
    /// Returns true if the line from byte `at` on has the parts from `part` on, and notes their
    /// fields.
    fn fits(&mut self, part: usize, at: usize, record: &mut Record<'a>) -> bool {
        let rest = &self.line[at..];
        match self.parts.get(part) {
            None => matches!(
                rest.first(),
                None | Some(b' ' | b'\t' | b'"' | b']' | b',' | b';' | b'|' | b'}')
            ),
            Some(Part::Text(text)) => {
                rest.starts_with(&text.bytes) && self.fits(part + 1, at + text.bytes.len(), record)
            }
            Some(Part::Blanks) => {
                let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
                // At the end of a line there may be none, before fields that are empty.
                (blanks > 0 || rest.is_empty()) && self.fits(part + 1, at + blanks, record)
            }
            Some(Part::Field(field)) => self.field_fits(*field, part, at, record),
        }
    }

    fn field_fits(
        &mut self,
        field: Field,
        part: usize,
        at: usize,
        record: &mut Record<'a>,
    ) -> bool {
        let mut from = at;
        loop {
            let Some(end) = self.end_of_field(field, part, from) else {
                return false;
            };
            self.tries = self.tries.saturating_sub(1);
            if self.tries == 0 {
                return false;
            }
            let text = &self.line[at..end];
            if self.is_word(field, part) && text.contains(&b' ') {
                return false;
            }
            if self.accepts(field.role, text, record) && self.fits(part + 1, end, record) {
                if let Some(role) = field.role {
                    record.set(role, text);
                }
                return true;
            }
            from = end + 1;
            if from > self.line.len() {
                return false;
            }
        }
    }

    /// Returns true if the field has no blank in it, because a blank ends it.
    fn is_word(&self, field: Field, part: usize) -> bool {
        let next = match self.parts.get(part + 1) {
            Some(Part::Text(text)) => text.bytes.first(),
            Some(Part::Blanks) => Some(&b' '),
            _ => None,
        };
        next == Some(&b' ') && !field.has_blanks
    }

    /// Returns the first place from `from` on where a field could end.
    fn end_of_field(&self, field: Field, part: usize, from: usize) -> Option<usize> {
        let rest = &self.line[from..];
        let found = match self.parts.get(part + 1) {
            Some(Part::Text(text)) => text.find(rest),
            Some(Part::Blanks) => memchr::memchr(b' ', rest).or(Some(rest.len())),
            Some(Part::Field(next)) if matches!(next.role, Some(Role::Target | Role::Path)) => {
                memchr::memchr(b'/', rest)
            }
            Some(Part::Field(next)) if next.role.is_some_and(Role::is_unnamed) => {
                memchr::memchr2(b' ', b'\t', rest).or(Some(rest.len()))
            }
            Some(Part::Field(_)) => Some(rest.len()),
            None if field.has_blanks => Some(rest.len()),
            None => memchr::memchr2(b' ', b'\t', rest).or(Some(rest.len())),
        };
        found.map(|found| from + found)
    }

    /// Returns true if a text can be a field of this role. A time is noted, because it is read
    /// here.
    fn accepts(&mut self, role: Option<Role>, text: &[u8], record: &mut Record<'a>) -> bool {
        let Some(role) = role else {
            return true;
        };
        let digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
        match role {
            Role::Status => matches!(text, b"-" | b"") || text.len() <= 3 && digits(text),
            Role::Body | Role::Sent | Role::ObjectSize => match text {
                b"-" => true,
                [b'+' | b'-', number @ ..] => digits(number),
                number => digits(number),
            },
            Role::Time => match self.last_time.read(text, self.unit) {
                Some(time) => {
                    record.time = Some(time);
                    true
                }
                None => false,
            },
            Role::Date | Role::Clock => text.iter().any(u8::is_ascii_digit),
            Role::Method => text
                .iter()
                .all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_')),
            Role::Scheme => {
                text == b"-"
                    || text.iter().all(|byte| {
                        byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'+')
                    })
            }
            Role::Host | Role::ServerName => !text.contains(&b' '),
            _ => true,
        }
    }
}
