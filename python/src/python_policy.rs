//! A policy that is an object of Python.
//!
//! Its methods, of which only `evict` is required:
//!
//! | method | called |
//! | --- | --- |
//! | `hit(id)` | for a request whose object is stored |
//! | `miss(id)` | for a request whose object is not stored |
//! | `admit(id, size)` | after a miss; a false value keeps the object out |
//! | `insert(id, size)` | when the object is stored |
//! | `evict()` | while there is too little room; returns the id that leaves |
//!
//! A method that is not defined costs nothing. A method of a collection of this module is called
//! without the interpreter ([`Native`]). Ids are made anew for each call: objects that stayed with
//! the slots would be two more places in memory to read for each hit (measured with 100,000 objects
//! in an `OrderedDict`: 371 ns instead of 510 ns for a request).

use crate::collections::Native;
use larder_policy::{Evict, Policy, Request, Slot, SlotIndex};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The first exception of a policy. After it, the policy is not called any more.
#[derive(Default)]
pub struct Failure {
    has_failed: AtomicBool,
    error: Mutex<Option<PyErr>>,
}

impl Failure {
    fn set(&self, error: PyErr) {
        self.has_failed.store(true, Relaxed);
        self.error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(error);
    }

    /// Returns the exception as an error, if there was one.
    ///
    /// # Errors
    /// The exception.
    pub fn check(&self) -> PyResult<()> {
        if self.has_failed.load(Relaxed) {
            self.error
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
                .map_or(Ok(()), Err)
        } else {
            Ok(())
        }
    }
}

/// A method of a policy.
enum Method {
    /// A method of a collection.
    Native(Native),
    /// Any other callable.
    Python(Py<PyAny>),
}

/// The eviction policy of an engine that calls an object of Python.
pub struct PythonPolicy {
    hit: Option<Method>,
    miss: Option<Method>,
    admit: Option<Method>,
    insert: Option<Method>,
    evict: Method,
    /// The id of each slot that is in use.
    ids: Vec<Option<u64>>,
    index: SlotIndex,
    failure: Arc<Failure>,
}

impl PythonPolicy {
    /// Takes the methods of `policy`.
    ///
    /// # Errors
    /// If it has no method `evict`.
    pub fn new(policy: &Bound<'_, PyAny>, failure: Arc<Failure>) -> PyResult<PythonPolicy> {
        let method = |name: &str| -> PyResult<Option<Method>> {
            let method = policy
                .getattr_opt(name)?
                .filter(|method| method.is_callable());
            Ok(method.map(|method| match Native::of(name, &method) {
                Some(native) => Method::Native(native),
                None => Method::Python(method.unbind()),
            }))
        };
        let evict = method("evict")?.ok_or_else(|| {
            let class = policy
                .get_type()
                .name()
                .map_or_else(|_| "the policy".to_owned(), |name| name.to_string());
            PyTypeError::new_err(format!(
                "{class} has no method evict(), which returns the id that leaves"
            ))
        })?;
        Ok(PythonPolicy {
            hit: method("hit")?,
            miss: method("miss")?,
            admit: method("admit")?,
            insert: method("insert")?,
            evict,
            ids: Vec::new(),
            index: SlotIndex::default(),
            failure,
        })
    }

    /// Calls a method of the policy, unless an earlier call failed. Returns true if it answers with
    /// a true value, if it is not defined, or if the replay ends because of a failure.
    #[inline]
    fn call<A>(&self, method: Option<&Method>, id: u64, arguments: A) -> bool
    where
        A: for<'py> PyCallArgs<'py>,
    {
        let Some(method) = method.filter(|_| !self.failure.has_failed.load(Relaxed)) else {
            return true;
        };
        let answer = Python::attach(|py| match method {
            Method::Native(native) => native.call(py, id).map(|_| false),
            Method::Python(method) => method
                .bind(py)
                .call1(arguments)
                .and_then(|answer| answer.is_truthy()),
        });
        answer.unwrap_or_else(|error| {
            self.failure.set(error);
            true
        })
    }

    /// Asks the policy for the object that leaves.
    fn choose(&self) -> PyResult<Slot> {
        Python::attach(|py| {
            let id = match &self.evict {
                Method::Native(native) => {
                    let id = native.call(py, 0)?.unwrap_or_default();
                    if let Some(next) = native.first(py) {
                        self.index.prefetch(next);
                    }
                    id
                }
                Method::Python(evict) => {
                    let chosen = evict.bind(py).call0()?;
                    chosen.extract().map_err(|_| {
                        PyTypeError::new_err(format!(
                            "evict() returned {chosen:?}, which is no id of a stored object"
                        ))
                    })?
                }
            };
            let slot = self.index.find(id, |slot| self.stored(slot) == Some(id));
            slot.ok_or_else(|| {
                PyValueError::new_err(format!("evict() returned {id}, which is not stored"))
            })
        })
    }

    /// Returns the id of the object in `slot`, if there is one.
    fn stored(&self, slot: Slot) -> Option<u64> {
        self.ids.get(slot.index()).copied().flatten()
    }

    /// Forgets the object in `slot`.
    fn release(&mut self, slot: Slot) {
        if let Some(id) = self.ids.get_mut(slot.index()).and_then(Option::take) {
            self.index.remove(id, slot);
        }
    }
}

impl Policy for PythonPolicy {}

impl Evict for PythonPolicy {
    fn on_hit(&mut self, _: Slot, request: &Request) {
        self.call(self.hit.as_ref(), request.id, (request.id,));
    }

    fn on_miss(&mut self, request: &Request) {
        self.call(self.miss.as_ref(), request.id, (request.id,));
    }

    fn accept(&mut self, request: &Request, _: u64) -> bool {
        self.call(self.admit.as_ref(), request.id, (request.id, request.size))
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        self.call(self.insert.as_ref(), request.id, (request.id, request.size));
        if self.ids.len() <= slot.index() {
            self.ids.resize(slot.index() + 1, None);
        }
        self.ids[slot.index()] = Some(request.id);
        self.index.insert(request.id, slot);
    }

    /// After a failure, any object leaves: the replay ends within a few thousand requests.
    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        let chosen = if self.failure.has_failed.load(Relaxed) {
            None
        } else {
            self.choose().map_err(|error| self.failure.set(error)).ok()
        };
        let any = || {
            self.ids
                .iter()
                .rposition(Option::is_some)
                .map(|slot| Slot::new(slot as u32))
        };
        let victim = chosen.or_else(any)?;
        self.release(victim);
        Some(victim)
    }

    /// Nobody compares a newcomer with the victims of such a policy: no admission stage precedes
    /// it.
    fn peek(&mut self, _: Option<Slot>) -> Option<Slot> {
        None
    }

    fn prefetch(&self, id: u64, _: Option<Slot>) {
        if let Some(Method::Native(native)) = &self.hit {
            Python::attach(|py| native.prefetch(py, id));
        }
    }

    fn prefetch_further(&self, id: u64, slot: Option<Slot>) {
        if let (Some(Method::Native(native)), Some(_)) = (&self.hit, slot) {
            Python::attach(|py| native.prefetch_further(py, id));
        }
    }

    fn on_remove(&mut self, slot: Slot) {
        self.release(slot);
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.ids.iter().flatten().count())
    }
}
