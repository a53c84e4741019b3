//! The most frequent keys of a stream, in bounded memory.

use foldhash::{HashMap, HashMapExt};

/// The Space-Saving table (Metwally, Agrawal and El Abbadi, ICDT 2005): a new key takes the place
/// of the one with the smallest count, and that count. So each key with more than the n-th part of
/// all is in a table of n keys, and a count is too high by at most that part.
pub(crate) struct Top<T> {
    entries: HashMap<Box<str>, Entry<T>>,
    most: usize,
    total: u64,
    since_halved: u64,
}

/// A key's count, and what is known of it since it is in the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry<T> {
    pub(crate) count: u64,
    /// The part of the count that may be that of others.
    pub(crate) overcount: u64,
    pub(crate) more: T,
}

/// The number of additions after which all counts are halved, so that the table shows the present.
const HALVED_AFTER: u64 = 1 << 16;

impl<T: Default> Top<T> {
    pub(crate) fn new(most: usize) -> Top<T> {
        Top {
            entries: HashMap::new(),
            most,
            total: 0,
            since_halved: 0,
        }
    }

    /// Counts a key, and returns what is known of it.
    pub(crate) fn add(&mut self, key: &str) -> &mut T {
        self.since_halved += 1;
        if self.since_halved == HALVED_AFTER {
            self.since_halved = 0;
            self.total /= 2;
            for entry in self.entries.values_mut() {
                entry.count /= 2;
                entry.overcount /= 2;
            }
        }
        self.total += 1;
        if !self.entries.contains_key(key) {
            let count = if self.entries.len() < self.most {
                0
            } else {
                self.remove_least()
            };
            let entry = Entry {
                count,
                overcount: count,
                more: T::default(),
            };
            self.entries.insert(key.into(), entry);
        }
        let entry = self
            .entries
            .get_mut(key)
            .expect("a key that is in the table");
        entry.count += 1;
        &mut entry.more
    }

    fn remove_least(&mut self) -> u64 {
        let least = self.entries.iter().min_by_key(|(_, entry)| entry.count);
        let Some((key, count)) = least.map(|(key, entry)| (key.clone(), entry.count)) else {
            return 0;
        };
        self.entries.remove(&key);
        count
    }

    /// Returns the share of a count in all counts.
    pub(crate) fn share(&self, count: u64) -> f64 {
        count as f64 / self.total.max(1) as f64
    }

    /// Returns the sum of all counts.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the most frequent keys, the first first. Leaves out those whose count may be all of
    /// others.
    pub(crate) fn first(&self, most: usize) -> Vec<(&str, &Entry<T>)> {
        let all = self.entries.iter().map(|(key, entry)| (&**key, entry));
        let mut all: Vec<_> = all
            .filter(|(_, entry)| entry.count > 2 * entry.overcount)
            .collect();
        all.sort_by(|(a, one), (b, other)| other.count.cmp(&one.count).then(a.cmp(b)));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: clients that request ever new URLs fill the memory, or push out the frequent ones.
    #[test]
    fn new_keys_push_out_the_frequent_ones() {
        let mut top: Top<u64> = Top::new(32);
        for number in 0..200_000u64 {
            *top.add(&format!("/once/{number}")) += 1;
            if number % 4 == 0 {
                *top.add("/often") += 1;
            }
            if number % 10 == 0 {
                *top.add("/sometimes") += 1;
            }
        }
        assert_eq!(top.entries.len(), 32);
        let first: Vec<&str> = top.first(2).into_iter().map(|(key, _)| key).collect();
        assert_eq!(first, ["/often", "/sometimes"]);
        let share = top.share(top.first(1)[0].1.count);
        assert!((0.15..0.26).contains(&share), "{share}");
    }
}
