//! The request rates of objects: by a law, or as counted in a trace.

use crate::{Survey, Unit};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Ranks of a Zipf law that a model treats separately. Above them, blocks of 4 ranks in 1024 grow
/// with the rank: the rates in one differ by half a per cent, which changes a hit ratio by less
/// than 10⁻⁶.
const SEPARATE_RANKS: u64 = 1024;

/// Request counts of a trace's objects that a model treats separately: the many objects with few
/// requests decide its first requests.
const SEPARATE_COUNTS: u64 = 64;

/// Groups per octave of larger counts, and of sizes. A group's members differ by 4 %, and count
/// with their mean.
const GROUPS_PER_OCTAVE: f64 = 16.0;

/// Objects of one rate and one size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Group {
    /// The number of objects.
    pub objects: f64,
    /// The share of all requests for each of them: λ, a probability.
    pub rate: f64,
    /// The bytes of each object.
    pub size: f64,
    /// The share of its requests that are the first of an object, which no cache can hit: 0 for a
    /// law, which has no beginning, and 1/n for an object with n requests in a trace.
    pub first: f64,
}

/// The popularity and the sizes of a catalogue, in groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Popularity {
    groups: Vec<Group>,
}

impl Popularity {
    /// Creates `objects` objects of one byte each, so that capacities count objects. Rank k has a
    /// probability proportional to k^−`exponent`. `None` unless there is an object and the exponent
    /// is finite and positive.
    ///
    /// The first ranks are groups of their own, the others are in blocks in which rates differ by
    /// less than s/256. A block has its exact total (the integral from half a rank before to half a
    /// rank after it, with a relative error of 10⁻⁸ there).
    pub fn zipf(objects: u64, exponent: f64) -> Option<Popularity> {
        if objects == 0 || !(exponent.is_finite() && exponent > 0.0) {
            return None;
        }
        let exact =
            (1..=objects.min(SEPARATE_RANKS)).map(|rank| (1.0, (rank as f64).powf(-exponent)));
        let mut blocks: Vec<(f64, f64)> = exact.collect();
        let mut rank = SEPARATE_RANKS;
        while rank < objects {
            let end = rank.saturating_add(rank / SEPARATE_RANKS * 4).min(objects);
            let block = (end - rank) as f64;
            blocks.push((
                block,
                sum_of_powers(rank as f64 + 0.5, end as f64 + 0.5, exponent) / block,
            ));
            rank = end;
        }
        let total: f64 = blocks
            .iter()
            .map(|(objects, weight)| objects * weight)
            .sum();
        let group = |(objects, weight)| Group {
            objects,
            rate: weight / total,
            size: 1.0,
            first: 0.0,
        };
        Some(Popularity {
            groups: blocks.into_iter().map(group).collect(),
        })
    }

    /// Returns the popularity of a trace, with sizes. Low counts are groups of their own; higher
    /// counts and all sizes are in groups of a sixteenth of an octave, with the mean of their
    /// objects. A size is the object's largest; a size of 0 counts as one byte, as in the engine.
    pub fn of(survey: &Survey) -> Popularity {
        let mut groups: HashMap<(u64, u64), (f64, f64, f64), FixedState> = HashMap::default();
        for (count, size) in survey.counted() {
            let size = size.max(1);
            let group = groups
                .entry((class(count, SEPARATE_COUNTS), class(size, 1)))
                .or_default();
            group.0 += 1.0;
            group.1 += count as f64;
            group.2 += size as f64;
        }
        let all = survey.requests() as f64;
        let mut groups: Vec<Group> = groups
            .into_values()
            .map(|(objects, requests, bytes)| Group {
                objects,
                rate: requests / objects / all,
                size: bytes / objects,
                first: objects / requests,
            })
            .collect();
        // The order of a map would make the sum depend on it.
        groups.sort_by(|a, b| b.rate.total_cmp(&a.rate).then(a.size.total_cmp(&b.size)));
        Popularity { groups }
    }

    /// Creates it from these groups. Rates need not add up to 1, but rates and sizes must be
    /// positive and finite.
    pub fn from_groups(groups: Vec<Group>) -> Popularity {
        Popularity { groups }
    }

    /// Gives all objects a size of `size` bytes.
    pub fn with_size(mut self, size: u64) -> Popularity {
        for group in &mut self.groups {
            group.size = size.max(1) as f64;
        }
        self
    }

    /// Returns the groups.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Returns the unit of the sizes.
    pub fn unit(&self) -> Unit {
        if self.groups.iter().all(|group| group.size <= 1.0) {
            Unit::Objects
        } else {
            Unit::Bytes
        }
    }

    /// Returns the number of objects in all groups.
    pub fn objects(&self) -> f64 {
        self.groups.iter().map(|group| group.objects).sum()
    }

    /// Returns the bytes of all objects.
    pub fn bytes(&self) -> f64 {
        self.groups
            .iter()
            .map(|group| group.objects * group.size)
            .sum()
    }
}

/// Returns ∫ x^−s dx from `low` to `high`, in a form without a special case for s = 1.
fn sum_of_powers(low: f64, high: f64, s: f64) -> f64 {
    let ln = (high / low).ln();
    let power = (1.0 - s) * ln;
    let over = if power.abs() > 1e-8 {
        power.exp_m1() / power
    } else {
        1.0 + power / 2.0
    };
    low.powf(1.0 - s) * ln * over
}

/// Returns `value` itself up to `exact`, above it its sixteenth of an octave.
fn class(value: u64, exact: u64) -> u64 {
    if value <= exact {
        value
    } else {
        exact + ((value as f64).log2() * GROUPS_PER_OCTAVE) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;
    use larder_units::Time;

    #[test]
    fn blocks_change_the_law() {
        for (objects, exponent) in [
            (1, 1.0),
            (1000, 0.8),
            (300_000, 0.8),
            (300_000, 1.0),
            (300_000, 2.5),
        ] {
            let popularity = Popularity::zipf(objects, exponent).unwrap();
            let total: f64 = (1..=objects)
                .map(|rank| (rank as f64).powf(-exponent))
                .sum();
            assert_eq!(popularity.objects(), objects as f64);
            assert!(popularity.groups().len() < 5_000);
            let mut rank = 0;
            for group in popularity.groups() {
                let ranks = rank + 1..=rank + group.objects as u64;
                let exact: f64 = ranks
                    .clone()
                    .map(|rank| (rank as f64).powf(-exponent) / total)
                    .sum();
                assert!(
                    (group.objects * group.rate / exact - 1.0).abs() < 1e-6,
                    "{objects}, {exponent}: {ranks:?}"
                );
                rank += group.objects as u64;
            }
        }
    }

    #[test]
    fn no_such_law() {
        for (objects, exponent) in [
            (0, 1.0),
            (5, 0.0),
            (5, f64::NAN),
            (5, f64::INFINITY),
            (5, -1.0),
        ] {
            assert!(Popularity::zipf(objects, exponent).is_none());
        }
        assert!(Popularity::zipf(u64::MAX, 0.7).unwrap().groups().len() < 20_000);
    }

    #[test]
    fn requests_of_a_trace_are_lost() {
        let mut survey = Survey::default();
        let mut requests = 0;
        for id in 0..1000_u64 {
            for _ in 0..=id {
                survey.count(&Access {
                    id,
                    size: id * id,
                    now: Time::ZERO,
                });
                requests += 1;
            }
        }
        let popularity = Popularity::of(&survey);
        assert!(
            popularity.groups().len() < 300,
            "{}",
            popularity.groups().len()
        );
        let sum = |of: fn(&Group) -> f64| popularity.groups().iter().map(of).sum::<f64>();
        assert_eq!(survey.requests(), requests);
        assert!((sum(|group| group.objects) - 1000.0).abs() < 1e-9);
        assert!((sum(|group| group.objects * group.rate) - 1.0).abs() < 1e-9);
        assert!(
            (sum(|group| group.objects * group.rate * group.first) * requests as f64 - 1000.0)
                .abs()
                < 1e-6
        );
        assert!(
            (popularity.bytes() - (1.0 + (0..1000).map(|id| id * id).sum::<u64>() as f64)).abs()
                < 1e-3
        );
    }
}
