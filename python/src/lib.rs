//! The Python module `larder_cache._core`: the replayer over NumPy arrays and trace files.
//!
//! What it is: the part of the package `larder_cache` that has to be fast. The Python files beside
//! it check arguments, turn frames and tables into arrays, and results into Arrow tables. What it
//! is not: a second engine. Policies, readers, curves and models are those of `larder-policy` and
//! `larder-replay`, and the advice is that of `larder-advise`.
//!
//! Read `Source` (`trace.rs`) first, then `replay.rs`. Long work releases the interpreter's
//! lock, uses all cores, and looks for Ctrl-C twenty times a second (`watch.rs`).
//!
//! ```text
//!   Trace (Python) ──► Source: arrays or a file ──► Cell: a Replay with one policy
//!                                                     └─► rows as JSON ──► Arrow table (Python)
//! ```
#![forbid(unsafe_code)]

mod advise;
mod cell;
mod collections;
mod curve;
mod merged;
mod names;
mod policies;
mod python_policy;
mod replay;
mod sweep;
mod trace;
mod watch;

use numpy::PyArray1;
use pyo3::prelude::*;

/// Fills the module `_core`.
#[pymodule]
#[pyo3(name = "_core")]
pub fn core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<trace::Source>()?;
    module.add_class::<collections::Queue>()?;
    module.add_class::<collections::Counts>()?;
    module.add_function(wrap_pyfunction!(advise::advise, module)?)?;
    module.add_function(wrap_pyfunction!(curve::curve, module)?)?;
    module.add_function(wrap_pyfunction!(curve::predict, module)?)?;
    module.add_function(wrap_pyfunction!(names::hash_names, module)?)?;
    module.add_function(wrap_pyfunction!(policies::canonical_spec, module)?)?;
    module.add_function(wrap_pyfunction!(policies::policies, module)?)?;
    module.add_function(wrap_pyfunction!(replay::replay, module)?)?;
    // Loads NumPy's functions now: Ctrl-C during that, later, would be a panic.
    drop(PyArray1::<u64>::from_slice(module.py(), &[]));
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
