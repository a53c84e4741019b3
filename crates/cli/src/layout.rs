//! The arguments that say how a trace file is read. Every command that reads traces has them.

use crate::failure::Failure;
use crate::trace_file::{is_standard_input, shown};
use clap::Args;
use larder_replay::{ColumnNames, ColumnNamesError, Format, FormatError, FormatRegistry, Trace};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// The arguments; empty if the file itself tells its layout.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    // The help lists the registered formats.
    #[arg(long, help = format_help())]
    format: Option<String>,

    /// Columns of a table, as names or numbers from 1: id=key, and time= and size= if it has them.
    /// The names are in the first line, or in each line of JSON
    #[arg(long, value_name = "time=…,id=…,size=…", conflicts_with = "format")]
    columns: Option<String>,
}

impl Layout {
    /// Opens the trace at `path`; `-` is standard input.
    ///
    /// # Errors
    /// If the arguments name no layout, or the file cannot be read or recognised.
    pub fn open(&self, path: &Path) -> Result<Trace, Failure> {
        let trace = match self.names()? {
            Some(names) if is_standard_input(path) => {
                Trace::read_columns(io::stdin(), &shown(path), names)
            }
            Some(names) => Trace::open_columns(path, names),
            None if is_standard_input(path) => {
                Trace::read(io::stdin(), &shown(path), self.format()?)
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
            None if !is_standard_input(path) => Trace::open_once(path, self.format()?)
                .map_err(|error| Failure::usage(error.to_string())),
            _ => self.open(path),
        }
    }

    fn names(&self) -> Result<Option<ColumnNames>, Failure> {
        let names = self.columns.as_deref().map(str::parse).transpose();
        names.map_err(|error: ColumnNamesError| Failure::usage(error.to_string()))
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
    let names: Vec<&str> = FormatRegistry::installed()
        .iter()
        .map(Format::name)
        .collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    format!(
        "Format of the trace: {} or {last} [default: from name and content]",
        others.join(", ")
    )
}
