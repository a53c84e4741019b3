//! A number of places that clients share fairly, such as those of requests at the origins.
//!
//! A client has at most as many as are free (a dynamic threshold: Choudhury and Hahne, 1998), so
//! one alone has half, and a newcomer finds one. Further requests wait. A place that is left goes
//! to the waiting client that has the fewest; of equal ones, to the one that waits longest.
//!
//! Taking and leaving a place costs the logarithm of the number of waiting clients.

use crate::base::client_shares::subscriber;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Places of one kind.
pub(crate) struct FairPlaces(Mutex<State>);

/// Clients without a known address, and programs on Unix sockets, are one: `::`.
type Client = IpAddr;

struct State {
    most: usize,
    taken: usize,
    clients: HashMap<Client, OfClient>,
    /// The clients that wait: places that they have, the number of their first request, and they.
    waiting: BTreeSet<(usize, u64, Client)>,
    /// The number of the next request that waits.
    next: u64,
}

/// What one client has. Clients that have nothing take no memory.
#[derive(Default)]
struct OfClient {
    taken: usize,
    queue: VecDeque<(u64, oneshot::Sender<FairPlace>)>,
}

impl State {
    fn may_take(&self, client: Client) -> bool {
        let free = self.most.saturating_sub(self.taken);
        let of_client = self
            .clients
            .get(&client)
            .map_or(0, |of_client| of_client.taken);
        free > 0 && of_client < free
    }

    /// Changes what a client has, and keeps its rank.
    fn change(&mut self, client: Client, change: impl FnOnce(&mut OfClient)) {
        let of_client = self.clients.entry(client).or_default();
        if let Some((first, _)) = of_client.queue.front() {
            self.waiting.remove(&(of_client.taken, *first, client));
        }
        change(of_client);
        if let Some((first, _)) = of_client.queue.front() {
            self.waiting.insert((of_client.taken, *first, client));
        } else if of_client.taken == 0 {
            self.clients.remove(&client);
        }
    }

    fn take(&mut self, client: Client) {
        self.taken += 1;
        self.change(client, |of_client| of_client.taken += 1);
    }

    /// Takes places for requests that wait, as long as there are some.
    fn next_grants(
        &mut self,
        places: &Arc<FairPlaces>,
    ) -> Vec<(oneshot::Sender<FairPlace>, FairPlace)> {
        let mut grants = Vec::new();
        while let Some((_, _, client)) = self.waiting.first().copied()
            && self.may_take(client)
        {
            let mut waiter = None;
            self.change(client, |of_client| waiter = of_client.queue.pop_front());
            let Some((_, sender)) = waiter else { break };
            self.take(client);
            grants.push((
                sender,
                FairPlace {
                    places: Arc::clone(places),
                    client,
                },
            ));
        }
        grants
    }
}

impl FairPlaces {
    /// Returns so many free places.
    pub(crate) fn new(most: usize) -> Arc<FairPlaces> {
        let (clients, waiting) = (HashMap::new(), BTreeSet::new());
        Arc::new(FairPlaces(Mutex::new(State {
            most,
            taken: 0,
            clients,
            waiting,
            next: 0,
        })))
    }

    /// Changes their number. Those that have a place keep it.
    pub(crate) fn set(self: &Arc<Self>, most: usize) {
        let mut state = self.lock();
        state.most = most;
        let grants = state.next_grants(self);
        drop(state);
        hand_over(grants);
    }

    /// Returns the number of free places.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        let state = self.lock();
        state.most.saturating_sub(state.taken)
    }

    /// Returns a place, if a client may have another one now.
    pub(crate) fn try_acquire(self: &Arc<Self>, client: Client) -> Option<FairPlace> {
        let client = subscriber(client);
        let mut state = self.lock();
        if !state.may_take(client) {
            return None;
        }
        state.take(client);
        Some(FairPlace {
            places: Arc::clone(self),
            client,
        })
    }

    /// Waits for a place.
    pub(crate) async fn acquire(self: &Arc<Self>, client: Client) -> FairPlace {
        loop {
            if let Some(place) = self.try_acquire(client) {
                return place;
            }
            let (sender, receiver) = oneshot::channel();
            let waiting = self.enqueue(subscriber(client), sender);
            let place = receiver.await;
            drop(waiting);
            // The sender is only dropped with a place in it.
            if let Ok(place) = place {
                return place;
            }
        }
    }

    fn enqueue(self: &Arc<Self>, client: Client, sender: oneshot::Sender<FairPlace>) -> Waiting {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.change(client, |of_client| {
            of_client.queue.push_back((number, sender))
        });
        // Places may have been left since the request found none.
        let grants = state.next_grants(self);
        drop(state);
        hand_over(grants);
        Waiting {
            places: Arc::clone(self),
            client,
            number,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Without the lock: a place that nobody takes comes back.
fn hand_over(grants: Vec<(oneshot::Sender<FairPlace>, FairPlace)>) {
    for (sender, place) in grants {
        let _ = sender.send(place);
    }
}

/// A request that waits, until it is dropped.
struct Waiting {
    places: Arc<FairPlaces>,
    client: Client,
    number: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        if !state.clients.contains_key(&self.client) {
            return;
        }
        state.change(self.client, |of_client| {
            if let Ok(at) = of_client
                .queue
                .binary_search_by_key(&self.number, |(number, _)| *number)
            {
                of_client.queue.remove(at);
            }
        });
    }
}

/// A place, until it is dropped.
pub(crate) struct FairPlace {
    places: Arc<FairPlaces>,
    client: Client,
}

impl Drop for FairPlace {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        state.taken = state.taken.saturating_sub(1);
        state.change(self.client, |of_client| {
            of_client.taken = of_client.taken.saturating_sub(1)
        });
        let grants = state.next_grants(&self.places);
        drop(state);
        hand_over(grants);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn client(number: u8) -> Client {
        [192, 0, 2, number].into()
    }

    /// Failure: one client takes all places, or one that has none waits behind it.
    #[tokio::test]
    async fn a_client_takes_all() {
        let places = FairPlaces::new(8);
        let many: Vec<_> = std::iter::from_fn(|| places.try_acquire(client(1))).collect();
        assert_eq!((many.len(), places.free()), (4, 4));
        let others: Vec<_> = std::iter::from_fn(|| places.try_acquire(client(2))).collect();
        assert_eq!(others.len(), 2);
        let third = places.try_acquire(client(3));
        assert!(third.is_some());
        let mut again = pin!(places.acquire(client(1)));
        let mut new = pin!(places.acquire(client(4)));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(again.as_mut().poll(&mut cx).is_pending());
        assert!(
            new.as_mut().poll(&mut cx).is_ready(),
            "a newcomer waits behind others"
        );
        drop(many);
        assert!(again.as_mut().poll(&mut cx).is_ready());
    }

    /// Failure: all places are left after a request has found none, and before it waits. Nobody
    /// wakes it.
    #[test]
    fn a_request_waits_while_all_places_are_free() {
        let places = FairPlaces::new(2);
        let (sender, mut receiver) = oneshot::channel();
        let _waiting = places.enqueue(client(1), sender);
        assert!(receiver.try_recv().is_ok());
    }

    proptest! {
        /// Failure: a place is lost, or given twice; or a waiting request is forgotten.
        #[test]
        fn places_are_lost(steps in proptest::collection::vec((0..4_u8, 0..6_u8), 1..80)) {
            let places = FairPlaces::new(6);
            let mut cx = Context::from_waker(Waker::noop());
            let (mut held, mut waiting) = (Vec::new(), Vec::new());
            for (what, number) in steps {
                match what {
                    0 | 1 => {
                        let places = Arc::clone(&places);
                        waiting.push(Box::pin(async move { places.acquire(client(number)).await }));
                    }
                    2 if !held.is_empty() => drop(held.swap_remove(usize::from(number) % held.len())),
                    3 if !waiting.is_empty() => drop(waiting.swap_remove(usize::from(number) % waiting.len())),
                    _ => {}
                }
                for _ in 0..2 {
                    waiting.retain_mut(|one| match one.as_mut().poll(&mut cx) {
                        std::task::Poll::Ready(place) => {
                            held.push(place);
                            false
                        }
                        std::task::Poll::Pending => true,
                    });
                }
                prop_assert_eq!(places.free(), 6 - held.len());
                let state = places.lock();
                prop_assert_eq!(state.clients.values().map(|of| of.queue.len()).sum::<usize>(), waiting.len());
                prop_assert_eq!(state.clients.values().filter(|of| !of.queue.is_empty()).count(), state.waiting.len());
                prop_assert!(state.waiting.first().is_none_or(|(_, _, client)| !state.may_take(*client)));
            }
            drop((held, waiting));
            prop_assert!(places.free() == 6 && places.lock().clients.is_empty());
        }
    }
}
