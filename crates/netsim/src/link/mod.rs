//! Links between nodes: channels with a rate, a delay, a queue and losses.

mod channel;
mod links;
mod loss;
mod queue;

pub use channel::{Channel, ChannelCounters, ChannelId, LinkConfig, LinkId};
pub use links::Links;
pub use loss::Loss;
pub use queue::{CoDel, Depth, Queueing, Red};
