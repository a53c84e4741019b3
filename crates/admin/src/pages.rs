//! The answers of the admin server: `/metrics` in Prometheus' text format, `/status` as one JSON
//! page, `/healthz` and `/readyz` for a supervisor, and `/` with links: for a browser, the console
//! (`console/`). These pages only read, and need no authorization, except the figures of the
//! console, and `/capture`, the traffic as a trace. No page of another site may read them. `POST
//! /purge` (`purging.rs`), `/reload` and `/upgrade` (`commands.rs`) need a token, and are disabled
//! without one.
//!
//! Until the parts of the node run, `/readyz` and the pages with figures answer 503.

use crate::admin_body::AdminBody;
use crate::admin_reply::{JSON, TEXT, not_allowed, of_body, page, unauthorized, unready};
use crate::commands::{self, NodeCommand, NodeCommands};
use crate::console::{Console, is_of_own_page, of_other_site};
use crate::purging::{PurgeError, Purging};
use crate::source::{STARTED, Sources, StatusSource};
use ::http::header::ACCEPT;
use ::http::request::Parts;
use ::http::{HeaderMap, Method, Request, Response, StatusCode};
use bytes::Bytes;
use hyper::body::Body;
use larder_host::Peer;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use serde_json::Value;
use std::error;
use std::fmt;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// The state of the node, as `/readyz` tells it, and its pages.
pub struct AdminPages {
    console: Arc<Console>,
    /// The pages; none while the node starts.
    pages: RwLock<Option<Arc<Pages>>>,
    /// True when the node takes no new requests.
    is_stopping: watch::Sender<bool>,
}

impl AdminPages {
    /// Returns the pages of a node that is alive and not ready.
    pub fn new(console: &Arc<Console>) -> AdminPages {
        LazyLock::force(&STARTED);
        AdminPages {
            console: Arc::clone(console),
            pages: RwLock::default(),
            is_stopping: watch::Sender::new(false),
        }
    }

    /// Serves the figures of `sources`, purges if they are enabled, and commands for the node, in
    /// the place of those of an earlier call. The node is ready.
    pub fn serve(
        &self,
        sources: Vec<Arc<dyn StatusSource>>,
        purging: Option<Arc<Purging>>,
        commands: Option<Arc<NodeCommands>>,
    ) {
        let sources = Arc::new(Sources(sources));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Arc::clone(&sources)));
        let pages = Some(Arc::new(Pages {
            sources,
            registry,
            purging,
            commands,
        }));
        *self.pages.write().unwrap_or_else(PoisonError::into_inner) = pages;
    }

    /// Tells at `/readyz` that the node stops. Commands have no outcome any more.
    pub fn set_stopping(&self) {
        self.is_stopping.send_replace(true);
    }

    /// Answers a command with its outcome, unless the node stops before.
    async fn execute(
        &self,
        commands: &NodeCommands,
        headers: &HeaderMap,
        command: NodeCommand,
    ) -> Response<AdminBody> {
        let mut is_stopping = self.is_stopping.subscribe();
        tokio::select! {
            biased;
            answer = commands.respond(headers, command) => answer,
            _ = is_stopping.wait_for(|is_stopping| *is_stopping) => {
                unready("larder: this admin server stops: the outcome is in the log\n")
            }
        }
    }

    /// Ends the answers that do not end by themselves: open consoles and captures.
    pub fn end_streams(&self) {
        self.console.end_streams();
        if let Some(pages) = self.pages() {
            for source in &pages.sources.0 {
                source.end_captures();
            }
        }
    }

    fn pages(&self) -> Option<Arc<Pages>> {
        self.pages
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes readings for the console, until the thread ends.
    pub async fn take_readings(self: Arc<Self>) {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            seconds.tick().await;
            if let Some(pages) = self.pages() {
                self.console.tick(|| pages.sources.console());
            }
        }
    }

    /// Answers a request of this client.
    pub async fn respond<B>(&self, request: Request<B>, peer: Peer) -> Response<AdminBody>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn error::Error + Send + Sync>>,
    {
        let (request, body) = request.into_parts();
        let (pages, path) = (self.pages(), request.uri.path());
        let command = NodeCommand::of(path);
        let is_order = command.is_some() || matches!(path, "/purge" | "/console/apply");
        let is_reading = request.method == Method::GET || request.method == Method::HEAD;
        if !is_order && !is_reading {
            return not_allowed("GET, HEAD", "larder: GET and HEAD only\n");
        }
        if let Some(file) =
            Console::file(path).filter(|_| path != "/" || Console::is_for_page(&request.headers))
        {
            return file;
        }
        if !is_of_own_page(&request.headers) {
            return of_other_site();
        }
        match (path, pages) {
            ("/healthz", _) => page(StatusCode::OK, TEXT, "alive\n".to_owned()),
            ("/readyz", Some(pages)) if !*self.is_stopping.borrow() => {
                page(StatusCode::OK, TEXT, pages.sources.readiness())
            }
            ("/readyz", Some(_)) => unready("larder: the node stops\n"),
            (_, None) => unready("larder: the node starts\n"),
            (_, Some(_)) if is_order && request.method != Method::POST => {
                not_allowed("POST", "larder: POST only\n")
            }
            (_, Some(pages)) if let Some(command) = command => match &pages.commands {
                Some(commands) => self.execute(commands, &request.headers, command).await,
                None => commands::disabled(),
            },
            ("/purge", Some(pages)) => pages.purge(&request, body).await,
            ("/console/apply", Some(pages)) => pages.apply(&request, body).await,
            (_, Some(pages)) if path == "/capture" || path.starts_with("/console/") => {
                self.show_to_authorized(&request, peer, &pages).await
            }
            ("/status", Some(pages)) => {
                let refusal = self.console.refusal_of_status(&request.headers);
                refusal.unwrap_or_else(|| pages.show(&request))
            }
            (_, Some(pages)) => pages.show(&request),
        }
    }

    /// Answers a request that only clients of the console may send.
    async fn show_to_authorized(
        &self,
        request: &Parts,
        peer: Peer,
        pages: &Pages,
    ) -> Response<AdminBody> {
        let refusal = || self.console.refusal(&request.headers, peer);
        if let Some(refusal) = refusal() {
            return refusal;
        }
        let answer = match request.uri.path() {
            "/capture" => capture(request, pages),
            _ => self.show_console(request, pages).await,
        };
        // The token may have changed meanwhile, and `end_streams` may have missed this answer.
        refusal().unwrap_or(answer)
    }

    /// Answers a request of the console's page.
    async fn show_console(&self, request: &Parts, pages: &Pages) -> Response<AdminBody> {
        match request.uri.path() {
            "/console/events" if request.method == Method::GET => {
                self.console.stream(|| pages.sources.console())
            }
            "/console/lookup" => pages.look_up(request.uri.query().unwrap_or_default()).await,
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
    commands: Option<Arc<NodeCommands>>,
}

impl Pages {
    fn show(&self, request: &Parts) -> Response<AdminBody> {
        const INDEX: &str = "larder: admin (a browser gets the console here)\n\n/metrics  counters and levels for Prometheus\n/status   the same and more, as JSON\n\
            /healthz  200: the process is alive\n/readyz   200: the node takes requests; 503: it starts or stops\n\
            /capture  the requests as lines of a trace, without names: ?cache=http or ndn, &share=0.01 of the keys\n\
            /purge    takes responses out of the HTTP cache: POST {\"url\": \"http://host/path\"}, or prefix, tag, everything; with soft\n\
            /reload   reads the configuration again: POST, with the token\n/upgrade  starts the program again, which takes over: POST, with the token\n";
        match request.uri.path() {
            "/" => page(StatusCode::OK, TEXT, INDEX.to_owned()),
            "/status" => page(
                StatusCode::OK,
                JSON,
                format!("{:#}\n", self.sources.status()),
            ),
            "/metrics" => {
                let accept = request
                    .headers
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

    async fn purge<B>(&self, request: &Parts, body: B) -> Response<AdminBody>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn error::Error + Send + Sync>>,
    {
        let Some(purging) = &self.purging else {
            return refused(&PurgeError::Disabled);
        };
        match purging.respond(&request.headers, body).await {
            Ok(answer) => page(StatusCode::OK, JSON, format!("{answer}\n")),
            Err(error) => refused(&error),
        }
    }

    async fn apply<B>(&self, request: &Parts, body: B) -> Response<AdminBody>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn error::Error + Send + Sync>>,
    {
        let Some(purging) = &self.purging else {
            return refused(&PurgeError::Disabled);
        };
        match purging.read(&request.headers, body).await {
            Ok(body) => of_console(purging.cache().apply(&body)),
            Err(error) => refused(&error),
        }
    }

    async fn look_up(&self, query: &str) -> Response<AdminBody> {
        let Some(purging) = &self.purging else {
            return of_console(Err("the node serves no HTTP".to_owned()));
        };
        let encoded = query.strip_prefix("url=").unwrap_or_default();
        match percent_decoded(encoded) {
            Some(url) => of_console(purging.cache().look_up(&url).await),
            None => of_console(Err("send url= and a URL, percent-encoded".to_owned())),
        }
    }
}

/// Answers `GET /capture?cache=http&share=0.01` with the lines of a trace, until the client leaves.
fn capture(request: &Parts, pages: &Pages) -> Response<AdminBody> {
    let query = request.uri.query().unwrap_or_default();
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
            Some(lines) => of_body(StatusCode::OK, "text/csv", AdminBody::Stream(lines.0)),
            None => unready("larder: as many captures run as this node allows; end one\n"),
        },
    }
}

/// Returns the answer to a request of the console's page.
fn of_console(result: Result<Value, String>) -> Response<AdminBody> {
    match result {
        Ok(value) => page(StatusCode::OK, JSON, format!("{value}\n")),
        Err(line) => page(StatusCode::BAD_REQUEST, TEXT, format!("larder: {line}\n")),
    }
}

fn refused(error: &PurgeError) -> Response<AdminBody> {
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
