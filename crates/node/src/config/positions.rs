//! The places of values: the file and the line, a flag, or a variable.

use super::setting::Setting;
use std::ops::Range;
use toml::de::{DeTable, DeValue, Error};

/// The text of the document and of the settings, one behind the other, so that the span of a value
/// tells its place.
pub(super) struct Places<'a> {
    text: &'a str,
    source: &'a str,
    settings: &'a [Setting],
    /// Each setting as a document of one value, behind as many spaces as there are bytes before it.
    pub(super) padded: Vec<String>,
}

impl<'a> Places<'a> {
    pub(super) fn new(text: &'a str, source: &'a str, settings: &'a [Setting]) -> Places<'a> {
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

    /// Returns the place of a span.
    pub(super) fn of(&self, span: &Range<usize>) -> String {
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
    pub(super) fn list(
        &self,
        table: &DeTable<'_>,
        prefix: &str,
        places: &mut Vec<(String, String)>,
    ) {
        for (key, value) in table {
            let path = format!("{prefix}{}", key.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) => self.list(inner, &format!("{path}."), places),
                _ => places.push((path, self.of(&value.span()))),
            }
        }
    }

    /// Returns one line for an error of the syntax: its place and message.
    pub(super) fn of_syntax(&self, error: &Error) -> String {
        let place = error
            .span()
            .map_or(self.source.to_owned(), |span| self.of(&span));
        format!("{place}: {}", one_line(error.message()))
    }
}

/// Returns a message in one line.
pub(super) fn one_line(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join(" ")
}
