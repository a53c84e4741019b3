//! `larder ctl purge`: removes responses from a node's HTTP cache over its admin API.

use super::admin::{AdminServer, token, token_of_environment};
use super::{Configured, listing};
use crate::failure::Failure;
use crate::output::{error_line, excerpt, printable};
use clap::Args;
use http::StatusCode;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;

/// The exit status if not all nodes are known to have executed a purge that waits for them.
const UNEXECUTED: u8 = 3;

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

    /// In a fleet, wait until all nodes have executed it, for 10 s at most; exit status 3 otherwise
    #[arg(long)]
    wait: bool,

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
    fn order(self, soft: bool, waits: bool) -> Value {
        let mut order = Map::new();
        for (key, value) in [
            ("url", self.url),
            ("prefix", self.prefix),
            ("tag", self.tag),
        ] {
            order.extend(value.map(|value| (key.to_owned(), json!(value))));
        }
        if self.everything {
            order.insert("everything".to_owned(), json!(true));
        }
        order.insert("soft".to_owned(), json!(soft));
        if waits {
            order.insert("wait".to_owned(), json!("all"));
        }
        Value::Object(order)
    }
}

/// Purges, and prints the number of responses.
pub(super) fn run(
    args: PurgeArgs,
    configured: Option<&Configured>,
    json: bool,
) -> Result<(), Failure> {
    let of_file = configured.and_then(|configured| configured.config.admin.token.clone());
    let token = token(of_file.or_else(token_of_environment), configured)?;
    let url = args.scope.url.clone();
    let order = args.scope.order(args.soft, args.wait);
    let admin = AdminServer::of(args.admin, configured)?;
    admin.check(configured)?;
    let (status, body) = admin.exchange(admin.order("/purge", &token, order.to_string())?)?;
    let text = String::from_utf8_lossy(&body);
    if status != StatusCode::OK {
        let reason = excerpt(text.trim().trim_start_matches("larder: "));
        return Err(Failure::runtime(format!(
            "the node refused: {} {reason}",
            status.as_u16()
        )));
    }
    let answer: Value = serde_json::from_str(&text).map_err(|_| {
        Failure::runtime(format!(
            "{} does not answer as a Larder node does",
            admin.address
        ))
    })?;
    let purged = answer["purged"].as_u64().unwrap_or(0);
    let noun = if purged == 1 { "response" } else { "responses" };
    let mut text = format!("{purged} {noun} purged");
    let mut fields = vec![("purged", json!(purged))];
    if let Some(fleet) = answer.get("fleet") {
        text += &of_fleet(fleet);
        fields.push(("fleet", fleet.clone()));
    }
    listing::done(json, &text, &fields);
    if let Some(url) = url.filter(|_| purged == 0) {
        error_line!(
            "larder: nothing is stored under {}: scheme, host, port and query are part of a URL; \
             the console looks URLs up",
            printable(&url)
        );
    }
    answer.get("fleet").map_or(Ok(()), unexecuted)
}

/// Returns what the fleet does with the purge.
fn of_fleet(fleet: &Value) -> String {
    let position = fleet["position"].as_u64().unwrap_or(0);
    match (fleet["applied"].as_u64(), fleet["members"].as_u64()) {
        (Some(applied), Some(members)) => format!(
            " here; {applied} of {members} nodes of the fleet have executed it, entry {position} of its log"
        ),
        _ => format!(" here; all nodes of the fleet get entry {position} of its log"),
    }
}

/// Fails if the purge was to be executed by all nodes, and is not known to be. It is in the log.
fn unexecuted(fleet: &Value) -> Result<(), Failure> {
    if fleet["applied"].is_null() {
        return Ok(());
    }
    let failed = |message| {
        Err(Failure {
            message,
            code: UNEXECUTED,
        })
    };
    if fleet["members"].is_null() {
        return failed(
            "it is not known which nodes there are, and which have executed it".to_owned(),
        );
    }
    let names = fleet["lost"].as_array().into_iter().flatten();
    let names = names.filter_map(Value::as_str);
    let names: Vec<String> = names.map(|name| printable(name).to_string()).collect();
    if names.is_empty() {
        return Ok(());
    }
    failed(format!(
        "no answer from {}: such a node is down, or validates what it serves from its max_lag on, unless it has on_partition = \"serve\"",
        names.join(", ")
    ))
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
        let matches = Purge::command()
            .try_get_matches_from([&["purge"], words].concat())
            .ok()?;
        Purge::from_arg_matches(&matches)
            .ok()
            .map(|purge| purge.args)
    }

    /// Failure: a script goes on as if all nodes had executed a purge, and one has not, or nobody
    /// knows which nodes there are.
    #[test]
    fn an_incomplete_fleet_is_a_success() {
        let code = |fleet: Value| unexecuted(&fleet).err().map(|failure| failure.code);
        let all = json!({ "position": 5, "members": 2, "applied": 2, "lost": [] });
        assert_eq!(code(all), None);
        assert_eq!(code(json!({ "position": 5, "members": 2 })), None);
        let lost = json!({ "position": 5, "members": 2, "applied": 2, "lost": ["n3"] });
        assert_eq!(code(lost), Some(3));
        let unknown = json!({ "position": 5, "members": null, "applied": 1, "lost": [] });
        assert!(of_fleet(&unknown).contains("get entry 5"));
        assert_eq!(code(unknown), Some(3));
    }

    /// Failure: an incomplete command removes everything.
    #[test]
    fn one_scope_exactly() {
        for words in [
            &[][..],
            &["--soft"],
            &["--everything", "--tag", "a"],
            &["--url", "http://a/", "--prefix", "http://a/"],
        ] {
            assert!(parse(words).is_none(), "{words:?}");
        }
        let order = |words: &[&str]| {
            let args = parse(words).unwrap();
            args.scope.order(args.soft, args.wait).to_string()
        };
        assert_eq!(
            order(&["--tag", "a b", "--soft"]),
            "{\"soft\":true,\"tag\":\"a b\"}"
        );
        assert_eq!(
            order(&["--everything"]),
            "{\"everything\":true,\"soft\":false}"
        );
        assert_eq!(
            order(&["--everything", "--wait"]),
            "{\"everything\":true,\"soft\":false,\"wait\":\"all\"}"
        );
    }
}
