//! When each class is due, in a tree of minima, four to a node: a change climbs four levels without
//! a branch.
//!
//! A due time is kept as a whole number: the bits of a float that is not negative are in its order.
//! The last eight of them are the class's number instead, so that the least number says who is
//! first and when, and of two that are due at the same time it is the lower class. Due times are
//! compared to 44 bits therefore.

/// Classes; each fits into a byte.
pub(super) const CLASSES: usize = 256;

/// The bits of a due time that hold the class's number.
const CLASS_BITS: u64 = 0xff;

/// An empty class is due never.
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

    /// The class `class` is due at `due`.
    #[inline]
    pub fn set(&mut self, class: u8, due: f64) {
        self.put(class, rank(class, due));
    }

    /// The class `class` is empty.
    #[inline]
    pub fn clear(&mut self, class: u8) {
        self.put(class, NEVER);
    }

    /// When the class `class` is due; not a number where it is empty.
    #[inline]
    pub fn of(&self, class: u8) -> f64 {
        time(self.leaves[usize::from(class) / 4][usize::from(class) % 4])
    }

    /// The class that is due first, and when; the lower class of two.
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

/// What is compared: of two, who has the lesser one leaves first. No two classes have the same one.
#[inline]
pub(super) fn rank(class: u8, due: f64) -> u64 {
    // Rounding may have made it a little less than nothing.
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
