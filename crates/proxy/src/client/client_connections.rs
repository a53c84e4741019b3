//! The open connections by client. When there is no place for another one, an idle connection of
//! the client that has the most is closed for it, as nginx does: silent connections of one client
//! do not keep others out.

use crate::base::client_shares::subscriber;
use crate::base::limits;
use larder_host::Peer;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The open connections of one server.
#[derive(Default)]
pub(crate) struct ClientConnections(Mutex<State>);

#[derive(Default)]
struct State {
    /// The number of the next connection.
    next: u64,
    clients: HashMap<IpAddr, BTreeMap<u64, Arc<Activity>>>,
    /// The number of connections of each client.
    counts: BTreeSet<(usize, IpAddr)>,
    /// The last connection that was looked at.
    looked_at: u64,
}

/// What one connection does.
#[derive(Default)]
pub(crate) struct Activity {
    /// Requests whose responses have not ended.
    requests: AtomicUsize,
    is_displaced: AtomicBool,
    /// Wakes the task of the connection.
    waker: Mutex<Option<Waker>>,
}

impl Activity {
    /// Records the begin of a request.
    pub(crate) fn begin(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the end of a response.
    pub(crate) fn end(&self) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0 && !self.is_displaced.load(Ordering::Relaxed)
    }

    /// Waits until the connection has to be closed for another one. A request that has begun since
    /// it was chosen keeps it open.
    pub(crate) fn displaced(&self) -> impl Future<Output = ()> + '_ {
        // A hit polls this: it locks nothing again as long as the task is the same.
        let mut known: Option<Waker> = None;
        poll_fn(move |context| {
            if !known
                .as_ref()
                .is_some_and(|waker| waker.will_wake(context.waker()))
            {
                known = Some(context.waker().clone());
                *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = known.clone();
            }
            if !self.is_displaced.load(Ordering::Acquire) {
                return Poll::Pending;
            }
            if self.requests.load(Ordering::Relaxed) == 0 {
                return Poll::Ready(());
            }
            self.is_displaced.store(false, Ordering::Release);
            Poll::Pending
        })
    }

    /// Asks the task of the connection to close it.
    fn displace(&self) {
        self.is_displaced.store(true, Ordering::Release);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = &*waker {
            waker.wake_by_ref();
        }
    }
}

impl State {
    fn change(&mut self, client: IpAddr, change: impl FnOnce(&mut BTreeMap<u64, Arc<Activity>>)) {
        let connections = self.clients.entry(client).or_default();
        let before = connections.len();
        change(connections);
        let after = connections.len();
        self.counts.remove(&(before, client));
        if after == 0 {
            self.clients.remove(&client);
        } else {
            self.counts.insert((after, client));
        }
    }

    /// Returns an idle connection of a client, from those after the last one that was looked at.
    fn idle_of(&mut self, client: IpAddr) -> Option<Arc<Activity>> {
        let connections = self.clients.get(&client)?;
        let from = self.looked_at;
        let in_turn = connections
            .range(from + 1..)
            .chain(connections.range(..=from));
        for (number, activity) in in_turn.take(limits::DISPLACED_LOOK) {
            self.looked_at = *number;
            if activity.is_idle() {
                return Some(Arc::clone(activity));
            }
        }
        None
    }
}

impl ClientConnections {
    /// Adds a connection, until the result is dropped.
    pub(crate) fn add(self: &Arc<Self>, peer: Peer) -> ClientConnection {
        let mut state = self.lock();
        state.next += 1;
        let number = state.next;
        drop(state);
        let mut connection = ClientConnection {
            all: Arc::clone(self),
            client: None,
            number,
            activity: Arc::default(),
        };
        connection.set_client(peer);
        connection
    }

    /// Closes an idle connection of the client with the most. Returns false if the clients with the
    /// most have none.
    pub(crate) fn displace(&self) -> bool {
        let mut state = self.lock();
        let largest: Vec<IpAddr> = state
            .counts
            .iter()
            .rev()
            .take(limits::DISPLACED_CLIENTS)
            .map(|(_, ip)| *ip)
            .collect();
        for client in largest {
            if let Some(activity) = state.idle_of(client) {
                activity.displace();
                return true;
            }
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open connection, until it is dropped.
pub(crate) struct ClientConnection {
    all: Arc<ClientConnections>,
    /// `None` for a program on a Unix socket: it is not displaced.
    client: Option<IpAddr>,
    number: u64,
    activity: Arc<Activity>,
}

impl ClientConnection {
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Sets its client: the other end, or the one that the PROXY protocol names.
    pub(crate) fn set_client(&mut self, peer: Peer) {
        self.remove();
        self.client = peer.ip().map(subscriber);
        if let Some(client) = self.client {
            let activity = Arc::clone(&self.activity);
            self.all.lock().change(client, |connections| {
                drop(connections.insert(self.number, activity))
            });
        }
    }

    fn remove(&mut self) {
        if let Some(client) = self.client.take() {
            self.all
                .lock()
                .change(client, |connections| drop(connections.remove(&self.number)));
        }
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Context;

    fn peer(number: u8) -> Peer {
        Peer::Tcp(([192, 0, 2, number], 1).into())
    }

    /// Failure: the connection of a client with few is closed, or one that has a request.
    #[test]
    fn another_connection_is_displaced() {
        let all = Arc::new(ClientConnections::default());
        let few = all.add(peer(1));
        let mut many: Vec<_> = (0..3).map(|_| all.add(peer(2))).collect();
        many[0].activity().begin();
        let is_displaced = |connection: &ClientConnection| {
            connection.activity.is_displaced.load(Ordering::Relaxed)
        };
        assert!(all.displace());
        assert_eq!(
            many.iter().map(is_displaced).collect::<Vec<_>>(),
            [false, true, false]
        );
        assert!(all.displace() && is_displaced(&many[2]));
        assert!(all.displace() && is_displaced(&few), "the next client");
        assert!(!all.displace());
        many[0].activity().end();
        assert!(all.displace() && is_displaced(&many[0]));
        many[1].set_client(Peer::Unix);
        drop((few, many));
        let state = all.lock();
        assert!(state.clients.is_empty() && state.counts.is_empty());
    }

    /// Failure: a connection that a request kept open cannot be closed for another one later.
    #[tokio::test]
    async fn a_connection_kept_open_is_never_closed() {
        let all = Arc::new(ClientConnections::default());
        let one = all.add(peer(1));
        let mut displaced = std::pin::pin!(one.activity().displaced());
        let mut context = Context::from_waker(Waker::noop());
        assert!(displaced.as_mut().poll(&mut context).is_pending());
        assert!(all.displace());
        one.activity().begin();
        assert!(
            displaced.as_mut().poll(&mut context).is_pending(),
            "a request has begun"
        );
        assert!(!all.displace());
        one.activity().end();
        assert!(
            displaced.as_mut().poll(&mut context).is_pending(),
            "nothing asks for it any more"
        );
        // Waits for ever if nothing wakes the task.
        tokio::join!(displaced, async { assert!(all.displace()) });
    }

    /// Failure: connections with requests hide the idle ones behind them.
    #[test]
    fn busy_connections_hide_idle_ones() {
        let all = Arc::new(ClientConnections::default());
        let busy: Vec<_> = (0..limits::DISPLACED_LOOK * 2)
            .map(|_| all.add(peer(1)))
            .collect();
        for connection in &busy {
            connection.activity().begin();
        }
        let _idle = all.add(peer(1));
        assert!((0..3).any(|_| all.displace()));
    }
}
