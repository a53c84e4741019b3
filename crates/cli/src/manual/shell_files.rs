//! `larder completions` and `larder man`: what a package gives to shells and to man, made of the
//! program's own help.

use crate::failure::Failure;
use crate::output::line;
use clap::builder::{PossibleValuesParser, Resettable};
use clap::{Args, Command};
use clap_complete::Shell;
use larder_forwarder::strategy::StrategyRegistry;
use larder_policy::registry;
use larder_replay::{Format, FormatRegistry};
use larder_units::system_message;
use std::path::{Path, PathBuf};

/// The name of the program.
const LARDER: &str = "larder";

/// Print completions of commands and options for a shell
///
/// Packages install them. By hand, for this user:
///
///   larder completions bash > ~/.local/share/bash-completion/completions/larder
///   larder completions zsh > DIR/_larder        (DIR is in $fpath)
///   larder completions fish > ~/.config/fish/completions/larder.fish
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct CompletionsArgs {
    /// Shell
    shell: Shell,
}

/// Write the manual pages
///
/// Writes larder.1, and a page for each command, such as larder-run.1. Packages install them;
/// `man -l DIR/larder.1` reads one that is not installed.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// Directory, which is created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints the completions of the program with these commands.
pub fn completions(args: &CompletionsArgs, program: Command) {
    let mut program = with_names(program);
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, LARDER, &mut script);
    line!("{}", String::from_utf8_lossy(&script).trim_end());
}

/// Gives arguments for policies, strategies and formats the names that shells complete. The program
/// itself takes more: specs with parameters, and lists.
fn with_names(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let Some(names) = names_for(arg.get_id().as_str()) else {
            return arg;
        };
        if !arg.get_action().takes_values() || !arg.get_possible_values().is_empty() {
            return arg;
        }
        // A default may be more than a name, and completions do not need it.
        let arg = arg.default_value(Resettable::Reset);
        arg.value_parser(PossibleValuesParser::new(names))
    });
    command.mut_subcommands(with_names)
}

/// Returns the names that an argument with this name takes.
fn names_for(argument: &str) -> Option<Vec<&'static str>> {
    match argument {
        "policy" => Some(registry().iter().map(|entry| entry.name).collect()),
        "strategy" => Some(StrategyRegistry::installed().names().collect()),
        "format" => Some(
            FormatRegistry::installed()
                .iter()
                .map(Format::name)
                .collect(),
        ),
        _ => None,
    }
}

/// Gives each command its usage as `--help` prints it. What clap_mangen makes itself lists all
/// options without their values.
fn with_usage(mut command: Command) -> Command {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    command.mut_subcommands(with_usage).override_usage(usage)
}

/// Writes the pages of the program with these commands.
pub fn manual(args: &ManArgs, program: Command) -> Result<(), Failure> {
    let directory = &args.directory;
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let program = with_usage(program);
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(program, directory))
        .and_then(|()| name_examples(directory))
        .map_err(|error| {
            Failure::usage(format!(
                "{}: {}",
                directory.display(),
                system_message(&error)
            ))
        })
}

/// Gives the text after the options, which clap calls extra, the heading that readers of manual
/// pages look for. The directory may have pages of other programs.
fn name_examples(directory: &Path) -> std::io::Result<()> {
    for page in std::fs::read_dir(directory)? {
        let path = page?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == "larder.1" || (name.starts_with("larder-") && name.ends_with(".1")) {
            let text = std::fs::read_to_string(&path)?;
            let named = text.replace(".SH EXTRA\nExample: ", ".SH EXAMPLES\n");
            std::fs::write(&path, named.replace(".SH EXTRA\n", ".SH NOTES\n"))?;
        }
    }
    Ok(())
}
