//! The traffic of a CDN's hot object cache, generated from the published properties of traces that
//! are not public (Berger, Sitaraman and Harchol-Balter, AdaptSize, NSDI 2017, section 4.1, figures
//! 4 and 9, table 2).
//!
//! | property | published | how it is made |
//! | --- | --- | --- |
//! | sizes | 1 B to 1.6 GB | log-normal, cut there |
//! | objects above 1 MB | about 5 % | median [`MEDIAN`], deviation [`DEVIATION`] |
//! | requests for about 1 KB | about 15 % | the same |
//! | mean size, weighted by requests | 335 KB | the same |
//! | mean size of objects with more than 200,000 of 450 million requests | 8.6 KB | median and deviation are smaller for popular objects |
//! | arrivals | 450 million in nine days | Poisson, 580 a second |
//!
//! Popularity is Zipf, independent of time; the paper does not publish its exponent. An object's
//! popularity, as far as it affects its size, is the share of requests for more popular objects.
//! Objects below the first of [`POPULAR_SHARES`] are popular (with 10⁶ objects and the exponent
//! 0.9, these are the ones with the paper's share), those above the second are not; between the
//! two, the logarithm of the median and the deviation change linearly. So a scaled-down catalogue
//! has the same properties. Another exponent needs other shares ([`Cdn::with_popular_shares`]).
//! Popular objects are about forty times smaller than the mean. Size-aware admission depends on
//! this; other published tables ([`crate::Joint`]) do not have it.

use super::{ParameterError, arrivals};
use crate::limits::CDN_MAX_OBJECTS;
use crate::{Access, Zipf};
use larder_units::{Stream, Streams, Time};
use std::f64::consts::TAU;

/// The share of all requests that go to popular objects, and the share beyond which popularity does
/// not affect the size, for the exponent 0.9.
const POPULAR_SHARES: [f64; 2] = [0.22, 0.44];
/// Median size in bytes, of rare and of popular objects.
const MEDIAN: [f64; 2] = [17e3, 4.2e3];
/// Deviation of the size's natural logarithm, of rare and of popular objects.
const DEVIATION: [f64; 2] = [2.6, 1.2];
/// The smallest and the largest object of the paper's traces, in bytes.
const SIZES: [f64; 2] = [1.0, 1.6e9];
/// Requests per second: 450 million from 29 January to 6 February.
pub(super) const RATE: f64 = 580.0;

/// A CDN's catalogue: popularity and size of each object. 4 bytes of memory an object.
#[derive(Clone, Debug)]
pub struct Cdn {
    zipf: Zipf,
    /// In the order of popularity, the most popular first.
    sizes: Vec<u32>,
    streams: Streams,
}

impl Cdn {
    /// Creates a catalogue of `objects` whose popularity falls with the Zipf exponent `exponent`.
    /// 1,000,000 and 0.9 represent about a day of the published traces.
    ///
    /// # Errors
    /// [`ParameterError`] if there is no such distribution, or more than [`CDN_MAX_OBJECTS`].
    pub fn new(objects: usize, exponent: f64, streams: &Streams) -> Result<Cdn, ParameterError> {
        Cdn::with_popular_shares(objects, exponent, POPULAR_SHARES, streams)
    }

    /// Creates a catalogue as [`Cdn::new`] does, in which popular objects have the first of
    /// `shares` of all requests, and popularity does not affect sizes beyond the second one.
    ///
    /// # Errors
    /// [`ParameterError`] as of [`Cdn::new`], or if the shares do not rise between 0 and 1.
    pub fn with_popular_shares(
        objects: usize,
        exponent: f64,
        shares: [f64; 2],
        streams: &Streams,
    ) -> Result<Cdn, ParameterError> {
        if !(0.0 <= shares[0] && shares[0] < shares[1] && shares[1] <= 1.0) {
            return Err(ParameterError {
                parameter: "popular",
                needed: "two shares that rise, from 0 to 1, are needed",
            });
        }
        if objects > CDN_MAX_OBJECTS {
            return Err(ParameterError {
                parameter: "objects",
                needed: "at most 268,435,456 (2^28) are needed",
            });
        }
        let zipf = Zipf::new(objects as u64, exponent).ok_or(ParameterError::popularity())?;
        let weight = |rank: usize| (rank as f64).powf(-exponent);
        let all: f64 = (1..=objects).map(weight).sum();
        let mut stream = streams.stream("cdn sizes");
        let mut before = 0.0;
        let sizes = (1..=objects).map(|rank| {
            let size = size(before / all, shares, &mut stream);
            before += weight(rank);
            size
        });
        Ok(Cdn {
            zipf,
            sizes: sizes.collect(),
            streams: *streams,
        })
    }

    /// Returns the same catalogue with `factor` times larger objects, up to 1.6 GB each.
    pub fn magnified(mut self, factor: u32) -> Cdn {
        for size in &mut self.sizes {
            *size = size.saturating_mul(factor).min(SIZES[1] as u32);
        }
        self
    }

    /// Returns endless requests, always the same ones.
    pub fn requests(&self) -> CdnRequests<'_> {
        CdnRequests {
            cdn: self,
            stream: self.streams.stream("cdn requests"),
            now: Time::ZERO,
        }
    }

    /// Returns the objects' sizes in bytes, the most popular object first. An object's id is its
    /// index.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }
}

/// Returns a size for an object, if this share of all requests goes to more popular ones.
fn size(before: f64, [popular, rare]: [f64; 2], stream: &mut Stream) -> u32 {
    let popularity = ((rare - before) / (rare - popular)).clamp(0.0, 1.0);
    let between = |[rare, popular]: [f64; 2]| rare + (popular - rare) * popularity;
    // Box and Muller: a normally distributed number.
    let normal = (-2.0 * (1.0 - stream.unit()).ln()).sqrt() * (TAU * stream.unit()).cos();
    let [smallest, largest] = SIZES;
    (between(MEDIAN.map(f64::ln)) + between(DEVIATION) * normal)
        .exp()
        .clamp(smallest, largest) as u32
}

/// The requests of a [`Cdn`].
#[derive(Clone, Debug)]
pub struct CdnRequests<'a> {
    cdn: &'a Cdn,
    stream: Stream,
    now: Time,
}

impl Iterator for CdnRequests<'_> {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        self.now += arrivals::pause(RATE, &mut self.stream);
        let id = self.cdn.zipf.draw(&mut self.stream) - 1;
        Some(Access {
            id,
            size: u64::from(self.cdn.sizes[id as usize]),
            now: self.now,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the properties that the paper publishes. Sizes have a heavy tail, so the means of
    /// other seeds differ by a third.
    fn check(objects: usize) {
        let cdn = Cdn::new(objects, 0.9, &Streams::new(1)).unwrap();
        let sizes = cdn.sizes();
        let large = sizes.iter().filter(|size| **size > 1_000_000).count() as f64 / objects as f64;
        assert!(
            (0.045..0.065).contains(&large),
            "{objects} objects: {large} of them above 1 MB"
        );

        let requests = 2_000_000;
        let (mut bytes, mut about_1_kb) = (0.0, 0);
        let mut counts = vec![0_u32; objects];
        for access in cdn.requests().take(requests) {
            bytes += access.size as f64;
            about_1_kb += u32::from((500..2000).contains(&access.size));
            counts[access.id as usize] += 1;
        }
        let mean = bytes / requests as f64;
        assert!(
            (230e3..430e3).contains(&mean),
            "{objects} objects: mean size of a request {mean}"
        );
        let share = f64::from(about_1_kb) / requests as f64;
        assert!(
            (0.11..0.19).contains(&share),
            "{objects} objects: {share} of the requests for about 1 KB"
        );

        let weight = |rank: usize| (rank as f64).powf(-0.9);
        let all: f64 = (1..=objects).map(weight).sum();
        let mut before = 0.0;
        let last = (1..=objects).take_while(|rank| {
            before += weight(*rank) / all;
            before < POPULAR_SHARES[0]
        });
        let least = weight(last.last().unwrap()) / all;
        if objects == 1_000_000 {
            assert!(
                (least * 450e6 / 200e3 - 1.0).abs() < 0.1,
                "popular objects have shares above {least}"
            );
        }
        let enough = requests as f64 * least;
        let popular = counts
            .iter()
            .zip(sizes)
            .filter(|(count, _)| f64::from(**count) > enough);
        let popular: Vec<f64> = popular.map(|(_, size)| f64::from(*size)).collect();
        let small = popular.iter().sum::<f64>() / popular.len() as f64;
        assert!(popular.len() > 15, "{}", popular.len());
        assert!(
            (6e3..11e3).contains(&small),
            "{objects} objects: mean size of popular objects {small}"
        );
        assert!(
            (25.0..55.0).contains(&(mean / small)),
            "{small} is not some 40 times less than {mean}"
        );
    }

    #[test]
    fn properties_are_not_as_published() {
        check(1_000_000);
        let cdn = Cdn::new(1_000_000, 0.9, &Streams::new(1)).unwrap();
        let (smallest, largest) = (
            cdn.sizes().iter().min().unwrap(),
            cdn.sizes().iter().max().unwrap(),
        );
        // Ten orders of magnitude from the first digit of 1 B to that of 1.6 GB.
        assert!(
            *smallest == 1 && *largest >= 1_000_000_000,
            "{smallest} to {largest}"
        );
    }

    #[test]
    fn popular_objects_of_another_exponent_are_large() {
        let of = |shares| Cdn::with_popular_shares(1_000_000, 1.05, shares, &Streams::new(1));
        // With this exponent, 163 objects have more than the paper's share of the requests.
        let cdn = of([0.5, 0.6]).unwrap();
        let popular = &cdn.sizes[..163];
        let mean = popular.iter().map(|size| f64::from(*size)).sum::<f64>() / 163.0;
        assert!((5e3..12e3).contains(&mean), "{mean}");
        for shares in [
            [0.6, 0.5],
            [0.5, 0.5],
            [-0.1, 0.5],
            [0.5, 1.1],
            [f64::NAN, 0.5],
        ] {
            assert!(of(shares).is_err(), "{shares:?}");
        }
    }

    #[test]
    fn a_smaller_catalogue_loses_them() {
        check(100_000);
        check(30_000);
    }

    #[test]
    fn arrivals_stand_still_or_depend_on_the_seed_of_another() {
        let requests = |seed| {
            let cdn = Cdn::new(1000, 0.9, &Streams::new(seed)).unwrap();
            cdn.requests().take(58_000).collect::<Vec<_>>()
        };
        let ours = requests(1);
        assert_eq!(ours, requests(1));
        assert_ne!(ours, requests(2));
        let seconds = ours.last().unwrap().now.since(Time::ZERO).as_secs_f64();
        assert!(
            (98.0..102.0).contains(&seconds),
            "{seconds} s for 100 s of requests"
        );
        assert!(ours.windows(2).all(|pair| pair[0].now <= pair[1].now));
    }

    #[test]
    fn catalogues_of_nothing() {
        let cdn = |objects, exponent| Cdn::new(objects, exponent, &Streams::new(1));
        assert!(cdn(0, 0.9).is_err() && cdn(10, f64::NAN).is_err() && cdn(10, -1.0).is_err());
        assert!(cdn(CDN_MAX_OBJECTS + 1, 0.9).is_err());
        assert!(
            cdn(1, 0.9)
                .unwrap()
                .requests()
                .take(10)
                .all(|access| access.id == 0)
        );
    }
}
