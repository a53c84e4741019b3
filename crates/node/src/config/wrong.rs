//! What is wrong in a document: unknown keys and wrong types, which are found before serde reads
//! it, and the errors of serde. Each problem is one line: place, key, what was expected, an
//! example, and what was found.

use super::declared::{self, Declared};
use super::keys::{Kind, Node, nearest};
use super::positions::{Places, one_line};
use std::ops::Range;
use toml::Value;
use toml::de::{DeTable, DeValue, Error};

/// The key whose value is never shown.
const SECRET: &str = "admin.token";

/// A table of the file.
#[derive(Clone, Default)]
pub(super) struct Path {
    /// Its keys, such as `http.rules`; empty for the whole file.
    dotted: String,
    /// True if it is an element of an array.
    is_element: bool,
}

impl Path {
    fn join(&self, key: &str, is_element: bool) -> Path {
        let dotted = if self.dotted.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.dotted)
        };
        Path { dotted, is_element }
    }

    /// Returns `[http] `, as errors begin; empty for the whole file.
    fn title(&self) -> String {
        match (self.dotted.as_str(), self.is_element) {
            ("", _) => String::new(),
            (path, false) => format!("[{path}] "),
            (path, true) => format!("[[{path}]] "),
        }
    }
}

/// The problems of a document so far.
pub(super) struct Wrong<'a> {
    pub(super) places: &'a Places<'a>,
    /// Each with its place in the text.
    pub(super) problems: Vec<(usize, String)>,
    /// The tables that have lost a wrong key, by their spans.
    pub(super) tables: Vec<Range<usize>>,
    /// The wrong keys, such as `http.cache`.
    pub(super) keys: Vec<String>,
}

impl Wrong<'_> {
    /// Removes the unknown keys of a table and those whose values have a wrong type, also from the
    /// tables in it. `span` is that of the table.
    pub(super) fn check(
        &mut self,
        table: &mut DeTable<'_>,
        keys: &Node,
        path: &Path,
        span: &Range<usize>,
    ) {
        let mut wrong = Vec::new();
        for (key, value) in table.iter_mut() {
            let (name, of_value) = (key.get_ref().as_ref(), value.span());
            let inner = path.join(name, false);
            let Some(node) = keys.find(name) else {
                let problem = unknown(name, keys, path);
                self.push(&key.span(), &problem);
                wrong.push((key.clone(), inner.dotted));
                continue;
            };
            if let Some(expected) = expected(node, &inner.dotted, value.get_ref()) {
                let found = describe(value.get_ref(), &inner.dotted);
                let problem = format!("{}{name}: expected {expected}, not {found}", path.title());
                self.push(&of_value, &problem);
                wrong.push((key.clone(), inner.dotted));
                continue;
            }
            match value.get_mut() {
                DeValue::Table(table) if node.kind == Kind::Table => {
                    self.check(table, node, &inner, &of_value);
                }
                DeValue::Array(elements) if !node.keys.is_empty() => {
                    let mut strays = 0;
                    for element in elements.iter_mut() {
                        let of_element = element.span();
                        let DeValue::Table(table) = element.get_mut() else {
                            let found = describe(element.get_ref(), &inner.dotted);
                            let example = such_as(&inner.dotted);
                            let problem = format!(
                                "{}{name}: expected a table{example}, not {found}",
                                path.title()
                            );
                            self.push(&of_element, &problem);
                            strays += 1;
                            continue;
                        };
                        self.check(table, node, &path.join(name, true), &of_element);
                    }
                    if strays > 0 {
                        wrong.push((key.clone(), inner.dotted));
                    }
                }
                _ => {}
            }
        }
        for (key, dotted) in wrong {
            table.remove(&key);
            self.tables.push(span.clone());
            self.keys.push(dotted);
        }
    }

    /// Adds an error of serde. A key that a table lacks is not reported if the table has lost a
    /// wrong key, which may be the same one.
    pub(super) fn add(&mut self, error: &Error, document: &DeTable<'_>) {
        let span = error.span().unwrap_or(0..0);
        let message = one_line(error.message());
        if message.starts_with("missing field") && self.tables.contains(&span) {
            return;
        }
        let problem = match locate(document, &Path::default(), &span) {
            Some(found) => {
                let problem = found.explain(&message);
                self.keys.push(found.dotted);
                problem
            }
            None => message,
        };
        self.push(&span, &problem);
    }

    fn push(&mut self, span: &Range<usize>, problem: &str) {
        let problem = format!("{}: {problem}", self.places.of(span));
        self.problems.push((span.start, problem));
    }
}

/// Returns what an unknown key may be meant to be.
fn unknown(name: &str, keys: &Node, path: &Path) -> String {
    let known: Vec<&str> = keys.in_file().iter().map(|key| key.name).collect();
    let tip = match nearest(name, known.iter().copied()) {
        Some(best) => format!("did you mean `{best}`?"),
        None if path.dotted.is_empty() => format!("the tables are {}", known.join(", ")),
        None => format!("`larder run --explain {}` prints the keys", path.dotted),
    };
    let title = match path.title() {
        title if title.is_empty() => "the configuration ".to_owned(),
        title => title,
    };
    format!("{title}has no key `{}`; {tip}", name.escape_debug())
}

/// Returns the type and an example of a key's value, if this value has another type.
fn expected(key: &Node, path: &str, value: &DeValue<'_>) -> Option<String> {
    let of_example = declared::find(path).and_then(|key| key.example().parse().ok());
    let words = match (key.kind, value) {
        (Kind::Any, _)
        | (Kind::Text, DeValue::String(_))
        | (Kind::List, DeValue::Array(_))
        | (Kind::Table, DeValue::Table(_)) => return None,
        (Kind::Text, _) => "a string",
        (Kind::List, _) if declared::find(path).is_some_and(Declared::is_table) => {
            "an array of tables, each"
        }
        (Kind::List, _) => "an array",
        (Kind::Table, _) => "a table",
        (Kind::Plain, _) => match (of_example?, value) {
            (Value::Boolean(_), DeValue::Boolean(_))
            | (Value::Integer(_), DeValue::Integer(_))
            | (Value::Float(_), DeValue::Integer(_) | DeValue::Float(_)) => return None,
            (Value::Boolean(_), _) => "true or false",
            (Value::Integer(_), _) => "a whole number, 0 or more",
            _ => "a number",
        },
    };
    Some(format!("{words}{}", such_as(path)).replace("each, which", "each of which"))
}

/// Returns an example of a key: `, such as cache = "256MiB"`.
fn such_as(path: &str) -> String {
    // A key that the operator names, such as a header field, has the example of its table.
    let mut around = path;
    let key = loop {
        match (declared::find(around), around.rsplit_once('.')) {
            (Some(key), _) if around == path || !key.is_table() => break key,
            (None, Some((table, _))) => around = table,
            _ => return String::new(),
        }
    };
    let (_, name) = key.split();
    match key.title() {
        Some(title) => format!(", which begins with {title}"),
        None => format!(", such as {name} = {}", key.example()),
    }
}

/// Returns a value as errors name it.
fn describe(value: &DeValue<'_>, path: &str) -> String {
    let is_shown = path != SECRET;
    let shown = |what: &str, value: &str| {
        if is_shown {
            format!("{what} {value}")
        } else {
            what.replace("the ", "a ")
        }
    };
    match value {
        DeValue::String(text) => shown("the text", &format!("{text:?}")),
        DeValue::Integer(number) => shown("the number", number.as_str()),
        DeValue::Float(number) => shown("the number", number.as_str()),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(date) => shown("the date", &date.to_string()),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// The key that an error is about.
struct Located {
    /// The table around it.
    table: Path,
    name: String,
    /// Its whole path.
    dotted: String,
    /// The value as errors name it.
    found: String,
    /// True if it has a header: it is a table, or an element of an array of tables.
    is_table: bool,
    /// True if it is an element of an array.
    is_element: bool,
}

/// Finds the innermost key that contains `span`.
fn locate(table: &DeTable<'_>, path: &Path, span: &Range<usize>) -> Option<Located> {
    let covers = |outer: &Range<usize>| outer.start <= span.start && span.end <= outer.end;
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let located = |value: &DeValue<'_>, is_element| {
            let dotted = path.join(name, false).dotted;
            Located {
                table: path.clone(),
                name: name.to_owned(),
                found: describe(value, &dotted),
                is_table: declared::find(&dotted).is_some_and(Declared::is_table),
                dotted,
                is_element,
            }
        };
        let inner = match value.get_ref() {
            DeValue::Table(inner) => locate(inner, &path.join(name, false), span),
            DeValue::Array(elements) => elements.iter().find_map(|element| {
                let inner = match element.get_ref() {
                    DeValue::Table(inner) => locate(inner, &path.join(name, true), span),
                    _ => None,
                };
                inner.or_else(|| covers(&element.span()).then(|| located(element.get_ref(), true)))
            }),
            _ => None,
        };
        if inner.is_some() {
            return inner;
        }
        if covers(&key.span()) || covers(&value.span()) {
            return Some(located(value.get_ref(), false));
        }
    }
    None
}

impl Located {
    /// Returns a message of serde with the key and an example.
    fn explain(&self, message: &str) -> String {
        let prefix = if self.is_table {
            let path = self.table.join(&self.name, self.is_element);
            format!("{}: ", path.title().trim_end())
        } else {
            format!("{}{}: ", self.table.title(), self.name)
        };
        let own = format!("{}: ", self.name);
        let message = message.strip_prefix(&own).unwrap_or(message);
        let mut quoted = message.split('`').skip(1).step_by(2);
        if let Some((_, expected)) = message
            .strip_prefix("invalid type: ")
            .or_else(|| message.strip_prefix("invalid value: "))
            .and_then(|message| message.split_once(", expected "))
        {
            let example = if expected.contains("such as") {
                String::new()
            } else {
                such_as(&self.dotted)
            };
            let words = words(expected);
            return format!("{prefix}expected {words}{example}, not {}", self.found);
        }
        if message == "wanted string or table" {
            let example = such_as(&self.dotted);
            return format!("{prefix}expected a string{example}, not {}", self.found);
        }
        if message.starts_with("missing field") {
            let field = quoted.next().unwrap_or_default();
            let example = such_as(&format!("{}.{field}", self.dotted));
            return format!("{prefix}`{field}` is missing{example}");
        }
        if let Some((unknown, known)) = message
            .strip_prefix("unknown variant ")
            .and_then(|rest| rest.split_once(", expected "))
        {
            let [unknown, known] = [unknown, known].map(|part| part.replace('`', "\""));
            let tip = quoted.next().and_then(|unknown| nearest(unknown, quoted));
            let tip = tip.map_or(String::new(), |best| format!("; did you mean \"{best}\"?"));
            return format!("{prefix}expected {known}, not {unknown}{tip}");
        }
        if message.starts_with("unknown field") {
            let tip = quoted.next().and_then(|unknown| nearest(unknown, quoted));
            let tip = tip.map_or(String::new(), |best| format!("; did you mean `{best}`?"));
            return format!("{prefix}{message}{tip}");
        }
        format!("{prefix}{message}")
    }
}

/// Returns a type of Rust as people name it.
fn words(expected: &str) -> &str {
    match expected {
        "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number, 0 or more",
        "i64" | "i32" | "i16" => "a whole number",
        "f64" | "f32" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "an array",
        "a map" => "a table",
        "path string" => "a string",
        _ if expected.starts_with("struct ") => "a table",
        _ if expected.starts_with("enum ") => "a string",
        _ => expected,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::super::keys::ROOT;
    use super::*;

    /// One value of each type, and arrays of them.
    const VALUES: [&str; 11] = [
        "-3",
        "3.5",
        "true",
        "\"\"",
        "\"?\"",
        "[]",
        "[3]",
        "[true]",
        "[[]]",
        "[{ a = 1 }]",
        "{ a = 1 }",
    ];

    /// Words of serde and of Rust that no operator knows.
    const RUST: [&str; 10] = [
        "struct ",
        "enum ",
        "usize",
        "u64",
        "u32",
        "u16",
        "sequence",
        "integer `",
        "map,",
        "variant of",
    ];

    /// Calls `test` with each key, the path of its table and the header of that.
    fn each(table: &Node, path: &Path, test: &mut impl FnMut(&Node, &Path)) {
        for key in table.in_file() {
            test(key, path);
            each(key, &path.join(key.name, key.kind == Kind::List), test);
        }
    }

    /// Failure: a value of a wrong type passes, or its error lacks the key, an example of what is
    /// right, or what was found, or names a type of Rust.
    #[test]
    fn a_wrong_type_is_not_explained() {
        let (mut cases, mut refused) = (0, 0);
        each(&ROOT, &Path::default(), &mut |key, path| {
            let dotted = path.join(key.name, false).dotted;
            // A table in a line of an array's element has no header of its own.
            let (header, inline) = match declared::find(&path.dotted) {
                Some(table) => match table.title() {
                    Some(title) => (title, None),
                    None => {
                        let (outer, name) = table.split();
                        (declared::find(outer).unwrap().title().unwrap(), Some(name))
                    }
                },
                None => (String::new(), None),
            };
            for value in VALUES {
                let text = match inline {
                    Some(name) => format!("{header}\n{name} = {{ {} = {value} }}\n", key.name),
                    None => format!("{header}\n{} = {value}\n", key.name),
                };
                cases += 1;
                let parsed: toml::Table = text.parse().unwrap();
                assert!(!parsed.is_empty());
                let Err(error) = Config::parse(&text, "larder.toml") else {
                    continue;
                };
                refused += 1;
                for line in error.problems() {
                    assert!(
                        !RUST.iter().any(|word| line.contains(word)),
                        "{text} gave {line}"
                    );
                    // A required key may be missing beside it.
                    let name = path.dotted.rsplit('.').next().unwrap_or_default();
                    assert!(
                        line.contains(key.name) || line.contains(name),
                        "{text} gave {line}"
                    );
                }
                let is_wrong = match key.kind {
                    Kind::Text => !value.starts_with('"'),
                    Kind::Plain => value.starts_with(['"', '[', '{']),
                    Kind::List => !value.starts_with('['),
                    Kind::Table => !value.starts_with('{'),
                    Kind::Any => false,
                };
                if is_wrong {
                    let is_explained = |line: &&String| {
                        let parts = [key.name, "expected ", ", not "];
                        let has_example = line.contains("such as") || line.contains("begins with");
                        parts.iter().all(|part| line.contains(part)) && has_example
                    };
                    let explained = error.problems().iter().filter(is_explained).count();
                    assert_eq!(explained, 1, "{dotted}: {text} gave {error}");
                }
            }
        });
        assert!(
            cases > 1500 && refused > 1000,
            "{cases} cases, {refused} refused"
        );
    }
}
