//! A set of rules, one bit for each.

/// The largest number of rules.
pub const RULES: usize = WORDS * 64;

const WORDS: usize = 4;

/// A set of rules, by their places in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bits([u64; WORDS]);

impl Bits {
    /// Adds the rule at this place, which is below [`RULES`].
    pub(super) fn insert(&mut self, place: usize) {
        self.0[place / 64] |= 1 << (place % 64);
    }

    /// Removes the rule at this place.
    pub(super) fn remove(&mut self, place: usize) {
        self.0[place / 64] &= !(1 << (place % 64));
    }

    /// Returns true if it contains no rule.
    pub fn is_empty(self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    /// Returns the rules of both sets.
    pub(super) fn and(self, other: Bits) -> Bits {
        Bits(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// Returns the rules of either set.
    pub(super) fn or(self, other: Bits) -> Bits {
        Bits(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// Returns the rules of this set that are not in the other one.
    pub(super) fn without(self, other: Bits) -> Bits {
        Bits(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// Returns the places in the order of the table.
    pub(super) fn iter(mut self) -> impl Iterator<Item = usize> {
        std::iter::from_fn(move || {
            let (number, word) = self
                .0
                .iter_mut()
                .enumerate()
                .find(|(_, word)| **word != 0)?;
            let bit = word.trailing_zeros() as usize;
            *word &= *word - 1;
            Some(number * 64 + bit)
        })
    }

    /// Returns the last place.
    pub(super) fn last(self) -> Option<usize> {
        let (number, word) = self
            .0
            .iter()
            .enumerate()
            .rev()
            .find(|(_, word)| **word != 0)?;
        Some(number * 64 + 63 - word.leading_zeros() as usize)
    }
}

impl FromIterator<usize> for Bits {
    fn from_iter<I: IntoIterator<Item = usize>>(places: I) -> Bits {
        let mut bits = Bits::default();
        for place in places {
            bits.insert(place);
        }
        bits
    }
}
