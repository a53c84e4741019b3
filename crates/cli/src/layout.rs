//! The arguments that say how a trace file is read. Every command that reads traces has them.

use crate::failure::Failure;
use crate::trace_file::{self, is_standard_input, shown};
use clap::{Args, ValueEnum};
use larder_replay::{
    BadLines, ColumnNames, ColumnNamesError, Format, FormatError, FormatRegistry, LogFormat,
    LogFormatError, LogOptions, ReadOptions, Trace, UrlPattern,
};
use larder_units::parse_duration;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::str::FromStr;

/// The arguments; empty if the file itself tells its layout.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    // The help lists the registered formats.
    #[arg(long, help = format_help(), help_heading = HEADING)]
    format: Option<String>,

    /// Columns of a table, as names or numbers from 1: id=key, and time= and size= if it has them.
    /// The names are in the first line, or in each line of JSON
    #[arg(long, value_name = "time=…,id=…,size=…", conflicts_with = "format", help_heading = HEADING)]
    columns: Option<String>,

    // The help lists the known formats.
    #[arg(long, value_name = "NAME|PATTERN", help = log_format_help(), conflicts_with_all = ["format", "columns"], help_heading = HEADING)]
    #[serde(default)]
    log_format: Option<String>,

    /// Host of a log's requests whose lines name none
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    #[serde(default)]
    host: Option<String>,

    /// The same, from the name of each file: a.example-access.log.1.gz is of a.example
    #[arg(long, value_enum, value_name = "filename", conflicts_with = "host", help_heading = HEADING)]
    #[serde(default)]
    host_from: Option<HostFrom>,

    /// Unit of times that are numbers: s, ms, us or ns [default: by their size, or seconds]
    #[arg(long, value_name = "UNIT", help_heading = HEADING)]
    #[serde(default)]
    time_unit: Option<String>,

    /// URLs of a log whose responses no cache stores: /api/* or a.example/*.php, with * for any
    /// text. Several are separated by commas
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',', help_heading = HEADING)]
    #[serde(default)]
    uncacheable: Vec<String>,

    /// Time for which a copy of an object is fresh, such as 10min: a later request needs another
    /// copy [default: for ever]
    #[arg(long, value_name = "DURATION", help_heading = HEADING)]
    #[serde(default)]
    ttl: Option<String>,

    /// Count the writes of block traces too
    #[arg(long, help_heading = HEADING)]
    #[serde(default)]
    writes: bool,

    /// Largest share of bad lines, which are skipped and counted. Up to ten bad lines are skipped
    /// in any case [default: 1%]
    #[arg(long, value_name = "SHARE", help_heading = HEADING)]
    #[serde(default)]
    max_bad: Option<String>,

    /// End at the first bad line
    #[arg(long, conflicts_with = "max_bad", help_heading = HEADING)]
    #[serde(default)]
    strict: bool,
}

/// Where the host of a log comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum HostFrom {
    /// The name of the log's file.
    Filename,
}

const HEADING: &str = "How to read the trace";

/// The largest share of bad lines by default.
const MAX_BAD: &str = "1%";

impl Layout {
    /// Opens the trace at `path`; `-` is standard input.
    ///
    /// # Errors
    /// If the arguments name no layout, or the file cannot be read or recognised.
    pub fn open(&self, path: &Path) -> Result<Trace, Failure> {
        let options = self.options(path)?;
        let trace = if is_standard_input(path) {
            Trace::read_with(io::stdin(), &shown(path), &options)
        } else {
            Trace::open_with(path, &options)
        };
        trace.map_err(|error| Failure::usage(error.to_string()))
    }

    /// As [`Layout::open`], but a web server's log is read once; see [`Trace::open_once`].
    ///
    /// # Errors
    /// As [`Layout::open`].
    pub fn open_once(&self, path: &Path) -> Result<Trace, Failure> {
        if is_standard_input(path) {
            return self.open(path);
        }
        Trace::open_once(path, &self.options(path)?)
            .map_err(|error| Failure::usage(error.to_string()))
    }

    /// Returns whether copies of an object are fresh for a while only.
    pub fn has_lifetime(&self) -> bool {
        self.ttl.is_some()
    }

    /// Returns how the trace at `path` is read.
    fn options(&self, path: &Path) -> Result<ReadOptions, Failure> {
        let bad_lines = if self.strict {
            None
        } else {
            Some(BadLines {
                most: parsed("--max-bad", self.max_bad.as_deref().unwrap_or(MAX_BAD))?,
            })
        };
        let log_format: Result<Option<LogFormat>, LogFormatError> =
            self.log_format.as_deref().map(str::parse).transpose();
        let host = match self.host_from {
            Some(HostFrom::Filename) => Some(host_of(&trace_file::name(path))),
            None => self.host.clone(),
        };
        let time_unit = self.time_unit.as_deref();
        let lifetime = self.ttl.as_deref().map(parse_duration).transpose();
        Ok(ReadOptions {
            format: self.format()?,
            columns: self.names()?,
            bad_lines,
            log: LogOptions {
                format: log_format
                    .map_err(|error| Failure::usage(format!("--log-format: {error}")))?
                    .map(|format| format.name().to_owned()),
                host,
                time_unit: time_unit
                    .map(|unit| parsed("--time-unit", unit))
                    .transpose()?,
                uncacheable: self
                    .uncacheable
                    .iter()
                    .map(|text| UrlPattern::new(text))
                    .collect(),
                writes: self.writes,
            },
            lifetime: lifetime.map_err(|error| Failure::usage(format!("--ttl: {error}")))?,
        })
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

fn log_format_help() -> String {
    let names: Vec<&str> = LogFormat::known().iter().map(|(name, _)| *name).collect();
    format!(
        "Format of a log's lines: {}; or a pattern of nginx, Apache or goaccess, such as '$host [$time_local] \"$request\" $status $bytes_sent' [default: by the first lines]",
        names.join(", ")
    )
}

/// Reads the value of a flag.
fn parsed<T: FromStr<Err: Display>>(flag: &str, text: &str) -> Result<T, Failure> {
    text.parse()
        .map_err(|error| Failure::usage(format!("{flag}: {error}")))
}

/// Returns the site that a log's name tells: the name without the ends of rotation, compression and
/// logs.
fn host_of(file: &str) -> String {
    let mut name = file;
    loop {
        let trimmed = name.trim_end_matches(|letter: char| {
            letter.is_ascii_digit() || matches!(letter, '.' | '-' | '_')
        });
        let ends = [
            ".gz", ".zst", ".xz", ".bz2", ".zip", ".log", ".txt", ".json", ".access", "-access",
            "_access", ".ssl", "-ssl", "_ssl", ".old",
        ];
        let cut = ends.iter().find_map(|end| trimmed.strip_suffix(end));
        match cut {
            Some(cut) if !cut.is_empty() => name = cut,
            // The digits at the end of a name that is left are its own.
            _ => return name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: the files of one site have several hosts, or two sites have one.
    #[test]
    fn a_file_is_of_another_site() {
        for (file, host) in [
            ("a.example.log", "a.example"),
            ("a.example-access.log.1.gz", "a.example"),
            ("a.example_access.log-20251010.gz", "a.example"),
            ("a.example_ssl_access.log", "a.example"),
            ("a.example.access.log.2025-10-10", "a.example"),
            ("shop2.log", "shop2"),
            ("access.log", "access"),
        ] {
            assert_eq!(host_of(file), host, "{file}");
        }
    }
}
