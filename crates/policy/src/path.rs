//! What a router of a network of caches knows of the way that an answer took.

/// The caches that an answer passes, as one of them sees them: for the admissions that depend on a
/// router's place on the path.
///
/// The path leads from the cache or the producer that answered (not on it) to the consumer's own
/// router (its last cache).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Hops since the answer was made, at least 1: 1 is the first cache behind whoever answered.
    pub hops_from_source: u32,
    /// Caches that the answer has yet to reach behind this one; 0 at the consumer's own router.
    pub hops_to_consumer: u32,
    /// Bytes that this cache and those behind it may store, together.
    pub capacity_to_consumer: u64,
    /// Betweenness centrality of this router: the shortest paths between pairs of other routers
    /// that lead through it, in any unit that all routers of the path share.
    pub betweenness: f64,
    /// The greatest betweenness of the path's caches, this one included.
    pub greatest_betweenness: f64,
}
