//! Requests drawn from a table of popularity and size, the joint distribution of published models
//! of CDN traffic classes (Sabnis and Sitaraman, JEDI: model-driven trace generation for cache
//! simulations, IMC 2022).
//!
//! ```text
//! table = *( popularity *( size probability ) )    one popularity, or one size with its probability, a line
//! ```
//!
//! A popularity is the number of requests of one object. The lines below it give the sizes of such
//! objects, as the upper end of a bin in KB (1,000 bytes), with the share of all objects in this
//! bin. A bin begins at the end of the next smaller size of the whole table, the lowest at
//! [`MIN_SIZE`]. Objects are drawn by these shares. Each has as many requests as its popularity,
//! but at most a fortieth of all requests; its size is log-uniform inside its bin. The order is
//! random, without any locality in time, which favours frequency-based policies. A few very popular
//! objects matter much: LRU's hit ratio differs by ten points between seeds (.56 to .65 for a
//! published web class, 1 GiB, 5 million requests), so policies are compared on one seed.

use crate::Access;
use crate::limits::JOINT_MAX_REQUESTS;
use larder_units::{Stream, Streams, Time};
use std::collections::BTreeSet;
use std::fmt;
use std::io::BufRead;

/// Bins of a joint table of popularity and size: two hundred times as many as in published tables.
const MAX_BINS: usize = 1 << 20;

/// The start of the lowest bin in bytes.
const MIN_SIZE: f64 = 100.0;
/// The table's unit of size in bytes.
const KB: f64 = 1000.0;
/// An object has at most one part in this many of the requests, so that no object dominates a short
/// trace.
const MAX_SHARE: usize = 40;

/// A joint distribution of popularity and size.
///
/// ```
/// let table = "1\n10 0.75\n3\n1 0.25\n";
/// let joint = larder_replay::Joint::read(table.as_bytes()).unwrap();
/// let requests = joint.requests(1000, &larder_units::Streams::new(1));
/// assert_eq!(requests.len(), 1000);
/// ```
#[derive(Clone, Debug)]
pub struct Joint {
    bins: Vec<Bin>,
    /// The sum of all shares.
    total: f64,
}

#[derive(Clone, Copy, Debug)]
struct Bin {
    popularity: f64,
    /// In bytes.
    low: f64,
    high: f64,
    /// The sum of the shares up to this bin.
    cumulative: f64,
}

/// The error of a table that cannot be read: the line and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableError {
    line: usize,
    problem: String,
}

impl TableError {
    /// Returns the line, from 1; the number of lines if the whole table is wrong.
    pub fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for TableError {}

impl Joint {
    /// Reads a table.
    ///
    /// # Errors
    /// [`TableError`] if a line is neither a positive popularity nor a size with a share, or if the
    /// table has no objects.
    pub fn read(table: impl BufRead) -> Result<Joint, TableError> {
        let mut bins = Vec::new();
        let mut popularity = None;
        let mut cumulative = 0.0;
        let mut number = 0;
        for line in table.lines() {
            number += 1;
            let fail = |problem: String| TableError {
                line: number,
                problem,
            };
            let line = line.map_err(|error| fail(error.to_string()))?;
            let numbers: Result<Vec<f64>, _> =
                line.split_whitespace().take(3).map(str::parse).collect();
            let numbers =
                numbers.map_err(|_| fail(format!("`{}` holds what is no number", shown(&line))))?;
            if numbers
                .iter()
                .any(|number| !number.is_finite() || *number < 0.0)
            {
                return Err(fail(format!(
                    "`{}` holds a negative or infinite number",
                    shown(&line)
                )));
            }
            match (numbers.as_slice(), popularity) {
                ([], _) => {}
                ([requests], _) if *requests >= 1.0 => popularity = Some(*requests),
                ([_], _) => return Err(fail("a popularity is 1 or more".to_owned())),
                ([_, _], None) => {
                    return Err(fail("a size stands before the first popularity".to_owned()));
                }
                ([size, _], _) if size * KB <= MIN_SIZE => {
                    return Err(fail(format!("a bin ends above {} KB", MIN_SIZE / KB)));
                }
                ([size, share], Some(popularity)) => {
                    if bins.len() == MAX_BINS {
                        return Err(fail(format!("more than {MAX_BINS} bins")));
                    }
                    cumulative += share;
                    bins.push(Bin {
                        popularity,
                        low: 0.0,
                        high: size * KB,
                        cumulative,
                    });
                }
                _ => return Err(fail("more than two numbers".to_owned())),
            }
        }
        if !(cumulative > 0.0 && cumulative.is_finite()) {
            return Err(TableError {
                line: number,
                problem: "no share is positive, nothing can be drawn".to_owned(),
            });
        }
        // Positive floats are in the order of their bits.
        let ends: BTreeSet<u64> = bins.iter().map(|bin| bin.high.to_bits()).collect();
        for bin in &mut bins {
            let below = ends.range(..bin.high.to_bits()).next_back();
            bin.low = below.map_or(MIN_SIZE, |end| f64::from_bits(*end));
        }
        Ok(Joint {
            bins,
            total: cumulative,
        })
    }

    /// Returns at most this many requests, and at most [`JOINT_MAX_REQUESTS`]. They take 4 bytes of
    /// memory each, and 8 for each object.
    pub fn requests(&self, requests: usize, streams: &Streams) -> JointRequests {
        let requests = requests.min(JOINT_MAX_REQUESTS);
        let mut stream = streams.stream("joint");
        let most = (requests / MAX_SHARE).max(1);
        let mut order = Vec::with_capacity(requests);
        let mut sizes = Vec::new();
        while order.len() < requests {
            let bin = self.draw(&mut stream);
            let times = (bin.popularity as usize)
                .min(most)
                .min(requests - order.len());
            order.extend(std::iter::repeat_n(sizes.len() as u32, times));
            sizes.push((bin.low * (bin.high / bin.low).powf(stream.unit())) as u64);
        }
        // Fisher and Yates.
        for last in (1..order.len()).rev() {
            order.swap(last, stream.below(last as u64 + 1) as usize);
        }
        JointRequests {
            sizes,
            order: order.into_iter(),
        }
    }

    fn draw(&self, stream: &mut Stream) -> Bin {
        let at = stream.unit() * self.total;
        let place = self.bins.partition_point(|bin| bin.cumulative <= at);
        self.bins[place.min(self.bins.len() - 1)]
    }
}

/// Returns the part of a line that an error repeats.
fn shown(line: &str) -> String {
    line.chars()
        .take(40)
        .collect::<String>()
        .escape_debug()
        .to_string()
}

/// The requests of a [`Joint`], without times. An object's id is the order in which it was drawn.
#[derive(Clone, Debug)]
pub struct JointRequests {
    sizes: Vec<u64>,
    order: std::vec::IntoIter<u32>,
}

impl JointRequests {
    /// Returns the number of different objects.
    pub fn objects(&self) -> usize {
        self.sizes.len()
    }
}

impl Iterator for JointRequests {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        let id = self.order.next()?;
        Some(Access {
            id: u64::from(id),
            size: self.sizes[id as usize],
            now: Time::ZERO,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.order.size_hint()
    }
}

impl ExactSizeIterator for JointRequests {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// A quarter of the objects has 4 requests and 1 to 10 KB; the others have one request, and up
    /// to 1 KB or 10 to 100 KB.
    const TABLE: &str = "4\n10 0.25\n\n1\n1 0.5\n 100 0.25 \n";

    fn requests(table: &str, requests: usize, seed: u64) -> Vec<Access> {
        Joint::read(table.as_bytes())
            .unwrap()
            .requests(requests, &Streams::new(seed))
            .collect()
    }

    #[test]
    fn objects_are_not_as_the_table_says() {
        let accesses = requests(TABLE, 100_000, 1);
        assert_eq!(accesses.len(), 100_000);
        let mut objects: HashMap<u64, (u32, u64)> = HashMap::new();
        for access in &accesses {
            let object = objects.entry(access.id).or_insert((0, access.size));
            object.0 += 1;
            assert_eq!(object.1, access.size, "an object changes its size");
        }
        // 1.75 requests an object.
        assert!(
            (56_500..57_800).contains(&objects.len()),
            "{}",
            objects.len()
        );
        let share = |times: u32, low: u64, high: u64| {
            let found = objects
                .values()
                .filter(|object| object.0 == times && (low..high).contains(&object.1))
                .count();
            found as f64 / objects.len() as f64
        };
        for (times, low, high, expected) in [
            (4, 1000, 10_000, 0.25),
            (1, 100, 1000, 0.5),
            (1, 10_000, 100_000, 0.25),
            (1, 10_000, 31_623, 0.125),
        ] {
            let found = share(times, low, high);
            assert!(
                (found - expected).abs() < 0.01,
                "{times} times, {low} to {high} bytes: {found}"
            );
        }
    }

    #[test]
    fn the_order_is_not_random() {
        let accesses = requests(TABLE, 100_000, 1);
        let first = accesses.iter().filter(|access| access.id < 1000).count();
        let early = accesses[..10_000]
            .iter()
            .filter(|access| access.id < 1000)
            .count();
        let share = early as f64 / first as f64;
        assert!(
            (share - 0.1).abs() < 0.03,
            "{share} of the requests of the first objects are in the first tenth"
        );
        assert_eq!(accesses, requests(TABLE, 100_000, 1));
        assert_ne!(accesses, requests(TABLE, 100_000, 2));
    }

    #[test]
    fn one_object_takes_the_whole_trace() {
        let mut counts = HashMap::new();
        for access in requests("1000000\n1 1\n", 4000, 1) {
            *counts.entry(access.id).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 40);
        assert!(counts.values().all(|count| *count == 100));
        assert_eq!(requests(TABLE, 0, 1).len(), 0);
        assert_eq!(requests(TABLE, 1, 1).len(), 1);
    }

    #[test]
    fn errors_that_do_not_name_the_line() {
        for (table, line, problem) in [
            ("", 0, "nothing can be drawn"),
            ("4\n10 0\n", 2, "nothing can be drawn"),
            ("10 0.5\n", 1, "before the first popularity"),
            ("4\n10 x\n", 2, "`10 x` holds what is no number"),
            ("4\n10 NaN\n", 2, "negative or infinite"),
            ("4\n10 -1\n", 2, "negative or infinite"),
            ("4\n0.1 1\n", 2, "a bin ends above 0.1 KB"),
            ("0\n", 1, "a popularity is 1 or more"),
            ("4\n1 2 3\n", 2, "more than two numbers"),
            ("4\n1 1e308\n1 1e308\n", 3, "nothing can be drawn"),
        ] {
            let error = Joint::read(table.as_bytes()).unwrap_err();
            assert_eq!(error.line(), line, "{table:?}");
            assert!(error.to_string().contains(problem), "{table:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_table_that_panics(table in "[0-9 .e\n-]{0,60}", count in 0..100_usize) {
            if let Ok(joint) = Joint::read(table.as_bytes()) {
                prop_assert_eq!(joint.requests(count, &Streams::new(1)).count(), count);
            }
        }
    }
}
