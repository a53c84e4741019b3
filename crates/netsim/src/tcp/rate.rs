//! The delivery rate: how much was delivered between the transmission of a segment and its
//! acknowledgement.
//!
//! Source: draft-cheng-iccrg-delivery-rate-estimation-00, as in Linux (tcp_rate.c). Each segment
//! records the delivered count at its transmission. Its acknowledgement gives a rate over the
//! longer of the time of sending and the time of acknowledging. O(1), in segments.

use larder_units::Time;
use std::time::Duration;

/// The record of a segment at its transmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted {
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    is_app_limited: bool,
}

/// The delivery state of a connection.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    /// Segments delivered so far.
    pub(super) delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Deliveries up to this count were sent while the application had nothing more to send; 0 if
    /// that is over.
    app_limited_until: u64,
}

/// The sample of an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Segments, and the time in which they were delivered; `None` without a valid rate.
    pub(super) rate: Option<(u64, Duration)>,
    /// The delivered count when the newest of the acknowledged segments was sent.
    pub(super) prior_delivered: u64,
    pub(super) is_app_limited: bool,
    /// Segments that this acknowledgement delivered.
    pub(super) delivered: u32,
    /// Segments that it showed to be lost.
    pub(super) lost: u32,
    /// Segments in flight before it.
    pub(super) prior_in_flight: u32,
    pub(super) rtt: Option<Duration>,
}

/// The newest segment that an acknowledgement delivers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Newest(Option<(u64, Time, Noted)>);

impl Newest {
    /// Records a delivered segment, the `order`th that was sent.
    pub(super) fn update(&mut self, order: u64, sent_at: Time, noted: Noted) {
        if self.0.is_none_or(|(newest, ..)| order > newest) {
            self.0 = Some((order, sent_at, noted));
        }
    }
}

impl Delivery {
    pub(super) fn new(now: Time) -> Self {
        Delivery {
            delivered: 0,
            delivered_at: now,
            first_sent_at: now,
            app_limited_until: 0,
        }
    }

    /// Records the transmission of a segment.
    pub(super) fn on_send(&mut self, now: Time, nothing_in_flight: bool) -> Noted {
        if nothing_in_flight {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        Noted {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            is_app_limited: self.app_limited_until > 0,
        }
    }

    /// Records that the application has nothing more to send, with this many segments in flight.
    pub(super) fn on_app_limited(&mut self, in_flight: u32) {
        self.app_limited_until = (self.delivered + u64::from(in_flight)).max(1);
    }

    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// Returns the sample of an acknowledgement whose newest segment is `newest`. The delivered
    /// segments are already counted.
    pub(super) fn sample(
        &mut self,
        now: Time,
        newest: Newest,
        shortest: Option<Duration>,
    ) -> Sample {
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let Newest(Some((_, sent_at, noted))) = newest else {
            return Sample::default();
        };
        let sending = sent_at.since(noted.first_sent_at);
        self.first_sent_at = sent_at;
        self.delivered_at = now;
        let span = sending.max(now.since(noted.delivered_at));
        // A span below any round trip comes from an acknowledgement of segments that did not
        // arrive, or from an unnecessary retransmission.
        let is_sound = !span.is_zero() && shortest.is_none_or(|shortest| span >= shortest);
        Sample {
            rate: is_sound.then(|| (self.delivered - noted.delivered, span)),
            prior_delivered: noted.delivered,
            is_app_limited: noted.is_app_limited,
            ..Sample::default()
        }
    }
}
