//! The tidy test: the rules of CONTRIBUTING.md that a program can check.
//!
//! Each rule is a function from source text to a list of violations, `FILE:LINE: what`. Each has a
//! test with a planted violation, which shows that the rule works when it finds nothing. Exceptions
//! are in this file, each with its reason.

mod book;
mod figures;
mod folders;
mod functions;
mod imports;
mod orphans;
mod security;
mod text;

use std::fs;
use std::path::{Path, PathBuf};

/// One source file of the workspace.
pub(crate) struct Source {
    /// The path relative to the root of the workspace, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Folders with files of another origin, or with generated files.
const SKIPPED: [&str; 7] = [
    "target",
    ".git",
    "node_modules",
    ".env",
    "artifacts",
    "corpus",
    "data",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace")
}

/// Returns all files of the workspace with this extension, in the order of their paths.
fn sources(extension: &str) -> Vec<Source> {
    let root = root();
    let (mut folders, mut found) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder that can be read") {
            let entry = entry.expect("an entry");
            let name = entry.file_name();
            let kind = entry.file_type().expect("its type");
            if kind.is_dir() && !SKIPPED.iter().any(|skipped| name == *skipped) {
                folders.push(entry.path());
            } else if kind.is_file()
                && entry
                    .path()
                    .extension()
                    .is_some_and(|found| found == extension)
            {
                let path = entry
                    .path()
                    .strip_prefix(&root)
                    .expect("below the root")
                    .to_string_lossy()
                    .replace('\\', "/");
                found.push(Source {
                    path,
                    text: fs::read_to_string(entry.path()).expect("UTF-8"),
                });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

#[track_caller]
fn none(violations: &[String], remedy: &str) {
    assert!(
        violations.is_empty(),
        "{} violations; {remedy}\n{}",
        violations.len(),
        violations.join("\n")
    );
}

#[test]
fn a_comment_or_a_page_is_wider_than_100_columns() {
    let mut violations: Vec<_> = sources("rs").iter().flat_map(text::wide_comments).collect();
    violations.extend(sources("md").iter().flat_map(text::wide_markdown));
    violations.extend(sources("toml").iter().flat_map(text::wide_toml));
    none(&violations, "wrap them at 100 columns");
}

#[test]
fn prose_that_a_stranger_cannot_follow() {
    let mut violations: Vec<_> = sources("rs").iter().flat_map(text::odd_comments).collect();
    violations.extend(sources("md").iter().flat_map(text::odd_markdown));
    none(
        &violations,
        "write subject, verb, object; docs/inside/glossary.md has the terms",
    );
}

#[test]
fn a_private_name_where_there_is_a_standard_term() {
    let violations: Vec<_> = sources("rs").iter().flat_map(text::private_names).collect();
    none(&violations, "docs/inside/glossary.md has the standard term");
}

#[test]
fn a_file_that_nobody_reads_to_its_end() {
    let violations: Vec<_> = sources("rs").iter().filter_map(text::long_file).collect();
    none(&violations, "split the file by task");
}

#[test]
fn a_function_that_does_not_fit_a_screen() {
    let long = sources("rs")
        .iter()
        .flat_map(functions::long_functions)
        .collect::<Vec<_>>();
    let violations: Vec<_> = long
        .iter()
        .map(|(path, name, lines)| format!("{path}: `{name}` has {lines} lines"))
        .collect();
    none(&violations, "name a part of it and extract that");
}

#[test]
fn a_folder_in_which_a_file_has_to_be_searched() {
    let violations = folders::full_folders(&sources("rs"), &folders::LISTED);
    none(&violations, "divide it into folders that are layers");
}

#[test]
fn a_type_is_implemented_where_nobody_looks() {
    let violations = orphans::orphans(&sources("rs"), &orphans::LISTED);
    none(
        &violations,
        "move the methods to a part with a type of its own, or list the file",
    );
}

#[test]
fn modules_that_import_each_other() {
    let cycles = imports::cycles(&sources("rs"));
    let violations: Vec<_> = cycles
        .into_iter()
        .map(|(name, cycle)| format!("crates/{name}: {}", cycle.join(", ")))
        .collect();
    none(&violations, "move what both need below both");
}

#[test]
fn a_module_that_imports_from_a_layer_above() {
    let violations = imports::upward(&sources("rs"));
    none(&violations, "turn the import round, or move the module");
}

#[test]
fn a_promise_names_a_test_that_does_not_exist() {
    let pages = sources("md");
    let page = pages
        .iter()
        .find(|page| page.path == "SECURITY.md")
        .expect("SECURITY.md");
    let violations = security::promises_without_tests(page, &sources("rs"));
    none(
        &violations,
        "name a test that fails if the promise is broken",
    );
}

#[test]
fn a_page_says_ndn_and_never_what_it_stands_for() {
    let pages = sources("md")
        .into_iter()
        .filter(|page| text::is_for_readers(&page.path))
        .collect::<Vec<_>>();
    let violations: Vec<_> = pages.iter().filter_map(text::ndn_unexplained).collect();
    none(
        &violations,
        "write [Named Data Networking](https://named-data.net/) (NDN) where it comes first",
    );
}

#[test]
fn two_pages_give_different_speeds() {
    let pages = sources("md");
    let page = |path: &str| {
        pages
            .iter()
            .find(|page| page.path == path)
            .expect("the page")
    };
    let violations =
        text::rows_of_other_figures(page("README.md"), page("docs/results/ndn-speed.md"));
    none(
        &violations,
        "measure once, and write the same rows on both pages",
    );
}

#[test]
fn a_page_that_the_table_of_contents_does_not_have() {
    let violations = book::unlisted(&sources("md"));
    none(
        &violations,
        "list each page of docs/ once in docs/SUMMARY.md",
    );
}

#[test]
fn a_link_that_leads_nowhere() {
    let violations = book::dead_links(&sources("md"), &root());
    none(&violations, "name a file and a heading that exist");
}

#[test]
fn a_page_whose_purpose_is_not_in_its_first_line() {
    let pages = sources("md");
    let pages = pages.iter().filter(|page| book::is_page(&page.path));
    let violations: Vec<_> = pages.filter_map(book::without_purpose).collect();
    none(
        &violations,
        "begin with \"This page\": what it is for, and for whom",
    );
}

#[test]
fn a_page_of_long_sentences() {
    let pages = sources("md");
    let pages = pages
        .iter()
        .filter(|page| book::is_page(&page.path) || text::is_for_readers(&page.path));
    let violations: Vec<_> = pages.filter_map(book::long_sentences).collect();
    none(&violations, "write at most 25 words a sentence on average");
}

#[test]
fn code_of_a_guide_that_is_compiled_nowhere() {
    let examples: Vec<_> = sources("rs")
        .into_iter()
        .filter(|source| source.path.contains("/examples/"))
        .collect();
    let guides = sources("md");
    let guides = guides
        .iter()
        .filter(|page| page.path.starts_with("docs/guides/"));
    let violations: Vec<_> = guides
        .flat_map(|page| book::rust_of_no_source(page, &examples))
        .collect();
    none(&violations, "show lines of an example");
}

#[test]
fn a_page_has_other_figures_than_were_measured() {
    let text = fs::read_to_string(root().join(figures::FILE)).expect(figures::FILE);
    let measured = figures::figures(&text);
    let mut violations = figures::code_that_is_gone(&measured, &root());
    for page in sources("md") {
        match page.path.as_str() {
            "README.md" => violations.extend(figures::other_rows(&page, &measured, false)),
            "docs/results/performance.md" => {
                violations.extend(figures::other_rows(&page, &measured, true));
            }
            _ => {}
        }
    }
    none(&violations, "write the rows of docs/results/measured.toml");
}

/// Prints the figures that are older than their code. It does not fail: a change need not change a
/// figure, and measuring needs a quiet machine.
#[test]
#[allow(
    clippy::print_stdout,
    reason = "the lines are the result: `-- --nocapture` shows them"
)]
fn figures_that_are_older_than_their_code() {
    let text = fs::read_to_string(root().join(figures::FILE)).expect(figures::FILE);
    let measured = figures::figures(&text);
    for line in figures::older_than_their_code(&measured, &root()) {
        println!("{line}");
    }
}

#[test]
fn a_command_of_nfd_that_the_reference_lacks() {
    let read = |path: &str| Source {
        path: path.to_owned(),
        text: fs::read_to_string(root().join(path)).expect(path),
    };
    let management = read("crates/forwarder/src/management/mod.rs");
    assert!(
        !book::verbs_that_a_page_lacks(&read("LICENSE-MIT"), &management).is_empty(),
        "no verb is found: has the table changed?"
    );
    let violations = book::verbs_that_a_page_lacks(&read("docs/reference/ndn.md"), &management);
    none(&violations, "add it to docs/reference/ndn.md");
}
