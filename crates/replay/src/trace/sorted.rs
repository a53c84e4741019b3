//! Requests in the order of their times. A server writes a line when a response ends, so a log is
//! slightly out of order, and a clock that is set back makes more of it.

use super::error::ReadError;
use super::report::ReaderReport;
use super::requests::Requests;
use crate::Access;

/// Requests that are sorted at a time, 24 bytes each. A request that is earlier than one of this
/// many before it comes late.
const WINDOW_REQUESTS: usize = 1 << 15;

/// The requests of another reader, sorted within a window.
pub(super) struct Sorted<R> {
    inner: R,
    /// Sorted requests, of which those from `next` on are not returned yet.
    window: Vec<Access>,
    next: usize,
    /// The end of those requests that no later one can precede.
    ready: usize,
    is_ended: bool,
    /// True if the first error ends the trace.
    is_strict: bool,
    /// The error that ends the trace, after the requests before it.
    error: Option<ReadError>,
}

impl<R: Requests> Sorted<R> {
    pub fn new(inner: R, is_strict: bool) -> Sorted<R> {
        Sorted {
            inner,
            is_strict,
            error: None,
            window: Vec::new(),
            next: 0,
            ready: 0,
            is_ended: false,
        }
    }

    /// Reads until the window is full, and sorts it. Its first half is then ready.
    fn fill(&mut self) -> Result<(), ReadError> {
        self.window.drain(..self.next);
        self.next = 0;
        self.ready = 0;
        if !self.is_ended {
            match self.inner.read(&mut self.window, 2 * WINDOW_REQUESTS) {
                Ok(()) => self.is_ended = self.window.len() < 2 * WINDOW_REQUESTS,
                Err(error) if self.is_strict || !error.is_of_a_line() => {
                    self.error = Some(error);
                    self.is_ended = true;
                }
                Err(error) => return Err(error),
            }
        }
        // Requests of the same time keep their order.
        if !self.window.is_sorted_by_key(|access| access.now) {
            self.window.sort_by_key(|access| access.now);
        }
        self.ready = if self.is_ended {
            self.window.len()
        } else {
            WINDOW_REQUESTS
        };
        Ok(())
    }
}

impl<R: Requests> Requests for Sorted<R> {
    fn next(&mut self) -> Result<Option<Access>, ReadError> {
        if self.next == self.ready {
            self.fill()?;
        }
        let access = self.window[..self.ready].get(self.next).copied();
        self.next += usize::from(access.is_some());
        match (access, self.error.take()) {
            (None, Some(error)) => Err(error),
            (access, error) => {
                self.error = error;
                Ok(access)
            }
        }
    }

    fn read(&mut self, accesses: &mut Vec<Access>, most: usize) -> Result<(), ReadError> {
        while accesses.len() < most {
            if self.next == self.ready {
                self.fill()?;
                if self.ready == 0 {
                    return self.error.take().map_or(Ok(()), Err);
                }
            }
            let taken = (self.ready - self.next).min(most - accesses.len());
            accesses.extend_from_slice(&self.window[self.next..self.next + taken]);
            self.next += taken;
        }
        Ok(())
    }

    fn progress(&self) -> Option<f64> {
        self.inner.progress()
    }

    fn report(&self) -> ReaderReport {
        self.inner.report()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Time;

    struct Given(std::vec::IntoIter<Access>);

    impl Requests for Given {
        fn next(&mut self) -> Result<Option<Access>, ReadError> {
            Ok(self.0.next())
        }
    }

    /// Failure: a request is lost, comes late within the window, or overtakes one of its time.
    #[test]
    fn requests_are_lost_or_late() {
        let count = 5 * WINDOW_REQUESTS as u64 / 2;
        let access = |number: u64| Access {
            id: number,
            size: 1,
            now: Time::from_secs(
                if number.is_multiple_of(3) {
                    number.saturating_sub(25_000)
                } else {
                    number
                } / 2,
            ),
        };
        let given: Vec<Access> = (0..count).map(access).collect();
        let mut expected = given.clone();
        expected.sort_by_key(|access| access.now);
        let mut sorted = Sorted::new(Given(given.clone().into_iter()), true);
        let mut all = Vec::new();
        sorted.read(&mut all, 10_000_000).unwrap();
        assert!(all == expected);
        let mut sorted = Sorted::new(Given(given.into_iter()), true);
        let one_by_one = std::iter::from_fn(|| sorted.next().unwrap());
        assert!(one_by_one.eq(expected));
    }
}
