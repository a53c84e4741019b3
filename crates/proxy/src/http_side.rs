//! The running HTTP side: its start, its reload and its end.

use crate::accept::listeners::{ListenerKind, Listeners, configured};
use crate::accept::request_threads::{RequestThreads, ThreadGroup};
use crate::accept::running_listeners::HttpListenerSocket;
use crate::accept::running_listeners::{ListenerPlan, ServedListeners};
use crate::accept::serving::Bounds;
use crate::accept::tls::{Identities, Identity};
use crate::accept::{peer_identity, request_threads, tls};
use crate::access_log::AccessLogConfig;
use crate::admin::managed_cache;
use crate::admin::purger::Purger;
use crate::admin::status::CacheSource;
use crate::base::drain::Phase;
use crate::base::error::{Error, Problem};
use crate::base::live_limits::LiveLimits;
use crate::cache::disk_tier;
use crate::cache::disk_tier::HttpDisk;
use crate::cache::object_tier::OwnObjects;
use crate::cache::observed_cache::ObservedHttpCache;
use crate::cache::shards::Shards;
use crate::config::http_config::HttpConfig;
use crate::config::tls_config::TlsConfig;
use crate::exchange::https_redirect::HttpsRedirect;
use crate::exchange::live::Live;
use crate::exchange::peers::Peers;
use crate::exchange::proxy::Proxy;
use crate::exchange::request_rules::NormalUrl;
use crate::exchange::upstream::Origins;
use crate::message::loop_detection;
use crate::origin::origin_config::Upstream;
use crate::report::observer::Observer;
use crate::rules::Rules;
use larder_acme_host::{AcmeConfig, Certificates, ChallengeKind, HostStatus, Renewals};
use larder_admin::{Purging, StatusSource};
use larder_host::ListenAddress;
use larder_host::Preflight;
use larder_host::entropy;
use larder_object_host::{ObjectStoreConfig, Objects};
use larder_units::{ByteSize, Streams};
use larder_what_if_host::LiveWhatIf;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The running HTTP side.
pub struct Http {
    listeners: Arc<ServedListeners>,
    threads: RequestThreads,
    source: Arc<CacheSource>,
    proxy: Arc<Proxy>,
    what_if: Arc<LiveWhatIf>,
    identities: Identities,
    /// Orders certificates by ACME, if the configuration has hosts for it.
    renewals: Mutex<Option<RunningRenewals>>,
}

/// The thread that orders certificates, and what it was started with.
struct RunningRenewals {
    config: AcmeConfig,
    kinds: Vec<ChallengeKind>,
    thread: Renewals,
}

/// The result of [`Http::reload`].
pub struct HttpReload {
    live: Live,
    identity: Option<(TlsConfig, rustls::ServerConfig)>,
    observer: Arc<Observer>,
    threads: Arc<ThreadGroup>,
    listeners: ListenerPlan,
    config: HttpConfig,
}

/// The actual addresses of the listeners.
type Listening = Vec<(ListenAddress, ListenerKind)>;

/// Returns the origins of a cache with these listeners. Takes over from `before` what has not
/// changed.
fn origins(
    config: &HttpConfig,
    listening: &Listening,
    before: Option<&Origins>,
) -> Result<Origins, Error> {
    match own_origins(config, listening).into_iter().next() {
        Some(problem) => Err(problem),
        None => Origins::new(config, before),
    }
}

/// Compiles the rules; `None` if there are none.
fn rules(config: &HttpConfig) -> Result<Option<Arc<Rules>>, Error> {
    if config.rules.is_empty() {
        return Ok(None);
    }
    let mut rules = Rules::new(config.rules.clone()).map_err(|errors| {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Error::setting("[http]", Problem::Rules(texts.join("; ")))
    })?;
    rules.read_pages().map_err(|(path, error)| {
        Error::setting("[[http.rules]] error_page", Problem::File { path, error })
    })?;
    Ok(Some(Arc::new(rules)))
}

/// Returns an error for each origin that is a listener of this cache itself.
fn own_origins(config: &HttpConfig, listening: &Listening) -> Vec<Error> {
    let fallback = match &config.upstream {
        Upstream::Generated | Upstream::Custom(_) | Upstream::Files(_) => None,
        Upstream::Http(origin) => Some(("[http] origin", origin)),
    };
    let servers = config.origins.iter().flat_map(|origin| &origin.servers);
    let servers = servers.map(|server| ("[[http.origins]] servers", &server.uri));
    let own = |(setting, origin): (&str, &::http::Uri)| {
        let leads = |listener: &ListenAddress| {
            listener
                .tcp()
                .is_some_and(|local| loop_detection::leads_to(origin, local))
        };
        let (_, kind) = listening.iter().find(|(listener, _)| leads(listener))?;
        let listener = kind.setting();
        Some(Error::setting(
            setting,
            Problem::OwnListener {
                origin: origin.clone(),
                listener,
            },
        ))
    };
    servers.chain(fallback).filter_map(own).collect()
}

/// Tries the steps of [`Http::start`]: listeners, certificates and origins.
pub fn check(config: &HttpConfig, preflight: &mut Preflight) {
    let mut listening = Listening::new();
    for (listen, kind) in configured(config) {
        preflight.listen(kind.setting(), listen);
        listening.push((listen.address.clone(), kind));
    }
    let (tls, acme) = (config.tls.as_ref(), Arc::<Certificates>::default());
    preflight.add(tls.and_then(|tls| tls::read(tls, &acme).err()));
    preflight.add(
        config
            .peers
            .as_ref()
            .and_then(|peers| peer_identity::check(peers).err()),
    );
    preflight.add(self::acme(config).and_then(|acme| larder_acme_host::check(acme).err()));
    let own = own_origins(config, &listening);
    if own.is_empty() {
        preflight.add(Origins::new(config, None).err());
    }
    preflight.add(rules(config).err());
    let store = config.object_store.as_ref();
    preflight.add(store.and_then(|store| Objects::check(store).err()));
    for problem in own {
        preflight.add(Some(problem));
    }
    preflight.add(config.access_log.as_ref().and_then(AccessLogConfig::check));
}

/// Returns the servers that may get a request for this host, as it is keyed, and target.
///
/// # Errors
/// One line that names the setting and its problem.
pub fn origin_servers(config: &HttpConfig, host: &str, target: &str) -> Result<Vec<String>, Error> {
    Ok(Origins::new(config, None)?.servers_of(host, target))
}

/// Returns the URL to which `[http] redirect_to_https` sends a request for this one, if it does:
/// before all rules.
pub fn redirected_to_https(config: &HttpConfig, url: &NormalUrl) -> Option<String> {
    if !config.redirect_to_https || url.scheme != "http" {
        return None;
    }
    let listen = config.tls.iter().flat_map(|tls| &tls.listen);
    let port = listen
        .filter_map(|listen| listen.address.tcp())
        .map(|address| address.port())
        .next();
    let redirect = HttpsRedirect {
        port: port.unwrap_or(443),
    };
    redirect.location(&url.authority, &url.target)
}

impl Http {
    /// Binds the listeners, and starts the threads. `on_end` is called when the first thread ends,
    /// for whatever reason.
    ///
    /// # Errors
    /// One line that names the setting and its problem.
    pub fn start(
        config: &HttpConfig,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Http, Error> {
        Http::start_on(Listeners::bind(config)?, config, on_end)
    }

    /// Starts the threads on listeners that are bound already.
    ///
    /// # Errors
    /// As [`Http::start`].
    pub fn start_on(
        listeners: Listeners,
        config: &HttpConfig,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Http, Error> {
        let listening = listeners
            .iter()
            .map(|bound| (bound.local().clone(), bound.kind()))
            .collect();
        let origins = origins(config, &listening, None)?;
        let [seed] = entropy::words();
        let streams = Streams::new(seed);
        let disk = config
            .disk
            .as_ref()
            .map(|config| disk_tier::start(config, &streams))
            .transpose()?;
        let started = Http::serve(config, listeners, origins, disk.clone(), &streams, on_end);
        if let (Err(_), Some(disk)) = (&started, disk) {
            disk.stop();
        }
        started
    }

    fn serve(
        config: &HttpConfig,
        bound: Listeners,
        origins: Origins,
        disk: Option<HttpDisk>,
        streams: &Streams,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Http, Error> {
        warn_of_few_descriptors(config.limits.connections);
        let shards = new_cache(config, disk.as_ref(), streams)?;
        if let Some(fleet) = &config.fleet {
            shards.join_fleet(fleet);
        }
        let objects = start_objects(config, &shards)?;
        let observer = Arc::new(Observer::new(
            config,
            request_threads::count(config.threads),
        )?);
        let live_limits = LiveLimits::new(config.timeouts, config.limits);
        let live = Live::new(config, origins, rules(config)?);
        let proxy = Proxy::new(shards, live, disk, live_limits, Arc::clone(&observer));
        let proxy = Arc::new(proxy);
        if let Some(objects) = objects {
            proxy.set_objects(objects);
        }
        proxy.cache_settings().start(config.cache_config());
        let identities = Identities::default();
        if let (Some(peers), Some(fleet)) = (&config.peers, &config.fleet) {
            let identity = peer_identity::read(peers, proxy.certificates())?;
            let _ = identities.peers.set(Arc::new(identity));
            proxy.set_peers(Peers::new(peers, fleet, config)?);
        }
        if let Some(tls) = &config.tls {
            if let Some(acme) = acme(config) {
                proxy.certificates().set_hosts(acme)?;
            }
            let identity = Identity::read(tls, proxy.certificates())?;
            let _ = identities.clients.set(Arc::new(identity));
        }
        let bounds = Bounds::new(proxy.limits()).with_memory_pressure(proxy.memory_pressure());
        let listeners = Arc::new(ServedListeners::new(&proxy, &identities));
        let what_if = LiveWhatIf::start(
            ObservedHttpCache(Arc::clone(proxy.shards())),
            config.what_if,
        )
        .map_err(Error::Thread)?;
        let what_if = Arc::new(what_if);
        let source = CacheSource::new(Arc::clone(&proxy), &listeners, bounds.counters(), &what_if);
        let source = Arc::new(source);
        let threads = RequestThreads::new(&proxy, bounds, &identities, on_end);
        let group = threads.group(request_threads::count(config.threads))?;
        listeners.apply(listeners.plan_bound(bound, config, (&observer, &group))?);
        threads.serve(group);
        let http = Http {
            listeners,
            threads,
            source,
            proxy,
            what_if,
            identities,
            renewals: Mutex::default(),
        };
        match http.start_renewals(config) {
            Ok(()) => Ok(http),
            Err(error) => {
                http.stop_within(Duration::ZERO);
                Err(error)
            }
        }
    }

    /// Uses the hosts of this configuration for certificates by ACME. The thread that orders goes
    /// on if nothing has changed for it.
    fn set_certificate_hosts(&self, config: &HttpConfig) -> Result<(), Error> {
        let (wanted, kinds) = (acme(config), config.challenge_kinds());
        let goes_on =
            |running: &RunningRenewals| wanted == Some(&running.config) && running.kinds == kinds;
        let renewals = self.renewals();
        if renewals.as_ref().is_some_and(goes_on) {
            return Ok(());
        }
        drop(renewals);
        self.stop_renewals();
        match wanted {
            Some(wanted) => self.proxy.certificates().set_hosts(wanted)?,
            None => self.proxy.certificates().clear(),
        }
        Ok(())
    }

    /// Starts the thread that orders certificates, if there is none and hosts are configured. The
    /// listeners are served already: the authority asks them.
    fn start_renewals(&self, config: &HttpConfig) -> Result<(), Error> {
        let mut renewals = self.renewals();
        let Some(wanted) = acme(config).filter(|_| renewals.is_none()) else {
            return Ok(());
        };
        let kinds = config.challenge_kinds();
        let thread = Renewals::start(wanted, kinds.clone(), self.proxy.certificates())?;
        *renewals = Some(RunningRenewals {
            config: wanted.clone(),
            kinds,
            thread,
        });
        Ok(())
    }

    fn renewals(&self) -> MutexGuard<'_, Option<RunningRenewals>> {
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the certificates to another process, or to nobody.
    fn stop_renewals(&self) {
        let running = self.renewals().take();
        if let Some(running) = running {
            running.thread.stop();
        }
    }

    /// Returns the actual addresses of the listeners for clients, each with true for TLS.
    pub fn listening(&self) -> Vec<(ListenAddress, bool)> {
        let all = self.listeners.addresses().into_iter();
        let clients = all.filter(|(_, kind)| *kind != ListenerKind::Peers);
        clients
            .map(|(address, kind)| (address, kind.is_secure()))
            .collect()
    }

    /// Returns the listening sockets for another process.
    ///
    /// # Errors
    /// The system's, if there is no descriptor left.
    pub fn sockets(&self) -> std::io::Result<Vec<HttpListenerSocket>> {
        self.listeners.sockets()
    }

    /// Returns the UDP sockets for another process, in the order in which they were bound. It must
    /// not read them before this side has left them ([`Http::has_left_udp`]).
    ///
    /// # Errors
    /// As [`Http::sockets`].
    pub fn udp_sockets(&self) -> std::io::Result<Vec<std::net::UdpSocket>> {
        self.listeners.udp_sockets()
    }

    /// Returns true if HTTP/3 has ended, after [`Http::drain`].
    pub fn has_left_udp(&self) -> bool {
        self.listeners.are_udp_sockets_unread()
    }

    /// Begins to read the UDP sockets that were inherited: the process before has left them.
    pub fn read_udp(&self) {
        self.listeners.read_udp();
    }

    /// Makes this side the owner of the Unix sockets' files at these paths: it removes them at its
    /// end. The process that bound them has ended, or leaves them.
    pub fn own_files(&self, paths: &[PathBuf]) {
        self.listeners.own_files(paths);
    }

    /// Closes the disk tier, so that another process can open its file. From then on, misses go to
    /// the origin, and nothing is stored there any more.
    pub fn release_disk(&self) {
        if let Some(disk) = self.proxy.disk() {
            disk.release();
        }
    }

    /// Takes the disk tier's file back, because that process has failed. The tier is empty and not
    /// used any more.
    pub fn take_back_disk(&self) {
        if let Some(disk) = self.proxy.disk() {
            disk.take_back();
        }
    }

    /// Leaves the listeners to another process: accepts no more connections, and ends each open one
    /// with its next answer. [`Http::is_idle`] shows the end; [`Http::stop_within`] has to follow.
    pub fn drain(&self) {
        self.stop_renewals();
        self.listeners.leave_files();
        self.listeners.begin(Phase::Draining);
    }

    /// Returns true if no connection is open, after [`Http::drain`].
    pub fn is_idle(&self) -> bool {
        self.proxy.limits().connections.taken() == 0
    }

    /// Returns the time for requests in progress at a stop: `shutdown` of [`Timeouts`](crate::Timeouts).
    pub fn shutdown_time(&self) -> Duration {
        self.proxy.limits().timeouts().shutdown
    }

    /// Returns the first address for HTTP over TCP.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local(false)
    }

    /// Returns the first address for TLS over TCP.
    pub fn local_tls_addr(&self) -> Option<SocketAddr> {
        self.local(true)
    }

    fn local(&self, is_secure: bool) -> Option<SocketAddr> {
        self.listening()
            .iter()
            .filter(|(_, secure)| *secure == is_secure)
            .find_map(|(address, _)| address.tcp())
    }

    /// Returns its figures, for the admin server.
    pub fn source(&self) -> Arc<dyn StatusSource> {
        Arc::clone(&self.source) as Arc<dyn StatusSource>
    }

    /// Returns what is known of the certificates by ACME, by host.
    pub fn certificates(&self) -> Vec<HostStatus> {
        self.proxy.certificates().status()
    }

    /// Returns its purge interface, for the admin server: open to holders of the token, if there is
    /// one.
    pub fn purging(&self, token: Option<&str>) -> Arc<Purging> {
        let cache = managed_cache::HttpCache(Arc::clone(&self.proxy));
        Arc::new(Purging::new(Arc::new(cache), token))
    }

    /// Returns its cache, for the purges of a fleet.
    pub fn purger(&self) -> Purger {
        Purger(Arc::clone(&self.proxy))
    }

    /// Reads another configuration: the origins, the rules, and certificate and key, whose files
    /// are read again; opens another access log, starts more threads, and binds new listeners.
    /// Changes nothing yet. The disk tier needs a restart.
    ///
    /// # Errors
    /// One line that names the setting and its problem.
    pub fn reload(&self, config: &HttpConfig) -> Result<HttpReload, Error> {
        let rules = rules(config)?;
        // Arguments that contradict each other are found here, before anything has changed.
        larder_policy::Engine::new(
            &config.cache.policy,
            config.cache.capacity,
            &Streams::new(0),
        )
        .map_err(policy_error)?;
        let identity = config
            .tls
            .as_ref()
            .map(|tls| {
                let identity = tls::read(tls, self.proxy.certificates())?;
                Ok::<_, Error>((tls.clone(), identity))
            })
            .transpose()?;
        if let Some(acme) = acme(config) {
            larder_acme_host::check(acme)?;
        }
        let observer = self.proxy.observers().of(config)?;
        let threads = self.threads.group(request_threads::count(config.threads))?;
        let listeners = self.listeners.plan(config, (&observer, &threads))?;
        let origins = origins(
            config,
            &listeners.addresses(),
            Some(&self.proxy.live().origins),
        )?;
        Ok(HttpReload {
            live: Live::new(config, origins, rules),
            identity,
            observer,
            threads,
            listeners,
            config: config.clone(),
        })
    }

    /// Applies the reload. Requests in progress continue as they began, and the cache keeps its
    /// content: a smaller capacity evicts, and another policy gets the stored objects in the order
    /// in which the former one would evict them. Connections of listeners that are gone, or that
    /// have other settings or threads, end with their next answer.
    ///
    /// # Errors
    /// One line if arguments of the policy contradict each other. Nothing has changed then.
    pub fn take_over(&self, reload: HttpReload) -> Result<(), Error> {
        let config = &reload.config;
        self.proxy
            .cache_settings()
            .reload(self.proxy.shards(), config.cache_config())
            .map_err(policy_error)?;
        warn_of_few_descriptors(config.limits.connections);
        self.proxy.limits().set(config.timeouts, config.limits);
        self.what_if.enable(config.what_if);
        if let Err(error) = self.set_certificate_hosts(config) {
            tracing::error!(%error, "the hosts for certificates stay as they were");
        }
        if let Some((config, identity)) = reload.identity {
            match self.identities.clients.get() {
                Some(running) => running.set(&config, identity),
                // The first one of a node that began without TLS.
                None => drop(self.identities.clients.set(Arc::new(Identity::new(
                    &config,
                    identity,
                    self.proxy.certificates(),
                )))),
            }
        }
        self.proxy.set_live(reload.live);
        self.proxy.observers().set(reload.observer);
        self.listeners.apply(reload.listeners);
        self.threads.serve(reload.threads);
        // It was tried when it was read. A failure here costs no connection.
        if let Err(error) = self.start_renewals(&reload.config) {
            tracing::error!(%error, "certificates are not renewed");
        }
        if let Some(running) = &*self.renewals() {
            running.thread.retry_now();
        }
        Ok(())
    }

    /// Opens the file of the access log again, after another program has renamed it.
    pub fn reopen_access_log(&self) {
        self.proxy.observers().reopen_logs();
    }

    /// Stops accepting, gives requests in progress `shutdown` of [`Timeouts`](crate::Timeouts), and returns when the
    /// threads have ended.
    pub fn stop(self) {
        let within = self.shutdown_time();
        self.stop_within(within);
    }

    /// Stops as [`Http::stop`] does, within another time.
    pub fn stop_within(self, within: Duration) {
        self.stop_renewals();
        self.listeners.begin(Phase::Closing);
        self.threads.stop(within);
        // Otherwise connections would wait in the kernel's queue for the end, and be reset.
        self.listeners.close();
        self.threads.join();
        self.what_if.stop();
        self.proxy.observers().stop();
        if let Some(disk) = self.proxy.disk() {
            disk.stop();
        }
        if let Some(objects) = self.proxy.objects() {
            objects.stop();
        }
    }
}

/// The share of the cache's memory that objects take at most which wait to be written.
const QUEUE_SHARE: u64 = 16;

/// What they may take in any case.
const QUEUE_LEAST: ByteSize = ByteSize::from_mib(2);

/// Starts the third tier, if there is one.
fn start_objects(config: &HttpConfig, shards: &Arc<Shards>) -> Result<Option<Objects>, Error> {
    let Some(store) = &config.object_store else {
        return Ok(None);
    };
    // A small cache needs its memory for other things.
    let share = ByteSize::from_bytes(config.cache.capacity.bytes() / QUEUE_SHARE);
    let queue = store.queue.min(share.max(QUEUE_LEAST));
    let store = ObjectStoreConfig {
        queue,
        ..store.clone()
    };
    let objects = Objects::start(&store).map_err(Error::ObjectStore)?;
    let mut writer = [0; 16];
    for (part, word) in writer.chunks_exact_mut(8).zip(entropy::words::<2>()) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    let tier = || -> Box<dyn larder_http::ObjectTier> {
        Box::new(OwnObjects {
            objects: objects.clone(),
            fleet: config.fleet.clone(),
        })
    };
    shards.with_each(|cache| cache.set_objects(tier(), writer, queue));
    Ok(Some(objects))
}

/// Returns the hosts for certificates by ACME, with their authority.
fn acme(config: &HttpConfig) -> Option<&AcmeConfig> {
    config.tls.as_ref()?.acme.as_ref()
}

/// Without a descriptor, a connection waits in the kernel's queue, and no origin can be reached.
fn warn_of_few_descriptors(connections: usize) {
    let Some(files) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current else {
        return;
    };
    if files < connections as u64 {
        tracing::warn!(
            connections,
            files,
            "[http.limits] connections: the process may not open as many files; raise its limit (LimitNOFILE of \
             systemd, ulimit -n), or lower the key"
        );
    }
}

fn policy_error(error: larder_policy::SpecError) -> Error {
    Error::setting("[http] policy", Problem::Policy(error))
}

/// Creates the cache, with its disk tier if there is one.
fn new_cache(
    config: &HttpConfig,
    disk: Option<&HttpDisk>,
    streams: &Streams,
) -> Result<Arc<Shards>, Error> {
    let [key_a, key_b] = entropy::words();
    let mut hash_key = [0; 16];
    hash_key[..8].copy_from_slice(&key_a.to_le_bytes());
    hash_key[8..].copy_from_slice(&key_b.to_le_bytes());
    // The disk's variants are hashed with this key.
    let cache = larder_http::Config {
        hash_key: disk.map_or(hash_key, |disk| disk.with(|log, _| log.hash_key())),
        ..config.cache_config()
    };
    let handle = disk
        .map(|disk| || Box::new(disk_tier::Tier(disk.clone())) as Box<dyn larder_http::SecondTier>);
    let queue = config
        .disk
        .as_ref()
        .map_or(ByteSize::from_bytes(0), |disk| disk.queue);
    let tier = handle.as_ref().map(|handle| {
        (
            handle as &dyn Fn() -> Box<dyn larder_http::SecondTier>,
            queue,
        )
    });
    Shards::new(
        &cache,
        streams,
        request_threads::count(config.threads),
        tier,
    )
    .map_err(policy_error)
}
