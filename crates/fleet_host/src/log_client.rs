//! The log, as async-nats reaches it.

use crate::config::FleetConfig;
use crate::error::Error;
use crate::limits;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::stream::{DirectGetErrorKind, RawMessageErrorKind, Stream};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, Event, HeaderMap, Message, ServerAddr, Subscriber};
use futures_util::StreamExt;
use futures_util::stream::{SelectAll, select_all};
use larder_fleet::{
    DELETED, LogDescription, LogEntry, Note, OPERATION, Publication, ReadAnswer, ReadFrom, Word,
    members_bucket,
};
use serde_json::json;
use std::time::Duration;
use tokio::sync::mpsc;

/// The key of the log's identity in the metadata of its stream.
pub(crate) const IDENTITY: &str = "larder-log";

/// The oldest server with what the log needs: messages that are republished with their sequences.
pub(crate) const SERVER: (i64, i64, i64) = (2, 11, 0);

/// The header that a message's id is in.
const ID: &str = "Nats-Msg-Id";
/// Headers of a republished message: its subject and sequence.
const SUBJECT: &str = "Nats-Subject";
const SEQUENCE: &str = "Nats-Sequence";

/// A connection to the servers of NATS, for the log of one fleet.
#[derive(Clone)]
pub(crate) struct LogClient {
    fleet: String,
    client: Client,
    context: Context,
}

/// The reason why the log has no description.
#[derive(Debug)]
pub(crate) enum NoDescription {
    /// There is no log of this fleet.
    NoLog,
    /// Nobody answers, as in the election of a leader.
    NoAnswer(String),
}

/// Returns true if a text is the address of a server, as [`FleetConfig::servers`] has it.
pub fn is_server(text: &str) -> bool {
    let is_known = ["nats://", "tls://"]
        .iter()
        .any(|scheme| text.starts_with(scheme));
    is_known && !text.contains('@') && text.parse::<ServerAddr>().is_ok()
}

/// Returns the name of a fleet's stream.
pub(crate) fn stream_name(fleet: &str) -> String {
    format!("LARDER_{fleet}")
}

impl LogClient {
    /// Connects, and reports events of the connection. With `waits`, it returns before the first
    /// server answers, and tries for ever.
    pub(crate) async fn connect(
        config: &FleetConfig,
        waits: bool,
        events: mpsc::UnboundedSender<Event>,
    ) -> Result<LogClient, Error> {
        let wrong = |error: &dyn std::fmt::Display| Error::Connect(error.to_string());
        let mut servers = Vec::new();
        for server in &config.servers {
            servers.push(
                server
                    .parse::<ServerAddr>()
                    .map_err(|error| wrong(&error))?,
            );
        }
        let mut options = ConnectOptions::new()
            .name(format!("larder {}", config.node))
            .subscription_capacity(limits::SUBSCRIPTION_ENTRIES)
            .request_timeout(Some(limits::REQUEST))
            .ping_interval(limits::PING)
            .reconnect_delay_callback(pause)
            .event_callback(move |event| {
                // The thread may have ended.
                let _ = events.send(event);
                std::future::ready(())
            });
        if let Some(ca) = &config.tls.ca {
            options = options.add_root_certificates(ca.clone()).require_tls(true);
        }
        if let Some((certificate, key)) = &config.tls.identity {
            options = options
                .add_client_certificate(certificate.clone(), key.clone())
                .require_tls(true);
        }
        if let Some(path) = &config.credentials {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| Error::Credentials(path.clone(), error))?;
            options = match text.trim().split_once(':') {
                Some((user, password)) => {
                    options.user_and_password(user.to_owned(), password.to_owned())
                }
                None => options.token(text.trim().to_owned()),
            };
        }
        if waits {
            options = options.retry_on_initial_connect().max_reconnects(None);
        }
        let client = options.connect(servers).await;
        let client = client.map_err(|error| wrong(&error))?;
        let mut context = jetstream::new(client.clone());
        context.set_timeout(limits::REQUEST);
        Ok(LogClient {
            fleet: config.name.clone(),
            client,
            context,
        })
    }

    /// Returns the version of the server, if there is a connection to one that is too old.
    pub(crate) fn is_too_old(&self) -> Option<String> {
        self.client.try_server_info()?;
        let (major, minor, patch) = SERVER;
        if self.client.is_server_compatible(major, minor, patch) {
            return None;
        }
        Some(self.client.server_info().version)
    }

    /// Returns the version of the server.
    pub(crate) fn version(&self) -> String {
        self.client.server_info().version
    }

    /// Waits until everything is written to the connection.
    pub(crate) async fn flush(&self) -> Result<(), String> {
        let flushed = tokio::time::timeout(limits::REQUEST, self.client.flush()).await;
        match flushed {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Subscribes to the republished entries.
    pub(crate) async fn subscribe(&self) -> Result<Subscriber, Error> {
        let subject = format!("larder.{}.log.>", self.fleet);
        let subscribed = self.client.subscribe(subject).await;
        subscribed.map_err(|error| Error::Server(error.to_string()))
    }

    /// Subscribes to the notes for a node of this name.
    pub(crate) async fn subscribe_notes(&self, node: &str) -> Result<SelectAll<Subscriber>, Error> {
        let mut subscribers = Vec::new();
        for subject in Note::subjects(&self.fleet, node) {
            let subscribed = self.client.subscribe(subject).await;
            subscribers.push(subscribed.map_err(|error| Error::Server(error.to_string()))?);
        }
        Ok(select_all(subscribers))
    }

    /// Reads a note.
    pub(crate) fn note(&self, message: &Message) -> Option<Note> {
        self.decode_note(&message.subject, message)
    }

    fn decode_note(&self, subject: &str, message: &Message) -> Option<Note> {
        let headers = message.headers.as_ref();
        let operation = headers.and_then(|headers| headers.get(OPERATION));
        let operation = operation.map(|operation| operation.as_str());
        Note::decode(&self.fleet, subject, operation, &message.payload)
    }

    /// Publishes a note. Nobody learns whether it arrives.
    pub(crate) async fn say(&self, note: &Note) {
        let (subject, payload) = (note.subject(&self.fleet), note.payload().into());
        let said = if note.word == Word::Left {
            let mut headers = HeaderMap::new();
            headers.insert(OPERATION, DELETED);
            let said = self.client.publish_with_headers(subject, headers, payload);
            said.await
        } else {
            self.client.publish(subject, payload).await
        };
        if let Err(error) = said {
            tracing::debug!(%error, "a note is not sent");
        }
    }

    /// Reads the names of the nodes with a lease from their bucket. `None` if it does not answer.
    pub(crate) async fn read_leases(&self) -> Option<Vec<String>> {
        let read = tokio::time::timeout(limits::REQUEST, self.leases());
        read.await.ok().flatten()
    }

    async fn leases(&self) -> Option<Vec<String>> {
        let bucket = members_bucket(&self.fleet);
        let inbox = self.client.new_inbox();
        let mut answers = self.client.subscribe(inbox.clone()).await.ok()?;
        let request = json!({ "multi_last": [format!("$KV.{bucket}.*")] }).to_string();
        let subject = format!("$JS.API.DIRECT.GET.KV_{bucket}");
        let asked = self
            .client
            .publish_with_reply(subject, inbox, request.into());
        asked.await.ok()?;
        let mut names = Vec::new();
        loop {
            let answer = answers.next().await?;
            match answer.status.map(|status| status.as_u16()) {
                None => {
                    let subject = answer.headers.as_ref()?.get(SUBJECT)?.as_str();
                    let note = self.decode_note(subject, &answer);
                    names.extend(
                        note.filter(|note| matches!(note.word, Word::Lease(_)))
                            .map(|note| note.node),
                    );
                }
                // The end, and nothing at all.
                Some(204 | 404) => return Some(names),
                Some(status) => {
                    tracing::debug!(status, "the leases of the fleet's nodes are not read");
                    return None;
                }
            }
        }
    }

    /// Reads a republished entry. `None` if it has no sequence: it is not the log's.
    pub(crate) fn entry(&self, message: &Message) -> Option<LogEntry> {
        let headers = message.headers.as_ref()?;
        let sequence = headers.get(SEQUENCE)?.as_str().parse().ok()?;
        let subject = headers.get(SUBJECT)?.as_str();
        Some(self.decode(subject, sequence, Some(headers), &message.payload))
    }

    fn decode(
        &self,
        subject: &str,
        sequence: u64,
        headers: Option<&HeaderMap>,
        payload: &[u8],
    ) -> LogEntry {
        let id = headers.and_then(|headers| headers.get(ID));
        LogEntry::decode(
            &self.fleet,
            subject,
            sequence,
            id.map(|id| id.as_str()),
            payload,
        )
    }

    /// Publishes a message, and returns its sequence in the log.
    pub(crate) async fn publish(&self, publication: &Publication) -> Result<u64, String> {
        let payload = publication.payload().map_err(|error| error.to_string())?;
        let message = PublishMessage::build()
            .message_id(&*publication.id)
            .payload(payload.into());
        let sent = self
            .context
            .send_publish(publication.subject(&self.fleet), message)
            .await;
        let acknowledged = sent.map_err(|error| error.to_string())?.await;
        acknowledged
            .map(|acknowledged| acknowledged.sequence)
            .map_err(|error| error.to_string())
    }

    /// Reads the description of the log from its leader.
    pub(crate) async fn describe(&self) -> Result<LogDescription, NoDescription> {
        let stream = self.context.get_stream(stream_name(&self.fleet)).await;
        let stream = stream.map_err(|error| match error.kind() {
            GetStreamErrorKind::JetStream(error)
                if error.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                NoDescription::NoLog
            }
            _ => NoDescription::NoAnswer(error.to_string()),
        })?;
        let info = stream.cached_info();
        let identity = info.config.metadata.get(IDENTITY).cloned();
        // Made by other means than Larder's: the time of its making tells it from another one.
        let identity = identity.unwrap_or_else(|| info.created.to_string());
        Ok(LogDescription {
            identity,
            first: info.state.first_sequence.max(1),
            last: info.state.last_sequence,
        })
    }

    /// Reads the entries of these sequences.
    pub(crate) async fn read(&self, from: u64, to: u64, source: ReadFrom) -> ReadAnswer {
        let stream = self.context.get_stream_no_info(stream_name(&self.fleet));
        let Ok(stream) = stream.await else {
            return ReadAnswer::Failed;
        };
        let reads = futures_util::stream::iter(from..=to)
            .map(|sequence| self.read_one(&stream, sequence, source))
            .buffered(limits::READS);
        let mut reads = std::pin::pin!(reads);
        let mut found = Vec::new();
        while let Some(read) = reads.next().await {
            match read {
                Ok(Some(entry)) => found.push(entry),
                Ok(None) if found.is_empty() => return ReadAnswer::NotFound,
                Err(()) if found.is_empty() => return ReadAnswer::Failed,
                // The rest is read again.
                Ok(None) | Err(()) => break,
            }
        }
        ReadAnswer::Found(found)
    }

    async fn read_one(
        &self,
        stream: &Stream<()>,
        sequence: u64,
        source: ReadFrom,
    ) -> Result<Option<LogEntry>, ()> {
        let read = match source {
            ReadFrom::AnyReplica => match stream.direct_get(sequence).await {
                Ok(message) => Some(message),
                Err(error) if error.kind() == DirectGetErrorKind::NotFound => None,
                Err(_) => return Err(()),
            },
            ReadFrom::Leader => match stream.get_raw_message(sequence).await {
                Ok(message) => Some(message),
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => None,
                Err(_) => return Err(()),
            },
        };
        Ok(read.map(|message| self.stored(sequence, &message)))
    }

    fn stored(&self, sequence: u64, message: &StreamMessage) -> LogEntry {
        self.decode(
            &message.subject,
            sequence,
            Some(&message.headers),
            &message.payload,
        )
    }
}

/// Returns the pause before a connection is tried: random, up to a bound that doubles.
fn pause(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1)).map_or(6, |times| times.min(6));
    let longest = Duration::from_millis(50 * 2u64.pow(doublings)).min(limits::RECONNECT_LONGEST);
    let [random] = larder_host::entropy::words();
    longest.mul_f64(random as f64 / u64::MAX as f64)
}
