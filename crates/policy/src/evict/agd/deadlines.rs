//! The due times of the classes, in a tree of minima with four children per node. A change updates
//! four levels without a branch.
//!
//! A due time is stored as a whole number: the bits of a non-negative float have its order. The
//! last eight bits are the class's number instead. So the least number gives the first class and
//! its due time, and the lower class comes first of two with the same due time. Due times are
//! therefore compared to 44 bits.

/// The number of classes. Each class number fits into a byte.
pub(super) const CLASSES: usize = 256;

/// The bits of a due time that hold the class's number.
const CLASS_BITS: u64 = 0xff;

/// The due time of an empty class.
const NEVER: u64 = u64::MAX;

pub(super) struct Deadlines {
    leaves: [[u64; 4]; 64],
    fours: [[u64; 4]; 16],
    sixteens: [[u64; 4]; 4],
    quarters: [u64; 4],
}

impl Deadlines {
    pub fn new() -> Self {
        Deadlines {
            leaves: [[NEVER; 4]; 64],
            fours: [[NEVER; 4]; 16],
            sixteens: [[NEVER; 4]; 4],
            quarters: [NEVER; 4],
        }
    }

    /// Sets the due time of `class`.
    #[inline]
    pub fn set(&mut self, class: u8, due: f64) {
        self.put(class, rank(class, due));
    }

    /// Marks `class` as empty.
    #[inline]
    pub fn clear(&mut self, class: u8) {
        self.put(class, NEVER);
    }

    /// Returns the due time of `class`; NaN if it is empty.
    #[inline]
    pub fn of(&self, class: u8) -> f64 {
        time(self.leaves[usize::from(class) / 4][usize::from(class) % 4])
    }

    /// Returns the class that is due first, and its due time. Of two with the same time it is the
    /// lower class.
    #[inline]
    pub fn first(&self) -> Option<(u8, f64)> {
        let first = least(&self.quarters);
        (first != NEVER).then_some((first as u8, time(first)))
    }

    #[inline]
    fn put(&mut self, class: u8, due: u64) {
        let class = usize::from(class);
        self.leaves[class / 4][class % 4] = due;
        self.fours[class / 16][class / 4 % 4] = least(&self.leaves[class / 4]);
        self.sixteens[class / 64][class / 16 % 4] = least(&self.fours[class / 16]);
        self.quarters[class / 64] = least(&self.sixteens[class / 64]);
    }
}

/// Returns the rank of an object: the one with the lower rank leaves first. No two classes have the
/// same rank.
#[inline]
pub(super) fn rank(class: u8, due: f64) -> u64 {
    // Rounding may have made the due time slightly negative.
    due.max(0.0).to_bits() & !CLASS_BITS | u64::from(class)
}

#[inline]
fn least(four: &[u64; 4]) -> u64 {
    four[0].min(four[1]).min(four[2].min(four[3]))
}

#[inline]
fn time(due: u64) -> f64 {
    f64::from_bits(due & !CLASS_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn another_class_is_due_first(steps in proptest::collection::vec((0u8..=255, proptest::option::of(0u32..20)), 1..60)) {
            let mut deadlines = Deadlines::new();
            let mut model = [None; CLASSES];
            for (class, due) in steps {
                model[usize::from(class)] = due;
                match due {
                    Some(due) => deadlines.set(class, f64::from(due)),
                    None => deadlines.clear(class),
                }
                let first = (0..=255_u8).filter_map(|class| model[usize::from(class)].map(|due| (due, class))).min();
                prop_assert_eq!(deadlines.first(), first.map(|(due, class)| (class, f64::from(due))));
            }
        }
    }
}
