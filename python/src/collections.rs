//! Collections of ids for policies in Python.
//!
//! A policy may bind its methods to theirs, as in `self.hit = self.queue.move_to_end`. The engine
//! recognises such a method and calls it without the interpreter ([`Native`]), with the same
//! effect.

use larder_policy::{Slot, SlotIndex, prefetch};
use pyo3::exceptions::{PyIndexError, PyKeyError, PyValueError};
use pyo3::prelude::*;
use std::collections::HashMap;

/// Not a place of a node.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    id: u64,
    before: u32,
    after: u32,
}

/// Ids in an order, each of them once: pushed to its end, popped from its start.
///
/// Every method takes constant time. 32 bytes for each id.
#[pyclass(module = "larder_cache")]
#[derive(Default)]
pub struct Queue {
    index: SlotIndex,
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// The ends; `NONE` if it is empty.
    ends: Option<(u32, u32)>,
}

#[pymethods]
impl Queue {
    #[new]
    fn new() -> Queue {
        Queue::default()
    }

    /// Appends an id at the end. Further arguments are ignored, so it can be a policy's `insert`.
    #[pyo3(signature = (id, *_others))]
    fn push(&mut self, id: u64, _others: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.append(id)
    }

    /// Moves an id to the end.
    fn move_to_end(&mut self, id: u64) -> PyResult<()> {
        let place = self.find(id)?;
        self.unlink(place);
        self.link(place);
        Ok(())
    }

    /// Removes the first id, and returns it.
    fn pop(&mut self) -> PyResult<u64> {
        let (first, _) = self
            .ends
            .ok_or_else(|| PyIndexError::new_err("pop from an empty queue"))?;
        Ok(self.take(first))
    }

    /// Removes an id.
    fn remove(&mut self, id: u64) -> PyResult<()> {
        let place = self.find(id)?;
        self.take(place);
        Ok(())
    }

    /// The first id, or None.
    #[getter]
    fn first(&self) -> Option<u64> {
        self.ends.map(|(first, _)| self.nodes[first as usize].id)
    }

    /// Returns the id after this one, or None.
    fn after(&self, id: u64) -> PyResult<Option<u64>> {
        let place = self.find(id)?;
        Ok(self
            .nodes
            .get(self.nodes[place as usize].after as usize)
            .map(|node| node.id))
    }

    fn __len__(&self) -> usize {
        self.index.len()
    }

    fn __contains__(&self, id: u64) -> bool {
        self.find(id).is_ok()
    }
}

impl Queue {
    fn append(&mut self, id: u64) -> PyResult<()> {
        if self.find(id).is_ok() {
            return Err(PyValueError::new_err(format!(
                "{id} is in the queue already"
            )));
        }
        let node = Node {
            id,
            before: NONE,
            after: NONE,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.nodes[place as usize] = node;
                place
            }
            None => {
                let place = u32::try_from(self.nodes.len())
                    .ok()
                    .filter(|place| *place != NONE);
                self.nodes.push(node);
                place.ok_or_else(|| PyValueError::new_err("a queue has 2^32 - 1 ids at most"))?
            }
        };
        self.index.insert(id, Slot::new(place));
        self.link(place);
        Ok(())
    }

    fn find(&self, id: u64) -> PyResult<u32> {
        let found = self
            .index
            .find(id, |slot| self.nodes[slot.index()].id == id);
        found
            .map(|slot| slot.index() as u32)
            .ok_or_else(|| PyKeyError::new_err(id))
    }

    fn take(&mut self, place: u32) -> u64 {
        self.unlink(place);
        self.free.push(place);
        let id = self.nodes[place as usize].id;
        self.index.remove(id, Slot::new(place));
        id
    }

    fn link(&mut self, place: u32) {
        let (first, last) = self.ends.unwrap_or((place, NONE));
        self.nodes[place as usize].before = last;
        self.nodes[place as usize].after = NONE;
        if let Some(last) = self.nodes.get_mut(last as usize) {
            last.after = place;
        }
        self.ends = Some((first, place));
    }

    fn unlink(&mut self, place: u32) {
        let Node { before, after, .. } = self.nodes[place as usize];
        let Some((mut first, mut last)) = self.ends else {
            return;
        };
        match self.nodes.get_mut(before as usize) {
            Some(node) => node.after = after,
            None => first = after,
        }
        match self.nodes.get_mut(after as usize) {
            Some(node) => node.before = before,
            None => last = before,
        }
        self.ends = (first != NONE).then_some((first, last));
    }
}

/// A number for each id, 0 until it is counted.
#[pyclass(module = "larder_cache", mapping)]
#[derive(Default)]
pub struct Counts {
    counts: HashMap<u64, u64>,
}

#[pymethods]
impl Counts {
    #[new]
    fn new() -> Counts {
        Counts::default()
    }

    /// Adds one to the number of an id.
    fn add(&mut self, id: u64) {
        *self.counts.entry(id).or_default() += 1;
    }

    /// Removes an id, and returns its number.
    fn pop(&mut self, id: u64) -> u64 {
        self.counts.remove(&id).unwrap_or_default()
    }

    fn __getitem__(&self, id: u64) -> u64 {
        self.counts.get(&id).copied().unwrap_or_default()
    }

    fn __setitem__(&mut self, id: u64, count: u64) {
        self.counts.insert(id, count);
    }

    fn __len__(&self) -> usize {
        self.counts.len()
    }
}

/// A bound method of a collection.
pub enum Native {
    /// [`Queue::push`].
    Push(Py<Queue>),
    /// [`Queue::move_to_end`].
    MoveToEnd(Py<Queue>),
    /// [`Queue::pop`].
    Pop(Py<Queue>),
    /// [`Counts::add`].
    Add(Py<Counts>),
}

impl Native {
    /// Returns the method, if `method` is one of a collection that a policy can call as `role`
    /// with the arguments of that role.
    pub fn of(role: &str, method: &Bound<'_, PyAny>) -> Option<Native> {
        let owner = method.getattr("__self__").ok()?;
        let name: String = method.getattr("__name__").ok()?.extract().ok()?;
        if let Ok(queue) = owner.cast_exact::<Queue>() {
            let queue = queue.clone().unbind();
            return match (role, name.as_str()) {
                ("hit" | "miss" | "insert", "push") => Some(Native::Push(queue)),
                ("hit" | "miss", "move_to_end") => Some(Native::MoveToEnd(queue)),
                ("evict", "pop") => Some(Native::Pop(queue)),
                _ => None,
            };
        }
        let counts = owner.cast_exact::<Counts>().ok()?;
        (matches!(role, "hit" | "miss") && name == "add")
            .then(|| Native::Add(counts.clone().unbind()))
    }

    /// Begins to load what a call for `id`, expected soon, will read first. Changes nothing.
    pub fn prefetch(&self, py: Python<'_>, id: u64) {
        if let Some(queue) = self
            .queue()
            .and_then(|queue| queue.bind(py).try_borrow().ok())
        {
            queue.index.prefetch(id);
        }
    }

    /// Begins to load the data to which the data refers that [`Native::prefetch`] has loaded.
    pub fn prefetch_further(&self, py: Python<'_>, id: u64) {
        if let Some(queue) = self
            .queue()
            .and_then(|queue| queue.bind(py).try_borrow().ok())
            && let Some(place) = queue.index.guess(id)
        {
            prefetch(&queue.nodes, place.index());
        }
    }

    /// Returns the id that [`Queue::pop`] would return.
    pub fn first(&self, py: Python<'_>) -> Option<u64> {
        self.queue()?.bind(py).try_borrow().ok()?.first()
    }

    fn queue(&self) -> Option<&Py<Queue>> {
        match self {
            Native::Push(queue) | Native::MoveToEnd(queue) | Native::Pop(queue) => Some(queue),
            Native::Add(_) => None,
        }
    }

    /// Calls the method. Returns the id that [`Queue::pop`] returns.
    ///
    /// # Errors
    /// Those of the method.
    pub fn call(&self, py: Python<'_>, id: u64) -> PyResult<Option<u64>> {
        match self {
            Native::Push(queue) => queue.bind(py).try_borrow_mut()?.append(id)?,
            Native::MoveToEnd(queue) => queue.bind(py).try_borrow_mut()?.move_to_end(id)?,
            Native::Pop(queue) => return queue.bind(py).try_borrow_mut()?.pop().map(Some),
            Native::Add(counts) => counts.bind(py).try_borrow_mut()?.add(id),
        }
        Ok(None)
    }
}
