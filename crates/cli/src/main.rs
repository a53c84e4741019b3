//! The program `larder`: the command line of the library, with the built-in parts.

use std::process::ExitCode;

fn main() -> ExitCode {
    larder_cli::run(larder_cli::Registries::builtin())
}
