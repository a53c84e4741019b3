//! The result.

use crate::candidate::Candidate;
use crate::choice::Choice;
use crate::gathering::Traffic;
use serde::Serialize;

/// Everything that was found.
#[derive(Serialize)]
pub struct Advice {
    /// What was asked for in the traces.
    pub traffic: Traffic,
    /// All policies at all sizes, in the order of the arguments, the smallest size first.
    pub candidates: Vec<Candidate>,
    /// The recommended one.
    pub choice: Choice,
}
