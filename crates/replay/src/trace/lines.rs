//! Lines of bounded length, with their numbers.

use super::error::{Place, ReadError, TraceProblem};
use crate::limits::MAX_LINE_BYTES;
use std::fmt;
use std::io::{BufRead, Read};

/// The byte order mark, with which some programs begin a text in UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The lines of a text trace that are not blank, with their numbers.
pub struct Lines {
    source: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    number: u64,
    /// The byte that ends a line.
    end: u8,
    /// True if the rest of a long line is not read yet.
    is_within: bool,
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
            end: b'\n',
            is_within: false,
        }
    }

    /// Reads the next line that is not blank, and returns it without its end; `None` at the end of
    /// the trace. The byte order mark of a text in UTF-8 is no part of its first line. Nor are
    /// bytes 0 a part of the start of a line: a file that was not written to the end has them. If
    /// the first bytes have carriage returns and no line feed, they end the lines.
    ///
    /// # Errors
    /// [`ReadError`] if the bytes cannot be read, or the line has more than [`MAX_LINE_BYTES`]. The
    /// next call then returns the line after it.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, ReadError> {
        if self.number == 0 {
            self.find_end()?;
        }
        loop {
            if self.is_within {
                self.skip_rest()?;
            }
            self.line.clear();
            self.number += 1;
            let mut bounded = self.source.by_ref().take(MAX_LINE_BYTES as u64 + 1);
            let read = bounded.read_until(self.end, &mut self.line);
            if self.number == 1 && self.line.starts_with(BYTE_ORDER_MARK) {
                self.line.drain(..BYTE_ORDER_MARK.len());
            }
            match read {
                Err(error) => return Err(self.error(TraceProblem::Io(error))),
                Ok(0) => return Ok(None),
                Ok(_) if self.line.len() > MAX_LINE_BYTES => {
                    self.is_within = self.line.last() != Some(&self.end);
                    return Err(self.error(TraceProblem::LongLine));
                }
                Ok(_) => {}
            }
            if self.line.first() == Some(&0) {
                let zeros = self.line.iter().take_while(|byte| **byte == 0).count();
                self.line.drain(..zeros);
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some(self.line.trim_ascii_end()));
            }
        }
    }

    /// Finds the byte that ends lines.
    fn find_end(&mut self) -> Result<(), ReadError> {
        let start = self.source.fill_buf();
        let start =
            start.map_err(|error| ReadError::new(Place::Line(1), TraceProblem::Io(error)))?;
        if start.contains(&b'\r') && !start.contains(&b'\n') {
            self.end = b'\r';
        }
        Ok(())
    }

    /// Passes over the rest of a long line.
    fn skip_rest(&mut self) -> Result<(), ReadError> {
        self.is_within = false;
        let skipped = self.source.skip_until(self.end);
        skipped
            .map(|_| ())
            .map_err(|error| ReadError::new(Place::Line(self.number), TraceProblem::Io(error)))
    }

    /// Returns the last line again.
    pub(super) fn line(&self) -> &[u8] {
        self.line.trim_ascii_end()
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
