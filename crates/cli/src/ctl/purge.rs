//! `larder ctl purge`: removes responses from a node's HTTP cache over its admin API.

use super::{Configured, listing};
use crate::failure::Failure;
use bytes::Bytes;
use clap::Args;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;

/// The time to wait for the node's answer. Purging a million objects takes less.
const PATIENCE: Duration = Duration::from_secs(60);

/// The default address of the admin server.
const ADMIN: &str = "127.0.0.1:8081";

/// The responses to purge, and the token
///
/// The token is the one of the table `admin` in the node's configuration: from --config, otherwise
/// from the environment variable LARDER_TOKEN.
#[derive(Args, Debug)]
pub struct PurgeArgs {
    #[command(flatten)]
    scope: Scope,

    /// Keep the responses as stale: they are validated, or serve while the origin is down
    #[arg(long)]
    soft: bool,

    /// Address of the node's admin server [default: from --config, otherwise 127.0.0.1:8081]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Scope {
    /// All variants of one URL, such as `http://example.com/a`
    #[arg(long)]
    url: Option<String>,

    /// All URLs with this prefix
    #[arg(long)]
    prefix: Option<String>,

    /// All responses with this key in Surrogate-Key or Cache-Tag
    #[arg(long)]
    tag: Option<String>,

    /// All stored responses
    #[arg(long)]
    everything: bool,
}

impl Scope {
    fn order(self, soft: bool) -> Value {
        let mut order = Map::new();
        for (key, value) in [("url", self.url), ("prefix", self.prefix), ("tag", self.tag)] {
            order.extend(value.map(|value| (key.to_owned(), json!(value))));
        }
        if self.everything {
            order.insert("everything".to_owned(), json!(true));
        }
        order.insert("soft".to_owned(), json!(soft));
        Value::Object(order)
    }
}

/// Purges, and prints the number of responses.
pub(super) fn run(args: PurgeArgs, configured: Option<&Configured>, json: bool) -> Result<(), Failure> {
    let admin = configured.map(|configured| &configured.config.admin);
    let address = args.admin.or(admin.and_then(|admin| admin.listen)).or_else(|| match admin {
        Some(_) => None,
        None => ADMIN.parse().ok(),
    });
    let address =
        address.ok_or_else(|| Failure::usage("--config: this configuration has no admin server; give --admin"))?;
    let token = admin.and_then(|admin| admin.token.clone()).or_else(|| std::env::var("LARDER_TOKEN").ok());
    let token = token.ok_or_else(|| {
        Failure::usage("no token: give --config with the file that has [admin] token, or set LARDER_TOKEN")
    })?;
    let order = args.scope.order(args.soft);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::runtime(larder_units::system_message(&error)))?;
    let exchange = |request| {
        runtime
            .block_on(async { tokio::time::timeout(PATIENCE, send(address, request)).await })
            .map_err(|_| Failure::runtime(format!("{address}: no answer within {PATIENCE:?}")))?
    };
    if let Some(configured) = configured {
        let (_, page) = exchange(status_request(address)?)?;
        let page: Value = serde_json::from_slice(&page).unwrap_or_default();
        configured.check(&address.to_string(), page["node"]["configuration"].as_str())?;
    }
    let (status, body) = exchange(purge_request(address, &token, order.to_string())?)?;
    let text = String::from_utf8_lossy(&body);
    if status != StatusCode::OK {
        let reason = text.trim().trim_start_matches("larder: ");
        return Err(Failure::runtime(format!("the node refused: {} {reason}", status.as_u16())));
    }
    let answer: Value = serde_json::from_str(&text)
        .map_err(|_| Failure::runtime(format!("{address} does not answer as a Larder node does")))?;
    let purged = answer["purged"].as_u64().unwrap_or(0);
    let noun = if purged == 1 { "response" } else { "responses" };
    listing::done(json, &format!("{purged} {noun} purged"), &[("purged", json!(purged))]);
    Ok(())
}

fn status_request(address: SocketAddr) -> Result<Request<Full<Bytes>>, Failure> {
    let request = Request::get("/status").header(HOST, address.to_string()).body(Full::default());
    request.map_err(|error| Failure::runtime(error.to_string()))
}

fn purge_request(address: SocketAddr, token: &str, order: String) -> Result<Request<Full<Bytes>>, Failure> {
    Request::post("/purge")
        .header(HOST, address.to_string())
        .header(AUTHORIZATION, format!("Bearer {token}"))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(order)))
        .map_err(|_| Failure::usage("the token has characters that are not allowed in a header"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, FromArgMatches};

    fn parse(words: &[&str]) -> Option<PurgeArgs> {
        #[derive(clap::Parser)]
        struct Purge {
            #[command(flatten)]
            args: PurgeArgs,
        }
        let matches = Purge::command().try_get_matches_from([&["purge"], words].concat()).ok()?;
        Purge::from_arg_matches(&matches).ok().map(|purge| purge.args)
    }

    /// Failure: an incomplete command removes everything.
    #[test]
    fn one_scope_exactly() {
        for words in
            [&[][..], &["--soft"], &["--everything", "--tag", "a"], &["--url", "http://a/", "--prefix", "http://a/"]]
        {
            assert!(parse(words).is_none(), "{words:?}");
        }
        let order = |words: &[&str]| {
            let args = parse(words).unwrap();
            args.scope.order(args.soft).to_string()
        };
        assert_eq!(order(&["--tag", "a b", "--soft"]), "{\"soft\":true,\"tag\":\"a b\"}");
        assert_eq!(order(&["--everything"]), "{\"everything\":true,\"soft\":false}");
    }
}
