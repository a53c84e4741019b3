//! `larder ctl purge`: takes responses out of a node's HTTP cache, over its admin API.

use super::listing;
use crate::failure::Failure;
use bytes::Bytes;
use clap::Args;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use larder_node::Config;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpStream;

/// A node that says nothing for so long has failed; a million objects are purged in less.
const PATIENCE: Duration = Duration::from_secs(60);

/// The admin server's own default.
const ADMIN: &str = "127.0.0.1:8081";

/// What is purged, and who asks
///
/// The token is that of the table `admin` in the node's configuration: read from there with --config, else from the environment's LARDER_TOKEN.
#[derive(Args, Debug)]
pub struct PurgeArgs {
    #[command(flatten)]
    scope: Scope,

    /// Keep them, stale: they are validated, or serve while the origin is down
    #[arg(long)]
    soft: bool,

    /// Where the node's admin server is; 127.0.0.1:8081, or as --config says
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,

    /// The node's configuration file, for the listen and token of its table `admin`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Scope {
    /// All variants of one URL, such as `http://example.com/a`
    #[arg(long)]
    url: Option<String>,

    /// Every URL that begins so
    #[arg(long)]
    prefix: Option<String>,

    /// Every response with this word in Surrogate-Key or Cache-Tag
    #[arg(long)]
    tag: Option<String>,

    /// All that is stored
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

/// Purges, and says how many responses that took.
pub fn run(args: PurgeArgs, json: bool) -> Result<(), Failure> {
    let configured = match &args.config {
        Some(path) => Some(Config::read(path).map_err(|error| Failure::usage(error.to_string()))?.admin),
        None => None,
    };
    let (listen, token) = configured.map_or((None, None), |admin| (admin.listen, admin.token));
    let address = args.admin.or(listen).or_else(|| ADMIN.parse().ok());
    let address = address.ok_or_else(|| Failure::usage("--config: its node has no admin server; give --admin"))?;
    let token = token.or_else(|| std::env::var("LARDER_TOKEN").ok()).ok_or_else(|| {
        Failure::usage("no token: give --config with the file that has [admin] token, or set LARDER_TOKEN")
    })?;
    let order = args.scope.order(args.soft);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::runtime(larder_node::system_message(&error)))?;
    let (status, body) = runtime
        .block_on(async { tokio::time::timeout(PATIENCE, post(address, &token, order.to_string())).await })
        .map_err(|_| Failure::runtime(format!("{address}: no answer within {PATIENCE:?}")))??;
    let text = String::from_utf8_lossy(&body);
    if status != StatusCode::OK {
        let reason = text.trim().trim_start_matches("larder: ");
        return Err(Failure::runtime(format!("the node refused: {} {reason}", status.as_u16())));
    }
    let answer: Value = serde_json::from_str(&text).map_err(|_| Failure::runtime(format!("{address} is no larder")))?;
    let purged = answer["purged"].as_u64().unwrap_or(0);
    let noun = if purged == 1 { "response" } else { "responses" };
    listing::done(json, &format!("{purged} {noun} purged"), &[("purged", json!(purged))]);
    Ok(())
}

async fn post(address: SocketAddr, token: &str, order: String) -> Result<(StatusCode, Bytes), Failure> {
    let broken = |error: &dyn std::fmt::Display| Failure::runtime(format!("{address}: {error}"));
    let stream = TcpStream::connect(address).await.map_err(|error| {
        let error = larder_node::system_message(&error);
        Failure::runtime(format!(
            "cannot reach the admin server at {address}: {error}; does the node run, and its [admin] listen there?"
        ))
    })?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    // Its errors come to who has asked.
    tokio::spawn(async move { drop(connection.await) });
    let request = Request::post("/purge")
        .header(HOST, address.to_string())
        .header(AUTHORIZATION, format!("Bearer {token}"))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(order)))
        .map_err(|_| Failure::usage("the token has characters that no header may have"))?;
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

    /// The fear: half an order takes everything.
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
