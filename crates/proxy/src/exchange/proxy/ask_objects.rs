//! Requests to the third tier, and to the origin for the confirmation of an object.

use super::{Proxy, rest_of};
use crate::cache::shards::OpenExchange;
use crate::exchange::objects;
use crate::exchange::peers::continued_body::{continued, without_conditions};
use crate::exchange::upstream_request::LiveTarget;
use crate::exchange::upstream_target::set_forwarded_headers;
use crate::message::upload::Upload;
use crate::origin::origin_body::OriginBody;
use ::http::{Method, Response, StatusCode};
use larder_http::{ReadObject, UpstreamFailure};
use larder_object_host::{Found, Objects};
use std::sync::atomic::Ordering;
use std::time::Instant;

type Asked = Result<Response<OriginBody>, UpstreamFailure>;

impl Proxy {
    /// Asks the third tier, then the owner of the object or the origin.
    pub(crate) async fn ask_first(
        &self,
        exchange: &OpenExchange,
        method: Method,
        target: &LiveTarget,
        upload: Upload,
    ) -> Asked {
        match self.ask_objects(exchange, target).await {
            Some(asked) => asked,
            None => {
                let fields = || exchange.upstream_headers();
                self.ask(method, target, fields, upload).await
            }
        }
    }

    /// Returns the response of the third tier, or of the origin if that was asked on the way;
    /// `None` if nothing is known yet.
    async fn ask_objects(&self, exchange: &OpenExchange, target: &LiveTarget) -> Option<Asked> {
        let store = self.objects().filter(|_| target.target.owned.is_none())?;
        let key = exchange.object_key()?;
        Box::pin(self.ask_object(store, &key, exchange, target)).await
    }

    async fn ask_object(
        &self,
        store: &Objects,
        key: &[u8],
        exchange: &OpenExchange,
        target: &LiveTarget,
    ) -> Option<Asked> {
        let (found, read) = self.read_object(store, key, exchange).await?;
        let (mut head, fresh) = match read {
            ReadObject::Fresh(head, fresh) => (head, Some(fresh)),
            ReadObject::Stale(head) => (head, None),
            ReadObject::Unusable | ReadObject::Variant(_) => return None,
        };
        let counters = self.object_counters();
        if fresh.is_none() {
            let fields = || {
                let mut fields = exchange.upstream_headers();
                head.set_validators(&mut fields);
                fields
            };
            let asked = self.ask(Method::GET, target, fields, Upload::empty()).await;
            match asked {
                Ok(response) if response.status() == StatusCode::NOT_MODIFIED => {
                    let mut fields = response.into_parts().0.headers;
                    if let Some(rules) = &target.target.rules {
                        rules.change_origin_response(StatusCode::NOT_MODIFIED, &mut fields);
                    }
                    if !head.confirm(&fields) {
                        return None;
                    }
                }
                other => {
                    let is_newer = other.as_ref().is_ok_and(|new| new.status().is_success());
                    let counter = &counters.outdated;
                    counter.fetch_add(u64::from(is_newer), Ordering::Relaxed);
                    return Some(other);
                }
            }
            counters.confirmed.fetch_add(1, Ordering::Relaxed);
        } else {
            counters.fresh.fetch_add(1, Ordering::Relaxed);
        }
        counters
            .saved_bytes
            .fetch_add(head.body_bytes, Ordering::Relaxed);
        let mut rest_fields = exchange.upstream_headers();
        without_conditions(&mut rest_fields);
        set_forwarded_headers(&mut rest_fields, &target.target);
        let rest = rest_of(&target.live, target.target.without_client(), rest_fields);
        Some(Ok(continued(objects::response(head, fresh, found), rest)))
    }

    /// Reads the object of a request: that of its key first, then that of its variant.
    async fn read_object(
        &self,
        store: &Objects,
        key: &[u8],
        exchange: &OpenExchange,
    ) -> Option<(Found, ReadObject)> {
        let read = |found: &Found| {
            self.shards()
                .read_object(exchange, &found.head, found.whole)
        };
        let until = Instant::now() + store.config().wait;
        let found = store.get(key, 0, until).await?;
        match read(&found) {
            ReadObject::Variant(variant) if variant != 0 => {
                let found = store.get(key, variant, until).await?;
                let read = read(&found);
                Some((found, read))
            }
            read => Some((found, read)),
        }
    }
}
