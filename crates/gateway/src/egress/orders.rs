//! The requests to the origin, and whose turn is next.
//!
//! The origin has a fixed number of places. While they are taken, requests wait, and a place that
//! becomes free goes to the requester with the fewest. A requester that has at least two fewer than
//! another one takes a place from that one ([`Turn::Displace`]), so that slow responses of one
//! requester do not keep out the others.

use super::exchange::OriginRequest;
use larder_units::Time;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// The sender of an Interest, as far as this node knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Requester {
    /// The forwarder's face; `None` if the forwarder does not name it.
    pub(super) face: Option<u64>,
    /// True if the holder of the shared secret has signed the Interest.
    pub(super) is_signed: bool,
}

/// What has to be done next.
#[derive(Debug)]
pub(super) enum Turn {
    /// The origin gets this request.
    Start(OriginRequest),
    /// A request of this requester has to end.
    Displace(Requester),
}

/// The requests to the origin that have not ended.
pub(super) struct Orders {
    places: usize,
    by_id: HashMap<u64, Order>,
    queues: HashMap<Requester, Queue>,
    /// The requests that have a place.
    started: usize,
}

struct Order {
    /// The name of the question, or of the body.
    key: Vec<u8>,
    requester: Requester,
}

/// The requests of one requester.
#[derive(Default)]
struct Queue {
    started: BTreeSet<u64>,
    /// With the time since when they wait.
    waiting: BTreeMap<u64, (Time, OriginRequest)>,
}

impl Orders {
    pub(super) fn new(places: usize) -> Orders {
        Orders {
            places,
            by_id: HashMap::new(),
            queues: HashMap::new(),
            started: 0,
        }
    }

    /// Adds the request of a question. It waits until [`Orders::next_turn`] returns it.
    pub(super) fn add(
        &mut self,
        now: Time,
        key: &[u8],
        requester: Requester,
        request: OriginRequest,
    ) {
        self.by_id.insert(
            request.id,
            Order {
                key: key.to_vec(),
                requester,
            },
        );
        self.queues
            .entry(requester)
            .or_default()
            .waiting
            .insert(request.id, (now, request));
    }

    /// Returns the next request to start, or to displace; `None` if all places are shared fairly,
    /// or nothing waits.
    pub(super) fn next_turn(&mut self) -> Option<Turn> {
        let waiting = self
            .queues
            .iter()
            .filter(|(_, queue)| !queue.waiting.is_empty());
        let (next, queue) =
            waiting.min_by_key(|(_, queue)| (queue.started.len(), queue.waiting.keys().next()))?;
        let (next, started) = (*next, queue.started.len());
        if self.is_full() {
            let (largest, queue) = self
                .queues
                .iter()
                .max_by_key(|(_, queue)| queue.started.len())?;
            return (queue.started.len() > started + 1).then_some(Turn::Displace(*largest));
        }
        let queue = self.queues.get_mut(&next)?;
        let (id, (_, request)) = queue.waiting.pop_first()?;
        queue.started.insert(id);
        self.started += 1;
        Some(Turn::Start(request))
    }

    /// Returns true if all places are taken.
    pub(super) fn is_full(&self) -> bool {
        self.started >= self.places
    }

    /// Returns true if a request has no place yet.
    pub(super) fn is_waiting(&self, id: u64) -> bool {
        let queue = self
            .by_id
            .get(&id)
            .and_then(|order| self.queues.get(&order.requester));
        queue.is_some_and(|queue| queue.waiting.contains_key(&id))
    }

    /// Returns the name of the question or the body of a request.
    pub(super) fn get(&self, id: u64) -> Option<&Vec<u8>> {
        self.by_id.get(&id).map(|order| &order.key)
    }

    /// Moves a request to its body.
    pub(super) fn set_key(&mut self, id: u64, key: Vec<u8>) {
        if let Some(order) = self.by_id.get_mut(&id) {
            order.key = key;
        }
    }

    /// Ends a request. Returns the name of its question or body.
    pub(super) fn remove(&mut self, id: u64) -> Option<Vec<u8>> {
        let Order { key, requester } = self.by_id.remove(&id)?;
        if let Some(queue) = self.queues.get_mut(&requester) {
            self.started -= usize::from(queue.started.remove(&id));
            queue.waiting.remove(&id);
            if queue.started.is_empty() && queue.waiting.is_empty() {
                self.queues.remove(&requester);
            }
        }
        Some(key)
    }

    /// Returns the requests of a requester that the origin has got.
    pub(super) fn started_of(&self, requester: Requester) -> impl Iterator<Item = u64> {
        self.queues
            .get(&requester)
            .into_iter()
            .flat_map(|queue| queue.started.iter().copied())
    }

    /// Returns all requests of a requester.
    pub(super) fn of(&self, requester: Requester) -> impl Iterator<Item = u64> {
        let queue = self.queues.get(&requester).into_iter();
        queue.flat_map(|queue| queue.started.iter().chain(queue.waiting.keys()).copied())
    }

    /// Returns the requests that have waited longer than `most`.
    pub(super) fn waiting_for_longer_than(&self, now: Time, most: Duration) -> Vec<u64> {
        let waiting = self.queues.values().flat_map(|queue| &queue.waiting);
        waiting
            .filter(|(_, (since, _))| now.since(*since) > most)
            .map(|(id, _)| *id)
            .collect()
    }
}
