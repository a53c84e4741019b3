//! Reads a TOML document into a [`Config`], and reports every error in it in one pass.
//!
//! serde stops at the first error. So the document is read again without the wrong key, until
//! nothing is wrong. A required key that is missing only because of that is not reported.

use super::Config;
use serde::Deserialize;
use std::ops::Range;
use toml::Deserializer;
use toml::de::{DeTable, DeValue, Error};

/// Reads a document. `source` stands before the line number in errors.
///
/// Returns the configuration without the wrong keys, and one line for each of them. `None` if the
/// text is no TOML.
pub(super) fn read(text: &str, source: &str) -> (Option<Config>, Vec<String>) {
    let (mut document, syntax) = DeTable::parse_recoverable(text);
    if !syntax.is_empty() {
        return (None, syntax.iter().map(|error| explain(error, text, source)).collect());
    }
    let (mut problems, mut damaged) = (Vec::new(), Vec::new());
    loop {
        let error = match Config::deserialize(Deserializer::from(document.clone())) {
            Ok(config) => return (Some(config), in_order(problems)),
            Err(error) => error,
        };
        let is_consequence =
            error.message().starts_with("missing field") && error.span().is_some_and(|span| damaged.contains(&span));
        if !is_consequence {
            problems.push((error.span().map_or(0, |span| span.start), explain(&error, text, source)));
        }
        // Each turn removes an entry, so this ends.
        match error.span().and_then(|span| remove(document.get_mut(), &span, &(0..0))) {
            Some(table) => damaged.push(table),
            None => return (None, in_order(problems)),
        }
    }
}

/// Sorts problems by their place in the text. serde reports unknown keys before wrong values.
fn in_order(mut problems: Vec<(usize, String)>) -> Vec<String> {
    problems.sort_by_key(|(at, _)| *at);
    problems.into_iter().map(|(_, problem)| problem).collect()
}

/// Removes the innermost entry that contains `span`. Returns the span of the table that held it.
fn remove(table: &mut DeTable<'_>, span: &Range<usize>, own: &Range<usize>) -> Option<Range<usize>> {
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
            && let Some(at) =
                elements.iter().position(|element| element.get_ref().is_table() && covers(&element.span()))
        {
            *elements =
                elements.iter().enumerate().filter(|(number, _)| *number != at).map(|(_, kept)| kept.clone()).collect();
            return Some(own.clone());
        }
        if covers(&key.span()) || covers(&of_value) {
            wrong = Some(key.clone());
            break;
        }
    }
    table.remove(&wrong?).map(|_| own.clone())
}

/// Returns one line for a TOML error: place, message, and for an unknown key the nearest known one.
fn explain(error: &Error, text: &str, source: &str) -> String {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let place = line.map_or(source.to_owned(), |line| format!("{source}:{line}"));
    let mut message = error.message().lines().collect::<Vec<_>>().join(" ");
    if let Some(said) = ["usize", "u64", "u32", "u16", "u8"].iter().find_map(|name| message.strip_suffix(name)) {
        message = format!("{said}a whole number, 0 or more");
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let suggestion = match quoted.next() {
        Some(unknown) if message.starts_with("unknown field") || message.starts_with("unknown variant") => quoted
            .max_by(|a, b| strsim::jaro(a, unknown).total_cmp(&strsim::jaro(b, unknown)))
            .filter(|best| strsim::jaro(best, unknown) > 0.7)
            .map_or(String::new(), |best| format!("; did you mean `{best}`?")),
        _ => String::new(),
    };
    format!("{place}: {message}{suggestion}")
}
