//! The interface of a format's reader.

use super::error::ReadError;
use super::report::ReaderReport;
use crate::Access;

/// The requests of a trace, read by its format's reader.
///
/// A reader need not keep times from going back; [`Trace`](super::Trace) does. It must not panic on
/// any bytes.
pub trait Requests {
    /// Returns the next request, or `None` at the end of the trace.
    ///
    /// # Errors
    /// [`ReadError`] with the place. After an error at a line, the reader may be called again, and
    /// goes on with the next line; see [`ReadError::is_of_a_line`].
    fn next(&mut self) -> Result<Option<Access>, ReadError>;

    /// Appends requests to `accesses` until it has `most`, or the trace ends. One dynamic call then
    /// reads many requests.
    ///
    /// # Errors
    /// See [`Requests::next`]. `accesses` then has the requests before the error.
    fn read(&mut self, accesses: &mut Vec<Access>, most: usize) -> Result<(), ReadError> {
        while accesses.len() < most
            && let Some(access) = self.next()?
        {
            accesses.push(access);
        }
        Ok(())
    }

    /// Returns the share of the trace that was read, from 0 to 1; `None` if the reader does not
    /// know it better than by the bytes that it has read.
    fn progress(&self) -> Option<f64> {
        None
    }

    /// Returns how the trace is read, and what was left out so far.
    fn report(&self) -> ReaderReport {
        ReaderReport::default()
    }
}

impl Requests for Box<dyn Requests + Send> {
    fn next(&mut self) -> Result<Option<Access>, ReadError> {
        (**self).next()
    }

    fn read(&mut self, accesses: &mut Vec<Access>, most: usize) -> Result<(), ReadError> {
        (**self).read(accesses, most)
    }

    fn progress(&self) -> Option<f64> {
        (**self).progress()
    }

    fn report(&self) -> ReaderReport {
        (**self).report()
    }
}
