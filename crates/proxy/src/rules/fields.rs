//! Changes of header fields, in a map and in the bytes of a head.

use super::config::HeaderChanges;
use super::template::Template;
use crate::message::field_names::remove_variable;
use http::header::{CONTENT_ENCODING, ETAG, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use larder_http::PlainField;
use memchr::memmem::{Finder, find};

/// The changes of one rule, in the order in which they are carried out.
pub(super) struct HeaderEdits(Vec<Edit>);

struct Edit {
    name: HeaderName,
    /// True if fields of this name are removed first.
    replaces: bool,
    /// `\r\nNAME: `, for the bytes of a head.
    finder: Finder<'static>,
    /// `None` if the field is only removed.
    value: Option<Value>,
}

enum Value {
    Constant(HeaderValue),
    Template(Template),
}

impl HeaderEdits {
    pub(super) fn new(changes: &HeaderChanges) -> HeaderEdits {
        let edit = |name: &HeaderName, template: Option<&Template>, replaces| Edit {
            name: name.clone(),
            replaces,
            finder: Finder::new(format!("\r\n{name}: ").as_bytes()).into_owned(),
            value: template.map(|template| {
                let constant = template
                    .constant()
                    .and_then(|text| HeaderValue::try_from(text).ok());
                constant.map_or_else(|| Value::Template(template.clone()), Value::Constant)
            }),
        };
        let removed = changes.remove.iter().map(|name| edit(name, None, true));
        let set = changes
            .set
            .iter()
            .map(|(name, template)| edit(name, Some(template), true));
        let appended = changes
            .append
            .iter()
            .map(|(name, template)| edit(name, Some(template), false));
        HeaderEdits(removed.chain(set).chain(appended).collect())
    }

    /// Returns true if it changes a field that the cache evaluates: then a request has to be
    /// answered by the cache's whole rules.
    pub(super) fn name_cache_fields(&self) -> bool {
        self.0
            .iter()
            .any(|edit| PlainField::of(edit.name.as_str()) != PlainField::Neutral)
    }

    /// Returns true if it changes a field that differs between the forms of a response.
    pub(super) fn name_coding_fields(&self) -> bool {
        let is_one = |name: &HeaderName| [CONTENT_ENCODING, ETAG, VARY].contains(name);
        self.0.iter().any(|edit| is_one(&edit.name))
    }

    /// Changes the fields of a request. Other spellings of the names go too: the origin may take
    /// them for the same variable.
    pub(super) fn apply_to_request(
        &self,
        headers: &mut HeaderMap,
        expand: impl Fn(&Template) -> Vec<u8>,
    ) {
        for edit in self.0.iter().filter(|edit| edit.replaces) {
            remove_variable(headers, &edit.name);
        }
        self.apply(headers, expand);
    }

    /// Changes the fields of a map.
    pub(super) fn apply(&self, headers: &mut HeaderMap, expand: impl Fn(&Template) -> Vec<u8>) {
        for edit in &self.0 {
            if edit.replaces {
                headers.remove(&edit.name);
            }
            let value = match &edit.value {
                None => continue,
                Some(Value::Constant(value)) => Ok(value.clone()),
                Some(Value::Template(template)) => HeaderValue::try_from(expand(template)),
            };
            // A value that no field may have is left out.
            if let Ok(value) = value {
                headers.append(&edit.name, value);
            }
        }
    }

    /// Changes the fields of a head, whose names are in lower case.
    pub(super) fn apply_to_head(&self, head: &mut Vec<u8>, expand: impl Fn(&Template) -> Vec<u8>) {
        for edit in &self.0 {
            if edit.replaces {
                while let Some(at) = edit.finder.find(head) {
                    let line = at + 2;
                    let length = find(&head[line..], b"\r\n").unwrap_or(0) + 2;
                    head.drain(line..line + length);
                }
            }
            let expanded;
            let value = match &edit.value {
                None => continue,
                Some(Value::Constant(value)) => value,
                Some(Value::Template(template)) => match HeaderValue::try_from(expand(template)) {
                    Ok(value) => {
                        expanded = value;
                        &expanded
                    }
                    Err(_) => continue,
                },
            };
            // Over the empty line, which follows again.
            head.truncate(head.len() - 2);
            head.extend_from_slice(&edit.finder.needle()[2..]);
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n\r\n");
        }
    }
}

/// Returns the status and the `Content-Type` of a head.
pub(super) fn status_and_type(head: &[u8]) -> (StatusCode, &[u8]) {
    let status = head
        .get(9..12)
        .and_then(|digits| StatusCode::from_bytes(digits).ok())
        .unwrap_or_default();
    let name = b"\r\ncontent-type: ";
    let Some(at) = find(head, name) else {
        return (status, b"");
    };
    let value = &head[at + name.len()..];
    (status, &value[..find(value, b"\r\n").unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edits(toml: [(&str, Option<&str>, bool); 2]) -> HeaderEdits {
        let mut changes = HeaderChanges::default();
        for (name, value, replaces) in toml {
            let name: HeaderName = name.parse().unwrap();
            match value.map(|value| (name.clone(), value.parse().unwrap())) {
                None => changes.remove.push(name),
                Some(field) if replaces => changes.set.push(field),
                Some(field) => changes.append.push(field),
            }
        }
        HeaderEdits::new(&changes)
    }

    proptest! {
        /// Failure: a plain hit has other fields than the same response from hyper.
        #[test]
        fn a_head_of_bytes_is_changed_otherwise_than_a_map(
            fields in proptest::collection::vec(("x-[ab]{1,2}", "[a-z]{0,3}"), 0..6),
            edit in ("x-[ab]{1,2}", proptest::option::of("[a-z]{1,3}|\\$host"), any::<bool>()),
            other in ("x-[ab]{1,2}", proptest::option::of("[a-z]{1,3}"), any::<bool>()),
        ) {
            let edits = edits([(&edit.0, edit.1.as_deref(), edit.2), (&other.0, other.1.as_deref(), other.2)]);
            let expand = |_: &Template| b"expanded".to_vec();
            let (mut map, mut head) = (HeaderMap::new(), b"HTTP/1.1 200 OK\r\n".to_vec());
            for (name, value) in &fields {
                map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
                head.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            }
            head.extend_from_slice(b"\r\n");
            edits.apply(&mut map, expand);
            edits.apply_to_head(&mut head, expand);
            let text = String::from_utf8(head).unwrap();
            let lines = text.strip_prefix("HTTP/1.1 200 OK\r\n").unwrap().strip_suffix("\r\n").unwrap();
            let mut found: Vec<&str> = lines.split_terminator("\r\n").collect();
            let mut expected: Vec<String> =
                map.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
            // The order of a name's own lines counts, that of names does not.
            found.sort_by_key(|line| line.split(':').next().unwrap().to_owned());
            expected.sort_by_key(|line| line.split(':').next().unwrap().to_owned());
            prop_assert_eq!(found, expected);
        }
    }
}
