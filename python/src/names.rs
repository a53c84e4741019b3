//! Names of objects as numbers.

use larder_replay::name_hash;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Returns the numbers of names that lie one after another in `data`: name n has the bytes from
/// `offsets[n]` to `offsets[n + 1]`, as in an Arrow array. The numbers are those that the readers
/// of trace files give to the same names.
#[pyfunction]
pub fn hash_names<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArray1<'py, i64>,
    data: PyReadonlyArray1<'py, u8>,
) -> PyResult<Bound<'py, PyArray1<u64>>> {
    let (offsets, data) = (offsets.as_slice()?, data.as_slice()?);
    let hash = |pair: &[i64]| {
        let (from, to) = (
            usize::try_from(pair[0]).ok()?,
            usize::try_from(pair[1]).ok()?,
        );
        data.get(from..to).map(name_hash)
    };
    let hashes: Option<Vec<u64>> = py.detach(|| offsets.windows(2).map(hash).collect());
    let hashes =
        hashes.ok_or_else(|| PyValueError::new_err("an offset lies outside of the names"))?;
    Ok(PyArray1::from_vec(py, hashes))
}
