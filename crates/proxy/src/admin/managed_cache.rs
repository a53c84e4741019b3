//! The HTTP cache, as authorized clients of the admin server change it and look into it.

use crate::admin::{apply, lookup, purge};
use crate::exchange::proxy::Proxy;
use larder_admin::{ManagedCache, Managing, OrderError, Purged};
use serde_json::Value;
use std::sync::Arc;

/// The HTTP cache.
pub(crate) struct HttpCache(pub(crate) Arc<Proxy>);

impl ManagedCache for HttpCache {
    fn purge<'a>(&'a self, body: &'a [u8]) -> Managing<'a, Result<Purged, OrderError>> {
        Box::pin(purge::purge(&self.0, body))
    }

    fn apply(&self, body: &[u8]) -> Result<Value, String> {
        apply::apply(&self.0, body)
    }

    fn look_up<'a>(&'a self, url: &'a str) -> Managing<'a, Result<Value, String>> {
        Box::pin(lookup::look_up(&self.0, url))
    }
}
