//! Admission policies, one file (or folder) each.

pub(crate) mod adaptsize;
pub(crate) mod after;
pub(crate) mod betweenness;
pub(crate) mod bloom;
pub(crate) mod expsize;
pub(crate) mod filter;
pub(crate) mod hillclimb;
pub(crate) mod lcd;
pub(crate) mod lce;
pub(crate) mod lookahead;
pub(crate) mod lrus;
pub(crate) mod probability;
pub(crate) mod probcache;
mod shadow;
pub(crate) mod size;
pub(crate) mod threshold;
pub(crate) mod tinylfu;
mod window;
