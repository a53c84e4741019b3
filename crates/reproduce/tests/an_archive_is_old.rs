//! Archived reports (`docs/reproductions/`) whose code has changed since. A test prints them and
//! does not fail: a change need not change a result, and a full run takes hours.

#![allow(
    clippy::print_stdout,
    reason = "the lines are the result: `-- --nocapture` shows them"
)]

use larder_reproduce::{PAPERS, sources};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// The files under `paths` that differ from the commit, or the reason why that is unknown.
fn changed_since(commit: &str, paths: &[String]) -> Result<Vec<String>, String> {
    let mut git = Command::new("git");
    git.arg("-C")
        .arg(root())
        .args(["diff", "--name-only", commit, "--"])
        .args(paths);
    let output = git.output().map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect())
}

#[test]
fn an_archive_has_no_commit_or_is_of_no_paper() {
    let directory = root().join("docs/reproductions");
    for archive in std::fs::read_dir(&directory)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
    {
        let Ok(text) = std::fs::read_to_string(archive.join("claims.json")) else {
            continue;
        };
        let name = archive.strip_prefix(root()).unwrap().display();
        let claims: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let paper = claims["paper"].as_str().unwrap_or_default();
        assert!(
            PAPERS.iter().any(|known| known.name == paper),
            "{name} is of `{paper}`"
        );
        assert!(
            archive.join("report.html").metadata().unwrap().len() < 1 << 20,
            "{name}: the page is too large"
        );
        let mut experiments: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for experiment in claims["experiments"].as_array().into_iter().flatten() {
            let run = experiment["run"]["commit"].as_str().unwrap_or_default();
            let commit = run.split(',').next().unwrap_or_default();
            assert!(
                commit.len() == 40,
                "{name}: the commit of {} is `{run}`",
                experiment["name"]
            );
            experiments
                .entry(run)
                .or_default()
                .extend(experiment["name"].as_str());
        }
        assert!(!experiments.is_empty(), "{name} has no experiments");
        for (run, experiments) in experiments {
            let of = format!("{name}, {}", experiments.join(", "));
            match changed_since(run.split(',').next().unwrap_or_default(), &sources(paper)) {
                Ok(files) if files.is_empty() => println!("{of}: the code is that of {run}"),
                Ok(files) => {
                    println!(
                        "{of}: {} files have changed since {run}, {} among them",
                        files.len(),
                        files[0]
                    )
                }
                Err(reason) => println!("{of}: whether the code has changed is unknown: {reason}"),
            }
        }
    }
}

/// Failure: a directory was renamed, and no change in it is reported any more.
#[test]
fn a_source_does_not_exist() {
    for paper in PAPERS {
        for source in sources(paper.name) {
            assert!(root().join(&source).is_dir(), "{}: {source}", paper.name);
        }
    }
}

/// Failure: the documentation counts other claims than the archives.
#[test]
fn a_count_is_another_than_the_archives() {
    let text = std::fs::read_to_string(root().join("docs/results/papers.md")).unwrap();
    let mut archives = 0;
    for archive in std::fs::read_dir(root().join("docs/reproductions"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        let Ok(claims) = std::fs::read_to_string(archive.join("claims.json")) else {
            continue;
        };
        let claims: serde_json::Value = serde_json::from_str(&claims).unwrap();
        let cells = ["value", "order", "theory", "arithmetic", "goal"].map(|kind| {
            let of = |what: &str| claims["counts"][kind][what].as_u64().unwrap();
            if of("judged") == 0 {
                String::new()
            } else {
                format!(" {} of {}", of("holding"), of("judged"))
            }
        });
        let name = archive.file_name().unwrap().to_str().unwrap();
        let row = format!("| {name} |{} |\n", cells.join(" |"));
        assert!(
            text.contains(&row),
            "docs/results/papers.md lacks this row: {row}"
        );
        archives += 1;
    }
    let rows = text
        .split("| archive |")
        .nth(1)
        .unwrap()
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    assert_eq!(rows.count(), archives);
}
