//! The path of an answer, as a router in a network of caches knows it.

/// The caches that an answer passes, as one of them sees them. Admissions that depend on a router's
/// position on the path use it.
///
/// The path leads from the cache or the producer that answered (not included) to the consumer's own
/// router (the last cache).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Hops from the node that answered, at least 1: 1 is the first cache after the node that
    /// answered.
    pub hops_from_source: u32,
    /// Caches after this one that the answer has yet to reach; 0 at the consumer's own router.
    pub hops_to_consumer: u32,
    /// The bytes that this cache and those after it may store together.
    pub capacity_to_consumer: u64,
    /// Betweenness centrality of this router: the number of shortest paths between pairs of other
    /// routers that lead through it, in any unit that all routers of the path share.
    pub betweenness: f64,
    /// The greatest betweenness of the path's caches, this one included.
    pub greatest_betweenness: f64,
}
