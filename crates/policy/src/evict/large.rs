//! What happens to an object that is larger than the queue that newcomers enter.
//!
//! The papers of the policies with several queues assume objects of one size. The programs of their
//! authors, and those of libCacheSim, refuse such an object. Here it is stored by default, so that
//! a cache of a few large objects works, and pushes the others out of the queue. If large objects
//! are rarely requested again, refusing them is better: up to 17 points of the object hit ratio.

use crate::parameters::{Arguments, Parameter, Preset, Values};

/// The parameter of every policy with such a queue.
pub(super) const LARGE: Parameter = Parameter {
    name: "large",
    unit: "",
    values: Values::Choice(&["store", "refuse"]),
    default: Preset::Value("store"),
    doc: "an object larger than the queue that newcomers enter; refuse: it is not stored, as in libCacheSim's programs, once an object had to leave; until then, it fills free room (not with --no-fill)",
};

/// Returns true if such objects are refused.
pub(super) fn are_refused(arguments: &Arguments<'_>) -> bool {
    arguments.get(LARGE.name) == Some(1)
}
