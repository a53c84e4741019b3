//! The ingress: a thread that fetches over NDN for the HTTP side. It owns a connection to this
//! node's forwarder and the [`Fetches`]. HTTP's tasks pass requests to it and get responses through
//! channels.

mod fetches;
mod status;

pub use fetches::{Ask, Event, Failure, Fetches, Figures};

use super::keys::KeyFiles;
use super::message::{Content, Head, MessageError, Request};
use super::naming::Object;
use super::thread::{Running, Shown, Work, connect};
use super::{form, limits, request_form};
use crate::error::Error;
use ::http::{HeaderMap, Method, StatusCode};
use bytes::Bytes;
use larder_client::entropy;
use larder_client::{Client, ClientError, Received};
use larder_packet::Name;
use larder_transfer::PathFeedback;
use larder_units::{Streams, Time};
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc as pieces};

/// `[http.upstream]`
#[derive(Clone, Debug)]
pub struct IngressConfig {
    /// The egress's prefix.
    pub prefix: Name,
    /// The keys that verify the egress's signatures.
    pub trust: KeyFiles,
    /// This node's forwarder.
    pub forwarder: PathBuf,
}

/// The running ingress.
pub struct Ingress {
    handle: Arc<Handle>,
    running: Running,
}

/// A handle on the ingress's thread.
pub struct Handle {
    prefix: Name,
    commands: Mutex<Sender<Command>>,
    waker: Arc<mio::Waker>,
    next_id: AtomicU64,
    /// Places for [`limits::FETCHES`].
    places: Arc<Semaphore>,
    figures: Shown<Figures>,
}

enum Command {
    Begin(u64, Box<Ask>, pieces::UnboundedSender<Event>),
    Taken(u64, usize),
    Cancel(u64),
}

/// A request of an HTTP client, with its whole body.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    /// The method.
    pub method: Method,
    /// The object's authority.
    pub authority: String,
    /// Path and query.
    pub target: String,
    /// The fields.
    pub headers: HeaderMap,
    /// The body, at most [`limits::REQUEST_BYTES`].
    pub body: Bytes,
}

/// The reason why a request has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskError {
    /// It does not fit an Interest: the status for the client, and a line.
    Refused(StatusCode, &'static str),
    /// No valid answer came.
    Failed(Failure),
    /// The ingress's thread is gone.
    Stopped,
}

/// The table of its configuration.
const TABLE: &str = "[http.upstream]";

impl IngressConfig {
    /// Reads its keys, as [`Ingress::start`] does.
    ///
    /// # Errors
    /// One line that names the setting and the problem.
    pub fn check(&self) -> Result<(), Error> {
        self.trust.verifier(TABLE)?;
        self.trust.request_signer(TABLE).map(drop)
    }
}

impl Ingress {
    /// Connects to the forwarder and starts the thread, which calls `on_end` when it ends.
    ///
    /// # Errors
    /// One line that names the setting and the problem.
    pub fn start(
        config: &IngressConfig,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Ingress, Error> {
        let trust = config.trust.verifier(TABLE)?;
        if trust.is_none() {
            let prefix = &config.prefix;
            tracing::warn!(%prefix, "[http.upstream] has neither trust nor secret: whoever is on the way can answer in the far node's name");
        }
        let (client, waker) = connect(TABLE, &config.forwarder)?;
        let (commands, receiver) = channel();
        let figures = Shown::default();
        let [seed] = entropy::words();
        let fetches =
            Fetches::new(trust, Streams::new(seed)).signing(config.trust.request_signer(TABLE)?);
        let handle = Arc::new(Handle {
            prefix: config.prefix.clone(),
            commands: Mutex::new(commands),
            waker: Arc::clone(&waker),
            next_id: AtomicU64::new(0),
            places: Arc::new(Semaphore::new(limits::FETCHES)),
            figures: figures.clone(),
        });
        let worker = Worker {
            client,
            fetches,
            readers: HashMap::new(),
            commands: receiver,
            figures,
        };
        let running = Running::start("edge", TABLE, waker, worker, on_end)?;
        Ok(Ingress { handle, running })
    }

    /// Returns a handle on it.
    pub fn handle(&self) -> Arc<Handle> {
        Arc::clone(&self.handle)
    }

    /// Returns its figures, for the admin server.
    pub fn source(&self) -> Arc<dyn larder_admin::StatusSource> {
        Arc::new(status::EdgeSource(Arc::clone(&self.handle)))
    }

    /// Returns true if nothing else has a handle on it: no origin, request or body uses it.
    pub fn is_idle(&self) -> bool {
        Arc::strong_count(&self.handle) == 1
    }

    /// Ends the thread. Transfers in progress break off.
    pub fn stop(self) {
        self.running.stop();
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl Handle {
    /// Returns the egress's prefix.
    pub fn prefix(&self) -> &Name {
        &self.prefix
    }

    /// Sends a request to the egress. Returns the head, and a body to read.
    ///
    /// # Errors
    /// [`AskError`] if there is no response.
    pub async fn ask(self: &Arc<Self>, request: ClientRequest) -> Result<(Head, Body), AskError> {
        let ask = self.prepare(request)?;
        let place = Arc::clone(&self.places)
            .acquire_owned()
            .await
            .map_err(|_| AskError::Stopped)?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, pieces) = pieces::unbounded_channel();
        self.command(Command::Begin(id, Box::new(ask), sender));
        let mut body = Body {
            handle: Arc::clone(self),
            id,
            pieces,
            left: None,
            ended: false,
            _place: place,
        };
        match body.pieces.recv().await {
            Some(Event::Head(head)) => {
                if let Content::Inline(_) = head.body {
                    body.ended = true;
                }
                if let Content::Segments { length, .. } = head.body {
                    body.left = length;
                }
                Ok((head, body))
            }
            Some(Event::Failed(failure)) => Err(AskError::Failed(failure)),
            _ => Err(AskError::Stopped),
        }
    }

    fn prepare(&self, request: ClientRequest) -> Result<Ask, AskError> {
        let ClientRequest {
            method,
            authority,
            target,
            mut headers,
            body,
        } = request;
        let refused = |status, line| Err(AskError::Refused(status, line));
        if !request_form::is_method(&method) {
            return refused(
                StatusCode::NOT_IMPLEMENTED,
                "larder: this method does not pass over NDN\n",
            );
        }
        let Some(object) = Object::new(self.prefix.as_name(), &authority, &target) else {
            return refused(
                StatusCode::NOT_IMPLEMENTED,
                "larder: only paths can be asked for over NDN\n",
            );
        };
        if !request_form::is_authority(&authority) || !request_form::is_target(&target) {
            return refused(
                StatusCode::BAD_REQUEST,
                "larder: this host or path does not pass over NDN\n",
            );
        }
        if object.name.as_bytes().len() > limits::NAME_BYTES {
            return refused(
                StatusCode::URI_TOO_LONG,
                "larder: the URL is too long for an NDN name\n",
            );
        }
        if body.len() > limits::REQUEST_BYTES {
            return refused(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE);
        }
        let shared = form::shared(&method, !body.is_empty(), &headers);
        super::message::strip_connection(&mut headers);
        let [unique] = entropy::words();
        let request = Request {
            method,
            headers,
            body,
            unique: Some(unique),
        };
        if request.headers.len() > limits::FIELDS || request.encode().len() > limits::REQUEST_BYTES
        {
            let body_alone = request.body.len() > limits::REQUEST_BYTES / 2;
            return if body_alone {
                refused(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE)
            } else {
                let line = "larder: the request's fields are too large for an NDN Interest\n";
                refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, line)
            };
        }
        let Request {
            method,
            headers,
            body,
            ..
        } = request;
        Ok(Ask {
            object,
            method,
            shared,
            headers,
            body,
            unique,
        })
    }

    fn command(&self, command: Command) {
        // Fails if the thread is gone; then the channels of its fetches have ended, too.
        let _ = self
            .commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(command);
        let _ = self.waker.wake();
    }
}

/// The message to a client whose body is too large for an Interest.
pub const TOO_LARGE: &str = "larder: the request's body is too large to pass over NDN\n";

/// The body of a response, while it arrives.
pub struct Body {
    handle: Arc<Handle>,
    id: u64,
    pieces: pieces::UnboundedReceiver<Event>,
    left: Option<u64>,
    ended: bool,
    _place: OwnedSemaphorePermit,
}

impl Body {
    /// Returns the next piece; `None` at the end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let Poll::Ready(event) = self.pieces.poll_recv(cx) else {
            return Poll::Pending;
        };
        Poll::Ready(match event {
            Some(Event::Piece(bytes)) => {
                self.left = self
                    .left
                    .map(|left| left.saturating_sub(bytes.len() as u64));
                self.handle.command(Command::Taken(self.id, bytes.len()));
                Some(Ok(bytes))
            }
            Some(Event::End) => {
                self.ended = true;
                let short = self.left.is_some_and(|left| left > 0);
                short.then_some(Err(Failure::Malformed(MessageError::Structure)))
            }
            Some(Event::Failed(failure)) => {
                self.ended = true;
                Some(Err(failure))
            }
            Some(Event::Head(_)) | None => {
                self.ended = true;
                Some(Err(Failure::NoAnswer))
            }
        })
    }

    /// Returns the bytes still to come, if that is known.
    pub fn left(&self) -> Option<u64> {
        if self.ended { Some(0) } else { self.left }
    }

    /// Returns true if it has been read to its end.
    pub fn is_at_end(&self) -> bool {
        self.ended
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if !self.ended {
            self.handle.command(Command::Cancel(self.id));
        }
    }
}

/// The resources of the thread.
struct Worker {
    client: Client,
    fetches: Fetches,
    readers: HashMap<u64, pieces::UnboundedSender<Event>>,
    commands: Receiver<Command>,
    figures: Shown<Figures>,
}

impl Work for Worker {
    fn turn(&mut self) -> Result<(), ClientError> {
        let now = self.client.now();
        let mut events = Vec::new();
        while let Ok(command) = self.commands.try_recv() {
            self.obey(now, command);
        }
        self.fetches.on_timeout(now, &mut events);
        self.deliver(&mut events);
        while self
            .client
            .output()
            .send(None, |out| self.fetches.poll(now, out))
        {}
        self.figures.set(self.fetches.figures());
        let (client, fetches) = (&mut self.client, &mut self.fetches);
        client.receive(fetches.next_timeout(), |now, received, _| {
            on_packet(now, received, fetches, &mut events)
        })?;
        self.deliver(&mut events);
        Ok(())
    }

    fn end(self) {}
}

impl Worker {
    fn obey(&mut self, now: Time, command: Command) {
        match command {
            Command::Begin(id, ask, reader) => {
                self.readers.insert(id, reader);
                self.fetches.begin(now, id, *ask);
            }
            Command::Taken(id, bytes) => self.fetches.taken(id, bytes),
            Command::Cancel(id) => {
                self.readers.remove(&id);
                self.fetches.cancel(id);
            }
        }
    }

    /// Delivers events. Figures come first, so that an answer is counted before its reader has it.
    fn deliver(&mut self, events: &mut Vec<(u64, Event)>) {
        self.figures.set(self.fetches.figures());
        for (id, event) in events.drain(..) {
            let is_last = matches!(event, Event::End | Event::Failed(_));
            if let Event::Failed(failure) = &event {
                tracing::debug!(%failure, "[http.upstream] a fetch has failed");
            }
            // A reader that has gone has sent that, or is about to.
            let Some(reader) = self.readers.get(&id) else {
                continue;
            };
            let _ = reader.send(event);
            if is_last {
                self.readers.remove(&id);
            }
        }
    }
}

fn on_packet(
    now: Time,
    received: Received<'_>,
    fetches: &mut Fetches,
    events: &mut Vec<(u64, Event)>,
) {
    match received {
        Received::Data {
            data,
            marked,
            granted_rate,
        } => {
            fetches.on_data(
                now,
                &data,
                PathFeedback {
                    marked,
                    granted_rate,
                },
                events,
            );
        }
        Received::Nack { interest, reason } => fetches.on_nack(now, interest.name, reason, events),
        Received::Interest { .. } => {}
    }
}
