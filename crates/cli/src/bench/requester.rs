//! The consumer's bookkeeping, without socket and clock: the outstanding Interests with their
//! times, and the next number.
//!
//! There is one slot per outstanding Interest. Slot `s` has the numbers s, s + window, s +
//! 2·window, …, so a number identifies its slot, and an answer is found without a table. Hits cycle
//! through a set of names, whose size is a multiple of the window.

use larder_units::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Tracks outstanding Interests; see the module.
pub struct Requester {
    slots: Vec<Slot>,
    /// Slots without an outstanding Interest.
    free: Vec<u32>,
    /// The numbers and times of the outstanding Interests, oldest first. Some of them have been
    /// answered.
    sent: VecDeque<(u64, Time)>,
    names: Names,
}

/// The names to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Each name once.
    New,
    /// This many names in a cycle.
    Cycle(u64),
}

#[derive(Clone, Copy)]
struct Slot {
    number: u64,
    sent_at: Option<Time>,
}

impl Requester {
    /// Creates a requester with at most `window` outstanding Interests.
    pub fn new(window: u16, names: Names) -> Self {
        let slots = (0..u64::from(window))
            .map(|number| Slot {
                number,
                sent_at: None,
            })
            .collect();
        Requester {
            slots,
            free: (0..u32::from(window)).rev().collect(),
            sent: VecDeque::new(),
            names,
        }
    }

    /// Returns the number of the next Interest, which is then outstanding. `None` if the window is
    /// full.
    pub fn ask(&mut self, now: Time) -> Option<u64> {
        let slot = &mut self.slots[self.free.pop()? as usize];
        slot.sent_at = Some(now);
        self.sent.push_back((slot.number, now));
        Some(slot.number)
    }

    /// Records the answer to an Interest. Returns its round-trip time, or `None` if it is not
    /// outstanding.
    pub fn answered(&mut self, now: Time, number: u64) -> Option<Duration> {
        let window = self.slots.len() as u64;
        let index = number % window;
        let slot = self
            .slots
            .get_mut(index as usize)
            .filter(|slot| slot.number == number)?;
        let sent_at = slot.sent_at.take()?;
        slot.number += window;
        if let Names::Cycle(names) = self.names {
            slot.number %= names;
        }
        self.free.push(index as u32);
        while self
            .sent
            .front()
            .is_some_and(|oldest| !self.is_outstanding(*oldest))
        {
            self.sent.pop_front();
        }
        Some(now.since(sent_at))
    }

    /// Drops the Interests that have been outstanding for `patience`. Returns their number.
    pub fn give_up(&mut self, now: Time, patience: Duration) -> u64 {
        let mut lost = 0;
        while let Some(oldest) = self.sent.pop_front() {
            if !self.is_outstanding(oldest) {
                continue;
            }
            if oldest.1 + patience > now {
                self.sent.push_front(oldest);
                break;
            }
            lost += u64::from(self.answered(now, oldest.0).is_some());
        }
        lost
    }

    fn is_outstanding(&self, (number, sent_at): (u64, Time)) -> bool {
        let slot = self.slots[(number % self.slots.len() as u64) as usize];
        slot.number == number && slot.sent_at == Some(sent_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn an_answer_counts_once_and_makes_room_for_one() {
        let mut requester = Requester::new(3, Names::New);
        let first: Vec<u64> = std::iter::from_fn(|| requester.ask(at(1))).collect();
        assert_eq!(first, [0, 1, 2]);
        assert_eq!(requester.answered(at(3), 1), Some(Duration::from_millis(2)));
        assert_eq!(requester.answered(at(3), 1), None, "again");
        assert_eq!(requester.answered(at(3), 4), None, "never asked for");
        assert_eq!(requester.ask(at(4)), Some(4));
        assert_eq!(requester.ask(at(4)), None);
    }

    #[test]
    fn hits_never_leave_their_set() {
        let mut requester = Requester::new(2, Names::Cycle(6));
        for n in 0..100 {
            let number = requester.ask(at(n)).unwrap();
            assert!(number < 6);
            assert!(requester.answered(at(n), number).is_some());
        }
    }

    #[test]
    fn what_is_lost_is_given_up_and_its_late_answer_is_nobodys() {
        let mut requester = Requester::new(2, Names::New);
        requester.ask(at(0));
        requester.ask(at(500));
        assert_eq!(requester.give_up(at(999), Duration::from_secs(1)), 0);
        assert_eq!(requester.give_up(at(1000), Duration::from_secs(1)), 1);
        assert_eq!(requester.answered(at(1000), 0), None);
        assert_eq!(requester.ask(at(1000)), Some(2));
        assert_eq!(
            requester.give_up(at(1600), Duration::from_secs(1)),
            1,
            "the other one"
        );
    }
}
