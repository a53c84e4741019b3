//! Temporal locality for traffic without any: moves the requests of each object close together.
//!
//! Independent draws favour frequency-based policies. In recorded traces an object's requests are
//! close together, and LRU depends on that. So each object gets a random window of the trace, with
//! a log-uniform length from `least` to `most`, and its requests are scaled into this window. The
//! n-th request keeps the n-th time. Popularity and sizes stay exactly the same. The method is
//! Larder's own, because there are no published distributions of locality.
//!
//! With `most` far below the whole trace, objects are born and die: all requests for an object fall
//! into a short part of the trace.
//!
//! O(n log n), 64 bytes of memory a request.

use super::ParameterError;
use crate::Access;
use crate::limits::WINDOWS_MAX_REQUESTS;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_units::Streams;
use std::str::FromStr;

/// The lengths of the windows, as shares of the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Windows {
    least: f64,
    most: f64,
}

impl Windows {
    /// Returns windows of `least` to `most` of the trace. (1, 1) changes nothing.
    ///
    /// # Errors
    /// [`ParameterError`] unless 0 < `least` ≤ `most` ≤ 1.
    pub fn new(least: f64, most: f64) -> Result<Windows, ParameterError> {
        if least > 0.0 && least <= most && most <= 1.0 {
            Ok(Windows { least, most })
        } else {
            Err(refused(
                "a share of the trace above 0, at most 1, is needed, or two such as 0.005..0.05",
            ))
        }
    }
}

/// Reads `0.01` (to the whole trace) or `0.005..0.05`.
impl FromStr for Windows {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Windows, ParameterError> {
        let (least, most) = text.split_once("..").unwrap_or((text, "1"));
        let share = |text: &str| text.trim().parse().unwrap_or(f64::NAN);
        Windows::new(share(least), share(most))
    }
}

fn refused(needed: &'static str) -> ParameterError {
    ParameterError {
        parameter: "windows",
        needed,
    }
}

/// Returns `accesses` with the requests of each object moved into a window. The result is the same
/// for the same streams.
///
/// # Errors
/// [`ParameterError`] if there are more than [`WINDOWS_MAX_REQUESTS`].
pub fn gather(
    accesses: Vec<Access>,
    Windows { least, most }: Windows,
    streams: &Streams,
) -> Result<Vec<Access>, ParameterError> {
    if accesses.len() > WINDOWS_MAX_REQUESTS {
        return Err(refused(
            "at most 134,217,728 (2^27) requests, which are sorted in memory, are needed",
        ));
    }
    let mut stream = streams.stream("windows");
    let mut windows: HashMap<u64, (f64, f64), FixedState> = HashMap::default();
    let times: Vec<_> = accesses.iter().map(|access| access.now).collect();
    let all = accesses.len() as f64;
    let mut placed: Vec<(f64, Access)> = accesses
        .into_iter()
        .enumerate()
        .map(|(nth, access)| {
            let (start, length) = *windows.entry(access.id).or_insert_with(|| {
                let length = most * (least / most).powf(stream.unit());
                (stream.unit() * (1.0 - length), length)
            });
            (start + length * (nth as f64 / all), access)
        })
        .collect();
    // Stable sort: requests with equal keys keep their order.
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(placed
        .into_iter()
        .zip(times)
        .map(|((_, access), now)| Access { now, ..access })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Web;

    fn from(least: f64) -> Windows {
        Windows::new(least, 1.0).unwrap()
    }

    fn web(requests: usize) -> Vec<Access> {
        let web = Web {
            objects: 1000,
            exponent: 0.9,
            ..Web::default()
        };
        web.requests(&Streams::new(1))
            .unwrap()
            .take(requests)
            .collect()
    }

    #[test]
    fn popularity_or_times_are_lost() {
        let before = web(20_000);
        let after = gather(before.clone(), from(0.01), &Streams::new(1)).unwrap();
        assert_ne!(before, after);
        assert!(
            before
                .iter()
                .map(|access| access.now)
                .eq(after.iter().map(|access| access.now))
        );
        let ids = |accesses: &[Access]| {
            let mut ids: Vec<u64> = accesses.iter().map(|access| access.id).collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(ids(&before), ids(&after));
        assert_eq!(
            after,
            gather(before.clone(), from(0.01), &Streams::new(1)).unwrap()
        );
        assert_ne!(after, gather(before, from(0.01), &Streams::new(2)).unwrap());
    }

    #[test]
    fn windows_are_as_wide_as_the_trace() {
        let span = |accesses: &[Access], id: u64| {
            let at = |access: &Access| access.id == id;
            let (first, last) = (
                accesses.iter().position(at).unwrap(),
                accesses.iter().rposition(at).unwrap(),
            );
            (last - first) as f64 / accesses.len() as f64
        };
        let mean = |accesses: &[Access]| (0..200).map(|id| span(accesses, id)).sum::<f64>() / 200.0;
        let before = web(20_000);
        assert!(mean(&before) > 0.9, "{}", mean(&before));
        // The mean of a log-uniform length from 0.01: 0.99 / ln 100.
        let found = mean(&gather(before.clone(), from(0.01), &Streams::new(1)).unwrap());
        assert!((found - 0.215).abs() < 0.06, "{found}");
        let lives = Windows::new(0.005, 0.05).unwrap();
        let lived = gather(before.clone(), lives, &Streams::new(1)).unwrap();
        // Its median is 0.016. A popular object within a life makes it longer in requests.
        let mut lives: Vec<f64> = (0..200).map(|id| span(&lived, id)).collect();
        lives.sort_by(f64::total_cmp);
        assert!(lives[100] > 0.01 && lives[100] < 0.022, "{}", lives[100]);
        assert_eq!(
            gather(before.clone(), from(1.0), &Streams::new(1)).unwrap(),
            before
        );
    }

    #[test]
    fn windows_of_nothing() {
        for text in [
            "0", "-1", "1.1", "NaN", "inf", "", "0.1..", "0.2..0.1", "0.1..2", "..1",
        ] {
            let error = text.parse::<Windows>().unwrap_err().to_string();
            assert!(error.contains("windows: a share"), "{text}: {error}");
        }
        assert_eq!("0.25".parse(), Ok(from(0.25)));
        assert_eq!("0.005..0.05".parse(), Windows::new(0.005, 0.05));
        assert_eq!(gather(Vec::new(), from(0.5), &Streams::new(1)).unwrap(), []);
        let tiny = gather(web(1000), from(f64::MIN_POSITIVE), &Streams::new(1)).unwrap();
        assert_eq!(tiny.len(), 1000);
    }
}
