//! What an event loop reports: its state for the admin server, and the requests to its Content
//! Store for the what-if analysis.

use super::EventLoop;
use crate::limits;
use crate::ndn::control::snapshot::{Observations, QueueFigures, Snapshot, StrategyFigures};
use crate::ndn::send::link::Link;
use larder_forwarder::{FaceId, PrefixFigures};
use larder_packet::Name;
use larder_units::Time;
use larder_what_if_host::CacheState;

impl EventLoop {
    /// Returns its state.
    pub(super) fn snapshot(&self, now: Time) -> Snapshot {
        let by_prefix = self.forwarder.figures_by_prefix(limits::PREFIXES_SHOWN);
        Snapshot {
            strategies: self.strategy_figures(now, &by_prefix),
            stats: self.forwarder.stats(),
            faces: self.forwarder.face_stats(),
            routes: self.forwarder.first_routes(limits::ROUTES_SHOWN),
            now,
            policy: self.forwarder.policy().to_string(),
            gauges: self.forwarder.gauges(),
            by_prefix,
            partial_bytes: self.places.partial.held(),
            udp_peers: self.places.udp_places.counts(),
            shared_faces: self.shared_faces(),
            queues: self.queue_figures(),
            marked: self.links.marked(),
            turns: self.turns,
            polls: self.polling.polls,
        }
    }

    /// Takes the observations since the last call. From now on, the sample is up to `last`.
    pub(super) fn observations(&mut self, last: Option<u64>) -> Observations {
        let mut taken = Vec::new();
        let totals = self.forwarder.take_observations(last, &mut taken);
        let engine = self.forwarder.engine();
        let (policy, capacity) = (engine.spec().clone(), engine.capacity());
        let state = CacheState {
            policy,
            capacity,
            used: engine.used(),
            objects: engine.len(),
        };
        Observations {
            totals,
            taken,
            state,
        }
    }

    /// Returns the strategies that the console shows.
    fn strategy_figures(&self, now: Time, by_prefix: &[PrefixFigures]) -> Vec<StrategyFigures> {
        let configured = self
            .applied
            .strategies
            .iter()
            .map(|(prefix, _)| prefix.clone());
        let requested = by_prefix.iter().map(|figures| figures.name().to_name());
        let all = std::iter::once(Name::default())
            .chain(configured)
            .chain(requested);
        let mut figures: Vec<StrategyFigures> = Vec::new();
        for prefix in all.take(limits::STRATEGIES_SHOWN) {
            let strategy = self
                .forwarder
                .strategy_of(&prefix)
                .map(ToString::to_string)
                .unwrap_or_default();
            let gauges = self.forwarder.strategy_gauges(now, &prefix).into_iter();
            let measurements = gauges
                .map(|gauge| (gauge.face, gauge.name, gauge.value))
                .collect();
            if figures.iter().all(|known| known.prefix != prefix) {
                figures.push(StrategyFigures {
                    prefix,
                    strategy,
                    measurements,
                });
            }
        }
        figures
    }

    /// Returns the send queues of the faces that have waited or been marked.
    fn queue_figures(&self) -> Vec<QueueFigures> {
        let queue = |(face, link): (FaceId, &Link)| {
            let (bytes, marked) = (link.queued(), link.marked());
            (bytes > 0 || marked > 0).then_some(QueueFigures {
                face,
                bytes,
                marked,
            })
        };
        self.links.iter().filter_map(queue).collect()
    }
}
