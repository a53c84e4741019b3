//! The interface of a format's reader.

use super::error::Place;
use crate::Access;

/// A format's reader. Its errors name the place; [`Trace`](super::Trace) adds the file.
pub(super) trait Requests {
    fn next(&mut self) -> Result<Option<Access>, (Place, String)>;

    /// Adds requests to `accesses` until it has `most`, or the trace ends. One call through the
    /// table of methods for many requests.
    fn read(&mut self, accesses: &mut Vec<Access>, most: usize) -> Result<(), (Place, String)> {
        while accesses.len() < most
            && let Some(access) = self.next()?
        {
            accesses.push(access);
        }
        Ok(())
    }
}
