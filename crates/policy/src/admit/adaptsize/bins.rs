//! The traffic and the admission of the AdaptSize model: objects in bins, and the admission of each
//! bin by its size.

/// Objects of about the same size and rate; a single object if `objects` is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// The number of objects.
    pub objects: f64,
    /// The mean size of the objects in bytes.
    pub size: f64,
    /// The mean rate of the objects in requests per unit of time. The unit cancels.
    pub rate: f64,
}

/// The rule by which size decides admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Admit with the probability exp(−size/c).
    Chance,
    /// Admit if size ≤ c.
    Threshold,
}

/// A bin that can be admitted.
pub(super) struct Admissible {
    /// The index among the model's bins.
    pub at: usize,
    pub bin: Bin,
    pub admission: Admission,
}

/// An admission probability, and its logarithm, which stays exact when p underflows.
pub(super) struct Admission {
    pub p: f64,
    pub ln_p: f64,
}

impl Admission {
    pub fn with_ln(ln_p: f64) -> Admission {
        Admission {
            p: ln_p.exp(),
            ln_p,
        }
    }
}
