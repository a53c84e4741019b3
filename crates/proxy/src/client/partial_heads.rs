//! The memory of heads of HTTP/1 requests that are not complete. hyper holds each, up to
//! `header_size`, for as long as its client takes for it. They have a budget, and a client has at
//! most as much of it as is free. Small heads always have room. A connection whose head finds none
//! is closed.

use crate::base::client_shares::subscriber;
use crate::base::limits;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The incomplete heads of one server.
#[derive(Default)]
pub(crate) struct PartialHeads {
    bytes: Mutex<Bytes>,
    refused: AtomicU64,
}

#[derive(Default)]
struct Bytes {
    all: usize,
    clients: HashMap<IpAddr, usize>,
}

impl PartialHeads {
    /// Returns the number of heads that found no room.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Bytes> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The incomplete head of one connection.
pub(crate) struct PartialHead {
    heads: Arc<PartialHeads>,
    /// Clients without an address are one.
    client: IpAddr,
    bytes: usize,
}

impl PartialHead {
    pub(crate) fn new(heads: &Arc<PartialHeads>, client: Option<IpAddr>) -> PartialHead {
        let client = client.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), subscriber);
        PartialHead {
            heads: Arc::clone(heads),
            client,
            bytes: 0,
        }
    }

    /// Adds bytes of the head. Returns false if there is no room for them.
    pub(crate) fn add(&mut self, bytes: usize) -> bool {
        // What was read with the first part may belong to the request before.
        let bytes = if self.bytes == 0 {
            bytes.min(limits::SMALL_HEAD_BYTES)
        } else {
            bytes
        };
        self.bytes += bytes;
        let mut all = self.heads.lock();
        all.all += bytes;
        let free = limits::PARTIAL_HEADS_BYTES.saturating_sub(all.all);
        let of_client = all.clients.entry(self.client).or_default();
        *of_client += bytes;
        let has_room = self.bytes <= limits::SMALL_HEAD_BYTES || *of_client <= free;
        if !has_room {
            self.heads.refused.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    /// The head is complete.
    pub(crate) fn end(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes == 0 {
            return;
        }
        let mut all = self.heads.lock();
        all.all = all.all.saturating_sub(bytes);
        if let Some(of_client) = all.clients.get_mut(&self.client) {
            *of_client = of_client.saturating_sub(bytes);
            if *of_client == 0 {
                all.clients.remove(&self.client);
            }
        }
    }
}

impl Drop for PartialHead {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: one client takes the room of others, small heads are refused, or room is lost.
    #[test]
    fn large_heads_take_the_room_of_others() {
        let heads = Arc::new(PartialHeads::default());
        let head = |client: u8| PartialHead::new(&heads, Some([192, 0, 2, client].into()));
        let mut many = Vec::new();
        let is_full = (0..2000).any(|_| {
            let mut large = head(1);
            let has_room = large.add(100) && large.add(60_000);
            many.push(large);
            !has_room
        });
        assert!(is_full && heads.refused() == 1);
        let (mut small, mut other) = (head(1), head(2));
        assert!(
            small.add(limits::SMALL_HEAD_BYTES) && !small.add(1),
            "its client has no more"
        );
        assert!(
            other.add(8000) && other.add(50_000),
            "another client has room"
        );
        drop((many, small, other));
        assert!(heads.lock().all == 0 && heads.lock().clients.is_empty());
    }
}
