//! Lines of bounded length, with their numbers.

use super::error::{Place, ReadError};
use super::source::said;
use crate::limits::MAX_LINE_BYTES;
use std::io::{BufRead, Read};

/// The lines of a text trace, which are at most [`MAX_LINE_BYTES`] long.
#[allow(missing_debug_implementations, reason = "the source has none")]
pub struct Lines {
    source: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    /// Creates a reader of lines.
    pub fn new(source: Box<dyn BufRead + Send>) -> Self {
        Lines { source, line: Vec::new(), number: 0 }
    }

    /// Returns the next line that is not blank, without its end, or `None` at the end of the trace.
    ///
    /// # Errors
    /// [`ReadError`] if the bytes cannot be read, or the line is too long.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, ReadError> {
        loop {
            self.line.clear();
            self.number += 1;
            let mut bounded = self.source.by_ref().take(MAX_LINE_BYTES as u64 + 1);
            let read = bounded.read_until(b'\n', &mut self.line);
            match read {
                Err(error) => return Err(ReadError::new(self.place(), said(&error))),
                Ok(0) => return Ok(None),
                Ok(_) if self.line.len() > MAX_LINE_BYTES => {
                    return Err(ReadError::new(self.place(), format!("longer than {MAX_LINE_BYTES} bytes")));
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
}

/// Returns the whole number that decimal digits are.
pub(super) fn whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Returns a text for an error: short, and without control characters.
pub(super) fn shown(text: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(text).chars().take(40).collect();
    text.escape_debug().to_string()
}
