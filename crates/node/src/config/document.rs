//! Reads a TOML document and the settings from outside it into a [`Config`], and reports every
//! error in one pass.
//!
//! serde stops at the first error. So the document is read again without the wrong key, until
//! nothing is wrong. A required key that is missing only because of that is not reported.

use super::keys::{Node, ROOT};
use super::setting::Setting;
use super::{Config, DEFAULT};
use serde::Deserialize;
use std::borrow::Cow;
use std::ops::Range;
use toml::de::{DeTable, DeValue, Error};
use toml::{Deserializer, Spanned};

/// What a document and the settings say together.
pub(super) struct Document {
    /// The configuration without the wrong keys; `None` if the text is no TOML.
    pub(super) config: Option<Config>,
    /// One line for each wrong key.
    pub(super) problems: Vec<String>,
    /// The values as they were given.
    pub(super) table: toml::Table,
    /// The place of each value: the file and the line, a flag, or a variable.
    pub(super) places: Vec<(String, String)>,
}

/// Reads a document. `source` stands before the line number in errors. A setting replaces the value
/// of its key, and an earlier setting of the same key.
pub(super) fn read(text: &str, source: &str, settings: &[Setting]) -> Document {
    let places = Places::new(text, source, settings);
    let (mut document, syntax) = DeTable::parse_recoverable(text);
    let mut read = Document {
        config: None,
        problems: Vec::new(),
        table: toml::Table::new(),
        places: Vec::new(),
    };
    if !syntax.is_empty() {
        read.problems = syntax.iter().map(|error| places.explain(error)).collect();
        return read;
    }
    let mut problems = Vec::new();
    for (setting, padded) in settings.iter().zip(&places.padded) {
        match DeTable::parse(padded) {
            Ok(table) => put(document.get_mut(), &setting.path, table),
            Err(error) => {
                let message = error.message().lines().collect::<Vec<_>>().join(" ");
                problems.push((padded.len(), format!("{}: {message}", setting.origin)));
            }
        }
    }
    read.table = toml::Table::deserialize(Deserializer::from(document.clone())).unwrap_or_default();
    places.list(document.get_ref(), "", &mut read.places);
    let padded = format!("{:1$}{DEFAULT}", "", places.end());
    let defaults = DeTable::parse(&padded)
        .map(Spanned::into_inner)
        .unwrap_or_default();
    let mut damaged = Vec::new();
    loop {
        let mut whole = document.clone();
        complete(whole.get_mut(), &defaults);
        let span = whole.span();
        nest(whole.get_mut(), &ROOT, &span);
        let error = match Config::deserialize(Deserializer::from(whole)) {
            Ok(config) => {
                read.config = Some(config);
                break;
            }
            Err(error) => error,
        };
        let is_consequence = error.message().starts_with("missing field")
            && error.span().is_some_and(|span| damaged.contains(&span));
        if !is_consequence {
            problems.push((
                error.span().map_or(0, |span| span.start),
                places.explain(&error),
            ));
        }
        // Each turn removes an entry, so this ends.
        match error
            .span()
            .and_then(|span| remove(document.get_mut(), &span, &(0..0)))
        {
            Some(table) => damaged.push(table),
            None => break,
        }
    }
    read.problems = in_order(problems);
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

/// The text of the document and of the settings, one behind the other, so that the span of a value
/// tells its place.
struct Places<'a> {
    text: &'a str,
    source: &'a str,
    settings: &'a [Setting],
    /// Each setting as a document of one value, behind as many spaces as there are bytes before it.
    padded: Vec<String>,
}

impl<'a> Places<'a> {
    fn new(text: &'a str, source: &'a str, settings: &'a [Setting]) -> Places<'a> {
        let mut before = text.len() + 1;
        let mut padded = Vec::with_capacity(settings.len());
        for setting in settings {
            let document = format!("{:before$}value = {}", "", setting.toml());
            before = document.len();
            padded.push(document);
        }
        Places {
            text,
            source,
            settings,
            padded,
        }
    }

    /// Returns the place behind all texts.
    fn end(&self) -> usize {
        self.padded.last().map_or(self.text.len() + 1, String::len)
    }

    /// Returns the place of a span.
    fn of(&self, span: &Range<usize>) -> String {
        if span.start > self.text.len()
            && let Some(at) = self
                .padded
                .iter()
                .position(|document| span.start < document.len())
        {
            return self.settings[at].origin.clone();
        }
        let line = self.text[..span.start.min(self.text.len())]
            .matches('\n')
            .count()
            + 1;
        format!("{}:{line}", self.source)
    }

    /// Lists the places of all values in a table. The values of an array have one place.
    fn list(&self, table: &DeTable<'_>, prefix: &str, places: &mut Vec<(String, String)>) {
        for (key, value) in table {
            let path = format!("{prefix}{}", key.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) => self.list(inner, &format!("{path}."), places),
                _ => places.push((path, self.of(&value.span()))),
            }
        }
    }

    /// Returns one line for a TOML error: place, message, and for an unknown key the nearest known
    /// one.
    fn explain(&self, error: &Error) -> String {
        let place = error
            .span()
            .map_or(self.source.to_owned(), |span| self.of(&span));
        let mut message = error.message().lines().collect::<Vec<_>>().join(" ");
        if let Some(said) = ["usize", "u64", "u32", "u16", "u8"]
            .iter()
            .find_map(|name| message.strip_suffix(name))
        {
            message = format!("{said}a whole number, 0 or more");
        }
        let mut quoted = message.split('`').skip(1).step_by(2);
        let suggestion = match quoted.next() {
            Some(unknown)
                if message.starts_with("unknown field")
                    || message.starts_with("unknown variant") =>
            {
                nearest(unknown, quoted)
                    .map_or(String::new(), |best| format!("; did you mean `{best}`?"))
            }
            _ => String::new(),
        };
        format!("{place}: {message}{suggestion}")
    }
}

/// Returns the known word that is most like an unknown one, if one is.
pub(super) fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .max_by(|a, b| strsim::jaro(a, unknown).total_cmp(&strsim::jaro(b, unknown)))
        .filter(|best| strsim::jaro(best, unknown) > 0.7)
}
