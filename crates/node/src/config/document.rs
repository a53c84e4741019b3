//! Reads a TOML document and the settings from outside it into a [`Config`], and reports every
//! error in one pass.
//!
//! serde stops at the first error. So the document is read again without the wrong key, until
//! nothing is wrong. A required key that is missing only because of that is not reported.

use super::keys::{Node, ROOT};
use super::positions::{Places, one_line};
use super::setting::Setting;
use super::wrong::{Path, Wrong};
use super::{Config, DEFAULT};
use serde::Deserialize;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;
use toml::de::{DeTable, DeValue};
use toml::{Deserializer, Spanned};

/// What a document and the settings say together.
pub(super) struct Document {
    /// The configuration without the wrong keys; `None` if the text is no TOML.
    pub(super) config: Option<Config>,
    /// One line for each wrong key.
    pub(super) problems: Vec<String>,
    /// The keys and tables that are wrong, and were left out, such as `http.cache`.
    pub(super) damaged: Vec<String>,
    /// The values as they were given.
    pub(super) table: toml::Table,
    /// The place of each value: the file and the line, a flag, or a variable.
    pub(super) places: Vec<(String, String)>,
}

/// The default configuration. Its spans mean nothing: no error is about a default.
static DEFAULTS: LazyLock<DeTable<'static>> = LazyLock::new(|| {
    DeTable::parse(DEFAULT)
        .map(Spanned::into_inner)
        .unwrap_or_default()
});

/// Reads a document. `source` stands before the line number in errors. A setting replaces the value
/// of its key, and an earlier setting of the same key.
pub(super) fn read(text: &str, source: &str, settings: &[Setting]) -> Document {
    let places = Places::new(text, source, settings);
    let (mut document, syntax) = DeTable::parse_recoverable(text);
    let mut read = Document {
        config: None,
        problems: Vec::new(),
        damaged: Vec::new(),
        table: toml::Table::new(),
        places: Vec::new(),
    };
    if !syntax.is_empty() {
        read.problems = syntax.iter().map(|error| places.of_syntax(error)).collect();
        return read;
    }
    let mut problems = Vec::new();
    for (setting, padded) in settings.iter().zip(&places.padded) {
        match DeTable::parse(padded) {
            Ok(table) => put(document.get_mut(), &setting.path, table),
            Err(error) => {
                let message = one_line(error.message());
                problems.push((padded.len(), format!("{}: {message}", setting.origin)));
            }
        }
    }
    read.table = toml::Table::deserialize(Deserializer::from(document.clone())).unwrap_or_default();
    places.list(document.get_ref(), "", &mut read.places);
    let span = document.span();
    let mut wrong = Wrong {
        places: &places,
        problems,
        tables: Vec::new(),
        keys: Vec::new(),
    };
    wrong.check(document.get_mut(), &ROOT, &Path::default(), &span);
    loop {
        let mut whole = document.clone();
        complete(whole.get_mut(), &DEFAULTS);
        nest(whole.get_mut(), &ROOT, &span);
        let error = match Config::deserialize(Deserializer::from(whole)) {
            Ok(config) => {
                read.config = Some(config);
                break;
            }
            Err(error) => error,
        };
        wrong.add(&error, document.get_ref());
        // Each turn removes an entry, so this ends.
        let table = error
            .span()
            .and_then(|span| remove(document.get_mut(), &span, &(0..0)));
        match table {
            Some(table) => wrong.tables.push(table),
            None => break,
        }
    }
    read.problems = in_order(wrong.problems);
    read.damaged = wrong.keys;
    read
}

/// Sorts problems by their place in the text. serde reports unknown keys before wrong values.
fn in_order(mut problems: Vec<(usize, String)>) -> Vec<String> {
    problems.sort_by_key(|(at, _)| *at);
    problems.into_iter().map(|(_, problem)| problem).collect()
}

/// Adds the values of the default configuration that a table lacks.
fn complete<'a>(table: &mut DeTable<'a>, defaults: &DeTable<'a>) {
    for (key, default) in defaults {
        match table.get_mut(key.get_ref().as_ref()) {
            None => {
                table.insert(key.clone(), default.clone());
            }
            Some(value) => {
                if let (DeValue::Table(inner), DeValue::Table(defaults)) =
                    (value.get_mut(), default.get_ref())
                {
                    complete(inner, defaults);
                }
            }
        }
    }
}

/// Moves keys into the tables that exist in Rust only.
fn nest(table: &mut DeTable<'_>, keys: &Node, span: &Range<usize>) {
    for key in keys.in_file() {
        let Some(value) = table.get_mut(key.name) else {
            continue;
        };
        let span = value.span();
        match value.get_mut() {
            DeValue::Table(inner) => nest(inner, key, &span),
            DeValue::Array(elements) => {
                for element in elements.iter_mut() {
                    let span = element.span();
                    if let DeValue::Table(inner) = element.get_mut() {
                        nest(inner, key, &span);
                    }
                }
            }
            _ => {}
        }
    }
    for key in keys.keys.iter().filter(|key| key.is_nested_in_rust()) {
        let inner = DeValue::Table(take(table, key, span));
        let name = Spanned::new(span.clone(), Cow::Borrowed(key.name));
        table.insert(name, Spanned::new(span.clone(), inner));
    }
}

/// Takes the keys of a table in Rust from the table around it.
fn take<'a>(table: &mut DeTable<'a>, nested: &Node, span: &Range<usize>) -> DeTable<'a> {
    let mut inner = DeTable::new();
    for key in &nested.keys {
        if key.is_nested_in_rust() {
            let name = Spanned::new(span.clone(), Cow::Borrowed(key.name));
            let value = DeValue::Table(take(table, key, span));
            inner.insert(name, Spanned::new(span.clone(), value));
        } else if let Some((name, value)) = table.remove_entry(key.name) {
            inner.insert(name, value);
        }
    }
    inner
}

/// Puts the only value of `setting` at a path, and makes the tables that contain it.
fn put<'a>(document: &mut DeTable<'a>, path: &[&'static str], setting: Spanned<DeTable<'a>>) {
    let Some((key, value)) = setting.into_inner().into_iter().next() else {
        return;
    };
    let span = key.span().start..value.span().end;
    let Some((last, tables)) = path.split_last() else {
        return;
    };
    let mut table = document;
    for name in tables {
        let name = Spanned::new(span.clone(), Cow::Borrowed(*name));
        let inner = table
            .entry(name)
            .or_insert_with(|| Spanned::new(span.clone(), DeValue::Table(DeTable::new())));
        match inner.get_mut() {
            DeValue::Table(inner) => table = inner,
            // The file has another value in its place, which is reported.
            _ => return,
        }
    }
    let key = Spanned::new(span, Cow::Borrowed(*last));
    table.remove(&key);
    table.insert(key, value);
}

/// Removes the innermost entry that contains `span`. Returns the span of the table that held it.
fn remove(
    table: &mut DeTable<'_>,
    span: &Range<usize>,
    own: &Range<usize>,
) -> Option<Range<usize>> {
    let covers = |outer: &Range<usize>| outer.start <= span.start && span.end <= outer.end;
    let mut wrong = None;
    for (key, value) in table.iter_mut() {
        let of_value = value.span();
        let inner = match value.get_mut() {
            DeValue::Table(inner) => remove(inner, span, &of_value),
            DeValue::Array(elements) => elements.iter_mut().find_map(|element| {
                let of_element = element.span();
                match element.get_mut() {
                    DeValue::Table(inner) => remove(inner, span, &of_element),
                    _ => None,
                }
            }),
            _ => None,
        };
        if inner.is_some() {
            return inner;
        }
        if let DeValue::Array(elements) = value.get_mut()
            && let Some(at) = elements
                .iter()
                .position(|element| element.get_ref().is_table() && covers(&element.span()))
        {
            *elements = elements
                .iter()
                .enumerate()
                .filter(|(number, _)| *number != at)
                .map(|(_, kept)| kept.clone())
                .collect();
            return Some(own.clone());
        }
        if covers(&key.span()) || covers(&of_value) {
            wrong = Some(key.clone());
            break;
        }
    }
    table.remove(&wrong?).map(|_| own.clone())
}
