//! The one table of policies, from which come the parser, its suggestions, `larder policies`, the
//! documentation and the tests over all.
//!
//! A policy's entry stands in the policy's own file; a new policy is one file and one line here.

use crate::admit;
use crate::evict;
use crate::future::Future;
use crate::parameters::{Arguments, Parameter};
use crate::traits::{Admit, Evict};
use larder_units::{Stream, Streams};
use std::sync::Arc;

static REGISTRY: &[PolicyEntry] = &[
    evict::agd::ENTRY,
    evict::fifo::ENTRY,
    evict::lru::ENTRY,
    evict::random::ENTRY,
    evict::w_tinylfu::ENTRY,
    evict::wlfu::ENTRY,
    evict::arc::ENTRY,
    evict::belady::ENTRY,
    evict::belady::ENTRY_BY_SIZE,
    evict::car::ENTRY,
    evict::clock::ENTRY,
    evict::clock_pro::ENTRY,
    evict::greedy_dual::ENTRY,
    evict::greedy_dual::ENTRY_WITH_FREQUENCY,
    evict::hyperbolic::ENTRY,
    evict::lecar::ENTRY,
    evict::lfu::ENTRY,
    evict::lhd::ENTRY,
    evict::lirs::ENTRY,
    evict::lru_k::ENTRY,
    evict::random_priority::ENTRY,
    evict::s3fifo::ENTRY,
    evict::sieve::ENTRY,
    evict::slru::ENTRY,
    evict::slru::ENTRY_OF_FOUR,
    evict::two_q::ENTRY,
    admit::filter::ENTRY,
    admit::size::ENTRY,
    admit::adaptsize::ENTRY,
    admit::after::ENTRY,
    admit::betweenness::ENTRY,
    admit::bloom::ENTRY,
    admit::expsize::ENTRY,
    admit::hillclimb::ENTRY,
    admit::lcd::ENTRY,
    admit::lce::ENTRY,
    admit::lookahead::ENTRY,
    admit::lookahead::ENTRY_STATIC,
    admit::lrus::ENTRY,
    admit::probability::ENTRY,
    admit::probcache::ENTRY,
    admit::threshold::ENTRY,
    admit::tinylfu::ENTRY,
];

/// Every policy that this build knows.
pub fn registry() -> &'static [PolicyEntry] {
    REGISTRY
}

/// One policy: what it is called, where it comes from, what it takes and costs.
pub struct PolicyEntry {
    /// The name in a spec.
    pub name: &'static str,
    /// Where it was published.
    pub citation: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What may stand in its parentheses.
    pub parameters: &'static [Parameter],
    /// Time a request.
    pub complexity: &'static str,
    /// Bytes of policy state a stored object, ghosts included (the engine's own 16 come on top),
    /// where their number is a power of two: tables that double hold up to twice as much between.
    pub bytes_an_object: u32,
    pub(crate) build: Build,
}

/// What a policy decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whether an object is stored.
    Admission,
    /// Chooses the objects that leave.
    Eviction,
}

impl PolicyEntry {
    /// What it decides.
    pub fn kind(&self) -> Kind {
        match self.build {
            Build::Admission(_) | Build::OfflineAdmission(_) => Kind::Admission,
            Build::Eviction(_) | Build::OfflineEviction(_) => Kind::Eviction,
        }
    }

    /// It knows the trace ahead, so that it runs in the replayer only: see
    /// [`crate::Engine::foreseeing`].
    pub fn is_offline(&self) -> bool {
        matches!(self.build, Build::OfflineAdmission(_) | Build::OfflineEviction(_))
    }
}

/// How to build a policy. An error is one line about arguments that contradict each other.
pub(crate) enum Build {
    #[allow(clippy::type_complexity)]
    Admission(fn(&Arguments<'_>, &Setting<'_>) -> Result<Box<dyn Admit>, String>),
    #[allow(clippy::type_complexity)]
    Eviction(fn(&Arguments<'_>, &Setting<'_>) -> Result<Box<dyn Evict>, String>),
    #[allow(clippy::type_complexity)]
    OfflineAdmission(fn(&Arguments<'_>, &Setting<'_>, &Arc<Future>) -> Result<Box<dyn Admit>, String>),
    #[allow(clippy::type_complexity)]
    OfflineEviction(fn(&Arguments<'_>, &Arc<Future>) -> Result<Box<dyn Evict>, String>),
}

/// Where a policy is built: beside its arguments.
pub(crate) struct Setting<'a> {
    /// The engine's capacity in bytes, at first; later ones come by `on_resize`.
    pub capacity: u64,
    /// The streams of the engine's owner.
    pub streams: &'a Streams,
    /// The stage's place in the spec, so that two stages of one policy draw apart.
    pub stage: usize,
    /// The policy's name.
    pub name: &'static str,
}

impl Setting<'_> {
    /// The stage's random stream.
    pub fn stream(&self) -> Stream {
        self.streams.stream(&format!("policy stage {} {}", self.stage, self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;

    #[test]
    fn a_default_that_its_own_parser_refuses() {
        for entry in registry() {
            for parameter in entry.parameters {
                if let Some(text) = parameter.default.text() {
                    assert!(parameter.values.read(text).is_some(), "{}({}={text})", entry.name, parameter.name);
                }
            }
        }
    }

    #[test]
    fn two_policies_of_one_name() {
        let mut names: Vec<_> = registry().iter().map(|entry| entry.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), registry().len());
        for entry in registry() {
            assert!(!entry.citation.is_empty() && !entry.summary.is_empty() && !entry.complexity.is_empty());
            assert!(entry.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
        }
        assert!("lru".parse::<Spec>().is_ok());
    }
}
