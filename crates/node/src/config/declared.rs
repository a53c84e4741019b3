//! What the embedded default configuration says of each key: default, example, documentation, and
//! whether a reload applies it. `default.toml` is the only place where this stands.
//!
//! The comment above a run of keys documents all of them. The comment behind a value has its
//! example (`e.g. VALUE`), the mark `needs an upgrade`, and documentation of this key alone, in any
//! order, separated by `; `. A commented table, from its header to the next empty line, is an
//! example: it has no defaults.

use super::DEFAULT;
use std::borrow::Cow;
use std::sync::LazyLock;
use toml::de::{DeTable, DeValue};

/// The mark of a key, or of a table with all its keys, that a reload does not apply.
const NEEDS_UPGRADE: &str = "needs an upgrade";

/// A key or a table of the embedded configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Declared {
    /// Its path, such as `http.cache`.
    pub(super) path: String,
    /// The number of its run of keys: those have the same documentation.
    pub(super) run: usize,
    /// The documentation of its run, or of a table: paragraphs.
    pub(super) doc: String,
    /// The documentation of this key alone.
    pub(super) remark: String,
    /// True for an array of tables.
    is_array: bool,
    /// The value; empty for a table.
    pub(super) value: String,
    /// Another value, which shows more than the default.
    example: Option<String>,
    /// True if the value is the default, not an example.
    pub(super) is_default: bool,
    /// True if it has the mark itself.
    pub(super) needs_upgrade: bool,
}

impl Declared {
    /// Returns a value that is right.
    pub(super) fn example(&self) -> &str {
        self.example.as_deref().unwrap_or(&self.value)
    }

    /// Returns true for a table, and for an array of tables.
    pub(super) fn is_table(&self) -> bool {
        self.value.is_empty()
    }

    /// Returns the header of a table: `[http.limits]`, or `[[http.rules]]` for an array.
    pub(super) fn title(&self) -> Option<String> {
        self.is_table().then(|| {
            if self.is_array {
                format!("[[{}]]", self.path)
            } else {
                format!("[{}]", self.path)
            }
        })
    }

    /// Returns the path of its table, and its own name.
    pub(super) fn split(&self) -> (&str, &str) {
        self.path.rsplit_once('.').unwrap_or(("", &self.path))
    }
}

/// All keys and tables, in the order of the file.
pub(super) static DECLARED: LazyLock<Vec<Declared>> = LazyLock::new(|| {
    let mut reader = Reader::default();
    for line in DEFAULT.lines() {
        reader.line(line);
    }
    reader.declared
});

/// The keys of a table that another one has, too. The file documents them once.
const REPEATED: (&str, &str) = ("http.origins.files.", "http.files.");

/// Returns what the file says of a key.
pub(super) fn find(path: &str) -> Option<&'static Declared> {
    let path = match path.strip_prefix(REPEATED.0) {
        Some(key) => Cow::from(format!("{}{key}", REPEATED.1)),
        None => Cow::from(path),
    };
    DECLARED.iter().find(|declared| declared.path == path)
}

/// Returns the place of a key in the order of the file.
pub(super) fn position(path: &str) -> Option<usize> {
    DECLARED.iter().position(|declared| declared.path == path)
}

/// Returns the keys that a reload does not apply, and the tables of which it applies no key.
pub(crate) fn waiting() -> impl Iterator<Item = &'static str> {
    let waits = DECLARED.iter().filter(|declared| declared.needs_upgrade);
    waits.map(|declared| declared.path.as_str())
}

#[derive(Default)]
struct Reader {
    declared: Vec<Declared>,
    table: String,
    /// True in a commented table.
    is_example: bool,
    doc: Vec<String>,
    /// True if the line before was a key.
    is_in_run: bool,
    run: usize,
    /// The lines of a value so far that is longer than a line.
    open: String,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if line.is_empty() {
            self.doc.clear();
            (self.is_example, self.is_in_run) = (false, false);
            return;
        }
        let commented = line
            .strip_prefix('#')
            .map(|rest| rest.strip_prefix(' ').unwrap_or(rest));
        self.is_example |= commented.is_some_and(is_header);
        let line = commented.filter(|_| self.is_example).unwrap_or(line);
        if !self.open.is_empty() {
            self.key(line);
        } else if let Some(text) = line.strip_prefix('#') {
            if self.is_in_run {
                self.doc.clear();
                self.is_in_run = false;
            }
            self.doc.push(text.trim_start().to_owned());
        } else if line.starts_with('[') {
            self.header(line);
        } else {
            self.key(line);
        }
    }

    fn header(&mut self, line: &str) {
        let (name, mark) = line.split_once('#').unwrap_or((line, ""));
        self.table = name.trim().trim_matches(['[', ']']).to_owned();
        let declared = Declared {
            path: self.table.clone(),
            is_array: name.starts_with("[["),
            doc: paragraphs(&self.doc),
            ..Declared::default()
        };
        self.declare(declared, mark);
        self.doc.clear();
        self.is_in_run = false;
    }

    fn key(&mut self, line: &str) {
        self.open.push_str(line);
        self.open.push('\n');
        let text = std::mem::take(&mut self.open);
        let Ok(parsed) = DeTable::parse(&text) else {
            self.open = text;
            return;
        };
        self.run += usize::from(!self.is_in_run);
        self.is_in_run = true;
        let Some((name, value)) = parsed.get_ref().iter().next() else {
            return;
        };
        let (_, comment) = text[value.span().end..].split_once('#').unwrap_or_default();
        let declared = Declared {
            path: format!("{}.{}", self.table, name.get_ref()),
            doc: paragraphs(&self.doc),
            value: text[value.span()].to_owned(),
            is_default: !self.is_example,
            ..Declared::default()
        };
        // The keys of a table in one line have no lines of their own.
        let inner = match value.get_ref() {
            DeValue::Table(inner) => inner
                .iter()
                .map(|(name, value)| Declared {
                    path: format!("{}.{}", declared.path, name.get_ref()),
                    value: text[value.span()].to_owned(),
                    ..declared.clone()
                })
                .collect(),
            _ => Vec::new(),
        };
        self.declare(declared, comment);
        for declared in inner {
            self.declare(declared, "");
        }
    }

    fn declare(&mut self, mut declared: Declared, comment: &str) {
        let mut remarks = Vec::new();
        for item in comment.trim().split("; ") {
            if item == NEEDS_UPGRADE {
                declared.needs_upgrade = true;
            } else if let Some(example) = item.strip_prefix("e.g. ") {
                declared.example = Some(example.to_owned());
            } else {
                remarks.push(item);
            }
        }
        declared.remark = remarks.join("; ");
        declared.run = self.run;
        self.declared.push(declared);
    }
}

/// Returns true for `[http.disk]` and `[[http.rules]]`, also with a comment behind it.
fn is_header(line: &str) -> bool {
    let name = line
        .split_once('#')
        .map_or(line, |(name, _)| name)
        .trim_end();
    let is_name = |name: &str| {
        name.chars()
            .all(|char| char.is_ascii_lowercase() || char == '.' || char == '_')
    };
    name.strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .is_some_and(|name| is_name(name.trim_matches(['[', ']'])))
}

/// Joins lines to paragraphs, which empty lines separate.
fn paragraphs(lines: &[String]) -> String {
    let paragraphs = lines.split(|line| line.is_empty());
    let joined: Vec<String> = paragraphs.map(|lines| lines.join(" ")).collect();
    joined.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::super::keys::{Node, ROOT};
    use super::*;
    use toml::Value;

    fn paths(table: &Node, prefix: &str, all: &mut Vec<String>) {
        for key in table.in_file() {
            let path = format!("{prefix}{}", key.name);
            paths(key, &format!("{path}."), all);
            all.push(path);
        }
    }

    /// Failure: a key exists that `default.toml` does not document, or the file documents a key
    /// that does not exist.
    #[test]
    fn a_key_is_undocumented() {
        let mut keys = Vec::new();
        paths(&ROOT, "", &mut keys);
        let mut documented: Vec<&str> = DECLARED.iter().map(|key| key.path.as_str()).collect();
        for key in &keys {
            assert!(find(key).is_some(), "{key} is in no line of default.toml");
        }
        let is_below = |path: &str, key: &str| {
            path.strip_prefix(key)
                .is_some_and(|rest| rest.starts_with('.'))
        };
        // A table without keys of its own has those that an operator gives it.
        let is_free = |key: &str| !keys.iter().any(|other| is_below(other, key));
        documented.retain(|path| {
            let is_known = |key: &String| key == path || is_below(path, key) && is_free(key);
            !keys.iter().any(is_known)
        });
        assert_eq!(documented, [""; 0], "no type has these keys");
        for key in DECLARED.iter().filter(|key| !key.is_table()) {
            let is_documented = DECLARED.iter().any(|other| {
                let is_around = key.path.starts_with(&format!("{}.", other.path));
                let says = !other.doc.is_empty() || !other.remark.is_empty();
                (other.path == key.path || is_around) && says
            });
            assert!(is_documented, "{} has no documentation", key.path);
            let example: Result<Value, _> = key.example().parse();
            assert!(
                example.is_ok(),
                "{}: {} is no value",
                key.path,
                key.example()
            );
            let is_empty = matches!(key.example(), "\"\"" | "[]");
            let is_empty_by_nature = key.path.ends_with(".append") || key.path.ends_with(".remove");
            assert!(
                !is_empty || is_empty_by_nature,
                "{} has no example",
                key.path
            );
        }
    }
}
