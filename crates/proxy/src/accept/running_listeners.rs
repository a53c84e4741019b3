//! The listeners that are served.

use crate::accept::listen::Listener;
use crate::accept::listeners::{Bound, ListenerKind, Listeners, configured};
use crate::accept::request_threads::ThreadGroup;
use crate::accept::serving::ClientSettings;
use crate::accept::tls::Identities;
use crate::accept::udp_sockets::UdpReaders;
use crate::base::alt_svc::AltSvc;
use crate::base::drain::{AcceptToken, Phase, PhaseSwitch, PhaseWatch};
use crate::base::error::{Error, Problem};
use crate::client::plain::PlainSettings;
use crate::config::http_config::HttpConfig;
use crate::exchange::https_redirect::HttpsRedirect;
use crate::exchange::proxy::Proxy;
use crate::report::observer::Observer;
use ::http::HeaderName;
use larder_host::ListenSocket;
use larder_host::{ListenAddress, SocketFile};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The listeners of [`Http`](crate::Http) while it runs.
pub(crate) struct ServedListeners {
    inner: Mutex<Inner>,
    proxy: Arc<Proxy>,
    identities: Identities,
}

#[derive(Default)]
struct Inner {
    listeners: Vec<Served>,
    /// The phases of listeners that a reload has removed, as long as they have connections.
    removed: Vec<PhaseSwitch>,
}

/// A listener, with what its connections depend on.
struct Served {
    bound: Bound,
    settings: ListenerSettings,
    phase: PhaseSwitch,
}

/// The settings that connections get from their listener. If they change, another listener on the
/// same socket replaces it.
#[derive(Clone)]
struct ListenerSettings {
    redirect: Option<HttpsRedirect>,
    clients: ClientSettings,
    /// The handshake of a connection decides whether the origin learns its client's subject.
    subject_field: Option<HeaderName>,
    /// The threads that accept its connections.
    threads: Arc<ThreadGroup>,
}

impl ListenerSettings {
    fn is_same(&self, other: &ListenerSettings) -> bool {
        let is_same_observer = match (&self.clients.observer, &other.clients.observer) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let of = |settings: &ListenerSettings| (settings.redirect, settings.subject_field.clone());
        let is_same_group = Arc::ptr_eq(&self.threads, &other.threads);
        is_same_observer
            && is_same_group
            && of(self) == of(other)
            && self.clients.trusted_proxies == other.clients.trusted_proxies
    }
}

/// The listeners of a configuration, ready to be served, and what becomes of those that run.
pub(crate) struct ListenerPlan(Vec<Planned>);

struct Planned {
    /// The place of the running listener that stays, or whose socket this one takes over.
    running: Option<usize>,
    /// `None` if it stays.
    next: Option<(Served, Vec<Listener>)>,
    address: (ListenAddress, ListenerKind),
}

impl ListenerPlan {
    /// Returns the actual addresses.
    pub(crate) fn addresses(&self) -> Vec<(ListenAddress, ListenerKind)> {
        self.0
            .iter()
            .map(|planned| planned.address.clone())
            .collect()
    }
}

/// Returns what the responses of a listener say of HTTP/3.
fn alt_svc(bound: &Bound) -> Option<Arc<AltSvc>> {
    let udp = bound.udp.as_ref()?;
    Some(Arc::new(AltSvc::new(udp.port(), udp.count())))
}

/// The listening socket of an HTTP listener, for another process.
#[derive(Debug)]
pub struct HttpListenerSocket {
    /// Another descriptor of the socket.
    pub socket: ListenSocket,
    /// True if the process that stops listening removes the socket's file.
    pub owns_file: bool,
    /// Whom it is for.
    pub kind: ListenerKind,
}

impl ServedListeners {
    pub(crate) fn new(proxy: &Arc<Proxy>, identities: &Identities) -> ServedListeners {
        ServedListeners {
            inner: Mutex::default(),
            proxy: Arc::clone(proxy),
            identities: identities.clone(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans the listeners of a configuration, all of which are bound already.
    ///
    /// # Errors
    /// As [`ServedListeners::plan`].
    pub(crate) fn plan_bound(
        &self,
        bound: Listeners,
        config: &HttpConfig,
        (observer, threads): (&Arc<Observer>, &Arc<ThreadGroup>),
    ) -> Result<ListenerPlan, Error> {
        self.prepare(
            bound
                .0
                .into_iter()
                .map(|bound| (None, Some(bound)))
                .collect(),
            config,
            (observer, threads),
        )
    }

    /// Plans the listeners of another configuration, and binds those that are new. A listener that
    /// has not changed stays; one on the address of another takes over its socket.
    ///
    /// # Errors
    /// One line that names the setting, the address and the problem. Nothing has changed then.
    pub(crate) fn plan(
        &self,
        config: &HttpConfig,
        (observer, threads): (&Arc<Observer>, &Arc<ThreadGroup>),
    ) -> Result<ListenerPlan, Error> {
        let inner = self.inner();
        let mut is_taken = vec![false; inner.listeners.len()];
        let mut parts = Vec::new();
        let is_gone = |served: &&Served| {
            configured(config).all(|(listen, _)| listen.address != served.bound.config.address)
        };
        let closing: Vec<_> = inner
            .listeners
            .iter()
            .filter(is_gone)
            .map(|served| served.bound.socket())
            .collect();
        for (listen, kind) in configured(config) {
            let bounds = || {
                inner
                    .listeners
                    .iter()
                    .map(|served| &served.bound)
                    .enumerate()
            };
            let stays = |bound: &Bound| bound.config == *listen && bound.kind() == kind;
            let is_there = |bound: &Bound| {
                let port = listen.address.tcp().map(|address| address.port());
                bound.config.address == listen.address && port != Some(0)
            };
            let same = bounds().find(|(at, bound)| !is_taken[*at] && stays(bound));
            let part = match same
                .or_else(|| bounds().find(|(at, bound)| !is_taken[*at] && is_there(bound)))
            {
                Some((at, bound)) if stays(bound) => (Some(at), bound.with_udp(config)?),
                Some((at, bound)) => {
                    let mut again = bound.again(listen, kind)?;
                    again.set_udp(config, Vec::new());
                    (Some(at), Some(again))
                }
                None => {
                    let mut bound = Bound::beside(&closing, listen, kind)?;
                    bound.set_udp(config, Vec::new());
                    (None, Some(bound))
                }
            };
            if let Some(at) = part.0 {
                is_taken[at] = true;
            }
            parts.push(part);
        }
        drop(inner);
        self.prepare(parts, config, (observer, threads))
    }

    /// Completes a plan: a running listener whose settings change is replaced, too.
    fn prepare(
        &self,
        parts: Vec<(Option<usize>, Option<Bound>)>,
        config: &HttpConfig,
        (observer, threads): (&Arc<Observer>, &Arc<ThreadGroup>),
    ) -> Result<ListenerPlan, Error> {
        let inner = self.inner();
        let running = |at: Option<usize>| at.and_then(|at| inner.listeners.get(at));
        let bound = |part: &(Option<usize>, Option<Bound>)| {
            let bound = part
                .1
                .as_ref()
                .or(running(part.0).map(|served| &served.bound));
            bound.map(|bound| (bound.local().clone(), bound.kind()))
        };
        let addresses: Vec<_> = parts.iter().filter_map(bound).collect();
        let https = addresses
            .iter()
            .filter(|(_, kind)| *kind == ListenerKind::Tls)
            .find_map(|(address, _)| address.tcp());
        let redirect = HttpsRedirect {
            port: https.map_or(443, |address| address.port()),
        };
        let trusted_proxies = Arc::new(config.trusted_proxies.clone());
        let clients = ClientSettings {
            trusted_proxies,
            observer: Some(Arc::clone(observer)),
        };
        let mut planned = Vec::new();
        for ((at, mut bound), address) in parts.into_iter().zip(addresses) {
            let redirect = (config.redirect_to_https && !address.1.is_secure()).then_some(redirect);
            let subject_field = config
                .subject_field()
                .filter(|_| address.1 == ListenerKind::Tls)
                .cloned();
            let (clients, threads) = (clients.clone(), Arc::clone(threads));
            let settings = ListenerSettings {
                redirect,
                clients,
                subject_field,
                threads,
            };
            if let (None, Some(served)) = (&bound, running(at))
                && !served.settings.is_same(&settings)
            {
                bound = Some(served.bound.again(&served.bound.config, address.1)?);
            }
            let next = bound
                .map(|bound| self.serving(bound, settings))
                .transpose()?;
            planned.push(Planned {
                running: at,
                next,
                address,
            });
        }
        Ok(ListenerPlan(planned))
    }

    /// Returns a listener with its parts for all threads: a free one accepts.
    fn serving(
        &self,
        bound: Bound,
        settings: ListenerSettings,
    ) -> Result<(Served, Vec<Listener>), Error> {
        let (phase, watch, accepting) = PhaseSwitch::new();
        let (alt_svc, readers) = (alt_svc(&bound), UdpReaders::default());
        let part = |thread| {
            let socket = bound.socket().try_clone();
            let socket = socket.map_err(|error| {
                Error::setting(bound.kind().setting(), Problem::Listener(error))
            })?;
            let listener =
                self.listener(&bound, socket, &settings, watch.clone(), accepting.clone());
            Ok(Listener {
                udp: bound.udp.as_ref().map_or(Vec::new(), |udp| {
                    udp.of_thread(thread, settings.threads.count(), &readers)
                }),
                alt_svc: alt_svc.clone(),
                ..listener
            })
        };
        let parts = (0..settings.threads.count())
            .map(part)
            .collect::<Result<_, Error>>()?;
        Ok((
            Served {
                bound,
                settings,
                phase,
            },
            parts,
        ))
    }

    fn listener(
        &self,
        bound: &Bound,
        socket: ListenSocket,
        settings: &ListenerSettings,
        phase: PhaseWatch,
        accepting: AcceptToken,
    ) -> Listener {
        let kind = bound.kind();
        let scheme = if kind.is_secure() { "https" } else { "http" };
        // The node that asks has the record of the exchange, and its client.
        let is_peer = kind == ListenerKind::Peers;
        let observer = settings.clients.observer.as_ref().filter(|_| !is_peer);
        let identity = match kind {
            ListenerKind::Plain => None,
            ListenerKind::Tls => Some(&self.identities.clients),
            ListenerKind::Peers => Some(&self.identities.peers),
        };
        Listener {
            socket,
            identity: identity.map(Arc::clone),
            is_peer,
            plain: observer.map(|observer| PlainSettings::new(&self.proxy, scheme, observer)),
            proxy_protocol: bound.config.proxy_protocol,
            redirect: settings.redirect,
            clients: ClientSettings {
                observer: observer.cloned(),
                ..settings.clients.clone()
            },
            phase,
            accepting,
            udp: Vec::new(),
            alt_svc: None,
        }
    }

    /// Serves the listeners of a plan. Those that are not in it, or replaced, drain. When this
    /// returns, they accept no more connections: a later client gets the settings of the plan.
    pub(crate) fn apply(&self, ListenerPlan(planned): ListenerPlan) {
        let mut inner = self.inner();
        let mut before: Vec<_> = std::mem::take(&mut inner.listeners)
            .into_iter()
            .map(Some)
            .collect();
        for Planned { running, next, .. } in planned {
            let running = running
                .and_then(|at| before.get_mut(at))
                .and_then(Option::take);
            let Some((mut next, parts)) = next else {
                inner.listeners.extend(running);
                continue;
            };
            next.settings.threads.listen(parts);
            if let Some(Served {
                mut bound, phase, ..
            }) = running
            {
                next.bound.file = next.bound.file.or_else(|| bound.file.take());
                // The process before may still read them.
                next.bound.held_back = next.bound.held_back.or_else(|| bound.held_back.take());
                if let Some(file) = &next.bound.file {
                    file.set_mode(next.bound.config.mode);
                }
                phase.begin(Phase::Draining);
                inner.removed.push(phase);
            }
            inner.listeners.push(next);
        }
        for Served { phase, .. } in before.into_iter().flatten() {
            phase.drain_socket();
            inner.removed.push(phase);
        }
        for phase in &inner.removed {
            phase.wait_for_acceptors();
        }
        inner.removed.retain(|phase| !phase.is_unused());
    }

    /// Returns the actual addresses.
    pub(crate) fn addresses(&self) -> Vec<(ListenAddress, ListenerKind)> {
        self.inner()
            .listeners
            .iter()
            .map(|served| (served.bound.local().clone(), served.bound.kind()))
            .collect()
    }

    /// Begins a phase of all listeners.
    pub(crate) fn begin(&self, phase: Phase) {
        let inner = self.inner();
        let all = inner
            .listeners
            .iter()
            .map(|served| &served.phase)
            .chain(&inner.removed);
        for switch in all {
            switch.begin(phase);
        }
    }

    /// Returns the sockets for another process.
    pub(crate) fn sockets(&self) -> std::io::Result<Vec<HttpListenerSocket>> {
        let handed = |Served { bound, .. }: &Served| {
            let (socket, owns_file) = (bound.socket().try_clone()?, bound.file.is_some());
            Ok(HttpListenerSocket {
                socket,
                owns_file,
                kind: bound.kind(),
            })
        };
        self.inner().listeners.iter().map(handed).collect()
    }

    /// Returns the UDP sockets for another process, in the order in which they were bound.
    pub(crate) fn udp_sockets(&self) -> std::io::Result<Vec<UdpSocket>> {
        let mut all = Vec::new();
        for Served { bound, .. } in &self.inner().listeners {
            if let Some(udp) = &bound.udp {
                all.extend(udp.descriptors()?);
            }
        }
        Ok(all)
    }

    /// Reads the UDP sockets that the process before has left.
    pub(crate) fn read_udp(&self) {
        for Served { bound, .. } in &mut self.inner().listeners {
            bound.held_back = None;
        }
    }

    /// Returns true if no UDP socket is read.
    pub(crate) fn are_udp_sockets_unread(&self) -> bool {
        for Served { bound, .. } in &self.inner().listeners {
            if bound.udp.as_ref().is_some_and(|udp| !udp.are_unread()) {
                return false;
            }
        }
        true
    }

    /// Closes the sockets, and removes their files.
    pub(crate) fn close(&self) {
        self.inner().listeners.clear();
    }

    /// Leaves the socket files in place at the end.
    pub(crate) fn leave_files(&self) {
        let mut inner = self.inner();
        inner
            .listeners
            .iter_mut()
            .filter_map(|served| served.bound.file.take())
            .for_each(SocketFile::leave);
    }

    /// Removes the files at these paths at the end, and gives them the mode of the configuration.
    pub(crate) fn own_files(&self, paths: &[PathBuf]) {
        for Served { bound, .. } in &mut self.inner().listeners {
            if let ListenAddress::Unix(path) = &bound.config.address
                && paths.contains(path)
            {
                bound.file = SocketFile::of(&bound.config);
                if let Some(file) = &bound.file {
                    file.set_mode(bound.config.mode);
                }
            }
        }
    }
}
