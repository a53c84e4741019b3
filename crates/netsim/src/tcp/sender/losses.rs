//! Loss detection by RACK and by timeouts, and the recoveries that follow.

use super::{Alarm, Control, REORDERING, Reduction, Sender, State};
use larder_units::Time;
use std::time::Duration;

impl Sender {
    /// Detects losses, and enters or leaves a recovery.
    pub(super) fn detect_losses(&mut self, now: Time) {
        if self.state.is_recovering() && self.una >= self.recovery_end {
            if self.state == State::Recovery {
                self.finish_reduction();
            }
            self.state = State::Open;
        }
        let lost_again = self.find_lost(now);
        match self.state {
            State::Recovery => {}
            State::Loss if !lost_again => {}
            State::Open if self.lost.is_empty() => {}
            _ => self.enter_recovery(),
        }
    }

    /// RACK (RFC 8985, section 6.2): a segment is lost if it was sent before the newest delivered
    /// one, and more than a round trip plus the reordering window ago. Returns true if a
    /// retransmission is lost.
    pub(super) fn find_lost(&mut self, now: Time) -> bool {
        let Some(rack) = self.rack else { return false };
        if self
            .alarm
            .is_some_and(|(_, alarm)| alarm == Alarm::Reordering)
        {
            self.alarm = None;
        }
        let reordering_window = self.reordering_window();
        let mut lost_again = false;
        while let Some(&(order, seq)) = self.by_time.front() {
            let at = self.sent.partition_point(|sent| sent.seq < seq);
            let Some(sent) = self.sent.get_mut(at).filter(|sent| {
                sent.seq == seq && sent.order == order && !sent.is_sacked && !sent.is_lost
            }) else {
                self.by_time.pop_front();
                continue;
            };
            if order >= rack.order {
                break;
            }
            let due = sent.at + rack.rtt + reordering_window;
            if due > now {
                self.alarm = Some((due, Alarm::Reordering));
                break;
            }
            lost_again |= sent.was_resent;
            sent.is_lost = true;
            self.lost.insert(seq);
            self.lost_count += 1;
            self.by_time.pop_front();
        }
        lost_again
    }

    /// The reordering window: how long a segment may be overtaken. It is zero once three segments
    /// were overtaken, or in a recovery.
    pub(super) fn reordering_window(&self) -> Duration {
        if self.state.is_recovering() || self.sacked_count >= REORDERING {
            return Duration::ZERO;
        }
        let quarter = self.rtt.shortest().unwrap_or_default() / 4;
        quarter.min(self.rtt.mean().unwrap_or_default())
    }

    pub(super) fn enter_recovery(&mut self) {
        self.reduce();
        self.state = State::Recovery;
    }

    pub(super) fn reduce(&mut self) {
        self.recovery_end = self.next;
        self.probe = None;
        self.reduction = Reduction {
            from: self.window.segments,
            ..Reduction::default()
        };
        self.lower_threshold();
    }

    pub(super) fn lower_threshold(&mut self) {
        match &mut self.control {
            Control::Cubic(cubic) => {
                self.window.threshold = cubic.on_loss(self.window.segments);
                self.window.count = 0.0;
            }
            Control::Bbr(bbr) => bbr.save_window(self.window.segments),
        }
    }

    pub(super) fn finish_reduction(&mut self) {
        if matches!(self.control, Control::Cubic(_)) {
            self.window.segments = self.window.threshold;
        }
    }

    /// Handles a timeout: all segments in flight are lost, and the window restarts at one segment.
    pub(super) fn on_expiry(&mut self, now: Time) {
        self.counters.timeouts += 1;
        self.tries += 1;
        let begins =
            self.una >= self.recovery_end || (self.state == State::Loss && self.tries == 1);
        if self.state == State::Open || begins {
            self.lower_threshold();
        }
        match &mut self.control {
            Control::Cubic(cubic) => cubic.on_timeout(),
            Control::Bbr(bbr) => bbr.on_timeout(),
        }
        let rack = self.rack;
        for (place, sent) in self
            .sent
            .iter_mut()
            .enumerate()
            .filter(|(_, sent)| !sent.is_sacked && !sent.is_lost)
        {
            // A segment that was sent just now may still arrive.
            if place > 0 && rack.is_some_and(|rack| sent.at + rack.rtt > now) {
                continue;
            }
            sent.is_lost = true;
            self.lost.insert(sent.seq);
            self.lost_count += 1;
        }
        self.state = State::Loss;
        self.recovery_end = self.next;
        self.probe = None;
        self.window.segments = self.in_flight_segments() + 1;
        self.window.count = 0.0;
        self.backoff += 1;
        self.alarm = Some((now + self.timeout(), Alarm::Timeout));
    }
}
