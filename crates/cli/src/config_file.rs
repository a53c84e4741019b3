//! The configuration file as an argument of the commands that are about a file: `larder run`,
//! `doctor`, `rules explain` and `fleet init` take `FILE` as well as `--config FILE`, so nobody
//! needs to remember which. Commands that ask a running node take `--config` alone.

use clap::Args;
use std::path::{Path, PathBuf};

/// A configuration file that may be left out: `--config FILE`, or `FILE`.
#[derive(Args, Debug)]
pub(crate) struct ConfigFile {
    /// Configuration file (TOML) [default: the embedded configuration]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The same without the flag
    #[arg(value_name = "FILE", hide = true, conflicts_with = "config")]
    file: Option<PathBuf>,
}

impl ConfigFile {
    pub(crate) fn path(&self) -> Option<&Path> {
        self.config.as_deref().or(self.file.as_deref())
    }
}

/// A configuration file that is needed: `--config FILE`, or `FILE` after the other arguments.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct NeededConfigFile {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The same without the flag
    #[arg(value_name = "FILE", hide = true)]
    file: Option<PathBuf>,
}

impl NeededConfigFile {
    /// Returns the path. The arguments do not parse without one.
    pub(crate) fn path(&self) -> &Path {
        let path = self.config.as_deref().or(self.file.as_deref());
        path.unwrap_or(Path::new(""))
    }
}
