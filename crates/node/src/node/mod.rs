//! Starts and stops the whole node.

mod part;
mod reload;
mod upgrade;

use crate::config::{Config, Origin};
use crate::error::NodeError;
use crate::handover::{Handover, News, Successor};
use crate::inherited::{Inherited, Role};
use crate::ndn::{self, Ndn};
use crate::parts;
use crate::preflight;
use crate::privileges::Account;
use crate::process::Process;
use crate::reload::RunningConfig;
use crate::supervisor;
use larder_admin::{CommandReply, Console, NodeCommand, NodeCommands, Purging, StatusSource};
use larder_fleet_host::Member;
use larder_gateway::egress::Egress;
use larder_gateway::ingress::Ingress;
use larder_host::ListenConfig;
use larder_proxy::{Admin, Http, InheritedListener, ListenerKind, Listeners, PeersConfig};
use part::Part;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// A running node.
pub struct Node {
    ndn: Option<Part<Ndn>>,
    egress: Option<Part<Egress>>,
    ingress: Option<Part<Ingress>>,
    http: Option<Part<Http>>,
    admin: Option<Admin>,
    console: Arc<Console>,
    /// The figures of the process.
    process: Arc<Process>,
    purging: Option<Arc<Purging>>,
    commands: Arc<NodeCommands>,
    /// The node's part in its fleet.
    fleet: Option<Member>,
    /// Where it answers the other nodes. A reload does not change it.
    peers: Option<PeersConfig>,
    /// The admin server of another address, which still answers the reload that has replaced it.
    former_admin: Option<Admin>,
    /// The client that waits for the outcome of the upgrade.
    upgrade_reply: Option<CommandReply>,
    origin: Origin,
    /// The process that is to replace this one, while there is one.
    successor: Option<Successor>,
    /// Signals that came since it started: it has perhaps read its files before.
    signals_to_repeat: BTreeSet<i32>,
    /// True while that process has what only one process can have.
    is_released: bool,
    /// True if the node has a disk tier.
    has_disk: bool,
    events: mpsc::Sender<Event>,
    next_events: mpsc::Receiver<Event>,
}

/// What the thread of the node waits for.
enum Event {
    Signal(i32),
    /// A thread has ended that runs until the node stops.
    Ended(&'static str),
    /// A client of the admin server sends a command.
    Command(NodeCommand, CommandReply),
    /// The process that is to replace this one reports something.
    Successor(News),
    /// The process that this one has replaced reads no UDP socket of HTTP/3 any more.
    UdpLeft,
}

impl Node {
    /// Starts everything that the configuration names.
    ///
    /// # Errors
    /// One line that names the setting, the problem and the remedy. Nothing keeps running, and no
    /// socket file is left behind.
    pub fn start(config: &Config) -> Result<Node, NodeError> {
        Node::start_on(config, &mut Handover::default())
    }

    /// Starts everything that the configuration names, on the listening sockets of the handover. A
    /// process that is replaced goes on if this fails.
    ///
    /// # Errors
    /// As [`Node::start`].
    pub fn start_on(config: &Config, handover: &mut Handover) -> Result<Node, NodeError> {
        let made = ndn::socket_folders(&config.ndn);
        let started = Node::start_with_account(config, handover);
        if started.is_err() {
            ndn::remove_empty(&made);
        }
        started
    }

    fn start_with_account(config: &Config, handover: &mut Handover) -> Result<Node, NodeError> {
        // Before the first thread starts.
        let mut account = Account::find(config)?;
        let started = match &mut account {
            Some(account) => account
                .assume_file_rights(config, &mut handover.sockets)
                .map_err(NodeError::from),
            None => Ok(()),
        };
        let started = started.and_then(|()| Node::start_as(account.as_ref(), config, handover));
        if let (Err(_), Some(account)) = (&started, &account) {
            account.remove_sockets();
        }
        started
    }

    /// Starts everything, and becomes the user of this account, if there is one, as soon as the
    /// listeners are bound.
    fn start_as(
        account: Option<&Account>,
        config: &Config,
        handover: &mut Handover,
    ) -> Result<Node, NodeError> {
        for warning in preflight::warnings(config) {
            tracing::warn!("{warning}");
        }
        let (events, next_events) = mpsc::channel();
        watch_signals(events.clone())?;
        raise_descriptor_limit();
        // Both are bound before the process that is replaced leaves anything.
        let admin = config
            .admin
            .listen
            .map(|address| admin_listener(address, handover))
            .transpose()?;
        let listeners = http_listeners(config, handover)?;
        // The admin server starts first: it tells that the node is alive while it starts. In an
        // upgrade, the process before tells that it is ready until this one is.
        let (admin_early, admin_late) = if handover.is_upgrade() {
            (None, admin)
        } else {
            (admin, None)
        };
        let console = Arc::new(Console::new(config.admin.token.as_deref()));
        let mut node = Node {
            ndn: None,
            egress: None,
            ingress: None,
            http: None,
            admin: admin_early
                .map(|listener| Admin::open(listener, &console))
                .transpose()?,
            console,
            process: Arc::new(Process::new(config.source.clone())),
            purging: None,
            commands: Arc::new(commands(config, &events)),
            fleet: config
                .fleet
                .as_ref()
                .map(|fleet| parts::member(config, fleet)),
            peers: config.http.proxy.peers.clone(),
            former_admin: None,
            upgrade_reply: None,
            origin: config.http.origin.clone(),
            successor: None,
            signals_to_repeat: BTreeSet::new(),
            is_released: false,
            has_disk: config.http.proxy.disk.is_some() || config.ndn.disk.is_some(),
            events,
            next_events,
        };
        let started = node
            .take_over(config, handover)
            .and_then(|()| node.start_ndn_and_pair(config, handover))
            .and_then(|()| node.start_http(config, listeners, admin_late))
            .and_then(|()| account.map_or(Ok(()), |account| Ok(account.assume(config)?)))
            .and_then(|()| node.own(handover));
        match started {
            Ok(()) => Ok(node),
            Err(error) => {
                node.stop();
                Err(error)
            }
        }
    }

    /// Returns a function that reports the end of a thread.
    fn end_of(&self, name: &'static str) -> impl FnOnce() + Send + 'static {
        let events = self.events.clone();
        move || drop(events.send(Event::Ended(name)))
    }

    fn start_ndn(
        &self,
        config: &Config,
        inherited: &mut Inherited,
    ) -> Result<Part<Ndn>, NodeError> {
        let source = config.source.as_deref();
        let start = |on_end| Ndn::start(&config.ndn, source, inherited, on_end);
        Ok(Part::start(self.end_of("ndn"), start)?)
    }

    /// Starts the egress of HTTP over NDN, if the configuration has one.
    fn start_egress(
        &self,
        config: &Config,
        forwarder: PathBuf,
    ) -> Result<Option<Part<Egress>>, NodeError> {
        let Some(table) = config.ndn.gateway.as_ref().filter(|_| config.ndn.enabled) else {
            return Ok(None);
        };
        let config = parts::egress(config, table, forwarder);
        let start = |on_end| Egress::start(&config, on_end);
        Part::start(self.end_of("gateway"), start)
            .map(Some)
            .map_err(NodeError::Gateway)
    }

    /// Starts the ingress of HTTP over NDN, if the configuration has one.
    fn start_ingress(
        &self,
        config: &Config,
        forwarder: PathBuf,
    ) -> Result<Option<Part<Ingress>>, NodeError> {
        let Some(table) = config.http.upstream.as_ref().filter(|_| config.ndn.enabled) else {
            return Ok(None);
        };
        let config = parts::ingress(table, forwarder);
        let start = |on_end| Ingress::start(&config, on_end);
        Part::start(self.end_of("edge"), start)
            .map(Some)
            .map_err(NodeError::Gateway)
    }

    /// Warns of certificates that are not valid: those who have their keys are locked out.
    pub(super) fn warn_of_certificates(&self, config: &Config) {
        // An error prevents the start, or the reload.
        let problems = config
            .ndn
            .invalid_certificates(preflight::unix_seconds())
            .unwrap_or_default();
        for problem in problems {
            tracing::warn!("{problem}");
        }
    }

    /// Starts the NDN side, and the ends of HTTP over NDN that the configuration names.
    fn start_ndn_and_pair(
        &mut self,
        config: &Config,
        handover: &mut Handover,
    ) -> Result<(), NodeError> {
        if !config.ndn.enabled {
            return Ok(());
        }
        self.warn_of_certificates(config);
        let ndn = self
            .ndn
            .insert(self.start_ndn(config, &mut handover.sockets)?);
        let forwarder = ndn.unix.clone().unwrap_or_default();
        self.egress = self.start_egress(config, forwarder.clone())?;
        if parts::http(&config.http, None).is_some() {
            self.ingress = self.start_ingress(config, forwarder)?;
        }
        Ok(())
    }

    fn start_http(
        &mut self,
        config: &Config,
        listeners: Option<Listeners>,
        admin: Option<TcpListener>,
    ) -> Result<(), NodeError> {
        if let Some((listeners, mut http)) =
            listeners.zip(parts::http(&config.http, self.ingress.as_deref()))
        {
            http.fleet = self.fleet.as_ref().map(Member::fleet);
            let start = |on_end| Http::start_on(listeners, &http, on_end);
            self.http = Some(Part::start(self.end_of("http"), start)?);
            self.purging = self
                .http
                .as_ref()
                .map(|http| http.purging(config.admin.token.as_deref()));
        }
        self.follow_fleet()?;
        if let Some(file) = history_file(config) {
            self.console.keep_history(file);
        }
        if let Some(listener) = admin {
            self.admin = Some(Admin::open(listener, &self.console)?);
        }
        self.show();
        Ok(())
    }

    /// Starts to follow the fleet, if the node belongs to one.
    fn follow_fleet(&mut self) -> Result<(), NodeError> {
        if let (Some(fleet), Some(http)) = (&mut self.fleet, &self.http) {
            fleet.start(http.purger()).map_err(NodeError::Fleet)?;
        }
        Ok(())
    }

    /// Shows the figures of the parts that run on the pages of the admin server.
    fn show(&self) {
        let Some(admin) = &self.admin else { return };
        let mut sources = vec![Arc::clone(&self.process) as Arc<dyn StatusSource>];
        sources.extend(
            self.ndn
                .as_ref()
                .map(|ndn| Arc::new(ndn.handle.clone()) as Arc<dyn StatusSource>),
        );
        sources.extend(self.egress.as_deref().map(Egress::source));
        sources.extend(self.ingress.as_deref().map(Ingress::source));
        sources.extend(self.http.as_deref().map(Http::source));
        sources.extend(self.fleet.as_ref().map(Member::source));
        let commands = Some(Arc::clone(&self.commands));
        admin.serve(sources, self.purging.clone(), commands);
    }

    /// Returns the start message: the listeners, and what to type next.
    pub fn greeting(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        if let Some(ndn) = &self.ndn {
            let _ = writeln!(text, "NDN    {}", ndn.listening.join("  "));
            if !ndn.is_open {
                let _ = writeln!(
                    text,
                    "       for this machine only; [ndn] udp = \"[::]:6363\" opens it to others (tcp, websocket: likewise)"
                );
            }
            if let Some(path) = &ndn.unix {
                let _ = writeln!(
                    text,
                    "       export NDN_CLIENT_TRANSPORT=unix://{}",
                    path.display()
                );
            }
        }
        self.greet_http(&mut text);
        if let Some(egress) = &self.egress {
            let _ = writeln!(
                text,
                "HTTP   under ndn:{}  try: larder get {0}/HOST/PATH",
                egress.prefix()
            );
        }
        if let Some(admin) = &self.admin {
            let _ = writeln!(
                text,
                "admin  http://{}/  the console, in a browser; also /status and /metrics",
                admin.local_addr()
            );
        }
        text
    }

    /// Adds the listeners for HTTP. The first one says what stands behind them.
    fn greet_http(&self, text: &mut String) {
        let listening = self
            .http
            .as_deref()
            .map(Http::listening)
            .unwrap_or_default();
        for (number, (address, is_secure)) in listening.iter().enumerate() {
            let url = match (address.tcp(), is_secure) {
                (Some(address), false) => format!("HTTP   http://{address}/"),
                (Some(address), true) => format!("HTTPS  https://{address}/  HTTP/2 and HTTP/1.1"),
                (None, false) => format!("HTTP   {address}"),
                (None, true) => format!("HTTPS  {address}  HTTP/2 and HTTP/1.1"),
            };
            let behind = match (&self.origin, address.tcp()) {
                _ if number > 0 || *is_secure => String::new(),
                (Origin::Generated, _) if let Some(ingress) = &self.ingress => {
                    format!("  in front of ndn:{}", ingress.handle().prefix())
                }
                (Origin::Generated, Some(address)) => {
                    format!("  try: curl -sv -o /dev/null http://{address}/10KiB/hello")
                }
                (Origin::Generated, None) => String::new(),
                (Origin::Http(origin), _) => format!("  in front of {origin}"),
                (Origin::Files(root), _) => format!("  serves {}", root.display()),
            };
            let _ = writeln!(text, "{url}{behind}");
        }
        let certificates = self.http.as_deref().map(Http::certificates);
        let waiting = certificates.iter().flatten();
        let waiting = waiting.filter(|certificate| certificate.validity.is_none());
        let waiting: Vec<&str> = waiting.map(|waiting| waiting.host.as_str()).collect();
        if let [first, others @ ..] = waiting.as_slice() {
            let others = match others.len() {
                0 => String::new(),
                count => format!(" and {count} more"),
            };
            let _ = writeln!(
                text,
                "       {first}{others}: a self-signed certificate until the authority issues one; the log tells when"
            );
        }
        let mut plain = listening
            .iter()
            .filter(|(_, is_secure)| !is_secure)
            .peekable();
        if plain.peek().is_some() && plain.all(|(address, _)| address.is_local()) {
            let _ = writeln!(
                text,
                "       for this machine only; [http] listen = \"0.0.0.0:80\" opens it to others"
            );
        }
    }

    /// Runs until SIGINT or SIGTERM, then stops cleanly. SIGHUP makes it read its configuration
    /// again, SIGUSR1 open its access log again, and SIGUSR2 start its
    /// program again: it ends when the new process has taken over.
    ///
    /// # Errors
    /// A thread of the node has ended by itself.
    pub fn run(mut self, mut running: RunningConfig) -> Result<(), NodeError> {
        self.process.set_settings(running.differences().to_vec());
        let watchdog = supervisor::watchdog();
        supervisor::ready();
        let result = loop {
            match self.next_event(watchdog) {
                Ok(Event::Signal(signal @ (SIGHUP | SIGUSR1))) => {
                    if self.successor.is_some() {
                        self.signals_to_repeat.insert(signal);
                    }
                    match signal {
                        // The new process reads the configuration, or this one if that fails. It
                        // has the sockets of the present one.
                        SIGHUP if self.successor.is_some() => {
                            tracing::info!("the reload waits for the new process");
                        }
                        SIGHUP => self.reload(&mut running, None),
                        _ => self.reopen_logs(),
                    }
                }
                Ok(Event::Signal(SIGUSR2)) => self.upgrade(None),
                Ok(Event::Command(NodeCommand::Upgrade, reply)) => self.upgrade(Some(reply)),
                Ok(Event::Command(NodeCommand::Reload, reply)) if self.successor.is_some() => {
                    reply.send(Err(
                        "an upgrade is under way: send it again after it".to_owned()
                    ));
                }
                Ok(Event::Command(NodeCommand::Reload, reply)) => {
                    self.reload(&mut running, Some(reply));
                }
                Ok(Event::Signal(signal)) => {
                    tracing::info!(
                        signal = signal_hook::low_level::signal_name(signal),
                        "stopping"
                    );
                    break Ok(());
                }
                Ok(Event::Successor(News::Prepared)) => self.release(),
                Ok(Event::Successor(News::Ready(child))) => match self.leave(child) {
                    None => return Ok(()),
                    Some(node) => {
                        self = node;
                        self.catch_up(&mut running);
                    }
                },
                Ok(Event::Successor(News::Failed(reason))) => {
                    self.go_on(&reason);
                    self.catch_up(&mut running);
                }
                Ok(Event::UdpLeft) => self.read_udp(),
                Ok(Event::Ended(name)) => break Err(NodeError::Ended(name)),
                Err(mpsc::RecvError) => break Err(NodeError::AllEnded),
            }
        };
        supervisor::stopping();
        self.stop();
        result
    }

    /// Reloads after a failed upgrade, during which that was not possible.
    fn catch_up(&mut self, running: &mut RunningConfig) {
        if std::mem::take(&mut self.signals_to_repeat).contains(&SIGHUP) {
            self.reload(running, None);
        }
    }

    /// Opens the access log again, as programs that rotate logs expect after a renaming.
    fn reopen_logs(&self) {
        match &self.http {
            Some(http) => http.reopen_access_log(),
            None => tracing::info!(signal = "SIGUSR1", "there is no log to open again"),
        }
    }

    /// Waits for the next event, and tells the supervisor meanwhile that the
    /// node lives.
    fn next_event(&self, watchdog: Option<Duration>) -> Result<Event, mpsc::RecvError> {
        let Some(interval) = watchdog else {
            return self.next_events.recv();
        };
        loop {
            supervisor::alive();
            match self.next_events.recv_timeout(interval) {
                Ok(event) => return Ok(event),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(mpsc::RecvError),
            }
        }
    }

    /// Returns the URIs on which the NDN side listens.
    pub fn ndn_listening(&self) -> &[String] {
        self.ndn.as_ref().map_or(&[], |ndn| &ndn.listening)
    }

    /// Returns the address of the admin pages.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(Admin::local_addr)
    }

    /// Stops cleanly: waits for requests in progress, and removes the socket file.
    pub fn stop(self) {
        // The admin server stops last: it shows how the others end.
        self.successor.iter().for_each(Successor::stop);
        // This ends the wait of clients for outcomes, too.
        self.admin.iter().for_each(Admin::set_stopping);
        self.console.leave_history();
        if let Some(http) = self.http {
            http.into_stopping().stop();
        }
        if let Some(mut fleet) = self.fleet {
            fleet.stop();
        }
        if let Some(ingress) = self.ingress {
            ingress.into_stopping().stop();
        }
        if let Some(egress) = self.egress {
            egress.into_stopping().stop();
        }
        if let Some(ndn) = self.ndn {
            ndn.into_stopping().stop();
        }
        if let Some(admin) = self.admin {
            admin.stop();
        }
    }
}

/// Returns the socket of the admin server: an inherited one, or one that is bound.
fn admin_listener(address: SocketAddr, handover: &mut Handover) -> Result<TcpListener, NodeError> {
    match handover.sockets.tcp(Role::Admin, address) {
        Some(listener) => Ok(listener),
        None => Ok(Admin::bind(address)?),
    }
}

/// Returns the commands of clients of the admin server, which become events.
fn commands(config: &Config, events: &mpsc::Sender<Event>) -> NodeCommands {
    let events = events.clone();
    NodeCommands::new(config.admin.token.as_deref(), move |command, reply| {
        // Without a node, the reply is dropped, and the client learns that the node stops.
        drop(events.send(Event::Command(command, reply)));
    })
}

/// Returns the file of the console's history: beside that of a disk tier, if there is one.
fn history_file(config: &Config) -> Option<PathBuf> {
    let http = config.http.proxy.disk.as_ref().map(|disk| &disk.path);
    let tier = http.or(config.ndn.disk.as_ref().map(|disk| &disk.path))?;
    let mut file = tier.clone().into_os_string();
    file.push(".history");
    Some(file.into())
}

/// Returns the listeners of the HTTP side: inherited ones, or ones that are bound.
fn http_listeners(
    config: &Config,
    handover: &mut Handover,
) -> Result<Option<Listeners>, NodeError> {
    let Some(http) = parts::http(&config.http, None) else {
        return Ok(None);
    };
    let inherited = |listen: &ListenConfig, kind| {
        let sockets = &mut handover.sockets;
        let udp = listen.address.tcp().filter(|_| kind == ListenerKind::Tls);
        InheritedListener {
            socket: sockets.http(Role::of_http(kind), &listen.address),
            udp: udp.map_or(Vec::new(), |address| sockets.udp(Role::Http3, address)),
        }
    };
    Ok(Some(Listeners::bind_or_inherit(&http, inherited)?))
}

/// Raises the soft limit of open files to the hard one. The soft limit is 1,024 on most machines;
/// connections need more.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    ) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

/// Handles the signals of supervisors, of programs that rotate logs, and of operators.
fn watch_signals(events: mpsc::Sender<Event>) -> Result<(), NodeError> {
    let mut signals =
        signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2])
            .map_err(NodeError::Signals)?;
    let watch = move || {
        for signal in signals.forever() {
            drop(events.send(Event::Signal(signal)));
        }
    };
    let thread = std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(watch);
    thread.map(drop).map_err(NodeError::Thread)
}
