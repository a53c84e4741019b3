//! The arguments that say how a trace file is read. Every command that reads traces has them.

use crate::failure::Failure;
use clap::Args;
use larder_replay::{ColumnNames, ColumnNamesError, Format, FormatError, FormatRegistry, Trace};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The arguments; empty if the file itself tells its layout.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    // The help lists the registered formats.
    #[arg(long, help = format_help())]
    format: Option<String>,

    /// Columns of a text trace, as names from its first line or numbers from 1: id=key, and time=
    /// and size= if it has them
    #[arg(long, value_name = "time=…,id=…,size=…", conflicts_with = "format")]
    columns: Option<String>,
}

impl Layout {
    /// Opens the trace at `path`.
    ///
    /// # Errors
    /// If the arguments name no layout, or the file cannot be read or recognised.
    pub fn open(&self, path: &Path) -> Result<Trace, Failure> {
        let trace = match &self.columns {
            Some(columns) => {
                let names: Result<ColumnNames, _> = columns.parse();
                let wrong = |error: ColumnNamesError| Failure::usage(error.to_string());
                Trace::open_columns(path, names.map_err(wrong)?)
            }
            None => Trace::open(path, self.format()?),
        };
        trace.map_err(|error| Failure::usage(error.to_string()))
    }

    /// As [`Layout::open`], but a web server's log is read once; see [`Trace::open_once`].
    ///
    /// # Errors
    /// As [`Layout::open`].
    pub fn open_once(&self, path: &Path) -> Result<Trace, Failure> {
        match &self.columns {
            Some(_) => self.open(path),
            None => Trace::open_once(path, self.format()?).map_err(|error| Failure::usage(error.to_string())),
        }
    }

    fn format(&self) -> Result<Option<Format>, Failure> {
        self.format
            .as_deref()
            .map(str::parse)
            .transpose()
            .map_err(|error: FormatError| Failure::usage(error.to_string()))
    }
}

fn format_help() -> String {
    let names: Vec<&str> = FormatRegistry::installed().iter().map(Format::name).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    format!("Format of the trace: {} or {last} [default: from name and content]", others.join(", "))
}
