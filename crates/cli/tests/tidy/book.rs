//! The rules for the documentation as a book: order, links, purposes, length of sentences.

use super::Source;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// The table of contents.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";

/// The most words of a page's sentences, on average.
const WORDS: f64 = 25.0;

/// Returns true for a page of the book.
pub(crate) fn is_page(path: &str) -> bool {
    path.starts_with("docs/") && path != SUMMARY
}

/// A link of a page, with the number of its line.
struct Link<'a> {
    line: usize,
    target: &'a str,
}

/// Returns the lines outside of fenced blocks.
fn lines(text: &str) -> Vec<(usize, &str)> {
    let mut is_fenced = false;
    let mut kept = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            kept.push((at + 1, line));
        }
    }
    kept
}

/// Returns the targets of `[text](target)` outside of code.
fn links(page: &Source) -> Vec<Link<'_>> {
    let mut found = Vec::new();
    for (line, text) in lines(&page.text) {
        for (at, _) in text.match_indices("](") {
            let is_code = text[..at].matches('`').count() % 2 == 1;
            let rest = &text[at + 2..];
            if let (false, Some(end)) = (is_code, rest.find(')')) {
                let target = &rest[..end];
                found.push(Link { line, target });
            }
        }
    }
    found
}

fn is_elsewhere(target: &str) -> bool {
    target.starts_with("https://") || target.starts_with("http://")
}

/// Returns the path that a link of this page leads to, relative to the root.
fn resolved(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    parts.join("/")
}

/// Returns the anchors of a page's headings, as GitHub and mdBook name them.
fn anchors(page: &Source) -> HashSet<String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut anchors = HashSet::new();
    for (_, line) in lines(&page.text) {
        let Some(heading) = line.strip_prefix('#') else {
            continue;
        };
        let heading = heading.trim_start_matches('#').trim();
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept
            .map(|c| {
                if c == ' ' {
                    '-'
                } else {
                    c.to_ascii_lowercase()
                }
            })
            .collect();
        let count = counts.entry(anchor.clone()).or_insert(0);
        anchors.insert(if *count == 0 {
            anchor
        } else {
            format!("{anchor}-{count}")
        });
        *count += 1;
    }
    anchors
}

/// Finds links that lead to no file of the project, or to no heading of a page.
pub(crate) fn dead_links(pages: &[Source], root: &Path) -> Vec<String> {
    let of_path: HashMap<&str, HashSet<String>> = pages
        .iter()
        .map(|page| (page.path.as_str(), anchors(page)))
        .collect();
    let mut violations = Vec::new();
    for page in pages {
        for Link { line, target } in links(page) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() {
                page.path.clone()
            } else {
                resolved(&page.path, path)
            };
            let has_anchor = || {
                anchor.is_empty()
                    || of_path
                        .get(path.as_str())
                        .is_none_or(|anchors| anchors.contains(anchor))
            };
            let exists = || path == page.path || root.join(&path).exists();
            let leads = is_elsewhere(target) || (exists() && has_anchor());
            if !leads {
                violations.push(format!("{}:{line}: {target} leads nowhere", page.path));
            }
        }
    }
    violations
}

/// Finds pages that the table of contents does not have, or has twice.
pub(crate) fn unlisted(pages: &[Source]) -> Vec<String> {
    let mut listed: HashMap<String, usize> = HashMap::new();
    for page in pages.iter().filter(|page| page.path == SUMMARY) {
        for link in links(page) {
            *listed.entry(resolved(&page.path, link.target)).or_insert(0) += 1;
        }
    }
    pages
        .iter()
        .filter(|page| is_page(&page.path))
        .map(|page| (page, listed.get(&page.path).copied().unwrap_or(0)))
        .filter(|(_, count)| *count != 1)
        .map(|(page, count)| format!("{}:1: {count} times in {SUMMARY}", page.path))
        .collect()
}

/// Returns the paragraphs and items of a page, without headings, tables, pictures and code.
fn paragraphs(page: &Source) -> Vec<String> {
    let mut found = vec![String::new()];
    for line in page_lines(&page.text) {
        let item = line
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .strip_prefix(". ");
        let item = line
            .strip_prefix("- ")
            .or_else(|| line.strip_prefix("* "))
            .or(item.filter(|_| line.starts_with(|c: char| c.is_ascii_digit())));
        let is_left_out =
            line.is_empty() || ["|", "#", "!["].iter().any(|start| line.starts_with(start));
        if is_left_out || item.is_some() {
            found.push(String::new());
        }
        if let (false, Some(paragraph)) = (is_left_out, found.last_mut()) {
            paragraph.push_str(item.unwrap_or(line));
            paragraph.push(' ');
        }
    }
    found.retain(|paragraph| !paragraph.trim().is_empty());
    found
}

/// Returns the lines of a page, with an empty one for each line of code.
fn page_lines(text: &str) -> Vec<&str> {
    let mut is_fenced = false;
    let mut kept = Vec::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        let is_code = is_fence || is_fenced || line.starts_with("    ");
        kept.push(if is_code { "" } else { line.trim() });
    }
    kept
}

/// Returns the numbers of words of a paragraph's sentences.
fn sentences(paragraph: &str) -> Vec<usize> {
    let mut counts = vec![0];
    for word in paragraph.split_whitespace() {
        if let Some(count) = counts.last_mut() {
            *count += 1;
        }
        let end = word.trim_end_matches([')', '"', '*']);
        if end.ends_with(['.', '?', '!']) {
            counts.push(0);
        }
    }
    counts.retain(|count| *count > 0);
    counts
}

/// Finds a page whose sentences are too long on average.
pub(crate) fn long_sentences(page: &Source) -> Option<String> {
    let counts: Vec<usize> = paragraphs(page).iter().flat_map(|p| sentences(p)).collect();
    let words = counts.iter().sum::<usize>() as f64;
    let mean = words / counts.len().max(1) as f64;
    (mean > WORDS).then(|| format!("{}:1: {mean:.1} words a sentence", page.path))
}

/// Finds a page whose first sentence does not say what the page is for.
pub(crate) fn without_purpose(page: &Source) -> Option<String> {
    let mut lines = page_lines(&page.text)
        .into_iter()
        .filter(|line| !line.is_empty());
    let title = lines.next().unwrap_or_default();
    let first = lines.next().unwrap_or_default();
    let has_purpose = title.starts_with("# ") && first.starts_with("This page ");
    (!has_purpose).then(|| format!("{}:1: begins with \"{first}\"", page.path))
}

/// Finds lines of Rust on a page that none of these sources has.
pub(crate) fn rust_of_no_source(page: &Source, sources: &[Source]) -> Vec<String> {
    let mut violations = Vec::new();
    let mut is_rust = false;
    for (at, line) in page.text.lines().enumerate() {
        if line.starts_with("```") {
            is_rust = line == "```rust";
        } else if is_rust {
            let line = line.trim();
            let has = |source: &Source| source.text.lines().any(|other| other.trim() == line);
            if !sources.iter().any(has) {
                violations.push(format!("{}:{}: no example has {line}", page.path, at + 1));
            }
        }
    }
    violations
}

/// Finds commands and datasets of NFD's protocol, by the table of the forwarder's management, that
/// a page does not name.
pub(crate) fn verbs_that_a_page_lacks(page: &Source, management: &Source) -> Vec<String> {
    let words: Vec<&str> = management.text.split('"').collect();
    let is_declared = |before: &str| {
        let before = before.trim_end();
        before.ends_with("command(") || before.ends_with("dataset(")
    };
    words
        .windows(4)
        .filter(|four| is_declared(four[0]) && four[2].trim() == ",")
        .map(|four| format!("`{}/{}`", four[1], four[3]))
        .filter(|verb| !page.text.contains(verb))
        .map(|verb| format!("{}:1: lacks {verb}", page.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_planted_dead_link_is_found() {
        let root = crate::root();
        let dead = |text: &str| {
            let pages = [
                page("docs/a.md", text),
                page("README.md", "# The title\n## `a_b` c: d\n## The title\n"),
            ];
            dead_links(&pages, &root).len()
        };
        for (text, expected) in [
            ("[a](../README.md#a_b-c-d)", 0),
            ("[a](../README.md#the-title-1)", 0),
            ("[a](../README.md#the-title-2)", 1),
            ("[a](../README.md) and [b](README.md)", 1),
            ("[a](#nothing)", 1),
            ("# Some-thing\n[a](#some-thing)", 0),
            ("[a](https://example.com/#x) `[a](b)`\n```\n[a](b)\n```", 0),
        ] {
            assert_eq!(dead(text), expected, "{text}");
        }
    }

    #[test]
    fn a_planted_page_outside_the_book_is_found() {
        let summary = page(
            SUMMARY,
            "- [a](start/a.md)\n- [b](b.md)\n- [b](b.md)\n[x](x.md)",
        );
        let pages = ["docs/start/a.md", "docs/b.md", "docs/c.md", "d.md"];
        let mut pages: Vec<_> = pages.iter().map(|path| page(path, "")).collect();
        pages.push(summary);
        let found = unlisted(&pages);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("docs/b.md") && found[1].contains("docs/c.md"));
    }

    #[test]
    fn planted_long_sentences_are_found() {
        let (long, short) = ("word ".repeat(26) + "end. ", "It is short. ");
        let has = |text: &str| long_sentences(&page("docs/a.md", text)).is_some();
        assert!(has(&long));
        assert!(has(&format!("- {long}\n- {long}")));
        assert!(!has(&format!("{long}{short}")));
        assert!(!has(&format!(
            "# {long}\n\n| {long} |\n\n```\n{long}\n```\n"
        )));
        assert_eq!(sentences("One (or two). Three"), [3, 1]);
        assert_eq!(
            paragraphs(&page("a", "a b\nc\n- d\n  e\n1. f\n\n2030 g")).len(),
            4
        );
    }

    #[test]
    fn a_planted_verb_that_a_page_lacks_is_found() {
        let source = page(
            "a.rs",
            "x = [\n  command(\"fib\", \"add\", f),\n  dataset(\"fib\", \"list\", g)]",
        );
        let found = verbs_that_a_page_lacks(&page("docs/a.md", "`fib/add`"), &source);
        assert_eq!(found, ["docs/a.md:1: lacks `fib/list`"]);
    }

    #[test]
    fn planted_rust_of_no_example_is_found() {
        let text = "```rust\nlet a = 1;\nlet b = 2;\n```\nlet c = 3;\n";
        let sources = [page("a.rs", "fn main() {\n    let a = 1;\n}\n")];
        assert_eq!(
            rust_of_no_source(&page("docs/a.md", text), &sources).len(),
            1
        );
    }

    #[test]
    fn a_planted_page_without_a_purpose_is_found() {
        let has = |text: &str| without_purpose(&page("docs/a.md", text)).is_none();
        assert!(has("# A\n\nThis page lists all."));
        assert!(!has("# A\n\nIt is short."));
        assert!(!has("# A\n\n```\nThis page\n```\n"));
        assert!(!has("This page has no title."));
    }
}
