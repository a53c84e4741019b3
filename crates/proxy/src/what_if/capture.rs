//! Captures of the traffic: the requests for a share of the keys, as lines of a trace.

use crate::limits;
use bytes::Bytes;
use larder_policy::observe::Observed;
use larder_units::Time;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// The first line of a capture.
const HEAD: &str = "time,object,size\n";

/// The captures in progress.
#[derive(Default)]
pub(super) struct Captures(Mutex<Vec<Capture>>);

/// A capture in progress. The trace has no names: an object is a hash with a secret of the capture.
struct Capture {
    /// Places up to this are in it.
    last: u64,
    secret: u64,
    /// The time of its first request.
    begun: Option<Time>,
    lines: String,
    out: mpsc::Sender<Bytes>,
}

impl Captures {
    /// Begins a capture of a share of the keys, above 0 and up to 1. Returns its lines; `None` if
    /// there are [`limits::CAPTURES`] already. It ends when the receiver is dropped, or if it does
    /// not receive for some seconds.
    pub(super) fn begin(&self, share: f64) -> Option<mpsc::Receiver<Bytes>> {
        let mut captures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        captures.retain(|capture| !capture.out.is_closed());
        if captures.len() >= limits::CAPTURES {
            return None;
        }
        let (out, lines) = mpsc::channel(limits::CAPTURE_CHUNKS);
        let [secret] = crate::entropy::words();
        let last = (share * 2.0_f64.powi(64)) as u64;
        captures.push(Capture { last, secret, begun: None, lines: HEAD.to_owned(), out });
        Some(lines)
    }

    /// Returns the last place of the largest sample of a capture.
    pub(super) fn last(&self) -> Option<u64> {
        let mut captures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        captures.retain(|capture| !capture.out.is_closed());
        captures.iter().map(|capture| capture.last).max()
    }

    /// Adds requests, in the order of their times.
    pub(super) fn add<'a>(&self, requests: impl Iterator<Item = &'a Observed>) {
        let mut captures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if captures.is_empty() {
            return;
        }
        for request in requests {
            captures.iter_mut().for_each(|capture| capture.add(request));
        }
        captures.retain_mut(Capture::send);
    }

    /// Ends all captures.
    pub(super) fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Capture {
    fn add(&mut self, request: &Observed) {
        if request.place > self.last {
            return;
        }
        let begun = *self.begun.get_or_insert(request.now);
        let seconds = request.now.since(begun).as_secs_f64();
        // The variant is in the lower half: see `Observed`. The place tells what a client has asked
        // for to nobody who does not know the secrets of the node.
        let object = mix(request.place ^ u64::from(request.variant) ^ self.secret);
        // Writing to a string does not fail.
        let _ = writeln!(self.lines, "{seconds:.3},{object},{}", request.size);
    }

    /// Sends its lines. Returns false if the capture has ended.
    fn send(&mut self) -> bool {
        if self.lines.is_empty() {
            return true;
        }
        match self.out.try_send(Bytes::from(std::mem::take(&mut self.lines))) {
            Ok(()) => true,
            Err(TrySendError::Closed(_)) => false,
            Err(TrySendError::Full(_)) => {
                tracing::warn!("capture: ended, because its client does not receive as fast as requests come");
                false
            }
        }
    }
}

/// The finaliser of MurmurHash3 (Appleby, 2011), a bijection.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let word = (word ^ (word >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_policy::observe::Outcome;
    use std::time::Duration;

    fn request(place: u64, milliseconds: u64) -> Observed {
        Observed {
            now: Time::from_millis(milliseconds),
            place,
            variant: 0,
            size: 7,
            bytes: 5,
            outcome: Outcome::Hit,
            lifetime: Duration::ZERO,
            validates: false,
            label: None,
        }
    }

    #[test]
    fn a_capture_has_other_requests_than_its_share() {
        let captures = Captures::default();
        let mut lines = captures.begin(0.5).unwrap();
        assert_eq!(captures.last(), Some(1 << 63));
        captures.add([request(1, 500), request(u64::MAX, 600), request(1, 1_750)].iter());
        let text = String::from_utf8(lines.try_recv().unwrap().to_vec()).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(rows[0], ["time", "object", "size"]);
        assert_eq!((rows[1][0], rows[1][2], rows[2][0]), ("0.000", "7", "1.250"));
        assert!(rows.len() == 3 && rows[1][1] == rows[2][1] && rows[1][1] != "1", "{text}");
    }

    #[test]
    fn another_capture_has_the_same_objects() {
        let captures = Captures::default();
        let [mut one, mut other] = [captures.begin(1.0).unwrap(), captures.begin(1.0).unwrap()];
        captures.add([request(1, 0)].iter());
        assert_ne!(one.try_recv().unwrap(), other.try_recv().unwrap());
    }

    #[test]
    fn clients_that_do_not_receive_fill_the_memory() {
        let captures = Captures::default();
        let lines = captures.begin(1.0).unwrap();
        for number in 0..limits::CAPTURE_CHUNKS as u64 {
            captures.add([request(1, number)].iter());
        }
        assert!(captures.last().is_some());
        captures.add([request(1, 0)].iter());
        assert_eq!(captures.last(), None);
        drop(lines);
        let kept: Vec<_> = (0..limits::CAPTURES).map(|_| captures.begin(1.0).unwrap()).collect();
        assert!(captures.begin(1.0).is_none());
        drop(kept);
        assert!(captures.begin(1.0).is_some());
    }
}
