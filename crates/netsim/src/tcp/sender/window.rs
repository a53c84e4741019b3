//! The congestion window, and its changes at an acknowledgement.

use super::{Control, Sender, State};
use crate::limits;
use crate::tcp::bbr::Ack;
use crate::tcp::rate::Sample;
use larder_units::Time;

/// The congestion window.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Window {
    pub(in crate::tcp) segments: u32,
    /// Below the threshold, the window grows by the acknowledged segments.
    pub(in crate::tcp) threshold: u32,
    /// Acknowledged segments that count towards the next growth.
    pub(super) count: f64,
}

impl Window {
    pub(in crate::tcp) fn new(segments: u32) -> Self {
        Window { segments, threshold: u32::MAX, count: 0.0 }
    }

    pub(in crate::tcp) fn is_in_slow_start(&self) -> bool {
        self.segments < self.threshold
    }

    /// Grows up to the threshold; returns the rest of `acked`.
    pub(in crate::tcp) fn slow_start(&mut self, acked: u32) -> u32 {
        let taken = acked.min(self.threshold.saturating_sub(self.segments));
        self.segments += taken;
        acked - taken
    }

    /// Grows by one segment for each `count` acknowledged.
    pub(in crate::tcp) fn grow_by_one_in(&mut self, count: f64, acked: u32) {
        if self.count >= count {
            self.count = 0.0;
            self.segments += 1;
        }
        self.count += f64::from(acked);
        let steps = (self.count / count).floor();
        self.count -= steps * count;
        self.segments = self.segments.saturating_add(steps as u32).min(limits::TCP_WINDOW);
    }
}

impl Sender {
    pub(super) fn control(&mut self, now: Time, sample: &Sample, advanced: bool) {
        let ack = Ack {
            in_flight: self.in_flight_segments(),
            delivered: self.delivery.delivered,
            state: self.state,
            mean_rtt: self.rtt.mean(),
        };
        let limits_sender = self.is_window_limited
            || (self.window.is_in_slow_start() && (self.window.segments as usize) < 2 * self.most_out);
        match &mut self.control {
            Control::Bbr(bbr) => {
                bbr.on_ack(now, sample, ack, &mut self.window);
                // Deliveries at four segments per round trip do not measure the path's rate.
                if bbr.is_probing_rtt() {
                    self.delivery.on_app_limited(ack.in_flight);
                }
            }
            Control::Cubic(cubic) => {
                if let Some(rtt) = sample.rtt {
                    cubic.on_rtt(now, rtt, self.una, self.next, &mut self.window);
                }
                if self.state == State::Recovery {
                    self.reduce_by_rate(sample, advanced);
                } else if advanced && limits_sender {
                    cubic.grow(now, sample.delivered, &mut self.window);
                }
            }
        }
        self.window.segments = self.window.segments.min(limits::TCP_WINDOW);
    }

    /// PRR (RFC 6937) with its slow start bound.
    pub(super) fn reduce_by_rate(&mut self, sample: &Sample, advanced: bool) {
        // Without deliveries nothing may be sent, so the window stays.
        if sample.delivered == 0 {
            return;
        }
        let (in_flight, threshold) = (self.in_flight_segments(), self.window.threshold);
        let reduction = &mut self.reduction;
        reduction.delivered += sample.delivered;
        let count = if in_flight > threshold {
            let due = u64::from(threshold) * u64::from(reduction.delivered);
            (due.div_ceil(u64::from(reduction.from.max(1))) as u32).saturating_sub(reduction.out)
        } else {
            let bound = reduction.delivered.saturating_sub(reduction.out).max(sample.delivered);
            (bound + u32::from(advanced && sample.lost == 0)).min(threshold - in_flight)
        };
        // The first retransmission leaves at once.
        let count = count.max(u32::from(reduction.out == 0));
        self.window.segments = in_flight + count;
    }
}
