//! The result.

use super::candidates::Candidate;
use super::choice::Choice;
use super::gather::Traffic;
use serde::Serialize;

/// Everything that was found.
#[derive(Serialize)]
pub struct Advice {
    pub traffic: Traffic,
    /// All policies at all sizes, in the order of the arguments, the smallest size first.
    pub candidates: Vec<Candidate>,
    pub choice: Choice,
}
