//! `POST /purge` of the admin server: a client with the token removes responses from the cache. The
//! body is one JSON object:
//!
//! ```json
//! {"url": "http://example.com/a"}         all variants of one URL
//! {"prefix": "http://example.com/img/"}   every URL that begins so
//! {"tag": "article-17"}                   every response with that word in Surrogate-Key or Cache-Tag
//! {"everything": true}
//! {"tag": "article-17", "soft": true}     keeps them, stale
//! ```
//!
//! A stale response is validated, or served while the origin is down. The answer has the number of
//! purged responses in memory. After the answer, none of them is served any more, none on disk
//! either, also not after a restart.

use crate::admin::token::AdminToken;
use crate::base::error::Error;
use crate::base::limits;
use crate::exchange::proxy::Proxy;
use crate::exchange::ruled::NormalUrl;
use crate::message::body::BodyError;
use crate::message::client_body::ClientBody;
use ::http::{HeaderMap, StatusCode};
use hyper::body::Body;
use larder_http::{Purge, Scope, Url, UrlError};
use serde::Deserialize;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The purge interface of the cache, for clients with the token.
pub struct Purging {
    proxy: Arc<Proxy>,
    /// Without a token, purging is disabled.
    token: AdminToken,
    /// True from the time when another process takes over, whose caches a purge would not reach.
    is_handed_over: AtomicBool,
}

/// The reason why a purge request is refused: one line.
#[derive(Debug)]
pub(crate) enum PurgeError {
    /// There is no token, or no cache.
    Disabled,
    /// The request has another token, or none.
    Unauthorized,
    /// Another process takes over.
    HandedOver,
    /// The body did not arrive in time.
    TimedOut,
    /// The body broke off.
    Body(BodyError),
    /// The body has more than [`limits::PURGE_BYTES`].
    TooLong,
    /// The body is not the expected JSON.
    Json(serde_json::Error),
    /// The body names no URL.
    Url(UrlError),
    /// The body names a URL for which requests are refused, for this reason.
    Refused(&'static str),
    /// The body names no responses, or in several ways.
    Scope,
    /// The responses were purged, but a crash may bring them back.
    NotSettled(Error),
}

impl PurgeError {
    /// Returns the status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            PurgeError::Disabled => StatusCode::FORBIDDEN,
            PurgeError::Unauthorized => StatusCode::UNAUTHORIZED,
            PurgeError::HandedOver => StatusCode::SERVICE_UNAVAILABLE,
            PurgeError::TimedOut => StatusCode::REQUEST_TIMEOUT,
            PurgeError::NotSettled(_) => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl fmt::Display for PurgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PurgeError::Disabled => {
                f.write_str("nobody may change anything: set [admin] token, and serve HTTP")
            }
            PurgeError::Unauthorized => {
                f.write_str("send Authorization: Bearer and the [admin] token")
            }
            PurgeError::HandedOver => f.write_str("another process takes over: send it again"),
            PurgeError::TimedOut => f.write_str("the order did not come in time"),
            PurgeError::Body(error) => error.fmt(f),
            PurgeError::TooLong => {
                write!(f, "the order is longer than {} bytes", limits::PURGE_BYTES)
            }
            PurgeError::Json(error) => error.fmt(f),
            PurgeError::Url(error) => error.fmt(f),
            PurgeError::Refused(reason) => f.write_str(reason),
            PurgeError::Scope => f.write_str(
                "name one of url, prefix, tag or everything: {\"url\": \"http://host/path\"}",
            ),
            PurgeError::NotSettled(error) => error.fmt(f),
        }
    }
}

/// The body of a purge request.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PurgeRequest {
    url: Option<String>,
    prefix: Option<String>,
    tag: Option<String>,
    everything: bool,
    soft: bool,
}

impl Purging {
    pub(crate) fn new(proxy: Arc<Proxy>, token: Option<&str>) -> Purging {
        Purging {
            proxy,
            token: AdminToken::new(token),
            is_handed_over: AtomicBool::new(false),
        }
    }

    /// Refuses purges while another process takes over, or takes them again: a purge would not
    /// reach the other one's caches.
    pub fn set_handed_over(&self, is_handed_over: bool) {
        self.is_handed_over.store(is_handed_over, Ordering::Relaxed);
    }

    /// Sets another token, or none.
    pub fn set_token(&self, token: Option<&str>) {
        let _ = self.token.set(token);
    }

    /// Returns the cache, for requests of the console.
    pub(crate) fn proxy(&self) -> &Arc<Proxy> {
        &self.proxy
    }

    /// Reads the body of a request that changes something, if its client may send one.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub(crate) async fn read(
        &self,
        headers: &HeaderMap,
        body: ClientBody,
    ) -> Result<Vec<u8>, PurgeError> {
        if !self.token.is_set() {
            return Err(PurgeError::Disabled);
        }
        if !self.token.is_in(headers) {
            return Err(PurgeError::Unauthorized);
        }
        if self.is_handed_over.load(Ordering::Relaxed) {
            return Err(PurgeError::HandedOver);
        }
        let read = tokio::time::timeout(ORDER_TIME, read(body)).await;
        read.map_err(|_| PurgeError::TimedOut)?
    }

    /// Executes a purge request. Returns the number of purged responses.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub(crate) async fn respond(
        &self,
        headers: &HeaderMap,
        body: ClientBody,
    ) -> Result<u64, PurgeError> {
        let body = self.read(headers, body).await?;
        let rules = self.proxy.rules();
        let (purge, what) = parse(&body, |url| rules.keyed_url(url))?;
        let objects = self.proxy.shards().purge(&purge);
        self.proxy
            .observers()
            .current()
            .content()
            .add_purge(&what, objects);
        self.proxy.settle().await.map_err(PurgeError::NotSettled)?;
        // Meanwhile, another process may have got the disk tier, perhaps without this purge.
        if self.is_handed_over.load(Ordering::Relaxed) {
            return Err(PurgeError::HandedOver);
        }
        tracing::info!(?purge, objects, "purged");
        Ok(objects)
    }
}

/// The time for the whole body.
const ORDER_TIME: Duration = limits::ADMIN_HEADER_READ;

async fn read(mut body: ClientBody) -> Result<Vec<u8>, PurgeError> {
    let mut text = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(PurgeError::Body)?;
        text.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        if text.len() > limits::PURGE_BYTES {
            return Err(PurgeError::TooLong);
        }
    }
    Ok(text)
}

/// Returns the purge, and what it names, as text. `keyed` returns the URL under which the responses
/// of another one are stored.
fn parse(
    text: &[u8],
    keyed: impl Fn(&str) -> Result<String, &'static str>,
) -> Result<(Purge, String), PurgeError> {
    let request: PurgeRequest = serde_json::from_slice(text).map_err(PurgeError::Json)?;
    let url = |text: String| text.parse::<Url>().map_err(PurgeError::Url);
    let (scope, what) = match (request.url, request.prefix, request.tag, request.everything) {
        (Some(text), None, None, false) => (
            Scope::Exact(url(keyed(&text).map_err(PurgeError::Refused)?)?),
            text,
        ),
        (None, Some(text), None, false) => {
            let prefix = NormalUrl::prefix(&text).map_err(PurgeError::Refused)?;
            (Scope::Prefix(url(prefix.to_string())?), format!("{text}…"))
        }
        (None, None, Some(tag), false) if !tag.is_empty() => {
            let what = format!("tag {tag}");
            (Scope::Tag(tag), what)
        }
        (None, None, None, true) => (Scope::Everything, "everything".to_owned()),
        _ => return Err(PurgeError::Scope),
    };
    Ok((
        Purge {
            scope,
            soft: request.soft,
        },
        what,
    ))
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
        ] {
            assert!(
                parse(text.as_bytes(), |url| Ok(url.to_owned())).is_err(),
                "{text}"
            );
        }
        let (soft, _) = parse(b"{\"tag\": \"a b\", \"soft\": true}", |url| {
            Ok(url.to_owned())
        })
        .unwrap();
        assert_eq!(
            soft,
            Purge {
                scope: Scope::Tag("a b".to_owned()),
                soft: true
            }
        );
    }
}
