//! Requests to a node's admin server.

use super::Configured;
use crate::failure::Failure;
use crate::output::excerpt;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use larder_node::ConfigSources;
use larder_units::ByteSize;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// The time to wait for the node's answer. Purging a million objects takes less, and so does a
/// purge that waits for a fleet: 10 s for the log, and 10 s for the other nodes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The largest response. A page of 30,000 faces has less; what is read from it takes ten times
/// that.
const BODY_BYTES: usize = 16 << 20;

/// The longest line of a stream. Those of a capture have less than 100 bytes.
const LINE_BYTES: usize = 4 << 10;

/// The admin server of a node.
pub(crate) struct AdminServer {
    pub(crate) address: SocketAddr,
    runtime: Runtime,
}

impl AdminServer {
    /// Returns the admin server at `address`; without one, that of the configuration, or of the
    /// environment and the defaults.
    pub(crate) fn of(
        address: Option<SocketAddr>,
        configured: Option<&Configured>,
    ) -> Result<AdminServer, Failure> {
        let address = match (address, configured) {
            (Some(address), _) => Some(address),
            (None, Some(configured)) => configured.config.admin.listen,
            (None, None) => {
                let config = ConfigSources::of_process(None).load();
                config
                    .map_err(|error| Failure::usage(error.to_string()))?
                    .admin
                    .listen
            }
        };
        let address = address.ok_or_else(|| {
            Failure::usage("this configuration has no admin server; give --admin")
        })?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime =
            runtime.map_err(|error| Failure::runtime(larder_units::system_message(&error)))?;
        Ok(AdminServer { address, runtime })
    }

    /// Returns the page `/status`.
    pub(crate) fn status(&self) -> Result<Value, Failure> {
        let address = self.address;
        let request = Request::get("/status")
            .header(HOST, address.to_string())
            .body(Full::default());
        let (status, page) =
            self.exchange(request.map_err(|error| Failure::runtime(error.to_string()))?)?;
        let text = String::from_utf8_lossy(&page);
        match (status, serde_json::from_str::<Value>(&text)) {
            (StatusCode::OK, Ok(page)) if page.get("larder").is_some() => Ok(page),
            (StatusCode::SERVICE_UNAVAILABLE, _) => {
                let reason = excerpt(text.trim().trim_start_matches("larder: "));
                Err(Failure::runtime(format!("{address}: {reason}")))
            }
            _ => Err(Failure::runtime(format!(
                "{address} does not answer as a Larder node does"
            ))),
        }
    }

    /// Compares the node that answers with the intended one, if a file names it.
    pub(crate) fn check(&self, configured: Option<&Configured>) -> Result<(), Failure> {
        let Some(configured) = configured else {
            return Ok(());
        };
        let page = self.status()?;
        let reported = page["node"]["configuration"].as_str();
        configured.check(&self.address.to_string(), reported)
    }

    /// Returns a request that changes something, with the token.
    pub(super) fn order(
        &self,
        path: &str,
        token: &str,
        body: String,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        Request::post(path)
            .header(HOST, self.address.to_string())
            .header(AUTHORIZATION, format!("Bearer {token}"))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|_| {
                Failure::usage("the token has characters that are not allowed in a header")
            })
    }

    /// Sends a request whose response does not end by itself.
    pub(super) fn stream(&self, request: Request<Full<Bytes>>) -> Result<TextStream<'_>, Failure> {
        let address = self.address;
        let response = self
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, begin(address, request)).await })
            .map_err(|_| Failure::runtime(format!("{address}: no answer within {PATIENCE:?}")))??;
        Ok(TextStream {
            server: self,
            status: response.status(),
            body: response.into_body(),
            rest: Vec::new(),
        })
    }

    /// Sends a request. Returns the status and the body of the response.
    pub(super) fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), Failure> {
        self.exchange_within(request, PATIENCE)
    }

    /// Sends a request whose answer may take so long.
    pub(super) fn exchange_within(
        &self,
        request: Request<Full<Bytes>>,
        limit: Duration,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let address = self.address;
        self.runtime
            .block_on(async { tokio::time::timeout(limit, send(address, request)).await })
            .map_err(|_| Failure::runtime(format!("{address}: no answer within {limit:?}")))?
    }
}

/// Returns the token of the environment variable.
pub(super) fn token_of_environment() -> Option<String> {
    std::env::var("LARDER_TOKEN").ok()
}

/// Returns the token, or what to do without one.
pub(super) fn token(
    token: Option<String>,
    configured: Option<&Configured>,
) -> Result<String, Failure> {
    token.ok_or_else(|| {
        Failure::usage(match configured {
            Some(file) => format!(
                "{}: [admin] token is missing: the node takes no orders without one. Set it (openssl rand -hex 16 \
                 makes one), and let the node read it: kill -HUP",
                file.path.display()
            ),
            None => "no token: give --config with the file that has [admin] token, or set LARDER_TOKEN".to_owned(),
        })
    })
}

/// The text of a response, as it comes.
pub(super) struct TextStream<'a> {
    server: &'a AdminServer,
    status: StatusCode,
    body: Incoming,
    /// The start of a line whose end has not come yet.
    rest: Vec<u8>,
}

impl TextStream<'_> {
    /// Returns the status.
    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// Waits for whole lines until then. Returns what has come, perhaps nothing; `None` at the end.
    ///
    /// # Errors
    /// If the connection has broken.
    pub(super) fn lines(&mut self, within: Duration) -> Result<Option<String>, Failure> {
        let body = &mut self.body;
        let frame = self
            .server
            .runtime
            .block_on(async { tokio::time::timeout(within, body.frame()).await });
        let address = self.server.address;
        match frame {
            Err(_) => return Ok(Some(String::new())),
            Ok(None) => return Ok(None),
            Ok(Some(Err(error))) => return Err(Failure::runtime(format!("{address}: {error}"))),
            Ok(Some(Ok(frame))) => self.rest.extend(frame.into_data().unwrap_or_default()),
        }
        let end = self
            .rest
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.rest.drain(..end).collect();
        if self.rest.len() > LINE_BYTES {
            return Err(Failure::runtime(format!(
                "{address} sends a line of more than {LINE_BYTES} bytes"
            )));
        }
        Ok(Some(String::from_utf8_lossy(&lines).into_owned()))
    }
}

async fn send(
    address: SocketAddr,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), Failure> {
    let response = begin(address, request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), BODY_BYTES)
        .collect()
        .await
        .map_err(|error| {
            if error.is::<LengthLimitError>() {
                Failure::runtime(format!(
                    "{address} sends more than {}",
                    ByteSize::from_bytes(BODY_BYTES as u64)
                ))
            } else {
                Failure::runtime(format!("{address}: {error}"))
            }
        })?;
    Ok((status, body.to_bytes()))
}

async fn begin(
    address: SocketAddr,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, Failure> {
    let broken = |error: &dyn std::fmt::Display| Failure::runtime(format!("{address}: {error}"));
    let stream = TcpStream::connect(address).await.map_err(|error| {
        let error = larder_units::system_message(&error);
        Failure::runtime(format!(
            "cannot reach the admin server at {address}: {error}; does the node run, and its [admin] listen there?"
        ))
    })?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(&error))?;
    // `send_request` returns its errors.
    tokio::spawn(async move { drop(connection.await) });
    sender
        .send_request(request)
        .await
        .map_err(|error| broken(&error))
}
