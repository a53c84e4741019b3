//! The rows that earlier runs have finished: JSON lines, each with a row and everything that it
//! depends on.
//!
//! One call writes a row when it is finished. A killed run loses the unfinished rows and leaves at
//! most an incomplete last line, which the next run removes. A stored row is used if Larder's
//! version, the trace's file (name, length, time of change, a sample of its bytes) and all
//! arguments are the same.

use super::source::Identity;
use crate::failure::Failure;
use crate::layout::Layout;
use larder_replay::Row;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The most bytes of such a file, for a hundred thousand rows. A longer file has another origin.
const MAX_BYTES: u64 = 64 << 20;

/// Everything that a row depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Larder's version.
    pub version: String,
    pub trace: Identity,
    #[serde(flatten)]
    pub layout: Layout,
    pub policy: String,
    /// The size as typed. A share can be compared without reading the trace.
    pub size: String,
    pub seed: u64,
    pub fill: bool,
    pub limit: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    row: Row,
    run: Run,
}

/// The file, which only this run has open.
pub struct Finished {
    path: PathBuf,
    file: File,
    lines: Vec<Line>,
}

impl Finished {
    /// Opens the file at `path`, or creates it.
    ///
    /// # Errors
    /// If it cannot be opened or created, if another run uses it, or if it contains anything else
    /// than rows.
    pub fn open(path: &Path) -> Result<Finished, Failure> {
        let failed = |problem: String| Failure::usage(format!("{}: {problem}", path.display()));
        let io_failed = |error: std::io::Error| failed(larder_units::system_message(&error));
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(io_failed)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                failed("another larder replay is writing it; give each its own".to_owned())
            }
            TryLockError::Error(error) => io_failed(error),
        })?;
        let mut text = Vec::new();
        (&file)
            .take(MAX_BYTES + 1)
            .read_to_end(&mut text)
            .map_err(io_failed)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(failed(format!(
                "more than {MAX_BYTES} bytes; begin another file"
            )));
        }
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        let torn = &text[whole..];
        let mut lines: Vec<Line> = Vec::new();
        for (number, line) in text[..whole]
            .split(|byte| *byte == b'\n')
            .enumerate()
            .filter(|(_, line)| !line.is_empty())
        {
            let fault = |error| failed(format!("line {}: {}", number + 1, fault(line, &error)));
            lines.push(serde_json::from_slice(line).map_err(fault)?);
        }
        if !torn.is_empty() {
            if !is_ours(torn, !lines.is_empty()) {
                return Err(failed(
                    "the last line is not a row of larder replay; give another file".to_owned(),
                ));
            }
            file.set_len(whole as u64).map_err(io_failed)?;
        }
        Ok(Finished {
            path: path.to_owned(),
            file,
            lines,
        })
    }

    /// Returns the row of `run`, if it is finished.
    pub fn row(&self, run: &Run) -> Option<Row> {
        self.lines
            .iter()
            .find(|line| line.run == *run)
            .map(|line| line.row.clone())
    }

    /// Stores the row of `run`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, run: &Run, row: &Row) -> Result<(), Failure> {
        let failed =
            |problem: String| Failure::runtime(format!("{}: {problem}", self.path.display()));
        let line = Line {
            row: row.clone(),
            run: run.clone(),
        };
        let text = serde_json::to_string(&line).map_err(|error| failed(error.to_string()))? + "\n";
        self.file
            .write_all(text.as_bytes())
            .map_err(|error| failed(larder_units::system_message(&error)))?;
        self.lines.push(line);
        Ok(())
    }
}

/// Returns why a line is not a row, with the remedy. A row of another version would be computed
/// again in any case.
fn fault(line: &[u8], error: &serde_json::Error) -> String {
    let line: Value = serde_json::from_slice(line).unwrap_or_default();
    let Some(version) = line.pointer("/run/version").and_then(Value::as_str) else {
        return "not a row of larder replay; give another file".to_owned();
    };
    let version: String = version.chars().take(20).collect();
    let error = error.to_string();
    let lack = error.split(" at line ").next().unwrap_or_default();
    format!(
        "a row of another build of larder replay, {}: {lack}; give a new file, its rows have to be computed again",
        version.escape_debug()
    )
}

/// Returns true if the incomplete last line `torn` is the start of a row and not a line of another
/// origin. `below_rows` says that rows precede it; then it may be short.
fn is_ours(torn: &[u8], below_rows: bool) -> bool {
    let (first, second) = (&b"{\"trace\":\""[..], &b"\",\"policy\":\""[..]);
    if below_rows {
        torn.starts_with(first) || first.starts_with(torn)
    } else {
        torn.starts_with(first) && torn.windows(second.len()).any(|part| part == second)
    }
}
