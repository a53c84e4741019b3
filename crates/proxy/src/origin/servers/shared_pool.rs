//! The members of an origin for all request threads, and requests at them.

use super::{Change, Choice, Pool, Ticket, Tried, Verdict};
use crate::base::client_shares::{ClientShares, Share};
use crate::base::limits;
use crate::origin::connections::{ConnectionVerdict, Failed, Server};
use larder_admin::histogram::Histogram;
use larder_units::Time;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::timeout;

/// A server, and what the log knows of it.
pub(crate) struct Known {
    pub(crate) server: Arc<Server>,
    /// Its name in the log and in metrics.
    pub(crate) name: String,
    /// The name that has led to it, if the pool has a member for each address of a name.
    pub(crate) of_name: Option<OfName>,
    /// The time of the last line about a failure, and the failures since; 0: none since its last
    /// answer.
    complained: AtomicU64,
    failures: AtomicU64,
    /// The times to the heads of its responses.
    pub(crate) times: Histogram,
}

/// The place of a server among the addresses of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OfName {
    /// The number of the name in its pool.
    pub(crate) number: usize,
    /// The name and the port, as configured.
    pub(crate) host: Arc<str>,
    /// The address.
    pub(crate) address: IpAddr,
}

impl Known {
    pub(crate) fn new(server: Arc<Server>, of_name: Option<OfName>) -> Known {
        let (complained, failures, times) =
            (AtomicU64::new(0), AtomicU64::new(0), Histogram::default());
        let name = server.address.name.clone();
        Known {
            server,
            name,
            of_name,
            complained,
            failures,
            times,
        }
    }
}

/// The members of an origin.
pub(crate) struct SharedPool {
    pool: Mutex<Pool<Arc<Known>>>,
    /// Tells requests that wait that a member has room.
    freed: Notify,
    /// The requests of each client, if the members have limits.
    clients: Arc<ClientShares>,
    started: Instant,
}

/// A request that needs a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking {
    /// The hash of its URL.
    pub(crate) key: u64,
    /// True if it may be sent twice.
    pub(crate) is_repeatable: bool,
    /// Its client.
    pub(crate) client: IpAddr,
}

/// The reason why no member gets a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoMember {
    /// None can get it; one may after this time.
    Unavailable(Duration),
    /// All that could get it were tried.
    Exhausted,
}

impl SharedPool {
    /// `started` is time 0 of the pool.
    pub(crate) fn new(pool: Pool<Arc<Known>>, started: Instant) -> SharedPool {
        SharedPool {
            pool: Mutex::new(pool),
            freed: Notify::new(),
            clients: Arc::default(),
            started,
        }
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn pool(&self) -> MutexGuard<'_, Pool<Arc<Known>>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns time 0 of the pool.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Wakes the requests that wait for a member.
    pub(crate) fn wake_all(&self) {
        self.freed.notify_waiters();
    }

    /// Chooses a member. If all have as many requests as they may have, or are not known yet, it
    /// waits for one, at most [`limits::SERVER_WAIT`]. So does a client with more than
    /// [`limits::SERVER_SHARE`] times as many requests as there is room for.
    pub(crate) async fn next(
        self: &Arc<Self>,
        asking: Asking,
        tried: &mut Tried,
    ) -> Result<InProgress, NoMember> {
        match self.choose(asking, tried) {
            Some(chosen) => chosen,
            // Boxed, because it is rare.
            None => Box::pin(self.wait(asking, tried)).await,
        }
    }

    async fn wait(
        self: &Arc<Self>,
        asking: Asking,
        tried: &mut Tried,
    ) -> Result<InProgress, NoMember> {
        let end = Instant::now() + limits::SERVER_WAIT;
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            freed.as_mut().enable();
            if let Some(chosen) = self.choose(asking, tried) {
                return chosen;
            }
            if timeout(end.saturating_duration_since(Instant::now()), freed)
                .await
                .is_err()
            {
                self.pool().on_wait_over();
                return Err(NoMember::Unavailable(Duration::ZERO));
            }
        }
    }

    /// `None`: the request has to wait.
    fn choose(
        self: &Arc<Self>,
        asking: Asking,
        tried: &mut Tried,
    ) -> Option<Result<InProgress, NoMember>> {
        let now = self.now();
        let mut pool = self.pool();
        // Without room, the pool itself says what happens.
        let room = pool.room().filter(|room| *room > 0);
        let most = room.map_or(usize::MAX, |room| room.saturating_mul(limits::SERVER_SHARE));
        let share = self.clients.take(Some(asking.client), most)?;
        Some(
            match pool.next(asking.key, tried, asking.is_repeatable, now) {
                Choice::Wait => return None,
                Choice::Unavailable(after) => Err(NoMember::Unavailable(after)),
                Choice::Exhausted => Err(NoMember::Exhausted),
                Choice::Send(ticket) => match pool.item(ticket).map(Arc::clone) {
                    Some(known) => Ok(InProgress {
                        pool: Arc::clone(self),
                        known,
                        ticket,
                        has_verdict: false,
                        share: Some(share),
                    }),
                    None => Err(NoMember::Exhausted),
                },
            },
        )
    }
}

/// A request at a member, until the end of its response's body.
pub struct InProgress {
    pool: Arc<SharedPool>,
    known: Arc<Known>,
    ticket: Ticket,
    has_verdict: bool,
    /// Of its client among the requests at the members.
    share: Option<Share>,
}

impl InProgress {
    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.known.server
    }

    /// Returns the name of its server.
    pub(crate) fn name(&self) -> &str {
        &self.known.name
    }

    /// Returns the times of its server.
    pub(crate) fn times(&self) -> &Histogram {
        &self.known.times
    }

    /// Records the result of the request.
    pub(crate) fn on_result(&mut self, failed: Option<&Failed>) {
        self.has_verdict = true;
        let verdict = match failed {
            None => Verdict::Answered,
            Some(failed) => match failed.verdict {
                ConnectionVerdict::Failed => Verdict::Failed,
                ConnectionVerdict::Broken => Verdict::Broken,
                ConnectionVerdict::Answered => Verdict::Answered,
                ConnectionVerdict::Nothing => Verdict::Nothing,
            },
        };
        let now = self.pool.now();
        let change = self.pool.pool().on_verdict(self.ticket, verdict, now);
        match failed {
            Some(failed) => match failed.verdict {
                ConnectionVerdict::Failed | ConnectionVerdict::Broken => {
                    self.known.complain(failed, now)
                }
                ConnectionVerdict::Answered => self.known.relax(),
                ConnectionVerdict::Nothing => {}
            },
            None => self.known.relax(),
        }
        self.known.report(change);
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut pool = self.pool.pool();
        if !self.has_verdict {
            pool.on_verdict(self.ticket, Verdict::Nothing, self.pool.now());
        }
        pool.on_end(self.ticket);
        let has_limits = pool.has_limits();
        drop(pool);
        // Before others look.
        self.share = None;
        if has_limits {
            // All that wait: the first one's client may have its share already.
            self.pool.freed.notify_waiters();
        }
    }
}

impl Known {
    /// Logs one line when the server stops answering, not one per request.
    fn complain(&self, failed: &Failed, now: Time) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        let complained = self.complained.load(Ordering::Relaxed);
        let is_recent =
            complained > 0 && now.since(Time::from_nanos(complained)) < limits::SERVER_COMPLAINT;
        if failures == 0 && !is_recent {
            self.complained.store(now.nanos().max(1), Ordering::Relaxed);
            let (origin, reason) = (&self.name, &failed.reason);
            tracing::warn!(%origin, %reason, "an origin does not answer; what no other answers gets 502 or 504");
        }
    }

    /// The server answers.
    fn relax(&self) {
        let failures = self.failures.load(Ordering::Relaxed);
        if failures > 0 {
            self.failures.store(0, Ordering::Relaxed);
            tracing::debug!(origin = %self.name, failed_requests = failures, "an origin answers again");
        }
    }

    /// Logs a change of the breaker.
    fn report(&self, change: Option<Change>) {
        let origin = &self.name;
        match change {
            None => {}
            Some(Change::Opened) => {
                tracing::warn!(%origin, "a server is left out; single requests try it")
            }
            Some(Change::Closed) => tracing::info!(%origin, "a server is in use again"),
        }
    }
}
