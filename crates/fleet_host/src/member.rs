//! A node as a member of its fleet.

use crate::config::FleetConfig;
use crate::error::Error;
use crate::files::{Files, KeptPosition};
use crate::gate::Gate;
use crate::invalidated::Invalidated;
use crate::limits;
use crate::order::Order;
use crate::owned::Unacknowledged;
use crate::run::Running;
use crate::status::{FleetSource, Logged, Shared};
use larder_admin::StatusSource;
use larder_fleet::Message;
use larder_http::{Purge, Scope, Url};
use larder_proxy::{Fleet, Owner, Publishing, Purger, Unpublished, Wait};
use larder_units::Time;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// A node's part in its fleet: it follows the log of purges, and puts its own into it.
///
/// [`Member::fleet`] is passed to the HTTP side before it serves: until the thread has a proof of
/// freshness ([`Member::start`]), nothing that an earlier process has stored is served without
/// validation.
pub struct Member {
    config: FleetConfig,
    shared: Arc<Shared>,
    thread: Option<RunningThread>,
    /// True if a thread has followed the log before, as in a failed upgrade.
    has_run: bool,
}

struct RunningThread {
    thread: JoinHandle<()>,
    /// The other end is dropped when the thread ends.
    end: std::sync::mpsc::Receiver<()>,
}

/// The fleet, as the HTTP side sees it.
struct FleetOfNode(Arc<Shared>);

impl Member {
    /// Creates a member that has no proof of freshness.
    pub fn new(config: FleetConfig) -> Member {
        let shared = Arc::new(Shared {
            gate: Gate::new(config.max_lag, config.on_partition),
            orders: Mutex::default(),
            figures: Mutex::default(),
            invalidated: Invalidated::default(),
            owned: Arc::default(),
            leaves: AtomicBool::new(false),
            logged: Logged::default(),
            config: config.clone(),
        });
        Member {
            config,
            shared,
            thread: None,
            has_run: false,
        }
    }

    /// Returns it for the HTTP side.
    pub fn fleet(&self) -> Arc<dyn Fleet> {
        Arc::new(FleetOfNode(Arc::clone(&self.shared)))
    }

    /// Returns its figures, for the admin server.
    pub fn source(&self) -> Arc<dyn StatusSource> {
        Arc::new(FleetSource(Arc::clone(&self.shared)))
    }

    /// Starts the thread, which executes purges by `purger`. It does not wait for the servers of
    /// the log.
    ///
    /// # Errors
    /// One line: the folder cannot be used, or there is no thread.
    pub fn start(&mut self, purger: Purger) -> Result<(), Error> {
        let opened = Files::open(self.config.folder.as_deref(), self.config.has_disk)?;
        let (files, mut position) = opened;
        if std::mem::replace(&mut self.has_run, true) {
            // Another process may have moved the position on, without this one's memory.
            position = KeptPosition::Lost;
        }
        let (orders, received) = mpsc::channel(limits::ORDERS);
        let (running, end) = std::sync::mpsc::channel::<()>();
        let (config, shared) = (self.config.clone(), Arc::clone(&self.shared));
        let run = move || {
            // Dropped at the end, also after a panic.
            let _running = running;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            match runtime {
                Ok(runtime) => {
                    let member = Running::new(config, shared, purger, files);
                    runtime.block_on(member.run(position, received));
                    // A name may be looked up, or a disk may hang, on another thread.
                    runtime.shutdown_background();
                }
                Err(error) => tracing::error!(%error, "the node does not follow its fleet"),
            }
        };
        let thread = std::thread::Builder::new().name("fleet".to_owned());
        let thread = thread.spawn(run).map_err(Error::Thread)?;
        self.shared.leaves.store(false, Ordering::Relaxed);
        self.shared.gate.set_closed(false);
        *self.shared.orders() = Some(orders);
        self.thread = Some(RunningThread { thread, end });
        Ok(())
    }

    /// Ends the thread, and tells the other nodes that this one is not there any more.
    pub fn stop(&mut self) {
        self.shared.leaves.store(true, Ordering::Relaxed);
        self.hand_over();
    }

    /// Ends the thread, and leaves the folder to another process of this node. Purges are refused
    /// from then on, and what is stored is validated before it is served.
    pub fn hand_over(&mut self) {
        self.shared.gate.set_closed(true);
        *self.shared.orders() = None;
        let Some(RunningThread { thread, end }) = self.thread.take() else {
            return;
        };
        if end.recv_timeout(limits::STOP) == Err(RecvTimeoutError::Timeout) {
            return tracing::error!(
                "[fleet]: a disk or a server does not answer, and the thread is left behind"
            );
        }
        if thread.join().is_err() {
            tracing::error!("the thread fleet has failed");
        }
    }
}

impl Shared {
    fn orders(&self) -> std::sync::MutexGuard<'_, Option<mpsc::Sender<Order>>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for FleetOfNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FleetOfNode")
            .field(&self.0.config.name)
            .finish()
    }
}

impl Fleet for FleetOfNode {
    fn trusted_since(&self, now: Time) -> Time {
        self.0.gate.trusted_since(now)
    }

    fn shares_invalidations(&self) -> bool {
        self.0.config.invalidate || self.0.config.offer.is_some()
    }

    fn invalidate(&self, urls: Vec<Url>) {
        if self.0.config.offer.is_some() {
            self.0.owned.invalidated(&urls);
        }
        if !self.0.config.invalidate {
            return;
        }
        let has_thread = self.0.orders().is_some();
        if has_thread {
            self.0.invalidated.push(urls);
        } else {
            self.0.invalidated.drop_some(urls.len());
        }
    }

    fn owners(&self, url: &str) -> Vec<Owner> {
        self.0.owned.owners(url)
    }

    fn position(&self) -> Option<String> {
        self.0.owned.position()
    }

    fn has_applied(&self, position: &str) -> bool {
        self.0.owned.has_applied(position)
    }

    fn publish<'a>(&'a self, purge: &Purge, wait: Wait) -> Publishing<'a> {
        let config = &self.0.config;
        // The thread gives it an id.
        let mut message = Message::new("-".into(), &config.node);
        message.soft = purge.soft;
        match &purge.scope {
            Scope::Exact(url) => message.urls.push(url.to_string()),
            Scope::Prefix(url) => message.prefixes.push(url.to_string()),
            Scope::Tag(tag) => message.tags.push(tag.clone()),
            Scope::Everything => message.everything = true,
        }
        let orders = self.0.orders().clone();
        let shares = config.offer.is_some();
        let unacknowledged = shares.then(|| Unacknowledged::new(&self.0.owned, &purge.scope));
        Box::pin(async move {
            let stopped = || {
                Unpublished::Refused(
                    "purged on this node only: it does not follow its fleet now; send it again"
                        .to_owned(),
                )
            };
            let orders = orders.ok_or_else(stopped)?;
            let (reply, answer) = oneshot::channel();
            let order = Order {
                message,
                waits: wait == Wait::All,
                unacknowledged,
                reply,
            };
            let sent = orders.try_send(order);
            // The thread ends when all senders are gone.
            drop(orders);
            sent.map_err(|_| {
                Unpublished::Refused(
                    "purged on this node only: too many purges wait; send it again later"
                        .to_owned(),
                )
            })?;
            answer.await.unwrap_or_else(|_| Err(stopped()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FleetTls, OnPartition};
    use larder_fleet::{Owners, PeerOffer};
    use std::time::Duration;

    fn config() -> FleetConfig {
        FleetConfig {
            name: "cdn".to_owned(),
            node: "n1".to_owned(),
            servers: Vec::new(),
            tls: FleetTls::default(),
            credentials: None,
            max_lag: Duration::from_secs(30),
            on_partition: OnPartition::Revalidate,
            invalidate: true,
            folder: None,
            has_disk: false,
            offer: None,
        }
    }

    /// Failure: after a hand-over, what clients change waits for a thread that does not come, and
    /// nothing counts it; and what is stored is served, although no purge reaches it.
    #[test]
    fn a_node_that_has_left_its_fleet_goes_on_as_before() {
        let mut member = Member::new(config());
        let fleet = member.fleet();
        let now = Time::from_secs(1000);
        assert!(fleet.trusted_since(now) < now);
        member.hand_over();
        assert_eq!(fleet.trusted_since(now), now);
        fleet.invalidate(vec!["http://a/1".parse().unwrap()]);
        assert_eq!(member.shared.invalidated.dropped(), 1);
        assert!(member.shared.invalidated.take().is_empty());
    }

    /// Failure: what a client changes does not go to the log; or its owner, which does not know it
    /// yet, is asked for it.
    #[test]
    fn a_change_by_a_client_stays_unknown() {
        let offer = |port, capacity| PeerOffer {
            address: ([127, 0, 0, 1], port).into(),
            capacity,
            zone: String::new(),
        };
        let (own, other) = (offer(1, 1), offer(2, 1 << 30));
        let member = Member::new(FleetConfig {
            offer: Some(own.clone()),
            ..config()
        });
        let owners = Owners::new("n1", Some(&own), [("n2", &other)].into_iter());
        member.shared.owned.set_owners(owners);
        let (orders, _received) = mpsc::channel(1);
        *member.shared.orders() = Some(orders);
        let (fleet, url) = (member.fleet(), "http://a/1");
        assert_eq!(fleet.owners(url).len(), 1);
        fleet.invalidate(vec![url.parse().unwrap()]);
        assert_eq!(member.shared.invalidated.take(), [[url]]);
        assert!(fleet.owners(url).is_empty() && fleet.owners("http://a/2").len() == 1);
    }
}
