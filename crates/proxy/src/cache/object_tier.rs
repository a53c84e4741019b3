//! The HTTP cache's third tier: objects of a store. In a fleet, the owner of a URL writes them.

use crate::base::fleet::Fleet;
use larder_http::{ObjectTier, OfferedObject, key_url};
use larder_object_host::Objects;
use std::sync::Arc;

/// The cache's handle of the tier.
pub(crate) struct OwnObjects {
    pub(crate) objects: Objects,
    pub(crate) fleet: Option<Arc<dyn Fleet>>,
}

impl ObjectTier for OwnObjects {
    fn is_worth(&self, bytes: u64) -> bool {
        self.objects.is_worth(bytes)
    }

    fn was_fetched(&mut self, hash: u64) -> bool {
        self.objects.was_fetched(hash)
    }

    fn offer(&mut self, offered: OfferedObject) -> bool {
        let owns = |fleet: &Arc<dyn Fleet>| {
            let url = key_url(&offered.key);
            url.is_some_and(|url| fleet.owners(&url).is_empty())
        };
        self.fleet.as_ref().is_none_or(owns) && self.objects.offer(offered)
    }

    fn remove(&mut self, key: &[u8]) {
        self.objects.remove(key);
    }
}
