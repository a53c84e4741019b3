//! `larder reference`: pages of `docs/reference` that are made of the program itself.

use crate::output::line;
use clap::{Args, Command, ValueEnum};
use larder_forwarder::strategy::{StrategyEntry, StrategyRegistry};
use larder_policy::{Kind, Parameter, PolicyEntry, Registry};
use larder_proxy::access_log;
use std::fmt::Write;

/// The columns of a line of text.
const COLUMNS: usize = 100;

/// Print a page of the reference as Markdown
///
/// The pages of docs/reference that are made of the program. `larder run --print-reference` prints
/// the page of all configuration keys.
#[derive(Args, Debug)]
pub struct ReferenceArgs {
    /// Page
    page: Page,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Page {
    /// All commands with their options
    CommandLine,
    /// All cache policies with their parameters
    Policies,
    /// All forwarding strategies with their parameters
    Strategies,
    /// All variables of the access log
    AccessLog,
}

/// Prints a page of the program with these commands.
pub fn run(args: &ReferenceArgs, program: Command) {
    let policies = larder_policy::registry();
    line!(
        "{}",
        page(args.page, program, policies, StrategyRegistry::installed()).trim_end()
    );
}

fn page(
    page: Page,
    program: Command,
    policies: &Registry,
    strategies: &StrategyRegistry,
) -> String {
    match page {
        Page::CommandLine => command_line(program),
        Page::Policies => all_policies(policies),
        Page::Strategies => all_strategies(strategies),
        Page::AccessLog => log_variables(),
    }
}

/// Returns the page of all commands.
fn command_line(mut program: Command) -> String {
    program.build();
    let mut text = String::from(
        "# Command line\n\n\
         This page lists all commands of `larder` with their options, for HTTP and for\n\
         [Named Data Networking](https://named-data.net/) (NDN).\n\n`larder COMMAND --help` prints \
         the same. The page is made of the program: `larder reference command-line` writes it.\n",
    );
    text = wrapped(&text);
    for command in commands(&program) {
        add_command(&mut text, command, "larder");
    }
    text
}

fn commands(command: &Command) -> impl Iterator<Item = &Command> {
    let commands = command.get_subcommands();
    commands.filter(|command| command.get_name() != "help" && !command.is_hide_set())
}

/// Adds a command and those below it.
fn add_command(text: &mut String, command: &Command, parent: &str) {
    let name = format!("{parent} {}", command.get_name());
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n## {name}\n");
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(text, "{}", described(&about));
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    let usage: Vec<&str> = usage.lines().map(str::trim).collect();
    let _ = writeln!(text, "\n```text\n{}\n```", usage.join("\n"));
    let rows: Vec<String> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && argument.get_id() != "help")
        .map(row)
        .collect();
    if !rows.is_empty() {
        let _ = writeln!(
            text,
            "\n| argument | meaning |\n| --- | --- |\n{}",
            rows.join("\n")
        );
    }
    for below in commands(command) {
        add_command(text, below, &name);
    }
}

/// Returns a description: its paragraphs, and its examples as code.
fn described(about: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for paragraph in about.split("\n\n") {
        let is_code = paragraph.lines().all(|line| line.starts_with("  "));
        parts.push(if is_code {
            let lines: Vec<&str> = paragraph.lines().map(|line| &line[2..]).collect();
            format!("```text\n{}\n```", lines.join("\n"))
        } else {
            wrapped(&escaped(&one_line(paragraph)))
        });
    }
    parts.join("\n\n")
}

/// Returns the row of an argument.
fn row(argument: &clap::Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let mut meaning = one_line(&help);
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    let takes_value = argument.get_action().takes_values();
    if takes_value && !values.is_empty() && !argument.is_hide_possible_values_set() {
        let _ = write!(meaning, " [values: {}]", values.join(", "));
    }
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    if takes_value && !defaults.is_empty() && !argument.is_hide_default_value_set() {
        let _ = write!(meaning, " [default: {}]", defaults.join(" "));
    }
    let shown = argument.to_string();
    let shown = match argument.get_short() {
        Some(short) if argument.get_long().is_some() => format!("-{short}, {shown}"),
        _ => shown,
    };
    format!(
        "| `{}` | {} |",
        cell(&shown),
        cell(&escaped(meaning.trim()))
    )
}

/// Returns the page of all policies.
fn all_policies(registry: &Registry) -> String {
    let mut text = wrapped(
        "# Cache policies\n\nThis page lists the policies that a cache can run, with their sources, \
         costs and parameters.\n\nThe HTTP cache runs one (`[http] policy`), and the Content Store of\n\
         [Named Data Networking](https://named-data.net/) (NDN) another (`[ndn] policy`). \
         A policy is a spec: admission stages and one eviction, joined by `+`, such as \
         `filter(theta=2)+lru`. `larder replay`, the simulator and Python read the same specs. \
         Those that know the future run in the replayer only. The page is made of the program: \
         `larder reference policies` writes it.\n",
    );
    let kinds = [(Kind::Admission, "Admission"), (Kind::Eviction, "Eviction")];
    for (kind, title) in kinds {
        let _ = writeln!(text, "\n## {title}\n\n| name | |\n| --- | --- |");
        let entries = || registry.iter().filter(|entry| entry.kind() == kind);
        for entry in entries() {
            let _ = writeln!(
                text,
                "| [`{0}`](#{0}) | {1} |",
                entry.name,
                cell(&escaped(entry.summary))
            );
        }
        for entry in entries() {
            add_policy(&mut text, entry);
        }
    }
    text
}

fn add_policy(text: &mut String, entry: &PolicyEntry) {
    let _ = writeln!(text, "\n### {}\n", entry.name);
    let only = if entry.is_offline() {
        " It runs in the replayer only."
    } else {
        ""
    };
    let about = format!(
        "{}.{only} Source: {}.",
        capital(entry.summary),
        entry.citation
    );
    let _ = writeln!(text, "{}\n", wrapped(&escaped(&about)));
    let cost = format!(
        "Time: {}. Memory: {} bytes an object.",
        entry.complexity, entry.bytes_an_object
    );
    let _ = writeln!(text, "{}", wrapped(&escaped(&cost)));
    if entry.parameters.is_empty() {
        return;
    }
    text.push_str("\n| parameter | values | default | meaning |\n| --- | --- | --- | --- |\n");
    for Parameter {
        name,
        values,
        default,
        doc,
        ..
    } in entry.parameters
    {
        let (values, default) = (values.to_string(), default.to_string());
        let cells = [values.as_str(), default.as_str(), doc].map(|text| cell(&escaped(text)));
        let _ = writeln!(text, "| `{name}` | {} |", cells.join(" | "));
    }
}

/// Returns the page of all forwarding strategies.
fn all_strategies(registry: &StrategyRegistry) -> String {
    let mut text = wrapped(
        "# Forwarding strategies\n\nThis page lists the strategies that choose the next hops of an \
         Interest, with their parameters.\n\nA prefix of \
         [Named Data Networking](https://named-data.net/) (NDN) has the strategy of its longest \
         prefix with one: `[[ndn.strategy]]`, `larder ctl strategy set PREFIX NAME`, or NFD's \
         management protocol. Parameters follow the version: \
         `/localhost/nfd/strategy/asf/v=5/max-timeouts~5`. All strategies have those of the last \
         section. The page is made of the program: `larder reference strategies` writes it.\n",
    );
    for entry in registry.entries() {
        add_strategy(&mut text, entry);
    }
    text.push_str("\n## Repeated Interests\n\n| parameter | values | default | meaning |\n| --- | --- | --- | --- |\n");
    for (name, values, default, doc) in [
        (
            "initial",
            "milliseconds",
            "10",
            "how long a repetition waits after the first sending",
        ),
        ("max", "milliseconds", "250", "the longest wait"),
        (
            "multiplier",
            "1 to 1000",
            "2",
            "what each repetition multiplies the wait by",
        ),
    ] {
        let _ = writeln!(
            text,
            "| `retx-suppression-{name}` | {values} | {default} | {doc} |"
        );
    }
    text
}

fn add_strategy(text: &mut String, entry: &StrategyEntry) {
    let _ = writeln!(text, "\n## {}\n", entry.name);
    let about = format!(
        "It {}. Its name in NFD's protocol: `/localhost/nfd/strategy/{}/v={}`.",
        entry.summary, entry.name, entry.version
    );
    let _ = writeln!(text, "{}", wrapped(&about));
    if entry.parameters.is_empty() {
        return;
    }
    text.push_str("\n| parameter | values | default | meaning |\n| --- | --- | --- | --- |\n");
    for parameter in entry.parameters {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            parameter.name, parameter.values, parameter.default, parameter.doc
        );
    }
}

/// Returns the page of the variables of the access log.
fn log_variables() -> String {
    let mut text = wrapped(
        "# Access log\n\nThis page lists the variables that a format of the access log may name.\n\n\
         `[http.access_log] format` is `combined`, `json`, or a text with these variables, as those \
         of nginx. [configuration.md](configuration.md#httpaccess_log) has the other keys. The page \
         is made of the program: `larder reference access-log` writes it.\n",
    );
    text.push_str("\n| variable | meaning |\n| --- | --- |\n");
    for (_, name, meaning) in access_log::NAMES {
        let _ = writeln!(text, "| `${name}` | {} |", cell(&escaped(meaning)));
    }
    text.push_str(
        "| `$http_NAME` | The field NAME of the request, such as `$http_user_agent`. |\n",
    );
    text.push_str("| `$sent_http_NAME` | The field NAME of the response. |\n");
    text
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns text that a cell of a table may have.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Returns text in which Markdown finds no marks outside of code.
fn escaped(text: &str) -> String {
    let mut parts = Vec::new();
    for (number, part) in text.split('`').enumerate() {
        let is_code = number % 2 == 1;
        parts.push(if is_code {
            part.to_owned()
        } else {
            part.replace('*', "\\*")
                .replace('<', "\\<")
                .replace('[', "\\[")
        });
    }
    parts.join("`")
}

/// Returns the text with a capital first letter, unless that begins a name.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// Breaks the lines of paragraphs.
fn wrapped(text: &str) -> String {
    let mut lines = Vec::new();
    for paragraph in text.trim_end_matches('\n').split('\n') {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > COLUMNS {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    let mut text_of_lines = lines.join("\n");
    if text.ends_with('\n') {
        text_of_lines.push('\n');
    }
    text_of_lines
}
