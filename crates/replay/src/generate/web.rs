//! Web traffic: every request is for an object drawn by its popularity, independent of earlier
//! requests, at the times of a Poisson process (the filter paper, section 6.1.2: 10⁷ objects of one
//! Data packet each, Zipf with the exponent 0.8).
//!
//! With a shift, the popularity is Zipf–Mandelbrot's instead, as in chunk-size studies with ndnSIM:
//! rank k with a probability proportional to (k + shift)^−exponent. The paper gives no rate. A
//! cache's hits depend only on the order; the default is the rate that the [`super::Mix`] needs for
//! its ratio to the videos. Sizes are equal; with a size of 1, capacities count packets, as in the
//! paper. O(1) memory.

use super::{ParameterError, arrivals};
use crate::{Access, Zipf};
use larder_units::{Stream, Streams, Time};

/// Independent requests by popularity. [`Default`] is the filter paper's web traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Web {
    /// Objects of the catalogue; an object's id is its rank less 1, the most popular is 0.
    pub objects: u64,
    /// Zipf's exponent α.
    pub exponent: f64,
    /// Mandelbrot's q, which flattens the most popular ranks; 0 for Zipf.
    pub shift: f64,
    /// Mean requests a second.
    pub requests_per_second: f64,
    /// Bytes of every object.
    pub object_bytes: u64,
}

impl Default for Web {
    fn default() -> Self {
        Web {
            objects: 10_000_000,
            exponent: 0.8,
            shift: 0.0,
            requests_per_second: 3500.0,
            object_bytes: 1024,
        }
    }
}

impl Web {
    /// Returns endless requests; the same for the same streams.
    ///
    /// # Errors
    /// [`ParameterError`] if there is no such distribution.
    pub fn requests(&self, streams: &Streams) -> Result<WebRequests, ParameterError> {
        let zipf = Zipf::mandelbrot(self.objects, self.exponent, self.shift)
            .ok_or(ParameterError::popularity())?;
        arrivals::check("requests-per-second", self.requests_per_second)?;
        Ok(WebRequests {
            web: *self,
            zipf,
            stream: streams.stream("web"),
            now: Time::ZERO,
        })
    }
}

/// The requests of a [`Web`].
#[derive(Clone, Debug)]
pub struct WebRequests {
    web: Web,
    zipf: Zipf,
    stream: Stream,
    now: Time,
}

impl Iterator for WebRequests {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        self.now += arrivals::pause(self.web.requests_per_second, &mut self.stream);
        let id = self.zipf.draw(&mut self.stream) - 1;
        Some(Access {
            id,
            size: self.web.object_bytes,
            now: self.now,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_not_poisson() {
        let web = Web {
            requests_per_second: 100.0,
            ..Web::default()
        };
        let times: Vec<f64> = web
            .requests(&Streams::new(1))
            .unwrap()
            .take(100_000)
            .map(|access| access.now.as_secs_f64())
            .collect();
        let pauses: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = pauses.iter().sum::<f64>() / pauses.len() as f64;
        assert!(
            (mean - 0.01).abs() < 2e-4,
            "a mean pause of {mean} s for 0.01"
        );
        // Exponential: the deviation equals the mean, and e^−2 of the pauses are more than twice as
        // long.
        let deviation = (pauses
            .iter()
            .map(|pause| (pause - mean).powi(2))
            .sum::<f64>()
            / pauses.len() as f64)
            .sqrt();
        assert!((deviation / mean - 1.0).abs() < 0.02, "{deviation}");
        let long =
            pauses.iter().filter(|pause| **pause > 0.02).count() as f64 / pauses.len() as f64;
        assert!((long - (-2.0_f64).exp()).abs() < 0.005, "{long}");
    }

    #[test]
    fn popularity_is_another() {
        for (shift, exponent) in [(0.0, 0.8), (5.0, 1.2)] {
            let web = Web {
                objects: 100,
                exponent,
                shift,
                ..Web::default()
            };
            let (mut counts, requests) = ([0_u32; 100], 200_000);
            for access in web.requests(&Streams::new(3)).unwrap().take(requests) {
                counts[access.id as usize] += 1;
                assert_eq!(access.size, 1024);
            }
            let weight = |rank: usize| (rank as f64 + shift).powf(-exponent);
            let all: f64 = (1..=100).map(weight).sum();
            let chi: f64 = (1..=100)
                .map(|rank| {
                    (
                        requests as f64 * weight(rank) / all,
                        f64::from(counts[rank - 1]),
                    )
                })
                .map(|(expected, found)| (found - expected).powi(2) / expected)
                .sum();
            // 99 degrees of freedom: χ² is above 149 once in a thousand.
            assert!(chi < 149.0, "shift {shift}: χ² {chi}");
        }
    }

    #[test]
    fn parameters_of_nothing() {
        let web = Web::default();
        let error = |web: Web| web.requests(&Streams::new(1)).unwrap_err().to_string();
        for bad in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            assert!(
                error(Web {
                    exponent: bad,
                    ..web
                })
                .contains("exponent")
            );
            assert!(
                error(Web {
                    requests_per_second: bad,
                    ..web
                })
                .contains("requests-per-second")
            );
        }
        assert!(error(Web { objects: 0, ..web }).contains("objects"));
        assert!(error(Web { shift: -0.5, ..web }).contains("shift"));
        let seldom = Web {
            requests_per_second: 1e-300,
            ..web
        };
        assert_eq!(
            seldom
                .requests(&Streams::new(1))
                .unwrap()
                .nth(3)
                .unwrap()
                .now,
            Time::MAX
        );
    }

    #[test]
    fn two_runs_differ() {
        let requests = |seed| {
            Web::default()
                .requests(&Streams::new(seed))
                .unwrap()
                .take(100)
                .collect::<Vec<_>>()
        };
        assert_eq!(requests(1), requests(1));
        assert_ne!(requests(1), requests(2));
    }
}
