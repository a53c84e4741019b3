//! The thread that orders and renews certificates.

use crate::authority::Authority;
use crate::certificates::{Certificates, now};
use crate::config::{AcmeConfig, ChallengeKind};
use crate::error::Error;
use crate::folder::Folder;
use crate::limits;
use crate::order::{OrderContext, OrderError, Ordered, RenewalWindow};
use larder_acme::{CertificateHost, Failure, Failures, Schedule, Step, UnixTime};
use larder_host::entropy;
use larder_units::{Streams, rounded};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Orders and renews the certificates of a configuration until it is stopped.
pub struct Renewals {
    commands: mpsc::UnboundedSender<Command>,
    thread: JoinHandle<()>,
    /// The other end is dropped when the thread ends.
    end: std::sync::mpsc::Receiver<()>,
}

enum Command {
    /// Ends the pauses after failures.
    RetryNow,
}

impl Renewals {
    /// Starts the thread. `certificates` has the hosts of this configuration already. `kinds` are
    /// the challenges that this node can answer, the preferred one first.
    ///
    /// # Errors
    /// One line: the setting and its problem.
    pub fn start(
        config: &AcmeConfig,
        kinds: Vec<ChallengeKind>,
        certificates: &Arc<Certificates>,
    ) -> Result<Renewals, Error> {
        debug_assert!(certificates.are_from(&config.folder));
        let folder = Folder::open(&config.folder)?;
        let context = OrderContext {
            authority: Authority::new(config)?,
            folder,
            certificates: Arc::clone(certificates),
            profile: config.profile.clone(),
        };
        let (commands, received) = mpsc::unbounded_channel();
        let orders = Orders::new(config, kinds, context);
        let (running, end) = std::sync::mpsc::channel::<()>();
        let run = move || {
            // Dropped at the end, also after a panic.
            let _running = running;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            match runtime {
                Ok(runtime) => {
                    runtime.block_on(orders.run(received));
                    // A name may be looked up on another thread: the end does not wait for it.
                    runtime.shutdown_background();
                }
                Err(error) => tracing::error!(%error, "certificates are not renewed"),
            }
        };
        let thread = std::thread::Builder::new().name("acme".to_owned());
        let thread = thread.spawn(run).map_err(Error::Thread)?;
        Ok(Renewals {
            commands,
            thread,
            end,
        })
    }

    /// Orders at once what has failed before: an operator may have repaired the cause.
    pub fn retry_now(&self) {
        // Fails only if the thread has ended.
        let _ = self.commands.send(Command::RetryNow);
    }

    /// Ends the thread, and the orders in progress. The certificates stay in use. A thread that
    /// waits for a folder that does not answer is left behind.
    pub fn stop(self) {
        drop(self.commands);
        if self.end.recv_timeout(limits::STOP) == Err(RecvTimeoutError::Timeout) {
            return tracing::error!(
                "[http.tls.acme] folder: it does not answer, and its thread is left behind"
            );
        }
        if self.thread.join().is_err() {
            tracing::error!("the thread acme has failed");
        }
    }
}

/// The hosts with their orders in progress.
struct Orders {
    context: Arc<OrderContext>,
    kinds: Vec<ChallengeKind>,
    hosts: Vec<Host>,
    tasks: JoinSet<Done>,
}

struct Host {
    name: CertificateHost,
    schedule: Schedule,
    /// The orders that the authority has refused: the next one tries another challenge.
    refusals: usize,
    /// True while a task works on it.
    is_busy: bool,
    /// Another process orders its certificate: it is looked at again then.
    not_before: Option<Instant>,
}

/// The result of a task for a host.
struct Done {
    host: usize,
    result: TaskResult,
}

enum TaskResult {
    Ordered(Result<Ordered, OrderError>),
    Window(Option<RenewalWindow>),
}

impl Orders {
    fn new(config: &AcmeConfig, kinds: Vec<ChallengeKind>, context: OrderContext) -> Orders {
        let [seed] = entropy::words();
        let streams = Streams::new(seed);
        let host = |name: &CertificateHost| {
            let facts = context.certificates.facts(name);
            let text = context.folder.read(&name.failures_name()).ok().flatten();
            let text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
            let failures = text.as_deref().map(Failures::from_text);
            let schedule = Schedule::new(
                facts.map(|facts| facts.validity),
                failures.unwrap_or_default(),
                streams.stream(name.as_str()),
            );
            Host {
                name: name.clone(),
                schedule,
                refusals: 0,
                is_busy: false,
                not_before: None,
            }
        };
        let hosts = config.hosts.iter().map(host).collect();
        Orders {
            hosts,
            context: Arc::new(context),
            kinds,
            tasks: JoinSet::new(),
        }
    }

    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        self.context.folder.challenges().remove_old();
        // Ends with the runtime.
        tokio::spawn(look_at_challenges(Arc::clone(&self.context)));
        for host in &mut self.hosts {
            let renewal = host.schedule.renewal();
            if renewal.is_none() {
                tracing::warn!(
                    host = %host.name,
                    "a self-signed certificate stands in until the authority issues one"
                );
            }
            let set = |status: &mut crate::HostStatus| status.renewal = renewal;
            self.context.certificates.record(&host.name, set);
        }
        loop {
            self.look();
            let wait = self.begin_due();
            tokio::select! {
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => match done {
                    Ok(Done { host, result }) => self.finish(host, result),
                    Err(error) => tracing::error!(%error, "an order has failed"),
                },
                command = commands.recv() => match command {
                    Some(Command::RetryNow) => self.retry_now(),
                    None => return,
                },
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Uses the certificates that other processes have written.
    fn look(&mut self) {
        let OrderContext {
            certificates,
            folder,
            ..
        } = &*self.context;
        for host in self.hosts.iter_mut().filter(|host| !host.is_busy) {
            if certificates.look(&host.name, folder) {
                host.is_ordered(certificates);
                tracing::info!(host = %host.name, "another process has renewed the certificate");
            }
        }
    }

    /// Begins what is due. Returns the time until the next look.
    fn begin_due(&mut self) -> Duration {
        let (clock, mut wait) = (now(), limits::LOOK);
        for (index, host) in self.hosts.iter_mut().enumerate() {
            if host.is_busy || host.not_before.is_some_and(|time| time > Instant::now()) {
                continue;
            }
            if self.tasks.len() == limits::ORDERS {
                break;
            }
            let (context, name) = (Arc::clone(&self.context), host.name.clone());
            match host.schedule.next(clock) {
                Step::Wait(until) => wait = wait.min(until.since(clock)),
                Step::AskWindow => {
                    host.is_busy = true;
                    self.tasks.spawn(async move {
                        let window = tokio::time::timeout(limits::REQUEST, context.window(&name));
                        let result = TaskResult::Window(window.await.ok().flatten());
                        Done {
                            host: index,
                            result,
                        }
                    });
                }
                Step::Order => {
                    host.is_busy = true;
                    let mut kinds = self.kinds.clone();
                    let turn = host.refusals % kinds.len().max(1);
                    kinds.rotate_left(turn);
                    self.tasks.spawn(async move {
                        let ordered =
                            tokio::time::timeout(limits::ORDER, context.order(&name, &kinds));
                        let result = ordered.await.unwrap_or_else(|_| Err(too_slow()));
                        Done {
                            host: index,
                            result: TaskResult::Ordered(result),
                        }
                    });
                }
            }
        }
        wait
    }

    fn finish(&mut self, index: usize, result: TaskResult) {
        let host = &mut self.hosts[index];
        let (context, clock) = (&self.context, now());
        host.is_busy = false;
        match result {
            TaskResult::Window(window) => {
                let window = window.map(|RenewalWindow { start, end, again }| {
                    let [start, end] = [start, end].map(|time| UnixTime(time.max(0) as u64));
                    ((start, end), again)
                });
                host.schedule.on_window(clock, window);
                let renewal = host.schedule.renewal();
                context
                    .certificates
                    .record(&host.name, |status| status.renewal = renewal);
            }
            TaskResult::Ordered(Ok(Ordered::Busy)) => {
                host.not_before = Some(Instant::now() + limits::LOOK);
            }
            TaskResult::Ordered(Ok(ordered)) => {
                if ordered == Ordered::Here {
                    context
                        .certificates
                        .record(&host.name, |status| status.orders += 1);
                }
                host.is_ordered(&context.certificates);
                host.forget_failures(&context.folder);
                let until = context.certificates.facts(&host.name);
                let until = until.map(|facts| date(facts.validity.not_after));
                tracing::info!(host = %host.name, until, "a new certificate");
            }
            TaskResult::Ordered(Err(error)) => {
                host.schedule.on_failed(clock, error.failure);
                host.refusals += usize::from(error.failure == Failure::Refused);
                host.keep_failures(&context.folder);
                let pause = host.schedule.retry(clock).since(clock);
                let next = rounded::span(pause.as_secs_f64());
                tracing::warn!(host = %host.name, %error, next, "no certificate: what is there stays in use");
                context.certificates.record(&host.name, |status| {
                    status.failures += 1;
                    status.last_error = Some(error.text);
                });
            }
        }
    }

    fn retry_now(&mut self) {
        for host in &mut self.hosts {
            host.schedule.retry_now();
            host.not_before = None;
        }
    }
}

impl Host {
    /// The host has a new certificate of the authority.
    fn is_ordered(&mut self, certificates: &Certificates) {
        let Some(facts) = certificates.facts(&self.name) else {
            return;
        };
        self.schedule.on_ordered(now(), facts.validity);
        let renewal = self.schedule.renewal();
        certificates.record(&self.name, |status| {
            status.renewal = renewal;
            status.last_error = None;
        });
    }

    fn keep_failures(&self, folder: &Folder) {
        let text = self.schedule.failures().to_text();
        if let Err(error) = folder.write(&self.name.failures_name(), text.as_bytes()) {
            tracing::error!(host = %self.name, %error, "a restart forgets the failed orders");
        }
    }

    fn forget_failures(&self, folder: &Folder) {
        if let Err(error) = folder.remove(&self.name.failures_name()) {
            tracing::debug!(host = %self.name, %error, "the file of failed orders stays");
        }
    }
}

/// Reads the open challenges of other nodes again and again.
async fn look_at_challenges(context: Arc<OrderContext>) {
    let folder = context.folder.challenges();
    loop {
        if let Err(error) = context.certificates.challenges.look(&folder) {
            tracing::debug!(%error, "the challenges of other nodes cannot be read");
        }
        tokio::time::sleep(limits::CHALLENGE_LOOK).await;
    }
}

fn too_slow() -> OrderError {
    OrderError {
        failure: Failure::Unreachable,
        text: "the authority takes too long".to_owned(),
    }
}

/// Returns a date for people.
fn date(time: UnixTime) -> String {
    httpdate::fmt_http_date(
        SystemTime::UNIX_EPOCH + Duration::from_secs(time.0.min(u32::MAX.into())),
    )
}
