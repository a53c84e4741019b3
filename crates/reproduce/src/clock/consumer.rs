//! The consumer: the fetcher of `larder get` on an endless object, with a timeline of its rate.

use larder_netsim::{App, Received, Sends};
use larder_packet::{Data, Interest, Name};
use larder_transfer::{Clock, CongestionSpec, FetchOptions, Fetcher, Naming};
use larder_units::{Stream, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The most segments between the next to deliver and the furthest requested: six seconds of the
/// fastest link here, so only congestion control limits the rate.
const MOST_AHEAD: usize = 1 << 16;

/// The least distance of two points of a timeline. Falls of the rate are always recorded.
const TIMELINE_STEP: Duration = Duration::from_millis(20);

/// The round trip of six links of 50 ms. A Nack that comes later than this after the last one
/// belongs to another congestion event.
pub(super) const ROUND_TRIP: Duration = Duration::from_millis(300);

pub(super) struct Consumer {
    fetcher: Fetcher,
    /// The time of its first Interest, unless a tick delays it.
    start: Time,
    started: bool,
    timeline: Timeline,
    course: Course,
    last_nack: Option<Time>,
    nacks_now: u64,
}

/// The history of a consumer, as points of seconds and a value.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Timeline {
    /// The rate at which it sends Interests, per second (fig. 4 and 6).
    pub(super) rate: Vec<(f64, f64)>,
    /// The number of requested segments (fig. 3).
    pub(super) sequence: Vec<(f64, f64)>,
}

/// What Data and Nacks did to the rate of a consumer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Course {
    /// The least and the greatest rate, Interests per second; none without a rate.
    pub(super) rates: Option<(f64, f64)>,
    /// The greatest number of Nacks at one moment.
    pub(super) most_at_once: u64,
    /// The second at which each congestion event began.
    pub(super) events: Vec<f64>,
}

impl Consumer {
    pub(super) fn new(
        prefix: Name,
        congestion: &CongestionSpec,
        clock: Clock,
        start: Time,
        nonces: Stream,
    ) -> Self {
        let options = FetchOptions {
            retries: u32::MAX,
            max_window: MOST_AHEAD,
            naming: Naming::Exact,
            clock,
            ..FetchOptions::default()
        };
        let fetcher = Fetcher::new(prefix, options, congestion.build(), None, nonces);
        Consumer {
            fetcher,
            start,
            started: false,
            timeline: Timeline::default(),
            course: Course::default(),
            last_nack: None,
            nacks_now: 0,
        }
    }

    /// Returns the number of segments that were requested at least once, which the "throughput" of
    /// Tables I and II counts.
    pub(super) fn asked(&self) -> u64 {
        self.fetcher.stats().interests - self.fetcher.stats().retransmissions
    }

    /// Returns the number of segments that arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.fetcher.stats().segments
    }

    pub(super) fn nacks(&self) -> u64 {
        self.fetcher.stats().nacks
    }

    pub(super) fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    pub(super) fn course(&self) -> &Course {
        &self.course
    }

    fn on_nack(&mut self, now: Time) {
        let since = self.last_nack.map(|last| now.since(last));
        if since.is_none_or(|since| since > ROUND_TRIP) {
            self.course.events.push(now.as_secs_f64());
        }
        self.nacks_now = if since.is_some_and(|since| since.is_zero()) {
            self.nacks_now + 1
        } else {
            1
        };
        self.course.most_at_once = self.course.most_at_once.max(self.nacks_now);
        self.last_nack = Some(now);
    }

    fn send(&mut self, now: Time, sends: &mut Sends) {
        let mut interest = Vec::with_capacity(64);
        while self.fetcher.poll(now, &mut interest) {
            sends.push(std::mem::replace(&mut interest, Vec::with_capacity(64)));
        }
        let at = now.as_secs_f64();
        let is_due = |points: &[(f64, f64)]| {
            points
                .last()
                .is_none_or(|last| at - last.0 >= TIMELINE_STEP.as_secs_f64())
        };
        if is_due(&self.timeline.sequence) {
            self.timeline.sequence.push((at, self.asked() as f64));
        }
        if let Some(rate) = self.fetcher.allowance().1 {
            let (least, greatest) = self.course.rates.unwrap_or((rate, rate));
            self.course.rates = Some((least.min(rate), greatest.max(rate)));
            let falls = self.timeline.rate.last().is_some_and(|last| rate < last.1);
            if falls || is_due(&self.timeline.rate) {
                self.timeline.rate.push((at, rate));
            }
        }
    }
}

impl App for Consumer {
    fn next_timer(&self) -> Option<Time> {
        if self.started {
            self.fetcher.next_timeout()
        } else {
            Some(self.start)
        }
    }

    fn on_timer(&mut self, now: Time, sends: &mut Sends) {
        self.started = true;
        self.fetcher.on_timeout(now);
        self.send(now, sends);
    }

    fn on_packet(&mut self, now: Time, received: &Received<'_>, sends: &mut Sends) {
        let Received { header, packet } = received;
        match header.nack {
            Some(reason) => {
                if let Ok(interest) = Interest::decode(packet) {
                    self.fetcher.on_nack(now, interest.name, reason);
                    self.on_nack(now);
                }
            }
            None => {
                if let Ok(data) = Data::decode(packet) {
                    self.fetcher.on_data(now, &data, header, |_| ());
                }
            }
        }
        self.send(now, sends);
    }
}
