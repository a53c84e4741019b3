//! Miss-ratio curves: what a policy would hit at many capacities, over one reading of the trace.
//!
//! ```text
//!   Access ──► Sample ──(the id's hash is below the rate)──► Curve of LruCurve   LRU at all capacities, by one order of requests
//!              counts all requests and bytes              └─► Curve of Miniature  any policy at one capacity, scaled down with the sample
//! ```
//!
//! At the rate 1 both are exact: the same hits as [`replay`](crate::replay()), for LRU unless
//! objects change their size ([`Point::size_changes`]). Below it they are spatially hashed samples:
//! SHARDS (Waldspurger et al., Efficient MRC construction with SHARDS, FAST 2015) for LRU,
//! miniature simulation (Waldspurger et al., Cache modeling and optimization using miniature
//! simulations, USENIX ATC 2017) for the others. Whether an object is in the sample depends on its
//! id alone, so that all of its requests are there or none.
//!
//! **The estimate.** Misses of the sample ÷ (rate × all requests). That is the correction
//! "SHARDS-adj" in one formula: what the sample has too many or too few of is requests for the
//! hottest objects, which hit at every capacity, so hits are left out of the count and the
//! denominator is what is known.
//!
//! **Its error.** The sample of the rate R falls into g = [`CURVE_SETS`](crate::limits::CURVE_SETS)
//! sets by other bits of the hash, each simulated apart too, as an independent sample of the rate
//! R/g, which doubles the work. Their estimates xᵢ tell two parts of the error:
//! * chance: the variance of an estimate falls as 1/R, so the whole sample's is a g-th of a set's:
//!   t·√((1 − R)·Σ(xᵢ − x̄)² / (g(g − 1))), where t is Student's for 95 % and g − 1 degrees of
//!   freedom, and 1 − R is there because a sample of everything has no error (the method of random
//!   groups: Wolter, Introduction to variance estimation, chapter 2);
//! * bias: what a small cache does otherwise than a large one, such as an object that fits into the
//!   full cache but not into the miniature, falls as 1/R too at first, so the whole sample's is
//!   about (x̄ − x)/(g − 1).
//!
//! With bounded memory ([`Curve::bounded_lru`]) the rate falls on the way, that of each set by
//! itself.
//!
//! The error stated is the root of the sum of their squares. What it cannot hold: what policies
//! count in requests or objects is not scaled with the sample, in none of the simulations. That is
//! parameters given (`window=`, `interval=`), and built-in minima, which the miniature of a small
//! cache reaches sooner. LHD's least interval of learning does so much that the error is stated as
//! a lower bound ([`Point::error_is_least`]).

mod estimate;
mod kept;
mod lru;
mod miniature;
mod misses;
mod sample;
mod sizes;

pub(crate) use estimate::ratio;
pub use estimate::{Curve, Point};
pub use kept::KeptSample;
pub use lru::LruCurve;
pub use miniature::Miniature;
pub(crate) use miniature::error_is_least;
pub use misses::{Misses, Simulated};
pub use sample::{Sample, Sampled};
pub use sizes::spaced_sizes;
