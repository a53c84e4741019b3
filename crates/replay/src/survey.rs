//! Statistics of a trace: the number of objects, their sizes and their popularity.

use crate::Access;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_units::Time;
use serde::Serialize;

/// Least requests of an object in the fit. Below, counts are so small that whole numbers form
/// steps.
const FITTED_REQUESTS: u64 = 10;
/// Ranks per octave in the fit: every scale has the same weight.
const FITTED_RANKS_AN_OCTAVE: f64 = 8.0;
/// Least ranks for a fit.
const LEAST_RANKS: usize = 8;

/// Counts the requests, the objects and their bytes. Memory grows with the objects: 24 bytes each,
/// and the table's slack.
#[derive(Default)]
pub struct Survey {
    objects: HashMap<u64, Object, FixedState>,
    requests: u64,
    requested_bytes: u64,
    unique_bytes: u64,
    times: Option<(Time, Time)>,
}

#[derive(Clone, Copy, Default)]
struct Object {
    /// The largest size so far.
    size: u64,
    requests: u64,
}

impl Survey {
    /// Counts one request.
    pub fn count(&mut self, access: &Access) {
        self.requests += 1;
        self.requested_bytes = self.requested_bytes.saturating_add(access.size);
        let (first, last) = self.times.unwrap_or((access.now, access.now));
        self.times = Some((first.min(access.now), last.max(access.now)));
        let object = self.objects.entry(access.id).or_default();
        object.requests += 1;
        self.unique_bytes = self
            .unique_bytes
            .saturating_add(access.size.saturating_sub(object.size));
        object.size = object.size.max(access.size);
    }

    /// Returns the requests counted.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the different objects.
    pub fn objects(&self) -> u64 {
        self.objects.len() as u64
    }

    /// Returns the bytes of all objects, each with its largest size; at most 2^64 − 1.
    pub fn unique_bytes(&self) -> u64 {
        self.unique_bytes
    }

    /// Returns each object's requests, and its largest size in bytes.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (u64, u64)> {
        self.objects
            .values()
            .map(|object| (object.requests, object.size))
    }

    /// Returns all statistics. It sorts the objects, with 16 more bytes of memory for each.
    pub fn report(&self) -> Report {
        let mut objects: Vec<Object> = self.objects.values().copied().collect();
        objects.sort_unstable_by_key(|object| std::cmp::Reverse(object.requests));
        let counts = || objects.iter().map(|object| object.requests);
        let once = counts().rev().take_while(|count| *count == 1).count();
        let of_top = |share: f64| {
            let top = (objects.len() as f64 * share).ceil() as usize;
            ratio(counts().take(top).sum::<u64>(), self.requests)
        };
        let popularity = Popularity {
            zipf: Zipf::fit(&objects),
            top_1_percent: of_top(0.01),
            top_10_percent: of_top(0.10),
            most_requests: counts().next().unwrap_or(0),
            one_hit_wonders: ratio(once as u64, objects.len() as u64),
        };
        objects.sort_unstable_by_key(|object| object.size);
        let (first, last) = self.times.unwrap_or_default();
        Report {
            requests: self.requests,
            objects: self.objects(),
            requested_bytes: self.requested_bytes,
            unique_bytes: self.unique_bytes,
            seconds: last.since(first).as_secs_f64(),
            sizes: Sizes::of(&objects, self.requests, self.unique_bytes),
            popularity,
        }
    }
}

/// The statistics of a trace. A size is the object's largest in the trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Requests.
    pub requests: u64,
    /// Different objects.
    pub objects: u64,
    /// Bytes of all requests.
    pub requested_bytes: u64,
    /// Bytes of all objects: the capacity at which a cache never evicts (footprint).
    pub unique_bytes: u64,
    /// The time from the earliest to the latest request; 0 in traces without times.
    pub seconds: f64,
    /// The sizes of the objects.
    pub sizes: Sizes,
    /// The popularity of the objects.
    pub popularity: Popularity,
}

/// The distribution of sizes in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizes {
    /// The mean over objects.
    pub mean: f64,
    /// The mean over requests.
    pub mean_requested: f64,
    /// The percentiles, the smallest first: the least size that this share of the objects, or of
    /// the requests, does not exceed.
    pub percentiles: [Percentile; 7],
    /// By the power of ten, with all powers between the smallest and the largest.
    pub decades: Vec<Decade>,
}

/// A percentile of the sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentile {
    /// 0 to 100.
    pub percent: u8,
    /// The percentile over all objects, in bytes.
    pub objects: u64,
    /// The percentile over all requests, in bytes.
    pub requests: u64,
}

/// The sizes of one power of ten.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Decade {
    /// The least size in bytes: a power of ten, or 0 for objects without bytes.
    pub from: u64,
    /// Share of the objects.
    pub objects: f64,
    /// Share of the requests.
    pub requests: f64,
    /// Share of the bytes of all objects.
    pub bytes: f64,
}

/// The distribution of popularity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Popularity {
    /// A fitted Zipf law; `None` if too few objects have enough requests.
    pub zipf: Option<Zipf>,
    /// The share of the requests for the most popular hundredth of the objects, rounded up to whole
    /// objects.
    pub top_1_percent: f64,
    /// The share of the requests for the most popular tenth.
    pub top_10_percent: f64,
    /// Requests of the most popular object.
    pub most_requests: u64,
    /// The share of the objects with one request.
    pub one_hit_wonders: f64,
}

/// A straight line through ln requests over ln rank, by least squares, at eight ranks per octave,
/// for objects with at least ten requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Zipf {
    /// The slope, as a positive number.
    pub exponent: f64,
    /// The share of the variance that the line explains.
    pub r_squared: f64,
    /// The last rank in the fit.
    pub ranks: u64,
}

impl Zipf {
    /// Fits a law to `objects`, which are sorted by their requests, the most first.
    fn fit(objects: &[Object]) -> Option<Zipf> {
        let ranks = objects.partition_point(|object| object.requests >= FITTED_REQUESTS);
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut last = 0;
        for step in 0.. {
            let rank = (f64::from(step) / FITTED_RANKS_AN_OCTAVE).exp2() as usize;
            if rank > ranks {
                break;
            }
            if rank > last {
                points.push(((rank as f64).ln(), (objects[rank - 1].requests as f64).ln()));
                last = rank;
            }
        }
        if points.len() < LEAST_RANKS {
            return None;
        }
        let n = points.len() as f64;
        let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| {
            (x + point.0 / n, y + point.1 / n)
        });
        let sum = |term: fn(f64, f64) -> f64| {
            points
                .iter()
                .map(|point| term(point.0 - x, point.1 - y))
                .sum::<f64>()
        };
        let (xx, xy, yy) = (sum(|x, _| x * x), sum(|x, y| x * y), sum(|_, y| y * y));
        let r_squared = if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 };
        Some(Zipf {
            exponent: -xy / xx,
            r_squared,
            ranks: ranks as u64,
        })
    }
}

impl Sizes {
    const PERCENTS: [u8; 7] = [0, 10, 25, 50, 75, 90, 100];

    /// Returns the distribution for `objects`, which are sorted by size, the smallest first.
    fn of(objects: &[Object], requests: u64, unique_bytes: u64) -> Sizes {
        let mut decades: Vec<(u64, u64, u64, u128)> = Vec::new();
        let mut requested = 0_u128;
        for object in objects {
            requested += u128::from(object.size) * u128::from(object.requests);
            let from = object
                .size
                .checked_ilog10()
                .map_or(0, |digits| 10_u64.pow(digits));
            while decades.last().is_none_or(|decade| decade.0 < from) {
                let next = decades
                    .last()
                    .map_or(from, |decade| if decade.0 == 0 { 1 } else { decade.0 * 10 });
                decades.push((next, 0, 0, 0));
            }
            if let Some(decade) = decades.last_mut() {
                *decade = (
                    from,
                    decade.1 + 1,
                    decade.2 + object.requests,
                    decade.3 + u128::from(object.size),
                );
            }
        }
        let all = objects.len() as u64;
        let bytes: u128 = decades.iter().map(|decade| decade.3).sum();
        let share = |part: u128| {
            if bytes == 0 {
                0.0
            } else {
                part as f64 / bytes as f64
            }
        };
        Sizes {
            mean: ratio(unique_bytes, all),
            mean_requested: if requests == 0 {
                0.0
            } else {
                requested as f64 / requests as f64
            },
            percentiles: Sizes::PERCENTS.map(|percent| percentile(objects, requests, percent)),
            decades: decades
                .into_iter()
                .map(|(from, o, r, b)| Decade {
                    from,
                    objects: ratio(o, all),
                    requests: ratio(r, requests),
                    bytes: share(b),
                })
                .collect(),
        }
    }
}

fn percentile(objects: &[Object], requests: u64, percent: u8) -> Percentile {
    let part = |all: u64| ((u128::from(all) * u128::from(percent)).div_ceil(100) as u64).max(1);
    let object = part(objects.len() as u64) - 1;
    let mut left = part(requests);
    let requested = objects.iter().find(|object| {
        let is_there = object.requests >= left;
        left = left.saturating_sub(object.requests);
        is_there
    });
    Percentile {
        percent,
        objects: objects.get(object as usize).map_or(0, |object| object.size),
        requests: requested.map_or(0, |object| object.size),
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Web;
    use larder_units::Streams;

    fn report(accesses: impl IntoIterator<Item = (u64, u64, u64)>) -> Report {
        let mut survey = Survey::default();
        for (s, id, size) in accesses {
            survey.count(&Access {
                id,
                size,
                now: Time::from_secs(s),
            })
        }
        survey.report()
    }

    #[test]
    fn counts_are_off() {
        // Object 1 three times, with 5, 20 and 20 bytes; objects 2 to 4 once, with 0, 100 and
        // 999,999 bytes.
        let report = report([
            (5, 1, 5),
            (6, 2, 0),
            (7, 1, 20),
            (9, 3, 100),
            (8, 4, 999_999),
            (9, 1, 20),
        ]);
        assert_eq!(
            (report.requests, report.objects, report.requested_bytes),
            (6, 4, 1_000_144)
        );
        assert_eq!((report.unique_bytes, report.seconds), (1_000_119, 4.0));
        let popularity = report.popularity;
        assert_eq!(
            (popularity.most_requests, popularity.one_hit_wonders),
            (3, 0.75)
        );
        assert_eq!(
            (
                popularity.top_1_percent,
                popularity.top_10_percent,
                popularity.zipf
            ),
            (0.5, 0.5, None)
        );
        assert_eq!(report.sizes.mean, 1_000_119.0 / 4.0);
        assert_eq!(report.sizes.mean_requested, 1_000_159.0 / 6.0);
        let percentiles = report
            .sizes
            .percentiles
            .map(|p| (p.percent, p.objects, p.requests));
        let expected = [
            (0, 0, 0),
            (10, 0, 0),
            (25, 0, 20),
            (50, 20, 20),
            (75, 100, 100),
            (90, 999_999, 999_999),
            (100, 999_999, 999_999),
        ];
        assert_eq!(percentiles, expected);
        let decades: Vec<_> = report
            .sizes
            .decades
            .iter()
            .map(|decade| (decade.from, decade.objects))
            .collect();
        let expected = [
            (0, 0.25),
            (1, 0.0),
            (10, 0.25),
            (100, 0.25),
            (1000, 0.0),
            (10_000, 0.0),
            (100_000, 0.25),
        ];
        assert_eq!(decades, expected);
        assert!(
            report
                .sizes
                .decades
                .iter()
                .map(|decade| decade.requests)
                .sum::<f64>()
                > 0.999_999
        );
        assert_eq!(report.sizes.decades[2].requests, 0.5);
    }

    #[test]
    fn a_zipf_law_is_not_found_again() {
        for exponent in [0.8, 1.0, 1.3] {
            let web = Web {
                objects: 20_000,
                exponent,
                ..Web::default()
            };
            let mut survey = Survey::default();
            for access in web.requests(&Streams::new(5)).unwrap().take(400_000) {
                survey.count(&access);
            }
            let fit = survey.report().popularity.zipf.unwrap();
            assert!(
                (fit.exponent - exponent).abs() < 0.03 && fit.r_squared > 0.99,
                "{exponent}: {fit:?}"
            );
        }
    }

    #[test]
    fn traces_of_nothing_and_of_all() {
        let nothing = report([]);
        assert_eq!(
            (nothing.requests, nothing.seconds, nothing.sizes.mean),
            (0, 0.0, 0.0)
        );
        assert!(nothing.sizes.decades.is_empty() && nothing.popularity.zipf.is_none());
        let all = report([(0, 1, u64::MAX), (u64::MAX, 2, u64::MAX), (0, 3, 1 << 63)]);
        assert_eq!((all.unique_bytes, all.sizes.decades.len()), (u64::MAX, 2));
        assert_eq!(all.sizes.decades[1].from, 10_000_000_000_000_000_000);
    }
}
