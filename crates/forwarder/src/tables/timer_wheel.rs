//! Deadlines of table slots, in constant time.
//!
//! A hashed timing wheel (Varghese and Lauck, SOSP 1987, scheme 6): 4,096 buckets of a millisecond,
//! each a doubly linked list through arrays indexed by slot; a deadline further away than one turn
//! waits in its bucket for a later turn. Setting, moving and cancelling are O(1) and allocate
//! nothing once the arrays have grown; 16 bytes a slot. A slot comes due after its deadline, by a
//! millisecond at most.

use larder_units::Time;

const TICK_NANOS: u64 = 1_000_000;
/// A word of bits, of as many words as a word has bits.
const BUCKETS: usize = 64 * 64;
const NONE: u32 = u32::MAX;

pub(crate) struct TimerWheel {
    heads: Box<[u32; BUCKETS]>,
    /// One bit a bucket that has slots.
    occupied: Box<[u64; BUCKETS / 64]>,
    /// One bit a word of those that is not 0.
    words: u64,
    links: Vec<Link>,
    armed: usize,
    /// The first tick that has not been swept.
    tick: u64,
}

#[derive(Clone, Copy)]
struct Link {
    prev: u32,
    next: u32,
    /// The tick at which the slot comes due; `u64::MAX` if it has no deadline.
    due: u64,
}

const IDLE: Link = Link {
    prev: NONE,
    next: NONE,
    due: u64::MAX,
};

impl TimerWheel {
    pub(crate) fn new() -> Self {
        TimerWheel {
            heads: Box::new([NONE; BUCKETS]),
            occupied: Box::new([0; BUCKETS / 64]),
            words: 0,
            links: Vec::new(),
            armed: 0,
            tick: 0,
        }
    }

    /// Sets or moves the deadline of `slot`.
    pub(crate) fn set(&mut self, slot: u32, deadline: Time) {
        // The first tick after the deadline, which belongs to the time that it ends
        // (`Time::has_passed`).
        let due = (deadline.nanos() / TICK_NANOS + 1).max(self.tick);
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, IDLE);
        }
        if self.links[slot as usize].due == due {
            return;
        }
        self.cancel(slot);
        let bucket = due as usize % BUCKETS;
        let head = self.heads[bucket];
        self.links[slot as usize] = Link {
            prev: NONE,
            next: head,
            due,
        };
        if head != NONE {
            self.links[head as usize].prev = slot;
        }
        self.heads[bucket] = slot;
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
        self.words |= 1 << (bucket / 64);
        self.armed += 1;
    }

    /// Takes the deadline of `slot` away, if it has one.
    pub(crate) fn cancel(&mut self, slot: u32) {
        let Some(&Link { prev, next, due }) = self.links.get(slot as usize) else {
            return;
        };
        if due == u64::MAX {
            return;
        }
        let bucket = due as usize % BUCKETS;
        match prev {
            NONE => self.heads[bucket] = next,
            prev => self.links[prev as usize].next = next,
        }
        if next != NONE {
            self.links[next as usize].prev = prev;
        }
        if self.heads[bucket] == NONE {
            self.occupied[bucket / 64] &= !(1 << (bucket % 64));
            if self.occupied[bucket / 64] == 0 {
                self.words &= !(1 << (bucket / 64));
            }
        }
        self.links[slot as usize] = IDLE;
        self.armed -= 1;
    }

    /// Moves every slot whose deadline has passed, by whole milliseconds, into `due`.
    pub(crate) fn expire(&mut self, now: Time, due: &mut Vec<u32>) {
        let current = now.nanos() / TICK_NANOS;
        if current < self.tick {
            return;
        }
        // One turn visits every bucket: a longer pause needs no more.
        let ticks = (current - self.tick + 1).min(BUCKETS as u64);
        for tick in self.tick..self.tick + ticks {
            let bucket = tick as usize % BUCKETS;
            let mut slot = self.heads[bucket];
            while slot != NONE {
                let link = self.links[slot as usize];
                if link.due <= current {
                    self.cancel(slot);
                    due.push(slot);
                }
                slot = link.next;
            }
        }
        self.tick = current + 1;
    }

    /// Returns the time at which [`TimerWheel::expire`] has to be called next. The slot that it
    /// finds then may belong to a later turn.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        if self.armed == 0 {
            return None;
        }
        let start = self.tick as usize % BUCKETS;
        let in_first = self.occupied[start / 64] & (u64::MAX << (start % 64));
        let bucket = match in_first {
            // The following words, and around to this one again.
            0 => {
                let behind = self.words.rotate_right(start as u32 / 64 + 1);
                let word = (start / 64 + 1 + behind.trailing_zeros() as usize) % 64;
                word * 64 + self.occupied[word].trailing_zeros() as usize
            }
            bits => start / 64 * 64 + bits.trailing_zeros() as usize,
        };
        let ahead = (bucket + BUCKETS - start) % BUCKETS;
        Some(Time::from_nanos(
            (self.tick + ahead as u64).saturating_mul(TICK_NANOS),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Set(u32, u64),
        Cancel(u32),
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u32..20, 0u64..20_000).prop_map(|(slot, millis)| Step::Set(slot, millis)),
            (0u32..20).prop_map(Step::Cancel),
            (0u64..9_000).prop_map(Step::Pass),
        ]
    }

    proptest! {
        #[test]
        fn every_deadline_comes_due_once_and_in_time(steps in prop::collection::vec(step(), 1..120)) {
            let mut wheel = TimerWheel::new();
            let mut model = BTreeMap::new();
            let mut now = 0u64;
            for step in steps {
                match step {
                    Step::Set(slot, millis) => {
                        wheel.set(slot, Time::from_millis(now + millis));
                        model.insert(slot, now + millis);
                    }
                    Step::Cancel(slot) => {
                        wheel.cancel(slot);
                        model.remove(&slot);
                    }
                    Step::Pass(millis) => {
                        let until = now + millis;
                        // As a host does: it calls at the returned time, and at the end of the
                        // pause.
                        while let Some(at) = wheel.next_timeout().filter(|at| *at <= Time::from_millis(until)) {
                            let mut due = Vec::new();
                            wheel.expire(at, &mut due);
                            for slot in due {
                                let deadline = model.remove(&slot).expect("came due twice or without a deadline");
                                prop_assert!(Time::from_millis(deadline).has_passed(at), "early");
                                prop_assert!(at <= Time::from_millis(deadline.max(now) + 1), "late");
                            }
                        }
                        now = until;
                        prop_assert!(model.values().all(|deadline| *deadline + 1 >= now), "missed: {:?} at {}", model, now);
                    }
                }
                prop_assert_eq!(wheel.armed, model.len());
                // The host is woken for the first bucket with a slot, and for no empty one.
                let ahead = |slot: &u32| (wheel.links[*slot as usize].due - wheel.tick) % BUCKETS as u64;
                let first = model.keys().map(ahead).min().map(|ahead| Time::from_millis(wheel.tick + ahead));
                prop_assert_eq!(wheel.next_timeout(), first);
            }
        }
    }

    #[test]
    fn a_clock_that_jumps_a_year_ahead_costs_one_turn() {
        let mut wheel = TimerWheel::new();
        for slot in 0..100 {
            wheel.set(slot, Time::from_millis(u64::from(slot) * 977));
        }
        let mut due = Vec::new();
        wheel.expire(Time::from_secs(365 * 86400), &mut due);
        assert_eq!(due.len(), 100);
        assert_eq!(wheel.next_timeout(), None);
        // And one that steps back does nothing.
        wheel.set(1, Time::from_secs(1));
        wheel.expire(Time::from_secs(2), &mut due);
        assert_eq!(due.len(), 100);
    }
}
