//! Captures of the traffic: the requests for a share of the keys, as lines of a trace.

use crate::limits;
use bytes::Bytes;
use larder_policy::observe::Observed;
use larder_units::Time;
use siphasher::sip::SipHasher13;
use std::fmt::Write;
use std::hash::Hasher;
use std::sync::{Mutex, PoisonError};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// The first line of a capture.
const HEAD: &str = "time,object,size\n";

/// The captures in progress.
#[derive(Default)]
pub(crate) struct Captures(Mutex<Vec<Capture>>);

/// A capture in progress. The trace has no names: an object is a hash with a secret of the capture.
struct Capture {
    /// Places up to this are in it.
    last: u64,
    secret: [u64; 2],
    /// The time of its first request.
    begun: Option<Time>,
    lines: String,
    out: mpsc::Sender<Bytes>,
}

impl Captures {
    /// Begins a capture of a share of the keys, above 0 and up to 1. Returns its lines; `None` if
    /// there are [`limits::CAPTURES`] already. It ends when the receiver is dropped, or if too
    /// much waits for it.
    pub(crate) fn begin(&self, share: f64) -> Option<mpsc::Receiver<Bytes>> {
        let mut captures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        captures.retain(|capture| !capture.out.is_closed());
        if captures.len() >= limits::CAPTURES {
            return None;
        }
        let (out, lines) = mpsc::channel(limits::CAPTURE_PIECES);
        let secret = larder_host::entropy::words();
        let last = (share * 2.0_f64.powi(64)) as u64;
        captures.push(Capture {
            last,
            secret,
            begun: None,
            lines: HEAD.to_owned(),
            out,
        });
        Some(lines)
    }

    /// Returns the last place of the largest sample of a capture.
    pub(crate) fn last(&self) -> Option<u64> {
        let mut captures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        captures.retain(|capture| !capture.out.is_closed());
        captures.iter().map(|capture| capture.last).max()
    }

    /// Adds requests, in the order of their times.
    pub(crate) fn add<'a>(&self, requests: impl Iterator<Item = &'a Observed>) {
        let mut captures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if captures.is_empty() {
            return;
        }
        for request in requests {
            for capture in captures.iter_mut() {
                capture.add(request);
            }
        }
        captures.retain_mut(Capture::send);
    }

    /// Tells the clients that requests of their objects, or of others, were lost.
    pub(crate) fn lose(&self, requests: u64) {
        if requests > 0 {
            let mut captures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Writing to a string does not fail.
            for capture in captures.iter_mut() {
                let _ = writeln!(capture.lines, "# lost {requests}");
            }
        }
    }

    /// Ends all captures.
    pub(crate) fn end(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

impl Capture {
    fn add(&mut self, request: &Observed) {
        if request.place > self.last {
            return;
        }
        let begun = *self.begun.get_or_insert(request.now);
        let seconds = request.now.since(begun).as_secs_f64();
        let mut object = SipHasher13::new_with_keys(self.secret[0], self.secret[1]);
        object.write_u64(request.place);
        object.write_u32(request.variant);
        let object = object.finish();
        // Writing to a string does not fail.
        let _ = writeln!(self.lines, "{seconds:.3},{object},{}", request.size);
    }

    /// Sends its lines, as far as its client receives them. Returns false if the capture has ended.
    fn send(&mut self) -> bool {
        while !self.lines.is_empty() {
            let end = self.lines.len().min(limits::CAPTURE_PIECE);
            match self
                .out
                .try_send(Bytes::copy_from_slice(&self.lines.as_bytes()[..end]))
            {
                // All are of one byte.
                Ok(()) => drop(self.lines.drain(..end)),
                Err(TrySendError::Closed(_)) => return false,
                Err(TrySendError::Full(_)) if self.lines.len() <= limits::CAPTURE_WAITING => {
                    return true;
                }
                Err(TrySendError::Full(_)) => {
                    tracing::warn!(
                        "capture: ended, because its client does not receive as fast as requests come"
                    );
                    return false;
                }
            }
        }
        true
    }
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
            any_age: false,
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
        assert_eq!(
            (rows[1][0], rows[1][2], rows[2][0]),
            ("0.000", "7", "1.250")
        );
        assert!(
            rows.len() == 3 && rows[1][1] == rows[2][1] && rows[1][1] != "1",
            "{text}"
        );
    }

    #[test]
    fn lost_requests_are_kept_secret() {
        let captures = Captures::default();
        let mut lines = captures.begin(1.0).unwrap();
        captures.lose(0);
        captures.lose(7);
        captures.add([request(1, 0)].iter());
        let text = String::from_utf8(lines.try_recv().unwrap().to_vec()).unwrap();
        assert_eq!(
            text.lines()
                .filter(|line| line.starts_with('#'))
                .collect::<Vec<_>>(),
            ["# lost 7"]
        );
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
        let requests = vec![request(1, 0); 1_000];
        let mut rounds = 0;
        while captures.last().is_some() {
            captures.add(requests.iter());
            rounds += 1;
        }
        // A line has 10 to 40 bytes.
        let most = limits::CAPTURE_PIECE * limits::CAPTURE_PIECES + limits::CAPTURE_WAITING;
        assert!(rounds > 2 && rounds <= most / 10_000 + 2, "{rounds}");
        drop(lines);
        let kept: Vec<_> = (0..limits::CAPTURES)
            .map(|_| captures.begin(1.0).unwrap())
            .collect();
        assert!(captures.begin(1.0).is_none());
        drop(kept);
        assert!(captures.begin(1.0).is_some());
    }
}
