//! Lines of bounded length, with their numbers.

use super::error::{Place, ReadError, TraceProblem, shown};
use crate::limits::MAX_LINE_BYTES;
use larder_units::Time;
use std::fmt;
use std::io::{BufRead, Read};
use std::time::Duration;

/// The byte order mark, with which some programs begin a text in UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The lines of a text trace that are not blank, with their numbers.
pub struct Lines {
    source: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    number: u64,
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Lines {
    /// Returns a reader of lines.
    pub fn new(source: Box<dyn BufRead + Send>) -> Self {
        Lines {
            source,
            line: Vec::new(),
            number: 0,
        }
    }

    /// Reads the next line that is not blank, and returns it without its end; `None` at the end of
    /// the trace. The byte order mark of a text in UTF-8 is no part of its first line.
    ///
    /// # Errors
    /// [`ReadError`] if the bytes cannot be read, or the line has more than [`MAX_LINE_BYTES`].
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, ReadError> {
        loop {
            self.line.clear();
            self.number += 1;
            let mut bounded = self.source.by_ref().take(MAX_LINE_BYTES as u64 + 1);
            let read = bounded.read_until(b'\n', &mut self.line);
            if self.number == 1 && self.line.starts_with(BYTE_ORDER_MARK) {
                self.line.drain(..BYTE_ORDER_MARK.len());
            }
            match read {
                Err(error) => return Err(self.error(TraceProblem::Io(error))),
                Ok(0) => return Ok(None),
                Ok(_) if self.line.len() > MAX_LINE_BYTES => {
                    return Err(self.error(TraceProblem::LongLine));
                }
                Ok(_) if self.line.trim_ascii().is_empty() => {}
                Ok(_) => return Ok(Some(self.line.trim_ascii_end())),
            }
        }
    }

    /// Returns the place of the last line.
    pub fn place(&self) -> Place {
        Place::Line(self.number)
    }

    /// Returns an error at the last line.
    #[cold]
    pub fn error(&self, problem: impl Into<TraceProblem>) -> ReadError {
        ReadError::new(self.place(), problem)
    }
}

/// Reads a whole number in decimal digits.
pub(super) fn whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Reads a time in whole seconds.
pub(super) fn whole_seconds(text: &[u8]) -> Result<Time, TraceProblem> {
    let seconds = whole(text).ok_or_else(|| TraceProblem::field("time in seconds", text))?;
    time_of_seconds(seconds, text)
}

/// Returns the time that is `seconds` after the trace's start; `text` says so in the trace.
pub(super) fn time_of_seconds(seconds: u64, text: &[u8]) -> Result<Time, TraceProblem> {
    let nanos = seconds.checked_mul(1_000_000_000);
    nanos
        .map(Time::from_nanos)
        .ok_or_else(|| TraceProblem::LateTime(shown(text)))
}

/// Returns the time that is `since_start` after the trace's start; `text` says so in the trace.
pub(super) fn time_of(since_start: Duration, text: &[u8]) -> Result<Time, TraceProblem> {
    let nanos = u64::try_from(since_start.as_nanos());
    nanos
        .map(Time::from_nanos)
        .map_err(|_| TraceProblem::LateTime(shown(text)))
}
