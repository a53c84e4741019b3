//! What is asked.

use crate::choice::Goal;
use crate::error::AdviseError;
use crate::price::Prices;
use larder_policy::Spec;
use larder_replay::Size;

/// The policies that are compared by default, separated by commas.
pub const POLICIES: &str =
    "agd,agd(optimise=balanced),s3fifo,w-tinylfu,gdsf,adaptsize+lru,sieve,lru";

/// The most requests that are kept in memory by default: 400 MB with all caches.
pub const KEEP: u64 = 4_000_000;

/// The caches to compare, and what is wanted of them.
#[derive(Clone, Debug)]
pub struct Question {
    /// The policies.
    pub policies: Vec<Spec>,
    /// The sizes; none: all objects, and half of that nine times.
    pub sizes: Vec<Size>,
    /// What the cache should save. With `prices` it is bytes.
    pub goal: Goal,
    /// With prices, the cheapest cache is chosen.
    pub prices: Option<Prices>,
    /// The seed of the policies' random choices.
    pub seed: u64,
}

impl Question {
    /// Checks what needs no traffic, so that a host can do it before it reads.
    ///
    /// # Errors
    /// If there is no policy, or one that no node can run.
    pub fn check(&self) -> Result<(), AdviseError> {
        if self.policies.is_empty() {
            return Err(AdviseError::NoPolicy);
        }
        let offline = self.policies.iter().find(|spec| spec.is_offline());
        offline.map_or(Ok(()), |spec| Err(AdviseError::Offline(spec.to_string())))
    }
}
