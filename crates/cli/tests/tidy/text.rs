//! The rules for single lines and files: width, wording, names, length of files.

use super::Source;

const COLUMNS: usize = 100;
const FILE_LINES: usize = 900;

/// Former private names of things that have a standard term.
const PRIVATE_NAMES: [&str; 12] = [
    "Seat",
    "Boarding",
    "Landing",
    "Airborne",
    "Crowd",
    "Patient",
    "Desk",
    "Errand",
    "Flights",
    "Wires",
    "Recalling",
    "Departed",
];

/// Wording to avoid, in lower case.
const ODD_PHRASES: [&str; 4] = ["in vain", "so that none", "is told", "shall"];

/// Returns the text of a comment line, without its marker.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("//")?;
    Some(text.strip_prefix(['/', '!']).unwrap_or(text).trim())
}

/// Returns true if a line may be wide: a row of a table, or a link or path that cannot be wrapped.
fn may_be_wide(text: &str) -> bool {
    text.starts_with('|') || text.contains("](") || text.contains("://") || !text.contains(' ')
}

/// Returns the lines of prose as (line number, text), without fenced blocks.
fn prose<'a>(lines: impl Iterator<Item = (usize, Option<&'a str>)>) -> Vec<(usize, &'a str)> {
    let mut is_fenced = false;
    let mut kept = Vec::new();
    for (number, text) in lines {
        let Some(text) = text else {
            is_fenced = false;
            continue;
        };
        if text.starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            kept.push((number, text));
        }
    }
    kept
}

fn comments(source: &Source) -> Vec<(usize, &str)> {
    prose(
        source
            .text
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, comment(line))),
    )
}

fn paragraphs(source: &Source) -> Vec<(usize, &str)> {
    prose(
        source
            .text
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, Some(line.trim()))),
    )
}

pub(crate) fn wide_comments(source: &Source) -> Vec<String> {
    let lines: Vec<_> = source.text.lines().collect();
    let wide = |(number, text): &(usize, &str)| {
        lines[number - 1].chars().count() > COLUMNS && !may_be_wide(text)
    };
    comments(source)
        .iter()
        .filter(|line| wide(line))
        .map(|(number, _)| violation(source, *number, "too wide"))
        .collect()
}

pub(crate) fn wide_markdown(source: &Source) -> Vec<String> {
    let lines: Vec<_> = source.text.lines().collect();
    let wide = |(number, text): &(usize, &str)| {
        lines[number - 1].chars().count() > COLUMNS && !may_be_wide(text)
    };
    paragraphs(source)
        .iter()
        .filter(|line| wide(line))
        .map(|(number, _)| violation(source, *number, "too wide"))
        .collect()
}

/// The prose of a TOML file, such as the embedded configuration. A setting with its explanation
/// beside it is a row of a table, also if it is commented out.
pub(crate) fn wide_toml(source: &Source) -> Vec<String> {
    let wide = |(_, line): &(usize, &str)| {
        let is_prose = line.starts_with('#') && !line.contains(" = ");
        is_prose && line.chars().count() > COLUMNS && !may_be_wide(line)
    };
    let lines = source.text.lines().enumerate().filter(wide);
    lines
        .map(|(at, _)| violation(source, at + 1, "too wide"))
        .collect()
}

pub(crate) fn odd_comments(source: &Source) -> Vec<String> {
    odd(source, &comments(source))
}

pub(crate) fn odd_markdown(source: &Source) -> Vec<String> {
    odd(source, &paragraphs(source))
}

fn odd(source: &Source, lines: &[(usize, &str)]) -> Vec<String> {
    let mut violations = Vec::new();
    for (number, text) in lines {
        let plain = without_quotations(text).to_lowercase();
        if plain.starts_with("who ") {
            violations.push(violation(source, *number, "begins with \"Who\""));
        }
        for phrase in ODD_PHRASES
            .iter()
            .filter(|phrase| has_words(&plain, phrase))
        {
            violations.push(violation(source, *number, &format!("\"{phrase}\"")));
        }
    }
    violations
}

/// Returns the text without quotations and code, because an RFC may use these phrases.
fn without_quotations(text: &str) -> String {
    let mut plain = String::new();
    let mut open = None;
    for character in text.chars() {
        match open {
            None if matches!(character, '"' | '`') => open = Some(character),
            None => plain.push(character),
            Some(mark) if mark == character => open = None,
            Some(_) => {}
        }
    }
    plain
}

fn has_words(text: &str, words: &str) -> bool {
    let is_end = |character: Option<char>| !character.is_some_and(char::is_alphanumeric);
    text.match_indices(words).any(|(at, _)| {
        is_end(text[..at].chars().next_back()) && is_end(text[at + words.len()..].chars().next())
    })
}

pub(crate) fn private_names(source: &Source) -> Vec<String> {
    let mut violations = Vec::new();
    // The tests of this rule plant a name.
    if source.path.ends_with("tests/tidy/text.rs") {
        return violations;
    }
    for (at, line) in source.text.lines().enumerate() {
        let code = without_quotations(line);
        let code = code.split("//").next().unwrap_or_default();
        for name in PRIVATE_NAMES.iter().filter(|name| has_words(code, name)) {
            violations.push(violation(source, at + 1, &format!("`{name}`")));
        }
    }
    violations
}

pub(crate) fn long_file(source: &Source) -> Option<String> {
    let lines = source.text.lines().count();
    (lines > FILE_LINES).then(|| {
        violation(
            source,
            lines,
            &format!("{lines} lines, more than {FILE_LINES}"),
        )
    })
}

fn violation(source: &Source, line: usize, what: &str) -> String {
    format!("{}:{line}: {what}", source.path)
}

/// Returns true for the pages that a newcomer reads: those of the root, and of `docs/` apart from
/// the notes of the laboratory.
pub(crate) fn is_for_readers(path: &str) -> bool {
    let in_docs = path.starts_with("docs/") && !path.starts_with("docs/lab/");
    (in_docs && path != super::book::SUMMARY) || (!path.contains('/') && path != "CHANGELOG.md")
}

/// Finds a page that uses the abbreviation NDN without the name and its link.
pub(crate) fn ndn_unexplained(page: &Source) -> Option<String> {
    let uses_it = page
        .text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| word == "NDN");
    let explains_it = page
        .text
        .contains("[Named Data Networking](https://named-data.net/)");
    (uses_it && !explains_it).then(|| format!("{}:1: NDN is not explained", page.path))
}

/// Finds the rows with NDN's speed on one page that are not on the other, and that other programs
/// are compared with at all.
pub(crate) fn rows_of_other_figures(page: &Source, other: &Source) -> Vec<String> {
    let rows = |page: &Source| -> Vec<String> {
        page.text
            .lines()
            .filter(|line| line.starts_with("| NDN ") && line.contains("/s |"))
            .map(str::to_owned)
            .collect()
    };
    let mut violations = Vec::new();
    if rows(page).is_empty() {
        violations.push(format!("{}:1: no row of NDN's speed", page.path));
    }
    for row in rows(page) {
        if !rows(other).contains(&row) {
            violations.push(format!("{}: {row} is not on {}", page.path, other.path));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source {
            path: "planted.rs".to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_planted_wide_line_is_found() {
        let words = "word ".repeat(25);
        assert_eq!(
            wide_comments(&source(&format!("fn a() {{}}\n    // {words}\n"))).len(),
            1
        );
        assert_eq!(wide_markdown(&source(&words)).len(), 1);
        assert_eq!(wide_toml(&source(&format!("a = 1\n# {words}"))).len(), 1);
        assert_eq!(wide_toml(&source(&format!("# a = 1   # {words}"))), [""; 0]);
        let fits = format!("//! {}", "é".repeat(96));
        for exempt in [
            fits.as_str(),
            &format!("/// | {words} |"),
            &format!("//! ```\n//! {words}\n//! ```"),
        ] {
            assert_eq!(wide_comments(&source(exempt)), [""; 0], "{exempt}");
        }
    }

    #[test]
    fn planted_phrases_are_found() {
        for odd in [
            "// Who waits, waits.",
            "/// It asks in vain.",
            "//! It shall end.",
            "// The cache is told.",
            "// One goes, so that none waits.",
        ] {
            assert_eq!(odd_comments(&source(odd)).len(), 1, "{odd}");
        }
        for plain in [
            "// RFC 9110: \"it SHALL end\"",
            "// Whoever, in vaine, shallow",
            "let shall = 1;",
        ] {
            assert_eq!(odd_comments(&source(plain)), [""; 0], "{plain}");
        }
    }

    #[test]
    fn a_planted_name_is_found() {
        assert_eq!(
            private_names(&source(
                "struct Seat;\nlet x = \"Seat\"; // Seat\n// Seat\nSeats"
            ))
            .len(),
            1
        );
    }

    #[test]
    fn a_planted_long_file_is_found() {
        assert!(long_file(&source(&"\n".repeat(FILE_LINES))).is_none());
        assert!(long_file(&source(&"\n".repeat(FILE_LINES + 1))).is_some());
    }

    #[test]
    fn a_planted_abbreviation_and_a_planted_figure_are_found() {
        let page = |path: &str, text: &str| Source {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        assert!(ndn_unexplained(&page("docs/a.md", "An NDN node.")).is_some());
        assert!(ndn_unexplained(&page("docs/a.md", "NDN_CLIENT_TRANSPORT, ndn")).is_none());
        let one = page("README.md", "| NDN hits: exchanges/s | **9 k** |");
        assert!(
            rows_of_other_figures(
                &one,
                &page("docs/b.md", "| NDN hits: exchanges/s | **8 k** |")
            )
            .len()
                == 1
        );
        assert!(rows_of_other_figures(&one, &page("docs/b.md", &one.text)).is_empty());
        assert!(
            is_for_readers("README.md")
                && is_for_readers("docs/a.md")
                && is_for_readers("docs/a/b.md")
                && !is_for_readers("docs/lab/b.md")
        );
    }
}
