//! The changes of the congestion window at an acknowledgement.

use super::{Control, Sender, State};
use crate::limits;
use crate::tcp::bbr::Ack;
use crate::tcp::rate::Sample;
use larder_units::Time;

impl Sender {
    pub(super) fn control(&mut self, now: Time, sample: &Sample, advanced: bool) {
        let ack = Ack {
            in_flight: self.in_flight_segments(),
            delivered: self.delivery.delivered,
            state: self.state,
            mean_rtt: self.rtt.mean(),
        };
        let limits_sender = self.is_window_limited
            || (self.window.is_in_slow_start()
                && (self.window.segments as usize) < 2 * self.most_out);
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
            let bound = reduction
                .delivered
                .saturating_sub(reduction.out)
                .max(sample.delivered);
            (bound + u32::from(advanced && sample.lost == 0)).min(threshold - in_flight)
        };
        // The first retransmission leaves at once.
        let count = count.max(u32::from(reduction.out == 0));
        self.window.segments = in_flight + count;
    }
}
