//! Lines that are JSON objects. The first lines of a log show which members it has; the table of
//! `names.rs` tells what they mean, nested ones by their path.

use super::names::{ROLES, Role, SHOWN, assign, normal};
use super::record::Record;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Objects within objects that are looked into. The known formats have four at most.
const MAX_DEPTH: usize = 6;

/// The members that are used, as a tree of names.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    tree: Vec<Node>,
    /// The names, for people.
    pub names: Vec<(Role, String)>,
}

#[derive(Clone, Debug)]
struct Node {
    name: String,
    role: Option<Role>,
    children: Vec<Node>,
}

/// The path of a member.
type Path = Vec<String>;

impl Members {
    /// Returns the members that the lines of a log use, of those lines that could be requests;
    /// `None` if there is no such line.
    pub fn learn<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Members> {
        let mut paths: Vec<Path> = Vec::new();
        for line in lines {
            let mut found = Vec::new();
            let mut scratch = Vec::new();
            if each_path(object_of(line), &mut Vec::new(), &mut found).is_err() {
                repair(line, &mut scratch);
                found.clear();
                if each_path(object_of(&scratch), &mut Vec::new(), &mut found).is_err() {
                    continue;
                }
            }
            if could_be_request(&assign(&names_of(&found))) {
                for path in found {
                    if !paths.contains(&path) {
                        paths.push(path);
                    }
                }
            }
        }
        let places = assign(&names_of(&paths));
        could_be_request(&places).then(|| Members::of(&paths, &places))
    }

    fn of(paths: &[Path], places: &[Option<usize>; ROLES]) -> Members {
        let mut members = Members::default();
        for (role, _) in SHOWN {
            if let Some(place) = places[role as usize] {
                members.names.push((role, paths[place].join(".")));
                insert(&mut members.tree, &paths[place], role);
            }
        }
        members
    }

    /// Reads the members of a line; returns false if it is no JSON object. `scratch` gets a copy of
    /// a line that had to be repaired.
    pub fn read<'a>(
        &self,
        line: &'a [u8],
        scratch: &'a mut Vec<u8>,
        record: &mut Record<'a>,
    ) -> bool {
        if each_member(object_of(line), &self.tree, record).is_ok() {
            return true;
        }
        record.clear();
        repair(line, scratch);
        each_member(object_of(scratch), &self.tree, record).is_ok()
    }
}

/// Returns true if a line with such fields could describe a request.
pub(super) fn could_be_request(places: &[Option<usize>; ROLES]) -> bool {
    let has = |roles: &[Role]| roles.iter().any(|role| places[*role as usize].is_some());
    has(&[Role::Target, Role::Path, Role::Request])
        && has(&[Role::Time, Role::Date])
        && (has(&[Role::Status]) || has(&[Role::Body, Role::Sent]) && has(&[Role::Method]))
}

fn names_of(paths: &[Path]) -> Vec<String> {
    paths.iter().map(|path| normal(&path.join("."))).collect()
}

fn insert(nodes: &mut Vec<Node>, path: &[String], role: Role) {
    let Some((name, rest)) = path.split_first() else {
        return;
    };
    let place = nodes
        .iter()
        .position(|node| node.name == *name)
        .unwrap_or_else(|| {
            nodes.push(Node {
                name: name.clone(),
                role: None,
                children: Vec::new(),
            });
            nodes.len() - 1
        });
    if rest.is_empty() {
        nodes[place].role = Some(role);
    } else {
        insert(&mut nodes[place].children, rest, role);
    }
}

/// Returns the object of a line that is an element of an array, without the array's punctuation.
fn object_of(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii();
    let line = line.strip_prefix(b"[").unwrap_or(line);
    let line = line.strip_suffix(b"]").unwrap_or(line);
    line.strip_suffix(b",").unwrap_or(line)
}

/// Collects the paths of all members that are no objects.
fn each_path(line: &[u8], parents: &mut Path, found: &mut Vec<Path>) -> Result<(), ()> {
    let mut inner: Vec<(String, &RawValue)> = Vec::new();
    visit(line, &mut |name, members| {
        inner.push((name.to_owned(), members.value()?));
        Ok(())
    })?;
    for (name, value) in inner {
        parents.push(name);
        let raw = value.get().as_bytes();
        if raw.first() == Some(&b'{') {
            if parents.len() < MAX_DEPTH {
                each_path(raw, parents, found)?;
            }
        } else {
            found.push(parents.clone());
        }
        parents.pop();
    }
    Ok(())
}

fn each_member<'a>(line: &'a [u8], nodes: &[Node], record: &mut Record<'a>) -> Result<(), ()> {
    visit(line, &mut |name, members| {
        let Some(node) = nodes.iter().find(|node| node.name == name) else {
            return members.skip();
        };
        let value = members.value()?;
        let raw = value.get();
        if raw.starts_with('{') {
            each_member(raw.as_bytes(), &node.children, record)?;
        } else if let Some(role) = node.role {
            record.set(role, text_of(raw));
        }
        Ok(())
    })
}

/// Returns the text of a value: a string without its quotes, a number as it is written, the first
/// element of an array. `true` as a cache's status is a hit.
fn text_of(raw: &str) -> Cow<'_, [u8]> {
    match raw.as_bytes() {
        [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => Cow::Borrowed(inner),
        [b'"', ..] => match serde_json::from_str::<String>(raw) {
            Ok(text) => Cow::Owned(text.into_bytes()),
            Err(_) => Cow::Borrowed(b""),
        },
        b"true" => Cow::Borrowed(b"HIT"),
        b"false" => Cow::Borrowed(b"MISS"),
        b"null" => Cow::Borrowed(b""),
        [b'[', ..] => match serde_json::from_str::<Vec<String>>(raw) {
            Ok(texts) => Cow::Owned(texts.into_iter().next().unwrap_or_default().into_bytes()),
            Err(_) => Cow::Borrowed(b""),
        },
        other => Cow::Borrowed(other),
    }
}

/// Returns the text of the member `name`, if the line is a JSON object that has it as a string.
pub(super) fn string_member(line: &[u8], names: &[&str]) -> Option<Vec<u8>> {
    let mut found = None;
    visit(line, &mut |name, members| {
        if !names.contains(&name) {
            return members.skip();
        }
        let raw = members.value()?.get();
        if raw.starts_with('"') {
            found = Some(text_of(raw).into_owned());
        }
        Ok(())
    })
    .ok()?;
    found
}

/// Writes a copy of a line into `copy`, without what servers write that is no JSON: `\x22`, bytes
/// of another encoding, and variables without a value (`"a":,` or `"a":-,`).
fn repair(line: &[u8], copy: &mut Vec<u8>) {
    copy.clear();
    let mut text = String::with_capacity(line.len());
    for chunk in line.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| char::from(*byte)));
    }
    let bytes = text.as_bytes();
    let (mut at, mut in_string, mut before) = (0, false, 0_u8);
    while at < bytes.len() {
        let byte = bytes[at];
        let rest = &bytes[at + 1..];
        match (in_string, byte) {
            (true, b'\\') => {
                at += escape(rest, copy);
            }
            (true, ..0x20) => copy.push(b' '),
            (false, b',' | b'}') if before == b':' => {
                copy.extend_from_slice(b"null");
                copy.push(byte);
            }
            (false, b'-') if matches!(rest.trim_ascii_start().first(), Some(b',' | b'}')) => {
                copy.extend_from_slice(b"null");
            }
            _ => {
                in_string ^= byte == b'"';
                copy.push(byte);
            }
        }
        if byte != b' ' {
            before = byte;
        }
        at += 1;
    }
}

/// Writes an escape whose backslash is followed by `rest`, and returns how many bytes it has.
fn escape(rest: &[u8], copy: &mut Vec<u8>) -> usize {
    match rest {
        [b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            copy.extend_from_slice(b"\\u00");
            copy.extend_from_slice(&[*high, *low]);
            3
        }
        [
            letter @ (b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' | b'u'),
            ..,
        ] => {
            copy.extend_from_slice(&[b'\\', *letter]);
            1
        }
        _ => {
            copy.extend_from_slice(b"\\\\");
            0
        }
    }
}

/// The value of the member that is visited.
trait Value<'de> {
    fn value(&mut self) -> Result<&'de RawValue, ()>;
    fn skip(&mut self) -> Result<(), ()>;
}

struct OfMap<A> {
    map: A,
    is_read: bool,
}

impl<'de, A: MapAccess<'de>> Value<'de> for OfMap<A> {
    fn value(&mut self) -> Result<&'de RawValue, ()> {
        self.is_read = true;
        self.map.next_value().map_err(|_| ())
    }

    fn skip(&mut self) -> Result<(), ()> {
        self.is_read = true;
        self.map
            .next_value::<IgnoredAny>()
            .map(|_| ())
            .map_err(|_| ())
    }
}

type Take<'t, 'de> = dyn FnMut(&str, &mut dyn Value<'de>) -> Result<(), ()> + 't;

/// Calls `take` with the name of each member, and the means to read its value.
fn visit<'a>(line: &'a [u8], take: &mut Take<'_, 'a>) -> Result<(), ()> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let read = Each(take).deserialize(&mut deserializer);
    read.and_then(|()| deserializer.end()).map_err(|_| ())
}

struct Each<'m, 't, 'de>(&'m mut Take<'t, 'de>);

#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> DeserializeSeed<'de> for Each<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Each<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let mut members = OfMap { map, is_read: true };
        while let Some(Name(name)) = members.map.next_key()? {
            members.is_read = false;
            let taken = (self.0)(&name, &mut members);
            if taken.is_err() || !members.is_read {
                return Err(serde::de::Error::custom("a member cannot be read"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[u8]) -> Vec<(Role, String)> {
        let members = Members::learn([line].into_iter()).expect("members");
        let (mut scratch, mut record) = (Vec::new(), Record::default());
        assert!(members.read(line, &mut scratch, &mut record));
        let texts = SHOWN.iter().map(|(role, _)| {
            (
                *role,
                String::from_utf8_lossy(record.text(*role)).into_owned(),
            )
        });
        texts.filter(|(_, text)| !text.is_empty()).collect()
    }

    /// Failure: a line that nginx wrote, and that is no JSON, loses its fields.
    #[test]
    fn a_line_that_is_no_json_is_lost() {
        use Role::{Body, Status, Target, Time};
        for line in [
            &br#"{"time":"t","request_uri":"/\x22a","status":200,"body_bytes_sent":5,"ua":"\x1B"}"#[..],
            br#"{"time":"t","request_uri":"/\"a","status":200,"body_bytes_sent":5,"rt":,"ut":-}"#,
            br#"{"time":"t","request_uri":"/\"a","status":200,"body_bytes_sent":5,"ua":"\c"},"#,
            b"{\"time\":\"t\",\"request_uri\":\"/\\\"a\",\"status\":200,\"body_bytes_sent\":5,\"ua\":\"\xfc\"}",
        ] {
            let expected = [(Time, "t"), (Target, "/\"a"), (Status, "200"), (Body, "5")];
            let expected = expected.map(|(role, text)| (role, text.to_owned()));
            assert_eq!(read(line), expected, "{}", String::from_utf8_lossy(line));
        }
    }

    /// Failure: a nested member is not found, or the member of something else is.
    #[test]
    fn a_nested_member_is_another_one() {
        let line = br#"{"ts":1.5,"request":{"method":"GET","host":"a","uri":"/x","headers":{"Host":["b"]}},"size":7,"status":200,"resp_headers":{"Cache-Control":["no-store"]}}"#;
        use Role::{Body, CacheControl, Host, Method, Status, Target, Time};
        let expected = [
            (Time, "1.5"),
            (Method, "GET"),
            (Target, "/x"),
            (Host, "a"),
            (Status, "200"),
            (Body, "7"),
            (CacheControl, "no-store"),
        ];
        assert_eq!(
            read(line),
            expected.map(|(role, text)| (role, text.to_owned()))
        );
    }
}
