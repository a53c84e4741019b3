//! Admission policies, one file (or folder) each.

pub(crate) mod adaptsize;
pub(crate) mod filter;
pub(crate) mod size;
