//! The console: a page in the browser that shows what the node does, live.
//!
//! ```text
//! admin thread, once a second:  status page ─► Reading ─► Point ─┬─► History (hour, day, file)
//!                                                                └─► streams of open pages
//! ```
//!
//! The page's own files (`assets.rs`) hold no figures, so everybody may read them. Everything else
//! is for the clients of `access.rs`. The page reads one stream of server-sent events (HTML §9.2)
//! with `fetch`, because the token is sent in a header.

mod access;
mod assets;
mod history;
mod reading;
mod warnings;

pub(crate) use access::is_of_own_page;
pub(crate) use warnings::warnings;

use crate::admin_body::AdminBody;
use crate::admin_reply::{TEXT, of_body, page, unauthorized, unready};
use crate::limits;
use crate::token::AdminToken;
use ::http::header::ACCEPT;
use ::http::{HeaderMap, Response, StatusCode};
use access::Refused;
use bytes::Bytes;
use history::{History, HistoryWriter};
use larder_host::Peer;
use reading::Reading;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, watch};

/// The console of a node. It outlives the admin servers that serve it, and their figures.
pub struct Console {
    token: AdminToken,
    started: Instant,
    ticks: AtomicU64,
    state: Mutex<State>,
    writer: Arc<HistoryWriter>,
    /// The events of the last second.
    events: watch::Sender<Events>,
    /// Changed when all streams have to end.
    ends: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    history: History,
    last: Option<Reading>,
    /// The file of the history.
    file: Option<PathBuf>,
}

/// What open pages get.
#[derive(Clone, Default)]
struct Events {
    point: Bytes,
    /// The whole status page, which is sent now and then.
    status: Bytes,
    status_is_new: bool,
}

impl Default for Console {
    fn default() -> Console {
        Console::new(None)
    }
}

impl Console {
    /// Creates a console for clients of this machine, and for those with the token, if there is
    /// one.
    pub fn new(token: Option<&str>) -> Console {
        Console {
            token: AdminToken::new(token),
            started: Instant::now(),
            ticks: AtomicU64::new(0),
            state: Mutex::default(),
            writer: Arc::default(),
            events: watch::Sender::new(Events::default()),
            ends: watch::Sender::new(()),
        }
    }

    /// Sets a token, or none. Returns true if it is another one than before: what clients have
    /// opened with the former one has to end, by `AdminPages::end_streams`.
    pub fn set_token(&self, token: Option<&str>) -> bool {
        self.token.set(token)
    }

    /// Returns JSON pointers (RFC 6901) to the figures of the status page that the console draws,
    /// or warns of.
    pub fn pointers() -> impl Iterator<Item = &'static str> {
        reading::pointers().chain(warnings::pointers())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the history in this file, and begins with what an earlier process has left there.
    pub fn keep_history(&self, file: PathBuf) {
        let mut state = self.state();
        if let Err(error) = state.history.restore(&file, unix_seconds()) {
            tracing::warn!(file = %file.display(), %error, "the console begins without its history");
        }
        state.file = Some(file);
    }

    /// Writes the file of the history a last time: another process goes on with it, or this one
    /// ends. Waits for a disk that hangs no longer than [`limits::HISTORY_LEAVE`].
    pub fn leave_history(&self) {
        let history = self.state().to_write();
        if let Some((file, text)) = history {
            self.writer.leave(&file, text, limits::HISTORY_LEAVE);
        }
    }

    /// Takes the file back, because that process has failed.
    pub fn take_back_history(&self) {
        self.writer.take_back();
    }

    /// Takes a reading of the status page, if one is due: each second while a page is open, else
    /// now and then. `status` makes that page.
    pub(crate) fn tick(&self, status: impl FnOnce() -> Value) {
        let number = self.ticks.fetch_add(1, Ordering::Relaxed);
        let is_watched = self.events.receiver_count() > 0;
        if !is_watched && !number.is_multiple_of(limits::HISTORY_HOUR.0) {
            return;
        }
        let (status, now) = (status(), unix_seconds());
        let reading = Reading::new(&status, self.started.elapsed().as_secs_f64());
        let (point, more, history) = {
            let mut state = self.state();
            let more = state.history.add(&reading, now);
            let is_due = number.is_multiple_of(limits::HISTORY_SAVE_SECONDS);
            let history = is_due.then(|| state.to_write()).flatten();
            let point = state.last.as_ref().map(|before| reading.since(before, now));
            state.last = Some(reading);
            (point, more, history)
        };
        if let Some((file, text)) = history {
            self.writer.write_apart(file, text);
        }
        self.events.send_modify(|events| {
            if let Some(point) = point {
                let more = more
                    .iter()
                    .map(|(ring, point)| event(ring, &point.to_json()));
                let all: Vec<Bytes> = std::iter::once(event("point", &point.to_json()))
                    .chain(more)
                    .collect();
                events.point = Bytes::from(all.concat());
            }
            events.status_is_new =
                number.is_multiple_of(limits::CONSOLE_STATUS_SECONDS) || events.status.is_empty();
            if events.status_is_new {
                events.status = event("status", &status);
            }
        });
    }

    /// Returns true if a request for `/` is one for the page.
    pub(crate) fn is_for_page(headers: &HeaderMap) -> bool {
        let accepted = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|field| field.to_str().ok());
        accepted.flat_map(|field| field.split(',')).any(|kind| {
            let kind = kind.split(';').next().unwrap_or_default();
            kind.trim().eq_ignore_ascii_case("text/html")
        })
    }

    /// Returns a file of the page; `/` is the page itself.
    pub(crate) fn file(path: &str) -> Option<Response<AdminBody>> {
        assets::file(path)
    }

    /// Returns the refusal for a client that may not read the console.
    pub(crate) fn refusal(&self, headers: &HeaderMap, peer: Peer) -> Option<Response<AdminBody>> {
        access::check(headers, peer, &self.token)
            .err()
            .map(|refused| self.explain(refused))
    }

    /// Returns the refusal for a client that may not read the status page.
    pub(crate) fn refusal_of_status(&self, headers: &HeaderMap) -> Option<Response<AdminBody>> {
        access::check_status(headers, &self.token)
            .err()
            .map(|refused| self.explain(refused))
    }

    fn explain(&self, refused: Refused) -> Response<AdminBody> {
        match refused {
            Refused::OtherSite => of_other_site(),
            Refused::NoToken if self.token.is_set() => {
                unauthorized("larder: send Authorization: Bearer and the [admin] token\n")
            }
            Refused::NoToken => {
                let line =
                    "larder: the console serves this machine only; set [admin] token to open it\n";
                page(StatusCode::FORBIDDEN, TEXT, line.to_owned())
            }
            Refused::HostName => {
                let line = "larder: name this node by an address or localhost, or send the [admin] token\n";
                page(StatusCode::MISDIRECTED_REQUEST, TEXT, line.to_owned())
            }
        }
    }

    /// Returns the stream of events: the history, the status page, then a point each second.
    pub(crate) fn stream(self: &Arc<Self>, status: impl FnOnce() -> Value) -> Response<AdminBody> {
        if self.events.receiver_count() >= limits::CONSOLE_STREAMS {
            return unready("larder: as many pages show the console as it serves; close one\n");
        }
        let (mut changes, mut end) = (self.events.subscribe(), self.ends.subscribe());
        let (sender, body) = mpsc::channel(1);
        let first = [
            event("history", &self.state().history.to_json()),
            event("status", &status()),
        ]
        .concat();
        tokio::spawn(async move {
            let mut next = Bytes::from(first);
            loop {
                // Fails when the client has left.
                if sender.send(next).await.is_err() {
                    return;
                }
                let changed = tokio::select! {
                    changed = changes.changed() => changed,
                    _ = end.changed() => return,
                    () = sender.closed() => return,
                };
                if changed.is_err() {
                    return;
                }
                let events = changes.borrow_and_update().clone();
                next = if events.status_is_new {
                    Bytes::from([events.status, events.point].concat())
                } else {
                    events.point
                };
            }
        });
        let mut response = of_body(StatusCode::OK, "text/event-stream", AdminBody::Stream(body));
        assets::protect(response.headers_mut());
        response
    }

    /// Ends the streams: the server of this console stops.
    pub(crate) fn end_streams(&self) {
        self.ends.send_replace(());
    }
}

/// Returns the refusal for a page of another site.
pub(crate) fn of_other_site() -> Response<AdminBody> {
    page(
        StatusCode::FORBIDDEN,
        TEXT,
        "larder: a page of another site has sent this\n".to_owned(),
    )
}

impl State {
    /// Returns the file of the history, and its content.
    fn to_write(&self) -> Option<(PathBuf, String)> {
        Some((self.file.clone()?, self.history.to_json().to_string()))
    }
}

/// Returns one server-sent event (HTML §9.2.5). JSON has no line breaks.
fn event(name: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
