//! The request threads of an HTTP side, whose number a reload changes. Each has a runtime of its
//! own, and the connections that it has accepted.
//!
//! A thread that is too many is retired: its listeners drain, like those of the others, and it ends
//! when its last task has ended. So it finishes its requests, however long they take, and the
//! bodies that it collects for requests of other threads.

use crate::accept::certificate_watch::CertificateWatch;
use crate::accept::listen;
use crate::accept::listen::{Control, End, Listener};
use crate::accept::serving::Bounds;
use crate::accept::tls::Identities;
use crate::base::error::{Error, Problem};
use crate::base::{limits, threads};
use crate::exchange::observed::Observed;
use crate::exchange::proxy::Proxy;
use crate::exchange::service::Service;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// All request threads of an HTTP side.
pub(crate) struct RequestThreads {
    proxy: Arc<Proxy>,
    bounds: Bounds,
    identities: Identities,
    /// Called by the first thread that ends without being retired.
    on_end: OnEnd,
    inner: Mutex<Inner>,
}

type OnEnd = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

#[derive(Default)]
struct Inner {
    /// Those that accept connections.
    serving: Arc<ThreadGroup>,
    /// Those that only finish their connections.
    retired: Vec<Arc<RequestThread>>,
    /// The number and the end of each thread that has not ended.
    running: Vec<(usize, JoinHandle<()>)>,
}

/// The threads that accept the connections of a listener, in the order of their numbers.
#[derive(Default)]
pub(crate) struct ThreadGroup(Vec<Arc<RequestThread>>);

struct RequestThread {
    number: usize,
    control: Control,
}

impl ThreadGroup {
    /// Returns the number of threads.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Makes each thread accept the connections of one of these listeners.
    pub(crate) fn listen(&self, listeners: impl IntoIterator<Item = Listener>) {
        for (thread, listener) in self.0.iter().zip(listeners) {
            thread.control.listen(listener);
        }
    }
}

impl RequestThreads {
    /// Creates it without a thread.
    pub(crate) fn new(
        proxy: &Arc<Proxy>,
        bounds: Bounds,
        identities: &Identities,
        on_end: impl FnOnce() + Send + 'static,
    ) -> RequestThreads {
        let on_end: Box<dyn FnOnce() + Send> = Box::new(on_end);
        RequestThreads {
            proxy: Arc::clone(proxy),
            bounds,
            identities: identities.clone(),
            on_end: Arc::new(Mutex::new(Some(on_end))),
            inner: Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a group of so many threads: those that serve, and new ones, or only the first of
    /// them. New ones end if the group is dropped before [`RequestThreads::serve`].
    ///
    /// # Errors
    /// The system starts no thread, or too many retired ones have connections.
    pub(crate) fn group(&self, count: usize) -> Result<Arc<ThreadGroup>, Error> {
        let mut inner = self.inner();
        if inner.serving.count() == count {
            return Ok(Arc::clone(&inner.serving));
        }
        inner.running.retain(|(_, thread)| !thread.is_finished());
        let mut group: Vec<_> = inner.serving.0.iter().take(count).cloned().collect();
        while group.len() < count {
            let is_free = |number: &usize| inner.running.iter().all(|(taken, _)| taken != number);
            let number = (0..limits::THREADS).find(is_free);
            let number =
                number.ok_or_else(|| Error::setting("[http] threads", Problem::ThreadsBusy))?;
            let (thread, running) = self.start(number)?;
            inner.running.push((number, running));
            group.push(Arc::new(thread));
        }
        Ok(Arc::new(ThreadGroup(group)))
    }

    fn start(&self, number: usize) -> Result<(RequestThread, JoinHandle<()>), Error> {
        let (control, commands) = Control::new();
        // The first thread is never retired, so it has the work that is of no connection.
        let watched = (number == 0).then(|| self.identities.clone());
        let (proxy, bounds, on_end) = (
            Arc::clone(&self.proxy),
            self.bounds.clone(),
            Arc::clone(&self.on_end),
        );
        let serve = move || {
            threads::enter(number);
            let checks = check_origins(Arc::downgrade(&proxy), number == 0);
            let beside = async move {
                if let Some(Identities { clients, peers }) = watched {
                    tokio::spawn(CertificateWatch::watch(clients));
                    tokio::spawn(CertificateWatch::watch(peers));
                }
                checks.await;
            };
            let end = listen::serve(commands, bounds, beside, move |client| {
                let (observed, alt_svc) = (client.observed.clone(), client.alt_svc.clone());
                Observed::new(Service::new(&proxy, client), observed, alt_svc)
            });
            if end == End::Stopped {
                let first = on_end.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(on_end) = first {
                    on_end();
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name(format!("http{number}"))
            .spawn(serve);
        Ok((
            RequestThread { number, control },
            thread.map_err(Error::Thread)?,
        ))
    }

    /// Retires the threads that are not in this group. Its listeners are served already, and others
    /// drain.
    pub(crate) fn serve(&self, group: Arc<ThreadGroup>) {
        let mut inner = self.inner();
        let before = std::mem::replace(&mut inner.serving, group);
        let is_kept = |thread: &&Arc<RequestThread>| {
            inner
                .serving
                .0
                .iter()
                .any(|kept| kept.number == thread.number)
        };
        let retired: Vec<_> = before
            .0
            .iter()
            .filter(|thread| !is_kept(thread))
            .cloned()
            .collect();
        let Inner { retired: all, .. } = &mut *inner;
        all.retain(|thread| !thread.control.has_ended());
        for thread in &retired {
            thread.control.retire();
        }
        all.extend(retired);
    }

    /// Ends all threads when their connections have ended, and at the latest after this time.
    pub(crate) fn stop(&self, within: Duration) {
        let inner = self.inner();
        for thread in inner.serving.0.iter().chain(&inner.retired) {
            thread.control.stop(within);
        }
    }

    /// Waits for the end of all threads.
    pub(crate) fn join(&self) {
        let running = std::mem::take(&mut self.inner().running);
        for (_, thread) in running {
            // Fails only if the thread has panicked, which is logged.
            let _ = thread.join();
        }
    }
}

/// Resolutions, probes and sweeps for the origins on one thread, as long as the proxy exists.
async fn check_origins(proxy: Weak<Proxy>, is_first: bool) {
    while is_first && let Some(proxy) = proxy.upgrade() {
        proxy.live().origins.check();
        if proxy.peers().is_some() {
            // Files may be on a slow disk.
            let proxy = Arc::clone(&proxy);
            tokio::task::spawn_blocking(move || {
                let objects = proxy.shards().figures().engine.len() as u64;
                proxy.peers().map(|peers| peers.sweep(objects))
            });
        }
        proxy.live_cell().forget_former();
        let changed = proxy.origins_changed();
        drop(proxy);
        let _ = tokio::time::timeout(limits::PROBE_LOOK, changed.notified()).await;
    }
}

/// Returns the number of request threads of a configuration.
pub(crate) fn count(configured: usize) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    (if configured == 0 { cores() } else { configured }).min(limits::THREADS)
}
