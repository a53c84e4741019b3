//! `larder policies`: prints the registry of policies.

use crate::failure::Failure;
use crate::output::line;
use clap::Args;
use larder_policy::{Kind, Parameter, PolicyEntry, registry};
use serde_json::{Value, json};

/// List the cache policies and their parameters
#[derive(Args, Debug)]
pub struct PoliciesArgs {
    /// Policies to describe wholly [default: all, in a line each]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Describe all policies wholly: source, cost and parameters
    #[arg(long)]
    long: bool,
    /// Print one JSON array instead of text
    #[arg(long)]
    json: bool,
}

/// Prints the registry.
pub fn run(args: PoliciesArgs) -> Result<(), Failure> {
    let entries = entries(&args.names)?;
    let text = match (args.json, args.long || !args.names.is_empty()) {
        (true, _) => as_json(&entries),
        (_, true) => as_text(&entries),
        _ => as_lines(&entries),
    };
    line!("{text}");
    Ok(())
}

/// Returns the entries with these names, or all.
fn entries(names: &[String]) -> Result<Vec<&'static PolicyEntry>, Failure> {
    if names.is_empty() {
        return Ok(registry().iter().collect());
    }
    let named = |name: &String| {
        let entry = registry().get(name);
        entry.ok_or_else(|| {
            Failure::usage(format!(
                "there is no policy `{name}`; `larder policies` lists them all"
            ))
        })
    };
    names.iter().map(named).collect()
}

fn as_json(entries: &[&PolicyEntry]) -> String {
    let entries: Vec<Value> = entries.iter().map(|entry| entry_json(entry)).collect();
    Value::from(entries).to_string()
}

fn entry_json(entry: &PolicyEntry) -> Value {
    let parameter = |p: &Parameter| {
        json!({
            "name": p.name,
            "unit": p.unit,
            "values": p.values.to_string(),
            "default": p.default.to_string(),
            "doc": p.doc,
        })
    };
    json!({
        "name": entry.name,
        "kind": kind(entry),
        "offline": entry.is_offline(),
        "summary": entry.summary,
        "citation": entry.citation,
        "complexity": entry.complexity,
        "bytes_an_object": entry.bytes_an_object,
        "parameters": entry.parameters.iter().map(parameter).collect::<Vec<_>>(),
    })
}

fn kind(entry: &PolicyEntry) -> &'static str {
    match entry.kind() {
        Kind::Admission => "admission",
        Kind::Eviction => "eviction",
    }
}

/// Returns a line for each policy, with the heads of both kinds.
fn as_lines(entries: &[&PolicyEntry]) -> String {
    let mut text = format!("{HEAD}`larder policies NAME` describes one, `--long` all.\n");
    for (kind, head) in [
        (
            Kind::Admission,
            "admission, joined by + before an eviction policy",
        ),
        (Kind::Eviction, "eviction"),
    ] {
        text += &format!("\n{head}:\n");
        for entry in entries.iter().filter(|entry| entry.kind() == kind) {
            text += &format!("  {:<17}{}\n", entry.name, entry.summary);
        }
    }
    text.truncate(text.trim_end().len());
    text
}

const HEAD: &str = "A spec is admission policies and one eviction policy, joined by +, such as filter(theta=2)+lru\n";

fn as_text(entries: &[&PolicyEntry]) -> String {
    let mut text = HEAD.to_owned();
    let mut add = |indent: usize, paragraph: String| text += &wrapped(indent, &paragraph);
    for entry in entries {
        let only = if entry.is_offline() {
            ", in the replayer only"
        } else {
            ""
        };
        add(0, String::new());
        add(
            0,
            format!("{} ({}{only}): {}", entry.name, kind(entry), entry.summary),
        );
        add(4, entry.citation.to_owned());
        add(
            4,
            format!(
                "time: {}; memory: {} bytes an object",
                entry.complexity, entry.bytes_an_object
            ),
        );
        for p in entry.parameters {
            add(4, format!("{}: {}", p.name, p.doc));
            add(8, format!("{}; default: {}", p.values, p.default));
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// The width of the text in columns.
const WIDTH: usize = 100;

/// Wraps a paragraph. Its first line is indented by `indent` columns, the others by four more.
fn wrapped(indent: usize, paragraph: &str) -> String {
    let mut lines = " ".repeat(indent);
    let mut column = indent;
    for word in paragraph.split(' ') {
        let length = word.chars().count();
        if column > indent && column + 1 + length > WIDTH {
            lines += "\n";
            lines += &" ".repeat(indent + 4);
            column = indent + 4;
        } else if column > indent {
            lines += " ";
            column += 1;
        }
        lines += word;
        column += length;
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_not_listed() {
        let all = entries(&[]).unwrap();
        let list: Value = serde_json::from_str(&as_json(&all)).unwrap();
        let words = as_text(&all)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        for (entry, listed) in registry().iter().zip(list.as_array().unwrap()) {
            assert_eq!(listed["name"], entry.name);
            assert_eq!(
                listed["parameters"].as_array().unwrap().len(),
                entry.parameters.len()
            );
            assert!(words.contains(entry.citation));
        }
    }

    #[test]
    fn a_line_is_wider_than_the_screen() {
        let all = entries(&[]).unwrap();
        assert_eq!(
            as_lines(&all)
                .lines()
                .filter(|line| line.starts_with("  "))
                .count(),
            all.len()
        );
        for line in as_text(&all).lines().chain(as_lines(&all).lines()) {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn one_is_asked_for_and_all_are_told() {
        let names = |names: &[&str]| {
            entries(
                &names
                    .iter()
                    .map(|name| (*name).to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let two = names(&["LRU", "filter"]).unwrap();
        assert_eq!(
            two.iter().map(|entry| entry.name).collect::<Vec<_>>(),
            ["lru", "filter"]
        );
        let unknown = names(&["lru", "mru"]).err().unwrap();
        assert!(
            unknown.code == 2 && unknown.message.contains("`mru`"),
            "{unknown}"
        );
    }
}
