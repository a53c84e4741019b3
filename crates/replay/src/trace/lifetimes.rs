//! Copies that are fresh for a time only. A request after the end of a copy's lifetime needs
//! another copy, so it is a request for another object.

use crate::Access;
use crate::limits::MAX_REMEMBERED_URLS;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_units::Time;
use std::time::Duration;

/// The copies of objects. A copy begins with the first request after the end of the one before.
pub(super) struct Lifetimes {
    lifetime: Duration,
    copies: HashMap<u64, Copy, FixedState>,
}

struct Copy {
    since: Time,
    number: u64,
}

impl Lifetimes {
    pub fn new(lifetime: Duration) -> Lifetimes {
        Lifetimes {
            lifetime,
            copies: HashMap::default(),
        }
    }

    /// Gives the request the number of the copy that can answer it. Objects beyond
    /// [`MAX_REMEMBERED_URLS`] have one copy for each period of the lifetime.
    pub fn adjust(&mut self, access: &mut Access) {
        let is_full = self.copies.len() >= MAX_REMEMBERED_URLS;
        let number = match self.copies.get_mut(&access.id) {
            Some(copy) => {
                if access.now.since(copy.since) >= self.lifetime {
                    copy.since = access.now;
                    copy.number += 1;
                }
                copy.number
            }
            None if !is_full => {
                let copy = Copy {
                    since: access.now,
                    number: 0,
                };
                self.copies.insert(access.id, copy);
                0
            }
            None => {
                let period = u64::try_from(self.lifetime.as_nanos()).unwrap_or(u64::MAX);
                (access.now.nanos().wrapping_add(access.id)) / period.max(1)
            }
        };
        // An odd multiple: copies of an object have different numbers.
        access.id = access
            .id
            .wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a copy is fresh for longer or shorter than its lifetime.
    #[test]
    fn a_copy_lives_for_another_time() {
        let mut lifetimes = Lifetimes::new(Duration::from_secs(10));
        let ids: Vec<u64> = [0, 9, 10, 19, 20, 100]
            .map(|seconds| {
                let mut access = Access {
                    id: 7,
                    size: 1,
                    now: Time::from_secs(seconds),
                };
                lifetimes.adjust(&mut access);
                access.id
            })
            .to_vec();
        assert!(ids[0] == 7 && ids[1] == 7 && ids[2] != 7 && ids[2] == ids[3]);
        assert!(ids[4] != ids[3] && ids[5] != ids[4]);
    }
}
