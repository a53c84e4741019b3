//! `POST /purge` of the admin server: a client with the token removes responses from the cache
//! ([`larder_admin::Purging`]). The body is one JSON object:
//!
//! ```json
//! {"url": "http://example.com/a"}         all variants of one URL
//! {"prefix": "http://example.com/img/"}   every URL that begins so
//! {"tag": "article-17"}                   every response with that word in Surrogate-Key or Cache-Tag
//! {"everything": true}
//! {"tag": "article-17", "soft": true}     keeps them, stale
//! {"tag": "article-17", "wait": "all"}    in a fleet: answers when all nodes have done it
//! ```
//!
//! A stale response is validated, or served while the origin is down. The answer has the number of
//! purged responses in memory. After the answer, none of them is served any more, none on disk
//! either, also not after a restart.

use crate::base::fleet::Wait;
use crate::exchange::proxy::Proxy;
use crate::exchange::request_rules::NormalUrl;
use larder_admin::{OrderError, Purged};
use larder_http::{Purge, Scope, Url, UrlError};
use serde::Deserialize;
use std::{error, fmt};

/// The reason why the body of a purge request is refused: one line.
#[derive(Debug)]
enum PurgeRequestError {
    /// The body is not the expected JSON.
    Json(serde_json::Error),
    /// The body names no URL.
    Url(UrlError),
    /// The body names a URL for which requests are refused, for this reason.
    Refused(&'static str),
    /// The body names no responses, or in several ways.
    Scope,
}

impl fmt::Display for PurgeRequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PurgeRequestError::Json(error) => error.fmt(f),
            PurgeRequestError::Url(error) => error.fmt(f),
            PurgeRequestError::Refused(reason) => f.write_str(reason),
            PurgeRequestError::Scope => f.write_str(
                "name one of url, prefix, tag or everything: {\"url\": \"http://host/path\"}",
            ),
        }
    }
}

impl error::Error for PurgeRequestError {}

/// The body of a purge request.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PurgeRequest {
    url: Option<String>,
    prefix: Option<String>,
    tag: Option<String>,
    everything: bool,
    soft: bool,
    wait: Wait,
}

/// A purge, as its client wants it.
#[derive(Debug)]
struct PurgeOrder {
    purge: Purge,
    /// What it names.
    what: String,
    wait: Wait,
}

/// Executes a purge request.
///
/// # Errors
/// The request is malformed, or a crash may bring the purged responses back.
pub(crate) async fn purge(proxy: &Proxy, body: &[u8]) -> Result<Purged, OrderError> {
    let live = proxy.live();
    let parsed = parse(body, |url| live.keyed_url(url));
    let parsed = parsed.map_err(|error| OrderError::Malformed(error.into()))?;
    let PurgeOrder { purge, what, wait } = parsed;
    // Before this node executes it: until the log has it, other nodes may not know it.
    let publishing = proxy
        .shards()
        .fleet()
        .map(|fleet| fleet.publish(&purge, wait));
    let objects = proxy.shards().purge(&purge);
    proxy
        .observers()
        .current()
        .content()
        .add_purge(&what, objects);
    // The fleet gets it whatever happens to this node's disk.
    let published = match publishing {
        Some(publishing) => Some(publishing.await),
        None => None,
    };
    let settled = proxy.settle().await;
    settled.map_err(|error| OrderError::NotSettled(error.into()))?;
    let fleet = published.transpose();
    let fleet = fleet.map_err(|error| OrderError::NotShared(error.into()))?;
    Ok(Purged {
        objects,
        purge: purge.to_string(),
        fleet,
    })
}

/// Returns the purge. `keyed` returns the URL under which the responses
/// of another one are stored.
fn parse(
    text: &[u8],
    keyed: impl Fn(&str) -> Result<String, &'static str>,
) -> Result<PurgeOrder, PurgeRequestError> {
    let request: PurgeRequest = serde_json::from_slice(text).map_err(PurgeRequestError::Json)?;
    let url = |text: String| text.parse::<Url>().map_err(PurgeRequestError::Url);
    let (scope, what) = match (request.url, request.prefix, request.tag, request.everything) {
        (Some(text), None, None, false) => (
            Scope::Exact(url(keyed(&text).map_err(PurgeRequestError::Refused)?)?),
            text,
        ),
        (None, Some(text), None, false) => {
            let prefix = NormalUrl::prefix(&text).map_err(PurgeRequestError::Refused)?;
            (Scope::Prefix(url(prefix.to_string())?), format!("{text}…"))
        }
        (None, None, Some(tag), false) if !tag.is_empty() => {
            let what = format!("tag {tag}");
            (Scope::Tag(tag), what)
        }
        (None, None, None, true) => (Scope::Everything, "everything".to_owned()),
        _ => return Err(PurgeRequestError::Scope),
    };
    let soft = request.soft;
    Ok(PurgeOrder {
        purge: Purge { scope, soft },
        what,
        wait: request.wait,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a misread request purges everything.
    #[test]
    fn odd_orders_are_refused() {
        for text in [
            "",
            "{}",
            "[]",
            "{\"everything\": false}",
            "{\"tag\": \"\"}",
            "{\"url\": \"/a\"}",
            "{\"url\": \"http://h/\", \"everything\": true}",
            "{\"tags\": \"a\", \"everything\": true}",
            "{\"everything\": true, \"soft\": 1}",
            "{\"everything\": true, \"wait\": \"some\"}",
            "{\"everything\": true, \"wait\": true}",
        ] {
            assert!(
                parse(text.as_bytes(), |url| Ok(url.to_owned())).is_err(),
                "{text}"
            );
        }
        let text = b"{\"tag\": \"a b\", \"soft\": true, \"wait\": \"all\"}";
        let soft = parse(text, |url| Ok(url.to_owned())).unwrap();
        assert_eq!(soft.wait, Wait::All);
        assert_eq!(
            soft.purge,
            Purge {
                scope: Scope::Tag("a b".to_owned()),
                soft: true
            }
        );
    }
}
