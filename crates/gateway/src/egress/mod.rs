//! The egress: answers questions under its prefix with the responses of an HTTP origin. One thread
//! owns a connection to this node's forwarder and the [`EgressCore`]; another one runs the requests
//! to the origin.

mod body;
mod body_version;
mod data;
mod egress_core;
mod exchange;
mod orders;
mod origin;
mod replay_filter;
mod reply_cache;
mod status;

pub use egress_core::{EgressCore, EgressOptions};
pub use exchange::{Figures, OriginHead, OriginRequest, Outcome, Reply};

use super::keys::KeyFiles;
use super::thread::{Running, Shown, Work, connect};
use crate::error::Error;
use ::http::Uri;
use larder_client::{Client, ClientError, CommandKey, Output, Received};
use larder_packet::{CertificateServer, LpHeader, Name, Signer};
use larder_units::ByteSize;
use origin::{FromOrigin, Requests};
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `[ndn.gateway]`
#[derive(Clone, Debug)]
pub struct EgressConfig {
    /// The prefix.
    pub prefix: Name,
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub origin: Uri,
    /// The certificates that verify an https origin; the system's without a file.
    pub origin_ca: Option<PathBuf>,
    /// The keys that sign.
    pub key: KeyFiles,
    /// The key that signs commands to the forwarder, if it asks for one.
    pub command_key: Option<CommandKey>,
    /// Bytes of answers and bodies at once.
    pub memory: ByteSize,
    /// The longest freshness of an answer for caches on the path.
    pub shared_for: Duration,
    /// This node's forwarder.
    pub forwarder: PathBuf,
}

/// A running egress.
pub struct Egress {
    running: Running,
    figures: Shown<Figures>,
    prefix: Name,
}

/// Room for two bodies of unknown length, and some answers.
pub const LEAST_MEMORY: ByteSize = ByteSize::from_mib(20);

/// The table of its configuration.
const TABLE: &str = "[ndn.gateway]";

impl EgressConfig {
    /// Reads its keys, and the certificates that verify its origin, as [`Egress::start`] does.
    ///
    /// # Errors
    /// One line that names the setting and the problem.
    pub fn check(&self) -> Result<(), Error> {
        self.key.signer(TABLE, &self.prefix)?;
        self.key.request_verifier(TABLE)?;
        self.command_signer()?;
        origin::trust_of(&self.origin, self.origin_ca.as_deref()).map(drop)
    }

    fn command_signer(&self) -> Result<Option<Box<dyn Signer>>, Error> {
        self.command_key
            .as_ref()
            .map(CommandKey::read)
            .transpose()
            .map_err(Error::CommandKey)
    }

    /// Returns what distinguishes its bodies from those of egresses with another key or origin.
    fn identity(&self) -> Result<[u8; 32], Error> {
        let mut hash = Sha256::new();
        hash.update(self.key.fingerprint(TABLE)?);
        hash.update(self.origin.to_string());
        Ok(hash.finalize().into())
    }
}

impl Egress {
    /// Registers the prefix and starts the threads. `on_end` is called when they have ended.
    ///
    /// # Errors
    /// One line that names the setting and the problem.
    pub fn start(
        config: &EgressConfig,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Egress, Error> {
        let prefix = &config.prefix;
        let signer = config.key.signer(TABLE, prefix)?;
        let certificates = config.key.certificates(TABLE, prefix)?;
        if config.key == KeyFiles::default() {
            tracing::warn!(%prefix, "[ndn.gateway] has neither key nor secret: whoever is on the way can answer in this node's name");
        }
        let (mut client, waker) = connect(TABLE, &config.forwarder)?;
        if let Some(signer) = config.command_signer()? {
            client.sign_commands(signer);
        }
        if let Err(error) = client.learn_incoming_faces() {
            tracing::warn!(%error, "[ndn.gateway] cannot tell requesters apart: one of them can take all places");
        }
        client.register(prefix).map_err(Error::Prefix)?;
        let options = EgressOptions {
            memory: usize::try_from(config.memory.bytes()).unwrap_or(usize::MAX),
            shared_for: config.shared_for,
            targets: vec![::http::HeaderName::from_static("cdn-cache-control")],
            identity: config.identity()?,
        };
        let version = u64::try_from(since_1970().as_micros()).unwrap_or(u64::MAX);
        let core = EgressCore::new(
            prefix.clone(),
            signer,
            options,
            version,
            larder_client::entropy::words(),
        )
        .asked_by(config.key.request_verifier(TABLE)?);
        let (events, receiver) = channel();
        let requests = Requests::start(
            &config.origin,
            config.origin_ca.as_deref(),
            events,
            Arc::clone(&waker),
        )?;
        let figures = Shown::default();
        let worker = Worker {
            client,
            core,
            certificates,
            requests,
            events: receiver,
            figures: figures.clone(),
        };
        let running = Running::start("gateway", TABLE, waker, worker, on_end)?;
        Ok(Egress {
            running,
            figures,
            prefix: prefix.clone(),
        })
    }

    /// Returns the prefix.
    pub fn prefix(&self) -> &Name {
        &self.prefix
    }

    /// Returns its figures, for the admin server.
    pub fn source(&self) -> Arc<dyn larder_admin::StatusSource> {
        Arc::new(status::FarSource(self.figures.clone()))
    }

    /// Ends the threads. Transfers in progress break off.
    pub fn stop(self) {
        self.running.stop();
    }
}

fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// The resources of the thread.
struct Worker {
    client: Client,
    core: EgressCore,
    certificates: CertificateServer,
    requests: Requests,
    events: Receiver<(u64, FromOrigin)>,
    figures: Shown<Figures>,
}

impl Work for Worker {
    fn turn(&mut self) -> Result<(), ClientError> {
        let now = self.client.now();
        let mut out = Outcome::default();
        while let Ok((id, event)) = self.events.try_recv() {
            match event {
                FromOrigin::Head(head) => {
                    self.core
                        .on_head(now, since_1970().as_secs(), id, *head, &mut out)
                }
                FromOrigin::Failed { timed_out } => {
                    self.core.on_failure(now, id, timed_out, &mut out)
                }
                FromOrigin::Piece(bytes) => self.core.on_piece(now, id, &bytes, &mut out),
                FromOrigin::End { is_whole } => {
                    self.core.on_end(id, is_whole, &mut out);
                    self.requests.forget(id);
                }
            }
            send(&mut out, self.client.output());
        }
        self.core.on_timeout(now, &mut out);
        send(&mut out, self.client.output());
        self.requests.obey(&mut out);
        self.figures.set(self.core.figures());
        let (core, certificates) = (&mut self.core, &self.certificates);
        self.client
            .receive(core.next_timeout(), |now, received, output| {
                if let Received::Interest {
                    interest,
                    token,
                    incoming_face,
                } = received
                {
                    if let Some(certificate) = certificates.answer(&interest) {
                        output.send(token, |out| out.extend_from_slice(certificate));
                        return;
                    }
                    core.on_interest(now, &interest, token, incoming_face, &mut out);
                    send(&mut out, output);
                }
            })?;
        self.requests.obey(&mut out);
        Ok(())
    }

    fn end(self) {
        self.requests.stop();
    }
}

fn send(out: &mut Outcome, output: &mut Output) {
    for Reply {
        token,
        wire,
        no_cache,
    } in out.replies.drain(..)
    {
        let header = LpHeader {
            pit_token: token,
            no_cache,
            ..LpHeader::default()
        };
        output.send_with(&header, |out| out.extend_from_slice(&wire));
    }
}
