//! The documentation of keys: the page docs/reference/configuration.md, and `larder run --explain`.

use super::declared::{DECLARED, Declared, find};
use super::keys::{KEYS, nearest};
use std::fmt::Write;
use toml::Value;

/// The columns of a line of text.
const COLUMNS: usize = 100;

/// Returns what the embedded configuration says of a key or a table: `http.cache`, `http.limits`.
///
/// # Errors
/// One line if there is no such key, with the most similar one.
pub fn explain(path: &str) -> Result<String, String> {
    let Some(declared) = find(path) else {
        return Err(format!("{path}: no key has this name{}", tip(path)));
    };
    let mut text = String::new();
    let (table, name) = declared.split();
    // Writing to a string cannot fail.
    let _ = if declared.is_table() {
        writeln!(text, "{}", title(path))
    } else {
        writeln!(text, "{}\n{name} = {}", title(table), declared.example())
    };
    let docs = [&declared.doc, &declared.remark];
    for doc in docs.into_iter().filter(|doc| !doc.is_empty()) {
        let _ = writeln!(text, "\n{}", wrapped(doc));
    }
    if declared.is_table() {
        let keys = DECLARED.iter().filter(|key| key.split().0 == path);
        let names: Vec<&str> = keys.map(|key| key.split().1).collect();
        let _ = writeln!(text, "\nkeys: {}", names.join(", "));
    } else if declared.is_default {
        let _ = writeln!(text, "\ndefault: {}", declared.value);
    } else {
        let _ = writeln!(text);
    }
    if let Some(key) = KEYS.iter().find(|key| key.dotted() == path)
        && !declared.is_table()
    {
        let _ = writeln!(text, "variable: {}", key.variable());
        let _ = writeln!(text, "flag: --set {path}=...");
    }
    let _ = writeln!(text, "reload: {}", applied(declared));
    Ok(text)
}

/// The most keys that a tip names.
const TIPS: usize = 12;

/// Returns which keys may be meant: those that have this name in a table, those whose name contains
/// it, or the nearest one.
fn tip(path: &str) -> String {
    let all = || DECLARED.iter().map(|declared| declared.path.as_str());
    let last = |known: &&str| known.rsplit('.').next() == Some(path);
    let within = |known: &&str| path.len() > 2 && known.contains(path);
    let mut meant: Vec<&str> = all().filter(last).collect();
    if meant.is_empty() {
        meant = all().filter(within).collect();
    }
    if meant.is_empty() {
        meant.extend(nearest(path, all()));
    }
    match meant.split_last() {
        None => "; `larder run --print-config` prints all".to_owned(),
        Some((best, [])) => format!("; did you mean {best}?"),
        Some(_) if meant.len() > TIPS => {
            format!("; did you mean {}, ...?", meant[..TIPS].join(", "))
        }
        Some((best, rest)) => format!("; did you mean {} or {best}?", rest.join(", ")),
    }
}

/// Returns the page docs/reference/configuration.md.
pub fn reference() -> String {
    let mut page = String::from(HEAD);
    for table in DECLARED.iter().filter(|declared| declared.is_table()) {
        let keys = DECLARED.iter().filter(|key| is_in(key, table));
        let keys: Vec<&Declared> = keys.collect();
        let _ = writeln!(page, "\n## {}\n", title(&table.path));
        if !table.doc.is_empty() {
            let _ = writeln!(page, "{}\n", wrapped(&escaped(&table.doc)));
        }
        page.push_str(
            "| key | type | default | example | reload |\n| --- | --- | --- | --- | --- |\n",
        );
        for key in &keys {
            let _ = writeln!(page, "{}", row(key, table));
        }
        for run in keys.chunk_by(|one, other| one.run == other.run) {
            page.push_str(&documentation(run, table));
        }
    }
    page
}

const HEAD: &str = "\
# Configuration

This page lists every key of the file that `larder run FILE` reads: those of
[Named Data Networking](https://named-data.net/) (NDN) first, then those of HTTP. It is made of the
embedded default configuration, which `larder run --print-config` prints: `larder run
--print-reference` writes it.

- `larder run --explain http.cache` prints what this page says of one key.
- `larder run --check FILE` reports all problems of a file, with the key and the remedy.
- A key is also a flag, `--set http.cache=1GiB`, and a variable, `LARDER_HTTP_CACHE=1GiB`. A flag
  has precedence over a variable, a variable over the file, and the file over the default.
- A table without defaults, such as `[http.tls]`, does nothing unless the file has it.
- Relative paths start from the folder in which Larder is started, not from that of the file.
- *reload*: SIGHUP applies the key at once, or an upgrade has to (SIGUSR2, or a restart):
  [running.md](../guides/running.md#reload).
";

/// Returns true if a key is one of this table, also within a table in one line.
fn is_in(key: &Declared, table: &Declared) -> bool {
    let rest = key.path.strip_prefix(&table.path);
    let is_below = rest.is_some_and(|rest| rest.starts_with('.'));
    let is_in_closer = |closer: &Declared| {
        closer.is_table()
            && closer.path.len() > table.path.len()
            && key.path.starts_with(&format!("{}.", closer.path))
    };
    !key.is_table() && is_below && !DECLARED.iter().any(is_in_closer)
}

/// Returns `[http.limits]`, or `[[http.rules]]` for an array of tables.
fn title(path: &str) -> String {
    find(path)
        .and_then(Declared::title)
        .unwrap_or_else(|| format!("[{path}]"))
}

/// Returns the name of a key within a table.
fn name<'a>(key: &'a Declared, table: &Declared) -> &'a str {
    key.path[table.path.len()..].trim_start_matches('.')
}

fn row(key: &Declared, table: &Declared) -> String {
    let code = |text: &str| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            text
        } else {
            format!("`{}`", text.replace('|', "\\|"))
        }
    };
    let default = if key.is_default {
        key.value.as_str()
    } else {
        ""
    };
    let example = if key.example() == default {
        ""
    } else {
        key.example()
    };
    // An array of many lines is in the documentation.
    let example = if example.contains('\n') { "" } else { example };
    format!(
        "| `{}` | {} | {} | {} | {} |",
        name(key, table),
        kind(key),
        code(default),
        code(example),
        applied(key)
    )
}

/// Returns the documentation of a run of keys.
fn documentation(run: &[&Declared], table: &Declared) -> String {
    let mut text = String::new();
    let doc = run.first().map_or("", |key| key.doc.as_str());
    if !doc.is_empty() {
        let names: Vec<String> = run
            .iter()
            .map(|key| format!("`{}`", name(key, table)))
            .collect();
        let about = format!("**{}**: {}", names.join(", "), escaped(doc));
        let _ = writeln!(text, "\n{}", wrapped(&about));
    }
    let mut remarks = String::new();
    for key in run.iter().filter(|key| !key.remark.is_empty()) {
        let remark = format!("- `{}`: {}", name(key, table), escaped(&key.remark));
        let _ = writeln!(remarks, "{}", wrapped(&remark).replace('\n', "\n  "));
    }
    for key in run.iter().filter(|key| key.value.contains('\n')) {
        let _ = writeln!(
            remarks,
            "\n```toml\n{} = {}\n```",
            name(key, table),
            key.value
        );
    }
    if !remarks.is_empty() {
        let _ = write!(text, "\n{remarks}");
    }
    text
}

/// Returns the type of a key's value.
fn kind(key: &Declared) -> &'static str {
    match key.example().parse() {
        Ok(Value::String(_)) => "text",
        Ok(Value::Integer(_) | Value::Float(_)) => "number",
        Ok(Value::Boolean(_)) => "true or false",
        Ok(Value::Array(_)) => "array",
        _ => "table",
    }
}

/// Returns what applies a change of a key.
fn applied(key: &Declared) -> &'static str {
    let marked = |declared: &Declared| {
        declared.needs_upgrade
            && (key.path == declared.path || key.path.starts_with(&format!("{}.", declared.path)))
    };
    if DECLARED.iter().any(marked) {
        "needs an upgrade"
    } else {
        "applies"
    }
}

/// Returns text in which Markdown finds no marks outside of code.
fn escaped(text: &str) -> String {
    let mut parts = Vec::new();
    for (number, part) in text.split('`').enumerate() {
        let is_code = number % 2 == 1;
        parts.push(if is_code {
            part.to_owned()
        } else {
            part.replace('*', "\\*").replace('<', "\\<")
        });
    }
    parts.join("`")
}

/// Breaks the lines of paragraphs.
fn wrapped(text: &str) -> String {
    let mut lines = Vec::new();
    for paragraph in text.split("\n\n") {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let mut line = String::new();
        for word in paragraph.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > COLUMNS - 2 {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: the page of keys says something else than the program. `larder run
    /// --print-reference > docs/reference/configuration.md` writes it.
    #[test]
    fn the_page_of_keys_is_out_of_date() {
        let page = include_str!("../../../../docs/reference/configuration.md");
        assert!(
            page == reference(),
            "run: larder run --print-reference > docs/reference/configuration.md"
        );
    }

    /// Failure: the explanation of a key lacks its value, its variable, or what a reload does.
    #[test]
    fn an_explanation_lacks_what_a_key_does() {
        for (path, parts) in [
            (
                "http.cache",
                &[
                    "[http]",
                    "cache = \"256MiB\"",
                    "Capacity",
                    "LARDER_HTTP_CACHE",
                    "reload: applies",
                ][..],
            ),
            ("ndn.shards", &["default: 1", "reload: needs an upgrade"]),
            (
                "http.disk.capacity",
                &["[http.disk]", "\"100GiB\"", "reload: needs an upgrade"],
            ),
            ("http.rules", &["[[http.rules]]", "keys: ", "rewrite_host"]),
            ("http.rules.rate_limit.rate", &["rate = \"10r/s\""]),
            ("http.timeouts.keepalive", &["between two requests"]),
        ] {
            let said = explain(path).unwrap();
            for part in parts {
                assert!(said.contains(part), "{path}: no {part:?} in {said}");
            }
        }
        let refused = explain("http.cahce").unwrap_err();
        assert!(refused.contains("did you mean http.cache?"), "{refused}");
    }
}
