//! Naive models of eviction policies: slow, short, and written from the definitions.

mod clock_pro;
mod ghosts;
mod lecar;
mod lhd;
mod lirs;
mod queues;
mod ranked;

pub use clock_pro::*;
pub use ghosts::*;
pub use lecar::*;
pub use lhd::*;
pub use lirs::*;
pub use queues::*;
pub use ranked::*;

/// The bytes of each cache.
pub const CAPACITY: u64 = 200;

/// A cache of [`CAPACITY`] bytes.
pub trait Model {
    /// True at a hit.
    fn request(&mut self, id: u64, size: u64) -> bool;

    /// The owner removed it, if it is there.
    fn remove(&mut self, id: u64);

    /// The ids stored, in any order.
    fn cached(&self) -> Vec<u64>;
}

/// An object, its size and what the policy notes of it.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    pub id: u64,
    pub size: u64,
    pub count: u64,
}

pub fn new(id: u64, size: u64) -> Item {
    Item { id, size, count: 0 }
}

/// Oldest first.
pub type Queue = Vec<Item>;

pub fn bytes(queue: &[Item]) -> u64 {
    queue.iter().map(|item| item.size).sum()
}

pub fn find(queue: &[Item], id: u64) -> Option<usize> {
    queue.iter().position(|item| item.id == id)
}

/// Takes the object out, if it is there.
pub fn take(queue: &mut Queue, id: u64) -> Option<Item> {
    find(queue, id).map(|place| queue.remove(place))
}

/// Appends a ghost, and drops the oldest while all are larger than `limit`; one that is larger
/// alone is not remembered.
pub fn remember(ghosts: &mut Queue, ghost: Item, limit: u64) {
    if ghost.size <= limit {
        ghosts.push(ghost);
        while bytes(ghosts) > limit {
            ghosts.remove(0);
        }
    }
}
