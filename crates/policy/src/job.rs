//! Long work that leaves the request path: see [`crate::Engine::job`].

use crate::traits::Work;
use std::any::Any;

/// Long work of one stage, such as AdaptSize's search: a pure function, to be run on any thread.
pub struct Job {
    pub(crate) generation: u64,
    pub(crate) stage: usize,
    pub(crate) work: Work,
}

impl Job {
    /// Runs the job.
    pub fn run(self) -> JobDone {
        JobDone {
            generation: self.generation,
            stage: self.stage,
            result: (self.work)(),
        }
    }
}

/// The result of a [`Job`], for [`crate::Engine::complete`].
pub struct JobDone {
    /// The generation of the policies that created the job.
    pub(crate) generation: u64,
    pub(crate) stage: usize,
    pub(crate) result: Box<dyn Any + Send>,
}
