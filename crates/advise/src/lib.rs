//! Which cache to run for a site: the policy, the size, and what they save, from access logs or
//! traces that are read once.
//!
//! What it is: `larder advise` and `larder_cache.advise` without their arguments and files.
//! [`Gathering`] keeps a sample of the requests in memory, [`Comparison`] runs every policy over it
//! at every size on all cores, and [`Choice`] chooses. An [`Advice`] shows itself as text, as a
//! page and as a configuration. What it is not: a reader of files; the hosts pass the requests.
//!
//! ```text
//!   requests ──► Gathering ──► Gathered{Traffic, sample} ──► Comparison (threads) ──► Advice ──► text, page, configuration
//!                                       Question ────────────────┘
//! ```
//!
//! ```
//! use larder_advise::{Comparison, Gathering, Goal, Question};
//! use larder_replay::Access;
//! use larder_units::Time;
//!
//! let mut gathering = Gathering::new(1_000, 1);
//! gathering.begin("example", None);
//! gathering.requests(&[7, 8, 7, 7].map(|id| Access { id, size: 100, now: Time::ZERO }));
//! let gathered = gathering.finish(Some(0)).unwrap();
//!
//! let policies = vec!["lru".parse().unwrap(), "sieve".parse().unwrap()];
//! let question = Question { policies, sizes: Vec::new(), goal: Goal::Requests, prices: None, seed: 1 };
//! let advice = Comparison::new(&question, gathered).unwrap().advice(|_| true).unwrap();
//! assert_eq!((advice.choice.chosen.capacity, advice.choice.chosen.object_hit_ratio), (200, 0.5));
//! ```
#![forbid(unsafe_code)]

mod advice;
mod candidate;
mod choice;
mod comparison;
mod configuration;
mod error;
mod gathering;
mod page;
mod price;
mod question;
mod sentences;
mod terminal;

pub use advice::Advice;
pub use candidate::Candidate;
pub use choice::{Choice, Goal};
pub use comparison::Comparison;
pub use error::AdviseError;
pub use gathering::{Gathered, Gathering, Traffic};
pub use price::{Price, Prices};
pub use question::{KEEP, POLICIES, Question};
