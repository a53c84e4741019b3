//! The engine of `larder_cache`, which knows the policy too.

use larder_policy::Registry;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let failed = |error: String| PyRuntimeError::new_err(error);
    let policies = Registry::builtin().register(&crate::ENTRY).map_err(|error| failed(error.to_string()))?;
    policies.install().map_err(|_| failed("the policies were read before".to_owned()))?;
    larder_python::core(module)
}
