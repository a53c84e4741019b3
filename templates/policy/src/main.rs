//! `larder` with one more policy: every command, configuration and scenario knows it by its name.

use larder_cli::Registries;
use std::error::Error;
use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut registries = Registries::builtin();
    registries.policies = registries.policies.register(&policy::ENTRY)?;
    Ok(larder_cli::run(registries))
}
