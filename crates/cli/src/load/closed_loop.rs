//! The connections of the load. Each one sends a request, reads the response to its end, counts it
//! and sends the next. All run on one thread with hyper's client.

use super::dial::{Dialer, Sender, TlsArgs};
use super::report::{Outcome, Report};
use crate::failure::Failure;
use crate::replay::progress::Progress;
use http::Uri;
use http_body_util::BodyExt;
use larder_replay::Trace;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;

/// The time after which a request without progress has failed. A working cache is faster.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time for the first connection with its handshakes.
const FIRST: Duration = Duration::from_secs(10);

/// The number of consecutive failures over all connections after which the load ends.
const FAILURES: u64 = 1000;

/// The interval between two updates of the progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// The parameters of a load.
pub struct Plan {
    /// `http://HOST[:PORT][/PATH]`, or `https://`.
    pub url: Uri,
    /// Where to connect to, whatever `url` says.
    pub connect: Option<SocketAddr>,
    /// How an `https://` server is verified.
    pub tls: TlsArgs,
    /// The number of connections.
    pub connections: usize,
    /// The most requests, including those of the warm-up.
    pub requests: Option<u64>,
    /// The longest time.
    pub duration: Option<Duration>,
    /// The number of uncounted requests at the start.
    pub warm_up: u64,
}

/// Runs the load: the requests of the trace, or one URL repeatedly.
///
/// # Errors
/// If the URL is invalid, no server answers there, or the trace cannot be read.
pub fn drive(plan: &Plan, trace: Option<Trace>, progress: &Progress) -> Result<Report, Failure> {
    let dialer = Dialer::new(&plan.url, plan.connect, &plan.tls)?;
    let wrong = |error: String| {
        let server = dialer.server();
        Failure::runtime(format!("cannot reach {server}: {error}"))
    };
    let shared = Rc::new(Shared {
        dialer: Dialer::clone(&dialer),
        queue: RefCell::new(Queue::new(plan, trace)),
        report: RefCell::new(Report::default()),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| wrong(larder_units::system_message(&error)))?;
    let tasks = LocalSet::new();
    let began = larder_reproduce::thread_time();
    runtime.block_on(tasks.run_until(async {
        // One connection first, so that a missing server is one error and not five thousand.
        drop(first(&dialer, FIRST).await.map_err(wrong)?);
        let start = Instant::now();
        shared.report.borrow_mut().begun = Some(start);
        let mut connections = tokio::task::JoinSet::new();
        for _ in 0..plan.connections {
            connections.spawn_local(connection(Rc::clone(&shared)));
        }
        while !matches!(
            tokio::time::timeout(PROGRESS_EVERY, connections.join_next()).await,
            Ok(None)
        ) {
            let queue = shared.queue.borrow();
            progress.at("asking", "", queue.given, queue.share(start), 1e6);
        }
        Ok(())
    }))?;
    let mut queue = shared.queue.borrow_mut();
    if let Some(failure) = queue.failure.take() {
        return Err(failure);
    }
    drop(queue);
    let mut report = shared.report.take().ended();
    report.cpu = larder_reproduce::thread_time() - began;
    Ok(report)
}

/// The state that all connections share.
struct Shared {
    dialer: Dialer,
    queue: RefCell<Queue>,
    report: RefCell<Report>,
}

/// The source of the next requests.
struct Queue {
    url: Uri,
    /// The path in front of a trace's objects.
    base: String,
    trace: Option<Trace>,
    given: u64,
    most: u64,
    until: Option<Instant>,
    warm_up: u64,
    /// The number of consecutive failed requests.
    failing: u64,
    /// The reason why the queue gives no more requests.
    failure: Option<Failure>,
}

impl Queue {
    fn new(plan: &Plan, trace: Option<Trace>) -> Queue {
        Queue {
            base: plan.url.path().trim_end_matches('/').to_owned(),
            url: plan
                .url
                .path_and_query()
                .map_or(Uri::from_static("/"), |target| Uri::from(target.clone())),
            trace,
            given: 0,
            most: plan.requests.unwrap_or(u64::MAX),
            until: plan
                .duration
                .and_then(|time| Instant::now().checked_add(time)),
            warm_up: plan.warm_up,
            failing: 0,
            failure: None,
        }
    }

    /// Returns the next target, and whether it counts.
    fn next(&mut self) -> Option<(Uri, bool)> {
        let over = self.until.is_some_and(|until| Instant::now() >= until);
        if self.given == self.most || over || self.failure.is_some() {
            return None;
        }
        let target = match &mut self.trace {
            None => self.url.clone(),
            Some(trace) => match trace.next()? {
                Ok(access) => format!("{}/{}/{}", self.base, access.size, access.id)
                    .parse()
                    .ok()?,
                Err(error) => {
                    self.failure = Some(Failure::usage(error.to_string()));
                    return None;
                }
            },
        };
        self.given += 1;
        Some((target, self.given > self.warm_up))
    }

    /// Returns the finished share of the load, by the limit that comes first.
    fn share(&self, start: Instant) -> Option<f64> {
        let by_requests = (self.most < u64::MAX).then(|| self.given as f64 / self.most as f64);
        let by_time = self
            .until
            .map(|until| start.elapsed().as_secs_f64() / (until - start).as_secs_f64());
        let by_trace = self.trace.as_ref().and_then(Trace::progress);
        [by_requests, by_time, by_trace]
            .into_iter()
            .flatten()
            .reduce(f64::max)
    }

    fn done(&mut self, failed: Option<&str>) {
        self.failing = if failed.is_some() {
            self.failing + 1
        } else {
            0
        };
        if let Some(reason) = failed
            && self.failing > FAILURES
        {
            self.failure = Some(Failure::runtime(format!(
                "{FAILURES} requests failed one after another: {reason}"
            )));
        }
    }
}

/// Opens a connection, within a time: a server may accept it and then say nothing.
async fn first(dialer: &Dialer, limit: Duration) -> Result<Sender, String> {
    match tokio::time::timeout(limit, dialer.open()).await {
        Ok(opened) => opened,
        Err(_) => Err(format!("no connection within {limit:?}")),
    }
}

/// Runs one connection, which is opened again if it breaks.
async fn connection(shared: Rc<Shared>) {
    let mut sender: Option<Sender> = None;
    loop {
        let next = shared.queue.borrow_mut().next();
        let Some((target, counts)) = next else { return };
        let asked = Instant::now();
        let outcome = match tokio::time::timeout(PATIENCE, ask(&shared, &mut sender, target)).await
        {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("no answer within {PATIENCE:?}")),
        };
        if outcome.is_err() {
            sender = None;
        }
        shared
            .queue
            .borrow_mut()
            .done(outcome.as_ref().err().map(String::as_str));
        if counts {
            shared
                .report
                .borrow_mut()
                .count(asked, asked.elapsed(), outcome);
        }
    }
}

async fn ask(
    shared: &Shared,
    connection: &mut Option<Sender>,
    target: Uri,
) -> Result<Outcome, String> {
    // A connection that the server has closed between two requests is opened again and is not a
    // failure.
    let usable = match connection {
        Some(sender) => sender.is_usable().await,
        None => false,
    };
    if !usable {
        *connection = Some(shared.dialer.open().await?);
    }
    let Some(sender) = connection else {
        return Err("no connection".to_owned());
    };
    let response = sender.get(&shared.dialer, target).await?;
    let (head, mut body) = response.into_parts();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| error.to_string())?;
        bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
    }
    Ok(Outcome::new(
        head.status,
        head.version,
        &head.headers,
        bytes,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a load waits for ever for a server that accepts a connection and is silent.
    #[test]
    fn a_silent_server_holds_the_load() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", silent.local_addr().unwrap());
        let accepts_any = TlsArgs {
            insecure: true,
            ..TlsArgs::default()
        };
        let dialer = Dialer::new(&url.parse().unwrap(), None, &accepts_any).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let opened = runtime.block_on(first(&dialer, Duration::from_millis(100)));
        assert_eq!(opened.err().unwrap(), "no connection within 100ms");
    }
}
