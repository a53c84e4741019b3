//! The timeline of a run: what every component did in each step of time, for pictures, an animated
//! replay and ndnSIM's traces.

use super::build::Built;
use super::figures::mbps;
use super::record::{ConsumerRecord, Record};
use crate::apps::{Cbr, DelayRow};
use crate::limits;
use larder_forwarder::FaceStats;
use larder_units::Time;
use std::time::Duration;

/// A network, and its activity over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The nodes.
    pub nodes: Vec<TimelineNode>,
    /// Each direction of each link; the two directions of a link follow each other.
    pub channels: Vec<TimelineChannel>,
    /// The consumers: the name as in the figures, and the node.
    pub consumers: Vec<(String, usize)>,
    /// One entry per step, in order.
    pub steps: Vec<Step>,
    /// The delays of rate and trace consumers, by their index in `consumers`, if they were
    /// recorded.
    pub delays: Vec<Vec<DelayRow>>,
}

/// A node of a timeline.
#[derive(Clone, Debug)]
pub struct TimelineNode {
    /// The name.
    pub name: String,
    /// The position in its topology file: to the right, downwards.
    pub position: Option<(f64, f64)>,
}

/// A direction of a link of a timeline.
#[derive(Clone, Debug)]
pub struct TimelineChannel {
    /// The name, as in the figures.
    pub name: String,
    /// The indexes of the nodes at its start and its end.
    pub ends: [usize; 2],
    /// Bits per second. `None` sends in no time.
    pub rate: Option<u64>,
}

/// The activity in one step, and the state at its end.
#[derive(Clone, Debug)]
pub struct Step {
    /// The end of the step.
    pub at: Time,
    /// In the order of [`Timeline::consumers`].
    pub consumers: Vec<ConsumerStep>,
    /// In the order of [`Timeline::nodes`].
    pub nodes: Vec<NodeStep>,
    /// In the order of [`Timeline::channels`].
    pub channels: Vec<ChannelStep>,
    /// The counters of each node's faces since the start of the run, if they were recorded.
    pub faces: Vec<Vec<FaceStats>>,
}

/// A consumer's step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConsumerStep {
    /// The rate of content, in Mb/s.
    pub goodput_mbps: f64,
    /// Data.
    pub data: u64,
    /// The mean of the seconds from the first Interest to the Data; NaN without Data, and for
    /// transfers.
    pub delay: f64,
}

/// A node's step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStep {
    /// Interests that reached the node.
    pub interests: u64,
    /// Interests answered by the Content Store.
    pub hits: u64,
    /// Content Store lookups that missed.
    pub misses: u64,
    /// Packets in the Content Store at the end.
    pub stored: usize,
    /// Satisfied Interests, one for each downstream face.
    pub satisfied: u64,
    /// Interests that expired or got a Nack.
    pub unsatisfied: u64,
    /// Pending Interests at the end.
    pub pending: usize,
    /// Whether the node runs.
    pub is_up: bool,
}

/// A channel's step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChannelStep {
    /// The rate with the link's overhead, in Mb/s.
    pub rate_mbps: f64,
    /// Frames in the queue at the end.
    pub waiting: usize,
    /// Frames that the queue dropped or the link lost.
    pub gone: u64,
}

/// The resolution of a timeline.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// The length of a step. It grows if the timeline would have more than
    /// [`limits::TIMELINE_VALUES`] values.
    pub step: Duration,
    /// Whether to record the delay of each Data and the counters of faces, for
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
            consumers: built
                .consumers
                .iter()
                .map(|(label, app)| (label.clone(), at(*app)))
                .collect(),
            steps: Vec::new(),
            delays: Vec::new(),
        }
    }

    /// Returns a step that keeps the timeline within its limits.
    pub(super) fn step(&self, asked: Duration, duration: Duration) -> Duration {
        let values = self.nodes.len() + self.channels.len() + self.consumers.len();
        let most = (limits::TIMELINE_VALUES / values.max(1)).clamp(1, limits::TIMELINE_STEPS);
        asked
            .max(duration / most as u32)
            .max(Duration::from_nanos(1))
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
        let channels = network
            .channels()
            .zip(&span.channels)
            .map(|((_, channel), counters)| ChannelStep {
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
            faces: if closely {
                network
                    .nodes()
                    .map(|node| network.forwarder(node).face_stats())
                    .collect()
            } else {
                Vec::new()
            },
        });
    }

    pub(super) fn take_delays(&mut self, built: &Built) {
        let of = |app| {
            built
                .network
                .app::<Cbr>(app)
                .map(|cbr| cbr.delays().to_vec())
                .unwrap_or_default()
        };
        self.delays = built.consumers.iter().map(|(_, app)| of(*app)).collect();
    }
}
