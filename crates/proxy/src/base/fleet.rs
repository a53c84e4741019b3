//! The fleet that a node belongs to, as its HTTP side sees it. Without one, there is no cost.

use larder_http::{Purge, Url};
use larder_units::Time;
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

/// A fleet: nodes that share purges by a log, and perhaps their responses (`larder-fleet-host`).
pub trait Fleet: fmt::Debug + Send + Sync {
    /// Returns the time since which stored responses are trusted at `now`, a time of the cache
    /// ([`Shards::now`](crate::shards::Shards::now)): [`Time::ZERO`] while the node knows all
    /// purges. See [`larder_http::Cache::trust_since`]. It is called for each lookup, under a lock.
    fn trusted_since(&self, now: Time) -> Time;

    /// Puts a purge into the log, so that all nodes execute it. Call it before the node itself
    /// does: from the call on, no other node is asked for what the purge names, until the log has
    /// it.
    fn publish<'a>(&'a self, purge: &Purge, wait: Wait) -> Publishing<'a>;

    /// Returns whether [`Fleet::invalidate`] gets what unsafe requests invalidate.
    fn shares_invalidations(&self) -> bool {
        false
    }

    /// Puts what an unsafe request has invalidated (RFC 9111, section 4.4) into the log, so that
    /// all nodes remove it. The client does not wait for it.
    fn invalidate(&self, _urls: Vec<Url>) {}

    /// Returns the nodes to ask for a stored URL before its origin, the owner first; none if the
    /// node itself owns it, or has just invalidated it, or nodes share no responses.
    fn owners(&self, _url: &str) -> Vec<Owner> {
        Vec::new()
    }

    /// Returns the last place in the log that this node knows of: what another node answers must be
    /// as new. `None` while the node follows no log.
    fn position(&self) -> Option<String> {
        None
    }

    /// Returns whether this node has executed all purges up to a place of another node.
    fn has_applied(&self, _position: &str) -> bool {
        false
    }
}

/// A node that answers for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its name, which its certificate has, too.
    pub node: Arc<str>,
    /// Where it answers.
    pub address: SocketAddr,
}

/// What the client of a purge waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// The purge is in the log.
    #[default]
    None,
    /// All nodes that are there have executed it, or do not answer.
    All,
}

/// The future of [`Fleet::publish`]: the answer for the client, a JSON object.
pub type Publishing<'a> = Pin<Box<dyn Future<Output = Result<Value, Unpublished>> + Send + 'a>>;

/// The reason why a purge is not known to be in the log: one line.
#[derive(Debug)]
pub enum Unpublished {
    /// The node does not take it.
    Refused(String),
    /// It may be in the log, and is sent again until it is.
    Unknown(String),
}

impl fmt::Display for Unpublished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unpublished::Refused(reason) | Unpublished::Unknown(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Unpublished {}
