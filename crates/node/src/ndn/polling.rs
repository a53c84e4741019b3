//! Decides when the event loop polls the shared memory of applications before it sleeps.
//!
//! A wake-up of a sleeping thread takes longer than a packet. While applications exchange a few
//! packets at a time, the loop polls their memory instead. While many packets wait, it sleeps: it
//! then finds more of them at once, and leaves the processor to the applications. It also sleeps
//! while other sockets are active, because a poll does not notice them.

use crate::limits;
use larder_client::Spin;
use larder_forwarder::FaceId;
use larder_units::Time;
use std::time::Duration;

pub(super) struct Polling {
    pub(super) spin: Spin,
    /// The faces with shared memory that were active lately, and when.
    pub(super) active: Vec<(FaceId, Time)>,
    /// The number of polls so far.
    pub(super) polls: u64,
    /// Packets from them since the loop has waited.
    packets: usize,
    /// The time until which other sockets count as active.
    others_until: Time,
}

impl Polling {
    /// Creates the state of a loop. It never polls if packets also come from the threads of other
    /// shards, which a poll does not notice.
    pub(super) fn new(is_only_shard: bool) -> Self {
        let mut spin = Spin::new();
        if !is_only_shard {
            spin.forbid();
        }
        Polling {
            spin,
            active: Vec::new(),
            polls: 0,
            packets: 0,
            others_until: Time::ZERO,
        }
    }

    /// Records that an application has rung.
    pub(super) fn on_bell(&mut self, now: Time, face: FaceId) {
        match self.active.iter_mut().find(|(other, _)| *other == face) {
            Some((_, last)) => *last = now,
            None => self.active.push((face, now)),
        }
    }

    /// Polls a face no longer, until its application rings.
    pub(super) fn forget(&mut self, face: FaceId) {
        self.active.retain(|(other, _)| *other != face);
    }

    /// Records packets of an application.
    pub(super) fn on_packets(&mut self, packets: usize) {
        self.packets += packets;
    }

    /// Records that another socket has something to read.
    pub(super) fn on_other_socket(&mut self, now: Time) {
        self.others_until = now + limits::ACTIVE;
    }

    /// Returns true if the loop should poll the active faces. Call it once before each wait, and
    /// poll if it is true.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        let packets = std::mem::take(&mut self.packets);
        let is_due = (1..=limits::POLLED_FACES).contains(&self.active.len())
            && packets <= limits::POLLED_PACKETS
            && now >= self.others_until
            && self.spin.is_due();
        self.polls += u64::from(is_due);
        is_due
    }

    /// Forgets the faces that were not active lately. Their applications ring.
    pub(super) fn forget_inactive(&mut self, now: Time) {
        self.active
            .retain(|(_, last)| now.since(*last) < limits::ACTIVE);
    }

    /// Records the duration of a wait, with the poll.
    pub(super) fn waited(&mut self, time: Duration) {
        self.spin.waited(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACE: FaceId = FaceId(256);

    /// A loop whose waits have been short, with one active face; `None` on a machine with one
    /// processor, where nothing is polled.
    fn busy() -> Option<Polling> {
        let mut polling = Polling::new(true);
        polling.waited(Duration::ZERO);
        polling.on_bell(Time::ZERO, FACE);
        polling.spin.is_due().then_some(polling)
    }

    #[test]
    fn a_loop_polls_while_much_is_to_do_or_other_sockets_are_active() {
        let Some(mut polling) = busy() else { return };
        assert!(polling.is_due(Time::ZERO));
        polling.on_packets(limits::POLLED_PACKETS);
        assert!(polling.is_due(Time::ZERO));
        polling.on_packets(limits::POLLED_PACKETS);
        polling.on_packets(1);
        assert!(!polling.is_due(Time::ZERO), "throughput counts");
        assert!(polling.is_due(Time::ZERO), "that was the turn before");
        polling.on_other_socket(Time::ZERO);
        assert!(!polling.is_due(Time::ZERO));
        assert!(polling.is_due(Time::ZERO + limits::ACTIVE));
        polling.waited(Duration::from_secs(1));
        assert!(!polling.is_due(Time::ZERO + limits::ACTIVE), "it is idle");
    }

    #[test]
    fn faces_that_are_silent_or_too_many_are_polled() {
        let Some(mut polling) = busy() else { return };
        for number in 0..limits::POLLED_FACES as u64 {
            polling.on_bell(Time::ZERO, FaceId(256 + number));
        }
        assert!(polling.is_due(Time::ZERO));
        polling.on_bell(Time::from_nanos(1), FaceId(1000));
        assert!(!polling.is_due(Time::ZERO));
        polling.forget_inactive(Time::ZERO + limits::ACTIVE);
        assert_eq!(polling.active, [(FaceId(1000), Time::from_nanos(1))]);
        assert!(polling.is_due(Time::ZERO + limits::ACTIVE));
    }

    #[test]
    fn one_of_several_shards_polls() {
        let mut polling = Polling::new(false);
        polling.waited(Duration::ZERO);
        polling.on_bell(Time::ZERO, FACE);
        assert!(!polling.is_due(Time::ZERO));
    }
}
