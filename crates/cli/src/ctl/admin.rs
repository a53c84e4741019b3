//! Requests to a node's admin server.

use super::Configured;
use crate::failure::Failure;
use bytes::Bytes;
use http::header::HOST;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use larder_node::ConfigSources;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// The time to wait for the node's answer. Purging a million objects takes less.
const PATIENCE: Duration = Duration::from_secs(60);

/// The admin server of a node.
pub(super) struct AdminServer {
    pub(super) address: SocketAddr,
    runtime: Runtime,
}

impl AdminServer {
    /// Returns the admin server at `address`; without one, that of the configuration, or of the
    /// environment and the defaults.
    pub(super) fn of(address: Option<SocketAddr>, configured: Option<&Configured>) -> Result<AdminServer, Failure> {
        let address = match (address, configured) {
            (Some(address), _) => Some(address),
            (None, Some(configured)) => configured.config.admin.listen,
            (None, None) => {
                let config = ConfigSources::of_process(None).load();
                config.map_err(|error| Failure::usage(error.to_string()))?.admin.listen
            }
        };
        let address = address.ok_or_else(|| Failure::usage("this configuration has no admin server; give --admin"))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::runtime(larder_units::system_message(&error)))?;
        Ok(AdminServer { address, runtime })
    }

    /// Returns the page `/status`.
    pub(super) fn status(&self) -> Result<Value, Failure> {
        let address = self.address;
        let request = Request::get("/status").header(HOST, address.to_string()).body(Full::default());
        let (status, page) = self.exchange(request.map_err(|error| Failure::runtime(error.to_string()))?)?;
        let text = String::from_utf8_lossy(&page);
        match (status, serde_json::from_str::<Value>(&text)) {
            (StatusCode::OK, Ok(page)) if page.get("larder").is_some() => Ok(page),
            (StatusCode::SERVICE_UNAVAILABLE, _) => {
                Err(Failure::runtime(format!("{address}: {}", text.trim().trim_start_matches("larder: "))))
            }
            _ => Err(Failure::runtime(format!("{address} does not answer as a Larder node does"))),
        }
    }

    /// Sends a request. Returns the status and the body of the response.
    pub(super) fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), Failure> {
        let address = self.address;
        self.runtime
            .block_on(async { tokio::time::timeout(PATIENCE, send(address, request)).await })
            .map_err(|_| Failure::runtime(format!("{address}: no answer within {PATIENCE:?}")))?
    }
}

async fn send(address: SocketAddr, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), Failure> {
    let broken = |error: &dyn std::fmt::Display| Failure::runtime(format!("{address}: {error}"));
    let stream = TcpStream::connect(address).await.map_err(|error| {
        let error = larder_units::system_message(&error);
        Failure::runtime(format!(
            "cannot reach the admin server at {address}: {error}; does the node run, and its [admin] listen there?"
        ))
    })?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    // `send_request` returns its errors.
    tokio::spawn(async move { drop(connection.await) });
    let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(|error| broken(&error))?;
    Ok((status, body.to_bytes()))
}
