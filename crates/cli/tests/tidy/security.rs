//! The rule for SECURITY.md: each promise names a test, and each test that it names exists.

use super::Source;

/// Returns the tests that a line names, as (path, function).
fn named_tests(line: &str) -> Vec<(&str, &str)> {
    let code = line.split('`').skip(1).step_by(2);
    code.filter_map(|code| code.split_once("::"))
        .filter(|(path, _)| path.ends_with(".rs"))
        .collect()
}

/// Returns true for a row of a table, except the rows of its head.
fn is_promise(line: &str) -> bool {
    line.starts_with("| ") && !line.starts_with("| promised |") && !line.starts_with("| ---")
}

/// Returns true if the text has a test of this name, also within `proptest!`.
fn has_test(text: &str, function: &str) -> bool {
    let lines: Vec<_> = text.lines().map(str::trim_start).collect();
    let start = format!("fn {function}(");
    for (at, line) in lines.iter().enumerate() {
        if line
            .strip_prefix("async ")
            .unwrap_or(line)
            .starts_with(&start)
            && is_test(&lines[..at])
        {
            return true;
        }
    }
    false
}

/// Returns true if the attributes at the end of these lines make the next function a test.
fn is_test(before: &[&str]) -> bool {
    let mut attributes = before
        .iter()
        .rev()
        .take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    attributes.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
}

pub(crate) fn promises_without_tests(page: &Source, sources: &[Source]) -> Vec<String> {
    let mut violations = Vec::new();
    for (at, line) in page.text.lines().enumerate() {
        let tests = named_tests(line);
        if tests.is_empty() && is_promise(line) {
            violations.push(format!(
                "{}:{}: a promise without a test",
                page.path,
                at + 1
            ));
        }
        for (path, function) in tests {
            let source = sources.iter().find(|source| source.path == path);
            if !source.is_some_and(|source| has_test(&source.text, function)) {
                violations.push(format!(
                    "{}:{}: {path} has no test `{function}`",
                    page.path,
                    at + 1
                ));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_promises_without_tests_are_found() {
        let text = "#[test]\nfn a() {}\n\nfn no_test() {}\n    #[tokio::test(start_paused = true)]\n    async fn b() {}\n\
                    proptest! {\n    #[test]\n    // Why.\n    #[expect(unused)]\n    fn c(one: u8) {}\n}\n";
        let sources = [Source {
            path: "a/b.rs".to_owned(),
            text: text.to_owned(),
        }];
        let found = |text: &str| {
            promises_without_tests(
                &Source {
                    path: "SECURITY.md".to_owned(),
                    text: text.to_owned(),
                },
                &sources,
            )
            .len()
        };
        let sound = "| promised | tests |\n| --- | --- |\n| `x` | `a/b.rs::a`, `a/b.rs::b` |\nIt is `a/b.rs::c`, `A::b`.";
        assert_eq!(found(sound), 0);
        for wrong in [
            "| x | y |",
            "| x | `a/b.rs::no_test` |",
            "`a/b.rs::aa`",
            "`b.rs::a`",
            "`a/b.rs::`",
        ] {
            assert_eq!(found(wrong), 1, "{wrong}");
        }
    }
}
