//! A model of nginx' `proxy_cache`, after its source (`ngx_http_file_cache.c`). It finds the best
//! `proxy_cache_min_uses` without a run of nginx for each value.
//!
//! One queue has the key of every requested object, stored or not, the most recent first, with the
//! number of its requests. The request number `uses` stores the response. If the cache exceeds its
//! size, keys leave from the end of the queue, with their files and their request numbers. An
//! object is therefore stored only if it gets that many requests while its key is in the queue. A
//! file occupies whole pages. O(log n) per request.

use larder_replay::Access;
use std::collections::{BTreeMap, HashMap};

/// The bytes before the body: nginx' own header, the key, the response's header.
const HEADER_BYTES: u64 = 600;
/// The page size of a memory file system.
const PAGE_BYTES: u64 = 4096;

struct Key {
    /// The index of the last request for the object.
    last: usize,
    requests: u64,
    /// The bytes of its file; 0 without a file.
    bytes: u64,
}

/// Returns the hit ratio of the requests after the first `warm_up`.
pub(super) fn hit_ratio(accesses: &[Access], capacity: u64, uses: u64, warm_up: usize) -> f64 {
    let mut keys: HashMap<u64, Key> = HashMap::new();
    let mut queue: BTreeMap<usize, u64> = BTreeMap::new();
    let (mut used, mut hits) = (0, 0);
    for (at, access) in accesses.iter().enumerate() {
        let key = keys.entry(access.id).or_insert(Key { last: at, requests: 0, bytes: 0 });
        queue.remove(&key.last);
        queue.insert(at, access.id);
        key.last = at;
        key.requests += 1;
        if key.bytes > 0 {
            hits += usize::from(at >= warm_up);
        } else if key.requests >= uses {
            key.bytes = (access.size + HEADER_BYTES).next_multiple_of(PAGE_BYTES);
            used += key.bytes;
        }
        while used > capacity
            && let Some((_, id)) = queue.pop_first()
        {
            used -= keys.remove(&id).map_or(0, |key| key.bytes);
        }
    }
    hits as f64 / (accesses.len() - warm_up.min(accesses.len())) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Time;

    fn ratio(ids: &[u64], capacity: u64, uses: u64) -> f64 {
        let accesses: Vec<Access> = ids.iter().map(|id| Access { id: *id, size: 3000, now: Time::ZERO }).collect();
        hit_ratio(&accesses, capacity, uses, 0)
    }

    #[test]
    fn another_cache_s_hits_are_counted() {
        // Stored at the first, at the second, at the third request.
        assert_eq!([1, 2, 3].map(|uses| ratio(&[7, 7, 7, 7], 1 << 20, uses)), [0.75, 0.5, 0.25]);
        // There is room for a file of one page: two objects in turn evict each other.
        assert_eq!(ratio(&[1, 2, 1, 2], PAGE_BYTES, 1).to_bits(), 0.0_f64.to_bits());
        // When 9 is stored, keys leave from the end of the queue: 1 with its request number, so its
        // next request counts as its first. This is not so if 8 is at the end.
        assert_eq!(ratio(&[1, 8, 8, 9, 9, 1, 1], PAGE_BYTES, 2).to_bits(), 0.0_f64.to_bits());
        assert!((ratio(&[8, 8, 1, 9, 9, 1, 1], PAGE_BYTES, 2) - 1.0 / 7.0).abs() < 1e-12);
        let accesses: Vec<Access> = [7; 4].iter().map(|id| Access { id: *id, size: 1, now: Time::ZERO }).collect();
        assert!((hit_ratio(&accesses, 1 << 20, 1, 2) - 1.0).abs() < 1e-12, "the warm-up counts");
    }
}
