//! Miss-ratio curves: the hits of a policy at many capacities, from one reading of the trace.
//!
//! ```text
//!   Access ──► Sample ──(the id's hash is below the rate)──► Curve of LruCurve   LRU at all capacities, by one order of requests
//!              counts all requests and bytes              └─► Curve of Miniature  any policy at one capacity, scaled down with the sample
//! ```
//!
//! At the rate 1 both are exact: the same hits as [`replay`](crate::replay()), for LRU unless
//! objects change their size ([`Point::size_changes`]). Below it they use spatially hashed samples:
//! SHARDS (Waldspurger et al., Efficient MRC construction with SHARDS, FAST 2015) for LRU,
//! miniature simulation (Waldspurger et al., Cache modeling and optimization using miniature
//! simulations, USENIX ATC 2017) for other policies. Only an object's id decides whether it is in
//! the sample, so either all of its requests are in it or none.
//!
//! **The estimate.** Misses of the sample ÷ (rate × all requests). This is the correction
//! "SHARDS-adj" in one formula. A sample has too many or too few requests for the hottest objects,
//! which hit at every capacity. So the formula counts misses, and uses the known number of all
//! requests as the denominator.
//!
//! **Large objects** are in the sample with a higher chance q than R, and take less room in a
//! miniature: see [`Scale`](larder_policy::Scale). A miss of one counts R/q times.
//!
//! **Its error.** The sample of the rate R is divided into g =
//! [`CURVE_SETS`](crate::limits::CURVE_SETS) sets by other bits of the hash. Each set is simulated
//! by itself, too, as a sample of the rate R/g, which doubles the work at least. Objects that are
//! large at that rate may be in several sets, and take up to g^.75 times the work. The stated error
//! is the root of the sum of four squares:
//! * chance: the variance of an estimate falls as 1/R, so the variance for the whole sample is a
//!   g-th of a set's: t·√((1 − R)·Σ(xᵢ − x̄)² / (g(g − 1))), where xᵢ is a set's estimate and t is
//!   Student's for 95 % and g − 1 degrees of freedom. The factor 1 − R is there because a sample of
//!   all objects has no error (the method of random groups: Wolter, Introduction to variance
//!   estimation, chapter 2). A measured factor stands for the objects that sets have in common;
//! * the choice of the large objects: √Σ(1 − q)·m², where m is an object's weighted misses;
//! * bias: the difference between a small cache and a large one falls at least as R^(−1/3), so the
//!   bias of the whole sample is at most (x̄ − x)/(g^(1/3) − 1);
//! * a point for what adapts, in miniatures: it has less to learn from.
//!
//! `benches/intervals.rs` counts how many of these intervals hold.
//!
//! With bounded memory ([`Curve::bounded_lru`]) the rate falls during the trace, for each set
//! separately. All objects then have the same chance.
//!
//! Quantities that a policy counts in requests or objects do not scale with the sample. These are
//! given parameters (`window=`, `interval=`), and built-in minima, which the miniature of a small
//! cache reaches sooner. LHD's least interval of learning has such a large effect that the error is
//! stated as a lower bound ([`Point::error_is_least`]). So is that of a miniature in which one
//! object that stands for others takes more than a quarter of the room.

mod estimate;
mod kept;
mod lru;
mod miniature;
mod misses;
mod parts;
mod sample;
mod sizes;

pub(crate) use estimate::PLAIN;
pub(crate) use estimate::ratio;
pub use estimate::{Curve, Point};
pub use kept::KeptSample;
pub use lru::LruCurve;
pub use miniature::Miniature;
pub(crate) use miniature::{error_is_least, most_room};
pub use misses::{Misses, Simulated};
pub use sample::{Sample, Sampled};
pub use sizes::spaced_sizes;
