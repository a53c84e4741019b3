//! Temporal locality for traffic without any: moves the requests of each object close together.
//!
//! Independent draws favour frequency-based policies. In recorded traces an object's requests are
//! close together, and LRU depends on that. So each object gets a random window of the trace, with
//! a log-uniform length from `least` to the whole trace, and its requests are scaled into this
//! window. The n-th request keeps the n-th time. Popularity and sizes stay exactly the same. The
//! method is Larder's own, because there are no published distributions of locality.
//!
//! O(n log n), 64 bytes of memory a request.

use super::ParameterError;
use crate::Access;
use crate::limits::WINDOWS_MAX_REQUESTS;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_units::Streams;

/// Returns `accesses` with the requests of each object moved into a window. A window has at least
/// `least` of the trace's length; 1 changes nothing. The result is the same for the same streams.
///
/// # Errors
/// [`ParameterError`] if `least` is not above 0 and at most 1, or there are more than
/// [`WINDOWS_MAX_REQUESTS`].
pub fn gather(
    accesses: Vec<Access>,
    least: f64,
    streams: &Streams,
) -> Result<Vec<Access>, ParameterError> {
    let refused = |needed| {
        Err(ParameterError {
            parameter: "windows",
            needed,
        })
    };
    if !(least > 0.0 && least <= 1.0) {
        return refused("a share of the trace above 0, at most 1, is needed");
    }
    if accesses.len() > WINDOWS_MAX_REQUESTS {
        return refused(
            "at most 134,217,728 (2^27) requests, which are sorted in memory, are needed",
        );
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
                let length = least.powf(stream.unit());
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
        let after = gather(before.clone(), 0.01, &Streams::new(1)).unwrap();
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
            gather(before.clone(), 0.01, &Streams::new(1)).unwrap()
        );
        assert_ne!(after, gather(before, 0.01, &Streams::new(2)).unwrap());
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
        let found = mean(&gather(before.clone(), 0.01, &Streams::new(1)).unwrap());
        assert!((found - 0.215).abs() < 0.06, "{found}");
        assert_eq!(
            gather(before.clone(), 1.0, &Streams::new(1)).unwrap(),
            before
        );
    }

    #[test]
    fn windows_of_nothing() {
        for least in [0.0, -1.0, 1.1, f64::NAN, f64::INFINITY] {
            assert!(
                gather(web(10), least, &Streams::new(1))
                    .unwrap_err()
                    .to_string()
                    .contains("windows: a share")
            );
        }
        assert_eq!(gather(Vec::new(), 0.5, &Streams::new(1)).unwrap(), []);
        let tiny = gather(web(1000), f64::MIN_POSITIVE, &Streams::new(1)).unwrap();
        assert_eq!(tiny.len(), 1000);
    }
}
