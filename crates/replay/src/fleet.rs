//! What nodes that share their responses would hit: a trace over several caches.
//!
//! It runs the node's own parts: the engine, the owners ([`Owners`]) and the rule for copies
//! ([`CopyCounts`]). Each request arrives at a node by chance, as by a balancer that does not look
//! at URLs. There is no time, no purge and no failure in it.

use crate::{Access, Replay};
use larder_fleet::{CopyCounts, Owners, PeerOffer, owner_key};
use larder_policy::{Spec, SpecError};
use larder_units::{ByteSize, Stream, Streams};
use std::net::{Ipv4Addr, SocketAddr};

/// Requests of a node between two looks at how many objects it stores.
const LOOK: u64 = 1 << 10;

/// Nodes of one zone, without values, over which a trace is replayed.
pub struct FleetReplay {
    nodes: Vec<Node>,
    /// The owners, as the first node sees them; `None` if the nodes do not ask each other.
    owners: Option<Owners>,
    arrivals: Stream,
    counts: FleetCounts,
}

struct Node {
    cache: Replay,
    copies: CopyCounts,
    /// Requests of its clients.
    asked: u64,
    /// Requests for objects that it owns.
    owned: u64,
}

/// The counts of a [`FleetReplay`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FleetCounts {
    /// Requests of clients.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that the origin got.
    pub origin_requests: u64,
    /// Their bytes.
    pub origin_bytes: u64,
    /// Requests of one node to another.
    pub peer_requests: u64,
    /// Their bytes.
    pub peer_bytes: u64,
}

impl FleetReplay {
    /// Creates `count` nodes with a cache of `capacity` each. They ask each other, if it `shares`.
    ///
    /// # Errors
    /// [`SpecError`] if the spec's arguments contradict each other.
    pub fn new(
        spec: &Spec,
        capacity: ByteSize,
        count: usize,
        shares: bool,
        seed: u64,
    ) -> Result<FleetReplay, SpecError> {
        let node = |number: usize| {
            Ok(Node {
                cache: Replay::new(spec, capacity, seed.wrapping_add(number as u64))?.filling(),
                copies: CopyCounts::default(),
                asked: 0,
                owned: 0,
            })
        };
        Ok(FleetReplay {
            nodes: (0..count).map(node).collect::<Result<_, _>>()?,
            owners: shares.then(|| owners(capacity, count)),
            arrivals: Streams::new(seed).stream("arrivals"),
            counts: FleetCounts::default(),
        })
    }

    /// Replays one request.
    pub fn request(&mut self, access: &Access) {
        let at = self.arrivals.below(self.nodes.len() as u64) as usize;
        self.counts.requests += 1;
        self.counts.bytes = self.counts.bytes.saturating_add(access.size);
        let (mut owner, mut key) = (at, 0);
        if let Some(owners) = &self.owners {
            key = owner_key(&access.id.to_string());
            // The names are the places, and the first node asks nobody for what it owns.
            let first = owners.of(key).into_iter().next();
            owner = first.map_or(0, |peer| peer.node.parse().unwrap_or(0));
        }
        let node = &mut self.nodes[at];
        node.asked += 1;
        if node.asked.is_multiple_of(LOOK) {
            let stored = node.cache.engine().len();
            node.copies.set_stored(stored as u64);
        }
        if owner == at {
            node.owned += 1;
            if !node.cache.request(access) {
                self.ask_origin(access);
            }
            return;
        }
        if node.cache.holds(access.id) {
            node.cache.request(access);
            return;
        }
        self.counts.peer_requests += 1;
        self.counts.peer_bytes = self.counts.peer_bytes.saturating_add(access.size);
        let is_kept = node.copies.is_kept(key);
        let owned = &mut self.nodes[owner];
        owned.owned += 1;
        if !owned.cache.request(access) {
            self.ask_origin(access);
        }
        if is_kept {
            self.nodes[at].cache.request(access);
        }
    }

    fn ask_origin(&mut self, access: &Access) {
        self.counts.origin_requests += 1;
        self.counts.origin_bytes = self.counts.origin_bytes.saturating_add(access.size);
    }

    /// Ends the warm-up: the counts begin anew. The caches do not change.
    pub fn reset_counts(&mut self) {
        self.counts = FleetCounts::default();
        for node in &mut self.nodes {
            node.owned = 0;
        }
    }

    /// Returns the counts since the last [`FleetReplay::reset_counts`].
    pub fn counts(&self) -> FleetCounts {
        self.counts
    }

    /// Returns the requests that the busiest node got as an owner, over the mean of all.
    pub fn busiest(&self) -> f64 {
        let owned = self.nodes.iter().map(|node| node.owned);
        let most = owned.clone().max().unwrap_or(0) as f64;
        let mean = owned.sum::<u64>() as f64 / self.nodes.len().max(1) as f64;
        if mean > 0.0 { most / mean } else { 1.0 }
    }
}

/// Returns the owners among nodes of the same capacity, as the first one sees them.
fn owners(capacity: ByteSize, count: usize) -> Owners {
    let offer = PeerOffer {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
        capacity: capacity.bytes(),
        zone: String::new(),
    };
    let names: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    let others = names.iter().map(|name| (&**name, &offer));
    Owners::new("0", Some(&offer), others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Zipf;
    use larder_units::Time;

    fn requests(objects: u64, count: usize) -> Vec<Access> {
        let (zipf, mut stream) = (
            Zipf::new(objects, 0.9).unwrap(),
            Streams::new(1).stream("requests"),
        );
        let access = |id| Access {
            id,
            size: 16 << 10,
            now: Time::ZERO,
        };
        (0..count).map(|_| access(zipf.draw(&mut stream))).collect()
    }

    fn replayed(objects: u64, nodes: usize, shares: bool, requests: &[Access]) -> FleetCounts {
        let capacity = ByteSize::from_bytes(objects * (16 << 10));
        let spec = "agd".parse().unwrap();
        let mut fleet = FleetReplay::new(&spec, capacity, nodes, shares, 1).unwrap();
        for access in requests {
            fleet.request(access);
        }
        assert!(fleet.busiest() < 1.3, "{}", fleet.busiest());
        fleet.counts()
    }

    /// Failure: nodes that share fetch an object twice although all fits; or one node is not the
    /// replay.
    #[test]
    fn an_object_is_fetched_by_each_node() {
        let requests = requests(1000, 50_000);
        let shared = replayed(10_000, 5, true, &requests);
        assert_eq!(shared.origin_requests, 1000);
        // Without copies, four of five requests would go to another node.
        let peer_requests = 4000..20_000;
        assert!(peer_requests.contains(&shared.peer_requests), "{shared:?}");
        let alone = replayed(10_000, 5, false, &requests);
        assert!((4000..=5000).contains(&alone.origin_requests));
        assert_eq!(alone.peer_requests, 0);
        let mut one = Replay::new(&"agd".parse().unwrap(), ByteSize::from_mib(1), 1)
            .unwrap()
            .filling();
        for access in &requests {
            one.request(access);
        }
        let single = replayed(64, 1, true, &requests);
        assert_eq!(single.origin_requests, one.misses().0);
        assert_eq!((single.peer_requests, single.requests), (0, 50_000));
    }

    /// Failure: copies displace what nodes own, so that sharing gains less than it can: it loses
    /// more than a point to one cache of all memory.
    #[test]
    fn sharing_gains_less_than_one_cache() {
        let requests = requests(50_000, 400_000);
        let ratio = |counts: FleetCounts| 1.0 - counts.origin_requests as f64 / 400_000.0;
        let large = ratio(replayed(5 * 1000, 1, false, &requests));
        let counts = replayed(1000, 5, true, &requests);
        let shared = ratio(counts);
        assert!(counts.peer_requests < 240_000, "{counts:?}");
        let alone = ratio(replayed(1000, 5, false, &requests));
        assert!(
            shared > large - 0.015 && shared < large + 0.005,
            "{shared} of {large}"
        );
        assert!(alone < large - 0.1, "{alone} of {large}");
    }
}
