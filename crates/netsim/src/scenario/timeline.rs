//! The course of a run: what every component did in each step of time, for pictures, an animated
//! replay and ndnSIM's traces.

use super::build::Built;
use super::figures::mbps;
use super::record::{ConsumerRecord, Record};
use crate::apps::{Cbr, DelayRow};
use crate::limits;
use larder_forwarder::FaceStats;
use larder_units::Time;
use std::time::Duration;

/// A network, and what it did over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The nodes.
    pub nodes: Vec<TimelineNode>,
    /// Each direction of each link, the second of a link after the first.
    pub channels: Vec<TimelineChannel>,
    /// The consumers: name as in the figures, and node.
    pub consumers: Vec<(String, usize)>,
    /// One a step, in order.
    pub steps: Vec<Step>,
    /// What rate and trace consumers got, by their place in `consumers`; where it was asked for.
    pub delays: Vec<Vec<DelayRow>>,
}

/// A node of a course.
#[derive(Clone, Debug)]
pub struct TimelineNode {
    /// Its name.
    pub name: String,
    /// Where its topology file puts it: to the right, downwards.
    pub position: Option<(f64, f64)>,
}

/// A direction of a link of a course.
#[derive(Clone, Debug)]
pub struct TimelineChannel {
    /// Its name, as in the figures.
    pub name: String,
    /// From which of the nodes to which.
    pub ends: [usize; 2],
    /// Bits a second; `None`: it sends in no time.
    pub rate: Option<u64>,
}

/// What happened in one step, and what was so at its end.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its end.
    pub at: Time,
    /// In the order of [`Timeline::consumers`].
    pub consumers: Vec<ConsumerStep>,
    /// In the order of [`Timeline::nodes`].
    pub nodes: Vec<NodeStep>,
    /// In the order of [`Timeline::channels`].
    pub channels: Vec<ChannelStep>,
    /// What the faces of each node have counted so far, where it was asked for.
    pub faces: Vec<Vec<FaceStats>>,
}

/// A consumer's step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConsumerStep {
    /// Content, Mb/s.
    pub goodput_mbps: f64,
    /// Data.
    pub data: u64,
    /// Seconds from first asking to Data, the mean; NaN without Data, and of transfers.
    pub delay: f64,
}

/// A node's step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStep {
    /// Interests that reached it.
    pub interests: u64,
    /// Of those, answered by the Content Store.
    pub hits: u64,
    /// Looked up there in vain.
    pub misses: u64,
    /// Packets that it holds at the end.
    pub stored: usize,
    /// Interests answered, one for each who waited.
    pub satisfied: u64,
    /// Interests that ran out, or were refused.
    pub unsatisfied: u64,
    /// Interests that pend at the end.
    pub pending: usize,
    /// Whether it runs.
    pub is_up: bool,
}

/// A channel's step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChannelStep {
    /// With the link's overhead, Mb/s.
    pub rate_mbps: f64,
    /// Frames that wait at the end.
    pub waiting: usize,
    /// Frames that its queue dropped, or that were lost on the way.
    pub gone: u64,
}

/// How closely a run is watched.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// How long a step is; longer where the course would have more than [`limits::COURSE_VALUES`]
    /// values.
    pub step: Duration,
    /// Whether to note each Data's delay, and what faces count: for
    /// [ndnSIM's traces](Timeline::delays).
    pub closely: bool,
}

impl Timeline {
    pub(super) fn new(built: &Built) -> Timeline {
        let network = &built.network;
        let node = |(place, node): (usize, crate::NodeId)| TimelineNode {
            name: network.node_name(node).to_owned(),
            position: built.positions.get(place).copied().flatten(),
        };
        let channel = |(id, channel): (crate::ChannelId, &crate::Channel)| TimelineChannel {
            name: network.channel_name(id),
            ends: <[crate::NodeId; 2]>::from(channel.ends()).map(|node| node.0 as usize),
            rate: channel.config().rate.map(|rate| rate.bits_per_second()),
        };
        let at = |app| network.place_of(app).0.0 as usize;
        Timeline {
            nodes: network.nodes().enumerate().map(node).collect(),
            channels: network.channels().map(channel).collect(),
            consumers: built.consumers.iter().map(|(label, app)| (label.clone(), at(*app))).collect(),
            steps: Vec::new(),
            delays: Vec::new(),
        }
    }

    /// The step that keeps the course within bounds.
    pub(super) fn step(&self, asked: Duration, duration: Duration) -> Duration {
        let values = self.nodes.len() + self.channels.len() + self.consumers.len();
        let most = (limits::COURSE_VALUES / values.max(1)).clamp(1, limits::COURSE_STEPS);
        asked.max(duration / most as u32).max(Duration::from_nanos(1))
    }

    pub(super) fn add(&mut self, built: &Built, before: &Record, after: &Record, closely: bool) {
        let (network, span) = (&built.network, after.since(before));
        let seconds = after.at.since(before.at).as_secs_f64();
        let nodes = network.nodes().zip(&span.nodes).map(|(node, record)| {
            let stats = network.forwarder(node).stats();
            let store = record.content_store;
            NodeStep {
                interests: record.interests,
                hits: store.hits,
                misses: store.misses,
                satisfied: record.satisfied,
                unsatisfied: record.unsatisfied,
                stored: stats.content_store_entries,
                pending: stats.pit_entries,
                is_up: network.is_up(node),
            }
        });
        let channels = network.channels().zip(&span.channels).map(|((_, channel), counters)| ChannelStep {
            rate_mbps: mbps(counters.bytes, seconds),
            waiting: channel.waiting().0,
            gone: counters.dropped + counters.lost,
        });
        let consumers = span.consumers.iter().map(|record| ConsumerStep {
            goodput_mbps: mbps(record.bytes(), seconds),
            data: record.data(),
            delay: match record {
                ConsumerRecord::Rate(counters) => counters.full_delay / counters.data as f64,
                ConsumerRecord::Fetch(_) => f64::NAN,
            },
        });
        self.steps.push(Step {
            at: after.at,
            consumers: consumers.collect(),
            nodes: nodes.collect(),
            channels: channels.collect(),
            faces: match closely {
                true => network.nodes().map(|node| network.forwarder(node).face_stats()).collect(),
                false => Vec::new(),
            },
        });
    }

    pub(super) fn take_delays(&mut self, built: &Built) {
        let of = |app| built.network.app::<Cbr>(app).map(|cbr| cbr.delays().to_vec()).unwrap_or_default();
        self.delays = built.consumers.iter().map(|(_, app)| of(*app)).collect();
    }
}
