//! Rows that earlier runs have finished: JSON lines, each a row and all that it depends on.
//!
//! A row is written by one call when it is finished, so a run that is killed loses what was not
//! finished, and at most leaves a torn last line, which the next run cuts off. A row counts as the
//! same where Larder's version, the trace's file (name, length, time of change, a sample of its
//! bytes) and every argument are.

use super::source::Identity;
use crate::failure::Failure;
use crate::layout::Layout;
use larder_replay::Row;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Bytes of such a file: a hundred thousand rows. More is no file of ours.
const MAX_BYTES: u64 = 64 << 20;

/// All that a row depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Larder's.
    pub version: String,
    pub trace: Identity,
    #[serde(flatten)]
    pub layout: Layout,
    pub policy: String,
    /// As it was given: a share needs no reading of the trace to be known again.
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

/// The file, open for this run alone.
pub struct Finished {
    path: PathBuf,
    file: File,
    lines: Vec<Line>,
}

impl Finished {
    /// Opens the file at `path`, or makes it.
    ///
    /// # Errors
    /// Where it cannot be, another run has it, or it holds anything else than such rows.
    pub fn open(path: &Path) -> Result<Finished, Failure> {
        let failed = |problem: String| Failure::usage(format!("{}: {problem}", path.display()));
        let said = |error: std::io::Error| failed(larder_units::system_message(&error));
        let file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(said)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => failed("another larder replay is writing it; give each its own".to_owned()),
            TryLockError::Error(error) => said(error),
        })?;
        let mut text = Vec::new();
        (&file).take(MAX_BYTES + 1).read_to_end(&mut text).map_err(said)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(failed(format!("more than {MAX_BYTES} bytes; begin another file")));
        }
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let torn = &text[whole..];
        let mut lines: Vec<Line> = Vec::new();
        for (number, line) in
            text[..whole].split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty())
        {
            let fault = |error| failed(format!("line {}: {}", number + 1, fault(line, &error)));
            lines.push(serde_json::from_slice(line).map_err(fault)?);
        }
        if !torn.is_empty() {
            if !is_ours(torn, !lines.is_empty()) {
                return Err(failed("the last line is not a row of larder replay; give another file".to_owned()));
            }
            file.set_len(whole as u64).map_err(said)?;
        }
        Ok(Finished { path: path.to_owned(), file, lines })
    }

    /// The row of `run`, if it is finished.
    pub fn row(&self, run: &Run) -> Option<Row> {
        self.lines.iter().find(|line| line.run == *run).map(|line| line.row.clone())
    }

    /// `run` is finished with `row`.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn add(&mut self, run: &Run, row: &Row) -> Result<(), Failure> {
        let failed = |problem: String| Failure::runtime(format!("{}: {problem}", self.path.display()));
        let line = Line { row: row.clone(), run: run.clone() };
        let text = serde_json::to_string(&line).map_err(|error| failed(error.to_string()))? + "\n";
        self.file.write_all(text.as_bytes()).map_err(|error| failed(larder_units::system_message(&error)))?;
        self.lines.push(line);
        Ok(())
    }
}

/// Why a line is no row, and the way out: another version's row would be computed again in any
/// case.
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

/// Whether `torn` is the beginning of one of our rows, and not of somebody's line: what stands
/// `below_rows` of ours may be short.
fn is_ours(torn: &[u8], below_rows: bool) -> bool {
    let (first, second) = (&b"{\"trace\":\""[..], &b"\",\"policy\":\""[..]);
    match below_rows {
        true => torn.starts_with(first) || first.starts_with(torn),
        false => torn.starts_with(first) && torn.windows(second.len()).any(|part| part == second),
    }
}
