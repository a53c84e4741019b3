//! The description of one policy: its name, source, parameters and cost, and how to build it.

use crate::future::Future;
use crate::parameters::{Arguments, Parameter};
use crate::scale::Scale;
use crate::traits::{Admit, Evict};
use larder_units::{Stream, Streams};
use std::fmt;
use std::sync::Arc;

/// One policy, as a [`crate::Registry`] lists it.
///
/// A policy's file declares one as a `const`. `examples/custom_policy.rs` of this crate declares
/// and registers one outside the crate.
pub struct PolicyEntry {
    /// The name in a spec: lower-case letters, digits and `-`.
    pub name: &'static str,
    /// The publication that describes the policy.
    pub citation: &'static str,
    /// The effect of the policy, in one line.
    pub summary: &'static str,
    /// The parameters that a spec can set in parentheses.
    pub parameters: &'static [Parameter],
    /// The time that one request takes.
    pub complexity: &'static str,
    /// Bytes of policy state for one stored object, ghosts included, if the number of objects is a
    /// power of two. Between powers of two, tables that double hold up to twice as much. The
    /// engine's own 16 bytes are not included.
    pub bytes_an_object: u32,
    /// True for an admission that depends on the cache's place on the path of an answer. Such an
    /// admission reads [`crate::Cache::path`], and its owner calls [`crate::Engine::admit_from`].
    pub needs_path: bool,
    /// The function that builds the policy.
    pub build: Build,
}

/// The kind of a policy's decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Selects the objects that are stored.
    Admission,
    /// Selects the objects that leave.
    Eviction,
}

impl PolicyEntry {
    /// Returns what the policy decides.
    pub fn kind(&self) -> Kind {
        match self.build {
            Build::Admission(_) | Build::OfflineAdmission(_) => Kind::Admission,
            Build::Eviction(_) | Build::OfflineEviction(_) => Kind::Eviction,
        }
    }

    /// Returns true if the policy knows the trace ahead. Such a policy runs in the replayer only:
    /// see [`crate::Engine::foreseeing`].
    pub fn is_offline(&self) -> bool {
        matches!(
            self.build,
            Build::OfflineAdmission(_) | Build::OfflineEviction(_)
        )
    }
}

impl fmt::Debug for PolicyEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyEntry")
            .field("name", &self.name)
            .field("kind", &self.kind())
            .finish_non_exhaustive()
    }
}

/// A function that builds a policy from a stage's arguments.
///
/// Its error is one line that says which arguments contradict each other. The parser has checked
/// each argument by itself.
#[derive(Clone, Copy)]
#[allow(clippy::type_complexity, reason = "each signature is read once, here")]
pub enum Build {
    /// Builds an admission policy.
    Admission(fn(&Arguments<'_>, &BuildContext<'_>) -> Result<Box<dyn Admit>, String>),
    /// Builds an eviction policy.
    Eviction(fn(&Arguments<'_>, &BuildContext<'_>) -> Result<Box<dyn Evict>, String>),
    /// Builds an admission policy that knows the trace ahead.
    OfflineAdmission(
        fn(&Arguments<'_>, &BuildContext<'_>, &Arc<Future>) -> Result<Box<dyn Admit>, String>,
    ),
    /// Builds an eviction policy that knows the trace ahead.
    OfflineEviction(
        fn(&Arguments<'_>, &BuildContext<'_>, &Arc<Future>) -> Result<Box<dyn Evict>, String>,
    ),
}

/// The context in which a policy is built.
#[derive(Clone, Copy)]
pub struct BuildContext<'a> {
    /// The engine's capacity in bytes. [`crate::Policy::on_resize`] reports later changes.
    pub capacity: u64,
    /// The scale of the engine's sizes: [`Scale::FULL`], except in a miniature. A policy that
    /// compares the worth of sizes asks it for the size of an object.
    pub scale: Scale,
    pub(crate) streams: &'a Streams,
    /// The stage's place in the spec, so that two stages with the same policy have different random
    /// streams.
    pub(crate) stage: usize,
    pub(crate) name: &'static str,
}

impl BuildContext<'_> {
    /// Returns the stage's own random stream. The same seed, place in the spec and policy name give
    /// the same stream.
    pub fn stream(&self) -> Stream {
        self.streams
            .stream(&format!("policy stage {} {}", self.stage, self.name))
    }
}
