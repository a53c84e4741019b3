//! Requests that change the cache, or look into it: `POST /purge`, and the console's.

use crate::limits;
use crate::token::AdminToken;
use ::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use hyper::body::Body;
use serde_json::{Value, json};
use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

type Cause = Box<dyn Error + Send + Sync>;

/// What a [`ManagedCache`] is asked to do, while it does it.
pub type Managing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A cache that authorized clients change or look into.
pub trait ManagedCache: Send + Sync {
    /// Executes a purge request, by its body.
    ///
    /// # Errors
    /// The request is malformed, or a crash may bring the purged responses back.
    fn purge<'a>(&'a self, body: &'a [u8]) -> Managing<'a, Result<Purged, OrderError>>;

    /// Runs another policy and size, by the body of the request. Returns the answer for the
    /// console's page.
    ///
    /// # Errors
    /// One line if it cannot.
    fn apply(&self, body: &[u8]) -> Result<Value, String>;

    /// Returns what is stored under a URL.
    ///
    /// # Errors
    /// One line if the text is no URL.
    fn look_up<'a>(&'a self, url: &'a str) -> Managing<'a, Result<Value, String>>;
}

/// The result of a purge.
pub struct Purged {
    /// The number of purged responses.
    pub objects: u64,
    /// The purge, for the log.
    pub purge: String,
    /// What the fleet answers, if the node belongs to one.
    pub fleet: Option<Value>,
}

/// The reason why a purge is not executed: one line.
#[derive(Debug)]
pub enum OrderError {
    /// The request names no responses, or in another form than expected.
    Malformed(Cause),
    /// The responses were purged, but a crash may bring them back.
    NotSettled(Cause),
    /// The responses were purged on this node; whether the fleet purges them is not known.
    NotShared(Cause),
}

/// The purge interface of the cache, for clients with the token.
pub struct Purging {
    cache: Arc<dyn ManagedCache>,
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
    Body(Cause),
    /// The body has more than [`limits::PURGE_BYTES`].
    TooLong,
    /// The cache refuses it.
    Order(OrderError),
}

impl PurgeError {
    /// Returns the status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            PurgeError::Order(OrderError::NotShared(_)) => StatusCode::SERVICE_UNAVAILABLE,
            PurgeError::Disabled => StatusCode::FORBIDDEN,
            PurgeError::Unauthorized => StatusCode::UNAUTHORIZED,
            PurgeError::HandedOver => StatusCode::SERVICE_UNAVAILABLE,
            PurgeError::TimedOut => StatusCode::REQUEST_TIMEOUT,
            PurgeError::Order(OrderError::NotSettled(_)) => StatusCode::INTERNAL_SERVER_ERROR,
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
            PurgeError::TooLong => {
                write!(f, "the order is longer than {} bytes", limits::PURGE_BYTES)
            }
            PurgeError::Body(cause)
            | PurgeError::Order(
                OrderError::Malformed(cause)
                | OrderError::NotSettled(cause)
                | OrderError::NotShared(cause),
            ) => cause.fmt(f),
        }
    }
}

impl Purging {
    /// Opens a cache to clients with the token, if there is one.
    pub fn new(cache: Arc<dyn ManagedCache>, token: Option<&str>) -> Purging {
        Purging {
            cache,
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
    pub(crate) fn cache(&self) -> &dyn ManagedCache {
        &*self.cache
    }

    /// Reads the body of a request that changes something, if its client may send one.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub(crate) async fn read<B>(&self, headers: &HeaderMap, body: B) -> Result<Vec<u8>, PurgeError>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Cause>,
    {
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

    /// Executes a purge request. Returns the answer for its client.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub(crate) async fn respond<B>(&self, headers: &HeaderMap, body: B) -> Result<Value, PurgeError>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Cause>,
    {
        let body = self.read(headers, body).await?;
        let purged = self.cache.purge(&body).await;
        let Purged {
            objects,
            purge,
            fleet,
        } = purged.map_err(PurgeError::Order)?;
        // Meanwhile, another process may have got the disk tier, perhaps without this purge.
        if self.is_handed_over.load(Ordering::Relaxed) {
            return Err(PurgeError::HandedOver);
        }
        tracing::info!(%purge, objects, "purged");
        let mut answer = json!({ "purged": objects });
        if let (Some(fleet), Some(fields)) = (fleet, answer.as_object_mut()) {
            fields.insert("fleet".to_owned(), fleet);
        }
        Ok(answer)
    }
}

/// The time for the whole body.
const ORDER_TIME: Duration = limits::ADMIN_HEADER_READ;

async fn read<B>(mut body: B) -> Result<Vec<u8>, PurgeError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Cause>,
{
    let mut text = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|error| PurgeError::Body(error.into()))?;
        text.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        if text.len() > limits::PURGE_BYTES {
            return Err(PurgeError::TooLong);
        }
    }
    Ok(text)
}
