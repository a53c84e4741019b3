//! The finished rows of an experiment, so that a late failure does not lose an hour's work, and no
//! work is done twice.
//!
//! A row has a key: a text with everything that it depends on. Two experiments that share a row
//! compute it once. With a file (JSON lines, one row per line, written by one call when the row is
//! finished), the next run can continue where the last one ended. The key contains the program's
//! version and its file's length and time, because another build may have another policy. Another
//! build computes its own rows.
//!
//! A row also has the time since the row before it, or since the start of its experiment. The sum
//! of these times is about the duration of the work, although rows are computed side by side. A
//! resumed experiment reports it.

use crate::Error;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The most bytes of such a file, for about ten thousand of the longest rows. A longer file has
/// another origin.
const MAX_BYTES: u64 = 64 << 20;

/// Finished rows.
#[derive(Debug, Default)]
pub struct Rows {
    finished: Mutex<Finished>,
    file: Option<(PathBuf, File)>,
    /// Identifies the program. It precedes each key.
    program: String,
}

#[derive(Debug, Default)]
struct Finished {
    rows: HashMap<String, FinishedRow>,
    /// The time of the last finished row, or of the start of the experiment.
    last: Option<Instant>,
    /// The time of the earlier run's rows since [`Rows::take_resumed`], s.
    resumed: f64,
    /// The keys that were added since [`Rows::begin`].
    added: Vec<String>,
    /// True if something was measured since then: a row, or what no row has.
    has_measured: bool,
    /// True if a row of an earlier run was returned since then.
    has_resumed: bool,
    /// True if a row of this run was returned since then.
    has_shared: bool,
    /// A row that is stored before the first one of the experiment.
    pending: Option<Line>,
}

#[derive(Debug)]
struct FinishedRow {
    row: Value,
    /// True if an earlier run has added it.
    is_earlier: bool,
    /// The time of an earlier run's row that nobody has asked for yet, s.
    seconds: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    key: String,
    row: Value,
    /// Wall time since the row before it, s.
    #[serde(default)]
    seconds: f64,
}

impl Rows {
    /// Opens rows that are also stored in the file at `path`. With `resume`, the rows of an earlier
    /// run in this file count as finished. Otherwise they are moved to `path.old`.
    ///
    /// # Errors
    /// [`Error`] if the file cannot be opened, if another run uses it, or if it contains anything
    /// else than rows. An incomplete last line is removed.
    pub fn open(path: &Path, resume: bool) -> Result<Rows, Error> {
        let failed = |problem: String| Error(format!("{}: {problem}", path.display()));
        let io_failed = |error: std::io::Error| failed(error.to_string());
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(io_failed)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                failed("another reproduction is writing it; give each its own directory".to_owned())
            }
            TryLockError::Error(error) => io_failed(error),
        })?;
        let mut text = Vec::new();
        if !resume && file.metadata().map_err(io_failed)?.len() > 0 {
            std::fs::copy(path, path.with_added_extension("old")).map_err(io_failed)?;
        }
        if resume {
            (&file)
                .take(MAX_BYTES + 1)
                .read_to_end(&mut text)
                .map_err(io_failed)?;
        }
        if text.len() as u64 > MAX_BYTES {
            return Err(failed(format!(
                "more than {MAX_BYTES} bytes; start again without --resume"
            )));
        }
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        file.set_len(whole as u64).map_err(io_failed)?;
        let mut rows = HashMap::new();
        for (number, line) in text[..whole]
            .split(|byte| *byte == b'\n')
            .enumerate()
            .filter(|(_, line)| !line.is_empty())
        {
            let problem = |_| {
                failed(format!(
                    "line {}: not a finished row; start again without --resume",
                    number + 1
                ))
            };
            let Line { key, row, seconds } = serde_json::from_slice(line).map_err(problem)?;
            match row {
                Value::Null => rows.remove(&key),
                row => rows.insert(
                    key,
                    FinishedRow {
                        row,
                        is_earlier: true,
                        seconds,
                    },
                ),
            };
        }
        Ok(Rows {
            finished: Mutex::new(Finished {
                rows,
                last: Some(Instant::now()),
                ..Finished::default()
            }),
            file: Some((path.to_owned(), file)),
            program: program().map_err(io_failed)?,
        })
    }

    /// Returns the row of this key, if it is finished.
    pub(crate) fn get<Row: DeserializeOwned>(&self, key: &str) -> Option<Row> {
        let mut finished = self.finished();
        let FinishedRow {
            row,
            is_earlier,
            seconds,
        } = finished.rows.get_mut(&self.of_program(key))?;
        let row = serde_json::from_value(row.clone()).ok()?;
        let (is_earlier, seconds) = (*is_earlier, std::mem::take(seconds));
        finished.has_resumed |= is_earlier;
        finished.has_shared |= !is_earlier;
        finished.resumed += seconds;
        Some(row)
    }

    /// Returns the row of this key, if it is finished, and does not count it as resumed.
    pub(crate) fn peek<Row: DeserializeOwned>(&self, key: &str) -> Option<Row> {
        let finished = self.finished();
        serde_json::from_value(finished.rows.get(&self.of_program(key))?.row.clone()).ok()
    }

    /// Returns the time of an earlier run's rows that were returned since the last call. The time
    /// of the next row starts here.
    pub(crate) fn take_resumed(&self) -> Duration {
        let mut finished = self.finished();
        finished.last = Some(Instant::now());
        Duration::try_from_secs_f64(std::mem::take(&mut finished.resumed)).unwrap_or_default()
    }

    /// Stores a finished row.
    pub(crate) fn add<Row: Serialize>(&self, key: &str, row: &Row) -> Result<(), Error> {
        let key = self.of_program(key);
        let row =
            serde_json::to_value(row).map_err(|error| Error(format!("row {key}: {error}")))?;
        let mut finished = self.finished();
        let now = Instant::now();
        let seconds = finished
            .last
            .replace(now)
            .map_or(0.0, |last| now.duration_since(last).as_secs_f64());
        if let Some(first) = finished.pending.take() {
            self.append(&first)?;
            finished.rows.insert(
                first.key,
                FinishedRow {
                    row: first.row,
                    is_earlier: false,
                    seconds: 0.0,
                },
            );
        }
        let line = Line { key, row, seconds };
        self.append(&line)?;
        finished.added.push(line.key.clone());
        finished.has_measured = true;
        finished.rows.insert(
            line.key,
            FinishedRow {
                row: line.row,
                is_earlier: false,
                seconds: 0.0,
            },
        );
        Ok(())
    }

    /// Says that an experiment begins. If it measures a row, the row of this key is stored before.
    pub(crate) fn begin<Row: Serialize>(&self, key: &str, row: &Row) -> Result<(), Error> {
        let key = self.of_program(key);
        let row =
            serde_json::to_value(row).map_err(|error| Error(format!("row {key}: {error}")))?;
        let mut finished = self.finished();
        finished.added.clear();
        (
            finished.has_measured,
            finished.has_resumed,
            finished.has_shared,
        ) = (false, false, false);
        finished.pending = Some(Line {
            key,
            row,
            seconds: 0.0,
        });
        Ok(())
    }

    /// Says that this experiment measures what no row has.
    pub(crate) fn measures_without_row(&self) {
        self.finished().has_measured = true;
    }

    /// Returns true if this experiment has measured something.
    pub(crate) fn has_measured(&self) -> bool {
        self.finished().has_measured
    }

    /// Returns true if this experiment has earlier runs' rows and nothing else.
    pub(crate) fn is_resumed(&self) -> bool {
        let finished = self.finished();
        finished.has_resumed && !finished.has_shared && !finished.has_measured
    }

    /// Withdraws the rows that this experiment has added. In the file, null withdraws a key.
    pub(crate) fn withdraw_added(&self) -> Result<(), Error> {
        let mut finished = self.finished();
        for key in std::mem::take(&mut finished.added) {
            finished.rows.remove(&key);
            self.append(&Line {
                key,
                row: Value::Null,
                seconds: 0.0,
            })?;
        }
        Ok(())
    }

    fn append(&self, line: &Line) -> Result<(), Error> {
        let Some((path, file)) = &self.file else {
            return Ok(());
        };
        let text = serde_json::to_string(line)
            .map_err(|error| Error(format!("row {}: {error}", line.key)))?
            + "\n";
        let mut file = file;
        file.write_all(text.as_bytes())
            .map_err(|error| Error(format!("{}: {error}", path.display())))
    }

    /// Returns the row of this key. If it is not finished, computes and stores it.
    pub(crate) fn get_or<Row: Serialize + DeserializeOwned>(
        &self,
        key: &str,
        compute: impl FnOnce() -> Result<Row, Error>,
    ) -> Result<Row, Error> {
        if let Some(finished) = self.get(key) {
            return Ok(finished);
        }
        let row = compute()?;
        self.add(key, &row).map(|()| row)
    }

    fn of_program(&self, key: &str) -> String {
        format!("{}, {key}", self.program)
    }

    /// An insertion is one call, so a panic elsewhere leaves the map complete.
    fn finished(&self) -> MutexGuard<'_, Finished> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Releases the file at once. A program that is starting has a copy of the descriptor until it
/// executes, and would hold the lock by it.
impl Drop for Rows {
    fn drop(&mut self) {
        if let Some((_, file)) = &self.file {
            _ = file.unlock();
        }
    }
}

/// Deserializes a number that may be NaN (`deserialize_with`). JSON has no NaN, and serialization
/// writes null for it.
pub(crate) fn number_or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Option::deserialize(deserializer).map(|number| number.unwrap_or(f64::NAN))
}

fn program() -> std::io::Result<String> {
    let file = std::env::current_exe()?.metadata()?;
    let built = file
        .modified()?
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Ok(format!(
        "larder {} of {} bytes and {} ns",
        env!("CARGO_PKG_VERSION"),
        file.len(),
        built.as_nanos()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_row_is_computed_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.jsonl");
        let third = 1.0 / 3.0;
        let rows = Rows::open(&path, false).unwrap();
        rows.add("a", &(third, "x")).unwrap();
        rows.add("b", &0.1).unwrap();
        assert_eq!(
            rows.get::<(f64, String)>("a"),
            Some((third, "x".to_owned()))
        );
        assert!(
            Rows::open(&path, true)
                .unwrap_err()
                .0
                .contains("another reproduction")
        );
        drop(rows);
        // The process was killed while it wrote a third row.
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.clone() + "{\"key\":\"c").unwrap();
        let rows = Rows::open(&path, true).unwrap();
        assert_eq!(
            (rows.get::<f64>("b"), rows.get::<f64>("c")),
            (Some(0.1), None)
        );
        assert!((rows.get::<(f64, String)>("a").unwrap().0 - third).abs() < 1e-15);
        assert_eq!(rows.get::<f64>("a"), None, "of another kind");
        drop(rows);
        let mut rebuilt = Rows::open(&path, true).unwrap();
        rebuilt.program.push_str(" and another");
        assert_eq!(rebuilt.get::<f64>("b"), None, "of another build");
        drop(rebuilt);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        drop(Rows::open(&path, false).unwrap());
        assert_eq!(
            std::fs::metadata(&path).unwrap().len(),
            0,
            "without --resume"
        );
        assert_eq!(
            std::fs::read_to_string(directory.path().join("rows.jsonl.old")).unwrap(),
            text,
            "an hour's work"
        );
    }

    /// Failure: an experiment that was resumed reports the time of its last run only.
    #[test]
    fn the_time_of_resumed_rows_is_lost_or_counts_twice() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.jsonl");
        let rows = Rows::open(&path, false).unwrap();
        for key in ["a", "b"] {
            rows.add(key, &1).unwrap();
        }
        assert_eq!(rows.get::<u64>("a"), Some(1));
        assert_eq!(rows.take_resumed(), Duration::ZERO, "of this run");
        drop(rows);
        let text = std::fs::read_to_string(&path).unwrap();
        let stored: f64 = text
            .lines()
            .map(|line| serde_json::from_str::<Line>(line).unwrap().seconds)
            .sum();
        assert!(stored > 0.0, "{text}");
        let rows = Rows::open(&path, true).unwrap();
        for key in ["a", "b", "a"] {
            assert_eq!(rows.get::<u64>(key), Some(1));
        }
        assert_eq!(rows.take_resumed(), Duration::from_secs_f64(stored));
        assert_eq!(rows.take_resumed(), Duration::ZERO);
    }

    #[test]
    fn a_withdrawn_row_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.jsonl");
        let rows = Rows::open(&path, false).unwrap();
        rows.add("a", &1).unwrap();
        rows.begin("first", &0).unwrap();
        assert!(!rows.has_measured());
        rows.add("b", &2).unwrap();
        assert!(rows.has_measured());
        rows.withdraw_added().unwrap();
        assert_eq!((rows.get("a"), rows.get::<u64>("b")), (Some(1), None));
        drop(rows);
        let rows = Rows::open(&path, true).unwrap();
        assert_eq!((rows.get("a"), rows.get::<u64>("b")), (Some(1), None));
    }

    #[test]
    fn a_file_of_another_origin_is_taken_for_rows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.jsonl");
        std::fs::write(&path, "1,2,3\n").unwrap();
        let error = Rows::open(&path, true).unwrap_err().0;
        assert!(error.contains("line 1") && !error.contains('\n'), "{error}");
    }
}
