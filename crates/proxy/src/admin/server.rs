//! The admin server: `/metrics` in Prometheus' text format, `/status` as one JSON page, `/healthz`
//! and `/readyz` for a supervisor, and `/` with links: for a browser, the console (`console/`).
//! These pages only read, and need no authorization, except the figures of the console, and
//! `/capture`, the traffic as a trace. No page of another site may read them. `POST /purge`
//! (`purge.rs`) needs a token, and is disabled without one. The server listens on loopback by
//! default.
//!
//! It is the first part of a node that starts and the last that stops. Until the others run,
//! `/readyz` and the pages with figures answer 503.

use crate::accept::listen;
use crate::admin::admin_reply::{JSON, TEXT, not_allowed, of_body, page, unauthorized, unready};
use crate::admin::console::{Console, apply, is_of_own_page, look_up, of_other_site, warnings};
use crate::admin::purge::{PurgeError, Purging};
use crate::base::error::{Error, Problem};
use crate::base::http_limits::HttpLimits;
use crate::base::listen_address::Peer;
use crate::base::live_limits::LiveLimits;
pub use crate::base::metrics::Metrics;
use crate::base::phase::{Phase, PhaseSwitch};
use crate::base::timeouts::Timeouts;
use crate::base::{limits, sockets};
use crate::exchange::outgoing::Outgoing;
use crate::message::client_body::ClientBody;
use crate::what_if::CaptureLines;
use ::http::header::ACCEPT;
use ::http::{Method, Request, Response, StatusCode};
use hyper::service::service_fn;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;
use serde_json::{Map, Value, json};
use std::convert::Infallible;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// A part of the node that reports figures. It is called on the admin thread at each request, and
/// may take locks briefly.
pub trait StatusSource: Send + Sync {
    /// Returns its key on the status page.
    fn name(&self) -> &'static str;
    /// Returns its state.
    fn status(&self) -> Value;
    /// Returns its state, and more for the console, whose clients are authorized: URLs of clients,
    /// names, and the configuration.
    fn console(&self) -> (Value, Value) {
        (self.status(), Value::Null)
    }
    /// Begins a capture of the requests to its cache, for a share of the keys, as lines of a trace;
    /// `None` if it has no cache, or as many captures as it may have.
    fn capture(&self, _share: f64) -> Option<CaptureLines> {
        None
    }
    /// Ends all captures: the admin server stops.
    fn end_captures(&self) {}
    /// Writes its metrics. Their names start with `larder_`.
    fn metrics(&self, metrics: &mut Metrics<'_, '_>);
}

struct Sources(Vec<Arc<dyn StatusSource>>);

/// The start of the first admin server of this process.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|source| source.name()))
            .finish()
    }
}

impl Collector for Sources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut metrics = Metrics {
            encoder: &mut encoder,
            written: Ok(()),
        };
        metrics.gauge(
            "larder_uptime_seconds",
            "Since the start",
            STARTED.elapsed().as_secs_f64(),
        );
        let version = std::iter::once((env!("CARGO_PKG_VERSION"), 1.0));
        metrics.gauges(
            "larder_build_info",
            "1, with the version of the program",
            "version",
            version,
        );
        self.0
            .iter()
            .for_each(|source| source.metrics(&mut metrics));
        metrics.written
    }
}

impl Sources {
    fn status(&self) -> Value {
        page_of(self.0.iter().map(|source| (source.name(), source.status())))
    }

    /// Returns the status page, and under `console` what only the clients of the console may read.
    fn console(&self) -> Value {
        let (mut states, mut more) = (Vec::new(), Map::new());
        for source in &self.0 {
            let (state, of_console) = source.console();
            states.push((source.name(), state));
            more.insert(source.name().to_owned(), of_console);
        }
        let mut page = page_of(states.into_iter());
        page["console"] = Value::Object(more);
        page["console"]["warnings"] = Value::Array(warnings(&page));
        page
    }
}

/// Returns the status page with the states of these sources.
fn page_of(states: impl Iterator<Item = (&'static str, Value)>) -> Value {
    let mut page = Map::new();
    page.insert("larder".to_owned(), json!(env!("CARGO_PKG_VERSION")));
    page.insert(
        "uptime_seconds".to_owned(),
        json!(STARTED.elapsed().as_secs()),
    );
    page.extend(states.map(|(name, state)| (name.to_owned(), state)));
    Value::Object(page)
}

/// The running admin server.
pub struct Admin {
    local: SocketAddr,
    serving: Arc<Serving>,
    listener: TcpListener,
    phase: PhaseSwitch,
    control: listen::Control,
    thread: JoinHandle<()>,
}

/// The state of the node, as `/readyz` tells it, and its pages.
struct Serving {
    console: Arc<Console>,
    /// The pages; none while the node starts.
    pages: RwLock<Option<Arc<Pages>>>,
    /// True when the node takes no new requests.
    is_stopping: AtomicBool,
}

impl Admin {
    /// Binds the address.
    ///
    /// # Errors
    /// One line that names the setting and its problem.
    pub fn bind(listen: SocketAddr) -> Result<TcpListener, Error> {
        sockets::bind("[admin] listen", listen, None)
    }

    /// Binds another address, which may overlap that of this server: it is about to stop.
    ///
    /// # Errors
    /// As [`Admin::bind`].
    pub fn bind_beside(&self, listen: SocketAddr) -> Result<TcpListener, Error> {
        sockets::bind("[admin] listen", listen, Some(&self.listener))
    }

    /// Starts a thread that tells on this socket that the node is alive and not ready. It serves
    /// the console, and takes its readings.
    ///
    /// # Errors
    /// As [`Admin::bind`].
    pub fn open(listener: TcpListener, console: &Arc<Console>) -> Result<Admin, Error> {
        let of_listener = |error| Error::setting("[admin] listen", Problem::Listener(error));
        let local = listener.local_addr().map_err(of_listener)?;
        LazyLock::force(&STARTED);
        let console = Arc::clone(console);
        let serving = Arc::new(Serving {
            console,
            pages: RwLock::default(),
            is_stopping: AtomicBool::new(false),
        });
        let (pages, readings) = (Arc::clone(&serving), Arc::clone(&serving));
        let ((phase, watch), (control, commands)) = (PhaseSwitch::new(), listen::Control::new());
        control.listen(listen::Listener::simple(
            listener.try_clone().map_err(of_listener)?,
            watch,
        ));
        let timeouts = Timeouts {
            client_header: limits::ADMIN_HEADER_READ,
            keepalive: limits::ADMIN_HEADER_READ,
            ..Timeouts::default()
        };
        let most = HttpLimits {
            connections: limits::ADMIN_CONNECTIONS,
            ..HttpLimits::default()
        };
        let bounds = listen::Bounds::new(&LiveLimits::new(timeouts, most));
        let thread = std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || {
                listen::serve(commands, bounds, readings.take_readings(), move |client| {
                    let (pages, peer) = (Arc::clone(&pages), client.peer);
                    service_fn(move |request| {
                        let pages = Arc::clone(&pages);
                        Box::pin(
                            async move { Ok::<_, Infallible>(pages.respond(request, peer).await) },
                        )
                    })
                });
            })
            .map_err(Error::Thread)?;
        Ok(Admin {
            local,
            serving,
            listener,
            phase,
            control,
            thread,
        })
    }

    /// Serves the figures of `sources`, and purges if they are enabled, in the place of those of an
    /// earlier call. The node is ready.
    pub fn serve(&self, sources: Vec<Arc<dyn StatusSource>>, purging: Option<Arc<Purging>>) {
        let sources = Arc::new(Sources(sources));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Arc::clone(&sources)));
        let pages = Some(Arc::new(Pages {
            sources,
            registry,
            purging,
        }));
        *self
            .serving
            .pages
            .write()
            .unwrap_or_else(PoisonError::into_inner) = pages;
    }

    /// Opens the server for a node that is ready, with a console for this machine.
    ///
    /// # Errors
    /// As [`Admin::bind`].
    pub fn start(
        listen: SocketAddr,
        sources: Vec<Arc<dyn StatusSource>>,
        purging: Option<Arc<Purging>>,
    ) -> Result<Admin, Error> {
        let admin = Admin::open(Admin::bind(listen)?, &Arc::default())?;
        admin.serve(sources, purging);
        Ok(admin)
    }

    /// Tells at `/readyz` that the node stops.
    pub fn set_stopping(&self) {
        self.serving.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Returns the listening socket for another process.
    ///
    /// # Errors
    /// The system's, if there is no descriptor left.
    pub fn socket(&self) -> std::io::Result<TcpListener> {
        self.listener.try_clone()
    }

    /// Leaves the listener to another process: open connections end with their next answer.
    pub fn drain(&self) {
        self.phase.begin(Phase::Draining);
        self.end_streams();
    }

    /// Ends the answers that do not end by themselves: open consoles and captures.
    pub fn end_streams(&self) {
        self.serving.console.end_streams();
        if let Some(pages) = self.serving.pages() {
            pages
                .sources
                .0
                .iter()
                .for_each(|source| source.end_captures());
        }
    }

    /// Returns the address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Stops the thread and waits for its end.
    pub fn stop(self) {
        self.phase.begin(Phase::Closing);
        self.end_streams();
        self.control.stop(limits::ADMIN_STOP_GRACE);
        // Fails only if the thread has panicked, which is logged.
        let _ = self.thread.join();
    }
}

impl Serving {
    fn pages(&self) -> Option<Arc<Pages>> {
        self.pages
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes readings for the console, until the thread ends.
    async fn take_readings(self: Arc<Self>) {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            seconds.tick().await;
            if let Some(pages) = self.pages() {
                self.console.tick(|| pages.sources.console());
            }
        }
    }

    async fn respond(&self, request: Request<ClientBody>, peer: Peer) -> Response<Outgoing> {
        let (pages, path) = (self.pages(), request.uri().path());
        let is_order = matches!(path, "/purge" | "/console/apply");
        let is_reading = request.method() == Method::GET || request.method() == Method::HEAD;
        if !is_order && !is_reading {
            return not_allowed("GET, HEAD", "larder: GET and HEAD only\n");
        }
        if let Some(file) =
            Console::file(path).filter(|_| path != "/" || Console::is_for_page(request.headers()))
        {
            return file;
        }
        if !is_of_own_page(request.headers()) {
            return of_other_site();
        }
        match (path, pages) {
            ("/healthz", _) => page(StatusCode::OK, TEXT, "alive\n".to_owned()),
            ("/readyz", Some(_)) if !self.is_stopping.load(Ordering::Relaxed) => {
                page(StatusCode::OK, TEXT, "ready\n".to_owned())
            }
            ("/readyz", Some(_)) => unready("larder: the node stops\n"),
            (_, None) => unready("larder: the node starts\n"),
            (_, Some(_)) if is_order && request.method() != Method::POST => {
                not_allowed("POST", "larder: POST only\n")
            }
            ("/purge", Some(pages)) => pages.purge(request).await,
            ("/console/apply", Some(pages)) => pages.apply(request).await,
            (_, Some(pages)) if path == "/capture" || path.starts_with("/console/") => {
                self.show_to_authorized(&request, peer, &pages).await
            }
            ("/status", Some(pages)) => {
                let refusal = self.console.refusal_of_status(request.headers());
                refusal.unwrap_or_else(|| pages.show(&request))
            }
            (_, Some(pages)) => pages.show(&request),
        }
    }

    /// Answers a request that only clients of the console may send.
    async fn show_to_authorized(
        &self,
        request: &Request<ClientBody>,
        peer: Peer,
        pages: &Pages,
    ) -> Response<Outgoing> {
        let refusal = || self.console.refusal(request.headers(), peer);
        if let Some(refusal) = refusal() {
            return refusal;
        }
        let answer = match request.uri().path() {
            "/capture" => capture(request, pages),
            _ => self.show_console(request, pages).await,
        };
        // The token may have changed meanwhile, and `end_streams` may have missed this answer.
        refusal().unwrap_or(answer)
    }

    /// Answers a request of the console's page.
    async fn show_console(
        &self,
        request: &Request<ClientBody>,
        pages: &Pages,
    ) -> Response<Outgoing> {
        match request.uri().path() {
            "/console/events" if request.method() == Method::GET => {
                self.console.stream(|| pages.sources.console())
            }
            "/console/lookup" => {
                pages
                    .look_up(request.uri().query().unwrap_or_default())
                    .await
            }
            path => page(
                StatusCode::NOT_FOUND,
                TEXT,
                format!("larder: no {path:?} here; try /\n"),
            ),
        }
    }
}

/// The pages of a node that runs.
struct Pages {
    sources: Arc<Sources>,
    registry: Registry,
    purging: Option<Arc<Purging>>,
}

impl Pages {
    fn show(&self, request: &Request<ClientBody>) -> Response<Outgoing> {
        const INDEX: &str = "larder: admin (a browser gets the console here)\n\n/metrics  counters and levels for Prometheus\n/status   the same and more, as JSON\n\
            /healthz  200: the process is alive\n/readyz   200: the node takes requests; 503: it starts or stops\n\
            /capture  the requests as lines of a trace, without names: ?cache=http or ndn, &share=0.01 of the keys\n\
            /purge    takes responses out of the HTTP cache: POST {\"url\": \"http://host/path\"}, or prefix, tag, everything; with soft\n";
        match request.uri().path() {
            "/" => page(StatusCode::OK, TEXT, INDEX.to_owned()),
            "/status" => page(
                StatusCode::OK,
                JSON,
                format!("{:#}\n", self.sources.status()),
            ),
            "/metrics" => {
                let accept = request
                    .headers()
                    .get(ACCEPT)
                    .and_then(|accept| accept.to_str().ok())
                    .unwrap_or("");
                let open = accept.contains("application/openmetrics-text");
                let kind = if open {
                    "application/openmetrics-text; version=1.0.0; charset=utf-8"
                } else {
                    "text/plain; version=0.0.4; charset=utf-8"
                };
                let mut metrics = String::new();
                match text::encode(&mut metrics, &self.registry) {
                    Ok(()) if open => page(StatusCode::OK, kind, metrics),
                    Ok(()) => page(StatusCode::OK, kind, plain(&metrics)),
                    Err(fmt::Error) => page(
                        StatusCode::INTERNAL_SERVER_ERROR,
                        TEXT,
                        "larder: no metrics\n".to_owned(),
                    ),
                }
            }
            path => page(
                StatusCode::NOT_FOUND,
                TEXT,
                format!("larder: no {path:?} here; try /\n"),
            ),
        }
    }

    async fn purge(&self, request: Request<ClientBody>) -> Response<Outgoing> {
        let Some(purging) = &self.purging else {
            return refused(&PurgeError::Disabled);
        };
        let (parts, body) = request.into_parts();
        match purging.respond(&parts.headers, body).await {
            Ok(objects) => page(
                StatusCode::OK,
                JSON,
                format!("{}\n", json!({ "purged": objects })),
            ),
            Err(error) => refused(&error),
        }
    }

    async fn apply(&self, request: Request<ClientBody>) -> Response<Outgoing> {
        let Some(purging) = &self.purging else {
            return refused(&PurgeError::Disabled);
        };
        let (parts, body) = request.into_parts();
        match purging.read(&parts.headers, body).await {
            Ok(body) => of_console(apply(purging.proxy(), &body)),
            Err(error) => refused(&error),
        }
    }

    async fn look_up(&self, query: &str) -> Response<Outgoing> {
        let Some(purging) = &self.purging else {
            return of_console(Err("the node serves no HTTP".to_owned()));
        };
        let encoded = query.strip_prefix("url=").unwrap_or_default();
        match percent_decoded(encoded) {
            Some(url) => of_console(look_up(purging.proxy(), &url).await),
            None => of_console(Err("send url= and a URL, percent-encoded".to_owned())),
        }
    }
}

/// Answers `GET /capture?cache=http&share=0.01` with the lines of a trace, until the client leaves.
fn capture(request: &Request<ClientBody>, pages: &Pages) -> Response<Outgoing> {
    let query = request.uri().query().unwrap_or_default();
    let value = |name: &str| {
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    };
    let share = value("share")
        .unwrap_or("1")
        .parse()
        .ok()
        .filter(|share| *share > 0.0 && *share <= 1.0);
    let cache = value("cache").unwrap_or("http");
    let source = pages.sources.0.iter().find(|source| source.name() == cache);
    match (share, source) {
        (None, _) => page(
            StatusCode::BAD_REQUEST,
            TEXT,
            "larder: share is above 0 and at most 1\n".to_owned(),
        ),
        (_, None) => page(
            StatusCode::NOT_FOUND,
            TEXT,
            format!("larder: no cache {cache:?}; http or ndn\n"),
        ),
        (Some(share), Some(source)) => match source.capture(share) {
            Some(lines) => of_body(StatusCode::OK, "text/csv", Outgoing::Stream(lines.0)),
            None => unready("larder: as many captures run as this node allows; end one\n"),
        },
    }
}

/// Returns the answer to a request of the console's page.
fn of_console(result: Result<Value, String>) -> Response<Outgoing> {
    match result {
        Ok(value) => page(StatusCode::OK, JSON, format!("{value}\n")),
        Err(line) => page(StatusCode::BAD_REQUEST, TEXT, format!("larder: {line}\n")),
    }
}

fn refused(error: &PurgeError) -> Response<Outgoing> {
    let line = format!("larder: {error}\n");
    match error {
        PurgeError::Unauthorized => unauthorized(&line),
        _ => page(error.status(), TEXT, line),
    }
}

/// Returns the text of a percent-encoded value (RFC 3986 §2.1), if it is UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        bytes.push(*first);
        if *first == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            *bytes.last_mut()? = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

/// Converts OpenMetrics to Prometheus' older text format 0.0.4. There, HELP and TYPE of a counter
/// have the name of its samples with `_total` (otherwise readers treat the samples as untyped), and
/// nothing marks the end. The encoder writes HELP, then TYPE.
fn plain(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + 1024);
    let mut lines = open_metrics
        .lines()
        .filter(|line| *line != "# EOF")
        .peekable();
    while let Some(line) = lines.next() {
        let is_counter = |line: &str| line.starts_with("# TYPE ") && line.ends_with(" counter");
        let described =
            line.starts_with("# HELP ") && lines.peek().is_some_and(|next| is_counter(next));
        match line.splitn(4, ' ').collect::<Vec<_>>()[..] {
            [sign, keyword, name, rest] if described || is_counter(line) => {
                text.extend([sign, " ", keyword, " ", name, "_total ", rest]);
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}
