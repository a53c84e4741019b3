//! The names that a consumer requests: by sequence, by popularity, or from a trace.

use larder_units::{Stream, Time};
use std::sync::Arc;

/// The source of the last component of the names that a consumer requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Names {
    /// The numbers 0, 1, 2, …, up to `end` if there is one.
    Sequence {
        /// The first number that is not requested.
        end: Option<u64>,
    },
    /// A rank, drawn for each request.
    Popularity(ZipfMandelbrot),
    /// The objects of a trace, in its order.
    Trace(TraceShare),
}

/// The requests of a trace that one consumer makes: request number `first`, and each `step`th after
/// it.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceShare {
    /// The time since the trace's first request, and the object.
    pub requests: Arc<[(Time, u64)]>,
    /// The number of the first request, from 0.
    pub first: usize,
    /// The distance between two requests, at least 1.
    pub step: usize,
    /// Whether requests follow the trace's times, or the consumer's frequency.
    pub timed: bool,
}

impl TraceShare {
    fn get(&self, number: u64) -> Option<(Time, u64)> {
        let at = usize::try_from(number)
            .ok()?
            .checked_mul(self.step)?
            .checked_add(self.first)?;
        self.requests.get(at).copied()
    }
}

/// Zipf–Mandelbrot popularity: rank k of 1 … `count` has the weight (k + q)^-s (Mandelbrot, 1953).
/// As in ndnSIM's `ConsumerZipfMandelbrot`, a draw is the first rank whose cumulative share reaches
/// a uniform number.
///
/// The state is one table of `count` floats. A draw is a binary search.
#[derive(Clone, Debug, PartialEq)]
pub struct ZipfMandelbrot {
    /// The share of all ranks up to each rank.
    cumulative: Vec<f64>,
}

impl ZipfMandelbrot {
    /// Creates the distribution over ranks 1 to `count` (at least 1). ndnSIM's defaults are 100,
    /// 0.7 and 0.7.
    pub fn new(count: usize, q: f64, s: f64) -> Self {
        let weights = (1..=count.max(1)).map(|rank| (rank as f64 + q).powf(-s));
        let mut cumulative: Vec<f64> = Vec::with_capacity(count);
        for weight in weights {
            cumulative.push(cumulative.last().unwrap_or(&0.0) + weight);
        }
        let total = cumulative.last().copied().unwrap_or(1.0);
        for share in &mut cumulative {
            *share /= total;
        }
        ZipfMandelbrot { cumulative }
    }

    /// The share of requests for `rank`, from 1.
    pub fn share(&self, rank: usize) -> f64 {
        let upto = |rank: usize| {
            rank.checked_sub(1)
                .and_then(|index| self.cumulative.get(index))
                .copied()
                .unwrap_or(0.0)
        };
        upto(rank) - upto(rank - 1)
    }

    fn draw(&self, stream: &mut Stream) -> u64 {
        let u = 1.0 - stream.unit();
        let index = self.cumulative.partition_point(|share| *share < u);
        index.min(self.cumulative.len() - 1) as u64 + 1
    }
}

impl Names {
    /// The number after `asked` others, or `None` if there are no more.
    pub(crate) fn next(&self, asked: u64, stream: &mut Stream) -> Option<u64> {
        match self {
            Names::Sequence { end } => end.is_none_or(|end| asked < end).then_some(asked),
            Names::Popularity(popularity) => Some(popularity.draw(stream)),
            Names::Trace(trace) => trace.get(asked).map(|(_, number)| number),
        }
    }

    /// The trace's time of the request after `asked` others. `None` if there is no such request, or
    /// requests do not follow the trace's times.
    pub(crate) fn time(&self, asked: u64) -> Option<Time> {
        match self {
            Names::Trace(trace) if trace.timed => trace.get(asked).map(|(time, _)| time),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Streams;

    #[test]
    fn ranks_are_drawn_as_often_as_their_share_says() {
        let popularity = ZipfMandelbrot::new(100, 0.7, 0.7);
        let mut stream = Streams::new(3).stream("ranks");
        let mut drawn = [0u32; 101];
        for _ in 0..200_000 {
            drawn[popularity.draw(&mut stream) as usize] += 1;
        }
        assert_eq!(drawn[0], 0);
        for rank in [1, 2, 10, 100] {
            let expected = popularity.share(rank) * 200_000.0;
            let error = (f64::from(drawn[rank]) - expected).abs();
            assert!(
                error < 4.0 * expected.sqrt(),
                "rank {rank}: {} of {expected}",
                drawn[rank]
            );
        }
        // The ratio of the weights, by hand: (1.7 / 2.7)^-0.7.
        assert!((popularity.share(1) / popularity.share(2) - 1.382).abs() < 0.001);
    }

    #[test]
    fn a_sequence_ends() {
        let mut stream = Streams::new(3).stream("none");
        let names = Names::Sequence { end: Some(2) };
        assert_eq!(
            [0, 1, 2].map(|asked| names.next(asked, &mut stream)),
            [Some(0), Some(1), None]
        );
    }
}
