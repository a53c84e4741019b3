//! The keys of the configuration, as its types define them.
//!
//! There is no list to keep: a deserializer asks the types. It follows one path of keys, and
//! records the fields of a table, or the type of a value, at the end of the path. Then it fails, so
//! no value is made.

use super::Config;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use std::fmt;
use std::sync::LazyLock;

/// A key with its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// The keys of the tables that contain it, and its own.
    pub(super) path: Vec<&'static str>,
    pub(super) kind: Kind,
}

/// The type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A string.
    Text,
    /// A number, or true or false.
    Plain,
    /// An array.
    List,
    /// A table with the keys that follow.
    Table,
    /// One of several types.
    Any,
}

/// A key with the keys of its table, or of each table of its array.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) keys: Vec<Node>,
}

impl Node {
    /// Returns true if its keys stand in the table around it: it is a table in Rust only.
    pub(super) fn is_nested_in_rust(&self) -> bool {
        self.name.starts_with('*')
    }

    /// Returns the key with this name, as the file has it.
    pub(super) fn find(&self, name: &str) -> Option<&Node> {
        self.in_file().into_iter().find(|key| key.name == name)
    }

    /// Returns the keys of its table as the file has them.
    pub(super) fn in_file(&self) -> Vec<&Node> {
        let mut keys = Vec::new();
        for key in &self.keys {
            if key.is_nested_in_rust() {
                keys.extend(key.in_file());
            } else {
                keys.push(key);
            }
        }
        keys
    }
}

impl Key {
    /// Returns the key as `--set` takes it, such as `http.cache`.
    pub(super) fn dotted(&self) -> String {
        self.path.join(".")
    }

    /// Returns its environment variable, such as `LARDER_HTTP_CACHE`.
    pub(super) fn variable(&self) -> String {
        format!("LARDER_{}", self.path.join("_").to_uppercase())
    }
}

/// The whole configuration as one table.
pub(super) static ROOT: LazyLock<Node> = LazyLock::new(|| Node {
    name: "",
    kind: Kind::Table,
    keys: fields(&[]),
});

/// The keys that flags and variables set: all but those of arrays. A table comes before its keys,
/// and the tables in a table after its other keys.
pub(super) static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let mut keys = Vec::new();
    list(&ROOT, &[], &mut keys);
    keys
});

fn list(table: &Node, path: &[&'static str], all: &mut Vec<Key>) {
    let keys = table.in_file();
    let (tables, values): (Vec<&Node>, Vec<&Node>) =
        keys.into_iter().partition(|key| key.kind == Kind::Table);
    let at = |key: &Node| Key {
        path: [path, &[key.name]].concat(),
        kind: key.kind,
    };
    all.extend(values.into_iter().map(at));
    for table in tables {
        let key = at(table);
        let path = key.path.clone();
        all.push(key);
        list(table, &path, all);
    }
}

/// Returns the keys of the table at a path, as the types have them.
fn fields(path: &[&'static str]) -> Vec<Node> {
    let Some(Found::Table(names)) = probe(path) else {
        return Vec::new();
    };
    let mut keys = Vec::new();
    for name in names {
        let path = [path, &[*name]].concat();
        let (kind, keys_of) = match probe(&path) {
            Some(Found::Table(_)) => (Kind::Table, fields(&path)),
            Some(Found::Value(Kind::List)) => {
                (Kind::List, fields(&[&path[..], &[ELEMENT]].concat()))
            }
            Some(Found::Value(kind)) => (kind, Vec::new()),
            None => continue,
        };
        keys.push(Node {
            name,
            kind,
            keys: keys_of,
        });
    }
    keys
}

/// The step of a path from an array to its elements.
const ELEMENT: &str = "[]";

enum Found {
    Table(&'static [&'static str]),
    Value(Kind),
}

fn probe(path: &[&'static str]) -> Option<Found> {
    let mut found = None;
    // It always fails at the end of the path.
    let _ = Config::deserialize(Probe {
        path,
        found: &mut found,
    });
    found
}

/// Returns the known word that is most like an unknown one, if one is.
pub(super) fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .max_by(|a, b| strsim::jaro(a, unknown).total_cmp(&strsim::jaro(b, unknown)))
        .filter(|best| strsim::jaro(best, unknown) > 0.7)
}

/// Follows a path, and records what stands at its end.
struct Probe<'a> {
    path: &'a [&'static str],
    found: &'a mut Option<Found>,
}

/// The end of the path, as an error.
#[derive(Debug)]
struct Reached;

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the end of the path")
    }
}

impl std::error::Error for Reached {}

impl serde::de::Error for Reached {
    fn custom<T: fmt::Display>(_: T) -> Reached {
        Reached
    }
}

impl Probe<'_> {
    fn value<T>(self, kind: Kind) -> Result<T, Reached> {
        if self.path.is_empty() {
            *self.found = Some(Found::Value(kind));
        }
        Err(Reached)
    }
}

macro_rules! values {
    ($($method:ident: $kind:ident,)*) => {
        $(fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Reached> {
            self.value(Kind::$kind)
        })*
    };
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Reached;

    values! {
        deserialize_any: Any, deserialize_str: Text, deserialize_string: Text, deserialize_char: Text,
        deserialize_bool: Plain, deserialize_u8: Plain, deserialize_u16: Plain, deserialize_u32: Plain,
        deserialize_u64: Plain, deserialize_u128: Plain, deserialize_i8: Plain, deserialize_i16: Plain,
        deserialize_i32: Plain, deserialize_i64: Plain, deserialize_i128: Plain, deserialize_f32: Plain,
        deserialize_f64: Plain,
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Reached> {
        self.value(Kind::Text)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Reached> {
        match self.path.split_first() {
            Some((key, path)) => visitor.visit_map(OneKey {
                key: Some(key),
                rest: Probe {
                    path,
                    found: self.found,
                },
            }),
            None => {
                *self.found = Some(Found::Table(fields));
                Err(Reached)
            }
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reached> {
        match self.path.split_first() {
            Some((_, path)) => visitor.visit_seq(OneKey {
                key: None,
                rest: Probe {
                    path,
                    found: self.found,
                },
            }),
            None => self.value(Kind::List),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reached> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Reached> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! { bytes byte_buf unit unit_struct tuple tuple_struct map identifier ignored_any }
}

/// A table with one key, or an array with one element.
struct OneKey<'a> {
    key: Option<&'static str>,
    rest: Probe<'a>,
}

impl<'de> MapAccess<'de> for OneKey<'_> {
    type Error = Reached;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Reached> {
        let key: Option<StrDeserializer<'_, Reached>> =
            self.key.take().map(IntoDeserializer::into_deserializer);
        key.map(|key| seed.deserialize(key)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Reached> {
        seed.deserialize(Probe {
            path: self.rest.path,
            found: self.rest.found,
        })
    }
}

impl<'de> SeqAccess<'de> for OneKey<'_> {
    type Error = Reached;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Reached> {
        self.next_value_seed(seed).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a key of the documentation cannot be set from outside, or two keys have one
    /// variable.
    #[test]
    fn a_key_is_missing_or_ambiguous() {
        let kind = |dotted: &str| {
            KEYS.iter()
                .find(|key| key.dotted() == dotted)
                .map(|key| key.kind)
        };
        assert_eq!(kind("http.cache"), Some(Kind::Text));
        assert_eq!(kind("http.threads"), Some(Kind::Plain));
        assert_eq!(kind("http.share_cookies"), Some(Kind::Plain));
        assert_eq!(kind("http.client_no_cache"), Some(Kind::Text));
        assert_eq!(kind("http.targets"), Some(Kind::List));
        assert_eq!(kind("http.timeouts.origin_read"), Some(Kind::Text));
        assert_eq!(kind("http.tls"), Some(Kind::Table));
        assert_eq!(kind("http.tls.certificate"), Some(Kind::Text));
        assert_eq!(kind("ndn.disk.capacity"), Some(Kind::Text));
        assert_eq!(kind("ndn.route"), Some(Kind::List));
        let documented: toml::Table = super::super::DEFAULT.parse().unwrap();
        for (section, table) in &documented {
            for key in table.as_table().unwrap().keys() {
                assert!(
                    kind(&format!("{section}.{key}")).is_some(),
                    "{section}.{key}"
                );
            }
        }
        let mut variables: Vec<String> = KEYS.iter().map(Key::variable).collect();
        variables.sort();
        let all = variables.len();
        variables.dedup();
        assert_eq!(variables.len(), all, "two keys have the same variable");
    }
}
