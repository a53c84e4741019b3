//! The expected hits of an object per request that it will stay, by its count class and its age.
//!
//! Hits and evictions are counted at the age (requests since the object's last one) at which they
//! happen. Stored objects count as if they left at their present age. The density of an age is the
//! number of hits at that age or later, divided by the time that objects of that age still stayed:
//! LHD's hit density (Beckmann, Chen and Cidon, NSDI 2018), but with agd's request counts as
//! classes.
//!
//! A class with few events follows the density of all classes at that age, multiplied by its
//! count: [`PSEUDO_HITS`] are added to its own.
//!
//! Densities are kept as logarithms, so an object's rank is one table entry plus the logarithm of
//! its requests per byte.

/// Half octaves of the request count.
pub(in crate::evict::agd) const COUNT_CLASSES: usize = 24;

/// Quarter octaves of the age and [`YOUNGEST`], up to 2^26 requests.
const AGES: usize = 96;

/// Added to an age. The first four ages have two requests each.
const YOUNGEST: u32 = 8;

/// The steps of an octave in which logarithms are kept.
pub(in crate::evict::agd) const STEPS: u32 = 256;

/// The hits that a class has beside its own, at the density of all classes. 10 to 50 give the same
/// hit ratios; without any, a class with few objects is ranked by chance.
const PSEUDO_HITS: f64 = 50.0;

/// The factor of the counted events at each computation. With .97, hit ratios differ by up to .003.
const DECAY: f64 = 0.9;

/// Before the first computation, an object's rank falls by this many octaves per age.
const FIRST_FALL: f64 = 0.075;

/// The events at each age.
type Events = [f32; AGES];

pub(super) struct Densities {
    /// By count class, as far as there were any.
    hits: Vec<Events>,
    evictions: Vec<Events>,
    /// The logarithm of the density, less that of the class's count.
    ranks: Box<Ranks>,
}

/// The ages are a power of two, so that their index needs no check.
type Ranks = [[i16; AGES.next_power_of_two()]; COUNT_CLASSES];

/// Returns the events of a count class. A small cache sees few classes, and keeps no others.
#[inline]
fn of_class(all: &mut Vec<Events>, count_class: u8) -> &mut Events {
    let class = usize::from(count_class);
    if class >= all.len() {
        all.reserve_exact(class + 1 - all.len());
        all.resize(class + 1, [0.0; AGES]);
    }
    &mut all[class]
}

impl Densities {
    pub fn new() -> Self {
        let first = |age| steps(-FIRST_FALL * age as f64);
        Densities {
            hits: Vec::new(),
            evictions: Vec::new(),
            ranks: Box::new([std::array::from_fn(first); COUNT_CLASSES]),
        }
    }

    pub fn bytes(&self) -> usize {
        (self.hits.capacity() + self.evictions.capacity()) * size_of::<Events>()
            + size_of_val(&*self.ranks)
    }

    #[inline]
    pub fn hit(&mut self, count_class: u8, age: u32) {
        of_class(&mut self.hits, count_class)[bin(age)] += 1.0;
    }

    #[inline]
    pub fn evict(&mut self, count_class: u8, age: u32) {
        of_class(&mut self.evictions, count_class)[bin(age)] += 1.0;
    }

    /// Returns the rank of an object with one request per byte. The one with the lower rank leaves
    /// first.
    #[inline]
    pub fn rank(&self, count_class: u8, age: u32) -> i32 {
        let ranks = &self.ranks[usize::from(count_class)];
        ranks[bin(age)].into()
    }

    /// Computes the ranks from the events so far and from the stored objects: their classes, ages,
    /// and how many objects each stands for. The events then count less, by [`DECAY`] to the power
    /// of `share`.
    pub fn compute(&mut self, stored: impl Iterator<Item = (u8, u32, f32)>, share: f64) {
        let mut staying = Box::new([[0.0_f32; AGES]; COUNT_CLASSES]);
        for (class, age, objects) in stored {
            staying[usize::from(class)][bin(age)] += objects;
        }
        // For each class and age: the hits at that age or later, and the time until all left.
        let mut sums = Box::new([[(0.0, 0.0); AGES]; COUNT_CLASSES]);
        let mut all = [(0.0, 0.0); AGES];
        for class in 0..COUNT_CLASSES {
            let count = count(class);
            let (mut hits, mut left, mut time) = (0.0, 0.0, 0.0);
            for age in (0..AGES).rev() {
                let at = |events: &[Events]| events.get(class).map_or(0.0, |events| events[age]);
                let (hit, evicted) = (at(&self.hits), at(&self.evictions));
                hits += f64::from(hit);
                left += f64::from(hit + evicted + staying[class][age]);
                time += left * width(age);
                sums[class][age] = (hits, time);
                all[age].0 += hits;
                all[age].1 += count * time;
            }
        }
        for class in 0..COUNT_CLASSES {
            let count = count(class);
            for age in 0..AGES {
                let density = shrunk(sums[class][age], all[age], count);
                self.ranks[class][age] = steps((density / count).log2());
            }
        }
        let decay = DECAY.powf(share) as f32;
        let all = self.hits.iter_mut().chain(self.evictions.iter_mut());
        for events in all.flatten() {
            *events *= decay;
        }
    }

    /// Halves all ages: the owner sees half as many requests from now on.
    pub fn halve_ages(&mut self) {
        for events in self.hits.iter_mut().chain(self.evictions.iter_mut()) {
            for age in 0..AGES {
                let younger = bin(first_of(age) / 2);
                let moved = std::mem::take(&mut events[age]);
                events[younger] += moved;
            }
        }
        for ranks in self.ranks.iter_mut() {
            for age in 0..AGES {
                ranks[age] = ranks[bin(first_of(age).saturating_mul(2))];
            }
        }
    }
}

/// Returns a class's density at an age, from its hits and time, and from those of all classes for
/// one request each.
fn shrunk((hits, time): (f64, f64), (all_hits, all_time): (f64, f64), count: f64) -> f64 {
    if all_hits == 0.0 {
        // No object of that age was hit.
        return 0.0;
    }
    let common = count * all_hits / all_time;
    (hits + PSEUDO_HITS) / (time + PSEUDO_HITS / common)
}

/// Returns the request count of a class.
fn count(class: usize) -> f64 {
    (class as f64 / 2.0).exp2()
}

/// Returns a logarithm in [`STEPS`], within the range of a rank.
fn steps(log2: f64) -> i16 {
    (log2 * f64::from(STEPS)).max(f64::from(-i16::MAX)) as i16
}

/// Returns the index of an age.
#[inline]
fn bin(age: u32) -> usize {
    let age = age.saturating_add(YOUNGEST);
    let octave = age.ilog2();
    let quarter = (age >> (octave - 2)) & 3;
    ((octave * 4 + quarter) as usize - FIRST_BIN).min(AGES - 1)
}

/// The quarter octaves up to [`YOUNGEST`].
const FIRST_BIN: usize = 4 * YOUNGEST.ilog2() as usize;

/// Returns the first age with this index.
fn first_of(bin: usize) -> u32 {
    let quarters = (bin + FIRST_BIN) as u32;
    ((4 + quarters % 4) << (quarters / 4 - 2)) - YOUNGEST
}

/// Returns the number of ages with this index. The last has the width of the one before.
fn width(bin: usize) -> f64 {
    let bin = bin.min(AGES - 2);
    f64::from(first_of(bin + 1) - first_of(bin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_in_no_bin_or_in_two() {
        for index in 0..AGES {
            assert_eq!(bin(first_of(index)), index);
            assert!(
                index == 0 || bin(first_of(index) - 1) == index - 1,
                "{index}"
            );
        }
        assert_eq!(bin(u32::MAX), AGES - 1);
    }

    /// Two counts: the frequent objects are hit each 20 requests until they die at 400, the rare
    /// ones after 1,000.
    fn learnt() -> Densities {
        let mut densities = Densities::new();
        for _ in 0..1_000 {
            for _ in 0..20 {
                densities.hit(8, 20);
            }
            densities.evict(8, 5_000);
            densities.hit(0, 1_000);
            densities.evict(0, 5_000);
        }
        densities.compute(std::iter::empty(), 1.0);
        densities
    }

    #[test]
    fn an_object_that_fell_silent_is_kept_for_its_count() {
        let densities = learnt();
        let of_class = |class, age| densities.rank(class, age) + i32::from(class) * 128;
        assert!(
            of_class(8, 1) > of_class(0, 1),
            "a frequent object just requested is worth most"
        );
        assert!(
            of_class(8, 400) < of_class(0, 400),
            "a frequent object that missed its time is worth less than a rare one before its time"
        );
        assert!(
            of_class(0, 2_000) < of_class(0, 900),
            "a rare object after its time"
        );
    }

    #[test]
    fn half_as_many_requests_make_other_ranks() {
        let mut densities = learnt();
        let before: Vec<i32> = [20, 400, 2_000].map(|age| densities.rank(8, age)).into();
        densities.halve_ages();
        let after: Vec<i32> = [10, 200, 1_000].map(|age| densities.rank(8, age)).into();
        // The youngest ages are not scaled.
        for (before, after) in before.iter().zip(&after) {
            assert!((before - after).abs() < 256, "{before} {after}");
        }
        let hits: f32 = densities.hits[8].iter().sum();
        assert!(
            (hits - 18_000.0).abs() < 1.0,
            "{hits} hits of 20,000, after one decay"
        );
    }

    #[test]
    fn an_object_that_stays_for_ever_looks_as_if_it_were_hit() {
        let rank = |staying: f32| {
            let mut densities = Densities::new();
            for _ in 0..100 {
                densities.hit(0, 1_000);
            }
            densities.compute(std::iter::once((0, 100_000, staying)), 1.0);
            densities.rank(0, 500)
        };
        assert!(
            rank(1_000.0) < rank(0.0) - 256,
            "{} {}",
            rank(1_000.0),
            rank(0.0)
        );
    }
}
