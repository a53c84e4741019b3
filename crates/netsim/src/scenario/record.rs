//! Records of all counters at one time. Two records give the figures of the span between them, and
//! many give a timeline.

use super::build::Built;
use crate::apps::{CacheHost, CacheHostCounters, Cbr, ConsumerCounters, Fetch, Producer};
use crate::tcp::HttpCounters;
use crate::{AppId, ChannelCounters, Simulation};
use larder_forwarder::ContentStoreCounters;
use larder_transfer::{FetchStats, Progress};
use larder_units::Time;
use std::time::Duration;

/// The counters of a network at one time, or over a span.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) at: Time,
    pub(super) consumers: Vec<ConsumerRecord>,
    pub(super) cache_hosts: Vec<CacheHostCounters>,
    /// The number of Interests that producers answered.
    pub(super) produced: u64,
    pub(super) nodes: Vec<NodeRecord>,
    pub(super) channels: Vec<ChannelCounters>,
    pub(super) hosts: Vec<HttpCounters>,
}

#[derive(Clone, Debug)]
pub(super) enum ConsumerRecord {
    Rate(ConsumerCounters),
    Fetch(FetchRecord),
}

#[derive(Clone, Debug)]
pub(super) struct FetchRecord {
    pub(super) stats: FetchStats,
    pub(super) is_done: bool,
    /// The time from the transfer's start to its end, or until now; `None` over a span.
    pub(super) took: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct NodeRecord {
    pub(super) interests: u64,
    pub(super) content_store: ContentStoreCounters,
    pub(super) satisfied: u64,
    pub(super) unsatisfied: u64,
    pub(super) drops: u64,
    pub(super) missed: u64,
}

/// The difference between two counts.
trait Since {
    fn since(self, before: Self) -> Self;
}

impl Since for u64 {
    fn since(self, before: u64) -> u64 {
        self.saturating_sub(before)
    }
}

impl Since for f64 {
    fn since(self, before: f64) -> f64 {
        self - before
    }
}

impl Since for Duration {
    fn since(self, before: Duration) -> Duration {
        self.saturating_sub(before)
    }
}

/// Counters in which the listed fields count since `before`. A missing field does not compile
/// unless `..rest` gives the other fields.
macro_rules! since {
    ($counters:ident { $($field:ident),+ $(, ..$rest:expr)? }, $after:expr, $before:expr) => {
        $counters { $($field: Since::since($after.$field, $before.$field)),+ $(, ..$rest)? }
    };
}

impl Record {
    /// Reads all counters.
    pub(super) fn take(built: &Built) -> Record {
        let network = &built.network;
        let cache_hosts = built
            .cache_hosts
            .iter()
            .filter_map(|(_, app)| network.app::<CacheHost>(*app));
        let produced = built
            .producers
            .iter()
            .filter_map(|app| network.app::<Producer>(*app));
        Record {
            at: network.now(),
            consumers: built
                .consumers
                .iter()
                .map(|(_, app)| consumer(network, *app))
                .collect(),
            cache_hosts: cache_hosts.map(CacheHost::counters).collect(),
            produced: produced.map(Producer::interests).sum(),
            nodes: network
                .nodes()
                .map(|node| node_record(network, node))
                .collect(),
            channels: network
                .channels()
                .map(|(_, channel)| channel.counters())
                .collect(),
            hosts: built
                .hosts
                .iter()
                .map(|placed| network.http(placed.host))
                .collect(),
        }
    }

    /// Returns what was counted since `before`. A node that restarted in between counts from its
    /// restart.
    pub(super) fn since(&self, before: &Record) -> Record {
        let consumers = self.consumers.iter().zip(&before.consumers);
        let cache_hosts = self.cache_hosts.iter().zip(&before.cache_hosts);
        let nodes = self.nodes.iter().zip(&before.nodes);
        let channels = self.channels.iter().zip(&before.channels);
        let hosts = self.hosts.iter().zip(&before.hosts);
        Record {
            at: self.at,
            consumers: consumers
                .map(|(after, before)| after.since(before))
                .collect(),
            cache_hosts: cache_hosts
                .map(|(after, before)| {
                    since!(
                        CacheHostCounters {
                            hits,
                            misses,
                            evictions
                        },
                        after,
                        before
                    )
                })
                .collect(),
            produced: self.produced - before.produced,
            nodes: nodes.map(|(after, before)| after.since(before)).collect(),
            channels: channels
                .map(|(after, before)| {
                    since!(
                        ChannelCounters {
                            frames,
                            bytes,
                            dropped,
                            marked,
                            lost,
                            oversized
                        },
                        after,
                        before
                    )
                })
                .collect(),
            hosts: hosts.map(|(after, before)| after.since(before)).collect(),
        }
    }
}

impl ConsumerRecord {
    pub(super) fn data(&self) -> u64 {
        match self {
            ConsumerRecord::Rate(counters) => counters.data,
            ConsumerRecord::Fetch(fetch) => fetch.stats.segments,
        }
    }

    /// Bytes of content.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            ConsumerRecord::Rate(counters) => counters.bytes,
            ConsumerRecord::Fetch(fetch) => fetch.stats.bytes,
        }
    }

    fn since(&self, before: &ConsumerRecord) -> ConsumerRecord {
        match (self, before) {
            (ConsumerRecord::Rate(after), ConsumerRecord::Rate(before)) => {
                ConsumerRecord::Rate(since!(
                    ConsumerCounters {
                        interests,
                        retransmissions,
                        data,
                        bytes,
                        unexpected,
                        nacks,
                        timeouts,
                        marks,
                        full_delay,
                        last_delay
                    },
                    after,
                    before
                ))
            }
            (ConsumerRecord::Fetch(after), ConsumerRecord::Fetch(before)) => {
                let (stats, earlier) = (after.stats, before.stats);
                let stats = since!(
                    FetchStats {
                        interests,
                        retransmissions,
                        segments,
                        bytes,
                        time_outs,
                        nacks,
                        marks,
                        ..stats
                    },
                    stats,
                    earlier
                );
                // A span from the very beginning has the duration of the transfer.
                let took = after.took.filter(|_| earlier.interests == 0);
                ConsumerRecord::Fetch(FetchRecord {
                    stats,
                    took,
                    ..after.clone()
                })
            }
            _ => self.clone(),
        }
    }
}

fn consumer(network: &Simulation, app: AppId) -> ConsumerRecord {
    let Some(fetch) = network.app::<Fetch>(app) else {
        return ConsumerRecord::Rate(
            network
                .app::<Cbr>(app)
                .map(|cbr| *cbr.counters())
                .unwrap_or_default(),
        );
    };
    let (start, finished) = fetch.span();
    let took = finished.unwrap_or(network.now()).max(start).since(start);
    let is_done = fetch.progress() == Progress::Done;
    ConsumerRecord::Fetch(FetchRecord {
        stats: *fetch.stats(),
        is_done,
        took: Some(took),
    })
}

fn node_record(network: &Simulation, node: crate::NodeId) -> NodeRecord {
    let stats = network.forwarder(node).stats();
    NodeRecord {
        interests: stats.packets.in_interests,
        content_store: stats.content_store,
        satisfied: stats.satisfied,
        unsatisfied: stats.unsatisfied,
        drops: stats.drops.iter().map(|(_, count)| count).sum(),
        missed: network.missed(node),
    }
}

impl NodeRecord {
    fn since(&self, before: &NodeRecord) -> NodeRecord {
        if self.interests < before.interests {
            return *self;
        }
        let (store, earlier) = (self.content_store, before.content_store);
        let content_store = since!(
            ContentStoreCounters {
                hits,
                misses,
                insertions,
                rejections,
                untrusted,
                unverified,
                evictions,
                evicted_ages
            },
            store,
            earlier
        );
        let changed = NodeRecord {
            content_store,
            ..*self
        };
        since!(
            NodeRecord {
                interests,
                satisfied,
                unsatisfied,
                drops,
                missed,
                ..changed
            },
            self,
            before
        )
    }
}
